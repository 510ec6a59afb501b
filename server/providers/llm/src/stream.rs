//! From bytes to chunks: parsing, the idle budget and the end of a stream, the same for every wire format.
//!
//! Called by the HTTP layer. Knows no provider; a [`Decoder`] does.

use crate::failure::Wording;
use crate::http::Chunks;
use crate::sse::{SseEvent, SseParser};
use futures::stream::{BoxStream, Stream, StreamExt as _};
use protocol::model::ModelChunk;
use services::model::{ModelError, ModelErrorKind};
use std::collections::VecDeque;
use std::time::Duration;
use tokio::time::Instant;

/// How long a provider that has said why it stopped may take for the rest (usage, the closing event).
const SETTLED_GRACE: Duration = Duration::from_secs(3);

/// How long the end of the body may take behind the end of the answer, so that the connection can be used again.
const DRAIN_GRACE: Duration = Duration::from_millis(10);

/// What an event was worth.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Progress {
    /// Only a sign of life; the idle budget runs on.
    KeepAlive,
    /// A part of the answer.
    Event,
    /// The answer is complete: `Finish` is among the chunks and nothing more is read.
    Complete,
}

/// Makes chunks of the events of one answer.
pub(crate) trait Decoder: Send + 'static {
    /// Takes one event and appends what it brought.
    ///
    /// # Errors
    /// The provider reported a failure, or the event makes no sense; the stream ends with it.
    fn event(&mut self, event: &SseEvent, chunks: &mut VecDeque<ModelChunk>) -> Result<Progress, ModelError>;

    /// Whether the reason to stop is known, so that only accounting is outstanding.
    fn is_settled(&self) -> bool;

    /// The connection ended or went quiet after [`Decoder::is_settled`]: completes the answer.
    ///
    /// # Errors
    /// The answer is empty.
    fn settle(&mut self, chunks: &mut VecDeque<ModelChunk>) -> Result<(), ModelError>;
}

struct Running<B, D> {
    bytes: BoxStream<'static, reqwest::Result<B>>,
    parser: SseParser,
    decoder: D,
    wording: Wording,
    idle: Duration,
    deadline: Instant,
}

struct State<B, D> {
    /// `None` once nothing more is read; dropping it closes the connection.
    running: Option<Running<B, D>>,
    chunks: VecDeque<ModelChunk>,
    failure: Option<ModelError>,
}

/// Decodes an event stream. It ends after `Finish` or one error.
pub(crate) fn decode<B, D>(
    bytes: impl Stream<Item = reqwest::Result<B>> + Send + 'static,
    decoder: D,
    idle: Duration,
    wording: Wording,
) -> Chunks
where
    B: AsRef<[u8]> + Send + 'static,
    D: Decoder,
{
    let running = Running {
        bytes: Box::pin(bytes),
        parser: SseParser::default(),
        decoder,
        wording,
        idle,
        deadline: Instant::now() + idle,
    };
    let state = State { running: Some(running), chunks: VecDeque::new(), failure: None };
    Box::pin(futures::stream::unfold(state, |mut state| async move {
        loop {
            if let Some(chunk) = state.chunks.pop_front() {
                return Some((Ok(chunk), state));
            }
            if let Some(failure) = state.failure.take() {
                return Some((Err(failure), state));
            }
            let running = state.running.as_mut()?;
            match running.advance(&mut state.chunks).await {
                Ok(false) => {}
                Ok(true) => state.running = None,
                Err(error) => {
                    state.failure = Some(error);
                    state.running = None;
                }
            }
        }
    }))
}

impl<B: AsRef<[u8]>, D: Decoder> Running<B, D> {
    /// Reads once; says whether the answer is complete.
    async fn advance(&mut self, chunks: &mut VecDeque<ModelChunk>) -> Result<bool, ModelError> {
        let read = match tokio::time::timeout_at(self.deadline, self.bytes.next()).await {
            Ok(read) => read,
            Err(_) if self.decoder.is_settled() => return self.decoder.settle(chunks).map(|()| true),
            Err(_) => return Err(self.wording.idle(self.idle)),
        };
        match read {
            Some(Ok(bytes)) => {
                let is_complete = self.take(bytes.as_ref(), chunks)?;
                if is_complete {
                    self.drain().await;
                }
                Ok(is_complete)
            }
            Some(Err(_)) | None if self.decoder.is_settled() => self.decoder.settle(chunks).map(|()| true),
            Some(Err(error)) => Err(self.wording.transport(error)),
            None => self.end(chunks),
        }
    }

    /// Reads the end of the body, which mostly came with the last event: an unread one costs the connection.
    async fn drain(&mut self) {
        let rest = async { while let Some(Ok(_)) = self.bytes.next().await {} };
        // A server that keeps the body open loses only the reuse.
        let _ = tokio::time::timeout(DRAIN_GRACE, rest).await;
    }

    fn take(&mut self, bytes: &[u8], chunks: &mut VecDeque<ModelChunk>) -> Result<bool, ModelError> {
        let Self { parser, decoder, .. } = self;
        let mut outcome = Ok(Progress::KeepAlive);
        let parsed = parser.push(bytes, |event| {
            // After the end or a failure nothing counts any more.
            if !matches!(outcome, Ok(Progress::KeepAlive | Progress::Event)) {
                return;
            }
            match decoder.event(&event, chunks) {
                Ok(Progress::KeepAlive) => {}
                other => outcome = other,
            }
        });
        let progress = outcome?;
        parsed.map_err(|_| {
            let message = format!("{} sent an event that is too large to be read.", self.wording.provider);
            self.wording.plain(ModelErrorKind::Transport, message)
        })?;
        if progress == Progress::Event {
            let budget = if self.decoder.is_settled() { self.idle.min(SETTLED_GRACE) } else { self.idle };
            self.deadline = Instant::now() + budget;
        }
        Ok(progress == Progress::Complete)
    }

    /// The connection was closed: a last event without its blank line may still complete the answer.
    fn end(&mut self, chunks: &mut VecDeque<ModelChunk>) -> Result<bool, ModelError> {
        if let Some(event) = std::mem::take(&mut self.parser).finish()
            && self.decoder.event(&event, chunks) == Ok(Progress::Complete)
        {
            return Ok(true);
        }
        if self.decoder.is_settled() {
            return self.decoder.settle(chunks).map(|()| true);
        }
        Err(self.wording.cut_off())
    }
}
