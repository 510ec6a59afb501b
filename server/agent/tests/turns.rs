//! A session with a scripted model and a log in memory: what ends in the log, whatever happens.

#![allow(clippy::unwrap_used, clippy::expect_used, reason = "a test fails where it stands")]

use agent::core::Observer;
use agent::session::{PromptEnd, Session, SessionParts};
use async_trait::async_trait;
use futures::FutureExt;
use futures::stream::{self, BoxStream, StreamExt};
use pipeline::registry::Registry;
use pipeline::run::Pipeline;
use protocol::content::ContentBlock;
use protocol::event::{AbortCause, LOG_VERSION, Record, SessionEvent, SessionHeader, TurnEndReason};
use protocol::id::SessionId;
use protocol::live::LiveUpdate;
use protocol::mode::Mode;
use protocol::model::{FinishReason, HistoryMessage, ModelChunk, ModelInfo, ModelRef, ModelRequest};
use services::fake::World;
use services::model::{ModelError, ModelErrorKind, Models};
use services::session_store::{Blobs, SessionLog, StoreError};
use std::collections::VecDeque;
use std::path::PathBuf;
use std::sync::{Arc, Mutex};
use tokio_util::sync::CancellationToken;

/// One piece of a scripted answer.
#[derive(Clone)]
enum Piece {
    Chunk(ModelChunk),
    Fails(ModelErrorKind),
    /// Says nothing more, for ever.
    Hangs,
    Panics,
}

fn says(text: &str) -> Vec<Piece> {
    vec![
        Piece::Chunk(ModelChunk::Text(text.to_owned())),
        Piece::Chunk(ModelChunk::Finish(FinishReason::Stop)),
    ]
}

fn calls(name: &str) -> Vec<Piece> {
    let call = ModelChunk::ToolCall { index: 0, id: "p1".into(), name: name.into(), arguments: "{}".into() };
    vec![Piece::Chunk(call), Piece::Chunk(ModelChunk::Finish(FinishReason::ToolCalls))]
}

#[derive(Default)]
struct ScriptedModels {
    answers: Mutex<VecDeque<Vec<Piece>>>,
    requests: Mutex<Vec<ModelRequest>>,
}

#[async_trait]
impl Models for ScriptedModels {
    fn list(&self) -> Vec<ModelInfo> {
        vec![self.info(&self.default_model())]
    }

    fn info(&self, model: &ModelRef) -> ModelInfo {
        ModelInfo {
            id: model.clone(),
            display_name: model.model.clone(),
            takes_images: None,
            context_window: None,
            max_output_tokens: None,
            efforts: Vec::new(),
            default_effort: None,
            price: None,
        }
    }

    fn default_model(&self) -> ModelRef {
        ModelRef { provider: "fake".into(), model: "scripted".into() }
    }

    fn check(&self, _model: &ModelRef) -> Result<(), ModelError> {
        Ok(())
    }

    async fn stream(
        &self,
        request: ModelRequest,
    ) -> Result<BoxStream<'static, Result<ModelChunk, ModelError>>, ModelError> {
        self.requests.lock().unwrap().push(request);
        let pieces = self.answers.lock().unwrap().pop_front().expect("one more request than was scripted");
        let chunks = stream::iter(pieces).then(|piece| async move {
            match piece {
                Piece::Chunk(chunk) => Ok(chunk),
                Piece::Fails(kind) => {
                    Err(ModelError { kind, message: "it failed".into(), status: None, retry_after: None })
                }
                Piece::Hangs => std::future::pending().await,
                Piece::Panics => panic!("the model's adapter broke"),
            }
        });
        Ok(chunks.boxed())
    }
}

#[derive(Default)]
struct MemoryLog {
    events: Mutex<Vec<SessionEvent>>,
    broken: Mutex<bool>,
}

#[async_trait]
impl SessionLog for MemoryLog {
    fn append(&self, record: &Record) -> Result<(), StoreError> {
        if *self.broken.lock().unwrap() {
            return Err(std::io::Error::other("disk full").into());
        }
        let mut events = self.events.lock().unwrap();
        assert_eq!(record.seq as usize, events.len(), "records are contiguous");
        events.push(record.event.clone());
        Ok(())
    }

    async fn flush(&self) -> Result<(), StoreError> {
        Ok(())
    }

    fn blobs(&self) -> Arc<dyn Blobs> {
        Arc::new(services::fake::FakeBlobs::default())
    }

    fn path(&self) -> PathBuf {
        PathBuf::from("/log")
    }
}

struct Silent;

#[async_trait]
impl Observer for Silent {
    fn event(&self, _record: &Record) {}
    fn live(&self, _update: LiveUpdate) {}
    async fn ready(&self) {}
}

