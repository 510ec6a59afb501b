//! This client against a scripted agent, in one process.

use super::conversation::{Left, Print, Screen};
use super::input::{Input, Interrupt};
use super::*;
use agent_client_protocol::v1::schema::{
    CancelNotification, ContentChunk, CreateElicitationRequest, CreateTerminalRequest, ElicitationFormMode,
    ElicitationSchema, ElicitationSessionScope, Implementation, InitializeRequest, InitializeResponse,
    NewSessionRequest, NewSessionResponse, PermissionOption, PermissionOptionKind, PromptRequest,
    PromptResponse, ReadTextFileRequest, ReleaseTerminalRequest, RequestPermissionRequest,
    SessionConfigOption, SessionConfigSelectOption, SessionNotification, SessionUpdate,
    SetSessionConfigOptionRequest, SetSessionConfigOptionResponse, StopReason, StringPropertySchema,
    Terminal, TerminalOutputRequest, ToolCall, ToolCallContent, ToolCallStatus, ToolCallUpdate,
    ToolCallUpdateFields, ToolKind, WaitForTerminalExitRequest, WriteTextFileRequest,
};
use agent_client_protocol::{on_receive_notification, on_receive_request};
use futures::future::BoxFuture;
use serde_json::json;
use std::sync::Mutex;
use tokio::sync::Notify;

const SESSION: &str = "s1";

/// What the scripted agent does in its turn.
type Turn = fn(Arc<Stage>) -> BoxFuture<'static, StopReason>;

/// What a turn works with.
struct Stage {
    connection: ConnectionTo<Client>,
    cancelled: Arc<Notify>,
    cwd: PathBuf,
    /// Presses Ctrl-C.
    interrupt: mpsc::Sender<Interrupt>,
}

/// The arguments of a run, and what a person types.
#[derive(Default)]
struct Run {
    args: TryArgs,
    lines: &'static [&'static str],
    interactive: bool,
}

async fn run_with(turn: Turn, run: Run) -> (Result<Left, Error>, String, tempfile::TempDir) {
    let folder = tempfile::tempdir().unwrap();
    let cwd = folder.path().canonicalize().unwrap();
    let cancelled = Arc::<Notify>::default();
    let (notified, place) = (cancelled.clone(), cwd.clone());
    let (interrupt, interrupts) = mpsc::channel(4);
    let agent = Agent
        .v1()
        .on_receive_request(
            async move |request: InitializeRequest, responder, _| {
                let agent = Implementation::new("scripted", "1");
                responder.respond(InitializeResponse::new(request.protocol_version).agent_info(agent))
            },
            on_receive_request!(),
        )
        .on_receive_request(
            async move |_: NewSessionRequest, responder, _| {
                responder.respond(NewSessionResponse::new(SESSION).config_options(vec![modes("ask")]))
            },
            on_receive_request!(),
        )
        .on_receive_request(
            async move |request: SetSessionConfigOptionRequest, responder, _| {
                assert_eq!(&*request.config_id.0, "mode");
                responder.respond(SetSessionConfigOptionResponse::new(vec![modes("plan")]))
            },
            on_receive_request!(),
        )
        .on_receive_notification(
            async move |_: CancelNotification, _| {
                notified.notify_one();
                Ok(())
            },
            on_receive_notification!(),
        )
        .on_receive_request(
            async move |_: PromptRequest, responder, connection| {
                let (cancelled, cwd, interrupt) = (cancelled.clone(), place.clone(), interrupt.clone());
                let stage = Stage { connection, cancelled, cwd, interrupt };
                tokio::spawn(async move {
                    let reason = turn(Arc::new(stage)).await;
                    responder.respond(PromptResponse::new(reason)).unwrap();
                });
                Ok(())
            },
            on_receive_request!(),
        );
    let input = Input::scripted(run.lines, interrupts);
    let shown = Arc::<Mutex<String>>::default();
    let print = || -> Print {
        let shown = shown.clone();
        Box::new(move |text| {
            shown.lock().unwrap().push_str(text);
            Ok(())
        })
    };
    let screen = Screen { transcript: Some(print()), questions: print() };
    let prompt = (!run.interactive).then(|| "go".to_owned());
    let plan = Plan { prompt, cwd: cwd.clone(), args: run.args, colours: false };
    let left = tokio::time::timeout(Duration::from_secs(20), talk(agent, plan, input, screen)).await.unwrap();
    let shown = shown.lock().unwrap().replace(&*cwd.to_string_lossy(), "$CWD");
    (left, shown, folder)
}

fn modes(current: &'static str) -> SessionConfigOption {
    let options: Vec<_> = ["ask", "plan"].map(|mode| SessionConfigSelectOption::new(mode, mode)).into();
    SessionConfigOption::select("mode", "Mode", current, options).category(SessionConfigOptionCategory::Mode)
}

