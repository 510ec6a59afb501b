//! Streams of many servers, event by event.

use super::*;

/// What a list of event bodies gives: chunks in one line each, then the error if there was one.
fn decoded(events: &[&str]) -> Vec<String> {
    let wording = Wording { provider: "acme".to_owned(), secret: None, key_remedy: String::new() };
    let mut decoder = ChatDecoder::new(wording, true);
    let mut chunks = VecDeque::new();
    let mut failure = None;
    for data in events {
        let event = SseEvent { name: String::new(), data: (*data).to_owned() };
        match decoder.event(&event, &mut chunks) {
            Ok(Progress::Complete) => break,
            Ok(_) => {}
            Err(error) => {
                failure = Some(format!("{:?} {}", error.kind, error.message));
                break;
            }
        }
    }
    let shown = chunks.into_iter().map(|chunk| match chunk {
        ModelChunk::Text(text) => format!("text {text}"),
        ModelChunk::Reasoning(text) => format!("reasoning {text}"),
        ModelChunk::ReasoningReplay(value) => format!("replay {value}"),
        ModelChunk::ToolCall { index, id, name, arguments } => {
            format!("call {index} {id} {name} {arguments}")
        }
        ModelChunk::Usage(usage) => format!(
            "usage {} {} {} {} {}",
            usage.input_tokens,
            usage.output_tokens,
            usage.cache_read_tokens,
            usage.cache_write_tokens,
            usage.reasoning_tokens
        ),
        ModelChunk::Finish(reason) => format!("finish {reason:?}"),
    });
    shown.chain(failure).collect()
}

