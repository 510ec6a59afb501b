//! Whole conversations with the offline model, against tools that are one function.

use super::*;
use futures::{FutureExt as _, StreamExt as _};
use protocol::content::ContentBlock;
use protocol::id::{CallId, MessageId};
use protocol::message::{
    AssistantBlock, AssistantMessage, ContextForm, MessageSource, RequestedCall, ToolResultMessage,
    UserMessage,
};
use protocol::model::HistoryMessage;
use protocol::tool::ToolSchema;
use serde_json::json;

type Tool<'t> = dyn Fn(&str, &Value) -> Result<String, String> + 't;

/// A session with tools that are simulated.
struct Session<'t> {
    request: ModelRequest,
    tool: Box<Tool<'t>>,
    transcript: Vec<String>,
}

impl<'t> Session<'t> {
    fn new(tools: &[&str], tool: impl Fn(&str, &Value) -> Result<String, String> + 't) -> Self {
        let schema = |name: &&str| ToolSchema {
            name: (*name).to_owned(),
            description: String::new(),
            parameters: json!({"type": "object", "properties": {"command": {}, "description": {}}}),
        };
        let request = ModelRequest {
            model: model(),
            effort: None,
            system: String::new(),
            messages: Vec::new(),
            tools: tools.iter().map(schema).collect(),
            max_tokens: None,
            cwd: "/w".into(),
        };
        Self { request, tool: Box::new(tool), transcript: Vec::new() }
    }

    fn user(&mut self, text: &str, source: MessageSource) {
        let id = MessageId::new(format!("m{}", self.request.messages.len()));
        let content = vec![ContentBlock::text(text)];
        self.request.messages.push(HistoryMessage::User(UserMessage { id, content, source }));
    }

    /// Prompts and runs the turn to its end; one line a call, its result and a text.
    fn prompt(mut self, text: &str) -> Self {
        self.user(text, MessageSource::User);
        self.run()
    }

    fn run(mut self) -> Self {
        for _ in 0..30 {
            let (text, calls) = gathered(answer(&self.request));
            if !text.is_empty() {
                self.transcript.push(format!("says {}", text.strip_suffix(TAIL).unwrap_or(&text)));
            }
            let mut blocks: Vec<AssistantBlock> = Vec::new();
            let mut results = Vec::new();
            let is_last = calls.is_empty();
            for (id, name, arguments) in calls {
                let value: Value = serde_json::from_str(&arguments).unwrap();
                let outcome = (self.tool)(&name, &value);
                self.transcript.push(format!("{name} {value}"));
                let (text, is_error) = match outcome {
                    Ok(text) => (text, false),
                    Err(text) => (format!("Error: {text}"), true),
                };
                let call_id = CallId::new(id.clone());
                blocks.push(AssistantBlock::ToolCall(RequestedCall {
                    id: call_id.clone(),
                    provider_id: id,
                    name,
                    arguments,
                }));
                results.push(HistoryMessage::ToolResult(ToolResultMessage {
                    call_id,
                    content: vec![ContentBlock::text(text)],
                    is_error,
                }));
            }
            blocks.insert(0, AssistantBlock::Text { text });
            let message = AssistantMessage { id: MessageId::new("a"), blocks, model: model() };
            self.request.messages.push(HistoryMessage::Assistant(message));
            self.request.messages.extend(results);
            if is_last {
                return self;
            }
        }
        panic!("the turn does not end: {:?}", self.transcript);
    }
}

/// The text and the calls of an answer.
fn gathered(mut stream: Chunks) -> (String, Vec<(String, String, String)>) {
    let mut text = String::new();
    let mut calls: Vec<(String, String, String)> = Vec::new();
    while let Some(chunk) = stream.next().now_or_never().unwrap() {
        match chunk.unwrap() {
            ModelChunk::Text(piece) => text.push_str(&piece),
            ModelChunk::ToolCall { index, id, name, arguments } => {
                calls.resize(calls.len().max(index + 1), Default::default());
                calls[index].0.push_str(&id);
                calls[index].1.push_str(&name);
                calls[index].2.push_str(&arguments);
            }
            ModelChunk::Usage(usage) => assert!(usage.output_tokens > 0),
            _ => {}
        }
    }
    (text, calls)
}

fn check(
    tools: &[&str],
    tool: impl Fn(&str, &Value) -> Result<String, String>,
    prompt: &str,
    expected: &[&str],
) {
    assert_eq!(Session::new(tools, tool).prompt(prompt).transcript, expected, "{prompt}");
}

fn fine(_: &str, _: &Value) -> Result<String, String> {
    Ok("fine".to_owned())
}

#[test]
fn any_other_prompt_is_answered_honestly() {
    let session = Session::new(&[], fine).prompt("please refactor everything");
    assert_eq!(session.transcript.len(), 1);
    for word in ["not a language model", "DEEPSEEK_API_KEY", "followspot login", "`tour`", "/tool NAME"] {
        assert!(session.transcript[0].contains(word), "{word}");
    }
}