fn update(connection: &ConnectionTo<Client>, update: SessionUpdate) {
    connection.send_notification(SessionNotification::new(SESSION, update)).unwrap();
}

fn says(connection: &ConnectionTo<Client>, words: &str) {
    update(connection, SessionUpdate::AgentMessageChunk(ContentChunk::new(words.into())));
}

fn call_update(connection: &ConnectionTo<Client>, fields: ToolCallUpdateFields) {
    update(connection, SessionUpdate::ToolCallUpdate(ToolCallUpdate::new("c1", fields)));
}

fn question() -> RequestPermissionRequest {
    let fields = ToolCallUpdateFields::new()
        .title("rm x")
        .kind(ToolKind::Execute)
        .raw_input(json!({"command": "rm x"}));
    let options = vec![
        PermissionOption::new("once", "Allow once", PermissionOptionKind::AllowOnce),
        PermissionOption::new("always", "Always allow rm", PermissionOptionKind::AllowAlways),
        PermissionOption::new("no", "Reject", PermissionOptionKind::RejectOnce),
    ];
    RequestPermissionRequest::new(SESSION, ToolCallUpdate::new("c1", fields), options)
}

/// Asks, says what was answered, and ends as an agent should.
fn asks(stage: Arc<Stage>) -> BoxFuture<'static, StopReason> {
    Box::pin(async move {
        let connection = &stage.connection;
        let answer = connection.send_request(question()).block_task().await.unwrap();
        let answer = serde_json::to_value(answer.outcome).unwrap();
        says(connection, &format!("Answer: {answer}"));
        if answer["outcome"] == "cancelled" { StopReason::Cancelled } else { StopReason::EndTurn }
    })
}

/// The transcript from the turn on, without the time.
fn body(shown: &str) -> String {
    let body = shown.split_once("session s1\n\n").map_or(shown, |(_, body)| body);
    let end = body.rfind(" · ").unwrap_or(body.len());
    body[..end].to_owned()
}

const ASKED: &str = "\
? rm x
  $ rm x
  [y] Allow once
  [a] Always allow rm
  [n] Reject
  [c] Stop the turn
";

#[tokio::test]
async fn the_header_comes_first_and_the_mode_is_set() {
    let args = TryArgs { mode: Some("plan".to_owned()), yes: true, ..TryArgs::default() };
    let (left, shown, _folder) = run_with(asks, Run { args, ..Run::default() }).await;
    assert_eq!(left.unwrap(), Left::Done(true));
    assert!(shown.starts_with("scripted 1 · plan\n$CWD · session s1\n\n"), "{shown}");
}

#[tokio::test]
async fn questions_are_answered_by_keys() {
    let chosen = |id: &str| format!("{{\"outcome\":\"selected\",\"optionId\":\"{id}\"}}\n\n— done");
    for (lines, expected) in [
        (&["y"][..], format!("{ASKED}> y\n\nAnswer: {}", chosen("once"))),
        (&["what", "a"], format!("{ASKED}> what\nType y, a, n or c.\n> a\n\nAnswer: {}", chosen("always"))),
        (&["c"], format!("{ASKED}> c\n\nAnswer: {{\"outcome\":\"cancelled\"}}\n\n— cancelled")),
    ] {
        let (_, shown, _folder) = run_with(asks, Run { lines, ..Run::default() }).await;
        assert_eq!(body(&shown), expected);
    }
}

#[tokio::test]
async fn yes_allows_once_and_says_so() {
    let args = TryArgs { yes: true, ..TryArgs::default() };
    let (_, shown, _folder) = run_with(asks, Run { args, ..Run::default() }).await;
    assert!(
        body(&shown).starts_with(
            "Allowed by --yes: rm x\n\nAnswer: {\"outcome\":\"selected\",\"optionId\":\"once\"}"
        )
    );
}

