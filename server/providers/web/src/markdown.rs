//! HTML to Markdown, safely: on a thread with a deep stack, and only trees of a sane size and depth.
//!
//! The converter recurses with the depth of the tree, and the parser can make many nodes of few bytes (it opens
//! unclosed formatting again in every block), so both are bounded before it runs.

use htmd::HtmlToMarkdown;
use htmd::options::{BulletListMarker, HrStyle, Options};
use html5ever::interface::{ElementFlags, NodeOrText, QuirksMode, TreeSink};
use html5ever::tendril::{StrTendril, TendrilSink as _};
use html5ever::{Attribute, ExpandedName, ParseOpts, QualName, local_name, parse_document};
use markup5ever_rcdom::{Handle, NodeData, RcDom};
use std::borrow::Cow;
use std::cell::Cell;

/// Deepest nesting that is converted. Source: `spec/tools-files-shell.md` §14.
const MAX_DEPTH: usize = 512;
/// Deepest nesting of quotes and lists, which indent every line below them once more.
const MAX_INDENT: usize = 40;
/// Most nodes of a tree; a page of the largest size that is fetched has about a third.
const MAX_NODES: usize = 120_000;
/// Source handed to the parser at once; what one piece can multiply into is bounded with it.
const PIECE_BYTES: usize = 64;
/// Most that the tables of a page may come to.
const MAX_TABLE_BYTES: usize = 20_000_000;
const STACK_BYTES: usize = 64 * 1024 * 1024;
/// Elements whose text is no text for a reader.
const SKIPPED: [&str; 6] = ["script", "style", "noscript", "template", "svg", "iframe"];

/// Converts `source` on a thread of its own; `None` when it does not convert. Gives the source back.
///
/// # Cancellation
/// Dropping the future leaves a bounded conversion to end by itself.
pub(crate) async fn convert_off_thread(source: String) -> (String, Option<String>) {
    let (answer, converted) = tokio::sync::oneshot::channel();
    let html = source.clone();
    let spawned = std::thread::Builder::new()
        .name("html-to-markdown".to_owned())
        .stack_size(STACK_BYTES)
        .spawn(move || {
            // Nobody waits any more when the call was cancelled.
            let _ = answer.send(convert(&html));
        });
    if let Err(error) = spawned {
        tracing::warn!(%error, "no thread to convert a page on");
        return (source, None);
    }
    // A converter that panics drops its end of the channel.
    let markdown = converted.await.ok().flatten();
    (source, markdown)
}

fn convert(html: &str) -> Option<String> {
    let document = parse(html)?;
    if !is_sane(&document) {
        return None;
    }
    let options = Options {
        bullet_list_marker: BulletListMarker::Dash,
        ul_bullet_spacing: 1,
        ol_number_spacing: 1,
        hr_style: HrStyle::Dashes,
        ..Options::default()
    };
    let converter = HtmlToMarkdown::builder().options(options).skip_tags(SKIPPED.to_vec()).build();
    Some(converter.tree_to_markdown(&document))
}

/// The tree of a page; `None` when it has too many nodes.
fn parse(html: &str) -> Option<Handle> {
    let mut parser = parse_document(Counted::default(), ParseOpts::default());
    let mut rest = html;
    while !rest.is_empty() {
        let (piece, after) = rest.split_at(rest.floor_char_boundary(PIECE_BYTES));
        parser.process(StrTendril::from(piece));
        if parser.tokenizer.sink.sink.n_nodes.get() > MAX_NODES {
            return None;
        }
        rest = after;
    }
    let document = parser.finish();
    Some(document)
}

