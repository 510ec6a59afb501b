//! Searches with scripted results.

use super::Script;
use crate::file_search::{FileSearch, GlobFound, GlobRequest, GrepFound, GrepRequest, SearchError};
use async_trait::async_trait;
use tokio_util::sync::CancellationToken;

/// Answers searches from a script; a search beyond it finds nothing, a cancelled one is aborted.
#[derive(Default)]
pub struct FakeSearch {
    globs: Script<GlobRequest, Result<GlobFound, SearchError>>,
    greps: Script<GrepRequest, Result<GrepFound, SearchError>>,
}

impl FakeSearch {
    /// Adds the result of a search for paths.
    pub fn glob_result(&self, result: Result<GlobFound, SearchError>) {
        self.globs.push(result);
    }

    /// Adds the result of a search for lines.
    pub fn grep_result(&self, result: Result<GrepFound, SearchError>) {
        self.greps.push(result);
    }

    /// Every search for paths that was made.
    pub fn globs(&self) -> Vec<GlobRequest> {
        self.globs.asked()
    }

    /// Every search for lines that was made.
    pub fn greps(&self) -> Vec<GrepRequest> {
        self.greps.asked()
    }
}

#[async_trait]
impl FileSearch for FakeSearch {
    async fn glob(&self, request: GlobRequest, cancel: &CancellationToken) -> Result<GlobFound, SearchError> {
        let result = self.globs.ask(request);
        if cancel.is_cancelled() {
            return Err(SearchError::Aborted);
        }
        result.unwrap_or_else(|| Ok(GlobFound::default()))
    }

    async fn grep(&self, request: GrepRequest, cancel: &CancellationToken) -> Result<GrepFound, SearchError> {
        let result = self.greps.ask(request);
        if cancel.is_cancelled() {
            return Err(SearchError::Aborted);
        }
        result.unwrap_or_else(|| Ok(GrepFound::default()))
    }
}
