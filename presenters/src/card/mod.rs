//! One file a card, named like the cards in `protocol::card`.
//!
//! Each turns its card into the parts of a `tool_call` or `tool_call_update`; `call.rs` and `result.rs` put the parts
//! together.

pub(crate) mod diff;
pub(crate) mod generic;
pub(crate) mod read;
pub(crate) mod search;
pub(crate) mod terminal;
pub(crate) mod web;

use agent_client_protocol::v1::schema::{Meta, ToolCallContent, ToolCallLocation};
use serde_json::Value;

/// What a result card contributes to the update that ends its call. `None` leaves what the client has.
#[derive(Default)]
pub(crate) struct Completed {
    pub content: Option<Vec<ToolCallContent>>,
    pub locations: Option<Vec<ToolCallLocation>>,
    pub raw_output: Option<Value>,
    pub meta: Option<Meta>,
}

/// A text item.
pub(crate) fn text_item(text: impl Into<String>) -> ToolCallContent {
    ToolCallContent::from(agent_client_protocol::v1::schema::ContentBlock::from(text.into()))
}
