//! One terminal: a shell on a pseudo-terminal, the task that reads it, and the waits of sends.
//!
//! The task owns the shell and its processes: however it ends, they end with it.

use super::screen::{COLUMNS, ROWS, Screen};
use super::{Place, has_exited, lock, probe};
use crate::clock::random_hex;
use crate::shell::process::ProcessTree;
use crate::shell::{LiveOutput, MARKER_VARIABLE, Source, scrubbed_environment, signal_name};
use async_trait::async_trait;
use futures::future::BoxFuture;
use pty_process::{OwnedReadPty, OwnedWritePty, Size};
use rustix::process::{Pid, Signal, kill_process_group};
use services::sandbox::Sandbox;
use services::shell::{LiveSink, SandboxPolicy, ShellError};
use services::terminals::{
    OpenTerminal, Sent, Terminal, TerminalError, TerminalInfo, TerminalSignal, TerminalStatus, WaitReason,
};
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::process::ExitStatusExt;
use std::process::ExitStatus;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::process::Child;
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;

/// Time between two looks at a terminal that is waited for.
const POLL: Duration = Duration::from_millis(50);
/// Silence after which the foreground programs are looked at.
const PROBE_AFTER: Duration = Duration::from_millis(150);
/// Silence that counts as waiting for input.
const IDLE_AFTER: Duration = Duration::from_secs(3);
/// Longest wait of a send.
const MAX_WAIT: Duration = Duration::from_secs(30);
/// Longest wait for the first prompt.
const MAX_START: Duration = Duration::from_secs(5);
/// Longest wait for the interrupted programs after a cancel.
const MAX_INTERRUPT: Duration = Duration::from_secs(1);
/// Time between the first signal and SIGKILL when a terminal is closed.
const GRACE: Duration = Duration::from_secs(1);
/// Longest reading after the shell's exit.
const MAX_DRAIN: Duration = Duration::from_millis(200);
const READ_BYTES: usize = 16 * 1024;

/// A terminal and its shell.
pub(super) struct PtyTerminal(Arc<Shared>);

struct Shared {
    id: String,
    name: Option<String>,
    kind: String,
    shell: Pid,
    sandbox: SandboxPolicy,
    screen: Mutex<Screen>,
    status: watch::Sender<TerminalStatus>,
    /// Both ends of writing; `None` once the shell is gone, so that no descriptor stays.
    input: tokio::sync::Mutex<Option<OwnedWritePty>>,
    control: Mutex<Option<OwnedFd>>,
    is_sending: AtomicBool,
    closing: CancellationToken,
    place: Place,
}

/// Closes a terminal whose opening was given up.
pub(super) struct CloseOnDrop(pub Option<Arc<PtyTerminal>>);

impl CloseOnDrop {
    pub fn keep(mut self) {
        self.0 = None;
    }
}

impl Drop for CloseOnDrop {
    fn drop(&mut self) {
        if let Some(terminal) = &self.0 {
            terminal.0.closing.cancel();
        }
    }
}

impl PtyTerminal {
    /// Starts the shell and the task that reads it.
    pub fn start(
        request: OpenTerminal,
        place: Place,
        sandbox: &dyn Sandbox,
        live: LiveSink,
    ) -> Result<Arc<Self>, TerminalError> {
        let argv = ["/bin/bash", "--noprofile", "--norc", "-i"].map(str::to_owned);
        let argv = sandbox.wrap(&argv, &request.sandbox, None)?;
        let failed =
            |reason: String| TerminalError::Shell(ShellError::Spawn { program: "/bin/bash".into(), reason });
        let Some((program, arguments)) = argv.split_first() else {
            return Err(failed("the command is empty".to_owned()));
        };
        let (pty, pts) = pty_process::open().map_err(|error| failed(error.to_string()))?;
        pty.resize(Size::new(ROWS, COLUMNS)).map_err(|error| failed(error.to_string()))?;
        let control = pty.as_fd().try_clone_to_owned().map_err(|error| failed(error.to_string()))?;
        let (marker, nonce, id) = (random_hex(16), random_hex(8), place.id());
        let prompt = |sign: &str| format!("\\[\\e]133;D;{nonce}\\a\\]{sign} ");
        let command = pty_process::Command::new(program)
            .args(arguments)
            .current_dir(&request.cwd)
            .env_clear()
            .envs(scrubbed_environment())
            .envs(request.env.iter().map(|(name, value)| (name, value)))
            .env("TERM", "xterm-256color")
            .env("PS1", prompt("followspot>"))
            .env("PS2", prompt(">"))
            .env("FOLLOWSPOT_PTY_SESSION_ID", &id)
            .env(MARKER_VARIABLE, &marker);
        let mut child = command.spawn(pts).map_err(|error| failed(error.to_string()))?;
        let Some(shell) = child.id().and_then(|pid| i32::try_from(pid).ok()).and_then(Pid::from_raw) else {
            let _ = child.start_kill();
            return Err(failed("the system gave no process id".to_owned()));
        };
        let tree = ProcessTree::new(shell, &marker);
        let (output, input) = pty.into_split();
        let shared = Arc::new(Shared {
            id,
            name: request.name,
            kind: request.kind,
            shell,
            sandbox: request.sandbox,
            screen: Mutex::new(Screen::new(&format!("\x1b]133;D;{nonce}\x07"))),
            status: watch::channel(TerminalStatus::Running).0,
            input: tokio::sync::Mutex::new(Some(input)),
            control: Mutex::new(Some(control)),
            is_sending: AtomicBool::new(false),
            closing: CancellationToken::new(),
            place,
        });
        let live = LiveOutput::new(live, request.call_id);
        tokio::spawn(attend(shared.clone(), output, child, tree, live));
        Ok(Arc::new(Self(shared)))
    }

