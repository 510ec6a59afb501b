//! Commands as our own children: a process group each, no terminal, streams captured and shown as they come.
//!
//! [`LocalShell`] is the `Shell` service without an editor. The parts that the shell of the client's terminal needs too
//! are public: [`captured_from_file`], [`HeadTail`], [`scrubbed_environment`], [`kill_marked`], [`signal_name`].
//! Confinement is the sandbox service's affair; nothing here forks with code in between.

mod capture;
mod decode;
mod live;
pub(crate) mod process;
mod signal;

pub use capture::{HeadTail, StreamCapture, captured_from_file};
pub use decode::Utf8Decoder;
pub(crate) use live::PERIOD;
pub use live::{LiveOutput, Source};
pub use process::{MARKER_VARIABLE, kill_marked};
pub use signal::signal_name;

use crate::clock::random_hex;
use async_trait::async_trait;
use process::ProcessTree;
use protocol::live::LiveUpdate;
use rustix::process::Pid;
use services::sandbox::Sandbox;
use services::shell::{
    CapturedStream, LiveSink, OutputTap, Shell, ShellError, ShellOutcome, ShellRequest, StreamName,
    is_secret_name,
};
use std::ffi::OsString;
use std::os::unix::process::ExitStatusExt;
use std::path::Path;
use std::process::{ExitStatus, Stdio};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};
use tokio::io::{AsyncRead, AsyncReadExt};
use tokio::process::{Child, Command};
use tokio::sync::Notify;
use tokio_util::sync::CancellationToken;

/// Time between SIGTERM and SIGKILL.
const GRACE: Duration = Duration::from_secs(3);

/// The same when the user waits for a cancel: the whole answer is promised within three seconds.
const CANCEL_GRACE: Duration = Duration::from_millis(1500);

/// After the shell's exit its pipes are read until they have been silent for this long…
const DRAIN_SILENCE: Duration = Duration::from_millis(200);

/// …or for this long in all: a background child may go on printing.
const MAX_DRAIN: Duration = Duration::from_secs(1);

const READ_BYTES: usize = 64 * 1024;

/// Runs commands as our own children.
#[derive(Clone)]
pub struct LocalShell {
    sandbox: Arc<dyn Sandbox>,
    grace: Duration,
}

impl LocalShell {
    /// Runs commands confined by `sandbox`.
    pub fn new(sandbox: Arc<dyn Sandbox>) -> Self {
        Self { sandbox, grace: GRACE }
    }
}

#[async_trait]
impl Shell for LocalShell {
    /// # Cancellation
    /// Dropping the future kills the command and its descendants.
    async fn run(
        &self,
        request: ShellRequest,
        live: LiveSink,
        cancel: &CancellationToken,
    ) -> Result<ShellOutcome, ShellError> {
        self.run_with(request, live, None, cancel).await
    }

    /// # Cancellation
    /// As [`LocalShell::run`].
    async fn run_tapped(
        &self,
        request: ShellRequest,
        live: LiveSink,
        tap: OutputTap,
        cancel: &CancellationToken,
    ) -> Result<ShellOutcome, ShellError> {
        self.run_with(request, live, Some(tap), cancel).await
    }
}

impl LocalShell {
    async fn run_with(
        &self,
        request: ShellRequest,
        live: LiveSink,
        tap: Option<OutputTap>,
        cancel: &CancellationToken,
    ) -> Result<ShellOutcome, ShellError> {
        check_workdir(&request.workdir).await?;
        let argv = self.sandbox.wrap(&request.argv, &request.sandbox, None)?;
        if cancel.is_cancelled() {
            return Ok(never_started());
        }
        let marker = random_hex(16);
        let (child, tree) = spawn(&argv, &request, &marker)?;
        live(LiveUpdate::TerminalOpened { call_id: request.call_id.clone(), cwd: request.workdir.clone() });

        let run = Run {
            output: LiveOutput::new(live.clone(), request.call_id.clone()),
            streams: Streams::default(),
            request: &request,
            tap,
            cancel,
            grace: self.grace,
        };
        let ended = run.to_end(child, tree).await;

        run.output.finish();
        let exit_code = ended.status.and_then(|status| status.code());
        let signal = ended.status.and_then(|status| status.signal()).map(signal_name);
        live(LiveUpdate::TerminalExited {
            call_id: request.call_id.clone(),
            exit_code,
            signal: signal.clone(),
        });
        let sandbox = self.sandbox.judge(&request.sandbox, exit_code, &ended.stderr.text)?;
        Ok(ShellOutcome {
            exit_code,
            signal,
            timed_out: ended.cause == Cause::TimedOut,
            aborted: ended.cause == Cause::Aborted,
            stdout: ended.stdout,
            stderr: ended.stderr,
            sandbox,
        })
    }
}

