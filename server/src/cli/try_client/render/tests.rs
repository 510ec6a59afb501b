//! The transcript of updates, as a person would read it.

use super::*;
use agent_client_protocol::v1::schema::{
    Content, ContentChunk, CurrentModeUpdate, Diff, PermissionOption, PermissionOptionKind,
    PlanEntryPriority, Terminal, ToolCall, ToolCallContent, ToolCallLocation, ToolCallStatus, ToolCallUpdate,
    ToolCallUpdateFields, ToolKind,
};
use serde_json::json;

fn says(words: &str) -> SessionUpdate {
    SessionUpdate::AgentMessageChunk(ContentChunk::new(words.into()))
}

fn thinks(words: &str) -> SessionUpdate {
    SessionUpdate::AgentThoughtChunk(ContentChunk::new(words.into()))
}

fn call(id: &'static str, title: &str, kind: ToolKind) -> ToolCall {
    ToolCall::new(id, title).kind(kind)
}

fn at(path: &str, line: u32) -> Vec<ToolCallLocation> {
    vec![ToolCallLocation::new(path).line(line)]
}

fn update(id: &'static str, fields: ToolCallUpdateFields) -> SessionUpdate {
    SessionUpdate::ToolCallUpdate(ToolCallUpdate::new(id, fields))
}

fn done(content: Vec<ToolCallContent>) -> ToolCallUpdateFields {
    ToolCallUpdateFields::new().status(ToolCallStatus::Completed).content(content)
}

fn text_item(text: &str) -> ToolCallContent {
    ToolCallContent::Content(Content::new(text))
}

fn transcript() -> Transcript {
    Transcript::new(PathBuf::from("/w/app"), false, true)
}

fn read(updates: &[SessionUpdate]) -> String {
    let mut transcript = transcript();
    for update in updates {
        transcript.update(update, Duration::ZERO);
    }
    transcript.take()
}

#[test]
fn words_stream_and_thoughts_are_set_apart() {
    let updates = [thinks("Hm.\nSo"), thinks("."), says("Hel"), says("lo\n"), says("there")];
    assert_eq!(read(&updates), "┊ Hm.\n┊ So.\n\nHello\nthere");
}

#[test]
fn a_read_is_a_heading_and_a_glimpse() {
    let call = call("1", "Read src/lib.rs", ToolKind::Read).locations(at("/w/app/src/lib.rs", 1));
    let body: String = (1..=9).map(|n| format!("line {n}\n")).collect();
    let result = format!("[src/lib.rs](file:///w/app/src/lib.rs#L1), lines 1 to 9 of 9\n\n```rs\n{body}```");
    let updates = [SessionUpdate::ToolCall(call), update("1", done(vec![text_item(&result)]))];
    assert_eq!(
        read(&updates),
        "\
● Read src/lib.rs  src/lib.rs:1
  src/lib.rs, lines 1 to 9 of 9

  line 1
  line 2
  line 3
  line 4
  … 5 more lines
"
    );
}

#[test]
fn an_edit_shows_the_whole_file_diff_once() {
    let fragment = Diff::new("/w/app/a.rs", "2").old_text("two".to_owned());
    let whole = Diff::new("/w/app/a.rs", "one\n2\nthree\n").old_text("one\ntwo\nthree\n".to_owned());
    let announced = call("1", "Edit a.rs", ToolKind::Edit)
        .locations(vec![ToolCallLocation::new("/w/app/a.rs")])
        .content(vec![fragment.into()]);
    let finished = done(vec![whole.into()]).locations(at("/w/app/a.rs", 2)).title("Edit a.rs");
    let updates = [SessionUpdate::ToolCall(announced), update("1", finished)];
    assert_eq!(
        read(&updates),
        "\
● Edit a.rs
  @@ -1,3 +1,3 @@
   one
  -two
  +2
   three
"
    );
}

#[test]
fn a_diff_that_a_question_showed_is_not_repeated() {
    let whole = || Diff::new("/w/app/a.rs", "2\n").old_text("two\n".to_owned());
    let fields = ToolCallUpdateFields::new().title("Edit a.rs").content(vec![whole().into()]);
    let options = vec![PermissionOption::new("once", "Allow once", PermissionOptionKind::AllowOnce)];
    let request = RequestPermissionRequest::new("s", ToolCallUpdate::new("1", fields), options);
    let mut transcript = transcript();
    transcript.update(&SessionUpdate::ToolCall(call("1", "Edit a.rs", ToolKind::Edit)), Duration::ZERO);
    transcript.permission(&request, Duration::ZERO);
    transcript.update(&update("1", done(vec![whole().into()])), Duration::ZERO);
    assert_eq!(
        transcript.take(),
        "\
● Edit a.rs

? Edit a.rs
  a.rs
  @@ -1 +1 @@
  -two
  +2
"
    );
}

#[test]
fn a_question_shows_all_of_a_command() {
    let command = (1..=60).map(|n| format!("echo {n}")).collect::<Vec<_>>().join("\n");
    let fields = ToolCallUpdateFields::new()
        .title("echo 1 …")
        .kind(ToolKind::Execute)
        .content(vec![text_item("The mode asks first."), text_item(&format!("```console\n{command}\n```"))])
        .raw_input(json!({ "command": command }));
    let request = RequestPermissionRequest::new("s", ToolCallUpdate::new("1", fields), Vec::new());
    let mut transcript = transcript();
    transcript.permission(&request, Duration::ZERO);
    let shown = transcript.take();
    assert!(shown.starts_with("? echo 1 …\n  The mode asks first.\n  $ echo 1\n"), "{shown}");
    assert!(shown.ends_with("  $ echo 60\n"), "{shown}");
    assert_eq!(shown.lines().count(), 62);
}

