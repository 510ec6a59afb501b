//! Log → the messages a model request carries. Derived from the log alone; pure.

use protocol::content::ContentBlock;
use protocol::event::{Record, SessionEvent, interrupted_call};
use protocol::id::{CallId, MessageId};
use protocol::message::{AssistantMessage, ToolResultMessage, UserMessage};
use protocol::model::HistoryMessage;
use std::collections::HashSet;

/// Characters of a tool result from which on pruning shortens it, and how many of its two ends stay.
const PRUNE_FROM_CHARS: usize = 8192;
const PRUNED_HEAD_CHARS: usize = 4096;
const PRUNED_TAIL_CHARS: usize = 1024;
/// What stands for the middle of a pruned result. Fixed, so that a cached prefix stays the same.
const PRUNED: &str =
    "\n\n[The middle of this old result was left out to make room; run the tool again if you need it.]\n\n";

/// The conversation as the model is shown it: after the last compaction, with old results pruned.
pub fn history(records: &[Record]) -> Vec<HistoryMessage> {
    let (summary, start) = surface_start(records);
    let mut messages: Vec<HistoryMessage> = summary.cloned().map(HistoryMessage::User).into_iter().collect();
    messages.extend(records[start..].iter().filter_map(message_of));
    if let Some((at, before)) = last_prune(records)
        && at >= start
    {
        let until = before.and_then(|id| messages.iter().position(|message| message_id(message) == Some(id)));
        // A message that is not there any more stood before what a later compaction kept.
        let until = until.unwrap_or(if before.is_some() { 0 } else { messages.len() });
        for message in &mut messages[..until] {
            if let HistoryMessage::ToolResult(result) = message {
                result.content.iter_mut().for_each(prune);
            }
        }
    }
    messages
}

/// The summary in force, and where the records begin that are still sent.
pub(crate) fn surface_start(records: &[Record]) -> (Option<&UserMessage>, usize) {
    let last = records.iter().enumerate().rev().find_map(|(at, record)| match &record.event {
        SessionEvent::Compaction { message, first_kept, .. } => Some((at, message, first_kept.as_ref())),
        _ => None,
    });
    let Some((at, message, first_kept)) = last else { return (None, 0) };
    let start = first_kept.and_then(|id| {
        records[..at].iter().rposition(|record| match &record.event {
            SessionEvent::UserMessage { message } => message.id == *id,
            SessionEvent::AssistantMessage { message, .. } => message.id == *id,
            _ => false,
        })
    });
    (Some(message), start.unwrap_or(at))
}

/// The message of a record, when the record is one.
pub(crate) fn message_of(record: &Record) -> Option<HistoryMessage> {
    match &record.event {
        SessionEvent::UserMessage { message } => Some(HistoryMessage::User(message.clone())),
        SessionEvent::AssistantMessage { message, .. } if !message.blocks.is_empty() => {
            Some(HistoryMessage::Assistant(message.clone()))
        }
        SessionEvent::ToolResult { message, .. } => Some(HistoryMessage::ToolResult(message.clone())),
        _ => None,
    }
}

/// Identity of a message; results have none of their own.
pub(crate) fn message_id(message: &HistoryMessage) -> Option<&MessageId> {
    match message {
        HistoryMessage::User(message) => Some(&message.id),
        HistoryMessage::Assistant(message) => Some(&message.id),
        HistoryMessage::ToolResult(_) => None,
    }
}

fn last_prune(records: &[Record]) -> Option<(usize, Option<&MessageId>)> {
    records.iter().enumerate().rev().find_map(|(at, record)| match &record.event {
        SessionEvent::CompactionPrune { before, .. } => Some((at, before.as_ref())),
        _ => None,
    })
}

/// Shortens a long text to its ends.
pub(crate) fn prune(block: &mut ContentBlock) {
    let ContentBlock::Text { text } = block else { return };
    let n_chars = text.chars().count();
    if n_chars <= PRUNE_FROM_CHARS {
        return;
    }
    let head: String = text.chars().take(PRUNED_HEAD_CHARS).collect();
    let tail: String = text.chars().skip(n_chars - PRUNED_TAIL_CHARS).collect();
    *text = head + PRUNED + &tail;
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
