//! `session_event_read`: one event whole, and what was said around it. Reads one stored log only.

use super::*;
use async_trait::async_trait;
use pipeline::tool::Effect;
use pipeline::typed::TypedTool;
use protocol::content::ContentBlock;

/// Most events shown on one side.
const MAX_WINDOW: usize = 50;

/// Arguments of `session_event_read`.
#[derive(Debug, Deserialize, JsonSchema)]
pub struct SessionEventReadArgs {
    /// The session; the present one when left out.
    session_id: Option<String>,
    /// Seq of the event.
    seq: i64,
    /// How many events before it are listed, at most 50. Default 0.
    before: Option<i64>,
    /// How many events after it are listed, at most 50. Default 0.
    after: Option<i64>,
}

/// The tool.
pub struct SessionEventRead;

#[async_trait]
impl TypedTool for SessionEventRead {
    type Args = SessionEventReadArgs;
    type Output = String;

    const NAME: &'static str = "session_event_read";

    fn description(&self) -> String {
        "Reads one event of a session of this workspace, whole, as JSON, and with before and after the words of up to 50 \
         events on each side."
            .to_owned()
    }

    fn is_concurrency_safe(&self, _args: &SessionEventReadArgs) -> bool {
        true
    }

    fn effect(&self, _args: &SessionEventReadArgs) -> Effect {
        Effect::None
    }

    async fn execute(&self, args: SessionEventReadArgs, ctx: &ToolContext) -> Result<String, ToolFailure> {
        let (n_before, n_after) = (window(args.before)?, window(args.after)?);
        let corpus = Corpus::open(ctx).await?;
        let session = corpus.target(args.session_id.as_deref())?;
        let records = corpus.read(session).await?.records;
        let at = position(&records, args.seq)?;
        let json = serde_json::to_string_pretty(&records[at])
            .map_err(|_| failure("TOOL_FAILED", "the event cannot be written as JSON"))?;
        let mut parts = vec![
            format!("Session: {} — {}", session.header.id, title(session)),
            format!("```json\n{json}\n```"),
        ];
        parts.extend(around("Before", &records[at.saturating_sub(n_before)..at]));
        parts.extend(around("After", &records[at + 1..records.len().min(at + 1 + n_after)]));
        Ok(parts.join("\n\n"))
    }

    fn render(&self, _args: &SessionEventReadArgs, output: &String) -> Vec<ContentBlock> {
        vec![ContentBlock::text(output)]
    }

    fn present_call(&self, args: &SessionEventReadArgs) -> Option<CallCard> {
        card(format!("Read event {}", args.seq), ToolCallKind::Read)
    }
}

fn window(n_events: Option<i64>) -> Result<usize, ToolFailure> {
    let n_events = usize::try_from(n_events.unwrap_or(0)).ok().filter(|n_events| *n_events <= MAX_WINDOW);
    n_events.ok_or_else(|| failure("INVALID_WINDOW", "before and after must be from 0 to 50"))
}

/// A list of events; `None` when there are none.
fn around(heading: &str, records: &[Record]) -> Option<String> {
    if records.is_empty() {
        return None;
    }
    let mut lines = vec![format!("{heading}:")];
    for record in records {
        lines.push(format!("{} | {} | {}", record.seq, kind(&record.event), times::format(record.time)));
        let words = text::of(&record.event);
        match words.is_empty() {
            true => lines.push("    (no text)".to_owned()),
            false => lines.extend(words.lines().map(|line| format!("    {line}"))),
        }
    }
    Some(lines.join("\n"))
}
