//! Background jobs: they outlive their call and their turn, the model is told their end, and nothing outlives the session.

use crate::kit::*;
use provider_llm::scripted::Reply;
use serde_json::json;
use std::time::{Duration, Instant};

fn background(command: &str) -> Reply {
    let arguments = json!({ "command": command, "description": "Run it", "run_in_background": true });
    calls("bash", arguments)
}

/// Each way a command can run.
fn ways() -> [ClientKind; 3] {
    let display = ClientKind { display_terminals: true, ..ClientKind::bare() };
    [ClientKind::full(), display, ClientKind::bare()]
}

#[test]
fn a_job_goes_on_after_its_turn_and_its_end_wakes_the_model() {
    for client in ways() {
        let run = scenario()
            .client(client)
            .spare_rule("each terminal is released before the prompt is answered")
            .spare_rule("nothing of a turn comes after")
            .spare_rule("a terminal is released once")
            .model(background("echo begun; while [ ! -e go ]; do sleep 0.05; done; echo done; exit 3"))
            .model(says("It runs."))
            .model(calls("job_output", json!({ "job_id": "bash-1" })))
            .model(says("It ended."))
            .start();
        assert_eq!(run.prompt("go"), "end_turn");
        assert_eq!(run.results_for_model(), ["started background job bash-1"]);
        let ends = run.updates("tool_call_update");
        assert!(ends.iter().any(|update| update["status"] == "completed"));
        let n_ends = ends.iter().filter(|update| update["status"].is_string()).count();
        run.write("go", "");
        let woken = |update: &serde_json::Value| update["content"]["text"] == "It ended.";
        run.wait_for_update("agent_message_chunk", woken);
        let users = run.user_texts_for_model();
        let notice = users.iter().find(|text| text.contains("Background job bash-1 (bash) has ended"));
        assert!(notice.is_some_and(|text| text.contains("[status: completed, exit code: 3]")), "{users:?}");
        assert_eq!(run.results_for_model()[1], "begun\ndone\n[status: completed, exit code: 3]");
        let first = ends[0]["toolCallId"].clone();
        let later = run.updates("tool_call_update");
        let of_job: Vec<_> = later.iter().filter(|update| update["toolCallId"] == first).collect();
        assert_eq!(of_job.iter().filter(|update| update["status"].is_string()).count(), n_ends);
        let last = of_job.last().unwrap()["content"].to_string();
        assert!(last.contains("bash-1: completed, exit code: 3"), "{last}");
        assert_eq!(run.desk().terminals.n_open(), 0);
        run.assert_no_process_left();
    }
}

#[test]
fn output_goes_on_streaming_into_the_card_after_the_call() {
    let run = scenario()
        .client(ClientKind::bare())
        .spare_rule("nothing of a turn comes after")
        .model(background("while [ ! -e go ]; do sleep 0.05; done; echo later; sleep 60"))
        .model(says("It runs."))
        .prompt("go");
    run.write("go", "");
    let shown =
        run.wait_for_update("tool_call_update", |update| update["content"].to_string().contains("later"));
    assert!(shown["status"].is_null(), "{shown}");
}

#[test]
fn the_end_of_a_job_reaches_the_next_step_of_a_turn_that_runs() {
    let gate = Gate::new();
    let run = scenario()
        .spare_rule("each terminal is released before the prompt is answered")
        .spare_rule("nothing of a turn comes after")
        .spare_rule("a terminal is released once")
        .model(background("while [ ! -e go ]; do sleep 0.05; done"))
        .model(says("Waiting.").hold(&gate).calls("job_list", json!({})))
        .model(says("Seen."))
        .start();
    let pending = run.send("go");
    assert!(gate.wait_until_reached(DEADLINE));
    run.write("go", "");
    run.wait_for_update("tool_call_update", |update| {
        update["content"].to_string().contains("bash-1: completed")
    });
    gate.release();
    assert_eq!(run.end(pending), "end_turn");
    assert!(run.user_texts_for_model().iter().any(|text| text.contains("bash-1 (bash) has ended")));
    assert_eq!(run.model().requests().len(), 3);
}

#[test]
fn a_job_that_was_waited_for_or_killed_is_not_told_again() {
    for client in ways() {
        let run = scenario()
            .client(client)
            .spare_rule("each terminal is released before the prompt is answered")
            .spare_rule("nothing of a turn comes after")
            .spare_rule("a terminal is released once")
            .model(background("echo hi"))
            .model(calls("job_output", json!({ "job_id": "bash-1", "wait": true })))
            .model(background("echo up; sleep 300"))
            .model(calls("job_output", json!({ "job_id": "bash-2", "wait": true, "timeout_ms": 1500 })))
            .model(calls("job_kill", json!({ "job_id": "bash-2" })))
            .model(calls("job_output", json!({ "job_id": "bash-2", "wait": true })))
            .model(says("Done."))
            .prompt("go");
        let results = run.results_for_model();
        assert_eq!(results[1], "hi\n[status: completed, exit code: 0]");
        assert_eq!(results[3], "up\n[status: running]");
        assert_eq!(results[4], "asked background job bash-2 (echo up; sleep 300) to stop");
        assert_eq!(results[5], "(no new output)\n[status: killed, signal: SIGTERM]");
        assert!(!run.user_texts_for_model().iter().any(|text| text.contains("has ended")));
        run.assert_no_process_left();
    }
}

#[test]
fn a_cancel_does_not_end_jobs_and_the_end_of_input_does() {
    for client in ways() {
        let gate = Gate::new();
        let run = scenario()
            .client(client)
            .spare_rule("each terminal is released before the prompt is answered")
            .spare_rule("nothing of a turn comes after")
            .spare_rule("a terminal is released once")
            .model(background("echo ready > ready; (sleep 300 & setsid sleep 300) & sleep 300"))
            .model(says("Wait").hold(&gate))
            .start();
        let pending = run.send("go");
        run.wait_until("the job to run", || run.path("ready").exists());
        assert!(gate.wait_until_reached(DEADLINE));
        run.cancel();
        assert_eq!(run.end(pending), "cancelled");
        run.wait_until("the job to run on", || !run.processes().is_empty());
        let began = Instant::now();
        run.close_stdin();
        assert!(run.exit_status(DEADLINE).is_some());
        assert!(began.elapsed() < Duration::from_secs(4), "{:?}", began.elapsed());
        run.assert_no_process_left();
    }
}

#[test]
fn the_eleventh_job_is_refused() {
    let mut reply = background("sleep 300");
    let arguments = json!({ "command": "sleep 300", "description": "Run it", "run_in_background": true });
    for _ in 0..10 {
        reply = reply.calls("bash", arguments.clone());
    }
    let run = scenario().client(ClientKind::bare()).model(reply).model(says("Enough.")).prompt("go");
    let results = run.results_for_model();
    assert_eq!(results[9], "started background job bash-10");
    assert!(results[10].contains("10 background jobs run already"), "{results:?}");
}

#[test]
fn a_job_that_a_kill_interrupted_is_told_as_interrupted_on_load() {
    let mut run = scenario()
        .client(ClientKind::bare())
        .spare_rule("nothing of a turn comes after")
        .model(background("echo $$ > ready; sleep 300"))
        .model(says("It runs."))
        .start();
    assert_eq!(run.prompt("go"), "end_turn");
    run.wait_until("the command to run", || run.path("ready").exists());
    run.restart();
    run.about_session("session/load").unwrap();
    let last = run.updates("tool_call_update").pop().unwrap()["content"].to_string();
    assert!(last.contains("bash-1: killed, interrupted"), "{last}");
}
