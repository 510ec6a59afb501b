//! The web: one page by its address, pages by a search.
//!
//! Called by the web tools. Implementations keep this machine and its network out of a page's reach, bound everything
//! they return, and build nothing before the first call.

use async_trait::async_trait;
use protocol::card::WebSource;
use protocol::tool::ToolFailure;

/// Fetching and searching. The seed's web seam.
#[async_trait]
pub trait Web: Send + Sync {
    /// Gets a page as text. A status that is no success is a page too.
    ///
    /// # Errors
    /// [`WebError`].
    ///
    /// # Cancellation
    /// Dropping the future closes the connection.
    async fn fetch(&self, request: FetchRequest) -> Result<FetchedPage, WebError>;

    /// Finds pages.
    ///
    /// # Errors
    /// [`WebError`].
    ///
    /// # Cancellation
    /// Dropping the future closes the connection.
    async fn search(&self, request: WebSearchRequest) -> Result<WebFound, WebError>;
}

/// A page to get.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FetchRequest {
    /// Its address, as the model wrote it.
    pub url: String,
}

/// A page.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FetchedPage {
    /// Address after redirects.
    pub url: String,
    /// HTTP status.
    pub status_code: u16,
    /// What stands at the beginning of it.
    pub body: PageBody,
    /// Whether the page goes on after `body`.
    pub truncated: bool,
}

/// The text of a page.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum PageBody {
    /// A web page.
    Html {
        /// The source, decoded.
        source: String,
        /// The same as Markdown; `None` when it does not convert, for instance because it nests too deeply.
        markdown: Option<String>,
    },
    /// Any other text.
    Text(String),
}

/// A search for pages.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WebSearchRequest {
    /// What is searched for; not blank.
    pub query: String,
    /// How many sources are asked for, at least 1. More may come.
    pub max_sources: usize,
}

/// Pages that were found.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct WebFound {
    /// A direct answer; `None` when the provider gave none.
    pub answer: Option<String>,
    /// Best first, each address once.
    pub sources: Vec<WebSource>,
    /// Whether something was left out.
    pub truncated: bool,
}

/// What kind of failure it is; each has its code.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WebErrorKind {
    /// No address of a web page.
    InvalidUrl,
    /// An address that must not be reached.
    BlockedUrl,
    /// A redirect that is not followed.
    RedirectBlocked,
    /// The page says that it is over the limit.
    TooLarge,
    /// Not text, or in an unknown encoding.
    UnsupportedContentType,
    /// The server took too long.
    Timeout,
    /// Cancelled.
    Aborted,
    /// The network or the other side failed.
    Provider,
    /// Nothing is set up.
    Unavailable,
    /// Several are usable and none is chosen.
    Ambiguous,
    /// The chosen one does not exist.
    ConfiguredMissing,
    /// The chosen one cannot be used.
    ConfiguredUnavailable,
}

impl WebErrorKind {
    /// The code on the result. Source: `spec/tools-files-shell.md` §14.
    pub fn code(self) -> &'static str {
        match self {
            Self::InvalidUrl => "WEB_INVALID_URL",
            Self::BlockedUrl => "WEB_BLOCKED_URL",
            Self::RedirectBlocked => "WEB_REDIRECT_BLOCKED",
            Self::TooLarge => "WEB_FETCH_TOO_LARGE",
            Self::UnsupportedContentType => "WEB_UNSUPPORTED_CONTENT_TYPE",
            Self::Timeout => "WEB_FETCH_TIMEOUT",
            Self::Aborted => "WEB_ABORTED",
            Self::Provider => "WEB_PROVIDER_ERROR",
            Self::Unavailable => "WEB_PROVIDER_UNAVAILABLE",
            Self::Ambiguous => "WEB_PROVIDER_AMBIGUOUS",
            Self::ConfiguredMissing => "WEB_PROVIDER_CONFIGURED_MISSING",
            Self::ConfiguredUnavailable => "WEB_PROVIDER_CONFIGURED_UNAVAILABLE",
        }
    }
}

/// Why there is no page or no search.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{message}")]
pub struct WebError {
    /// What kind of failure it is.
    pub kind: WebErrorKind,
    /// The fact and the next move, without a key in it.
    pub message: String,
}

impl WebError {
    /// A failure of this kind.
    pub fn new(kind: WebErrorKind, message: impl Into<String>) -> Self {
        Self { kind, message: message.into() }
    }
}

impl From<WebError> for ToolFailure {
    fn from(error: WebError) -> Self {
        Self::coded("WebError", error.kind.code(), error.message)
    }
}
