//! Running the user's hooks: commands that are told of an event and may have a say in it.
//!
//! Called by the hooks policy; implemented by `provider-local`. Source: `spec/runtime.md` §8.

use async_trait::async_trait;
use std::path::PathBuf;
use std::time::Duration;
use tokio_util::sync::CancellationToken;

/// Runs hooks.
#[async_trait]
pub trait HookRunner: Send + Sync {
    /// Runs one command to its end, its timeout or the cancellation; the last two stop it with everything it started.
    /// Never fails: what went wrong is an end too.
    async fn run(&self, run: HookRun, cancel: &CancellationToken) -> HookEnd;
}

/// A hook to run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HookRun {
    /// A line for the shell.
    pub command: String,
    /// Where it runs, absolute.
    pub cwd: PathBuf,
    /// What it reads on its standard input, whole.
    pub input: String,
    /// When it is stopped.
    pub timeout: Duration,
}

/// How a hook ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum HookEnd {
    /// By itself.
    Exited {
        /// Its exit code; `None` when a signal ended it.
        code: Option<i32>,
        /// The beginning of what it wrote, at most [`MAX_OUTPUT_BYTES`].
        stdout: String,
        /// The same of its errors.
        stderr: String,
    },
    /// It took too long.
    TimedOut,
    /// The cancellation stopped it.
    Cancelled,
    /// It could not be started; the text says why.
    NotStarted(String),
}

/// Bytes of each stream that are kept; the rest is read and dropped.
pub const MAX_OUTPUT_BYTES: usize = 256 << 10;
