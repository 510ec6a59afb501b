//! Running a command for somebody else's terminal: its streams pass through, and are kept in a folder with its exit.
//!
//! The command stays in the wrapper's process group, so that a terminal that signals the group reaches all of it. Read
//! by the shell of the client's terminal.

use serde::{Deserialize, Serialize};
use services::shell::is_secret_name;
use std::ffi::OsString;
use std::fs::{self, File, OpenOptions};
use std::io::{self, Read, Write};
use std::path::Path;
use std::process::{Child, Command, ExitCode, ExitStatus, Stdio};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, mpsc};
use std::time::{Duration, Instant};

/// Name of the kept standard output.
pub const STDOUT_FILE: &str = "stdout";
/// Name of the kept standard error.
pub const STDERR_FILE: &str = "stderr";
/// Name of the wrapper's process id, decimal and with a newline: whoever wants the command stopped signals the wrapper.
pub const PID_FILE: &str = "pid";
/// Name of the exit, written last and whole.
const EXIT_FILE: &str = "exit";

/// Bytes of each stream that are kept: its beginning. The exit tells how many there were.
pub const MAX_CAPTURE_BYTES: u64 = 64 * 1024 * 1024;

/// Time between a signal to the wrapper and SIGKILL.
const GRACE: Duration = Duration::from_secs(3);
/// After the command's exit its pipes are read until they have been silent for this long…
const DRAIN_SILENCE: Duration = Duration::from_millis(200);
/// …or for this long in all.
const MAX_DRAIN: Duration = Duration::from_secs(1);
/// How often the wrapper looks at the clock once something has to happen in time.
const POLL: Duration = Duration::from_millis(20);

/// How a captured command ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct CapturedExit {
    /// Exit code; `None` when a signal ended it.
    pub code: Option<i32>,
    /// Number of the signal that ended it.
    pub signal: Option<i32>,
    /// Bytes of standard output in all; the file holds at most [`MAX_CAPTURE_BYTES`].
    pub stdout_bytes: u64,
    /// Bytes of standard error in all.
    pub stderr_bytes: u64,
}

/// The exit of the command that was captured into `folder`; `None` while there is none.
///
/// # Errors
/// The file cannot be read, or is not ours.
pub fn read_exit(folder: &Path) -> io::Result<Option<CapturedExit>> {
    match fs::read(folder.join(EXIT_FILE)) {
        Ok(bytes) => serde_json::from_slice(&bytes).map(Some).map_err(io::Error::from),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(error) => Err(error),
    }
}

/// Runs `argv` to its end and exits as it did.
pub(crate) fn run(folder: &Path, argv: &[OsString]) -> io::Result<ExitCode> {
    let files = (create(&folder.join(STDOUT_FILE))?, create(&folder.join(STDERR_FILE))?);
    let (program, arguments) = argv.split_first().ok_or(io::ErrorKind::InvalidInput)?;
    let (events, received) = mpsc::channel();
    // Before the command exists: its end is a signal too.
    watch_signals(events.clone())?;
    // After it: from now on a signal is passed on.
    writeln!(create(&folder.join(PID_FILE))?, "{}", std::process::id())?;
    let mut command = Command::new(program);
    command.args(arguments).stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
    for (name, _) in std::env::vars_os() {
        if is_secret(&name.to_string_lossy()) {
            command.env_remove(name);
        }
    }
    let mut child = command.spawn()?;
    let clock = Arc::new(Clock::default());
    let counts = [Arc::new(AtomicU64::new(0)), Arc::new(AtomicU64::new(0))];
    if let Some(pipe) = child.stdout.take() {
        tee(pipe, files.0, io::stdout(), events.clone(), clock.clone(), counts[0].clone());
    }
    if let Some(pipe) = child.stderr.take() {
        tee(pipe, files.1, io::stderr(), events.clone(), clock.clone(), counts[1].clone());
    }

    let status = wait(&mut child, &received, &clock, |status| {
        write_exit(folder, &exit_of(status, &counts));
    })?;
    write_exit(folder, &exit_of(Some(status), &counts));
    Ok(code_of(status))
}

