//! The search card: matches or paths as links an editor can follow.
//!
//! A result is a *place* of the call only when there is exactly one; with more, clients would open them all or follow
//! the last. Source: product decisions, "The editor", follow; `clients.md` §2.

use super::{Completed, text_item};
use crate::call::location;
use crate::text::{count, cut, inline_code, link};
use crate::{PresentContext, path};
use protocol::card::{FileLocation, SearchHits, SearchResult};
use serde_json::json;

/// Most hits shown; what is left out is counted.
const MAX_HITS: usize = 200;
/// Most characters of a matching line.
const MAX_LINE: usize = 200;

/// One hit: a file, or a line of one with its text.
struct Hit<'a> {
    path: &'a str,
    line: Option<(u64, &'a str)>,
}

/// What was found.
pub(crate) fn completed(ctx: &PresentContext, card: &SearchResult) -> Completed {
    let hits = hits(&card.hits);
    let shape = match card.hits {
        SearchHits::Matches(_) => "matches",
        SearchHits::Paths(_) => "paths",
    };
    let place = match hits.as_slice() {
        [only] if card.total <= 1 && !card.truncated => {
            Some(vec![location(ctx, &FileLocation::new(only.path, only.line.map(|(number, _)| number)))])
        }
        _ => None,
    };
    Completed {
        content: Some(vec![text_item(body(ctx, card, &hits))]),
        locations: place,
        raw_output: Some(json!({ "shape": shape, "total": card.total, "truncated": card.truncated })),
        ..Completed::default()
    }
}

fn hits(hits: &SearchHits) -> Vec<Hit<'_>> {
    match hits {
        SearchHits::Paths(paths) => paths.iter().map(|path| Hit { path, line: None }).collect(),
        SearchHits::Matches(files) => files
            .iter()
            .flat_map(|file| {
                file.matches.iter().map(|found| Hit {
                    path: &file.path,
                    line: Some((found.line_number, found.line.as_str())),
                })
            })
            .collect(),
    }
}

fn body(ctx: &PresentContext, card: &SearchResult, hits: &[Hit<'_>]) -> String {
    let (one, many) = match card.hits {
        SearchHits::Matches(_) => ("match", "matches"),
        SearchHits::Paths(_) => ("file", "files"),
    };
    if hits.is_empty() {
        return format!("No {many}");
    }
    let n_shown = hits.len().min(MAX_HITS);
    // A total smaller than the page can only come from an old or foreign log.
    let total = card.total.max(hits.len() as u64);
    let mut summary = count(total, one, many);
    if let SearchHits::Matches(files) = &card.hits
        && files.len() > 1
        && !card.truncated
    {
        summary.push_str(&format!(" in {} files", files.len()));
    }
    if card.truncated || n_shown < hits.len() {
        summary.push_str(&format!(", {n_shown} shown"));
    }
    let lines = hits.iter().take(MAX_HITS).map(|hit| line(ctx, hit));
    let mut lines = std::iter::once(format!("{summary}\n")).chain(lines).collect::<Vec<_>>();
    if n_shown < hits.len() {
        lines.push(format!("\nThe model read {} more, not shown here.", hits.len() - n_shown));
    }
    lines.join("\n")
}

fn line(ctx: &PresentContext, hit: &Hit<'_>) -> String {
    let absolute = path::absolute(&ctx.cwd, hit.path);
    let shown = path::shown(ctx, hit.path);
    match hit.line {
        None => format!("- {}", link(&shown, &path::file_uri(&absolute, None))),
        Some((number, text)) => {
            let place = link(&format!("{shown}:{number}"), &path::file_uri(&absolute, Some(number)));
            let text = cut(text.trim(), MAX_LINE);
            if text.is_empty() { format!("- {place}") } else { format!("- {place} {}", inline_code(&text)) }
        }
    }
}
