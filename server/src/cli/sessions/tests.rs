//! The commands on a store in a temporary folder.

use super::*;
use protocol::content::ContentBlock;
use protocol::event::{LOG_VERSION, Record, SessionEvent, SessionHeader, TitleSource, TurnEndReason};
use protocol::id::{CallId, MessageId};
use protocol::message::{
    AssistantBlock, AssistantMessage, ContextForm, MessageSource, ToolResultMessage, UserMessage,
};
use protocol::model::ModelRef;
use tempfile::TempDir;

struct Stored {
    home: TempDir,
    store: Arc<JsonlSessionStore>,
}

impl Stored {
    async fn with(sessions: &[(&str, u32, Vec<SessionEvent>)]) -> Self {
        let home = tempfile::tempdir().unwrap();
        let store = Arc::new(JsonlSessionStore::new(home.path().join("sessions")));
        for (id, delegation_depth, events) in sessions {
            let header = SessionHeader {
                version: LOG_VERSION,
                id: SessionId::new(*id),
                created_at: 0,
                cwd: home.path().canonicalize().unwrap(),
                additional_directories: vec![],
                parent_session: None,
                delegation_depth: *delegation_depth,
            };
            let log = store.create(header).await.unwrap();
            for (seq, event) in (0..).zip(events) {
                log.append(&Record { seq, time: 0, ignorable: false, event: event.clone() }).unwrap();
            }
        }
        Self { home, store }
    }

    async fn answer(&self, command: Command) -> Result<String, String> {
        let root = self.home.path().canonicalize().unwrap();
        let hide = |text: String| {
            text.replace(&root.display().to_string(), "$DIR").replace(&transcript::time(0), "$TIME")
        };
        let index = SqliteIndex::new(self.home.path(), self.store.clone());
        answer(&command, &*self.store, &index).await.map(hide).map_err(hide)
    }
}

fn prompt(text: &str) -> SessionEvent {
    from(MessageSource::User, text)
}

fn from(source: MessageSource, text: &str) -> SessionEvent {
    let content = vec![ContentBlock::text(text)];
    SessionEvent::UserMessage { message: UserMessage { id: MessageId::new("m"), content, source } }
}

fn conversation() -> Vec<SessionEvent> {
    let lines: Vec<String> = (1..=12).map(|n| format!("line {n}")).collect();
    let model = ModelRef { provider: "p".to_owned(), model: "m".to_owned() };
    let blocks = vec![
        AssistantBlock::Reasoning { text: "let me see".to_owned(), replay: None },
        AssistantBlock::Text { text: "I look.\n".to_owned() },
    ];
    vec![
        SessionEvent::Title { title: "Look at a".to_owned(), source: TitleSource::Fallback },
        SessionEvent::TurnStart { turn: 1 },
        from(MessageSource::Plugin { plugin: "env".to_owned(), form: ContextForm::Snapshot }, "today"),
        prompt("look at \x1b[31ma"),
        SessionEvent::AssistantMessage {
            turn: 1,
            step: 1,
            message: AssistantMessage { id: MessageId::new("a"), blocks, model },
            usage: None,
            interrupted: false,
        },
        SessionEvent::ToolCall {
            turn: 1,
            step: 1,
            call_id: CallId::new("c"),
            name: "read".to_owned(),
            arguments: format!("{{\"file_path\": \"{}\"}}", "x".repeat(300)),
        },
        SessionEvent::ToolResult {
            turn: 1,
            step: 1,
            message: ToolResultMessage {
                call_id: CallId::new("c"),
                content: vec![ContentBlock::text(lines.join("\n"))],
                is_error: false,
            },
            error: None,
            meta: None,
        },
        SessionEvent::TurnEnd { turn: 1, reason: TurnEndReason::MaxTokens },
    ]
}

#[tokio::test]
async fn the_list_holds_what_a_person_said_something_in() {
    let sessions = [
        ("s1", 0, conversation()),
        ("s2", 0, vec![prompt("hi")]),
        ("empty", 0, vec![]),
        ("child", 1, vec![prompt("do")]),
    ];
    let stored = Stored::with(&sessions).await;
    let list = |all, cwd| stored.answer(Command::List { cwd, all });
    let short = "s1  $TIME  Look at a  $DIR\ns2  $TIME  (no title)  $DIR\n";
    assert_eq!(list(false, None).await.unwrap(), short);
    assert_eq!(list(false, Some(stored.home.path().to_owned())).await.unwrap(), short);
    assert_eq!(list(false, Some("/".into())).await.unwrap(), "No sessions.\n");
    assert_eq!(list(true, None).await.unwrap().lines().count(), 4);
    assert!(list(true, Some("/no such folder".into())).await.is_err());
}

