//! A session's log and the state folded from it. Every event goes through [`Core::append`]: logged, then shown.

use crate::state::SessionState;
use async_trait::async_trait;
use pipeline::host::SessionHost;
use protocol::decision::PermissionRule;
use protocol::event::{Record, SessionEvent};
use protocol::live::LiveUpdate;
use protocol::mode::Mode;
use protocol::model::ModelRef;
use protocol::tool::ToolFailure;
use services::clock::Clock;
use services::model::Models;
use services::session_store::{SessionLog, StoreError};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use tokio_util::sync::CancellationToken;

/// Who shows a session. Called in log order; must only queue.
#[async_trait]
pub trait Observer: Send + Sync {
    /// An event was logged.
    fn event(&self, record: &Record);

    /// Something to show now.
    fn live(&self, update: LiveUpdate);

    /// Waits while the one who watches is too slow.
    async fn ready(&self);
}

/// A session's log, its fold and who watches it.
pub struct Core {
    /// `None` once the session is closed: whoever opens it next needs the writer's lock.
    log: Mutex<Option<Arc<dyn SessionLog>>>,
    clock: Arc<dyn Clock>,
    observer: Arc<dyn Observer>,
    models: Arc<dyn Models>,
    /// The session this one is a child of.
    parent: Option<Arc<dyn SessionHost>>,
    inner: Mutex<Inner>,
}

struct Inner {
    records: Vec<Record>,
    next_seq: u64,
    state: SessionState,
    /// Ends the turn that runs; a fresh one for each turn.
    turn: Option<CancellationToken>,
}

impl Core {
    /// A core over a log that already holds `records`.
    pub fn new(
        log: Arc<dyn SessionLog>,
        clock: Arc<dyn Clock>,
        observer: Arc<dyn Observer>,
        models: Arc<dyn Models>,
        mut state: SessionState,
        mut records: Vec<Record>,
        parent: Option<Arc<dyn SessionHost>>,
    ) -> Self {
        for record in &records {
            state.apply(&record.event);
        }
        let next_seq = records.last().map_or(0, |record| record.seq + 1);
        records.retain(is_kept);
        let log = Mutex::new(Some(log));
        Self {
            log,
            clock,
            observer,
            models,
            parent,
            inner: Mutex::new(Inner { records, next_seq, state, turn: None }),
        }
    }

    /// Appends an event to the log, folds it, shows it.
    ///
    /// # Errors
    /// The log could not be written; nothing was folded or shown.
    pub fn append(&self, event: SessionEvent) -> Result<(), StoreError> {
        self.append_if(|_| true, event)
    }

    /// As [`Core::append`], if `holds` holds at that moment; else it does nothing.
    pub(crate) fn append_if(
        &self,
        holds: impl FnOnce(&SessionState) -> bool,
        event: SessionEvent,
    ) -> Result<(), StoreError> {
        let mut inner = self.lock();
        if !holds(&inner.state) {
            return Ok(());
        }
        let record =
            Record { seq: inner.next_seq, time: self.clock.now_ms(), ignorable: event.ignorable(), event };
        self.log()?.append(&record)?;
        inner.next_seq += 1;
        inner.state.apply(&record.event);
        // Shown under the lock, so that what is shown has the order of the log.
        self.observer.event(&record);
        if is_kept(&record) {
            inner.records.push(record);
        }
        Ok(())
    }

    /// Waits until everything appended is on disk.
    ///
    /// # Errors
    /// The disk refused.
    pub async fn flush(&self) -> Result<(), StoreError> {
        self.log()?.flush().await
    }

    /// Gives up the log and with it the writer's lock. Later events are refused.
    pub(crate) fn release(&self) {
        let log = self.log.lock().unwrap_or_else(PoisonError::into_inner).take();
        // Outside the lock: closing a file may take a while.
        drop(log);
    }

    fn log(&self) -> Result<Arc<dyn SessionLog>, StoreError> {
        let log = self.log.lock().unwrap_or_else(PoisonError::into_inner).clone();
        log.ok_or_else(|| StoreError::Io(std::io::Error::other("the session is closed")))
    }

    /// The folded state.
    pub fn state(&self) -> SessionState {
        self.lock().state.clone()
    }

    /// The mode now: a child's is always that of its parent, so it never has more authority.
    pub fn mode_in_force(&self) -> Mode {
        match &self.parent {
            Some(parent) => parent.mode(),
            None => self.lock().state.mode(),
        }
    }

