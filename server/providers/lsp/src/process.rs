//! The process of a server: its own group, a scrubbed environment, the tail of what it complains about.
//!
//! However a server ends, its whole group is killed: nothing it started outlives it.

use rustix::process::{Pid, Signal, kill_process_group};
use services::shell::is_secret_name;
use std::collections::VecDeque;
use std::path::Path;
use std::process::{ExitStatus, Stdio};
use std::sync::{Arc, Mutex, PoisonError};
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite};
use tokio::process::{Child, ChildStderr, Command};

/// Bytes of stderr that are kept.
const MAX_TAIL: usize = 16 * 1024;
/// Characters of it that an error shows.
const MAX_SHOWN: usize = 600;

/// A server to talk with: two streams, and the process behind them when there is one.
pub struct Transport {
    /// What it writes.
    pub output: Box<dyn AsyncRead + Send + Unpin>,
    /// What it reads.
    pub input: Box<dyn AsyncWrite + Send + Unpin>,
    /// Its process; `None` for a server in this program, which ends when its streams are closed.
    pub process: Option<ServerProcess>,
}

/// A process that was started.
pub struct ServerProcess {
    /// The child; killed when dropped.
    pub child: Child,
    /// Its group, killed when dropped.
    pub group: Option<Group>,
    /// Its standard error.
    pub stderr: Option<ChildStderr>,
}

/// A server in this program, reached through one end of a stream.
pub fn in_process(stream: tokio::io::DuplexStream) -> Transport {
    let (output, input) = tokio::io::split(stream);
    Transport { output: Box::new(output), input: Box::new(input), process: None }
}

/// Starts a program in a folder.
///
/// # Errors
/// The system refused.
pub fn spawn(program: &Path, arguments: &[String], folder: &Path) -> std::io::Result<Transport> {
    let mut command = Command::new(program);
    command
        .args(arguments)
        .current_dir(folder)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .kill_on_drop(true);
    #[cfg(unix)]
    command.process_group(0);
    for (name, _) in std::env::vars_os() {
        if name.to_str().is_some_and(is_secret_name) {
            command.env_remove(name);
        }
    }
    let mut child = command.spawn()?;
    let group = Group(child.id().and_then(|id| i32::try_from(id).ok()).and_then(Pid::from_raw));
    let missing = || std::io::Error::other("a pipe is missing");
    Ok(Transport {
        input: Box::new(child.stdin.take().ok_or_else(missing)?),
        output: Box::new(child.stdout.take().ok_or_else(missing)?),
        process: Some(ServerProcess { stderr: child.stderr.take(), child, group: Some(group) }),
    })
}

impl ServerProcess {
    /// Waits for the end of a process; for ever when there is none.
    pub async fn wait(process: &mut Option<Self>) -> Option<ExitStatus> {
        match process {
            Some(process) => process.child.wait().await.ok(),
            None => std::future::pending().await,
        }
    }
}

/// The processes of a server.
pub struct Group(Option<Pid>);

impl Drop for Group {
    fn drop(&mut self) {
        if let Some(group) = self.0 {
            let _ = kill_process_group(group, Signal::KILL);
        }
    }
}

/// The last of what a server wrote to stderr.
#[derive(Clone, Default)]
pub struct Tail(Arc<Mutex<VecDeque<u8>>>);

impl Tail {
    /// Reads to the end of the pipe, if there is one.
    pub async fn collect(self, stderr: Option<ChildStderr>) {
        let Some(mut stderr) = stderr else { return };
        let mut buffer = vec![0; 8192];
        while let Ok(n) = stderr.read(&mut buffer).await {
            if n == 0 {
                return;
            }
            let mut tail = self.0.lock().unwrap_or_else(PoisonError::into_inner);
            tail.extend(&buffer[..n]);
            let excess = tail.len().saturating_sub(MAX_TAIL);
            tail.drain(..excess);
        }
    }

    /// The last lines, for an error; `None` when it said nothing.
    pub fn shown(&self) -> Option<String> {
        let bytes: Vec<u8> = self.0.lock().unwrap_or_else(PoisonError::into_inner).iter().copied().collect();
        let text = String::from_utf8_lossy(&bytes);
        let text = text.trim();
        let n_skipped = text.chars().count().saturating_sub(MAX_SHOWN);
        let shown: String = text.chars().skip(n_skipped).collect();
        (!shown.is_empty()).then(|| if n_skipped > 0 { format!("…{shown}") } else { shown })
    }
}
