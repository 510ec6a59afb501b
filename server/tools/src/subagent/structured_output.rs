//! `structured_output`: how a child gives an object of a schema that its parent chose. Only such children have it.
//!
//! Source: `spec/tools-agentic.md` §7, structured children.

use async_trait::async_trait;
use pipeline::context::ToolContext;
use pipeline::tool::{Effect, PromptSection, Tool};
use protocol::card::{CallCard, GenericCall, ToolCallKind};
use protocol::content::ContentBlock;
use protocol::schema;
use protocol::tool::{ToolFailure, ToolSchema};
use serde_json::{Value, json};
use services::subagents::STRUCTURED_OUTPUT;

/// The tool for one schema.
pub struct StructuredOutput {
    schema: ToolSchema,
    output: Value,
}

impl StructuredOutput {
    /// The tool that takes an object of `parameters`, which is in the supported subset.
    pub fn new(parameters: Value) -> Self {
        let description = "Gives your result. Call it exactly once, when your work is done; it ends your turn. The agent that \
                           gave you this task reads nothing else."
            .to_owned();
        let schema = ToolSchema { name: STRUCTURED_OUTPUT.to_owned(), description, parameters };
        Self { schema, output: json!({ "type": "string" }) }
    }
}

#[async_trait]
impl Tool for StructuredOutput {
    fn schema(&self) -> &ToolSchema {
        &self.schema
    }

    fn output_schema(&self) -> &Value {
        &self.output
    }

    fn effect(&self, _arguments: &Value) -> Effect {
        Effect::None
    }

    async fn execute(&self, arguments: &Value, ctx: &ToolContext) -> Result<Value, ToolFailure> {
        let violations = schema::validate(&self.schema.parameters, arguments, "");
        if !violations.is_empty() {
            let message = format!("the result does not fit: {}. Call it again.", violations.join("; "));
            return Err(ToolFailure::coded("ToolError", "INVALID_ARGS", message));
        }
        ctx.conclude_turn();
        Ok(json!("The result was taken."))
    }

    fn render(&self, _arguments: &Value, value: &Value) -> Result<Vec<ContentBlock>, String> {
        Ok(vec![ContentBlock::text(value.as_str().unwrap_or_default())])
    }

    fn present_call(&self, _arguments: &Value) -> Option<CallCard> {
        Some(CallCard::Generic(GenericCall {
            title: "Give the result".to_owned(),
            kind: ToolCallKind::Other,
            ..GenericCall::default()
        }))
    }

    fn section(&self) -> Option<PromptSection> {
        Some(PromptSection {
            name: "tool:structured_output".to_owned(),
            order_tenths: 1900,
            text: "Your result is the one call of `structured_output`. Text alone is no result: do not end your turn without \
                   that call."
                .to_owned(),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use pipeline::fake::FakeSession;
    use services::fake::World;

    #[tokio::test]
    async fn a_fitting_object_ends_the_turn_and_another_is_asked_for_again() {
        let tool = StructuredOutput::new(json!({
            "type": "object", "properties": { "n": { "type": "number" } }, "required": ["n"],
        }));
        let session = FakeSession::new(World::new());
        let ctx = session.context(STRUCTURED_OUTPUT, json!({}));
        let failure = tool.execute(&json!({ "n": "x" }), &ctx).await.unwrap_err();
        assert_eq!(failure.code(), Some("INVALID_ARGS"));
        assert!(!ctx.take_effects().1);
        tool.execute(&json!({ "n": 1 }), &ctx).await.unwrap();
        assert!(ctx.take_effects().1);
    }
}
