//! `get_goal`: what the session's goal is.

use super::{GoalOutput, goals};
use async_trait::async_trait;
use pipeline::context::ToolContext;
use pipeline::tool::{Effect, PromptSection};
use pipeline::typed::TypedTool;
use protocol::card::{CallCard, GenericCall, ToolCallKind};
use protocol::content::ContentBlock;
use protocol::tool::ToolFailure;
use schemars::JsonSchema;
use serde::Deserialize;

/// Arguments of `get_goal`.
#[derive(Debug, Deserialize, JsonSchema)]
pub struct GetGoalArgs {}

/// The tool.
pub struct GetGoal;

#[async_trait]
impl TypedTool for GetGoal {
    type Args = GetGoalArgs;
    type Output = GoalOutput;

    const NAME: &'static str = "get_goal";

    fn description(&self) -> String {
        "Reads the session's goal: id, revision, objective, phase (active, paused, blocked, complete), rounds begun and \
         allowed, what blocks it, and its activation. armed: the session goes on with it by itself; disarmed: it does \
         not, for instance since the session was opened again. goal is null where there is none. Read it before you \
         update it."
            .to_owned()
    }

    fn is_concurrency_safe(&self, _args: &GetGoalArgs) -> bool {
        true
    }

    fn effect(&self, _args: &GetGoalArgs) -> Effect {
        Effect::None
    }

    async fn execute(&self, _args: GetGoalArgs, ctx: &ToolContext) -> Result<GoalOutput, ToolFailure> {
        Ok(goals(ctx)?.0.current().into())
    }

    fn render(&self, _args: &GetGoalArgs, output: &GoalOutput) -> Vec<ContentBlock> {
        output.render()
    }

    fn present_call(&self, _args: &GetGoalArgs) -> Option<CallCard> {
        Some(CallCard::Generic(GenericCall {
            title: "Read current goal".to_owned(),
            kind: ToolCallKind::Read,
            ..GenericCall::default()
        }))
    }

    fn section(&self) -> Option<PromptSection> {
        Some(PromptSection {
            name: "tool:goal".to_owned(),
            order_tenths: 1140,
            text: "A goal is the one long-running objective of this session: after your turn the session goes on with it by \
                   itself, round after round. Create one with `create_goal` only when the user wants that, in whatever \
                   language they say it; routine work needs none. Read it with `get_goal` before `update_goal`, and copy \
                   its id and revision. After the session was opened again or forked the goal is disarmed: use `resume` \
                   when the user asks to go on. Mark it `complete` only when the objective is really reached and you have \
                   seen the evidence. Mark it `blocked` only when the same obstacle has stopped you for at least 3 rounds in \
                   a row, and never because the work is hard, slow or unclear."
                .to_owned(),
        })
    }
}
