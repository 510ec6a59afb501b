//! What the tools of one session reach of its family.

use super::child::{descriptor, end_of, from_parent, prompt_of};
use super::{Child, Family};
use crate::inbox::Injected;
use crate::session::{PromptEnd, Session};
use async_trait::async_trait;
use protocol::event::{AbortCause, SessionEvent, TurnEndReason};
use protocol::id::{MessageId, SessionId};
use protocol::message::MessageSource;
use services::session_store::{SessionSummary, StoreError};
use services::subagents::{AgentEntry, AgentState, ChildEnd, ChildStop, NewChild, SubagentError, Subagents};
use std::sync::{Arc, Weak};
use std::time::Duration;
use tokio_util::sync::CancellationToken;

/// Most of a settled child's last words that its parent reads, in bytes; more is in the child's session.
const MAX_SETTLED_BYTES: usize = 48 << 10;
/// Most of them that its card shows, in bytes.
const MAX_CARD_BYTES: usize = 4 << 10;
/// How often a child that waits for its own children is looked at.
const LOOKED_EVERY: Duration = Duration::from_millis(50);
/// Most stored children that are looked at for a list.
const MAX_LISTED: usize = 200;

/// The family as one session sees it.
pub(super) struct Relatives {
    pub family: Weak<Family>,
    pub id: SessionId,
}

impl Relatives {
    fn family(&self) -> Result<Arc<Family>, SubagentError> {
        self.family.upgrade().ok_or(SubagentError::Draining)
    }

    fn myself(&self, family: &Family) -> Result<Arc<Session>, SubagentError> {
        family.session(&self.id).ok_or(SubagentError::Draining)
    }
}

#[async_trait]
impl Subagents for Relatives {
    async fn run(&self, new: NewChild, cancel: &CancellationToken) -> Result<ChildEnd, SubagentError> {
        let family = self.family()?;
        let parent = self.myself(&family)?;
        let session = family.open_new(&parent, &new, false).await?;
        let ran = session.deliver(prompt_of(&new.prompt), from_parent(&self.id), cancel.clone());
        let id = session.scope().session_id.clone();
        // A task of its own: whoever gives up waiting leaves no child behind that nobody lets go.
        let running = tokio::spawn(async move {
            let end = ran.await;
            let ended = end_of(&session, &end, new.output_schema.is_some());
            family.let_go(&session).await;
            ended
        });
        Ok(running.await.unwrap_or_else(|error| ChildEnd {
            session: id,
            stop: ChildStop::Error,
            diagnostic: Some(error.to_string()),
            text: String::new(),
            value: None,
        }))
    }

    async fn start(&self, new: NewChild) -> Result<SessionId, SubagentError> {
        let family = self.family()?;
        let parent = self.myself(&family)?;
        let session = family.open_new(&parent, &new, true).await?;
        let id = session.scope().session_id.clone();
        let first = session.deliver(prompt_of(&new.prompt), from_parent(&self.id), CancellationToken::new());
        tokio::spawn(settle(Arc::downgrade(&family), session, Some(Box::pin(first))));
        Ok(id)
    }

    async fn send(&self, id: &SessionId, message: String) -> Result<MessageId, SubagentError> {
        let family = self.family()?;
        let parent = self.myself(&family)?;
        if let Some(Child { parent: of, is_continuable, .. }) = family.child(id) {
            if of != self.id {
                return Err(SubagentError::Unauthorized(format!("{id} is no direct child of this agent")));
            }
            if !is_continuable {
                return Err(SubagentError::NotResumable(format!(
                    "{id} was started for one task only. Do not try again; start another agent."
                )));
            }
        }
        let message_id = MessageId::new(format!("msg_{}", parent.scope().services.clock.fresh_id()));
        let source = from_parent(&self.id);
        let _gate = family.gate.lock().await;
        match family.session(id) {
            // Whoever waits for it to settle waits for this too.
            Some(session) => drop(session.deliver(prompt_of(&message), source, CancellationToken::new())),
            None => {
                let session = family.open_stored(&parent, id).await?;
                let turn = session.deliver(prompt_of(&message), source, CancellationToken::new());
                tokio::spawn(settle(Arc::downgrade(&family), session, Some(Box::pin(turn))));
            }
        }
        Ok(message_id)
    }

    async fn interrupt(&self, id: &SessionId) -> Result<(), SubagentError> {
        let family = self.family()?;
        self.myself(&family)?;
        if *id == self.id {
            return Err(SubagentError::Unauthorized("an agent cannot interrupt itself".to_owned()));
        }
        // What has ended, and what never was, is stopped already.
        let Some(session) = family.session(id) else { return Ok(()) };
        if !family.is_above(&self.id, id) {
            return Err(SubagentError::Unauthorized(format!("{id} is no descendant of this agent")));
        }
        if family.child(id).is_some_and(|child| child.is_continuable) {
            session.interrupt();
        }
        Ok(())
    }

