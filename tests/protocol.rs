//! The protocol itself: wrong requests, strange bytes, long lines, slow and vanishing clients.

use crate::kit::*;
use serde_json::{Value, json};
use std::time::{Duration, Instant};

/// Longest line a client may count on, and the ceiling above which a line is refused.
const PROMISED_LINE: usize = 32 << 20;
const CEILING: usize = 64 << 20;

// M08, X10: the right code, the field named, and the process lives on.
#[test]
fn wrong_requests_are_answered_with_their_code_and_the_field() {
    let run = scenario().start();
    let session = run.session();
    let cwd = json!(run.workspace());
    let gone = json!(run.path("gone"));
    let text = json!([{ "type": "text", "text": "hi" }]);
    let cases: Vec<(&str, Value, i32, &str)> = vec![
        ("session/nonsense", json!({}), -32601, ""),
        ("session/new", json!({}), -32602, "cwd"),
        ("session/new", json!({ "cwd": 7, "mcpServers": [] }), -32602, "cwd"),
        ("session/new", json!({ "cwd": "relative", "mcpServers": [] }), -32602, "cwd"),
        ("session/new", json!({ "cwd": "C:\\work", "mcpServers": [] }), -32602, "cwd"),
        ("session/new", json!({ "cwd": gone, "mcpServers": [] }), -32602, "cwd"),
        (
            "session/new",
            json!({ "cwd": cwd, "mcpServers": [], "additionalDirectories": ["relative"] }),
            -32602,
            "additionalDirectories",
        ),
        ("session/prompt", json!({ "sessionId": session }), -32602, "prompt"),
        ("session/prompt", json!({ "sessionId": session, "prompt": [] }), -32602, "prompt"),
        ("session/prompt", json!({ "sessionId": session, "prompt": "hi" }), -32602, "prompt"),
        ("session/prompt", json!({ "sessionId": 7, "prompt": text }), -32602, "sessionId"),
        (
            "session/prompt",
            json!({ "sessionId": session, "prompt": [{ "type": "smell" }] }),
            -32602,
            "prompt",
        ),
        ("session/prompt", json!({ "prompt": text }), -32602, "sessionId"),
        ("session/set_mode", json!({ "sessionId": session, "modeId": "reckless" }), -32602, "modeId"),
        ("session/set_mode", json!({ "sessionId": session }), -32602, "modeId"),
        (
            "session/set_config_option",
            json!({ "sessionId": session, "configId": "colour", "value": "red" }),
            -32602,
            "configId",
        ),
        (
            "session/set_config_option",
            json!({ "sessionId": session, "configId": "mode", "value": "reckless" }),
            -32602,
            "value",
        ),
        (
            "session/set_config_option",
            json!({ "sessionId": session, "configId": "model", "value": "no-slash" }),
            -32602,
            "value",
        ),
        ("authenticate", json!({ "methodId": "magic" }), -32602, "methodId"),
    ];
    for (method, params, code, field) in cases {
        let error = run.request(method, params.clone()).expect_err(&format!("{method} {params}"));
        assert_eq!(i32::from(error.code), code, "{method} {params}: {error:?}");
        let words = format!("{} {}", error.message, error.data.clone().unwrap_or_default());
        assert!(words.contains(field), "{method} {params}: {words}");
    }
    run.model().push(says("Alive."));
    assert_eq!(run.prompt("still there?"), "end_turn");
}

// S06: the id, -32002, no updates, no substitute.
#[test]
fn an_unknown_session_is_not_found() {
    let run = scenario().start();
    let unknown = "ses_unknown";
    for (method, params) in [
        ("session/prompt", json!({ "sessionId": unknown, "prompt": [{ "type": "text", "text": "hi" }] })),
        ("session/set_mode", json!({ "sessionId": unknown, "modeId": "ask" })),
        ("session/set_config_option", json!({ "sessionId": unknown, "configId": "mode", "value": "ask" })),
    ] {
        let error = run.request(method, params).unwrap_err();
        assert_eq!(i32::from(error.code), -32002, "{method}");
        assert!(format!("{error:?}").contains(unknown), "{method}: {error:?}");
    }
    let told =
        run.lines().iter().any(|line| line.update().is_some() && line.params()["sessionId"] == unknown);
    assert!(!told);
}