/// Whether the converter can walk the tree and what it makes stays in proportion. Does not recurse itself.
fn is_sane(document: &Handle) -> bool {
    let mut tables = Tables::default();
    let mut open = vec![Open { node: document.clone(), depth: 0, indent: 0, cell: None }];
    while let Some(Open { node, depth, mut indent, mut cell }) = open.pop() {
        let children = node.children.borrow();
        match &node.data {
            NodeData::Element { name, .. } => match name.local {
                local_name!("blockquote") | local_name!("li") => indent += 1,
                local_name!("tr") => {
                    tables.n_rows += 1;
                    tables.n_columns = tables.n_columns.max(children.len());
                }
                local_name!("td") | local_name!("th") => {
                    cell = cell.or_else(|| {
                        tables.cell_bytes.push(0);
                        Some(tables.cell_bytes.len() - 1)
                    });
                }
                _ => {}
            },
            NodeData::Text { contents } => {
                if let Some(bytes) = cell.and_then(|cell| tables.cell_bytes.get_mut(cell)) {
                    *bytes += contents.borrow().len();
                }
            }
            _ => {}
        }
        if depth > MAX_DEPTH || indent > MAX_INDENT {
            return false;
        }
        open.extend(children.iter().map(|child| Open {
            node: child.clone(),
            depth: depth + 1,
            indent,
            cell,
        }));
    }
    tables.padded_bytes() <= MAX_TABLE_BYTES
}

/// A node that is still to be looked at.
struct Open {
    node: Handle,
    depth: usize,
    indent: usize,
    /// The outermost cell around it, in [`Tables::cell_bytes`].
    cell: Option<usize>,
}

/// All tables of a page taken as one.
#[derive(Default)]
struct Tables {
    n_rows: usize,
    n_columns: usize,
    cell_bytes: Vec<usize>,
}

impl Tables {
    /// What they may come to: every cell is padded to the widest of its column.
    fn padded_bytes(&self) -> usize {
        const MARKS: usize = 5;
        let widest = self.cell_bytes.iter().copied().max().unwrap_or(0) + MARKS;
        self.n_rows.saturating_mul(self.n_columns).saturating_mul(widest)
    }
}

/// The parser's tree with its nodes counted.
#[derive(Default)]
struct Counted {
    dom: RcDom,
    n_nodes: Cell<usize>,
}

impl Counted {
    fn count(&self) {
        self.n_nodes.set(self.n_nodes.get() + 1);
    }
}

impl TreeSink for Counted {
    type Handle = Handle;
    type Output = Handle;
    type ElemName<'a> = ExpandedName<'a>;

    fn finish(self) -> Handle {
        self.dom.document
    }