struct Fixture {
    session: Arc<Session>,
    models: Arc<ScriptedModels>,
    log: Arc<MemoryLog>,
}

impl Fixture {
    fn new(answers: Vec<Vec<Piece>>) -> Self {
        let world = World::new();
        world.clock.set_instant(true);
        let models = Arc::new(ScriptedModels { answers: Mutex::new(answers.into()), ..Default::default() });
        let log = Arc::<MemoryLog>::default();
        let session = Session::open(SessionParts {
            scope: None,
            tool_source: None,
            hooks: None,
            header: SessionHeader {
                version: LOG_VERSION,
                id: SessionId::new("s"),
                created_at: 0,
                cwd: "/project".into(),
                additional_directories: Vec::new(),
                parent_session: None,
                delegation_depth: 0,
            },
            log: log.clone(),
            records: Vec::new(),
            services: world.services(),
            models: models.clone(),
            pipeline: Arc::new(Pipeline::new(Registry::new())),
            observer: Arc::new(Silent),
            default_mode: Mode::WorkspaceWrite,
            network: true,
            instructions_file: None,
            max_turn_requests: None,
            model_titles: false,
            commands: Vec::new(),
            parent: None,
        });
        Self { session, models, log }
    }

    fn prompt(&self, text: &str) -> impl Future<Output = PromptEnd> + Send + 'static {
        let content = vec![ContentBlock::text(text)];
        self.session.prompt(async { Ok(content) }.boxed(), CancellationToken::new())
    }

    /// The log in short, without bookkeeping.
    fn told(&self) -> Vec<String> {
        let text = |blocks: &[protocol::message::AssistantBlock]| {
            let texts = blocks.iter().filter_map(|block| match block {
                protocol::message::AssistantBlock::Text { text } => Some(text.clone()),
                protocol::message::AssistantBlock::ToolCall(call) => Some(format!("[{}]", call.name)),
                protocol::message::AssistantBlock::Reasoning { .. } => None,
            });
            texts.collect::<String>()
        };
        let events = self.log.events.lock().unwrap();
        events
            .iter()
            .filter_map(|event| match event {
                SessionEvent::UserMessage { message } => match &message.source {
                    protocol::message::MessageSource::User => {
                        Some(format!("> {}", message.content[0].as_text().unwrap_or("?")))
                    }
                    protocol::message::MessageSource::Plugin { plugin, .. }
                        if plugin != "runtime-context" =>
                    {
                        Some(format!("+ {plugin}"))
                    }
                    _ => None,
                },
                SessionEvent::AssistantMessage { message, interrupted, .. } => {
                    Some(format!("< {}{}", text(&message.blocks), if *interrupted { " (cut)" } else { "" }))
                }
                SessionEvent::ToolResult { error, .. } => Some(format!(
                    "= {}",
                    error.as_ref().and_then(|error| error.code().map(str::to_owned)).unwrap_or("ok".into())
                )),
                SessionEvent::LlmRetry { attempt, code, .. } => Some(format!("retry {attempt} {code}")),
                SessionEvent::TurnEnd { reason, .. } => Some(format!("end {reason:?}")),
                _ => None,
            })
            .collect()
    }
}

const ABORTED: PromptEnd = PromptEnd::Turn(TurnEndReason::Aborted { cause: AbortCause::User });

#[tokio::test]
async fn a_failure_before_anything_is_visible_is_retried_silently() {
    let fixture = Fixture::new(vec![
        vec![Piece::Fails(ModelErrorKind::RateLimit)],
        vec![Piece::Chunk(ModelChunk::Finish(FinishReason::Stop))],
        says("hello"),
    ]);
    assert_eq!(fixture.prompt("hi").await, PromptEnd::Turn(TurnEndReason::Completed));
    assert_eq!(
        fixture.told(),
        ["> hi", "retry 1 RATE_LIMIT", "retry 2 EMPTY_RESPONSE", "< hello", "end Completed"]
    );
}

#[tokio::test]
async fn a_failure_after_something_was_visible_keeps_it_and_goes_on() {
    let mut cut = says("the first half");
    cut[1] = Piece::Fails(ModelErrorKind::Transport);
    let fixture = Fixture::new(vec![cut, says(", the second")]);
    assert_eq!(fixture.prompt("hi").await, PromptEnd::Turn(TurnEndReason::Completed));
    assert_eq!(
        fixture.told(),
        [
            "> hi",
            "< the first half (cut)",
            "retry 1 TRANSPORT",
            "+ stream-recovery",
            "< , the second",
            "end Completed"
        ]
    );
}

