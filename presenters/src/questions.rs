//! Questions of the model to the person: as one form where the client has forms, else one permission question each.
//!
//! Source: `spec/tools-agentic.md` §1 and §2.2; product decisions, "Questions" and "plan review without elicitation".

use crate::PresentContext;
use crate::call::{CallView, kind, object, wire_id};
use crate::card::text_item;
use crate::text::{count, cut, escape_markdown, one_line};
use crate::title::MAX_CHARACTERS;
use agent_client_protocol::v1::schema::{
    CreateElicitationRequest, CreateElicitationResponse, ElicitationAction, ElicitationContentValue,
    ElicitationFormMode, ElicitationSchema, ElicitationSessionScope, EnumOption, MultiSelectPropertySchema,
    PermissionOption, PermissionOptionId, PermissionOptionKind, RequestPermissionOutcome,
    RequestPermissionRequest, SessionId as WireSessionId, StringPropertySchema, ToolCallUpdate,
    ToolCallUpdateFields,
};
use protocol::id::{CallId, SessionId};
use protocol::question::{Answer, Question, QuestionOption};
use std::collections::BTreeMap;

/// Id of the option that answers nothing.
const CANCEL: &str = "cancel";

/// What came back from the person.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Reply<T> {
    /// An answer.
    Answered(T),
    /// The person does not want to answer; the tool fails, the turn goes on.
    Dismissed,
    /// The person stopped the turn.
    Stopped,
}

/// All questions as one form, tied to the call that asks.
pub fn question_form(
    session_id: &SessionId,
    call_id: &CallId,
    questions: &[Question],
) -> CreateElicitationRequest {
    let mut schema = ElicitationSchema::new();
    for (key, question) in keyed(questions) {
        schema = with_question(schema, &key, question);
    }
    let scope =
        ElicitationSessionScope::new(WireSessionId::new(session_id.as_str())).tool_call_id(wire_id(call_id));
    CreateElicitationRequest::new(ElicitationFormMode::new(scope, schema), form_message(questions))
}

/// The answers of a form, one for each question, in their order.
///
/// A choice that was not offered counts as free text; answers that are missing are empty.
pub fn form_answers(questions: &[Question], response: &CreateElicitationResponse) -> Reply<Vec<Answer>> {
    let ElicitationAction::Accept(accepted) = &response.action else {
        return Reply::Dismissed;
    };
    let none = BTreeMap::new();
    let values = accepted.content.as_ref().unwrap_or(&none);
    Reply::Answered(keyed(questions).map(|(key, question)| form_answer(question, &key, values)).collect())
}

/// One question as a permission question: an allowance for each choice, and a refusal.
///
/// `None` for a question that this cannot carry: several choices at once, or free text only.
pub fn question_permission(
    ctx: &PresentContext,
    session_id: &SessionId,
    call: &CallView<'_>,
    question: &Question,
) -> Option<RequestPermissionRequest> {
    if question.multi_select || question.options.is_empty() {
        return None;
    }
    let fields = ToolCallUpdateFields::new()
        .title(question_title(ctx, question))
        .kind(kind(call.card))
        .content(vec![text_item(question_body(question))])
        .raw_input(object(call.arguments));
    let update = ToolCallUpdate::new(wire_id(call.call_id), fields);
    Some(RequestPermissionRequest::new(WireSessionId::new(session_id.as_str()), update, options(question)))
}

/// What the answer to [`question_permission`] means. An id that was not offered answers nothing.
pub fn permission_answer(question: &Question, outcome: &RequestPermissionOutcome) -> Reply<Answer> {
    let selected = match outcome {
        RequestPermissionOutcome::Cancelled => return Reply::Stopped,
        RequestPermissionOutcome::Selected(selected) => selected.option_id.0.as_ref(),
        _ => return Reply::Dismissed,
    };
    let chosen = question.options.iter().enumerate().find(|(index, _)| choice_id(*index) == selected);
    match chosen {
        Some((_, option)) => Reply::Answered(Answer {
            id: question.id.clone(),
            selected: vec![option.label.clone()],
            custom: None,
        }),
        None => Reply::Dismissed,
    }
}

/// Property names of a form. Forms are sorted by them, so several questions are numbered; that keeps equal ids apart
/// as well.
fn keyed(questions: &[Question]) -> impl Iterator<Item = (String, &Question)> {
    let width = questions.len().to_string().len();
    let numbered = questions.len() > 1;
    questions.iter().enumerate().map(move |(index, question)| {
        let number = index + 1;
        let key = if numbered { format!("{number:0width$}_{}", question.id) } else { question.id.clone() };
        (key, question)
    })
}

/// Name of the property that takes free text beside choices.
fn custom_key(key: &str) -> String {
    format!("{key}_other")
}

