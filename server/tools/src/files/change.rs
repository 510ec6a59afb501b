//! A change of a file as data: hunks with context, and where both full texts are kept.
//!
//! Used by the tools that change files, for the result card's data and for the permission question's preview. The
//! full texts are kept content-addressed beside the log; a card falls back to the hunks when they are gone.
//! Source: `spec/presentation.md` §7; product decisions, "The editor", diffs.

use pipeline::context::ToolContext;
use pipeline::typed::from_value;
use protocol::card::{DiffResult, FileDiff, WholeFile};
use protocol::id::BlobHash;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use services::file_system::FileVersion;
use similar::{Algorithm, DiffTag, TextDiff};
use std::borrow::Cow;
use std::time::Duration;

/// Largest side kept as a full text, in bytes.
const MAX_WHOLE_BYTES: usize = 1024 * 1024;
/// Most bytes of both sides of all hunks together; later hunks are left out.
const MAX_HUNK_BYTES: usize = 2 * 1024 * 1024;
/// Context lines on each side of a hunk.
const CONTEXT_LINES: usize = 3;
/// Largest text a preview reads, in bytes.
pub const MAX_PREVIEW_BYTES: u64 = 10 * 1024 * 1024;
/// When the search for the smallest difference gives up and takes a coarser one.
const DIFF_BUDGET: Duration = Duration::from_millis(200);

/// What a change's card is made from.
#[derive(Debug, PartialEq, Serialize, Deserialize)]
pub struct ChangeMeta {
    /// Hunks in file order.
    pub diffs: Vec<FileDiff>,
    /// Both full texts; `None` when a side is unknown or too large.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub whole: Option<WholeFile>,
}

/// The value of a change, borrowed: its texts can be megabytes.
#[derive(Deserialize)]
pub struct Change<'a> {
    /// Absolute path.
    pub path: &'a str,
    /// Text before, when it is known.
    pub before: Option<&'a str>,
    /// Text that is stored now.
    pub after: &'a str,
    /// What differs from the request.
    #[serde(default)]
    pub notice: Option<&'a str>,
}

impl<'a> Change<'a> {
    /// The change that a value stands for.
    ///
    /// # Errors
    /// The value is that of no change.
    pub fn of(value: &'a Value) -> Result<Self, String> {
        from_value(value)
    }
}

/// An object of the fields that are there, moved in.
pub fn value<const N: usize>(fields: [(&str, Option<Value>); N]) -> Value {
    let fields = fields.into_iter().filter_map(|(name, value)| Some((name.to_owned(), value?)));
    Value::Object(fields.collect())
}

/// What was there before.
#[derive(Clone, Copy)]
pub enum Before<'a> {
    /// No file.
    Nothing,
    /// This text.
    Text(&'a str),
    /// A file whose text is not known.
    Unknown,
}

impl<'a> Before<'a> {
    /// What was there, from what a mutation reports.
    pub fn new(existed: bool, text: Option<&'a str>) -> Self {
        match text {
            Some(text) => Self::Text(text),
            None if existed => Self::Unknown,
            None => Self::Nothing,
        }
    }
}

/// Keeps both full texts where the card will look for them.
pub async fn keep(ctx: &ToolContext, before: Before<'_>, after: &str) {
    if whole("", before, after).is_none() {
        return;
    }
    let texts = match before {
        Before::Text(before) => [Some(before), Some(after)],
        _ => [None, Some(after)],
    };
    for text in texts.into_iter().flatten() {
        // A text that could not be kept costs the full diff only: the card then shows the hunks.
        let _ = ctx.services().blobs.put(text).await;
    }
}

/// The card's data for a change of `path`.
pub fn meta(path: &str, before: Before<'_>, after: &str) -> Option<Value> {
    let diffs = match before {
        Before::Text(before) => hunks(path, before, after),
        _ => Vec::new(),
    };
    serde_json::to_value(ChangeMeta { diffs, whole: whole(path, before, after) }).ok()
}

/// The card of a change: the hunks as applied, `fallback` when there are none; `None` when there is neither.
pub fn card(title: String, meta: Option<&Value>, fallback: Option<FileDiff>) -> Option<DiffResult> {
    let meta = meta.and_then(|meta| ChangeMeta::deserialize(meta).ok());
    let (diffs, whole) = meta.map_or((Vec::new(), None), |meta| (meta.diffs, meta.whole));
    let diffs = if diffs.is_empty() { Vec::from_iter(fallback) } else { diffs };
    (!diffs.is_empty()).then_some(DiffResult { title: Some(title), diffs, whole })
}

/// A change that has not happened: the full texts where they are small enough, else the hunks.
pub fn preview(path: &str, before: Option<&str>, after: &str) -> Vec<FileDiff> {
    if before.unwrap_or_default().len().max(after.len()) > MAX_WHOLE_BYTES
        && let Some(before) = before
    {
        return hunks(path, before, after);
    }
    vec![FileDiff { path: path.to_owned(), old_text: before.map(str::to_owned), new_text: after.to_owned() }]
}

