//! The model's side of a turn: what goes wrong there, and what the user and the next request see of it.

use crate::kit::*;
use serde_json::{Value, json};
use std::time::{Duration, Instant};

fn error_body(message: &str) -> String {
    json!({ "error": { "message": message, "type": "some_error", "code": "some_code" } }).to_string()
}

/// Ends a prompt and gives the error's code and all of its words.
fn error_of(run: &Stage, pending: Pending) -> (i32, String) {
    let error = run.answer(pending).expect_err("the prompt is answered with an error");
    let details = error.data.map(|data| data.to_string()).unwrap_or_default();
    (i32::from(error.code), format!("{} {details}", error.message))
}

// T02: silence is noticed, keep-alive bytes do not count, and the request is tried again.
#[test]
fn a_model_that_goes_silent_is_asked_again() {
    for fault in [ModelFault::Silence, ModelFault::KeepAliveOnly] {
        let run = scenario()
            .config("[model]\nidle_timeout = \"1s\"\n")
            .model(says("").fault(fault.clone()))
            .model(says("Back."))
            .start();
        assert_eq!(run.prompt("hi"), "end_turn", "{fault:?}");
        assert_eq!(run.said(), "Back.", "{fault:?}");
        assert_eq!(run.model().requests().len(), 2, "{fault:?}");
    }
}

// T02, A05: after visible text the turn goes on from there; nothing is shown twice.
#[test]
fn a_stream_that_breaks_in_the_middle_goes_on_and_repeats_nothing() {
    let faults = [
        ModelFault::CutInEvent,
        ModelFault::CutInCharacter,
        ModelFault::NoFinish,
        ModelFault::ErrorEvent("overloaded".to_owned()),
        ModelFault::Silence,
    ];
    for fault in faults {
        let run = scenario()
            .config("[model]\nidle_timeout = \"1s\"\n")
            .model(says("Once upon ").fault(fault.clone()))
            .model(says("a time."))
            .start();
        assert_eq!(run.prompt("tell"), "end_turn", "{fault:?}");
        assert_eq!(run.said(), "Once upon a time.", "{fault:?}");
        let requests = run.model().requests();
        assert_eq!(requests.len(), 2, "{fault:?}");
        assert!(requests[1].to_string().contains("Once upon "), "{fault:?}");
    }
}

#[test]
fn a_stream_without_its_closing_event_is_an_answer() {
    let began = Instant::now();
    let run = scenario().model(says("All said.").fault(ModelFault::NoClosingEvent)).prompt("hi");
    assert_eq!(run.said(), "All said.");
    assert!(began.elapsed() < Duration::from_secs(10));
}

// T12: limits are waited for when the provider says how long, and the user sees why it takes time.
#[test]
fn a_limit_is_waited_for_and_told() {
    let run = scenario()
        .model(fails(429, error_body("You are too fast")).header("retry-after", "1"))
        .model(fails(503, error_body("overloaded")))
        .model(says("Here."))
        .prompt("hi");
    let thoughts = run.updates("agent_thought_chunk");
    let told: String = thoughts.iter().filter_map(|thought| thought["content"]["text"].as_str()).collect();
    assert!(told.contains("You are too fast") && told.contains("overloaded"), "{told}");
    assert_eq!(run.said(), "Here.");
}

// T12: what cannot be mended names provider, status and reason; the next prompt starts clean.
#[test]
fn a_refusal_of_the_provider_is_told_in_its_words() {
    for (status, message, code) in [
        (400, "This model does not exist", -32603),
        (402, "Your credit is used up", -32603),
        (401, "Incorrect API key provided", -32000),
        (429, "Come back tomorrow", -32603),
    ] {
        let reply = fails(status, error_body(message)).header("retry-after", "3600");
        let run = scenario().model(reply).model(says("Better.")).start();
        let pending = run.send("hi");
        let (got, words) = error_of(&run, pending);
        assert_eq!(got, code, "{words}");
        assert!(words.contains(message) && words.contains("openai"), "{words}");
        assert!(status == 401 || words.contains(&status.to_string()), "{words}");
        assert_eq!(run.prompt("again"), "end_turn");
        assert_eq!(run.said(), "Better.");
        assert!(run.user_texts_for_model().iter().any(|text| text.contains("again")));
    }
}

#[test]
fn an_endpoint_that_is_not_there_is_named() {
    let run = scenario().env("OPENAI_BASE_URL", "http://127.0.0.1:9/v1").start();
    // Retried a few times: only that it says so while it does is waited for.
    let pending = run.send("hi");
    let told = run.wait_for_update("agent_thought_chunk", |_| true).to_string();
    assert!(told.contains("127.0.0.1:9") || told.to_lowercase().contains("connect"), "{told}");
    run.cancel();
    assert_eq!(run.end(pending), "cancelled");
}