/// Whether a variable of the terminal's owner stays away from the command. This program's own variables were set for it.
fn is_secret(name: &str) -> bool {
    is_secret_name(name.strip_prefix("FOLLOWSPOT_").unwrap_or(name))
}

/// What the wrapper waits for.
enum Event {
    /// A stream was read to its end.
    Closed,
    /// The wrapper was asked to stop.
    #[cfg_attr(not(unix), expect(dead_code, reason = "there are no signals here"))]
    Signal(i32),
    /// The command may have ended.
    #[cfg_attr(not(unix), expect(dead_code, reason = "there are no signals here"))]
    Child,
}

/// When the streams were last read, as milliseconds since the start.
struct Clock {
    start: Instant,
    last_read_ms: AtomicU64,
}

impl Default for Clock {
    fn default() -> Self {
        Self { start: Instant::now(), last_read_ms: AtomicU64::new(0) }
    }
}

impl Clock {
    fn now_ms(&self) -> u64 {
        u64::try_from(self.start.elapsed().as_millis()).unwrap_or(u64::MAX)
    }
}

/// Copies a pipe into a file and to the terminal, on a thread of its own that ends with the pipe or the process.
fn tee(
    mut pipe: impl Read + Send + 'static,
    mut file: File,
    mut terminal: impl Write + Send + 'static,
    events: mpsc::Sender<Event>,
    clock: Arc<Clock>,
    count: Arc<AtomicU64>,
) {
    std::thread::spawn(move || {
        let mut buffer = vec![0; 64 * 1024];
        loop {
            let n_read = match pipe.read(&mut buffer) {
                Ok(0) => break,
                Ok(n_read) => n_read,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
                Err(_) => break,
            };
            let piece = &buffer[..n_read];
            let n_before = count.load(Ordering::Relaxed);
            let room = MAX_CAPTURE_BYTES.saturating_sub(n_before);
            let n_kept = usize::try_from(room).unwrap_or(usize::MAX).min(n_read);
            // A full disk or a closed terminal must not end the command; the count goes on.
            let _ = file.write_all(&piece[..n_kept]);
            count.store(n_before + n_read as u64, Ordering::Relaxed);
            clock.last_read_ms.store(clock.now_ms(), Ordering::Relaxed);
            let _ = terminal.write_all(piece).and_then(|()| terminal.flush());
        }
        let _ = events.send(Event::Closed);
    });
}

/// Waits for the command, passes signals on to it, and for the rest of its output. `before_kill` runs when the group is
/// about to be killed, this process with it.
fn wait(
    child: &mut Child,
    received: &mpsc::Receiver<Event>,
    clock: &Clock,
    before_kill: impl Fn(Option<ExitStatus>),
) -> io::Result<ExitStatus> {
    let mut n_open = 2;
    let mut was_asked = false;
    let mut kill_at: Option<Instant> = None;
    let mut ended: Option<(ExitStatus, Instant)> = None;
    loop {
        if ended.is_none() {
            ended = child.try_wait()?.map(|status| (status, Instant::now()));
        }
        if let Some((status, at)) = ended {
            let silence = clock.now_ms().saturating_sub(clock.last_read_ms.load(Ordering::Relaxed));
            let is_silent = at.elapsed() >= DRAIN_SILENCE && silence >= DRAIN_SILENCE.as_millis() as u64;
            if n_open == 0 || is_silent || at.elapsed() >= MAX_DRAIN {
                return Ok(status);
            }
        }
        if kill_at.is_some_and(|at| Instant::now() >= at) {
            before_kill(ended.map(|(status, _)| status));
            kill(child);
            kill_at = None;
        }
        let is_timed = ended.is_some() || kill_at.is_some() || cfg!(not(unix));
        let event = if is_timed { received.recv_timeout(POLL).ok() } else { received.recv().ok() };
        match event {
            Some(Event::Closed) => n_open -= 1,
            // The signal comes back to this process with the group; once is enough.
            Some(Event::Signal(signal)) if !was_asked => {
                was_asked = true;
                kill_at = Some(Instant::now() + GRACE);
                pass_on(child, signal);
            }
            Some(Event::Signal(_) | Event::Child) | None => {}
        }
    }
}