fn whole(path: &str, before: Before<'_>, after: &str) -> Option<WholeFile> {
    let before = match before {
        Before::Unknown => return None,
        Before::Nothing => None,
        Before::Text(text) => Some(text),
    };
    if before.unwrap_or_default().len().max(after.len()) > MAX_WHOLE_BYTES {
        return None;
    }
    let hash = |text: &str| BlobHash::new(FileVersion::of(text.as_bytes()).as_hex());
    Some(WholeFile { path: path.to_owned(), before: before.map(hash), after: hash(after) })
}

/// Hunks of a change with three lines of context, in file order. Line ends and a BOM make no difference.
pub fn hunks(path: &str, before: &str, after: &str) -> Vec<FileDiff> {
    let (before, after) = (plain(before), plain(after));
    if before == after {
        return Vec::new();
    }
    let (before, after) = differing_middle(&before, &after);
    let old: Vec<&str> = before.split_inclusive('\n').collect();
    let new: Vec<&str> = after.split_inclusive('\n').collect();
    let diff = TextDiff::configure().algorithm(Algorithm::Myers).timeout(DIFF_BUDGET).diff_slices(&old, &new);
    let mut n_bytes = 0;
    diff.grouped_ops(CONTEXT_LINES)
        .iter()
        .filter(|ops| ops.iter().any(|op| op.tag() != DiffTag::Equal))
        .filter_map(|ops| {
            let (first, last) = (ops.first()?, ops.last()?);
            let old = &old[first.old_range().start..last.old_range().end];
            let new = &new[first.new_range().start..last.new_range().end];
            Some(FileDiff {
                path: path.to_owned(),
                old_text: (!old.is_empty()).then(|| joined(old)),
                new_text: joined(new),
            })
        })
        .take_while(|hunk| {
            n_bytes += hunk.old_text.as_deref().unwrap_or_default().len() + hunk.new_text.len();
            n_bytes <= MAX_HUNK_BYTES
        })
        .collect()
}

fn joined(lines: &[&str]) -> String {
    let lines: Vec<&str> = lines.iter().map(|line| line.strip_suffix('\n').unwrap_or(line)).collect();
    lines.join("\n")
}

/// The text with LF line ends and without a BOM.
fn plain(text: &str) -> Cow<'_, str> {
    let text = text.strip_prefix('\u{feff}').unwrap_or(text);
    if text.contains("\r\n") { Cow::Owned(text.replace("\r\n", "\n")) } else { Cow::Borrowed(text) }
}

/// Both texts without their common first and last lines, but for the context of a hunk: a small change of a large file
/// then costs two scans and no line table.
fn differing_middle<'a>(old: &'a str, new: &'a str) -> (&'a str, &'a str) {
    let prefix = common_prefix(old.as_bytes(), new.as_bytes());
    let prefix = old.as_bytes()[..prefix].iter().rposition(|&byte| byte == b'\n').map_or(0, |at| at + 1);
    let (old_rest, new_rest) = (&old[prefix..], &new[prefix..]);
    let suffix = common_suffix(old_rest.as_bytes(), new_rest.as_bytes());
    let begins_line = |rest: &str| {
        let at = rest.len() - suffix;
        at == 0 || rest.as_bytes()[at - 1] == b'\n'
    };
    let tail = &old_rest.as_bytes()[old_rest.len() - suffix..];
    let suffix = if begins_line(old_rest) && begins_line(new_rest) {
        suffix
    } else {
        tail.iter().position(|&byte| byte == b'\n').map_or(0, |at| suffix - at - 1)
    };
    let start = lines_before(&old[..prefix], CONTEXT_LINES);
    let context = lines_after(&old_rest[old_rest.len() - suffix..], CONTEXT_LINES);
    let cut = suffix - context;
    (&old[start..old.len() - cut], &new[start..new.len() - cut])
}

/// Where the last `n` lines of `text` begin.
fn lines_before(text: &str, n: usize) -> usize {
    text.bytes()
        .enumerate()
        .rev()
        .skip(1)
        .filter(|(_, byte)| *byte == b'\n')
        .nth(n.saturating_sub(1))
        .map_or(0, |(at, _)| at + 1)
}

/// Where the first `n` lines of `text` end.
fn lines_after(text: &str, n: usize) -> usize {
    text.split_inclusive('\n').take(n).map(str::len).sum()
}

fn common_prefix(a: &[u8], b: &[u8]) -> usize {
    const CHUNK: usize = 256;
    let chunks = a.chunks_exact(CHUNK).zip(b.chunks_exact(CHUNK)).take_while(|(a, b)| a == b).count() * CHUNK;
    chunks + a[chunks..].iter().zip(&b[chunks..]).take_while(|(a, b)| a == b).count()
}

