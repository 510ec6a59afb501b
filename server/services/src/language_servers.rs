//! Knowing code by meaning: definitions, references, implementations, hover, from real language servers.
//!
//! Called by the `lsp` tool; implemented by `provider-lsp`. Positions here are 0-based and columns count UTF-16 units,
//! whatever a server counts in. Source: `spec/tools-files-shell.md` §13; product decisions, "characters".

use async_trait::async_trait;
use protocol::tool::ToolFailure;
use std::path::{Path, PathBuf};
use tokio_util::sync::CancellationToken;

/// The language servers of one session. Servers start with the first query that needs them, and are shared by the
/// sessions of a connection.
#[async_trait]
pub trait LanguageServers: Send + Sync {
    /// Asks the server of the file's language about a place in the present text.
    ///
    /// On cancellation the server is told, and the query returns at once. Every wait inside has its own budget.
    ///
    /// # Errors
    /// [`LspError`]; one about a server names the server, the reason and the remedy.
    async fn query(&self, query: LspQuery, cancel: &CancellationToken) -> Result<LspAnswer, LspError>;

    /// Tells that we wrote this file (real path). Never waits, never starts a server.
    fn file_changed(&self, path: &Path);
}

/// What is asked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LspOperation {
    /// Where the symbol is defined.
    GoToDefinition,
    /// Where it is used, its declaration included.
    FindReferences,
    /// What implements it.
    GoToImplementation,
    /// Its type and documentation.
    Hover,
}

impl LspOperation {
    /// The name the model uses.
    pub fn id(self) -> &'static str {
        match self {
            Self::GoToDefinition => "goToDefinition",
            Self::FindReferences => "findReferences",
            Self::GoToImplementation => "goToImplementation",
            Self::Hover => "hover",
        }
    }
}

/// One question.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LspQuery {
    /// What is asked.
    pub operation: LspOperation,
    /// Real path of the file.
    pub path: PathBuf,
    /// Its present text, unsaved changes of the editor included.
    pub text: String,
    /// The place.
    pub position: LspPosition,
}

/// A place in a text: both numbers from 0, the column in UTF-16 units.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct LspPosition {
    /// Line from 0.
    pub line: u32,
    /// UTF-16 column from 0.
    pub character: u32,
}

/// A span of a text; the end is behind the last character.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LspRange {
    /// First character.
    pub start: LspPosition,
    /// Behind the last character.
    pub end: LspPosition,
}

/// What a server answered.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LspAnswer {
    /// What it found.
    pub found: LspFound,
    /// The real folder that paths are relative to: the session's folder.
    pub workspace: PathBuf,
    /// Name of the server.
    pub server: String,
    /// Whether the server had not finished loading, so that the answer may be incomplete.
    pub is_loading: bool,
    /// What the server says is wrong with the project, so that the answer may be less than it could be; `None` when
    /// nothing is.
    pub warning: Option<String>,
    /// Why the answer was found only by name, from the syntax tree, and what would mend that; `None` for one by meaning.
    pub by_name: Option<String>,
}

/// What was found.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum LspFound {
    /// Places, in the server's order.
    Locations(Vec<LspLocation>),
    /// Type and documentation; `None` when there is none.
    Hover(Option<LspHover>),
}

/// A place in some file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LspLocation {
    /// Address as the server gave it.
    pub uri: String,
    /// The file; `None` when the address is none of a file.
    pub path: Option<PathBuf>,
    /// Where in it.
    pub range: LspRange,
    /// Text of the first line of the range, without its end; `None` when the file could not be read.
    pub line_text: Option<String>,
}

/// Type and documentation of a symbol.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LspHover {
    /// Markdown.
    pub contents: String,
    /// What it is about.
    pub range: Option<LspRange>,
}

/// Why a question got no answer. Codes are the seed's, where it has one.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{message}")]
pub struct LspError {
    /// What kind of failure.
    pub kind: LspErrorKind,
    /// Server, reason and remedy.
    pub message: String,
}

/// Kinds of failures.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LspErrorKind {
    /// No server for this file, or it does not start, or it died.
    Unavailable,
    /// The file lies outside the session's folders.
    WorkspaceRequired,
    /// The server cannot do this.
    UnsupportedOperation,
    /// The server answered what is no answer.
    MalformedResponse,
    /// The server answered with an error.
    RequestFailed,
    /// The server did not answer in time.
    Timeout,
    /// The place is not in the text.
    InvalidPosition,
    /// The connection ends.
    Disposed,
    /// Cancelled.
    Aborted,
}

impl LspErrorKind {
    /// The code the model's failure carries; `None` for a plain one.
    pub fn code(self) -> Option<&'static str> {
        match self {
            Self::Unavailable => Some("LSP_UNAVAILABLE"),
            Self::WorkspaceRequired => Some("LSP_WORKSPACE_REQUIRED"),
            Self::UnsupportedOperation => Some("LSP_UNSUPPORTED_OPERATION"),
            Self::MalformedResponse => Some("LSP_MALFORMED_RESPONSE"),
            Self::RequestFailed => Some("LSP_REQUEST_FAILED"),
            Self::Timeout => Some("LSP_TIMEOUT"),
            Self::InvalidPosition => None,
            Self::Disposed => Some("LSP_DISPOSED"),
            Self::Aborted => Some("LSP_ABORTED"),
        }
    }
}

impl LspError {
    /// A failure of this kind.
    pub fn new(kind: LspErrorKind, message: impl Into<String>) -> Self {
        Self { kind, message: message.into() }
    }
}

impl From<LspError> for ToolFailure {
    fn from(error: LspError) -> Self {
        match error.kind.code() {
            Some(code) => Self::coded("LspError", code, error.message),
            None => Self::plain(error.message),
        }
    }
}
