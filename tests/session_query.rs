//! Past sessions: one session finds what another one said, reads it and follows it, and sees no other workspace.

use crate::kit::*;
use serde_json::json;

#[test]
fn a_later_session_finds_reads_and_traces_an_earlier_one() {
    let run = scenario()
        .config("[tools]\nenable = [\"session_query\"]\n")
        .model(says("The heron nests in the reeds."))
        .model(calls("session_search", json!({ "query": "heron NESTS" })))
        .model(calls("session_event_search", json!({ "query": "heron nests" })))
        .model(says("Found."))
        .start();
    assert_eq!(run.prompt("where?"), "end_turn");
    let first = run.session().to_owned();
    let second = run.new_session();
    let pending = run.send_blocks(&second, json!([{ "type": "text", "text": "look it up" }]));
    assert_eq!(run.end(pending), "end_turn");
    let results = run.results_for_model();
    assert!(results[0].starts_with(&format!("Sessions found: 1\n\n1. {first} — ")), "{}", results[0]);
    assert!(results[0].ends_with("The heron nests in the reeds."), "{}", results[0]);
    assert!(results[1].contains(&second) && results[1].ends_with("No event matches."), "{}", results[1]);
}
