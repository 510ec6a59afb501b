//! `terminal_send`: types into a terminal and waits until it wants input again.

use super::{MAX_RESULT_BYTES, Status, tail, terminal};
use crate::jobs::jobs;
use crate::shell::ansi;
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
use serde_json::Value;
use services::jobs::{JobEnd, JobOutput, NewJob, text_tail};
use services::terminals::{Sent, TerminalError, TerminalStatus};
use std::sync::{Arc, Mutex, PoisonError};
use tokio_util::sync::CancellationToken;

/// Bytes that the lines after the output may take.
const MARKER_BYTES: usize = 160;

/// Arguments of `terminal_send`.
#[derive(Debug, Deserialize, JsonSchema)]
pub struct TerminalSendArgs {
    /// The terminal's id, `pty-<n>`.
    #[serde(rename = "sessionId")]
    session_id: String,
    /// What to type; control characters are passed on.
    text: String,
    /// Whether to press Enter after it. Default true.
    submit: Option<bool>,
    /// Wait in the background and return a job id at once; job_output reads the result.
    run_in_background: Option<bool>,
}

/// What came of it.
#[derive(Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(tag = "kind", rename_all = "lowercase")]
pub enum TerminalSendOutput {
    /// It waits in the background.
    #[serde(rename_all = "camelCase")]
    Background {
        /// The job.
        job_id: String,
    },
    /// The wait is over.
    #[serde(rename_all = "camelCase")]
    Foreground {
        /// New output, or the screen of a full-screen program.
        viewport: String,
        /// Why the wait ended.
        wait_reason: String,
        /// How the terminal is.
        session_status: Status,
        /// Whether the beginning of the output is missing.
        truncated: bool,
    },
}

/// The tool.
pub struct TerminalSend;

#[async_trait]
impl TypedTool for TerminalSend {
    type Args = TerminalSendArgs;
    type Output = TerminalSendOutput;

    const NAME: &'static str = "terminal_send";

    fn description(&self) -> String {
        "Types text into an open terminal, presses Enter unless submit is false, and returns what it printed, or the \
         screen of a full-screen program. The call waits at most 30 s; the last lines say why it ended: \
         [wait: stdin_read] the prompt is back or the program reads input, [wait: inferred_idle] nothing was printed for \
         3 s, [wait: timeout], [wait: session_exit]. After inferred_idle or timeout the program may still be at work: read \
         again with terminal_read. One send per terminal at a time."
            .to_owned()
    }

    fn effect(&self, args: &TerminalSendArgs) -> Effect {
        Effect::RunsCommand { command: args.text.clone(), is_shell: false }
    }

    async fn execute(
        &self,
        args: TerminalSendArgs,
        ctx: &ToolContext,
    ) -> Result<TerminalSendOutput, ToolFailure> {
        let terminal = terminal(ctx, &args.session_id)?;
        let (opened, now) = (terminal.sandbox(), ctx.sandbox());
        if opened.mode > now.mode || (opened.network && !now.network) {
            return Err(ToolFailure::plain(format!(
                "terminal {} was opened with wider permissions ({}) than the session has now ({}); close it and open another",
                args.session_id,
                opened.mode.id(),
                now.mode.id()
            )));
        }
        let submit = args.submit.unwrap_or(true);
        if args.run_in_background != Some(true) {
            let sent = terminal.send(&args.text, submit, ctx.cancel.clone())?.await?;
            return Ok(foreground(sent));
        }
        let jobs = jobs(ctx)?;
        let token = CancellationToken::new();
        let waiting = terminal.send(&args.text, submit, token.clone())?;
        let output = Arc::new(Shown::default());
        let kept = output.clone();
        let text = if args.text.trim().is_empty() { "(input)" } else { args.text.as_str() };
        let job = jobs.start(NewJob {
            kind: "pty-send".to_owned(),
            label: format!("{}: {text}", args.session_id),
            call_id: ctx.execution.call_id.clone(),
            max_output_bytes: Some(MAX_RESULT_BYTES),
            output,
            work: Box::new(move |cancel| {
                Box::pin(async move {
                    let mut waiting = waiting;
                    let ended = match cancel.run_until_cancelled(&mut waiting).await {
                        Some(ended) => ended,
                        None => {
                            token.cancel();
                            waiting.await
                        }
                    };
                    kept.end(ended)
                })
            }),
        })?;
        Ok(TerminalSendOutput::Background { job_id: job.to_string() })
    }

    fn render(&self, _args: &TerminalSendArgs, output: &TerminalSendOutput) -> Vec<ContentBlock> {
        vec![ContentBlock::text(match output {
            TerminalSendOutput::Background { job_id } => format!("started background job {job_id}"),
            TerminalSendOutput::Foreground { viewport, wait_reason, session_status, truncated } => {
                let mut text =
                    if viewport.trim().is_empty() { "(no new output)" } else { viewport }.to_owned();
                if !text.ends_with('\n') {
                    text.push('\n');
                }
                text.push_str(&format!("[wait: {wait_reason}]\n[session: {}]", session_status.words(" ")));
                if *truncated {
                    text.push_str("\n[output truncated]");
                }
                text
            }
        })]
    }

    /// The server finds the card of a background send by it.
    fn presentation_meta(&self, _args: &TerminalSendArgs, output: &TerminalSendOutput) -> Option<Value> {
        match output {
            TerminalSendOutput::Background { job_id } => Some(serde_json::json!({ "jobId": job_id })),
            TerminalSendOutput::Foreground { .. } => None,
        }
    }

    fn present_call(&self, args: &TerminalSendArgs) -> Option<CallCard> {
        let text = if args.text.trim().is_empty() { "(send input)" } else { args.text.as_str() };
        let background = if args.run_in_background == Some(true) { " in background" } else { "" };
        Some(CallCard::Generic(GenericCall {
            title: format!("Send to terminal {}{background}: {text}", args.session_id),
            kind: ToolCallKind::Execute,
            raw_input: Some(args.text.clone().into()),
            ..GenericCall::default()
        }))
    }
}

fn foreground(sent: Sent) -> TerminalSendOutput {
    let (viewport, is_cut) = tail(ansi::plain(&sent.viewport), MAX_RESULT_BYTES - MARKER_BYTES);
    TerminalSendOutput::Foreground {
        viewport,
        wait_reason: sent.reason.id().to_owned(),
        session_status: sent.status.into(),
        truncated: sent.truncated || is_cut,
    }
}

/// The result of a background send.
#[derive(Default)]
struct Shown(Mutex<String>);

impl Shown {
    fn end(&self, ended: Result<Sent, TerminalError>) -> JobEnd {
        let (text, end) = match ended {
            Ok(sent) => {
                let detail = match &sent.status {
                    TerminalStatus::Running => format!("wait: {}", sent.reason.id()),
                    exited => Status::from(exited.clone()).words(" "),
                };
                (ansi::plain(&sent.viewport), JobEnd::new(JobStatus::Completed, detail))
            }
            Err(TerminalError::Cancelled) => (String::new(), JobEnd::new(JobStatus::Killed, None)),
            Err(error) => (String::new(), JobEnd::new(JobStatus::Failed, error.to_string())),
        };
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = text;
        end
    }
}

impl JobOutput for Shown {
    fn read(&self) -> String {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    fn tail(&self) -> (String, u64) {
        text_tail(&self.read())
    }
}
