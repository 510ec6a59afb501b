//! Lasting terminals: state between calls, programs that are talked to, one live card, and nothing left behind.

use crate::kit::*;
use provider_llm::scripted::Reply;
use serde_json::json;

const CONFIG: &str = "[tools]\nenable = [\"terminal\"]\n";

fn open() -> Reply {
    calls("terminal_open", json!({ "type": "shell" }))
}

fn send(text: &str) -> Reply {
    calls("terminal_send", json!({ "sessionId": "pty-1", "text": text }))
}

#[test]
fn a_terminal_keeps_its_state_and_ends_with_the_session() {
    let run = scenario()
        .client(ClientKind::bare())
        .config(CONFIG)
        .spare_rule("nothing of a turn comes after")
        .model(open())
        .model(send("x=4711"))
        .model(send("echo is-$x; setsid sleep 300 &"))
        .model(says("Done."))
        .prompt("go");
    let results = run.results_for_model();
    assert!(results[0].starts_with("opened terminal pty-1 [type: shell]\n"), "{results:?}");
    assert!(results[2].contains("is-4711"), "{results:?}");
    assert!(results[2].ends_with("[wait: stdin_read]\n[session: running]"), "{results:?}");
    run.wait_for_update("tool_call_update", |update| {
        update["status"].is_null() && update["content"].to_string().contains("is-4711")
    });
    run.close_stdin();
    assert!(run.exit_status(DEADLINE).is_some());
    run.assert_no_process_left();
}

#[test]
fn a_terminal_is_opened_used_signalled_and_closed_without_a_notice() {
    let run = scenario()
        .client(ClientKind::bare())
        .config(CONFIG)
        .spare_rule("nothing of a turn comes after")
        .model(open())
        .model(send("cat"))
        .model(calls("terminal_signal", json!({ "sessionId": "pty-1", "signal": "SIGINT" })))
        .model(send("echo back-$((40+2))"))
        .model(calls("terminal_read", json!({ "sessionId": "pty-1" })))
        .model(calls("terminal_close", json!({ "sessionId": "pty-1" })))
        .model(calls("terminal_list", json!({})))
        .model(says("Done."))
        .prompt("go");
    let results = run.results_for_model();
    assert!(results[1].ends_with("[wait: stdin_read]\n[session: running]"), "{results:?}");
    assert!(results[2].starts_with("sent SIGINT to process group "), "{results:?}");
    assert!(results[3].contains("back-42") && results[4].contains("back-42"), "{results:?}");
    assert_eq!(results[5..], ["closed terminal pty-1", "(no terminal sessions)"]);
    assert!(!run.user_texts_for_model().iter().any(|text| text.contains("has ended")));
    run.assert_no_process_left();
}

#[test]
fn fifty_terminals_in_turn_leave_nothing() {
    let mut stage =
        scenario().client(ClientKind::bare()).config(CONFIG).spare_rule("nothing of a turn comes after");
    for number in 1..=50 {
        stage = stage
            .model(open())
            .model(calls("terminal_close", json!({ "sessionId": format!("pty-{number}") })));
    }
    let run = stage.model(says("Done.")).prompt("go");
    assert_eq!(run.results_for_model().last().map(String::as_str), Some("closed terminal pty-50"));
    run.assert_no_process_left();
}

#[test]
fn the_user_is_asked_before_a_terminal_is_opened_and_before_each_send() {
    let run = scenario()
        .client(ClientKind::bare())
        .config(CONFIG)
        .mode("ask")
        .spare_rule("nothing of a turn comes after")
        .model(open())
        .model(send("touch made"))
        .model(says("Done."))
        .user(allow_once())
        .user(reject_once())
        .prompt("go");
    assert!(run.results_for_model()[0].starts_with("opened terminal pty-1"));
    assert!(!run.path("made").exists());
}

#[test]
fn a_repl_answers_a_full_screen_program_is_seen_and_the_exit_is_told() {
    let draw = r"printf '\033[?1049h\033[2J\033[3;5Hdrawn-%s' here; read x; printf '\033[?1049l'";
    let run = scenario()
        .client(ClientKind::bare())
        .config(CONFIG)
        .spare_rule("nothing of a turn comes after")
        .model(open())
        .model(send("python3 -q"))
        .model(send("6*7000"))
        .model(send("exit()"))
        .model(send(draw))
        .model(send(""))
        .model(send("exit 3"))
        .model(says("Done."))
        .prompt("go");
    let results = run.results_for_model();
    assert!(results[2].contains("42000"), "{results:?}");
    assert!(results[4].contains("    drawn-here\n"), "{results:?}");
    assert!(results[6].contains("[wait: session_exit]\n[session: exited code=3 signal=null]"), "{results:?}");
    run.wait_for_update("tool_call_update", |update| {
        update["content"].to_string().contains("terminal-1: completed, exit code: 3")
    });
    run.assert_no_process_left();
}
