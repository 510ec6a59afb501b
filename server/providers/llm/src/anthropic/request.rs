//! Writes a Messages request.

use crate::catalogue::{ClaudeThinking, claude_thinking};
use crate::content::{Images, Piece};
use crate::credentials::Secret;
use crate::history_repair::{Entry, Exchange, Part};
use crate::http::{header_map, secret_header};
use protocol::content::ContentBlock;
use protocol::model::{ModelInfo, ModelRequest};
use protocol::tool::ToolSchema;
use reqwest::header::{HeaderMap, HeaderValue};
use serde::Serialize;
use serde_json::{Map, Value, json};
use std::borrow::Cow;

/// The cap when neither the request nor the catalogue has one; the format demands one.
const DEFAULT_MAX_TOKENS: u64 = 32_000;
/// Smallest thinking budget that is accepted.
const MIN_BUDGET_TOKENS: u64 = 1_024;

/// The body of a request.
#[derive(Serialize)]
pub(crate) struct MessagesRequest<'a> {
    model: &'a str,
    max_tokens: u64,
    stream: bool,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    system: Vec<Value>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    tools: Vec<Tool<'a>>,
    messages: Vec<Message>,
    #[serde(skip_serializing_if = "Option::is_none")]
    thinking: Option<Value>,
    #[serde(skip_serializing_if = "Option::is_none")]
    output_config: Option<Value>,
}

#[derive(Serialize)]
struct Tool<'a> {
    name: &'a str,
    description: &'a str,
    input_schema: &'a Value,
    #[serde(skip_serializing_if = "Option::is_none")]
    cache_control: Option<Value>,
}

#[derive(Serialize)]
struct Message {
    role: &'static str,
    content: Vec<Value>,
}

/// The headers of a request.
pub(crate) fn headers(secret: Option<&Secret>) -> HeaderMap {
    let mut headers = header_map([("anthropic-version", HeaderValue::from_static("2023-06-01"))]);
    if let Some(value) = secret.and_then(|secret| secret_header(secret.expose())) {
        headers.insert("x-api-key", value);
    }
    headers
}

impl<'a> MessagesRequest<'a> {
    /// Writes `request`, whose repaired history is `entries`.
    pub fn new(request: &'a ModelRequest, entries: &[Entry<'_>], images: &Images, info: &ModelInfo) -> Self {
        let max_tokens = request.max_tokens.or(info.max_output_tokens).unwrap_or(DEFAULT_MAX_TOKENS);
        let mut system = Vec::new();
        if !request.system.trim().is_empty() {
            system.push(json!({"type": "text", "text": request.system, "cache_control": ephemeral()}));
        }
        let mut tools: Vec<Tool<'_>> = request.tools.iter().map(tool).collect();
        if let Some(last) = tools.last_mut() {
            last.cache_control = Some(ephemeral());
        }
        let mut messages = messages(request, entries, images);
        mark_last_user_messages(&mut messages);
        let (thinking, output_config) = thinking(request, entries, info, max_tokens);
        let model = &request.model.model;
        Self { model, max_tokens, stream: true, system, tools, messages, thinking, output_config }
    }
}

fn ephemeral() -> Value {
    json!({"type": "ephemeral"})
}

fn tool(tool: &ToolSchema) -> Tool<'_> {
    Tool {
        name: &tool.name,
        description: &tool.description,
        input_schema: &tool.parameters,
        cache_control: None,
    }
}

