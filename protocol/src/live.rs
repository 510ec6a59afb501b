//! Live updates: shown at once, never logged. What they show is derived again from the log on load.

use crate::id::{CallId, MessageId, TerminalId};
use crate::tool::DurableResult;
use serde_json::Value;
use std::path::PathBuf;

/// Something to show now.
#[derive(Clone, Debug, PartialEq)]
pub enum LiveUpdate {
    /// More text of a model's message.
    Text {
        /// Message it belongs to.
        message_id: MessageId,
        /// More of its text.
        delta: String,
    },
    /// More reasoning of a model's message.
    Reasoning {
        /// Message it belongs to.
        message_id: MessageId,
        /// More of its reasoning.
        delta: String,
    },
    /// The body of a call was entered.
    CallStarted {
        /// The call.
        call_id: CallId,
    },
    /// The body of a call ended; its logged result follows in model order and may differ if a policy changes it.
    CallSettled {
        /// The call.
        call_id: CallId,
        /// What it ended with.
        result: DurableResult,
    },
    /// How far the child of a call is; replaces what was shown before.
    ChildProgress {
        /// The call that delegated.
        call_id: CallId,
        /// A few lines of Markdown, bounded.
        text: String,
    },
    /// A call of a child asks the person, and so becomes a card of its own.
    ChildCallAsked {
        /// The child's call.
        call_id: CallId,
        /// Name of the tool.
        name: String,
        /// Its arguments, parsed.
        arguments: Value,
    },
    /// Such a call ended.
    ChildCallEnded {
        /// The child's call.
        call_id: CallId,
        /// What it ended with.
        result: DurableResult,
    },
    /// A client terminal runs the call's command.
    TerminalAttached {
        /// The call.
        call_id: CallId,
        /// The client's terminal.
        terminal_id: TerminalId,
    },
    /// A command of ours runs in this folder; its output follows.
    TerminalOpened {
        /// The call.
        call_id: CallId,
        /// Folder it runs in, absolute.
        cwd: PathBuf,
    },
    /// More output of a command of ours, decoded, control sequences kept.
    TerminalOutput {
        /// The call.
        call_id: CallId,
        /// More of its output.
        delta: String,
    },
    /// A command of ours ended.
    TerminalExited {
        /// The call.
        call_id: CallId,
        /// Exit code; `None` when a signal ended it.
        exit_code: Option<i32>,
        /// Signal that ended it, for instance `SIGTERM`.
        signal: Option<String>,
    },
}
