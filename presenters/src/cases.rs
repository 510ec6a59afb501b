//! The cases of `spec/presentation.md` §10 that concern projection, in its order, and a command's life while it runs.

use crate::fixtures::{
    Case, bare, diff_call, diff_result, display, failure, file_diff, full, generic_call, json_of, matches,
    paths, read, read_call, success, terminal_call, terminal_result,
};
use crate::{ResultContext, fallback_card, present_result};
use protocol::card::CallCard;
use protocol::card::{
    DiffCall, ExitState, FileDiff, GenericCall, GenericResult, ReadFileLine, ReadResult, ResultCard,
    ToolCallKind, WebFetch, WebResult,
};
use protocol::content::ContentBlock;
use protocol::id::TerminalId;
use protocol::tool::ToolFailure;
use serde_json::{Value, json};

fn text_item(text: &str) -> Value {
    json!({ "type": "content", "content": { "type": "text", "text": text } })
}

fn command(name: &'static str) -> Case {
    Case::new(name, json!({ "command": "x" }), terminal_call("x"))
}

#[test]
fn a_read_is_at_the_line_it_starts() {
    for (title, line) in [
        ("Read a.ts (5 - 8)", 5),
        ("Read a.ts (1 - 10)", 1),
        ("Read a.ts (from line 3)", 3),
        ("Read a.ts", 1),
    ] {
        let pending = Case::new("read", json!({ "file_path": "a.ts" }), read_call("a.ts", title, line))
            .pending(&bare());
        assert_eq!(pending["title"], title);
        assert_eq!(pending["locations"], json!([{ "path": "/w/app/a.ts", "line": line }]));
        assert_eq!(pending["kind"], "read");
    }
}

#[test]
fn a_result_without_a_card_shows_what_the_model_read() {
    let completed =
        Case::new("read", json!({}), read_call("a.ts", "Read a.ts", 1)).ends("raw", None).completed(&full());
    assert_eq!(completed["content"], json!([text_item("raw")]));
    assert_eq!(completed.get("title"), None);
}

#[test]
fn a_new_file_says_null_and_a_failed_write_shows_its_error() {
    let diff = file_diff("a.ts", None, "x");
    let case = Case::new("write", json!({}), diff_call("Write a.ts", diff.clone()))
        .ends("ok", diff_result(vec![diff]));
    let item = json!({ "type": "diff", "path": "/w/app/a.ts", "newText": "x", "oldText": null });
    assert_eq!(case.pending(&full())["content"], json!([item]));
    assert_eq!(case.completed(&full())["content"], json!([item]));
    assert_eq!(case.failed(&full())["content"], json!([text_item("Error: no such file")]));
}

#[test]
fn distant_edits_are_separate_diffs() {
    let hunks = vec![file_diff("a.ts", Some("x"), "y"), file_diff("a.ts", Some("x2"), "y2")];
    let pending = diff_call("Edit a.ts", file_diff("a.ts", Some("x"), "y"));
    let completed = Case::new("edit", json!({}), pending).ends("ok", diff_result(hunks)).completed(&full());
    assert_eq!(completed["content"].as_array().map(Vec::len), Some(2));
}

#[test]
fn a_diff_without_hunks_leaves_what_is_shown() {
    let pending = diff_call("Edit a.ts", file_diff("a.ts", Some("x"), "y"));
    let completed =
        Case::new("edit", json!({}), pending).ends("ok", diff_result(Vec::new())).completed(&full());
    assert_eq!(completed.get("content"), None);
}

#[test]
fn a_side_over_the_bound_is_named_with_its_size() {
    let diff = file_diff("a.ts", None, &"x".repeat(1024 * 1024 + 1));
    let pending = Case::new("write", json!({}), diff_call("Write a.ts", diff)).pending(&full());
    let note = "`a.ts`: too large to show as a diff (0 bytes before, 1048577 after)";
    assert_eq!(pending["content"], json!([text_item(note)]));
}

