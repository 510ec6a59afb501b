//! What is on disk, whatever happens to the process.

use crate::kit::*;
use serde_json::json;
use std::time::Duration;

/// Every file of the session store.
fn stored_files(run: &Stage) -> Vec<std::path::PathBuf> {
    let mut found = Vec::new();
    let mut folders = vec![run.home().join("sessions")];
    while let Some(folder) = folders.pop() {
        for entry in std::fs::read_dir(folder).into_iter().flatten().flatten() {
            if entry.path().is_dir() { folders.push(entry.path()) } else { found.push(entry.path()) }
        }
    }
    found
}

fn log_of(run: &Stage) -> std::path::PathBuf {
    let files = stored_files(run);
    let log = files.iter().find(|path| path.extension().is_some_and(|extension| extension == "jsonl"));
    log.unwrap_or_else(|| panic!("a log in {files:?}")).clone()
}

// S07: an id that was handed out is on disk, before the first prompt, also after a kill.
#[test]
fn a_session_is_on_disk_when_its_id_is_handed_out() {
    let run = scenario().start();
    run.kill();
    let listed = run.run(&["sessions", "list", "--all"]);
    assert!(listed.contains(run.session()), "{listed}");
    run.run(&["sessions", "show", run.session()]);
}

#[test]
fn a_session_is_listed_once_something_was_said_in_it() {
    let run = scenario().model(says("Hello.")).start();
    assert!(!run.run(&["sessions", "list"]).contains(run.session()));
    run.prompt("greet me");
    let listed = run.run(&["sessions", "list"]);
    assert!(listed.contains(run.session()) && listed.contains("greet me"), "{listed}");
}

#[test]
fn what_is_stored_is_for_its_owner_alone() {
    let run = scenario().model(says("Hello.")).prompt("secret plans");
    for file in stored_files(&run) {
        let mode = std::os::unix::fs::PermissionsExt::mode(&std::fs::metadata(&file).unwrap().permissions());
        assert_eq!(mode & 0o077, 0, "{}: {mode:o}", file.display());
        let content = std::fs::read(&file).unwrap();
        assert!(
            !String::from_utf8_lossy(&content).contains(crate::kit::conformance::KEY),
            "{}",
            file.display()
        );
    }
}

// S08: a kill at any moment loses nothing that was answered, and the log opens.
#[test]
fn a_kill_at_any_moment_loses_nothing_that_was_answered() {
    for delay_ms in [0, 3, 7, 15, 30, 60, 120] {
        let run = scenario()
            .file("a.txt", "alpha\n")
            .model(says("First answer."))
            .model(says("Looking.").calls("read", json!({ "file_path": "a.txt" })))
            .model(
                says("Running.")
                    .calls("bash", json!({ "command": "echo out; sleep 0.05", "description": "Run" })),
            )
            .model(says("Second answer."))
            .spare_rule("each terminal is released")
            .start();
        assert_eq!(run.prompt("first prompt"), "end_turn");
        let _pending = run.send("second prompt");
        std::thread::sleep(Duration::from_millis(delay_ms));
        run.kill();
        let seen = run.said();
        let shown = run.run(&["sessions", "show", "--full", run.session()]);
        assert!(shown.contains("first prompt") && shown.contains("First answer."), "{delay_ms} ms: {shown}");
        // A call is logged before it is shown; so is its result.
        for call in run.updates("tool_call") {
            let path = call["rawInput"].to_string();
            assert!(
                shown.contains("a.txt") || shown.contains("echo out"),
                "{delay_ms} ms: {path} in {shown}"
            );
        }
        if run.model().requests().len() > 1 {
            assert!(shown.contains("second prompt"), "{delay_ms} ms: {shown}");
        }
        if seen.contains("Second answer.") {
            assert!(shown.contains("Running."), "{delay_ms} ms: {shown}");
        }
    }
}

// Streamed text is on disk within half a second.
#[test]
fn a_kill_in_the_middle_of_a_long_answer_loses_half_a_second_at_most() {
    let gate = Gate::new();
    let run = scenario()
        .model(says("Early words. ").pause(Duration::from_millis(700)).says("Later words. ").hold(&gate))
        .start();
    let _pending = run.send("tell");
    run.wait_for_update("agent_message_chunk", |update| update["content"]["text"] == "Later words. ");
    std::thread::sleep(Duration::from_millis(100));
    run.kill();
    let shown = run.run(&["sessions", "show", run.session()]);
    assert!(shown.contains("Early words."), "{shown}");
}

// S08: a torn tail and bad bytes in the middle cost themselves, never the session.
#[test]
fn a_damaged_log_still_shows_the_rest() {
    let run = scenario().model(says("First answer.")).model(says("Second answer.")).start();
    run.prompt("first prompt");
    run.prompt("second prompt");
    run.kill();
    let log = log_of(&run);
    let mut text = std::fs::read_to_string(&log).unwrap();
    text.push_str("{\"seq\": 99, \"ty");
    std::fs::write(&log, &text).unwrap();
    let shown = run.run(&["sessions", "show", run.session()]);
    assert!(shown.contains("First answer.") && shown.contains("Second answer."), "{shown}");

    let mut lines: Vec<&str> = text.lines().collect();
    let at = lines.iter().position(|line| line.contains("First answer.")).unwrap();
    lines[at] = "\u{1}\u{2} no record";
    std::fs::write(&log, lines.join("\n")).unwrap();
    let shown = run.run(&["sessions", "show", run.session()]);
    assert!(shown.contains("second prompt") && shown.contains("Second answer."), "{shown}");
}

// X02: what ran when the client went is in the log, closed.
#[test]
fn the_end_of_the_client_closes_what_is_open_in_the_log() {
    let run = scenario()
        .client(ClientKind::bare())
        .model(
            says("Running.")
                .calls("bash", json!({ "command": "echo ready > ready; sleep 300", "description": "Run" })),
        )
        .start();
    let _pending = run.send("go");
    run.wait_until("the command to run", || run.path("ready").exists());
    run.close_stdin();
    assert!(run.exit_status(DEADLINE).is_some());
    let exported = run.run(&["sessions", "export", run.session()]);
    let types: Vec<String> = exported
        .lines()
        .map(|line| serde_json::from_str::<serde_json::Value>(line).unwrap())
        .filter_map(|record| record["type"].as_str().map(str::to_owned))
        .collect();
    let place = |kind: &str| types.iter().rposition(|found| found == kind);
    assert!(
        place("tool/call") < place("tool/result") && place("tool/result") < place("turn/end"),
        "{types:?}"
    );
    assert!(place("tool/result").is_some() && place("turn/end").is_some(), "{types:?}");
}
