//! Reads the stream of a Chat Completions answer, with the liberties that servers take.

use super::request::{REPLAY_DETAILS, REPLAY_FIELD};
use crate::failure::Wording;
use crate::sse::SseEvent;
use crate::stream::{Decoder, Progress};
use protocol::model::{FinishReason, ModelChunk, Usage};
use serde::Deserialize;
use serde_json::{Value, json};
use services::model::{ModelError, ModelErrorKind};
use std::collections::{HashSet, VecDeque};

#[derive(Deserialize)]
struct Event {
    #[serde(default)]
    choices: Option<Vec<Choice>>,
    #[serde(default)]
    usage: Option<WireUsage>,
    #[serde(default)]
    error: Option<Value>,
}

#[derive(Deserialize)]
struct Choice {
    #[serde(default)]
    delta: Option<Delta>,
    /// The whole answer, from a server that does not stream.
    #[serde(default)]
    message: Option<Delta>,
    #[serde(default)]
    finish_reason: Option<String>,
}

#[derive(Default, Deserialize)]
struct Delta {
    #[serde(default)]
    content: Option<Value>,
    #[serde(default)]
    refusal: Option<String>,
    #[serde(default)]
    reasoning_content: Option<String>,
    #[serde(default)]
    reasoning: Option<String>,
    #[serde(default)]
    reasoning_details: Option<Vec<Value>>,
    #[serde(default)]
    tool_calls: Option<Vec<CallDelta>>,
}

#[derive(Deserialize)]
struct CallDelta {
    #[serde(default)]
    index: Option<u64>,
    #[serde(default)]
    id: Option<String>,
    #[serde(default)]
    function: Option<FunctionDelta>,
}

#[derive(Default, Deserialize)]
struct FunctionDelta {
    #[serde(default)]
    name: Option<String>,
    /// Text; some servers send the finished object.
    #[serde(default)]
    arguments: Option<Value>,
}

#[derive(Deserialize)]
struct WireUsage {
    #[serde(default)]
    prompt_tokens: Option<u64>,
    #[serde(default)]
    completion_tokens: Option<u64>,
    #[serde(default)]
    prompt_tokens_details: Option<PromptDetails>,
    #[serde(default)]
    completion_tokens_details: Option<CompletionDetails>,
    /// DeepSeek's name for what others put into the details.
    #[serde(default)]
    prompt_cache_hit_tokens: Option<u64>,
}

#[derive(Default, Deserialize)]
struct PromptDetails {
    #[serde(default)]
    cached_tokens: Option<u64>,
    #[serde(default)]
    cache_write_tokens: Option<u64>,
}

#[derive(Default, Deserialize)]
struct CompletionDetails {
    #[serde(default)]
    reasoning_tokens: Option<u64>,
}

/// A call of this answer.
struct Open {
    /// Index the server uses for it, to recognise its next piece.
    wire_index: Option<u64>,
    /// Id the server gave; empty when it gave none.
    wire_id: String,
    has_name: bool,
    has_arguments: bool,
}

/// State of one answer.
pub(crate) struct ChatDecoder {
    wording: Wording,
    /// DeepSeek's reasoning goes back without a mark.
    marks_field: bool,
    calls: Vec<Open>,
    ids: HashSet<String>,
    usage: Option<Usage>,
    finish: Option<FinishReason>,
    has_text: bool,
    has_refusal: bool,
    /// Field in which reasoning came, while its block is open.
    reasoning_field: Option<&'static str>,
    reasoning_details: Vec<Value>,
}

impl ChatDecoder {
    /// A decoder for one answer. `marks_field` asks for a replay mark behind reasoning in `reasoning_content`.
    pub fn new(wording: Wording, marks_field: bool) -> Self {
        Self {
            wording,
            marks_field,
            calls: Vec::new(),
            ids: HashSet::new(),
            usage: None,
            finish: None,
            has_text: false,
            has_refusal: false,
            reasoning_field: None,
            reasoning_details: Vec::new(),
        }
    }

