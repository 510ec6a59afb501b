//! Makes any history one that every provider takes.
//!
//! Pure; called before each request. A call and its one result become one value here, so that a request without a
//! result, with a result without its call, or with two results for one call cannot be written at all. What it does is a
//! function of the messages before, so that the start of a conversation stays the same text and caches keep working.

use protocol::content::ContentBlock;
use protocol::message::{AssistantBlock, AssistantMessage, RequestedCall, ToolResultMessage};
use protocol::model::{HistoryMessage, ModelRef};
use serde_json::Value;
use std::borrow::Cow;
use std::collections::{HashMap, HashSet};

/// What the model reads for a call whose result is nowhere.
const INTERRUPTED: &str =
    "Error: interrupted before a result was recorded; whether it took effect is unknown";
const NO_OUTPUT: &str = "(no output)";
const EARLIER_LEFT_OUT: &str = "(The earlier part of this conversation was left out.)";
const GO_ON: &str = "Go on where you stopped.";
/// Characters of unusable arguments that are quoted.
const MAX_QUOTED_CHARS: usize = 400;
/// Longest id and name that all providers take.
const MAX_NAME_CHARS: usize = 64;

/// One entry of a repaired history.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Entry<'a> {
    /// User role; never empty, no two in a row.
    User(Vec<Cow<'a, ContentBlock>>),
    /// Assistant role, with the results of its calls.
    Assistant(Exchange<'a>),
}

/// What a model said and what its calls gave.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Exchange<'a> {
    /// Who said it.
    pub model: &'a ModelRef,
    /// Never without text and calls.
    pub parts: Vec<Part<'a>>,
    /// One a call, in the order of the calls.
    pub results: Vec<CallResult<'a>>,
}

/// One part of what a model said.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Part<'a> {
    /// Never blank.
    Text(&'a str),
    Reasoning {
        text: &'a str,
        replay: Option<&'a Value>,
    },
    Call(Call<'a>),
}

/// A call as it is sent back.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Call<'a> {
    /// Unique in the request; `[A-Za-z0-9_-]`, 1 to 64 characters.
    pub wire_id: String,
    /// `[A-Za-z0-9_-]`, 1 to 64 characters.
    pub name: Cow<'a, str>,
    /// Text of a JSON object.
    pub arguments: &'a str,
}

/// The result of a call.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct CallResult<'a> {
    /// The id of its call.
    pub wire_id: String,
    /// Never empty.
    pub content: Vec<Cow<'a, ContentBlock>>,
    pub is_error: bool,
}

/// Repairs a history.
///
/// A result moves directly behind the message of its call; a call without one gets one that says so; a second result or
/// one without a call is dropped. Ids are made unique, blank texts and empty messages are dropped, neighbours in the
/// user role become one, and the first and the last entry are in the user role or hold results.
pub(crate) fn repair(messages: &[HistoryMessage]) -> Vec<Entry<'_>> {
    let mut results = Results::gather(messages);
    let mut wire_ids = WireIds::default();
    let mut entries = Vec::new();
    for (position, message) in messages.iter().enumerate() {
        match message {
            HistoryMessage::User(message) => {
                add_user(&mut entries, message.content.iter().filter(|block| !is_blank(block)))
            }
            HistoryMessage::Assistant(message) => {
                entries
                    .extend(exchange(message, position, &mut results, &mut wire_ids).map(Entry::Assistant));
            }
            HistoryMessage::ToolResult(_) => {}
        }
    }
    if !matches!(entries.first(), Some(Entry::User(_))) {
        entries.insert(0, Entry::User(vec![note(EARLIER_LEFT_OUT)]));
    }
    // A request that ends with the model's own words is a prefill, which many providers refuse.
    if matches!(entries.last(), Some(Entry::Assistant(exchange)) if exchange.results.is_empty()) {
        entries.push(Entry::User(vec![note(GO_ON)]));
    }
    entries
}

fn note(text: &str) -> Cow<'static, ContentBlock> {
    Cow::Owned(ContentBlock::text(text))
}

fn is_blank(block: &ContentBlock) -> bool {
    block.as_text().is_some_and(|text| text.trim().is_empty())
}

fn add_user<'a>(entries: &mut Vec<Entry<'a>>, blocks: impl Iterator<Item = &'a ContentBlock>) {
    let blocks: Vec<_> = blocks.map(Cow::Borrowed).collect();
    if blocks.is_empty() {
        return;
    }
    match entries.last_mut() {
        Some(Entry::User(before)) => before.extend(blocks),
        _ => entries.push(Entry::User(blocks)),
    }
}

