//! Agents that the agent starts, and how it speaks with them.
//!
//! `report` and `structured_output` are not listed: the family of agents gives them to the children that need them.

pub mod delegate;
pub mod interrupt_agent;
pub mod list_agents;
pub mod report;
pub mod send_message;
pub mod structured_output;

use crate::listed;
use pipeline::context::ToolContext;
use pipeline::tool::Tool;
use protocol::tool::ToolFailure;
use services::subagents::Subagents;
use std::sync::Arc;

/// The tools of the family.
pub fn tools() -> Vec<Arc<dyn Tool>> {
    vec![
        listed(delegate::Subagent),
        listed(delegate::SubagentFork),
        listed(send_message::SendMessage),
        listed(interrupt_agent::InterruptAgent),
        listed(list_agents::ListAgents),
    ]
}

/// The tool by which a child that works beside its parent reports.
pub fn report() -> Arc<dyn Tool> {
    listed(report::Report)
}

/// The family of the calling agent.
///
/// # Errors
/// A plain failure where agents cannot be started.
pub(crate) fn subagents(ctx: &ToolContext) -> Result<&dyn Subagents, ToolFailure> {
    let subagents = ctx.services().subagents.as_deref();
    subagents.ok_or_else(|| ToolFailure::plain("no other agents can be started here; do the work yourself"))
}
