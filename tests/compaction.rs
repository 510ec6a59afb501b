//! Compaction in the built program: what the model reads changes, what the user sees does not (S02, S13).

use crate::kit::*;
use provider_llm::scripted::Reply;
use serde_json::{Value, json};

/// A window in which a few thousand words are much.
const SMALL_WINDOW: &str = "[providers.openai]\ncontext_window = 30000\n";

/// More words than a small window leaves room for twice.
fn long_text() -> String {
    "word ".repeat(2000)
}

/// A turn with a call in it, so that a summary must not part it from its result.
fn talk() -> Scenario {
    scenario()
        .client(ClientKind::bare())
        .file("a.txt", "alpha\n")
        .model(says("Looking.").calls("read", json!({ "file_path": "a.txt" })))
        .model(says(long_text()))
}

/// Types of the logged events, in order.
fn logged(stage: &Stage) -> Vec<String> {
    let exported = stage.run(&["sessions", "export", stage.session()]);
    let records = exported.lines().filter_map(|line| serde_json::from_str::<Value>(line).ok());
    records.filter_map(|record| record["type"].as_str().map(str::to_owned)).collect()
}

/// S02: the conversation is told again whole, and the model goes on from the summary.
#[test]
fn compact_shortens_what_the_model_reads_and_nothing_of_what_the_user_sees() {
    let long = long_text();
    let stage = scenario().model(says(&long)).model(says("Summary of it.")).model(says("Going on.")).start();
    stage.prompt("first question");
    assert_eq!(stage.prompt("/compact the names"), "end_turn");
    assert!(stage.said().contains("replaced by a summary"), "{}", stage.said());
    stage.prompt("second question");
    let requests = stage.model().requests();
    assert_eq!(requests.len(), 3);
    let asked = requests[1].to_string();
    assert!(asked.contains("the names") && asked.contains(&long), "{asked}");
    let last = requests[2].to_string();
    assert!(last.contains("Summary of it.") && last.contains("second question"), "{last}");
    assert!(!last.contains(&long), "{last}");
}

/// S02, S13: a process that did not see it tells everything that was seen, and asks the model from the summary on.
#[test]
fn a_load_after_compaction_tells_all_that_was_said() {
    let mut stage = talk().model(says("Summary of it.")).model(says("Going on.")).start();
    assert_eq!(stage.prompt("first question"), "end_turn");
    assert_eq!(stage.prompt("/compact"), "end_turn");
    let seen = |stage: &Stage| {
        let calls: Vec<Value> = stage.updates("tool_call").iter().map(|call| call["title"].clone()).collect();
        (stage.said(), calls)
    };
    let before = seen(&stage);
    assert!(before.0.contains(&long_text()) && before.1.len() == 1, "{before:?}");
    stage.restart();
    stage.about_session("session/load").unwrap();
    assert_eq!(seen(&stage), before);
    let prompts = stage.updates("user_message_chunk");
    let prompts: Vec<&Value> = prompts.iter().map(|chunk| &chunk["content"]["text"]).collect();
    assert_eq!(prompts, ["first question", "/compact"]);
    assert_eq!(stage.prompt("second question"), "end_turn");
    let last = stage.model().requests().pop().unwrap().to_string();
    assert!(last.contains("Summary of it.") && !last.contains(&long_text()), "{last}");
}

/// S13, A06: whatever was left out, both formats take what is left.
#[test]
fn after_compaction_the_history_is_valid_for_both_formats() {
    let stage = talk()
        .point_provider_at_model("anthropic")
        .env("ANTHROPIC_API_KEY", crate::kit::conformance::KEY)
        .model(says("Summary of it."))
        .model(says("More.").calls("read", json!({ "file_path": "a.txt" })))
        .model(says("Going on."))
        .model(says("And on."))
        .start();
    stage.prompt("first question");
    stage.prompt("/compact");
    assert_eq!(stage.prompt("second question"), "end_turn");
    let params =
        json!({ "sessionId": stage.session(), "configId": "model", "value": "anthropic/claude-sonnet-4-5" });
    stage.request("session/set_config_option", params).unwrap();
    assert_eq!(stage.prompt("third question"), "end_turn");
    let requests = stage.model().requests();
    assert_eq!(requests.len(), 6);
    for request in &requests {
        assert_eq!(history_faults(request), Vec::<String>::new(), "{request:#}");
    }
    assert!(requests[5]["system"].is_array() || requests[5]["system"].is_string(), "not the other format");
}

/// S13: near the window the turn makes room by itself, once, and its answer comes all the same.
#[test]
fn a_turn_near_the_window_compacts_and_goes_on() {
    let long = long_text().repeat(8);
    let stage = scenario()
        .config(SMALL_WINDOW)
        .model(says(&long).usage(9000, 20_000))
        .model(says("Summary of it."))
        .model(says("Going on.").usage(9000, 10))
        .model(says("Still here."))
        .start();
    assert_eq!(stage.prompt("first question"), "end_turn");
    assert_eq!(stage.prompt("second question"), "end_turn");
    assert_eq!(stage.prompt("third question"), "end_turn");
    let requests = stage.model().requests();
    assert_eq!(requests.len(), 4);
    let second = requests[2].to_string();
    assert!(second.contains("Summary of it.") && second.contains("second question"), "{second}");
    assert!(!second.contains(&long), "{second}");
    let events = logged(&stage);
    assert_eq!(events.iter().filter(|kind| *kind == "compaction/summary").count(), 1, "{events:?}");
}

/// S13: a cancel while the summary is written changes nothing.
#[test]
fn a_cancel_during_compaction_leaves_the_session_as_it_was() {
    let gate = Gate::new();
    let stage = talk().model(says("Half a ").hold(&gate)).model(says("Going on.")).start();
    stage.prompt("first question");
    let pending = stage.send("/compact");
    assert!(gate.wait_until_reached(DEADLINE), "the summary was not asked for");
    stage.cancel();
    assert_eq!(stage.end(pending), "cancelled");
    gate.release();
    assert!(!logged(&stage).iter().any(|kind| kind == "compaction/summary"), "{:?}", logged(&stage));
    assert_eq!(stage.prompt("second question"), "end_turn");
    let last = stage.model().requests().pop().unwrap().to_string();
    assert!(last.contains(&long_text()) && last.contains("second question"), "{last}");
}

/// A model that cannot write the summary leaves all as it is, and the user reads why.
#[test]
fn a_summary_that_fails_changes_nothing_and_is_told() {
    let failed: Reply = fails(400, json!({ "error": { "message": "no summary today" } }).to_string());
    let stage = talk().model(failed).model(says("Going on.")).start();
    stage.prompt("first question");
    assert_eq!(stage.prompt("/compact"), "end_turn");
    assert!(
        stage.said().contains("no summary today") && stage.said().contains("nothing changed"),
        "{}",
        stage.said()
    );
    stage.prompt("second question");
    assert!(stage.model().requests().pop().unwrap().to_string().contains(&long_text()));
}
