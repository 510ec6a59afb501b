//! Terminals of this client: commands in process groups of their own, with the tail of their output kept.
//!
//! Called by the connection's handlers. What a command prints is also handed to the conversation, up to a bound: more
//! than that nobody reads.

use super::Event;
use super::render::TerminalEnd;
use agent_client_protocol::Error;
use agent_client_protocol::v1::schema::{
    CreateTerminalRequest, TerminalExitStatus, TerminalId, TerminalOutputResponse,
};
use std::collections::{HashMap, VecDeque};
use std::io::Read;
use std::path::{Path, PathBuf};
use std::process::{ExitStatus, Stdio};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;
use tokio::process::{Child, Command};
use tokio::sync::{Notify, mpsc, watch};

/// Output kept when the agent names no limit, in bytes.
const DEFAULT_LIMIT: u64 = 1 << 20;
/// Most output kept, in bytes.
const MAX_LIMIT: u64 = 32 << 20;
/// Output handed to the conversation, in bytes a terminal.
const MAX_SHOWN: usize = 64 << 10;
/// Time for the last output to arrive once the command has ended: something it left behind may hold the pipe.
const DRAIN: Duration = Duration::from_millis(200);
/// Time for killed commands to end.
const KILL: Duration = Duration::from_secs(1);

/// The terminals of one connection.
pub struct Terminals {
    cwd: PathBuf,
    events: mpsc::UnboundedSender<Event>,
    next: AtomicU64,
    running: Mutex<HashMap<TerminalId, Arc<Terminal>>>,
}

struct Terminal {
    output: Mutex<Tail>,
    kill: Notify,
    end: watch::Receiver<Option<TerminalExitStatus>>,
}

/// The last bytes of an output.
struct Tail {
    bytes: VecDeque<u8>,
    limit: usize,
    truncated: bool,
}

impl Terminals {
    /// No terminals yet. Commands run in `cwd` unless they name a folder.
    pub fn new(cwd: PathBuf, events: mpsc::UnboundedSender<Event>) -> Self {
        Self { cwd, events, next: AtomicU64::new(1), running: Mutex::default() }
    }

    /// Starts a command.
    ///
    /// # Errors
    /// -32603 with the reason in `data.details`: it could not be started.
    pub fn create(&self, request: &CreateTerminalRequest) -> Result<TerminalId, Error> {
        let id = TerminalId::new(format!("terminal-{}", self.next.fetch_add(1, Ordering::Relaxed)));
        let (reader, writer) = std::io::pipe().map_err(|error| internal(&error.to_string()))?;
        let child = spawn(request, &self.cwd, writer)
            .map_err(|error| internal(&format!("{} could not be started: {error}", request.command)))?;
        let limit = request.output_byte_limit.unwrap_or(DEFAULT_LIMIT).min(MAX_LIMIT);
        let (end_sender, end) = watch::channel(None);
        let tail = Tail { bytes: VecDeque::new(), limit: limit as usize, truncated: false };
        let terminal = Arc::new(Terminal { output: Mutex::new(tail), kill: Notify::new(), end });
        let (drained_sender, drained) = watch::channel(None);
        let keeper = Keeper { id: id.clone(), terminal: terminal.clone(), events: self.events.clone() };
        // Not joined: a process that the command left behind can hold the pipe for as long as it likes.
        std::thread::Builder::new()
            .name("terminal output".to_owned())
            .spawn(move || {
                let n_unshown = keeper.keep(reader);
                drained_sender.send_replace(Some(n_unshown));
            })
            .map_err(|error| internal(&error.to_string()))?;
        tokio::spawn(supervise(
            child,
            id.clone(),
            terminal.clone(),
            self.events.clone(),
            drained,
            end_sender,
        ));
        self.all().insert(id.clone(), terminal);
        Ok(id)
    }

    /// What a command has printed, and how it ended if it has.
    ///
    /// # Errors
    /// -32602 for an id that was never given or is released. So too below.
    pub fn output(&self, id: &TerminalId) -> Result<TerminalOutputResponse, Error> {
        let terminal = self.find(id)?;
        let (output, truncated) = lock(&terminal.output).text();
        let end = terminal.end.borrow().clone();
        Ok(TerminalOutputResponse::new(output, truncated).exit_status(end))
    }

