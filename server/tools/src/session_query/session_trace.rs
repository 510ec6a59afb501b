//! `session_trace`: what a session was forked or delegated from, and what came of it. Reads the session list only.

use super::*;
use async_trait::async_trait;
use pipeline::tool::Effect;
use pipeline::typed::TypedTool;
use protocol::content::ContentBlock;

/// Arguments of `session_trace`.
#[derive(Debug, Deserialize, JsonSchema)]
pub struct SessionTraceArgs {
    /// The session; the present one when left out.
    session_id: Option<String>,
}

/// The tool.
pub struct SessionTrace;

#[async_trait]
impl TypedTool for SessionTrace {
    type Args = SessionTraceArgs;
    type Output = String;

    const NAME: &'static str = "session_trace";

    fn description(&self) -> String {
        "Shows the sessions a session descends from, nearest first, and the tree of those that descend from it. Sessions \
         of other workspaces are only marked."
            .to_owned()
    }

    fn is_concurrency_safe(&self, _args: &SessionTraceArgs) -> bool {
        true
    }

    fn effect(&self, _args: &SessionTraceArgs) -> Effect {
        Effect::None
    }

    async fn execute(&self, args: SessionTraceArgs, ctx: &ToolContext) -> Result<String, ToolFailure> {
        let corpus = Corpus::open(ctx).await?;
        let target = corpus.target(args.session_id.as_deref())?;
        let mut lines = vec![
            format!("Session: {} — {}", target.header.id, title(target)),
            format!("Created: {}", times::format(target.header.created_at)),
            format!("Availability: {}", corpus.availability(target)),
            "Ancestors:".to_owned(),
        ];
        let (mut seen, mut at) = (vec![&target.header.id], target);
        while let Some(parent) = &at.header.parent_session {
            if seen.contains(&parent) {
                return Err(failure("INVALID_LINEAGE", "the session descends from itself"));
            }
            seen.push(parent);
            let Some(session) = corpus.summary(parent) else {
                lines.push(format!("- {OUTSIDE}"));
                break;
            };
            lines.push(format!("- {}", row(&corpus, session)));
            at = session;
        }
        if seen.len() == 1 {
            lines.push("none (root)".to_owned());
        }
        lines.push("Descendants:".to_owned());
        let n_before = lines.len();
        // The lineage above is no circle, so neither is anything below: each session has one parent.
        let mut open = children(&corpus, target, 0);
        while let Some((session, depth)) = open.pop() {
            let indent = "  ".repeat(depth);
            if corpus.may_see(session) {
                lines.push(format!("{indent}- {}", row(&corpus, session)));
                open.extend(children(&corpus, session, depth + 1));
            } else {
                lines.push(format!("{indent}- {OUTSIDE}"));
            }
        }
        if lines.len() == n_before {
            lines.push("none".to_owned());
        }
        Ok(lines.join("\n"))
    }

    fn render(&self, _args: &SessionTraceArgs, output: &String) -> Vec<ContentBlock> {
        vec![ContentBlock::text(output)]
    }

    fn present_call(&self, args: &SessionTraceArgs) -> Option<CallCard> {
        let name = args.session_id.as_deref().unwrap_or("this session");
        card(format!("Trace {name}"), ToolCallKind::Read)
    }
}

/// The children of a session, last first.
fn children<'a>(
    corpus: &'a Corpus<'_>,
    of: &SessionSummary,
    depth: usize,
) -> Vec<(&'a SessionSummary, usize)> {
    let is_child = |session: &&SessionSummary| session.header.parent_session.as_ref() == Some(&of.header.id);
    let mut children: Vec<_> = corpus.sessions.iter().filter(is_child).collect();
    children.sort_by_key(|session| std::cmp::Reverse((session.header.created_at, &session.header.id)));
    children.into_iter().map(|session| (session, depth)).collect()
}

fn row(corpus: &Corpus<'_>, session: &SessionSummary) -> String {
    let (created, availability) = (times::format(session.header.created_at), corpus.availability(session));
    format!("{} — {} | {created} | {availability}", session.header.id, title(session))
}