#[tokio::test]
async fn retries_end_and_the_error_is_the_turns_end() {
    let fails = vec![Piece::Fails(ModelErrorKind::Server)];
    let fixture = Fixture::new(vec![fails; 6]);
    let end = fixture.prompt("hi").await;
    assert!(
        matches!(&end, PromptEnd::Turn(TurnEndReason::Error { code, message }) if code == "SERVER" && message == "it failed"),
        "{end:?}"
    );
}

#[tokio::test]
async fn what_cannot_be_retried_ends_the_turn_at_once_and_the_next_prompt_works() {
    let fixture = Fixture::new(vec![vec![Piece::Fails(ModelErrorKind::ContextWindowExceeded)], says("fine")]);
    assert!(matches!(fixture.prompt("hi").await, PromptEnd::Turn(TurnEndReason::Error { .. })));
    assert_eq!(fixture.prompt("again").await, PromptEnd::Turn(TurnEndReason::Completed));
}

#[tokio::test]
async fn a_cancel_during_the_stream_keeps_what_was_said_and_ends_the_queue() {
    let hangs = vec![Piece::Chunk(ModelChunk::Text("let me".into())), Piece::Hangs];
    let fixture = Fixture::new(vec![hangs, says("after")]);
    let running = tokio::spawn(fixture.prompt("one"));
    let waiting = tokio::spawn(fixture.prompt("two"));
    while fixture.models.requests.lock().unwrap().is_empty() {
        tokio::task::yield_now().await;
    }
    fixture.session.cancel();
    assert_eq!(running.await.unwrap(), ABORTED);
    assert_eq!(waiting.await.unwrap(), PromptEnd::CancelledInQueue);
    assert_eq!(fixture.prompt("three").await, PromptEnd::Turn(TurnEndReason::Completed));
    let told = fixture.told();
    assert_eq!(told[0], "> one");
    assert_eq!(told[told.len() - 3..], ["> three", "< after", "end Completed"]);
}

#[tokio::test]
async fn a_withdrawn_prompt_ends_alone() {
    let fixture = Fixture::new(vec![vec![Piece::Hangs], says("second")]);
    let withdrawn = CancellationToken::new();
    let content = async { Ok(vec![ContentBlock::text("one")]) }.boxed();
    let first = tokio::spawn(fixture.session.prompt(content, withdrawn.clone()));
    let second = tokio::spawn(fixture.prompt("two"));
    while fixture.models.requests.lock().unwrap().is_empty() {
        tokio::task::yield_now().await;
    }
    withdrawn.cancel();
    assert_eq!(first.await.unwrap(), ABORTED);
    assert_eq!(second.await.unwrap(), PromptEnd::Turn(TurnEndReason::Completed));
}

#[tokio::test]
async fn a_cancel_without_a_turn_does_not_hurt_the_next_one() {
    let fixture = Fixture::new(vec![says("hello")]);
    fixture.session.cancel();
    assert_eq!(fixture.prompt("hi").await, PromptEnd::Turn(TurnEndReason::Completed));
}

#[tokio::test]
async fn a_panic_ends_its_turn_only_and_is_told() {
    let fixture = Fixture::new(vec![vec![Piece::Panics], says("fine")]);
    let end = fixture.prompt("hi").await;
    assert!(
        matches!(&end, PromptEnd::Turn(TurnEndReason::Error { code, .. }) if code == "INTERNAL"),
        "{end:?}"
    );
    assert_eq!(fixture.prompt("again").await, PromptEnd::Turn(TurnEndReason::Completed));
}

#[tokio::test]
async fn calls_of_an_answer_that_hit_the_output_cap_are_dropped() {
    let mut answer = calls("read");
    answer[1] = Piece::Chunk(ModelChunk::Finish(FinishReason::MaxTokens));
    answer.insert(0, Piece::Chunk(ModelChunk::Text("so".into())));
    let fixture = Fixture::new(vec![answer]);
    assert_eq!(fixture.prompt("hi").await, PromptEnd::Turn(TurnEndReason::MaxTokens));
    assert_eq!(fixture.told(), ["> hi", "< so", "end MaxTokens"]);
}

#[tokio::test]
async fn an_unknown_tool_is_answered_and_the_model_goes_on() {
    let fixture = Fixture::new(vec![calls("nope"), says("sorry")]);
    assert_eq!(fixture.prompt("hi").await, PromptEnd::Turn(TurnEndReason::Completed));
    assert_eq!(fixture.told(), ["> hi", "< [nope]", "= UNKNOWN_TOOL", "< sorry", "end Completed"]);
    let requests = fixture.models.requests.lock().unwrap();
    let last = requests[1].messages.last().unwrap();
    assert!(matches!(last, HistoryMessage::ToolResult(result) if result.is_error), "{last:?}");
}

