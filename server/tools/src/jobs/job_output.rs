//! `job_output`: what a background job has printed since it was last read, and how far it is.

use super::{Job, job_id, jobs};
use async_trait::async_trait;
use pipeline::context::ToolContext;
use pipeline::tool::{Effect, PromptSection};
use pipeline::typed::TypedTool;
use protocol::card::{CallCard, GenericCall, ToolCallKind};
use protocol::content::ContentBlock;
use protocol::tool::ToolFailure;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::time::Duration;

/// Longest wait when none is named, in milliseconds.
const DEFAULT_WAIT_MS: f64 = 30_000.0;
/// Longest wait, in milliseconds; a longer one is cut to it.
const MAX_WAIT_MS: f64 = 600_000.0;

/// Arguments of `job_output`.
#[derive(Debug, Deserialize, JsonSchema)]
pub struct JobOutputArgs {
    /// The job to read.
    job_id: String,
    /// Wait until the job has ended, or until timeout_ms is over, before reading. Default false.
    wait: Option<bool>,
    /// Longest wait in milliseconds; only with wait. Default 30000, at most 600000.
    timeout_ms: Option<f64>,
}

/// What was read.
#[derive(Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct JobOutputOutput {
    /// What came since the last read.
    text: String,
    /// The job after it.
    job: Job,
}

/// The tool.
pub struct JobOutput;

#[async_trait]
impl TypedTool for JobOutput {
    type Args = JobOutputArgs;
    type Output = JobOutputOutput;

    const NAME: &'static str = "job_output";

    fn description(&self) -> String {
        "Reads what a background job has printed since the last read, and its status, which is always the last line: \
         [status: running], [status: completed, exit code: 0] and so on. A job that only has a final result shows \
         nothing while it runs and the same result at every read after it. With wait: true the call returns when the job \
         has ended, or after timeout_ms with the job still running, which is no error. You are told when a job ends; do \
         not read again and again to find out."
            .to_owned()
    }

    fn effect(&self, _args: &JobOutputArgs) -> Effect {
        Effect::None
    }

    async fn execute(&self, args: JobOutputArgs, ctx: &ToolContext) -> Result<JobOutputOutput, ToolFailure> {
        let (jobs, id) = (jobs(ctx)?, job_id(&args.job_id)?);
        let wait_ms = args.timeout_ms.unwrap_or(DEFAULT_WAIT_MS);
        if !(wait_ms.is_finite() && wait_ms > 0.0) {
            return Err(ToolFailure::plain(format!(
                "timeout_ms must be a positive number of milliseconds, not {wait_ms}"
            )));
        }
        if args.wait == Some(true) {
            let budget = Duration::from_secs_f64(wait_ms.min(MAX_WAIT_MS) / 1000.0);
            let mut settled = jobs.settled(&id);
            let mut over = ctx.services().clock.sleep(budget);
            let cancelled = std::pin::pin!(ctx.cancel.cancelled());
            let ended = first(&mut settled, &mut over, cancelled).await;
            match ended {
                Ended::Settled(result) => result?,
                Ended::Over => {}
                Ended::Cancelled => return Err(ToolFailure::aborted()),
            }
        }
        let reading = jobs.read(&id)?;
        let job = Job::from(reading.job);
        let text = match reading.max_output_bytes {
            Some(max) => bounded(reading.text, max.saturating_sub(job.status_line().len() + 1)),
            None => reading.text,
        };
        Ok(JobOutputOutput { text, job })
    }

    fn render(&self, _args: &JobOutputArgs, output: &JobOutputOutput) -> Vec<ContentBlock> {
        let mut text =
            if output.text.is_empty() { "(no new output)".to_owned() } else { output.text.clone() };
        if !text.ends_with('\n') {
            text.push('\n');
        }
        vec![ContentBlock::text(text + &output.job.status_line())]
    }

    fn present_call(&self, args: &JobOutputArgs) -> Option<CallCard> {
        Some(CallCard::Generic(GenericCall {
            title: format!("Read output from background job {}", args.job_id),
            kind: ToolCallKind::Read,
            raw_input: Some(args.job_id.clone().into()),
            ..GenericCall::default()
        }))
    }

    fn section(&self) -> Option<PromptSection> {
        Some(PromptSection {
            name: "tool:jobs".to_owned(),
            order_tenths: 1061,
            text: "A background job goes on while you work and after your turn; you get a message when it ends by \
                   itself. Read it with `job_output`, wait for it only when you cannot go on without it, and stop with \
                   `job_kill` what is not needed any more."
                .to_owned(),
        })
    }
}

/// Which came first.
enum Ended {
    Settled(Result<(), services::jobs::JobError>),
    Over,
    Cancelled,
}

