//! What the tests of this crate share: contexts of known clients, calls and results as values.

use crate::{CallView, PresentContext, Quirks, ResultContext, TerminalStyle, WholeText, wire};
use agent_client_protocol::v1::schema::{SessionId, SessionNotification, SessionUpdate};
use protocol::card::{
    CallCard, DiffCall, DiffResult, ExitState, FileDiff, FileLocation, GenericCall, GenericResult,
    ReadFileLine, ReadResult, ResultCard, SearchFileMatches, SearchHits, SearchLineMatch, SearchResult,
    TerminalCall, TerminalResult, ToolCallKind, WebFetch, WebResult, WebSearch, WebSource, WholeFile,
};
use protocol::content::ContentBlock;
use protocol::id::{BlobHash, CallId};
use protocol::tool::{DurableResult, ToolFailure};
use serde_json::{Value, json};

/// A call with everything that was ever known of it.
pub(crate) struct Case {
    pub call_id: CallId,
    pub name: &'static str,
    pub arguments: Value,
    pub card: CallCard,
    pub result: DurableResult,
    pub result_card: Option<ResultCard>,
    pub whole_file: Option<WholeText>,
}

impl Case {
    /// A call without a card for its result, which says `done`.
    pub fn new(name: &'static str, arguments: Value, card: CallCard) -> Self {
        let call_id = CallId::new("call-1");
        Self { call_id, name, arguments, card, result: success("done"), result_card: None, whole_file: None }
    }

    /// With this result text and card.
    pub fn ends(mut self, text: &str, card: impl Into<Option<ResultCard>>) -> Self {
        self.result = success(text);
        self.result_card = card.into();
        self
    }

    pub fn view(&self) -> CallView<'_> {
        CallView { call_id: &self.call_id, name: self.name, arguments: &self.arguments, card: &self.card }
    }

    /// The announcement as JSON.
    pub fn pending(&self, ctx: &PresentContext) -> Value {
        json_of(crate::present_call(ctx, &self.view()))
    }

    /// The end as JSON, as on replay.
    pub fn completed(&self, ctx: &PresentContext) -> Value {
        let shown = ResultContext { terminal: None, whole_file: self.whole_file.clone() };
        json_of(crate::present_result(ctx, &self.view(), &self.result, self.result_card.as_ref(), &shown))
    }

    /// The end as JSON, had the call failed.
    pub fn failed(&self, ctx: &PresentContext) -> Value {
        let shown = ResultContext::default();
        let result = failure(ToolFailure::coded("FsError", "FS_NOT_FOUND", "no such file"));
        json_of(crate::present_result(ctx, &self.view(), &result, None, &shown))
    }
}

/// The update as the client reads it.
pub(crate) fn json_of(update: SessionUpdate) -> Value {
    let mut params = wire::update_params(&SessionNotification::new(SessionId::new("s"), update)).unwrap();
    params["update"].take()
}

/// A client that runs terminals.
pub(crate) fn full() -> PresentContext {
    PresentContext { cwd: "/w/app".into(), terminals: TerminalStyle::Client, ..PresentContext::default() }
}

/// A client that displays terminals by the `_meta` convention.
pub(crate) fn display() -> PresentContext {
    PresentContext { terminals: TerminalStyle::Display, ..full() }
}

/// A client that offers nothing.
pub(crate) fn bare() -> PresentContext {
    PresentContext { terminals: TerminalStyle::Text, ..full() }
}

/// A client with every quirk there is.
pub(crate) fn quirky() -> PresentContext {
    let quirks = Quirks {
        markdown_titles: true,
        zero_based_lines: true,
        usage_updates: false,
        whole_question_titles: true,
    };
    PresentContext { quirks, ..full() }
}

pub(crate) fn success(text: &str) -> DurableResult {
    DurableResult { content: vec![ContentBlock::text(text)], is_error: false, error: None, meta: None }
}

pub(crate) fn failure(failure: ToolFailure) -> DurableResult {
    DurableResult { content: failure.default_content(), is_error: true, error: Some(failure), meta: None }
}

pub(crate) fn read_call(path: &str, title: &str, line: u64) -> CallCard {
    CallCard::Generic(GenericCall {
        title: title.to_owned(),
        kind: ToolCallKind::Read,
        locations: vec![FileLocation::new(path, Some(line))],
        ..GenericCall::default()
    })
}

