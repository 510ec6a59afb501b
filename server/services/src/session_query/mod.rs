//! Searching many past sessions at once.
//!
//! The tools decide who may see which session; an index only answers faster what reading every log would answer. What a
//! match is and which one is better is defined here, for both. Source: `spec/tools-agentic.md` §12.

pub mod text;

use async_trait::async_trait;
use protocol::event::{Record, SessionEvent, SessionHeader};
use protocol::id::{MessageId, SessionId};
use std::cmp::Reverse;
use std::ops::RangeInclusive;
use text::Phrase;
use tokio_util::sync::CancellationToken;

/// A faster way to search than reading every log.
#[async_trait]
pub trait SessionIndex: Send + Sync {
    /// The best event of each of these sessions that has one, best first, at most `max`.
    ///
    /// Takes in first what the logs hold more than at the last time, within a budget of its own, and forgets every session
    /// that is not among `existing`. Dropping the future stops the work as `cancel` does.
    ///
    /// # Errors
    /// [`IndexError`]; the logs can be read all the same.
    async fn best(
        &self,
        filter: &Filter,
        among: &[SessionHeader],
        existing: &[SessionId],
        max: usize,
        cancel: &CancellationToken,
    ) -> Result<Found, IndexError>;

    /// Removes what it holds of a deleted session at once. What fails here is removed before the next search.
    async fn forget(&self, session: &SessionId);
}

/// What a search among sessions found.
#[derive(Debug, Default, PartialEq)]
pub struct Found {
    /// The best event of each session, the best first.
    pub hits: Vec<(SessionId, Hit)>,
    /// Whether further sessions match.
    pub has_more: bool,
    /// Sessions that could not be read.
    pub n_unreadable: usize,
    /// Sessions of which something could not be searched in time; a later search goes on there.
    pub n_waiting: usize,
}

/// Why an index could not answer.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum IndexError {
    /// The caller stopped it.
    #[error("the search was stopped")]
    Cancelled,
    /// The time of one search was over.
    #[error("the search took too long")]
    TimedOut,
    /// Its file cannot be used.
    #[error("{0}")]
    Unavailable(String),
}

/// What an event is to the model's history.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Surface {
    /// In the history.
    Current,
    /// Was in it; the summary of a compaction stands for it.
    Shadowed,
    /// Never in it.
    LogOnly,
}

/// What an event may be to the history, wherever that begins.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Role {
    /// Not part of it.
    LogOnly,
    /// A message.
    Message,
    /// The summary of a compaction.
    Summary,
}

impl Role {
    /// The role of an event.
    pub fn of(event: &SessionEvent) -> Self {
        match event {
            SessionEvent::UserMessage { .. } | SessionEvent::ToolResult { .. } => Self::Message,
            SessionEvent::AssistantMessage { message, .. } if !message.blocks.is_empty() => Self::Message,
            SessionEvent::Compaction { .. } => Self::Summary,
            _ => Self::LogOnly,
        }
    }
}

/// Where the history of a log begins. Positions are those of records in their log, from 0.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct HistoryStart {
    /// First record whose message is still sent as it was.
    pub kept_from: u64,
    /// The compaction whose summary stands for what is before.
    pub summary_at: Option<u64>,
}

impl HistoryStart {
    /// The start in a whole log.
    pub fn of(records: &[Record]) -> Self {
        let mut start = Self::default();
        for (at, record) in (0_u64..).zip(records) {
            if let SessionEvent::Compaction { first_kept, .. } = &record.event {
                let earlier = &records[..usize::try_from(at).unwrap_or(usize::MAX)];
                let kept = first_kept
                    .as_ref()
                    .and_then(|id| earlier.iter().rposition(|record| message_id(&record.event) == Some(id)));
                start = Self { kept_from: kept.map_or(at, |kept| kept as u64), summary_at: Some(at) };
            }
        }
        start
    }

    /// The surface of the record at `at`.
    pub fn surface(self, at: u64, role: Role) -> Surface {
        match role {
            Role::LogOnly => Surface::LogOnly,
            Role::Message if at >= self.kept_from => Surface::Current,
            Role::Summary if self.summary_at == Some(at) => Surface::Current,
            Role::Message | Role::Summary => Surface::Shadowed,
        }
    }
}

/// The id by which a compaction names the first message it keeps.
pub fn message_id(event: &SessionEvent) -> Option<&MessageId> {
    match event {
        SessionEvent::UserMessage { message } => Some(&message.id),
        SessionEvent::AssistantMessage { message, .. } => Some(&message.id),
        _ => None,
    }
}

/// The type of an event, as the log writes it.
pub fn kind(event: &SessionEvent) -> String {
    let event = serde_json::to_value(event).unwrap_or_default();
    event["type"].as_str().unwrap_or("unknown").to_owned()
}

/// What an event must be to be found.
#[derive(Clone, Debug)]
pub struct Filter {
    /// What stands in it.
    pub phrase: Phrase,
    /// Its seq.
    pub seqs: RangeInclusive<u64>,
    /// Its time, milliseconds since the Unix epoch.
    pub times: RangeInclusive<i64>,
    /// Its type is one of these.
    pub types: Option<Vec<String>>,
    /// Its surface is one of these.
    pub surfaces: Option<Vec<Surface>>,
}

impl Filter {
    /// Whether everything but the words fits.
    pub fn fits(&self, seq: u64, time: i64, kind: &str, surface: Surface) -> bool {
        self.seqs.contains(&seq)
            && self.times.contains(&time)
            && self.surfaces.as_ref().is_none_or(|wanted| wanted.contains(&surface))
            && self.types.as_ref().is_none_or(|types| types.iter().any(|wanted| wanted == kind))
    }

    /// The record as a hit, when it is one.
    pub fn find(&self, record: &Record, surface: Surface) -> Option<Hit> {
        let text = text::of(&record.event);
        let (n_matches, at) = self.phrase.find(&text)?;
        let kind = kind(&record.event);
        if !self.fits(record.seq, record.time, &kind, surface) {
            return None;
        }
        Some(Hit {
            matches: Reverse(n_matches),
            n_chars: text.chars().count(),
            time: record.time,
            seq: record.seq,
            kind,
            surface,
            snippet: text::snippet(&text, at),
        })
    }
}

/// A found event. The order of the fields is the order of hits, best first.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Hit {
    /// How often the phrase is in it.
    pub matches: Reverse<usize>,
    /// Length of its text in code points.
    pub n_chars: usize,
    /// Milliseconds since the Unix epoch.
    pub time: i64,
    /// Its seq.
    pub seq: u64,
    /// Its type.
    pub kind: String,
    /// Its surface.
    pub surface: Surface,
    /// One line around the first match.
    pub snippet: String,
}

/// Puts the hits of sessions into their order: the best first, then by session.
pub fn sort(hits: &mut [(SessionId, Hit)]) {
    hits.sort_by(|(a, x), (b, y)| {
        let order = (&x.matches, x.n_chars, x.time).cmp(&(&y.matches, y.n_chars, y.time));
        order.then_with(|| a.cmp(b)).then_with(|| x.seq.cmp(&y.seq))
    });
}
