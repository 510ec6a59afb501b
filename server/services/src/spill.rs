//! Where oversized output goes.

use async_trait::async_trait;
use protocol::id::{CallId, SessionId};
use std::path::PathBuf;

/// Keeps whole texts that are too large for a result. Source: `spec/tools-files-shell.md` §0.5.
#[async_trait]
pub trait Spill: Send + Sync {
    /// Saves a whole text owner-only and returns where the model finds it.
    ///
    /// # Errors
    /// The disk refused. Callers keep the text inline and say so; a failed spill never fails a call.
    async fn save_text(&self, request: SpillRequest) -> std::io::Result<Spilled>;

    /// The session's private folder for spilled files, created on first use, mode 0700.
    ///
    /// # Errors
    /// The disk refused.
    async fn directory(&self, session_id: &SessionId) -> std::io::Result<PathBuf>;
}

/// A text to keep.
#[derive(Clone, Debug)]
pub struct SpillRequest {
    /// Session it belongs to.
    pub session_id: SessionId,
    /// Call it comes from.
    pub call_id: CallId,
    /// Suggested file name, for instance `grep-results.txt`.
    pub suggested_name: String,
    /// The whole text.
    pub content: String,
}

/// A text that was kept.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Spilled {
    /// Absolute path of the file.
    pub path: PathBuf,
    /// Its size.
    pub bytes: u64,
    /// One sentence: how the model gets at it.
    pub retrieval_hint: String,
}
