//! `report`: tells the agent that delegated something before the work is done. Only children have it.
//!
//! Source: `spec/tools-agentic.md` §9.

use super::send_message::Accepted;
use super::subagents;
use crate::arguments::not_blank;
use async_trait::async_trait;
use pipeline::context::ToolContext;
use pipeline::tool::{Effect, PromptSection};
use pipeline::typed::TypedTool;
use protocol::card::{CallCard, GenericCall, ToolCallKind};
use protocol::content::ContentBlock;
use protocol::tool::ToolFailure;
use schemars::JsonSchema;
use serde::Deserialize;

/// Arguments of `report`.
#[derive(Debug, Deserialize, JsonSchema)]
pub struct ReportArgs {
    /// What to tell; it must stand alone.
    pub output: String,
}

/// The tool.
pub struct Report;

#[async_trait]
impl TypedTool for Report {
    type Args = ReportArgs;
    type Output = Accepted;

    const NAME: &'static str = "report";

    fn description(&self) -> String {
        "Tells the agent that gave you this task something now, without ending your turn: the result before you finish, or \
         earlier a finding that changes what it does next."
            .to_owned()
    }

    fn effect(&self, _args: &ReportArgs) -> Effect {
        Effect::None
    }

    async fn execute(&self, args: ReportArgs, ctx: &ToolContext) -> Result<Accepted, ToolFailure> {
        not_blank("output", &args.output)?;
        let message_id = subagents(ctx)?.report(args.output).await?;
        Ok(Accepted { message_id: message_id.to_string() })
    }

    fn render(&self, _args: &ReportArgs, output: &Accepted) -> Vec<ContentBlock> {
        vec![ContentBlock::text(format!("The report was accepted ({}).", output.message_id))]
    }

    fn present_call(&self, _args: &ReportArgs) -> Option<CallCard> {
        Some(CallCard::Generic(GenericCall {
            title: "Report".to_owned(),
            kind: ToolCallKind::Other,
            ..GenericCall::default()
        }))
    }

    fn section(&self) -> Option<PromptSection> {
        Some(PromptSection {
            name: "tool:report".to_owned(),
            order_tenths: 1170,
            text: "Before you finish, give your result with `report`, complete in itself: the agent that delegated to you does \
                   not see this conversation. Report earlier what changes its next step. Reporting does not end your turn."
                .to_owned(),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use pipeline::fake::FakeSession;
    use pipeline::tool::Tool;
    use pipeline::typed::Typed;
    use protocol::id::SessionId;
    use serde_json::json;
    use services::fake::World;
    use services::subagents::SubagentError;

    #[tokio::test]
    async fn a_report_goes_to_the_parent_or_says_why_not() {
        let session = FakeSession::new(World::new());
        let tool = Typed::new(Report);
        let arguments = json!({ "output": "Half done." });
        let value = tool.execute(&arguments, &session.context("report", arguments.clone())).await.unwrap();
        assert_eq!(value, json!({ "messageId": "msg-1" }));
        assert_eq!(session.world.subagents.sent(), [(SessionId::new("parent"), "Half done.".to_owned())]);
        session.world.subagents.delivers(Err(SubagentError::ParentUnavailable));
        let failure =
            tool.execute(&arguments, &session.context("report", arguments.clone())).await.unwrap_err();
        assert_eq!(failure.code(), Some("PARENT_UNAVAILABLE"));
    }
}