pub(crate) fn generic_call(title: &str, kind: ToolCallKind, raw_input: impl Into<Option<Value>>) -> CallCard {
    CallCard::Generic(GenericCall {
        title: title.to_owned(),
        kind,
        raw_input: raw_input.into(),
        ..GenericCall::default()
    })
}

pub(crate) fn terminal_call(command: &str) -> CallCard {
    CallCard::Terminal(TerminalCall {
        title: command.to_owned(),
        description: Some("Run the tests".to_owned()),
        cwd: Some("sub".to_owned()),
    })
}

pub(crate) fn terminal_result(output: &str, exit: ExitState) -> ResultCard {
    ResultCard::Terminal(TerminalResult { title: None, output: output.to_owned(), exit })
}

pub(crate) fn file_diff(path: &str, old: Option<&str>, new: &str) -> FileDiff {
    FileDiff { path: path.to_owned(), old_text: old.map(str::to_owned), new_text: new.to_owned() }
}

pub(crate) fn diff_call(title: &str, diff: FileDiff) -> CallCard {
    let locations = vec![FileLocation::new(&diff.path, None)];
    CallCard::Diff(DiffCall { title: title.to_owned(), diffs: vec![diff], locations })
}

pub(crate) fn diff_result(diffs: Vec<FileDiff>) -> ResultCard {
    ResultCard::Diff(DiffResult { title: None, diffs, whole: None })
}

pub(crate) fn matches(files: &[(&str, &[(u64, &str)])], total: u64, truncated: bool) -> ResultCard {
    let line = |(line_number, line): &(u64, &str)| SearchLineMatch {
        line_number: *line_number,
        line: (*line).to_owned(),
    };
    let file = |(path, lines): &(&str, &[(u64, &str)])| SearchFileMatches {
        path: (*path).to_owned(),
        matches: lines.iter().map(line).collect(),
    };
    let hits = SearchHits::Matches(files.iter().map(file).collect());
    ResultCard::Search(SearchResult { title: None, hits, truncated, total })
}

pub(crate) fn paths(paths: &[&str], total: u64, truncated: bool) -> ResultCard {
    let hits = SearchHits::Paths(paths.iter().map(|path| (*path).to_owned()).collect());
    ResultCard::Search(SearchResult { title: None, hits, truncated, total })
}

/// Every card, each with a call it belongs to.
pub(crate) fn every_card() -> Vec<(&'static str, Case)> {
    vec![
        ("generic", generic()),
        ("terminal", terminal()),
        ("diff_new_file", diff_new_file()),
        ("diff_whole_file", diff_whole_file()),
        ("diff_hunks", diff_hunks()),
        ("read", read()),
        ("search_matches", search_matches()),
        ("search_one_match", search_one_match()),
        ("search_paths", search_paths()),
        ("web_search", web_search()),
        ("web_fetch", web_fetch()),
    ]
}

fn generic() -> Case {
    let code = json!("return await tools.read({file_path: 'a'})");
    let arguments = json!({ "code": code, "description": "Read one file" });
    let card = generic_call("Read one file", ToolCallKind::Execute, code);
    let result = GenericResult { title: Some("Read one file, done".to_owned()), content: None };
    Case::new("run_code", arguments, card).ends("{\"a\":1}", ResultCard::Generic(result))
}

fn terminal() -> Case {
    let command = "cargo test --workspace --all-features --no-fail-fast -- --nocapture\necho done";
    let arguments = json!({ "command": command, "description": "Run the tests", "workdir": "sub" });
    let result = terminal_result("\u{1b}[32mok\u{1b}[0m\nfailed\n\n", ExitState::Code(101));
    Case::new("bash", arguments, terminal_call(command)).ends("ok\nfailed\n[exit code: 101]", result)
}

fn diff_new_file() -> Case {
    let diff = file_diff("src/new.rs", None, "fn new() {}\n");
    let arguments = json!({ "file_path": "src/new.rs", "content": "fn new() {}\n" });
    Case::new("write", arguments, diff_call("Write src/new.rs", diff.clone()))
        .ends("Wrote src/new.rs", diff_result(vec![diff]))
}

