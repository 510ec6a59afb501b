//! `session_event_search`: events of one session that speak of something. Reads its stored log only.

use super::*;
use async_trait::async_trait;
use pipeline::tool::Effect;
use pipeline::typed::TypedTool;
use protocol::content::ContentBlock;
use std::time::Duration;

/// Arguments of `session_event_search`.
#[derive(Debug, Deserialize, JsonSchema)]
pub struct SessionEventSearchArgs {
    /// The session to search; the present one when left out, up to the step that runs.
    session_id: Option<String>,
    /// Words that must stand one after another; case does not count and every character is literal.
    query: String,
    /// Only events from this seq on.
    seq_from: Option<i64>,
    /// Only events up to this seq.
    seq_to: Option<i64>,
    /// Only events at or after this time, for instance 2026-01-31T08:30:00Z.
    time_from: Option<String>,
    /// Only events at or before this time.
    time_to: Option<String>,
    /// Only events of these types, for instance user/message or tool/result.
    event_types: Option<Vec<String>>,
    /// Only events that the model is shown (current), that were replaced (shadowed), or neither (log-only).
    surfaces: Option<Vec<SurfaceName>>,
}

/// The tool.
pub struct SessionEventSearch;

#[async_trait]
impl TypedTool for SessionEventSearch {
    type Args = SessionEventSearchArgs;
    type Output = String;

    const NAME: &'static str = "session_event_search";

    fn description(&self) -> String {
        "Finds events of one session of this workspace in which a phrase stands, best first, with their seq for \
         session_event_read. In the present session, what came before the current step is searched. At most 100."
            .to_owned()
    }

    fn timeout(&self) -> Option<Duration> {
        Some(session_search::TIMEOUT)
    }

    fn effect(&self, _args: &SessionEventSearchArgs) -> Effect {
        Effect::None
    }

    async fn execute(&self, args: SessionEventSearchArgs, ctx: &ToolContext) -> Result<String, ToolFailure> {
        let phrase = phrase(&args.query)?;
        not_empty("event_types", args.event_types.as_deref())?;
        not_empty("surfaces", args.surfaces.as_deref())?;
        let filter = Filter {
            phrase,
            seqs: seqs(args.seq_from, args.seq_to)?,
            times: interval(args.time_from.as_deref(), args.time_to.as_deref())?,
            types: args.event_types,
            surfaces: surfaces(args.surfaces),
        };
        let corpus = Corpus::open(ctx).await?;
        let session = corpus.target(args.session_id.as_deref())?;
        let mut records = corpus.read(session).await?.records;
        if session.header.id == *corpus.own() {
            let step =
                records.iter().rposition(|record| matches!(record.event, SessionEvent::StepStart { .. }));
            let step = step.ok_or_else(|| failure("TOOL_NO_CURRENT_STEP", "the session has no step yet"))?;
            records.truncate(step);
        }
        let mut hits = find_all(ctx, &filter, &records).await?;
        hits.sort();
        let heading = format!("Session: {} — {}", session.header.id, title(session));
        if hits.is_empty() {
            return Ok(format!("{heading}\nNo event matches."));
        }
        let has_more = hits.len() > MAX_HITS;
        hits.truncate(MAX_HITS);
        let mut parts = vec![heading];
        let numbered = hits.iter().enumerate();
        parts.extend(numbered.map(|(idx, hit)| format!("{}. {}\n{}", idx + 1, hit_line(hit), hit.snippet)));
        if has_more {
            parts.push(format!("Only the best {MAX_HITS} are shown; there are more."));
        }
        Ok(parts.join("\n\n"))
    }

    fn render(&self, _args: &SessionEventSearchArgs, output: &String) -> Vec<ContentBlock> {
        vec![ContentBlock::text(output)]
    }

    fn present_call(&self, args: &SessionEventSearchArgs) -> Option<CallCard> {
        card(format!("Search session events for {}", args.query.trim()), ToolCallKind::Search)
    }
}
