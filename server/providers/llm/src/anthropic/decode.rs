//! Reads the event stream of a Messages answer.

use crate::failure::Wording;
use crate::sse::SseEvent;
use crate::stream::{Decoder, Progress};
use protocol::model::{FinishReason, ModelChunk, Usage};
use serde::Deserialize;
use serde_json::{Value, json};
use services::model::{ModelError, ModelErrorKind};
use std::collections::{HashMap, VecDeque};

#[derive(Deserialize)]
#[serde(tag = "type", rename_all = "snake_case")]
enum Event {
    MessageStart {
        message: Start,
    },
    ContentBlockStart {
        index: u64,
        content_block: Block,
    },
    ContentBlockDelta {
        index: u64,
        delta: Delta,
    },
    ContentBlockStop {
        index: u64,
    },
    MessageDelta {
        delta: MessageDelta,
        #[serde(default)]
        usage: Option<WireUsage>,
    },
    MessageStop,
    Ping,
    Error {
        error: Value,
    },
    #[serde(other)]
    Unknown,
}

#[derive(Deserialize)]
struct Start {
    #[serde(default)]
    usage: Option<WireUsage>,
}

#[derive(Deserialize)]
#[serde(tag = "type", rename_all = "snake_case")]
enum Block {
    Text {
        #[serde(default)]
        text: String,
    },
    Thinking {
        #[serde(default)]
        thinking: String,
        #[serde(default)]
        signature: String,
    },
    RedactedThinking {
        data: Value,
    },
    ToolUse {
        #[serde(default)]
        id: String,
        name: String,
        #[serde(default)]
        input: Value,
    },
    #[serde(other)]
    Unknown,
}

#[derive(Deserialize)]
#[serde(tag = "type")]
enum Delta {
    #[serde(rename = "text_delta")]
    Text { text: String },
    #[serde(rename = "thinking_delta")]
    Thinking { thinking: String },
    #[serde(rename = "signature_delta")]
    Signature { signature: String },
    #[serde(rename = "input_json_delta")]
    Input { partial_json: String },
    #[serde(other)]
    Unknown,
}

#[derive(Deserialize)]
struct MessageDelta {
    #[serde(default)]
    stop_reason: Option<String>,
}

/// Counts come at the start and, cumulative, at the end; an absent one keeps its value.
#[derive(Deserialize)]
struct WireUsage {
    input_tokens: Option<u64>,
    output_tokens: Option<u64>,
    cache_read_input_tokens: Option<u64>,
    cache_creation_input_tokens: Option<u64>,
    #[serde(default)]
    output_tokens_details: Option<OutputDetails>,
}

#[derive(Deserialize)]
struct OutputDetails {
    thinking_tokens: Option<u64>,
}

/// A block that is being streamed.
enum Open {
    Text,
    Thinking {
        signature: String,
    },
    Redacted,
    Call {
        index: usize,
        /// Input that stood in the block's start; used when no pieces follow.
        whole: Option<String>,
    },
}

/// State of one answer.
pub(crate) struct MessageDecoder {
    wording: Wording,
    open: HashMap<u64, Open>,
    n_calls: usize,
    has_text: bool,
    usage: Option<Usage>,
    finish: Option<FinishReason>,
}

impl MessageDecoder {
    /// A decoder for one answer.
    pub fn new(wording: Wording) -> Self {
        Self { wording, open: HashMap::new(), n_calls: 0, has_text: false, usage: None, finish: None }
    }

    fn start(&mut self, wire_index: u64, block: Block, chunks: &mut VecDeque<ModelChunk>) {
        let open = match block {
            Block::Text { text } => {
                self.text(text, chunks);
                Open::Text
            }
            Block::Thinking { thinking, signature } => {
                if !thinking.is_empty() {
                    chunks.push_back(ModelChunk::Reasoning(thinking));
                }
                Open::Thinking { signature }
            }
            Block::RedactedThinking { data } => {
                let replay = json!({"type": "redacted_thinking", "data": data});
                chunks.push_back(ModelChunk::ReasoningReplay(replay));
                Open::Redacted
            }
            Block::ToolUse { id, name, input } => {
                let index = self.n_calls;
                self.n_calls += 1;
                let id = if id.is_empty() { format!("call_{index}") } else { id };
                chunks.push_back(ModelChunk::ToolCall { index, id, name, arguments: String::new() });
                let whole =
                    input.as_object().is_some_and(|input| !input.is_empty()).then(|| input.to_string());
                Open::Call { index, whole }
            }
            Block::Unknown => return,
        };
        self.open.insert(wire_index, open);
    }

