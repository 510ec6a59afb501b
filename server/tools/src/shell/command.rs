//! The tool that runs a command line in a fresh shell, whichever language the shell speaks.
//!
//! `bash` and `pwsh` are this tool with their [`Language`]. Runs through the shell service, which confines the command
//! and shows it while it runs. A command that fails, is killed or times out is a result; only a command that did not run
//! is a failure. Source: `spec/tools-files-shell.md` §8 and §9, `spec/presentation.md` §6.

use super::output::{CommandOutput, Ended, console_fence, output, text};
use super::{background, exit};
use crate::arguments::not_blank;
use crate::denial;
use async_trait::async_trait;
use pipeline::context::ToolContext;
use pipeline::tool::{Effect, PromptSection};
use pipeline::typed::TypedTool;
use protocol::card::{
    CallCard, GenericCall, GenericResult, ResultCard, TerminalCall, TerminalResult, ToolCallKind,
};
use protocol::content::ContentBlock;
use protocol::tool::{DurableResult, ToolFailure};
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::Value;
use services::jobs::NO_TIMEOUT;
use services::shell::{LiveSink, ShellError, ShellRequest, quiet_environment};
use std::marker::PhantomData;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

/// Budget of a command that names none, in milliseconds.
const DEFAULT_TIMEOUT_MS: f64 = 120_000.0;
/// Largest budget, in milliseconds; a larger one is cut to it.
const MAX_TIMEOUT_MS: f64 = 600_000.0;
/// Bytes of each stream that the model reads.
const MAX_STREAM_BYTES: usize = 64_000;
/// Bytes of each stream kept on disk.
const MAX_SPILL_BYTES: u64 = 64 * 1024 * 1024;

/// What differs between the shells.
pub trait Language: Send + Sync + 'static {
    /// Name of the tool, and kind of its background jobs.
    const NAME: &'static str;
    /// What the model reads about the tool.
    const DESCRIPTION: &'static str;
    /// What the system prompt says about it.
    const GUIDANCE: &'static str;

    /// Program and arguments that run `command`.
    fn argv(command: &str) -> Vec<String>;

    /// What the model reads when the command did not run.
    fn failure(error: ShellError) -> ToolFailure {
        error.into()
    }
}

/// Arguments of `bash` and `pwsh`.
#[derive(Debug, Deserialize, JsonSchema)]
pub struct CommandArgs {
    /// The command line to run.
    command: String,
    /// What the command does, in 5 to 10 words, active voice; the user sees it. "ls" → "List files in current folder";
    /// "git status" → "Show state of the working tree"; "npm install" → "Install package dependencies".
    description: String,
    /// Budget in milliseconds; the command is killed when it is used up. Default 120000, at most 600000.
    #[serde(rename = "timeoutMs")]
    timeout_ms: Option<f64>,
    /// Folder to run in. Default: the session's folder, where a relative path starts too.
    workdir: Option<String>,
    /// Run in the background and return a job id at once; job_output reads its output, job_kill stops it. No budget
    /// applies.
    run_in_background: Option<bool>,
}

/// The tool of a language.
pub struct Command<L>(pub PhantomData<L>);

#[async_trait]
impl<L: Language> TypedTool for Command<L> {
    type Args = CommandArgs;
    type Output = CommandOutput;

    const NAME: &'static str = L::NAME;

    fn description(&self) -> String {
        L::DESCRIPTION.to_owned()
    }

    fn effect(&self, args: &CommandArgs) -> Effect {
        Effect::RunsCommand { command: args.command.clone(), is_shell: true }
    }

    async fn execute(&self, args: CommandArgs, ctx: &ToolContext) -> Result<CommandOutput, ToolFailure> {
        not_blank("command", &args.command)?;
        not_blank("description", &args.description)?;
        let timeout_ms = args.timeout_ms.unwrap_or(DEFAULT_TIMEOUT_MS);
        if !(timeout_ms.is_finite() && timeout_ms > 0.0) {
            return Err(ToolFailure::plain(format!(
                "timeoutMs must be a positive number of milliseconds, not {timeout_ms}"
            )));
        }
        let timeout_ms = timeout_ms.min(MAX_TIMEOUT_MS);
        if args.run_in_background == Some(true) {
            let request = ShellRequest { timeout: NO_TIMEOUT, ..request::<L>(&args, timeout_ms, ctx).await };
            let job_id = background::start(Self::NAME, request, ctx)?.to_string();
            return Ok(CommandOutput::Background { job_id });
        }
        let request = request::<L>(&args, timeout_ms, ctx).await;
        let host = Arc::clone(&ctx.session.host);
        let live: LiveSink = Arc::new(move |update| host.live(update));
        let outcome = ctx.services().shell.run(request, live, &ctx.cancel).await.map_err(L::failure)?;
        if outcome.aborted {
            return Err(ToolFailure::aborted());
        }
        Ok(output(outcome, timeout_ms, denial::may_escalate(ctx)))
    }