fn edit(card: Option<WholeFile>) -> Case {
    let pending = file_diff("/w/app/src/a.rs", Some("two"), "2");
    let arguments = json!({ "file_path": "/w/app/src/a.rs", "old_string": "two", "new_string": "2" });
    let hunk = file_diff("/w/app/src/a.rs", Some("one\ntwo\nthree"), "one\n2\nthree");
    let result = ResultCard::Diff(DiffResult {
        title: Some("Edit /w/app/src/a.rs".to_owned()),
        diffs: vec![hunk],
        whole: card,
    });
    Case::new("edit", arguments, diff_call("Edit /w/app/src/a.rs", pending)).ends("Edited", result)
}

fn diff_whole_file() -> Case {
    let path = "/w/app/src/a.rs".to_owned();
    let whole = WholeFile { path, before: Some(BlobHash::new("b")), after: BlobHash::new("a") };
    let before = Some("one\ntwo\nthree\n".to_owned());
    let whole_file = Some(WholeText { before, after: "one\n2\nthree\n".to_owned() });
    Case { whole_file, ..edit(Some(whole)) }
}

fn diff_hunks() -> Case {
    edit(None)
}

pub(crate) fn read() -> Case {
    let arguments = json!({ "file_path": "src/a.rs", "offset": 5, "limit": 2 });
    let lines = [(5, "/// ```"), (6, "fn five() {}")];
    let lines = lines.map(|(number, text)| ReadFileLine { number, text: text.to_owned() }).to_vec();
    let result = ResultCard::Read(ReadResult {
        title: None,
        path: "src/a.rs".to_owned(),
        offset: 5,
        lines,
        total_lines: 120,
        lang: Some("rs".to_owned()),
        content: Some("5\t/// ```\n6\tfn five() {}".to_owned()),
    });
    Case::new("read", arguments, read_call("src/a.rs", "Read src/a.rs (5 - 6)", 5)).ends("envelope", result)
}

fn grep() -> Case {
    let card = generic_call("Grep a_* in /w/app/src", ToolCallKind::Search, json!("a_*"));
    Case::new("grep", json!({ "pattern": "a_*", "path": "/w/app/src" }), card)
}

fn search_matches() -> Case {
    let files: &[(&str, &[(u64, &str)])] =
        &[("src/__init__.py", &[(3, "    a_ = `x`"), (9, "")]), ("/other/my file (1).rs", &[(1, "a_b")])];
    grep().ends("text", matches(files, 3, false))
}

fn search_one_match() -> Case {
    grep().ends("text", matches(&[("src/a.rs", &[(3, "a_b")])], 1, false))
}

fn search_paths() -> Case {
    let card = generic_call("Glob **/*.rs", ToolCallKind::Search, json!("**/*.rs"));
    let result = paths(&["src/a.rs", "src/b.rs"], 2431, true);
    Case::new("glob", json!({ "pattern": "**/*.rs" }), card).ends("text", result)
}

fn web_search() -> Case {
    let card = generic_call("what is *acp*", ToolCallKind::Search, json!("what is *acp*"));
    let source = WebSource {
        url: "https://example.org/a_(b)".to_owned(),
        title: Some("The [title]".to_owned()),
        snippet: Some("Two\nlines of *text*".to_owned()),
        published_at: Some("2026-11-10".to_owned()),
    };
    let bad =
        WebSource { url: "javascript:alert(1)".to_owned(), title: None, snippet: None, published_at: None };
    let result = WebResult::Search(WebSearch {
        title: Some("what is *acp*".to_owned()),
        sources: vec![source, bad],
        answer: Some("A protocol.".to_owned()),
        truncated: true,
    });
    Case::new("web_search", json!({ "query": "what is *acp*" }), card).ends("text", ResultCard::Web(result))
}

fn web_fetch() -> Case {
    let url = "https://example.org/a_b";
    let card = generic_call(url, ToolCallKind::Fetch, json!(url));
    let result = WebResult::Fetch(WebFetch {
        title: Some(url.to_owned()),
        url: "https://example.org/final".to_owned(),
        status_code: 200,
        truncated: true,
    });
    Case::new("web_fetch", json!({ "url": url }), card).ends("# Page\n\nText", ResultCard::Web(result))
}
