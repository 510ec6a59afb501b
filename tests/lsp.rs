//! The lsp tool, from the model's call to the links the editor shows.

use crate::kit::*;
use serde_json::json;

/// A configuration in which a Python script of our own serves `.fk` files: definition is the first line of the file.
fn script() -> &'static str {
    r#"
import sys, json
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
while True:
    m = read()
    if m["method"] == "initialize":
        send(m["id"], {"capabilities": {"textDocumentSync": 1, "definitionProvider": True, "hoverProvider": True}})
    elif m["method"] == "textDocument/didOpen": text = m["params"]["textDocument"]["text"]
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
