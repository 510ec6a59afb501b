//! The web over HTTP: pages as text and Markdown, searches through SearXNG, Brave or Tavily.
//!
//! Built by the composition root; creating [`HttpWeb`] does nothing, the first call builds its clients. A page is
//! never fetched from this machine or its network unless the settings name it (`address.rs`, `resolver.rs`).
//!
//! Source: `spec/tools-files-shell.md` §14, §15; product decisions, `web_fetch`, `web_search`.

mod address;
mod charset;
mod fetch;
#[cfg(test)]
mod fetch_tests;
mod http;
mod markdown;
mod resolver;
mod search;
#[cfg(test)]
mod testing;

pub use resolver::{Resolver, SystemResolver};
pub use search::{SearchKind, SearchSettings};

use address::AllowList;
use async_trait::async_trait;
use http::{Guarded, Outward};
use services::web::{FetchRequest, FetchedPage, Web, WebError, WebErrorKind, WebFound, WebSearchRequest};
use std::sync::Arc;
use std::time::Duration;

/// The name of the only way to fetch, for [`WebSettings::fetch_provider`].
const FETCH_PROVIDER: &str = "http";

/// The key of a search: its name, then the environment variable that may hold it; `None` when there is no key.
pub type Keys = Arc<dyn Fn(&str, &str) -> Option<String> + Send + Sync>;

/// What the web is made of.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct WebSettings {
    /// Hosts, addresses and CIDR ranges that may be fetched although they are private.
    pub allow_private: Vec<String>,
    /// The search of the configuration; `None` looks for one that has a key.
    pub search: Option<SearchSettings>,
    /// Name of the search to use, over the configuration.
    pub search_provider: Option<String>,
    /// Name of the way to fetch; only `http` exists.
    pub fetch_provider: Option<String>,
}

/// Bounds of one fetch. Source: `spec/tools-files-shell.md` §14.
#[derive(Clone, Copy, Debug)]
struct Limits {
    /// From the first connection to the last byte.
    timeout: Duration,
    /// Most bytes of a body, decompressed.
    max_bytes: usize,
    /// Most characters of a body.
    max_chars: usize,
}

impl Default for Limits {
    fn default() -> Self {
        Self { timeout: Duration::from_secs(30), max_bytes: 5_000_000, max_chars: 100_000 }
    }
}

/// Fetching and searching over HTTP.
pub struct HttpWeb {
    settings: WebSettings,
    keys: Keys,
    limits: Limits,
    allow: Arc<AllowList>,
    guarded: Guarded,
    outward: Outward,
}

impl HttpWeb {
    /// The web with the system's name resolution. Costs nothing until it is used.
    pub fn new(settings: WebSettings, keys: Keys) -> Self {
        Self::with_resolver(settings, keys, Arc::new(SystemResolver))
    }

    /// The web with another name resolution.
    pub fn with_resolver(settings: WebSettings, keys: Keys, resolver: Arc<dyn Resolver>) -> Self {
        let allow = Arc::new(AllowList::new(&settings.allow_private));
        Self {
            guarded: Guarded::new(resolver, allow.clone()),
            outward: Outward::default(),
            limits: Limits::default(),
            allow,
            keys,
            settings,
        }
    }

    #[cfg(test)]
    fn with_limits(mut self, limits: Limits) -> Self {
        self.limits = limits;
        self
    }
}

#[async_trait]
impl Web for HttpWeb {
    async fn fetch(&self, request: FetchRequest) -> Result<FetchedPage, WebError> {
        if let Some(other) = self.settings.fetch_provider.as_deref().filter(|name| *name != FETCH_PROVIDER) {
            return Err(WebError::new(
                WebErrorKind::ConfiguredMissing,
                format!("there is no way to fetch named {other:?}; the only one is {FETCH_PROVIDER:?}"),
            ));
        }
        fetch::fetch(&self.guarded, &self.allow, self.limits, &request.url).await
    }

    async fn search(&self, request: WebSearchRequest) -> Result<WebFound, WebError> {
        let endpoint = search::choose(&self.settings, &*self.keys)?;
        search::run(&self.outward, self.limits.timeout, &endpoint, &request).await
    }
}
