//! Tools as the model sees them, and what a call ends with.

use crate::content::ContentBlock;
use crate::message::UserMessage;
use serde::{Deserialize, Serialize};
use serde_json::Value;

/// Exactly what the model is told about a tool. Nothing else of a tool ever leaves the process.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ToolSchema {
    /// Name the model calls it by.
    pub name: String,
    /// What it does, in the words the model reads.
    pub description: String,
    /// JSON Schema with an object root.
    pub parameters: Value,
}

/// Whether a call may overlap with its neighbours.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ExecutionMode {
    /// May run beside other parallel calls.
    Parallel,
    /// Runs alone; a barrier in its batch.
    Exclusive,
}

/// Why a call could not do its job. The model reads `Error: <message>`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, thiserror::Error)]
#[error("{message}")]
pub struct ToolFailure {
    /// The fact and the next move, without an `Error: ` prefix.
    pub message: String,
    /// Machine-readable identity; `None` for plain failures.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub info: Option<ErrorInfo>,
}

/// Machine-readable identity of a failure, for users and tests.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ErrorInfo {
    /// Class, for instance `FsError`.
    pub name: String,
    /// Code, for instance `FS_NOT_FOUND`.
    pub code: String,
    /// Raw detail for the user; logged, never shown to the model.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
}

impl ToolFailure {
    /// A failure without a code.
    pub fn plain(message: impl Into<String>) -> Self {
        Self { message: message.into(), info: None }
    }

    /// A failure of class `name` with `code`.
    pub fn coded(name: &str, code: &str, message: impl Into<String>) -> Self {
        Self {
            message: message.into(),
            info: Some(ErrorInfo { name: name.to_owned(), code: code.to_owned(), reason: None }),
        }
    }

    /// Cancelled before the body was entered (`ABORTED_BEFORE_DISPATCH`).
    pub fn aborted_before_dispatch() -> Self {
        Self::coded("AbortError", "ABORTED_BEFORE_DISPATCH", "tool call aborted before dispatch")
    }

    /// Cancelled after the body was entered (`ABORTED`).
    pub fn aborted() -> Self {
        Self::coded("AbortError", "ABORTED", "tool call aborted")
    }

    /// The code, if there is one.
    pub fn code(&self) -> Option<&str> {
        self.info.as_ref().map(|info| info.code.as_str())
    }

    /// What the model reads by default: one block, `Error: <message>`.
    pub fn default_content(&self) -> Vec<ContentBlock> {
        vec![ContentBlock::text(format!("Error: {}", self.message))]
    }
}

/// How a call ended. Each call gets exactly one.
#[derive(Clone, Debug, PartialEq)]
pub struct Outcome {
    /// The canonical value, or why there is none. The value lives only while the call runs; it is never logged.
    pub result: Result<Value, ToolFailure>,
    /// What the model reads.
    pub content: Vec<ContentBlock>,
    /// Replayable presentation data, owned by the tool.
    pub meta: Option<Value>,
    /// User-role messages for the next step, in order.
    pub additional_contexts: Vec<UserMessage>,
    /// Whether the turn ends after this batch; only ever true for a success.
    pub concludes_turn: bool,
}

impl Outcome {
    /// A failed outcome with the default content.
    pub fn failed(failure: ToolFailure) -> Self {
        Self {
            content: failure.default_content(),
            result: Err(failure),
            meta: None,
            additional_contexts: Vec::new(),
            concludes_turn: false,
        }
    }

    /// Whether the call failed.
    pub fn is_error(&self) -> bool {
        self.result.is_err()
    }

    /// The part that is logged and that cards are made from.
    pub fn durable(&self) -> DurableResult {
        DurableResult {
            content: self.content.clone(),
            is_error: self.is_error(),
            error: self.result.as_ref().err().cloned(),
            meta: self.meta.clone(),
        }
    }
}

/// The durable part of an outcome: what cards are made from, live and on replay.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct DurableResult {
    /// What the model read.
    pub content: Vec<ContentBlock>,
    /// Whether the call failed.
    pub is_error: bool,
    /// Why, when it failed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub error: Option<ToolFailure>,
    /// Presentation data of the tool.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub meta: Option<Value>,
}

impl DurableResult {
    /// The text of the only block when the result is exactly one text block.
    pub fn single_text(&self) -> Option<&str> {
        match self.content.as_slice() {
            [block] => block.as_text(),
            _ => None,
        }
    }
}

/// Parses raw argument text: empty is `{}`, invalid JSON stays the raw text as a JSON string.
///
/// Source: `spec/pipeline.md` §11.3. Typed tools then answer `INVALID_ARGS`, since the root is no object.
pub fn parse_arguments(raw: &str) -> Value {
    if raw.trim().is_empty() {
        return Value::Object(serde_json::Map::new());
    }
    serde_json::from_str(raw).unwrap_or_else(|_| Value::String(raw.to_owned()))
}
