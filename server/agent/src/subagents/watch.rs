//! A child as its parent's card shows it: how far it is, at a bounded rate, and the calls of it that ask the person.

use crate::core::Observer;
use async_trait::async_trait;
use pipeline::host::SessionHost;
use pipeline::registry::{Registry, ScopeKey};
use protocol::decision::{PermissionOutcome, PermissionRequest};
use protocol::event::{Record, SessionEvent};
use protocol::id::{CallId, SessionId};
use protocol::live::LiveUpdate;
use protocol::tool::{DurableResult, parse_arguments};
use services::approval::Approval;
use std::collections::HashSet;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::time::{Duration, Instant};

/// How often the card of a child changes at most.
const SHOWN_EVERY: Duration = Duration::from_millis(500);
/// The end of what a child says that its card shows, in characters.
const MAX_TAIL: usize = 400;

/// Calls of a child that asked the person and have not ended.
pub(super) type Asked = Arc<Mutex<HashSet<CallId>>>;

/// Watches a child.
pub(super) struct ChildWatch {
    this: Weak<ChildWatch>,
    parent: Arc<dyn SessionHost>,
    call_id: Option<CallId>,
    asked: Asked,
    /// Where the titles of its calls come from.
    registry: Registry,
    scope: Option<ScopeKey>,
    progress: Mutex<Progress>,
}

#[derive(Default)]
struct Progress {
    n_steps: u64,
    n_calls: u64,
    now: Option<String>,
    tail: String,
    shown_at: Option<Instant>,
    is_scheduled: bool,
}

impl ChildWatch {
    pub(super) fn new(
        parent: Arc<dyn SessionHost>,
        call_id: Option<CallId>,
        asked: Asked,
        registry: Registry,
        scope: Option<ScopeKey>,
    ) -> Arc<Self> {
        let progress = Mutex::default();
        Arc::new_cyclic(|this| Self { this: this.clone(), parent, call_id, asked, registry, scope, progress })
    }

    fn title(&self, name: &str, arguments: &str) -> String {
        let card = self.registry.get(name, self.scope, None).and_then(|tool| {
            let arguments = parse_arguments(arguments);
            std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| tool.present_call(&arguments)))
                .unwrap_or_default()
        });
        card.map_or_else(|| name.to_owned(), |card| card.title().lines().next().unwrap_or(name).to_owned())
    }

    fn show(&self, change: impl FnOnce(&mut Progress)) {
        let Some(call_id) = &self.call_id else { return };
        let mut progress = self.lock();
        change(&mut progress);
        let now = Instant::now();
        if progress.shown_at.is_none_or(|at| now.duration_since(at) >= SHOWN_EVERY) {
            progress.shown_at = Some(now);
            let text = progress.text();
            drop(progress);
            self.parent.live(LiveUpdate::ChildProgress { call_id: call_id.clone(), text });
        } else if !progress.is_scheduled {
            progress.is_scheduled = true;
            let this = self.this.clone();
            tokio::spawn(async move {
                tokio::time::sleep(SHOWN_EVERY).await;
                if let Some(watch) = this.upgrade() {
                    // A pointer: a closure of its own in here would be one more instance of `show` each time.
                    let settle: fn(&mut Progress) = |progress| progress.is_scheduled = false;
                    watch.show(settle);
                }
            });
        }
    }

    fn lock(&self) -> MutexGuard<'_, Progress> {
        self.progress.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Progress {
    fn text(&self) -> String {
        let calls = if self.n_calls == 1 { "call" } else { "calls" };
        let mut text = format!("Step {}, {} {calls}", self.n_steps, self.n_calls);
        if let Some(now) = &self.now {
            text.push_str(&format!(", now: {now}"));
        }
        if !self.tail.trim().is_empty() {
            let lines: Vec<String> = self.tail.trim().lines().map(|line| format!("> {line}")).collect();
            text.push_str(&format!("\n\n{}", lines.join("\n")));
        }
        text
    }
}

#[async_trait]
impl Observer for ChildWatch {
    fn event(&self, record: &Record) {
        match &record.event {
            SessionEvent::StepStart { .. } => self.show(|progress| progress.n_steps += 1),
            SessionEvent::ToolCall { name, arguments, .. } => {
                let title = self.title(name, arguments);
                self.show(|progress| {
                    progress.n_calls += 1;
                    progress.now = Some(title);
                    progress.tail.clear();
                });
            }
            SessionEvent::ToolResult { message, error, meta, .. } => {
                if self.asked.lock().unwrap_or_else(PoisonError::into_inner).remove(&message.call_id) {
                    let result = DurableResult {
                        content: message.content.clone(),
                        is_error: message.is_error,
                        error: error.clone(),
                        meta: meta.clone(),
                    };
                    self.parent.live(LiveUpdate::ChildCallEnded { call_id: message.call_id.clone(), result });
                }
                self.show(|progress| progress.now = None);
            }
            _ => {}
        }
    }

    fn live(&self, update: LiveUpdate) {
        match update {
            LiveUpdate::Text { delta, .. } => self.show(|progress| {
                progress.tail.push_str(&delta);
                if let Some((at, _)) = progress.tail.char_indices().rev().nth(MAX_TAIL) {
                    progress.tail.drain(..at);
                }
            }),
            // Of a child of this child: the person knows the top session alone.
            asked @ (LiveUpdate::ChildCallAsked { .. } | LiveUpdate::ChildCallEnded { .. }) => {
                self.parent.live(asked);
            }
            _ => {}
        }
    }

    async fn ready(&self) {}
}

/// Asks for a child: in the session of its parent, and says who asks.
pub(super) struct ChildApproval {
    pub inner: Arc<dyn Approval>,
    pub parent: Arc<dyn SessionHost>,
    pub parent_id: SessionId,
    pub label: String,
    pub asked: Asked,
}

#[async_trait]
impl Approval for ChildApproval {
    async fn ask(&self, mut request: PermissionRequest) -> PermissionOutcome {
        self.asked.lock().unwrap_or_else(PoisonError::into_inner).insert(request.call_id.clone());
        // A question needs something to be about: its call becomes a card there.
        self.parent.live(LiveUpdate::ChildCallAsked {
            call_id: request.call_id.clone(),
            name: request.tool_name.clone(),
            arguments: request.arguments.clone(),
        });
        let reason = request.reason.take().map(|reason| format!(": {reason}")).unwrap_or_default();
        request.reason = Some(format!("The agent \"{}\" asks{reason}", self.label));
        request.session_id = self.parent_id.clone();
        self.inner.ask(request).await
    }
}
