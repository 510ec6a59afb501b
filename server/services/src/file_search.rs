//! Searching the tree: paths by pattern, lines by regular expression. Always on the disk.

use async_trait::async_trait;
use protocol::tool::ToolFailure;
use std::path::PathBuf;
use tokio_util::sync::CancellationToken;

/// Paths and lines of a tree, by ripgrep's rules.
#[async_trait]
pub trait FileSearch: Send + Sync {
    /// Every file that matches, newest modification first, ties by path.
    ///
    /// # Errors
    /// [`SearchError`].
    async fn glob(&self, request: GlobRequest, cancel: &CancellationToken) -> Result<GlobFound, SearchError>;

    /// Every line that matches, by path and line.
    ///
    /// # Errors
    /// [`SearchError`].
    async fn grep(&self, request: GrepRequest, cancel: &CancellationToken) -> Result<GrepFound, SearchError>;
}

/// Files by pattern. Hidden and ignored files are included, version-control folders are not.
#[derive(Clone, Debug)]
pub struct GlobRequest {
    /// Pattern; one without `/` matches base names at any depth, one with `/` is anchored at `root`.
    pub pattern: String,
    /// Folder to search, absolute.
    pub root: PathBuf,
}

/// Files found.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct GlobFound {
    /// Absolute paths, newest modification first, ties by path.
    pub paths: Vec<PathBuf>,
    /// Folders that could not be read.
    pub n_unreadable: u64,
    /// Whether the budget ended the search before the tree was done.
    pub partial: bool,
}

/// Lines by regular expression.
#[derive(Clone, Debug)]
pub struct GrepRequest {
    /// Regular expression in ripgrep's syntax.
    pub pattern: String,
    /// File or folder to search, absolute.
    pub root: PathBuf,
    /// Positive glob for file names; `None` takes all.
    pub include: Option<String>,
    /// Whether ignored, hidden and binary files are searched too: true when the caller named `root` itself.
    pub search_ignored: bool,
    /// Longest line kept; of a longer one the window round the match is kept. Bytes.
    pub max_line_bytes: usize,
    /// Cap on all bytes kept; beyond it the search fails with [`SearchError::Overflow`].
    pub max_total_bytes: usize,
}

/// Lines found.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct GrepFound {
    /// In path order, then line order.
    pub matches: Vec<GrepMatch>,
    /// Folders and files that could not be read.
    pub n_unreadable: u64,
    /// Whether the budget ended the search before the tree was done.
    pub partial: bool,
}

/// One line found.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct GrepMatch {
    /// Absolute path.
    pub path: PathBuf,
    /// 1-based line.
    pub line_number: u64,
    /// The line without its end, or the window round the match with `…` on the cut sides and a note.
    pub line: String,
}

/// Why a search did not happen.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum SearchError {
    /// The pattern or glob does not parse.
    #[error("{0}")]
    InvalidPattern(String),
    /// The folder is missing or not readable, or the search broke.
    #[error("{0}")]
    Failed(String),
    /// Too much was found.
    #[error(
        "the search found more than {max_bytes} bytes of results; narrow the pattern, the path or the include glob"
    )]
    Overflow {
        /// The cap.
        max_bytes: usize,
    },
    /// Cancelled or out of time.
    #[error("the search was stopped before it was done")]
    Aborted,
}

impl From<SearchError> for ToolFailure {
    fn from(error: SearchError) -> Self {
        let code = match error {
            SearchError::InvalidPattern(_) => "SEARCH_INVALID_PATTERN",
            SearchError::Failed(_) => "SEARCH_FAILED",
            SearchError::Overflow { .. } => "SEARCH_RAW_OUTPUT_OVERFLOW",
            SearchError::Aborted => "SEARCH_ABORTED",
        };
        Self::coded("SearchError", code, error.to_string())
    }
}
