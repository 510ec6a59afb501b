//! Sessions that are opened again: by a process that did not see them, after a kill, while they run.
//!
//! What the handlers do is tested in the program (`session_tests`): unknown ids (S06), the list (S10, S11), titles,
//! forks. That any conversation is told again as it was seen is a property there (`view::tests`, S01 to S05).

use crate::kit::*;
use serde_json::{Map, Value, json};

/// What the editor shows in the end: every message and call with all that was said of it, in order.
///
/// A command's content is left out: it is the editor's own terminal first and text after a load.
fn shown(stage: &Stage) -> Vec<Value> {
    let mut shown: Vec<(String, Map<String, Value>)> = Vec::new();
    for line in stage.lines() {
        let Some(update) = line.update() else { continue };
        let kind = update["sessionUpdate"].as_str().unwrap_or_default();
        let key = match kind {
            "agent_message_chunk" | "agent_thought_chunk" => format!("{kind} {}", update["messageId"]),
            "tool_call" | "tool_call_update" => format!("call {}", update["toolCallId"]),
            _ => continue,
        };
        let at = shown.iter().position(|(known, _)| *known == key).unwrap_or_else(|| {
            shown.push((key, Map::new()));
            shown.len() - 1
        });
        let entry = &mut shown[at].1;
        if let Some(text) = update["content"]["text"].as_str() {
            let said =
                entry.entry("text").or_insert_with(|| json!("")).as_str().unwrap_or_default().to_owned();
            entry.insert("text".to_owned(), json!(said + text));
            continue;
        }
        for (name, value) in update.as_object().into_iter().flatten() {
            if !matches!(name.as_str(), "sessionUpdate" | "_meta") && !value.is_null() {
                entry.insert(name.clone(), value.clone());
            }
        }
        if entry.get("kind").is_some_and(|kind| kind == "execute") {
            entry.remove("content");
        }
    }
    shown.into_iter().map(|(key, entry)| json!({ "what": key, "entry": entry })).collect()
}

fn bash(command: &str) -> provider_llm::scripted::Reply {
    calls("bash", json!({ "command": command, "description": "Run it" }))
}

/// A turn with something of everything.
fn busy_turn() -> Scenario {
    let todos = json!({ "todos": [{ "content": "Read", "status": "in_progress" }] });
    scenario()
        .file("a.rs", "fn a() {}\nfn b() {}\n")
        .model(thinks("Let me see.").says("Looking.").calls("read", json!({ "file_path": "a.rs" })))
        .model(calls("edit", json!({ "file_path": "a.rs", "old_string": "fn b", "new_string": "fn c" })))
        .model(bash("echo out; exit 3"))
        .model(calls("todo_write", todos).calls("read", json!({ "file_path": "missing" })))
        .model(says("Done.").usage(100, 5))
}

// S01, S02, S03, S04: after a kill, and the conversation goes on with all that was said.
#[test]
fn a_killed_agent_tells_the_whole_conversation_to_the_next_one() {
    for client in [ClientKind::full(), ClientKind::bare()] {
        let mut stage = busy_turn().client(client).model(says("Third.")).prompt("change it");
        let before = shown(&stage);
        assert!(before.len() >= 8, "{before:?}");
        stage.restart();
        let answer = stage.about_session("session/load").unwrap();
        assert_eq!(answer["modes"]["currentModeId"], "workspace-write");
        assert_eq!(shown(&stage), before);
        let said: Vec<Value> = stage
            .updates("user_message_chunk")
            .iter()
            .map(|chunk| chunk["content"]["text"].clone())
            .collect();
        assert_eq!(said, ["change it"]);
        assert_eq!(stage.updates("plan").last().unwrap()["entries"][0]["content"], "Read");
        assert_eq!(stage.updates("session_info_update").last().unwrap()["title"], "change it");
        assert!(stage.updates("available_commands_update").len() == 1);
        assert_eq!(stage.prompt("and now?"), "end_turn");
        let said = stage.user_texts_for_model().join("\n");
        assert!(said.contains("change it") && said.contains("and now?"), "{said}");
        assert_eq!(stage.results_for_model().len(), 5);
    }
}

