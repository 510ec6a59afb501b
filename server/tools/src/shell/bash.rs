//! `bash`: runs a command line in a fresh shell.
//!
//! Runs through the shell service, which confines the command and shows it while it runs. A command that fails, is
//! killed or times out is a result; only a command that did not run is a failure. Source:
//! `spec/tools-files-shell.md` §8, `spec/presentation.md` §6.

use super::{ansi, background, exit};
use crate::arguments::not_blank;
use crate::denial;
use crate::schema::{nullable_integer, nullable_string};
use async_trait::async_trait;
use pipeline::context::ToolContext;
use pipeline::tool::{Effect, PromptSection};
use pipeline::typed::TypedTool;
use protocol::card::{
    CallCard, ExitState, GenericCall, GenericResult, ResultCard, TerminalCall, TerminalResult, ToolCallKind,
};
use protocol::content::ContentBlock;
use protocol::mode::SandboxMode;
use protocol::tool::{DurableResult, ToolFailure};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use services::jobs::NO_TIMEOUT;
use services::shell::{CapturedStream, LiveSink, ShellOutcome, ShellRequest, quiet_environment};
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

/// Arguments of `bash`.
#[derive(Debug, Deserialize, JsonSchema)]
pub struct BashArgs {
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

/// How the command went.
#[derive(Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(tag = "kind", rename_all = "lowercase")]
pub enum BashOutput {
    /// It goes on in the background.
    #[serde(rename_all = "camelCase")]
    Background {
        /// The job.
        job_id: String,
    },
    /// It ran to its end.
    #[serde(rename_all = "camelCase")]
    Foreground {
        /// Exit code; null when a signal ended it.
        #[schemars(required, schema_with = "nullable_integer")]
        exit_code: Option<i32>,
        /// Signal that ended it; null when it exited.
        #[schemars(required, schema_with = "nullable_string")]
        signal: Option<String>,
        /// Whether its budget ran out.
        timed_out: bool,
        /// Whether it was cancelled.
        aborted: bool,
        /// Its budget in milliseconds.
        timeout_ms: f64,
        /// Standard output.
        stdout: Stream,
        /// Standard error.
        stderr: Stream,
        /// What the sandbox did; absent when nothing confined it.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        sandbox: Option<Confinement>,
    },
}

/// What was kept of one stream, without control sequences.
#[derive(Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Stream {
    /// The whole text, or its head and tail.
    text: String,
    /// Whether `text` is less than everything.
    truncated: bool,
    /// Bytes that were printed.
    total_bytes: u64,
    /// File with the whole stream.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    spill_path: Option<String>,
}

/// What the sandbox did.
#[derive(Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Confinement {
    /// Mode the command ran under.
    mode: ConfinedMode,
    /// Whether it was refused a write.
    denied: bool,
    /// How completely the backend enforces the mode.
    enforcement: String,
    /// Whether the call may be repeated with wider permissions.
    may_escalate: bool,
}

/// A sandbox mode.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum ConfinedMode {
    ReadOnly,
    WorkspaceWrite,
    DangerFullAccess,
}

/// How a command ended, for the card.
#[derive(Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
struct Ended {
    exit_code: Option<i32>,
    signal: Option<String>,
}

impl Ended {
    fn exit(self) -> ExitState {
        match (self.exit_code, self.signal) {
            (_, Some(signal)) => ExitState::Signal(signal),
            (Some(code), None) => ExitState::Code(code),
            (None, None) => ExitState::Unknown,
        }
    }
}

/// The tool.
pub struct Bash;

#[async_trait]
impl TypedTool for Bash {
    type Args = BashArgs;
    type Output = BashOutput;

    const NAME: &'static str = "bash";

