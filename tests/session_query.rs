//! Past sessions: one session finds what another one said, reads it and follows it, and sees no other workspace.

use crate::kit::*;
use serde_json::json;

#[test]
fn a_later_session_finds_reads_and_traces_an_earlier_one() {
    let run = scenario()
        .config("[tools]\nenable = [\"session_query\"]\n")
        .model(says("The heron nests in the reeds."))
        .model(calls("session_search", json!({ "query": "heron NESTS" })))
        .model(calls("session_event_search", json!({ "query": "kingfisher" })))
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
    // What the search said is read and traced, by the seq it told.
    let seq: u64 = results[0].split("Best match: ").nth(1).unwrap().split(' ').next().unwrap().parse().unwrap();
    let at = json!({ "session_id": first, "seq": seq });
    run.add_model(calls("session_event_read", at.clone()));
    run.add_model(calls("session_event_trace", at));
    run.add_model(calls("session_trace", json!({ "session_id": first })));
    run.add_model(says("Read."));
    let pending = run.send_blocks(&second, json!([{ "type": "text", "text": "read it" }]));
    assert_eq!(run.end(pending), "end_turn");
    let results = run.results_for_model();
    let head = format!("Session: {first} — where?\n");
    assert!(results[2].starts_with(&head) && results[2].contains("The heron nests in the reeds."), "{}", results[2]);
    let line = format!("{head}Event: {seq} | assistant/message | current | ");
    assert!(results[3].starts_with(&line) && results[3].contains("Replaced by: none"), "{}", results[3]);
    assert!(results[4].ends_with("Ancestors:\nnone (root)\nDescendants:\nnone"), "{}", results[4]);
}
