//! One step: a model request with its retries, the answer as it streams, and the message it becomes.

use crate::core::Core;
use futures::StreamExt;
use protocol::event::SessionEvent;
use protocol::id::{CallId, MessageId};
use protocol::live::LiveUpdate;
use protocol::message::{AssistantBlock, AssistantMessage, RequestedCall};
use protocol::model::{FinishReason, ModelChunk, ModelRef, ModelRequest, Usage};
use serde_json::Value;
use services::model::{ModelError, ModelErrorKind, Models};
use services::session_store::StoreError;
use std::time::Duration;
use tokio_util::sync::CancellationToken;

const MAX_RETRIES: u32 = 5;
const FIRST_DELAY: Duration = Duration::from_millis(500);
const MAX_DELAY: Duration = Duration::from_secs(10);
const PARTIAL_EVERY: Duration = Duration::from_millis(500);
/// Most bytes of text, reasoning and arguments of one answer; a stream beyond it is cut as at the output cap.
const MAX_ANSWER_BYTES: usize = 16 << 20;

/// How a request ended.
pub(crate) enum Answer {
    /// The model said this; it is logged.
    Said { message: AssistantMessage, finish: FinishReason },
    /// The stream broke after something was visible; what was said is logged, and the model should go on from there.
    Cut,
    /// The turn was cancelled; what was said is logged.
    Cancelled,
    /// It failed for good.
    Failed(ModelError),
    /// The log could not be written.
    LogFailed(StoreError),
}

impl From<StoreError> for Answer {
    fn from(error: StoreError) -> Self {
        Self::LogFailed(error)
    }
}

/// Which step is asked.
#[derive(Clone, Copy)]
pub(crate) struct StepId {
    pub turn: u64,
    pub step: u64,
}

/// Sends a request until it is answered, retrying what can be retried while nothing is visible yet.
///
/// `attempts` counts the retries of the whole turn's present request and goes on across [`Answer::Cut`].
pub(crate) async fn ask(
    core: &Core,
    models: &dyn Models,
    request: ModelRequest,
    id: StepId,
    attempts: &mut u32,
    cancel: &CancellationToken,
) -> Answer {
    loop {
        let mut answer = Draft::new(core, &request.model, id);
        let failed = tokio::select! {
            biased;
            () = cancel.cancelled() => None,
            result = answer.read(core, models, request.clone()) => Some(result),
        };
        let error = match failed {
            None => return answer.keep(core, Answer::Cancelled),
            Some(Ok(finish)) => return answer.finish(core, finish),
            Some(Err(error)) => error,
        };
        let give_up = !error.kind.is_transient() || *attempts >= MAX_RETRIES;
        if give_up {
            return answer.keep(core, Answer::Failed(error));
        }
        *attempts += 1;
        let delay = match error.retry_after {
            Some(asked) if asked > MAX_DELAY => return answer.keep(core, Answer::Failed(error)),
            Some(asked) => asked,
            None => backoff(*attempts, core.clock().now_ms()),
        };
        let visible = answer.is_visible();
        if visible && let Err(error) = answer.log_interrupted(core) {
            return error.into();
        }
        let logged = core.append(SessionEvent::LlmRetry {
            attempt: *attempts,
            delay_ms: u64::try_from(delay.as_millis()).unwrap_or(u64::MAX),
            message: error.message.clone(),
            code: error.kind.code().to_owned(),
        });
        if let Err(error) = logged {
            return error.into();
        }
        tokio::select! {
            () = cancel.cancelled() => return Answer::Cancelled,
            () = core.clock().sleep(delay) => {}
        }
        if visible {
            return Answer::Cut;
        }
    }
}

/// Exponential from half a second to ten, with a tenth of jitter taken from the clock.
fn backoff(attempt: u32, now_ms: i64) -> Duration {
    let base = FIRST_DELAY.saturating_mul(1 << (attempt - 1).min(10)).min(MAX_DELAY);
    let jitter = u32::try_from(now_ms.rem_euclid(100)).unwrap_or(0);
    base * (950 + jitter) / 1000
}

