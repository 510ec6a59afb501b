//! The lsp tool, from the model's call to the links the editor shows.

use crate::kit::*;
use serde_json::json;

/// A configuration in which a Python script of our own serves `.fk` files: definition is the first line of the file.
fn script() -> &'static str {
    r#"
import sys, json, time
def read():
    n = 0
    while True:
        line = sys.stdin.buffer.readline()
        if not line: sys.exit(0)
        if line == b"\r\n": break
        n = int(line.split(b":")[1])
    return json.loads(sys.stdin.buffer.read(n))
def send(id, result):
    text = json.dumps({"jsonrpc": "2.0", "id": id, "result": result}).encode()
    sys.stdout.buffer.write(b"Content-Length: %d\r\n\r\n" % len(text) + text)
    sys.stdout.buffer.flush()
text = ""
def tell(document, new):
    global text
    text = new
    if "LATE" in text: time.sleep(0.6)
    at = {"line": 0, "character": 0}
    found = [{"range": {"start": at, "end": at}, "message": line} for line in text.splitlines() if "BAD" in line]
    params = {"uri": document["uri"], "version": document["version"], "diagnostics": found}
    body = json.dumps({"jsonrpc": "2.0", "method": "textDocument/publishDiagnostics", "params": params}).encode()
    sys.stdout.buffer.write(b"Content-Length: %d\r\n\r\n" % len(body) + body)
    sys.stdout.buffer.flush()
while True:
    m = read()
    if m["method"] == "initialize":
        send(m["id"], {"capabilities": {"textDocumentSync": 1, "definitionProvider": True, "hoverProvider": True}})
    elif m["method"] == "textDocument/didOpen": tell(m["params"]["textDocument"], m["params"]["textDocument"]["text"])
    elif m["method"] == "textDocument/didChange":
        tell(m["params"]["textDocument"], m["params"]["contentChanges"][0]["text"])
    elif m["method"] == "textDocument/hover": send(m["id"], {"contents": text})
    elif m["method"] == "textDocument/definition":
        at = {"line": 0, "character": 0}
        uri = m["params"]["textDocument"]["uri"]
        send(m["id"], [{"uri": uri, "range": {"start": at, "end": at}}])
    elif m["method"] == "exit": sys.exit(0)
    elif "id" in m: send(m["id"], None)
"#
}

fn served() -> Scenario {
    let command = json!(["python3", "-c", script()]);
    scenario().config(&format!("[lsp.fake]\nextensions = [\"fk\"]\ncommand = {command}\n"))
}

// L01: the question is about what the editor shows, not about what is stored.
#[test]
fn a_question_concerns_unsaved_text_and_is_answered_with_a_link() {
    let at = |operation| json!({ "operation": operation, "file_path": "a b.fk", "line": 2, "character": 1 });
    let stage = served()
        .file("a b.fk", "stored\n\n")
        .unsaved("a b.fk", "shown\n\n")
        .model(calls("lsp", at("hover")))
        .model(calls("lsp", at("goToDefinition")))
        .model(says("Done."))
        .prompt("where is it?");
    let said = stage.model().requests().last().unwrap().to_string();
    assert!(said.contains("shown") && !said.contains("stored"), "{said}");
    assert!(said.contains("a b.fk:1:1"), "{said}");
    let lines = stage.lines();
    let wire = lines.iter().map(|line| line.message.to_string()).collect::<String>();
    assert!(wire.contains("[a b.fk:1](file://") && wire.contains("a%20b.fk#L1)"), "{wire}");
}

// L06: a language without a server is an error that says what to do, and the turn goes on.
#[test]
fn a_missing_server_is_named_and_the_turn_goes_on() {
    let question = json!({ "operation": "hover", "file_path": "a.fk", "line": 1, "character": 1 });
    let stage = scenario()
        .config("[lsp.fake]\nextensions = [\"fk\"]\ncommand = [\"no-such-language-server\"]\n")
        .file("a.fk", "x\n")
        .model(calls("lsp", question))
        .model(says("Then by text."))
        .prompt("where is it?");
    let said = stage.model().requests().last().unwrap().to_string();
    assert!(said.contains("no-such-language-server (fake) is not installed"), "{said}");
}

// L01: what an edit breaks is told with its result, whatever tool made it; what is found later comes with the next step.
#[test]
fn an_edit_tells_what_it_broke_at_once_or_at_the_next_step() {
    let question = json!({ "operation": "hover", "file_path": "a.fk", "line": 1, "character": 1 });
    let replace = |old: &str, new: &str| {
        calls("edit", json!({ "file_path": "a.fk", "old_string": old, "new_string": new }))
    };
    let run = served()
        .file("a.fk", "one\n")
        .model(calls("read", json!({ "file_path": "a.fk" })))
        .model(calls("lsp", question))
        .model(replace("one", "one\nBAD two"))
        .model(calls("write", json!({ "file_path": "a.fk", "content": "BAD two\nLATE BAD three\n" })))
        .model(calls("bash", json!({ "command": "sleep 1.5", "description": "Wait" })))
        .model(says("Done."))
        .start();
    assert_eq!(run.prompt("go"), "end_turn");
    let results = run.results_for_model();
    assert!(results[2].contains("reports 1 new error:\na.fk:1:1: BAD two"), "{}", results[2]);
    assert!(!results[3].contains("BAD"), "{}", results[3]);
    let users = run.user_texts_for_model();
    let notice = users.iter().find(|text| text.contains("reports 1 new error"));
    assert!(notice.is_some_and(|text| text.contains("LATE BAD three") && !text.contains("two")), "{users:?}");
    assert_eq!(run.prompt("/diagnostics"), "end_turn");
    run.wait_for_update("agent_message_chunk", |update| {
        let text = update["content"]["text"].as_str().unwrap_or_default();
        text.contains("- a.fk:1:1: BAD two\n- a.fk:1:1: LATE BAD three")
    });
}