    async fn list(&self, descendants: bool) -> Result<Vec<AgentEntry>, SubagentError> {
        let family = self.family()?;
        self.myself(&family)?;
        let all = family.parts.store.list().await;
        let all = all.map_err(|error| SubagentError::PersistenceUnavailable(error.to_string()))?;
        let children: Vec<&SessionSummary> =
            all.iter().filter(|summary| summary.header.delegation_depth > 0).collect();
        let mut entries = Vec::new();
        let mut waiting = vec![(1, self.id.clone())];
        while let Some((depth, parent)) = waiting.pop() {
            if depth > 1
                && let Some(entry) = entry_of(&family, &children, &parent, depth - 1).await
            {
                entries.push(entry);
            }
            if (depth > 1 && !descendants) || entries.len() >= MAX_LISTED {
                continue;
            }
            let mut own: Vec<&&SessionSummary> = children
                .iter()
                .filter(|summary| summary.header.parent_session.as_ref() == Some(&parent))
                .collect();
            own.sort_by(|a, b| {
                let key =
                    |summary: &SessionSummary| (summary.header.created_at, summary.header.id.to_string());
                key(b).cmp(&key(a))
            });
            waiting.extend(own.into_iter().map(|summary| (depth + 1, summary.header.id.clone())));
        }
        Ok(entries)
    }

    async fn report(&self, output: String) -> Result<MessageId, SubagentError> {
        let family = self.family()?;
        let child = family.child(&self.id).filter(|child| child.is_continuable);
        let Some(child) = child else {
            return Err(SubagentError::Unauthorized("this agent was not delegated to".to_owned()));
        };
        let parent = family.session(&child.parent).ok_or(SubagentError::ParentUnavailable)?;
        let id = MessageId::new(format!("msg_{}", parent.scope().services.clock.fresh_id()));
        parent.inbox().push(Injected {
            key: id.to_string(),
            source: MessageSource::Subagent { session: self.id.to_string() },
            text: format!("Report of the agent {} ({}):\n\n{output}", self.id, child.label),
            wakes: true,
        });
        Ok(id)
    }
}

/// The entry of a child; `None` for one that is not listed.
async fn entry_of(
    family: &Family,
    all: &[&SessionSummary],
    id: &SessionId,
    depth: u32,
) -> Option<AgentEntry> {
    let summary = all.iter().find(|summary| summary.header.id == *id)?;
    let parent = summary.header.parent_session.clone()?;
    let entry = |state| Some(AgentEntry { id: id.clone(), state, parent: parent.clone(), depth });
    if let (Some(session), Some(child)) = (family.session(id), family.child(id)) {
        let label = child.label;
        return match (child.is_continuable, session.state().turn_open) {
            (false, _) => None,
            (true, true) => entry(AgentState::Running { label }),
            (true, false) => entry(AgentState::Idle { label }),
        };
    }
    match family.parts.store.read(id).await {
        Ok(stored) => {
            let descriptor = descriptor(&stored.records).filter(|child| child.is_continuable)?;
            entry(AgentState::Ready { label: descriptor.label })
        }
        Err(StoreError::Corrupt { .. }) => entry(AgentState::Corrupt),
        Err(StoreError::Newer { .. }) => entry(AgentState::Unsupported),
        Err(StoreError::NotFound(_)) => None,
        Err(_) => entry(AgentState::Unavailable),
    }
}

type Turn = std::pin::Pin<Box<dyn Future<Output = PromptEnd> + Send>>;

/// Waits until a child that works beside its parent has nothing left to do, lets go of it, and tells the parent.
async fn settle(family: Weak<Family>, session: Arc<Session>, first: Option<Turn>) {
    if let Some(first) = first {
        first.await;
    }
    let id = session.scope().session_id.clone();
    loop {
        session.quiescent().await;
        let Some(family) = family.upgrade() else { return };
        let _gate = family.gate.lock().await;
        // The end of a child of its own wakes it, and this waits for that turn too.
        if !session.is_quiescent() || family.has_children(&id) {
            drop(_gate);
            tokio::time::sleep(LOOKED_EVERY).await;
            continue;
        }
        // Whoever closes the parent closes this too, and tells nobody.
        let Some(child) = family.child(&id) else { return };
        let reason = session.last_end();
        // The person stopped everything: they are not to be surprised by a turn that opens by itself.
        let wakes = reason != TurnEndReason::Aborted { cause: AbortCause::User };
        let end = end_of(&session, &PromptEnd::Turn(reason), false);
        family.let_go(&session).await;
        return tell_parent(&family, &child, &end, wakes);
    }
}

fn tell_parent(family: &Family, child: &Child, end: &ChildEnd, wakes: bool) {
    let Some(parent) = family.session(&child.parent) else { return };
    let word = end.stop.word();
    let text = match &end.diagnostic {
        Some(diagnostic) => format!("{diagnostic}\n\n{}", end.text),
        None => end.text.clone(),
    };
    if let Some(call_id) = &child.call_id {
        let logged = parent.append(SessionEvent::SubagentSettled {
            call_id: call_id.clone(),
            session: end.session.clone(),
            status: word.to_owned(),
            text: cut(text.trim(), MAX_CARD_BYTES),
        });
        if let Err(error) = logged {
            tracing::warn!(%error, child = %end.session, "the end of a child could not be logged");
        }
    }
    let said = match text.trim() {
        "" => "It left no message.".to_owned(),
        text => cut(text, MAX_SETTLED_BYTES),
    };
    parent.inbox().push(Injected {
        key: format!("settled-{}", end.session),
        source: MessageSource::Subagent { session: end.session.to_string() },
        text: format!("The agent {} ({}) {word}.\n\n{said}", end.session, child.label),
        wakes,
    });
}

/// The beginning of a text, with a marker when there is more.
fn cut(text: &str, max_bytes: usize) -> String {
    if text.len() <= max_bytes {
        return text.to_owned();
    }
    let at = text.floor_char_boundary(max_bytes);
    format!("{}\n[cut: {at} of {} bytes]", &text[..at], text.len())
}