#[tokio::test]
async fn a_session_is_shown_as_a_conversation_with_its_calls() {
    let stored = Stored::with(&[("s1", 0, conversation())]).await;
    let shown = stored.answer(Command::Show { id: "s".to_owned(), full: false }).await.unwrap();
    let arguments = format!("{{\"file_path\": \"{}…", "x".repeat(145));
    let lines: String = (1..=10).map(|n| format!("   line {n}\n")).collect();
    let expected = format!(
        "# Look at a\ns1  $TIME  $DIR\n\nYou:\nlook at ·[31ma\n\nFollowspot:\nI look.\n\n-> read {arguments}\n<- result\n\
         {lines}   … 2 more lines; see them with --full\n\n(the answer was cut at the output limit)\n"
    );
    assert_eq!(shown, expected);
    let full = stored.answer(Command::Show { id: "s1".to_owned(), full: true }).await.unwrap();
    for part in ["Thought:\nlet me see\n", "Context: env:\ntoday\n", "   line 12\n", &"x".repeat(300)] {
        assert!(full.contains(part), "{full}");
    }
}

#[tokio::test]
async fn a_search_prints_the_sessions_with_what_was_found_in_each() {
    let stored = Stored::with(&[("s1", 0, conversation()), ("s2", 0, vec![prompt("hi  there")])]).await;
    let search =
        |words: &str| stored.answer(Command::Search { words: words.split(' ').map(str::to_owned).collect() });
    assert_eq!(search("HI there").await.unwrap(), "s2  $TIME  (no title)  $DIR\n    hi there\n");
    assert_eq!(search("nowhere").await.unwrap(), "No session matches.\n");
    assert_eq!(search("* (").await, Err("there is no word to search for".to_owned()));
}

#[tokio::test]
async fn an_export_holds_every_record_and_replaces_no_file() {
    let stored = Stored::with(&[("s1", 0, conversation())]).await;
    let lines = stored.answer(Command::Export { id: "s1".to_owned(), output: None }).await.unwrap();
    let records: Vec<Record> =
        lines.lines().skip(1).map(|line| serde_json::from_str(line).unwrap()).collect();
    assert_eq!(records, stored.store.read(&SessionId::new("s1")).await.unwrap().records);

    let file = stored.home.path().canonicalize().unwrap().join("out.jsonl");
    let export = || stored.answer(Command::Export { id: "s1".to_owned(), output: Some(file.clone()) });
    assert_eq!(export().await.unwrap(), "8 records written to $DIR/out.jsonl\n");
    assert_eq!(std::fs::read_to_string(&file).unwrap().lines().count(), 9);
    assert!(export().await.is_err());
}

#[tokio::test]
async fn deleting_takes_a_whole_id() {
    let stored = Stored::with(&[("s1", 0, vec![]), ("s2", 0, vec![])]).await;
    let delete = |id: &str| stored.answer(Command::Delete { id: id.to_owned() });
    let missing = "there is no session s; see: followspot sessions list --all".to_owned();
    assert_eq!(delete("s").await, Err(missing));
    assert_eq!(delete("s1").await, Ok("Session s1 is deleted.\n".to_owned()));
    let left = stored.answer(Command::List { cwd: None, all: true }).await.unwrap();
    assert_eq!(left, "s2  $TIME  (no title)  $DIR\n");
}

#[tokio::test]
async fn the_beginning_of_an_id_must_fit_one_session() {
    let stored = Stored::with(&[("ab1", 0, vec![]), ("ab2", 0, vec![]), ("ab", 0, vec![])]).await;
    let cases = [
        ("ab", Ok("ab")),
        ("ab1", Ok("ab1")),
        ("a", Err("3 sessions begin with a; give more of the ID")),
        ("x", Err("there is no session x; see: followspot sessions list --all")),
        ("", Err("there is no session ; see: followspot sessions list --all")),
    ];
    for (start, expected) in cases {
        let found = find(&*stored.store, start).await;
        assert_eq!(found.as_ref().map(SessionId::as_str).map_err(String::as_str), expected);
    }
}
