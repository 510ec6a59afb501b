//! One call before its end: announced, then running.
//!
//! The server keeps what a call is (name, arguments, card) and hands it in as a [`CallView`] each time.

use crate::card::{diff, generic, terminal};
use crate::title::Title;
use crate::{PresentContext, TerminalStyle, path};
use agent_client_protocol::v1::schema::{
    Meta, SessionUpdate, ToolCall, ToolCallContent, ToolCallId, ToolCallLocation, ToolCallStatus,
    ToolCallUpdate, ToolCallUpdateFields, ToolKind,
};
use protocol::card::{CallCard, FileLocation, GenericCall, ToolCallKind};
use protocol::id::CallId;
use serde_json::{Map, Value, json};

/// A call as the server remembers it.
#[derive(Clone, Copy, Debug)]
pub struct CallView<'a> {
    /// The call.
    pub call_id: &'a CallId,
    /// Name of the tool.
    pub name: &'a str,
    /// Its arguments, parsed; raw text that is no JSON is a JSON string.
    pub arguments: &'a Value,
    /// How it is meant to look.
    pub card: &'a CallCard,
}

/// The card of a call whose tool has none to give: the tool is unknown, or the arguments do not fit.
///
/// Source: `spec/presentation.md` §5.1.
pub fn fallback_card(name: &str, arguments: &Value) -> CallCard {
    CallCard::Generic(GenericCall {
        title: name.to_owned(),
        raw_input: Some(arguments.clone()),
        ..GenericCall::default()
    })
}

/// Announces a call: title, kind, places, input, and the content its arguments already tell.
///
/// The same live and on replay.
pub fn present_call(ctx: &PresentContext, call: &CallView<'_>) -> SessionUpdate {
    SessionUpdate::ToolCall(
        ToolCall::new(wire_id(call.call_id), title(ctx, call))
            .name(call.name.to_owned())
            .kind(kind(call.card))
            .status(ToolCallStatus::Pending)
            .content(content(ctx, call))
            .locations(locations(ctx, call.card))
            .raw_input(raw_input(call))
            .meta(announcement_meta(ctx, call)),
    )
}

/// Tells that the body of a call was entered.
///
/// `asked` says that a permission question replaced the call's content; a display terminal is then put back.
pub fn call_in_progress(ctx: &PresentContext, call: &CallView<'_>, asked: bool) -> SessionUpdate {
    let mut fields = ToolCallUpdateFields::new().status(ToolCallStatus::InProgress);
    if asked && ctx.terminals == TerminalStyle::Display && matches!(call.card, CallCard::Terminal(_)) {
        fields = fields.content(content(ctx, call));
    }
    update(call.call_id, fields, None)
}

/// A `tool_call_update` with these fields.
pub(crate) fn update(call_id: &CallId, fields: ToolCallUpdateFields, meta: Option<Meta>) -> SessionUpdate {
    SessionUpdate::ToolCallUpdate(ToolCallUpdate::new(wire_id(call_id), fields).meta(meta))
}

/// The identity of a call on the wire: ours, unchanged.
pub(crate) fn wire_id(call_id: &CallId) -> ToolCallId {
    ToolCallId::new(call_id.as_str())
}

/// The words of a call's title, not yet made fit for the client.
pub(crate) fn title_words<'a>(call: &CallView<'a>) -> Title<'a> {
    let text = call.card.title();
    let text = if text.trim().is_empty() { call.name } else { text };
    result_title_words(call, text)
}

/// The same for a title that a result gives.
pub(crate) fn result_title_words<'a>(call: &CallView<'a>, text: &'a str) -> Title<'a> {
    let input = match call.card {
        CallCard::Generic(card) => card.raw_input.as_ref().and_then(Value::as_str),
        _ => None,
    };
    Title { text, kind: kind(call.card), path: card_path(call.card), input }
}

fn title(ctx: &PresentContext, call: &CallView<'_>) -> String {
    title_words(call).present(ctx)
}

/// The path a card is about: its first location, else its first diff.
fn card_path(card: &CallCard) -> Option<&str> {
    match card {
        CallCard::Generic(card) => card.locations.first().map(|location| location.path.as_str()),
        CallCard::Diff(card) => {
            let location = card.locations.first().map(|location| location.path.as_str());
            location.or_else(|| card.diffs.first().map(|diff| diff.path.as_str()))
        }
        CallCard::Terminal(_) => None,
    }
}

