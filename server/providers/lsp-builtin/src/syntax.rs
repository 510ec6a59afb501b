//! One text and its tree: the name at a place, what the text defines, where it uses a name, what stands above a definition.
//!
//! Columns are bytes. Called by `index` and `answer`; reads no file.

use crate::languages::{COMMENT, DEFINES, DEFINES_OUTSIDE, FUNCTION, Language, MEMBER, NAME};
use std::ops::ControlFlow;
use std::time::{Duration, Instant};
use tokio_util::sync::CancellationToken;
use tree_sitter::{Node, ParseOptions, Parser, Point, Tree};

/// Longest time for one text.
const MAX_PARSE: Duration = Duration::from_secs(2);
/// Most definitions of one file that are kept.
const MAX_DEFINITIONS: usize = 20_000;
/// Longest signature, in characters.
const MAX_SIGNATURE: usize = 600;
/// Longest documentation, in characters.
const MAX_DOCUMENTATION: usize = 4_000;

/// The span of a name: line and byte columns from 0. Names do not cross lines.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Span {
    /// Line.
    pub line: u32,
    /// First byte.
    pub start: u32,
    /// Behind the last byte.
    pub end: u32,
}

/// A name and where it is defined.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Definition {
    /// The name.
    pub name: Box<str>,
    /// Where.
    pub span: Span,
    /// Whether it is only announced, as by a prototype.
    pub is_declaration: bool,
    /// Whether only members are named so.
    pub is_member: bool,
}

/// The name at a place.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Name {
    /// The name.
    pub text: String,
    /// Where it stands.
    pub span: Span,
    /// Whether it stands alone, so that no member can be meant.
    pub is_plain: bool,
    /// The first use in the function around it: what a local variable or a parameter is defined by, most likely.
    pub first_in_function: Option<Span>,
}

/// A text with its tree.
pub struct Source<'a> {
    language: &'static Language,
    text: &'a str,
    tree: Tree,
}

impl<'a> Source<'a> {
    /// Reads a text; `None` when that takes too long or the caller stopped.
    pub fn parse(
        parser: &mut Parser,
        language: &'static Language,
        text: &'a str,
        cancel: &CancellationToken,
    ) -> Option<Self> {
        parser.set_language(&language.grammar).ok()?;
        let begun = Instant::now();
        let mut watch = |_: &tree_sitter::ParseState| {
            if cancel.is_cancelled() || begun.elapsed() > MAX_PARSE {
                ControlFlow::Break(())
            } else {
                ControlFlow::Continue(())
            }
        };
        let options = ParseOptions::new().progress_callback(&mut watch);
        let mut bytes = |at: usize, _: Point| text.as_bytes().get(at..).unwrap_or_default();
        let tree = parser.parse_with_options(&mut bytes, None, Some(options));
        if tree.is_none() {
            // A parser goes on with the text it was stopped in.
            parser.reset();
        }
        Some(Self { language, text, tree: tree? })
    }

    /// What the text defines, in its order.
    pub fn definitions(&self) -> Vec<Definition> {
        let mut found = Vec::new();
        let mut cursor = self.tree.walk();
        let mut n_functions = 0_usize;
        loop {
            let node = cursor.node();
            let kind = node.kind_id();
            let defines = self.language.is(kind, DEFINES)
                || (n_functions == 0 && self.language.is(kind, DEFINES_OUTSIDE));
            if defines && let Some(definition) = self.definition(node) {
                found.push(definition);
                if found.len() >= MAX_DEFINITIONS {
                    return found;
                }
            }
            if cursor.goto_first_child() {
                n_functions += usize::from(self.language.is(kind, FUNCTION));
                continue;
            }
            while !cursor.goto_next_sibling() {
                if !cursor.goto_parent() {
                    return found;
                }
                if self.language.is(cursor.node().kind_id(), FUNCTION) {
                    n_functions = n_functions.saturating_sub(1);
                }
            }
        }
    }

    fn definition(&self, node: Node<'_>) -> Option<Definition> {
        let names_a_type = node.kind().ends_with("_specifier");
        if names_a_type && node.child_by_field_name("body").is_none() {
            // `struct x *y` uses the name.
            return None;
        }
        let (name, has_parameters) = self.name_of(node)?;
        Some(Definition {
            name: self.of(name).into(),
            span: span(name)?,
            is_declaration: has_parameters && node.child_by_field_name("body").is_none(),
            is_member: self.language.is(name.kind_id(), MEMBER),
        })
    }

