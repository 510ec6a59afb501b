//! The last touch before sending: fields that some clients must find spelled out.
//!
//! The schema's types leave out what equals a default. Most clients do not mind, some do: one draws a diff only when
//! `oldText` is there, be it null, and others show a call without `status` as if nothing were known of it. The server
//! sends the values made here under the method's name instead of the typed messages. Source: `clients.md` §3 (Toad)
//! and §4 rule 4.

use agent_client_protocol::v1::schema::{RequestPermissionRequest, SessionNotification};
use serde_json::{Map, Value, json};

/// Parameters of `session/update`.
///
/// # Errors
/// When a value cannot be written as JSON, which no value of this crate can bring about.
pub fn update_params(notification: &SessionNotification) -> Result<Value, serde_json::Error> {
    let mut params = serde_json::to_value(notification)?;
    if let Some(update) = params.get_mut("update").and_then(Value::as_object_mut) {
        if update.get("sessionUpdate").and_then(Value::as_str) == Some("tool_call") {
            update.entry("status").or_insert_with(|| json!("pending"));
            update.entry("kind").or_insert_with(|| json!("other"));
        }
        spell_out_diffs(update);
    }
    Ok(params)
}

/// Parameters of `session/request_permission`.
///
/// # Errors
/// As [`update_params`].
pub fn permission_params(request: &RequestPermissionRequest) -> Result<Value, serde_json::Error> {
    let mut params = serde_json::to_value(request)?;
    if let Some(call) = params.get_mut("toolCall").and_then(Value::as_object_mut) {
        spell_out_diffs(call);
    }
    Ok(params)
}

/// Gives every diff an `oldText`: null says that there was no file.
fn spell_out_diffs(call: &mut Map<String, Value>) {
    let items = call.get_mut("content").and_then(Value::as_array_mut).into_iter().flatten();
    for item in items.filter_map(Value::as_object_mut) {
        if item.get("type").and_then(Value::as_str) == Some("diff") {
            item.entry("oldText").or_insert(Value::Null);
        }
    }
}
