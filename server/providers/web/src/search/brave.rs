//! Brave Search: `GET …/res/v1/web/search?q=…&count=…` with the key in a header of its own.

use super::{Endpoint, secret};
use protocol::card::WebSource;
use reqwest::{Client, RequestBuilder};
use serde::Deserialize;
use services::web::{WebFound, WebSearchRequest};

/// Most results that one request may ask for.
const MAX_COUNT: usize = 20;

/// The request.
pub(super) fn request(client: &Client, endpoint: &Endpoint, request: &WebSearchRequest) -> RequestBuilder {
    let mut url = endpoint.url.clone();
    let count = request.max_sources.clamp(1, MAX_COUNT).to_string();
    url.query_pairs_mut()
        .append_pair("q", &request.query)
        .append_pair("count", &count)
        .append_pair("text_decorations", "false");
    let built = client.get(url);
    match endpoint.key.as_deref().and_then(secret) {
        Some(key) => built.header("X-Subscription-Token", key),
        None => built,
    }
}

/// # Errors
/// The body is not Brave's.
pub(super) fn found(body: &[u8]) -> Result<WebFound, serde_json::Error> {
    let answer: Answer = serde_json::from_slice(body)?;
    let rows = answer.web.map(|web| web.results).unwrap_or_default();
    let sources = rows.into_iter().map(|row| WebSource {
        url: row.url,
        title: row.title.as_deref().map(plain),
        snippet: row.description.as_deref().map(plain),
        published_at: row.page_age,
    });
    let truncated = answer.query.is_some_and(|query| query.more_results_available);
    Ok(WebFound { sources: sources.collect(), answer: None, truncated })
}

/// A text without the marks and entities that Brave leaves in some.
fn plain(text: &str) -> String {
    let mut bare = text.to_owned();
    for mark in ["<strong>", "</strong>", "<b>", "</b>", "<em>", "</em>"] {
        bare = bare.replace(mark, "");
    }
    // The ampersand last, so that nothing is decoded twice.
    for (entity, character) in
        [("&lt;", "<"), ("&gt;", ">"), ("&quot;", "\""), ("&#x27;", "'"), ("&#39;", "'"), ("&amp;", "&")]
    {
        bare = bare.replace(entity, character);
    }
    bare
}

#[derive(Deserialize)]
struct Answer {
    web: Option<Web>,
    query: Option<Query>,
}

#[derive(Deserialize)]
struct Query {
    #[serde(default)]
    more_results_available: bool,
}

#[derive(Deserialize)]
struct Web {
    #[serde(default)]
    results: Vec<Row>,
}

#[derive(Deserialize)]
struct Row {
    url: String,
    title: Option<String>,
    description: Option<String>,
    page_age: Option<String>,
}