    /// Waits until a command has ended.
    ///
    /// # Errors
    /// As [`Self::output`].
    pub async fn wait(&self, id: &TerminalId) -> Result<TerminalExitStatus, Error> {
        let mut end = self.find(id)?.end.clone();
        let end = end.wait_for(Option::is_some).await.map_err(|_| internal("the command was lost"))?;
        Ok(end.clone().unwrap_or_default())
    }

    /// Kills a command; its output stays.
    ///
    /// # Errors
    /// As [`Self::output`].
    pub fn kill(&self, id: &TerminalId) -> Result<(), Error> {
        self.find(id)?.kill.notify_one();
        Ok(())
    }

    /// Kills a command that still runs and forgets its terminal.
    ///
    /// # Errors
    /// As [`Self::output`].
    pub fn release(&self, id: &TerminalId) -> Result<(), Error> {
        self.kill(id)?;
        self.all().remove(id);
        Ok(())
    }

    /// Kills whatever still runs and waits for its end, within a budget.
    pub async fn close(&self) {
        let terminals: Vec<_> = self.all().drain().map(|(_, terminal)| terminal).collect();
        for terminal in &terminals {
            terminal.kill.notify_one();
        }
        let ends = terminals.iter().map(|terminal| {
            let mut end = terminal.end.clone();
            async move { end.wait_for(Option::is_some).await.is_ok() }
        });
        // What does not end in time is left to the system: it has its signal.
        let _ = tokio::time::timeout(KILL, futures::future::join_all(ends)).await;
    }

    fn find(&self, id: &TerminalId) -> Result<Arc<Terminal>, Error> {
        self.all().get(id).cloned().ok_or_else(|| {
            Error::invalid_params().data(serde_json::json!({ "details": format!("no terminal {id}") }))
        })
    }

    fn all(&self) -> MutexGuard<'_, HashMap<TerminalId, Arc<Terminal>>> {
        lock(&self.running)
    }
}

/// Reads what a command prints: keeps its tail, shows its beginning.
struct Keeper {
    id: TerminalId,
    terminal: Arc<Terminal>,
    events: mpsc::UnboundedSender<Event>,
}

impl Keeper {
    /// Reads to the end. Returns how many lines were not shown.
    fn keep(&self, mut reader: impl Read) -> usize {
        let mut buffer = vec![0; 8 << 10];
        let mut waiting = Vec::new();
        let (mut n_shown, mut n_unshown) = (0, 0);
        loop {
            let chunk = match reader.read(&mut buffer) {
                Ok(0) => break,
                Ok(n_bytes) => &buffer[..n_bytes],
                Err(error) if error.kind() == std::io::ErrorKind::Interrupted => continue,
                Err(_) => break,
            };
            lock(&self.terminal.output).push(chunk);
            if n_shown >= MAX_SHOWN {
                n_unshown += chunk.iter().filter(|&&byte| byte == b'\n').count();
                continue;
            }
            n_shown += chunk.len();
            waiting.extend_from_slice(chunk);
            let whole = whole_characters(&waiting);
            let text = String::from_utf8_lossy(&waiting[..whole]).into_owned();
            waiting.drain(..whole);
            if !text.is_empty() {
                // Nobody listens any more when the client leaves.
                let _ = self.events.send(Event::TerminalOutput(self.id.clone(), text));
            }
        }
        n_unshown
    }
}

impl Tail {
    fn push(&mut self, chunk: &[u8]) {
        self.bytes.extend(chunk);
        if let Some(excess) = self.bytes.len().checked_sub(self.limit).filter(|&excess| excess > 0) {
            self.bytes.drain(..excess);
            self.truncated = true;
        }
    }

    fn text(&self) -> (String, bool) {
        let bytes: Vec<u8> = self.bytes.iter().copied().collect();
        let is_inside = |byte: &u8| byte & 0b1100_0000 == 0b1000_0000;
        let cut =
            if self.truncated { bytes.iter().take(3).take_while(|byte| is_inside(byte)).count() } else { 0 };
        (String::from_utf8_lossy(&bytes[cut..]).into_owned(), self.truncated)
    }
}

