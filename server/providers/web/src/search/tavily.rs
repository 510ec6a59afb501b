//! Tavily: `POST …/search` with a JSON body and the key as a bearer token.

use super::{Endpoint, with_bearer};
use protocol::card::WebSource;
use reqwest::header::CONTENT_TYPE;
use reqwest::{Client, RequestBuilder};
use serde::Deserialize;
use serde_json::json;
use services::web::{WebFound, WebSearchRequest};

/// Most results that one request may ask for.
const MAX_RESULTS: usize = 20;

/// The request.
pub(super) fn request(client: &Client, endpoint: &Endpoint, request: &WebSearchRequest) -> RequestBuilder {
    let body = json!({
        "query": request.query,
        "max_results": request.max_sources.clamp(1, MAX_RESULTS),
        "include_answer": true,
    });
    let built =
        client.post(endpoint.url.clone()).header(CONTENT_TYPE, "application/json").body(body.to_string());
    with_bearer(built, endpoint)
}

/// # Errors
/// The body is not Tavily's.
pub(super) fn found(body: &[u8]) -> Result<WebFound, serde_json::Error> {
    let answer: Answer = serde_json::from_slice(body)?;
    let sources = answer.results.into_iter().map(|row| WebSource {
        url: row.url,
        title: row.title,
        snippet: row.content,
        published_at: row.published_date,
    });
    Ok(WebFound { sources: sources.collect(), answer: answer.answer, truncated: false })
}

#[derive(Deserialize)]
struct Answer {
    answer: Option<String>,
    results: Vec<Row>,
}

#[derive(Deserialize)]
struct Row {
    url: String,
    title: Option<String>,
    content: Option<String>,
    published_date: Option<String>,
}
