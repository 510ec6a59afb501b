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
    let seq: u64 =
        results[0].split("Best match: ").nth(1).unwrap().split(' ').next().unwrap().parse().unwrap();
    let at = json!({ "session_id": first, "seq": seq });
    run.model().push(calls("session_event_read", at.clone()));
    run.model().push(calls("session_event_trace", at));
    run.model().push(calls("session_trace", json!({ "session_id": first })));
    run.model().push(says("Read."));
    let pending = run.send_blocks(&second, json!([{ "type": "text", "text": "read it" }]));
    assert_eq!(run.end(pending), "end_turn");
    let results = run.results_for_model();
    let head = format!("Session: {first} — where?\n");
    assert!(
        results[2].starts_with(&head) && results[2].contains("The heron nests in the reeds."),
        "{}",
        results[2]
    );
    let line = format!("{head}Event: {seq} | assistant/message | current | ");
    assert!(results[3].starts_with(&line) && results[3].contains("Replaced by: none"), "{}", results[3]);
    assert!(results[4].ends_with("Ancestors:\nnone (root)\nDescendants:\nnone"), "{}", results[4]);
}

/// Lets a session say something to the end of its turn.
fn say(run: &Stage, session: &str, text: &str) {
    let pending = run.send_blocks(session, json!([{ "type": "text", "text": text }]));
    assert_eq!(run.end(pending), "end_turn");
}

/// What a new session is told when it searches.
fn found(run: &Stage) -> String {
    run.model().push(calls("session_search", json!({ "query": "reeds" })));
    run.model().push(says("Done."));
    say(run, &run.new_session(), "look it up");
    run.results_for_model().pop().unwrap()
}

/// Removes the index with its journal, out of which a damaged file would be mended.
fn remove_index(index: &std::path::Path) {
    for end in ["", "-wal", "-shm"] {
        let _ = std::fs::remove_file(format!("{}{end}", index.display()));
    }
}

#[test]
fn a_search_outlives_kills_damage_and_logs_it_cannot_read() {
    let mut run = scenario()
        .config("[tools]\nenable = [\"session_query\"]\n")
        .model(says("The heron nests in the river."))
        .model(says("Nothing there."))
        .start();
    assert_eq!(run.prompt("in the reeds?"), "end_turn");
    let other = run.new_session();
    say(&run, &other, "and in the reeds there?");
    // What is asked for is not repeated by the sessions that ask, but by their calls.
    assert!(found(&run).starts_with("Sessions found: 2\n"));
    // A killed program left the index behind.
    run.restart();
    assert!(found(&run).starts_with("Sessions found: 3\n"));
    // A damaged one is set aside.
    run.restart();
    let index = run.home().join("search-1.sqlite");
    remove_index(&index);
    std::fs::write(&index, "no index at all, ".repeat(1000)).unwrap();
    assert!(found(&run).starts_with("Sessions found: 4\n"));
    assert!(index.with_extension("sqlite.damaged").exists());
    // A log of a later version is left out, which is told.
    let mut folders = std::fs::read_dir(run.home().join("sessions")).unwrap();
    let log = folders.find_map(|folder| {
        let log = folder.unwrap().path().join(&other).join("session.jsonl");
        log.exists().then_some(log)
    });
    let line = "{\"seq\":99,\"time\":1,\"type\":\"of/tomorrow\",\"data\":{}}\n";
    let log = log.unwrap();
    std::fs::write(&log, std::fs::read_to_string(&log).unwrap() + line).unwrap();
    let told = found(&run);
    assert!(told.starts_with("Sessions found: 4\n"), "{told}");
    assert!(told.ends_with("\n\n1 session could not be read."), "{told}");
    // Where there can be no index, the logs are read.
    run.restart();
    remove_index(&index);
    std::fs::create_dir(&index).unwrap();
    let told = found(&run);
    assert!(
        told.starts_with("Sessions found: 5\n") && told.contains("1 session could not be read."),
        "{told}"
    );
    assert!(told.contains("The search index cannot be used ("), "{told}");
}
