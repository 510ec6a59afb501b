//! `session_event_trace`: what replaced an event, and what it replaced. Reads one stored log only.
//!
//! Only compactions replace: each stands for the messages before those it keeps, an earlier summary included. No event
//! of this log format cites another one.

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
        let at = position(&records, args.seq)?;
        let links = Links::of(&records, at);
        Ok(format!(
            "Session: {} — {}\nEvent: {}\nReplaced by: {}\nReplacement chain: {}\nReplaces: {}\nSources: \
             none\nCited by: none",
            session.header.id,
            title(session),
            line(&records, at),
            listed(&links.chain[..links.chain.len().min(1)]),
            listed(&links.chain),
            listed(&links.replaces),
        ))
    }

    fn render(&self, _args: &SessionEventTraceArgs, output: &String) -> Vec<ContentBlock> {
        vec![ContentBlock::text(output)]
    }

    fn present_call(&self, args: &SessionEventTraceArgs) -> Option<CallCard> {
        card(format!("Trace event {}", args.seq), ToolCallKind::Read)
    }
}

/// What a compaction makes of the events, by seq.
#[derive(Debug, Default)]
struct Links {
    /// What replaced the event, what replaced that, and so on.
    chain: Vec<u64>,
    /// What the event replaced.
    replaces: Vec<u64>,
}

impl Links {
    fn of(records: &[Record], target: usize) -> Self {
        let mut links = Self::default();
        let mut at = target;
        for (end, record) in records.iter().enumerate() {
            if Role::of(&record.event) != Role::Summary {
                continue;
            }
            let (before, after) = (HistoryStart::of(&records[..end]), HistoryStart::of(&records[..=end]));
            let is_replaced = |at: usize| {
                let role = Role::of(&records[at].event);
                before.surface(at as u64, role) == Surface::Current
                    && after.surface(at as u64, role) == Surface::Shadowed
            };
            if end == target {
                links.replaces = (0..end).filter(|at| is_replaced(*at)).map(|at| records[at].seq).collect();
            }
            if at < end && is_replaced(at) {
                links.chain.push(record.seq);
                at = end;
            }
        }
        links
    }
}

fn listed(seqs: &[u64]) -> String {
    match seqs {
        [] => "none".to_owned(),
        seqs => seqs.iter().map(u64::to_string).collect::<Vec<_>>().join(", "),
    }
}
