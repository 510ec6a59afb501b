//! Search and reading of past sessions of the same workspace.
//!
//! All five tools go through [`Corpus`], which is where authority is decided: a session may be seen when it is the
//! caller's own or its folder is exactly the caller's. An unknown and a foreign session are told apart by nothing.
//! Source: `spec/tools-agentic.md` §12.

pub mod session_event_read;
pub mod session_event_search;
pub mod session_event_trace;
pub mod session_search;
pub mod session_trace;
mod times;

use crate::listed;
use pipeline::context::ToolContext;
use pipeline::tool::Tool;
use protocol::card::{CallCard, GenericCall, ToolCallKind};
use protocol::event::{Record, SessionEvent};
use protocol::id::SessionId;
use protocol::tool::ToolFailure;
use schemars::JsonSchema;
use serde::Deserialize;
use services::session_query::text::{self, Phrase};
use services::session_query::{Filter, HistoryStart, Hit, IndexError, Role, Surface, kind};
use services::session_store::{SessionStore, SessionSummary, StoreError, StoredSession};
use std::ops::RangeInclusive;
use std::sync::Arc;
use times::Bound;

/// Name of the opt-in family.
pub const SESSION_QUERY: &str = "session_query";
/// Most hits of one search.
const MAX_HITS: usize = 100;
/// How many records are searched before others may run.
const RECORDS_A_PIECE: usize = 256;
/// What stands for a session of another folder.
const OUTSIDE: &str = "[outside workspace]";

/// The tools of the family.
pub fn tools() -> Vec<Arc<dyn Tool>> {
    vec![
        listed(session_search::SessionSearch),
        listed(session_event_search::SessionEventSearch),
        listed(session_trace::SessionTrace),
        listed(session_event_trace::SessionEventTrace),
        listed(session_event_read::SessionEventRead),
    ]
}

/// A surface, as the model names it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum SurfaceName {
    Current,
    Shadowed,
    LogOnly,
}

impl From<SurfaceName> for Surface {
    fn from(name: SurfaceName) -> Self {
        match name {
            SurfaceName::Current => Self::Current,
            SurfaceName::Shadowed => Self::Shadowed,
            SurfaceName::LogOnly => Self::LogOnly,
        }
    }
}

fn surfaces(names: Option<Vec<SurfaceName>>) -> Option<Vec<Surface>> {
    names.map(|names| names.into_iter().map(Surface::from).collect())
}

fn surface_id(surface: Surface) -> &'static str {
    match surface {
        Surface::Current => "current",
        Surface::Shadowed => "shadowed",
        Surface::LogOnly => "log-only",
    }
}

/// Every stored session, and who asks.
struct Corpus<'a> {
    store: &'a dyn SessionStore,
    ctx: &'a ToolContext,
    sessions: Vec<SessionSummary>,
}

impl<'a> Corpus<'a> {
    async fn open(ctx: &'a ToolContext) -> Result<Self, ToolFailure> {
        let store = ctx.services().sessions.as_deref();
        let store =
            store.ok_or_else(|| failure("SEARCH_DISABLED", "past sessions cannot be searched here"))?;
        let sessions = unless_cancelled(ctx, store.list()).await?.map_err(|error| safe(&error))?;
        Ok(Self { store, ctx, sessions })
    }

    fn own(&self) -> &SessionId {
        &self.ctx.execution.session_id
    }

    fn may_see(&self, session: &SessionSummary) -> bool {
        session.header.id == *self.own() || session.header.cwd == self.ctx.session.cwd
    }

    fn summary(&self, id: &SessionId) -> Option<&SessionSummary> {
        self.sessions.iter().find(|session| session.header.id == *id && self.may_see(session))
    }

    /// The named session, else the caller's own.
    fn target(&self, id: Option<&str>) -> Result<&SessionSummary, ToolFailure> {
        let id = id.map_or_else(|| self.own().clone(), SessionId::new);
        self.summary(&id).ok_or_else(|| {
            failure("TOOL_UNAUTHORIZED", "there is no such session, or it is not of this workspace")
        })
    }

    /// A log, with authority asked again of what was read.
    async fn read(&self, session: &SessionSummary) -> Result<StoredSession, ToolFailure> {
        let read = unless_cancelled(self.ctx, self.store.read(&session.header.id)).await?;
        let stored = read.map_err(|error| safe(&error))?;
        if stored.header.id != *self.own() && stored.header.cwd != self.ctx.session.cwd {
            return Err(failure(
                "TOOL_UNAUTHORIZED",
                "there is no such session, or it is not of this workspace",
            ));
        }
        Ok(stored)
    }

    /// Every record of a log that is whole, read part by part.
    async fn read_parts(&self, session: &SessionSummary) -> Result<Vec<Record>, ToolFailure> {
        let (mut records, mut mark) = (Vec::new(), None);
        loop {
            let read = unless_cancelled(self.ctx, self.store.read_part(&session.header, mark)).await?;
            let part = read.map_err(|error| safe(&error))?;
            if part.is_start {
                records.clear();
            }
            records.extend(part.records);
            mark = Some(part.mark);
            if !part.has_more {
                return Ok(records);
            }
        }
    }

    fn availability(&self, session: &SessionSummary) -> &'static str {
        if session.header.id == *self.own() { "live, persisted" } else { "persisted" }
    }

    /// The parent as it may be told.
    fn parent(&self, session: &SessionSummary) -> String {
        match &session.header.parent_session {
            None => "root".to_owned(),
            Some(parent) if self.summary(parent).is_some() => parent.to_string(),
            Some(_) => OUTSIDE.to_owned(),
        }
    }
}

