//! The background jobs of one session: the registry behind the `Jobs` service.
//!
//! A job is a task of its own with a token of its own: a cancelled call or turn does not touch it, a closed session ends
//! it. How a job ended is decided once, logged, and told the model through the [`Inbox`] unless it knows already.
//!
//! Source: `spec/runtime.md` §11, `spec/tools-agentic.md` §13.

use crate::core::Core;
use crate::inbox::{Inbox, Injected};
use async_trait::async_trait;
use futures::FutureExt;
use protocol::event::{Record, SessionEvent};
use protocol::id::{CallId, JobId};
use protocol::job::JobStatus;
use protocol::message::{ContextForm, MessageSource};
use services::jobs::{
    JobEnd, JobError, JobInfo, JobKill, JobOutput, JobReading, JobWork, Jobs, NewJob, check_room,
};
use std::collections::HashMap;
use std::panic::AssertUnwindSafe;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

/// Name under which notices of jobs stand in the conversation.
const PLUGIN: &str = "tool-jobs";
/// Settled jobs that are kept; the oldest go first.
const MAX_SETTLED_JOBS: usize = 100;
/// Longest label in a notice, in bytes.
const MAX_NOTICE_LABEL_BYTES: usize = 2000;

/// The jobs of one session.
pub struct SessionJobs {
    this: Weak<SessionJobs>,
    core: Arc<Core>,
    inbox: Arc<Inbox>,
    /// Ends every job.
    token: CancellationToken,
    tasks: TaskTracker,
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    /// In the order of their starts.
    jobs: Vec<Job>,
    /// Numbers given so far, by kind.
    counts: HashMap<String, u64>,
}

struct Job {
    info: JobInfo,
    call_id: CallId,
    max_output_bytes: Option<usize>,
    output: Arc<dyn JobOutput>,
    token: CancellationToken,
    /// Whether the model knows, or must not be told, how it ended.
    is_reported: bool,
    settled: watch::Sender<bool>,
}

impl SessionJobs {
    /// No jobs yet. Ids go on where those of `records` end.
    pub fn new(core: Arc<Core>, inbox: Arc<Inbox>, records: &[Record]) -> Arc<Self> {
        let mut counts = HashMap::new();
        for id in records.iter().filter_map(started) {
            if let Some((kind, number)) = id.rsplit_once('-')
                && let Ok(number) = number.parse::<u64>()
            {
                let count: &mut u64 = counts.entry(kind.to_owned()).or_default();
                *count = number.max(*count);
            }
        }
        let state = Mutex::new(State { jobs: Vec::new(), counts });
        Arc::new_cyclic(|this| Self {
            this: this.clone(),
            core,
            inbox,
            token: CancellationToken::new(),
            tasks: TaskTracker::new(),
            state,
        })
    }

    /// Logs the end of the jobs that ran when the program ended: nothing of them goes on, and their cards would wait
    /// for ever. Called once, when the session is opened.
    pub(crate) fn settle_interrupted(&self) {
        for (call_id, job_id) in self.core.with_records(unsettled) {
            let logged = self.core.append(SessionEvent::JobSettled {
                call_id,
                job_id,
                status: JobStatus::Killed,
                detail: Some("interrupted: the agent ended without stopping it".to_owned()),
                tail: String::new(),
                omitted_bytes: 0,
            });
            if let Err(error) = logged {
                tracing::warn!(%error, "the end of an interrupted job could not be logged");
            }
        }
    }

    /// Asks every job to stop and starts no more. Nobody is told their ends.
    pub(crate) fn stop(&self) {
        self.token.cancel();
        self.tasks.close();
        for job in &mut self.lock().jobs {
            job.is_reported = true;
        }
    }

    /// Waits until all jobs have ended. Called after [`SessionJobs::stop`].
    pub(crate) async fn ended(&self) {
        self.tasks.wait().await;
    }

    async fn run(&self, id: JobId, work: JobWork, token: CancellationToken) {
        let end = match AssertUnwindSafe(async move { work(token).await }).catch_unwind().await {
            Ok(end) => end,
            Err(_) => JobEnd::new(JobStatus::Failed, "internal error".to_owned()),
        };
        self.settle(&id, end);
    }

