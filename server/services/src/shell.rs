//! Running commands.

use async_trait::async_trait;
use protocol::id::{CallId, SessionId};
use protocol::live::LiveUpdate;
use protocol::mode::SandboxMode;
use protocol::tool::ToolFailure;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;
use tokio_util::sync::CancellationToken;

/// Shows what a command does while it does it.
pub type LiveSink = Arc<dyn Fn(LiveUpdate) + Send + Sync>;

/// Takes everything a command prints, as it comes, undecoded; must not wait.
pub type OutputTap = Arc<dyn Fn(StreamName, &[u8]) + Send + Sync>;

/// One of the two streams of a command.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum StreamName {
    /// Standard output.
    Stdout,
    /// Standard error.
    Stderr,
}

/// Runs commands: in the client's terminal or as our own children. The sandbox promise holds either way.
#[async_trait]
pub trait Shell: Send + Sync {
    /// Runs a command to its end. Timeouts and the cancellation stop it: SIGTERM to the group, SIGKILL after the grace.
    /// Returns on the shell's exit plus a short drain, not on the pipe's end. On cancellation the outcome says `aborted`.
    ///
    /// # Errors
    /// [`ShellError`]: the command did not run at all.
    async fn run(
        &self,
        request: ShellRequest,
        live: LiveSink,
        cancel: &CancellationToken,
    ) -> Result<ShellOutcome, ShellError>;

    /// The same, and `tap` is given all output as it comes. Where that is not possible the tap gets nothing, and the
    /// outcome holds what was printed.
    ///
    /// # Errors
    /// As [`Shell::run`].
    async fn run_tapped(
        &self,
        request: ShellRequest,
        live: LiveSink,
        tap: OutputTap,
        cancel: &CancellationToken,
    ) -> Result<ShellOutcome, ShellError> {
        drop(tap);
        self.run(request, live, cancel).await
    }
}

/// A command to run.
#[derive(Clone, Debug)]
pub struct ShellRequest {
    /// Session it runs for.
    pub session_id: SessionId,
    /// Call it runs for.
    pub call_id: CallId,
    /// Program and arguments, for instance `["bash", "-c", "…"]`.
    pub argv: Vec<String>,
    /// The command as the model wrote it, for headers.
    pub display: String,
    /// Folder to run in, absolute; checked before the start.
    pub workdir: PathBuf,
    /// Variables set on top of the scrubbed environment.
    pub env: Vec<(String, String)>,
    /// When to stop it.
    pub timeout: Duration,
    /// What it may write.
    pub sandbox: SandboxPolicy,
    /// Bytes of each stream kept in memory: head and tail.
    pub max_stream_bytes: usize,
    /// Bytes of each stream kept on disk when memory is not enough.
    pub max_spill_bytes: u64,
    /// Private folder for spilled streams, absolute, mode 0700.
    pub spill_directory: PathBuf,
}

/// What a command or a file tool may write.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SandboxPolicy {
    /// How wide.
    pub mode: SandboxMode,
    /// Folders, or single files, that may be written under `workspace-write`, absolute and canonical; temporary folders
    /// are added by the provider.
    pub writable_roots: Vec<PathBuf>,
    /// Whether connections are allowed.
    pub network: bool,
}

/// How a command ended. Facts that are orthogonal are separate: it may time out *and* exit 0.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ShellOutcome {
    /// Exit code; `None` when a signal ended it.
    pub exit_code: Option<i32>,
    /// Signal that ended it, for instance `SIGTERM`.
    pub signal: Option<String>,
    /// Whether our timeout stopped it.
    pub timed_out: bool,
    /// Whether the caller's cancellation stopped it.
    pub aborted: bool,
    /// Standard output.
    pub stdout: CapturedStream,
    /// Standard error.
    pub stderr: CapturedStream,
    /// What the sandbox did; `None` when nothing confined it.
    pub sandbox: Option<SandboxReport>,
}

/// What was kept of one stream. Decoded; control sequences are still in.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct CapturedStream {
    /// The whole text, or head, an omission line and tail.
    pub text: String,
    /// Whether `text` is less than everything.
    pub truncated: bool,
    /// Bytes it printed in all.
    pub total_bytes: u64,
    /// Absolute path of the whole stream; `None` when it was not spilled or exceeded the spill limit.
    pub spill_path: Option<PathBuf>,
}

/// What the sandbox did.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SandboxReport {
    /// The mode it ran under.
    pub mode: SandboxMode,
    /// Whether a write was refused.
    pub denied: bool,
    /// `full` or `partial`, as the backend reports.
    pub enforcement: String,
}

/// Why a command did not run.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ShellError {
    /// The folder to run in is missing or no folder.
    #[error("cannot run in {path}: {reason}")]
    Workdir {
        /// The folder.
        path: PathBuf,
        /// What is wrong with it.
        reason: String,
    },
    /// Confinement was requested and cannot be given.
    #[error("the sandbox cannot confine commands here: {0}")]
    SandboxUnavailable(String),
    /// The program could not be started.
    #[error("could not start {program}: {reason}")]
    Spawn {
        /// The program.
        program: String,
        /// What the system said.
        reason: String,
    },
}

/// Variables that keep a command from waiting for a person: no pager, no editor, no password or confirmation prompt, no
/// colour. Set by the tool through [`ShellRequest::env`].
pub fn quiet_environment() -> Vec<(String, String)> {
    [
        ("NO_COLOR", "1"),
        ("TERM", "dumb"),
        ("PAGER", "cat"),
        ("GIT_PAGER", "cat"),
        ("MANPAGER", "cat"),
        ("SYSTEMD_PAGER", "cat"),
        ("GIT_TERMINAL_PROMPT", "0"),
        ("GIT_EDITOR", "true"),
        ("GIT_SEQUENCE_EDITOR", "true"),
        ("EDITOR", "true"),
        ("VISUAL", "true"),
        ("SSH_ASKPASS_REQUIRE", "never"),
        ("DEBIAN_FRONTEND", "noninteractive"),
        ("PIP_NO_INPUT", "1"),
        ("NPM_CONFIG_YES", "true"),
    ]
    .map(|(name, value)| (name.to_owned(), value.to_owned()))
    .to_vec()
}

/// Whether a variable of this name stays out of the environment of commands: its name speaks of a secret, or it is one
/// of this program's own. Source: `spec/tools-files-shell.md` §0.6.
pub fn is_secret_name(name: &str) -> bool {
    let name = name.to_ascii_uppercase();
    name.starts_with("FOLLOWSPOT_")
        || ["KEY", "PASSWORD", "SECRET", "TOKEN"].iter().any(|word| name.contains(word))
}

impl From<ShellError> for ToolFailure {
    fn from(error: ShellError) -> Self {
        match error {
            ShellError::SandboxUnavailable(_) => {
                Self::coded("SandboxUnavailableError", "SANDBOX_UNAVAILABLE", error.to_string())
            }
            _ => Self::plain(error.to_string()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_of_secrets_are_recognised_in_any_case() {
        let secret = ["API_KEY", "my_token", "DbPassword", "CLIENT_SECRET_ID", "FOLLOWSPOT_MODEL"];
        let plain = ["PATH", "HOME", "LANG", "SSH_AUTH_SOCK", "MY_FOLLOWSPOT"];
        assert_eq!(secret.map(is_secret_name), [true; 5]);
        assert_eq!(plain.map(is_secret_name), [false; 5]);
    }
}
