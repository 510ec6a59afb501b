//! The read card: a window of a file.

use serde::{Deserialize, Serialize};

/// A window of a file that was read.
#[derive(Clone, Debug, PartialEq)]
pub struct ReadResult {
    /// Replaces the pending title; `None` keeps it.
    pub title: Option<String>,
    /// Path as the model reads it.
    pub path: String,
    /// Requested first line, 1-based; meaningful for an empty window too.
    pub offset: u64,
    /// The lines of the window.
    pub lines: Vec<ReadFileLine>,
    /// Lines of the whole file.
    pub total_lines: u64,
    /// Language hint for highlighting, for instance `rs`.
    pub lang: Option<String>,
    /// The result text without its envelope, for clients without a read card.
    pub content: Option<String>,
}

/// One line of a file.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ReadFileLine {
    /// 1-based line of the file.
    pub number: u64,
    /// Text without its line end, already cut to the per-line cap.
    pub text: String,
}
