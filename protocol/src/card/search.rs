//! The search card: matches or paths, as data.

use serde::{Deserialize, Serialize};

/// What a search found.
#[derive(Clone, Debug, PartialEq)]
pub struct SearchResult {
    /// Replaces the pending title; `None` keeps it.
    pub title: Option<String>,
    /// The page of hits; an empty one is a valid card.
    pub hits: SearchHits,
    /// Whether `hits` is less than everything found.
    pub truncated: bool,
    /// Everything found, before any cap.
    pub total: u64,
}

/// The hits of a search.
#[derive(Clone, Debug, PartialEq)]
pub enum SearchHits {
    /// Matching lines by file, in first-seen order.
    Matches(Vec<SearchFileMatches>),
    /// Paths.
    Paths(Vec<String>),
}

/// The matching lines of one file.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct SearchFileMatches {
    /// Path as the model reads it.
    pub path: String,
    /// Its matches in line order.
    pub matches: Vec<SearchLineMatch>,
}

/// One matching line.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct SearchLineMatch {
    /// 1-based line.
    pub line_number: u64,
    /// Its text, already cut to the per-line cap.
    pub line: String,
}
