//! The diff card: changes to files.

use super::FileLocation;
use crate::id::BlobHash;
use serde::{Deserialize, Serialize};

/// Changes a call is about to make, as far as its arguments tell.
#[derive(Clone, Debug, PartialEq)]
pub struct DiffCall {
    /// One line, complete on its own.
    pub title: String,
    /// The changes.
    pub diffs: Vec<FileDiff>,
    /// Places the call is about.
    pub locations: Vec<FileLocation>,
}

/// Changes a call made.
#[derive(Clone, Debug, PartialEq)]
pub struct DiffResult {
    /// Replaces the pending title; `None` keeps it.
    pub title: Option<String>,
    /// Hunks with context lines, or the complete file when no earlier text is known.
    pub diffs: Vec<FileDiff>,
    /// Where the full texts of both sides are kept; the server shows them instead of the hunks when it has them.
    pub whole: Option<WholeFile>,
}

/// One change: a whole file, or a hunk with its context.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct FileDiff {
    /// Path as the model gave it.
    pub path: String,
    /// Text before; `None` when there is nothing to diff against (a new file, an insertion).
    pub old_text: Option<String>,
    /// Text after.
    pub new_text: String,
}

/// The full texts of both sides of a change, kept content-addressed beside the log.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct WholeFile {
    /// Path as the model gave it.
    pub path: String,
    /// Text before; `None` for a new file.
    pub before: Option<BlobHash>,
    /// Text after.
    pub after: BlobHash,
}
