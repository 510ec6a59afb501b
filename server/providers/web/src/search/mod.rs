//! Searching the web: which endpoint, one request, its answer as sources.
//!
//! One file a wire format; each builds its request and reads its answer. A key goes to the endpoint it belongs to and
//! nowhere else.

mod brave;
mod searxng;
mod tavily;
#[cfg(test)]
mod tests;

use crate::http::{Outward, failed, read_body};
use protocol::card::WebSource;
use reqwest::header::{ACCEPT, AUTHORIZATION, HeaderValue};
use reqwest::{RequestBuilder, StatusCode, Url};
use services::web::{WebError, WebErrorKind, WebFound, WebSearchRequest};
use std::collections::HashSet;
use std::time::Duration;

/// Most bytes of an answer.
const MAX_ANSWER_BYTES: usize = 5_000_000;
/// Bounds of what one source may say, in characters; an address beyond its bound is left out.
const MAX_URL_CHARS: usize = 2048;
const MAX_TITLE_CHARS: usize = 300;
const MAX_SNIPPET_CHARS: usize = 1000;
const MAX_DIRECT_ANSWER_CHARS: usize = 10_000;

/// What a search endpoint speaks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SearchKind {
    /// A SearXNG instance with its JSON format on.
    Searxng,
    /// Brave Search.
    Brave,
    /// Tavily.
    Tavily,
}

impl SearchKind {
    const ALL: [Self; 3] = [Self::Searxng, Self::Brave, Self::Tavily];

    /// Its name in the configuration.
    pub fn id(self) -> &'static str {
        match self {
            Self::Searxng => "searxng",
            Self::Brave => "brave",
            Self::Tavily => "tavily",
        }
    }

    /// The usual variable of its key.
    fn key_variable(self) -> &'static str {
        match self {
            Self::Searxng => "SEARXNG_API_KEY",
            Self::Brave => "BRAVE_API_KEY",
            Self::Tavily => "TAVILY_API_KEY",
        }
    }

    fn needs_key(self) -> bool {
        self != Self::Searxng
    }

    /// The public endpoint; `None` when everybody runs their own.
    fn public_url(self) -> Option<&'static str> {
        match self {
            Self::Searxng => None,
            Self::Brave => Some("https://api.search.brave.com"),
            Self::Tavily => Some("https://api.tavily.com"),
        }
    }

    /// The path below an address that has none.
    fn path(self) -> &'static str {
        match self {
            Self::Searxng | Self::Tavily => "/search",
            Self::Brave => "/res/v1/web/search",
        }
    }
}

/// `[web.search]`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SearchSettings {
    /// What the endpoint speaks.
    pub kind: SearchKind,
    /// Its address; `None` is the public one, which SearXNG has not.
    pub url: Option<String>,
    /// Environment variable that may hold its key; `None` is the usual one of its kind.
    pub api_key_env: Option<String>,
}

/// Where to search, ready to be asked.
pub(crate) struct Endpoint {
    kind: SearchKind,
    url: Url,
    /// Printed nowhere.
    key: Option<String>,
    key_variable: String,
}

/// The endpoint that the settings and the keys name. Source: `spec/tools-files-shell.md` §14, "Provider selection".
///
/// # Errors
/// `Unavailable`, `Ambiguous`, `ConfiguredMissing`, `ConfiguredUnavailable`.
pub(crate) fn choose(
    settings: &crate::WebSettings,
    keys: &dyn Fn(&str, &str) -> Option<String>,
) -> Result<Endpoint, WebError> {
    let of_kind = |kind: SearchKind| {
        let configured = settings.search.clone().filter(|search| search.kind == kind);
        configured.unwrap_or(SearchSettings { kind, url: None, api_key_env: None })
    };
    let named = match &settings.search_provider {
        None => settings.search.clone(),
        Some(name) => {
            let kind = SearchKind::ALL.into_iter().find(|kind| kind.id() == name);
            Some(of_kind(kind.ok_or_else(|| {
                let known = SearchKind::ALL.map(SearchKind::id).join(", ");
                WebError::new(
                    WebErrorKind::ConfiguredMissing,
                    format!("there is no web search named {name:?}; there are {known}"),
                )
            })?))
        }
    };
    if let Some(named) = named {
        return endpoint(&named, keys)
            .map_err(|message| WebError::new(WebErrorKind::ConfiguredUnavailable, message));
    }
    let mut usable: Vec<Endpoint> =
        SearchKind::ALL.into_iter().filter_map(|kind| endpoint(&of_kind(kind), keys).ok()).collect();
    match (usable.pop(), usable.is_empty()) {
        (Some(only), true) => Ok(only),
        (Some(_), false) => Err(WebError::new(
            WebErrorKind::Ambiguous,
            "keys of several web searches are set and none is chosen; the user chooses with provider in [web.search]",
        )),
        (None, _) => Err(unavailable()),
    }
}

/// Nothing is set up.
fn unavailable() -> WebError {
    WebError::new(
        WebErrorKind::Unavailable,
        "no web search is set up. The user can name one under [web.search] in the configuration, set BRAVE_API_KEY \
         or TAVILY_API_KEY, or store a key with `followspot login brave` or `followspot login tavily`. Pages whose address is known can be fetched.",
    )
}

