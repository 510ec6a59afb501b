//! MCP servers: of the editor and of the configuration, well and badly behaved.

use crate::kit::*;
use serde_json::{Value, json};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

const SERVER: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../tests/mcp/server.py");
const LOG: &str = "mcp.log";
const SECRET: &str = "hush-hush";

/// A server in the user's configuration.
fn configured(name: &str, faults: &[&str]) -> String {
    let command: Vec<&str> = ["python3", SERVER].into_iter().chain(faults.iter().copied()).collect();
    format!(
        "[mcp.{name}]\ncommand = {}\nenv = {{ MCP_LOG = \"{LOG}\", MCP_TEST_SECRET = \"{SECRET}\" }}\n",
        json!(command)
    )
}

/// A server as an editor sends it.
fn sent(name: &str, faults: &[&str]) -> Value {
    let args: Vec<&str> = [SERVER].into_iter().chain(faults.iter().copied()).collect();
    let env = json!([{ "name": "MCP_LOG", "value": LOG }, { "name": "MCP_TEST_SECRET", "value": SECRET }]);
    json!({ "name": name, "command": "python3", "args": args, "env": env })
}

/// Starts the agent and opens a session with these servers.
fn with_servers(scenario: Scenario, servers: Value) -> (Stage, String) {
    let stage = scenario.start();
    let mut params = stage.new_session_params();
    params["mcpServers"] = servers;
    let answer = stage.request("session/new", params).expect("session/new is answered");
    let session = answer["sessionId"].as_str().expect("an id").to_owned();
    (stage, session)
}

fn prompt(stage: &Stage, session: &str) -> String {
    let pending = stage.send_blocks(session, json!([{ "type": "text", "text": "go" }]));
    stage.end(pending)
}

/// What the servers wrote down.
fn logged(stage: &Stage) -> Vec<Value> {
    let Ok(log) = std::fs::read_to_string(stage.path(LOG)) else { return Vec::new() };
    log.lines().filter_map(|line| serde_json::from_str(line).ok()).collect()
}

fn logged_pids(stage: &Stage) -> Vec<u64> {
    let entries = logged(stage);
    entries.iter().flat_map(|entry| [&entry["pid"], &entry["orphan"]]).filter_map(Value::as_u64).collect()
}

fn is_running(pid: u64) -> bool {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
    stat.rsplit_once(") ").is_some_and(|(_, rest)| !rest.starts_with('Z'))
}

/// Names of the MCP tools in a request to the model.
fn tools_in(request: &Value) -> Vec<String> {
    let tools = request["tools"].as_array().cloned().unwrap_or_default();
    let names = tools.iter().filter_map(|tool| tool["function"]["name"].as_str());
    names.filter(|name| name.starts_with("mcp__")).map(str::to_owned).collect()
}

fn everything_told(stage: &Stage) -> String {
    let lines: Vec<String> = stage.lines().iter().map(|line| line.message.to_string()).collect();
    let requests: Vec<String> = stage.model().requests().iter().map(Value::to_string).collect();
    lines.join("\n") + &requests.join("\n") + &stage.process().stderr()
}

