//! `subagent` and `subagent_fork`: work given to another agent, which has a conversation of its own.
//!
//! The first begins afresh and works beside its parent unless told otherwise; the second begins with what was said so far
//! and is waited for unless told otherwise. Source: `spec/tools-agentic.md` §7.

use super::subagents;
use crate::arguments::not_blank;
use async_trait::async_trait;
use pipeline::context::ToolContext;
use pipeline::tool::{Effect, PromptSection};
use pipeline::typed::TypedTool;
use protocol::card::{CallCard, GenericCall, ToolCallKind};
use protocol::content::ContentBlock;
use protocol::id::JobId;
use protocol::job::JobStatus;
use protocol::tool::ToolFailure;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use services::jobs::{JobEnd, JobOutput, NewJob, text_tail};
use services::subagents::{ChildEnd, ChildStop, NewChild};
use std::sync::{Arc, Mutex, PoisonError};

/// Arguments of `subagent`.
#[derive(Debug, Deserialize, JsonSchema)]
pub struct SubagentArgs {
    /// What it does, in three to five words; the user sees it.
    pub description: String,
    /// The whole task. The agent sees nothing of this conversation: say what to do, where, what is known, what to bring back.
    pub prompt: String,
    /// Whether to go on without waiting; default true. Say false only when your next action needs the result.
    pub run_in_background: Option<bool>,
}

/// Arguments of `subagent_fork`.
#[derive(Debug, Deserialize, JsonSchema)]
pub struct ForkArgs {
    /// What it does, in three to five words; the user sees it.
    pub description: String,
    /// What is new: the agent knows this conversation up to the last finished turn.
    pub prompt: String,
    /// Whether to go on without waiting, as a background job that job_output reads; default false.
    pub run_in_background: Option<bool>,
}

/// What became of a delegation.
#[derive(Debug, Serialize, Deserialize, JsonSchema)]
#[serde(tag = "kind", rename_all = "lowercase", rename_all_fields = "camelCase", deny_unknown_fields)]
pub enum Delegated {
    /// A job of this session works on it.
    Background {
        /// The job.
        job_id: String,
    },
    /// An agent works on it beside this one.
    Continuable {
        /// Its id.
        subagent_id: String,
    },
    /// It is done.
    Foreground {
        /// The agent's session.
        run_id: String,
        /// What it said last, as content.
        output: Vec<Value>,
    },
}

/// Starts an agent that knows nothing of the conversation.
pub struct Subagent;

#[async_trait]
impl TypedTool for Subagent {
    type Args = SubagentArgs;
    type Output = Delegated;

    const NAME: &'static str = "subagent";

    fn description(&self) -> String {
        "Gives a task to another agent with a conversation and the tools of its own. It sees nothing of this one, so the \
         prompt must stand alone. It works in the background by default: you get its id, go on, and are told when it has \
         ended; send_message gives it a further task. With run_in_background false you wait for its answer. Start agents for \
         independent parts in one step; keep for yourself what is quicker done than explained."
            .to_owned()
    }

    fn is_concurrency_safe(&self, _args: &SubagentArgs) -> bool {
        true
    }

    fn effect(&self, _args: &SubagentArgs) -> Effect {
        // What the child does is asked about by the child.
        Effect::None
    }

    async fn execute(&self, args: SubagentArgs, ctx: &ToolContext) -> Result<Delegated, ToolFailure> {
        let child = new_child(&args.description, args.prompt, false, ctx)?;
        if args.run_in_background == Some(false) {
            return wait(child, ctx).await;
        }
        let id = subagents(ctx)?.start(child).await?;
        Ok(Delegated::Continuable { subagent_id: id.to_string() })
    }

    fn render(&self, _args: &SubagentArgs, output: &Delegated) -> Vec<ContentBlock> {
        text_of(output)
    }

    fn presentation_meta(&self, _args: &SubagentArgs, output: &Delegated) -> Option<Value> {
        meta_of(output)
    }

    fn present_call(&self, args: &SubagentArgs) -> Option<CallCard> {
        Some(card("Delegate", &args.description, &args.prompt))
    }

    fn section(&self) -> Option<PromptSection> {
        Some(PromptSection {
            name: "tool:subagent".to_owned(),
            order_tenths: 1165,
            text: "Agents you start with `subagent` work in the background. Start all that are independent of each other in one \
                   step. Wait for one (run_in_background false) only when your next action needs its result. A message tells \
                   you when an agent has ended, with what it said last; until then do other work, or end your turn if there is \
                   none. Do not do yourself what you gave away."
                .to_owned(),
        })
    }
}

/// Starts an agent that knows the conversation.
pub struct SubagentFork;

#[async_trait]
impl TypedTool for SubagentFork {
    type Args = ForkArgs;
    type Output = Delegated;

    const NAME: &'static str = "subagent_fork";

    fn description(&self) -> String {
        "Gives a task to an agent that begins with this conversation up to its last finished turn, so the prompt says only \
         what is new. What the present turn found out must be told. You wait for its answer by default; with \
         run_in_background it is a background job, whose answer job_output gives."
            .to_owned()
    }

