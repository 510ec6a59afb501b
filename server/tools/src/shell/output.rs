//! How a command of the model went: the value of `bash` and `pwsh`, and the text the model reads.
//!
//! Called by the tool in `command`. Knows no service. Source: `spec/tools-files-shell.md` §8, `spec/presentation.md` §6.

use super::{ansi, exit};
use crate::denial;
use crate::schema::{nullable_integer, nullable_string};
use protocol::card::ExitState;
use protocol::mode::SandboxMode;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use services::shell::{CapturedStream, ShellOutcome};

/// How the command went.
#[derive(Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(tag = "kind", rename_all = "lowercase")]
pub enum CommandOutput {
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
pub(super) struct Ended {
    pub(super) exit_code: Option<i32>,
    pub(super) signal: Option<String>,
}

impl Ended {
    pub(super) fn exit(self) -> ExitState {
        match (self.exit_code, self.signal) {
            (_, Some(signal)) => ExitState::Signal(signal),
            (Some(code), None) => ExitState::Code(code),
            (None, None) => ExitState::Unknown,
        }
    }
}

/// The value of a command that ran; `may_escalate` says whether the call may ask for wider permissions.
pub(super) fn output(outcome: ShellOutcome, timeout_ms: f64, may_escalate: bool) -> CommandOutput {
    CommandOutput::Foreground {
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
pub(super) fn text(output: &CommandOutput) -> String {
    let (exit_code, signal, timed_out, timeout_ms, stdout, stderr, sandbox) = match output {
        CommandOutput::Background { job_id } => return format!("started background job {job_id}"),
        CommandOutput::Foreground {
            exit_code,
            signal,
            timed_out,
            timeout_ms,
            stdout,
            stderr,
            sandbox,
            ..
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
pub(super) fn console_fence(text: &str) -> String {
    let longest = text.split(|char| char != '`').map(str::len).max().unwrap_or(0);
    let fence = "`".repeat(longest.max(2) + 1);
    format!("{fence}console\n{}\n{fence}", text.trim_end_matches('\n'))
}