/// Number of bytes before a character that has only begun.
fn whole_characters(bytes: &[u8]) -> usize {
    for back in 1..=bytes.len().min(3) {
        let at = bytes.len() - back;
        let length = match bytes[at] {
            0xC0..=0xDF => 2,
            0xE0..=0xEF => 3,
            0xF0..=0xF7 => 4,
            0x80..=0xBF => continue,
            _ => return bytes.len(),
        };
        return if length > back { at } else { bytes.len() };
    }
    bytes.len()
}

fn spawn(request: &CreateTerminalRequest, cwd: &Path, output: std::io::PipeWriter) -> std::io::Result<Child> {
    let mut command = if request.args.is_empty() && request.command.contains(char::is_whitespace) {
        // A whole line: what most editors make of it.
        let mut shell = Command::new("sh");
        shell.arg("-c").arg(&request.command);
        shell
    } else {
        let mut program = Command::new(&request.command);
        program.args(&request.args);
        program
    };
    for (name, _) in std::env::vars_os() {
        // The agent's keys are in our environment too; a command has no use for them.
        if services::shell::is_secret_name(&name.to_string_lossy()) {
            command.env_remove(name);
        }
    }
    command.envs([("PAGER", "cat"), ("GIT_PAGER", "cat")]);
    command.envs(request.env.iter().map(|variable| (&variable.name, &variable.value)));
    command.current_dir(request.cwd.as_deref().unwrap_or(cwd));
    command.stdin(Stdio::null()).stdout(output.try_clone()?).stderr(output).kill_on_drop(true);
    #[cfg(unix)]
    command.process_group(0);
    command.spawn()
}

/// Waits for a command, kills it when asked to, and says how it ended.
async fn supervise(
    mut child: Child,
    id: TerminalId,
    terminal: Arc<Terminal>,
    events: mpsc::UnboundedSender<Event>,
    mut drained: watch::Receiver<Option<usize>>,
    end: watch::Sender<Option<TerminalExitStatus>>,
) {
    let status = loop {
        tokio::select! {
            status = child.wait() => break status,
            () = terminal.kill.notified() => kill_group(&mut child),
        }
    };
    let n_unshown = match tokio::time::timeout(DRAIN, drained.wait_for(Option::is_some)).await {
        Ok(Ok(n_unshown)) => n_unshown.unwrap_or_default(),
        _ => 0,
    };
    let (wire, status, success) = match status {
        Ok(status) => ended(status),
        Err(error) => (TerminalExitStatus::new(), error.to_string(), false),
    };
    let _ = events.send(Event::TerminalEnded(id, TerminalEnd { status, success, n_unshown }));
    end.send_replace(Some(wire));
}

/// Kills a command with all that it started. The child has not been waited for, so its id is still its own.
fn kill_group(child: &mut Child) {
    #[cfg(unix)]
    if let Some(group) =
        child.id().and_then(|id| i32::try_from(id).ok()).and_then(rustix::process::Pid::from_raw)
    {
        // A group that is gone already has what it should get.
        let _ = rustix::process::kill_process_group(group, rustix::process::Signal::KILL);
    }
    let _ = child.start_kill();
}

fn ended(status: ExitStatus) -> (TerminalExitStatus, String, bool) {
    let wire = TerminalExitStatus::new();
    if let Some(code) = status.code() {
        return (wire.exit_code(code.cast_unsigned()), format!("exit {code}"), code == 0);
    }
    #[cfg(unix)]
    if let Some(number) = std::os::unix::process::ExitStatusExt::signal(&status) {
        let name = match number {
            2 => "SIGINT".to_owned(),
            6 => "SIGABRT".to_owned(),
            9 => "SIGKILL".to_owned(),
            11 => "SIGSEGV".to_owned(),
            15 => "SIGTERM".to_owned(),
            other => format!("signal {other}"),
        };
        return (wire.signal(name.clone()), format!("killed by {name}"), false);
    }
    (wire, status.to_string(), false)
}

fn internal(details: &str) -> Error {
    Error::internal_error().data(serde_json::json!({ "details": details }))
}

/// The value of a lock that is held for a few instructions only, so never left half-changed.
fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(all(test, unix))]
mod tests {
    use super::*;
    use agent_client_protocol::v1::schema::EnvVariable;

