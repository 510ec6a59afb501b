//! Cancelling: whatever the turn is doing, it ends `cancelled` within seconds, all closed, and the next prompt works.

use crate::kit::*;
use serde_json::json;
use std::time::{Duration, Instant};

/// The longest a cancel may take.
const BUDGET: Duration = Duration::from_secs(3);

/// A command with children and grandchildren, one of which leaves the group; `ready` appears when all of them run.
const FAMILY: &str = "sleep 300 & (sleep 300 & sleep 300) & setsid sleep 300 & echo ready > ready; sleep 300";

fn bash(command: &str) -> provider_llm::scripted::Reply {
    calls("bash", json!({ "command": command, "description": "Run it" }))
}

/// Cancels, and checks all that must be so after it. T03, T04, T05, T06, V05.
#[track_caller]
fn cancelled(stage: &Stage, pending: Pending) {
    let began = Instant::now();
    stage.cancel();
    assert_eq!(stage.end(pending), "cancelled");
    let took = began.elapsed();
    assert!(took < BUDGET, "cancelling took {took:?}");
    stage.assert_no_process_left();
    let n_requests = stage.model().requests().len();
    stage.model().push(says("Still here."));
    assert_eq!(stage.prompt("are you there?"), "end_turn");
    assert!(stage.said().ends_with("Still here."), "{}", stage.said());
    assert_eq!(stage.model().requests().len(), n_requests + 1);
}