    fn parse_error(&self, _message: Cow<'static, str>) {}

    fn get_document(&self) -> Handle {
        self.dom.get_document()
    }

    fn elem_name<'a>(&'a self, target: &'a Handle) -> ExpandedName<'a> {
        self.dom.elem_name(target)
    }

    fn create_element(&self, name: QualName, attrs: Vec<Attribute>, flags: ElementFlags) -> Handle {
        self.count();
        self.dom.create_element(name, attrs, flags)
    }

    fn create_comment(&self, text: StrTendril) -> Handle {
        self.dom.create_comment(text)
    }

    fn create_pi(&self, target: StrTendril, data: StrTendril) -> Handle {
        self.dom.create_pi(target, data)
    }

    fn append(&self, parent: &Handle, child: NodeOrText<Handle>) {
        self.count();
        self.dom.append(parent, child);
    }

    fn append_based_on_parent_node(&self, element: &Handle, previous: &Handle, child: NodeOrText<Handle>) {
        self.count();
        self.dom.append_based_on_parent_node(element, previous, child);
    }

    fn append_doctype_to_document(&self, name: StrTendril, public_id: StrTendril, system_id: StrTendril) {
        self.dom.append_doctype_to_document(name, public_id, system_id);
    }

    fn get_template_contents(&self, target: &Handle) -> Handle {
        self.dom.get_template_contents(target)
    }

    fn same_node(&self, one: &Handle, other: &Handle) -> bool {
        self.dom.same_node(one, other)
    }

    fn set_quirks_mode(&self, mode: QuirksMode) {
        self.dom.set_quirks_mode(mode);
    }

    fn append_before_sibling(&self, sibling: &Handle, child: NodeOrText<Handle>) {
        self.count();
        self.dom.append_before_sibling(sibling, child);
    }

    fn add_attrs_if_missing(&self, target: &Handle, attrs: Vec<Attribute>) {
        self.dom.add_attrs_if_missing(target, attrs);
    }

    fn remove_from_parent(&self, target: &Handle) {
        self.dom.remove_from_parent(target);
    }

    fn reparent_children(&self, node: &Handle, new_parent: &Handle) {
        self.dom.reparent_children(node, new_parent);
    }

    fn is_mathml_annotation_xml_integration_point(&self, target: &Handle) -> bool {
        self.dom.is_mathml_annotation_xml_integration_point(target)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::{Duration, Instant};

    async fn markdown(html: &str) -> Option<String> {
        convert_off_thread(html.to_owned()).await.1
    }

    #[tokio::test]
    async fn the_forms_of_markdown_are_those_models_know() {
        let cases = [
            (
                "<h2>Title</h2><p>Text <b>bold</b> <a href='/x'>link</a></p>",
                "## Title\n\nText **bold** [link](/x)",
            ),
            ("<ul><li>a</li><li>b<ul><li>c</li></ul></li></ul>", "- a\n- b\n  - c"),
            ("<ol><li>a</li><li>b</li></ol>", "1. a\n2. b"),
            (
                "<pre><code class='language-rust'>fn a() {\n    b\n}</code></pre>",
                "```rust\nfn a() {\n    b\n}\n```",
            ),
            ("<p>a</p><script>x</script><style>y</style><noscript>z</noscript><p>b</p>", "a\n\nb"),
            (
                "<table><tr><th>a</th><th>b</th></tr><tr><td>1</td><td>2</td></tr></table>",
                "| a | b |\n| - | - |\n| 1 | 2 |",
            ),
            ("", ""),
        ];
        for (html, expected) in cases {
            assert_eq!(markdown(html).await.as_deref(), Some(expected), "{html}");
        }
    }

    #[tokio::test]
    async fn what_nests_too_deeply_stays_as_it_is() {
        let nested = |n: usize| format!("{}x", "<div>".repeat(n));
        assert_eq!(markdown(&nested(500)).await.as_deref(), Some("x"));
        assert_eq!(markdown(&nested(600)).await, None);
        assert_eq!(markdown(&nested(20_000)).await, None);
    }

    #[tokio::test]
    async fn bombs_end_soon() {
        let bold: String = (0..400).map(|n| format!("<b a={n}>")).collect();
        let bombs = [
            "<a><p>".repeat(16_000),
            format!("{bold}{}", "<p>x".repeat(24_000)),
            "<b>".repeat(33_000),
            "<b><div></b>".repeat(8_000),
            "<div><object></div></object>".repeat(3_500),
            "<table>".repeat(14_000),
            "<table><tr><td>".repeat(6_600),
            format!("<table>{}", "<p>x</p>".repeat(12_000)),
            format!("{}{}", "<blockquote>".repeat(500), "<p>x".repeat(23_000)),
            format!("{}{}", "<blockquote>".repeat(39), "<p>x".repeat(24_000)),
            format!("<table><tr><th>{}</th></tr>{}", "x".repeat(50_000), "<tr><td>y".repeat(5_500)),
            format!("<table><tr>{}</tr>{}", "<th>".repeat(12_000), "<tr><td>".repeat(6_000)),
            "<".repeat(100_000),
            "<select><option>".repeat(6_000),
            "[".repeat(100_000),
        ];
        for bomb in bombs {
            let started = Instant::now();
            let made = markdown(&bomb).await.map(|text| text.len());
            let took = started.elapsed();
            eprintln!("{:>8} bytes {made:?} in {took:?}: {}", bomb.len(), &bomb[..40]);
            assert!(took < Duration::from_secs(20), "{took:?}: {}", &bomb[..60]);
        }
    }
}
