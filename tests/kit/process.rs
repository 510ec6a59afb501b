//! The agent's process, and every process that came from it.
//!
//! Each run has a mark in its environment, which all descendants inherit, so that what is left on the machine can be
//! found and ended whatever group or session it moved to.

use std::path::Path;
use std::process::{ExitStatus, Stdio};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;
use tokio::io::{AsyncBufReadExt, BufReader};
use tokio::process::{Child, ChildStderr, ChildStdin, ChildStdout, Command};

const MARK: &str = "SCENARIO_RUN";
const MAX_STDERR_BYTES: usize = 256 << 10;

/// The mark of one run.
#[derive(Clone)]
pub struct Mark(String);

impl Mark {
    pub fn fresh() -> Self {
        static NEXT: AtomicU64 = AtomicU64::new(0);
        Self(format!("{}-{}", std::process::id(), NEXT.fetch_add(1, Ordering::Relaxed)))
    }

    /// The variable that carries it.
    pub fn variable(&self) -> (String, String) {
        (MARK.to_owned(), self.0.clone())
    }

    /// Living processes that carry it, each with its command line, except `pid` itself.
    pub fn processes(&self, except: Option<u32>) -> Vec<(u32, String)> {
        let wanted = format!("{MARK}={}", self.0);
        let mut found = Vec::new();
        for entry in std::fs::read_dir("/proc").into_iter().flatten().flatten() {
            let Some(pid) = entry.file_name().to_str().and_then(|name| name.parse::<u32>().ok()) else {
                continue;
            };
            let Ok(environ) = std::fs::read(entry.path().join("environ")) else { continue };
            let carries = environ.split(|byte| *byte == 0).any(|variable| variable == wanted.as_bytes());
            if carries && Some(pid) != except {
                let command = std::fs::read(entry.path().join("cmdline")).unwrap_or_default();
                found.push((pid, String::from_utf8_lossy(&command).replace('\0', " ")));
            }
        }
        found
    }

    /// Ends whatever carries it.
    pub fn end_all(&self) {
        for (pid, _) in self.processes(None) {
            let _ = std::process::Command::new("kill")
                .args(["-KILL", &pid.to_string()])
                .stderr(Stdio::null())
                .status();
        }
    }
}

/// A started agent.
pub struct AgentProcess {
    pid: u32,
    child: Mutex<Option<Child>>,
    stderr: Arc<Mutex<String>>,
}

impl AgentProcess {
    /// Starts the built binary; call inside the runtime.
    pub fn start(args: &[&str], env: &[(String, String)], cwd: &Path) -> (Self, ChildStdin, ChildStdout) {
        let mut command = Command::new(env!("CARGO_BIN_EXE_followspot"));
        command.args(args).env_clear().envs(env.iter().map(|(name, value)| (name, value))).current_dir(cwd);
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped()).kill_on_drop(true);
        let mut child = command.spawn().expect("the agent starts");
        let (stdin, stdout) = (child.stdin.take().unwrap(), child.stdout.take().unwrap());
        let stderr = Arc::<Mutex<String>>::default();
        tokio::spawn(keep(child.stderr.take().unwrap(), stderr.clone()));
        let pid = child.id().expect("a started process has an id");
        (Self { pid, child: Mutex::new(Some(child)), stderr }, stdin, stdout)
    }

    pub fn pid(&self) -> u32 {
        self.pid
    }

    /// The log so far.
    pub fn stderr(&self) -> String {
        self.stderr.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Waits for the end; `None` when it did not come in time.
    pub async fn ended(&self, deadline: Duration) -> Option<ExitStatus> {
        let mut child = self.take()?;
        match tokio::time::timeout(deadline, child.wait()).await {
            Ok(status) => status.ok(),
            Err(_) => {
                *self.child.lock().unwrap_or_else(PoisonError::into_inner) = Some(child);
                None
            }
        }
    }

    /// Kills it, as `kill -9` does, and waits for its end.
    pub async fn kill(&self) {
        if let Some(mut child) = self.take() {
            let _ = child.kill().await;
        }
    }

    /// Highest resident memory so far, in bytes.
    pub fn peak_memory(&self) -> u64 {
        let status = std::fs::read_to_string(format!("/proc/{}/status", self.pid)).unwrap_or_default();
        let line = status.lines().find(|line| line.starts_with("VmHWM:")).unwrap_or_default();
        line.split_whitespace().nth(1).and_then(|kib| kib.parse::<u64>().ok()).unwrap_or(0) * 1024
    }

    /// CPU time so far.
    pub fn cpu_time(&self) -> Duration {
        let stat = std::fs::read_to_string(format!("/proc/{}/stat", self.pid)).unwrap_or_default();
        let fields: Vec<&str> = stat.rsplit(')').next().unwrap_or_default().split_whitespace().collect();
        let ticks = |idx: usize| fields.get(idx).and_then(|ticks| ticks.parse::<u64>().ok()).unwrap_or(0);
        Duration::from_millis((ticks(11) + ticks(12)) * 10)
    }

    fn take(&self) -> Option<Child> {
        self.child.lock().unwrap_or_else(PoisonError::into_inner).take()
    }
}

async fn keep(stderr: ChildStderr, kept: Arc<Mutex<String>>) {
    let mut lines = BufReader::new(stderr).lines();
    while let Ok(Some(line)) = lines.next_line().await {
        let mut kept = kept.lock().unwrap_or_else(PoisonError::into_inner);
        if kept.len() < MAX_STDERR_BYTES {
            kept.push_str(&line);
            kept.push('\n');
        }
    }
}
