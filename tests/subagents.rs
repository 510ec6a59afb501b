//! Agents that agents start: on the built program, with a model that serves several of them at once.

use crate::kit::*;
use serde_json::{Value, json};

/// A delegation; the child's model is scripted by its prompt.
fn delegate(prompt: &str, background: bool) -> provider_llm::scripted::Reply {
    calls(
        "subagent",
        json!({ "description": "Look around", "prompt": prompt, "run_in_background": background }),
    )
}

/// What stands in the requests of a child alone; its parent's hold the prompt of the child too.
const OF_CHILD: &str = "you work for another agent";

/// The updates of the call with this title, in order.
fn updates_of(stage: &Stage, title: &str) -> Vec<Value> {
    let id = stage
        .updates("tool_call")
        .into_iter()
        .find(|call| call["title"] == title)
        .map(|call| call["toolCallId"].clone())
        .unwrap_or_else(|| panic!("no call {title}"));
    let updates = stage.updates("tool_call_update").into_iter();
    updates.filter(|update| update["toolCallId"] == id).collect()
}

fn texts(update: &Value) -> String {
    let items = update["content"].as_array().into_iter().flatten();
    items.filter_map(|item| item["content"]["text"].as_str()).collect::<Vec<_>>().join("\n")
}

/// Id of the agent that was started; the last request may be its own.
fn started(stage: &Stage) -> String {
    let requests = stage.model().requests();
    let messages =
        requests.iter().flat_map(|request| request["messages"].as_array().cloned().unwrap_or_default());
    let mut results = messages.filter(|message| message["role"] == "tool");
    let told = results.find_map(|message| message["content"].as_str().map(str::to_owned)).unwrap();
    assert!(told.contains("has begun"), "{told}");
    told.split_whitespace().nth(2).unwrap().to_owned()
}

#[test]
fn a_child_that_is_waited_for_works_in_the_card_of_its_call() {
    let gate = Gate::new();
    let stage = scenario()
        .file("a.txt", "alpha\n")
        .model(delegate("CHILD: read a.txt", false).only_for("please"))
        .model(calls("read", json!({ "file_path": "a.txt" })).only_for(OF_CHILD))
        .model(says("It says ").hold(&gate).says("alpha.").only_for(OF_CHILD))
        .model(says("The agent found alpha."))
        .start();
    let pending = stage.send("please look");
    stage.wait_for_update("tool_call_update", |update| texts(update).contains("> It says"));
    gate.release();
    assert_eq!(stage.end(pending), "end_turn");
    assert_eq!(stage.results_for_model(), ["It says alpha."]);
    let updates = updates_of(&stage, "Delegate: Look around");
    let last = updates.last().unwrap();
    assert_eq!(last["status"], "completed");
    assert!(texts(last).contains("It says alpha."), "{last}");
    // The child's own calls are its own: the top session shows one card.
    assert_eq!(stage.updates("tool_call").len(), 1);
    assert!(stage.said().ends_with("The agent found alpha."), "{}", stage.said());
    // S10: children are not listed.
    let listed = stage.request("session/list", json!({ "cwd": stage.workspace() })).unwrap();
    assert_eq!(listed["sessions"].as_array().unwrap().len(), 1, "{listed}");
}

#[test]
fn a_child_in_the_background_tells_its_end_and_takes_a_further_message() {
    let first = Gate::new();
    let stage = scenario()
        .spare_rule("nothing of a turn comes after its answer")
        .model(delegate("CHILD: dig", true).only_for("please"))
        .model(says("It digs.").only_for("please"))
        .model(says("Dug ").hold(&first).says("deep.").only_for(OF_CHILD))
        .model(says("I know now.").only_for("finished"))
        .start();
    assert_eq!(stage.prompt("please dig"), "end_turn");
    let child = started(&stage);
    first.release();
    stage.wait_until("the parent to answer the settlement", || stage.said().ends_with("I know now."));
    let told = stage.user_texts_for_model();
    assert!(told.iter().any(|text| text.contains("finished.") && text.contains("Dug deep.")), "{told:?}");
    let card = updates_of(&stage, "Delegate: Look around");
    assert!(texts(card.last().unwrap()).contains("The agent finished."), "{card:?}");

    let message = json!({ "subagent_id": child, "message": "CHILD: deeper" });
    stage.model().push(calls("list_agents", json!({})).only_for("go on"));
    stage.model().push(calls("send_message", message).only_for("go on"));
    stage.model().push(says("Sent.").only_for("go on"));
    stage.model().push(says("Deeper.").only_for("CHILD: deeper"));
    stage.model().push(says("Good.").only_for("Deeper."));
    assert_eq!(stage.prompt("go on"), "end_turn");
    stage.wait_until("the parent to hear of the second end", || stage.said().ends_with("Good."));
    let results: Vec<String> = stage.results_for_model();
    assert!(results.iter().any(|text| text.contains("[ready] — Look around")), "{results:?}");
    assert!(results.iter().any(|text| text.starts_with("Queued as the next turn")), "{results:?}");
    // The child remembers its first turn.
    let requests = stage.model().requests();
    let deeper = requests.iter().find(|request| {
        let text = request["messages"].to_string();
        text.contains("CHILD: deeper") && text.contains("CHILD: dig") && !text.contains("please dig")
    });
    assert!(deeper.is_some(), "the child was opened again with its own conversation");
}

