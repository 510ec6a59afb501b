//! Lasting terminals: a shell on a pseudo-terminal that goes on between calls.
//!
//! Implemented by `provider-local`; called by the `terminal_*` tools. Every terminal has an owner, the session that
//! opened it, and only the owner reaches it. Source: `spec/tools-files-shell.md` §11.

use crate::shell::{LiveSink, SandboxPolicy, ShellError};
use async_trait::async_trait;
use futures::future::BoxFuture;
use protocol::id::{CallId, SessionId};
use protocol::tool::ToolFailure;
use std::path::PathBuf;
use std::sync::Arc;
use tokio_util::sync::CancellationToken;

/// The only kind of terminal there is.
pub const SHELL_KIND: &str = "shell";

/// Opens terminals and finds them again.
#[async_trait]
pub trait Terminals: Send + Sync {
    /// Starts a shell and waits for its first prompt, a few seconds at most. Output goes to `live` until it ends.
    /// Dropping the future kills what was started.
    ///
    /// # Errors
    /// [`TerminalError`]; nothing runs then.
    async fn open(&self, request: OpenTerminal, live: LiveSink) -> Result<Arc<dyn Terminal>, TerminalError>;

    /// The owner's terminal with this id.
    ///
    /// # Errors
    /// `Unknown`, `Foreign`.
    fn get(&self, owner: &SessionId, id: &str) -> Result<Arc<dyn Terminal>, TerminalError>;

    /// The owner's terminals in the order of their starts; those whose shell has exited too, until they are closed.
    fn list(&self, owner: &SessionId) -> Vec<TerminalInfo>;
}

/// One terminal.
#[async_trait]
pub trait Terminal: Send + Sync {
    /// What it is and how it is.
    fn info(&self) -> TerminalInfo;

    /// What its shell may write: the policy it was opened under.
    fn sandbox(&self) -> SandboxPolicy;

    /// Claims the input at once; the future writes, then waits until the terminal seems to want input again, 30 s at
    /// most. Cancelled, it interrupts the foreground programs (SIGINT) and fails; the terminal lives on.
    ///
    /// # Errors
    /// `SendActive`, `Exited`; from the future `Cancelled`.
    fn send(
        &self,
        text: &str,
        submit: bool,
        cancel: CancellationToken,
    ) -> Result<BoxFuture<'static, Result<Sent, TerminalError>>, TerminalError>;

    /// Everything that is kept of its output, control sequences still in; what a full-screen program drew is not,
    /// but for its present screen at the end.
    fn output(&self) -> String;

    /// Sends a signal to the programs in the foreground; gives back their process group.
    ///
    /// # Errors
    /// `Exited`, `Refused`.
    fn signal(&self, signal: TerminalSignal) -> Result<i32, TerminalError>;

    /// Ends the shell and everything it started; returns when they are gone. `false` when it was closing already.
    async fn close(&self) -> bool;

    /// Waits until the shell and everything it started are gone.
    async fn exited(&self) -> TerminalStatus;
}

/// A terminal to open.
#[derive(Clone, Debug)]
pub struct OpenTerminal {
    /// Session it belongs to.
    pub owner: SessionId,
    /// Call whose card shows it.
    pub call_id: CallId,
    /// Kind, [`SHELL_KIND`].
    pub kind: String,
    /// Name, unique among the owner's open terminals.
    pub name: Option<String>,
    /// Folder to start in, absolute.
    pub cwd: PathBuf,
    /// Variables set on top of the scrubbed environment.
    pub env: Vec<(String, String)>,
    /// What it may write.
    pub sandbox: SandboxPolicy,
}

/// A terminal as it is told.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TerminalInfo {
    /// Id, `pty-<n>`.
    pub id: String,
    /// Name.
    pub name: Option<String>,
    /// Kind.
    pub kind: String,
    /// Process of the shell; `None` once it has exited.
    pub pid: Option<i32>,
    /// How it is.
    pub status: TerminalStatus,
}

/// How a terminal is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum TerminalStatus {
    /// The shell runs.
    Running,
    /// The shell has exited.
    Exited {
        /// Exit code; `None` when a signal ended it.
        exit_code: Option<i32>,
        /// Signal that ended it.
        signal: Option<String>,
    },
}

/// What came of a send.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Sent {
    /// Output since the last send ended, control sequences still in, or the screen of a full-screen program.
    pub viewport: String,
    /// Whether the beginning of the output was not kept.
    pub truncated: bool,
    /// Why the wait ended.
    pub reason: WaitReason,
    /// How the terminal is after it.
    pub status: TerminalStatus,
}

/// Why a wait ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WaitReason {
    /// The shell shows its prompt, or the program reads its input.
    StdinRead,
    /// Nothing was printed for a while; the program may still be at work.
    InferredIdle,
    /// The longest wait is over; output goes on.
    Timeout,
    /// The shell has exited.
    SessionExit,
}

impl WaitReason {
    /// The word for it.
    pub fn id(self) -> &'static str {
        match self {
            Self::StdinRead => "stdin_read",
            Self::InferredIdle => "inferred_idle",
            Self::Timeout => "timeout",
            Self::SessionExit => "session_exit",
        }
    }
}

/// A signal that can be sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TerminalSignal {
    /// Interrupt.
    Int,
    /// Terminate.
    Term,
    /// Kill.
    Kill,
    /// Stop.
    Tstp,
    /// Hang up.
    Hup,
}

/// Why nothing was done.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum TerminalError {
    /// No such kind.
    #[error("there is no terminal type `{0}`; the one there is: {SHELL_KIND}")]
    NoBackend(String),
    /// The name is taken.
    #[error("a terminal named `{0}` is open already; choose another name or close it")]
    DuplicateName(String),
    /// No such terminal.
    #[error("there is no terminal `{0}`; terminal_list names those there are")]
    Unknown(String),
    /// It belongs to another session.
    #[error("the terminal `{0}` belongs to another agent")]
    Foreign(String),
    /// A send waits already.
    #[error("a send to `{0}` is still waiting; let it end or stop it first")]
    SendActive(String),
    /// The shell has exited.
    #[error("the shell of terminal `{0}` has exited; its output can still be read")]
    Exited(String),
    /// The signal is not sent.
    #[error("{0}")]
    Refused(String),
    /// The caller cancelled.
    #[error("cancelled")]
    Cancelled,
    /// The shell did not start.
    #[error(transparent)]
    Shell(#[from] ShellError),
}

impl From<TerminalError> for ToolFailure {
    fn from(error: TerminalError) -> Self {
        let code = match error {
            TerminalError::NoBackend(_) => "NO_BACKEND",
            TerminalError::DuplicateName(_) => "DUPLICATE_NAME",
            TerminalError::Unknown(_) => "NO_SESSION",
            TerminalError::Foreign(_) => "FOREIGN_SESSION",
            TerminalError::SendActive(_) => "SEND_ACTIVE",
            TerminalError::Exited(_) | TerminalError::Refused(_) => return Self::plain(error.to_string()),
            TerminalError::Cancelled => return Self::aborted(),
            TerminalError::Shell(error) => return error.into(),
        };
        Self::coded("TerminalError", code, error.to_string())
    }
}
