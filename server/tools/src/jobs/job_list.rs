//! `job_list`: the background jobs of the session.

use super::{Job, jobs, one_line};
use async_trait::async_trait;
use pipeline::context::ToolContext;
use pipeline::tool::Effect;
use pipeline::typed::TypedTool;
use protocol::card::{CallCard, GenericCall, ToolCallKind};
use protocol::content::ContentBlock;
use protocol::tool::ToolFailure;
use schemars::JsonSchema;
use serde::Deserialize;

/// Arguments of `job_list`: none.
#[derive(Debug, Deserialize, JsonSchema)]
pub struct JobListArgs {}

/// The tool.
pub struct JobList;

#[async_trait]
impl TypedTool for JobList {
    type Args = JobListArgs;
    type Output = Vec<Job>;

    const NAME: &'static str = "job_list";

    fn description(&self) -> String {
        "Lists the background jobs of this session, running and ended, with id, kind, status and what each is.".to_owned()
    }

    fn is_concurrency_safe(&self, _args: &JobListArgs) -> bool {
        true
    }

    fn effect(&self, _args: &JobListArgs) -> Effect {
        Effect::None
    }

    async fn execute(&self, _args: JobListArgs, ctx: &ToolContext) -> Result<Vec<Job>, ToolFailure> {
        Ok(jobs(ctx)?.list().into_iter().map(Job::from).collect())
    }

    fn render(&self, _args: &JobListArgs, jobs: &Vec<Job>) -> Vec<ContentBlock> {
        let row =
            |job: &Job| format!("{} [{}] {} — {}", job.id, job.kind, job.status_id(), one_line(&job.label));
        let rows: Vec<String> = jobs.iter().map(row).collect();
        let text = if rows.is_empty() { "(no background jobs)".to_owned() } else { rows.join("\n") };
        vec![ContentBlock::text(text)]
    }

    fn present_call(&self, _args: &JobListArgs) -> Option<CallCard> {
        Some(CallCard::Generic(GenericCall {
            title: "List background jobs".to_owned(),
            kind: ToolCallKind::Read,
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
    async fn jobs_are_listed_in_the_order_of_their_starts() {
        let bench = Bench::new();
        assert_eq!(bench.call("job_list", json!({})).await.text(), "(no background jobs)");
        let jobs = &bench.world().jobs;
        let end = || JobEnd::new(JobStatus::Completed, "exit code: 0".to_owned());
        let first = jobs.add("make\nmore", FakeOutput::holding(""), end());
        jobs.add("serve", FakeOutput::holding(""), end());
        jobs.settled(&first).await.unwrap();
        let ran = bench.call("job_list", json!({})).await;
        assert_eq!(ran.text(), "fake-1 [fake] completed — make …\nfake-2 [fake] running — serve");
        let expected = json!([
            {"id": "fake-1", "kind": "fake", "label": "make\nmore", "status": "completed", "detail": "exit code: 0",
             "startedAt": 1, "finishedAt": 2},
            {"id": "fake-2", "kind": "fake", "label": "serve", "status": "running", "startedAt": 1},
        ]);
        assert_eq!(*ran.value(), expected);
        assert!(bench.tool("job_list").is_concurrency_safe(&json!({})));
        assert!(!bench.tool("job_output").is_concurrency_safe(&json!({"job_id": "fake-1"})));
    }
}