/// Thinking as the model family wants it told, and the effort beside it.
fn thinking(
    request: &ModelRequest,
    entries: &[Entry<'_>],
    info: &ModelInfo,
    max_tokens: u64,
) -> (Option<Value>, Option<Value>) {
    let chosen = request.effort.as_deref().filter(|effort| info.efforts.iter().any(|known| known == effort));
    match claude_thinking(info) {
        ClaudeThinking::Unsaid => (None, None),
        ClaudeThinking::Adaptive => {
            // Without the wish, newer models keep their thoughts to themselves.
            let thinking = json!({"type": "adaptive", "display": "summarized"});
            (Some(thinking), chosen.map(|effort| json!({ "effort": effort })))
        }
        ClaudeThinking::Budget => {
            let budget = match chosen.or(info.default_effort.as_deref()) {
                Some("low") => 4_096,
                Some("medium") => 16_384,
                Some("high") => 30_000,
                _ => return (None, None),
            };
            let budget = budget.min(max_tokens / 2);
            if budget < MIN_BUDGET_TOKENS || continues_without_thinking(request, entries) {
                return (None, None);
            }
            (Some(json!({"type": "enabled", "budget_tokens": budget})), None)
        }
    }
}

/// Whether the request goes on with a call that was made without a signed thought: then thinking must stay off until
/// the next prompt.
fn continues_without_thinking(request: &ModelRequest, entries: &[Entry<'_>]) -> bool {
    let Some(Entry::Assistant(exchange)) = entries.last() else { return false };
    exchange.parts.first().is_none_or(|part| thought(part, exchange, request).is_none())
}

fn messages(request: &ModelRequest, entries: &[Entry<'_>], images: &Images) -> Vec<Message> {
    let mut messages: Vec<Message> = Vec::with_capacity(entries.len() + 1);
    for entry in entries {
        match entry {
            Entry::User(blocks) => {
                let content = blocks.iter().map(|block| piece(images.piece(block)));
                // Behind results, what a user says belongs to the same message.
                match messages.last_mut() {
                    Some(last) if last.role == "user" => last.content.extend(content),
                    _ => messages.push(Message { role: "user", content: content.collect() }),
                }
            }
            Entry::Assistant(exchange) => {
                let content =
                    exchange.parts.iter().filter_map(|part| said(part, exchange, request)).collect();
                messages.push(Message { role: "assistant", content });
                let results = results(exchange, images);
                if !results.is_empty() {
                    messages.push(Message { role: "user", content: results });
                }
            }
        }
    }
    messages
}

fn said(part: &Part<'_>, exchange: &Exchange<'_>, request: &ModelRequest) -> Option<Value> {
    match part {
        Part::Text(text) => Some(json!({"type": "text", "text": text})),
        Part::Reasoning { .. } => thought(part, exchange, request),
        Part::Call(call) => {
            let input = serde_json::from_str(call.arguments).unwrap_or_else(|_| Value::Object(Map::new()));
            Some(json!({"type": "tool_use", "id": call.wire_id, "name": call.name, "input": input}))
        }
    }
}

/// A thought as it goes back: unchanged, only to the model that had it, and only with what the provider signed.
fn thought(part: &Part<'_>, exchange: &Exchange<'_>, request: &ModelRequest) -> Option<Value> {
    let Part::Reasoning { text, replay: Some(replay) } = part else { return None };
    if *exchange.model != request.model {
        return None;
    }
    match replay.get("type").and_then(Value::as_str) {
        Some("thinking") => {
            Some(json!({"type": "thinking", "thinking": text, "signature": replay.get("signature")?}))
        }
        Some("redacted_thinking") => Some(json!({"type": "redacted_thinking", "data": replay.get("data")?})),
        _ => None,
    }
}

fn results(exchange: &Exchange<'_>, images: &Images) -> Vec<Value> {
    let result = |result: &crate::history_repair::CallResult<'_>| {
        let content = result.content.iter().map(|block: &Cow<'_, ContentBlock>| piece(images.piece(block)));
        let mut value = json!({
            "type": "tool_result",
            "tool_use_id": result.wire_id,
            "content": content.collect::<Vec<_>>(),
        });
        if result.is_error {
            value["is_error"] = Value::Bool(true);
        }
        value
    };
    exchange.results.iter().map(result).collect()
}

fn piece(piece: Piece<'_>) -> Value {
    match piece {
        Piece::Text(text) => json!({"type": "text", "text": text}),
        Piece::Image { media_type, base64 } => json!({
            "type": "image",
            "source": {"type": "base64", "media_type": media_type, "data": base64},
        }),
    }
}

/// Cache marks at the ends of the last two user messages: the older one is where the last request's cache ends.
fn mark_last_user_messages(messages: &mut [Message]) {
    let users = messages.iter_mut().rev().filter(|message| message.role == "user");
    for message in users.take(2) {
        if let Some(Value::Object(last)) = message.content.last_mut() {
            last.insert("cache_control".to_owned(), ephemeral());
        }
    }
}

#[cfg(test)]
#[path = "request_tests.rs"]
mod tests;
