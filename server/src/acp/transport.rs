//! stdin and stdout as lines: the only reader of one and the only writer of the other.
//!
//! Each has a thread of its own, since neither can be waited for without blocking. Lines above [`MAX_LINE_BYTES`] are
//! refused with bounded memory. How many update lines were really written is counted, because the SDK's own queue has
//! no bound and shows no depth: [`super::outbox`] waits for that count.

use agent_client_protocol::Lines;
use futures::{Sink, Stream};
use std::io::{self, BufRead, Write};
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread::JoinHandle;
use tokio::sync::Notify;

/// Longest line that is accepted, its end excluded: twice what a client may count on (32 MiB).
pub const MAX_LINE_BYTES: usize = 64 << 20;

/// Lines that may wait for a writer that is blocked by a slow client.
const WRITE_QUEUE: usize = 64;

/// Counts `session/update` lines that left the process.
#[derive(Default)]
pub struct WriteGauge {
    updates_written: AtomicU64,
    progressed: Notify,
}

impl WriteGauge {
    /// Update lines written so far.
    pub fn updates_written(&self) -> u64 {
        self.updates_written.load(Ordering::Acquire)
    }

    /// Waits for the next line to be written. Enable before reading the count, so that no wake-up is missed.
    pub fn progressed(&self) -> tokio::sync::futures::Notified<'_> {
        self.progressed.notified()
    }

    /// A line left.
    pub fn count(&self, line: &str) {
        // The SDK writes the method near the front; a longer prefix would also find the words inside a payload.
        if line.get(..64.min(line.len())).is_some_and(|start| start.contains("\"session/update\"")) {
            self.updates_written.fetch_add(1, Ordering::AcqRel);
        }
        self.progressed.notify_waiters();
    }
}

/// The writer's thread; joined at the end so that the last lines leave before the process does.
pub struct Writer {
    thread: JoinHandle<()>,
}

impl Writer {
    /// Waits until everything handed over is written. Blocking.
    pub fn join(self) {
        if self.thread.join().is_err() {
            tracing::error!("the writer of stdout failed");
        }
    }
}

/// Lines over whatever carries them.
pub type AnyLines = Lines<
    Pin<Box<dyn Sink<String, Error = io::Error> + Send>>,
    Pin<Box<dyn Stream<Item = io::Result<String>> + Send>>,
>;

/// The transport over this process's stdin and stdout.
///
/// # Errors
/// A thread could not be started.
pub fn stdio() -> io::Result<(AnyLines, Writer, Arc<WriteGauge>)> {
    let gauge = Arc::<WriteGauge>::default();
    let (lines_out, mut queue) = tokio::sync::mpsc::channel::<String>(WRITE_QUEUE);
    let counted = gauge.clone();
    let thread = std::thread::Builder::new().name("stdout".to_owned()).spawn(move || {
        let stdout = io::stdout();
        while let Some(line) = queue.blocking_recv() {
            let mut out = stdout.lock();
            let written =
                out.write_all(line.as_bytes()).and_then(|()| out.write_all(b"\n")).and_then(|()| out.flush());
            if written.is_err() {
                // The client is gone; the end of stdin will say so too. Keep draining so that nobody waits for us.
                counted.count(&line);
                while let Some(line) = queue.blocking_recv() {
                    counted.count(&line);
                }
                return;
            }
            counted.count(&line);
        }
    })?;
    let sink = futures::sink::unfold(lines_out, |lines_out, line: String| async move {
        lines_out.send(line).await.map_err(|_| io::Error::from(io::ErrorKind::BrokenPipe))?;
        Ok::<_, io::Error>(lines_out)
    });

    let (lines_in, mut lines) = tokio::sync::mpsc::channel::<io::Result<String>>(4);
    // Not joined: it blocks on stdin until the client closes it, and the process may have to end before that.
    std::thread::Builder::new().name("stdin".to_owned()).spawn(move || {
        let mut stdin = io::stdin().lock();
        while let Some(line) = read_line(&mut stdin, MAX_LINE_BYTES).transpose() {
            // An empty line is no message and no error: some launchers end their output with one.
            if line.as_ref().is_ok_and(|line| line.trim().is_empty()) {
                continue;
            }
            let failed = line.is_err();
            if lines_in.blocking_send(line).is_err() || failed {
                return;
            }
        }
    })?;
    let incoming = futures::stream::poll_fn(move |context| lines.poll_recv(context));
    Ok((Lines::new(Box::pin(sink), Box::pin(incoming)), Writer { thread }, gauge))
}

/// Reads one line without its end; `None` at the end of input. Splits on the newline byte and decodes whole lines, so
/// that no character is cut. A line over `max_bytes` is skipped and replaced by a short text that is no JSON, which the
/// protocol layer answers with a parse error.
fn read_line(input: &mut impl BufRead, max_bytes: usize) -> io::Result<Option<String>> {
    let mut line = Vec::new();
    let mut n_bytes = 0_usize;
    loop {
        let available = match input.fill_buf() {
            Ok(available) => available,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
            Err(error) => return Err(error),
        };
        if available.is_empty() {
            break;
        }
        let (piece, ended) = match available.iter().position(|&byte| byte == b'\n') {
            Some(at) => (&available[..at], true),
            None => (available, false),
        };
        n_bytes += piece.len();
        if n_bytes <= max_bytes {
            line.extend_from_slice(piece);
        } else {
            line = Vec::new();
        }
        let consumed = piece.len() + usize::from(ended);
        input.consume(consumed);
        if ended {
            return Ok(Some(decode(line, n_bytes, max_bytes)));
        }
    }
    Ok((n_bytes > 0).then(|| decode(line, n_bytes, max_bytes)))
}

fn decode(line: Vec<u8>, n_bytes: usize, max_bytes: usize) -> String {
    if n_bytes > max_bytes {
        return format!("line of {n_bytes} bytes refused: at most {max_bytes} are accepted");
    }
    match String::from_utf8(line) {
        Ok(line) => line,
        Err(_) => "line refused: it is not UTF-8".to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn lines(bytes: &[u8], buffer: usize, max_bytes: usize) -> Vec<String> {
        let mut input = io::BufReader::with_capacity(buffer, bytes);
        std::iter::from_fn(|| read_line(&mut input, max_bytes).unwrap()).collect()
    }

    #[test]
    fn lines_do_not_depend_on_how_they_are_chunked() {
        for buffer in 1..8 {
            assert_eq!(lines("é\n\nlöß\nend".as_bytes(), buffer, 100), ["é", "", "löß", "end"]);
        }
    }

    #[test]
    fn a_line_over_the_ceiling_is_refused_and_the_next_one_is_read() {
        let refused = "line of 9 bytes refused: at most 8 are accepted";
        assert_eq!(lines(b"123456789\n12345678\n", 4, 8), [refused, "12345678"]);
    }

    #[test]
    fn bytes_that_are_no_utf8_cost_their_line_only() {
        assert_eq!(lines(b"\xff\nok\n", 4, 8), ["line refused: it is not UTF-8", "ok"]);
    }
}
