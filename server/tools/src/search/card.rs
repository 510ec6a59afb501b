//! The data of a search card: stored with the result, and made a card again on replay.
//!
//! Shared by `grep` and `lsp`, whose results are lines of files, and `glob`, whose results are files.

use super::page;
use protocol::card::{ResultCard, SearchFileMatches, SearchHits, SearchLineMatch, SearchResult};
use protocol::tool::DurableResult;
use serde::{Deserialize, Serialize};
use serde_json::Value;

/// Cap on a search card's data, serialised, in bytes.
const MAX_META_BYTES: usize = 65_536;

/// What is stored.
#[derive(Serialize, Deserialize)]
#[serde(tag = "shape", rename_all = "lowercase")]
enum Meta {
    Matches { files: Vec<SearchFileMatches>, truncated: bool, total: u64 },
    Paths { paths: Vec<String>, truncated: bool, total: u64 },
}

/// Lines found, each with its path and number, as card data: grouped by file in first-seen order, and bounded.
///
/// `total` counts everything found; `partial` says that there may be more.
pub(crate) fn matches_meta<'a>(
    found: impl Iterator<Item = (&'a str, u64, &'a str)>,
    total: usize,
    partial: bool,
) -> Option<Value> {
    let mut files: Vec<SearchFileMatches> = Vec::new();
    for (path, line_number, line) in found {
        let line = SearchLineMatch { line_number, line: line.to_owned() };
        // Nearly always the last file; a search reports file by file.
        match files.iter_mut().rfind(|file| file.path == path) {
            Some(file) => file.matches.push(line),
            None => files.push(SearchFileMatches { path: path.to_owned(), matches: vec![line] }),
        }
    }
    files.truncate(page::fitting(&files, MAX_META_BYTES));
    let n_kept: usize = files.iter().map(|file| file.matches.len()).sum();
    let truncated = partial || n_kept < total;
    serde_json::to_value(Meta::Matches { files, truncated, total: total as u64 }).ok()
}

/// Files found as card data, bounded; `total` and `partial` as for [`matches_meta`].
pub(crate) fn paths_meta(mut paths: Vec<String>, total: usize, partial: bool) -> Option<Value> {
    paths.truncate(page::fitting(&paths, MAX_META_BYTES));
    let truncated = partial || paths.len() < total;
    serde_json::to_value(Meta::Paths { paths, truncated, total: total as u64 }).ok()
}

/// The card of a search for lines; `None` for a failure and for data of another kind.
pub(crate) fn matches_card(result: &DurableResult) -> Option<ResultCard> {
    let Meta::Matches { files, truncated, total } = meta(result)? else { return None };
    Some(card(SearchHits::Matches(files), truncated, total))
}

/// The card of a search for files; `None` as for [`matches_card`].
pub(crate) fn paths_card(result: &DurableResult) -> Option<ResultCard> {
    let Meta::Paths { paths, truncated, total } = meta(result)? else { return None };
    Some(card(SearchHits::Paths(paths), truncated, total))
}

fn meta(result: &DurableResult) -> Option<Meta> {
    if result.is_error {
        return None;
    }
    Meta::deserialize(result.meta.as_ref()?).ok()
}

fn card(hits: SearchHits, truncated: bool, total: u64) -> ResultCard {
    ResultCard::Search(SearchResult { title: None, hits, truncated, total })
}
