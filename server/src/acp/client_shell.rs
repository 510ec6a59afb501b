//! Commands of a session in its client's terminals, where the user can watch them.
//!
//! Compose gives it to a session whose client runs terminals. What the client starts is our own wrapper around the
//! command: it confines it, and it keeps stdout, stderr and the exit apart in a private folder ([`capture`]), which is
//! what the model reads. Nothing here trusts the client with time: timeouts, cancels and the exit itself are found out
//! by us as well, and the terminal is released on every path, also when the future is dropped ([`terminal`]).
//!
//! Source: product decisions, "Commands"; `faults.md` C01, C04, C09 and "Facts about real clients".

mod capture;
mod terminal;

use self::capture::CaptureFolder;
use self::terminal::{Terminal, Terminals};
use super::client::{ClientLink, words};
use super::quirks::CommandForm;
use agent_client_protocol::ErrorCode;
use agent_client_protocol::v1::schema::{CreateTerminalRequest, EnvVariable, TerminalExitStatus};
use async_trait::async_trait;
use protocol::id::{SessionId, TerminalId};
use protocol::live::LiveUpdate;
use provider_local::shell::{HeadTail, MARKER_VARIABLE, check_workdir, signal_name};
use services::clock::Clock;
use services::sandbox::Sandbox;
use services::shell::{
    CapturedStream, LiveSink, OutputTap, SandboxPolicy, Shell, ShellError, ShellOutcome, ShellRequest,
    StreamName,
};
use std::sync::Arc;
use std::time::Duration;
use tokio_util::sync::CancellationToken;

/// How long the client may take to start a command.
const CREATE_BUDGET: Duration = Duration::from_secs(30);
/// How long it may take to tell what a terminal shows.
const OUTPUT_BUDGET: Duration = Duration::from_secs(2);
/// How often the capture is looked at for an exit that the client does not report.
const POLL: Duration = Duration::from_millis(50);
/// How often output is passed on to whoever reads along.
const FEED_POLL: Duration = Duration::from_millis(150);
/// The same while the command is being stopped.
const STOP_POLL: Duration = Duration::from_millis(5);
/// How much longer the client may take to report an exit that is known already.
const DRAIN: Duration = Duration::from_millis(200);
/// Time between the polite signal and the hard one. The wrapper kills what does not listen after three seconds; a little
/// later it is done from here.
const GRACE: Duration = Duration::from_millis(3300);
/// The same when the user waits for a cancel: the whole answer is promised within three seconds.
const CANCEL_GRACE: Duration = Duration::from_millis(1500);
/// How long a killed command is waited for.
const KILL_WAIT: Duration = Duration::from_millis(500);
/// How long a command may take to show a sign of life once the client failed to watch it.
const START_WAIT: Duration = Duration::from_secs(2);
/// Bytes of output that the client is asked to keep for the user.
const SHOWN_BYTES: u64 = 1 << 20;

/// Runs commands in the client's terminals.
pub struct ClientShell {
    terminals: Terminals,
    form: CommandForm,
    sandbox: Arc<dyn Sandbox>,
    local: Arc<dyn Shell>,
    clock: Arc<dyn Clock>,
    create_budget: Duration,
    grace: Duration,
}

/// Why a command is over.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Cause {
    Exited,
    TimedOut,
    Aborted,
}

/// What came of asking for a terminal.
enum Started {
    Terminal(Terminal),
    Refused(agent_client_protocol::Error),
    NoAnswer,
    Aborted,
}

impl ClientShell {
    /// Runs commands in terminals of the session `session_id`, the id that the client knows. `sandbox` makes the command
    /// line, `form` says how the client wants it, and `local` runs what the client refuses.
    pub fn new(
        link: ClientLink,
        session_id: SessionId,
        form: CommandForm,
        sandbox: Arc<dyn Sandbox>,
        local: Arc<dyn Shell>,
        clock: Arc<dyn Clock>,
    ) -> Self {
        Self {
            terminals: Terminals::new(link, session_id),
            form,
            sandbox,
            local,
            clock,
            create_budget: CREATE_BUDGET,
            grace: GRACE,
        }
    }