#[test]
fn an_exit_is_told_in_the_way_the_client_has() {
    for (exit, shown, raw, entry) in [
        (
            ExitState::Code(3),
            "x\n[exit code: 3]",
            json!({ "text": "x", "exitCode": 3 }),
            json!({ "exit_code": 3 }),
        ),
        (ExitState::Code(0), "x", json!({ "text": "x", "exitCode": 0 }), json!({ "exit_code": 0 })),
        (
            ExitState::Signal("SIGTERM".to_owned()),
            "x\n[killed by signal: SIGTERM]",
            json!({ "text": "x", "signal": "SIGTERM" }),
            json!({ "signal": "SIGTERM" }),
        ),
        (ExitState::Unknown, "x", json!({ "text": "x" }), Value::Null),
    ] {
        let case = command("bash").ends("x", terminal_result("x", exit));
        let text = case.completed(&bare());
        assert_eq!(text["content"], json!([text_item(&format!("```console\n{shown}\n```"))]));
        assert_eq!(text["rawOutput"], raw);
        let shown = case.completed(&display());
        let mut entry = entry;
        if entry.is_object() {
            entry["terminal_id"] = json!("call-1");
        }
        assert_eq!(shown["_meta"]["terminal_exit"], entry);
        assert_eq!(shown.get("content"), None);
    }
}

#[test]
fn a_timeout_line_stays_in_the_output() {
    let output = "x\n[timed out after 10ms]";
    let case = command("bash").ends("x", terminal_result(output, ExitState::Signal("SIGKILL".to_owned())));
    let fence = "```console\nx\n[timed out after 10ms]\n[killed by signal: SIGKILL]\n```";
    assert_eq!(case.completed(&full())["content"], json!([text_item(fence)]));
}

#[test]
fn a_background_command_is_generic_and_its_acknowledgement_a_fence() {
    let card = CallCard::Generic(GenericCall {
        title: "sleep 9\nls".to_owned(),
        kind: ToolCallKind::Execute,
        raw_input: Some(json!("sleep 9\nls")),
        content: vec![ContentBlock::text("Wait")],
        locations: Vec::new(),
    });
    let fence = "```console\nstarted job bash-1\n```";
    let result = GenericResult { title: None, content: Some(vec![ContentBlock::text(fence)]) };
    let arguments = json!({ "command": "sleep 9\nls", "run_in_background": true });
    let case = Case::new("bash", arguments, card).ends("started job bash-1", ResultCard::Generic(result));
    for ctx in [full(), display(), bare()] {
        let pending = case.pending(&ctx);
        assert_eq!(pending["title"], "sleep 9 …");
        assert_eq!(pending["kind"], "execute");
        assert_eq!(pending["rawInput"], json!({ "command": "sleep 9\nls" }));
        assert_eq!(pending["content"], json!([text_item("Wait")]));
        assert_eq!(pending.get("_meta"), None);
        let completed = case.completed(&ctx);
        assert_eq!(completed["content"], json!([text_item(fence)]));
        assert_eq!(completed.get("_meta"), None);
    }
}

#[test]
fn a_call_without_a_card_is_named_by_its_tool() {
    for (arguments, raw_input) in [
        (json!({ "command": "ls" }), json!({ "command": "ls" })),
        (json!("{broken"), json!({ "input": "{broken" })),
    ] {
        let card = fallback_card("bash", &arguments);
        let pending = Case::new("bash", arguments, card).pending(&full());
        assert_eq!(pending["title"], "bash");
        assert_eq!(pending["kind"], "other");
        assert_eq!(pending["status"], "pending");
        assert_eq!(pending["rawInput"], raw_input);
    }
}

#[test]
fn a_client_without_terminals_gets_the_description_then_one_fence() {
    let case = command("bash").ends("x", terminal_result("x\n\n", ExitState::Code(0)));
    assert_eq!(case.pending(&bare())["content"], json!([text_item("Run the tests")]));
    assert_eq!(case.completed(&bare())["content"], json!([text_item("```console\nx\n```")]));
    assert_eq!(case.completed(&bare()).get("_meta"), None);
}