// T04, T05: the model stream is dropped, and the provider sees it.
#[test]
fn a_cancel_during_the_model_stream_ends_the_stream() {
    let gate = Gate::new();
    let stage = scenario().model(says("A long ").hold(&gate).says("story.")).start();
    let pending = stage.send("tell");
    stage.wait_for_update("agent_message_chunk", |_| true);
    cancelled(&stage, pending);
    stage.wait_until("the model's connection to close", || stage.model().n_hang_ups() == 1);
    insta::assert_snapshot!(stage.transcript(), @r"
    > tell
    < A long
    x cancel
    = cancelled
    > are you there?
    < Still here.
    = end_turn
    ");
}

#[test]
fn a_cancel_before_the_first_token_works() {
    let gate = Gate::new();
    let stage = scenario().model(says("").hold(&gate)).start();
    let pending = stage.send("tell");
    assert!(gate.wait_until_reached(DEADLINE));
    cancelled(&stage, pending);
}

// T02: also while a silent model is waited for, and between two tries.
#[test]
fn a_cancel_while_a_retry_is_waited_for_works() {
    let body = json!({ "error": { "message": "busy" } }).to_string();
    let stage = scenario().model(fails(503, body).header("retry-after", "8")).start();
    let pending = stage.send("tell");
    stage.wait_for_update("agent_thought_chunk", |_| true);
    cancelled(&stage, pending);
}

// C04: the whole family goes, whoever runs it.
#[test]
fn a_cancel_ends_a_command_in_the_editor_with_all_its_children() {
    let stage = scenario().model(bash(FAMILY)).start();
    let pending = stage.send("run");
    stage.wait_until("the command to run", || stage.path("ready").exists());
    cancelled(&stage, pending);
    assert!(stage.requests_of_agent().contains(&"terminal/release".to_owned()));
}

#[test]
fn a_cancel_ends_a_command_of_our_own_with_all_its_children() {
    let stage = scenario().client(ClientKind::bare()).model(bash(FAMILY)).start();
    let pending = stage.send("run");
    stage.wait_until("the command to run", || stage.path("ready").exists());
    cancelled(&stage, pending);
}

// C04: a polite signal that is ignored is followed by one that cannot be.
#[test]
fn a_command_that_ignores_signals_is_ended_all_the_same() {
    for client in [ClientKind::full(), ClientKind::bare()] {
        let command = "trap '' TERM INT HUP; echo ready > ready; while :; do sleep 1; done";
        let stage = scenario().client(client).model(bash(command)).start();
        let pending = stage.send("run");
        stage.wait_until("the command to run", || stage.path("ready").exists());
        cancelled(&stage, pending);
    }
}

// T07, P08: no later call of the step runs or is asked for.
#[test]
fn a_cancel_during_a_question_starts_nothing() {
    let stage = scenario()
        .mode("ask")
        .model(
            bash("touch first").calls("bash", json!({ "command": "touch second", "description": "Again" })),
        )
        .user(Decision::Parked)
        .start();
    let pending = stage.send("run");
    stage.wait_for_question();
    cancelled(&stage, pending);
    assert!(!stage.path("first").exists() && !stage.path("second").exists());
    let questions = stage.requests_of_agent();
    assert_eq!(questions.iter().filter(|method| *method == "session/request_permission").count(), 1);
}

// T07: a client that never answers its open question, and then answers it with a yes.
#[test]
fn a_late_yes_to_a_question_of_a_cancelled_turn_starts_nothing() {
    let stage = scenario().mode("ask").model(bash("touch late")).user(Decision::Parked).start();
    let pending = stage.send("run");
    stage.wait_for_question();
    stage.cancel_rudely();
    assert_eq!(stage.end(pending), "cancelled");
    stage.desk().answer_parked(&allow_once());
    stage.model().push(says("Still here."));
    assert_eq!(stage.prompt("next"), "end_turn");
    assert!(!stage.path("late").exists());
}

// P08: a question answered `cancelled` is a stop by the user.
#[test]
fn a_question_that_is_answered_cancelled_ends_the_turn() {
    let stage = scenario()
        .mode("ask")
        .model(
            bash("touch first").calls("bash", json!({ "command": "touch second", "description": "Again" })),
        )
        .user(Decision::Cancelled)
        .start();
    assert_eq!(stage.prompt("run"), "cancelled");
    insta::assert_snapshot!(stage.transcript(), @r#"
    > run
    < call 1 execute pending  touch first  "Run it"
    ? call 1  touch first  allow_once | allow_always | reject_once
    ! cancelled
    < call 1 failed  "```console⏎Error: tool call aborted before dispatch⏎```"  error ABORTED_BEFORE_DISPATCH "tool call aborted before dispatch"
    < call 2 execute pending  touch second  "Again"
    < call 2 failed  "```console⏎Error: tool call aborted before dispatch⏎```"  error ABORTED_BEFORE_DISPATCH "tool call aborted before dispatch"
    = cancelled
    "#);
    assert_eq!(stage.model().requests().len(), 1);
}

// T04: requests that the client never answers.
#[test]
fn a_cancel_while_the_editor_does_not_answer_works() {
    for method in ["fs/read_text_file", "fs/write_text_file", "terminal/create", "terminal/wait_for_exit"] {
        let habits = Habits { faults: [(method, Fault::Silent)].into(), ..Habits::default() };
        let reply = match method {
            "fs/read_text_file" => calls("read", json!({ "file_path": "a.txt" })),
            "fs/write_text_file" => calls("write", json!({ "file_path": "new.txt", "content": "x" })),
            _ => bash("sleep 300"),
        };
        let stage = scenario()
            .file("a.txt", "x\n")
            .habits(habits)
            .model(reply)
            // The terminal of a create that is never answered cannot be released.
            .spare_rule("each terminal is released")
            .start();
        let pending = stage.send("go");
        stage.wait_for_request(method);
        cancelled(&stage, pending);
    }
}

// T09: with no turn a cancel does nothing, also not to the next one.
#[test]
fn a_cancel_without_a_turn_is_nothing() {
    let stage = scenario().model(says("One.")).model(says("Two.")).start();
    stage.cancel();
    assert_eq!(stage.prompt("first"), "end_turn");
    stage.cancel();
    assert_eq!(stage.prompt("second"), "end_turn");
}

#[test]
fn a_cancel_of_an_unknown_session_is_nothing() {
    let stage = scenario().model(says("One.")).start();
    stage.notify("session/cancel", json!({ "sessionId": "nobody" }));
    assert_eq!(stage.prompt("first"), "end_turn");
}

// T08: waiting prompts are cancelled too, and each is answered.
#[test]
fn a_cancel_also_answers_the_prompts_that_wait() {
    let gate = Gate::new();
    let stage = scenario().model(says("One.").hold(&gate)).start();
    let first = stage.send("first");
    assert!(gate.wait_until_reached(DEADLINE));
    let second = stage.send("second");
    // Known to be taken once a later request is answered.
    stage.request("session/set_mode", json!({ "sessionId": stage.session(), "modeId": "ask" })).unwrap();
    stage.cancel();
    assert_eq!([stage.end(first), stage.end(second)], ["cancelled"; 2]);
    assert_eq!(stage.model().requests().len(), 1);
}

// `$/cancel_request` ends one prompt alone, with the stop reason, never with an error.
#[test]
fn a_withdrawn_prompt_ends_alone() {
    let gate = Gate::new();
    let stage = scenario().model(says("One.").hold(&gate)).model(says("Three.")).start();
    let prompt = |id: &str, text: &str| {
        let params = json!({ "sessionId": stage.session(), "prompt": [{ "type": "text", "text": text }] });
        json!({ "jsonrpc": "2.0", "id": id, "method": "session/prompt", "params": params }).to_string()
    };
    stage.send_line(&prompt("p1", "first"));
    assert!(gate.wait_until_reached(DEADLINE));
    stage.send_line(&prompt("p2", "second"));
    stage.send_line(&prompt("p3", "third"));
    stage.notify("$/cancel_request", json!({ "requestId": "p2" }));
    stage.request("session/set_mode", json!({ "sessionId": stage.session(), "modeId": "ask" })).unwrap();
    gate.release();
    let stop = |id: &'static str| {
        stage.wait_for("an answer", |lines| {
            let mut answers =
                lines.iter().filter(|line| line.from == Side::Agent && line.message["id"] == *id);
            answers.next().map(|line| line.message["result"]["stopReason"].clone())
        })
    };
    assert_eq!(
        [stop("p1"), stop("p2"), stop("p3")],
        ["end_turn", "cancelled", "end_turn"].map(|stop| json!(stop))
    );
}

// T05: a stop and a new prompt in one breath: the old turn is over before the new one starts.
#[test]
fn a_prompt_right_behind_a_cancel_runs_after_the_old_turn() {
    let gate = Gate::new();
    let stage = scenario().model(says("Old.").hold(&gate)).model(says("New.")).start();
    let old = stage.send("old");
    assert!(gate.wait_until_reached(DEADLINE));
    stage.cancel();
    let new = stage.send("new");
    assert_eq!([stage.end(old), stage.end(new)], ["cancelled", "end_turn"]);
    let answers = stage.transcript();
    assert!(answers.find("= cancelled") < answers.find("< New."), "{answers}");
}

// S12: what a stop left open is closed in what the provider is sent next.
#[test]
fn the_history_after_a_cancel_is_one_a_provider_takes() {
    let stage = scenario().model(bash("echo ready > ready; sleep 300")).model(says("Fine.")).start();
    let pending = stage.send("run");
    stage.wait_until("the command to run", || stage.path("ready").exists());
    stage.cancel();
    assert_eq!(stage.end(pending), "cancelled");
    assert_eq!(stage.prompt("what now?"), "end_turn");
    let requests = stage.model().requests();
    let messages = requests.last().unwrap()["messages"].as_array().unwrap();
    let call = messages.iter().position(|message| message["tool_calls"].is_array()).unwrap();
    assert_eq!(messages[call + 1]["role"], "tool");
    assert_eq!(messages[call + 1]["tool_call_id"], messages[call]["tool_calls"][0]["id"]);
}