/// Waits for whichever comes first; a cancel counts before a time that is over, an end before both.
async fn first(
    settled: &mut (impl Future<Output = Result<(), services::jobs::JobError>> + Unpin),
    over: &mut (impl Future<Output = ()> + Unpin),
    mut cancelled: std::pin::Pin<&mut impl Future<Output = ()>>,
) -> Ended {
    use std::task::Poll;
    std::future::poll_fn(|cx| {
        if let Poll::Ready(result) = std::pin::Pin::new(&mut *settled).poll(cx) {
            return Poll::Ready(Ended::Settled(result));
        }
        if cancelled.as_mut().poll(cx).is_ready() {
            return Poll::Ready(Ended::Cancelled);
        }
        std::pin::Pin::new(&mut *over).poll(cx).map(|()| Ended::Over)
    })
    .await
}

/// The end of the text within `max` bytes, with a line that says what is missing.
fn bounded(text: String, max: usize) -> String {
    if text.len() <= max {
        return text;
    }
    let marker = |n_cut: usize| format!("[{n_cut} bytes left out here]\n");
    let room = max.saturating_sub(marker(text.len()).len());
    let cut = text.ceil_char_boundary(text.len() - room);
    format!("{}{}", marker(cut), &text[cut..])
}

#[cfg(test)]
mod tests {
    use super::bounded;
    use crate::testing::Bench;
    use protocol::job::JobStatus;
    use serde_json::json;
    use services::fake::FakeOutput;
    use services::jobs::{JobEnd, Jobs};

    fn bench() -> Bench {
        let bench = Bench::new();
        let end = JobEnd::new(JobStatus::Completed, "exit code: 0".to_owned());
        bench.world().jobs.add("make", FakeOutput::holding("built"), end);
        bench
    }

    #[tokio::test]
    async fn output_is_read_once_and_the_status_is_last() {
        let bench = bench();
        let read = json!({"job_id": "fake-1"});
        assert_eq!(bench.call("job_output", read.clone()).await.text(), "built\n[status: running]");
        assert_eq!(bench.call("job_output", read.clone()).await.text(), "(no new output)\n[status: running]");
        let waited = bench.call("job_output", json!({"job_id": "fake-1", "wait": true})).await;
        assert_eq!(waited.text(), "(no new output)\n[status: completed, exit code: 0]");
        let expected = json!({"id": "fake-1", "kind": "fake", "label": "make", "status": "completed",
            "detail": "exit code: 0", "startedAt": 1, "finishedAt": 2});
        assert_eq!(*waited.value(), json!({"text": "", "job": expected}));
    }

    #[tokio::test]
    async fn a_wait_that_is_over_is_no_error() {
        let bench = bench();
        bench.world().jobs.set_holds(true);
        bench.world().clock.set_instant(true);
        let ran =
            bench.call("job_output", json!({"job_id": "fake-1", "wait": true, "timeout_ms": 9e9})).await;
        assert_eq!(ran.text(), "built\n[status: running]");
        let waited = services::clock::Clock::monotonic(&*bench.world().clock);
        assert_eq!(waited.as_secs(), 600);
    }

    #[tokio::test]
    async fn a_cancelled_wait_leaves_job_and_output_alone() {
        let bench = bench();
        bench.world().jobs.set_holds(true);
        let arguments = json!({"job_id": "fake-1", "wait": true});
        let ctx = bench.session.context("job_output", arguments.clone());
        ctx.cancel.cancel();
        let failure = bench.tool("job_output").execute(&arguments, &ctx).await.unwrap_err();
        assert_eq!(failure.code(), Some("ABORTED"));
        assert_eq!(bench.world().jobs.list()[0].status, JobStatus::Running);
        let read = bench.call("job_output", json!({"job_id": "fake-1"})).await;
        assert_eq!(read.text(), "built\n[status: running]");
    }

    #[tokio::test]
    async fn what_makes_no_sense_is_told() {
        let bench = bench();
        let cases = [
            (json!({"job_id": ""}), "plain", "must not be blank"),
            (json!({"job_id": "bash-9"}), "plain", "no job `bash-9`"),
            (json!({"job_id": "bash-9", "wait": true}), "plain", "no job `bash-9`"),
            (json!({"job_id": "fake-1", "wait": true, "timeout_ms": 0}), "plain", "positive"),
            (json!({"job_id": "fake-1", "timeout_ms": "5"}), "INVALID_ARGS", "timeout_ms"),
            (json!({}), "INVALID_ARGS", "job_id"),
        ];
        for (arguments, code, message) in cases {
            let ran = bench.call("job_output", arguments.clone()).await;
            assert_eq!(ran.code(), code, "{arguments}");
            assert!(ran.text().contains(message), "{}", ran.text());
        }
    }

    #[test]
    fn a_text_over_its_bound_keeps_its_end() {
        assert_eq!(bounded("short".into(), 5), "short");
        let cut = bounded("é".repeat(100), 60);
        assert!(cut.len() <= 60 && cut.ends_with('é'), "{cut}");
        assert!(cut.starts_with('[') && cut.contains("bytes left out here]\n"), "{cut}");
    }
}
