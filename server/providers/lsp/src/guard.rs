//! The two ends of a server's pipes: a reader that refuses what is no message of the protocol before memory is taken for
//! it, and a writer that never blocks the loop that also reads.
//!
//! A server that blocks on its full stdout while we block on its full stdin would never move again; so writing is a queue
//! and a task of its own.

use futures::io::{AsyncRead, AsyncWrite};
use std::io;
use std::pin::Pin;
use std::task::{Context, Poll};
use tokio::io::AsyncWriteExt;
use tokio::sync::mpsc;

/// Largest message taken from a server, in bytes. Source: `spec/tools-files-shell.md` §13.
pub const MAX_MESSAGE: usize = 16_000_000;
/// Longest header taken from a server, in bytes.
const MAX_HEADER: usize = 4096;

/// Watches the headers that pass and fails at one that is too long or names too large a message.
pub struct GuardedReader<R> {
    inner: R,
    header: Vec<u8>,
    /// Bytes of the present message still to come.
    n_body: usize,
}

impl<R> GuardedReader<R> {
    /// Watches `inner`.
    pub fn new(inner: R) -> Self {
        Self { inner, header: Vec::new(), n_body: 0 }
    }

    fn watch(&mut self, mut bytes: &[u8]) -> io::Result<()> {
        while !bytes.is_empty() {
            if self.n_body > 0 {
                let n = self.n_body.min(bytes.len());
                self.n_body -= n;
                bytes = &bytes[n..];
                continue;
            }
            self.header.push(bytes[0]);
            bytes = &bytes[1..];
            if self.header.ends_with(b"\r\n\r\n") {
                self.n_body = content_length(&self.header);
                self.header.clear();
                if self.n_body > MAX_MESSAGE {
                    return Err(invalid(format!("a message of {} bytes, over the cap", self.n_body)));
                }
            } else if self.header.len() > MAX_HEADER {
                return Err(invalid("what it writes has no message headers".to_owned()));
            }
        }
        Ok(())
    }
}

fn content_length(header: &[u8]) -> usize {
    let header = String::from_utf8_lossy(header);
    let value = header.lines().find_map(|line| {
        let (name, value) = line.split_once(':')?;
        name.eq_ignore_ascii_case("content-length").then(|| value.trim().to_owned())
    });
    // A number that does not fit is refused as too large; a missing one is the main loop's to refuse.
    value.map_or(0, |value| value.parse().unwrap_or(usize::MAX))
}

fn invalid(message: String) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, message)
}

impl<R: AsyncRead + Unpin> AsyncRead for GuardedReader<R> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buffer: &mut [u8],
    ) -> Poll<io::Result<usize>> {
        let n = std::task::ready!(Pin::new(&mut self.inner).poll_read(cx, buffer))?;
        self.watch(&buffer[..n])?;
        Poll::Ready(Ok(n))
    }
}

/// Queues what is written; [`QueuedWriter::new`] starts the task that writes it.
pub struct QueuedWriter {
    queue: mpsc::UnboundedSender<Vec<u8>>,
}

impl QueuedWriter {
    /// Writes to `pipe` from a task of its own, until the writer is dropped and the queue is empty.
    pub fn new(mut pipe: impl tokio::io::AsyncWrite + Unpin + Send + 'static) -> Self {
        let (queue, mut queued) = mpsc::unbounded_channel::<Vec<u8>>();
        tokio::spawn(async move {
            while let Some(bytes) = queued.recv().await {
                if pipe.write_all(&bytes).await.is_err() || pipe.flush().await.is_err() {
                    return;
                }
            }
        });
        Self { queue }
    }
}

impl AsyncWrite for QueuedWriter {
    fn poll_write(self: Pin<&mut Self>, _cx: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        match self.queue.send(bytes.to_vec()) {
            Ok(()) => Poll::Ready(Ok(bytes.len())),
            Err(_) => Poll::Ready(Err(io::ErrorKind::BrokenPipe.into())),
        }
    }

    fn poll_flush(self: Pin<&mut Self>, _cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }

    fn poll_close(self: Pin<&mut Self>, _cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn messages_pass_and_monsters_do_not() {
        let cases: [(&[&[u8]], bool); 4] = [
            (&[b"Content-Length: 2\r\n", b"\r\n{}Content-Le", b"ngth: 2\r\nContent-Type: x\r\n\r\n{}"], true),
            (&[b"Content-Length: 16000001\r\n\r\n"], false),
            (&[b"Content-Length: 99999999999999999999999\r\n\r\n"], false),
            (&[&[b'x'; 5000]], false),
        ];
        for (parts, passes) in cases {
            let mut reader = GuardedReader::new(futures::io::empty());
            let result = parts.iter().try_for_each(|part| reader.watch(part));
            assert_eq!(result.is_ok(), passes, "{parts:?}");
        }
    }
}
