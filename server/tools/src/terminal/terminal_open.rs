//! `terminal_open`: starts a shell that lasts.

use super::{MAX_RESULT_BYTES, Status, tail, terminals};
use crate::arguments::not_blank;
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
use services::shell::{LiveSink, quiet_environment};
use services::terminals::{OpenTerminal, Terminal, TerminalStatus};
use std::sync::Arc;

/// Arguments of `terminal_open`.
#[derive(Debug, Deserialize, JsonSchema)]
pub struct TerminalOpenArgs {
    /// Type of terminal: `shell`, an interactive bash.
    #[serde(rename = "type")]
    kind: String,
    /// Name for it, unique among your open terminals.
    name: Option<String>,
    /// Folder to start in. Default: the session's folder, where a relative path starts too.
    cwd: Option<String>,
}

/// The terminal.
#[derive(Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct TerminalOpenOutput {
    /// Its id.
    session_id: String,
    /// Its name.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    name: Option<String>,
    /// Its type.
    #[serde(rename = "type")]
    kind: String,
    /// Process of its shell.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pid: Option<i32>,
    /// How it is.
    status: Status,
    /// What it printed at the start.
    motd: String,
    /// The job that shows it.
    job_id: String,
}

/// The tool.
pub struct TerminalOpen;

#[async_trait]
impl TypedTool for TerminalOpen {
    type Args = TerminalOpenArgs;
    type Output = TerminalOpenOutput;

    const NAME: &'static str = "terminal_open";

    fn description(&self) -> String {
        "Opens a terminal that lasts: folder, variables and running programs stay from one terminal_send to the next. For \
         REPLs, debuggers and other programs that are talked to; use bash for a single command. It has 40 rows of 160 \
         columns, runs in the same sandbox as bash, and ends with the session; close it with terminal_close when it is \
         not needed any more. At most 50 are open at a time."
            .to_owned()
    }

    fn effect(&self, _args: &TerminalOpenArgs) -> Effect {
        Effect::RunsCommand { command: "bash -i".to_owned(), is_shell: false }
    }

    async fn execute(
        &self,
        args: TerminalOpenArgs,
        ctx: &ToolContext,
    ) -> Result<TerminalOpenOutput, ToolFailure> {
        not_blank("type", &args.kind)?;
        let (terminals, jobs) = (terminals(ctx)?, jobs(ctx)?);
        let host = Arc::clone(&ctx.session.host);
        let live: LiveSink = Arc::new(move |update| host.live(update));
        let facts = [("FOLLOWSPOT_SHELL", "1"), ("FOLLOWSPOT_SESSION_ID", ctx.session.session_id.as_str())];
        let facts = facts.map(|(name, value)| (name.to_owned(), value.to_owned()));
        let request = OpenTerminal {
            owner: ctx.session.session_id.clone(),
            call_id: ctx.execution.call_id.clone(),
            kind: args.kind,
            name: args.name,
            cwd: args.cwd.as_ref().map_or_else(|| ctx.cwd().to_owned(), |cwd| ctx.cwd().join(cwd)),
            env: quiet_environment().into_iter().chain(facts).collect(),
            sandbox: ctx.sandbox(),
        };
        let opened = terminals.open(request, live);
        let terminal = match ctx.cancel.run_until_cancelled(opened).await {
            Some(opened) => opened?,
            None => return Err(ToolFailure::aborted()),
        };
        let info = terminal.info();
        let motd = ansi::plain(&terminal.output());
        let shown = terminal.clone();
        let started = jobs.start(NewJob {
            kind: super::TERMINAL.to_owned(),
            label: super::job_label(&info),
            call_id: ctx.execution.call_id.clone(),
            max_output_bytes: None,
            output: Arc::new(Shown(terminal.clone())),
            work: Box::new(move |cancel| {
                Box::pin(async move {
                    let status = match cancel.run_until_cancelled(shown.exited()).await {
                        Some(status) => status,
                        None => {
                            shown.close().await;
                            return JobEnd::new(JobStatus::Killed, "closed".to_owned());
                        }
                    };
                    end(&status)
                })
            }),
        });
        match started {
            Ok(job) => Ok(TerminalOpenOutput {
                session_id: info.id,
                name: info.name,
                kind: info.kind,
                pid: info.pid,
                status: info.status.into(),
                motd: tail(motd, 4096).0,
                job_id: job.to_string(),
            }),
            Err(error) => {
                terminal.close().await;
                Err(error.into())
            }
        }
    }

    fn render(&self, _args: &TerminalOpenArgs, output: &TerminalOpenOutput) -> Vec<ContentBlock> {
        let name = output.name.as_ref().map(|name| format!(" ({name})")).unwrap_or_default();
        let motd = if output.motd.trim().is_empty() { "(no startup output)" } else { &output.motd };
        let text = format!("opened terminal {}{name} [type: {}]\n{motd}", output.session_id, output.kind);
        vec![ContentBlock::text(text)]
    }

    /// The server finds the card of the terminal's job by it.
    fn presentation_meta(&self, _args: &TerminalOpenArgs, output: &TerminalOpenOutput) -> Option<Value> {
        Some(serde_json::json!({ "jobId": output.job_id }))
    }

    fn present_call(&self, args: &TerminalOpenArgs) -> Option<CallCard> {
        Some(CallCard::Generic(GenericCall {
            title: format!("Open terminal {}", args.name.as_ref().unwrap_or(&args.kind)),
            kind: ToolCallKind::Execute,
            ..GenericCall::default()
        }))
    }
}

fn end(status: &TerminalStatus) -> JobEnd {
    match status {
        TerminalStatus::Exited { signal: Some(signal), .. } => {
            JobEnd::new(JobStatus::Killed, format!("signal: {signal}"))
        }
        TerminalStatus::Exited { exit_code: Some(code), .. } => {
            JobEnd::new(JobStatus::Completed, format!("exit code: {code}"))
        }
        _ => JobEnd::new(JobStatus::Completed, "exit status unknown".to_owned()),
    }
}

/// The output of a terminal as that of its job: the end of what is kept.
struct Shown(Arc<dyn Terminal>);

impl JobOutput for Shown {
    fn read(&self) -> String {
        tail(ansi::plain(&self.0.output()), MAX_RESULT_BYTES).0
    }

    fn tail(&self) -> (String, u64) {
        text_tail(&ansi::plain(&self.0.output()))
    }
}
