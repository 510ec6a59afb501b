//! Background jobs that do their work when a test lets them.

use super::lock;
use crate::jobs::{
    JobEnd, JobError, JobInfo, JobKill, JobOutput, JobReading, JobWork, Jobs, NewJob, check_room,
};
use async_trait::async_trait;
use protocol::id::JobId;
use protocol::job::JobStatus;
use std::collections::HashMap;
use std::sync::{Arc, Mutex};
use tokio_util::sync::CancellationToken;

/// Jobs that stand still until they are waited for ([`Jobs::settled`]), which runs their work to its end.
#[derive(Default)]
pub struct FakeJobs {
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    jobs: Vec<FakeJob>,
    counts: HashMap<String, usize>,
    holds: bool,
}

struct FakeJob {
    info: JobInfo,
    max_output_bytes: Option<usize>,
    output: Arc<dyn JobOutput>,
    token: CancellationToken,
    work: Option<JobWork>,
}

impl FakeJobs {
    /// Whether waiting for a job never ends.
    pub fn set_holds(&self, holds: bool) {
        lock(&self.state).holds = holds;
    }

    /// Adds a job of kind `fake` that does nothing.
    pub fn add(&self, label: &str, output: Arc<dyn JobOutput>, end: JobEnd) -> JobId {
        let job = NewJob {
            kind: "fake".to_owned(),
            label: label.to_owned(),
            call_id: protocol::id::CallId::new("call-0"),
            max_output_bytes: None,
            output,
            work: Box::new(|_| Box::pin(async { end })),
        };
        self.start(job).unwrap_or_else(|error| panic!("{error}"))
    }

    fn find<T>(&self, id: &JobId, act: impl FnOnce(&mut FakeJob) -> T) -> Result<T, JobError> {
        let mut state = lock(&self.state);
        let job = state.jobs.iter_mut().find(|job| job.info.id == *id);
        job.map(act).ok_or_else(|| JobError::Unknown(id.clone()))
    }
}

#[async_trait]
impl Jobs for FakeJobs {
    fn start(&self, job: NewJob) -> Result<JobId, JobError> {
        let mut state = lock(&self.state);
        let active = state.jobs.iter().filter(|job| !job.info.status.is_settled());
        check_room(&job.kind, active.map(|job| job.info.kind.as_str()))?;
        let count = state.counts.entry(job.kind.clone()).or_default();
        *count += 1;
        let id = JobId::new(format!("{}-{count}", job.kind));
        state.jobs.push(FakeJob {
            info: JobInfo {
                id: id.clone(),
                kind: job.kind,
                label: job.label,
                status: JobStatus::Running,
                detail: None,
                started_at: 1,
                finished_at: None,
            },
            max_output_bytes: job.max_output_bytes,
            output: job.output,
            token: CancellationToken::new(),
            work: Some(job.work),
        });
        Ok(id)
    }

    fn list(&self) -> Vec<JobInfo> {
        lock(&self.state).jobs.iter().map(|job| job.info.clone()).collect()
    }

    fn read(&self, id: &JobId) -> Result<JobReading, JobError> {
        self.find(id, |job| JobReading {
            text: job.output.read(),
            job: job.info.clone(),
            max_output_bytes: job.max_output_bytes,
        })
    }

    async fn settled(&self, id: &JobId) -> Result<(), JobError> {
        let holds = lock(&self.state).holds;
        if holds {
            std::future::pending::<()>().await;
        }
        let (work, token) = self.find(id, |job| (job.work.take(), job.token.clone()))?;
        let Some(work) = work else { return Ok(()) };
        let end = work(token).await;
        self.find(id, |job| {
            job.info.status = end.status;
            job.info.detail = end.detail;
            job.info.finished_at = Some(2);
        })
    }

    fn kill(&self, id: &JobId) -> Result<JobKill, JobError> {
        self.find(id, |job| {
            if job.info.status.is_settled() {
                return JobKill::Finished(job.info.clone());
            }
            job.info.status = JobStatus::Stopping;
            job.token.cancel();
            JobKill::Requested(job.info.clone())
        })
    }
}

/// Output that a test writes.
#[derive(Default)]
pub struct FakeOutput {
    text: Mutex<String>,
}

impl FakeOutput {
    /// Output that holds this text.
    pub fn holding(text: &str) -> Arc<Self> {
        Arc::new(Self { text: Mutex::new(text.to_owned()) })
    }

    /// Adds text.
    pub fn push(&self, text: &str) {
        lock(&self.text).push_str(text);
    }
}

impl JobOutput for FakeOutput {
    fn read(&self) -> String {
        std::mem::take(&mut *lock(&self.text))
    }

    fn tail(&self) -> (String, u64) {
        (lock(&self.text).clone(), 0)
    }
}