    fn render(&self, _args: &CommandArgs, output: &CommandOutput) -> Vec<ContentBlock> {
        vec![ContentBlock::text(text(output))]
    }

    /// How it ended: a policy may replace the text and its marker with it.
    fn presentation_meta(&self, _args: &CommandArgs, output: &CommandOutput) -> Option<Value> {
        match output {
            // The server finds the job's card by it.
            CommandOutput::Background { job_id } => Some(serde_json::json!({ "jobId": job_id })),
            CommandOutput::Foreground { exit_code, signal, .. } => {
                let ended = Ended { exit_code: *exit_code, signal: signal.clone() };
                serde_json::to_value(ended).ok()
            }
        }
    }

    fn present_call(&self, args: &CommandArgs) -> Option<CallCard> {
        if args.run_in_background == Some(true) {
            return Some(CallCard::Generic(GenericCall {
                title: args.command.clone(),
                kind: ToolCallKind::Execute,
                raw_input: Some(args.command.clone().into()),
                content: vec![ContentBlock::text(&args.description)],
                locations: Vec::new(),
            }));
        }
        Some(CallCard::Terminal(TerminalCall {
            title: args.command.clone(),
            description: Some(args.description.clone()),
            cwd: args.workdir.clone(),
        }))
    }

    fn present_result(&self, args: &CommandArgs, result: &DurableResult) -> Option<ResultCard> {
        let text = result.single_text()?;
        if result.is_error || args.run_in_background == Some(true) {
            return Some(ResultCard::Generic(GenericResult {
                title: None,
                content: Some(vec![ContentBlock::text(console_fence(text))]),
            }));
        }
        let (output, parsed) = exit::parse(text);
        let ended = result.meta.as_ref().and_then(|meta| Ended::deserialize(meta).ok());
        let exit = ended.map_or(parsed, |ended| ended.exit());
        Some(ResultCard::Terminal(TerminalResult { title: None, output: output.to_owned(), exit }))
    }

    fn section(&self) -> Option<PromptSection> {
        Some(PromptSection {
            name: format!("tool:{}", L::NAME),
            order_tenths: 1050,
            text: L::GUIDANCE.to_owned(),
        })
    }
}

async fn request<L: Language>(args: &CommandArgs, timeout_ms: f64, ctx: &ToolContext) -> ShellRequest {
    // Without a private folder the command still runs; only what exceeds memory is lost, and the text says so.
    let spill_directory = ctx.services().spill.directory(&ctx.session.session_id).await.ok();
    ShellRequest {
        session_id: ctx.session.session_id.clone(),
        call_id: ctx.execution.call_id.clone(),
        argv: L::argv(&args.command),
        display: args.command.clone(),
        workdir: args
            .workdir
            .as_ref()
            .map_or_else(|| ctx.cwd().to_owned(), |workdir| ctx.cwd().join(workdir)),
        env: environment(ctx),
        timeout: Duration::from_secs_f64(timeout_ms / 1000.0),
        sandbox: ctx.sandbox(),
        max_stream_bytes: MAX_STREAM_BYTES,
        max_spill_bytes: if spill_directory.is_some() { MAX_SPILL_BYTES } else { 0 },
        spill_directory: spill_directory.unwrap_or_else(PathBuf::new),
    }
}

/// Variables that keep commands from waiting for a person, and the facts about this environment.
fn environment(ctx: &ToolContext) -> Vec<(String, String)> {
    let facts = [("FOLLOWSPOT_SHELL", "1"), ("FOLLOWSPOT_SESSION_ID", ctx.session.session_id.as_str())];
    let facts = facts.map(|(name, value)| (name.to_owned(), value.to_owned()));
    quiet_environment().into_iter().chain(facts).collect()
}
