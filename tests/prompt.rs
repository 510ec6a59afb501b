//! Prompts: what reaches the model, what the user is told, and in which order.

use crate::kit::*;
use serde_json::json;

#[test]
fn an_answer_streams_and_ends_the_turn() {
    let stage = scenario().model(thinks("Short.").says("Hello, ").says("you.")).prompt("hi");
    insta::assert_snapshot!(stage.transcript(), @r"
    > hi
    < (thinks) Short.
    < Hello, you.
    = end_turn
    ");
}

// M01, T10: usage is the last thing of a turn; the title comes once.
#[test]
fn title_and_usage_come_before_the_answer_and_the_title_only_once() {
    let stage = scenario()
        .config("[providers.openai]\ncontext_window = 8192\n")
        .model(says("One.").usage(120, 7))
        .model(says("Two.").usage(150, 9))
        .start();
    stage.prompt("rename the field in every file please");
    stage.prompt("and again");
    insta::assert_snapshot!(stage.picture(Detail { everything: true, ..Detail::default() }), @r"
    > rename the field in every file please
    < title  rename the field in every
    < One.
    < usage  127/8192
    = end_turn
    > and again
    < Two.
    < usage  159/8192
    = end_turn
    ");
}

#[test]
fn a_conversation_carries_what_was_said_before() {
    let stage = scenario().model(says("One.")).model(says("Two.")).prompt("first");
    stage.prompt("second");
    let requests = stage.model().requests();
    let spoken = |request: &serde_json::Value| -> Vec<String> {
        let messages = request["messages"].as_array().unwrap().iter();
        let spoken = messages
            .filter(|message| message["role"] != "system")
            .map(|message| message["content"].to_string());
        spoken.filter(|text| ["first", "One.", "second"].iter().any(|said| text.contains(said))).collect()
    };
    assert_eq!(spoken(&requests[0]).len(), 1);
    assert_eq!(spoken(&requests[1]).len(), 3);
}

// A08: links and embedded text reach the model, decoded, with their lines, in order.
#[test]
fn links_and_embedded_files_reach_the_model_in_order() {
    let stage = scenario().file("a b.rs", "fn a() {}\n").model(says("Seen.")).start();
    let link = format!("file://{}#L3:5", stage.path("a%20b.rs").display());
    let resource = format!("file://{}", stage.path("notes.md").display());
    let blocks = json!([
        { "type": "text", "text": "Compare" },
        { "type": "resource_link", "name": "a b.rs", "uri": link },
        { "type": "text", "text": "with" },
        { "type": "resource", "resource": { "uri": resource, "mimeType": "text/markdown", "text": "# Embedded words" } },
        { "type": "text", "text": "please." },
    ]);
    let pending = stage.send_blocks(stage.session(), blocks);
    assert_eq!(stage.end(pending), "end_turn");
    let said = stage.user_texts_for_model().join("\n");
    let linked = stage.path("a b.rs").display().to_string();
    let places: Vec<Option<usize>> = ["Compare", &linked, "with", "notes.md", "# Embedded words", "please."]
        .iter()
        .map(|part| said.find(part))
        .collect();
    assert!(places.iter().all(Option::is_some) && places.is_sorted(), "{places:?} in {said}");
    assert!(said.contains('3') && said.contains('5'), "{said}");
}

// A07: what is not taken is refused, and not advertised.
#[test]
fn an_image_for_a_model_without_eyes_is_refused_by_name() {
    let stage = scenario().model(says("Fine.")).start();
    let blocks = json!([
        { "type": "text", "text": "look" },
        { "type": "image", "mimeType": "image/png", "data": "iVBORw0KGgo=" },
    ]);
    let pending = stage.send_blocks(stage.session(), blocks);
    let error = stage.answer(pending).unwrap_err();
    assert_eq!(i32::from(error.code), -32602);
    assert!(error.data.unwrap().to_string().contains("prompt[1]"));
    assert_eq!(stage.prompt("then without"), "end_turn");
    let lines = stage.lines();
    let initialized =
        lines.iter().find(|line| line.message["result"]["agentCapabilities"].is_object()).unwrap();
    assert_ne!(initialized.message["result"]["agentCapabilities"]["promptCapabilities"]["image"], true);
}

// T08: other sessions are unaffected by a turn that runs.
#[test]
fn two_sessions_run_side_by_side() {
    let gate = Gate::new();
    let stage = scenario()
        .model(says("Slow ").hold(&gate).says("one.").only_for("take your time"))
        .model(says("Quick one.").only_for("be quick"))
        .start();
    let other = stage.new_session();
    let slow = stage.send("take your time");
    stage.wait_for_update("agent_message_chunk", |_| true);
    let quick = stage.send_blocks(&other, json!([{ "type": "text", "text": "be quick" }]));
    assert_eq!(stage.end(quick), "end_turn");
    assert!(!slow.is_answered());
    gate.release();
    assert_eq!(stage.end(slow), "end_turn");
    insta::assert_snapshot!(stage.transcript(), @r"
    > take your time
    < Slow
    > #2 be quick
    < #2 Quick one.
    = #2 end_turn
    < one.
    = end_turn
    ");
}

// T08: prompts of one session are queued in order, never lost, never two turns at once.
#[test]
fn prompts_of_one_session_wait_for_each_other() {
    let gate = Gate::new();
    let stage = scenario().model(says("One.").hold(&gate)).model(says("Two.")).model(says("Three.")).start();
    let first = stage.send("first");
    stage.wait_for_update("agent_message_chunk", |_| true);
    let (second, third) = (stage.send("second"), stage.send("third"));
    gate.release();
    assert_eq!([stage.end(first), stage.end(second), stage.end(third)], ["end_turn"; 3]);
    insta::assert_snapshot!(stage.transcript(), @r"
    > first
    < One.
    > second
    > third
    = end_turn
    < Two.
    = end_turn
    < Three.
    = end_turn
    ");
}

// T10: whoever was answered may ask again at once.
#[test]
fn a_prompt_right_after_an_answer_is_taken() {
    let stage = (0..20).fold(scenario(), |scenario, n| scenario.model(says(format!("{n}.")))).start();
    for n in 0..20 {
        assert_eq!(stage.prompt(&format!("prompt {n}")), "end_turn");
    }
    assert_eq!(stage.model().requests().len(), 20);
}

#[test]
fn the_plan_is_shown_and_goes_with_the_next_prompt() {
    let todos = json!({ "todos": [
        { "content": "Read", "status": "completed" },
        { "content": "Write", "status": "in_progress" },
    ]});
    let stage = scenario()
        .model(calls("todo_write", todos))
        .model(says("On it."))
        .model(says("Next."))
        .prompt("plan it");
    stage.prompt("go on");
    insta::assert_snapshot!(stage.transcript(), @r#"
    > plan it
    < call 1 other pending  Todo: 1/2
    < call 1 in_progress
    < plan  [completed] Read  [in_progress] Write
    < call 1 completed  "Todo list updated: 0 pending, 1 in progress, 1 completed"
    < On it.
    = end_turn
    > go on
    < plan
    < Next.
    = end_turn
    "#);
}

#[test]
fn a_slash_command_runs_without_the_model() {
    let stage = scenario().start();
    assert_eq!(stage.prompt("/permission read-only"), "end_turn");
    insta::assert_snapshot!(stage.picture(Detail { everything: true, ..Detail::default() }), @r"
    > /permission read-only
    < mode  read-only
    < options  mode=read-only model=openai/scripted
    < The mode is now read-only: Read and search; anything that changes something is refused or asked for.
    = end_turn
    ");
    assert_eq!(stage.model().requests().len(), 0);
}

#[test]
fn a_line_that_only_looks_like_a_command_reaches_the_model() {
    let stage = scenario().model(says("A path.")).prompt("/etc/hosts is what?");
    assert_eq!(stage.said(), "A path.");
}

fn question() -> serde_json::Value {
    json!({ "questions": [{
        "id": "colour",
        "question": "Which colour?",
        "header": "Colour",
        "options": [
            { "label": "Red", "description": "Like a rose" },
            { "label": "Blue", "description": "Like the sea" },
        ],
    }]})
}

#[test]
fn a_question_to_the_user_is_a_form() {
    let stage = scenario().model(calls("ask_user_question", question())).model(says("Blue it is.")).start();
    stage.desk().decide(Decision::Parked);
    let pending = stage.send("paint it");
    let form = stage.wait_for_question();
    let property = form["requestedSchema"]["properties"].as_object().unwrap().keys().next().unwrap().clone();
    stage.desk().answer_form(json!({ property: "Blue" }));
    assert_eq!(stage.end(pending), "end_turn");
    assert!(stage.results_for_model()[0].contains("Blue"), "{:?}", stage.results_for_model());
}

// P05 for a client without forms: the question still reaches the user.
#[test]
fn a_question_to_the_user_of_a_client_without_forms_is_a_choice() {
    let stage = scenario()
        .client(ClientKind::bare())
        .model(calls("ask_user_question", question()))
        .model(says("Blue it is."))
        .user(Decision::Named("Blue"))
        .prompt("paint it");
    insta::assert_snapshot!(stage.transcript(), @r#"
    > paint it
    < call 1 other pending  Ask: Which colour?
    < call 1 in_progress
    ? call 1  Which colour?  allow_once | allow_once | reject_once
    ! allow_once
    < call 1 completed  "{\"answers\":[{\"id\":\"colour\",\"selected\":[\"Blue\"]}]}"
    < Blue it is.
    = end_turn
    "#);
    assert!(stage.results_for_model()[0].contains("Blue"), "{:?}", stage.results_for_model());
}

// P12: mode and config option change together; the same value again is a success and no change.
#[test]
fn mode_and_option_are_kept_in_step() {
    let stage = scenario().start();
    let session = stage.session().to_owned();
    stage.request("session/set_mode", json!({ "sessionId": session, "modeId": "ask" })).unwrap();
    stage.request("session/set_mode", json!({ "sessionId": session, "modeId": "ask" })).unwrap();
    let answer = stage
        .request(
            "session/set_config_option",
            json!({ "sessionId": session, "configId": "mode", "value": "read-only" }),
        )
        .unwrap();
    let value = |id: &str| {
        let options = answer["configOptions"].as_array().unwrap();
        options.iter().find(|option| option["id"] == *id).unwrap()["currentValue"].clone()
    };
    assert_eq!(value("mode"), "read-only");
    let modes: Vec<_> =
        stage.updates("current_mode_update").iter().map(|update| update["currentModeId"].clone()).collect();
    assert_eq!(modes, ["ask", "read-only"]);
    let options: Vec<_> = stage
        .updates("config_option_update")
        .iter()
        .map(|update| update["configOptions"][0]["currentValue"].clone())
        .collect();
    assert_eq!(options, ["ask", "read-only"]);
}

// M09: a new session says what can be chosen, in the words of the schema.
#[test]
fn a_new_session_offers_modes_and_options_that_agree() {
    let stage = scenario().start();
    let answer = stage.request("session/new", stage.new_session_params()).unwrap();
    let options = answer["configOptions"].as_array().unwrap();
    assert_eq!(options[0]["currentValue"], answer["modes"]["currentModeId"]);
    let ids: Vec<_> = options.iter().map(|option| option["category"].as_str().unwrap()).collect();
    assert_eq!(ids[..2], ["mode", "model"]);
    assert_eq!(options[1]["currentValue"], "openai/scripted");
    // Its commands come after the answer; the stage must not end before.
    stage.wait_for_update("available_commands_update", |_| true);
}

#[test]
fn the_embedded_model_drives_the_tools_by_hand() {
    let stage = scenario().offline().file("src/lib.rs", "fn a() {}\n").start();
    assert_eq!(stage.prompt("read src/lib.rs"), "end_turn");
    assert_eq!(stage.prompt("/tool glob {\"pattern\": \"**/*.rs\"}"), "end_turn");
    let titles: Vec<_> = stage.updates("tool_call").iter().map(|call| call["title"].clone()).collect();
    assert_eq!(titles, ["Read src/lib.rs", "Glob **/*.rs"]);
    assert!(stage.model().requests().is_empty());
}
