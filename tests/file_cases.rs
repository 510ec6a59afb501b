//! The cases of each file tool, one after the other in one session: through an editor and on the disk.

use crate::kit::*;
use serde_json::{Value, json};
use std::fs;

/// One call: what happens before it, the tool with its arguments, the code it ends with (`ok`, or `plain` for a failure
/// without one), what the result says.
struct Step {
    before: fn(&Stage),
    tool: &'static str,
    arguments: Value,
    code: &'static str,
    says: &'static str,
}

fn step(tool: &'static str, arguments: Value, code: &'static str, says: &'static str) -> Step {
    Step { before: |_| {}, tool, arguments, code, says }
}

fn after(before: fn(&Stage), step: Step) -> Step {
    Step { before, ..step }
}

fn play(run: &Stage, way: &str, steps: &[Step]) {
    for Step { before, tool, arguments, code, says: fact } in steps {
        before(run);
        run.model().push(calls(tool, arguments.clone()));
        run.model().push(says("Done."));
        assert_eq!(run.prompt("go"), "end_turn");
        let result = run.results_for_model().pop().unwrap();
        let updates = run.updates("tool_call_update");
        let end =
            updates.iter().rfind(|update| update["status"] == "completed" || update["status"] == "failed");
        let end = end.expect("the call has ended");
        let found = match end["status"].as_str() {
            Some("completed") => "ok",
            _ => end["rawOutput"]["error"]["code"].as_str().unwrap_or("plain"),
        };
        assert_eq!(found, *code, "{way}: {tool} {arguments}: {result}");
        assert!(result.contains(fact), "{way}: {tool} {arguments}: {result}");
    }
}

/// Plays the steps in both ways, and hands over each stage afterwards.
fn both_ways(arrange: fn(Scenario) -> Scenario, steps: &[Step], check: fn(&Stage)) {
    for (way, scenario) in [("editor", scenario()), ("disk", scenario().client(ClientKind::bare()))] {
        let run = arrange(scenario).start();
        play(&run, way, steps);
        check(&run);
    }
}

fn read(path: &str) -> Value {
    json!({ "file_path": path })
}

fn write(path: &str, content: &str) -> Value {
    json!({ "file_path": path, "content": content })
}

fn edit(path: &str, old: &str, new: &str) -> Value {
    json!({ "file_path": path, "old_string": old, "new_string": new })
}

#[test]
fn read_has_its_cases() {
    let arrange = |scenario: Scenario| {
        scenario
            .file("three.txt", "one\ntwo\nthree\n")
            .file("crlf.txt", "one\r\ntwo\r\n")
            .file("empty.txt", "")
            .file("nul.bin", b"a\0b")
            .file("latin.txt", b"caf\xe9\n")
            .file("folder/a.txt", "")
            .file("lines.txt", "x".repeat(1000) + "\n" + &"y\n".repeat(2500))
            .file("flat.txt", "x".repeat(100_000_000))
    };
    let steps = [
        step("read", read("crlf.txt"), "ok", "1: one\n2: two\n\n(End of file: 2 lines"),
        step(
            "read",
            json!({ "file_path": "three.txt", "offset": 2, "limit": 1 }),
            "ok",
            "2: two\n\n(Lines 2-2 of 3. Continue with offset=3.)",
        ),
        step("read", read("empty.txt"), "ok", "(End of file: 0 lines in total.)"),
        step("read", json!({ "file_path": "three.txt", "offset": 10 }), "FS_NOT_FOUND", "offset 10"),
        step("read", json!({ "file_path": "three.txt", "limit": 2001 }), "plain", "2000"),
        step("read", json!({ "file_path": "three.txt", "offset": 1.5 }), "plain", "1.5"),
        step("read", json!({ "file_path": "three.txt", "offset": 0 }), "plain", "positive"),
        step("read", read("lines.txt"), "ok", "(Lines 1-2000 of 2501. Continue with offset=2001.)"),
        step("read", read("nul.bin"), "FS_NOT_TEXT", "nul.bin"),
        step("read", read("latin.txt"), "FS_NOT_TEXT", "latin.txt"),
        step("read", read("folder"), "FS_NOT_REGULAR_FILE", "folder"),
        step("read", read(" "), "plain", "blank"),
        step("read", read("flat.txt"), "ok", "... (line truncated to 2000 chars)\n\n(End of file: 1 lines"),
        step("read", read("new.txt"), "FS_NOT_FOUND", "new.txt"),
        step("write", write("new.txt", "now\n"), "ok", "Created file"),
    ];
    both_ways(arrange, &steps, |run| {
        run.assert_file("new.txt", "now\n");
        assert!(run.process().peak_memory() < 200 << 20, "{}", run.process().peak_memory());
    });
}