fn exchange<'a>(
    message: &'a AssistantMessage,
    position: usize,
    found: &mut Results<'a>,
    wire_ids: &mut WireIds,
) -> Option<Exchange<'a>> {
    let mut parts = Vec::new();
    let mut results = Vec::new();
    for block in &message.blocks {
        match block {
            AssistantBlock::Text { text } if text.trim().is_empty() => {}
            AssistantBlock::Text { text } => parts.push(Part::Text(text)),
            AssistantBlock::Reasoning { text, replay } if text.is_empty() && replay.is_none() => {}
            AssistantBlock::Reasoning { text, replay } => {
                parts.push(Part::Reasoning { text, replay: replay.as_ref() });
            }
            AssistantBlock::ToolCall(call) => {
                let wire_id = wire_ids.assign(call);
                let (arguments, complaint) = usable_arguments(&call.arguments);
                results.push(result(wire_id.clone(), found.take(call, position), complaint));
                parts.push(Part::Call(Call { wire_id, name: usable_name(&call.name), arguments }));
            }
        }
    }
    let says_something = parts.iter().any(|part| !matches!(part, Part::Reasoning { .. }));
    says_something.then_some(Exchange { model: &message.model, parts, results })
}

fn result<'a>(
    wire_id: String,
    found: Option<&'a ToolResultMessage>,
    complaint: Option<String>,
) -> CallResult<'a> {
    let mut content: Vec<Cow<'a, ContentBlock>> = complaint.into_iter().map(|text| note(&text)).collect();
    match found {
        Some(message) => {
            content.extend(message.content.iter().filter(|block| !is_blank(block)).map(Cow::Borrowed))
        }
        None => content.push(note(INTERRUPTED)),
    }
    if content.is_empty() {
        content.push(note(NO_OUTPUT));
    }
    CallResult { wire_id, content, is_error: found.is_none_or(|message| message.is_error) }
}

/// The arguments if they can be sent back, else `{}` and what the model reads about it.
fn usable_arguments(raw: &str) -> (&str, Option<String>) {
    if raw.trim().is_empty() {
        return ("{}", None);
    }
    let problem = match serde_json::from_str::<Value>(raw) {
        Ok(Value::Object(_)) => return (raw, None),
        Ok(_) => "no JSON object",
        Err(_) => "no valid JSON",
    };
    let quoted: String = raw.chars().take(MAX_QUOTED_CHARS).collect();
    let cut = if quoted.len() < raw.len() { "…" } else { "" };
    let complaint = format!(
        "(The arguments of this call were {problem} and are shown above as {{}}. They were: {quoted}{cut})"
    );
    ("{}", Some(complaint))
}

fn usable_name(name: &str) -> Cow<'_, str> {
    let is_usable = !name.is_empty() && name.len() <= MAX_NAME_CHARS && name.bytes().all(is_name_byte);
    if is_usable {
        return Cow::Borrowed(name);
    }
    let tidy = tidy_name(name);
    Cow::Owned(if tidy.is_empty() { "unnamed".to_owned() } else { tidy })
}

fn is_name_byte(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'-')
}

fn tidy_name(name: &str) -> String {
    let tidy = |char: char| if u8::try_from(char).is_ok_and(is_name_byte) { char } else { '_' };
    name.chars().map(tidy).take(MAX_NAME_CHARS).collect()
}

/// Gives each call an id for the wire: the provider's own when it is usable and new, else one made of ours.
#[derive(Default)]
struct WireIds {
    used: HashSet<String>,
}

impl WireIds {
    fn assign(&mut self, call: &RequestedCall) -> String {
        let is_usable = !call.provider_id.is_empty()
            && call.provider_id.len() <= MAX_NAME_CHARS
            && call.provider_id.bytes().all(is_name_byte);
        let base = if is_usable {
            call.provider_id.clone()
        } else {
            format!("call_{}", tidy_name(call.id.as_str()))
        };
        let mut id: String = base.chars().take(MAX_NAME_CHARS).collect();
        let mut round = 1;
        while !self.used.insert(id.clone()) {
            round += 1;
            let suffix = format!("-{round}");
            id = base.chars().take(MAX_NAME_CHARS - suffix.len()).collect::<String>() + &suffix;
        }
        id
    }
}

/// Results by call, each with its place, so that an id used twice still pairs in order.
struct Results<'a> {
    by_call: HashMap<&'a str, Vec<(usize, &'a ToolResultMessage)>>,
}

impl<'a> Results<'a> {
    fn gather(messages: &'a [HistoryMessage]) -> Self {
        let mut by_call: HashMap<&str, Vec<_>> = HashMap::new();
        for (position, message) in messages.iter().enumerate() {
            if let HistoryMessage::ToolResult(result) = message {
                by_call.entry(result.call_id.as_str()).or_default().push((position, result));
            }
        }
        Self { by_call }
    }

    /// The first result behind `position` that no earlier call took.
    fn take(&mut self, call: &RequestedCall, position: usize) -> Option<&'a ToolResultMessage> {
        let candidates = self.by_call.get_mut(call.id.as_str())?;
        let index = candidates.iter().position(|(place, _)| *place > position)?;
        Some(candidates.remove(index).1)
    }
}

#[cfg(test)]
#[path = "history_repair_tests.rs"]
mod tests;
