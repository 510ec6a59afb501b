//! Goals on the built program: rounds that begin by themselves, what a cancel does, and what a new process makes of them.

use crate::kit::*;
use serde_json::{Value, json};

/// Whether an update is a message that says this.
fn says_so(text: &'static str) -> impl Fn(&Value) -> bool {
    move |update| update["content"]["text"].as_str().is_some_and(|said| said.contains(text))
}

#[test]
fn a_goal_is_driven_round_by_round_until_its_limit_with_no_prompt_open() {
    let run = scenario()
        .model(calls("create_goal", json!({ "objective": "Ship it", "max_goal_rounds": 2 })))
        .model(says("I begin."))
        .model(says("Round one."))
        .model(says("Round two."))
        .prompt("work on it until it is done");
    run.wait_for_update("agent_message_chunk", says_so("Goal, round 1 of 2: Ship it"));
    run.wait_for_update("agent_message_chunk", says_so("Round two."));
    run.wait_for_update("agent_message_chunk", says_so("Goal blocked: all 2 rounds"));
    assert_eq!(run.prompt("/goal"), "end_turn");
    assert!(run.said().contains("round-limit"), "{}", run.said());
    assert_eq!(run.model().requests().len(), 4);
}

#[test]
fn a_cancel_pauses_the_round_and_a_new_process_waits_for_a_resume() {
    let gate = Gate::new();
    let mut run = scenario()
        .model(says("Wait").hold(&gate))
        .model(calls("get_goal", json!({})))
        .model(says("Still there."))
        .start();
    assert_eq!(run.prompt("/goal Ship it"), "end_turn");
    assert!(gate.wait_until_reached(DEADLINE));
    run.cancel();
    run.wait_for_update("agent_message_chunk", says_so("Goal paused"));
    gate.release();
    run.kill();
    run.restart();
    run.about_session("session/load").unwrap();
    assert_eq!(run.prompt("what is the goal?"), "end_turn");
    let results = run.results_for_model();
    assert!(results[0].contains(r#""phase":"paused","roundsStarted":1"#), "{results:?}");
    assert!(results[0].contains(r#""activation":"disarmed""#), "{results:?}");
}