fn title(session: &SessionSummary) -> &str {
    session.title.as_deref().unwrap_or("untitled")
}

async fn unless_cancelled<T>(ctx: &ToolContext, work: impl Future<Output = T>) -> Result<T, ToolFailure> {
    ctx.cancel.run_until_cancelled(work).await.ok_or_else(ToolFailure::aborted)
}

/// A failure with the code `SESSION_QUERY_<code>`.
fn failure(code: &str, message: &str) -> ToolFailure {
    ToolFailure::coded("SessionQueryError", &format!("SESSION_QUERY_{code}"), message)
}

/// A failure of the store without its details, which may name what the caller may not see.
fn safe(error: &StoreError) -> ToolFailure {
    match error {
        StoreError::NotFound(_) => {
            failure("TOOL_UNAUTHORIZED", "there is no such session, or it is not of this workspace")
        }
        StoreError::Corrupt { .. } => failure("CORRUPT_SESSION", "the log of the session is damaged"),
        StoreError::Io(_) => failure("PERSISTENCE_FAILED", "the stored sessions cannot be read"),
        _ => failure("TOOL_FAILED", "the query failed"),
    }
}

fn invalid_filter(message: &str) -> ToolFailure {
    failure("INVALID_FILTER", message)
}

/// The phrase of a query.
fn phrase(query: &str) -> Result<Phrase, ToolFailure> {
    let found = if query.contains('\0') { None } else { Phrase::new(query) };
    found.ok_or_else(|| failure("INVALID_QUERY", "query must hold a word and no NUL character"))
}

fn not_empty<T>(name: &str, list: Option<&[T]>) -> Result<(), ToolFailure> {
    match list {
        Some([]) => Err(invalid_filter(&format!("{name} must not be an empty list; leave it out"))),
        _ => Ok(()),
    }
}

fn seqs(from: Option<i64>, to: Option<i64>) -> Result<RangeInclusive<u64>, ToolFailure> {
    let seq = |value: i64| u64::try_from(value).map_err(|_| invalid_filter("seqs must not be negative"));
    let range = from.map_or(Ok(0), seq)?..=to.map_or(Ok(u64::MAX), seq)?;
    if range.is_empty() { Err(invalid_filter("the range of seqs is reversed")) } else { Ok(range) }
}

fn interval(from: Option<&str>, to: Option<&str>) -> Result<RangeInclusive<i64>, ToolFailure> {
    let time = |text: &str, bound| {
        times::parse(text, bound)
            .ok_or_else(|| invalid_filter("a time must be like 2026-01-31T08:30:00Z, with its zone"))
    };
    let range = from.map_or(Ok(i64::MIN), |text| time(text, Bound::From))?
        ..=to.map_or(Ok(i64::MAX), |text| time(text, Bound::To))?;
    // Two bounds within one millisecond leave an interval without one, which is empty, not reversed.
    if *range.start() > range.end().saturating_add(1) {
        return Err(invalid_filter("the range of times is reversed"));
    }
    Ok(range)
}

/// `seq | type | surface | time` of a hit.
fn hit_line(hit: &Hit) -> String {
    format!("{} | {} | {} | {}", hit.seq, hit.kind, surface_id(hit.surface), times::format(hit.time))
}

/// `seq | type | surface | time` of the record at `at`.
fn line(records: &[Record], at: usize) -> String {
    let Record { seq, time, event, .. } = &records[at];
    let surface = HistoryStart::of(records).surface(at as u64, Role::of(event));
    format!("{seq} | {} | {} | {}", kind(event), surface_id(surface), times::format(*time))
}

/// Every record that fits, in order. Lets others run and notices a cancel between pieces of work.
async fn find_all(ctx: &ToolContext, filter: &Filter, records: &[Record]) -> Result<Vec<Hit>, ToolFailure> {
    let start = HistoryStart::of(records);
    let mut hits = Vec::new();
    for (at, record) in records.iter().enumerate() {
        if at % RECORDS_A_PIECE == 0 {
            breathe(ctx).await?;
        }
        hits.extend(filter.find(record, start.surface(at as u64, Role::of(&record.event))));
    }
    Ok(hits)
}

/// Gives the thread back once.
async fn breathe(ctx: &ToolContext) -> Result<(), ToolFailure> {
    let mut has_waited = false;
    unless_cancelled(
        ctx,
        std::future::poll_fn(|task| {
            if std::mem::replace(&mut has_waited, true) {
                return std::task::Poll::Ready(());
            }
            task.waker().wake_by_ref();
            std::task::Poll::Pending
        }),
    )
    .await
}

/// The place of an event in a log.
fn position(records: &[Record], seq: i64) -> Result<usize, ToolFailure> {
    let wanted = u64::try_from(seq).map_err(|_| invalid_filter("seq must not be negative"))?;
    records
        .binary_search_by_key(&wanted, |record| record.seq)
        .map_err(|_| failure("EVENT_NOT_FOUND", "the session has no event with this seq"))
}

fn card(title: String, kind: ToolCallKind) -> Option<CallCard> {
    Some(CallCard::Generic(GenericCall { title, kind, ..GenericCall::default() }))
}

#[cfg(test)]
mod tests;
