//! Opening a child, running it, and what it ended with.

use super::watch::{Asked, ChildApproval, ChildWatch};
use super::{Child, Family, Kept, Member};
use crate::fork;
use crate::session::{PromptEnd, Session, SessionParts};
use pipeline::registry::{Registration, RegistryError, Restriction};
use protocol::content::ContentBlock;
use protocol::event::{LOG_VERSION, Record, SessionEvent, SessionHeader, TurnEndReason};
use protocol::id::{CallId, SessionId};
use protocol::message::{AssistantBlock, MessageSource};
use protocol::mode::Mode;
use protocol::model::ModelRef;
use protocol::tool::parse_arguments;
use serde_json::Value;
use services::session_store::{OpenedSession, SessionLog, StoreError};
use services::subagents::{ChildEnd, ChildStop, MAX_DEPTH, NewChild, STRUCTURED_OUTPUT, SubagentError};
use std::sync::Arc;

/// The part of a descriptor that decides about tools.
struct Limits {
    allow: Option<Vec<String>>,
    deny: Option<Vec<String>>,
    output_schema: Option<Value>,
}

impl Family {
    /// Opens a new child of a live session; nothing was said to it yet.
    pub(super) async fn open_new(
        &self,
        parent: &Arc<Session>,
        new: &NewChild,
        is_continuable: bool,
    ) -> Result<Arc<Session>, SubagentError> {
        let scope = parent.scope();
        let depth = scope.delegation_depth + 1;
        if depth > MAX_DEPTH {
            return Err(SubagentError::TooDeep { attempted: depth });
        }
        self.check_room(&scope.session_id)?;
        let clock = &scope.services.clock;
        let header = SessionHeader {
            version: LOG_VERSION,
            id: SessionId::new(format!("ses_{}", clock.fresh_id())),
            created_at: clock.now_ms(),
            cwd: scope.cwd.clone(),
            additional_directories: scope.roots.iter().filter(|root| **root != scope.cwd).cloned().collect(),
            parent_session: Some(scope.session_id.clone()),
            delegation_depth: depth,
        };
        let now_ms = clock.now_ms();
        let seed = match new.is_fork {
            true => parent.with_records(|records| fork::seed(records, now_ms)),
            false => Vec::new(),
        };
        let log = self.parts.store.create(header.clone()).await.map_err(not_stored)?;
        let records = append_all(&log, seed).await.map_err(not_stored)?;
        if new.is_fork {
            self.parts.store.copy_blobs(&scope.session_id, &header.id).await.map_err(not_stored)?;
        }
        let child = NewMember {
            label: new.label.clone(),
            is_continuable,
            call_id: new.call_id.clone(),
            created_at: header.created_at,
        };
        let limits = Limits {
            allow: new.allow.clone(),
            deny: new.deny.clone(),
            output_schema: new.output_schema.clone(),
        };
        let session = self.admit(parent, header, log, records, child, &limits)?;
        session
            .append(SessionEvent::SubagentDescriptor {
                continuable: is_continuable,
                label: new.label.clone(),
                allow: limits.allow,
                deny: limits.deny,
            })
            .map_err(not_stored)?;
        if let Some(model) = &new.model {
            let model = ModelRef::parse(model).ok_or_else(|| {
                SubagentError::Unsupported(format!("`{model}` is not written provider/model"))
            })?;
            session.set_model(model, None).map_err(not_stored)?;
        } else {
            let (model, effort) = parent.model();
            session.set_model(model, effort).map_err(not_stored)?;
        }
        Ok(session)
    }

    /// Opens a child that has settled before.
    pub(super) async fn open_stored(
        &self,
        parent: &Arc<Session>,
        id: &SessionId,
    ) -> Result<Arc<Session>, SubagentError> {
        let gone = |why: &str| {
            SubagentError::NotResumable(format!(
                "{id} cannot be given messages: {why}. Do not try again; start another agent."
            ))
        };
        let stored = self.parts.store.read(id).await.map_err(|error| match error {
            StoreError::NotFound(_) => gone("there is no such agent"),
            error => gone(&error.to_string()),
        })?;
        if stored.header.parent_session.as_ref() != Some(&parent.scope().session_id)
            || stored.header.delegation_depth == 0
        {
            return Err(SubagentError::Unauthorized(format!("{id} is no child of this agent")));
        }
        let Some(child) = descriptor(&stored.records) else {
            return Err(gone("it was started for one task only"));
        };
        if !child.is_continuable {
            return Err(gone("it was started for one task only"));
        }
        self.check_room(&parent.scope().session_id)?;
        let OpenedSession { session, log } =
            self.parts.store.open(id).await.map_err(|error| gone(&error.to_string()))?;
        let member = NewMember {
            label: child.label,
            is_continuable: true,
            call_id: None,
            created_at: session.header.created_at,
        };
        let limits = Limits { allow: child.allow, deny: child.deny, output_schema: None };
        self.admit(parent, session.header, log, session.records, member, &limits)
    }

