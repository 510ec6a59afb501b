//! The terminal card: a command, in whichever of the three ways the client can show one.
//!
//! Client terminals are embedded by id once they exist. Display terminals are announced with the call (their id is the
//! call's) and fed through `_meta`. Everybody else gets a `console` fence. A terminal that was shown live stays: an
//! update's content replaces everything, so its end carries no content.
//!
//! Source: `spec/presentation.md` §8.2–8.4; `clients.md` §2 (terminals).

use super::generic::{console, raw_text, result_text};
use super::{Completed, text_item};
use crate::call::{CallView, content, update};
use crate::result::ResultContext;
use crate::text::{fence, plain_terminal_text, terminal_line_ends};
use crate::{PresentContext, TerminalStyle, path};
use agent_client_protocol::v1::schema::{
    Meta, SessionUpdate, Terminal, TerminalId as WireTerminalId, ToolCallContent, ToolCallUpdateFields,
};
use protocol::card::{CallCard, ExitState, TerminalCall, TerminalResult};
use protocol::id::{CallId, TerminalId};
use protocol::tool::DurableResult;
use serde_json::{Value, json};

/// What is shown of a command that has not run yet: its description, and the terminal where one is only displayed.
pub(crate) fn announced(ctx: &PresentContext, call_id: &CallId, card: &TerminalCall) -> Vec<ToolCallContent> {
    let mut content = description(card);
    if ctx.terminals == TerminalStyle::Display {
        content.push(embedded(call_id.as_str()));
    }
    content
}

/// Creates the display terminal; clients look for it in the announcement only.
pub(crate) fn announced_meta(ctx: &PresentContext, call_id: &CallId, card: &TerminalCall) -> Option<Meta> {
    let cwd = path::absolute(&ctx.cwd, card.cwd.as_deref().unwrap_or_default());
    let info = json!({ "terminal_id": call_id.as_str(), "cwd": cwd.to_string_lossy() });
    (ctx.terminals == TerminalStyle::Display).then(|| meta([("terminal_info", info)]))
}

/// Shows the client's terminal that runs the call's command.
pub fn terminal_attached(
    ctx: &PresentContext,
    call: &CallView<'_>,
    terminal_id: &TerminalId,
) -> SessionUpdate {
    let mut shown = match call.card {
        CallCard::Terminal(card) => description(card),
        _ => content(ctx, call),
    };
    shown.push(embedded(terminal_id.as_str()));
    update(call.call_id, ToolCallUpdateFields::new().content(shown), None)
}

/// Feeds more output to the call's display terminal.
pub fn terminal_output(call_id: &CallId, delta: &str) -> SessionUpdate {
    update(
        call_id,
        ToolCallUpdateFields::new(),
        Some(meta([("terminal_output", output_entry(call_id, delta))])),
    )
}

/// Ends the call's display terminal. The call itself ends with its result.
pub fn terminal_exited(call_id: &CallId, exit: &ExitState) -> SessionUpdate {
    update(call_id, ToolCallUpdateFields::new(), Some(meta([("terminal_exit", exit_entry(call_id, exit))])))
}

/// Shows what a command has printed so far as plain text: a growing snapshot, whose bound and rate are the caller's.
///
/// `tail` is the end of the output, `omitted_bytes` what stands before it. The status is left alone, so the output of
/// a background job can be shown after its call has ended.
pub fn terminal_text(
    ctx: &PresentContext,
    call: &CallView<'_>,
    tail: &str,
    omitted_bytes: u64,
) -> SessionUpdate {
    let mut shown = match call.card {
        CallCard::Terminal(card) => description(card),
        _ => content(ctx, call),
    };
    let mut text = plain_terminal_text(tail);
    if omitted_bytes > 0 {
        text = format!("[{omitted_bytes} earlier bytes not shown]\n{text}");
    }
    shown.push(text_item(fence("console", &text)));
    update(call.call_id, ToolCallUpdateFields::new().content(shown), None)
}

