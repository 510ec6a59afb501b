//! Commands with scripted outcomes.

use super::{Script, lock};
use crate::shell::{CapturedStream, LiveSink, Shell, ShellError, ShellOutcome, ShellRequest};
use async_trait::async_trait;
use protocol::live::LiveUpdate;
use std::sync::Mutex;
use tokio_util::sync::CancellationToken;

/// Answers commands from a script; a command beyond it prints nothing and exits 0.
#[derive(Default)]
pub struct FakeShell {
    script: Script<ShellRequest, Result<ShellOutcome, ShellError>>,
    live: Mutex<Vec<LiveUpdate>>,
    endless: Mutex<bool>,
}

impl FakeShell {
    /// Adds the outcome of a command.
    pub fn outcome(&self, outcome: Result<ShellOutcome, ShellError>) {
        self.script.push(outcome);
    }

    /// Adds an update that the next command shows before it ends.
    pub fn show(&self, update: LiveUpdate) {
        lock(&self.live).push(update);
    }

    /// Whether commands run until they are cancelled; their outcome is then `aborted`.
    pub fn set_endless(&self, endless: bool) {
        *lock(&self.endless) = endless;
    }

    /// Every command that was run.
    pub fn requests(&self) -> Vec<ShellRequest> {
        self.script.asked()
    }
}

#[async_trait]
impl Shell for FakeShell {
    async fn run(
        &self,
        request: ShellRequest,
        live: LiveSink,
        cancel: &CancellationToken,
    ) -> Result<ShellOutcome, ShellError> {
        let outcome = self.script.ask(request);
        for update in std::mem::take(&mut *lock(&self.live)) {
            live(update);
        }
        let endless = *lock(&self.endless);
        if endless {
            cancel.cancelled().await;
        }
        if cancel.is_cancelled() {
            let killed = ShellOutcome {
                exit_code: None,
                signal: Some("SIGTERM".to_owned()),
                aborted: true,
                ..shell_outcome("", 0)
            };
            return Ok(killed);
        }
        outcome.unwrap_or_else(|| Ok(shell_outcome("", 0)))
    }
}

/// The outcome of a command that printed `stdout` and exited with `exit_code`, unconfined.
pub fn shell_outcome(stdout: &str, exit_code: i32) -> ShellOutcome {
    ShellOutcome {
        exit_code: Some(exit_code),
        signal: None,
        timed_out: false,
        aborted: false,
        stdout: CapturedStream {
            text: stdout.to_owned(),
            truncated: false,
            total_bytes: stdout.len() as u64,
            spill_path: None,
        },
        stderr: CapturedStream::default(),
        sandbox: None,
    }
}