/// An answer while it streams.
struct Draft {
    id: StepId,
    message_id: MessageId,
    model: ModelRef,
    blocks: Vec<AssistantBlock>,
    calls: Vec<RequestedCall>,
    /// How many of `blocks` stand before each call: providers want an answer back in the order in which they gave it.
    call_places: Vec<usize>,
    usage: Option<Usage>,
    n_bytes: usize,
    last_partial: Duration,
    /// Whether something visible came since the message so far was logged.
    has_unlogged: bool,
}

impl Draft {
    fn new(core: &Core, model: &ModelRef, id: StepId) -> Self {
        Self {
            id,
            message_id: MessageId::new(format!("msg_{}", core.clock().fresh_id())),
            model: model.clone(),
            blocks: Vec::new(),
            calls: Vec::new(),
            call_places: Vec::new(),
            usage: None,
            n_bytes: 0,
            last_partial: core.clock().monotonic(),
            has_unlogged: false,
        }
    }

    /// Reads one attempt to its end.
    async fn read(
        &mut self,
        core: &Core,
        models: &dyn Models,
        request: ModelRequest,
    ) -> Result<FinishReason, ModelError> {
        let mut stream = models.stream(request).await?;
        loop {
            let chunk = tokio::select! {
                biased;
                chunk = stream.next() => chunk,
                // A stream that stalls must not keep what was said out of the log.
                () = core.clock().sleep(PARTIAL_EVERY), if self.has_unlogged => {
                    self.log_partial(core);
                    continue;
                }
            };
            let Some(chunk) = chunk else { break };
            if let ModelChunk::Finish(reason) = chunk.clone()? {
                if self.blocks.is_empty() && self.calls.is_empty() && reason != FinishReason::Refusal {
                    return Err(empty_response());
                }
                return Ok(reason);
            }
            self.take(core, chunk?);
            if self.n_bytes > MAX_ANSWER_BYTES {
                return Ok(FinishReason::MaxTokens);
            }
            self.has_unlogged |= self.is_visible();
            if core.clock().monotonic().saturating_sub(self.last_partial) >= PARTIAL_EVERY {
                self.log_partial(core);
            }
            core.observer().ready().await;
        }
        Err(ModelError {
            kind: ModelErrorKind::Transport,
            message: format!("{}: the stream ended before the answer was complete", self.model.provider),
            status: None,
            retry_after: None,
        })
    }

    fn take(&mut self, core: &Core, chunk: ModelChunk) {
        match chunk {
            ModelChunk::Text(delta) if !delta.is_empty() => {
                self.n_bytes += delta.len();
                core.observer()
                    .live(LiveUpdate::Text { message_id: self.message_id.clone(), delta: delta.clone() });
                match self.open_block() {
                    Some(AssistantBlock::Text { text }) => text.push_str(&delta),
                    _ => self.blocks.push(AssistantBlock::Text { text: delta }),
                }
            }
            ModelChunk::Reasoning(delta) if !delta.is_empty() => {
                self.n_bytes += delta.len();
                core.observer().live(LiveUpdate::Reasoning {
                    message_id: self.message_id.clone(),
                    delta: delta.clone(),
                });
                match self.open_block() {
                    Some(AssistantBlock::Reasoning { text, replay: None }) => text.push_str(&delta),
                    _ => self.blocks.push(AssistantBlock::Reasoning { text: delta, replay: None }),
                }
            }
            ModelChunk::ReasoningReplay(value) => self.end_reasoning(value),
            ModelChunk::ToolCall { index, id, name, arguments } => {
                self.n_bytes += arguments.len();
                while self.calls.len() <= index.min(255) {
                    self.call_places.push(self.blocks.len());
                    self.calls.push(RequestedCall {
                        id: CallId::new(format!("call_{}", core.clock().fresh_id())),
                        provider_id: String::new(),
                        name: String::new(),
                        arguments: String::new(),
                    });
                }
                let Some(call) = self.calls.get_mut(index) else { return };
                if !id.is_empty() {
                    call.provider_id = id;
                }
                call.name.push_str(&name);
                call.arguments.push_str(&arguments);
            }
            ModelChunk::Usage(usage) => self.usage = Some(usage),
            ModelChunk::Text(_) | ModelChunk::Reasoning(_) | ModelChunk::Finish(_) => {}
        }
    }

