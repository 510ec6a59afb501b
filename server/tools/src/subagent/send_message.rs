//! `send_message`: gives a child of this agent its next task. Source: `spec/tools-agentic.md` §8.1.

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

/// Arguments of `send_message`.
#[derive(Debug, Deserialize, JsonSchema)]
pub struct SendArgs {
    /// Id of the agent, as `subagent` gave it.
    pub subagent_id: String,
    /// What it is to do next. It knows its own conversation, not this one.
    pub message: String,
}

/// A message that was accepted.
#[derive(Debug, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Accepted {
    /// Id of the message.
    pub(super) message_id: String,
}

/// The tool.
pub struct SendMessage;

#[async_trait]
impl TypedTool for SendMessage {
    type Args = SendArgs;
    type Output = Accepted;

    const NAME: &'static str = "send_message";

    fn description(&self) -> String {
        "Gives an agent that you started its next turn: after the one it runs, or at once when it waits or has ended. Only \
         agents that you started yourself and that work in the background can be written to. An error means that nothing \
         was delivered."
            .to_owned()
    }

    fn effect(&self, _args: &SendArgs) -> Effect {
        Effect::None
    }

    async fn execute(&self, args: SendArgs, ctx: &ToolContext) -> Result<Accepted, ToolFailure> {
        not_blank("subagent_id", &args.subagent_id)?;
        not_blank("message", &args.message)?;
        let id = SessionId::new(args.subagent_id);
        let sending = subagents(ctx)?.send(&id, args.message);
        let message_id = ctx.cancel.run_until_cancelled(sending).await.ok_or_else(ToolFailure::aborted)??;
        Ok(Accepted { message_id: message_id.to_string() })
    }

    fn render(&self, args: &SendArgs, output: &Accepted) -> Vec<ContentBlock> {
        let text = format!("Queued as the next turn of {} ({}).", args.subagent_id, output.message_id);
        vec![ContentBlock::text(text)]
    }

    fn present_call(&self, args: &SendArgs) -> Option<CallCard> {
        Some(CallCard::Generic(GenericCall {
            title: format!("Message to {}", args.subagent_id),
            kind: ToolCallKind::Other,
            content: vec![ContentBlock::text(args.message.clone())],
            ..GenericCall::default()
        }))
    }
}

#[cfg(test)]
mod tests {
    use crate::testing::Bench;
    use protocol::id::SessionId;
    use serde_json::json;
    use services::subagents::SubagentError;

    #[tokio::test]
    async fn a_message_is_queued_or_refused() {
        let bench = Bench::new();
        let message = json!({ "subagent_id": "ses_1", "message": "Go on." });
        let ran = bench.call("send_message", message.clone()).await;
        assert_eq!(
            (ran.value(), ran.text()),
            (&json!({ "messageId": "msg-1" }), "Queued as the next turn of ses_1 (msg-1).")
        );
        assert_eq!(bench.world().subagents.sent(), [(SessionId::new("ses_1"), "Go on.".to_owned())]);
        for (error, code) in [
            (SubagentError::Unauthorized("no".to_owned()), "UNAUTHORIZED"),
            (SubagentError::NotResumable("no".to_owned()), "NOT_RESUMABLE"),
            (SubagentError::Draining, "DRAINING"),
        ] {
            bench.world().subagents.delivers(Err(error));
            assert_eq!(bench.call("send_message", message.clone()).await.code(), code);
        }
    }
}
