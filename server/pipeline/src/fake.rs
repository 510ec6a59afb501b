//! A session in memory for tests of tools and policies, behind the feature `fake`.

use crate::context::{Execution, SessionScope, ToolContext};
use crate::host::SessionHost;
use crate::policies::observation::Observations;
use async_trait::async_trait;
use protocol::decision::{PermissionRule, SandboxGrant};
use protocol::event::SessionEvent;
use protocol::id::{CallId, SessionId};
use protocol::live::LiveUpdate;
use protocol::mode::Mode;
use protocol::tool::ToolFailure;
use serde_json::Value;
use services::fake::{FakeFiles, World};
use std::path::PathBuf;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use tokio_util::sync::CancellationToken;

/// Everything a pipeline asked of a session, in order.
#[derive(Clone, Debug, PartialEq)]
pub enum HostEntry {
    /// An event was appended.
    Event(SessionEvent),
    /// Something was shown.
    Live(LiveUpdate),
    /// A checkpoint was waited for.
    Checkpoint,
    /// The turn was stopped.
    StopTurn,
}

/// A session that writes down what it is asked.
#[derive(Default)]
pub struct FakeHost {
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    mode: Mode,
    entries: Vec<HostEntry>,
    takes_images: bool,
    fails_append: bool,
    fails_checkpoint: bool,
    stop: Option<CancellationToken>,
}

impl FakeHost {
    /// A session in the default mode.
    pub fn new() -> Arc<Self> {
        Arc::new(Self::default())
    }

    /// Switches the mode.
    pub fn set_mode(&self, mode: Mode) {
        self.lock().mode = mode;
    }

    /// Whether the model takes images; it does not unless told.
    pub fn set_takes_images(&self, takes_images: bool) {
        self.lock().takes_images = takes_images;
    }

    /// Makes every later append fail.
    pub fn fail_append(&self) {
        self.lock().fails_append = true;
    }

    /// Makes every later checkpoint fail.
    pub fn fail_checkpoint(&self) {
        self.lock().fails_checkpoint = true;
    }

    /// Cancels this token when the turn is stopped.
    pub fn on_stop(&self, token: CancellationToken) {
        self.lock().stop = Some(token);
    }

    /// Everything asked so far, in order.
    pub fn entries(&self) -> Vec<HostEntry> {
        self.lock().entries.clone()
    }

    /// The events appended so far, in order.
    pub fn events(&self) -> Vec<SessionEvent> {
        let entries = self.entries().into_iter();
        entries
            .filter_map(|entry| match entry {
                HostEntry::Event(event) => Some(event),
                _ => None,
            })
            .collect()
    }

    /// The live updates so far, in order.
    pub fn live_updates(&self) -> Vec<LiveUpdate> {
        let entries = self.entries().into_iter();
        entries
            .filter_map(|entry| match entry {
                HostEntry::Live(update) => Some(update),
                _ => None,
            })
            .collect()
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[async_trait]
impl SessionHost for FakeHost {
    fn append(&self, event: SessionEvent) -> Result<(), ToolFailure> {
        let mut state = self.lock();
        if state.fails_append {
            return Err(ToolFailure::plain("the log could not be written"));
        }
        state.entries.push(HostEntry::Event(event));
        Ok(())
    }

    fn live(&self, update: LiveUpdate) {
        self.lock().entries.push(HostEntry::Live(update));
    }

    async fn checkpoint(&self) -> Result<(), ToolFailure> {
        let mut state = self.lock();
        if state.fails_checkpoint {
            return Err(ToolFailure::plain("the log could not be flushed"));
        }
        state.entries.push(HostEntry::Checkpoint);
        Ok(())
    }

    fn mode(&self) -> Mode {
        self.lock().mode
    }

    fn rules(&self) -> Vec<PermissionRule> {
        let events = self.events().into_iter();
        events
            .filter_map(|event| match event {
                SessionEvent::PermissionRule { rule } => Some(rule),
                _ => None,
            })
            .collect()
    }

    fn takes_images(&self) -> bool {
        self.lock().takes_images
    }

    fn stop_turn(&self) {
        let mut state = self.lock();
        state.entries.push(HostEntry::StopTurn);
        if let Some(token) = &state.stop {
            token.cancel();
        }
    }
}

/// A session in a fake world: what its calls share.
#[derive(Clone)]
pub struct FakeSession {
    /// The world.
    pub world: World,
    /// What the pipeline asked of the session.
    pub host: Arc<FakeHost>,
    /// The session around the calls.
    pub scope: SessionScope,
}

impl FakeSession {
    /// A session in [`FakeFiles::CWD`] of this world, in the default mode.
    pub fn new(world: World) -> Self {
        let host = FakeHost::new();
        let scope = SessionScope {
            session_id: SessionId::new("session-1"),
            cwd: PathBuf::from(FakeFiles::CWD),
            roots: vec![PathBuf::from(FakeFiles::CWD)],
            delegation_depth: 0,
            network: true,
            services: world.services(),
            host: host.clone(),
            observations: Arc::new(Observations::default()),
        };
        Self { world, host, scope }
    }

    /// The context of a call of this session.
    pub fn context(&self, tool: &str, arguments: Value) -> ToolContext {
        self.granted_context(tool, arguments, None)
    }

    /// The context of a call that a permission widened.
    pub fn granted_context(&self, tool: &str, arguments: Value, grant: Option<SandboxGrant>) -> ToolContext {
        let call_id = CallId::new("call-1");
        let execution = Execution {
            session_id: self.scope.session_id.clone(),
            call_id: call_id.clone(),
            root_call_id: call_id,
            name: tool.to_owned(),
            arguments: Arc::new(arguments),
            parent: None,
        };
        ToolContext::new(execution, self.scope.clone(), CancellationToken::new(), grant)
    }
}

/// The context of the only call of a fresh session in this world.
pub fn tool_context(world: &World, tool: &str, arguments: Value) -> ToolContext {
    FakeSession::new(world.clone()).context(tool, arguments)
}
