//! What repair does to broken histories, written as one line an entry.

use super::*;
use protocol::id::{CallId, MessageId};
use protocol::message::{MessageSource, UserMessage};

fn user(text: &str) -> HistoryMessage {
    HistoryMessage::User(UserMessage {
        id: MessageId::new("m"),
        content: vec![ContentBlock::text(text)],
        source: MessageSource::User,
    })
}

fn assistant(blocks: Vec<AssistantBlock>) -> HistoryMessage {
    let model = ModelRef { provider: "acme".to_owned(), model: "one".to_owned() };
    HistoryMessage::Assistant(AssistantMessage { id: MessageId::new("m"), blocks, model })
}

fn text(text: &str) -> AssistantBlock {
    AssistantBlock::Text { text: text.to_owned() }
}

fn call(id: &str, provider_id: &str, name: &str, arguments: &str) -> AssistantBlock {
    AssistantBlock::ToolCall(RequestedCall {
        id: CallId::new(id),
        provider_id: provider_id.to_owned(),
        name: name.to_owned(),
        arguments: arguments.to_owned(),
    })
}

fn answer(id: &str, text: &str) -> HistoryMessage {
    HistoryMessage::ToolResult(ToolResultMessage {
        call_id: CallId::new(id),
        content: vec![ContentBlock::text(text)],
        is_error: false,
    })
}

/// One line an entry: `user a + b`, `assistant hi | name#id(arguments) -> id! result`.
fn shown(messages: &[HistoryMessage]) -> Vec<String> {
    let blocks = |blocks: &[Cow<'_, ContentBlock>]| {
        blocks.iter().map(|block| block.as_text().unwrap_or("?")).collect::<Vec<_>>().join(" + ")
    };
    repair(messages)
        .iter()
        .map(|entry| match entry {
            Entry::User(content) => format!("user {}", blocks(content)),
            Entry::Assistant(exchange) => {
                let parts = exchange.parts.iter().map(|part| match part {
                    Part::Text(text) => (*text).to_owned(),
                    Part::Reasoning { text, .. } => format!("({text})"),
                    Part::Call(call) => format!("{}#{}{}", call.name, call.wire_id, call.arguments),
                });
                let results = exchange.results.iter().map(|result| {
                    let mark = if result.is_error { "!" } else { "" };
                    format!(" -> {}{mark} {}", result.wire_id, blocks(&result.content))
                });
                format!("assistant {}{}", parts.collect::<Vec<_>>().join(" | "), results.collect::<String>())
            }
        })
        .collect()
}

#[test]
fn each_call_has_one_result_directly_behind_it() {
    let cases: Vec<(&str, Vec<HistoryMessage>, Vec<&str>)> = vec![
        (
            "a call that was interrupted is closed",
            vec![user("a"), assistant(vec![call("1", "p1", "read", "{}")]), user("b")],
            vec![
                "user a",
                "assistant read#p1{} -> p1! Error: interrupted before a result was recorded; whether it took effect is unknown",
                "user b",
            ],
        ),
        (
            "a result without its call is dropped",
            vec![user("a"), answer("9", "lost"), assistant(vec![text("hi")]), user("b")],
            vec!["user a", "assistant hi", "user b"],
        ),
        (
            "a result behind other messages moves to its call",
            vec![
                user("a"),
                assistant(vec![call("1", "p1", "read", "{}"), call("2", "p2", "grep", "{}")]),
                answer("2", "two"),
                user("steer"),
                answer("1", "one"),
            ],
            vec!["user a", "assistant read#p1{} | grep#p2{} -> p1 one -> p2 two", "user steer"],
        ),
        (
            "a second result is dropped",
            vec![
                user("a"),
                assistant(vec![call("1", "p1", "read", "{}")]),
                answer("1", "one"),
                answer("1", "again"),
            ],
            vec!["user a", "assistant read#p1{} -> p1 one"],
        ),
        (
            "a history that was cut at the front starts in the user role",
            vec![answer("0", "lost"), assistant(vec![call("1", "p1", "read", "{}")]), answer("1", "one")],
            vec![
                "user (The earlier part of this conversation was left out.)",
                "assistant read#p1{} -> p1 one",
            ],
        ),
        (
            "an empty result says so",
            vec![user("a"), assistant(vec![call("1", "p1", "bash", "")]), answer("1", "")],
            vec!["user a", "assistant bash#p1{} -> p1 (no output)"],
        ),
    ];
    for (name, messages, expected) in cases {
        assert_eq!(shown(&messages), expected, "{name}");
    }
}