    /// Opens the session and makes it a member.
    fn admit(
        &self,
        parent: &Arc<Session>,
        header: SessionHeader,
        log: Arc<dyn SessionLog>,
        records: Vec<Record>,
        new: NewMember,
        limits: &Limits,
    ) -> Result<Arc<Session>, SubagentError> {
        let shared = parent.shared();
        let registry = shared.pipeline.registry();
        let scope = registry.open_scope(None);
        let key = Some(scope.key());
        let unsupported = |error: RegistryError| SubagentError::Unsupported(error.to_string());
        if limits.allow.is_some() || limits.deny.is_some() {
            let restriction = Restriction {
                allow: limits.allow.clone().map(|names| names.into_iter().collect()),
                deny: limits.deny.clone().map(|names| names.into_iter().collect()),
            };
            registry.restrict(key, restriction).map_err(unsupported)?.keep();
        }
        let mut own = Vec::new();
        if new.is_continuable {
            own.push(self.parts.report.clone());
        }
        if let Some(schema) = &limits.output_schema {
            own.push((self.parts.structured_output)(schema.clone()));
        }
        for tool in own {
            registry.register(key, tool, Registration::default()).map_err(unsupported)?.keep();
        }
        let id = header.id.clone();
        let asked = Asked::default();
        let host = parent.host();
        let mut services = parent.scope().services.clone();
        services.approval = Arc::new(ChildApproval {
            inner: services.approval,
            parent: host.clone(),
            parent_id: parent.scope().session_id.clone(),
            label: new.label.clone(),
            asked: asked.clone(),
        });
        services.blobs = log.blobs();
        services.subagents = Some(self.of(id.clone()));
        let mode = host.mode();
        let session = Session::open(SessionParts {
            header,
            log,
            records,
            services,
            models: shared.models.clone(),
            pipeline: shared.pipeline.clone(),
            scope: key,
            tool_source: None,
            hooks: shared.hooks.clone(),
            observer: ChildWatch::new(host.clone(), new.call_id.clone(), asked, registry.clone(), key),
            default_mode: if mode == Mode::Plan { Mode::ReadOnly } else { mode },
            network: parent.scope().network,
            instructions_file: shared.instructions_file.clone(),
            max_turn_requests: shared.max_turn_requests,
            model_titles: false,
            commands: Vec::new(),
            parent: Some(host),
        });
        let kept = Kept { _session: session.clone(), _scope: scope };
        let child = Child {
            parent: parent.scope().session_id.clone(),
            label: new.label,
            is_continuable: new.is_continuable,
            call_id: new.call_id,
            created_at: new.created_at,
            _keeps: Arc::new(kept),
        };
        let mut members = self.lock();
        if !members.contains_key(&child.parent) {
            return Err(SubagentError::Draining);
        }
        members.insert(id, Member { session: Arc::downgrade(&session), child: Some(child) });
        Ok(session)
    }
}

struct NewMember {
    label: String,
    is_continuable: bool,
    call_id: Option<CallId>,
    created_at: i64,
}

/// What a stored child says of itself.
pub(super) struct Descriptor {
    pub is_continuable: bool,
    pub label: String,
    allow: Option<Vec<String>>,
    deny: Option<Vec<String>>,
}

/// Who a child is: the last that its own part of the log says.
pub(super) fn descriptor(records: &[Record]) -> Option<Descriptor> {
    records.iter().rev().find_map(|record| match &record.event {
        SessionEvent::SubagentDescriptor { continuable, label, allow, deny } => Some(Descriptor {
            is_continuable: *continuable,
            label: label.clone(),
            allow: allow.clone(),
            deny: deny.clone(),
        }),
        _ => None,
    })
}

