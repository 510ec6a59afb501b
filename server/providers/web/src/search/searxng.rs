//! SearXNG's JSON: `GET <instance>/search?q=…&format=json`.

use super::{Endpoint, with_bearer};
use protocol::card::WebSource;
use reqwest::{Client, RequestBuilder};
use serde::Deserialize;
use services::web::{WebFound, WebSearchRequest};

/// The request; SearXNG takes no number of results.
pub(super) fn request(client: &Client, endpoint: &Endpoint, request: &WebSearchRequest) -> RequestBuilder {
    let mut url = endpoint.url.clone();
    url.query_pairs_mut().append_pair("q", &request.query).append_pair("format", "json");
    with_bearer(client.get(url), endpoint)
}

/// # Errors
/// The body is not SearXNG's.
pub(super) fn found(body: &[u8]) -> Result<WebFound, serde_json::Error> {
    let answer: Answer = serde_json::from_slice(body)?;
    let sources = answer.results.into_iter().map(|result| WebSource {
        url: result.url,
        title: result.title,
        snippet: result.content,
        published_at: result.published_date,
    });
    let direct = answer.answers.into_iter().find_map(|answer| match answer {
        Direct::Plain(text) => Some(text),
        Direct::Typed { answer } => answer,
    });
    Ok(WebFound { sources: sources.collect(), answer: direct, truncated: false })
}

#[derive(Deserialize)]
struct Answer {
    results: Vec<Row>,
    #[serde(default)]
    answers: Vec<Direct>,
}

#[derive(Deserialize)]
struct Row {
    url: String,
    title: Option<String>,
    content: Option<String>,
    #[serde(rename = "publishedDate")]
    published_date: Option<String>,
}

/// Older instances give a text, newer ones an object, whose other kinds (translations, weather) are no text.
#[derive(Deserialize)]
#[serde(untagged)]
enum Direct {
    Plain(String),
    Typed { answer: Option<String> },
}