    fn is_concurrency_safe(&self, _args: &ForkArgs) -> bool {
        true
    }

    fn effect(&self, _args: &ForkArgs) -> Effect {
        Effect::None
    }

    async fn execute(&self, args: ForkArgs, ctx: &ToolContext) -> Result<Delegated, ToolFailure> {
        let child = new_child(&args.description, args.prompt, true, ctx)?;
        if args.run_in_background != Some(true) {
            return wait(child, ctx).await;
        }
        let id = start_job(child, ctx)?;
        Ok(Delegated::Background { job_id: id.to_string() })
    }

    fn render(&self, _args: &ForkArgs, output: &Delegated) -> Vec<ContentBlock> {
        text_of(output)
    }

    fn presentation_meta(&self, _args: &ForkArgs, output: &Delegated) -> Option<Value> {
        meta_of(output)
    }

    fn present_call(&self, args: &ForkArgs) -> Option<CallCard> {
        Some(card("Fork", &args.description, &args.prompt))
    }
}

fn new_child(
    description: &str,
    prompt: String,
    is_fork: bool,
    ctx: &ToolContext,
) -> Result<NewChild, ToolFailure> {
    not_blank("description", description)?;
    not_blank("prompt", &prompt)?;
    if ctx.cancel.is_cancelled() {
        return Err(ToolFailure::aborted());
    }
    Ok(NewChild {
        label: description.trim().to_owned(),
        prompt,
        is_fork,
        call_id: Some(ctx.execution.call_id.clone()),
        ..NewChild::default()
    })
}

/// Runs the child and waits for its answer.
async fn wait(child: NewChild, ctx: &ToolContext) -> Result<Delegated, ToolFailure> {
    let end = subagents(ctx)?.run(child, &ctx.cancel).await?;
    if ctx.cancel.is_cancelled() {
        return Err(ToolFailure::aborted());
    }
    match end.stop {
        ChildStop::Completed => Ok(Delegated::Foreground {
            run_id: end.session.to_string(),
            output: vec![json!({ "type": "text", "text": end.text })],
        }),
        _ => Err(ToolFailure::plain(failure_of(&end))),
    }
}

/// Why the child has no answer, then what it said all the same.
fn failure_of(end: &ChildEnd) -> String {
    let headline = match end.stop {
        ChildStop::Completed => "The agent completed.",
        ChildStop::MaxTokens => "The agent ran out of room for its answer.",
        ChildStop::Aborted => "The agent was stopped.",
        ChildStop::Refusal => "The agent declined the task.",
        ChildStop::Error => "The agent failed.",
    };
    let mut text = headline.to_owned();
    if let Some(diagnostic) = &end.diagnostic {
        text.push_str(&format!("\nDiagnostic: {diagnostic}"));
    }
    if !end.text.trim().is_empty() {
        text.push_str(&format!("\nWhat it said before:\n{}", end.text));
    }
    text
}

/// Runs the child as a job: the job's token is the child's, the call's is not.
fn start_job(child: NewChild, ctx: &ToolContext) -> Result<JobId, ToolFailure> {
    let jobs = crate::jobs::jobs(ctx)?;
    let Some(family) = ctx.services().subagents.clone() else {
        return Err(ToolFailure::plain("no other agents can be started here; do the work yourself"));
    };
    let output = Arc::<FinalOutput>::default();
    let job = NewJob {
        kind: "subagent".to_owned(),
        label: child.label.clone(),
        call_id: ctx.execution.call_id.clone(),
        max_output_bytes: None,
        output: output.clone(),
        work: Box::new(move |cancel| {
            Box::pin(async move {
                let end = family.run(child, &cancel).await;
                let (status, detail, text) = match end {
                    Err(error) => (JobStatus::Failed, Some(error.to_string()), String::new()),
                    Ok(end) => match end.stop {
                        ChildStop::Completed => (JobStatus::Completed, None, end.text),
                        ChildStop::Aborted => (JobStatus::Killed, None, end.text),
                        _ => (
                            JobStatus::Failed,
                            Some(failure_of(&ChildEnd { text: String::new(), ..end.clone() })),
                            end.text,
                        ),
                    },
                };
                output.set(text);
                JobEnd::new(status, detail)
            })
        }),
    };
    Ok(jobs.start(job)?)
}

/// The answer of a child that is a job: nothing while it works, then the same at every read.
#[derive(Default)]
struct FinalOutput {
    text: Mutex<String>,
}

impl FinalOutput {
    fn set(&self, text: String) {
        *self.text.lock().unwrap_or_else(PoisonError::into_inner) = text;
    }
}

