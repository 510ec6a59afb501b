//! Writes a Chat Completions request.

use crate::content::{Images, Piece};
use crate::credentials::Secret;
use crate::endpoint::{Endpoint, Flavour};
use crate::history_repair::{CallResult, Entry, Exchange, Part};
use crate::http::{header_map, secret_header};
use protocol::content::ContentBlock;
use protocol::model::{ModelInfo, ModelRequest};
use reqwest::header::{HeaderMap, HeaderValue};
use serde::Serialize;
use serde_json::{Value, json};
use std::borrow::Cow;

/// The body of a request.
#[derive(Serialize)]
pub(crate) struct ChatRequest<'a> {
    model: &'a str,
    messages: Vec<Message<'a>>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    tools: Vec<Tool<'a>>,
    stream: bool,
    stream_options: StreamOptions,
    #[serde(skip_serializing_if = "Option::is_none")]
    max_tokens: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    max_completion_tokens: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    reasoning_effort: Option<&'a str>,
    /// DeepSeek's switch.
    #[serde(skip_serializing_if = "Option::is_none")]
    thinking: Option<Value>,
    /// OpenRouter's switch.
    #[serde(skip_serializing_if = "Option::is_none")]
    reasoning: Option<Value>,
}

#[derive(Serialize)]
struct StreamOptions {
    include_usage: bool,
}

#[derive(Serialize)]
struct Tool<'a> {
    #[serde(rename = "type")]
    kind: &'static str,
    function: ToolFunction<'a>,
}

#[derive(Serialize)]
struct ToolFunction<'a> {
    name: &'a str,
    description: &'a str,
    parameters: &'a Value,
}

#[derive(Default, Serialize)]
struct Message<'a> {
    role: &'static str,
    /// Written as null in an assistant message that only calls.
    content: Option<Content<'a>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    reasoning_content: Option<Cow<'a, str>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    reasoning_details: Option<&'a Value>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    tool_calls: Vec<Value>,
    #[serde(skip_serializing_if = "Option::is_none")]
    tool_call_id: Option<&'a str>,
}

#[derive(Serialize)]
#[serde(untagged)]
enum Content<'a> {
    Text(Cow<'a, str>),
    Parts(Vec<Value>),
}

/// The headers of a request.
pub(crate) fn headers(secret: Option<&Secret>, flavour: Flavour) -> HeaderMap {
    let mut headers = HeaderMap::new();
    if flavour == Flavour::OpenRouter {
        headers.extend(header_map([("x-title", HeaderValue::from_static("Followspot"))]));
    }
    if let Some(value) = secret.and_then(|secret| secret_header(&format!("Bearer {}", secret.expose()))) {
        headers.insert(reqwest::header::AUTHORIZATION, value);
    }
    headers
}

impl<'a> ChatRequest<'a> {
    /// Writes `request`, whose repaired history is `entries`.
    pub fn new(
        request: &'a ModelRequest,
        entries: &'a [Entry<'a>],
        images: &'a Images,
        endpoint: &Endpoint,
        info: &ModelInfo,
    ) -> Self {
        let flavour = endpoint.flavour;
        let mut messages = Vec::with_capacity(entries.len() + 1);
        if !request.system.trim().is_empty() {
            messages
                .push(Message { content: Some(Content::Text((&request.system).into())), ..role("system") });
        }
        for entry in entries {
            match entry {
                Entry::User(blocks) => {
                    let blocks = blocks.iter().map(|block| images.piece(block));
                    messages.push(Message { content: Some(content(blocks)), ..role("user") });
                }
                Entry::Assistant(exchange) => add_exchange(&mut messages, exchange, images, request, flavour),
            }
        }
        let cap = request.max_tokens.or(info.max_output_tokens);
        // The new name of the cap is OpenAI's alone; servers that imitate it know the old one.
        let (max_tokens, max_completion_tokens) =
            if flavour == Flavour::OpenAi && endpoint.is_official() { (None, cap) } else { (cap, None) };
        let mut body = Self {
            model: &request.model.model,
            messages,
            tools: request.tools.iter().map(tool).collect(),
            stream: true,
            stream_options: StreamOptions { include_usage: true },
            max_tokens,
            max_completion_tokens,
            reasoning_effort: None,
            thinking: None,
            reasoning: None,
        };
        let effort =
            request.effort.as_deref().filter(|effort| info.efforts.iter().any(|known| known == effort));
        body.set_effort(effort, flavour);
        body
    }

    fn set_effort(&mut self, effort: Option<&'a str>, flavour: Flavour) {
        match (flavour, effort) {
            (Flavour::DeepSeek, Some("off")) => self.thinking = Some(json!({"type": "disabled"})),
            (Flavour::DeepSeek, effort) => {
                self.thinking = Some(json!({"type": "enabled"}));
                self.reasoning_effort = effort;
            }
            (Flavour::OpenRouter, Some(effort)) => self.reasoning = Some(json!({"effort": effort})),
            (_, effort) => self.reasoning_effort = effort,
        }
    }
}

