//! Streams of Messages answers, event by event.

use super::*;

fn decoded(events: &[&str]) -> (Vec<ModelChunk>, Option<ModelError>) {
    let wording = Wording { provider: "anthropic".to_owned(), secret: None, key_remedy: String::new() };
    let mut decoder = MessageDecoder::new(wording);
    let mut chunks = VecDeque::new();
    for data in events {
        match decoder.event(&SseEvent { name: String::new(), data: (*data).to_owned() }, &mut chunks) {
            Ok(_) => {}
            Err(error) => return (chunks.into(), Some(error)),
        }
    }
    (chunks.into(), None)
}

fn call(index: usize, id: &str, name: &str, arguments: &str) -> ModelChunk {
    ModelChunk::ToolCall { index, id: id.to_owned(), name: name.to_owned(), arguments: arguments.to_owned() }
}

#[test]
fn thoughts_text_calls_and_usage() {
    let events = [
        r#"{"type":"message_start","message":{"usage":{"input_tokens":10,"output_tokens":1,"cache_read_input_tokens":5,"cache_creation_input_tokens":3}}}"#,
        r#"{"type":"ping"}"#,
        r#"{"type":"content_block_start","index":0,"content_block":{"type":"thinking","thinking":"","signature":""}}"#,
        r#"{"type":"content_block_delta","index":0,"delta":{"type":"thinking_delta","thinking":"hm"}}"#,
        r#"{"type":"content_block_delta","index":0,"delta":{"type":"signature_delta","signature":"sig"}}"#,
        r#"{"type":"content_block_stop","index":0}"#,
        r#"{"type":"content_block_start","index":1,"content_block":{"type":"redacted_thinking","data":"xx"}}"#,
        r#"{"type":"content_block_stop","index":1}"#,
        r#"{"type":"content_block_start","index":2,"content_block":{"type":"text","text":""}}"#,
        r#"{"type":"content_block_delta","index":2,"delta":{"type":"text_delta","text":"Hi"}}"#,
        r#"{"type":"content_block_stop","index":2}"#,
        r#"{"type":"content_block_start","index":3,"content_block":{"type":"tool_use","id":"t1","name":"read","input":{}}}"#,
        r#"{"type":"content_block_delta","index":3,"delta":{"type":"input_json_delta","partial_json":""}}"#,
        r#"{"type":"content_block_delta","index":3,"delta":{"type":"input_json_delta","partial_json":"{\"a\":"}}"#,
        r#"{"type":"content_block_delta","index":3,"delta":{"type":"input_json_delta","partial_json":"1}"}}"#,
        r#"{"type":"content_block_stop","index":3}"#,
        r#"{"type":"content_block_start","index":4,"content_block":{"type":"tool_use","id":"t2","name":"grep","input":{"q":1}}}"#,
        r#"{"type":"content_block_stop","index":4}"#,
        r#"{"type":"something_new","index":4}"#,
        r#"{"type":"message_delta","delta":{"stop_reason":"tool_use"},"usage":{"output_tokens":42}}"#,
        r#"{"type":"message_stop"}"#,
    ];
    let usage = Usage {
        input_tokens: 10,
        output_tokens: 42,
        cache_read_tokens: 5,
        cache_write_tokens: 3,
        reasoning_tokens: 0,
    };
    let expected = vec![
        ModelChunk::Reasoning("hm".to_owned()),
        ModelChunk::ReasoningReplay(json!({"type": "thinking", "signature": "sig"})),
        ModelChunk::ReasoningReplay(json!({"type": "redacted_thinking", "data": "xx"})),
        ModelChunk::Text("Hi".to_owned()),
        call(0, "t1", "read", ""),
        call(0, "", "", r#"{"a":"#),
        call(0, "", "", "1}"),
        call(1, "t2", "grep", ""),
        call(1, "", "", r#"{"q":1}"#),
        ModelChunk::Usage(usage),
        ModelChunk::Finish(FinishReason::ToolCalls),
    ];
    assert_eq!(decoded(&events), (expected, None));
}

#[test]
fn reasons_to_stop_are_mapped() {
    let cases = [
        ("end_turn", FinishReason::Stop),
        ("stop_sequence", FinishReason::Stop),
        ("pause_turn", FinishReason::Stop),
        ("max_tokens", FinishReason::MaxTokens),
        ("model_context_window_exceeded", FinishReason::MaxTokens),
        ("refusal", FinishReason::Refusal),
    ];
    for (reason, expected) in cases {
        let stop = format!(r#"{{"type":"message_delta","delta":{{"stop_reason":"{reason}"}}}}"#);
        let text = r#"{"type":"content_block_delta","index":0,"delta":{"type":"text_delta","text":"x"}}"#;
        let (chunks, error) = decoded(&[text, &stop, r#"{"type":"message_stop"}"#]);
        assert_eq!((chunks.last(), error), (Some(&ModelChunk::Finish(expected)), None), "{reason}");
    }
}

#[test]
fn errors_in_the_stream_and_empty_answers_are_reported() {
    let overloaded = r#"{"type":"error","error":{"type":"overloaded_error","message":"Overloaded"}}"#;
    let error = decoded(&[overloaded]).1.unwrap();
    assert_eq!((error.kind, error.status), (ModelErrorKind::Server, Some(529)));
    assert_eq!(error.message, "anthropic failed (HTTP 529): Overloaded.");
    let stop = r#"{"type":"message_delta","delta":{"stop_reason":"end_turn"}}"#;
    let error = decoded(&[stop, r#"{"type":"message_stop"}"#]).1.unwrap();
    assert_eq!(error.kind, ModelErrorKind::EmptyResponse);
}
