//! Real clients. acpx, from the npm registry, drives the built program through one turn that reads, edits, runs and
//! searches, with a scripted model, in each way in which it can offer or refuse files and terminals.
//!
//! `.ci/test` installs acpx; without it these tests fail and say so.

use crate::kit::*;
use provider_llm::scripted::{Reply, ScriptedModel};
use serde_json::{Value, json};
use std::path::{Path, PathBuf};
use std::process::Command;

/// What acpx saw and what became of the folder.
struct Run {
    folder: tempfile::TempDir,
    /// Every message of the wire, both directions.
    messages: Vec<Value>,
    status: i32,
    /// What the model was told about its calls.
    results: Vec<String>,
}

impl Run {
    /// Methods of the requests the client was sent, in order.
    fn requests(&self) -> Vec<&str> {
        let methods = self.messages.iter().filter_map(|message| message["method"].as_str());
        methods.filter(|method| method.starts_with("fs/") || method.starts_with("terminal/")).collect()
    }

    /// The last update of the call to this tool that has a status.
    fn end_of(&self, tool: &str) -> Value {
        let updates = || self.messages.iter().map(|message| &message["params"]["update"]);
        let announced = updates()
            .find(|update| update["sessionUpdate"] == "tool_call" && update["name"] == tool)
            .unwrap_or_else(|| panic!("{tool} was not announced: {:?}", self.messages));
        let mut ends = updates().filter(|update| {
            update["sessionUpdate"] == "tool_call_update"
                && update["toolCallId"] == announced["toolCallId"]
                && ["completed", "failed"].iter().any(|status| update["status"] == *status)
        });
        ends.next_back().cloned().unwrap_or_else(|| panic!("{tool} did not end: {:?}", self.messages))
    }

    fn stop_reason(&self) -> &str {
        let mut answers = self.messages.iter().filter_map(|message| message["result"]["stopReason"].as_str());
        answers.next_back().unwrap_or("none")
    }

    fn text(&self, name: &str) -> String {
        std::fs::read_to_string(self.folder.path().join(name)).unwrap_or_default()
    }
}

fn clients() -> PathBuf {
    let target = std::env::var_os("CARGO_TARGET_DIR")
        .map_or_else(|| Path::new(env!("CARGO_MANIFEST_DIR")).join("../target"), PathBuf::from);
    let bin = target.join("tools/acpx/node_modules/.bin");
    assert!(
        bin.join("acpx").exists(),
        "acpx is not installed: run `bash .ci/test`, which installs the test clients"
    );
    bin.canonicalize().unwrap()
}

/// The turn that reads, edits, runs and searches.
fn acpx(flags: &[&str]) -> Run {
    let bash = json!({ "command": "echo ran > made.txt; cat made.txt", "description": "Run it" });
    let replies = vec![
        calls("read", json!({ "file_path": "a.txt" })),
        calls("edit", json!({ "file_path": "a.txt", "old_string": "beta", "new_string": "gamma" })),
        calls("bash", bash),
        calls("grep", json!({ "pattern": "alpha" })),
        says("Done."),
    ];
    play(flags, replies)
}

/// One turn under acpx with these flags.
fn play(flags: &[&str], replies: Vec<Reply>) -> Run {
    let folder = tempfile::tempdir().unwrap();
    let home = tempfile::tempdir().unwrap();
    std::fs::write(folder.path().join("a.txt"), "alpha\nbeta\n").unwrap();
    let (base_url, model) = ScriptedModel::start(replies).unwrap();
    let bin = clients();
    let path =
        format!("{}:{}:{}", bin.join("../node/bin").display(), bin.display(), std::env::var("PATH").unwrap());
    let output = with_scripted_model(&mut Command::new(bin.join("acpx")), home.path(), &base_url)
        .args(["--agent", &format!("{} acp", env!("CARGO_BIN_EXE_followspot"))])
        .args([
            "--cwd",
            folder.path().to_str().unwrap(),
            "--format",
            "json",
            "--json-strict",
            "--timeout",
            "60",
        ])
        .args(flags)
        .args(["exec", "go"])
        .env("PATH", path)
        .output()
        .unwrap();
    let stdout = String::from_utf8(output.stdout).unwrap();
    let messages: Vec<Value> = stdout.lines().filter_map(|line| serde_json::from_str(line).ok()).collect();
    assert!(!messages.is_empty(), "acpx said nothing: {}", String::from_utf8_lossy(&output.stderr));
    let last = model.requests().last().cloned().unwrap_or_default();
    let results = last["messages"].as_array().into_iter().flatten();
    let results = results.filter(|message| message["role"] == "tool");
    let results = results.map(|message| message["content"].as_str().unwrap_or_default().to_owned()).collect();
    Run { folder, messages, status: output.status.code().unwrap_or(-1), results }
}