fn common_suffix(a: &[u8], b: &[u8]) -> usize {
    const CHUNK: usize = 256;
    let chunks =
        a.rchunks_exact(CHUNK).zip(b.rchunks_exact(CHUNK)).take_while(|(a, b)| a == b).count() * CHUNK;
    let (a, b) = (&a[..a.len() - chunks], &b[..b.len() - chunks]);
    chunks + a.iter().rev().zip(b.iter().rev()).take_while(|(a, b)| a == b).count()
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn check(before: &str, after: &str, expected: &[(Option<&str>, &str)]) {
        let hunks = hunks("a", before, after);
        let shown: Vec<_> = hunks.iter().map(|hunk| (hunk.old_text.as_deref(), &*hunk.new_text)).collect();
        assert_eq!(shown, expected, "{before:?} -> {after:?}");
    }

    #[test]
    fn hunks_hold_the_change_with_its_context() {
        check("", "brand new\n", &[(None, "brand new")]);
        check("gone\n", "", &[(Some("gone"), "")]);
        check("x", "y", &[(Some("x"), "y")]);
        check("same\n", "same\n", &[]);
        check("a\r\nb\r\n", "a\nb\n", &[]);
        check("\u{feff}a\n", "b\n", &[(Some("a"), "b")]);
        check(
            "1\n2\n3\n4\n5\n6\n7\n8\n9\n",
            "1\n2\n3\n4\nx\n6\n7\n8\n9\n",
            &[(Some("2\n3\n4\n5\n6\n7\n8"), "2\n3\n4\nx\n6\n7\n8")],
        );
        check("a\nb\n", "a\nnew\nb\n", &[(Some("a\nb"), "a\nnew\nb")]);
        check("a\na\na\na\na\na\na\na\n", "a\na\na\na\na\na\na\n", &[(Some("a\na\na\na"), "a\na\na")]);
        check("a\nab\n", "a\nb\n", &[(Some("a\nab"), "a\nb")]);
    }

    #[test]
    fn the_budget_leaves_out_later_hunks() {
        let before = format!("{}\n", "x".repeat(MAX_HUNK_BYTES));
        assert_eq!(hunks("a", &before, "y\n"), []);
        assert_eq!(preview("/a", Some(&before), "y\n"), []);
    }

    #[test]
    fn a_small_change_of_a_large_file_is_a_small_hunk() {
        let before: String = (0..200_000).map(|n| format!("line {n} of a large file\n")).collect();
        let after = before.replacen("line 100000 ", "line x ", 1);
        let found = hunks("a", &before, &after);
        assert_eq!(found.len(), 1);
        assert_eq!(found[0].new_text.lines().count(), 7);
        let (old, new) = differing_middle(&before, &after);
        assert_eq!((old.lines().count(), new.lines().count()), (7, 7));
    }

    /// Texts of few different lines, so that they share a lot.
    fn repetitive() -> impl Strategy<Value = String> {
        (prop::collection::vec("[abc]{0,2}", 0..30), any::<bool>())
            .prop_map(|(lines, ends)| lines.join("\n") + if ends { "\n" } else { "" })
    }

    /// Lines that occur once each, in ascending order.
    fn distinct() -> impl Strategy<Value = Vec<String>> {
        prop::collection::btree_set(0..60_u32, 0..40)
            .prop_map(|numbers| numbers.into_iter().map(|number| number.to_string()).collect())
    }

    proptest! {
        #[test]
        fn outside_the_middle_nothing_differs(before in repetitive(), after in repetitive()) {
            let (old, new) = differing_middle(&before, &after);
            let start = old.as_ptr() as usize - before.as_ptr() as usize;
            prop_assert_eq!(&before[..start], &after[..start]);
            prop_assert_eq!(&before[start + old.len()..], &after[start + new.len()..]);
            prop_assert_eq!(hunks("a", &before, &after).is_empty(), before == after);
        }

        #[test]
        fn hunks_turn_the_old_text_into_the_new(before in distinct(), after in distinct()) {
            let text = |lines: &[String]| lines.iter().map(|line| format!("{line}\n")).collect::<String>();
            let mut rest = before.as_slice();
            let mut rebuilt: Vec<String> = Vec::new();
            for hunk in hunks("a", &text(&before), &text(&after)) {
                let lines = |text: &str| text.lines().map(str::to_owned).collect::<Vec<_>>();
                let old = hunk.old_text.as_deref().map(lines).unwrap_or_default();
                let at = old.first().map_or(Some(0), |first| rest.iter().position(|line| line == first));
                let at = at.expect("the hunk's lines are in the old text");
                prop_assert_eq!(&rest[at..at + old.len()], old.as_slice());
                rebuilt.extend_from_slice(&rest[..at]);
                rebuilt.extend(lines(&hunk.new_text));
                rest = &rest[at + old.len()..];
            }
            rebuilt.extend_from_slice(rest);
            prop_assert_eq!(rebuilt, after);
        }
    }
}
