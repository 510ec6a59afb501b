//! What was seen live is what a load tells again: random conversations, played through both roads of one view.
//!
//! Compared after leaving out what only the live road has: deltas are joined by message, states on the way to a call's
//! end are dropped, and of the mode and the title only the last counts. S01, S02, S03, S04.

use super::*;
use agent::state::SessionState;
use proptest::prelude::*;
use protocol::content::ImageAttachment;
use protocol::decision::PermissionOutcome;
use protocol::event::{AbortCause, TitleSource, TodoItem, TodoStatus};
use protocol::id::AttachmentId;
use protocol::message::{
    AssistantBlock, AssistantMessage, ContextForm, MessageSource, RequestedCall, ToolResultMessage,
    UserMessage,
};
use protocol::mode::Mode;
use protocol::model::{ModelChunk, ModelInfo, ModelRef, ModelRequest, Usage};
use protocol::tool::ToolFailure;
use serde_json::json;
use services::fake::{FakeAttachments, FakeBlobs};
use services::model::ModelError;
use std::collections::BTreeMap;
use tools::{ToolChoice, all_tools};

/// Something that happens in a session.
#[derive(Clone, Debug)]
enum Step {
    Event(SessionEvent),
    Live(LiveUpdate),
}

/// What happens in a turn, before identities are given.
#[derive(Clone, Debug)]
enum Act {
    /// The model says this in deltas (`true` is reasoning), then makes calls.
    Says {
        deltas: Vec<(bool, String)>,
        calls: Vec<Call>,
        interrupted: bool,
    },
    Notice(String),
    Title(String),
    Mode(Mode),
    Plan(bool),
    Todos(Vec<u8>),
    Retry,
    Context(String),
    Command {
        args: String,
        text: String,
    },
    Model(u8),
}

#[derive(Clone, Debug)]
struct Call {
    /// Which of [`CALLS`].
    kind: usize,
    result: Outcome,
    asked: bool,
    output: Vec<String>,
    /// Whether its body's end was shown before its result was logged, and whether a policy changed it after.
    settled: Option<bool>,
}

#[derive(Clone, Debug)]
enum Outcome {
    Text(String),
    Failed(String),
    Image,
}