/// The icon of a card.
pub(crate) fn kind(card: &CallCard) -> ToolKind {
    match card {
        CallCard::Terminal(_) => ToolKind::Execute,
        CallCard::Diff(_) => ToolKind::Edit,
        CallCard::Generic(card) => match card.kind {
            ToolCallKind::Read => ToolKind::Read,
            ToolCallKind::Edit => ToolKind::Edit,
            ToolCallKind::Delete => ToolKind::Delete,
            ToolCallKind::Move => ToolKind::Move,
            ToolCallKind::Search => ToolKind::Search,
            ToolCallKind::Execute => ToolKind::Execute,
            ToolCallKind::Think => ToolKind::Think,
            ToolCallKind::Fetch => ToolKind::Fetch,
            ToolCallKind::SwitchMode => ToolKind::SwitchMode,
            ToolCallKind::Other => ToolKind::Other,
        },
    }
}

/// The content of a call that has not run yet.
pub(crate) fn content(ctx: &PresentContext, call: &CallView<'_>) -> Vec<ToolCallContent> {
    match call.card {
        CallCard::Generic(card) => generic::blocks(ctx, &card.content),
        CallCard::Terminal(card) => terminal::announced(ctx, call.call_id, card),
        CallCard::Diff(card) => diff::content(ctx, &card.diffs),
    }
}

/// The places of a call, absolute. A change without any is at the file it changes.
pub(crate) fn locations(ctx: &PresentContext, card: &CallCard) -> Vec<ToolCallLocation> {
    match card {
        CallCard::Generic(card) => card.locations.iter().map(|place| location(ctx, place)).collect(),
        CallCard::Terminal(_) => Vec::new(),
        CallCard::Diff(card) if card.locations.is_empty() => {
            let first = card.diffs.first().map(|diff| FileLocation::new(&diff.path, None));
            first.iter().map(|place| location(ctx, place)).collect()
        }
        CallCard::Diff(card) => card.locations.iter().map(|place| location(ctx, place)).collect(),
    }
}

/// A place as the client counts lines: from 1, or from 0 where it differs.
pub(crate) fn location(ctx: &PresentContext, place: &FileLocation) -> ToolCallLocation {
    let line = place.line.map(|line| {
        let line = if ctx.quirks.zero_based_lines { line.saturating_sub(1) } else { line.max(1) };
        u32::try_from(line).unwrap_or(u32::MAX)
    });
    ToolCallLocation::new(path::absolute(&ctx.cwd, &place.path)).line(line)
}

/// The input to show, always an object.
///
/// A command stands in it whole. A salient text keeps the name of the argument it came from. Arguments that a card
/// already shows (the texts of a change) are left out.
pub(crate) fn raw_input(call: &CallView<'_>) -> Value {
    match call.card {
        CallCard::Terminal(card) => {
            let mut input = Map::new();
            input.insert("command".to_owned(), json!(card.title));
            if let Some(description) = &card.description {
                input.insert("description".to_owned(), json!(description));
            }
            if let Some(cwd) = &card.cwd {
                input.insert("cwd".to_owned(), json!(cwd));
            }
            Value::Object(input)
        }
        CallCard::Diff(card) => without_texts(call.arguments, card_path(call.card), &card.diffs),
        CallCard::Generic(card) => match &card.raw_input {
            Some(input) => wrapped(input, call.arguments),
            None => object(call.arguments),
        },
    }
}

/// An object as it is, anything else under the name of the argument it equals, else under `input`.
fn wrapped(input: &Value, arguments: &Value) -> Value {
    if input.is_object() {
        return input.clone();
    }
    let members = arguments.as_object().into_iter().flatten();
    let key = members.into_iter().find(|(_, value)| *value == input).map_or("input", |(key, _)| key.as_str());
    json!({ key: input })
}

/// The arguments when they are an object, else wrapped.
pub(crate) fn object(arguments: &Value) -> Value {
    if arguments.is_object() { arguments.clone() } else { json!({ "input": arguments }) }
}

/// The arguments without the texts that the diffs show.
fn without_texts(arguments: &Value, path: Option<&str>, diffs: &[protocol::card::FileDiff]) -> Value {
    let is_text = |value: &Value| {
        let Some(text) = value.as_str() else { return false };
        Some(text) != path
            && diffs
                .iter()
                .any(|diff| diff.new_text == text || diff.old_text.as_deref().unwrap_or_default() == text)
    };
    match arguments.as_object() {
        Some(members) => {
            let kept = members.iter().filter(|(_, value)| !is_text(value));
            Value::Object(kept.map(|(key, value)| (key.clone(), value.clone())).collect())
        }
        None => json!({ "path": path }),
    }
}

fn announcement_meta(ctx: &PresentContext, call: &CallView<'_>) -> Option<Meta> {
    match call.card {
        CallCard::Terminal(card) => terminal::announced_meta(ctx, call.call_id, card),
        _ => None,
    }
}
