//! How many tokens something takes, roughly: four bytes each. Source: `spec/runtime.md` §6, token measure.

use crate::history::{history, message_of};
use protocol::content::ContentBlock;
use protocol::event::{Record, SessionEvent};
use protocol::message::AssistantBlock;
use protocol::model::HistoryMessage;
use protocol::tool::ToolSchema;

const BYTES_PER_TOKEN: u64 = 4;
/// What role and framing of a message take.
const PER_MESSAGE: u64 = 4;
/// What providers charge for an image of the size we send, at most.
const PER_IMAGE: u64 = 1600;

/// Tokens the next request takes: as they were measured last, plus what came since; without a measure, estimated.
///
/// A provider measures with each answer, and a compaction or a prune says what it left.
pub(crate) fn pressure(records: &[Record], system: &str, tools: &[ToolSchema]) -> u64 {
    let measured = records.iter().enumerate().rev().find_map(|(at, record)| match &record.event {
        SessionEvent::AssistantMessage { usage: Some(usage), .. } => Some((at, usage.context_tokens())),
        SessionEvent::CompactionPrune { tokens_after, .. }
        | SessionEvent::Compaction { tokens_after, .. } => Some((at, *tokens_after)),
        _ => None,
    });
    match measured {
        Some((at, tokens)) => {
            let since = records[at + 1..].iter().filter_map(message_of);
            tokens + since.map(|message| estimate_message(&message)).sum::<u64>()
        }
        None => estimate(system, tools, &history(records)),
    }
}

/// Tokens of a request, estimated.
pub(super) fn estimate(system: &str, tools: &[ToolSchema], messages: &[HistoryMessage]) -> u64 {
    let schemas = tools.iter().map(|tool| serde_json::to_string(tool).map_or(0, |text| text.len()));
    tokens(system.len() + schemas.sum::<usize>()) + estimate_history(messages)
}

/// Tokens of these messages, estimated.
pub(super) fn estimate_history(messages: &[HistoryMessage]) -> u64 {
    messages.iter().map(estimate_message).sum()
}

/// Tokens of one message, estimated.
pub(super) fn estimate_message(message: &HistoryMessage) -> u64 {
    let content: u64 = match message {
        HistoryMessage::User(message) => message.content.iter().map(block).sum(),
        HistoryMessage::ToolResult(message) => message.content.iter().map(block).sum(),
        HistoryMessage::Assistant(message) => message
            .blocks
            .iter()
            .map(|block| match block {
                AssistantBlock::Text { text } | AssistantBlock::Reasoning { text, .. } => tokens(text.len()),
                AssistantBlock::ToolCall(call) => tokens(call.name.len() + call.arguments.len()),
            })
            .sum(),
    };
    PER_MESSAGE + content
}

fn block(block: &ContentBlock) -> u64 {
    match block {
        ContentBlock::Text { text } => tokens(text.len()),
        ContentBlock::Resource { uri, text, .. } => tokens(uri.len() + text.len()),
        ContentBlock::ResourceLink { .. } => PER_MESSAGE,
        ContentBlock::Image { .. } => PER_IMAGE,
    }
}

fn tokens(bytes: usize) -> u64 {
    (bytes as u64).div_ceil(BYTES_PER_TOKEN)
}
