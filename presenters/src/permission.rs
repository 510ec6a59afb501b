//! Permission questions: what is asked, and what an answer means.
//!
//! The person sees the whole subject in the question: the command or the full change in the content, the whole
//! arguments as raw input. Only an option that was offered as an allowance allows; everything else is no.
//!
//! Source: ACP v1, tool calls, "Requesting permission"; `faults.md` P02, P08–P10; `clients.md` §4 rule 8.

use crate::call::{CallView, content, kind, locations, object, title_words, wire_id};
use crate::card::{diff, generic, text_item};
use crate::text::{fence, one_line};
use crate::title::MAX_CHARACTERS;
use crate::{PresentContext, path};
use agent_client_protocol::v1::schema::{
    PermissionOption, PermissionOptionId, PermissionOptionKind, RequestPermissionOutcome,
    RequestPermissionRequest, SessionId as WireSessionId, ToolCallContent, ToolCallStatus, ToolCallUpdate,
    ToolCallUpdateFields, ToolKind,
};
use protocol::card::{CallCard, GenericCall};
use protocol::decision::{PermissionOutcome, PermissionRequest};
use serde_json::Value;

/// Id of the option that allows this call.
pub const ALLOW_ONCE: &str = "allow-once";
/// Id of the option that allows this call and adds the rule its name tells.
pub const ALLOW_ALWAYS: &str = "allow-always";
/// Id of the option that refuses this call.
pub const REJECT_ONCE: &str = "reject-once";

/// Longest title of a question where the title is all that is shown, in characters.
const MAX_WHOLE_TITLE: usize = 2000;

/// The question to the person, under the session the person knows.
pub fn present_permission(
    ctx: &PresentContext,
    request: &PermissionRequest,
    call: &CallView<'_>,
) -> RequestPermissionRequest {
    let fields = ToolCallUpdateFields::new()
        .title(question_title(ctx, call))
        .name(call.name.to_owned())
        .kind(kind(call.card))
        .status(ToolCallStatus::Pending)
        .content(question_content(ctx, request, call))
        .locations(locations(ctx, call.card))
        .raw_input(question_input(request, call));
    RequestPermissionRequest::new(
        WireSessionId::new(request.session_id.as_str()),
        ToolCallUpdate::new(wire_id(call.call_id), fields),
        options(request),
    )
}

/// What the answer means. An id that was not offered as an allowance is a refusal.
pub fn permission_outcome(
    request: &PermissionRequest,
    outcome: &RequestPermissionOutcome,
) -> PermissionOutcome {
    match outcome {
        RequestPermissionOutcome::Cancelled => PermissionOutcome::Cancelled,
        RequestPermissionOutcome::Selected(selected) => match selected.option_id.0.as_ref() {
            ALLOW_ONCE => PermissionOutcome::AllowedOnce,
            ALLOW_ALWAYS if request.rule.is_some() => PermissionOutcome::AllowedAlways,
            _ => PermissionOutcome::Rejected,
        },
        _ => PermissionOutcome::Rejected,
    }
}

/// One option a kind, the narrow allowance first: some clients take the first allowance they see.
fn options(request: &PermissionRequest) -> Vec<PermissionOption> {
    let mut options = vec![option(ALLOW_ONCE, "Allow once".to_owned(), PermissionOptionKind::AllowOnce)];
    if let Some(rule) = &request.rule {
        let name = format!("Always allow {} in this session", one_line(&rule.label));
        options.push(option(ALLOW_ALWAYS, name, PermissionOptionKind::AllowAlways));
    }
    options.push(option(REJECT_ONCE, "Reject".to_owned(), PermissionOptionKind::RejectOnce));
    options
}

fn option(id: &str, name: String, kind: PermissionOptionKind) -> PermissionOption {
    PermissionOption::new(PermissionOptionId::new(id), name, kind)
}

fn question_title(ctx: &PresentContext, call: &CallView<'_>) -> String {
    if !ctx.quirks.whole_question_titles {
        return title_words(call).bounded(ctx, MAX_CHARACTERS);
    }
    let mut title = title_words(call);
    // Where nothing but the title is shown, every line of a command has to stand in it.
    let lines: Vec<&str> = title.text.trim().lines().collect();
    let joined = lines.join(" ⏎ ");
    title.text = &joined;
    title.bounded(ctx, MAX_WHOLE_TITLE)
}

/// Reason first, then the subject, whole.
fn question_content(
    ctx: &PresentContext,
    request: &PermissionRequest,
    call: &CallView<'_>,
) -> Vec<ToolCallContent> {
    let mut shown = Vec::new();
    if let Some(reason) = request.reason.as_deref().filter(|reason| !reason.trim().is_empty()) {
        shown.push(text_item(reason));
    }
    let preview = &request.preview.diffs;
    let preview_fits = preview.iter().all(|diff| diff::fits(diff.old_text.as_deref(), &diff.new_text));
    match call.card {
        CallCard::Terminal(card) => {
            let cwd = card.cwd.as_deref().map(|cwd| format!("In {}", path::shown(ctx, cwd)));
            shown.extend(card.description.iter().cloned().chain(cwd).map(text_item));
            shown.push(text_item(fence("console", &card.title)));
        }
        _ if !preview.is_empty() && preview_fits => shown.extend(diff::content(ctx, preview)),
        CallCard::Diff(_) => shown.extend(content(ctx, call)),
        CallCard::Generic(card) => {
            shown.extend(generic::blocks(ctx, &card.content));
            shown.push(text_item(subject(card, &request.arguments)));
        }
    }
    shown
}

/// The salient input of a call that has neither a command nor a change to show; without one, all its arguments.
fn subject(card: &GenericCall, arguments: &Value) -> String {
    match card.raw_input.as_ref().unwrap_or(arguments) {
        Value::String(text) if card.kind == protocol::card::ToolCallKind::Execute => fence("console", text),
        Value::String(text) => fence("", text),
        input => fence("json", &format!("{input:#}")),
    }
}

/// The whole arguments; where they do not hold the command itself, the command too.
fn question_input(request: &PermissionRequest, call: &CallView<'_>) -> Value {
    let mut input = object(&request.arguments);
    if kind(call.card) == ToolKind::Execute
        && let CallCard::Terminal(card) = call.card
        && let Some(members) = input.as_object_mut()
        && !members.values().any(|value| value.as_str() == Some(&card.title))
    {
        members.insert("command".to_owned(), Value::String(card.title.clone()));
    }
    input
}
