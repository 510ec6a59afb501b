//! `session_search`: which past sessions of the workspace speak of something. Reads stored logs only.

use super::*;
use async_trait::async_trait;
use pipeline::tool::{Effect, PromptSection};
use pipeline::typed::TypedTool;
use protocol::content::ContentBlock;
use protocol::event::SessionHeader;
use services::session_query::Found;
use std::time::Duration;

/// Budget of one search.
pub(super) const TIMEOUT: Duration = Duration::from_secs(30);

/// Arguments of `session_search`.
#[derive(Debug, Deserialize, JsonSchema)]
pub struct SessionSearchArgs {
    /// Words that must stand one after another; case does not count and every character is literal.
    query: String,
    /// Only these sessions.
    session_ids: Option<Vec<String>>,
    /// Only sessions created at or after this time, for instance 2026-01-31T08:30:00Z.
    created_at_from: Option<String>,
    /// Only sessions created at or before this time.
    created_at_to: Option<String>,
    /// Only direct children of these sessions.
    parent_session_ids: Option<Vec<String>>,
    /// With true, sessions without a parent too; alone, only those.
    include_root_sessions: Option<bool>,
    /// Only sessions that are open, or only stored ones.
    availability: Option<Vec<Availability>>,
    /// Only events from this seq on.
    event_seq_from: Option<i64>,
    /// Only events up to this seq.
    event_seq_to: Option<i64>,
    /// Only events at or after this time.
    event_time_from: Option<String>,
    /// Only events at or before this time.
    event_time_to: Option<String>,
    /// Only events of these types, for instance user/message or tool/result.
    event_types: Option<Vec<String>>,
    /// Only events that the model is shown (current), that were replaced (shadowed), or neither (log-only).
    event_surfaces: Option<Vec<SurfaceName>>,
}

/// Where a session is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum Availability {
    Live,
    Persisted,
}

/// The tool.
pub struct SessionSearch;

#[async_trait]
impl TypedTool for SessionSearch {
    type Args = SessionSearchArgs;
    type Output = String;

    const NAME: &'static str = "session_search";

    fn description(&self) -> String {
        "Finds past sessions of this workspace in which a phrase was said, written or returned by a tool, with the best \
         match of each. The present session is not among them. At most 100; narrow the filters when there are more."
            .to_owned()
    }

    fn timeout(&self) -> Option<Duration> {
        Some(TIMEOUT)
    }

    fn effect(&self, _args: &SessionSearchArgs) -> Effect {
        Effect::None
    }

    async fn execute(&self, args: SessionSearchArgs, ctx: &ToolContext) -> Result<String, ToolFailure> {
        let phrase = phrase(&args.query)?;
        not_empty("session_ids", args.session_ids.as_deref())?;
        not_empty("parent_session_ids", args.parent_session_ids.as_deref())?;
        not_empty("availability", args.availability.as_deref())?;
        not_empty("event_types", args.event_types.as_deref())?;
        not_empty("event_surfaces", args.event_surfaces.as_deref())?;
        let created = interval(args.created_at_from.as_deref(), args.created_at_to.as_deref())?;
        let filter = Filter {
            phrase,
            seqs: seqs(args.event_seq_from, args.event_seq_to)?,
            times: interval(args.event_time_from.as_deref(), args.event_time_to.as_deref())?,
            types: args.event_types,
            surfaces: surfaces(args.event_surfaces),
        };
        let corpus = Corpus::open(ctx).await?;
        let is_wanted = |session: &SessionSummary| {
            let named = |list: &[String], id: &SessionId| list.iter().any(|name| name == id.as_str());
            let roots = args.include_root_sessions == Some(true);
            let parents = args.parent_session_ids.as_deref();
            let fits_parent = match &session.header.parent_session {
                None => roots || parents.is_none(),
                // A parent the caller may not see is not told from one that does not exist.
                Some(parent) => match parents {
                    Some(parents) => named(parents, parent) && corpus.summary(parent).is_some(),
                    None => !roots,
                },
            };
            corpus.may_see(session)
                && session.header.id != *corpus.own()
                && created.contains(&session.header.created_at)
                && fits_parent
                && args.session_ids.as_deref().is_none_or(|ids| named(ids, &session.header.id))
                && args.availability.as_deref().is_none_or(|list| list.contains(&Availability::Persisted))
        };
        let wanted: Vec<&SessionSummary> =
            corpus.sessions.iter().filter(|session| is_wanted(session)).collect();
        let (found, note) = search(&corpus, &filter, &wanted).await?;
        let mut parts = Vec::new();
        // Only what was asked about is told, whoever answered.
        let hits = found.hits.iter().filter_map(|(id, hit)| {
            wanted.iter().find(|session| session.header.id == *id).map(|session| (session, hit))
        });
        for (idx, (session, hit)) in hits.enumerate() {
            parts.push(format!(
                "{}. {} — {}\nCreated: {}\nParent: {}\nAvailability: {}\nBest match: {}\n{}",
                idx + 1,
                session.header.id,
                title(session),
                times::format(session.header.created_at),
                corpus.parent(session),
                corpus.availability(session),
                hit_line(hit),
                hit.snippet
            ));
        }
        match parts.len() {
            0 => parts.push("No past session of this workspace matches.".to_owned()),
            n_found => parts.insert(0, format!("Sessions found: {n_found}")),
        }
        if found.has_more {
            parts.push(format!("Only the best {MAX_HITS} are shown; there are more."));
        }
        if found.n_unreadable > 0 {
            parts.push(format!("{} could not be read.", sessions(found.n_unreadable)));
        }
        if found.n_waiting > 0 {
            let waiting = sessions(found.n_waiting);
            parts.push(format!(
                "Not everything was searched in time ({waiting}); the same search again goes on."
            ));
        }
        parts.extend(note);
        Ok(parts.join("\n\n"))
    }