/// The parent's environment without secrets and without this program's own variables: what a command may see.
pub fn scrubbed_environment() -> Vec<(OsString, OsString)> {
    std::env::vars_os().filter(|(name, _)| !is_secret_name(&name.to_string_lossy())).collect()
}

/// Checks that a command can run in this folder.
///
/// # Errors
/// `Workdir`.
pub async fn check_workdir(path: &Path) -> Result<(), ShellError> {
    let reason = match tokio::task::spawn_blocking({
        let path = path.to_owned();
        move || std::fs::metadata(path)
    })
    .await
    {
        Ok(Ok(metadata)) if metadata.is_dir() => return Ok(()),
        Ok(Ok(_)) => "it is not a folder".to_owned(),
        Ok(Err(error)) if error.kind() == std::io::ErrorKind::NotFound => "it does not exist".to_owned(),
        Ok(Err(error)) => error.to_string(),
        Err(error) => error.to_string(),
    };
    Err(ShellError::Workdir { path: path.to_owned(), reason })
}

fn never_started() -> ShellOutcome {
    ShellOutcome {
        exit_code: None,
        signal: None,
        timed_out: false,
        aborted: true,
        stdout: CapturedStream::default(),
        stderr: CapturedStream::default(),
        sandbox: None,
    }
}

fn spawn(argv: &[String], request: &ShellRequest, marker: &str) -> Result<(Child, ProcessTree), ShellError> {
    let failed = |reason: String| ShellError::Spawn {
        program: request.argv.first().cloned().unwrap_or_default(),
        reason,
    };
    let Some((program, arguments)) = argv.split_first() else {
        return Err(failed("the command is empty".to_owned()));
    };
    let mut command = Command::new(program);
    command
        .args(arguments)
        .current_dir(&request.workdir)
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .process_group(0);
    // Names are taken out one by one: clearing the whole environment would make the spawn fork instead of using
    // `posix_spawn`, which costs tens of milliseconds in a large process.
    for (name, _) in std::env::vars_os() {
        if is_secret_name(&name.to_string_lossy()) {
            command.env_remove(name);
        }
    }
    command.envs(request.env.iter().map(|(name, value)| (name, value))).env(MARKER_VARIABLE, marker);
    let mut child = command.spawn().map_err(|error| failed(error.to_string()))?;
    match child.id().and_then(|pid| i32::try_from(pid).ok()).and_then(Pid::from_raw) {
        Some(leader) => Ok((child, ProcessTree::new(leader, marker))),
        None => {
            let _ = child.start_kill();
            Err(failed("the system gave no process id".to_owned()))
        }
    }
}

/// Why a command ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Cause {
    Exited,
    TimedOut,
    Aborted,
}

struct Ended {
    cause: Cause,
    /// `None` when even SIGKILL did not end it in time.
    status: Option<ExitStatus>,
    stdout: CapturedStream,
    stderr: CapturedStream,
}

/// What the readers of both streams tell the rest.
struct Streams {
    n_open: AtomicUsize,
    all_closed: Notify,
    last_read: Mutex<Instant>,
    /// Ends reading, though the pipes may still be open.
    stop: CancellationToken,
}

impl Default for Streams {
    fn default() -> Self {
        Self {
            n_open: AtomicUsize::new(2),
            all_closed: Notify::new(),
            last_read: Mutex::new(Instant::now()),
            stop: CancellationToken::new(),
        }
    }
}