    /// The job has ended: logs it, then tells whoever waits. The first end counts.
    fn settle(&self, id: &JobId, end: JobEnd) {
        let settled = self.find(id, |job| {
            if job.info.status.is_settled() {
                return None;
            }
            job.info.status = end.status;
            job.info.detail = end.detail;
            job.info.finished_at = Some(self.core.clock().now_ms());
            Some((job.info.clone(), job.call_id.clone(), job.output.clone(), job.max_output_bytes))
        });
        let Ok(Some((info, call_id, output, max_bytes))) = settled else { return };
        let (tail, omitted_bytes) = output.tail();
        let logged = self.core.append(SessionEvent::JobSettled {
            call_id,
            job_id: id.clone(),
            status: info.status,
            detail: info.detail.clone(),
            tail,
            omitted_bytes,
        });
        if let Err(error) = logged {
            tracing::warn!(%error, job = %id, "the end of a job could not be logged");
        }
        // Under the lock: whoever reads the end takes the notice back, and must find it.
        let _ = self.find(id, |job| {
            if !job.is_reported {
                self.inbox.push(Injected {
                    key: id.to_string(),
                    source: MessageSource::Plugin { plugin: PLUGIN.to_owned(), form: ContextForm::Notice },
                    text: notice(&info, max_bytes),
                    wakes: true,
                });
            }
            job.settled.send_replace(true);
        });
    }

