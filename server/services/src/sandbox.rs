//! Confining commands: how a command line is wrapped, and what its end says about the confinement.
//!
//! Every shell, ours or one in the client's terminal, goes through this, so the promise is one and the same.

use crate::shell::{SandboxPolicy, SandboxReport, ShellError};
use std::path::Path;

/// Confines commands.
pub trait Sandbox: Send + Sync {
    /// How well commands can be confined on this machine.
    fn support(&self) -> SandboxSupport;

    /// The command line that runs `argv` under `policy`; `argv` itself when nothing has to be confined or captured.
    ///
    /// `capture` is an existing private folder, absolute: the wrapper then also keeps stdout, stderr and the exit
    /// there, for a command that somebody else runs.
    ///
    /// # Errors
    /// [`ShellError::SandboxUnavailable`]: the policy confines and nothing here can. Never the unconfined command.
    fn wrap(
        &self,
        argv: &[String],
        policy: &SandboxPolicy,
        capture: Option<&Path>,
    ) -> Result<Vec<String>, ShellError>;

    /// What the end of a wrapped command says; `None` when nothing confined it.
    ///
    /// # Errors
    /// [`ShellError::SandboxUnavailable`] or [`ShellError::Spawn`]: the wrapper gave up before the command ran.
    fn judge(
        &self,
        policy: &SandboxPolicy,
        exit_code: Option<i32>,
        stderr: &str,
    ) -> Result<Option<SandboxReport>, ShellError>;
}

/// How well commands can be confined.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SandboxSupport {
    /// How much of a policy holds.
    pub level: SandboxLevel,
    /// One line for a person: the backend, and what is missing with the remedy.
    pub detail: String,
}

/// How much of a policy holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SandboxLevel {
    /// All of what it says about files.
    Full,
    /// Most of it; the detail says what is open.
    Partial,
    /// Nothing: confined commands are refused.
    None,
}

impl SandboxLevel {
    /// The word in reports: `full`, `partial` or `none`.
    pub fn id(self) -> &'static str {
        match self {
            Self::Full => "full",
            Self::Partial => "partial",
            Self::None => "none",
        }
    }
}

impl SandboxPolicy {
    /// Whether commands under this policy have to be confined at all.
    pub fn confines(&self) -> bool {
        self.mode != protocol::mode::SandboxMode::DangerFullAccess || !self.network
    }
}