    async fn start(
        &self,
        argv: &[String],
        request: &ShellRequest,
        marker: String,
        cancel: &CancellationToken,
    ) -> Started {
        let (command, arguments) = match (self.form, argv.split_first()) {
            (CommandForm::ProgramAndArgs, Some((program, arguments))) => {
                (program.clone(), arguments.to_vec())
            }
            _ => (shell_line(argv), Vec::new()),
        };
        let marked = (MARKER_VARIABLE.to_owned(), marker.clone());
        let env = request.env.iter().chain([&marked]).map(|(name, value)| EnvVariable::new(name, value));
        let create = CreateTerminalRequest::new(self.terminals.session_id.clone(), command)
            .args(arguments)
            .env(env.collect::<Vec<_>>())
            .cwd(request.workdir.clone())
            .output_byte_limit(SHOWN_BYTES);
        let mut created = self.terminals.create(create, marker);
        tokio::select! {
            biased;
            () = cancel.cancelled() => Started::Aborted,
            created = &mut created => match created {
                Ok(Ok(terminal)) => Started::Terminal(terminal),
                Ok(Err(error)) => Started::Refused(error),
                Err(_) => Started::NoAnswer,
            },
            () = self.clock.sleep(self.create_budget) => Started::NoAnswer,
        }
    }

    /// Waits for the end of the command and brings it about when its time is up.
    async fn watch(
        &self,
        terminal: &Terminal,
        folder: &CaptureFolder,
        timeout: Duration,
        cancel: &CancellationToken,
    ) -> (Cause, Option<TerminalExitStatus>) {
        let mut exit = Watch::new(self, terminal, folder);
        let cause = tokio::select! {
            biased;
            () = cancel.cancelled() => Cause::Aborted,
            () = exit.ended(POLL) => Cause::Exited,
            () = self.clock.sleep(timeout) => Cause::TimedOut,
        };
        match cause {
            // The rest of the output is on its way to the terminal; a background child may hold it open for ever.
            Cause::Exited if exit.report.is_some() => self.within(DRAIN, exit.reported()).await,
            Cause::Exited => {}
            Cause::TimedOut => self.stop(&mut exit, terminal, folder, self.grace).await,
            Cause::Aborted => self.stop(&mut exit, terminal, folder, self.grace.min(CANCEL_GRACE)).await,
        }
        (cause, exit.status)
    }

    /// SIGTERM, up to the grace, then everything there is: the client's kill, SIGKILL, and what left the group.
    async fn stop(&self, exit: &mut Watch<'_>, terminal: &Terminal, folder: &CaptureFolder, grace: Duration) {
        if folder.terminate().await {
            self.within(grace, exit.ended(STOP_POLL)).await;
        }
        if !exit.is_over {
            tokio::join!(terminal.kill(&*self.clock), folder.kill());
            self.within(KILL_WAIT, exit.ended(STOP_POLL)).await;
        }
        terminal.kill_marked().await;
    }

    /// What the model reads, and the exit: from the capture, or from the terminal where there is none.
    async fn outcome(
        &self,
        terminal: &Terminal,
        folder: &CaptureFolder,
        request: &ShellRequest,
        (cause, status): (Cause, Option<TerminalExitStatus>),
    ) -> ShellOutcome {
        let exit = folder.exit().await;
        let (mut stdout, stderr) =
            folder.streams(exit.as_ref(), request.max_stream_bytes, request.max_spill_bytes).await;
        let mut status = status;
        if stdout.total_bytes == 0 && stderr.total_bytes == 0 && cause != Cause::Aborted {
            let shown = tokio::select! {
                shown = terminal.output() => shown.ok(),
                () = self.clock.sleep(OUTPUT_BUDGET) => None,
            };
            if let Some(shown) = shown {
                stdout = shown_stream(&shown.output, shown.truncated, request.max_stream_bytes);
                status = status.or(shown.exit_status);
            }
        }
        let (exit_code, signal) = match (exit, status) {
            (Some(exit), _) => (exit.code, exit.signal.map(signal_name)),
            (None, Some(status)) => reported_exit(&status, cause),
            // Nobody saw the end of it: when we stopped it, it was killed.
            (None, None) => (None, (cause != Cause::Exited).then(|| "SIGKILL".to_owned())),
        };
        ShellOutcome {
            exit_code,
            signal,
            timed_out: cause == Cause::TimedOut,
            aborted: cause == Cause::Aborted,
            stdout,
            stderr,
            sandbox: None,
        }
    }

    /// Lets something go on for at most this long.
    async fn within(&self, budget: Duration, act: impl Future<Output = ()>) {
        tokio::select! {
            () = act => {}
            () = self.clock.sleep(budget) => {}
        }
    }

