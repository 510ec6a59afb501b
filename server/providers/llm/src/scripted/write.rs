//! A reply in the two wire formats, as events.

use super::reply::{Part, Reply};
use serde_json::{Value, json};
use std::sync::atomic::{AtomicUsize, Ordering};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Format {
    Chat,
    Messages,
}

/// Writes the events of one reply.
pub(super) struct Writer<'a> {
    format: Format,
    /// Calls of the server so far, so that ids are its own in each reply.
    n_calls: &'a AtomicUsize,
    /// Index of the next block or call of this reply.
    index: usize,
    has_calls: bool,
}

impl<'a> Writer<'a> {
    pub fn new(format: Format, n_calls: &'a AtomicUsize) -> Self {
        Self { format, n_calls, index: 0, has_calls: false }
    }

    pub fn start(&self, reply: &Reply) -> String {
        match self.format {
            Format::Chat => delta(json!({"role": "assistant", "content": null}), None),
            Format::Messages => {
                let (input, _, cached) = reply.usage.unwrap_or_default();
                let usage = json!({
                    "input_tokens": input.saturating_sub(cached),
                    "cache_read_input_tokens": cached,
                    "output_tokens": 0,
                });
                named(
                    "message_start",
                    json!({"message": {"role": "assistant", "content": [], "usage": usage}}),
                )
            }
        }
    }

    /// The events of one part; waiting is none.
    pub fn part(&mut self, part: &Part) -> Vec<String> {
        match (self.format, part) {
            (_, Part::Hold(_) | Part::Pause(_)) => Vec::new(),
            (Format::Chat, Part::Text(text)) => vec![delta(json!({ "content": text }), None)],
            (Format::Chat, Part::Reasoning(text)) => vec![delta(json!({ "reasoning_content": text }), None)],
            (Format::Chat, Part::Call { id, name, arguments }) => {
                self.chat_call(id.as_deref(), name, arguments)
            }
            (Format::Messages, Part::Text(text)) => self
                .block(json!({"type": "text", "text": ""}), &[json!({"type": "text_delta", "text": text})]),
            (Format::Messages, Part::Reasoning(text)) => self.block(
                json!({"type": "thinking", "thinking": "", "signature": ""}),
                &[
                    json!({"type": "thinking_delta", "thinking": text}),
                    json!({"type": "signature_delta", "signature": "scripted-signature"}),
                ],
            ),
            (Format::Messages, Part::Call { id, name, arguments }) => {
                let id = self.call_id(id.as_deref());
                let pieces: Vec<Value> = arguments
                    .iter()
                    .map(|piece| json!({"type": "input_json_delta", "partial_json": piece}))
                    .collect();
                self.block(json!({"type": "tool_use", "id": id, "name": name, "input": {}}), &pieces)
            }
        }
    }

    pub fn finish(&self, reply: &Reply) -> String {
        let (input, output, cached) = reply.usage.unwrap_or_default();
        match self.format {
            Format::Chat => {
                let reason =
                    reply.finish.as_deref().unwrap_or(if self.has_calls { "tool_calls" } else { "stop" });
                let finish = delta(json!({}), Some(reason));
                if reply.usage.is_none() {
                    return finish;
                }
                let usage = json!({
                    "prompt_tokens": input,
                    "completion_tokens": output,
                    "total_tokens": input + output,
                    "prompt_tokens_details": {"cached_tokens": cached},
                });
                finish + &data(&json!({"choices": [], "usage": usage}))
            }
            Format::Messages => {
                let reason =
                    reply.finish.as_deref().unwrap_or(if self.has_calls { "tool_use" } else { "end_turn" });
                let usage = json!({ "output_tokens": output });
                named("message_delta", json!({"delta": {"stop_reason": reason}, "usage": usage}))
            }
        }
    }

    pub fn closing(&self) -> &'static str {
        match self.format {
            Format::Chat => "data: [DONE]\n\n",
            Format::Messages => "event: message_stop\ndata: {\"type\":\"message_stop\"}\n\n",
        }
    }

    pub fn error(&self, message: &str) -> String {
        match self.format {
            Format::Chat => data(&json!({"error": {"message": message, "type": "server_error"}})),
            Format::Messages => named("error", json!({"error": {"type": "api_error", "message": message}})),
        }
    }

    /// The start of an event whose end never comes.
    pub fn half_event(&mut self) -> String {
        let whole = self.part(&Part::Text("never seen".to_owned())).concat();
        whole[..whole.len() / 2].to_owned()
    }

    fn chat_call(&mut self, id: Option<&str>, name: &str, arguments: &[String]) -> Vec<String> {
        let id = self.call_id(id);
        let index = self.index;
        self.index += 1;
        let mut first =
            json!({"index": index, "type": "function", "function": {"name": name, "arguments": ""}});
        if !id.is_empty() {
            first["id"] = Value::String(id);
        }
        let call = |call: Value| delta(json!({ "tool_calls": [call] }), None);
        let pieces =
            arguments.iter().map(|piece| call(json!({"index": index, "function": {"arguments": piece}})));
        std::iter::once(call(first)).chain(pieces).collect()
    }

    fn block(&mut self, start: Value, deltas: &[Value]) -> Vec<String> {
        let index = self.index;
        self.index += 1;
        let start = named("content_block_start", json!({"index": index, "content_block": start}));
        let stop = named("content_block_stop", json!({ "index": index }));
        let deltas =
            deltas.iter().map(|delta| named("content_block_delta", json!({"index": index, "delta": delta})));
        std::iter::once(start).chain(deltas).chain([stop]).collect()
    }

    fn call_id(&mut self, chosen: Option<&str>) -> String {
        self.has_calls = true;
        let number = self.n_calls.fetch_add(1, Ordering::SeqCst) + 1;
        chosen.map_or_else(|| format!("scripted_{number}"), str::to_owned)
    }
}

fn data(value: &Value) -> String {
    format!("data: {value}\n\n")
}

fn delta(delta: Value, finish: Option<&str>) -> String {
    data(&json!({
        "object": "chat.completion.chunk",
        "choices": [{"index": 0, "delta": delta, "finish_reason": finish}],
    }))
}

/// An event of the Messages format: its name is its type.
fn named(kind: &str, mut body: Value) -> String {
    body["type"] = Value::String(kind.to_owned());
    format!("event: {kind}\n{}", data(&body))
}