#[test]
fn how_the_model_ended_is_how_the_turn_ends() {
    for (reason, stop) in [("length", "max_tokens"), ("content_filter", "refusal"), ("stop", "end_turn")] {
        let run = scenario().model(says("So far.").finish(reason)).start();
        assert_eq!(run.prompt("hi"), stop);
    }
}

// A01: a call whose stream did not finish is never run.
#[test]
fn a_call_that_was_cut_off_is_not_run() {
    for fault in [ModelFault::CutInEvent, ModelFault::NoFinish] {
        let run = scenario()
            .model(
                says("Writing.")
                    .calls_raw("c1", "write", &["{\"file_path\": \"a.txt\", ", "\"content\": \"x\"}"])
                    .fault(fault.clone()),
            )
            .model(says("Again?"))
            .start();
        assert_eq!(run.prompt("go"), "end_turn");
        assert!(!run.path("a.txt").exists(), "{fault:?}");
    }
}

// A01, A02, A03: arguments that are none are a plain error of that call, only JSON goes back, siblings run.
#[test]
fn broken_arguments_cost_their_call_only() {
    for raw in ["{\"file_path\": \"a.t", "[]", "null", "\"text\"", "{\"file_path\": 7}", "{}", ""] {
        let run = scenario()
            .model(
                says("Two.")
                    .calls_raw("c1", "read", &[raw])
                    .calls("write", json!({ "file_path": "b.txt", "content": "x\n" })),
            )
            .model(says("Done."))
            .start();
        assert_eq!(run.prompt("go"), "end_turn", "{raw:?}");
        run.assert_file("b.txt", "x\n");
        let failed =
            run.updates("tool_call_update").iter().filter(|update| update["status"] == "failed").count();
        assert_eq!(failed, 1, "{raw:?}");
        let requests = run.model().requests();
        for message in requests[1]["messages"].as_array().unwrap() {
            for call in message["tool_calls"].as_array().into_iter().flatten() {
                let arguments = call["function"]["arguments"].as_str().unwrap();
                assert!(
                    serde_json::from_str::<Value>(arguments).unwrap().is_object(),
                    "{raw:?}: {arguments:?}"
                );
            }
        }
    }
}