    /// Reads the records without copying them.
    pub fn with_records<T>(&self, read: impl FnOnce(&[Record]) -> T) -> T {
        read(&self.lock().records)
    }

    /// Number of the last turn of these records.
    pub(crate) fn turn_number(&self, records: &[Record]) -> u64 {
        records
            .iter()
            .rev()
            .find_map(|record| match record.event {
                SessionEvent::TurnStart { turn } => Some(turn),
                _ => None,
            })
            .unwrap_or(0)
    }

    /// The model in force and its effort.
    pub fn model(&self) -> (ModelRef, Option<String>) {
        self.state().model.unwrap_or_else(|| {
            let model = self.models.default_model();
            let effort = self.models.info(&model).default_effort;
            (model, effort)
        })
    }

    /// Chooses the model and effort of the requests to come; those in force already are a success without an event.
    ///
    /// # Errors
    /// The log could not be written.
    pub fn set_model(&self, model: ModelRef, effort: Option<String>) -> Result<(), StoreError> {
        if self.state().model == Some((model.clone(), effort.clone())) {
            return Ok(());
        }
        let context_window = self.models.info(&model).context_window;
        self.append(SessionEvent::RequestContext { model, effort, context_window })
    }

    /// Models to choose from.
    pub fn models(&self) -> &Arc<dyn Models> {
        &self.models
    }

    /// Whoever watches.
    pub fn observer(&self) -> &Arc<dyn Observer> {
        &self.observer
    }

    /// The clock.
    pub fn clock(&self) -> &Arc<dyn Clock> {
        &self.clock
    }

    /// Puts a mode into force; the mode in force already is a success without an event.
    ///
    /// # Errors
    /// The log could not be written.
    pub fn set_mode(&self, mode: Mode) -> Result<(), StoreError> {
        let state = self.state();
        if state.mode() == mode {
            return Ok(());
        }
        if mode == Mode::Plan {
            return self.append(SessionEvent::PlanMode { active: true });
        }
        // The preset first: whoever is told that plan mode is off then already sees the mode that was chosen.
        if state.preset != mode {
            self.append(SessionEvent::PermissionPreset { preset: mode })?;
        }
        if state.plan { self.append(SessionEvent::PlanMode { active: false }) } else { Ok(()) }
    }

    /// Begins a turn's cancellation; a child of `session`.
    pub(crate) fn begin_turn(&self, session: &CancellationToken) -> CancellationToken {
        let token = session.child_token();
        self.lock().turn = Some(token.clone());
        token
    }

    /// Forgets the turn's cancellation: a later cancel is a no-op.
    pub(crate) fn end_turn(&self) {
        self.lock().turn = None;
    }

    /// Cancels the turn that runs, and says whether there was one.
    pub fn cancel_turn(&self) -> bool {
        let turn = self.lock().turn.clone();
        turn.is_some_and(|turn| {
            turn.cancel();
            true
        })
    }

    fn lock(&self) -> MutexGuard<'_, Inner> {
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Whether a record is kept in memory: the message so far is not, since the final one follows or recovery made it one.
fn is_kept(record: &Record) -> bool {
    !matches!(record.event, SessionEvent::AssistantPartial { .. })
}

fn log_failure(error: StoreError) -> ToolFailure {
    ToolFailure::coded("SessionLogError", "SESSION_LOG_FAILED", error.to_string())
}

#[async_trait]
impl SessionHost for Core {
    fn append(&self, event: SessionEvent) -> Result<(), ToolFailure> {
        // What the person allows for good, they allow in the session they know.
        if let (Some(parent), SessionEvent::PermissionRule { .. }) = (&self.parent, &event) {
            return parent.append(event);
        }
        Core::append(self, event).map_err(log_failure)
    }

    fn live(&self, update: LiveUpdate) {
        self.observer.live(update);
    }

    async fn checkpoint(&self) -> Result<(), ToolFailure> {
        self.flush().await.map_err(log_failure)
    }

    fn mode(&self) -> Mode {
        self.mode_in_force()
    }

    fn takes_images(&self) -> bool {
        self.models.info(&self.model().0).takes_images == Some(true)
    }

    fn rules(&self) -> Vec<PermissionRule> {
        match &self.parent {
            Some(parent) => parent.rules(),
            None => self.lock().state.rules.clone(),
        }
    }

    fn stop_turn(&self) {
        self.cancel_turn();
        if let Some(parent) = &self.parent {
            parent.stop_turn();
        }
    }
}