#[test]
fn tools_are_called_with_exactly_these_arguments_in_one_batch() {
    check(
        &["read", "bash"],
        |name, _| {
            if name == "bash" {
                Err("refused\nmore".to_owned())
            } else {
                Ok("<path>/a</path>\n<type>file</type>\n<content>\n1: x".to_owned())
            }
        },
        "/tool read {\"file_path\":\"/a\"}\n/tool bash {\"command\":\"ls\"}",
        &[
            r#"read {"file_path":"/a"}"#,
            r#"bash {"command":"ls"}"#,
            "says `read` gave: 1: x\n`bash` failed: refused",
        ],
    );
    check(&["read"], fine, "/tool raed {}", &["says There is no tool named raed. This session has: read."]);
    check(
        &["read"],
        fine,
        "/tool read {\"a\":",
        &["says The arguments of `read` are not JSON: EOF while parsing a value at line 1 column 5."],
    );
}

#[test]
fn sentences_become_calls() {
    check(&["read"], fine, "read a.rs", &[r#"read {"file_path":"a.rs"}"#, "says I read a.rs."]);
    check(
        &["grep"],
        |_, _| Ok("Found 2 matches\n\na.rs\nLine 1: a(b\nLine 2: a(b".to_owned()),
        "find a(b",
        &[r#"grep {"pattern":"a\\(b"}"#, "says Found 2 matches for `a(b`."],
    );
    check(
        &["glob"],
        |_, _| Ok("/w/a.rs\n/w/b.rs\n\n(Results are cut.)".to_owned()),
        "list *.rs",
        &[r#"glob {"pattern":"*.rs"}"#, "says 2 files are listed."],
    );
    check(
        &["bash"],
        |_, _| Ok("x\n[exit code: 3]".to_owned()),
        "run false",
        &[
            r#"bash {"command":"false","description":"Run what the user typed"}"#,
            "says The command ran: [exit code: 3]",
        ],
    );
    check(&[], fine, "run ls", &["says This session has no `bash` tool, so I cannot do that."]);
}

#[test]
fn replace_reads_first_and_replaces_all_only_when_it_must() {
    let read = r#"read {"file_path":"a.rs"}"#;
    let edit = r#"edit {"file_path":"a.rs","old_string":"x","new_string":"y"}"#;
    let edit_all = r#"edit {"file_path":"a.rs","old_string":"x","new_string":"y","replace_all":true}"#;
    let first = "says I read the file first, then I edit it.";
    let prompt = "replace x with y in a.rs";
    check(&["read", "edit"], fine, prompt, &[first, read, edit, "says I replaced it in a.rs."]);
    check(
        &["read", "edit"],
        |name, arguments| match (name, arguments.get("replace_all")) {
            ("edit", None) => Err("2 matches; be more specific or set replace_all".to_owned()),
            _ => Ok("fine".to_owned()),
        },
        prompt,
        &[
            first,
            read,
            edit,
            "says It stands there more than once, so I replace every one.",
            edit_all,
            "says I replaced every one in a.rs.",
        ],
    );
    check(
        &["read", "edit"],
        |_, _| Err("no such file".to_owned()),
        prompt,
        &[first, read, "says `read` failed: no such file"],
    );
}

#[test]
fn where_is_asks_the_language_server_at_the_place_that_looks_like_a_definition() {
    let found = "Found 3 matches\n\nREADME.md\nLine 1: Session here\n\nsrc/a.rs\nLine 4: // Session\nLine 5:     é(Session::new())\n\nsrc/b.rs\nLine 9: pub struct Session {\n\n(Hidden files were left out.)";
    let grep = r#"grep {"pattern":"\\bSession\\b"}"#;
    let at_b = r#"lsp {"operation":"goToDefinition","file_path":"src/b.rs","line":9,"character":12}"#;
    let at_a = r#"lsp {"operation":"goToDefinition","file_path":"src/a.rs","line":5,"character":7}"#;
    let with_server = |answer: Result<&'static str, &'static str>| {
        move |name: &str, _: &Value| match name {
            "grep" => Ok(found.to_owned()),
            _ => answer.map(str::to_owned).map_err(str::to_owned),
        }
    };
    check(
        &["grep", "lsp"],
        with_server(Ok("src/b.rs:9:12\n")),
        "where is Session",
        &[grep, at_b, "says The language server says that `Session` is defined at:\n\n- src/b.rs:9:12"],
    );
    check(
        &["grep", "lsp"],
        with_server(Err("no server for .rs")),
        "where is Session",
        &[
            grep,
            at_b,
            at_a,
            "says By text search (the language server: Error: no server for .rs), `Session` is at src/b.rs:9: `pub struct Session {`. It stands in 3 other places.",
        ],
    );
    check(
        &["grep"],
        with_server(Ok("")),
        "where is Session",
        &[
            grep,
            "says By text search, `Session` is at src/b.rs:9: `pub struct Session {`. It stands in 3 other places.",
        ],
    );
}

/// Tools over a folder with one source file.
fn folder(name: &str, arguments: &Value) -> Result<String, String> {
    match name {
        "glob" => Ok("target/debug/x.rs\nnotes.txt\nsrc/main.rs".to_owned()),
        "read" => Ok("<path>/w/src/main.rs</path>\n<type>file</type>\n<content>\n1: // hi\n2: fn start_here() {}\n\n(End of file)\n</content>".to_owned()),
        "grep" if arguments.get("path").is_none() => Ok("No matches found".to_owned()),
        _ => Ok("fine".to_owned()),
    }
}

const ALL: &[&str] = &["todo_write", "glob", "read", "grep", "write", "edit", "bash"];

#[test]
fn the_tour_shows_every_kind_and_writes_only_to_its_scratch_folder() {
    let session = Session::new(ALL, folder).prompt("tour");
    let calls: Vec<&str> = session
        .transcript
        .iter()
        .filter(|line| !line.starts_with("says "))
        .map(|line| line.split(' ').next().unwrap())
        .collect();
    assert_eq!(
        calls,
        [
            "todo_write",
            "glob",
            "read",
            "grep",
            "grep",
            "todo_write",
            "write",
            "edit",
            "todo_write",
            "bash",
            "todo_write"
        ]
    );
    let scratch = std::env::temp_dir().join("followspot-tour-").to_string_lossy().into_owned();
    for line in &session.transcript {
        if line.starts_with("write ") || line.starts_with("edit ") {
            assert!(line.contains(&format!("\"file_path\":\"{scratch}")), "{line}");
        }
    }
    assert!(session.transcript[0].starts_with("says I am the built-in offline model, not a language model"));
    assert!(session.transcript.contains(&r#"read {"file_path":"src/main.rs","limit":40}"#.to_owned()));
    assert!(
        session
            .transcript
            .contains(&r#"grep {"pattern":"\\bstart_here\\b","path":"src/main.rs"}"#.to_owned())
    );
    let last = session.transcript.last().unwrap();
    assert!(
        last.starts_with("says That was the tour. You have seen: a plan, a list of files, a file that was read, a search, a new file as a diff, an edit as a diff, a terminal."),
        "{last}"
    );
}

#[test]
fn the_tour_adapts_to_missing_tools_and_to_failures() {
    let none = Session::new(&[], fine).prompt("tour");
    assert_eq!(none.transcript.len(), 1);
    assert!(none.transcript[0].contains("nothing, since no tool was on offer"));

    let refused = Session::new(ALL, |name, arguments| match name {
        "write" | "bash" => Err("denied by the mode".to_owned()),
        "glob" => Ok("No files found".to_owned()),
        _ => folder(name, arguments),
    })
    .prompt("tour");
    let last = refused.transcript.last().unwrap();
    assert!(last.contains("You have seen: a plan, a list of files."), "{last}");
    assert!(last.contains("There was no text file here to read."), "{last}");
    assert!(
        last.contains("- `write` failed: denied by the mode\n- `bash` failed: denied by the mode"),
        "{last}"
    );
}

#[test]
fn each_tour_has_its_own_folder_and_new_ids() {
    let first = Session::new(ALL, folder).prompt("tour");
    let folder_of =
        |transcript: &[String]| transcript.iter().find(|line| line.starts_with("write ")).unwrap().clone();
    let one = folder_of(&first.transcript);
    let mut second = first;
    second.transcript.clear();
    let second = second.prompt("tour");
    assert_ne!(folder_of(&second.transcript), one);
    let ids: Vec<&str> = second
        .request
        .messages
        .iter()
        .filter_map(|message| match message {
            HistoryMessage::Assistant(message) => Some(message.calls().map(|call| call.provider_id.as_str())),
            _ => None,
        })
        .flatten()
        .collect();
    let unique: std::collections::BTreeSet<&str> = ids.iter().copied().collect();
    assert_eq!(ids.len(), unique.len());
}

#[test]
fn notices_around_a_prompt_are_not_taken_for_speech() {
    let plugin = MessageSource::Plugin { plugin: "clock".to_owned(), form: ContextForm::Notice };
    let mut session = Session::new(&["read"], fine);
    session.user("run rm -rf /", MessageSource::AgentInstructions { changes: Vec::new() });
    session.user("read a.rs", MessageSource::User);
    session.user("run rm -rf /", plugin.clone());
    let mut session = session.run();
    assert_eq!(session.transcript, [r#"read {"file_path":"a.rs"}"#, "says I read a.rs."]);

    session.transcript.clear();
    session.user("run rm -rf /", plugin);
    assert_eq!(session.run().transcript, ["says This came in meanwhile:\n\nrun rm -rf /"]);
}

#[test]
fn a_delegated_task_is_the_prompt_of_a_child() {
    let mut session = Session::new(&["read"], fine);
    session.user("read a.rs", MessageSource::Subagent { session: "s".to_owned() });
    assert_eq!(session.run().transcript, [r#"read {"file_path":"a.rs"}"#, "says I read a.rs."]);
}
