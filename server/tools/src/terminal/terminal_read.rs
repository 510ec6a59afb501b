//! `terminal_read`: a page of what a terminal printed.

use super::{MAX_RESULT_BYTES, tail, terminal};
use crate::arguments::positive_integer;
use crate::shell::ansi;
use async_trait::async_trait;
use pipeline::context::ToolContext;
use pipeline::tool::Effect;
use pipeline::typed::TypedTool;
use protocol::card::{CallCard, GenericCall, ToolCallKind};
use protocol::content::ContentBlock;
use protocol::tool::ToolFailure;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Lines that can be read.
const MAX_LINES: usize = 10_000;
/// Bytes that the lines after the output may take.
const MARKER_BYTES: usize = 160;

/// Arguments of `terminal_read`.
#[derive(Debug, Deserialize, JsonSchema)]
pub struct TerminalReadArgs {
    /// The terminal's id, `pty-<n>`.
    #[serde(rename = "sessionId")]
    session_id: String,
    /// Lines to leave out at the end, the newest. Default 0.
    offset: Option<f64>,
    /// Most lines to return. Default 500.
    count: Option<f64>,
}

/// What came of it.
#[derive(Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct TerminalReadOutput {
    /// The lines.
    text: String,
    /// Lines that are kept.
    total_lines: u64,
    /// First line of the page, from 0.
    line_begin: u64,
    /// Line after the last of the page.
    line_end: u64,
    /// Whether the beginning of the page is missing.
    truncated: bool,
}

/// The tool.
pub struct TerminalRead;

#[async_trait]
impl TypedTool for TerminalRead {
    type Args = TerminalReadArgs;
    type Output = TerminalReadOutput;

    const NAME: &'static str = "terminal_read";

    fn description(&self) -> String {
        "Reads what a terminal has printed, newest lines last, without waiting; it may be read again. The last 10000 lines are kept. offset counts back from the newest line.".to_owned()
    }

    fn is_concurrency_safe(&self, _args: &TerminalReadArgs) -> bool {
        true
    }

    fn effect(&self, _args: &TerminalReadArgs) -> Effect {
        Effect::None
    }

    async fn execute(
        &self,
        args: TerminalReadArgs,
        ctx: &ToolContext,
    ) -> Result<TerminalReadOutput, ToolFailure> {
        let n_left_out = match args.offset {
            None | Some(0.0) => 0,
            Some(offset) => positive_integer("offset", offset)?,
        };
        let count = args.count.map_or(Ok(500), |count| positive_integer("count", count))?;
        let output = ansi::plain(&terminal(ctx, &args.session_id)?.output());
        let mut lines: Vec<&str> = output.lines().collect();
        lines.drain(..lines.len().saturating_sub(MAX_LINES));
        let total_lines = lines.len() as u64;
        let line_end = total_lines.saturating_sub(n_left_out);
        let line_begin = line_end.saturating_sub(count);
        let page: Vec<&str> = lines
            .into_iter()
            .skip(usize::try_from(line_begin).unwrap_or(MAX_LINES))
            .take(usize::try_from(line_end - line_begin).unwrap_or(MAX_LINES))
            .collect();
        let (text, truncated) = tail(page.join("\n"), MAX_RESULT_BYTES - MARKER_BYTES);
        Ok(TerminalReadOutput { text, total_lines, line_begin, line_end, truncated })
    }

    fn render(&self, _args: &TerminalReadArgs, output: &TerminalReadOutput) -> Vec<ContentBlock> {
        let text = if output.text.is_empty() { "(no retained output)" } else { &output.text };
        let TerminalReadOutput { line_begin, line_end, total_lines, truncated, .. } = output;
        let cut = if *truncated { "\n[output truncated]" } else { "" };
        vec![ContentBlock::text(format!("{text}\n[lines: {line_begin}-{line_end} of {total_lines}]{cut}"))]
    }

    fn present_call(&self, args: &TerminalReadArgs) -> Option<CallCard> {
        Some(CallCard::Generic(GenericCall {
            title: format!("Read terminal {}", args.session_id),
            kind: ToolCallKind::Read,
            ..GenericCall::default()
        }))
    }
}