#[test]
fn write_has_its_cases() {
    let arrange = |scenario: Scenario| {
        scenario.file("old.txt", "old\n").file("folder/a.txt", "").file("gone.txt", "here\n")
    };
    let steps = [
        step("write", write("deep/er/new.txt", "a\r\nb\n"), "ok", "Created file"),
        step("write", write("old.txt", "lost\n"), "FS_NOT_OBSERVED", "read"),
        step("read", read("old.txt"), "ok", "1: old"),
        step("write", write("old.txt", "one\n"), "ok", "Updated file"),
        after(
            |run| run.write("old.txt", "by the user\n"),
            step("write", write("old.txt", "lost\n"), "FS_STALE_VERSION", "read"),
        ),
        step("read", read("old.txt"), "ok", "1: by the user"),
        step("write", write("old.txt", "two\n"), "ok", "Updated file"),
        step("read", read("gone.txt"), "ok", "1: here"),
        after(
            |run| fs::remove_file(run.path("gone.txt")).unwrap(),
            step("write", write("gone.txt", "lost\n"), "FS_STALE_VERSION", ""),
        ),
        step("read", read("gone.txt"), "FS_NOT_FOUND", ""),
        step("write", write("gone.txt", ""), "ok", "Created file"),
        step("write", write("folder", "x"), "FS_NOT_REGULAR_FILE", "folder"),
        step("write", write(" ", "x"), "plain", "blank"),
    ];
    both_ways(arrange, &steps, |run| {
        run.assert_file("deep/er/new.txt", "a\r\nb\n");
        run.assert_file("old.txt", "two\n");
        run.assert_file("gone.txt", "");
    });
}

#[test]
fn edit_has_its_cases() {
    let arrange = |scenario: Scenario| {
        scenario
            .file("a.txt", "one two\ntwo three\n")
            .file("crlf.txt", "one\r\ntwo\r\n")
            .file("nul.bin", b"a\0b")
            .file("latin.txt", b"caf\xe9\n")
    };
    let steps = [
        step("edit", edit("a.txt", "one", "1"), "FS_NOT_OBSERVED", "read"),
        step("read", json!({ "file_path": "a.txt", "limit": 1 }), "ok", "1: one two"),
        step("edit", edit("a.txt", "absent", "x"), "FS_EDIT_NOT_FOUND", ""),
        step("edit", edit("a.txt", "two", "2"), "FS_AMBIGUOUS_EDIT", "2 places"),
        step("edit", edit("a.txt", "", "x"), "plain", "empty"),
        step("edit", edit("a.txt", "one", "one"), "plain", "equal"),
        step(
            "edit",
            json!({ "file_path": "a.txt", "old_string": "two", "new_string": "$&", "replace_all": true }),
            "ok",
            "a.txt",
        ),
        step("edit", edit("a.txt", " three", ""), "ok", "a.txt"),
        after(
            |run| run.write("a.txt", "by the user\n"),
            step("edit", edit("a.txt", "absent", "x"), "FS_STALE_VERSION", "read"),
        ),
        step("read", read("crlf.txt"), "ok", "1: one"),
        step("edit", edit("crlf.txt", "one\ntwo", "1\n2"), "ok", ""),
        step("read", read("nul.bin"), "FS_NOT_TEXT", ""),
        step("edit", edit("nul.bin", "a", "b"), "FS_NOT_OBSERVED", ""),
        step("read", read("none.txt"), "FS_NOT_FOUND", ""),
        step("edit", edit("none.txt", "a", "b"), "FS_NOT_FOUND", ""),
    ];
    both_ways(arrange, &steps, |run| {
        run.assert_file("a.txt", "by the user\n");
        run.assert_file("crlf.txt", "1\r\n2\r\n");
        assert_eq!(fs::read(run.path("nul.bin")).unwrap(), b"a\0b");
        assert_eq!(fs::read(run.path("latin.txt")).unwrap(), b"caf\xe9\n");
    });
}