#[test]
fn a_tool_that_does_not_exist_is_named() {
    let run = scenario().model(calls("destroy_everything", json!({}))).model(says("Sorry.")).prompt("go");
    assert!(run.results_for_model()[0].contains("destroy_everything"), "{:?}", run.results_for_model());
    insta::assert_snapshot!(run.transcript(), @r#"
    > go
    < call 1 other pending  destroy_everything
    < call 1 failed  "Error: there is no tool named \"destroy_everything\" here now"  error UNKNOWN_TOOL "there is no tool named \"destroy_everything\" here now"
    < Sorry.
    = end_turn
    "#);
}

// A04: ids that repeat or are missing: our own on the wire, and each result with its call.
#[test]
fn ids_that_repeat_or_are_missing_do_no_harm() {
    for id in ["same", ""] {
        let run = scenario()
            .file("a.txt", "alpha\n")
            .file("b.txt", "beta\n")
            .model(says("Both.").calls_raw(id, "read", &["{\"file_path\": \"a.txt\"}"]).calls_raw(
                id,
                "read",
                &["{\"file_path\": \"b.txt\"}"],
            ))
            .model(says("Again.").calls_raw(id, "read", &["{\"file_path\": \"b.txt\"}"]))
            .model(says("Done."))
            .prompt("go");
        let requests = run.model().requests();
        let messages = requests.last().unwrap()["messages"].as_array().unwrap();
        let calls: Vec<&Value> = messages
            .iter()
            .flat_map(|message| message["tool_calls"].as_array().into_iter().flatten())
            .collect();
        let mut ids: Vec<&str> = calls.iter().map(|call| call["id"].as_str().unwrap()).collect();
        for call in &calls {
            let result = messages.iter().find(|message| message["tool_call_id"] == call["id"]).unwrap();
            let of_a = call["function"]["arguments"].as_str().unwrap().contains("a.txt");
            assert_eq!(result["content"].to_string().contains("alpha"), of_a, "{id:?}");
        }
        ids.sort_unstable();
        ids.dedup();
        assert_eq!(ids.len(), 3, "{id:?}");
        assert!(ids.iter().all(|id| !id.is_empty()));
    }
}

// S14: reasoning goes back to a provider that wants it.
#[test]
fn reasoning_goes_back_in_a_tool_turn() {
    let run = scenario()
        .env("FOLLOWSPOT_MODEL", "deepseek/deepseek-reasoner")
        .env("DEEPSEEK_API_KEY", crate::kit::conformance::KEY)
        .file("a.txt", "alpha\n")
        .point_provider_at_model("deepseek")
        .model(thinks("I must look.").calls("read", json!({ "file_path": "a.txt" })))
        .model(says("Alpha."))
        .prompt("what is in a.txt?");
    let requests = run.model().requests();
    let messages = requests[1]["messages"].as_array().unwrap();
    let call = messages.iter().find(|message| message["tool_calls"].is_array()).unwrap();
    assert_eq!(call["reasoning_content"], "I must look.");
}

// S14: and with its signature where there is one.
#[test]
fn signed_thinking_goes_back_unchanged() {
    let run = scenario()
        .env("FOLLOWSPOT_MODEL", "anthropic/claude-sonnet-4-5")
        .env("ANTHROPIC_API_KEY", crate::kit::conformance::KEY)
        .file("a.txt", "alpha\n")
        .point_provider_at_model("anthropic")
        .model(thinks("I must look.").calls("read", json!({ "file_path": "a.txt" })))
        .model(says("Alpha."))
        .prompt("what is in a.txt?");
    assert_eq!(run.said(), "Alpha.");
    let received = run.model().received();
    assert!(received[1].path.ends_with("/messages"), "{}", received[1].path);
    let body = received[1].body.to_string();
    assert!(body.contains("scripted-signature") && body.contains("I must look."), "{body}");
    assert!(body.contains("tool_result"), "{body}");
}

#[test]
fn an_answer_that_is_empty_is_asked_for_again() {
    let run = scenario().model(says("")).model(says("Now.")).prompt("hi");
    assert_eq!(run.said(), "Now.");
}

// X09: no key is an answer with -32000 when the provider was chosen, and a key that comes later counts at once.
#[test]
fn a_missing_key_is_told_and_a_later_one_counts_at_once() {
    // A provider at a loopback address needs no key, so this one is where it really is; nothing is sent to it.
    let run = scenario().env("FOLLOWSPOT_MODEL", "anthropic/claude-sonnet-4-5").start();
    let pending = run.send("hi");
    let (code, words) = error_of(&run, pending);
    assert_eq!(code, -32000, "{words}");
    assert!(words.contains("anthropic") && words.contains("followspot login"), "{words}");
    let refused =
        run.request("authenticate", json!({ "methodId": "api-key" })).expect_err("there is no key yet");
    assert_eq!(i32::from(refused.code), -32000);
    run.run_with_input(&["login", "anthropic"], &format!("{}\n", crate::kit::conformance::KEY));
    assert!(run.request("authenticate", json!({ "methodId": "api-key" })).is_ok());
    let mode = std::fs::metadata(run.home().join("credentials.toml")).unwrap();
    assert_eq!(std::os::unix::fs::PermissionsExt::mode(&mode.permissions()) & 0o777, 0o600);
}

// A stop in the middle of a batch, an unfinished call and a long conversation: the model's requests stay whole.
#[test]
fn every_request_pairs_each_call_with_one_result() {
    let run = scenario()
        .file("a.txt", "alpha\n")
        .model(says("One.").calls("read", json!({ "file_path": "a.txt" })).calls("nonsense", json!({})))
        .model(calls("read", json!({ "file_path": "missing.txt" })))
        .model(says("Done."))
        .prompt("go");
    run.model().push(says("Fine."));
    run.prompt("again");
    for request in run.model().requests() {
        let messages = request["messages"].as_array().unwrap().clone();
        let calls =
            messages.iter().flat_map(|message| message["tool_calls"].as_array().cloned().unwrap_or_default());
        let wanted: Vec<Value> = calls.map(|call| call["id"].clone()).collect();
        let results = messages.iter().filter(|message| message["role"] == "tool");
        let given: Vec<Value> = results.map(|message| message["tool_call_id"].clone()).collect();
        assert_eq!(wanted, given);
    }
}

#[test]
fn a_turn_that_reaches_its_limit_of_requests_says_so() {
    let run = scenario()
        .config("[session]\nmax_turn_requests = 2\n")
        .file("a.txt", "alpha\n")
        .model(calls("read", json!({ "file_path": "a.txt" })))
        .model(calls("read", json!({ "file_path": "a.txt" })))
        .start();
    assert_eq!(run.prompt("go"), "max_turn_requests");
}
