//! A *job*: work that goes on after the call that started it has ended.

use serde::{Deserialize, Serialize};
use std::fmt;

/// How far a job is. Source: `spec/runtime.md` §11.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum JobStatus {
    /// It runs.
    Running,
    /// It was told to stop and has not ended yet.
    Stopping,
    /// It ended by itself.
    Completed,
    /// It was stopped.
    Killed,
    /// It could not do its work.
    Failed,
}

impl JobStatus {
    /// Whether nothing more happens.
    pub fn is_settled(self) -> bool {
        matches!(self, Self::Completed | Self::Killed | Self::Failed)
    }

    /// The word for it.
    pub fn id(self) -> &'static str {
        match self {
            Self::Running => "running",
            Self::Stopping => "stopping",
            Self::Completed => "completed",
            Self::Killed => "killed",
            Self::Failed => "failed",
        }
    }
}

impl fmt::Display for JobStatus {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.id())
    }
}