#[test]
fn in_acpx_the_tools_of_an_mcp_server_of_the_client_are_called() {
    let bin = clients();
    let everything = bin.join("../@modelcontextprotocol/server-everything/dist/index.js");
    let config = tempfile::NamedTempFile::new().unwrap();
    let servers = json!([{ "name": "everything", "command": bin.join("../node/bin/node"), "args": [everything, "stdio"] }]);
    std::fs::write(config.path(), json!({ "mcpServers": servers }).to_string()).unwrap();
    let replies = vec![calls("mcp__everything__get-sum", json!({ "a": 40, "b": 2 })), says("It is 42.")];
    let run = play(&["--approve-all", "--mcp-config", config.path().to_str().unwrap()], replies);
    assert_eq!((run.status, run.stop_reason()), (0, "end_turn"));
    assert_eq!(run.end_of("mcp__everything__get-sum")["status"], "completed");
    assert_eq!(run.results, ["The sum of 40 and 2 is 42."]);
}

#[test]
fn in_acpx_files_and_commands_go_through_the_client() {
    let run = acpx(&["--approve-all"]);
    assert_eq!((run.status, run.stop_reason()), (0, "end_turn"));
    assert_eq!((run.text("a.txt"), run.text("made.txt")), ("alpha\ngamma\n".to_owned(), "ran\n".to_owned()));
    for method in ["fs/read_text_file", "fs/write_text_file", "terminal/create", "terminal/release"] {
        assert!(run.requests().contains(&method), "{method}: {:?}", run.requests());
    }
    let diff = run.end_of("edit")["content"][0].clone();
    let path = run.folder.path().canonicalize().unwrap().join("a.txt");
    assert_eq!(diff["type"], "diff");
    assert!(path.ends_with("a.txt") && diff["path"].as_str().unwrap().ends_with("/a.txt"), "{diff}");
    assert_eq!((&diff["oldText"], &diff["newText"]), (&json!("alpha\nbeta\n"), &json!("alpha\ngamma\n")));
    assert_eq!(run.end_of("bash")["rawOutput"]["exitCode"], 0);
    assert!(run.results[2].contains("ran"), "{:?}", run.results);
    assert!(run.results[3].contains("a.txt"), "{:?}", run.results);
}

#[test]
fn in_acpx_without_files_or_terminals_the_same_turn_works_here() {
    for flags in [vec!["--no-fs"], vec!["--no-terminal"], vec!["--no-fs", "--no-terminal"]] {
        let run = acpx(&[vec!["--approve-all"], flags.clone()].concat());
        assert_eq!((run.status, run.stop_reason()), (0, "end_turn"), "{flags:?}");
        assert_eq!(
            (run.text("a.txt"), run.text("made.txt")),
            ("alpha\ngamma\n".to_owned(), "ran\n".to_owned()),
            "{flags:?}"
        );
        let requests = run.requests();
        assert_eq!(requests.iter().any(|method| method.starts_with("fs/")), !flags.contains(&"--no-fs"));
        assert_eq!(
            requests.iter().any(|method| method.starts_with("terminal/")),
            !flags.contains(&"--no-terminal"),
            "{flags:?}: {requests:?}"
        );
        assert_eq!(run.end_of("edit")["content"][0]["newText"], "alpha\ngamma\n");
    }
}

#[test]
fn in_acpx_what_the_user_denies_does_not_happen_and_the_turn_ends() {
    let run = acpx(&["--deny-all"]);
    assert_eq!(run.stop_reason(), "end_turn");
    assert_eq!((run.text("a.txt"), run.text("made.txt")), ("alpha\nbeta\n".to_owned(), String::new()));
    for tool in ["edit", "bash"] {
        assert_eq!(run.end_of(tool)["status"], "failed", "{tool}");
    }
    assert_eq!(run.end_of("grep")["status"], "completed");
}
