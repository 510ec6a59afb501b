//! `session_event_trace`: what replaced an event, and what it replaced. Reads one stored log only.

use super::*;
use async_trait::async_trait;
use pipeline::tool::Effect;
use pipeline::typed::TypedTool;
use protocol::content::ContentBlock;

/// Arguments of `session_event_trace`.
#[derive(Debug, Deserialize, JsonSchema)]
pub struct SessionEventTraceArgs {
    /// The session; the present one when left out.
    session_id: Option<String>,
    /// Seq of the event.
    seq: i64,
}

/// The tool.
pub struct SessionEventTrace;

#[async_trait]
impl TypedTool for SessionEventTrace {
    type Args = SessionEventTraceArgs;
    type Output = String;

    const NAME: &'static str = "session_event_trace";

    fn description(&self) -> String {
        "Shows what an event of a session is to the model's history: whether it is still in it, what replaced it, what it \
         replaced, and which events cite it."
            .to_owned()
    }

    fn is_concurrency_safe(&self, _args: &SessionEventTraceArgs) -> bool {
        true
    }

    fn effect(&self, _args: &SessionEventTraceArgs) -> Effect {
        Effect::None
    }

    async fn execute(&self, args: SessionEventTraceArgs, ctx: &ToolContext) -> Result<String, ToolFailure> {
        let corpus = Corpus::open(ctx).await?;
        let session = corpus.target(args.session_id.as_deref())?;
        let records = corpus.read(session).await?.records;
        let record = &records[position(&records, args.seq)?];
        // No event of this log format replaces or cites another one.
        Ok(format!(
            "Session: {} — {}\nEvent: {}\nReplaced by: none\nReplacement chain: none\nReplaces: none\nSources: \
             none\nCited by: none",
            session.header.id,
            title(session),
            line(record)
        ))
    }

    fn render(&self, _args: &SessionEventTraceArgs, output: &String) -> Vec<ContentBlock> {
        vec![ContentBlock::text(output)]
    }

    fn present_call(&self, args: &SessionEventTraceArgs) -> Option<CallCard> {
        card(format!("Trace event {}", args.seq), ToolCallKind::Read)
    }
}
