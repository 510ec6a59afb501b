//! Messages as chunks: live by deltas, on replay block by block.

use crate::PresentContext;
use crate::card::generic::wire_block;
use agent_client_protocol::v1::schema::{
    ContentBlock as WireBlock, ContentChunk, MessageId as WireMessageId, SessionUpdate, TextContent,
};
use protocol::id::MessageId;
use protocol::message::{AssistantBlock, AssistantMessage, UserMessage};

/// More text of a model's message.
pub fn present_text(message_id: &MessageId, delta: &str) -> SessionUpdate {
    SessionUpdate::AgentMessageChunk(chunk(message_id, text_block(delta)))
}

/// More reasoning of a model's message.
pub fn present_reasoning(message_id: &MessageId, delta: &str) -> SessionUpdate {
    SessionUpdate::AgentThoughtChunk(chunk(message_id, text_block(delta)))
}

/// What the user said, as the client showed it when it was said.
pub(crate) fn user_message(ctx: &PresentContext, message: &UserMessage) -> Vec<SessionUpdate> {
    let blocks = message.content.iter().map(|block| wire_block(ctx, block));
    blocks.map(|block| SessionUpdate::UserMessageChunk(chunk(&message.id, block))).collect()
}

/// A line the user typed that is no message of the conversation: a slash command.
pub(crate) fn user_text(message_id: &MessageId, text: &str) -> SessionUpdate {
    SessionUpdate::UserMessageChunk(chunk(message_id, text_block(text)))
}

/// What a model said, whole; its calls are presented by themselves.
pub(crate) fn assistant_message(message: &AssistantMessage) -> Vec<SessionUpdate> {
    let present = |block: &AssistantBlock| match block {
        AssistantBlock::Text { text } if !text.is_empty() => Some(present_text(&message.id, text)),
        AssistantBlock::Reasoning { text, .. } if !text.is_empty() => {
            Some(present_reasoning(&message.id, text))
        }
        _ => None,
    };
    message.blocks.iter().filter_map(present).collect()
}

fn chunk(message_id: &MessageId, block: WireBlock) -> ContentChunk {
    ContentChunk::new(block).message_id(WireMessageId::new(message_id.as_str()))
}

fn text_block(text: &str) -> WireBlock {
    WireBlock::Text(TextContent::new(text))
}