/// One run of a command: three jobs side by side in one task — read, show, and wait for the end.
struct Run<'a> {
    output: LiveOutput,
    streams: Streams,
    request: &'a ShellRequest,
    /// Whoever reads along.
    tap: Option<OutputTap>,
    cancel: &'a CancellationToken,
    grace: Duration,
}

impl Run<'_> {
    async fn to_end(&self, mut child: Child, tree: ProcessTree) -> Ended {
        let (stdout, stderr) = (child.stdout.take(), child.stderr.take());
        let (stdout, stderr, (), (cause, status)) = tokio::join!(
            self.capture(stdout, Source::Stdout),
            self.capture(stderr, Source::Stderr),
            self.show(),
            self.wait(&mut child, tree),
        );
        Ended { cause, status, stdout, stderr }
    }

    async fn capture(&self, pipe: Option<impl AsyncRead + Unpin>, source: Source) -> CapturedStream {
        let request = self.request;
        let (label, stream) = match source {
            Source::Stdout => ("stdout", StreamName::Stdout),
            Source::Stderr => ("stderr", StreamName::Stderr),
        };
        let mut capture = StreamCapture::new(
            request.max_stream_bytes,
            request.max_spill_bytes,
            request.spill_directory.clone(),
            label,
        );
        let mut buffer = vec![0; READ_BYTES];
        if let Some(mut pipe) = pipe {
            loop {
                let read = tokio::select! {
                    biased;
                    () = self.streams.stop.cancelled() => break,
                    read = pipe.read(&mut buffer) => read,
                };
                let Ok(n_read @ 1..) = read else { break };
                let now = Instant::now();
                *self.streams.last_read.lock().unwrap_or_else(PoisonError::into_inner) = now;
                self.output.push(source, &buffer[..n_read], now);
                if let Some(tap) = &self.tap {
                    tap(stream, &buffer[..n_read]);
                }
                if !capture.needs_disk(n_read) {
                    capture.push(&buffer[..n_read]);
                    continue;
                }
                let written = tokio::task::spawn_blocking(move || {
                    capture.push(&buffer[..n_read]);
                    (capture, buffer)
                });
                match written.await {
                    Ok(back) => (capture, buffer) = back,
                    Err(_) => return CapturedStream { truncated: true, ..CapturedStream::default() },
                }
            }
        }
        if self.streams.n_open.fetch_sub(1, Ordering::AcqRel) == 1 {
            self.streams.all_closed.notify_one();
        }
        capture.finish()
    }

    async fn show(&self) {
        let mut ticks = tokio::time::interval(live::PERIOD);
        ticks.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
        loop {
            tokio::select! {
                () = self.streams.stop.cancelled() => return,
                _ = ticks.tick() => self.output.tick(Instant::now()),
            }
        }
    }

    async fn wait(&self, child: &mut Child, tree: ProcessTree) -> (Cause, Option<ExitStatus>) {
        let (cause, mut status) = tokio::select! {
            biased;
            status = child.wait() => (Cause::Exited, status.ok()),
            () = self.cancel.cancelled() => (Cause::Aborted, None),
            () = tokio::time::sleep(self.request.timeout) => (Cause::TimedOut, None),
        };
        if cause != Cause::Exited {
            let most = if cause == Cause::Aborted { CANCEL_GRACE } else { GRACE };
            tree.stop(child, self.grace.min(most)).await;
            // After SIGKILL only a process stuck in the system is still there; it must not hold up the turn.
            status = tokio::time::timeout(DRAIN_SILENCE, child.wait()).await.ok().and_then(Result::ok);
        }
        self.drain().await;
        self.streams.stop.cancel();
        tree.disarm();
        (cause, status)
    }

    /// Waits until the pipes are closed, silent, or the time for it is up.
    async fn drain(&self) {
        let exited = Instant::now();
        loop {
            let last_read = *self.streams.last_read.lock().unwrap_or_else(PoisonError::into_inner);
            let silent_since = last_read.max(exited);
            let until = (silent_since + DRAIN_SILENCE).min(exited + MAX_DRAIN);
            let left = until.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return;
            }
            tokio::select! {
                () = self.streams.all_closed.notified() => return,
                () = tokio::time::sleep(left) => {}
            }
        }
    }
}

#[cfg(test)]
mod tests;
