//! The server process: started as a child, spoken to over its pipes, and gone when we are.
//!
//! Used by the entry of `try`. Its stderr is kept, so that its last words can be shown if it dies.

use futures::{Sink, Stream};
use std::collections::VecDeque;
use std::ffi::OsStr;
use std::io;
use std::path::Path;
use std::pin::Pin;
use std::process::{ExitStatus, Stdio};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;
use tokio::io::{AsyncBufRead, AsyncBufReadExt, AsyncReadExt, AsyncWriteExt, BufReader};
use tokio::process::{Child, Command};
use tokio::task::JoinHandle;

/// Time the server has to end once its input is closed.
const GRACE: Duration = Duration::from_secs(3);
/// Time the rest of its stderr has to arrive.
const LAST_WORDS: Duration = Duration::from_millis(200);
/// Longest message that is accepted, in bytes.
const MAX_LINE: u64 = 64 << 20;
/// Lines of stderr that are kept, and the longest part of each, in bytes.
const MAX_STDERR: (usize, u64) = (20, 1000);

/// Sees each message, in both directions, as it stands on the wire.
pub type Tap = Arc<dyn Fn(&str) -> io::Result<()> + Send + Sync>;

/// The running server.
pub struct Server {
    child: Child,
    stderr: Arc<Mutex<VecDeque<String>>>,
    stderr_reader: JoinHandle<()>,
}

/// How the server ended.
#[derive(Debug)]
pub struct Ended {
    /// `None`: it had to be killed.
    pub status: Option<ExitStatus>,
    /// The end of its stderr.
    pub last_words: Vec<String>,
}

/// Messages to the server. Dropping it closes the server's input.
pub type Outgoing = Pin<Box<dyn Sink<String, Error = io::Error> + Send>>;
/// Messages from the server.
pub type Incoming = Pin<Box<dyn Stream<Item = io::Result<String>> + Send>>;

/// Starts a server in `cwd`.
///
/// # Errors
/// It could not be started.
pub fn start(
    program: &Path,
    args: &[&OsStr],
    cwd: &Path,
    tap: Tap,
) -> io::Result<(Server, Outgoing, Incoming)> {
    let mut command = Command::new(program);
    command.args(args).current_dir(cwd).kill_on_drop(true);
    command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    // A group of its own: Ctrl-C on the terminal is ours to interpret.
    #[cfg(unix)]
    command.process_group(0);
    let mut child = command.spawn()?;
    let (Some(stdin), Some(stdout), Some(stderr)) =
        (child.stdin.take(), child.stdout.take(), child.stderr.take())
    else {
        return Err(io::Error::other("the server has no pipes"));
    };
    let sent = tap.clone();
    let outgoing = futures::sink::unfold(stdin, move |mut stdin, line: String| {
        let seen = sent(&line);
        async move {
            seen?;
            stdin.write_all(line.as_bytes()).await?;
            stdin.write_all(b"\n").await?;
            stdin.flush().await?;
            Ok::<_, io::Error>(stdin)
        }
    });
    let incoming = futures::stream::unfold(Some(BufReader::new(stdout)), move |stdout| {
        let tap = tap.clone();
        async move {
            let mut stdout = stdout?;
            match read_line(&mut stdout, MAX_LINE).await.transpose()? {
                Ok(line) => match tap(&line) {
                    Ok(()) => Some((Ok(line), Some(stdout))),
                    Err(error) => Some((Err(error), None)),
                },
                Err(error) => Some((Err(error), None)),
            }
        }
    });
    let lines = Arc::<Mutex<VecDeque<String>>>::default();
    let stderr_reader = tokio::spawn(keep_tail(BufReader::new(stderr), lines.clone()));
    let server = Server { child, stderr: lines, stderr_reader };
    Ok((server, Box::pin(outgoing), Box::pin(incoming)))
}