    /// Waits for the first prompt.
    pub async fn first_prompt(&self) {
        let until = Instant::now() + MAX_START;
        while Instant::now() < until
            && !has_exited(&self.0.status.borrow())
            && lock(&self.0.screen).n_prompts() == 0
        {
            tokio::time::sleep(POLL / 5).await;
        }
    }
}

/// Reads the terminal until its shell exits or it is closed, then ends everything it started.
async fn attend(
    shared: Arc<Shared>,
    mut output: OwnedReadPty,
    mut child: Child,
    tree: ProcessTree,
    live: LiveOutput,
) {
    let mut buffer = vec![0; READ_BYTES];
    let mut ticks = tokio::time::interval(crate::shell::PERIOD);
    ticks.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
    let mut is_open = true;
    let status = loop {
        tokio::select! {
            () = shared.closing.cancelled() => break None,
            status = child.wait() => break status.ok(),
            read = output.read(&mut buffer), if is_open => match read {
                Ok(n_read @ 1..) => shared.take(&buffer[..n_read], &live),
                // The last process has let go of it; the shell's exit follows.
                _ => is_open = false,
            },
            _ = ticks.tick() => live.tick(Instant::now()),
        }
    };
    let until = tokio::time::Instant::now() + MAX_DRAIN;
    while status.is_some() && is_open {
        match tokio::time::timeout_at(until, output.read(&mut buffer)).await {
            Ok(Ok(n_read @ 1..)) => shared.take(&buffer[..n_read], &live),
            _ => break,
        }
    }
    // An interactive shell ignores SIGTERM, but a hang-up ends it and what it started.
    let _ = kill_process_group(shared.shell, Signal::HUP);
    tree.stop(&mut child, GRACE).await;
    let status = match status {
        Some(status) => Some(status),
        None => tokio::time::timeout(MAX_DRAIN, child.wait()).await.ok().and_then(Result::ok),
    };
    tree.disarm();
    live.finish();
    lock(&shared.control).take();
    shared.input.lock().await.take();
    shared.status.send_replace(exited(status));
}

fn exited(status: Option<ExitStatus>) -> TerminalStatus {
    TerminalStatus::Exited {
        exit_code: status.and_then(|status| status.code()),
        signal: status.and_then(|status| status.signal()).map(signal_name),
    }
}

/// The claim of a send.
struct Sending(Arc<Shared>);

impl Drop for Sending {
    fn drop(&mut self) {
        self.0.is_sending.store(false, Ordering::Release);
    }
}

impl Shared {
    fn take(&self, bytes: &[u8], live: &LiveOutput) {
        lock(&self.screen).push(bytes);
        live.push(Source::Stdout, bytes, Instant::now());
    }

    /// The process group in the foreground.
    fn foreground(&self) -> Option<Pid> {
        lock(&self.control).as_ref().and_then(|control| rustix::termios::tcgetpgrp(control).ok())
    }

    async fn write(&self, text: &str, submit: bool) {
        let mut bytes = text.replace("\r\n", "\r").replace('\n', "\r").into_bytes();
        if submit {
            bytes.push(b'\r');
        }
        // A failure means the shell is gone, which the wait tells.
        if let Some(input) = self.input.lock().await.as_mut() {
            let _ = tokio::select! {
                written = input.write_all(&bytes) => written,
                () = self.closing.cancelled() => Ok(()),
            };
        }
    }

