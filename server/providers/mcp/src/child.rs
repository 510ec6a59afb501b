//! A server as a child process, in a process group of its own.
//!
//! Its stderr is drained all the time, and only its tail is kept. However the child goes, what is left of its group is
//! killed.

use rustix::process::{Pid, Signal, kill_process_group};
use services::shell::is_secret_name;
use std::path::Path;
use std::process::Stdio;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;
use tokio::io::AsyncReadExt;
use tokio::process::{Child, ChildStderr, ChildStdin, ChildStdout, Command};

/// Bytes of stderr that are kept.
const MAX_TAIL_BYTES: usize = 2048;

/// How long a server may take to end once its input is closed.
const CLOSE_GRACE: Duration = Duration::from_millis(500);

/// How long it may take after the signal to end.
const TERM_GRACE: Duration = Duration::from_millis(400);

/// How long the last words of a dead child are waited for.
const LAST_WORDS: Duration = Duration::from_millis(200);

/// A running server. Dropping it kills its group.
pub struct ServerChild {
    child: Child,
    group: Option<Pid>,
    tail: Arc<Mutex<Vec<u8>>>,
}

impl ServerChild {
    /// Starts a server in `cwd`, with the scrubbed environment of this process and `env` on top.
    ///
    /// # Errors
    /// It could not be started.
    pub fn start(
        program: &Path,
        args: &[String],
        env: &[(String, String)],
        cwd: &Path,
    ) -> std::io::Result<(Self, ChildStdout, ChildStdin)> {
        let inherited = std::env::vars_os().filter(|(name, _)| !is_secret_name(&name.to_string_lossy()));
        let mut child = Command::new(program)
            .args(args)
            .env_clear()
            .envs(inherited)
            .envs(env.iter().map(|(name, value)| (name, value)))
            .current_dir(cwd)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .process_group(0)
            .kill_on_drop(true)
            .spawn()?;
        let missing = || std::io::Error::other("the child has no standard streams");
        let stdout = child.stdout.take().ok_or_else(missing)?;
        let stdin = child.stdin.take().ok_or_else(missing)?;
        let group = child.id().and_then(|id| i32::try_from(id).ok()).and_then(Pid::from_raw);
        let tail = Arc::default();
        if let Some(stderr) = child.stderr.take() {
            tokio::spawn(drain(stderr, Arc::clone(&tail)));
        }
        Ok((Self { child, group, tail }, stdout, stdin))
    }

    /// How a child that went away ended, and its last words; empty when there is nothing to say.
    pub async fn last_words(&mut self) -> String {
        let status = tokio::time::timeout(LAST_WORDS, self.child.wait()).await;
        if status.is_ok() {
            // Its last lines may still be on their way.
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
        let mut words = match status {
            Ok(Ok(status)) => format!("it ended with {status}"),
            _ => String::new(),
        };
        let tail = self.tail.lock().unwrap_or_else(PoisonError::into_inner);
        let tail = String::from_utf8_lossy(&tail);
        if !tail.trim().is_empty() {
            let link = if words.is_empty() { "" } else { "; " };
            words = format!("{words}{link}its last output: {}", tail.trim());
        }
        words
    }

    /// Ends the child, whose input is closed already, and everything it started.
    pub async fn stop(mut self) {
        if tokio::time::timeout(CLOSE_GRACE, self.child.wait()).await.is_err() {
            self.signal(Signal::TERM);
            // What does not listen is killed with the group.
            let _ = tokio::time::timeout(TERM_GRACE, self.child.wait()).await;
        }
    }

    fn signal(&self, signal: Signal) {
        if let Some(group) = self.group {
            // The group may be gone, which is as good.
            let _ = kill_process_group(group, signal);
        }
    }
}

impl Drop for ServerChild {
    fn drop(&mut self) {
        self.signal(Signal::KILL);
    }
}

async fn drain(mut stderr: ChildStderr, tail: Arc<Mutex<Vec<u8>>>) {
    let mut chunk = [0; 4096];
    while let Ok(n_read) = stderr.read(&mut chunk).await {
        if n_read == 0 {
            return;
        }
        let mut tail = tail.lock().unwrap_or_else(PoisonError::into_inner);
        tail.extend_from_slice(&chunk[..n_read]);
        let excess = tail.len().saturating_sub(MAX_TAIL_BYTES);
        tail.drain(..excess);
    }
}