// Two edits of one reply: the second sees what the first made.
#[test]
fn edits_of_one_reply_follow_each_other() {
    for (way, scenario) in [("editor", scenario()), ("disk", scenario().client(ClientKind::bare()))] {
        let run = scenario
            .file("a.txt", "one two\n")
            .model(calls("read", read("a.txt")))
            .model(calls("edit", edit("a.txt", "one", "1")).calls("edit", edit("a.txt", "1 two", "1 2")))
            .model(says("Done."))
            .prompt("go");
        let updates = run.updates("tool_call_update");
        let n_failed = updates.iter().filter(|update| update["status"] == "failed").count();
        assert_eq!(n_failed, 0, "{way}: {:?}", run.results_for_model());
        run.assert_file("a.txt", "1 2\n");
    }
}

// Outside of the workspace: nothing without a yes.
#[test]
fn a_write_outside_of_the_workspace_is_refused_without_a_yes() {
    let run = scenario().user(reject_once()).start();
    let outside = run.outside("a.txt");
    run.model().push(calls("write", write(outside.to_str().unwrap(), "x")));
    run.model().push(says("Oh."));
    run.prompt("go");
    assert!(!outside.exists());
    let end = run.updates("tool_call_update").pop().unwrap();
    assert_eq!(end["status"], "failed", "{end}");
}

#[test]
fn str_replace_editor_has_its_cases() {
    for (way, scenario) in [("editor", scenario()), ("disk", scenario().client(ClientKind::bare()))] {
        let run = scenario
            .config("[tools]\nenable = [\"str_replace_editor\"]\n")
            .file("a.txt", "one\ntwo\nthree\n")
            .file("gone.txt", "here\n")
            .file("folder/sub/deep/x.txt", "")
            .file("folder/.hidden", "")
            .start();
        let at = |path: &str| run.path(path).display().to_string();
        let of = |command: &str, path: &str, rest: Value| {
            let mut arguments = json!({ "command": command, "path": path });
            arguments.as_object_mut().unwrap().extend(rest.as_object().cloned().unwrap_or_default());
            arguments
        };
        let a = at("a.txt");
        let gone = at("gone.txt");
        let tool = "str_replace_editor";
        let steps = [
            step(tool, of("str_replace", &a, json!({ "old_str": "one" })), "FS_NOT_OBSERVED", ""),
            step(
                tool,
                of("view", &a, json!({ "view_range": [2, -1] })),
                "ok",
                "4 lines in total with view_range=[2, -1]:\n     2  two\n     3  three\n     4  \n",
            ),
            step(tool, of("view", &a, json!({ "view_range": [2, 9] })), "plain", "[2, 9]"),
            step(tool, of("view", &a, json!({ "view_range": [9, 9] })), "plain", "[9, 9]"),
            step(tool, of("view", &a, json!({ "view_range": [3, 2] })), "plain", "[3, 2]"),
            step(tool, of("insert", &a, json!({ "insert_line": 5, "new_str": "x" })), "plain", "[0, 4]"),
            step(tool, of("insert", &a, json!({ "insert_line": 4, "new_str": "four" })), "ok", ""),
            step(tool, of("str_replace", &a, json!({ "old_str": "two\n" })), "ok", ""),
            step(tool, of("str_replace", &a, json!({ "old_str": "absent" })), "FS_EDIT_NOT_FOUND", ""),
            step(tool, of("create", &a, json!({ "file_text": "x" })), "plain", ""),
            step(tool, of("create", &a, Value::Null), "plain", ""),
            step(tool, of("view", "a.txt", Value::Null), "plain", "/a.txt"),
            step(tool, of("view", " ", Value::Null), "plain", "blank"),
            step(tool, of("view", &at("folder"), Value::Null), "ok", "folder/sub/deep\n"),
            step(tool, of("view", &at("folder"), json!({ "view_range": [1, 2] })), "plain", ""),
            step(tool, of("view", &gone, Value::Null), "ok", "here"),
            after(
                |run| fs::remove_file(run.path("gone.txt")).unwrap(),
                step(tool, of("view", &gone, Value::Null), "FS_NOT_FOUND", ""),
            ),
            step(tool, of("create", &gone, json!({ "file_text": "back\n" })), "ok", ""),
        ];
        play(&run, way, &steps);
        run.assert_file("a.txt", "one\nthree\n\nfour");
        run.assert_file("gone.txt", "back\n");
    }
}