impl JobOutput for FinalOutput {
    fn read(&self) -> String {
        self.text.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    fn tail(&self) -> (String, u64) {
        text_tail(&self.read())
    }
}

fn text_of(output: &Delegated) -> Vec<ContentBlock> {
    let text = match output {
        Delegated::Background { job_id } => {
            format!(
                "The agent works as the background job {job_id}; job_output reads its answer when it has ended."
            )
        }
        Delegated::Continuable { subagent_id } => format!(
            "The agent {subagent_id} has begun. You are told when it has ended; send_message gives it a further task."
        ),
        Delegated::Foreground { output, .. } => {
            output.iter().filter_map(|block| block["text"].as_str()).collect::<String>()
        }
    };
    vec![ContentBlock::text(text)]
}

/// Keeps the card open for what comes after the call.
fn meta_of(output: &Delegated) -> Option<Value> {
    match output {
        Delegated::Background { job_id } => Some(json!({ "jobId": job_id })),
        Delegated::Continuable { subagent_id } => Some(json!({ "subagentId": subagent_id })),
        Delegated::Foreground { .. } => None,
    }
}

fn card(verb: &str, description: &str, prompt: &str) -> CallCard {
    CallCard::Generic(GenericCall {
        title: format!("{verb}: {description}"),
        kind: ToolCallKind::Think,
        content: vec![ContentBlock::text(prompt)],
        ..GenericCall::default()
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::Bench;
    use services::fake::FakeSubagents;
    use services::jobs::Jobs;
    use services::subagents::SubagentError;

    fn task(background: Option<bool>) -> Value {
        let mut task = json!({ "description": "Look around", "prompt": "Find it." });
        if let Some(background) = background {
            task["run_in_background"] = json!(background);
        }
        task
    }

    #[tokio::test]
    async fn a_fresh_agent_works_beside_its_parent_unless_it_is_waited_for() {
        let bench = Bench::new();
        let ran = bench.call("subagent", task(None)).await;
        assert_eq!(*ran.value(), json!({ "kind": "continuable", "subagentId": "child" }));
        assert!(ran.text().starts_with("The agent child has begun."), "{}", ran.text());
        bench.world().subagents.ends(Ok(FakeSubagents::end(ChildStop::Completed, "Found.")));
        let ran = bench.call("subagent", task(Some(false))).await;
        let expected = json!({ "kind": "foreground", "runId": "child", "output": [{ "type": "text", "text": "Found." }] });
        assert_eq!((ran.value(), ran.text()), (&expected, "Found."));
        let started = bench.world().subagents.started();
        assert!(started.iter().all(|child| child.label == "Look around" && !child.is_fork), "{started:?}");
    }

    #[tokio::test]
    async fn a_fork_is_waited_for_unless_it_is_a_job() {
        let bench = Bench::new();
        let ran = bench.call("subagent_fork", task(None)).await;
        assert_eq!(ran.value()["kind"], "foreground");
        bench.world().subagents.ends(Ok(FakeSubagents::end(ChildStop::Completed, "Found.")));
        let ran = bench.call("subagent_fork", task(Some(true))).await;
        assert_eq!(ran.value()["kind"], "background");
        let id = JobId::new(ran.value()["jobId"].as_str().unwrap());
        bench.world().jobs.settled(&id).await.unwrap();
        let reading = bench.world().jobs.read(&id).unwrap();
        assert_eq!((reading.text.as_str(), reading.job.status), ("Found.", JobStatus::Completed));
        assert!(bench.world().subagents.started().iter().all(|child| child.is_fork));
    }

    #[tokio::test]
    async fn an_end_without_an_answer_is_a_failure_with_what_there_is() {
        let bench = Bench::new();
        let cases = [
            (
                ChildStop::MaxTokens,
                None,
                "half",
                "ran out of room for its answer.\nWhat it said before:\nhalf",
            ),
            (
                ChildStop::Error,
                Some("no key"),
                "half",
                "failed.\nDiagnostic: no key\nWhat it said before:\nhalf",
            ),
            (ChildStop::Refusal, None, "", "The agent declined the task."),
            (ChildStop::Aborted, None, " ", "The agent was stopped."),
        ];
        for (stop, diagnostic, text, expected) in cases {
            let mut end = FakeSubagents::end(stop, text);
            end.diagnostic = diagnostic.map(str::to_owned);
            bench.world().subagents.ends(Ok(end));
            let ran = bench.call("subagent", task(Some(false))).await;
            assert!(ran.failure().message.ends_with(expected), "{}", ran.failure().message);
        }
    }

    #[tokio::test]
    async fn what_cannot_be_started_is_told() {
        let bench = Bench::new();
        bench.world().subagents.ends(Err(SubagentError::TooDeep { attempted: 4 }));
        let ran = bench.call("subagent", task(None)).await;
        assert!(ran.failure().message.contains("depth 4"), "{}", ran.failure().message);
        let blank = bench.call("subagent", json!({ "description": " ", "prompt": "x" })).await;
        assert!(blank.value.is_err());
    }

    #[test]
    fn calls_may_overlap_and_say_what_they_give_away() {
        let bench = Bench::new();
        for (tool, title) in [("subagent", "Delegate: Look around"), ("subagent_fork", "Fork: Look around")] {
            assert!(bench.tool(tool).is_concurrency_safe(&task(None)));
            assert_eq!(bench.call_card(tool, task(None)).title(), title);
        }
    }
}