    fn description(&self) -> String {
        "Runs a command line with `bash -c` and returns its stdout and stderr. Each call is a fresh shell: no folder, \
         variable or function survives it, so pass workdir instead of using cd. A nonzero exit is reported as \
         [exit code: N]. Facts about this environment are in the managed $FOLLOWSPOT_* variables; look at them when you \
         need them. Commands may run in a file sandbox; a blocked file operation is reported as \
         [sandbox: file access denied under <mode> mode]: that is a decision of policy and no fault of the command, so do \
         not try it another way; a second line says when you may ask for more. Of long output only the head and the tail are returned; the whole is saved to a file, \
         where possible, and its path reported. For a command that runs long, set run_in_background: true: the call \
         returns a job id at once; read the output with job_output and stop the job with job_kill."
            .to_owned()
    }

    fn effect(&self, args: &BashArgs) -> Effect {
        Effect::RunsCommand { command: args.command.clone(), is_shell: true }
    }

    async fn execute(&self, args: BashArgs, ctx: &ToolContext) -> Result<BashOutput, ToolFailure> {
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
            let request = ShellRequest { timeout: NO_TIMEOUT, ..request(&args, timeout_ms, ctx).await };
            let job_id = background::start(Self::NAME, request, ctx)?.to_string();
            return Ok(BashOutput::Background { job_id });
        }
        let request = request(&args, timeout_ms, ctx).await;
        let host = Arc::clone(&ctx.session.host);
        let live: LiveSink = Arc::new(move |update| host.live(update));
        let outcome = ctx.services().shell.run(request, live, &ctx.cancel).await?;
        if outcome.aborted {
            return Err(ToolFailure::aborted());
        }
        Ok(output(outcome, timeout_ms, denial::may_escalate(ctx)))
    }

    fn render(&self, _args: &BashArgs, output: &BashOutput) -> Vec<ContentBlock> {
        vec![ContentBlock::text(text(output))]
    }

    /// How it ended: a policy may replace the text and its marker with it.
    fn presentation_meta(&self, _args: &BashArgs, output: &BashOutput) -> Option<Value> {
        match output {
            // The server finds the job's card by it.
            BashOutput::Background { job_id } => Some(serde_json::json!({ "jobId": job_id })),
            BashOutput::Foreground { exit_code, signal, .. } => {
                let ended = Ended { exit_code: *exit_code, signal: signal.clone() };
                serde_json::to_value(ended).ok()
            }
        }
    }

    fn present_call(&self, args: &BashArgs) -> Option<CallCard> {
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

    fn present_result(&self, args: &BashArgs, result: &DurableResult) -> Option<ResultCard> {
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
            name: "tool:bash".to_owned(),
            order_tenths: 1050,
            text: "A `bash` command failed when its result ends in `[exit code: N]`, `[killed by signal: NAME]` or \
                   `[timed out after Nms]`; without such a line it succeeded. Check before you go on. There is nobody \
                   at the command's input: use options that ask nothing and open no pager or editor."
                .to_owned(),
        })
    }
}

