//! Plan mode: a plan is reviewed in the editor, and an approved one restores the mode before it.

use crate::kit::*;
use provider_llm::scripted::Reply;
use serde_json::json;

fn presents_plan() -> Reply {
    calls("exit_plan_mode", json!({ "plan": "# Paint it blue\n\n1. Write `paint.txt`" }))
}

fn writes() -> Reply {
    calls("write", json!({ "file_path": "paint.txt", "content": "blue\n" }))
}

#[test]
fn an_approved_plan_restores_the_mode_before_and_is_carried_out() {
    let run = scenario()
        .client(ClientKind::bare())
        .mode("plan")
        .model(presents_plan())
        .model(writes())
        .model(says("Painted."))
        .user(Decision::Named("Approve"))
        .prompt("paint it");
    assert!(
        run.results_for_model()[0].contains("The user approved the plan"),
        "{:?}",
        run.results_for_model()
    );
    assert_eq!(run.updates("current_mode_update").last().unwrap()["currentModeId"], "workspace-write");
    assert_eq!(run.read("paint.txt"), "blue\n");
}

#[test]
fn a_plan_that_is_not_approved_leaves_plan_mode_on() {
    let run = scenario()
        .client(ClientKind::bare())
        .mode("plan")
        .model(presents_plan())
        .model(says("I think again."))
        .user(Decision::Named("Keep planning"))
        .prompt("paint it");
    assert!(run.results_for_model()[0].contains("keep planning"), "{:?}", run.results_for_model());
    let is_left = |update: &serde_json::Value| update["currentModeId"] == "workspace-write";
    assert!(!run.updates("current_mode_update").iter().any(is_left));
}

#[test]
fn feedback_of_a_form_reaches_the_model_word_for_word() {
    let stage = scenario().mode("plan").model(presents_plan()).model(says("Green, then.")).start();
    stage.desk().decide(Decision::Parked);
    let pending = stage.send("paint it");
    let form = stage.wait_for_question();
    let properties = form["requestedSchema"]["properties"].as_object().unwrap().clone();
    let feedback = properties.iter().find(|(_, property)| property["title"] == "Feedback");
    let name = feedback.unwrap_or_else(|| panic!("{form}")).0.clone();
    stage.desk().answer_form(json!({ name: "make it green" }));
    assert_eq!(stage.end(pending), "end_turn");
    assert!(stage.results_for_model()[0].ends_with("make it green"), "{:?}", stage.results_for_model());
}