// S03 for a client that shows terminals of ours: they are filled again.
#[test]
fn a_displayed_terminal_is_filled_again() {
    let client = ClientKind { display_terminals: true, ..ClientKind::bare() };
    let mut stage =
        scenario().client(client).model(bash("echo out; exit 3")).model(says("Done.")).prompt("run");
    let before = shown(&stage);
    stage.restart();
    stage.about_session("session/load").unwrap();
    assert_eq!(shown(&stage), before);
    let call = stage.updates("tool_call").remove(0);
    assert_eq!(call["_meta"]["terminal_info"]["terminal_id"], call["toolCallId"]);
    let end = stage.updates("tool_call_update").pop().unwrap();
    assert_eq!(end["_meta"]["terminal_output"]["data"], "out");
    assert_eq!(end["_meta"]["terminal_exit"]["exit_code"], 3);
}

// S12: what ran when the process died is closed, for the user and for the provider.
#[test]
fn a_call_that_a_kill_interrupted_is_shown_closed_and_the_history_is_whole() {
    let mut stage = scenario()
        .client(ClientKind::bare())
        .model(says("Running.").calls(
            "bash",
            json!({
                "command": "echo ready > ready; sleep 300", "description": "Run it",
            }),
        ))
        .model(says("Fine."))
        .start();
    let _pending = stage.send("run");
    stage.wait_until("the command to run", || stage.path("ready").exists());
    stage.restart();
    stage.about_session("session/load").unwrap();
    let end = stage.updates("tool_call_update").pop().unwrap();
    assert_eq!(end["status"], "failed");
    assert_eq!(end["rawOutput"]["error"]["code"], "TOOL_OUTCOME_UNKNOWN");
    assert_eq!(stage.said(), "Running.");
    assert_eq!(stage.prompt("what now?"), "end_turn");
    let requests = stage.model().requests();
    let messages = requests.last().unwrap()["messages"].as_array().unwrap();
    let call = messages.iter().position(|message| message["tool_calls"].is_array()).unwrap();
    assert_eq!(messages[call + 1]["role"], "tool");
    assert_eq!(messages[call + 1]["tool_call_id"], messages[call]["tool_calls"][0]["id"]);
}

// What was streamed before a kill is told again under the same id.
#[test]
fn an_answer_that_a_kill_cut_is_kept() {
    let gate = Gate::new();
    let pause = std::time::Duration::from_millis(700);
    let mut stage =
        scenario().model(says("Early words. ").pause(pause).says("Later words. ").hold(&gate)).start();
    let _pending = stage.send("tell");
    stage.wait_for_update("agent_message_chunk", |update| update["content"]["text"] == "Later words. ");
    let id = stage.updates("agent_message_chunk")[0]["messageId"].clone();
    // Shown first, then logged as the message so far.
    let export = || stage.run(&["sessions", "export", stage.session()]);
    stage.wait_until("the words to be logged", || export().contains("Early words"));
    stage.restart();
    stage.about_session("session/load").unwrap();
    let told = stage.updates("agent_message_chunk");
    assert_eq!(told[0]["messageId"], id);
    assert!(stage.said().starts_with("Early words. "), "{}", stage.said());
}

// A load while a turn runs tells what was seen so far; the rest follows, and the prompt is answered.
#[test]
fn a_session_can_be_loaded_while_its_turn_runs() {
    let gate = Gate::new();
    let stage = scenario()
        .file("a.rs", "fn a() {}\n")
        .model(calls("read", json!({ "file_path": "a.rs" })))
        .model(says("One, ").hold(&gate).says("two."))
        .start();
    let pending = stage.send("go");
    stage.wait_for_update("agent_message_chunk", |_| true);
    let n_before = stage.lines().len();
    stage.about_session("session/load").unwrap();
    let told: Vec<Value> = stage.lines()[n_before..]
        .iter()
        .filter_map(|line| line.update())
        .map(|update| update["sessionUpdate"].clone())
        .collect();
    let expected = [
        "user_message_chunk",
        "tool_call",
        "tool_call_update",
        "agent_message_chunk",
        "current_mode_update",
        "session_info_update",
        "available_commands_update",
    ];
    assert_eq!(told, expected);
    gate.release();
    assert_eq!(stage.end(pending), "end_turn");
    let said: String = stage.lines()[n_before..]
        .iter()
        .filter_map(|line| line.update())
        .filter(|update| update["sessionUpdate"] == "agent_message_chunk")
        .filter_map(|update| update["content"]["text"].as_str())
        .collect();
    assert_eq!(said, "One, two.");
}