    /// The leaf that names a node, and whether a declarator of a function leads there.
    fn name_of<'t>(&self, node: Node<'t>) -> Option<(Node<'t>, bool)> {
        let (mut at, mut has_parameters) = (node, false);
        for _ in 0..16 {
            if at.child_count() == 0 {
                return self.language.is(at.kind_id(), NAME).then_some((at, has_parameters));
            }
            has_parameters |= at.kind() == "function_declarator";
            let next = ["name", "declarator", "left"].iter().find_map(|field| at.child_by_field_name(field));
            // Some declarators wrap another one without naming the field.
            let wrapped = || {
                let n = u32::try_from(at.named_child_count()).unwrap_or(0);
                at.named_child(n.checked_sub(1)?).filter(|_| at.kind().ends_with("_declarator"))
            };
            at = next.or_else(wrapped)?;
        }
        None
    }

    /// The name at a place, or the one that ends there.
    pub fn name_at(&self, line: u32, column: u32) -> Option<Name> {
        let node = [Some(column), column.checked_sub(1)].into_iter().flatten().find_map(|column| {
            let point = Point::new(line as usize, column as usize);
            let node = self.tree.root_node().descendant_for_point_range(point, point)?;
            self.is_name(node).then_some(node)
        })?;
        let text = self.of(node).to_owned();
        let around = std::iter::successors(node.parent(), Node::parent);
        let function = around.into_iter().find(|node| self.language.is(node.kind_id(), FUNCTION));
        let first = function.and_then(|function| {
            let uses = self.uses(&text).into_iter();
            let start = function.start_position();
            uses.into_iter().find(|at| (at.line as usize, at.start as usize) >= (start.row, start.column))
        });
        let is_path = node
            .parent()
            .is_some_and(|parent| ["qualified", "scoped"].iter().any(|word| parent.kind().contains(word)));
        let is_plain = !is_path && node.kind() == "identifier" && self.has_members();
        Some(Name { text, span: span(node)?, is_plain, first_in_function: first })
    }

    /// Whether the grammar tells names of members from others.
    fn has_members(&self) -> bool {
        ["field_identifier", "property_identifier"]
            .iter()
            .any(|kind| self.language.grammar.id_for_node_kind(kind, true) != 0)
    }

    /// Where a name stands, comments and strings left out.
    pub fn uses(&self, name: &str) -> Vec<Span> {
        let places = memchr::memmem::find_iter(self.text.as_bytes(), name);
        let nodes = places.filter_map(|at| {
            let node = self.tree.root_node().descendant_for_byte_range(at, at + name.len())?;
            (node.byte_range() == (at..at + name.len()) && self.is_name(node)).then_some(node)
        });
        nodes.filter_map(span).collect()
    }

    fn is_name(&self, node: Node<'_>) -> bool {
        node.child_count() == 0 && self.language.is(node.kind_id(), NAME)
    }

    /// How a definition begins, and what is written about it.
    pub fn about(&self, name: Span) -> Option<(String, String)> {
        let point = Point::new(name.line as usize, name.start as usize);
        let leaf = self.tree.root_node().descendant_for_point_range(point, point)?;
        let defines = |node: &Node<'_>| self.language.is(node.kind_id(), DEFINES | DEFINES_OUTSIDE);
        let node = std::iter::successors(Some(leaf), Node::parent).find(defines).unwrap_or(leaf);
        let begin = self.text[..node.start_byte()].rfind('\n').map_or(0, |at| at + 1);
        let end_of_line = |from: usize| self.text[from..].find('\n').map_or(self.text.len(), |at| from + at);
        let end = match node.child_by_field_name("body") {
            Some(body) => body.start_byte(),
            None => end_of_line(leaf.end_byte()),
        };
        let signature = self.text.get(begin..end)?.trim().trim_end_matches(['{', ':']).trim_end();
        let docstring = self.docstring(node);
        let text = docstring.unwrap_or_else(|| self.comment_above(node));
        Some((cut(signature, MAX_SIGNATURE), cut(text.trim(), MAX_DOCUMENTATION)))
    }

    /// The string that a body starts with, in Python.
    fn docstring(&self, node: Node<'_>) -> Option<String> {
        let first = node.child_by_field_name("body")?.named_child(0)?;
        let string = first
            .named_child(0)
            .filter(|child| self.language.name == "python" && child.kind() == "string")?;
        let mut cursor = string.walk();
        let content = string.named_children(&mut cursor).find(|child| child.kind() == "string_content")?;
        Some(self.of(content).lines().map(str::trim).collect::<Vec<_>>().join("\n"))
    }

    /// The comment that ends on the line above a definition, attributes between them left out.
    fn comment_above(&self, node: Node<'_>) -> String {
        let row = node.start_position().row;
        // `export`, decorators and the like wrap what they belong to.
        let outer = std::iter::successors(Some(node), Node::parent)
            .take_while(|outer| outer.start_position().row == row && outer.parent().is_some())
            .last()
            .unwrap_or(node);
        let (mut above, mut at) = (Vec::new(), outer);
        while let Some(before) = at.prev_named_sibling() {
            let ends = before.end_position();
            let last_row = if ends.column == 0 { ends.row.saturating_sub(1) } else { ends.row };
            let is_comment = self.language.is(before.kind_id(), COMMENT);
            if last_row + 1 < at.start_position().row || !(is_comment || before.kind() == "attribute_item") {
                break;
            }
            // A comment behind code belongs to that code.
            let shares = before.prev_named_sibling().is_some_and(|code| {
                code.end_position().row == before.start_position().row && code.end_position().column > 0
            });
            if is_comment && shares {
                break;
            }
            if is_comment {
                above.push(self.of(before));
            }
            at = before;
        }
        let lines = above.iter().rev().flat_map(|comment| comment.lines()).map(bare);
        lines.collect::<Vec<_>>().join("\n")
    }

    fn of(&self, node: Node<'_>) -> &'a str {
        self.text.get(node.byte_range()).unwrap_or_default()
    }
}

/// A line of a comment without its marks.
fn bare(line: &str) -> &str {
    let line = line.trim().trim_end_matches("*/");
    let marks = ["///", "//!", "//", "/**", "/*", "*", "#"];
    let bare = marks.iter().find_map(|mark| line.strip_prefix(mark)).unwrap_or(line);
    bare.trim()
}

fn cut(text: &str, max: usize) -> String {
    match text.char_indices().nth(max) {
        Some((at, _)) => format!("{}…", &text[..at]),
        None => text.to_owned(),
    }
}

fn span(node: Node<'_>) -> Option<Span> {
    let (start, end) = (node.start_position(), node.end_position());
    let number = |number: usize| u32::try_from(number).ok();
    let is_line = start.row == end.row;
    Some(Span { line: number(start.row)?, start: number(start.column)?, end: number(end.column)? })
        .filter(|_| is_line)
}
