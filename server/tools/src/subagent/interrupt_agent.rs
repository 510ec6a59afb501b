//! `interrupt_agent`: ends the present turn of an agent below this one. Source: `spec/tools-agentic.md` §8.2.

use super::subagents;
use crate::arguments::not_blank;
use async_trait::async_trait;
use pipeline::context::ToolContext;
use pipeline::tool::Effect;
use pipeline::typed::TypedTool;
use protocol::card::{CallCard, GenericCall, ToolCallKind};
use protocol::content::ContentBlock;
use protocol::id::SessionId;
use protocol::tool::ToolFailure;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Arguments of `interrupt_agent`.
#[derive(Debug, Deserialize, JsonSchema)]
pub struct InterruptArgs {
    /// Id of the agent; one that you started, or that such an agent started.
    pub agent_id: String,
}

/// What was done.
#[derive(Debug, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Interrupted {
    /// Always true.
    accepted: bool,
}

/// The tool.
pub struct InterruptAgent;

#[async_trait]
impl TypedTool for InterruptAgent {
    type Args = InterruptArgs;
    type Output = Interrupted;

    const NAME: &'static str = "interrupt_agent";

    fn description(&self) -> String {
        "Ends what an agent does now, and returns at once. Agents that it started itself go on. It can be given a further \
         message afterwards. An agent that has ended already is left as it is."
            .to_owned()
    }

    fn effect(&self, _args: &InterruptArgs) -> Effect {
        Effect::None
    }

    async fn execute(&self, args: InterruptArgs, ctx: &ToolContext) -> Result<Interrupted, ToolFailure> {
        not_blank("agent_id", &args.agent_id)?;
        subagents(ctx)?.interrupt(&SessionId::new(args.agent_id)).await?;
        Ok(Interrupted { accepted: true })
    }

    fn render(&self, args: &InterruptArgs, _output: &Interrupted) -> Vec<ContentBlock> {
        vec![ContentBlock::text(format!("The interrupt of {} was requested.", args.agent_id))]
    }

    fn present_call(&self, args: &InterruptArgs) -> Option<CallCard> {
        Some(CallCard::Generic(GenericCall {
            title: format!("Interrupt {}", args.agent_id),
            kind: ToolCallKind::Other,
            ..GenericCall::default()
        }))
    }
}

#[cfg(test)]
mod tests {
    use crate::testing::Bench;
    use serde_json::json;
    use services::subagents::SubagentError;

    #[tokio::test]
    async fn an_interrupt_is_accepted_or_refused() {
        let bench = Bench::new();
        let agent = json!({ "agent_id": "ses_1" });
        let ran = bench.call("interrupt_agent", agent.clone()).await;
        assert_eq!(
            (ran.value(), ran.text()),
            (&json!({ "accepted": true }), "The interrupt of ses_1 was requested.")
        );
        bench.world().subagents.delivers(Err(SubagentError::Unauthorized("itself".to_owned())));
        assert_eq!(bench.call("interrupt_agent", agent).await.code(), "UNAUTHORIZED");
    }
}
