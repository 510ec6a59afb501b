//! Permission questions: what is asked, and what an answer means.
//!
//! The person sees the whole subject in the question: the command or the full change in the content, the whole
//! arguments as raw input. Only an option that was offered as an allowance allows; everything else is no.
//!
//! Source: ACP v1, tool calls, "Requesting permission"; `faults.md` P02, P08–P10; `clients.md` §4 rule 8.

use crate::call::{CallView, content, kind, locations, object, title_words, wire_id};
use crate::card::{diff, generic, text_item};
use crate::text::{fence, one_line, visible};
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
            shown.push(text_item(fence("console", &visible(&card.title))));
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
        Value::String(text) if card.kind == protocol::card::ToolCallKind::Execute => {
            fence("console", &visible(text))
        }
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fixtures::{Case, diff_call, file_diff, full, generic_call, quirky, terminal_call};
    use crate::wire::permission_params;
    use agent_client_protocol::v1::schema::SelectedPermissionOutcome;
    use protocol::card::ToolCallKind;
    use protocol::decision::{PermissionRule, Preview};
    use protocol::id::SessionId;
    use serde_json::json;

    const COMMAND: &str = "cargo test --workspace --all-features --no-fail-fast\nrm -rf target";

    fn asked(case: &Case, preview: Preview, label: Option<&str>) -> PermissionRequest {
        PermissionRequest {
            session_id: SessionId::new("s"),
            call_id: case.call_id.clone(),
            tool_name: case.name.to_owned(),
            arguments: case.arguments.clone(),
            reason: Some("The mode asks first.".to_owned()),
            preview,
            rule: label.map(|label| PermissionRule {
                tool: case.name.to_owned(),
                subjects: vec!["x".to_owned()],
                label: label.to_owned(),
            }),
        }
    }

    fn params(ctx: &PresentContext, case: &Case, request: &PermissionRequest) -> Value {
        permission_params(&present_permission(ctx, request, &case.view())).unwrap()
    }

    fn command() -> Case {
        let arguments = json!({ "command": COMMAND, "description": "Test", "timeout": 5 });
        Case::new("bash", arguments, terminal_call(COMMAND))
    }

    #[test]
    fn a_question_about_a_command_holds_all_of_it() {
        let case = command();
        let request = asked(&case, Preview::default(), Some("cargo test"));
        insta::assert_json_snapshot!(params(&full(), &case, &request));
        let title = "cargo test --workspace --all-features --no-fail-fast ⏎ rm -rf target";
        assert_eq!(params(&quirky(), &case, &request)["toolCall"]["title"], title);
    }

    #[test]
    fn a_command_cannot_hide_a_part_of_itself() {
        let case = Case::new("bash", json!({}), terminal_call("ls \u{202e}x\n\u{1b}[8mrm a"));
        let call = &params(&full(), &case, &asked(&case, Preview::default(), None))["toolCall"];
        assert_eq!(call["content"][3]["content"]["text"], "```console\nls \u{fffd}x\n [8mrm a\n```");
        assert_eq!(call["rawInput"], json!({ "command": "ls \u{202e}x\n\u{1b}[8mrm a" }));
    }

    #[test]
    fn a_question_about_a_change_shows_the_whole_change() {
        let arguments = json!({ "file_path": "a.rs", "old_string": "x", "new_string": "y" });
        let case =
            Case::new("edit", arguments.clone(), diff_call("Edit a.rs", file_diff("a.rs", Some("x"), "y")));
        let preview = Preview { diffs: vec![file_diff("/w/app/a.rs", Some("x\nz\n"), "y\nz\n")] };
        let call = &params(&full(), &case, &asked(&case, preview, None))["toolCall"];
        let whole =
            json!({ "type": "diff", "path": "/w/app/a.rs", "oldText": "x\nz\n", "newText": "y\nz\n" });
        assert_eq!(call["content"][1], whole);
        assert_eq!(call["rawInput"], arguments);
        let call = &params(&full(), &case, &asked(&case, Preview::default(), None))["toolCall"];
        let fragment = json!({ "type": "diff", "path": "/w/app/a.rs", "oldText": "x", "newText": "y" });
        assert_eq!(call["content"][1], fragment);
    }

    #[test]
    fn a_question_about_a_new_file_says_null() {
        let case = Case::new("write", json!({}), diff_call("Write a.rs", file_diff("a.rs", None, "y")));
        let call = &params(&full(), &case, &asked(&case, Preview::default(), None))["toolCall"];
        assert_eq!(call["content"][1].get("oldText"), Some(&Value::Null));
    }

    #[test]
    fn a_question_about_anything_else_shows_its_input() {
        let case = Case::new("mcp", json!({ "a": 1 }), generic_call("mcp", ToolCallKind::Other, None));
        let call = &params(&full(), &case, &asked(&case, Preview::default(), None))["toolCall"];
        assert_eq!(call["content"][1]["content"]["text"], "```json\n{\n  \"a\": 1\n}\n```");
        let card = generic_call(COMMAND, ToolCallKind::Execute, json!(COMMAND));
        let case = Case::new("bash", json!({ "command": COMMAND }), card);
        let call = &params(&full(), &case, &asked(&case, Preview::default(), None))["toolCall"];
        assert_eq!(call["content"][1]["content"]["text"], format!("```console\n{COMMAND}\n```"));
    }

    #[test]
    fn always_is_offered_only_with_a_rule_and_names_it() {
        let case = command();
        let kinds = |request: &PermissionRequest| {
            let options = params(&full(), &case, request)["options"].as_array().unwrap().clone();
            options.iter().map(|option| option["kind"].as_str().unwrap().to_owned()).collect::<Vec<_>>()
        };
        let with = asked(&case, Preview::default(), Some("cargo test"));
        let without = asked(&case, Preview::default(), None);
        assert_eq!(kinds(&with), ["allow_once", "allow_always", "reject_once"]);
        assert_eq!(kinds(&without), ["allow_once", "reject_once"]);
    }

    #[test]
    fn only_an_offered_allowance_allows() {
        let case = command();
        let with = asked(&case, Preview::default(), Some("cargo test"));
        let without = asked(&case, Preview::default(), None);
        let selected = |id: &'static str| {
            RequestPermissionOutcome::Selected(SelectedPermissionOutcome::new(PermissionOptionId::new(id)))
        };
        for (id, expected_with, expected_without) in [
            (ALLOW_ONCE, PermissionOutcome::AllowedOnce, PermissionOutcome::AllowedOnce),
            (ALLOW_ALWAYS, PermissionOutcome::AllowedAlways, PermissionOutcome::Rejected),
            (REJECT_ONCE, PermissionOutcome::Rejected, PermissionOutcome::Rejected),
            ("allow", PermissionOutcome::Rejected, PermissionOutcome::Rejected),
            ("", PermissionOutcome::Rejected, PermissionOutcome::Rejected),
        ] {
            assert_eq!(permission_outcome(&with, &selected(id)), expected_with, "{id}");
            assert_eq!(permission_outcome(&without, &selected(id)), expected_without, "{id}");
        }
        let cancelled = RequestPermissionOutcome::Cancelled;
        assert_eq!(permission_outcome(&with, &cancelled), PermissionOutcome::Cancelled);
    }
}