    fn render(&self, _args: &SessionSearchArgs, output: &String) -> Vec<ContentBlock> {
        vec![ContentBlock::text(output)]
    }

    fn present_call(&self, args: &SessionSearchArgs) -> Option<CallCard> {
        card(format!("Search past sessions for {}", args.query.trim()), ToolCallKind::Search)
    }

    fn section(&self) -> Option<PromptSection> {
        Some(PromptSection {
            name: "tool:session-query".to_owned(),
            order_tenths: 1130,
            text: "Past sessions of this workspace can be searched: find them with `session_search` or events with \
                   `session_event_search` first, then read with `session_event_read` or follow `session_trace` and \
                   `session_event_trace`. Results have no next page; narrow the query instead."
                .to_owned(),
        })
    }
}

/// The best event of each session: by the index, else by reading every log, and then why.
async fn search(
    corpus: &Corpus<'_>,
    filter: &Filter,
    wanted: &[&SessionSummary],
) -> Result<(Found, Option<String>), ToolFailure> {
    let ctx = corpus.ctx;
    let mut note = None;
    if let Some(index) = &ctx.services().session_index {
        let headers: Vec<SessionHeader> = wanted.iter().map(|session| session.header.clone()).collect();
        let existing: Vec<SessionId> =
            corpus.sessions.iter().map(|session| session.header.id.clone()).collect();
        let answer = index.best(filter, &headers, &existing, MAX_HITS, &ctx.cancel);
        let found = unless_cancelled(ctx, answer).await?;
        match found {
            Ok(found) => return Ok((found, None)),
            Err(IndexError::Cancelled) => return Err(ToolFailure::aborted()),
            Err(IndexError::TimedOut) => {
                return Err(failure("INDEX_FAILED", "the search took too long; narrow the query"));
            }
            Err(IndexError::Unavailable(reason)) => {
                note =
                    Some(format!("The search index cannot be used ({reason}); every log was read instead."));
            }
        }
    }
    Ok((scan(corpus, filter, wanted).await?, note))
}

/// Reads every log.
async fn scan(
    corpus: &Corpus<'_>,
    filter: &Filter,
    wanted: &[&SessionSummary],
) -> Result<Found, ToolFailure> {
    let mut found = Found::default();
    for session in wanted {
        match corpus.read_parts(session).await {
            Ok(records) => {
                let best = find_all(corpus.ctx, filter, &records).await?.into_iter().min();
                found.hits.extend(best.map(|hit| (session.header.id.clone(), hit)));
            }
            Err(failure) if failure.code() == Some("ABORTED") => return Err(failure),
            // Deleted or damaged since it was listed: the others are still worth telling.
            Err(_) => found.n_unreadable += 1,
        }
    }
    services::session_query::sort(&mut found.hits);
    found.has_more = found.hits.len() > MAX_HITS;
    found.hits.truncate(MAX_HITS);
    Ok(found)
}

fn sessions(n: usize) -> String {
    if n == 1 { "1 session".to_owned() } else { format!("{n} sessions") }
}
