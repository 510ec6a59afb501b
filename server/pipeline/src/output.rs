//! The output contract: from the value a body returned to what models and people read.
//!
//! Source: `spec/pipeline.md` §2.

use crate::caught::caught_sync;
use crate::tool::Tool;
use protocol::schema;
use protocol::tool::{Outcome, ToolFailure};
use serde_json::Value;

/// Validates and renders a value. A broken contract is the failure `INVALID_TOOL_OUTPUT`.
pub(crate) fn succeed(tool: &dyn Tool, arguments: &Value, value: Value, concludes_turn: bool) -> Outcome {
    match project(tool, arguments, &value) {
        Ok((content, meta)) => {
            Outcome { result: Ok(value), content, meta, additional_contexts: Vec::new(), concludes_turn }
        }
        Err(violations) => {
            schema::lossless::drop_value(value);
            Outcome::failed(invalid_output(&tool.schema().name, &violations))
        }
    }
}

type Projection = (Vec<protocol::content::ContentBlock>, Option<Value>);

fn project(tool: &dyn Tool, arguments: &Value, value: &Value) -> Result<Projection, Vec<String>> {
    if !schema::is_lossless(value) {
        return Err(vec!["the value is not lossless JSON".to_owned()]);
    }
    let violations = schema::validate(tool.output_schema(), value, "value");
    if !violations.is_empty() {
        return Err(violations);
    }
    let content = projected("output.render", || tool.render(arguments, value))?;
    let meta = projected("output.presentationMeta", || tool.presentation_meta(arguments, value))?;
    if meta.as_ref().is_some_and(|meta| !schema::is_lossless(meta)) {
        return Err(vec!["output.presentationMeta returned no lossless JSON".to_owned()]);
    }
    Ok((content, meta))
}

fn projected<T>(what: &str, project: impl FnOnce() -> Result<T, String>) -> Result<T, Vec<String>> {
    let result = caught_sync(what, project).map_err(|failure| failure.message).and_then(|result| result);
    result.map_err(|reason| vec![format!("{what} failed: {reason}")])
}

/// The failure for a value, a renderer or a projector that broke the contract.
pub(crate) fn invalid_output(name: &str, violations: &[String]) -> ToolFailure {
    ToolFailure::coded(
        "ToolOutputError",
        "INVALID_TOOL_OUTPUT",
        format!("{name} returned invalid output: {}", violations.join("; ")),
    )
}

/// The failure for a name that cannot be executed here and now.
pub(crate) fn unknown_tool(name: &str) -> ToolFailure {
    ToolFailure::coded(
        "ToolNotFoundError",
        "UNKNOWN_TOOL",
        format!("there is no tool named {name:?} here now"),
    )
}

/// The failure for a tool that only programs reach.
pub(crate) fn program_only(name: &str) -> ToolFailure {
    ToolFailure::coded(
        "ToolNotFoundError",
        "UNKNOWN_TOOL",
        format!("{name} cannot be called directly here; call tools.{name}(…) in a run_code program"),
    )
}

/// What is wrong with arguments that are no object; `None` when they are one. Such a call never runs.
pub(crate) fn argument_failure(arguments: &Value) -> Option<ToolFailure> {
    let found = match arguments {
        Value::Object(_) => return None,
        // Raw text that did not parse arrives as a string: say where it breaks.
        Value::String(raw) => match serde_json::from_str::<serde::de::IgnoredAny>(raw) {
            Ok(_) => "a string".to_owned(),
            Err(error) => format!("text that is not valid JSON ({error})"),
        },
        Value::Array(_) => "an array".to_owned(),
        Value::Null => "null".to_owned(),
        Value::Bool(_) => "a boolean".to_owned(),
        Value::Number(_) => "a number".to_owned(),
    };
    Some(ToolFailure::coded(
        "ToolArgsError",
        "INVALID_ARGS",
        format!(
            "invalid arguments: expected one JSON object, got {found}; nothing was run, send the call again"
        ),
    ))
}
