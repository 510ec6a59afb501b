//! `terminal_close`: ends a terminal.

use super::{TERMINAL, terminal};
use crate::jobs::jobs;
use async_trait::async_trait;
use pipeline::context::ToolContext;
use pipeline::tool::Effect;
use pipeline::typed::TypedTool;
use protocol::card::{CallCard, GenericCall, ToolCallKind};
use protocol::content::ContentBlock;
use protocol::job::JobStatus;
use protocol::tool::ToolFailure;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Arguments of `terminal_close`.
#[derive(Debug, Deserialize, JsonSchema)]
pub struct TerminalCloseArgs {
    /// The terminal's id, `pty-<n>`.
    #[serde(rename = "sessionId")]
    session_id: String,
}

/// What came of it.
#[derive(Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct TerminalCloseOutput {
    /// The terminal.
    session_id: String,
    /// Whether this call closed it.
    outcome: CloseOutcome,
}

/// Who closed it.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum CloseOutcome {
    Closed,
    AlreadyClosing,
}

/// The tool.
pub struct TerminalClose;

#[async_trait]
impl TypedTool for TerminalClose {
    type Args = TerminalCloseArgs;
    type Output = TerminalCloseOutput;

    const NAME: &'static str = "terminal_close";

    fn description(&self) -> String {
        "Ends a terminal and every program that was started in it, and returns when they are gone.".to_owned()
    }

    fn effect(&self, _args: &TerminalCloseArgs) -> Effect {
        Effect::None
    }

    async fn execute(
        &self,
        args: TerminalCloseArgs,
        ctx: &ToolContext,
    ) -> Result<TerminalCloseOutput, ToolFailure> {
        let terminal = terminal(ctx, &args.session_id)?;
        let (jobs, label) = (jobs(ctx)?, super::job_label(&terminal.info()));
        let job = jobs.list().into_iter().find(|job| job.kind == TERMINAL && job.label == label);
        let is_closing = job.as_ref().is_some_and(|job| job.status == JobStatus::Stopping);
        // Stopped as a job, so that the model is not told an end it asked for.
        if let Some(job) = &job {
            jobs.kill(&job.id)?;
        }
        terminal.close().await;
        let outcome = if is_closing { CloseOutcome::AlreadyClosing } else { CloseOutcome::Closed };
        Ok(TerminalCloseOutput { session_id: args.session_id, outcome })
    }

    fn render(&self, _args: &TerminalCloseArgs, output: &TerminalCloseOutput) -> Vec<ContentBlock> {
        let id = &output.session_id;
        vec![ContentBlock::text(match output.outcome {
            CloseOutcome::Closed => format!("closed terminal {id}"),
            CloseOutcome::AlreadyClosing => format!("terminal {id} was closing already"),
        })]
    }

    fn present_call(&self, args: &TerminalCloseArgs) -> Option<CallCard> {
        Some(CallCard::Generic(GenericCall {
            title: format!("Close terminal {}", args.session_id),
            kind: ToolCallKind::Delete,
            ..GenericCall::default()
        }))
    }
}