#[tokio::test]
async fn files_and_terminals_are_served() {
    fn turn(stage: Arc<Stage>) -> BoxFuture<'static, StopReason> {
        Box::pin(async move {
            let connection = &stage.connection;
            let path = stage.cwd.join("a.txt");
            let write = WriteTextFileRequest::new(SESSION, &path, "one\ntwo\n");
            connection.send_request(write).block_task().await.unwrap();
            let read = ReadTextFileRequest::new(SESSION, &path).line(2);
            let read = connection.send_request(read).block_task().await.unwrap();
            says(connection, &read.content);
            update(
                connection,
                SessionUpdate::ToolCall(ToolCall::new("c1", "cat a.txt").kind(ToolKind::Execute)),
            );
            let create = CreateTerminalRequest::new(SESSION, "cat").args(vec!["a.txt".to_owned()]);
            let id = connection.send_request(create).block_task().await.unwrap().terminal_id;
            let shown = vec![ToolCallContent::Terminal(Terminal::new(id.clone()))];
            call_update(connection, ToolCallUpdateFields::new().content(shown));
            let wait = WaitForTerminalExitRequest::new(SESSION, id.clone());
            let exit = connection.send_request(wait).block_task().await.unwrap();
            assert_eq!(exit.exit_status.exit_code, Some(0));
            let output = TerminalOutputRequest::new(SESSION, id.clone());
            let output = connection.send_request(output).block_task().await.unwrap();
            assert_eq!(output.output, "one\ntwo\n");
            connection.send_request(ReleaseTerminalRequest::new(SESSION, id)).block_task().await.unwrap();
            call_update(connection, ToolCallUpdateFields::new().status(ToolCallStatus::Completed));
            StopReason::EndTurn
        })
    }
    let (left, shown, folder) = run_with(turn, Run::default()).await;
    assert_eq!(left.unwrap(), Left::Done(true));
    let expected = "two\n\n● cat a.txt\n  │ one\n  │ two\n  exit 0 · 0.";
    assert!(body(&shown).starts_with(expected), "{shown}");
    assert_eq!(std::fs::read_to_string(folder.path().join("a.txt")).unwrap(), "one\ntwo\n");
}

#[tokio::test]
async fn a_form_is_asked_field_by_field() {
    fn turn(stage: Arc<Stage>) -> BoxFuture<'static, StopReason> {
        Box::pin(async move {
            let connection = &stage.connection;
            let choice = StringPropertySchema::new().enum_values(vec!["pnpm".to_owned(), "npm".to_owned()]);
            let schema = ElicitationSchema::new().property("pkg", choice.title("Packages"), false).property(
                "pkg_other",
                StringPropertySchema::new().title("Other"),
                false,
            );
            let form = ElicitationFormMode::new(ElicitationSessionScope::new(SESSION), schema);
            let request = CreateElicitationRequest::new(form, "Which package manager?");
            let answer = connection.send_request(request).block_task().await.unwrap();
            says(connection, &serde_json::to_string(&answer).unwrap());
            StopReason::EndTurn
        })
    }
    let (_, shown, _folder) = run_with(turn, Run { lines: &["7", "2"], ..Run::default() }).await;
    let expected = "\
? Which package manager?
  Packages  (its number; Enter to skip)
  [1] pnpm
  [2] npm
> 7
A number from 1 to 2, please.
> 2

{\"action\":\"accept\",\"content\":{\"pkg\":\"npm\"}}

— done";
    assert_eq!(body(&shown), expected);
}

/// Works until it is cancelled; the person presses Ctrl-C when it begins.
fn endless(stage: Arc<Stage>) -> BoxFuture<'static, StopReason> {
    Box::pin(async move {
        says(&stage.connection, "Working");
        stage.interrupt.send(Interrupt::Stop).await.unwrap();
        stage.cancelled.notified().await;
        StopReason::Cancelled
    })
}

#[tokio::test]
async fn an_interrupt_cancels_the_turn_and_the_next_prompt_is_taken() {
    let run = Run { interactive: true, lines: &["one", "", "two"], ..Run::default() };
    let (left, shown, _folder) = run_with(endless, run).await;
    assert_eq!(left.unwrap(), Left::Done(true));
    assert_eq!(shown.matches("Stopping …").count(), 2, "{shown}");
    assert_eq!(shown.matches("— cancelled").count(), 2, "{shown}");
}

#[tokio::test]
async fn a_cancelled_turn_is_a_failure_of_one_prompt() {
    let (left, _, _folder) = run_with(endless, Run::default()).await;
    assert_eq!(left.unwrap(), Left::Done(false));
}

#[tokio::test]
async fn a_second_interrupt_leaves_a_turn_that_does_not_end() {
    fn deaf(stage: Arc<Stage>) -> BoxFuture<'static, StopReason> {
        Box::pin(async move {
            stage.interrupt.send(Interrupt::Stop).await.unwrap();
            stage.cancelled.notified().await;
            stage.interrupt.send(Interrupt::Stop).await.unwrap();
            std::future::pending().await
        })
    }
    let (left, _, _folder) = run_with(deaf, Run::default()).await;
    assert_eq!(left.unwrap(), Left::ByPerson);
}

#[tokio::test]
async fn a_question_in_a_cancelled_turn_is_answered_at_once() {
    fn turn(stage: Arc<Stage>) -> BoxFuture<'static, StopReason> {
        Box::pin(async move {
            stage.interrupt.send(Interrupt::Stop).await.unwrap();
            stage.cancelled.notified().await;
            asks(stage).await
        })
    }
    let (left, shown, _folder) = run_with(turn, Run::default()).await;
    assert_eq!(left.unwrap(), Left::Done(false));
    assert!(shown.contains("Answer: {\"outcome\":\"cancelled\"}"), "{shown}");
    assert!(!shown.contains("? rm x"), "{shown}");
}