    fn find<T>(&self, id: &JobId, act: impl FnOnce(&mut Job) -> T) -> Result<T, JobError> {
        let mut state = self.lock();
        let job = state.jobs.iter_mut().find(|job| job.info.id == *id);
        job.map(act).ok_or_else(|| JobError::Unknown(id.clone()))
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[async_trait]
impl Jobs for SessionJobs {
    fn start(&self, job: NewJob) -> Result<JobId, JobError> {
        let NewJob { kind, label, call_id, max_output_bytes, output, work } = job;
        let token = self.token.child_token();
        let id = {
            let mut state = self.lock();
            if self.token.is_cancelled() {
                return Err(JobError::Closed);
            }
            let active = state.jobs.iter().filter(|job| !job.info.status.is_settled());
            check_room(&kind, active.map(|job| job.info.kind.as_str()))?;
            let count = state.counts.entry(kind.clone()).or_default();
            *count += 1;
            let id = JobId::new(format!("{kind}-{count}"));
            let info = JobInfo {
                id: id.clone(),
                kind,
                label,
                status: JobStatus::Running,
                detail: None,
                started_at: self.core.clock().now_ms(),
                finished_at: None,
            };
            let (settled, _) = watch::channel(false);
            let token = token.clone();
            state.jobs.push(Job {
                info,
                call_id,
                max_output_bytes,
                output,
                token,
                is_reported: false,
                settled,
            });
            state.forget_old();
            id
        };
        if let Some(this) = self.this.upgrade() {
            let id = id.clone();
            self.tasks.spawn(async move { this.run(id, work, token).await });
        }
        Ok(id)
    }

    fn list(&self) -> Vec<JobInfo> {
        self.lock().jobs.iter().map(|job| job.info.clone()).collect()
    }

    fn read(&self, id: &JobId) -> Result<JobReading, JobError> {
        self.find(id, |job| {
            if job.info.status.is_settled() {
                job.is_reported = true;
                self.inbox.retract(id.as_str());
            }
            JobReading {
                text: job.output.read(),
                job: job.info.clone(),
                max_output_bytes: job.max_output_bytes,
            }
        })
    }

    async fn settled(&self, id: &JobId) -> Result<(), JobError> {
        let mut settled = self.find(id, |job| job.settled.subscribe())?;
        // An error means that the job was forgotten, which only a settled one is.
        let _ = settled.wait_for(|settled| *settled).await;
        Ok(())
    }

    fn kill(&self, id: &JobId) -> Result<JobKill, JobError> {
        self.find(id, |job| {
            job.is_reported = true;
            self.inbox.retract(id.as_str());
            if job.info.status.is_settled() {
                return JobKill::Finished(job.info.clone());
            }
            job.info.status = JobStatus::Stopping;
            job.token.cancel();
            JobKill::Requested(job.info.clone())
        })
    }
}

impl State {
    /// Drops the oldest settled jobs beyond those that are kept.
    fn forget_old(&mut self) {
        let n_settled = self.jobs.iter().filter(|job| job.info.status.is_settled()).count();
        for _ in MAX_SETTLED_JOBS..n_settled {
            if let Some(at) = self.jobs.iter().position(|job| job.info.status.is_settled()) {
                self.jobs.remove(at);
            }
        }
    }
}

/// The job that a logged call started.
fn started(record: &Record) -> Option<&str> {
    match &record.event {
        SessionEvent::ToolResult { meta: Some(meta), .. } => meta.get("jobId")?.as_str(),
        _ => None,
    }
}

/// The jobs that were started and have no end in the log, in the order of their start. The end of a short one may stand
/// before the result of its call.
fn unsettled(records: &[Record]) -> Vec<(CallId, JobId)> {
    let mut open: Vec<(CallId, JobId)> = Vec::new();
    let has_end = |id: &str| {
        let mut events = records.iter().map(|record| &record.event);
        events.any(|event| matches!(event, SessionEvent::JobSettled { job_id, .. } if job_id.as_str() == id))
    };
    for record in records {
        if let (SessionEvent::ToolResult { message, .. }, Some(id)) = (&record.event, started(record))
            && !open.iter().any(|(_, known)| known.as_str() == id)
            && !has_end(id)
        {
            open.push((message.call_id.clone(), JobId::new(id)));
        }
    }
    open
}

/// What the model reads when a job ended by itself. The label gives way to the bound; id and advice stay.
fn notice(job: &JobInfo, max_bytes: Option<usize>) -> String {
    let (id, kind) = (&job.id, &job.kind);
    let end =
        format!("{}\nRead what is left of its output with job_output (job_id: {id}).", job.status_line());
    let room =
        max_bytes.unwrap_or(usize::MAX).saturating_sub(end.len() + id.as_str().len() + kind.len() + 40);
    let max = room.min(MAX_NOTICE_LABEL_BYTES).min(job.label.len());
    let cut = job.label.floor_char_boundary(max);
    let ellipsis = if cut < job.label.len() { "…" } else { "" };
    format!("Background job {id} ({kind}) has ended: {}{ellipsis}\n{end}", &job.label[..cut])
}

#[cfg(test)]
mod tests {
    use super::*;
    use protocol::message::ToolResultMessage;

    fn job(label: &str) -> JobInfo {
        JobInfo {
            id: JobId::new("bash-3"),
            kind: "bash".into(),
            label: label.into(),
            status: JobStatus::Completed,
            detail: Some("exit code: 0".into()),
            started_at: 1,
            finished_at: Some(2),
        }
    }

    #[test]
    fn a_notice_names_the_job_its_end_and_how_to_read_it() {
        let expected = "Background job bash-3 (bash) has ended: make\n[status: completed, exit code: 0]\n\
                        Read what is left of its output with job_output (job_id: bash-3).";
        assert_eq!(notice(&job("make"), None), expected);
    }

    #[test]
    fn a_bounded_notice_keeps_id_and_advice() {
        let text = notice(&job(&"é".repeat(5000)), Some(200));
        assert!(text.len() <= 200, "{}", text.len());
        assert!(text.contains("é…\n[status: completed") && text.ends_with("(job_id: bash-3)."), "{text}");
        assert!(notice(&job(&"x".repeat(5000)), None).len() < 2200);
    }

    #[test]
    fn jobs_without_an_end_in_the_log_are_found_once_each() {
        let result = |call: &str, job: Option<&str>| SessionEvent::ToolResult {
            turn: 1,
            step: 1,
            message: ToolResultMessage { call_id: CallId::new(call), content: Vec::new(), is_error: false },
            error: None,
            meta: job.map(|job| serde_json::json!({ "jobId": job })),
        };
        let settled = SessionEvent::JobSettled {
            call_id: CallId::new("a"),
            job_id: JobId::new("bash-1"),
            status: JobStatus::Completed,
            detail: None,
            tail: String::new(),
            omitted_bytes: 0,
        };
        let events = [
            result("a", Some("bash-1")),
            result("b", Some("bash-2")),
            result("c", None),
            settled,
            result("b", Some("bash-2")),
        ];
        let records: Vec<Record> = (0..)
            .zip(events)
            .map(|(seq, event)| Record { seq, time: 0, ignorable: event.ignorable(), event })
            .collect();
        assert_eq!(unsettled(&records), [(CallId::new("b"), JobId::new("bash-2"))]);
    }
}
