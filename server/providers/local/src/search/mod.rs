//! Searching the tree on the disk, in process and on several threads.
//!
//! [`LocalSearch`] is the `FileSearch` service. Walking never follows links, stops at once when cancelled or dropped,
//! and ends early, with a partial result, when its budget is spent.

mod glob;
mod grep;
mod line;
mod pattern;
mod stop;

use async_trait::async_trait;
use services::file_search::{FileSearch, GlobFound, GlobRequest, GrepFound, GrepRequest, SearchError};
use std::io::ErrorKind;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;
use stop::{Stop, StopOnDrop};
use tokio_util::sync::CancellationToken;

/// Folders of version control systems, never part of a listing.
const VERSION_CONTROL: [&str; 6] = [".git", ".svn", ".hg", ".bzr", ".jj", ".sl"];

/// When a search ends though the tree is not done.
#[derive(Clone, Copy, Debug)]
pub struct SearchBudget {
    /// Time of one search. Below the tools' own deadline, so that a partial result still arrives.
    pub time: Duration,
    /// Entries looked at.
    pub max_entries: u64,
}

impl Default for SearchBudget {
    fn default() -> Self {
        Self { time: Duration::from_secs(25), max_entries: 5_000_000 }
    }
}

/// Searches the disk.
#[derive(Clone, Debug, Default)]
pub struct LocalSearch {
    budget: SearchBudget,
}

impl LocalSearch {
    /// Searches within this budget.
    pub fn new(budget: SearchBudget) -> Self {
        Self { budget }
    }

    async fn run<T: Send + 'static>(
        &self,
        cancel: &CancellationToken,
        search: impl FnOnce(&Stop) -> Result<T, SearchError> + Send + 'static,
    ) -> Result<T, SearchError> {
        let stop = Arc::new(Stop::new(self.budget));
        let _stop_on_drop = StopOnDrop(stop.clone());
        let working = stop.clone();
        let mut search = tokio::task::spawn_blocking(move || search(&working));
        tokio::select! {
            biased;
            () = cancel.cancelled() => {
                stop.abort();
                // The walk notices between two entries, and within a file between two reads.
                let _ = search.await;
                Err(SearchError::Aborted)
            }
            found = &mut search => {
                found.unwrap_or_else(|error| Err(SearchError::Failed(format!("the search broke off: {error}"))))
            }
        }
    }
}

#[async_trait]
impl FileSearch for LocalSearch {
    async fn glob(&self, request: GlobRequest, cancel: &CancellationToken) -> Result<GlobFound, SearchError> {
        self.run(cancel, move |stop| glob::glob(&request, stop)).await
    }

    async fn grep(&self, request: GrepRequest, cancel: &CancellationToken) -> Result<GrepFound, SearchError> {
        self.run(cancel, move |stop| grep::grep(&request, stop)).await
    }
}

/// Threads of a walk. Two even on one core: they wait for the disk in turn.
fn n_threads() -> usize {
    std::thread::available_parallelism().map_or(2, |n| n.get().clamp(2, 12))
}

fn is_version_control(name: &std::ffi::OsStr) -> bool {
    VERSION_CONTROL.iter().any(|folder| name == *folder)
}

/// The failure for a root that cannot be searched.
fn unsearchable(root: &Path, error: &std::io::Error) -> SearchError {
    let root = root.display();
    SearchError::Failed(match error.kind() {
        ErrorKind::NotFound | ErrorKind::NotADirectory => format!("{root} does not exist"),
        _ => format!("cannot search {root}: {error}"),
    })
}

#[cfg(test)]
mod tests;