#[test]
fn what_is_no_message_is_answered_and_survived() {
    let run = scenario().model(says("Alive.")).start();
    for (line, code) in [
        ("{ not json", -32700),
        ("", 0),
        ("42", -32600),
        ("\"text\"", -32600),
        ("[]", -32600),
        (r#"[{"jsonrpc":"2.0","id":1,"method":"session/new","params":{}}]"#, -32600),
        (r#"{"id":1}"#, -32600),
    ] {
        if line.is_empty() {
            run.send_line(line);
            continue;
        }
        let n_before = run.lines().len();
        run.send_line(line);
        let error = run.wait_for(&format!("an error for {line}"), |lines| {
            let mut later = lines[n_before..].iter().filter(|line| line.from == Side::Agent);
            later.find_map(|line| line.message.get("error").cloned())
        });
        assert_eq!(error["code"], code, "{line}: {error}");
    }
    assert_eq!(run.prompt("still there?"), "end_turn");
}

#[test]
fn ids_of_any_kind_are_given_back() {
    let run = scenario().start();
    for id in [json!(0), json!(-7), json!("text"), json!("ünïcode"), json!(9_007_199_254_740_991_i64)] {
        let params = json!({ "sessionId": run.session(), "modeId": "ask" });
        let line =
            json!({ "jsonrpc": "2.0", "id": id, "method": "session/set_mode", "params": params }).to_string();
        let answer = run.answer_to_line(&line, &id);
        assert!(answer.get("result").is_some(), "{answer}");
    }
}

// M05: a long line is taken whatever its chunks; above the ceiling it fails clearly, in bounded memory.
#[test]
fn a_line_of_32_mib_is_taken_and_one_above_the_ceiling_is_refused() {
    let run = scenario().model(says("Read.")).model(says("Alive.")).start();
    let text = "x".repeat(PROMISED_LINE - 1000);
    let pending = run.send_blocks(run.session(), json!([{ "type": "text", "text": text }]));
    assert_eq!(run.end(pending), "end_turn");
    let n_before = run.lines().len();
    let line = format!(
        r#"{{"jsonrpc":"2.0","id":"huge","method":"session/prompt","params":"{}"}}"#,
        "y".repeat(CEILING)
    );
    run.send_line(&line);
    let error = run.wait_for("the refusal of the line", |lines| {
        let mut later = lines[n_before..].iter().filter(|line| line.from == Side::Agent);
        later.find_map(|line| line.message.get("error").cloned())
    });
    assert_eq!(error["code"], -32700, "{error}");
    assert!(error.to_string().len() < 10_000, "the line is not sent back");
    assert_eq!(run.prompt("still there?"), "end_turn");
    let peak = run.process().peak_memory();
    assert!(peak < 800 << 20, "{} MiB", peak >> 20);
}

// M04: characters of several bytes, also when a read ends inside one.
#[test]
fn text_of_any_script_arrives_whole() {
    let text = "naïve — 漢字 🎭 e\u{301} \u{202e}rtl \u{0} end";
    let long = "漢".repeat(100_000);
    let run = scenario().model(says(text).says(&long)).start();
    let pending =
        run.send_blocks(run.session(), json!([{ "type": "text", "text": format!("{text}{long}") }]));
    assert_eq!(run.end(pending), "end_turn");
    assert_eq!(run.said(), format!("{text}{long}"));
    assert!(run.user_texts_for_model().iter().any(|said| said.contains(text) && said.contains(&long)));
}

// M07: the reader never waits: while a turn waits for the client, the client is answered.
#[test]
fn requests_are_answered_while_the_agent_waits_for_the_client() {
    let habits = Habits { faults: [("fs/read_text_file", Fault::Silent)].into(), ..Habits::default() };
    let run = scenario()
        .habits(habits)
        .file("a.txt", "x\n")
        .model(calls("read", json!({ "file_path": "a.txt" })))
        .start();
    let pending = run.send("go");
    run.wait_for_request("fs/read_text_file");
    run.request("session/set_mode", json!({ "sessionId": run.session(), "modeId": "ask" })).unwrap();
    run.new_session();
    run.cancel();
    assert_eq!(run.end(pending), "cancelled");
}

// M03: at the loudest log level too. The conformance check reads every line.
#[test]
fn stdout_carries_nothing_but_the_protocol() {
    let run = scenario()
        .env("FOLLOWSPOT_LOG", "trace")
        .env("RUST_LOG", "trace")
        .model(calls("bash", json!({ "command": "echo noise; echo noise >&2", "description": "Noise" })))
        .model(says("Done."))
        .start();
    assert_eq!(run.prompt("go"), "end_turn");
    assert!(!run.process().stderr().contains(crate::kit::conformance::KEY), "a key in the log");
}

#[test]
fn any_version_is_answered_with_the_one_that_is_spoken() {
    for asked in [0, 1, 2, 99] {
        let run = scenario().start_process();
        let mut params = ClientKind::full().initialize_params();
        params["protocolVersion"] = json!(asked);
        let answer = run.request("initialize", params).unwrap();
        assert_eq!(answer["protocolVersion"], 1, "{asked}");
        assert_eq!(answer["agentInfo"]["name"], "followspot");
    }
}

// X08: nothing is asked of the network before the first prompt, and an idle session costs nothing.
#[test]
fn opening_a_session_asks_nothing_of_the_network_and_idles() {
    let began = Instant::now();
    let run = scenario().start();
    assert!(began.elapsed() < Duration::from_secs(5), "{:?}", began.elapsed());
    assert_eq!(run.model().received().len(), 0);
    let before = run.process().cpu_time();
    std::thread::sleep(Duration::from_secs(2));
    let spent = run.process().cpu_time() - before;
    assert!(spent <= Duration::from_millis(20), "{spent:?} in two idle seconds");
}

// X01, X02: the end of stdin stops everything, also in the middle of a turn.
#[test]
fn the_end_of_stdin_stops_everything() {
    let family = "sleep 300 & (sleep 300 & sleep 300) & setsid sleep 300 & echo ready > ready; sleep 300";
    for client in [ClientKind::full(), ClientKind::bare()] {
        let run = scenario()
            .client(client)
            .model(says("Running.").calls("bash", json!({ "command": family, "description": "Run" })))
            // Nobody is left to answer to.
            .start();
        let _pending = run.send("go");
        run.wait_until("the command to run", || run.path("ready").exists());
        let began = Instant::now();
        run.close_stdin();
        let status = run.exit_status(DEADLINE).expect("the process ends");
        assert!(status.success(), "{status}");
        assert!(began.elapsed() < Duration::from_secs(3), "{:?}", began.elapsed());
        run.assert_no_process_left();
        let shown = run.run(&["sessions", "show", run.session()]);
        assert!(shown.contains("Running."), "{shown}");
    }
}

#[test]
fn the_end_of_stdin_ends_an_idle_process_at_once() {
    for started in [scenario().start_process(), scenario().start()] {
        let began = Instant::now();
        started.close_stdin();
        assert!(started.exit_status(DEADLINE).expect("the process ends").success());
        assert!(began.elapsed() < Duration::from_secs(1), "{:?}", began.elapsed());
    }
}

// X01: a polite signal is an end as well.
#[test]
fn a_signal_stops_everything() {
    let run = scenario()
        .model(calls("bash", json!({ "command": "echo ready > ready; sleep 300", "description": "Run" })))
        .start();
    let _pending = run.send("go");
    run.wait_until("the command to run", || run.path("ready").exists());
    let pid = run.process().pid().to_string();
    assert!(std::process::Command::new("kill").args(["-TERM", &pid]).status().unwrap().success());
    assert!(run.exit_status(DEADLINE).is_some());
    run.assert_no_process_left();
}

// M05 for the other direction: a client that does not read while the model floods.
#[test]
fn a_client_that_reads_slowly_costs_bounded_memory() {
    let piece = "All work and no play makes a dull agent. ".repeat(25);
    let n_pieces = 60_000;
    let flood = says("").says_in_pieces((0..n_pieces).map(|_| piece.clone()));
    let run = scenario().model(flood).start();
    let before = run.process().peak_memory();
    run.set_reading(false);
    let pending = run.send("flood");
    // Long enough for a process without bounds to take it all.
    std::thread::sleep(Duration::from_secs(4));
    let grown = run.process().peak_memory() - before;
    assert!(grown < 48 << 20, "{} MiB more", grown >> 20);
    run.cancel();
    run.set_reading(true);
    assert_eq!(run.end(pending), "cancelled");
}

#[test]
fn a_flood_of_commands_output_costs_bounded_memory() {
    let run = scenario()
        .client(ClientKind { display_terminals: true, ..ClientKind::bare() })
        .model(calls("bash", json!({ "command": "yes", "description": "Flood", "timeoutMs": 60000 })))
        .model(says("Done."))
        .start();
    let before = run.process().peak_memory();
    run.set_reading(false);
    let pending = run.send("flood");
    std::thread::sleep(Duration::from_secs(3));
    let grown = run.process().peak_memory() - before;
    assert!(grown < 64 << 20, "{} MiB more", grown >> 20);
    run.cancel();
    run.set_reading(true);
    assert_eq!(run.end(pending), "cancelled");
}

#[test]
fn a_closed_session_is_gone_and_others_stay() {
    let run = scenario().model(says("Hi.")).start();
    let other = run.new_session();
    run.request("session/close", json!({ "sessionId": other })).unwrap();
    let pending = run.send_blocks(&other, json!([{ "type": "text", "text": "hi" }]));
    assert_eq!(i32::from(run.answer(pending).unwrap_err().code), -32002);
    assert_eq!(run.prompt("hi"), "end_turn");
}

#[test]
fn a_session_that_closes_answers_its_prompt() {
    let gate = Gate::new();
    let run = scenario().model(says("Slow.").hold(&gate)).start();
    let pending = run.send("go");
    assert!(gate.wait_until_reached(DEADLINE));
    run.request("session/close", json!({ "sessionId": run.session() })).unwrap();
    let end = run.end(pending);
    assert!(end == "cancelled" || end.starts_with("error"), "{end}");
}

// What is advertised is answered; what is not is refused as unknown.
#[test]
fn what_is_advertised_is_answered() {
    let run = scenario().start_process();
    let answer = run.request("initialize", ClientKind::full().initialize_params()).unwrap();
    let capabilities = &answer["agentCapabilities"];
    if capabilities["loadSession"] != true {
        let params = json!({ "sessionId": "x", "cwd": run.workspace(), "mcpServers": [] });
        assert_eq!(i32::from(run.request("session/load", params).unwrap_err().code), -32601);
    }
    let sessions = &capabilities["sessionCapabilities"];
    for (capability, method) in
        [("list", "session/list"), ("resume", "session/resume"), ("delete", "session/delete")]
    {
        let params = json!({ "sessionId": "x", "cwd": run.workspace(), "mcpServers": [] });
        let code = run.request(method, params).err().map(|error| i32::from(error.code));
        assert_eq!(code == Some(-32601), sessions[capability].is_null(), "{method}: {code:?}");
    }
    assert!(!answer["authMethods"].as_array().unwrap().is_empty());
    run.request("logout", json!({})).unwrap();
}