/// The message by which the parent speaks to a child.
pub(super) fn from_parent(parent: &SessionId) -> MessageSource {
    MessageSource::Coordinator { session: parent.to_string() }
}

/// How the child ended, from its log and its last turn.
pub(super) fn end_of(session: &Session, end: &PromptEnd, is_structured: bool) -> ChildEnd {
    let (mut stop, mut diagnostic) = match end {
        PromptEnd::Turn(reason) => stop_of(reason),
        PromptEnd::Command => (ChildStop::Completed, None),
        PromptEnd::CancelledInQueue | PromptEnd::Closed => (ChildStop::Aborted, None),
        PromptEnd::Refused(reason) | PromptEnd::LogFailed(reason) => (ChildStop::Error, Some(reason.clone())),
        PromptEnd::QueueFull => (ChildStop::Error, Some("too many messages wait for this agent".to_owned())),
    };
    let (text, value) = session.with_records(|records| (last_text(records), captured(records)));
    let value = value.filter(|_| is_structured && stop == ChildStop::Completed);
    if is_structured && stop == ChildStop::Completed && value.is_none() {
        (stop, diagnostic) =
            (ChildStop::Error, Some(format!("it ended without calling {STRUCTURED_OUTPUT}")));
    }
    ChildEnd { session: session.scope().session_id.clone(), stop, diagnostic, text, value }
}

fn stop_of(reason: &TurnEndReason) -> (ChildStop, Option<String>) {
    match reason {
        TurnEndReason::Completed => (ChildStop::Completed, None),
        TurnEndReason::Aborted { .. } => (ChildStop::Aborted, None),
        TurnEndReason::Blocked | TurnEndReason::Refused => (ChildStop::Refusal, None),
        TurnEndReason::MaxTokens => (ChildStop::MaxTokens, None),
        TurnEndReason::MaxTurnRequests => {
            (ChildStop::Error, Some("it reached the most requests of one turn".to_owned()))
        }
        TurnEndReason::Interrupted => (ChildStop::Error, None),
        TurnEndReason::Error { message, .. } => (ChildStop::Error, Some(message.clone())),
    }
}

/// The last message of the child's own part that says something.
fn last_text(records: &[Record]) -> String {
    let own = records.iter().rev().take_while(|record| !matches!(record.event, SessionEvent::EndSeed {}));
    own.filter_map(|record| match &record.event {
        SessionEvent::AssistantMessage { message, .. } => {
            let texts: Vec<&str> = message
                .blocks
                .iter()
                .filter_map(|block| match block {
                    AssistantBlock::Text { text } => Some(text.as_str()),
                    _ => None,
                })
                .collect();
            Some(texts.concat()).filter(|text| !text.trim().is_empty())
        }
        _ => None,
    })
    .next()
    .unwrap_or_default()
}

/// The arguments of the last call that gave the object and was taken.
fn captured(records: &[Record]) -> Option<Value> {
    let mut taken = None;
    for record in records.iter().rev() {
        match &record.event {
            SessionEvent::ToolResult { message, error: None, .. } if taken.is_none() && !message.is_error => {
                taken = Some(message.call_id.clone());
            }
            SessionEvent::ToolCall { call_id, name, arguments, .. } if taken.as_ref() == Some(call_id) => {
                if name == STRUCTURED_OUTPUT {
                    return Some(parse_arguments(arguments));
                }
                taken = None;
            }
            _ => {}
        }
    }
    None
}

async fn append_all(log: &Arc<dyn SessionLog>, records: Vec<Record>) -> Result<Vec<Record>, StoreError> {
    if records.is_empty() {
        return Ok(records);
    }
    let log = log.clone();
    let appended = tokio::task::spawn_blocking(move || {
        records.iter().try_for_each(|record| log.append(record)).map(|()| records)
    });
    appended.await.map_err(std::io::Error::other)?
}

fn not_stored(error: StoreError) -> SubagentError {
    SubagentError::PersistenceUnavailable(error.to_string())
}

/// A prompt as content.
pub(super) fn prompt_of(text: &str) -> Vec<ContentBlock> {
    vec![ContentBlock::text(text)]
}