    async fn wait(&self, n_prompts: u64, submit: bool) -> WaitReason {
        let began = Instant::now();
        let (mut n_bytes, mut last_output) = (lock(&self.screen).n_bytes(), began);
        loop {
            tokio::time::sleep(POLL).await;
            if has_exited(&self.status.borrow()) {
                return WaitReason::SessionExit;
            }
            let (now_bytes, now_prompts) = {
                let screen = lock(&self.screen);
                (screen.n_bytes(), screen.n_prompts())
            };
            if now_bytes != n_bytes {
                (n_bytes, last_output) = (now_bytes, Instant::now());
            }
            let silence = last_output.elapsed();
            if now_prompts > n_prompts && silence >= POLL {
                return WaitReason::StdinRead;
            }
            if silence >= PROBE_AFTER
                && let Some(group) = self.foreground()
                && if group == self.shell { !submit } else { probe::reads_terminal(group) }
            {
                return WaitReason::StdinRead;
            }
            if silence >= IDLE_AFTER {
                return WaitReason::InferredIdle;
            }
            if began.elapsed() >= MAX_WAIT {
                return WaitReason::Timeout;
            }
        }
    }

    async fn send(
        &self,
        text: &str,
        submit: bool,
        cancel: &CancellationToken,
    ) -> Result<Sent, TerminalError> {
        let n_prompts = lock(&self.screen).n_prompts();
        let sent = async {
            // What cannot be written in time was not read by anybody.
            let written = tokio::time::timeout(MAX_WAIT, self.write(text, submit)).await;
            if written.is_err() { WaitReason::Timeout } else { self.wait(n_prompts, submit).await }
        };
        let reason = tokio::select! {
            biased;
            () = cancel.cancelled() => {
                if let Some(group) = self.foreground() {
                    let _ = kill_process_group(group, Signal::INT);
                }
                let _ = tokio::time::timeout(MAX_INTERRUPT, self.wait(n_prompts, true)).await;
                return Err(TerminalError::Cancelled);
            }
            reason = sent => reason,
        };
        let (viewport, truncated) = lock(&self.screen).take_new();
        let status = self.status.borrow().clone();
        Ok(Sent { viewport, truncated, reason, status })
    }
}

#[async_trait]
impl Terminal for PtyTerminal {
    fn info(&self) -> TerminalInfo {
        let status = self.0.status.borrow().clone();
        TerminalInfo {
            id: self.0.id.clone(),
            name: self.0.name.clone(),
            kind: self.0.kind.clone(),
            pid: (!has_exited(&status)).then(|| self.0.shell.as_raw_nonzero().get()),
            status,
        }
    }

    fn sandbox(&self) -> SandboxPolicy {
        self.0.sandbox.clone()
    }

    fn send(
        &self,
        text: &str,
        submit: bool,
        cancel: CancellationToken,
    ) -> Result<BoxFuture<'static, Result<Sent, TerminalError>>, TerminalError> {
        if has_exited(&self.0.status.borrow()) {
            return Err(TerminalError::Exited(self.0.id.clone()));
        }
        if self.0.is_sending.swap(true, Ordering::AcqRel) {
            return Err(TerminalError::SendActive(self.0.id.clone()));
        }
        let (sending, text) = (Sending(self.0.clone()), text.to_owned());
        Ok(Box::pin(async move { sending.0.send(&text, submit, &cancel).await }))
    }

    fn output(&self) -> String {
        lock(&self.0.screen).all()
    }

    fn signal(&self, signal: TerminalSignal) -> Result<i32, TerminalError> {
        let group = self.0.foreground().ok_or_else(|| TerminalError::Exited(self.0.id.clone()))?;
        if signal == TerminalSignal::Kill && group == self.0.shell {
            let reason =
                "no program runs in the foreground, and the shell itself is not killed; use terminal_close";
            return Err(TerminalError::Refused(reason.to_owned()));
        }
        let number = match signal {
            TerminalSignal::Int => Signal::INT,
            TerminalSignal::Term => Signal::TERM,
            TerminalSignal::Kill => Signal::KILL,
            TerminalSignal::Tstp => Signal::TSTP,
            TerminalSignal::Hup => Signal::HUP,
        };
        kill_process_group(group, number).map_err(|error| TerminalError::Refused(error.to_string()))?;
        Ok(group.as_raw_nonzero().get())
    }

    async fn close(&self) -> bool {
        let was_closing = self.0.closing.is_cancelled();
        self.0.closing.cancel();
        self.exited().await;
        self.0.place.leave();
        !was_closing
    }

    async fn exited(&self) -> TerminalStatus {
        let mut status = self.0.status.subscribe();
        match status.wait_for(has_exited).await {
            Ok(status) => status.clone(),
            Err(_) => exited(None),
        }
    }
}
