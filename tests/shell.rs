//! Commands: in the editor's terminal, in a terminal the editor only displays, and in a plain process of ours.

use crate::kit::*;
use provider_llm::scripted::Reply;
use serde_json::json;
use std::time::{Duration, Instant};

fn bash(command: &str) -> Reply {
    calls("bash", json!({ "command": command, "description": "Run it" }))
}

fn bash_within(command: &str, timeout_ms: u64) -> Reply {
    calls("bash", json!({ "command": command, "description": "Run it", "timeoutMs": timeout_ms }))
}

fn display() -> ClientKind {
    ClientKind { display_terminals: true, ..ClientKind::bare() }
}

/// Each way a command can run.
fn ways() -> [ClientKind; 3] {
    [ClientKind::full(), display(), ClientKind::bare()]
}

/// Runs one command in one way and gives what the model read of it.
fn output(client: ClientKind, reply: Reply) -> (Stage, String) {
    let run = scenario().client(client).model(reply).model(says("Done.")).start();
    assert_eq!(run.prompt("go"), "end_turn");
    let results = run.results_for_model();
    assert_eq!(results.len(), 1, "{results:?}");
    let result = results[0].clone();
    (run, result)
}

// C10: command and output are visible from start to end.
#[test]
fn a_command_runs_in_the_terminal_of_the_editor() {
    let (run, result) = output(ClientKind::full(), bash("echo out; echo err >&2; exit 3"));
    insta::assert_snapshot!(run.picture(Detail { requests: true, ..Detail::default() }), @r#"
    > go
    < call 1 execute pending  echo out; echo err >&2; exit 3  "Run it"
    < call 1 in_progress
    ~ terminal/create
    < call 1 "Run it"  terminal 1
    ~ terminal/wait_for_exit  terminal 1
    ~ terminal/release  terminal 1
    < call 1 completed
    < Done.
    = end_turn
    "#);
    insta::assert_snapshot!(result, @r"
    out
    [stderr]
    err
    [exit code: 3]
    ");
}

#[test]
fn a_command_of_our_own_is_shown_as_text() {
    let (run, result) = output(ClientKind::bare(), bash("echo out; exit 3"));
    insta::assert_snapshot!(run.transcript(), @r#"
    > go
    < call 1 execute pending  echo out; exit 3  "Run it"
    < call 1 in_progress
    < call 1 "Run it"  "```console⏎out⏎```"
    < call 1 completed  "```console⏎out⏎[exit code: 3]⏎```"
    < Done.
    = end_turn
    "#);
    insta::assert_snapshot!(result, @r"
    out
    [exit code: 3]
    ");
}

#[test]
fn a_command_of_our_own_is_shown_in_a_displayed_terminal() {
    let (run, _) = output(display(), bash("echo out"));
    let announced = &run.updates("tool_call")[0];
    let terminal = announced["_meta"]["terminal_info"]["terminal_id"].clone();
    assert_eq!(announced["content"][1]["terminalId"], terminal);
    let updates = run.updates("tool_call_update");
    let fed: String =
        updates.iter().filter_map(|update| update["_meta"]["terminal_output"]["data"].as_str()).collect();
    assert_eq!(fed.replace("\r\n", "\n"), "out\n");
    let exits: Vec<_> =
        updates.iter().filter_map(|update| update["_meta"]["terminal_exit"]["exit_code"].as_i64()).collect();
    assert_eq!(exits, [0]);
}

// C01: the shell has ended; what it left behind holds the pipe and delays nothing.
#[test]
fn a_background_child_does_not_hold_the_call() {
    for client in ways() {
        let began = Instant::now();
        let (run, result) = output(client, bash("sleep 60 & echo hi"));
        assert!(began.elapsed() < Duration::from_secs(10), "{:?}", began.elapsed());
        assert!(result.contains("hi"), "{result}");
        run.close_stdin();
        assert!(run.exit_status(DEADLINE).is_some());
    }
}

// C02, C03: nobody can type, and nothing reads or writes the protocol's pipes.
#[test]
fn a_command_that_waits_for_input_ends_at_once() {
    for client in ways() {
        let began = Instant::now();
        let command = "cat; read answer; echo \"got [$answer]\"; echo '{\"jsonrpc\":\"2.0\"}'";
        let (_run, result) = output(client, bash(command));
        assert!(began.elapsed() < Duration::from_secs(10));
        assert!(result.contains("got []"), "{result}");
    }
}

// C02: prompts, pagers and editors are switched off.
#[test]
fn commands_are_told_that_nobody_is_there() {
    for client in ways() {
        let command = "printf '%s|' \"$GIT_TERMINAL_PROMPT\" \"$PAGER\" \"$GIT_PAGER\" \"${EDITOR:-none}\"";
        let (_run, result) = output(client, bash(command));
        assert!(result.starts_with("0|cat|cat|"), "{result}");
    }
}

// C04, T11: on timeout the whole family goes, and the model is told.
#[test]
fn a_command_over_its_time_is_ended_with_its_children() {
    for client in ways() {
        let began = Instant::now();
        let (run, result) =
            output(client, bash_within("echo begun; (sleep 300 & sleep 300) & sleep 300", 700));
        assert!(began.elapsed() < Duration::from_secs(10), "{:?}", began.elapsed());
        assert!(result.contains("begun") && result.contains("timed out"), "{result}");
        run.assert_no_process_left();
    }
}

// C05: head and tail, an honest marker, and the rest on disk; the command runs on, the agent stays small.
#[test]
fn a_large_output_is_bounded_and_marked() {
    for client in [ClientKind::full(), ClientKind::bare()] {
        let (run, result) = output(client, bash("echo first; seq 1 3000000; echo last"));
        assert!(result.len() < 200_000, "{} bytes", result.len());
        assert!(result.contains("first") && result.contains("last"), "{result}");
        let bytes = run.process().peak_memory();
        assert!(bytes < 150 << 20, "{} MiB", bytes >> 20);
    }
}

// M11: what is sent grows with the output, not with its square.
#[test]
fn live_output_is_not_sent_again_and_again() {
    for client in [display(), ClientKind::bare()] {
        let command = "for i in $(seq 40); do seq 1 2000; sleep 0.02; done";
        let (run, _) = output(client, bash(command));
        let sent: usize =
            run.lines().iter().filter(|line| line.from == Side::Agent).map(|line| line.n_bytes).sum();
        // The output itself is 355 kB.
        assert!(sent < 2_000_000, "{sent} bytes");
    }
}

// C06: no control sequences for the model, and the last state of a redrawn line.
#[test]
fn the_model_reads_plain_text() {
    for client in ways() {
        let (_run, result) = output(client, bash("printf '\\033[31mred\\033[0m\\n10%%\\r50%%\\r100%%\\n'"));
        assert!(result.starts_with("red\n100%"), "{result:?}");
    }
}

// C07, S15: bytes that are no text become valid text, also when cut inside a character.
#[test]
fn bytes_that_are_no_text_do_no_harm() {
    for client in ways() {
        let command = "printf 'a\\377b\\n'; printf '\\303'; sleep 0.2; printf '\\251\\n'";
        let (_run, result) = output(client, bash(command));
        assert!(result.starts_with("a\u{fffd}b\né"), "{result:?}");
    }
}

// C08: the folder is gone; the error names it, and the default folder still works.
#[test]
fn a_missing_folder_is_named() {
    for client in ways() {
        let run = scenario()
            .client(client)
            .model(calls("bash", json!({ "command": "pwd", "description": "Where", "workdir": "gone" })))
            .model(bash("pwd"))
            .model(says("Here."))
            .start();
        assert_eq!(run.prompt("go"), "end_turn");
        let results = run.results_for_model();
        assert!(results[0].contains("gone"), "{results:?}");
        assert!(results[1].contains(&run.workspace().display().to_string()), "{results:?}");
    }
}

// C11: the session's folder and environment, never those of the process.
#[test]
fn commands_run_in_the_folder_of_their_session() {
    for client in ways() {
        let (run, result) = output(client, bash("pwd; command -v sh; echo made > here"));
        assert!(result.starts_with(&run.workspace().display().to_string()), "{result}");
        assert!(run.path("here").exists());
    }
}

#[test]
fn keys_do_not_reach_commands() {
    for client in ways() {
        let (_run, result) = output(client, bash("env"));
        assert!(!result.contains(crate::kit::conformance::KEY), "{result}");
    }
}

// M06: a command that logs more than a pipe buffer to stderr.
#[test]
fn a_chatty_stderr_blocks_nothing() {
    for client in ways() {
        let (_run, result) = output(client, bash("seq 1 100000 >&2; echo done"));
        assert!(result.contains("done"), "{}", result.len());
    }
}

// C09: released also when the editor's terminal fails half way; the time is our own.
#[test]
fn a_terminal_that_never_tells_its_end_is_given_up_and_released() {
    let habits = Habits { faults: [("terminal/wait_for_exit", Fault::Silent)].into(), ..Habits::default() };
    let run =
        scenario().habits(habits).model(bash_within("echo hi; sleep 1", 2000)).model(says("Done.")).start();
    assert_eq!(run.prompt("go"), "end_turn");
    assert_eq!(run.desk().terminals.n_open(), 0);
    run.assert_no_process_left();
}

#[test]
fn a_client_that_knows_no_terminals_after_all_leaves_them_to_us() {
    let habits = Habits { faults: [("terminal/create", Fault::Fails(-32601))].into(), ..Habits::default() };
    let run = scenario().habits(habits).model(bash("echo hi > made; cat made")).model(says("Done.")).start();
    assert_eq!(run.prompt("go"), "end_turn");
    run.assert_file("made", "hi\n");
    assert!(run.results_for_model()[0].contains("hi"), "{:?}", run.results_for_model());
}

// Going round a refusal would be taking what was not given.
#[test]
fn a_terminal_that_is_refused_is_not_replaced_by_a_process_of_ours() {
    let habits = Habits { faults: [("terminal/create", Fault::Fails(-32603))].into(), ..Habits::default() };
    let run = scenario().habits(habits).model(bash("echo hi > made")).model(says("Done.")).start();
    assert_eq!(run.prompt("go"), "end_turn");
    assert!(!run.path("made").exists());
    assert!(run.results_for_model()[0].contains("refused a terminal"), "{:?}", run.results_for_model());
}

// A command that fails is a result: the card is completed and tells the exit code.
#[test]
fn a_failing_command_is_a_result() {
    for client in ways() {
        let (run, result) = output(client, bash("exit 7"));
        assert!(result.contains('7'), "{result}");
        let ends = run.updates("tool_call_update");
        let end = ends.iter().find(|update| update["status"] == "completed").unwrap();
        assert_eq!(end["rawOutput"]["exitCode"], 7);
    }
}

// Commands of one step run one after the other.
#[test]
fn commands_of_one_step_keep_their_order() {
    let second = json!({ "command": "cat one", "description": "Second" });
    let run = scenario()
        .model(bash("sleep 0.3; echo 1 > one").calls("bash", second))
        .model(says("Done."))
        .prompt("go");
    assert!(run.results_for_model()[1].starts_with('1'), "{:?}", run.results_for_model());
}
