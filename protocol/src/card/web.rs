//! The web card: search results, or a page that was fetched.

use serde::{Deserialize, Serialize};

/// What came from the web.
#[derive(Clone, Debug, PartialEq)]
pub enum WebResult {
    /// A search.
    Search(WebSearch),
    /// A page.
    Fetch(WebFetch),
}

/// The results of a web search.
#[derive(Clone, Debug, PartialEq)]
pub struct WebSearch {
    /// Replaces the pending title; `None` keeps it.
    pub title: Option<String>,
    /// Pages found, best first.
    pub sources: Vec<WebSource>,
    /// A direct answer of the provider; `None` when it gave none.
    pub answer: Option<String>,
    /// Whether sources were left out.
    pub truncated: bool,
}

/// A page that was fetched.
#[derive(Clone, Debug, PartialEq)]
pub struct WebFetch {
    /// Replaces the pending title; `None` keeps it.
    pub title: Option<String>,
    /// Address after redirects.
    pub url: String,
    /// HTTP status.
    pub status_code: u16,
    /// Whether the text the model read was cut, whatever the limit.
    pub truncated: bool,
}

/// One page found by a web search.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct WebSource {
    /// Address.
    pub url: String,
    /// Title; `None` when the provider gave none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub title: Option<String>,
    /// Excerpt; `None` when the provider gave none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub snippet: Option<String>,
    /// ISO 8601 time as the provider wrote it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub published_at: Option<String>,
}