#[cfg(unix)]
fn watch_signals(events: mpsc::Sender<Event>) -> io::Result<()> {
    use signal_hook::consts::{SIGCHLD, SIGHUP, SIGINT, SIGQUIT, SIGTERM};
    let mut signals = signal_hook::iterator::Signals::new([SIGCHLD, SIGHUP, SIGINT, SIGQUIT, SIGTERM])?;
    std::thread::spawn(move || {
        for signal in signals.forever() {
            let event = if signal == SIGCHLD { Event::Child } else { Event::Signal(signal) };
            let _ = events.send(event);
        }
    });
    Ok(())
}

#[cfg(not(unix))]
fn watch_signals(_events: mpsc::Sender<Event>) -> io::Result<()> {
    Ok(())
}

/// Whether the process group is the wrapper's own, so that a signal to all of it meets nobody else.
#[cfg(unix)]
fn owns_group() -> bool {
    rustix::process::getpgrp() == rustix::process::getpid()
}

#[cfg(unix)]
fn pass_on(child: &Child, signal: i32) {
    use rustix::process::Signal;
    let Some(signal) = Signal::from_named_raw(signal) else { return };
    if owns_group() {
        let _ = rustix::process::kill_current_process_group(signal);
    } else if let Some(pid) = rustix::process::Pid::from_raw(child.id() as i32) {
        let _ = rustix::process::kill_process(pid, signal);
    }
}

#[cfg(not(unix))]
fn pass_on(_child: &Child, _signal: i32) {}

fn kill(child: &mut Child) {
    #[cfg(unix)]
    if owns_group() {
        let _ = rustix::process::kill_current_process_group(rustix::process::Signal::KILL);
    }
    let _ = child.kill();
}

fn exit_of(status: Option<ExitStatus>, counts: &[Arc<AtomicU64>; 2]) -> CapturedExit {
    #[cfg(unix)]
    let signal = match status {
        Some(status) => std::os::unix::process::ExitStatusExt::signal(&status),
        // About to be killed.
        None => Some(signal_hook::consts::SIGKILL),
    };
    #[cfg(not(unix))]
    let signal = None;
    CapturedExit {
        code: status.and_then(|status| status.code()),
        signal,
        stdout_bytes: counts[0].load(Ordering::Relaxed),
        stderr_bytes: counts[1].load(Ordering::Relaxed),
    }
}

/// Writes the exit beside and moves it into place: who finds it finds it whole. A disk that refuses leaves none.
fn write_exit(folder: &Path, exit: &CapturedExit) {
    let unfinished = folder.join("exit.new");
    let _ = serde_json::to_vec(exit)
        .map_err(io::Error::from)
        .and_then(|bytes| create(&unfinished)?.write_all(&bytes))
        .and_then(|()| fs::rename(&unfinished, folder.join(EXIT_FILE)));
}

/// A new file, mode 0600.
fn create(path: &Path) -> io::Result<File> {
    let mut options = OpenOptions::new();
    options.write(true).create_new(true);
    #[cfg(unix)]
    std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
    options.open(path)
}

/// The exit code that stands for the command's end, 128 and the signal's number for a signal.
fn code_of(status: ExitStatus) -> ExitCode {
    #[cfg(unix)]
    let signal = std::os::unix::process::ExitStatusExt::signal(&status);
    #[cfg(not(unix))]
    let signal: Option<i32> = None;
    let code = status.code().or(signal.map(|signal| 128 + signal)).unwrap_or(1);
    ExitCode::from(u8::try_from(code).unwrap_or(1))
}
