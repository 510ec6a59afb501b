//! Background jobs of one session: work that goes on after the call that started it.

use async_trait::async_trait;
use futures::future::BoxFuture;
use protocol::id::{CallId, JobId};
use protocol::job::JobStatus;
use protocol::tool::ToolFailure;
use std::sync::Arc;
use std::time::Duration;
use tokio_util::sync::CancellationToken;

/// Most jobs of a session that run or stop at a time. Source: `spec/runtime.md` §11.
pub const MAX_ACTIVE_JOBS: usize = 10;
/// Most lasting terminals of a session that are open at a time; they are counted apart from all other jobs.
pub const MAX_OPEN_TERMINALS: usize = 50;
/// Kind of the jobs that stand for lasting terminals.
pub const TERMINAL_KIND: &str = "terminal";

/// Whether one more job of this kind may start beside those that are `active`, told by their kinds.
///
/// # Errors
/// [`JobError::TooMany`], [`JobError::TooManyTerminals`].
pub fn check_room<'a>(kind: &str, active: impl Iterator<Item = &'a str>) -> Result<(), JobError> {
    let is_terminal = kind == TERMINAL_KIND;
    let n_alike = active.filter(|other| (*other == TERMINAL_KIND) == is_terminal).count();
    match is_terminal {
        true if n_alike >= MAX_OPEN_TERMINALS => Err(JobError::TooManyTerminals),
        false if n_alike >= MAX_ACTIVE_JOBS => Err(JobError::TooMany),
        _ => Ok(()),
    }
}

/// The jobs of one session; nobody else sees them. They end with the session at the latest.
#[async_trait]
pub trait Jobs: Send + Sync {
    /// Starts a job and returns its id, `<kind>-<n>`. It does not end with the call or the turn that started it.
    ///
    /// # Errors
    /// [`JobError::TooMany`], [`JobError::TooManyTerminals`], [`JobError::Closed`]; nothing was started.
    fn start(&self, job: NewJob) -> Result<JobId, JobError>;

    /// Every job that is still known, in the order of their starts.
    fn list(&self) -> Vec<JobInfo>;

    /// Takes what a job has printed since the last read. Reading a settled job counts as having been told its end.
    ///
    /// # Errors
    /// [`JobError::Unknown`].
    fn read(&self, id: &JobId) -> Result<JobReading, JobError>;

    /// Waits until a job has settled. The future may be dropped; the job goes on.
    ///
    /// # Errors
    /// [`JobError::Unknown`].
    async fn settled(&self, id: &JobId) -> Result<(), JobError>;

    /// Asks a job to stop and returns at once. Nobody is told its end then.
    ///
    /// # Errors
    /// [`JobError::Unknown`].
    fn kill(&self, id: &JobId) -> Result<JobKill, JobError>;
}

/// A job to start.
pub struct NewJob {
    /// What kind of job, for instance `bash`; the first part of its id.
    pub kind: String,
    /// What it is, for people and the model: a command, a task.
    pub label: String,
    /// The call whose card shows it.
    pub call_id: CallId,
    /// Most bytes of one text about the job that the model reads; `None` has no bound of its own.
    pub max_output_bytes: Option<usize>,
    /// Where its output is read.
    pub output: Arc<dyn JobOutput>,
    /// Does the work.
    pub work: JobWork,
}

/// The work of a job: ends when its token is cancelled, and only after it let go of everything.
pub type JobWork = Box<dyn FnOnce(CancellationToken) -> BoxFuture<'static, JobEnd> + Send>;

/// What a job printed.
pub trait JobOutput: Send + Sync {
    /// Takes what came since the last read. A job with nothing but a final output gives it at every read.
    fn read(&self) -> String;

    /// The end of all it printed, of bounded size, and how many bytes stand before it; for people.
    fn tail(&self) -> (String, u64);
}

/// Most bytes of a text that [`text_tail`] gives.
const MAX_TAIL_BYTES: usize = 8 << 10;

/// What [`JobOutput::tail`] gives of a text that is known as a whole.
pub fn text_tail(text: &str) -> (String, u64) {
    let start = text.ceil_char_boundary(text.len().saturating_sub(MAX_TAIL_BYTES));
    (text[start..].to_owned(), start as u64)
}

/// How a job ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct JobEnd {
    /// A settled status.
    pub status: JobStatus,
    /// More about it, for instance `exit code: 0`.
    pub detail: Option<String>,
}

impl JobEnd {
    /// An end with more about it.
    pub fn new(status: JobStatus, detail: impl Into<Option<String>>) -> Self {
        Self { status, detail: detail.into() }
    }
}

/// A job as it is told.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct JobInfo {
    /// The job.
    pub id: JobId,
    /// What kind of job.
    pub kind: String,
    /// What it is.
    pub label: String,
    /// How far it is.
    pub status: JobStatus,
    /// More about the end.
    pub detail: Option<String>,
    /// Milliseconds since the Unix epoch.
    pub started_at: i64,
    /// Milliseconds since the Unix epoch; `None` while it runs.
    pub finished_at: Option<i64>,
}

impl JobInfo {
    /// The line that says how far it is: `[status: completed, exit code: 0]`.
    pub fn status_line(&self) -> String {
        match &self.detail {
            Some(detail) => format!("[status: {}, {detail}]", self.status),
            None => format!("[status: {}]", self.status),
        }
    }
}

/// What one read gave.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct JobReading {
    /// What came since the last read.
    pub text: String,
    /// The job after it.
    pub job: JobInfo,
    /// Most bytes of the text that the model reads.
    pub max_output_bytes: Option<usize>,
}

/// What a kill did.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum JobKill {
    /// It was asked to stop.
    Requested(JobInfo),
    /// It had ended already.
    Finished(JobInfo),
}

/// Why nothing was done.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum JobError {
    /// There is no such job in this session.
    #[error(
        "there is no job `{0}` in this session; job_list names those there are (jobs end with their session)"
    )]
    Unknown(JobId),
    /// Too many run.
    #[error("{MAX_ACTIVE_JOBS} background jobs run already; stop one with job_kill or wait for one to end")]
    TooMany,
    /// Too many terminals are open.
    #[error("{MAX_OPEN_TERMINALS} terminals are open already; close one with terminal_close")]
    TooManyTerminals,
    /// The session ends.
    #[error("the session is closing; no job can be started")]
    Closed,
}

impl From<JobError> for ToolFailure {
    fn from(error: JobError) -> Self {
        Self::plain(error.to_string())
    }
}

/// A budget for a command that has none: longer than any machine runs.
pub const NO_TIMEOUT: Duration = Duration::from_secs(10 * 365 * 24 * 60 * 60);