    fn delta(&mut self, delta: Delta, chunks: &mut VecDeque<ModelChunk>) {
        if let Some(details) = delta.reasoning_details {
            for detail in details {
                merge_detail(&mut self.reasoning_details, detail);
            }
        }
        // Some gateways send the same reasoning under both names.
        let reasoning = [("reasoning_content", delta.reasoning_content), ("reasoning", delta.reasoning)];
        let reasoning = reasoning
            .into_iter()
            .find_map(|(field, text)| Some((field, text.filter(|text| !text.is_empty())?)));
        if let Some((field, text)) = reasoning {
            self.reasoning_field = Some(field);
            chunks.push_back(ModelChunk::Reasoning(text));
        }
        for text in [delta.content.and_then(content_text), delta.refusal.clone()].into_iter().flatten() {
            if !text.is_empty() {
                self.end_reasoning(chunks);
                self.has_text = true;
                chunks.push_back(ModelChunk::Text(text));
            }
        }
        self.has_refusal |= delta.refusal.is_some_and(|text| !text.is_empty());
        for call in delta.tool_calls.into_iter().flatten() {
            self.end_reasoning(chunks);
            self.call(call, chunks);
        }
    }

    fn call(&mut self, delta: CallDelta, chunks: &mut VecDeque<ModelChunk>) {
        let id = delta.id.unwrap_or_default();
        let function = delta.function.unwrap_or_default();
        let mut name = function.name.unwrap_or_default();
        let arguments = match function.arguments {
            None | Some(Value::Null) => String::new(),
            Some(Value::String(text)) => text,
            Some(other) => other.to_string(),
        };
        let (index, is_new) = self.slot(delta.index, &id, &name);
        let id = if is_new { self.unique_id(id, index) } else { String::new() };
        let open = &mut self.calls[index];
        // The name comes once; servers that repeat it with each piece do not mean more of it.
        if open.has_name {
            name.clear();
        }
        open.has_name |= !name.is_empty();
        open.has_arguments |= !arguments.is_empty();
        if is_new || !name.is_empty() || !arguments.is_empty() {
            chunks.push_back(ModelChunk::ToolCall { index, id, name, arguments });
        }
    }

    /// Which call a piece belongs to, opening one when it starts a new one.
    ///
    /// The index decides, unless the piece brings another id together with a name: then a server numbers all its calls
    /// alike. Without an index, a new id or a second name starts a call.
    fn slot(&mut self, wire_index: Option<u64>, id: &str, name: &str) -> (usize, bool) {
        let known = match wire_index {
            Some(wire) => self.calls.iter().rposition(|open| open.wire_index == Some(wire)),
            None if !id.is_empty() => self.calls.iter().rposition(|open| open.wire_id == id),
            None => self.calls.len().checked_sub(1),
        };
        let continues = known.filter(|&position| {
            let open = &self.calls[position];
            let other_id = !id.is_empty() && !open.wire_id.is_empty() && open.wire_id != id;
            let starts_again =
                !name.is_empty() && wire_index.is_none() && open.has_name && open.has_arguments;
            !(other_id && !name.is_empty() || starts_again)
        });
        if let Some(position) = continues {
            return (position, false);
        }
        self.calls.push(Open { wire_index, wire_id: id.to_owned(), has_name: false, has_arguments: false });
        (self.calls.len() - 1, true)
    }

    /// The server's id, or one of ours when it gave none or gave it to an earlier call already.
    fn unique_id(&mut self, id: String, index: usize) -> String {
        let id = if id.is_empty() || self.ids.contains(&id) { format!("call_{index}") } else { id };
        let mut unique = id.clone();
        while !self.ids.insert(unique.clone()) {
            unique.push('_');
        }
        unique
    }

    /// Brings what must go back with the reasoning, once something else begins.
    fn end_reasoning(&mut self, chunks: &mut VecDeque<ModelChunk>) {
        let field = self.reasoning_field.take();
        let details = std::mem::take(&mut self.reasoning_details);
        if !details.is_empty() {
            chunks.push_back(ModelChunk::ReasoningReplay(json!({ REPLAY_DETAILS: details })));
        } else if self.marks_field && field == Some("reasoning_content") {
            chunks.push_back(ModelChunk::ReasoningReplay(json!({ REPLAY_FIELD: "reasoning_content" })));
        }
    }

    fn finish_reason(&mut self, reason: &str) -> Result<FinishReason, ModelError> {
        Ok(match reason {
            "length" | "max_tokens" | "model_length" => FinishReason::MaxTokens,
            "content_filter" | "refusal" | "safety" => FinishReason::Refusal,
            "insufficient_system_resource" | "error" => {
                let message =
                    format!("{} stopped in the middle of its answer ({reason}).", self.wording.provider);
                return Err(self.wording.plain(ModelErrorKind::Server, message));
            }
            _ if !self.calls.is_empty() => FinishReason::ToolCalls,
            _ if self.has_refusal => FinishReason::Refusal,
            _ => FinishReason::Stop,
        })
    }
}

