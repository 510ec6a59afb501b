//! The web card: pages found as links, or one page with the beginning of its text.

use super::generic::result_text;
use super::{Completed, text_item};
use crate::text::{cut, cut_bytes, escape_markdown, fence, inline_code, link, one_line};
use protocol::card::{WebFetch, WebResult, WebSearch, WebSource};
use protocol::tool::DurableResult;
use serde_json::json;

/// Most sources shown.
const MAX_SOURCES: usize = 50;
/// Most characters of an excerpt.
const MAX_SNIPPET: usize = 300;
/// Most bytes of a page's text; the model read it whole.
const MAX_PAGE: usize = 8 * 1024;

/// What came from the web.
pub(crate) fn completed(card: &WebResult, result: &DurableResult) -> Completed {
    let (text, raw_output) = match card {
        WebResult::Search(search) => {
            (search_body(search), json!({ "sources": search.sources.len(), "truncated": search.truncated }))
        }
        WebResult::Fetch(fetch) => (
            fetch_body(fetch, &result_text(result)),
            json!({ "url": fetch.url, "statusCode": fetch.status_code, "truncated": fetch.truncated }),
        ),
    };
    Completed { content: Some(vec![text_item(text)]), raw_output: Some(raw_output), ..Completed::default() }
}

fn search_body(search: &WebSearch) -> String {
    let mut parts: Vec<String> = search.answer.iter().cloned().collect();
    let sources: Vec<String> = search.sources.iter().take(MAX_SOURCES).map(source).collect();
    if sources.is_empty() {
        parts.push("No results".to_owned());
    } else {
        parts.push(sources.join("\n"));
    }
    if search.truncated || search.sources.len() > MAX_SOURCES {
        parts.push("More results were found than are shown here.".to_owned());
    }
    parts.join("\n\n")
}

fn source(source: &WebSource) -> String {
    let title = source.title.as_deref().filter(|title| !title.trim().is_empty());
    let mut line = format!("- {}", address(title.unwrap_or(&source.url), &source.url));
    if let Some(published) = &source.published_at {
        line.push_str(&format!(" ({})", escape_markdown(&one_line(published))));
    }
    if let Some(snippet) = source.snippet.as_deref().map(str::trim).filter(|snippet| !snippet.is_empty()) {
        let snippet = snippet.split_whitespace().collect::<Vec<_>>().join(" ");
        line.push_str(&format!("\n  {}", escape_markdown(&cut(&snippet, MAX_SNIPPET))));
    }
    line
}

fn fetch_body(page: &WebFetch, text: &str) -> String {
    let cut_note = if page.truncated { ", cut" } else { "" };
    let mut parts = vec![format!("{} (HTTP {}{cut_note})", address(&page.url, &page.url), page.status_code)];
    let kept = cut_bytes(text, MAX_PAGE);
    if !kept.trim().is_empty() {
        parts.push(fence("", kept));
    }
    if kept.len() < text.len() {
        parts.push(format!("The model read {} more bytes, not shown here.", text.len() - kept.len()));
    }
    parts.join("\n\n")
}

/// A link for addresses a browser opens; anything else stays text.
fn address(label: &str, url: &str) -> String {
    if url.starts_with("https://") || url.starts_with("http://") {
        link(label, url)
    } else {
        inline_code(&one_line(url))
    }
}
