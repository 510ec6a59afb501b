//! Reminders on the built program: given when nothing runs, kept through a kill, given once when overdue.

use crate::kit::*;
use serde_json::json;

fn on() -> Scenario {
    scenario().config("[tools]\nenable = [\"schedule\"]\n")
}

#[test]
fn a_reminder_opens_a_turn_of_its_own_when_it_is_due() {
    let run = on()
        .model(calls("schedule_create", json!({ "prompt": "Look at the build", "after_seconds": 1 })))
        .model(says("I will."))
        .model(says("You wanted to look at the build."))
        .prompt("remind me");
    run.wait_for_update("agent_message_chunk", |update| {
        update["content"]["text"] == "You wanted to look at the build."
    });
    let texts = run.user_texts_for_model();
    assert!(
        texts.iter().any(|text| text.contains("reminder_prompt_json: \"Look at the build\"")),
        "{texts:?}"
    );
}

#[test]
fn a_reminder_that_a_killed_process_missed_comes_once_when_the_session_is_loaded() {
    let mut run = on()
        .model(calls("schedule_create", json!({ "prompt": "Look", "after_seconds": 2 })))
        .model(says("I will."))
        .model(says("Look now."))
        .model(calls("schedule_list", json!({})))
        .model(says("None."))
        .prompt("remind me");
    run.kill();
    let made = std::time::Instant::now();
    run.wait_until("the reminder to be overdue", || made.elapsed().as_millis() > 2100);
    run.restart();
    run.about_session("session/load").unwrap();
    run.wait_for_update("agent_message_chunk", |update| update["content"]["text"] == "Look now.");
    assert_eq!(run.prompt("what is left?"), "end_turn");
    assert_eq!(run.results_for_model().last().map(String::as_str), Some("[]"));
}