#[test]
fn a_terminal_result_of_a_call_without_a_terminal_is_raw_content() {
    let card = generic_call("x", ToolCallKind::Execute, None);
    let case = Case::new("bash", json!({}), card).ends("raw", terminal_result("x", ExitState::Code(0)));
    let completed = case.completed(&display());
    assert_eq!(completed["content"], json!([text_item("raw")]));
    assert_eq!(completed.get("_meta"), None);
}

#[test]
fn titles_lose_the_sessions_folder_and_nothing_else() {
    for (path, shown) in [
        ("/w/app/src/a.ts", "src/a.ts"),
        ("/etc/a.ts", "/etc/a.ts"),
        ("/w/app/..cache/x", "..cache/x"),
        ("/w/app", "/w/app"),
    ] {
        let case = Case::new("read", json!({}), read_call(path, &format!("Read {path}"), 1));
        assert_eq!(case.pending(&full())["title"], format!("Read {shown}"));
    }
}

#[test]
fn a_search_over_its_cap_says_so_and_an_empty_one_is_a_card() {
    let glob = || Case::new("glob", json!({}), generic_call("Glob *", ToolCallKind::Search, json!("*")));
    let empty = glob().ends("none", paths(&[], 0, false)).completed(&full());
    assert_eq!(empty["content"], json!([text_item("No files")]));
    assert_eq!(
        glob().ends("none", matches(&[], 0, false)).completed(&full())["content"],
        json!([text_item("No matches")])
    );
    let many: Vec<String> = (0..300).map(|n| format!("f{n}")).collect();
    let many: Vec<&str> = many.iter().map(String::as_str).collect();
    let capped = glob().ends("many", paths(&many, 900, true)).completed(&full());
    let text = capped["content"][0]["content"]["text"].as_str().unwrap();
    assert!(text.starts_with("900 files, 200 shown\n\n- [f0](file:///w/app/f0)"), "{text}");
    assert!(
        text.ends_with("- [f199](file:///w/app/f199)\n\nThe model read 100 more, not shown here."),
        "{text}"
    );
    assert_eq!(capped.get("locations"), None);
}

#[test]
fn a_cut_page_is_marked() {
    let card = generic_call("https://e.org/", ToolCallKind::Fetch, json!("https://e.org/"));
    let url = "https://e.org/".to_owned();
    let result = WebResult::Fetch(WebFetch { title: None, url, status_code: 200, truncated: true });
    let completed =
        Case::new("web_fetch", json!({}), card).ends("", ResultCard::Web(result)).completed(&full());
    assert_eq!(completed["content"], json!([text_item("[https://e.org/](https://e.org/) (HTTP 200, cut)")]));
}

#[test]
fn a_program_is_titled_by_its_description_and_shows_its_code() {
    let arguments = json!({ "code": "1+1", "description": "Add" });
    let pending = Case::new("run_code", arguments, generic_call("Add", ToolCallKind::Execute, json!("1+1")))
        .pending(&full());
    assert_eq!((&pending["title"], &pending["rawInput"]), (&json!("Add"), &json!({ "code": "1+1" })));
}

#[test]
fn a_watched_terminal_outlives_its_call() {
    let case = command("bash").ends("x", terminal_result("x", ExitState::Code(1)));
    let shown = ResultContext { terminal: Some(TerminalId::new("t1")), whole_file: None };
    for ctx in [full(), display()] {
        let update = present_result(&ctx, &case.view(), &case.result, case.result_card.as_ref(), &shown);
        assert_eq!(
            json_of(update),
            json!({
                "sessionUpdate": "tool_call_update",
                "toolCallId": "call-1",
                "status": "completed",
                "rawOutput": { "text": "x", "exitCode": 1 },
            })
        );
    }
    let aborted = failure(ToolFailure::aborted());
    let update = json_of(present_result(&full(), &case.view(), &aborted, None, &shown));
    let terminal = json!({ "type": "terminal", "terminalId": "t1" });
    let fence = text_item("```console\nError: tool call aborted\n```");
    assert_eq!(update["content"], json!([terminal, fence]));
    assert_eq!(update["rawOutput"]["error"]["code"], "ABORTED");
}

