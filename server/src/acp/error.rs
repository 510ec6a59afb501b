//! Our errors as JSON-RPC errors. The only place that picks codes.

use agent_client_protocol::{Error, ErrorCode};
use protocol::id::SessionId;
use serde_json::json;
use services::session_store::StoreError;

/// Resource not found, as ACP numbers it.
const RESOURCE_NOT_FOUND: i32 = -32002;

/// A parameter is wrong; names it.
pub fn invalid_params(field: &str, reason: &str) -> Error {
    Error::invalid_params().data(json!({ "field": field, "details": reason }))
}

/// No such session.
pub fn unknown_session(id: &str) -> Error {
    Error::new(RESOURCE_NOT_FOUND, format!("there is no session {id}"))
        .data(json!({ "sessionId": id, "details": "open it with session/new first" }))
}

/// The chosen provider has no key.
pub fn auth_required(reason: &str) -> Error {
    Error::auth_required().data(json!({ "details": reason }))
}

/// The turn or the request failed for a reason the user should read.
pub fn failed(reason: &str) -> Error {
    // Zed shows `data.details` alone as the message.
    Error::new(ErrorCode::INTERNAL_ERROR, reason.to_owned()).data(json!({ "details": reason }))
}

/// The store refused.
pub fn from_store(error: &StoreError) -> Error {
    match error {
        StoreError::NotFound(id) => unknown_session(SessionId::as_str(id)),
        other => failed(&other.to_string()),
    }
}
