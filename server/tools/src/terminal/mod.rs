//! Lasting terminals: a shell that keeps its state between calls, and programs that are talked to.
//!
//! Opt-in family `terminal`. Each open terminal is also a job of kind `terminal`: so its output goes on streaming into
//! the card of the call that opened it, its end is logged and told, and it ends with the session. Source:
//! `spec/tools-files-shell.md` §11.

pub mod terminal_close;
pub mod terminal_list;
pub mod terminal_open;
pub mod terminal_read;
pub mod terminal_send;
pub mod terminal_signal;

use crate::arguments::not_blank;
use crate::listed;
use crate::schema::{nullable_integer, nullable_string};
use pipeline::context::ToolContext;
use pipeline::tool::Tool;
use protocol::tool::ToolFailure;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use services::terminals::{Terminal, TerminalInfo, TerminalStatus, Terminals};
use std::sync::Arc;

/// Name of the family, and kind of the jobs that stand for open terminals.
pub const TERMINAL: &str = services::jobs::TERMINAL_KIND;
/// Most bytes of a result's text.
const MAX_RESULT_BYTES: usize = 262_144;

/// The family's tools, in order.
pub fn tools() -> Vec<Arc<dyn Tool>> {
    vec![
        listed(terminal_open::TerminalOpen),
        listed(terminal_send::TerminalSend),
        listed(terminal_read::TerminalRead),
        listed(terminal_signal::TerminalSignal),
        listed(terminal_close::TerminalClose),
        listed(terminal_list::TerminalList),
    ]
}

fn terminals(ctx: &ToolContext) -> Result<Arc<dyn Terminals>, ToolFailure> {
    let terminals = ctx.services().terminals.clone();
    terminals.ok_or_else(|| ToolFailure::plain("there are no terminals in this session"))
}

fn terminal(ctx: &ToolContext, id: &str) -> Result<Arc<dyn Terminal>, ToolFailure> {
    not_blank("sessionId", id)?;
    Ok(terminals(ctx)?.get(&ctx.session.session_id, id)?)
}

/// How a terminal is.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(tag = "kind", rename_all = "lowercase")]
pub enum Status {
    /// The shell runs.
    Running,
    /// The shell has exited.
    #[serde(rename_all = "camelCase")]
    Exited {
        /// Exit code; null when a signal ended it.
        #[schemars(required, schema_with = "nullable_integer")]
        exit_code: Option<i32>,
        /// Signal that ended it; null when it exited.
        #[schemars(required, schema_with = "nullable_string")]
        signal: Option<String>,
    },
}

impl From<TerminalStatus> for Status {
    fn from(status: TerminalStatus) -> Self {
        match status {
            TerminalStatus::Running => Self::Running,
            TerminalStatus::Exited { exit_code, signal } => Self::Exited { exit_code, signal },
        }
    }
}

impl Status {
    fn words(&self, separator: &str) -> String {
        match self {
            Self::Running => "running".to_owned(),
            Self::Exited { exit_code, signal } => {
                let code = exit_code.map_or_else(|| "null".to_owned(), |code| code.to_string());
                let signal = signal.as_deref().unwrap_or("null");
                format!("exited{separator}code={code} signal={signal}")
            }
        }
    }
}

/// A terminal.
#[derive(Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Snapshot {
    /// Its id.
    session_id: String,
    /// Its name.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    name: Option<String>,
    /// Its type.
    #[serde(rename = "type")]
    kind: String,
    /// Process of its shell.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pid: Option<i32>,
    /// How it is.
    status: Status,
}

impl From<TerminalInfo> for Snapshot {
    fn from(info: TerminalInfo) -> Self {
        Self {
            session_id: info.id,
            name: info.name,
            kind: info.kind,
            pid: info.pid,
            status: info.status.into(),
        }
    }
}

/// What the job of a terminal is called; no two are alike.
fn job_label(info: &TerminalInfo) -> String {
    match &info.name {
        Some(name) => format!("{} ({name})", info.id),
        None => info.id.clone(),
    }
}

/// The end of the text within `max` bytes, and whether something is missing.
fn tail(mut text: String, max: usize) -> (String, bool) {
    let n_excess = text.len().saturating_sub(max);
    if n_excess == 0 {
        return (text, false);
    }
    text.drain(..text.ceil_char_boundary(n_excess));
    (text, true)
}

#[cfg(test)]
mod tests;