#[test]
fn a_failure_without_details_is_told_by_its_text() {
    let case = read();
    let mut result = success("Error: nothing there");
    result.is_error = true;
    let update =
        present_result(&full(), &case.view(), &result, case.result_card.as_ref(), &ResultContext::default());
    let update = json_of(update);
    assert_eq!(update["status"], "failed");
    assert_eq!(update["rawOutput"], json!({ "error": { "message": "nothing there" } }));
    assert_eq!(update["content"], json!([text_item("Error: nothing there")]));
}

#[test]
fn a_running_command_is_shown_in_each_style() {
    let case = command("bash");
    let call = case.view();
    let update = json_of(crate::terminal_attached(&full(), &call, &TerminalId::new("t1")));
    let terminal = json!({ "type": "terminal", "terminalId": "t1" });
    assert_eq!(update["content"], json!([text_item("Run the tests"), terminal]));

    let update = json_of(crate::terminal_output(call.call_id, "a\nb"));
    assert_eq!(update["_meta"], json!({ "terminal_output": { "terminal_id": "call-1", "data": "a\r\nb" } }));
    let update = json_of(crate::terminal_exited(call.call_id, &ExitState::Code(2)));
    assert_eq!(update["_meta"], json!({ "terminal_exit": { "terminal_id": "call-1", "exit_code": 2 } }));

    let update = json_of(crate::terminal_text(&bare(), &call, "\u{1b}[1mb\u{1b}[0m\n", 12));
    let fence = text_item("```console\n[12 earlier bytes not shown]\nb\n```");
    assert_eq!(update["content"], json!([text_item("Run the tests"), fence]));
    assert_eq!(update.get("status"), None);
}

#[test]
fn a_display_terminal_is_put_back_after_a_question() {
    let case = command("bash");
    let plain =
        json!({ "sessionUpdate": "tool_call_update", "toolCallId": "call-1", "status": "in_progress" });
    for (ctx, asked) in [(display(), false), (full(), true), (bare(), true)] {
        assert_eq!(json_of(crate::call_in_progress(&ctx, &case.view(), asked)), plain);
    }
    let update = json_of(crate::call_in_progress(&display(), &case.view(), true));
    assert_eq!(update["content"], case.pending(&display())["content"]);
}

#[test]
fn a_change_without_a_place_is_at_its_file() {
    let diffs: Vec<FileDiff> = vec![file_diff("a.ts", None, "x")];
    let card = CallCard::Diff(DiffCall { title: String::new(), diffs, locations: Vec::new() });
    let pending = Case::new("write", json!({ "file_path": "a.ts", "content": "x" }), card).pending(&full());
    assert_eq!(pending["locations"], json!([{ "path": "/w/app/a.ts" }]));
    assert_eq!(pending["title"], "write");
    assert_eq!(pending["rawInput"], json!({ "file_path": "a.ts" }));
}

#[test]
fn a_read_is_bounded_and_an_empty_one_says_why() {
    for (n_lines, total_lines, expected) in [
        (0, 0, "The file is empty.".to_owned()),
        (0, 4, "Nothing at line 1: the file has 4 lines.".to_owned()),
        (1, 1, "```\nx\n```".to_owned()),
        (
            600,
            600,
            format!(
                "[a.txt:1](file:///w/app/a.txt#L1), lines 1 to 600 of 600\n\n```\n{}```\n\n\
                 The model read 100 more lines, not shown here.",
                "x\n".repeat(500)
            ),
        ),
    ] {
        let line = |number| ReadFileLine { number, text: "x".to_owned() };
        let result = ResultCard::Read(ReadResult {
            title: None,
            path: "a.txt".to_owned(),
            offset: 1,
            lines: (1..=n_lines).map(line).collect(),
            total_lines,
            lang: None,
            content: None,
        });
        let case = Case::new("read", json!({}), read_call("a.txt", "Read a.txt", 1)).ends("raw", result);
        assert_eq!(case.completed(&full())["content"], json!([text_item(&expected)]));
    }
}