/// # Errors
/// What it lacks.
fn endpoint(
    settings: &SearchSettings,
    keys: &dyn Fn(&str, &str) -> Option<String>,
) -> Result<Endpoint, String> {
    let SearchSettings { kind, url, api_key_env } = settings;
    let name = kind.id();
    let address = url
        .as_deref()
        .or_else(|| kind.public_url())
        .ok_or_else(|| format!("the web search {name} needs url in [web.search]"))?;
    let mut url =
        Url::parse(address).map_err(|error| format!("the url of the web search {name} is none: {error}"))?;
    let path = url.path().trim_end_matches('/').to_owned();
    // A SearXNG instance may live below a path; the others' addresses with a path are whole.
    if path.is_empty() || (*kind == SearchKind::Searxng && !path.ends_with("/search")) {
        url.set_path(&format!("{path}{}", kind.path()));
    }
    let key_variable = api_key_env.clone().unwrap_or_else(|| kind.key_variable().to_owned());
    let key = keys(name, &key_variable).map(|key| key.trim().to_owned()).filter(|key| !key.is_empty());
    if kind.needs_key() && key.is_none() {
        return Err(format!(
            "the web search {name} has no key; the user stores it with `followspot login {name}`, or sets {key_variable} in \
             the environment"
        ));
    }
    Ok(Endpoint { kind: *kind, url, key, key_variable })
}

/// One search.
///
/// # Errors
/// As [`services::web::Web::search`].
pub(crate) async fn run(
    http: &Outward,
    timeout: Duration,
    endpoint: &Endpoint,
    request: &WebSearchRequest,
) -> Result<WebFound, WebError> {
    let name = endpoint.kind.id();
    let client = http.client(is_loopback(&endpoint.url))?;
    let built = match endpoint.kind {
        SearchKind::Searxng => searxng::request(client, endpoint, request),
        SearchKind::Brave => brave::request(client, endpoint, request),
        SearchKind::Tavily => tavily::request(client, endpoint, request),
    };
    let provider_error = |message: String| WebError::new(WebErrorKind::Provider, message);
    let asked = async {
        let sent = built.header(ACCEPT, "application/json").send().await;
        let response = sent.map_err(|error| failed(name, &error))?;
        let status = response.status();
        if !status.is_success() {
            return Err(provider_error(refused(endpoint, status)));
        }
        let (body, is_cut) =
            read_body(response, MAX_ANSWER_BYTES).await.map_err(|error| failed(name, &error))?;
        if is_cut {
            return Err(provider_error(format!("the answer of {name} is over {MAX_ANSWER_BYTES} bytes")));
        }
        Ok(body)
    };
    let body = tokio::time::timeout(timeout, asked)
        .await
        .map_err(|_| provider_error(format!("{name} did not answer within {} s", timeout.as_secs_f32())))??;
    let found = match endpoint.kind {
        SearchKind::Searxng => searxng::found(&body),
        SearchKind::Brave => brave::found(&body),
        SearchKind::Tavily => tavily::found(&body),
    };
    let found =
        found.map_err(|error| provider_error(format!("the answer of {name} cannot be read: {error}")))?;
    Ok(bounded(found))
}

/// What a status other than success means, with what the user can do.
fn refused(endpoint: &Endpoint, status: StatusCode) -> String {
    let name = endpoint.kind.id();
    let hint = match (endpoint.kind, status.as_u16()) {
        (SearchKind::Searxng, 403) => "; its settings must list json under search.formats".to_owned(),
        (_, 401 | 403) => format!("; its key, stored or in {}, is not accepted", endpoint.key_variable),
        (_, 429) => "; too many searches, try again later".to_owned(),
        (_, 402 | 432 | 433) => "; the plan of this key is used up".to_owned(),
        (_, 300..=399) => "; the configured url is not where it lives".to_owned(),
        _ => String::new(),
    };
    format!("{name} answered HTTP {}{hint}", status.as_u16())
}

fn is_loopback(url: &Url) -> bool {
    let host = url.host_str().unwrap_or_default().trim_matches(['[', ']']);
    host == "localhost" || host.parse::<std::net::IpAddr>().is_ok_and(|address| address.is_loopback())
}

/// A key as a header value that no log shows; a key with control characters is none.
fn secret(value: &str) -> Option<HeaderValue> {
    let mut value = HeaderValue::from_str(value).ok()?;
    value.set_sensitive(true);
    Some(value)
}

/// The request with the key as a bearer token, if there is one.
fn with_bearer(request: RequestBuilder, endpoint: &Endpoint) -> RequestBuilder {
    match endpoint.key.as_deref().and_then(|key| secret(&format!("Bearer {key}"))) {
        Some(value) => request.header(AUTHORIZATION, value),
        None => request,
    }
}

/// What was found, each address once and nothing over its bound.
fn bounded(found: WebFound) -> WebFound {
    let mut seen = HashSet::new();
    let sources = found.sources.into_iter().filter_map(|source| {
        let is_good = matches!(Url::parse(&source.url), Ok(url) if matches!(url.scheme(), "http" | "https"))
            && source.url.chars().count() <= MAX_URL_CHARS
            && seen.insert(source.url.clone());
        is_good.then(|| WebSource {
            url: source.url,
            title: source.title.and_then(|text| line(&text, MAX_TITLE_CHARS)),
            snippet: source.snippet.and_then(|text| line(&text, MAX_SNIPPET_CHARS)),
            published_at: source.published_at.and_then(|text| line(&text, 64)),
        })
    });
    WebFound {
        sources: sources.collect(),
        answer: found
            .answer
            .map(|text| cut(text.trim(), MAX_DIRECT_ANSWER_CHARS))
            .filter(|text| !text.is_empty()),
        truncated: found.truncated,
    }
}

/// One line of a text, white space joined; `None` for a blank one.
fn line(text: &str, max_chars: usize) -> Option<String> {
    let joined = text.split_whitespace().collect::<Vec<_>>().join(" ");
    (!joined.is_empty()).then(|| cut(&joined, max_chars))
}

fn cut(text: &str, max_chars: usize) -> String {
    match text.char_indices().nth(max_chars) {
        Some((end, _)) => format!("{}…", &text[..end]),
        None => text.to_owned(),
    }
}
