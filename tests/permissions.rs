//! Permissions: what is asked, what an answer means, and what stays forbidden.

use crate::kit::*;
use provider_llm::scripted::Reply;
use serde_json::{Value, json};

fn bash(command: &str) -> Reply {
    calls("bash", json!({ "command": command, "description": "Run it" }))
}

fn edit(path: &str, old: &str, new: &str) -> Reply {
    calls("edit", json!({ "file_path": path, "old_string": old, "new_string": new }))
}

fn read(path: &str) -> Reply {
    calls("read", json!({ "file_path": path }))
}

/// How often the user was asked.
fn n_questions(stage: &Stage) -> usize {
    stage.requests_of_agent().iter().filter(|method| *method == "session/request_permission").count()
}

#[test]
fn allowed_edit_is_shown_then_applied() {
    let run =
        scenario()
            .mode("ask")
            .file("src/lib.rs", "fn a() {}\n")
            .model(read("src/lib.rs"))
            .model(says("Renaming.").calls(
                "edit",
                json!({ "file_path": "src/lib.rs", "old_string": "fn a", "new_string": "fn b" }),
            ))
            .model(says("Done."))
            .user(allow_once())
            .prompt("rename a to b");
    insta::assert_snapshot!(run.transcript(), @r#"
    > rename a to b
    < call 1 read pending  Read src/lib.rs  at src/lib.rs:1
    < call 1 in_progress
    < call 1 completed  "```rs⏎fn a() {}⏎```"
    < Renaming.
    < call 2 edit pending  Edit src/lib.rs  at src/lib.rs  diff src/lib.rs -fn a +fn b
    ? call 2  Edit src/lib.rs  allow_once | allow_always | reject_once
    ! allow_once
    < call 2 in_progress
    < call 2 completed  Edit src/lib.rs  at src/lib.rs:1  diff src/lib.rs -fn a() {} +fn b() {}
    < Done.
    = end_turn
    "#);
    run.assert_file("src/lib.rs", "fn b() {}\n");
}

#[test]
fn denied_edit_leaves_the_file_alone() {
    let run = scenario()
        .mode("ask")
        .file("src/lib.rs", "fn a() {}\n")
        .model(read("src/lib.rs"))
        .model(edit("src/lib.rs", "fn a", "fn b"))
        .model(says("As you like."))
        .user(reject_once())
        .prompt("rename a to b");
    insta::assert_snapshot!(run.transcript(), @r#"
    > rename a to b
    < call 1 read pending  Read src/lib.rs  at src/lib.rs:1
    < call 1 in_progress
    < call 1 completed  "```rs⏎fn a() {}⏎```"
    < call 2 edit pending  Edit src/lib.rs  at src/lib.rs  diff src/lib.rs -fn a +fn b
    ? call 2  Edit src/lib.rs  allow_once | allow_always | reject_once
    ! reject_once
    < call 2 failed  "Error: the user refused this call; nothing was run. Do not repeat it unchanged: go on without it, or ask what they want"  error  "the user refused this call; nothing was run. Do not repeat it unchanged: go on without it, or ask what they want"
    < As you like.
    = end_turn
    "#);
    run.assert_file("src/lib.rs", "fn a() {}\n");
}

// P07, P08: a refusal is the result of that call only; its siblings still run and the model goes on.
#[test]
fn a_refusal_touches_one_call_only() {
    let run = scenario()
        .mode("ask")
        .model(bash("touch one").calls("bash", json!({ "command": "touch two", "description": "Second" })))
        .model(says("One of them."))
        .user(reject_once())
        .user(allow_once())
        .prompt("make both");
    assert_eq!(n_questions(&run), 2);
    assert!(!run.path("one").exists() && run.path("two").exists());
    insta::assert_snapshot!(run.transcript(), @r#"
    > make both
    < call 1 execute pending  touch one  "Run it"
    ? call 1  touch one  allow_once | allow_always | reject_once
    ! reject_once
    < call 1 failed  "```console⏎Error: the user refused this call; nothing was run. Do not repeat it unchanged: go on without it, or ask what they want⏎```"  error  "the user refused this call; nothing was run. Do not repeat it unchanged: go on without it, or ask what they want"
    < call 2 execute pending  touch two  "Second"
    ? call 2  touch two  allow_once | allow_always | reject_once
    ! allow_once
    < call 2 in_progress
    < call 2 "Second"  terminal 1
    < call 2 completed
    < One of them.
    = end_turn
    "#);
}

// P10: the whole command is in the question, and the whole change.
#[test]
fn a_question_shows_all_of_its_subject() {
    let command = format!("printf '%s' {}", "x".repeat(300));
    let run =
        scenario().mode("ask").model(bash(&command)).model(says("No.")).user(reject_once()).prompt("go");
    let question = run.wait_for_request("session/request_permission");
    assert_eq!(question["toolCall"]["rawInput"]["command"], command);
    assert!(question["toolCall"]["content"].to_string().contains(&command));

    let run = scenario()
        .mode("ask")
        .file("a.txt", "one\ntwo\nthree\n")
        .model(read("a.txt"))
        .model(edit("a.txt", "two", "2"))
        .model(says("No."))
        .user(reject_once())
        .prompt("go");
    let question = run.wait_for_request("session/request_permission");
    let content = question["toolCall"]["content"].as_array().unwrap();
    let diff = content.iter().find(|item| item["type"] == "diff").unwrap();
    assert_eq!(diff["path"], json!(run.path("a.txt")));
    assert_eq!([&diff["oldText"], &diff["newText"]], ["one\ntwo\nthree\n", "one\n2\nthree\n"]);
}

// P01, P02: "always" is remembered for what its label says, and for nothing else.
#[test]
fn always_is_narrow_and_remembered() {
    let run = scenario()
        .mode("ask")
        .model(bash("git status"))
        .model(bash("git status --short"))
        .model(bash("git push"))
        .model(bash("git status; rm -rf x"))
        .model(says("Done."))
        .user(allow_always())
        .user(reject_once())
        .user(reject_once())
        .prompt("go");
    let question = run.wait_for_request("session/request_permission");
    let options = question["options"].as_array().unwrap();
    let always = options.iter().find(|option| option["kind"] == "allow_always").unwrap();
    assert!(always["name"].as_str().unwrap().contains("git status"), "{always}");
    assert_eq!(n_questions(&run), 3);
}

// P01: a rule is of its session.
#[test]
fn always_ends_with_the_session() {
    let run = scenario()
        .mode("ask")
        .model(bash("git status"))
        .model(says("Done."))
        .model(bash("git status"))
        .model(says("Done."))
        .user(allow_always())
        .user(reject_once())
        .prompt("go");
    let other = run.new_session();
    let pending = run.send_blocks(&other, json!([{ "type": "text", "text": "go" }]));
    assert_eq!(run.end(pending), "end_turn");
    assert_eq!(n_questions(&run), 2);
}

// P03: a line is judged by all its commands; what cannot be read is asked.
#[test]
fn an_allowed_command_lets_nothing_else_through() {
    let lines = [
        "git status && touch made",
        "git status | tee made",
        "git status; touch made",
        "git status & touch made",
        "git status\ntouch made",
        "git status $(touch made)",
        "git status `touch made`",
        "git status > made",
        "sh -c 'touch made'",
        "git status <(touch made)",
        "git -c alias.status='!touch made' status",
        "GIT_PAGER='touch made' git status",
    ];
    let first = scenario().mode("ask").model(bash("git status")).user(allow_always());
    let stage = lines.iter().fold(first, |scenario, line| scenario.model(bash(line)).user(reject_once()));
    let run = stage.model(says("Done.")).prompt("go");
    assert_eq!(n_questions(&run), lines.len() + 1);
    assert!(!run.path("made").exists());
}

// P09: only an offered allowance runs the tool.
#[test]
fn nothing_but_an_offered_yes_is_a_yes() {
    for answer in [Decision::Id("unknown"), Decision::Id(""), Decision::Fails, Decision::Id("reject-once")] {
        let run =
            scenario().mode("ask").model(bash("touch made")).model(says("No.")).user(answer.clone()).start();
        let end = run.prompt("go");
        assert!(!run.path("made").exists(), "{answer:?}");
        assert_eq!(end, "end_turn", "{answer:?}");
    }
}

// P09: the client goes while the question is open.
#[test]
fn a_lost_client_is_a_no() {
    let run = scenario().mode("ask").model(bash("touch made")).user(Decision::Parked).start();
    let _pending = run.send("go");
    run.wait_for_question();
    run.close_stdin();
    assert!(run.exit_status(DEADLINE).is_some());
    assert!(!run.path("made").exists());
}

// P04: asking is asking, never a silent no; M10: the client's own fault is not the user's choice.
#[test]
fn a_client_that_cannot_ask_is_named_as_the_reason() {
    let run = scenario()
        .mode("ask")
        .model(bash("touch made"))
        .model(says("No."))
        .user(Decision::Fails)
        .prompt("go");
    let results = run.results_for_model();
    assert!(!results[0].to_lowercase().contains("user rejected"), "{results:?}");
    insta::assert_snapshot!(run.transcript(), @r#"
    > go
    < call 1 execute pending  touch made  "Run it"
    ? call 1  touch made  allow_once | allow_always | reject_once
    ! error -32603  Internal error  no window
    < call 1 failed  "```console⏎Error: this call needs a permission and nobody could be asked; nothing was run⏎```"  error  "this call needs a permission and nobody could be asked; nothing was run"
    < No.
    = end_turn
    "#);
}

// P11: a mode that changes during a turn counts from the next check.
#[test]
fn a_mode_that_changes_in_the_turn_counts_at_once() {
    let gate = Gate::new();
    let run = scenario()
        .model(bash("touch one"))
        .model(
            says("Then ")
                .hold(&gate)
                .calls("bash", json!({ "command": "touch two", "description": "Second" })),
        )
        .model(says("No."))
        .user(reject_once())
        .start();
    let pending = run.send("go");
    assert!(gate.wait_until_reached(DEADLINE));
    run.request("session/set_mode", json!({ "sessionId": run.session(), "modeId": "ask" })).unwrap();
    gate.release();
    assert_eq!(run.end(pending), "end_turn");
    assert_eq!(n_questions(&run), 1);
    assert!(run.path("one").exists() && !run.path("two").exists());
}

#[test]
fn workspace_write_asks_only_for_what_is_outside() {
    let run = scenario().model(says("placeholder")).start();
    let outside = run.outside("note.txt");
    run.model().push(calls("write", json!({ "file_path": outside, "content": "x\n" })));
    run.model().push(says("Written."));
    run.model().push(calls("write", json!({ "file_path": "inside.txt", "content": "x\n" })));
    run.model().push(says("Written."));
    run.prompt("first");
    run.desk().decide(allow_once());
    run.prompt("outside");
    run.prompt("inside");
    assert_eq!(n_questions(&run), 1);
    assert_eq!(std::fs::read_to_string(&outside).unwrap(), "x\n");
    run.assert_file("inside.txt", "x\n");
}

// P13: a link inside the workspace that leads outside is outside.
#[test]
fn a_link_out_of_the_workspace_asks() {
    let targets: [(&str, Value); 2] = [
        ("link/new.txt", json!({ "file_path": "link/new.txt", "content": "x\n" })),
        ("file-link.txt", json!({ "file_path": "file-link.txt", "content": "x\n" })),
    ];
    for (path, arguments) in targets {
        let run = scenario().start();
        std::os::unix::fs::symlink(run.outside(""), run.path("link")).unwrap();
        std::os::unix::fs::symlink(run.outside("target.txt"), run.path("file-link.txt")).unwrap();
        run.model().push(calls("write", arguments));
        run.model().push(says("No."));
        run.desk().decide(reject_once());
        assert_eq!(run.prompt("go"), "end_turn");
        assert_eq!(n_questions(&run), 1, "{path}");
        assert_eq!(std::fs::read_dir(run.outside("")).unwrap().count(), 0, "{path}");
    }
}

// The sandbox: a command cannot write outside, whoever runs it, and the model is told.
#[test]
fn a_command_cannot_write_outside_the_workspace() {
    for client in [ClientKind::full(), ClientKind::bare()] {
        let run = scenario().client(client).start();
        let outside = run.outside("made");
        run.model().push(bash(&format!("echo inside > inside; echo out > {}", outside.display())));
        run.model().push(says("Refused."));
        assert_eq!(run.prompt("go"), "end_turn");
        assert!(!outside.exists());
        run.assert_file("inside", "inside\n");
        assert_eq!(n_questions(&run), 0);
        let results = run.results_for_model();
        assert!(results[0].contains("denied"), "{results:?}");
    }
}

#[test]
fn a_read_only_session_writes_nothing() {
    for mode in ["read-only", "plan"] {
        let run = scenario()
            .mode(mode)
            .model(bash("echo x > made"))
            .model(calls("write", json!({ "file_path": "new.txt", "content": "x" })))
            .model(says("Nothing."))
            .start();
        if mode == "read-only" {
            run.desk().decide(reject_once());
        }
        assert_eq!(run.prompt("go"), "end_turn", "{mode}");
        assert!(!run.path("made").exists() && !run.path("new.txt").exists(), "{mode}");
    }
}

#[test]
fn full_access_asks_nothing_and_confines_nothing() {
    let run = scenario().mode("danger-full-access").start();
    let outside = run.outside("made");
    run.model().push(bash(&format!("echo out > {}", outside.display())));
    run.model().push(says("Done."));
    assert_eq!(run.prompt("go"), "end_turn");
    assert_eq!(std::fs::read_to_string(outside).unwrap(), "out\n");
    assert_eq!(n_questions(&run), 0);
}