#[test]
fn output_of_a_terminal_stands_under_its_call() {
    let mut transcript = transcript();
    let terminal = TerminalId::new("t1");
    transcript.update(&SessionUpdate::ToolCall(call("1", "cargo test", ToolKind::Execute)), Duration::ZERO);
    transcript.terminal_output(&terminal, "early\n");
    let shown = vec![ToolCallContent::Terminal(Terminal::new("t1"))];
    transcript.update(&update("1", ToolCallUpdateFields::new().content(shown)), Duration::ZERO);
    transcript.terminal_output(&terminal, "\u{1b}[32mok");
    transcript.update(&says("Meanwhile."), Duration::ZERO);
    transcript.terminal_output(&terminal, " 2\n");
    let end = TerminalEnd { status: "exit 1".to_owned(), success: false, n_unshown: 0 };
    transcript.terminal_ended(&terminal, end);
    let finished = ToolCallUpdateFields::new().status(ToolCallStatus::Completed);
    transcript.update(&update("1", finished), Duration::from_millis(300));
    assert_eq!(
        transcript.take(),
        "\
● cargo test
  │ early
  │ ok

Meanwhile.

● cargo test …
  │  2
  exit 1 · 0.3 s
"
    );
}

#[test]
fn long_output_is_cut_and_counted() {
    let mut transcript = transcript();
    let terminal = TerminalId::new("t1");
    let shown = vec![ToolCallContent::Terminal(Terminal::new("t1"))];
    let announced = call("1", "yes", ToolKind::Execute).content(shown);
    transcript.update(&SessionUpdate::ToolCall(announced), Duration::ZERO);
    transcript.terminal_output(&terminal, &"y\n".repeat(50));
    transcript
        .terminal_ended(&terminal, TerminalEnd { status: "exit 0".to_owned(), success: true, n_unshown: 7 });
    transcript.update(&update("1", done(Vec::new())), Duration::ZERO);
    let shown = transcript.take();
    assert_eq!(shown.matches("│ y").count(), 40);
    assert!(shown.ends_with("│ y\n  … 17 more lines\n  exit 0 · 0.0 s\n"), "{shown}");
}

#[test]
fn growing_text_is_shown_as_it_grows() {
    let grown = |text: &str| ToolCallUpdateFields::new().content(vec![text_item(text)]);
    let raw = json!({ "text": "one\ntwo\n", "exitCode": 0 });
    let updates = [
        SessionUpdate::ToolCall(call("1", "make", ToolKind::Execute)),
        update("1", grown("```console\none\n```")),
        update("1", grown("```console\none\ntwo\n```")),
        update("1", grown("```console\none\ntwo\n```").status(ToolCallStatus::Completed).raw_output(raw)),
    ];
    assert_eq!(read(&updates), "● make\n  one\n  two\n  exit 0 · 0.0 s\n");
}

#[test]
fn a_failure_says_why_even_without_content() {
    let failed = || ToolCallUpdateFields::new().status(ToolCallStatus::Failed);
    let raw = json!({ "error": { "message": "no such file", "code": "FS_NOT_FOUND" } });
    let updates = [
        SessionUpdate::ToolCall(call("1", "Read x", ToolKind::Read)),
        update("1", failed().raw_output(raw)),
        SessionUpdate::ToolCall(call("2", "Read y", ToolKind::Read)),
        update("2", failed().content(vec![text_item("Error: denied")])),
    ];
    assert_eq!(read(&updates), "● Read x\n  ✗ no such file\n● Read y\n  Error: denied\n  ✗ failed\n");
}

#[test]
fn calls_that_overlap_say_which_one_ends() {
    let updates = [
        SessionUpdate::ToolCall(call("1", "Find a", ToolKind::Search)),
        SessionUpdate::ToolCall(call("2", "Find b", ToolKind::Search)),
        update("1", done(vec![text_item("1 match in 1 file\n\n- [a.rs:1](file:///w/app/a.rs#L1) `a`")])),
        update("2", done(vec![text_item("No matches")])),
    ];
    assert_eq!(
        read(&updates),
        "\
● Find a
● Find b
● Find a …
  1 match in 1 file

  - a.rs:1 a
● Find b …
  No matches
"
    );
}

#[test]
fn a_plan_is_shown_when_it_changes() {
    let entry = |words: &str, status| PlanEntry::new(words, PlanEntryPriority::Medium, status);
    let plan = |second| {
        let entries = vec![entry("Look", PlanEntryStatus::Completed), entry("Change", second)];
        SessionUpdate::Plan(Plan::new(entries))
    };
    let updates =
        [plan(PlanEntryStatus::Pending), plan(PlanEntryStatus::Pending), plan(PlanEntryStatus::InProgress)];
    assert_eq!(read(&updates), "Plan 1/2\n  [x] Look\n  [ ] Change\nPlan 1/2\n  [x] Look\n  [>] Change\n");
}

#[test]
fn a_change_of_mode_is_said_once() {
    let mode = || SessionUpdate::CurrentModeUpdate(CurrentModeUpdate::new("plan"));
    assert_eq!(read(&[mode(), mode()]), "Mode: plan\n");
}

#[test]
fn the_end_of_a_turn_names_reason_time_and_usage() {
    let mut transcript = transcript();
    transcript.update(&says("Done."), Duration::ZERO);
    let usage = UsageUpdate::new(12_345, 200_000).cost(Cost::new(0.0012, "USD"));
    transcript.update(&SessionUpdate::UsageUpdate(usage), Duration::ZERO);
    transcript.turn_ended(StopReason::EndTurn, Duration::from_millis(65_400));
    let expected = "Done.\n\n— done · 1 min 5 s · 12 345 of 200 000 tokens · 0.0012 USD\n";
    assert_eq!(transcript.take(), expected);
}