// P05, P06: questions of a child are asked in the top session, and it has no more authority than its parent.
#[test]
fn a_child_asks_in_the_session_of_the_person() {
    let edit = json!({ "file_path": "new.txt", "content": "made\n" });
    let stage = scenario()
        .mode("ask")
        .model(delegate("CHILD: write", false).only_for("please"))
        .model(calls("write", edit.clone()).only_for(OF_CHILD))
        .model(calls("write", edit.clone()).only_for(OF_CHILD))
        .model(says("Written.").only_for(OF_CHILD))
        .model(says("Done."))
        .user(reject_once())
        .user(allow_once())
        .start();
    assert_eq!(stage.prompt("please write"), "end_turn");
    stage.assert_file("new.txt", "made\n");
    let lines = stage.lines();
    let questions: Vec<&Value> = lines
        .iter()
        .filter(|line| line.method() == Some("session/request_permission"))
        .map(|line| line.params())
        .collect();
    assert_eq!(questions.len(), 2);
    for question in questions {
        assert_eq!(question["sessionId"], stage.session());
        assert!(
            question["toolCall"]["content"].to_string().contains("The agent \\\"Look around\\\" asks"),
            "{question}"
        );
    }
    assert_eq!(stage.updates("tool_call").len(), 3, "each question has a card of its own");
    assert_eq!(stage.results_for_model(), ["Written."]);
}

#[test]
fn in_plan_mode_a_child_changes_nothing() {
    let stage = scenario()
        .mode("plan")
        .model(delegate("CHILD: write", false).only_for("please"))
        .model(calls("write", json!({ "file_path": "new.txt", "content": "made\n" })).only_for(OF_CHILD))
        .model(says("I could not.").only_for(OF_CHILD))
        .model(says("Done."))
        .start();
    assert_eq!(stage.prompt("please write"), "end_turn");
    assert!(!stage.path("new.txt").exists());
    assert_eq!(stage.results_for_model(), ["I could not."]);
}

#[test]
fn a_stop_ends_the_children_too() {
    let gate = Gate::new();
    let command = json!({ "command": "echo on > on; sleep 300", "description": "Wait" });
    let stage = scenario()
        .model(
            delegate("CHILD: one", true)
                .calls(
                    "subagent",
                    json!({ "description": "Second", "prompt": "CHILD: two", "run_in_background": false }),
                )
                .only_for("please"),
        )
        .model(says("Thinking ").hold(&gate).only_for("CHILD: one"))
        .model(calls("bash", command).only_for("CHILD: two"))
        .start();
    let pending = stage.send("please");
    stage.wait_until("the command of the child to run", || stage.path("on").exists());
    assert!(gate.wait_until_reached(DEADLINE));
    stage.cancel();
    assert_eq!(stage.end(pending), "cancelled");
    stage.assert_no_process_left();
    stage.model().push(says("Still here."));
    assert_eq!(stage.prompt("are you there?"), "end_turn");
    assert!(stage.said().ends_with("Still here."), "{}", stage.said());
    let told = stage.user_texts_for_model();
    assert!(told.iter().any(|text| text.contains("(Look around) was stopped.")), "{told:?}");
}

#[test]
fn an_agent_that_was_interrupted_tells_it_and_takes_another_message() {
    let gate = Gate::new();
    let stage = scenario()
        .spare_rule("nothing of a turn comes after its answer")
        .model(delegate("CHILD: dig", true).only_for("please"))
        .model(says("It digs.").only_for("please"))
        .model(says("Digging ").hold(&gate).only_for(OF_CHILD))
        .start();
    assert_eq!(stage.prompt("please dig"), "end_turn");
    let child = started(&stage);
    assert!(gate.wait_until_reached(DEADLINE));
    let agent = json!({ "agent_id": child });
    stage.model().push(calls("interrupt_agent", agent).only_for("halt"));
    stage.model().push(calls("interrupt_agent", json!({ "agent_id": "ses_nobody" })).only_for("halt"));
    let wait = json!({ "command": "until [ -e settled ]; do sleep 0.02; done", "description": "Wait" });
    stage.model().push(calls("bash", wait).only_for("halt"));
    stage.model().push(says("Halted.").only_for("halt"));
    let pending = stage.send("halt");
    stage.wait_for_update("tool_call_update", |update| texts(update).contains("The agent was stopped."));
    stage.write("settled", "");
    assert_eq!(stage.end(pending), "end_turn");
    let told = stage.user_texts_for_model();
    assert!(told.iter().any(|text| text.contains("(Look around) was stopped.")), "{told:?}");
    let message = json!({ "subagent_id": child, "message": "CHILD: again" });
    stage.model().push(calls("send_message", message).only_for("once more"));
    stage.model().push(says("Sent.").only_for("once more"));
    stage.model().push(says("Dug.").only_for("CHILD: again"));
    stage.model().push(says("Good.").repeated());
    assert_eq!(stage.prompt("once more"), "end_turn");
    stage.wait_until("the end of the second turn", || {
        let requests = stage.model().requests();
        requests.iter().any(|request| request["messages"].to_string().contains("finished.\\n\\nDug."))
    });
}