async fn request(args: &BashArgs, timeout_ms: f64, ctx: &ToolContext) -> ShellRequest {
    // Without a private folder the command still runs; only what exceeds memory is lost, and the text says so.
    let spill_directory = ctx.services().spill.directory(&ctx.session.session_id).await.ok();
    ShellRequest {
        session_id: ctx.session.session_id.clone(),
        call_id: ctx.execution.call_id.clone(),
        argv: vec!["bash".to_owned(), "-c".to_owned(), args.command.clone()],
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

fn output(outcome: ShellOutcome, timeout_ms: f64, may_escalate: bool) -> BashOutput {
    BashOutput::Foreground {
        exit_code: outcome.exit_code,
        signal: outcome.signal,
        timed_out: outcome.timed_out,
        aborted: outcome.aborted,
        timeout_ms,
        stdout: stream(outcome.stdout),
        stderr: stream(outcome.stderr),
        sandbox: outcome.sandbox.map(|report| Confinement {
            mode: match report.mode {
                SandboxMode::ReadOnly => ConfinedMode::ReadOnly,
                SandboxMode::WorkspaceWrite => ConfinedMode::WorkspaceWrite,
                SandboxMode::DangerFullAccess => ConfinedMode::DangerFullAccess,
            },
            denied: report.denied,
            enforcement: report.enforcement,
            may_escalate,
        }),
    }
}

fn stream(captured: CapturedStream) -> Stream {
    Stream {
        text: ansi::plain(&captured.text),
        truncated: captured.truncated,
        total_bytes: captured.total_bytes,
        spill_path: captured.spill_path.map(|path| path.display().to_string()),
    }
}

/// Output, error output, then what happened; the exit marker is always last.
fn text(output: &BashOutput) -> String {
    let (exit_code, signal, timed_out, timeout_ms, stdout, stderr, sandbox) = match output {
        BashOutput::Background { job_id } => return format!("started background job {job_id}"),
        BashOutput::Foreground {
            exit_code, signal, timed_out, timeout_ms, stdout, stderr, sandbox, ..
        } => (exit_code, signal, *timed_out, timeout_ms, stdout, stderr, sandbox),
    };
    let mut text = String::new();
    add_stream(&mut text, stdout);
    if !stderr.text.is_empty() || stderr.truncated {
        add_line(&mut text, "[stderr]");
        text.push('\n');
        add_stream(&mut text, stderr);
    }
    if text.is_empty() {
        text.push_str("(no output)");
    }
    if let Some(sandbox) = sandbox.as_ref().filter(|sandbox| sandbox.denied) {
        add_line(&mut text, &denial::lines(sandbox.mode.into(), sandbox.may_escalate));
    }
    if timed_out {
        add_line(&mut text, &format!("[timed out after {timeout_ms}ms]"));
    }
    exit::append(text, &Ended { exit_code: *exit_code, signal: signal.clone() }.exit())
}

fn add_stream(text: &mut String, stream: &Stream) {
    text.push_str(&stream.text);
    if stream.truncated {
        let place = stream.spill_path.as_deref().unwrap_or("(unavailable)");
        let notice = format!("[output truncated: {} bytes in all; full output: {place}]", stream.total_bytes);
        add_line(text, &notice);
    }
}

/// Adds a line without its end; begins it on a fresh line.
fn add_line(text: &mut String, line: &str) {
    if !text.is_empty() && !text.ends_with('\n') {
        text.push('\n');
    }
    text.push_str(line);
}

impl From<ConfinedMode> for SandboxMode {
    fn from(mode: ConfinedMode) -> Self {
        match mode {
            ConfinedMode::ReadOnly => Self::ReadOnly,
            ConfinedMode::WorkspaceWrite => Self::WorkspaceWrite,
            ConfinedMode::DangerFullAccess => Self::DangerFullAccess,
        }
    }
}

/// The text in a fence that nothing inside it can end.
fn console_fence(text: &str) -> String {
    let longest = text.split(|char| char != '`').map(str::len).max().unwrap_or(0);
    let fence = "`".repeat(longest.max(2) + 1);
    format!("{fence}console\n{}\n{fence}", text.trim_end_matches('\n'))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{Bench, Ran};
    use protocol::id::CallId;
    use protocol::live::LiveUpdate;
    use protocol::mode::Mode;
    use serde_json::json;
    use services::fake::shell_outcome;
    use services::shell::{SandboxReport, ShellError};

    fn command(command: &str) -> Value {
        json!({"command": command, "description": "Do it"})
    }

    fn captured(text: &str) -> CapturedStream {
        CapturedStream { text: text.into(), total_bytes: text.len() as u64, ..CapturedStream::default() }
    }

    async fn ended(outcome: ShellOutcome) -> Ran {
        let bench = Bench::new();
        bench.world().shell.outcome(Ok(outcome));
        bench.call("bash", command("x")).await
    }

    #[tokio::test]
    async fn output_then_markers_and_the_card_reads_them_back() {
        let killed = |stdout: &str, signal: &str| ShellOutcome {
            exit_code: None,
            signal: Some(signal.into()),
            ..shell_outcome(stdout, 0)
        };
        let cases = [
            (shell_outcome("hi\n", 0), "hi\n", "hi\n", ExitState::Code(0)),
            (shell_outcome("", 0), "(no output)", "(no output)", ExitState::Code(0)),
            (shell_outcome("", 3), "(no output)\n[exit code: 3]", "(no output)", ExitState::Code(3)),
            (shell_outcome("x", 1), "x\n[exit code: 1]", "x", ExitState::Code(1)),
            (
                ShellOutcome { stderr: captured("e\n"), ..shell_outcome("", 0) },
                "[stderr]\ne\n",
                "[stderr]\ne\n",
                ExitState::Code(0),
            ),
            (
                ShellOutcome { stderr: captured("e"), ..shell_outcome("o", 2) },
                "o\n[stderr]\ne\n[exit code: 2]",
                "o\n[stderr]\ne",
                ExitState::Code(2),
            ),
            (
                killed("x", "SIGSEGV"),
                "x\n[killed by signal: SIGSEGV]",
                "x",
                ExitState::Signal("SIGSEGV".into()),
            ),
            (
                ShellOutcome { timed_out: true, ..killed("", "SIGTERM") },
                "(no output)\n[timed out after 120000ms]\n[killed by signal: SIGTERM]",
                "(no output)\n[timed out after 120000ms]",
                ExitState::Signal("SIGTERM".into()),
            ),
            (
                ShellOutcome { timed_out: true, ..shell_outcome("trapped\n", 0) },
                "trapped\n[timed out after 120000ms]",
                "trapped\n[timed out after 120000ms]",
                ExitState::Code(0),
            ),
            (
                ShellOutcome { exit_code: None, ..shell_outcome("x", 0) },
                "x\n[exit status unknown]",
                "x",
                ExitState::Unknown,
            ),
            (
                shell_outcome("a\n[exit code: 3]", 0),
                "a\n[exit code: 3]\n",
                "a\n[exit code: 3]\n",
                ExitState::Code(0),
            ),
            (
                shell_outcome("\u{1b}[32mok\u{1b}[0m\r\n 5%\r99%\n", 0),
                "ok\n99%\n",
                "ok\n99%\n",
                ExitState::Code(0),
            ),
        ];
        for (outcome, text, output, exit) in cases {
            let ran = ended(outcome).await;
            assert_eq!(ran.text(), text);
            let expected = TerminalResult { title: None, output: output.into(), exit };
            assert_eq!(ran.card, Some(ResultCard::Terminal(expected)));
        }
    }

    #[tokio::test]
    async fn a_replaced_text_still_shows_how_the_command_ended() {
        let bench = Bench::new();
        bench.world().shell.outcome(Ok(shell_outcome("x", 3)));
        let mut stored = bench.call("bash", command("x")).await.durable;
        stored.content = vec![ContentBlock::text("head … tail\n\n(Omitted 9 bytes.)")];
        let terminal = |output: &str, exit| {
            Some(ResultCard::Terminal(TerminalResult { title: None, output: output.into(), exit }))
        };
        let shown = "head … tail\n\n(Omitted 9 bytes.)";
        assert_eq!(bench.result_card("bash", &command("x"), &stored), terminal(shown, ExitState::Code(3)));
        stored.content = vec![ContentBlock::text("x\n[exit code: 4]")];
        stored.meta = None;
        assert_eq!(bench.result_card("bash", &command("x"), &stored), terminal("x", ExitState::Code(4)));
    }

    #[tokio::test]
    async fn a_cut_stream_says_how_much_there_was_and_where_it_is() {
        let stdout = CapturedStream {
            text: "head\n… 90000 bytes left out …\ntail".into(),
            truncated: true,
            total_bytes: 100_000,
            spill_path: Some("/spill/out".into()),
        };
        let stderr = CapturedStream { truncated: true, total_bytes: 7, ..CapturedStream::default() };
        let ran = ended(ShellOutcome { stdout, stderr, ..shell_outcome("", 0) }).await;
        assert_eq!(
            ran.text(),
            "head\n… 90000 bytes left out …\ntail\n[output truncated: 100000 bytes in all; full output: /spill/out]\n\
             [stderr]\n[output truncated: 7 bytes in all; full output: (unavailable)]"
        );
        assert_eq!(ran.value()["stdout"]["spillPath"], "/spill/out");
    }

    #[tokio::test]
    async fn a_denied_write_is_marked_before_the_exit() {
        let report =
            SandboxReport { mode: SandboxMode::WorkspaceWrite, denied: true, enforcement: "full".into() };
        let outcome = ShellOutcome { sandbox: Some(report), ..shell_outcome("", 1) };
        let ran = ended(outcome.clone()).await;
        let lines: Vec<&str> = ran.text().lines().collect();
        assert_eq!(lines[..2], ["(no output)", "[sandbox: file access denied under workspace-write mode]"]);
        assert!(lines[2].starts_with("[sandbox: ") && lines[2].contains("sandbox_permissions"));
        assert_eq!(lines[3], "[exit code: 1]");
        let sandbox = json!({
            "mode": "workspace-write", "denied": true, "enforcement": "full", "mayEscalate": true
        });
        assert_eq!(ran.value()["sandbox"], sandbox);

        let bench = Bench::new();
        bench.session.host.set_mode(Mode::Plan);
        bench.world().shell.outcome(Ok(outcome));
        let ran = bench.call("bash", command("x")).await;
        assert_eq!(ran.text().lines().count(), 3, "{}", ran.text());
    }

    #[tokio::test]
    async fn the_request_holds_what_the_call_says() {
        let bench = Bench::new();
        let mut arguments = command("pwd");
        arguments["workdir"] = json!("sub");
        arguments["timeoutMs"] = json!(1500);
        bench.call("bash", arguments).await;
        let request = &bench.world().shell.requests()[0];
        assert_eq!(request.argv, ["bash", "-c", "pwd"]);
        assert_eq!(request.display, "pwd");
        assert_eq!(request.workdir, PathBuf::from("/project/sub"));
        assert_eq!(request.timeout, Duration::from_millis(1500));
        assert_eq!((request.max_stream_bytes, request.max_spill_bytes), (64_000, 64 * 1024 * 1024));
        assert_eq!(request.spill_directory, PathBuf::from("/spill/session-1"));
        assert_eq!(request.sandbox.mode, SandboxMode::WorkspaceWrite);
        let variable =
            |name: &str| request.env.iter().find(|(known, _)| known == name).map(|(_, value)| value.as_str());
        let expected = [
            ("TERM", "dumb"),
            ("NO_COLOR", "1"),
            ("PAGER", "cat"),
            ("GIT_PAGER", "cat"),
            ("FOLLOWSPOT_SHELL", "1"),
            ("FOLLOWSPOT_SESSION_ID", "session-1"),
        ];
        for (name, value) in expected {
            assert_eq!(variable(name), Some(value), "{name}");
        }
    }

    #[tokio::test]
    async fn folder_and_budget_have_defaults_and_bounds() {
        let bench = Bench::new();
        bench.call("bash", command("x")).await;
        let mut arguments = command("x");
        arguments["workdir"] = json!("/tmp");
        arguments["timeoutMs"] = json!(1e12);
        let ran = bench.call("bash", arguments).await;
        assert_eq!(ran.value()["timeoutMs"], json!(600_000.0));
        let requests = bench.world().shell.requests();
        assert_eq!(
            (&requests[0].workdir, requests[0].timeout),
            (&PathBuf::from("/project"), Duration::from_secs(120))
        );
        assert_eq!(
            (&requests[1].workdir, requests[1].timeout),
            (&PathBuf::from("/tmp"), Duration::from_secs(600))
        );
    }

    #[tokio::test]
    async fn bad_arguments_run_nothing() {
        let bench = Bench::new();
        let cases = [
            (json!({"command": " ", "description": "x"}), "plain"),
            (json!({"command": "x", "description": " "}), "plain"),
            (json!({"command": "x"}), "INVALID_ARGS"),
            (json!({"command": "x", "description": "x", "timeoutMs": 0}), "plain"),
            (json!({"command": "x", "description": "x", "timeoutMs": -5}), "plain"),
            (json!({"command": "x", "description": "x", "timeoutMs": "5"}), "INVALID_ARGS"),
            (json!({"command": " ", "description": "x", "run_in_background": true}), "plain"),
        ];
        for (arguments, code) in cases {
            assert_eq!(bench.call("bash", arguments.clone()).await.code(), code, "{arguments}");
        }
        assert_eq!(bench.world().shell.requests().len(), 0);
    }

    #[tokio::test]
    async fn a_command_that_did_not_run_is_a_failure() {
        let cases = [
            (ShellError::Workdir { path: "/gone".into(), reason: "no such folder".into() }, "plain", "/gone"),
            (ShellError::Spawn { program: "bash".into(), reason: "not found".into() }, "plain", "bash"),
            (ShellError::SandboxUnavailable("no backend".into()), "SANDBOX_UNAVAILABLE", "no backend"),
        ];
        for (error, code, message) in cases {
            let bench = Bench::new();
            bench.world().shell.outcome(Err(error));
            let ran = bench.call("bash", command("x")).await;
            assert_eq!(ran.code(), code);
            assert!(ran.text().contains(message), "{}", ran.text());
            let Some(ResultCard::Generic(card)) = ran.card else { panic!("no generic card") };
            let fenced = format!("```console\n{}\n```", ran.durable.single_text().unwrap());
            assert_eq!(card.content, Some(vec![ContentBlock::text(fenced)]));
        }
    }

    #[tokio::test]
    async fn a_cancelled_command_is_aborted() {
        let bench = Bench::new();
        bench.world().shell.set_endless(true);
        let ctx = bench.session.context("bash", command("sleep 9"));
        ctx.cancel.cancel();
        let failure = bench.tool("bash").execute(&command("sleep 9"), &ctx).await.unwrap_err();
        assert_eq!(failure, ToolFailure::aborted());
    }

    #[tokio::test]
    async fn what_the_command_shows_is_shown_at_once() {
        let bench = Bench::new();
        let update = LiveUpdate::TerminalOutput { call_id: CallId::new("call-1"), delta: "hi".into() };
        bench.world().shell.show(update.clone());
        bench.call("bash", command("x")).await;
        assert_eq!(bench.session.host.live_updates(), [update]);
    }

    #[test]
    fn the_call_is_a_terminal_or_a_job() {
        let bench = Bench::new();
        let mut arguments = command("ls");
        arguments["workdir"] = json!("sub");
        let expected = CallCard::Terminal(TerminalCall {
            title: "ls".into(),
            description: Some("Do it".into()),
            cwd: Some("sub".into()),
        });
        assert_eq!(bench.call_card("bash", arguments.clone()), expected);
        arguments["run_in_background"] = json!(true);
        let expected = CallCard::Generic(GenericCall {
            title: "ls".into(),
            kind: ToolCallKind::Execute,
            raw_input: Some("ls".into()),
            content: vec![ContentBlock::text("Do it")],
            locations: Vec::new(),
        });
        assert_eq!(bench.call_card("bash", arguments.clone()), expected);
        let tool = bench.tool("bash");
        assert!(!tool.is_concurrency_safe(&arguments));
        assert_eq!(tool.effect(&arguments), Effect::RunsCommand { command: "ls".into(), is_shell: true });
        assert_eq!(tool.present_call(&json!({"command": "ls"})), None);
    }

    #[test]
    fn a_job_is_acknowledged_in_a_fence() {
        let bench = Bench::new();
        let mut arguments = command("x");
        arguments["run_in_background"] = json!(true);
        let value = json!({"kind": "background", "jobId": "bash-1"});
        let content = bench.tool("bash").render(&arguments, &value).unwrap();
        assert_eq!(content, [ContentBlock::text("started background job bash-1")]);
        let stored = DurableResult { content, is_error: false, error: None, meta: None };
        let expected = GenericResult {
            title: None,
            content: Some(vec![ContentBlock::text("```console\nstarted background job bash-1\n```")]),
        };
        assert_eq!(bench.result_card("bash", &arguments, &stored), Some(ResultCard::Generic(expected)));
    }

    #[test]
    fn a_fence_is_longer_than_any_inside_it() {
        assert_eq!(console_fence("a\n\n"), "```console\na\n```");
        assert_eq!(console_fence("````x"), "`````console\n````x\n`````");
    }
}
