//! The user's hooks: what they are told, what they stop, what they add.

use crate::kit::*;
use serde_json::{Value, json};

/// A session whose hooks file holds these hooks.
fn with_hooks(hooks: &Value) -> Scenario {
    scenario()
        .mode("danger-full-access")
        .file("hooks.json", json!({ "hooks": hooks }).to_string())
        // Relative to the user's own folder, which stands beside the workspace.
        .config("[hooks]\nfile = \"../workspace/hooks.json\"\n")
}

/// Hooks that run these commands.
fn each(commands: &[&str]) -> Value {
    let hooks: Vec<Value> =
        commands.iter().map(|command| json!({ "type": "command", "command": command })).collect();
    json!([{ "hooks": hooks }])
}

fn bash(command: &str) -> provider_llm::scripted::Reply {
    calls("bash", json!({ "command": command, "description": "Run it" }))
}

#[test]
fn a_hook_refuses_a_call_and_the_model_reads_why() {
    let hooks = json!({ "PreToolUse": [
        { "matcher": "Bash", "hooks": [
            { "type": "command", "command": "cat > seen.json; grep -q 'touch' seen.json && { echo 'no touching' >&2; exit 2; }; exit 0" }
        ] },
        { "matcher": "edit", "hooks": [{ "type": "command", "command": "touch never" }] }
    ] });
    let run = with_hooks(&hooks)
        .model(bash("touch made"))
        .model(bash("echo fine"))
        .model(says("Done."))
        .prompt("go");
    let results = run.results_for_model();
    assert!(results[0].contains("no touching"), "{results:?}");
    assert!(results[1].contains("fine"), "{results:?}");
    assert!(!run.path("made").exists() && !run.path("never").exists());
    let seen: Value = serde_json::from_str(&run.read("seen.json")).expect("the payload is JSON");
    assert_eq!(
        json!({ "event": seen["hook_event_name"], "tool": seen["tool_name"], "command": seen["tool_input"]["command"],
            "cwd": seen["cwd"], "session": seen["session_id"] }),
        json!({ "event": "PreToolUse", "tool": "bash", "command": "echo fine", "cwd": run.workspace(),
            "session": run.session() })
    );
}

#[test]
fn a_hook_asks_even_where_the_mode_would_not() {
    let said = r#"echo '{"hookSpecificOutput": {"permissionDecision": "ask", "permissionDecisionReason": "really?"}}'"#;
    let run = with_hooks(&json!({ "PreToolUse": each(&[said]) }))
        .model(bash("touch made"))
        .model(says("Done."))
        .user(reject_once())
        .prompt("go");
    assert!(!run.path("made").exists());
}

#[test]
fn a_refused_prompt_ends_the_turn_before_the_model_is_asked() {
    let run = with_hooks(&json!({ "UserPromptSubmit": each(&["grep -q secret && { echo 'no secrets' >&2; exit 2; } || echo 'It rains.'"]) }))
        .model(says("Fine."))
        .start();
    assert_eq!(run.prompt("my secret"), "refusal");
    assert!(run.said().contains("A hook refused this prompt: no secrets"), "{}", run.said());
    assert_eq!(run.model().requests().len(), 0);
    assert_eq!(run.prompt("hello"), "end_turn");
    let texts = run.user_texts_for_model().join("\n");
    assert!(texts.contains("It rains.") && !texts.contains("my secret"), "{texts}");
}

#[test]
fn a_stop_hook_sends_the_turn_on_and_knows_the_second_time() {
    let hook = r#"grep -q '"stop_hook_active":true' || echo '{"decision": "block", "reason": "Run the tests first."}'"#;
    let run = with_hooks(&json!({ "Stop": each(&[hook]), "SessionStart": each(&["echo Welcome."]) }))
        .model(says("Ready."))
        .model(says("Tests pass."))
        .prompt("go");
    assert_eq!(run.said(), "Ready.Tests pass.");
    let texts = run.user_texts_for_model().join("\n");
    assert!(texts.contains("Run the tests first.") && texts.contains("Welcome."), "{texts}");
}

#[test]
fn a_hook_after_a_call_gives_feedback_or_ends_the_turn() {
    let hook = r#"if grep -q stop; then echo '{"continue": false, "stopReason": "enough"}'; else echo 'run the formatter' >&2; exit 2; fi"#;
    let run = with_hooks(&json!({ "PostToolUse": each(&[hook]) }))
        // The body was done well, and was shown so, before the hook had its say.
        .spare_rule("a call ends once")
        .model(bash("echo one"))
        .model(bash("echo stop"))
        .start();
    assert_eq!(run.prompt("go"), "cancelled");
    assert!(run.results_for_model()[0].contains("run the formatter"), "{:?}", run.results_for_model());
    assert!(run.said().contains("A hook ended the turn: enough"), "{}", run.said());
    assert_eq!(run.model().requests().len(), 2);
}

#[test]
fn a_hook_that_hangs_ends_with_the_turn() {
    let run = with_hooks(&json!({ "PreToolUse": each(&["touch started; sleep 600"]) }))
        .model(bash("echo hi"))
        .start();
    let pending = run.send("go");
    run.wait_until("the hook", || run.path("started").exists());
    run.cancel();
    assert_eq!(run.end(pending), "cancelled");
}

#[test]
fn a_broken_hooks_file_is_named_to_the_user() {
    let run = scenario()
        .config("[hooks]\nfile = \"nowhere.json\"\n")
        .spare_rule("nothing of a turn comes after its answer")
        .start();
    // Told a moment after the session was made, and so maybe in the middle of a turn.
    run.wait_for_update("agent_message_chunk", |update| {
        update["content"]["text"].as_str().is_some_and(|text| text.contains("not used"))
    });
    let said = run.said();
    assert!(said.contains("The hooks in") && said.contains("nowhere.json are not used"), "{said}");
}