fn delta(delta: &str) -> String {
    format!(r#"{{"choices":[{{"delta":{delta}}}]}}"#)
}

fn finish(reason: &str) -> String {
    format!(r#"{{"choices":[{{"delta":{{}},"finish_reason":"{reason}"}}]}}"#)
}

fn check(name: &str, events: &[String], expected: &[&str]) {
    let events: Vec<&str> = events.iter().map(String::as_str).chain(["[DONE]"]).collect();
    assert_eq!(decoded(&events), expected, "{name}");
}

#[test]
fn text_reasoning_and_usage_in_disjoint_buckets() {
    check(
        "a plain answer",
        &[
            delta(r#"{"role":"assistant","content":null,"reasoning_content":"hm"}"#),
            delta(r#"{"content":"Hel","reasoning_content":null}"#),
            delta(r#"{"content":"lo"}"#),
            finish("stop"),
            r#"{"choices":[],"usage":{"prompt_tokens":100,"completion_tokens":7,"prompt_tokens_details":{"cached_tokens":60},"completion_tokens_details":{"reasoning_tokens":2}}}"#.to_owned(),
        ],
        &["reasoning hm", r#"replay {"field":"reasoning_content"}"#, "text Hel", "text lo", "usage 40 7 60 0 2", "finish Stop"],
    );
    check(
        "the cache count of DeepSeek, usage with every event, a null list of choices",
        &[
            r#"{"choices":[{"delta":{"content":"x"},"finish_reason":null}],"usage":{"prompt_tokens":10,"completion_tokens":1,"prompt_cache_hit_tokens":4}}"#.to_owned(),
            finish("stop"),
            r#"{"choices":null,"usage":{"prompt_tokens":10,"completion_tokens":2,"prompt_cache_hit_tokens":4}}"#.to_owned(),
        ],
        &["text x", "usage 6 2 4 0 0", "finish Stop"],
    );
    check(
        "content in parts",
        &[delta(r#"{"content":[{"type":"text","text":"a"},{"type":"text","text":"b"}]}"#), finish("stop")],
        &["text ab", "finish Stop"],
    );
}

#[test]
fn tool_calls_survive_the_liberties_of_servers() {
    let a = r#"{"tool_calls":[{"index":0,"id":"p1","type":"function","function":{"name":"read","arguments":""}}]}"#;
    let cases: Vec<(&str, Vec<String>, Vec<&str>)> = vec![
        (
            "arguments in pieces, two calls in turn",
            vec![
                delta(a),
                delta(r#"{"tool_calls":[{"index":0,"function":{"arguments":"{\"a\":"}}]}"#),
                delta(r#"{"tool_calls":[{"index":1,"id":"p2","function":{"name":"grep","arguments":"{"}}]}"#),
                delta(
                    r#"{"tool_calls":[{"index":0,"function":{"arguments":"1}"}},{"index":1,"function":{"arguments":"}"}}]}"#,
                ),
                finish("tool_calls"),
            ],
            vec![
                "call 0 p1 read ",
                r#"call 0   {"a":"#,
                "call 1 p2 grep {",
                "call 0   1}",
                "call 1   }",
                "finish ToolCalls",
            ],
        ),
        (
            "no id at all, the name repeated, the arguments as an object, the reason `stop`",
            vec![
                delta(r#"{"tool_calls":[{"index":0,"function":{"name":"read","arguments":null}}]}"#),
                delta(
                    r#"{"tool_calls":[{"index":0,"id":"","function":{"name":"read","arguments":{"a":1}}}]}"#,
                ),
                finish("stop"),
            ],
            vec!["call 0 call_0 read ", r#"call 0   {"a":1}"#, "finish ToolCalls"],
        ),
        (
            "all calls under index 0, told apart by id and name",
            vec![
                delta(r#"{"tool_calls":[{"index":0,"id":"x","function":{"name":"read","arguments":"{}"}}]}"#),
                delta(r#"{"tool_calls":[{"index":0,"id":"y","function":{"name":"grep","arguments":"{}"}}]}"#),
                finish("tool_calls"),
            ],
            vec!["call 0 x read {}", "call 1 y grep {}", "finish ToolCalls"],
        ),
        (
            "one id for two calls",
            vec![
                delta(r#"{"tool_calls":[{"index":0,"id":"x","function":{"name":"read","arguments":"{}"}}]}"#),
                delta(r#"{"tool_calls":[{"index":1,"id":"x","function":{"name":"grep","arguments":"{}"}}]}"#),
                finish("tool_calls"),
            ],
            vec!["call 0 x read {}", "call 1 call_1 grep {}", "finish ToolCalls"],
        ),
        (
            "no index, the id with every piece",
            vec![
                delta(r#"{"tool_calls":[{"id":"x","function":{"name":"read","arguments":"{"}}]}"#),
                delta(r#"{"tool_calls":[{"id":"x","function":{"arguments":"}"}}]}"#),
                delta(r#"{"tool_calls":[{"id":"y","function":{"name":"read","arguments":"{}"}}]}"#),
                finish("tool_calls"),
            ],
            vec!["call 0 x read {", "call 0   }", "call 1 y read {}", "finish ToolCalls"],
        ),
        (
            "neither index nor id",
            vec![
                delta(r#"{"tool_calls":[{"function":{"name":"read","arguments":"{}"}}]}"#),
                delta(r#"{"tool_calls":[{"function":{"name":"read","arguments":"{}"}}]}"#),
                finish("tool_calls"),
            ],
            vec!["call 0 call_0 read {}", "call 1 call_1 read {}", "finish ToolCalls"],
        ),
    ];
    for (name, events, expected) in cases {
        check(name, &events, &expected);
    }
}

#[test]
fn reasons_to_stop_are_mapped() {
    let text = || delta(r#"{"content":"x"}"#);
    let cases: Vec<(Vec<String>, Vec<&str>)> = vec![
        (vec![text(), finish("length")], vec!["text x", "finish MaxTokens"]),
        (vec![finish("length")], vec!["finish MaxTokens"]),
        (vec![text(), finish("content_filter")], vec!["text x", "finish Refusal"]),
        (vec![delta(r#"{"refusal":"I cannot."}"#), finish("stop")], vec!["text I cannot.", "finish Refusal"]),
        (vec![text(), finish("eos_token")], vec!["text x", "finish Stop"]),
        (vec![text()], vec!["text x", "finish Stop"]),
        (vec![finish("stop")], vec!["EmptyResponse acme gave an empty answer."]),
        (
            vec![delta(r#"{"reasoning":"hm"}"#), finish("stop")],
            vec!["reasoning hm", "EmptyResponse acme gave an empty answer."],
        ),
        (
            vec![text(), finish("insufficient_system_resource")],
            vec!["text x", "Server acme stopped in the middle of its answer (insufficient_system_resource)."],
        ),
        (
            vec![text(), r#"{"error":{"code":502,"message":"Provider disconnected"}}"#.to_owned()],
            vec!["text x", "Server acme failed (HTTP 502): Provider disconnected."],
        ),
        (
            vec!["{broken".to_owned()],
            vec![
                "Transport acme sent an event that cannot be read: key must be a string at line 1 column 2.",
            ],
        ),
    ];
    for (events, expected) in cases {
        check("", &events, &expected);
    }
}

#[test]
fn details_of_reasoning_are_joined_and_replayed() {
    check(
        "OpenRouter",
        &[
            delta(
                r#"{"reasoning":"a","reasoning_details":[{"type":"reasoning.text","index":0,"text":"a","signature":null}]}"#,
            ),
            delta(
                r#"{"reasoning":"b","reasoning_details":[{"type":"reasoning.text","index":0,"text":"b","signature":"s"}]}"#,
            ),
            delta(r#"{"reasoning_details":[{"type":"reasoning.encrypted","index":1,"data":"xx"}]}"#),
            delta(r#"{"content":"done"}"#),
            finish("stop"),
        ],
        &[
            "reasoning a",
            "reasoning b",
            r#"replay {"reasoning_details":[{"type":"reasoning.text","index":0,"text":"ab","signature":"s"},{"type":"reasoning.encrypted","index":1,"data":"xx"}]}"#,
            "text done",
            "finish Stop",
        ],
    );
}

#[test]
fn a_whole_answer_is_taken_too() {
    let whole = r#"{"choices":[{"message":{"role":"assistant","content":"hi"},"finish_reason":"stop"}],"usage":{"prompt_tokens":3,"completion_tokens":1}}"#;
    assert_eq!(decoded(&[whole]), ["text hi", "usage 3 1 0 0 0", "finish Stop"]);
}
