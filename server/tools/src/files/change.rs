//! A change of a file as data: hunks with context, and where both full texts are kept.
//!
//! Used by the tools that change files, for the result card's data and for the permission question's preview. The
//! full texts are kept content-addressed beside the log; a card falls back to the hunks when they are gone.
//! Source: `spec/presentation.md` §7; product decisions, "The editor", diffs.

use pipeline::context::ToolContext;
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
