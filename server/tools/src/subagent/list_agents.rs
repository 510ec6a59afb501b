//! `list_agents`: the agents below this one. Source: `spec/tools-agentic.md` §8.3.

use super::subagents;
use async_trait::async_trait;
use pipeline::context::ToolContext;
use pipeline::tool::Effect;
use pipeline::typed::TypedTool;
use protocol::card::{CallCard, GenericCall, ToolCallKind};
use protocol::content::ContentBlock;
use protocol::tool::ToolFailure;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use services::subagents::{AgentEntry, AgentState};

/// Arguments of `list_agents`.
#[derive(Debug, Deserialize, JsonSchema)]
pub struct ListArgs {
    /// `children` (default) are those that you started; `descendants` also those that they started.
    pub scope: Option<Scope>,
}

/// Which agents.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum Scope {
    Children,
    Descendants,
}

/// An agent of the list.
#[derive(Debug, Serialize, Deserialize, JsonSchema)]
#[serde(tag = "kind", rename_all = "lowercase", deny_unknown_fields)]
pub enum Listed {
    /// One that can be written to.
    Child {
        /// Its id.
        id: String,
        /// What it does.
        label: String,
        /// `running`, `idle`, or `ready` when it has ended and a message wakes it.
        status: String,
        /// The agent that started it.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        parent: Option<String>,
        /// 1 for one that you started.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        depth: Option<u32>,
    },
    /// One whose log cannot be read.
    Diagnostic {
        /// Its id.
        id: String,
        /// `corrupt`, `unsupported` or `unavailable`.
        reason: String,
        /// The agent that started it.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        parent: Option<String>,
        /// 1 for one that you started.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        depth: Option<u32>,
    },
}

/// The tool.
pub struct ListAgents;

#[async_trait]
impl TypedTool for ListAgents {
    type Args = ListArgs;
    type Output = Vec<Listed>;

    const NAME: &'static str = "list_agents";

    fn description(&self) -> String {
        "Lists the background agents below you with id, status and what each does. running: it works; idle: it waits; ready: \
         it has ended, and send_message wakes it."
            .to_owned()
    }

    fn is_concurrency_safe(&self, _args: &ListArgs) -> bool {
        true
    }

    fn effect(&self, _args: &ListArgs) -> Effect {
        Effect::None
    }

    async fn execute(&self, args: ListArgs, ctx: &ToolContext) -> Result<Vec<Listed>, ToolFailure> {
        let descendants = args.scope == Some(Scope::Descendants);
        let listing = subagents(ctx)?.list(descendants);
        let entries = ctx.cancel.run_until_cancelled(listing).await.ok_or_else(ToolFailure::aborted)??;
        Ok(entries.into_iter().map(|entry| listed(entry, descendants)).collect())
    }

    fn render(&self, _args: &ListArgs, agents: &Vec<Listed>) -> Vec<ContentBlock> {
        let rows: Vec<String> = agents.iter().map(row).collect();
        let text = if rows.is_empty() { "(no subagents)".to_owned() } else { rows.join("\n") };
        vec![ContentBlock::text(text)]
    }

    fn present_call(&self, _args: &ListArgs) -> Option<CallCard> {
        Some(CallCard::Generic(GenericCall {
            title: "List agents".to_owned(),
            kind: ToolCallKind::Read,
            ..GenericCall::default()
        }))
    }
}

fn listed(entry: AgentEntry, with_place: bool) -> Listed {
    let id = entry.id.to_string();
    let parent = with_place.then(|| entry.parent.to_string());
    let depth = with_place.then_some(entry.depth);
    let child = |label: String, status: &str| Listed::Child {
        id: id.clone(),
        label,
        status: status.to_owned(),
        parent: parent.clone(),
        depth,
    };
    let diagnostic = |reason: &str| Listed::Diagnostic {
        id: id.clone(),
        reason: reason.to_owned(),
        parent: parent.clone(),
        depth,
    };
    match entry.state {
        AgentState::Running { label } => child(label, "running"),
        AgentState::Idle { label } => child(label, "idle"),
        AgentState::Ready { label } => child(label, "ready"),
        AgentState::Corrupt => diagnostic("corrupt"),
        AgentState::Unsupported => diagnostic("unsupported"),
        AgentState::Unavailable => diagnostic("unavailable"),
    }
}

fn row(agent: &Listed) -> String {
    let place = |parent: &Option<String>, depth: &Option<u32>| match (parent, depth) {
        (Some(parent), Some(depth)) => format!(" parent={parent} depth={depth}"),
        _ => String::new(),
    };
    match agent {
        Listed::Child { id, label, status, parent, depth } => {
            format!("{id} [{status}]{} — {label}", place(parent, depth))
        }
        Listed::Diagnostic { id, reason, parent, depth } => {
            format!("{id} [diagnostic: {reason}]{}", place(parent, depth))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::Bench;
    use protocol::id::SessionId;
    use serde_json::json;

    fn entry(id: &str, state: AgentState, parent: &str, depth: u32) -> AgentEntry {
        AgentEntry { id: SessionId::new(id), state, parent: SessionId::new(parent), depth }
    }

    #[tokio::test]
    async fn agents_are_listed_with_their_places_when_all_are_asked_for() {
        let bench = Bench::new();
        assert_eq!(bench.call("list_agents", json!({})).await.text(), "(no subagents)");
        let label = |text: &str| text.to_owned();
        bench.world().subagents.lists(vec![
            entry("a", AgentState::Running { label: label("Look") }, "top", 1),
            entry("b", AgentState::Ready { label: label("Deep") }, "a", 2),
            entry("c", AgentState::Idle { label: label("Wait") }, "top", 1),
            entry("d", AgentState::Corrupt, "top", 1),
        ]);
        let ran = bench.call("list_agents", json!({ "scope": "children" })).await;
        assert_eq!(ran.text(), "a [running] — Look\nc [idle] — Wait\nd [diagnostic: corrupt]");
        let ran = bench.call("list_agents", json!({ "scope": "descendants" })).await;
        assert_eq!(
            ran.text(),
            "a [running] parent=top depth=1 — Look\nb [ready] parent=a depth=2 — Deep\n\
             c [idle] parent=top depth=1 — Wait\nd [diagnostic: corrupt] parent=top depth=1"
        );
        assert_eq!(
            ran.value()[1],
            json!({ "kind": "child", "id": "b", "label": "Deep", "status": "ready", "parent": "a", "depth": 2 })
        );
        assert!(bench.tool("list_agents").is_concurrency_safe(&json!({})));
    }
}
