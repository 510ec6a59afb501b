//! What the model can call: one folder a family, one file a tool.
//!
//! Called by the composition, which hands [`all_tools`] to each session's tool set. Tools reach the world through
//! services only, and describe what they show as cards; they know no client and no wire.

pub mod ask;
pub mod code;
pub mod files;
pub mod goal;
pub mod jobs;
pub mod lsp;
pub mod mcp;
pub mod plan;
pub mod schedule;
pub mod search;
pub mod session_query;
pub mod shell;
pub mod skills;
pub mod subagent;
pub mod terminal;
pub mod web;
pub mod workflow;

mod arguments;
mod denial;
mod prepared;
mod schema;
#[cfg(test)]
mod testing;

use pipeline::tool::Tool;
use pipeline::typed::{Typed, TypedTool};
use std::sync::Arc;

/// Which tools are listed.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ToolChoice {
    /// Opt-in families that are listed too; `all` lists every one. Unknown names change nothing.
    pub enable: Vec<String>,
    /// Names of tools that are never listed.
    pub disable: Vec<String>,
}

impl ToolChoice {
    fn enables(&self, family: &str) -> bool {
        self.enable.iter().any(|enabled| enabled == family || enabled == "all")
    }
}

/// Every tool that `choice` lists, in the order in which the model sees them.
pub fn all_tools(choice: &ToolChoice) -> Vec<Arc<dyn Tool>> {
    let mut tools = Vec::new();
    tools.extend(files::tools());
    if choice.enables(files::STR_REPLACE_EDITOR) {
        tools.extend(files::editor_tools());
    }
    tools.extend(search::tools());
    tools.extend(shell::tools());
    if choice.enables(shell::PWSH) {
        tools.extend(shell::pwsh_tools());
    }
    if choice.enables(terminal::TERMINAL) {
        tools.extend(terminal::tools());
    }
    tools.extend(jobs::tools());
    tools.extend(web::tools());
    tools.extend(lsp::tools());
    tools.extend(plan::tools());
    tools.extend(goal::tools());
    if choice.enables(schedule::SCHEDULE) {
        tools.extend(schedule::tools());
    }
    tools.extend(ask::tools());
    tools.extend(skills::tools());
    tools.extend(subagent::tools());
    tools.extend(workflow::tools());
    if choice.enables(session_query::SESSION_QUERY) {
        tools.extend(session_query::tools());
    }
    tools.retain(|tool| !choice.disable.contains(&tool.schema().name));
    tools
}

/// Registers a typed tool.
fn listed(tool: impl TypedTool) -> Arc<dyn Tool> {
    Arc::new(Typed::new(tool))
}