    fn delta(&mut self, wire_index: u64, delta: Delta, chunks: &mut VecDeque<ModelChunk>) {
        match (self.open.get_mut(&wire_index), delta) {
            (_, Delta::Text { text }) => self.text(text, chunks),
            (_, Delta::Thinking { thinking }) if !thinking.is_empty() => {
                chunks.push_back(ModelChunk::Reasoning(thinking));
            }
            (Some(Open::Thinking { signature }), Delta::Signature { signature: more }) => {
                signature.push_str(&more)
            }
            (Some(Open::Call { index, whole }), Delta::Input { partial_json })
                if !partial_json.is_empty() =>
            {
                *whole = None;
                chunks.push_back(ModelChunk::ToolCall {
                    index: *index,
                    id: String::new(),
                    name: String::new(),
                    arguments: partial_json,
                });
            }
            _ => {}
        }
    }

    fn stop(&mut self, wire_index: u64, chunks: &mut VecDeque<ModelChunk>) {
        match self.open.remove(&wire_index) {
            Some(Open::Thinking { signature }) if !signature.is_empty() => {
                let replay = json!({"type": "thinking", "signature": signature});
                chunks.push_back(ModelChunk::ReasoningReplay(replay));
            }
            Some(Open::Call { index, whole: Some(arguments) }) => {
                chunks.push_back(ModelChunk::ToolCall {
                    index,
                    id: String::new(),
                    name: String::new(),
                    arguments,
                });
            }
            _ => {}
        }
    }

    fn text(&mut self, text: String, chunks: &mut VecDeque<ModelChunk>) {
        if !text.is_empty() {
            self.has_text = true;
            chunks.push_back(ModelChunk::Text(text));
        }
    }

    fn count(&mut self, wire: Option<WireUsage>) {
        let Some(wire) = wire else { return };
        let usage = self.usage.get_or_insert_default();
        for (value, slot) in [
            (wire.input_tokens, &mut usage.input_tokens),
            (wire.output_tokens, &mut usage.output_tokens),
            (wire.cache_read_input_tokens, &mut usage.cache_read_tokens),
            (wire.cache_creation_input_tokens, &mut usage.cache_write_tokens),
            (
                wire.output_tokens_details.and_then(|details| details.thinking_tokens),
                &mut usage.reasoning_tokens,
            ),
        ] {
            if let Some(value) = value {
                *slot = value;
            }
        }
    }

    fn finish_reason(&self, reason: &str) -> FinishReason {
        match reason {
            "max_tokens" | "model_context_window_exceeded" => FinishReason::MaxTokens,
            "refusal" => FinishReason::Refusal,
            _ if self.n_calls > 0 => FinishReason::ToolCalls,
            _ => FinishReason::Stop,
        }
    }
}

impl Decoder for MessageDecoder {
    fn event(&mut self, event: &SseEvent, chunks: &mut VecDeque<ModelChunk>) -> Result<Progress, ModelError> {
        let data = event.data.trim();
        if data.is_empty() || data == "[DONE]" {
            return Ok(Progress::KeepAlive);
        }
        let parsed: Event = serde_json::from_str(data).map_err(|error| {
            let message = format!("{} sent an event that cannot be read: {error}.", self.wording.provider);
            self.wording.plain(ModelErrorKind::Transport, message)
        })?;
        match parsed {
            Event::MessageStart { message } => self.count(message.usage),
            Event::ContentBlockStart { index, content_block } => self.start(index, content_block, chunks),
            Event::ContentBlockDelta { index, delta } => self.delta(index, delta, chunks),
            Event::ContentBlockStop { index } => self.stop(index, chunks),
            Event::MessageDelta { delta, usage } => {
                self.count(usage);
                if let Some(reason) = delta.stop_reason {
                    self.finish = Some(self.finish_reason(&reason));
                }
            }
            Event::MessageStop => {
                self.settle(chunks)?;
                return Ok(Progress::Complete);
            }
            Event::Error { error } => return Err(self.wording.in_stream(&error)),
            // A ping is a keep-alive in the shape of an event.
            Event::Ping | Event::Unknown => return Ok(Progress::KeepAlive),
        }
        Ok(Progress::Event)
    }

    fn is_settled(&self) -> bool {
        self.finish.is_some()
    }

    fn settle(&mut self, chunks: &mut VecDeque<ModelChunk>) -> Result<(), ModelError> {
        let finish = self.finish.unwrap_or_else(|| self.finish_reason("end_turn"));
        if finish == FinishReason::Stop && !self.has_text {
            return Err(self.wording.empty());
        }
        chunks.extend(self.usage.take().map(ModelChunk::Usage));
        chunks.push_back(ModelChunk::Finish(finish));
        Ok(())
    }
}

#[cfg(test)]
#[path = "decode_tests.rs"]
mod tests;