    /// The block that goes on: the last one, unless a call came after it.
    fn open_block(&mut self) -> Option<&mut AssistantBlock> {
        let is_open = self.call_places.last().is_none_or(|place| *place < self.blocks.len());
        self.blocks.last_mut().filter(|_| is_open)
    }

    fn end_reasoning(&mut self, value: Value) {
        match self.open_block() {
            Some(AssistantBlock::Reasoning { replay: replay @ None, .. }) => *replay = Some(value),
            _ => self.blocks.push(AssistantBlock::Reasoning { text: String::new(), replay: Some(value) }),
        }
    }

    fn is_visible(&self) -> bool {
        self.blocks.iter().any(|block| match block {
            AssistantBlock::Text { text } | AssistantBlock::Reasoning { text, .. } => !text.is_empty(),
            AssistantBlock::ToolCall(_) => false,
        })
    }

    /// Appends the message so far, if anything of it is not logged yet. Called at most twice a second, so that a kill
    /// loses no more than half a second.
    fn log_partial(&mut self, core: &Core) {
        if !self.has_unlogged {
            return;
        }
        self.has_unlogged = false;
        self.last_partial = core.clock().monotonic();
        let logged = core.append(SessionEvent::AssistantPartial {
            turn: self.id.turn,
            step: self.id.step,
            message: self.message(false),
        });
        if let Err(error) = logged {
            // The final message reports the failure; a lost partial loses nothing yet.
            tracing::warn!(%error, "could not log the answer so far");
        }
    }

    fn message(&self, with_calls: bool) -> AssistantMessage {
        let mut blocks = self.blocks.clone();
        if with_calls {
            // From the last on, so that the places of those before stay right. A call without a name cannot be told
            // apart from a broken stream.
            for (call, place) in self.calls.iter().zip(&self.call_places).rev() {
                if !call.name.is_empty() {
                    blocks.insert(*place, AssistantBlock::ToolCall(call.clone()));
                }
            }
        }
        AssistantMessage { id: self.message_id.clone(), blocks, model: self.model.clone() }
    }

    fn finish(self, core: &Core, finish: FinishReason) -> Answer {
        // A cut answer's calls may lack their ends.
        let with_calls = finish != FinishReason::MaxTokens && finish != FinishReason::Refusal;
        let message = self.message(with_calls);
        match self.log(core, message.clone(), false) {
            Ok(()) => Answer::Said { message, finish },
            Err(error) => error.into(),
        }
    }

    /// Logs what was said of an answer that will not be finished, then answers `answer`.
    fn keep(self, core: &Core, answer: Answer) -> Answer {
        match self.log_interrupted(core) {
            Ok(()) => answer,
            Err(error) => error.into(),
        }
    }

    fn log_interrupted(&self, core: &Core) -> Result<(), StoreError> {
        if !self.is_visible() {
            return Ok(());
        }
        let mut message = self.message(false);
        // Reasoning that was cut has no signature, and providers refuse it without one.
        message.blocks.retain(|block| match block {
            AssistantBlock::Text { text } | AssistantBlock::Reasoning { text, .. } => !text.trim().is_empty(),
            AssistantBlock::ToolCall(_) => false,
        });
        self.log(core, message, true)
    }

    fn log(&self, core: &Core, message: AssistantMessage, interrupted: bool) -> Result<(), StoreError> {
        core.append(SessionEvent::AssistantMessage {
            turn: self.id.turn,
            step: self.id.step,
            message,
            usage: self.usage,
            interrupted,
        })
    }
}

fn empty_response() -> ModelError {
    ModelError {
        kind: ModelErrorKind::EmptyResponse,
        message: "the model's answer was empty".to_owned(),
        status: None,
        retry_after: None,
    }
}
