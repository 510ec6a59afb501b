//! The official SDKs as editors: a small client in TypeScript and one in Python (`tests/clients/turn.*`) play the same two
//! prompts. Both SDKs check what they receive and fail on a message that does not fit.
//!
//! `.ci/test` installs the SDKs; without them these tests fail and say so.

use crate::kit::*;
use provider_llm::scripted::ScriptedModel;
use serde_json::{Value, json};
use std::path::{Path, PathBuf};
use std::process::Command;

/// A file below `target/tools`.
fn tool(name: &str) -> PathBuf {
    let target = std::env::var_os("CARGO_TARGET_DIR")
        .map_or_else(|| Path::new(env!("CARGO_MANIFEST_DIR")).join("../target"), PathBuf::from);
    let file = target.canonicalize().unwrap().join("tools").join(name);
    assert!(file.exists(), "{name} is not installed: run `bash .ci/test`, which installs the test clients");
    file
}

/// The script of the client in `tests/clients`.
fn script(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../tests/clients").join(name)
}

/// Plays the client, and checks what it saw.
#[track_caller]
fn play(client: &mut Command) {
    let folder = tempfile::tempdir().unwrap();
    let home = tempfile::tempdir().unwrap();
    std::fs::write(folder.path().join("a.txt"), "alpha\nbeta\n").unwrap();
    let gate = Gate::new();
    let replies = vec![
        calls("read", json!({ "file_path": "a.txt" })),
        calls("edit", json!({ "file_path": "a.txt", "old_string": "beta", "new_string": "gamma" })),
        calls("bash", json!({ "command": "cat a.txt", "description": "Show it" })),
        says("Done."),
        says("A long ").hold(&gate).says("story."),
    ];
    let (base_url, _model) = ScriptedModel::start(replies).unwrap();
    let output = with_scripted_model(client, home.path(), &base_url)
        .args([env!("CARGO_BIN_EXE_followspot"), folder.path().to_str().unwrap()])
        .output()
        .unwrap();
    let stderr = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{stderr}");
    let seen: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(seen["stops"], json!(["end_turn", "cancelled"]), "{seen} {stderr}");
    let statuses: Vec<&Value> = seen["calls"].as_object().unwrap().values().collect();
    assert_eq!(statuses, ["completed"; 3]);
    assert_eq!(seen["asked"], json!(["Edit a.txt", "cat a.txt"]));
    assert!(seen["reads"].as_u64().unwrap() >= 2 && seen["writes"] == 1, "{seen}");
    assert_eq!((&seen["listed"], &seen["exit"]), (&json!(1), &json!(0)));
    let count = |kinds: &Value, kind: &str| kinds.as_array().unwrap().iter().filter(|k| *k == kind).count();
    assert_eq!((count(&seen["kinds"], "tool_call"), count(&seen["replayed"], "tool_call")), (3, 3), "{seen}");
    assert_eq!(count(&seen["replayed"], "user_message_chunk"), 2, "{seen}");
    assert_eq!(std::fs::read_to_string(folder.path().join("a.txt")).unwrap(), "alpha\ngamma\n");
}

#[test]
fn an_editor_on_the_typescript_sdk_gets_the_whole_conversation() {
    let modules = tool("acpx/node_modules/@agentclientprotocol/sdk/package.json");
    let modules = modules.ancestors().nth(3).unwrap();
    // Node looks for packages beside the script.
    let folder = tempfile::tempdir().unwrap();
    let copy = folder.path().join("turn.mjs");
    std::fs::copy(script("turn.mjs"), &copy).unwrap();
    std::os::unix::fs::symlink(modules, folder.path().join("node_modules")).unwrap();
    play(Command::new(tool("acpx/node_modules/node/bin/node")).arg(copy));
}

#[test]
fn an_editor_on_the_python_sdk_gets_the_whole_conversation() {
    play(Command::new(tool("python/bin/python")).arg(script("turn.py")));
}
