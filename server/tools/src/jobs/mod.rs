//! Background jobs: what they print, which there are, and how to stop one.
//!
//! A job is started by another tool, `bash` for instance; these only look after it. Source:
//! `spec/tools-files-shell.md` §12, `spec/tools-agentic.md` §13.

pub mod job_kill;
pub mod job_list;
pub mod job_output;

use crate::arguments::not_blank;
use crate::listed;
use pipeline::context::ToolContext;
use pipeline::tool::Tool;
use protocol::id::JobId;
use protocol::job::JobStatus;
use protocol::tool::ToolFailure;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use services::jobs::{JobInfo, Jobs};
use std::sync::Arc;

/// The family's tools, in order.
pub fn tools() -> Vec<Arc<dyn Tool>> {
    vec![listed(job_output::JobOutput), listed(job_list::JobList), listed(job_kill::JobKill)]
}

/// The session's jobs.
///
/// # Errors
/// A plain failure where there are none.
pub(crate) fn jobs(ctx: &ToolContext) -> Result<Arc<dyn Jobs>, ToolFailure> {
    let jobs = ctx.services().jobs.clone();
    jobs.ok_or_else(|| ToolFailure::plain("there are no background jobs in this session"))
}

fn job_id(id: &str) -> Result<JobId, ToolFailure> {
    not_blank("job_id", id)?;
    Ok(JobId::new(id))
}

/// A job.
#[derive(Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Job {
    /// Its id, `<kind>-<n>`.
    id: String,
    /// What kind of job.
    kind: String,
    /// What it is: a command, a task.
    label: String,
    /// How far it is.
    status: Status,
    /// More about its end.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    detail: Option<String>,
    /// Milliseconds since the Unix epoch.
    started_at: i64,
    /// Milliseconds since the Unix epoch; absent while it runs.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    finished_at: Option<i64>,
}

/// How far a job is.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum Status {
    Running,
    Stopping,
    Completed,
    Killed,
    Failed,
}

impl From<JobStatus> for Status {
    fn from(status: JobStatus) -> Self {
        match status {
            JobStatus::Running => Self::Running,
            JobStatus::Stopping => Self::Stopping,
            JobStatus::Completed => Self::Completed,
            JobStatus::Killed => Self::Killed,
            JobStatus::Failed => Self::Failed,
        }
    }
}

impl From<Status> for JobStatus {
    fn from(status: Status) -> Self {
        match status {
            Status::Running => Self::Running,
            Status::Stopping => Self::Stopping,
            Status::Completed => Self::Completed,
            Status::Killed => Self::Killed,
            Status::Failed => Self::Failed,
        }
    }
}

impl From<JobInfo> for Job {
    fn from(job: JobInfo) -> Self {
        Self {
            id: job.id.to_string(),
            kind: job.kind,
            label: job.label,
            status: job.status.into(),
            detail: job.detail,
            started_at: job.started_at,
            finished_at: job.finished_at,
        }
    }
}

impl Job {
    fn status_id(&self) -> &'static str {
        JobStatus::from(self.status).id()
    }

    fn status_line(&self) -> String {
        match &self.detail {
            Some(detail) => format!("[status: {}, {detail}]", self.status_id()),
            None => format!("[status: {}]", self.status_id()),
        }
    }
}

/// A label on one line.
fn one_line(label: &str) -> String {
    let mut lines = label.trim().lines();
    let first = lines.next().unwrap_or_default();
    if lines.next().is_some() { format!("{first} …") } else { first.to_owned() }
}
