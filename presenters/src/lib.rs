//! Cards and events to values of the wire (ACP v1). Pure: the same input gives the same bytes, live and on replay.
//!
//! The server calls this crate with what happened and sends what it gets back. Nothing here reads a file, asks a clock
//! or knows which tool made a card: presenters switch on the kind of card, never on the name of a tool.
//!
//! Reading order:
//!
//! * [`present_call`], [`call_in_progress`], [`present_result`]: one tool call from its announcement to its end.
//! * [`SubCalls`], [`present_sub_calls`], [`with_sub_calls`]: the calls of a program, inside the call that runs it.
//! * [`terminal_attached`], [`terminal_output`], [`terminal_exited`], [`terminal_text`], [`job_settled`]: a command while it runs, or after its call.
//! * [`child_progress`], [`child_settled`]: the agent that a call started.
//! * [`present_event`], [`present_text`], [`present_reasoning`], [`present_mode`], [`present_usage`]: everything else.
//! * [`permission`], [`questions`]: what a person is asked, and what the answer means.
//! * [`commands`]: the slash commands on offer.
//! * [`path`]: lexical joining, shortening and `file://` addresses.
//! * [`wire`]: the last touch before sending: fields that some clients must find spelled out.
//!
//! Source: `spec/presentation.md`; product decisions, "The editor"; `clients.md` §2–4.

#![deny(missing_docs)]

mod call;
mod card;
mod child;
pub mod commands;
mod event;
mod message;
pub mod path;
pub mod permission;
mod plan;
pub mod questions;
mod result;
mod sub_calls;
mod text;
mod title;
pub mod wire;

#[cfg(test)]
mod cases;
#[cfg(test)]
mod fixtures;
#[cfg(test)]
mod snapshot_tests;

pub use call::{CallView, call_in_progress, fallback_card, present_call};
pub use card::terminal::{job_settled, terminal_attached, terminal_exited, terminal_output, terminal_text};
pub use child::{child_progress, child_settled};
pub use event::{Showing, present_event, present_mode, present_title, present_usage};
pub use message::{present_reasoning, present_text};
pub use result::{ResultContext, WholeText, present_result};
pub use sub_calls::{SubCalls, present_sub_calls, with_sub_calls};

use protocol::id::AttachmentId;
use std::collections::BTreeMap;
use std::path::PathBuf;

/// What presenting depends on besides the thing presented. Plain data, made once a session by the server.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct PresentContext {
    /// The session's folder, absolute.
    pub cwd: PathBuf,
    /// Further folders the session works in, absolute; paths inside are shown with the folder's name in front.
    pub roots: Vec<PathBuf>,
    /// How commands are shown.
    pub terminals: TerminalStyle,
    /// In what the client differs from the protocol's text.
    pub quirks: Quirks,
    /// Images already fetched from the attachment store, as base64; an image that is not here is named in words.
    pub images: BTreeMap<AttachmentId, String>,
}

/// How the client can show a command.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum TerminalStyle {
    /// Terminals the client runs itself, embedded by their id.
    Client,
    /// Terminals the client only displays, fed through `_meta` by the terminal-output convention.
    Display,
    /// A `console` fence of plain text, for everybody.
    #[default]
    Text,
}

/// How a client differs. The table from client names to these lives in the server.
///
/// Source: `clients.md` §2–4.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Quirks {
    /// Titles of kinds other than edit and execute are read as Markdown (Zed): paths and patterns go in backticks,
    /// the rest is escaped.
    pub markdown_titles: bool,
    /// Lines of locations are used as rows counted from 0 (Zed).
    pub zero_based_lines: bool,
    /// `usage_update` is understood; old strict clients end the connection over it.
    pub usage_updates: bool,
    /// A permission question shows its title and nothing else (the VS Code extension): the title then carries the
    /// whole subject.
    pub whole_question_titles: bool,
}

impl Default for Quirks {
    fn default() -> Self {
        Self {
            markdown_titles: false,
            zero_based_lines: false,
            usage_updates: true,
            whole_question_titles: false,
        }
    }
}
