//! Log → the messages a model request carries. Derived from the log alone; pure.

use protocol::event::{Record, SessionEvent, interrupted_call};
use protocol::id::CallId;
use protocol::message::{AssistantMessage, ToolResultMessage};
use protocol::model::HistoryMessage;
use std::collections::HashSet;

/// The conversation as the model is shown it.
pub fn history(records: &[Record]) -> Vec<HistoryMessage> {
    let mut messages = Vec::new();
    for record in records {
        match &record.event {
            SessionEvent::UserMessage { message } => messages.push(HistoryMessage::User(message.clone())),
            SessionEvent::AssistantMessage { message, .. } if !message.blocks.is_empty() => {
                messages.push(HistoryMessage::Assistant(message.clone()));
            }
            SessionEvent::ToolResult { message, .. } => {
                messages.push(HistoryMessage::ToolResult(message.clone()));
            }
            _ => {}
        }
    }
    messages
}

/// A requested call without a result, and whether it was started.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OpenCall {
    /// The call.
    pub call_id: CallId,
    /// Name of the tool.
    pub name: String,
    /// Arguments as raw text.
    pub arguments: String,
    /// Whether `tool/call` was logged.
    pub started: bool,
}

/// Every requested call of the log that has no result, in transcript order.
pub fn open_calls(records: &[Record]) -> Vec<OpenCall> {
    let mut results = HashSet::new();
    let mut started = HashSet::new();
    let mut requested: Vec<&AssistantMessage> = Vec::new();
    // Only the last turn can have open calls; everything before it was closed when it ended.
    let last_turn = records
        .iter()
        .rposition(|record| matches!(record.event, SessionEvent::TurnStart { .. }))
        .unwrap_or(0);
    for record in &records[last_turn..] {
        match &record.event {
            SessionEvent::AssistantMessage { message, .. } => requested.push(message),
            SessionEvent::ToolCall { call_id, .. } => {
                started.insert(call_id);
            }
            SessionEvent::ToolResult { message, .. } => {
                results.insert(&message.call_id);
            }
            _ => {}
        }
    }
    requested
        .iter()
        .flat_map(|message| message.calls())
        .filter(|call| !results.contains(&call.id))
        .map(|call| OpenCall {
            call_id: call.id.clone(),
            name: call.name.clone(),
            arguments: call.arguments.clone(),
            started: started.contains(&call.id),
        })
        .collect()
}

/// The events that close a call nobody finished.
pub fn closing_events(call: OpenCall, turn: u64, step: u64) -> Vec<SessionEvent> {
    let failure = interrupted_call(call.started);
    let mut events = Vec::new();
    if !call.started {
        events.push(SessionEvent::ToolCall {
            turn,
            step,
            call_id: call.call_id.clone(),
            name: call.name,
            arguments: call.arguments,
        });
    }
    events.push(SessionEvent::ToolResult {
        turn,
        step,
        message: ToolResultMessage {
            call_id: call.call_id,
            content: failure.default_content(),
            is_error: true,
        },
        error: Some(failure),
        meta: None,
    });
    events
}
