//! Programs that call tools: what the model is told, what the user sees, and that no call goes round a question.

use crate::kit::*;
use provider_llm::scripted::Reply;
use serde_json::{Value, json};

fn program(code: &str) -> Reply {
    calls("run_code", json!({ "code": code, "description": "Try it" }))
}

fn code_mode(mode: &str) -> Scenario {
    scenario().config(&format!("[tools]\ncode_mode = \"{mode}\"\n"))
}

/// The names of the tools of the first request, and its system prompt.
fn told(stage: &Stage) -> (Vec<String>, String) {
    let request = &stage.model().requests()[0];
    let tools = request["tools"].as_array().unwrap().iter();
    let names = tools.map(|tool| tool["function"]["name"].as_str().unwrap().to_owned()).collect();
    (names, request["messages"][0]["content"].to_string())
}

#[test]
fn a_program_reads_two_files_and_the_user_sees_its_calls() {
    let stage = code_mode("code")
        .file("a.txt", "one\n")
        .file("b.txt", "two\n")
        .model(program(
            "const names: string[] = ['a.txt', 'b.txt'];\nconst pages = await Promise.all(names.map((file_path) => tools.read({ file_path })));\nconsole.log('read', pages.length);\nreturn pages.map((page) => typeof page);",
        ))
        .model(says("Done."))
        .prompt("read both");
    let results = stage.results_for_model();
    assert_eq!(results, ["read 2\n[\n  \"object\",\n  \"object\"\n]"]);
    let updates = stage.updates("tool_call_update");
    let last = updates.last().unwrap();
    assert_eq!(last["status"], "completed");
    assert_eq!(last["content"][0]["content"]["text"], "- ✓ Read a.txt\n- ✓ Read b.txt\n");
    assert_eq!(last["content"][1]["content"]["text"], results[0]);
    let running = updates.iter().filter(|update| update["content"].to_string().contains("▸ Read")).count();
    assert!(running > 0, "{updates:?}");
    // Only the program is a call for the client.
    assert_eq!(stage.updates("tool_call").len(), 1);
}

#[test]
fn the_model_is_told_the_tools_in_the_way_of_each_mode() {
    for (mode, has_rule, has_sdk) in [("native", false, false), ("both", false, true), ("code", true, true)] {
        let stage = code_mode(mode).model(says("Hi.")).prompt("hi");
        let (names, system) = told(&stage);
        assert_eq!(names.contains(&"run_code".to_owned()), mode != "native", "{mode}: {names:?}");
        assert_eq!(names.contains(&"read".to_owned()), mode != "code", "{mode}: {names:?}");
        assert_eq!(system.contains("Only run_code can be called directly"), has_rule, "{mode}");
        assert_eq!(system.contains("interface ToolOutputs"), has_sdk, "{mode}");
    }
}

#[test]
fn a_native_call_is_refused_in_code_mode_and_works_in_both() {
    for (mode, is_refused) in [("code", true), ("both", false)] {
        let stage = code_mode(mode)
            .file("a.txt", "one\n")
            .model(calls("read", json!({ "file_path": "a.txt" })))
            .model(says("Done."))
            .prompt("read it");
        let results = stage.results_for_model();
        assert_eq!(results[0].contains("call tools.read"), is_refused, "{results:?}");
    }
}

#[test]
fn a_call_of_a_program_asks_as_any_other_and_its_refusal_can_be_caught() {
    let code = "try { await tools.write({ file_path: 'new.txt', content: 'x' }) } catch (e) { return [e.name, e.toolName] }";
    for (decision, text) in
        [(allow_once(), None), (reject_once(), Some("[\n  \"ToolCallError\",\n  \"write\"\n]"))]
    {
        let stage = code_mode("both")
            .mode("ask")
            .model(program(code))
            .model(says("Done."))
            .user(decision)
            .prompt("write it");
        let results = stage.results_for_model();
        assert_eq!(results[0], text.unwrap_or("(the program returned and printed nothing)"));
        assert_eq!(stage.path("new.txt").exists(), text.is_none());
        // What asks is a card of its own, and ends.
        let cards: Vec<Value> =
            stage.updates("tool_call").iter().map(|update| update["name"].clone()).collect();
        assert_eq!(cards, ["run_code", "write"]);
    }
}

#[test]
fn an_error_names_its_line_and_keeps_what_was_printed() {
    let stage = code_mode("both")
        .model(program(
            "interface A {\n  b: number\n}\nconsole.log('before');\nthrow new Error('boom' as string);",
        ))
        .model(says("Done."))
        .prompt("go");
    let expected =
        "Error: code run failed (exception): Error: boom\n    at program.ts:5\nCaptured output:\nbefore";
    assert_eq!(stage.results_for_model(), [expected]);
    let updates = stage.updates("tool_call_update");
    assert_eq!(updates.last().unwrap()["rawOutput"]["error"]["code"], "CODE_RUN_FAILED");
}

#[test]
fn a_cancel_stops_an_endless_program_and_one_that_waits_for_a_call() {
    let endless = "while (true) {}";
    let waiting = "await tools.bash({ command: 'sleep 60', description: 'Sleep' })";
    for code in [endless, waiting] {
        let stage = code_mode("both").model(program(code)).start();
        let pending = stage.send("go");
        stage.wait_for_status("in_progress");
        if code == waiting {
            stage.wait_for_request("terminal/wait_for_exit");
        }
        stage.cancel();
        assert_eq!(stage.end(pending), "cancelled");
    }
}

#[test]
fn a_load_tells_the_calls_of_a_program_as_they_ended() {
    let code = "await tools.read({ file_path: 'a.txt' }); try { await tools.read({ file_path: 'no.txt' }) } catch {} return 1";
    let mut stage =
        code_mode("code").file("a.txt", "one\n").model(program(code)).model(says("Done.")).prompt("go");
    let last = |stage: &Stage| stage.updates("tool_call_update").last().unwrap()["content"].clone();
    let live = last(&stage);
    let list = live[0]["content"]["text"].as_str().unwrap();
    assert!(list.starts_with("- ✓ Read a.txt\n- ✗ Read no.txt: "), "{list}");
    stage.restart();
    let n_before = stage.updates("tool_call_update").len();
    stage.about_session("session/load").unwrap();
    assert!(stage.updates("tool_call_update").len() > n_before);
    assert_eq!(last(&stage), live);
}
