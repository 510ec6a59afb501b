//! Runs the user's hooks as children of their own group.

use crate::shell::process::{MARKER_VARIABLE, ProcessTree};
use async_trait::async_trait;
use rustix::process::Pid;
use services::hooks::{HookEnd, HookRun, HookRunner, MAX_OUTPUT_BYTES};
use services::shell::is_secret_name;
use std::process::Stdio;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWriteExt};
use tokio::process::Command;
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;

/// How long a stopped hook may take to end by itself.
const STOP_GRACE: Duration = Duration::from_millis(500);

/// How long the output of a hook that ended is read on: what it left running may hold the pipe open.
const DRAIN: Duration = Duration::from_millis(200);

/// Hooks on this machine, run by `sh`, with the scrubbed environment.
#[derive(Debug, Default)]
pub struct LocalHooks;

#[async_trait]
impl HookRunner for LocalHooks {
    async fn run(&self, run: HookRun, cancel: &CancellationToken) -> HookEnd {
        static NEXT: AtomicU64 = AtomicU64::new(0);
        let marker = format!("hook-{}-{}", std::process::id(), NEXT.fetch_add(1, Ordering::Relaxed));
        let inherited = std::env::vars_os().filter(|(name, _)| !is_secret_name(&name.to_string_lossy()));
        let started = Command::new("sh")
            .arg("-c")
            .arg(&run.command)
            .env_clear()
            .envs(inherited)
            .env("CLAUDE_PROJECT_DIR", &run.cwd)
            .env(MARKER_VARIABLE, &marker)
            .current_dir(&run.cwd)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .process_group(0)
            .spawn();
        let mut child = match started {
            Ok(child) => child,
            Err(error) => return HookEnd::NotStarted(error.to_string()),
        };
        let leader = child.id().and_then(|id| i32::try_from(id).ok()).and_then(Pid::from_raw);
        let Some(leader) = leader else { return HookEnd::NotStarted("it has no process id".to_owned()) };
        let tree = ProcessTree::new(leader, &marker);
        if let Some(mut stdin) = child.stdin.take() {
            // A hook need not read what it is told; the end of the pipe then is no failure.
            tokio::spawn(async move {
                let _ = stdin.write_all(run.input.as_bytes()).await;
            });
        }
        let stdout = child.stdout.take().map(Kept::read);
        let stderr = child.stderr.take().map(Kept::read);
        let status = tokio::select! {
            status = child.wait() => status,
            () = tokio::time::sleep(run.timeout) => {
                tree.stop(&mut child, STOP_GRACE).await;
                return HookEnd::TimedOut;
            }
            () = cancel.cancelled() => {
                tree.stop(&mut child, STOP_GRACE).await;
                return HookEnd::Cancelled;
            }
        };
        // What a hook leaves running on purpose may go on.
        tree.disarm();
        let (stdout, stderr) = tokio::join!(Kept::text(stdout), Kept::text(stderr));
        match status {
            Ok(status) => HookEnd::Exited { code: status.code(), stdout, stderr },
            Err(error) => HookEnd::NotStarted(error.to_string()),
        }
    }
}

/// The beginning of a stream, while it is read to its end.
struct Kept {
    bytes: Arc<Mutex<Vec<u8>>>,
    task: JoinHandle<()>,
}

impl Kept {
    fn read(mut stream: impl AsyncRead + Unpin + Send + 'static) -> Self {
        let bytes = Arc::<Mutex<Vec<u8>>>::default();
        let kept = bytes.clone();
        let task = tokio::spawn(async move {
            let mut chunk = [0; 8192];
            while let Ok(n_read) = stream.read(&mut chunk).await {
                if n_read == 0 {
                    return;
                }
                let mut kept = kept.lock().unwrap_or_else(PoisonError::into_inner);
                let room = MAX_OUTPUT_BYTES.saturating_sub(kept.len()).min(n_read);
                kept.extend_from_slice(&chunk[..room]);
            }
        });
        Self { bytes, task }
    }

    async fn text(kept: Option<Self>) -> String {
        let Some(mut kept) = kept else { return String::new() };
        if tokio::time::timeout(DRAIN, &mut kept.task).await.is_err() {
            kept.task.abort();
        }
        let bytes = kept.bytes.lock().unwrap_or_else(PoisonError::into_inner);
        String::from_utf8_lossy(&bytes).into_owned()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    async fn ended(command: &str, timeout: Duration, cancel: &CancellationToken) -> HookEnd {
        let run = HookRun {
            command: command.to_owned(),
            cwd: std::env::temp_dir(),
            input: "{\"event\": 1}".to_owned(),
            timeout,
        };
        LocalHooks.run(run, cancel).await
    }

    fn exited(code: i32, stdout: &str, stderr: &str) -> HookEnd {
        HookEnd::Exited { code: Some(code), stdout: stdout.to_owned(), stderr: stderr.to_owned() }
    }

    #[tokio::test]
    async fn a_hook_reads_its_input_and_its_end_is_told() {
        let never = CancellationToken::new();
        let cases = [
            ("cat; echo no >&2; exit 2", exited(2, "{\"event\": 1}", "no\n")),
            ("exit 0", exited(0, "", "")),
            ("printf $CLAUDE_PROJECT_DIR", exited(0, &std::env::temp_dir().display().to_string(), "")),
            ("sleep 60 & echo left", exited(0, "left\n", "")),
        ];
        for (command, expected) in cases {
            assert_eq!(ended(command, Duration::from_secs(10), &never).await, expected, "{command}");
        }
    }

    #[tokio::test]
    async fn a_hook_that_takes_too_long_or_is_cancelled_is_stopped() {
        let cancel = CancellationToken::new();
        assert_eq!(ended("sleep 60", Duration::from_millis(50), &cancel).await, HookEnd::TimedOut);
        cancel.cancel();
        assert_eq!(ended("sleep 60", Duration::from_secs(60), &cancel).await, HookEnd::Cancelled);
    }
}