// S05: nothing is told again, and what the model knows is whole.
#[test]
fn a_resumed_session_goes_on_with_its_history() {
    let mut stage = busy_turn().model(says("Third.")).prompt("change it");
    stage.restart();
    stage.about_session("session/resume").unwrap();
    assert_eq!(stage.prompt("and now?"), "end_turn");
    assert_eq!(stage.said(), "Third.");
    assert!(stage.updates("tool_call").is_empty() && stage.updates("user_message_chunk").is_empty());
    assert_eq!(stage.results_for_model().len(), 5);
}

// S02: model, mode and rules survive; a changed prompt is logged as that of a session opened again.
#[test]
fn what_was_chosen_in_a_session_is_in_force_after_a_load() {
    let mut stage = scenario()
        .mode("ask")
        .model(bash("echo one"))
        .model(says("Ran."))
        .model(bash("echo two"))
        .model(says("Ran again."))
        .user(allow_always())
        .prompt("run");
    let set = |id: &str, value: &str| {
        let params = json!({ "sessionId": stage.session(), "configId": id, "value": value });
        stage.request("session/set_config_option", params).unwrap();
    };
    set("model", "openai/another");
    stage.restart();
    let answer = stage.about_session("session/load").unwrap();
    assert_eq!(answer["modes"]["currentModeId"], "ask");
    assert_eq!(answer["configOptions"][1]["currentValue"], "openai/another");
    // Not asked again: the rule stands.
    assert_eq!(stage.prompt("run again"), "end_turn");
    assert_eq!(stage.model().requests().last().unwrap()["model"], "another");
    let plan = json!({ "sessionId": stage.session(), "modeId": "plan" });
    stage.restart();
    stage.about_session("session/load").unwrap();
    stage.request("session/set_mode", plan).unwrap();
    stage.model().push(says("Planned."));
    assert_eq!(stage.prompt("plan"), "end_turn");
    let exported = stage.run(&["sessions", "export", stage.session()]);
    let reasons: Vec<&str> = exported
        .lines()
        .filter(|line| line.contains("\"type\":\"request/header\""))
        .map(|line| {
            ["initial", "change", "resume"]
                .into_iter()
                .find(|reason| line.contains(&format!("\"reason\":\"{reason}\"")))
                .unwrap()
        })
        .collect();
    assert_eq!(reasons, ["initial", "resume"]);
}

// S09: a result that is stored is bounded, and so is what a load tells of it.
#[test]
fn a_huge_result_does_not_come_back() {
    let mut stage = scenario()
        .client(ClientKind::bare())
        .model(bash("head -c 20000000 /dev/zero | tr '\\0' 'x' | fold -w 100"))
        .model(says("Long."))
        .prompt("run");
    stage.restart();
    stage.about_session("session/load").unwrap();
    let told: usize = stage.lines().iter().map(|line| line.message.to_string().len()).sum();
    assert!(told < 400_000, "{told} bytes were told");
    let exported = stage.run(&["sessions", "export", stage.session()]);
    assert!(exported.len() < 1_000_000, "{} bytes are stored", exported.len());
}

#[test]
fn everything_that_can_be_done_with_a_session_is_advertised() {
    let stage = scenario().start();
    let lines = stage.lines();
    let initialized =
        lines.iter().find(|line| line.message["result"]["agentCapabilities"].is_object()).unwrap();
    let capabilities = &initialized.message["result"]["agentCapabilities"];
    assert_eq!(capabilities["loadSession"], true);
    for name in ["list", "resume", "close", "delete", "fork", "title", "status", "additionalDirectories"] {
        assert_eq!(capabilities["sessionCapabilities"][name], json!({}), "{name}");
    }
}