fn role(role: &'static str) -> Message<'static> {
    Message { role, ..Message::default() }
}

fn tool(tool: &protocol::tool::ToolSchema) -> Tool<'_> {
    let function =
        ToolFunction { name: &tool.name, description: &tool.description, parameters: &tool.parameters };
    Tool { kind: "function", function }
}

fn add_exchange<'a>(
    messages: &mut Vec<Message<'a>>,
    exchange: &'a Exchange<'a>,
    images: &'a Images,
    request: &ModelRequest,
    flavour: Flavour,
) {
    let mut said = role("assistant");
    let mut text: Vec<&str> = Vec::new();
    let mut reasoning: Vec<&str> = Vec::new();
    let mut replays: Vec<&Value> = Vec::new();
    for part in &exchange.parts {
        match part {
            Part::Text(part) => text.push(part),
            Part::Reasoning { text, replay } => {
                reasoning.push(text);
                replays.extend(replay);
            }
            Part::Call(call) => said.tool_calls.push(json!({
                "id": call.wire_id,
                "type": "function",
                "function": {"name": call.name, "arguments": call.arguments},
            })),
        }
    }
    if !text.is_empty() {
        said.content = Some(Content::Text(joined(&text)));
    }
    // Reasoning of another provider would be refused or misread.
    let is_own = exchange.model.provider == request.model.provider;
    if flavour == Flavour::DeepSeek {
        // In thinking mode each assistant message must have the field, even an empty one.
        said.reasoning_content = Some(if is_own { joined(&reasoning) } else { Cow::Borrowed("") });
    } else if is_own {
        let marked = |key: &str| replays.iter().find_map(|replay| replay.get(key));
        said.reasoning_details = marked(REPLAY_DETAILS);
        if marked(REPLAY_FIELD).and_then(Value::as_str) == Some("reasoning_content") {
            said.reasoning_content = Some(joined(&reasoning));
        }
    }
    messages.push(said);

    let mut shown = Vec::new();
    for result in &exchange.results {
        messages.push(tool_message(result, images, &mut shown));
    }
    // A tool message holds only text; what it shows follows in the user role.
    if !shown.is_empty() {
        messages.push(Message { content: Some(Content::Parts(shown)), ..role("user") });
    }
}

/// Key of a replay value that holds OpenRouter's `reasoning_details`.
pub(super) const REPLAY_DETAILS: &str = "reasoning_details";
/// Key of a replay value that names the field in which the reasoning came and goes back.
pub(super) const REPLAY_FIELD: &str = "field";

fn tool_message<'a>(result: &'a CallResult<'a>, images: &'a Images, shown: &mut Vec<Value>) -> Message<'a> {
    let mut text: Vec<Cow<'a, str>> = Vec::new();
    for block in &result.content {
        let block: &'a ContentBlock = block;
        match images.piece(block) {
            Piece::Text(piece) => text.push(piece),
            image @ Piece::Image { .. } => {
                text.push("(The image follows in the next message.)".into());
                shown.push(
                    json!({"type": "text", "text": format!("Image of the result of {}:", result.wire_id)}),
                );
                shown.push(part(image));
            }
        }
    }
    let text = match text.len() {
        1 => text.remove(0),
        _ => Cow::Owned(text.join("\n")),
    };
    Message { content: Some(Content::Text(text)), tool_call_id: Some(&result.wire_id), ..role("tool") }
}

/// One text where there is nothing but text: some servers know no parts.
fn content<'a>(pieces: impl Iterator<Item = Piece<'a>>) -> Content<'a> {
    let mut pieces: Vec<Piece<'a>> = pieces.collect();
    if pieces.iter().any(|piece| matches!(piece, Piece::Image { .. })) {
        return Content::Parts(pieces.into_iter().map(part).collect());
    }
    if let (1, Some(Piece::Text(text))) = (pieces.len(), pieces.first_mut()) {
        return Content::Text(std::mem::take(text));
    }
    let texts = pieces.into_iter().filter_map(|piece| match piece {
        Piece::Text(text) => Some(text),
        Piece::Image { .. } => None,
    });
    Content::Text(Cow::Owned(texts.collect::<Vec<_>>().join("\n\n")))
}

fn part(piece: Piece<'_>) -> Value {
    match piece {
        Piece::Text(text) => json!({"type": "text", "text": text}),
        Piece::Image { media_type, base64 } => {
            json!({"type": "image_url", "image_url": {"url": format!("data:{media_type};base64,{base64}")}})
        }
    }
}

fn joined<'a>(texts: &[&'a str]) -> Cow<'a, str> {
    match texts {
        [] => Cow::Borrowed(""),
        [text] => Cow::Borrowed(text),
        texts => Cow::Owned(texts.concat()),
    }
}
