//! Agents that start agents: who is whose child, and what becomes of them.
//!
//! One [`Family`] a connection knows every live session of it. [`child`] opens a child; [`watch`] shows it in its parent's
//! card; [`service`] is what the tools of one session reach. A child has a log of its own, the files, commands and person of
//! its parent, and never more authority than its parent has at that moment ([`crate::core::Core`]).
//!
//! Source: `spec/tools-agentic.md` §7–9; product decisions, "questions of children".

mod child;
mod service;
mod watch;

use crate::session::Session;
use pipeline::registry::Scope;
use pipeline::tool::Tool;
use protocol::id::{CallId, SessionId};
use serde_json::Value;
use services::session_store::SessionStore;
use services::subagents::{MAX_LIVE, SubagentError, Subagents};
use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};

/// What a family is made of.
pub struct FamilyParts {
    /// Where children are stored.
    pub store: Arc<dyn SessionStore>,
    /// The tool by which a child that works beside its parent reports.
    pub report: Arc<dyn Tool>,
    /// Makes the tool by which a child gives an object of this schema.
    pub structured_output: Box<dyn Fn(Value) -> Arc<dyn Tool> + Send + Sync>,
}

/// Every live session of a connection, and whose child each is.
pub struct Family {
    parts: FamilyParts,
    this: Weak<Family>,
    members: Mutex<HashMap<SessionId, Member>>,
    /// Held while a message is put into a child's queue, and while a child with an empty one is let go.
    gate: tokio::sync::Mutex<()>,
}

/// A live session.
struct Member {
    session: Weak<Session>,
    /// `None` for a session a person opened.
    child: Option<Child>,
}

/// What makes a session a child.
#[derive(Clone)]
struct Child {
    parent: SessionId,
    label: String,
    /// Whether it works beside its parent and can be given messages.
    is_continuable: bool,
    /// The call whose card shows it.
    call_id: Option<CallId>,
    /// Milliseconds since the Unix epoch.
    created_at: i64,
    /// Keeps the session and its scope of tools alive.
    _keeps: Arc<Kept>,
}

/// What ends with a child.
struct Kept {
    _session: Arc<Session>,
    _scope: Scope,
}

impl Family {
    /// A family without members.
    pub fn new(parts: FamilyParts) -> Arc<Self> {
        Arc::new_cyclic(|this| Self {
            parts,
            this: this.clone(),
            members: Mutex::default(),
            gate: tokio::sync::Mutex::default(),
        })
    }

    /// What the session of this id reaches of its family. May be asked before the session is open.
    pub fn of(&self, id: SessionId) -> Arc<dyn Subagents> {
        Arc::new(service::Relatives { family: self.this.clone(), id })
    }

    /// A session that a person opened is open now.
    pub fn enter(&self, session: &Arc<Session>) {
        let id = session.scope().session_id.clone();
        self.lock().insert(id, Member { session: Arc::downgrade(session), child: None });
    }

    /// Ends every descendant of a session and forgets it. Called before the session itself is closed.
    pub async fn leave(&self, id: &SessionId) {
        // First no new ones, then the deepest first: a parent must not be woken by the end of its child.
        self.lock().remove(id);
        for (_, session) in self.descendants(id).into_iter().rev() {
            self.let_go(&session).await;
        }
    }

    /// Ends the present turns of every descendant of a session. Returns at once.
    pub fn stop_below(&self, id: &SessionId) {
        for (_, session) in self.descendants(id) {
            session.cancel();
        }
    }

    /// Closes a child and everything below it.
    async fn let_go(&self, session: &Arc<Session>) {
        let id = session.scope().session_id.clone();
        let below = self.descendants(&id);
        let member = self.lock().remove(&id);
        for (_, below) in below.into_iter().rev() {
            let member = self.lock().remove(&below.scope().session_id);
            below.close().await;
            drop(member);
        }
        session.close().await;
        drop(member);
    }

    /// Live descendants with their depths, parents before children, each generation in the order it was made.
    fn descendants(&self, id: &SessionId) -> Vec<(u32, Arc<Session>)> {
        let members = self.lock();
        let mut found = Vec::new();
        let mut waiting = vec![(1, id.clone())];
        while let Some((depth, parent)) = waiting.pop() {
            let mut children: Vec<(i64, &SessionId, Arc<Session>)> = members
                .iter()
                .filter_map(|(id, member)| {
                    let child = member.child.as_ref().filter(|child| child.parent == parent)?;
                    Some((child.created_at, id, member.session.upgrade()?))
                })
                .collect();
            children.sort_by(|a, b| (a.0, a.1.as_str()).cmp(&(b.0, b.1.as_str())));
            for (_, id, session) in children.into_iter().rev() {
                waiting.push((depth + 1, id.clone()));
                found.push((depth, session));
            }
        }
        found
    }

    /// The session a person opened above this one; itself when it is one.
    fn top(&self, id: &SessionId) -> SessionId {
        let members = self.lock();
        let mut top = id;
        while let Some(child) = members.get(top).and_then(|member| member.child.as_ref()) {
            top = &child.parent;
        }
        top.clone()
    }

    /// Whether `ancestor` stands above `id`.
    fn is_above(&self, ancestor: &SessionId, id: &SessionId) -> bool {
        let members = self.lock();
        let mut at = id;
        while let Some(child) = members.get(at).and_then(|member| member.child.as_ref()) {
            if child.parent == *ancestor {
                return true;
            }
            at = &child.parent;
        }
        false
    }

    /// The live session of this id.
    fn session(&self, id: &SessionId) -> Option<Arc<Session>> {
        self.lock().get(id).and_then(|member| member.session.upgrade())
    }

    fn child(&self, id: &SessionId) -> Option<Child> {
        self.lock().get(id).and_then(|member| member.child.clone())
    }

    fn has_children(&self, id: &SessionId) -> bool {
        self.lock().values().any(|member| member.child.as_ref().is_some_and(|child| child.parent == *id))
    }

    /// Whether one more agent may live below the session a person opened.
    fn check_room(&self, parent: &SessionId) -> Result<(), SubagentError> {
        let top = self.top(parent);
        if self.descendants(&top).len() >= MAX_LIVE { Err(SubagentError::TooMany) } else { Ok(()) }
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<SessionId, Member>> {
        self.members.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
