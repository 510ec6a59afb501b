//! `terminal_signal`: signals the programs in the foreground.

use super::terminal;
use async_trait::async_trait;
use pipeline::context::ToolContext;
use pipeline::tool::Effect;
use pipeline::typed::TypedTool;
use protocol::card::{CallCard, GenericCall, ToolCallKind};
use protocol::content::ContentBlock;
use protocol::tool::ToolFailure;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use services::terminals::TerminalSignal as Signal;

/// A signal.
#[derive(Clone, Copy, Debug, Serialize, Deserialize, JsonSchema)]
#[schemars(inline)]
pub enum SignalName {
    #[serde(rename = "SIGINT")]
    Int,
    #[serde(rename = "SIGTERM")]
    Term,
    #[serde(rename = "SIGKILL")]
    Kill,
    #[serde(rename = "SIGTSTP")]
    Tstp,
    #[serde(rename = "SIGHUP")]
    Hup,
}

/// Arguments of `terminal_signal`.
#[derive(Debug, Deserialize, JsonSchema)]
pub struct TerminalSignalArgs {
    /// The terminal's id, `pty-<n>`.
    #[serde(rename = "sessionId")]
    session_id: String,
    /// The signal.
    signal: SignalName,
}

/// What came of it.
#[derive(Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct TerminalSignalOutput {
    /// Always true.
    delivered: bool,
    /// The process group it went to.
    target_pgid: i32,
}

/// The tool.
pub struct TerminalSignal;

#[async_trait]
impl TypedTool for TerminalSignal {
    type Args = TerminalSignalArgs;
    type Output = TerminalSignalOutput;

    const NAME: &'static str = "terminal_signal";

    fn description(&self) -> String {
        "Sends a signal to the program in the foreground of a terminal, or to the shell when none runs. SIGKILL to the shell is refused; use terminal_close.".to_owned()
    }

    fn effect(&self, _args: &TerminalSignalArgs) -> Effect {
        Effect::None
    }

    async fn execute(
        &self,
        args: TerminalSignalArgs,
        ctx: &ToolContext,
    ) -> Result<TerminalSignalOutput, ToolFailure> {
        let signal = match args.signal {
            SignalName::Int => Signal::Int,
            SignalName::Term => Signal::Term,
            SignalName::Kill => Signal::Kill,
            SignalName::Tstp => Signal::Tstp,
            SignalName::Hup => Signal::Hup,
        };
        let target_pgid = terminal(ctx, &args.session_id)?.signal(signal)?;
        Ok(TerminalSignalOutput { delivered: true, target_pgid })
    }

    fn render(&self, args: &TerminalSignalArgs, output: &TerminalSignalOutput) -> Vec<ContentBlock> {
        let name = serde_json::to_value(args.signal).ok();
        let name = name.as_ref().and_then(serde_json::Value::as_str).unwrap_or("signal");
        vec![ContentBlock::text(format!("sent {name} to process group {}", output.target_pgid))]
    }

    fn present_call(&self, args: &TerminalSignalArgs) -> Option<CallCard> {
        Some(CallCard::Generic(GenericCall {
            title: format!("Signal terminal {}", args.session_id),
            kind: ToolCallKind::Execute,
            ..GenericCall::default()
        }))
    }
}