/// Shows how a background job ended, in the card of the call that started it. The status is left alone: the call ended
/// before. `status` is one line; a terminal that was shown live stays and stands for the output.
pub fn job_settled(
    ctx: &PresentContext,
    call: &CallView<'_>,
    (tail, omitted_bytes): (&str, u64),
    status: &str,
    terminal: Option<&TerminalId>,
) -> SessionUpdate {
    let mut shown = match call.card {
        CallCard::Terminal(card) => description(card),
        _ => content(ctx, call),
    };
    match terminal {
        Some(terminal_id) => shown.push(embedded(terminal_id.as_str())),
        None => {
            let mut text = plain_terminal_text(tail);
            if omitted_bytes > 0 {
                text = format!("[{omitted_bytes} earlier bytes not shown]\n{text}");
            }
            if !text.is_empty() {
                shown.push(text_item(fence("console", &text)));
            }
        }
    }
    shown.push(text_item(status.to_owned()));
    update(call.call_id, ToolCallUpdateFields::new().content(shown), None)
}

/// The end of a command that has a terminal card on both sides.
pub(crate) fn completed(
    ctx: &PresentContext,
    call_id: &CallId,
    card: &TerminalResult,
    shown: &ResultContext,
) -> Completed {
    let raw_output = Some(raw_output(card));
    if shown.terminal.is_some() {
        return Completed { raw_output, ..Completed::default() };
    }
    if ctx.terminals == TerminalStyle::Display {
        let output = ("terminal_output", output_entry(call_id, &card.output));
        let meta = match card.exit {
            ExitState::Unknown => meta([output]),
            _ => meta([output, ("terminal_exit", exit_entry(call_id, &card.exit))]),
        };
        return Completed { raw_output, meta: Some(meta), ..Completed::default() };
    }
    let text = fence("console", &text_with_exit(card));
    Completed { content: Some(vec![text_item(text)]), raw_output, ..Completed::default() }
}

/// The output as text, a bad end marked as in the text the model read: a fence has no other place for it.
fn text_with_exit(card: &TerminalResult) -> String {
    let output = plain_terminal_text(&card.output);
    let marker = match &card.exit {
        ExitState::Code(0) | ExitState::Unknown => return output,
        ExitState::Code(code) => format!("[exit code: {code}]"),
        ExitState::Signal(signal) => format!("[killed by signal: {signal}]"),
    };
    let output = output.trim_end_matches('\n');
    if output.is_empty() { marker } else { format!("{output}\n{marker}") }
}

/// The end of a command whose result has no card of its own, or only text: it failed, or its tool parses no exit.
///
/// A terminal the user watched stays, with the text of a failure below it.
pub(crate) fn completed_without_card(
    ctx: &PresentContext,
    call_id: &CallId,
    result: &DurableResult,
    shown: &ResultContext,
) -> Completed {
    match &shown.terminal {
        Some(terminal_id) if result.is_error => {
            let text = text_item(fence("console", &result_text(result)));
            Completed { content: Some(vec![embedded(terminal_id.as_str()), text]), ..Completed::default() }
        }
        None if result.is_error => console(result),
        _ => {
            let output = result_text(result);
            let card = TerminalResult { title: None, output, exit: ExitState::Unknown };
            completed(ctx, call_id, &card, shown)
        }
    }
}

fn description(card: &TerminalCall) -> Vec<ToolCallContent> {
    card.description.iter().filter(|text| !text.is_empty()).map(text_item).collect()
}

fn embedded(terminal_id: &str) -> ToolCallContent {
    ToolCallContent::Terminal(Terminal::new(WireTerminalId::new(terminal_id)))
}

fn output_entry(call_id: &CallId, output: &str) -> Value {
    json!({ "terminal_id": call_id.as_str(), "data": terminal_line_ends(output) })
}

fn exit_entry(call_id: &CallId, exit: &ExitState) -> Value {
    match exit {
        ExitState::Code(code) => json!({ "terminal_id": call_id.as_str(), "exit_code": code }),
        ExitState::Signal(signal) => json!({ "terminal_id": call_id.as_str(), "signal": signal }),
        ExitState::Unknown => json!({ "terminal_id": call_id.as_str() }),
    }
}

/// The output as plain text, for clients that print `rawOutput`, and how it ended.
fn raw_output(card: &TerminalResult) -> Value {
    let mut raw = raw_text(&plain_terminal_text(&card.output));
    match &card.exit {
        ExitState::Code(code) => raw["exitCode"] = json!(code),
        ExitState::Signal(signal) => raw["signal"] = json!(signal),
        ExitState::Unknown => {}
    }
    raw
}

fn meta<const N: usize>(entries: [(&str, Value); N]) -> Meta {
    entries.into_iter().map(|(key, value)| (key.to_owned(), value)).collect()
}
