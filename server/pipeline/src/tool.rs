//! What a tool is: the schema the model sees, and members only the host sees.

use crate::context::{Execution, ToolContext};
use async_trait::async_trait;
use protocol::card::{CallCard, ResultCard};
use protocol::content::ContentBlock;
use protocol::decision::Preview;
use protocol::tool::{DurableResult, Outcome, ToolFailure, ToolSchema};
use serde_json::Value;
use std::time::Duration;

/// One tool. Only [`Tool::schema`] ever reaches a model. Source: seed on the tool pipeline, `ToolDefinition`.
///
/// Most tools implement [`crate::typed::TypedTool`] instead, whose schemas come from Rust types.
#[async_trait]
pub trait Tool: Send + Sync {
    /// Name, description and parameters: everything the model is told.
    fn schema(&self) -> &ToolSchema;

    /// Schema every successful value is checked against.
    fn output_schema(&self) -> &Value;

    /// Cooperative budget enforced by the timeout policy; `None` is no deadline.
    fn timeout(&self) -> Option<Duration> {
        None
    }

    /// Whether this call may overlap with its neighbours. Pure; invalid arguments are not safe.
    fn is_concurrency_safe(&self, _arguments: &Value) -> bool {
        false
    }

    /// What the call would do to the world, for the permission policy. Pure; the honest worst case.
    fn effect(&self, _arguments: &Value) -> Effect {
        Effect::Unknown
    }

    /// Runs the call and returns its canonical value. Honours `ctx.cancel` and settles only once its work is quiescent.
    ///
    /// # Errors
    /// The tool could not do its job. A domain result that looks bad (exit code 1, no match) is a value.
    async fn execute(&self, arguments: &Value, ctx: &ToolContext) -> Result<Value, ToolFailure>;

    /// The value as the model reads it. Pure.
    ///
    /// # Errors
    /// A text that names what is wrong; the call then ends `INVALID_TOOL_OUTPUT`.
    fn render(&self, arguments: &Value, value: &Value) -> Result<Vec<ContentBlock>, String>;

    /// Replayable presentation data. Pure.
    ///
    /// # Errors
    /// As [`Tool::render`].
    fn presentation_meta(&self, _arguments: &Value, _value: &Value) -> Result<Option<Value>, String> {
        Ok(None)
    }

    /// Content prepared by the execution, before post-policies; `None` keeps the rendered one.
    fn project_content(&self, _execution: &Execution, _outcome: &Outcome) -> Option<Vec<ContentBlock>> {
        None
    }

    /// Last-mile transform of the content, called once for every outcome; total. `None` keeps it.
    fn finalize_content(&self, _execution: &Execution, _outcome: &Outcome) -> Option<Vec<ContentBlock>> {
        None
    }

    /// How the call looks. Pure, from the arguments alone; `None` falls back to the generic card.
    fn present_call(&self, _arguments: &Value) -> Option<CallCard> {
        None
    }

    /// How the result looks. Pure, live and on replay; `None` falls back to the raw content.
    fn present_result(&self, _arguments: &Value, _result: &DurableResult) -> Option<ResultCard> {
        None
    }

    /// What the call would change, found out by reading only; shown with the permission question.
    async fn preview(&self, _arguments: &Value, _ctx: &ToolContext) -> Preview {
        Preview::default()
    }

    /// The tool's own section of the system prompt; `None` has none.
    fn section(&self) -> Option<PromptSection> {
        None
    }
}

/// A section of the system prompt.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PromptSection {
    /// Unique name, for instance `tool:read`.
    pub name: String,
    /// Sections are joined by ascending order, in tenths: 116.5 is 1165. Source: `spec/runtime.md` §5.1.
    pub order_tenths: i32,
    /// The text; an empty one is left out.
    pub text: String,
}

/// What a call would do to the world.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Effect {
    /// It reads, or changes only state of the session.
    None,
    /// It writes this file (path as the model gave it).
    WritesFile {
        /// The path.
        path: String,
    },
    /// It runs this command line.
    RunsCommand {
        /// The command line.
        command: String,
        /// Whether `command` is in the shell's language (else a program's own input).
        is_shell: bool,
    },
    /// It may do anything; its `subject` names what for people and rules.
    Acts {
        /// For instance the tool's own name.
        subject: String,
    },
    /// Nothing is known.
    Unknown,
}