fn with_question(schema: ElicitationSchema, key: &str, question: &Question) -> ElicitationSchema {
    let title = question.header.as_deref().unwrap_or(&question.question);
    let described = question.options.iter().any(|option| option.description.is_some());
    let labels = || question.options.iter().map(|option| option.label.clone()).collect::<Vec<_>>();
    let titled = || question.options.iter().map(titled_option).collect::<Vec<_>>();
    if question.options.is_empty() {
        let property = StringPropertySchema::new().title(title).description(question.question.as_str());
        return schema.property(key, property, true);
    }
    // Not required: the free text may be the whole answer.
    let schema = if question.multi_select {
        let property = if described {
            MultiSelectPropertySchema::titled(titled())
        } else {
            MultiSelectPropertySchema::new(labels())
        };
        schema.property(key, property.title(title.to_owned()).description(question.question.clone()), false)
    } else {
        let property = StringPropertySchema::new().title(title).description(question.question.as_str());
        let property = if described { property.one_of(titled()) } else { property.enum_values(labels()) };
        schema.property(key, property, false)
    };
    let other = if question.approve.is_some() { "Feedback" } else { "Other" };
    schema.property(custom_key(key), StringPropertySchema::new().title(other), false)
}

fn titled_option(option: &QuestionOption) -> EnumOption {
    EnumOption::new(option.label.as_str(), option.label.as_str()).description(option.description.clone())
}

fn form_message(questions: &[Question]) -> String {
    let [question] = questions else {
        return count(questions.len() as u64, "question", "questions");
    };
    match &question.detail {
        Some(detail) => format!("{}\n\n{detail}", question.question),
        None => question.question.clone(),
    }
}

fn form_answer(question: &Question, key: &str, values: &BTreeMap<String, ElicitationContentValue>) -> Answer {
    let mut given = values.get(key).map(texts).unwrap_or_default();
    given.retain(|text| !text.is_empty());
    let (selected, unknown): (Vec<String>, Vec<String>) =
        given.into_iter().partition(|text| question.options.iter().any(|option| option.label == *text));
    let custom = values.get(&custom_key(key)).map(texts).unwrap_or_default();
    let custom: Vec<String> =
        unknown.into_iter().chain(custom).filter(|text| !text.trim().is_empty()).collect();
    let custom = (!custom.is_empty()).then(|| custom.join("\n"));
    Answer { id: question.id.clone(), selected, custom }
}

fn texts(value: &ElicitationContentValue) -> Vec<String> {
    match value {
        ElicitationContentValue::String(text) => vec![text.clone()],
        ElicitationContentValue::StringArray(texts) => texts.clone(),
        ElicitationContentValue::Integer(number) => vec![number.to_string()],
        ElicitationContentValue::Number(number) => vec![number.to_string()],
        ElicitationContentValue::Boolean(flag) => vec![flag.to_string()],
        _ => Vec::new(),
    }
}

fn question_title(ctx: &PresentContext, question: &Question) -> String {
    let title = cut(&one_line(&question.question), MAX_CHARACTERS);
    if ctx.quirks.markdown_titles { escape_markdown(&title) } else { title }
}

/// The whole question as Markdown: itself, its detail, and what the choices would mean.
fn question_body(question: &Question) -> String {
    let mut parts = vec![question.question.clone()];
    parts.extend(question.detail.clone());
    let described = question.options.iter().filter_map(|option| {
        let description = option.description.as_deref()?;
        Some(format!("- {}: {description}", option.label))
    });
    let described: Vec<String> = described.collect();
    if !described.is_empty() {
        parts.push(described.join("\n"));
    }
    parts.join("\n\n")
}

/// A question with a yes offers its other choices as refusals and needs no option besides.
fn options(question: &Question) -> Vec<PermissionOption> {
    let is_yes = |option: &QuestionOption| question.approve.as_ref().is_none_or(|yes| *yes == option.label);
    let mut options: Vec<PermissionOption> = (question.options.iter().enumerate())
        .map(|(index, option)| {
            let kind = match is_yes(option) {
                true => PermissionOptionKind::AllowOnce,
                false => PermissionOptionKind::RejectOnce,
            };
            PermissionOption::new(PermissionOptionId::new(choice_id(index)), one_line(&option.label), kind)
        })
        .collect();
    if question.options.iter().all(is_yes) {
        let id = PermissionOptionId::new(CANCEL);
        options.push(PermissionOption::new(id, "Cancel", PermissionOptionKind::RejectOnce));
    }
    options
}

