//! A session on a log in memory with a scripted model, for tests of what it does by itself.

#![allow(dead_code, reason = "each test uses its part")]

use agent::core::Observer;
use agent::session::{PromptEnd, Session, SessionParts};
use async_trait::async_trait;
use futures::FutureExt;
use futures::stream::{self, BoxStream, StreamExt};
use pipeline::registry::Registry;
use pipeline::run::Pipeline;
use protocol::content::ContentBlock;
use protocol::event::{LOG_VERSION, Record, SessionEvent, SessionHeader};
use protocol::id::SessionId;
use protocol::live::LiveUpdate;
use protocol::message::{AssistantBlock, MessageSource};
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
pub enum Piece {
    Chunk(ModelChunk),
    Fails(ModelErrorKind),
    /// Says nothing more, for ever.
    Hangs,
    Panics,
}

/// One answer of the model.
pub type Answer = Vec<Piece>;

pub fn says(text: &str) -> Answer {
    ends_with(text, FinishReason::Stop)
}

pub fn cut_off() -> Answer {
    ends_with("half", FinishReason::MaxTokens)
}

fn ends_with(text: &str, finish: FinishReason) -> Answer {
    vec![Piece::Chunk(ModelChunk::Text(text.to_owned())), Piece::Chunk(ModelChunk::Finish(finish))]
}

pub fn calls(name: &str) -> Answer {
    let call = ModelChunk::ToolCall { index: 0, id: "p1".into(), name: name.into(), arguments: "{}".into() };
    vec![Piece::Chunk(call), Piece::Chunk(ModelChunk::Finish(FinishReason::ToolCalls))]
}

/// Fails as nothing that is tried again.
pub fn fails() -> Answer {
    vec![Piece::Fails(ModelErrorKind::Auth)]
}

pub fn hangs() -> Answer {
    vec![Piece::Hangs]
}

pub fn panics() -> Answer {
    vec![Piece::Panics]
}

#[derive(Default)]
pub struct ScriptedModels {
    answers: Mutex<VecDeque<Answer>>,
    pub requests: Mutex<Vec<ModelRequest>>,
}

impl ScriptedModels {
    pub fn n_requests(&self) -> usize {
        self.requests.lock().unwrap().len()
    }

    /// Texts of the user's role in the last request.
    pub fn last_user_texts(&self) -> Vec<String> {
        let requests = self.requests.lock().unwrap();
        let messages = requests.last().map(|request| request.messages.clone()).unwrap_or_default();
        let texts = messages.iter().filter_map(|message| match message {
            HistoryMessage::User(message) => Some(message.content.clone()),
            _ => None,
        });
        texts.flatten().filter_map(|block| block.as_text().map(str::to_owned)).collect()
    }
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
pub struct MemoryLog {
    events: Mutex<Vec<SessionEvent>>,
    broken: Mutex<bool>,
}

impl MemoryLog {
    pub fn events(&self) -> Vec<SessionEvent> {
        self.events.lock().unwrap().clone()
    }

    /// Whether nothing can be written from now on.
    pub fn set_broken(&self, broken: bool) {
        *self.broken.lock().unwrap() = broken;
    }

    /// How the last command ended and what it told.
    pub fn last_command(&self) -> (bool, String) {
        let done = self.events().into_iter().rev().find_map(|event| match event {
            SessionEvent::CommandDone { ok, text, .. } => Some((ok, text)),
            _ => None,
        });
        done.expect("a command")
    }

    /// The first message of each turn: what a person said, or who opened it.
    pub fn turn_openers(&self) -> Vec<String> {
        let mut openers = Vec::new();
        let mut is_open = false;
        for event in self.events() {
            match event {
                SessionEvent::TurnStart { .. } => is_open = true,
                SessionEvent::UserMessage { message } if std::mem::take(&mut is_open) => {
                    openers.push(match message.source {
                        MessageSource::User => message.content[0].as_text().unwrap_or_default().to_owned(),
                        MessageSource::Goal { round, .. } => format!("goal {round}"),
                        MessageSource::Plugin { plugin, .. } => plugin,
                        other => format!("{other:?}"),
                    });
                }
                _ => {}
            }
        }
        openers
    }
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
        if *self.broken.lock().unwrap() {
            return Err(std::io::Error::other("disk full").into());
        }
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

pub struct Fixture {
    pub session: Arc<Session>,
    pub models: Arc<ScriptedModels>,
    pub log: Arc<MemoryLog>,
    pub world: World,
}

impl Fixture {
    pub fn new(answers: Vec<Answer>) -> Self {
        Self::over(Vec::new(), answers)
    }

    /// A session that is opened again over a log.
    pub fn over(events: Vec<SessionEvent>, answers: Vec<Answer>) -> Self {
        Self::in_world(World::new(), events, answers)
    }

    pub fn in_world(world: World, events: Vec<SessionEvent>, answers: Vec<Answer>) -> Self {
        let models = Arc::new(ScriptedModels { answers: Mutex::new(answers.into()), ..Default::default() });
        let log = Arc::new(MemoryLog { events: Mutex::new(events.clone()), broken: Mutex::default() });
        let record = |(seq, event): (usize, SessionEvent)| Record {
            seq: seq as u64,
            time: 0,
            ignorable: event.ignorable(),
            event,
        };
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
            records: events.into_iter().enumerate().map(record).collect(),
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
        Self { session, models, log, world }
    }

    pub fn prompt(&self, text: &str) -> impl Future<Output = PromptEnd> + Send + 'static {
        let content = vec![ContentBlock::text(text)];
        self.session.prompt(async { Ok(content) }.boxed(), CancellationToken::new())
    }

    /// Lets the session go on until something holds.
    pub async fn until(&self, holds: impl Fn() -> bool) {
        for _ in 0..100_000 {
            if holds() {
                return;
            }
            tokio::task::yield_now().await;
        }
        panic!("it never came to that: {:#?}", self.log.events());
    }

    /// What the model said, in order.
    pub fn said(&self) -> Vec<String> {
        let texts = self.log.events().into_iter().filter_map(|event| match event {
            SessionEvent::AssistantMessage { message, .. } => match message.blocks.first() {
                Some(AssistantBlock::Text { text }) => Some(text.clone()),
                _ => None,
            },
            _ => None,
        });
        texts.collect()
    }
}