// X05, X06
#[test]
fn a_server_of_the_editor_is_started_exactly_as_it_was_sent() {
    let arranged = scenario()
        .model(
            calls("mcp__test__echo", json!({ "text": "hi" })).calls("mcp__test__write", json!({ "a": [1] })),
        )
        .model(says("Done."))
        .user(allow_once());
    let (run, session) = with_servers(arranged, json!([sent("test", &["noisy"])]));
    assert_eq!(prompt(&run, &session), "end_turn");
    insta::assert_snapshot!(run.transcript(), @r#"
    > #2 go
    < #2 call 1 other pending  echo (test)
    < #2 call 1 in_progress
    < #2 call 1 completed  "echo {\"text\": \"hi\"}"
    < #2 call 2 other pending  write (test)
    ? #2 call 2  write (test)  allow_once | allow_always | reject_once
    ! #2 allow_once
    < #2 call 2 in_progress
    < #2 call 2 completed  "write {\"a\": [1]}"
    < #2 Done.
    = #2 end_turn
    "#);
    assert_eq!(run.results_for_model(), [r#"echo {"text": "hi"}"#, r#"write {"a": [1]}"#]);
    let started = logged(&run).first().cloned().expect("the server wrote down how it was started");
    assert_eq!(started["env"], json!({ "MCP_TEST_SECRET": SECRET }));
    assert_eq!(started["inherited"], false, "keys of models stay here");
}

#[test]
fn a_call_looks_the_same_when_its_session_is_opened_without_the_server() {
    let arranged = scenario().model(calls("mcp__test__echo", json!({ "text": "hi" }))).model(says("Done."));
    let (run, session) = with_servers(arranged, json!([sent("test", &[])]));
    assert_eq!(prompt(&run, &session), "end_turn");
    run.request("session/close", json!({ "sessionId": session })).expect("session/close is answered");
    let mut params = run.new_session_params();
    params["sessionId"] = json!(session);
    run.request("session/load", params).expect("session/load is answered");
    let cards: Vec<Value> = run
        .updates("tool_call")
        .iter()
        .map(|card| json!([card["title"], card["kind"], card["rawInput"]]))
        .collect();
    assert_eq!(cards.len(), 2);
    assert_eq!(cards[0], cards[1]);
}

// X03
#[test]
fn servers_that_do_not_come_up_delay_no_session_and_the_first_request_only_shortly() {
    let arranged = scenario().model(says("One.")).model(says("Two.")).model(says("Three."));
    let (run, session) = with_servers(arranged, json!([]));
    let began = Instant::now();
    let mut params = run.new_session_params();
    params["mcpServers"] = json!([sent("deaf", &["deaf"]), sent("slow", &["slow-start", "1"])]);
    let answer = run.request("session/new", params).expect("session/new is answered");
    assert!(began.elapsed() < Duration::from_secs(1), "session/new took {:?}", began.elapsed());
    let slow_session = answer["sessionId"].as_str().expect("an id").to_owned();

    // Nobody waits for the servers of others.
    assert_eq!(prompt(&run, &session), "end_turn");
    assert!(began.elapsed() < Duration::from_secs(4), "another session waited");

    assert_eq!(prompt(&run, &slow_session), "end_turn");
    let took = began.elapsed();
    assert!(
        (Duration::from_secs(4)..Duration::from_secs(8)).contains(&took),
        "the first request after {took:?}"
    );
    let requests = run.model().requests();
    assert_eq!(tools_in(&requests[1])[0], "mcp__slow__echo");

    std::thread::sleep(Duration::from_millis(10_500).saturating_sub(began.elapsed()));
    assert_eq!(prompt(&run, &slow_session), "end_turn");
    let told = "MCP server deaf is not connected, its tools are missing: it did not answer within 10 s";
    assert!(run.said().contains(told), "{}", run.said());
}

// X04
#[test]
fn a_server_that_fails_is_named_to_user_and_model_without_its_secrets() {
    let run = scenario()
        .config(&configured("dead", &["dies"]))
        .config("[mcp.gone]\ncommand = [\"no-such-program-anywhere\"]\n")
        .model(says("I see."))
        .model(says("Still."))
        .prompt("go");
    for text in [run.said(), run.user_texts_for_model().join("\n")] {
        assert!(text.contains("MCP server dead is not connected"), "{text}");
        assert!(text.contains("exit status: 7"), "{text}");
        assert!(text.contains("cannot open the database with ***"), "{text}");
        assert!(text.contains("MCP server gone is not connected"), "{text}");
        assert!(text.contains("no-such-program-anywhere could not be started"), "{text}");
    }
    assert!(!everything_told(&run).contains(SECRET), "a secret got out");
    run.prompt("again");
    assert_eq!(run.said().matches("MCP server dead").count(), 1, "told once");
}

#[test]
fn every_kind_of_answer_reaches_the_model_within_bounds() {
    let run = scenario()
        .config(&configured("test", &[]))
        .model(
            calls("mcp__test__fails", json!({}))
                .calls("mcp__test__odd", json!({ "n": 1 }))
                .calls("mcp__test__odd", json!({ "n": 3 }))
                .calls(&broken(), json!({ "n": "any" }))
                .calls("mcp__test__image", json!({}))
                .calls("mcp__test__huge", json!({})),
        )
        .model(says("Done."))
        .prompt("go");
    let mut results = run.results_for_model();
    let huge = results.pop().expect("six results");
    assert_eq!(
        results,
        [
            "Error: there is no such row",
            "Error: invalid arguments: /n: 1 is less than the minimum of 3",
            r#"odd {"n": 3}"#,
            r#"broken schema {"n": "any"}"#,
            "[an image (image/png, 70 bytes) is left out: the current model is not known to take images]",
        ]
    );
    assert!(huge.len() < 100_000, "{} bytes", huge.len());
}

fn broken() -> String {
    services::mcp_servers::tool_name("test", "broken schema")
}

#[test]
fn a_tool_that_comes_later_is_there_at_the_next_step() {
    let run = scenario()
        .config(&configured("test", &[]))
        .model(calls("mcp__test__grow", json!({})))
        .model(calls("mcp__test__late", json!({})))
        .model(says("Done."))
        .prompt("go");
    assert_eq!(run.results_for_model(), ["grow {}", "late {}"]);
}

#[test]
fn a_server_that_dies_during_a_call_fails_it_and_is_connected_again() {
    let run = scenario()
        .config(&configured("test", &[]))
        .model(calls("mcp__test__die", json!({})))
        .model(calls("mcp__test__echo", json!({ "text": "again" })))
        .model(says("Done."))
        .prompt("go");
    assert_eq!(
        run.results_for_model(),
        [
            "Error: MCP server test went away during the call; whether it took effect is unknown",
            r#"echo {"text": "again"}"#,
        ]
    );
}

#[test]
fn a_cancelled_call_is_cancelled_on_the_server() {
    let run = scenario().config(&configured("test", &[])).model(calls("mcp__test__slow", json!({}))).start();
    let pending = run.send("go");
    run.wait_until("the call on the server", || {
        logged(&run).iter().any(|entry| entry["method"] == "tools/call")
    });
    run.cancel();
    assert_eq!(run.end(pending), "cancelled");
    run.wait_until("the cancellation on the server", || {
        logged(&run).iter().any(|entry| entry["method"] == "notifications/cancelled")
    });
}

// X07
#[test]
fn servers_end_with_their_session_and_all_of_them_with_the_editor() {
    let (run, session) = with_servers(scenario(), json!([sent("one", &["orphan"])]));
    run.wait_until("the first server and its child", || logged_pids(&run).len() == 2);
    run.request("session/close", json!({ "sessionId": session })).expect("session/close is answered");
    let first = logged_pids(&run);
    assert!(!first.iter().any(|pid| is_running(*pid)), "a server or its child outlived its session");

    let mut params = run.new_session_params();
    params["mcpServers"] = json!([sent("two", &["orphan"]), sent("three", &["deaf"])]);
    run.request("session/new", params).expect("session/new is answered");
    run.wait_until("the other servers", || logged_pids(&run).len() == 5);
    let began = Instant::now();
    run.close_stdin();
    assert!(
        run.exit_status(Duration::from_millis(2600)).is_some(),
        "still there after {:?}",
        began.elapsed()
    );
    run.wait_until("the end of the servers", || !logged_pids(&run).iter().any(|pid| is_running(*pid)));
}

/// The same server over HTTP.
struct HttpServer(Child);

impl HttpServer {
    fn start(folder: &Path) -> (Self, String) {
        let port_file = folder.join("port");
        let child = Command::new("python3")
            .args([SERVER, "--http"])
            .arg(&port_file)
            .env("MCP_LOG", folder.join(LOG))
            .stdin(Stdio::null())
            .spawn()
            .expect("python3 starts");
        let server = Self(child);
        let began = Instant::now();
        loop {
            let port = std::fs::read_to_string(&port_file).unwrap_or_default();
            if !port.is_empty() {
                return (server, format!("http://127.0.0.1:{port}/mcp"));
            }
            assert!(began.elapsed() < DEADLINE, "the HTTP server does not start");
            std::thread::sleep(Duration::from_millis(20));
        }
    }
}

impl Drop for HttpServer {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

// X05, X06
#[test]
fn a_server_behind_an_address_gets_its_headers_and_answers() {
    let folder = tempfile::tempdir().unwrap();
    let (_server, url) = HttpServer::start(folder.path());
    let header = json!([{ "name": "Authorization", "value": format!("Bearer {SECRET}") }]);
    let http =
        |name: &str, headers: &Value| json!({ "type": "http", "name": name, "url": url, "headers": headers });
    let arranged = scenario()
        .model(calls("mcp__web__echo", json!({ "text": "hi" })))
        .model(says("Done."))
        .model(says("Done."));
    let servers = json!([http("web", &header), http("locked", &json!([]))]);
    let (run, session) = with_servers(arranged, servers);
    assert_eq!(prompt(&run, &session), "end_turn");
    assert_eq!(run.results_for_model(), [r#"echo {"text": "hi"}"#]);
    assert!(run.said().contains("MCP server locked is not connected"), "{}", run.said());
    // What a test sent is in its own half of the conversation.
    let from_agent = run
        .lines()
        .iter()
        .filter(|line| line.from == Side::Agent)
        .any(|line| line.message.to_string().contains(SECRET));
    assert!(!from_agent && !run.process().stderr().contains(SECRET), "a header got out");
}

/// The reference server that shows everything MCP has, installed by `.ci/install-test-clients`.
#[test]
fn the_reference_server_works_over_both_transports() {
    let tools =
        Path::new(env!("CARGO_TARGET_TMPDIR")).parent().expect("the target folder").join("tools/acpx");
    let node = tools.join("node_modules/node/bin/node");
    let server = tools.join("node_modules/@modelcontextprotocol/server-everything/dist/index.js");
    assert!(server.is_file(), "run .ci/install-test-clients first");
    let port = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
    let http = Command::new(&node)
        .arg(&server)
        .arg("streamableHttp")
        .env("PORT", port.to_string())
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .expect("node starts");
    let _http = HttpServer(http);
    let began = Instant::now();
    while std::net::TcpStream::connect(("127.0.0.1", port)).is_err() {
        assert!(began.elapsed() < DEADLINE, "the reference server does not listen");
        std::thread::sleep(Duration::from_millis(50));
    }
    let sum = |server: &str| (format!("mcp__{server}__get-sum"), json!({ "a": 40, "b": 2 }));
    let (over_stdio, over_http) = (sum("stdio"), sum("http"));
    let arranged = scenario()
        .mode("danger-full-access")
        .model(
            calls(&over_stdio.0, over_stdio.1)
                .calls(&over_http.0, over_http.1)
                .calls("mcp__stdio__get-sum", json!({ "a": "many" }))
                .calls("mcp__stdio__get-structured-content", json!({ "location": "Chicago" })),
        )
        .model(says("Done."));
    let servers = json!([
        { "name": "stdio", "command": node, "args": [server, "stdio"], "env": [] },
        { "type": "http", "name": "http", "url": format!("http://127.0.0.1:{port}/mcp"), "headers": [] },
    ]);
    let (run, session) = with_servers(arranged, servers);
    assert_eq!(prompt(&run, &session), "end_turn");
    let results = run.results_for_model();
    assert_eq!(results[..2], ["The sum of 40 and 2 is 42."; 2], "{}", run.said());
    assert!(results[2].starts_with("Error: invalid arguments: "), "{}", results[2]);
    assert!(results[3].contains("temperature"), "{}", results[3]);
}

#[test]
fn http_is_advertised() {
    let run = scenario().start_process();
    let answer = run.request("initialize", json!({ "protocolVersion": 1 })).expect("initialize is answered");
    assert_eq!(answer["agentCapabilities"]["mcpCapabilities"]["http"], true);
}