    fn terminals() -> (Terminals, mpsc::UnboundedReceiver<Event>) {
        let (sender, events) = mpsc::unbounded_channel();
        (Terminals::new(std::env::temp_dir(), sender), events)
    }

    fn shell(script: &str) -> CreateTerminalRequest {
        CreateTerminalRequest::new("s", "sh").args(vec!["-c".to_owned(), script.to_owned()])
    }

    #[tokio::test]
    async fn both_streams_are_kept_in_the_order_of_writing() {
        let (terminals, mut events) = terminals();
        let request =
            shell("echo out; echo err >&2; echo \"$X\"; exit 3").env(vec![EnvVariable::new("X", "y")]);
        let id = terminals.create(&request).unwrap();
        assert_eq!(terminals.wait(&id).await.unwrap().exit_code, Some(3));
        let output = terminals.output(&id).unwrap();
        assert_eq!((output.output.as_str(), output.truncated), ("out\nerr\ny\n", false));
        assert_eq!(output.exit_status.unwrap().exit_code, Some(3));
        let mut shown = String::new();
        while let Ok(event) = events.try_recv() {
            match event {
                Event::TerminalOutput(_, text) => shown.push_str(&text),
                Event::TerminalEnded(_, end) => shown.push_str(&end.status),
                _ => {}
            }
        }
        assert_eq!(shown, "out\nerr\ny\nexit 3");
    }

    #[tokio::test]
    async fn a_line_without_arguments_is_given_to_a_shell() {
        let (terminals, _events) = terminals();
        let id = terminals.create(&CreateTerminalRequest::new("s", "echo a | tr a b")).unwrap();
        terminals.wait(&id).await.unwrap();
        assert_eq!(terminals.output(&id).unwrap().output, "b\n");
    }

    #[tokio::test]
    async fn only_the_tail_is_kept_and_no_character_is_cut() {
        let (terminals, _events) = terminals();
        let id = terminals.create(&shell("printf 'aéé'").output_byte_limit(3)).unwrap();
        terminals.wait(&id).await.unwrap();
        let output = terminals.output(&id).unwrap();
        assert_eq!((output.output.as_str(), output.truncated), ("é", true));
    }

    #[tokio::test]
    async fn release_kills_the_whole_group_and_forgets_the_id() {
        let (terminals, _events) = terminals();
        let id = terminals.create(&shell("sleep 60 & echo $!; wait")).unwrap();
        let pid = loop {
            let output = terminals.output(&id).unwrap().output;
            if output.ends_with('\n') {
                break output.trim().to_owned();
            }
            tokio::time::sleep(Duration::from_millis(5)).await;
        };
        let mut end = terminals.find(&id).unwrap().end.clone();
        terminals.release(&id).unwrap();
        end.wait_for(Option::is_some).await.unwrap();
        assert!(terminals.output(&id).is_err());
        // The kill is sent; the kernel takes its moment to carry it out.
        for _ in 0..1000 {
            let state = std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
            if state.is_empty() || state.contains(") Z ") || state.contains(") X ") {
                return;
            }
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
        panic!("process {pid} is still there");
    }

    #[tokio::test]
    async fn a_flood_is_shown_in_part_and_counted() {
        let (terminals, mut events) = terminals();
        let id = terminals.create(&shell("yes | head -n 100000")).unwrap();
        terminals.wait(&id).await.unwrap();
        let (mut n_lines, mut n_unshown) = (0, 0);
        while let Ok(event) = events.try_recv() {
            match event {
                Event::TerminalOutput(_, text) => n_lines += text.lines().count(),
                Event::TerminalEnded(_, end) => n_unshown = end.n_unshown,
                _ => {}
            }
        }
        assert!(n_lines < 50_000, "{n_lines}");
        assert_eq!(n_lines + n_unshown, 100_000);
    }

    #[test]
    fn a_character_that_has_only_begun_waits() {
        for (bytes, expected) in [
            (&b"ab"[..], 2),
            (b"a\xc3", 1),
            (b"a\xc3\xa9", 3),
            (b"\xf0\x9f\x98", 0),
            (b"\xff", 1),
            (b"\x80", 1),
        ] {
            assert_eq!(whole_characters(bytes), expected, "{bytes:?}");
        }
    }
}