    fn judged(&self, policy: &SandboxPolicy, outcome: ShellOutcome) -> Result<ShellOutcome, ShellError> {
        let sandbox = self.sandbox.judge(policy, outcome.exit_code, &outcome.stderr.text)?;
        Ok(ShellOutcome { sandbox, ..outcome })
    }
}

#[async_trait]
impl Shell for ClientShell {
    /// # Cancellation
    /// Dropping the future kills the command and releases its terminal, in the background.
    async fn run(
        &self,
        request: ShellRequest,
        live: LiveSink,
        cancel: &CancellationToken,
    ) -> Result<ShellOutcome, ShellError> {
        self.run_with(request, live, None, cancel).await
    }

    /// # Cancellation
    /// As [`ClientShell::run`].
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

impl ClientShell {
    async fn run_with(
        &self,
        request: ShellRequest,
        live: LiveSink,
        tap: Option<OutputTap>,
        cancel: &CancellationToken,
    ) -> Result<ShellOutcome, ShellError> {
        check_workdir(&request.workdir).await?;
        let marker = self.clock.fresh_id();
        let folder = match CaptureFolder::create(&request.spill_directory, &marker).await {
            Ok(folder) => folder,
            Err(error) => {
                tracing::warn!(%error, "no folder for the output of a client's terminal; running locally");
                return self.run_locally(request, live, tap, cancel).await;
            }
        };
        let argv = self.sandbox.wrap(&request.argv, &request.sandbox, Some(folder.path()))?;
        let terminal = match self.start(&argv, &request, marker, cancel).await {
            Started::Terminal(terminal) => terminal,
            Started::Refused(error) if error.code == ErrorCode::METHOD_NOT_FOUND => {
                tracing::warn!(%error, "the client knows no terminals after all; running locally");
                return self.run_locally(request, live, tap, cancel).await;
            }
            // Whoever refused it there has not allowed it here.
            Started::Refused(error) => {
                return Err(ShellError::Spawn {
                    program: request.argv.first().cloned().unwrap_or_default(),
                    reason: format!("the editor refused a terminal: {}", words(&error)),
                });
            }
            // It may still start: without its folder the wrapper gives up, and the terminal is released then.
            Started::NoAnswer => return Err(no_answer(&request, self.create_budget)),
            Started::Aborted => return Ok(never_started()),
        };
        live(LiveUpdate::TerminalAttached {
            call_id: request.call_id.clone(),
            terminal_id: TerminalId::new(terminal.id()),
        });
        let mut feed = tap.map(|tap| Feed { tap, folder: &folder, offsets: [0, 0] });
        let end = tokio::select! {
            end = self.watch(&terminal, &folder, request.timeout, cancel) => end,
            never = self.feed(&mut feed) => match never {},
        };
        if let Some(feed) = &mut feed {
            feed.pass_on().await;
        }
        drop(feed);
        let outcome = self.outcome(&terminal, &folder, &request, end).await;
        terminal.release(&*self.clock).await;
        if outcome.stdout.spill_path.is_some() || outcome.stderr.spill_path.is_some() {
            folder.keep();
        }
        self.judged(&request.sandbox, outcome)
    }
}

impl ClientShell {
    async fn run_locally(
        &self,
        request: ShellRequest,
        live: LiveSink,
        tap: Option<OutputTap>,
        cancel: &CancellationToken,
    ) -> Result<ShellOutcome, ShellError> {
        match tap {
            Some(tap) => self.local.run_tapped(request, live, tap, cancel).await,
            None => self.local.run(request, live, cancel).await,
        }
    }

    /// Passes output on for as long as it is polled; never completes.
    async fn feed(&self, feed: &mut Option<Feed<'_>>) -> std::convert::Infallible {
        let Some(feed) = feed else { return std::future::pending().await };
        loop {
            self.clock.sleep(FEED_POLL).await;
            feed.pass_on().await;
        }
    }
}

/// Passes on what the wrapper writes down, as it grows.
struct Feed<'a> {
    tap: OutputTap,
    folder: &'a CaptureFolder,
    /// How far each stream was passed on.
    offsets: [u64; 2],
}

