//! Whole requests, as JSON.

use super::*;
use crate::catalogue::describe;
use crate::history_repair::repair;
use protocol::id::{CallId, MessageId};
use protocol::message::{
    AssistantBlock, AssistantMessage, MessageSource, RequestedCall, ToolResultMessage, UserMessage,
};
use protocol::model::{HistoryMessage, ModelRef};

fn user(text: &str) -> HistoryMessage {
    let content = vec![ContentBlock::text(text)];
    HistoryMessage::User(UserMessage { id: MessageId::new("u"), content, source: MessageSource::User })
}

fn assistant(model: &str, blocks: Vec<AssistantBlock>) -> HistoryMessage {
    let model = ModelRef::parse(model).unwrap();
    HistoryMessage::Assistant(AssistantMessage { id: MessageId::new("a"), blocks, model })
}

fn call(id: &str) -> AssistantBlock {
    AssistantBlock::ToolCall(RequestedCall {
        id: CallId::new(id),
        provider_id: id.to_owned(),
        name: "read".to_owned(),
        arguments: r#"{"file_path":"a"}"#.to_owned(),
    })
}

fn answer(id: &str, is_error: bool) -> HistoryMessage {
    let content = vec![ContentBlock::text("text")];
    HistoryMessage::ToolResult(ToolResultMessage { call_id: CallId::new(id), content, is_error })
}

fn thought(text: &str, replay: Value) -> AssistantBlock {
    AssistantBlock::Reasoning { text: text.to_owned(), replay: Some(replay) }
}

fn written(model: &str, effort: Option<&str>, messages: Vec<HistoryMessage>) -> Value {
    let request = ModelRequest {
        model: ModelRef::parse(model).unwrap(),
        effort: effort.map(str::to_owned),
        system: "Be brief.".to_owned(),
        messages,
        tools: vec![ToolSchema {
            name: "read".to_owned(),
            description: "Reads.".to_owned(),
            parameters: json!({"type": "object"}),
        }],
        max_tokens: None,
        cwd: "/w".into(),
    };
    let info = describe(&request.model, None, None);
    let entries = repair(&request.messages);
    serde_json::to_value(MessagesRequest::new(&request, &entries, &Images::default(), &info)).unwrap()
}

#[test]
fn thoughts_go_back_signed_and_results_share_a_message() {
    let model = "anthropic/claude-sonnet-5";
    let body = written(
        model,
        Some("low"),
        vec![
            user("hi"),
            assistant(
                model,
                vec![
                    thought("hm", json!({"type": "thinking", "signature": "sig"})),
                    thought("", json!({"type": "redacted_thinking", "data": "xx"})),
                    AssistantBlock::Text { text: "Reading.".to_owned() },
                    call("c1"),
                    call("c2"),
                ],
            ),
            answer("c1", false),
            answer("c2", true),
            user("also"),
        ],
    );
    let mark = json!({"type": "ephemeral"});
    assert_eq!(
        body,
        json!({
            "model": "claude-sonnet-5",
            "max_tokens": 128_000,
            "stream": true,
            "system": [{"type": "text", "text": "Be brief.", "cache_control": mark}],
            "tools": [{"name": "read", "description": "Reads.", "input_schema": {"type": "object"}, "cache_control": mark}],
            "messages": [
                {"role": "user", "content": [{"type": "text", "text": "hi", "cache_control": mark}]},
                {"role": "assistant", "content": [
                    {"type": "thinking", "thinking": "hm", "signature": "sig"},
                    {"type": "redacted_thinking", "data": "xx"},
                    {"type": "text", "text": "Reading."},
                    {"type": "tool_use", "id": "c1", "name": "read", "input": {"file_path": "a"}},
                    {"type": "tool_use", "id": "c2", "name": "read", "input": {"file_path": "a"}},
                ]},
                {"role": "user", "content": [
                    {"type": "tool_result", "tool_use_id": "c1", "content": [{"type": "text", "text": "text"}]},
                    {"type": "tool_result", "tool_use_id": "c2", "content": [{"type": "text", "text": "text"}], "is_error": true},
                    {"type": "text", "text": "also", "cache_control": mark},
                ]},
            ],
            "thinking": {"type": "adaptive", "display": "summarized"},
            "output_config": {"effort": "low"},
        })
    );
}

#[test]
fn thinking_is_told_as_the_family_wants_it() {
    let haiku = "anthropic/claude-haiku-4-5";
    let signed = json!({"type": "thinking", "signature": "s"});
    let tool_turn = |model: &str, first: Option<AssistantBlock>| {
        let blocks = first.into_iter().chain([call("c1")]).collect();
        vec![user("hi"), assistant(model, blocks), answer("c1", false)]
    };
    let budget = json!({"type": "enabled", "budget_tokens": 16_384});
    let cases = [
        ("a budget", haiku, Some("medium"), vec![user("hi")], budget.clone()),
        ("off", haiku, Some("off"), vec![user("hi")], Value::Null),
        ("off is the default", haiku, None, vec![user("hi")], Value::Null),
        (
            "goes on with a signed thought",
            haiku,
            Some("medium"),
            tool_turn(haiku, Some(thought("a", signed.clone()))),
            budget.clone(),
        ),
        ("goes on without one", haiku, Some("medium"), tool_turn(haiku, None), Value::Null),
        (
            "goes on with another model's",
            haiku,
            Some("medium"),
            tool_turn("anthropic/other", Some(thought("a", signed))),
            Value::Null,
        ),
        ("an unlisted model", "anthropic/claude-next", Some("high"), vec![user("hi")], Value::Null),
    ];
    for (name, model, effort, messages, expected) in cases {
        assert_eq!(written(model, effort, messages)["thinking"], expected, "{name}");
    }
}

#[test]
fn thoughts_of_another_model_or_without_signature_stay_behind() {
    let blocks = vec![
        AssistantBlock::Reasoning { text: "unsigned".to_owned(), replay: None },
        AssistantBlock::Text { text: "done".to_owned() },
    ];
    let body = written(
        "anthropic/claude-sonnet-5",
        None,
        vec![user("a"), assistant("deepseek/x", blocks), user("b")],
    );
    assert_eq!(body["messages"][1]["content"], json!([{"type": "text", "text": "done"}]));
    assert_eq!(body["max_tokens"], json!(128_000));
}