/// A tool and its arguments, as a model writes them.
const CALLS: [(&str, &str); 9] = [
    ("read", r#"{"file_path":"src/a.rs","offset":3}"#),
    ("edit", r#"{"file_path":"/w/a.rs","old_string":"a","new_string":"b"}"#),
    ("write", r#"{"file_path":"b.txt","content":"hello\n"}"#),
    ("bash", r#"{"command":"make\nmake test","description":"Build"}"#),
    ("glob", r#"{"pattern":"**/*.rs"}"#),
    ("grep", r#"{"pattern":"fn `x`"}"#),
    ("todo_write", r#"{"todos":[{"content":"a","status":"pending"}]}"#),
    ("mcp__files__read_all", r#"{"n":1}"#),
    ("read", r#"{"file_path": "#),
];

struct OneModel;

#[async_trait]
impl Models for OneModel {
    fn default_model(&self) -> ModelRef {
        model(0)
    }

    fn list(&self) -> Vec<ModelInfo> {
        Vec::new()
    }

    fn info(&self, id: &ModelRef) -> ModelInfo {
        ModelInfo {
            id: id.clone(),
            display_name: id.to_string(),
            takes_images: Some(true),
            context_window: Some(1000),
            max_output_tokens: None,
            efforts: Vec::new(),
            default_effort: None,
            price: None,
        }
    }

    fn check(&self, _model: &ModelRef) -> Result<(), ModelError> {
        Ok(())
    }

    async fn stream(
        &self,
        _request: ModelRequest,
    ) -> Result<futures::stream::BoxStream<'static, Result<ModelChunk, ModelError>>, ModelError> {
        Ok(Box::pin(futures::stream::empty()))
    }
}

fn model(n: u8) -> ModelRef {
    ModelRef { provider: "p".to_owned(), model: format!("m{n}") }
}

fn text() -> impl Strategy<Value = String> {
    prop_oneof![
        Just("a".to_owned()),
        Just("é\n".to_owned()),
        Just("```x\n".to_owned()),
        Just("\u{1b}[1mbold\u{1b}[0m".to_owned()),
        "[a-z ]{1,12}",
    ]
}

fn call() -> impl Strategy<Value = Call> {
    let result = prop_oneof![4 => text().prop_map(Outcome::Text), 2 => text().prop_map(Outcome::Failed), 1 => Just(Outcome::Image)];
    let output = prop::collection::vec(text(), 0..4);
    (0..CALLS.len(), result, any::<bool>(), output, any::<Option<bool>>())
        .prop_map(|(kind, result, asked, output, settled)| Call { kind, result, asked, output, settled })
}

fn act() -> impl Strategy<Value = Act> {
    let deltas = prop::collection::vec((any::<bool>(), text()), 0..6);
    let says = (deltas, prop::collection::vec(call(), 0..4), prop::bool::weighted(0.2))
        .prop_map(|(deltas, calls, interrupted)| Act::Says { deltas, calls, interrupted });
    prop_oneof![
        6 => says,
        1 => text().prop_map(Act::Notice),
        1 => text().prop_map(Act::Title),
        1 => prop::sample::select(&Mode::ALL[1..]).prop_map(Act::Mode),
        1 => any::<bool>().prop_map(Act::Plan),
        1 => prop::collection::vec(0..3_u8, 0..3).prop_map(Act::Todos),
        1 => Just(Act::Retry),
        1 => text().prop_map(Act::Context),
        1 => (text(), prop_oneof![Just(String::new()), text()]).prop_map(|(args, text)| Act::Command { args, text }),
        1 => (0..3_u8).prop_map(Act::Model),
    ]
}

fn reason() -> impl Strategy<Value = TurnEndReason> {
    prop_oneof![
        Just(TurnEndReason::Completed),
        Just(TurnEndReason::Aborted { cause: AbortCause::User }),
        Just(TurnEndReason::Interrupted),
        Just(TurnEndReason::Error { message: "broken".to_owned(), code: "SERVER".to_owned() }),
    ]
}

/// Turns: what the user says, what happens, how it ends.
fn turns() -> impl Strategy<Value = Vec<(String, Vec<Act>, TurnEndReason)>> {
    prop::collection::vec((text(), prop::collection::vec(act(), 0..6), reason()), 0..5)
}

/// Gives everything its identity and its place.
#[derive(Default)]
struct Script {
    steps: Vec<Step>,
    n_ids: usize,
}

impl Script {
    fn of(turns: Vec<(String, Vec<Act>, TurnEndReason)>) -> Vec<Step> {
        let mut script = Self::default();
        for (turn, (prompt, acts, reason)) in (1..).zip(turns) {
            script.event(SessionEvent::TurnStart { turn });
            let source = MessageSource::User;
            script.message(vec![ContentBlock::text(prompt)], source);
            for act in acts {
                script.act(turn, act);
            }
            script.event(SessionEvent::TurnEnd { turn, reason });
        }
        script.steps
    }

    fn id(&mut self) -> String {
        self.n_ids += 1;
        format!("id{}", self.n_ids)
    }

    fn event(&mut self, event: SessionEvent) {
        self.steps.push(Step::Event(event));
    }

    fn message(&mut self, content: Vec<ContentBlock>, source: MessageSource) {
        let id = MessageId::new(self.id());
        self.event(SessionEvent::UserMessage { message: UserMessage { id, content, source } });
    }

    fn act(&mut self, turn: u64, act: Act) {
        match act {
            Act::Says { deltas, calls, interrupted } => self.says(turn, deltas, calls, interrupted),
            Act::Notice(text) => {
                let message_id = MessageId::new(self.id());
                self.event(SessionEvent::Notice { text, message_id });
            }
            Act::Title(title) => self.event(SessionEvent::Title { title, source: TitleSource::Provider }),
            Act::Mode(preset) => self.event(SessionEvent::PermissionPreset { preset }),
            Act::Plan(active) => self.event(SessionEvent::PlanMode { active }),
            Act::Todos(statuses) => {
                let status =
                    |n| [TodoStatus::Pending, TodoStatus::InProgress, TodoStatus::Completed][usize::from(n)];
                let todos = statuses
                    .into_iter()
                    .map(|n| TodoItem { content: format!("todo {n}"), status: status(n) })
                    .collect();
                self.event(SessionEvent::TodoWrite { todos });
            }
            Act::Retry => self.event(SessionEvent::LlmRetry {
                attempt: 1,
                delay_ms: 500,
                message: "busy".to_owned(),
                code: "SERVER".to_owned(),
            }),
            Act::Context(text) => self.message(
                vec![ContentBlock::text(text)],
                MessageSource::Plugin { plugin: "p".to_owned(), form: ContextForm::Notice },
            ),
            Act::Command { args, text } => {
                let command_id = self.id();
                let message_id = MessageId::new(self.id());
                self.event(SessionEvent::CommandRun {
                    command_id: command_id.clone(),
                    name: "plan".to_owned(),
                    args,
                });
                self.event(SessionEvent::CommandDone { command_id, ok: true, text, message_id });
            }
            Act::Model(n) => self.event(SessionEvent::RequestContext {
                model: model(n),
                effort: None,
                context_window: None,
            }),
        }
    }

    fn says(&mut self, turn: u64, deltas: Vec<(bool, String)>, calls: Vec<Call>, interrupted: bool) {
        let message_id = MessageId::new(self.id());
        let mut blocks: Vec<AssistantBlock> = Vec::new();
        for (reasoning, delta) in deltas {
            match (reasoning, blocks.last_mut()) {
                (true, Some(AssistantBlock::Reasoning { text, .. }))
                | (false, Some(AssistantBlock::Text { text })) => {
                    text.push_str(&delta);
                }
                (true, _) => blocks.push(AssistantBlock::Reasoning { text: delta.clone(), replay: None }),
                (false, _) => blocks.push(AssistantBlock::Text { text: delta.clone() }),
            }
            let message_id = message_id.clone();
            self.steps.push(Step::Live(match reasoning {
                true => LiveUpdate::Reasoning { message_id, delta },
                false => LiveUpdate::Text { message_id, delta },
            }));
        }
        let calls = if interrupted { Vec::new() } else { calls };
        let calls: Vec<(CallId, Call)> =
            calls.into_iter().map(|call| (CallId::new(self.id()), call)).collect();
        blocks.extend(calls.iter().map(|(id, call)| {
            AssistantBlock::ToolCall(RequestedCall {
                id: id.clone(),
                provider_id: id.to_string(),
                name: CALLS[call.kind].0.to_owned(),
                arguments: CALLS[call.kind].1.to_owned(),
            })
        }));
        let usage = Usage { input_tokens: 7, output_tokens: 1, ..Usage::default() };
        self.event(SessionEvent::AssistantMessage {
            turn,
            step: 1,
            message: AssistantMessage { id: message_id, blocks, model: model(0) },
            usage: Some(usage),
            interrupted,
        });
        // Bodies overlap: all are announced and run, then results are logged in order.
        for (call_id, call) in &calls {
            self.begin(turn, call_id, call);
        }
        for (call_id, call) in &calls {
            self.end(turn, call_id, call);
        }
    }

    fn begin(&mut self, turn: u64, call_id: &CallId, call: &Call) {
        let (name, arguments) = CALLS[call.kind];
        self.event(SessionEvent::ToolCall {
            turn,
            step: 1,
            call_id: call_id.clone(),
            name: name.to_owned(),
            arguments: arguments.to_owned(),
        });
        if call.asked {
            let id = self.id();
            self.event(SessionEvent::ApprovalAsked {
                id: id.clone(),
                tool_name: name.to_owned(),
                call_id: call_id.clone(),
                reason: None,
            });
            self.event(SessionEvent::ApprovalDecided { id, outcome: PermissionOutcome::AllowedOnce });
        }
        self.steps.push(Step::Live(LiveUpdate::CallStarted { call_id: call_id.clone() }));
        if name == "bash" {
            for delta in &call.output {
                let (call_id, delta) = (call_id.clone(), delta.clone());
                self.steps.push(Step::Live(LiveUpdate::TerminalOutput { call_id, delta }));
            }
        }
    }

    fn end(&mut self, turn: u64, call_id: &CallId, call: &Call) {
        let result = result(&call.result);
        if let Some(changed) = call.settled {
            let shown = match (changed, result.is_error) {
                (false, _) => result.clone(),
                (true, true) => self::result(&Outcome::Text("kept from the model".to_owned())),
                (true, false) => self::result(&Outcome::Failed("mended by a policy".to_owned())),
            };
            self.steps.push(Step::Live(LiveUpdate::CallSettled { call_id: call_id.clone(), result: shown }));
        }
        self.event(SessionEvent::ToolResult {
            turn,
            step: 1,
            message: ToolResultMessage {
                call_id: call_id.clone(),
                content: result.content,
                is_error: result.is_error,
            },
            error: result.error,
            meta: result.meta,
        });
    }
}

fn result(outcome: &Outcome) -> DurableResult {
    let (content, error) = match outcome {
        Outcome::Text(text) => (vec![ContentBlock::text(text)], None),
        Outcome::Failed(text) => {
            let failure = ToolFailure::coded("SomeError", "SOME", text.clone());
            (failure.default_content(), Some(failure))
        }
        Outcome::Image => (vec![ContentBlock::Image { attachment: image() }], None),
    };
    DurableResult { content, is_error: error.is_some(), error, meta: None }
}

fn image() -> ImageAttachment {
    ImageAttachment {
        attachment_id: AttachmentId::new("4eb01fc53f4d9bf6c5c7d4bcb2ee5a18a4c2a1e9cb7bb2b0e05d5dafd6cae9cf"),
        media_type: "image/png".to_owned(),
        bytes: 4,
        width: 1,
        height: 1,
        name: None,
        original_dimensions: None,
    }
}

fn view(terminals: TerminalStyle) -> Arc<SessionView> {
    view_with(terminals, Arc::new(FakeAttachments::default()))
}

fn view_with(terminals: TerminalStyle, attachments: Arc<FakeAttachments>) -> Arc<SessionView> {
    let tools: HashMap<String, Arc<dyn Tool>> = all_tools(&ToolChoice::default())
        .into_iter()
        .map(|tool| (tool.schema().name.clone(), tool))
        .collect();
    let parts = ViewParts {
        session_id: SessionId::new("s"),
        context: PresentContext {
            cwd: "/w".into(),
            roots: vec!["/w".into()],
            terminals,
            ..PresentContext::default()
        },
        display_terminals: terminals == TerminalStyle::Display,
        find_tool: Arc::new(move |name| tools.get(name).cloned()),
        blobs: Arc::new(FakeBlobs::default()),
        models: Arc::new(OneModel),
        attachments,
        initial: SessionState::new(Mode::Ask, false),
        outbox: Outbox::new(Arc::default()),
    };
    SessionView::new(parts, &[])
}

fn records(steps: &[Step]) -> Vec<Record> {
    let events = steps.iter().filter_map(|step| match step {
        Step::Event(event) => Some(event.clone()),
        Step::Live(_) => None,
    });
    let record =
        |(seq, event): (u64, SessionEvent)| Record { seq, time: 0, ignorable: event.ignorable(), event };
    (0..).zip(events).map(record).collect()
}

async fn live(view: &SessionView, steps: &[Step]) -> Vec<Value> {
    let mut seen = Vec::new();
    let mut records = records(steps).into_iter();
    for step in steps {
        seen.extend(match step {
            Step::Event(_) => view.present_event(&records.next().unwrap()).await,
            Step::Live(update) => view.present_live(update).await,
        });
    }
    updates(seen)
}

async fn replayed(view: &SessionView, records: &[Record]) -> Vec<Value> {
    view.begin_replay().await;
    let mut seen = Vec::new();
    for record in records {
        seen.extend(view.present_replayed(record).await);
    }
    seen.extend(view.end_replay().await);
    updates(seen)
}

fn updates(params: Vec<Value>) -> Vec<Value> {
    params.into_iter().map(|mut params| params["update"].take()).collect()
}

/// What of a conversation both roads must tell alike.
#[derive(Debug, PartialEq)]
pub(in crate::acp) struct Seen {
    pub conversation: Vec<Value>,
    mode: Value,
    title: Value,
    usage: Value,
}

pub(in crate::acp) fn seen(updates: Vec<Value>) -> Seen {
    let mut seen =
        Seen { conversation: Vec::new(), mode: json!("ask"), title: Value::Null, usage: Value::Null };
    let mut ends: BTreeMap<String, Value> = BTreeMap::new();
    for update in updates {
        let id = update["toolCallId"].as_str().unwrap_or_default().to_owned();
        match update["sessionUpdate"].as_str().unwrap() {
            "current_mode_update" => seen.mode = update["currentModeId"].clone(),
            "session_info_update" => seen.title = update["title"].clone(),
            "usage_update" => seen.usage = update["used"].clone(),
            // The answer to a load tells the options; the client shows its own prompts.
            "config_option_update" | "user_message_chunk" | "available_commands_update" => {}
            "tool_call_update"
                if ["completed", "failed"].contains(&update["status"].as_str().unwrap_or_default()) =>
            {
                ends.insert(id, update);
            }
            "tool_call_update" => {}
            "agent_message_chunk" | "agent_thought_chunk" => {
                // Live it is the answer to the prompt.
                if update["messageId"].as_str().unwrap().starts_with("end_") {
                    continue;
                }
                match seen.conversation.last_mut() {
                    Some(last)
                        if last["sessionUpdate"] == update["sessionUpdate"]
                            && last["messageId"] == update["messageId"] =>
                    {
                        let more = update["content"]["text"].as_str().unwrap();
                        let text = last["content"]["text"].as_str().unwrap().to_owned() + more;
                        last["content"]["text"] = json!(text);
                    }
                    _ => seen.conversation.push(update),
                }
            }
            _ => seen.conversation.push(update),
        }
    }
    for call in &mut seen.conversation {
        if call["sessionUpdate"] == "tool_call" {
            let end = ends.remove(call["toolCallId"].as_str().unwrap()).unwrap_or_default();
            *call = json!({ "announced": call, "ended": end });
        }
    }
    assert!(ends.is_empty(), "ended without an announcement: {ends:?}");
    seen
}

fn block_on<T>(future: impl Future<Output = T>) -> T {
    tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap().block_on(future)
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 300, ..ProptestConfig::default() })]

    #[test]
    fn a_load_tells_what_was_seen(turns in turns()) {
        let steps = Script::of(turns);
        let (live, told, again) = block_on(async {
            let live = live(&view(TerminalStyle::Text), &steps).await;
            let other = view(TerminalStyle::Text);
            let told = replayed(&other, &records(&steps)).await;
            let again = replayed(&other, &records(&steps)).await;
            (live, told, again)
        });
        // S05: the second load is the first.
        prop_assert_eq!(&told, &again);
        prop_assert_eq!(seen(live), seen(told));
    }

    /// A session that is loaded while it is open goes on where it was.
    #[test]
    fn a_load_in_the_middle_and_the_rest_is_the_whole(turns in turns(), at in any::<prop::sample::Index>()) {
        let steps = Script::of(turns);
        let at = at.index(steps.len() + 1);
        let (before, after) = steps.split_at(at);
        let (whole, loaded) = block_on(async {
            let whole = live(&view(TerminalStyle::Text), &steps).await;
            let view = view(TerminalStyle::Text);
            live(&view, before).await;
            let mut loaded = replayed(&view, &records(before)).await;
            let n_before = records(before).len();
            let mut rest = records(&steps).into_iter().skip(n_before);
            for step in after {
                loaded.extend(updates(match step {
                    Step::Event(_) => view.present_event(&rest.next().unwrap()).await,
                    Step::Live(update) => view.present_live(update).await,
                }));
            }
            (whole, loaded)
        });
        prop_assert_eq!(seen(whole), seen(loaded));
    }
}

fn one_call(kind: usize, outcome: Outcome) -> Vec<Step> {
    let call = Call { kind, result: outcome, asked: false, output: vec!["out\n".to_owned()], settled: None };
    let says = Act::Says { deltas: Vec::new(), calls: vec![call], interrupted: false };
    Script::of(vec![("go".to_owned(), vec![says], TurnEndReason::Completed)])
}

// A client that runs terminals itself has none of this one any more; its text is shown instead.
#[test]
fn a_command_is_told_again_as_text_or_in_a_displayed_terminal() {
    let bash = CALLS.iter().position(|(name, _)| *name == "bash").unwrap();
    let steps = one_call(bash, Outcome::Text("out\n".to_owned()));
    let end = |terminals| {
        let told = block_on(async { replayed(&view(terminals), &records(&steps)).await });
        told.into_iter().find(|update| update["sessionUpdate"] == "tool_call_update").unwrap()
    };
    for terminals in [TerminalStyle::Client, TerminalStyle::Text] {
        assert_eq!(end(terminals)["content"][0]["content"]["text"], "```console\nout\n```");
    }
    let shown = end(TerminalStyle::Display);
    assert_eq!(shown["content"], Value::Null);
    assert_eq!(shown["_meta"]["terminal_output"]["data"], "out\r\n");
}

// Live and on load, since what the model saw is what the user should see.
#[test]
fn images_of_prompts_and_results_are_shown() {
    let attachments = Arc::new(FakeAttachments::default());
    let attachment =
        block_on(services::attachments::Attachments::save(&*attachments, vec![0x89, b'P', b'N', b'G'], None))
            .unwrap();
    let content = vec![ContentBlock::text("look"), ContentBlock::Image { attachment }];
    let mut script = Script::default();
    script.message(content.clone(), MessageSource::User);
    let call_id = CallId::new("c");
    let call = Call { kind: 7, result: Outcome::Image, asked: false, output: Vec::new(), settled: None };
    script.begin(1, &call_id, &call);
    let message = ToolResultMessage { call_id, content, is_error: false };
    script.event(SessionEvent::ToolResult { turn: 1, step: 1, message, error: None, meta: None });
    let view = || view_with(TerminalStyle::Text, attachments.clone());
    let image = json!({ "type": "image", "data": "iVBORw==", "mimeType": "image/png" });
    let (live, told) = block_on(async {
        (live(&view(), &script.steps).await, replayed(&view(), &records(&script.steps)).await)
    });
    assert_eq!(told.iter().filter(|update| update["content"] == image).count(), 1);
    for updates in [live, told] {
        let shown = |update: &Value| {
            update["content"]
                .as_array()
                .is_some_and(|items| items.iter().any(|item| item["content"] == image))
        };
        assert!(updates.iter().any(shown), "{updates:?}");
    }
}

// S02: internal messages stay hidden; what a turn failed of was the answer to its prompt.
#[test]
fn a_failed_turn_says_so_and_notes_for_the_model_are_not_shown() {
    let reason = TurnEndReason::Error { message: "no credit".to_owned(), code: "AUTH".to_owned() };
    let steps = Script::of(vec![("go".to_owned(), vec![Act::Context("secret note".to_owned())], reason)]);
    let told = block_on(async { replayed(&view(TerminalStyle::Text), &records(&steps)).await });
    let texts: Vec<&str> = told.iter().filter_map(|update| update["content"]["text"].as_str()).collect();
    assert_eq!(texts, ["go", "The turn failed: no credit"]);
}

// A command that passes a prompt on is told by that prompt alone.
#[test]
fn a_command_is_told_again_once() {
    let command = |args: &str, text: &str| Act::Command { args: args.to_owned(), text: text.to_owned() };
    let mut script = Script::default();
    script.act(1, command(" off", "Plan mode is off."));
    script.act(1, command(" fix it", ""));
    script.message(vec![ContentBlock::text("fix it")], MessageSource::User);
    let told = block_on(async { replayed(&view(TerminalStyle::Text), &records(&script.steps)).await });
    let texts: Vec<&str> = told.iter().filter_map(|update| update["content"]["text"].as_str()).collect();
    assert_eq!(texts, ["/plan off", "Plan mode is off.", "fix it"]);
}