#[test]
fn ids_and_names_fit_every_provider_and_stay_unique() {
    let messages = vec![
        user("a"),
        assistant(vec![call("c1", "call_0", "read", "{}"), call("c2", "", "mcp.weird name", "{}")]),
        answer("c1", "one"),
        answer("c2", "two"),
        assistant(vec![call("c3", "call_0", "read", "{}"), call("c:4", "bad id!", "", "{}")]),
        answer("c3", "three"),
        answer("c:4", "four"),
    ];
    assert_eq!(
        shown(&messages),
        [
            "user a",
            "assistant read#call_0{} | mcp_weird_name#call_c2{} -> call_0 one -> call_c2 two",
            "assistant read#call_0-2{} | unnamed#call_c_4{} -> call_0-2 three -> call_c_4 four",
        ]
    );
}

#[test]
fn only_json_objects_go_back_as_arguments() {
    let cases = [
        (r#"{"a":1}"#, r#"{"a":1}"#, ""),
        ("  ", "{}", ""),
        (
            r#"{"path": "a"#,
            "{}",
            r#"(The arguments of this call were no valid JSON and are shown above as {}. They were: {"path": "a) + "#,
        ),
        (
            "[1]",
            "{}",
            "(The arguments of this call were no JSON object and are shown above as {}. They were: [1]) + ",
        ),
        (
            r#"{"a":"\ud800"}"#,
            "{}",
            r#"(The arguments of this call were no valid JSON and are shown above as {}. They were: {"a":"\ud800"}) + "#,
        ),
    ];
    for (raw, sent, complaint) in cases {
        let messages = vec![user("a"), assistant(vec![call("1", "p1", "t", raw)]), answer("1", "r")];
        assert_eq!(shown(&messages)[1], format!("assistant t#p1{sent} -> p1 {complaint}r"));
    }
}

#[test]
fn nothing_empty_is_sent() {
    let reasoning = AssistantBlock::Reasoning { text: "hm".to_owned(), replay: None };
    let cases: Vec<(Vec<HistoryMessage>, Vec<&str>)> = vec![
        (vec![user("a"), user(" \n"), user("b")], vec!["user a + b"]),
        (vec![user("a"), assistant(vec![text(" ")]), user("b")], vec!["user a + b"]),
        (vec![user("a"), assistant(vec![reasoning.clone()]), user("b")], vec!["user a + b"]),
        (
            vec![user("a"), assistant(vec![reasoning, text("half")])],
            vec!["user a", "assistant (hm) | half", "user Go on where you stopped."],
        ),
        (vec![], vec!["user (The earlier part of this conversation was left out.)"]),
    ];
    for (messages, expected) in cases {
        assert_eq!(shown(&messages), expected);
    }
}

#[test]
fn the_start_of_a_conversation_keeps_its_form_as_it_grows() {
    let messages = vec![
        user("a"),
        assistant(vec![call("1", "x", "t", "{}")]),
        answer("1", "r"),
        assistant(vec![call("2", "x", "t", "{}")]),
        answer("2", "r"),
        assistant(vec![text("done")]),
        user("b"),
    ];
    let whole = shown(&messages);
    for end in [3, 5, 7] {
        let part = shown(&messages[..end]);
        assert_eq!(part[..], whole[..part.len()]);
    }
}