impl Server {
    /// Waits for the server to end; call it when its input is closed. Kills it when it takes too long.
    pub async fn stop(mut self) -> Ended {
        let status = match tokio::time::timeout(GRACE, self.child.wait()).await {
            Ok(status) => status.ok(),
            Err(_) => {
                // It is killed or gone; both are what we want.
                let _ = self.child.kill().await;
                None
            }
        };
        if tokio::time::timeout(LAST_WORDS, &mut self.stderr_reader).await.is_err() {
            self.stderr_reader.abort();
        }
        let last_words = self.stderr.lock().unwrap_or_else(PoisonError::into_inner).drain(..).collect();
        Ended { status, last_words }
    }
}

/// A line without its end; `None` at the end of input.
async fn read_line(input: &mut (impl AsyncBufRead + Unpin), max_bytes: u64) -> io::Result<Option<String>> {
    let mut line = Vec::new();
    let n_bytes = input.take(max_bytes).read_until(b'\n', &mut line).await?;
    if n_bytes == 0 {
        return Ok(None);
    }
    if line.last() != Some(&b'\n') && n_bytes as u64 == max_bytes {
        return Err(io::Error::other(format!("the server sent a message of more than {max_bytes} bytes")));
    }
    while matches!(line.last(), Some(b'\n' | b'\r')) {
        line.pop();
    }
    String::from_utf8(line).map(Some).map_err(|_| io::Error::other("the server sent bytes that are no UTF-8"))
}

async fn keep_tail(mut stderr: impl AsyncBufRead + Unpin, lines: Arc<Mutex<VecDeque<String>>>) {
    let (max_lines, max_bytes) = MAX_STDERR;
    let mut piece = Vec::new();
    loop {
        piece.clear();
        match (&mut stderr).take(max_bytes).read_until(b'\n', &mut piece).await {
            Ok(0) | Err(_) => return,
            Ok(_) => {}
        }
        let line = String::from_utf8_lossy(&piece).trim_end().to_owned();
        let mut lines = lines.lock().unwrap_or_else(PoisonError::into_inner);
        if lines.len() == max_lines {
            lines.pop_front();
        }
        lines.push_back(line);
    }
}

#[cfg(all(test, unix))]
mod tests {
    use super::*;
    use futures::{SinkExt, StreamExt};

    /// A server that is a shell script, and what its tap saw.
    struct Script {
        server: Server,
        outgoing: Outgoing,
        incoming: Incoming,
        seen: Arc<Mutex<Vec<String>>>,
    }

    #[expect(clippy::unwrap_used, reason = "a test fails where its script does not start")]
    fn script(text: &str) -> Script {
        let seen = Arc::<Mutex<Vec<String>>>::default();
        let kept = seen.clone();
        let tap: Tap = Arc::new(move |line| {
            kept.lock().unwrap().push(line.to_owned());
            Ok(())
        });
        let args = [OsStr::new("-c"), OsStr::new(text)];
        let started = start(Path::new("/bin/sh"), &args, &std::env::temp_dir(), tap);
        let (server, outgoing, incoming) = started.unwrap();
        Script { server, outgoing, incoming, seen }
    }

    #[tokio::test]
    async fn last_words_of_a_dead_server_are_kept() {
        let script = script("for i in $(seq 30); do echo line $i >&2; done; exit 3");
        drop(script.outgoing);
        let ended = script.server.stop().await;
        assert_eq!(ended.status.and_then(|status| status.code()), Some(3));
        assert_eq!(ended.last_words.len(), 20);
        assert_eq!(ended.last_words.last().map(String::as_str), Some("line 30"));
    }

    #[tokio::test]
    async fn a_server_that_stays_is_killed() {
        let script = script("exec sleep 60");
        drop(script.outgoing);
        let began = std::time::Instant::now();
        assert!(script.server.stop().await.status.is_none());
        assert!(began.elapsed() < Duration::from_secs(10));
    }

    #[tokio::test]
    async fn closing_the_input_ends_a_server_and_the_tap_sees_both_directions() {
        let mut script = script("while read line; do echo \"got $line\"; done");
        script.outgoing.send("one".to_owned()).await.unwrap();
        assert_eq!(script.incoming.next().await.unwrap().unwrap(), "got one");
        drop(script.outgoing);
        assert!(script.server.stop().await.status.is_some_and(|status| status.success()));
        assert_eq!(*script.seen.lock().unwrap(), ["one", "got one"]);
    }
}