impl Feed<'_> {
    /// Passes on what came since. May be dropped at any time; nothing is passed on twice.
    async fn pass_on(&mut self) {
        for (stream, offset) in [StreamName::Stdout, StreamName::Stderr].into_iter().zip(&mut self.offsets) {
            loop {
                let piece = self.folder.read_from(stream, *offset).await;
                if piece.is_empty() {
                    break;
                }
                *offset += piece.len() as u64;
                (self.tap)(stream, &piece);
            }
        }
    }
}

/// Finds out that a command ended, by the client's word or by the capture, whichever comes first.
struct Watch<'a> {
    shell: &'a ClientShell,
    folder: &'a CaptureFolder,
    /// The client's report; `None` once it came or failed.
    report: Option<terminal::ExitReport>,
    /// What the client reported.
    status: Option<TerminalExitStatus>,
    is_over: bool,
    /// When the client failed to watch, by the clock's reading.
    blind_since: Option<Duration>,
}

impl<'a> Watch<'a> {
    fn new(shell: &'a ClientShell, terminal: &Terminal, folder: &'a CaptureFolder) -> Self {
        let report = Some(terminal.wait_for_exit());
        Self { shell, folder, report, status: None, is_over: false, blind_since: None }
    }

    /// Waits until the command is over. May be called again after it was dropped.
    async fn ended(&mut self, poll: Duration) {
        let shell = self.shell;
        while !self.is_over {
            tokio::select! {
                biased;
                () = self.reported() => {}
                () = shell.clock.sleep(poll) => self.is_over = self.is_over_by_capture().await,
            }
        }
    }

    /// Waits for the client's report. Never completes when there is none to come.
    async fn reported(&mut self) {
        let Some(report) = &mut self.report else { return std::future::pending().await };
        let answer = report.await;
        self.report = None;
        match answer {
            Ok(status) => {
                self.status = Some(status);
                self.is_over = true;
            }
            Err(error) => {
                tracing::warn!(%error, "the client does not tell when a command ends; watching it ourselves");
                self.blind_since = Some(self.shell.clock.monotonic());
            }
        }
    }

    async fn is_over_by_capture(&mut self) -> bool {
        // Alive first: a command that ends in between has written its exit by then.
        let is_alive = match self.blind_since {
            None => true,
            Some(since) => match self.folder.is_alive().await {
                Some(is_alive) => is_alive,
                None => self.shell.clock.monotonic().saturating_sub(since) < START_WAIT,
            },
        };
        self.folder.exit().await.is_some() || !is_alive
    }
}

/// The exit as the client reports it.
fn reported_exit(status: &TerminalExitStatus, cause: Cause) -> (Option<i32>, Option<String>) {
    let code = status.exit_code.and_then(|code| i32::try_from(code).ok());
    match (&status.signal, code) {
        // Some report the number.
        (Some(signal), _) => (None, Some(signal.parse().map_or_else(|_| signal.clone(), signal_name))),
        // We stopped it, and the client's shell around it turned the signal into a code.
        (None, Some(code @ 129..)) if cause != Cause::Exited => (None, Some(signal_name(code - 128))),
        (None, code) => (code, None),
    }
}

/// The text of a terminal as a stream.
fn shown_stream(text: &str, truncated: bool, max_bytes: usize) -> CapturedStream {
    let mut kept = HeadTail::new(max_bytes);
    kept.push(text.as_bytes());
    let stream = kept.finish(None);
    CapturedStream { truncated: stream.truncated || truncated, ..stream }
}

/// One line for a shell that means exactly these words. Backslashes stand outside of the quotes, where all shells agree
/// on them.
fn shell_line(argv: &[String]) -> String {
    let is_plain = |word: &str| {
        !word.is_empty()
            && word.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"-_./:,+@%".contains(&byte))
    };
    let quoted = |word: &String| {
        if is_plain(word) {
            return word.clone();
        }
        let inside = word.chars().map(|char| match char {
            '\'' => r"'\''".to_owned(),
            '\\' => r"'\\'".to_owned(),
            other => other.to_string(),
        });
        format!("'{}'", inside.collect::<String>())
    };
    argv.iter().map(quoted).collect::<Vec<_>>().join(" ")
}

fn no_answer(request: &ShellRequest, budget: Duration) -> ShellError {
    ShellError::Spawn {
        program: request.argv.first().cloned().unwrap_or_default(),
        reason: format!("the editor did not start a terminal within {} s", budget.as_secs_f32()),
    }
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

#[cfg(test)]
mod tests;
