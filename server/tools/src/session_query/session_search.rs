//! `session_search`: which past sessions of the workspace speak of something. Reads stored logs only.

use super::*;
use async_trait::async_trait;
use pipeline::tool::{Effect, PromptSection};
use pipeline::typed::TypedTool;
use protocol::content::ContentBlock;
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
    event_surfaces: Option<Vec<Surface>>,
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
            surfaces: args.event_surfaces,
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
        let mut found = Vec::new();
        for session in corpus.sessions.iter().filter(|session| is_wanted(session)) {
            let stored = match corpus.read(session).await {
                Ok(stored) => stored,
                Err(failure) if failure.code() == Some("ABORTED") => return Err(failure),
                // Deleted or damaged since it was listed: the others are still worth telling.
                Err(_) => continue,
            };
            if let Some(hit) = stored.records.iter().filter_map(|record| filter.find(record)).min() {
                found.push((session, hit));
            }
        }
        found.sort_by(|(a, x), (b, y)| {
            let order = (&x.matches, x.n_chars, x.time).cmp(&(&y.matches, y.n_chars, y.time));
            order.then_with(|| a.header.id.cmp(&b.header.id))
        });
        if found.is_empty() {
            return Ok("No past session of this workspace matches.".to_owned());
        }
        let has_more = found.len() > MAX_HITS;
        found.truncate(MAX_HITS);
        let mut parts = vec![format!("Sessions found: {}", found.len())];
        for (idx, (session, hit)) in found.iter().enumerate() {
            parts.push(format!(
                "{}. {} — {}\nCreated: {}\nParent: {}\nAvailability: {}\nBest match: {}\n{}",
                idx + 1,
                session.header.id,
                title(session),
                times::format(session.header.created_at),
                corpus.parent(session),
                corpus.availability(session),
                hit.line,
                hit.snippet
            ));
        }
        if has_more {
            parts.push(format!("Only the best {MAX_HITS} are shown; there are more."));
        }
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
