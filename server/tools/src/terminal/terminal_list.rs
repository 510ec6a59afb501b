//! `terminal_list`: the open terminals.

use super::{Snapshot, terminals};
use async_trait::async_trait;
use pipeline::context::ToolContext;
use pipeline::tool::Effect;
use pipeline::typed::TypedTool;
use protocol::card::{CallCard, GenericCall, ToolCallKind};
use protocol::content::ContentBlock;
use protocol::tool::ToolFailure;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

fn row(terminal: &Snapshot) -> String {
    let name = terminal.name.as_ref().map(|name| format!(" ({name})")).unwrap_or_default();
    let pid = terminal.pid.map(|pid| format!(" pid={pid}")).unwrap_or_default();
    format!("{}{name} [{}] {}{pid}", terminal.session_id, terminal.kind, terminal.status.words(" "))
}

/// Arguments of `terminal_list`.
#[derive(Debug, Deserialize, JsonSchema)]
pub struct TerminalListArgs {}

/// What came of it.
#[derive(Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(transparent)]
pub struct TerminalListOutput(Vec<Snapshot>);

/// The tool.
pub struct TerminalList;

#[async_trait]
impl TypedTool for TerminalList {
    type Args = TerminalListArgs;
    type Output = TerminalListOutput;

    const NAME: &'static str = "terminal_list";

    fn description(&self) -> String {
        "Lists your terminals: id, name, type, whether the shell runs, and its process id.".to_owned()
    }

    fn is_concurrency_safe(&self, _args: &TerminalListArgs) -> bool {
        true
    }

    fn effect(&self, _args: &TerminalListArgs) -> Effect {
        Effect::None
    }

    async fn execute(
        &self,
        _args: TerminalListArgs,
        ctx: &ToolContext,
    ) -> Result<TerminalListOutput, ToolFailure> {
        let own = terminals(ctx)?.list(&ctx.session.session_id);
        Ok(TerminalListOutput(own.into_iter().map(Snapshot::from).collect()))
    }

    fn render(&self, _args: &TerminalListArgs, output: &TerminalListOutput) -> Vec<ContentBlock> {
        let rows: Vec<String> = output.0.iter().map(row).collect();
        let text = if rows.is_empty() { "(no terminal sessions)".to_owned() } else { rows.join("\n") };
        vec![ContentBlock::text(text)]
    }

    fn present_call(&self, _args: &TerminalListArgs) -> Option<CallCard> {
        Some(CallCard::Generic(GenericCall {
            title: "List terminal sessions".to_owned(),
            kind: ToolCallKind::Read,
            ..GenericCall::default()
        }))
    }
}
