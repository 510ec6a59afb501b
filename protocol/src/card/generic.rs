//! The generic card: everything that has no richer one.

use super::{FileLocation, ToolCallKind};
use crate::content::ContentBlock;
use serde_json::Value;

/// A call shown by title, kind and salient input.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct GenericCall {
    /// One line, complete on its own.
    pub title: String,
    /// Picks the icon.
    pub kind: ToolCallKind,
    /// Salient input: a string is shown as it is, an object as JSON; `None` shows nothing.
    pub raw_input: Option<Value>,
    /// Content to show while pending.
    pub content: Vec<ContentBlock>,
    /// Places the call is about.
    pub locations: Vec<FileLocation>,
}

/// A completed call without a richer card.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct GenericResult {
    /// Replaces the pending title; `None` keeps it.
    pub title: Option<String>,
    /// Content to show; `None` means the raw result content.
    pub content: Option<Vec<ContentBlock>>,
}