#[test]
fn edits_tell_nothing_where_that_is_switched_off() {
    let command = json!(["python3", "-c", script()]);
    let question = json!({ "operation": "hover", "file_path": "a.fk", "line": 1, "character": 1 });
    let run = scenario()
        .config(&format!(
            "[lsp]\ndiagnostics_after_edit = false\n[lsp.fake]\nextensions = [\"fk\"]\ncommand = {command}\n"
        ))
        .file("a.fk", "one\n")
        .model(calls("read", json!({ "file_path": "a.fk" })))
        .model(calls("lsp", question))
        .model(calls("write", json!({ "file_path": "a.fk", "content": "BAD\n" })))
        .model(says("Done."))
        .start();
    assert_eq!(run.prompt("go"), "end_turn");
    assert!(!run.results_for_model()[2].contains("BAD"), "{}", run.results_for_model()[2]);
}

// L06: where no server is installed, the answer is by name, says so, and concerns the present text as any other.
#[test]
fn without_a_server_answers_are_by_name_and_say_so() {
    let at = |operation: &str, file: &str, line: u32, character: u32| {
        calls(
            "lsp",
            json!({ "operation": operation, "file_path": file, "line": line, "character": character }),
        )
    };
    let run = scenario()
        .env("PATH", "/usr/bin:/bin")
        .config("[lsp.rust]\ncommand = [\"no-such-rust-analyzer\"]\n")
        .file("src/main.rs", "fn main() {\n    let t = \"字😀\"; greet(t);\n}\n")
        .file("src/greet.rs", "/// Says hello.\npub fn greet(name: &str) {}\n")
        .unsaved("src/greet.rs", "//! New.\n\n/// Says hello.\npub fn greet(name: &str) {}\n")
        .model(at("goToDefinition", "src/main.rs", 2, 20))
        .model(calls("read", json!({ "file_path": "src/greet.rs" })))
        .model(calls(
            "edit",
            json!({ "file_path": "src/greet.rs", "old_string": "//! New.", "new_string": "//! New.\n//! Newer." }),
        ))
        .model(at("goToDefinition", "src/main.rs", 2, 20))
        .model(at("hover", "src/main.rs", 2, 20))
        .model(at("findReferences", "src/main.rs", 2, 20))
        .model(says("Done."))
        .start();
    assert_eq!(run.prompt("where is it?"), "end_turn");
    let results = run.results_for_model();
    let mark = "(by name, from the syntax tree; no language server for Rust is installed: rustup component add rust-analyzer)";
    for result in [&results[0], &results[3], &results[4], &results[5]] {
        assert!(result.contains(mark), "{result}");
    }
    assert!(results[0].starts_with("src/greet.rs:2:8"), "{}", results[0]);
    assert!(results[3].starts_with("src/greet.rs:5:8"), "{}", results[3]);
    assert!(
        results[4].contains("pub fn greet(name: &str)") && results[4].contains("Says hello."),
        "{}",
        results[4]
    );
    assert!(results[5].starts_with("src/main.rs:2:20\nsrc/greet.rs:5:8"), "{}", results[5]);
    run.wait_for_update("tool_call_update", |update| {
        let text = update["content"].to_string();
        text.contains("[src/greet.rs:5](file://") && update["title"].to_string().contains("(by name)")
    });
}

// L06, L08: a server that ends at once, is stood in for; the answer names it and its failure, each time.
#[test]
fn a_server_that_does_not_start_is_stood_in_for_by_name() {
    for (command, failure) in [
        (r#"["false"]"#, "false (Rust) "),
        (r#"["sh", "-c", "echo 'no such component' >&2; exit 3"]"#, "sh (Rust) "),
    ] {
        let question = || {
            calls(
                "lsp",
                json!({ "operation": "goToDefinition", "file_path": "src/main.rs", "line": 1, "character": 13 }),
            )
        };
        let run = scenario()
            .config(&format!("[lsp.rust]\ncommand = {command}\n"))
            .file("src/main.rs", "fn main() { greet(); }\nfn greet() {}\n")
            .model(question())
            .model(question())
            .model(says("Done."))
            .start();
        assert_eq!(run.prompt("where is it?"), "end_turn");
        for result in run.results_for_model() {
            assert!(result.starts_with("src/main.rs:2:4"), "{command}: {result}");
            assert!(result.contains("(by name, from the syntax tree; "), "{command}: {result}");
            assert!(result.contains(failure), "{command}: {result}");
        }
    }
}