#[test]
fn a_fork_knows_what_was_said() {
    let fork = json!({ "description": "Recall", "prompt": "CHILD: what was the word?" });
    let stage = scenario()
        .model(says("The word is kiwi.").only_for("tell me a word"))
        .model(calls("subagent_fork", fork).only_for("ask"))
        .model(says("kiwi").only_for(OF_CHILD))
        .model(says("It is kiwi."))
        .start();
    stage.prompt("tell me a word");
    assert_eq!(stage.prompt("ask"), "end_turn");
    let requests = stage.model().requests();
    let child = requests.iter().find(|request| request["messages"].to_string().contains("CHILD:")).unwrap();
    let text = child["messages"].to_string();
    assert!(text.contains("The word is kiwi.") && !text.contains("\"ask\""), "{text}");
    assert_eq!(stage.results_for_model(), ["kiwi"]);
}

#[test]
fn the_deepest_agent_cannot_delegate() {
    let stage = scenario()
        .model(delegate("LEVEL1", false).only_for("please"))
        .model(delegate("LEVEL2", false).only_for("LEVEL1"))
        .model(delegate("LEVEL3", false).only_for("LEVEL2"))
        .model(delegate("LEVEL4", false).only_for("LEVEL3"))
        .model(says("Too deep.").only_for("LEVEL3"))
        .model(says("Second.").only_for("LEVEL2"))
        .model(says("First.").only_for("LEVEL1"))
        .model(says("Done."))
        .start();
    assert_eq!(stage.prompt("please"), "end_turn");
    assert_eq!(stage.results_for_model(), ["First."]);
    let requests = stage.model().requests();
    assert!(
        requests.iter().any(|request| request["messages"].to_string().contains("depth 4 is not possible"))
    );
}

#[test]
fn a_report_arrives_before_the_end_and_only_children_have_the_tool() {
    let stage = scenario()
        .spare_rule("nothing of a turn comes after its answer")
        .model(delegate("CHILD: report", true).only_for("please"))
        .model(says("It works.").only_for("please"))
        .model(calls("report", json!({ "output": "Half way." })).only_for(OF_CHILD))
        .model(says("All done.").only_for(OF_CHILD))
        .model(says("Noted.").repeated())
        .start();
    assert_eq!(stage.prompt("please"), "end_turn");
    stage.wait_until("the parent to hear of the end", || {
        stage
            .model()
            .requests()
            .iter()
            .any(|request| request["messages"].to_string().contains("finished.\\n\\nAll done."))
    });
    let requests = stage.model().requests();
    let tools = |request: &Value| request["tools"].to_string().contains("\"report\"");
    for request in &requests {
        assert_eq!(tools(request), !request["messages"].to_string().contains("please"), "{request}");
    }
    let last = requests
        .iter()
        .map(|request| request["messages"].to_string())
        .find(|text| text.contains("All done."))
        .unwrap();
    assert!(last.find("Half way.").unwrap() < last.find("All done.").unwrap(), "{last}");
    stage.wait_until("the parent to have answered", || stage.model().n_left() <= 1);
}

#[test]
fn the_card_of_a_background_child_looks_the_same_when_it_is_loaded() {
    let mut stage = scenario()
        .spare_rule("nothing of a turn comes after its answer")
        .model(delegate("CHILD: dig", true).only_for("please"))
        .model(says("It digs.").only_for("please"))
        .model(says("Dug deep.").only_for(OF_CHILD))
        .model(says("I know now.").only_for("finished"))
        .start();
    stage.prompt("please dig");
    stage.wait_until("the parent to answer the settlement", || stage.said().ends_with("I know now."));
    let live = texts(updates_of(&stage, "Delegate: Look around").last().unwrap());
    stage.kill();
    stage.restart();
    stage.about_session("session/load").unwrap();
    let loaded = texts(updates_of(&stage, "Delegate: Look around").last().unwrap());
    assert_eq!(loaded, live);
}