impl Decoder for ChatDecoder {
    fn event(&mut self, event: &SseEvent, chunks: &mut VecDeque<ModelChunk>) -> Result<Progress, ModelError> {
        let data = event.data.trim();
        if data == "[DONE]" {
            self.settle(chunks)?;
            return Ok(Progress::Complete);
        }
        if data.is_empty() {
            return Ok(Progress::KeepAlive);
        }
        let parsed: Event = serde_json::from_str(data).map_err(|error| {
            let message = format!("{} sent an event that cannot be read: {error}.", self.wording.provider);
            self.wording.plain(ModelErrorKind::Transport, message)
        })?;
        if let Some(error) = parsed.error.filter(|error| !error.is_null()) {
            return Err(self.wording.in_stream(&error));
        }
        if event.name == "error" {
            let value = serde_json::from_str(data).unwrap_or(Value::Null);
            return Err(self.wording.in_stream(&value));
        }
        if let Some(usage) = parsed.usage {
            self.usage = Some(usage.buckets());
        }
        let mut is_whole = false;
        for choice in parsed.choices.into_iter().flatten() {
            is_whole |= choice.message.is_some();
            for delta in [choice.delta, choice.message].into_iter().flatten() {
                self.delta(delta, chunks);
            }
            if let Some(reason) = choice.finish_reason.filter(|reason| !reason.is_empty()) {
                self.finish = Some(self.finish_reason(&reason)?);
            }
        }
        if is_whole {
            self.settle(chunks)?;
            return Ok(Progress::Complete);
        }
        Ok(Progress::Event)
    }

    fn is_settled(&self) -> bool {
        self.finish.is_some()
    }

    fn settle(&mut self, chunks: &mut VecDeque<ModelChunk>) -> Result<(), ModelError> {
        self.end_reasoning(chunks);
        let finish = match self.finish {
            // Calls may come behind the reason in servers that end each part on its own.
            Some(FinishReason::Stop) | None if !self.calls.is_empty() => FinishReason::ToolCalls,
            Some(finish) => finish,
            None => FinishReason::Stop,
        };
        if finish == FinishReason::Stop && !self.has_text {
            return Err(self.wording.empty());
        }
        chunks.extend(self.usage.take().map(ModelChunk::Usage));
        chunks.push_back(ModelChunk::Finish(finish));
        Ok(())
    }
}

impl WireUsage {
    fn buckets(&self) -> Usage {
        let prompt = self.prompt_tokens.unwrap_or(0);
        let details = self.prompt_tokens_details.as_ref();
        let read =
            details.and_then(|details| details.cached_tokens).or(self.prompt_cache_hit_tokens).unwrap_or(0);
        let written = details.and_then(|details| details.cache_write_tokens).unwrap_or(0);
        let reasoning = self.completion_tokens_details.as_ref().and_then(|details| details.reasoning_tokens);
        Usage {
            input_tokens: prompt.saturating_sub(read).saturating_sub(written),
            output_tokens: self.completion_tokens.unwrap_or(0),
            cache_read_tokens: read,
            cache_write_tokens: written,
            reasoning_tokens: reasoning.unwrap_or(0),
        }
    }
}

/// Text of `content`: a string, or parts with a text each.
fn content_text(content: Value) -> Option<String> {
    match content {
        Value::String(text) => Some(text),
        Value::Array(parts) => {
            let texts = parts.iter().filter_map(|part| part.get("text").and_then(Value::as_str));
            Some(texts.collect::<String>())
        }
        _ => None,
    }
}

/// Appends a piece of a detail to the one it continues, or starts a new one.
fn merge_detail(details: &mut Vec<Value>, piece: Value) {
    let same = |key: &str, last: &Value| last.get(key) == piece.get(key);
    if let Some(last) = details.last_mut()
        && piece.get("type").is_some()
        && same("type", last)
        && same("index", last)
        && let (Value::Object(last), Value::Object(piece)) = (last, &piece)
    {
        for (key, value) in piece {
            match (last.get_mut(key), value) {
                (Some(Value::String(text)), Value::String(more))
                    if matches!(key.as_str(), "text" | "summary" | "data") =>
                {
                    text.push_str(more);
                }
                (_, Value::Null) => {}
                _ => {
                    last.insert(key.clone(), value.clone());
                }
            }
        }
        return;
    }
    details.push(piece);
}

#[cfg(test)]
#[path = "decode_tests.rs"]
mod tests;
