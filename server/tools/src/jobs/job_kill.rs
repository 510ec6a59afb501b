//! `job_kill`: asks a background job to stop.

use super::{Job, job_id, jobs, one_line};
use async_trait::async_trait;
use pipeline::context::ToolContext;
use pipeline::tool::Effect;
use pipeline::typed::TypedTool;
use protocol::card::{CallCard, GenericCall, ToolCallKind};
use protocol::content::ContentBlock;
use protocol::tool::ToolFailure;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Arguments of `job_kill`.
#[derive(Debug, Deserialize, JsonSchema)]
pub struct JobKillArgs {
    /// The job to stop.
    job_id: String,
    /// Why, for the user.
    #[expect(dead_code, reason = "the user reads it in the call's input")]
    reason: Option<String>,
}

/// What became of it.
#[derive(Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct JobKillOutput {
    outcome: KillOutcome,
    job: Job,
}

/// What the kill did.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum KillOutcome {
    CancellationRequested,
    AlreadyFinished,
}

/// The tool.
pub struct JobKill;

#[async_trait]
impl TypedTool for JobKill {
    type Args = JobKillArgs;
    type Output = JobKillOutput;

    const NAME: &'static str = "job_kill";

    fn description(&self) -> String {
        "Asks a running background job to stop and returns at once; the job shows as stopping until it has ended. A job \
         that has ended already is left as it is, and its status is told. Its output stays readable with job_output."
            .to_owned()
    }

    fn effect(&self, _args: &JobKillArgs) -> Effect {
        Effect::None
    }

    async fn execute(&self, args: JobKillArgs, ctx: &ToolContext) -> Result<JobKillOutput, ToolFailure> {
        Ok(match jobs(ctx)?.kill(&job_id(&args.job_id)?)? {
            services::jobs::JobKill::Requested(job) => {
                JobKillOutput { outcome: KillOutcome::CancellationRequested, job: job.into() }
            }
            services::jobs::JobKill::Finished(job) => {
                JobKillOutput { outcome: KillOutcome::AlreadyFinished, job: job.into() }
            }
        })
    }

    fn render(&self, _args: &JobKillArgs, output: &JobKillOutput) -> Vec<ContentBlock> {
        let job = &output.job;
        let name = format!("background job {} ({})", job.id, one_line(&job.label));
        vec![ContentBlock::text(match output.outcome {
            KillOutcome::CancellationRequested => format!("asked {name} to stop"),
            KillOutcome::AlreadyFinished => format!("{name} has already ended\n{}", job.status_line()),
        })]
    }

    fn present_call(&self, args: &JobKillArgs) -> Option<CallCard> {
        Some(CallCard::Generic(GenericCall {
            title: format!("Kill background job {}", args.job_id),
            kind: ToolCallKind::Execute,
            raw_input: Some(args.job_id.clone().into()),
            ..GenericCall::default()
        }))
    }
}

#[cfg(test)]
mod tests {
    use crate::testing::Bench;
    use protocol::job::JobStatus;
    use serde_json::json;
    use services::fake::FakeOutput;
    use services::jobs::{JobEnd, Jobs};

    #[tokio::test]
    async fn a_kill_asks_once_and_tells_what_has_ended() {
        let bench = Bench::new();
        let end = JobEnd::new(JobStatus::Killed, "signal: SIGTERM".to_owned());
        let id = bench.world().jobs.add("serve", FakeOutput::holding("left"), end);
        let arguments = json!({"job_id": "fake-1", "reason": "not needed"});
        let ran = bench.call("job_kill", arguments.clone()).await;
        assert_eq!(ran.text(), "asked background job fake-1 (serve) to stop");
        assert_eq!(ran.value()["outcome"], "cancellation-requested");
        assert_eq!(ran.value()["job"]["status"], "stopping");
        bench.world().jobs.settled(&id).await.unwrap();
        let ran = bench.call("job_kill", arguments).await;
        let expected = "background job fake-1 (serve) has already ended\n[status: killed, signal: SIGTERM]";
        assert_eq!(ran.text(), expected);
        assert_eq!(ran.value()["outcome"], "already-finished");
        let read = bench.call("job_output", json!({"job_id": "fake-1"})).await;
        assert_eq!(read.text(), "left\n[status: killed, signal: SIGTERM]");
    }

    #[tokio::test]
    async fn a_job_that_is_not_there_cannot_be_killed() {
        let bench = Bench::new();
        for (id, message) in [("bash-1", "no job `bash-1`"), (" ", "must not be blank")] {
            let ran = bench.call("job_kill", json!({"job_id": id})).await;
            assert_eq!(ran.code(), "plain");
            assert!(ran.text().contains(message), "{}", ran.text());
        }
    }
}