#[tokio::test]
async fn a_log_that_cannot_be_written_ends_the_prompt_with_the_reason() {
    let fixture = Fixture::new(vec![says("late")]);
    *fixture.log.broken.lock().unwrap() = true;
    let end = fixture.prompt("hi").await;
    assert!(matches!(&end, PromptEnd::LogFailed(reason) if reason.contains("disk full")), "{end:?}");
    *fixture.log.broken.lock().unwrap() = false;
    assert_eq!(fixture.prompt("again").await, PromptEnd::Turn(TurnEndReason::Completed));
}

#[tokio::test]
async fn a_slash_command_runs_without_the_model() {
    let fixture = Fixture::new(Vec::new());
    assert_eq!(fixture.prompt("/plan").await, PromptEnd::Command);
    assert_eq!(fixture.session.state().mode(), Mode::Plan);
    assert_eq!(fixture.prompt("/permission read-only").await, PromptEnd::Command);
    assert_eq!(fixture.session.state().mode(), Mode::ReadOnly);
}

#[tokio::test]
async fn closing_awaits_the_turn_and_later_prompts_are_told() {
    let fixture = Fixture::new(vec![vec![Piece::Hangs]]);
    let running = tokio::spawn(fixture.prompt("one"));
    while fixture.models.requests.lock().unwrap().is_empty() {
        tokio::task::yield_now().await;
    }
    fixture.session.close().await;
    assert_eq!(running.await.unwrap(), ABORTED);
    assert_eq!(fixture.prompt("two").await, PromptEnd::Closed);
}

/// Two turns whose first is long enough to be summarised.
fn long_then(mut answers: Vec<Vec<Piece>>) -> Fixture {
    answers.insert(0, says(&"word ".repeat(2000)));
    Fixture::new(answers)
}

fn compactions(log: &MemoryLog) -> usize {
    let events = log.events.lock().unwrap();
    events.iter().filter(|event| matches!(event, SessionEvent::Compaction { .. })).count()
}

#[tokio::test]
async fn a_request_that_is_too_long_is_asked_again_with_a_summary() {
    let overflow = vec![Piece::Fails(ModelErrorKind::ContextWindowExceeded)];
    let fixture = long_then(vec![overflow, says("Summary."), says("Done.")]);
    fixture.prompt("first").await;
    assert_eq!(fixture.prompt("second").await, PromptEnd::Turn(TurnEndReason::Completed));
    assert_eq!(compactions(&fixture.log), 1);
    let requests = fixture.models.requests.lock().unwrap();
    let HistoryMessage::User(first) = &requests.last().unwrap().messages[0] else {
        panic!("no user message first")
    };
    assert_eq!(first.source, protocol::message::MessageSource::Checkpoint);
    assert!(first.content[0].as_text().unwrap().contains("Summary."));
}

#[tokio::test]
async fn a_request_that_stays_too_long_fails_and_says_why_instead_of_looping() {
    let overflow = || vec![Piece::Fails(ModelErrorKind::ContextWindowExceeded)];
    let fixture = long_then(vec![overflow(), says("Summary."), overflow()]);
    fixture.prompt("first").await;
    let end = fixture.prompt("second").await;
    let PromptEnd::Turn(TurnEndReason::Error { message, code }) = end else { panic!("{end:?}") };
    assert_eq!(code, "CONTEXT_WINDOW_EXCEEDED");
    assert!(message.contains("still too long"), "{message}");
    assert_eq!(compactions(&fixture.log), 1);
}

#[tokio::test]
async fn a_model_that_cannot_summarise_is_replaced_by_a_plain_list_and_the_user_is_told() {
    let overflow = || vec![Piece::Fails(ModelErrorKind::ContextWindowExceeded)];
    let fixture = long_then(vec![overflow(), overflow(), says("Done.")]);
    fixture.prompt("first").await;
    assert_eq!(fixture.prompt("second").await, PromptEnd::Turn(TurnEndReason::Completed));
    let events = fixture.log.events.lock().unwrap();
    let notices = events.iter().filter(
        |event| matches!(event, SessionEvent::Notice { text, .. } if text.contains("could not summarise")),
    );
    assert_eq!(notices.count(), 1);
}

#[tokio::test]
async fn compact_that_fails_or_is_cancelled_leaves_the_session_as_it_was() {
    for broken in [Piece::Fails(ModelErrorKind::Auth), Piece::Hangs] {
        let fixture = long_then(vec![vec![broken]]);
        fixture.prompt("first").await;
        let end = fixture.prompt("/compact");
        let stop = async {
            while fixture.models.requests.lock().unwrap().len() < 2 {
                tokio::task::yield_now().await;
            }
            fixture.session.cancel();
        };
        futures::join!(end, stop);
        assert_eq!(compactions(&fixture.log), 0);
    }
}
