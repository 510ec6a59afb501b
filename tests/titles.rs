//! Titles: the first words at once, the model's own a little later, the user's for good.

use crate::kit::*;
use serde_json::json;

fn titled() -> Scenario {
    scenario().env("FOLLOWSPOT_MODEL_TITLES", "on")
}

fn wait_for_title(stage: &Stage, title: &str) {
    stage.wait_for_update("session_info_update", |update| update["title"] == *title);
}

#[test]
fn the_model_writes_the_title_after_the_first_turn_and_only_then() {
    let stage = titled()
        .model(says("The reeds."))
        .model(says("\"Where the Heron Nests.\"").only_for("You name conversations"))
        .model(says("In spring."))
        .start();
    assert_eq!(stage.prompt("where does the heron nest?"), "end_turn");
    wait_for_title(&stage, "where does the heron nest?");
    wait_for_title(&stage, "Where the Heron Nests");
    assert_eq!(stage.prompt("when?"), "end_turn");
    let requests = stage.model().requests();
    assert_eq!(requests.len(), 3);
    let asked = &requests[1]["messages"];
    assert!(requests[1].get("tools").is_none_or(|tools| tools.as_array().is_none_or(Vec::is_empty)));
    assert!(asked.to_string().contains("The reeds."), "{asked}");
    assert!(!requests[2].to_string().contains("You name conversations"));
    assert!(stage.run(&["sessions", "list"]).contains("Where the Heron Nests"));
}

#[test]
fn a_title_request_delays_no_answer_and_ends_with_the_session() {
    let gate = Gate::new();
    let stage = titled()
        .model(says("First."))
        .model(says("Late title").hold(&gate).only_for("You name conversations"))
        .model(says("Second."))
        .start();
    assert_eq!(stage.prompt("one two"), "end_turn");
    assert!(gate.wait_until_reached(DEADLINE), "no title was asked for");
    assert_eq!(stage.prompt("three"), "end_turn");
    stage.request("session/close", json!({ "sessionId": stage.session() })).unwrap();
    gate.release();
    assert!(stage.run(&["sessions", "list"]).contains("one two"));
}

#[test]
fn a_title_the_user_gave_meanwhile_stays() {
    let gate = Gate::new();
    let stage = titled()
        .model(says("First."))
        .model(says("Late title").hold(&gate).only_for("You name conversations"))
        .start();
    assert_eq!(stage.prompt("one two"), "end_turn");
    assert!(gate.wait_until_reached(DEADLINE), "no title was asked for");
    let params = json!({ "sessionId": stage.session(), "title": "My own" });
    stage.request("session/set_title", params).unwrap();
    gate.release();
    stage.request("session/close", json!({ "sessionId": stage.session() })).unwrap();
    let listed = stage.run(&["sessions", "list"]);
    assert!(listed.contains("My own") && !listed.contains("Late title"), "{listed}");
}

#[test]
fn a_title_request_that_fails_is_silent() {
    let stage = titled()
        .model(says("First."))
        .model(
            fails(400, json!({ "error": { "message": "no titles" } }).to_string())
                .only_for("You name conversations"),
        )
        .start();
    assert_eq!(stage.prompt("one two"), "end_turn");
    assert!(stage.model().wait_for_requests(2, DEADLINE));
    stage.request("session/close", json!({ "sessionId": stage.session() })).unwrap();
    assert_eq!(stage.said(), "First.");
    assert!(stage.run(&["sessions", "list"]).contains("one two"));
}