fn choice_id(index: usize) -> String {
    format!("choice-{index}")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fixtures::{full, generic_call};
    use agent_client_protocol::v1::schema::{ElicitationAcceptAction, SelectedPermissionOutcome};
    use protocol::card::ToolCallKind;
    use serde_json::{Value, json};

    fn option(label: &str, description: Option<&str>) -> QuestionOption {
        QuestionOption { label: label.to_owned(), description: description.map(str::to_owned) }
    }

    fn package_manager() -> Question {
        Question {
            id: "pkg".to_owned(),
            question: "Which package manager?".to_owned(),
            header: Some("Packages".to_owned()),
            options: vec![
                option("pnpm (Recommended)", Some("What the lock file is for")),
                option("npm", None),
            ],
            ..Question::default()
        }
    }

    fn extras() -> Question {
        Question {
            id: "a".to_owned(),
            question: "What else?".to_owned(),
            options: vec![option("tests", None), option("docs", None)],
            multi_select: true,
            ..Question::default()
        }
    }

    fn name() -> Question {
        Question { id: "name".to_owned(), question: "What name?".to_owned(), ..Question::default() }
    }

    fn plan_review() -> Question {
        Question {
            id: "plan-review".to_owned(),
            question: "Carry out this plan?".to_owned(),
            options: vec![option("Approve", None), option("Keep planning", None)],
            detail: Some("# Plan\n\n1. Do it".to_owned()),
            approve: Some("Approve".to_owned()),
            ..Question::default()
        }
    }

    fn form(questions: &[Question]) -> Value {
        let request = question_form(&SessionId::new("s"), &CallId::new("call-1"), questions);
        serde_json::to_value(request).unwrap()
    }

    fn permission(question: &Question) -> Option<Value> {
        let arguments = json!({ "questions": [] });
        let card = generic_call("Ask: x", ToolCallKind::Other, None);
        let call_id = CallId::new("call-1");
        let call =
            CallView { call_id: &call_id, name: "ask_user_question", arguments: &arguments, card: &card };
        let request = question_permission(&full(), &SessionId::new("s"), &call, question);
        request.map(|request| serde_json::to_value(request).unwrap())
    }

    #[test]
    fn one_question_is_a_form_under_its_own_id() {
        insta::assert_json_snapshot!(form(&[package_manager()]));
    }

    #[test]
    fn several_questions_keep_their_order_in_one_form() {
        insta::assert_json_snapshot!(form(&[package_manager(), extras(), name()]));
    }

    #[test]
    fn a_plan_under_review_stands_in_the_form() {
        let form = form(&[plan_review()]);
        assert_eq!(form["message"], "Carry out this plan?\n\n# Plan\n\n1. Do it");
        assert_eq!(form["requestedSchema"]["properties"]["plan-review_other"]["title"], "Feedback");
    }

    fn answer(id: &str, selected: &[&str], custom: Option<&str>) -> Answer {
        let selected = selected.iter().map(|label| (*label).to_owned()).collect();
        Answer { id: id.to_owned(), selected, custom: custom.map(str::to_owned) }
    }

    #[test]
    fn answers_of_a_form_come_back_in_the_order_of_the_questions() {
        let questions = [package_manager(), extras(), name()];
        let values: BTreeMap<String, ElicitationContentValue> = [
            ("1_pkg", "pnpm (Recommended)".into()),
            ("2_a", vec!["docs", "fuzzing"].into()),
            ("2_a_other", "release notes".into()),
            ("3_name", "x".into()),
        ]
        .map(|(key, value): (&str, ElicitationContentValue)| (key.to_owned(), value))
        .into();
        let accepted = CreateElicitationResponse::new(ElicitationAcceptAction::new().content(values));
        let expected = vec![
            answer("pkg", &["pnpm (Recommended)"], None),
            answer("a", &["docs"], Some("fuzzing\nrelease notes")),
            answer("name", &[], Some("x")),
        ];
        assert_eq!(form_answers(&questions, &accepted), Reply::Answered(expected));
    }

    #[test]
    fn a_form_that_was_not_filled_in_is_a_dismissal_or_empty() {
        let questions = [package_manager()];
        for action in [ElicitationAction::Decline, ElicitationAction::Cancel] {
            let response = CreateElicitationResponse::new(action);
            assert_eq!(form_answers(&questions, &response), Reply::Dismissed);
        }
        let response = CreateElicitationResponse::new(ElicitationAcceptAction::new());
        assert_eq!(form_answers(&questions, &response), Reply::Answered(vec![answer("pkg", &[], None)]));
    }

    #[test]
    fn without_forms_a_choice_is_a_permission_question() {
        insta::assert_json_snapshot!(permission(&package_manager()));
    }

    #[test]
    fn a_plan_is_approved_or_refused_without_a_third_option() {
        let request = permission(&plan_review()).unwrap();
        assert_eq!(
            request["options"],
            json!([
                { "optionId": "choice-0", "name": "Approve", "kind": "allow_once" },
                { "optionId": "choice-1", "name": "Keep planning", "kind": "reject_once" },
            ])
        );
        let text = "Carry out this plan?\n\n# Plan\n\n1. Do it";
        assert_eq!(request["toolCall"]["content"][0]["content"]["text"], text);
    }

    #[test]
    fn what_a_permission_question_cannot_carry_is_not_asked_by_one() {
        assert_eq!(permission(&extras()), None);
        assert_eq!(permission(&name()), None);
    }

    #[test]
    fn only_an_offered_choice_answers() {
        let question = package_manager();
        let selected = |id: &'static str| {
            RequestPermissionOutcome::Selected(SelectedPermissionOutcome::new(PermissionOptionId::new(id)))
        };
        for (outcome, expected) in [
            (selected("choice-1"), Reply::Answered(answer("pkg", &["npm"], None))),
            (selected("choice-2"), Reply::Dismissed),
            (selected("cancel"), Reply::Dismissed),
            (RequestPermissionOutcome::Cancelled, Reply::Stopped),
        ] {
            assert_eq!(permission_answer(&question, &outcome), expected);
        }
    }
}
