//! `schedule_list`: the reminders that wait.

use super::{Refusal, View, refused, rendered, schedules};
use async_trait::async_trait;
use pipeline::context::ToolContext;
use pipeline::tool::Effect;
use pipeline::typed::TypedTool;
use protocol::card::{CallCard, GenericCall, ToolCallKind};
use protocol::content::ContentBlock;
use protocol::tool::ToolFailure;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use services::schedules::{ScheduleFailure, ScheduleView};

/// Arguments of `schedule_list`.
#[derive(Debug, Deserialize, JsonSchema)]
pub struct ScheduleListArgs {}

/// The reminders, or why they are not known.
#[derive(Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(untagged)]
pub enum ScheduleListOutput {
    /// In the order in which they were made.
    Listed(Vec<View>),
    /// They are not known.
    Refused(Refusal),
}

/// The tool.
pub struct ScheduleList;

#[async_trait]
impl TypedTool for ScheduleList {
    type Args = ScheduleListArgs;
    type Output = ScheduleListOutput;

    const NAME: &'static str = "schedule_list";

    fn description(&self) -> String {
        "Lists the reminders of this session that wait, in the order in which they were made: id, kind, prompt, \
         scheduledAt (UTC) and state (scheduled, or overdue when the time has passed and it comes as soon as nothing \
         runs)."
            .to_owned()
    }

    fn is_concurrency_safe(&self, _args: &ScheduleListArgs) -> bool {
        true
    }

    fn effect(&self, _args: &ScheduleListArgs) -> Effect {
        Effect::None
    }

    async fn execute(
        &self,
        _args: ScheduleListArgs,
        ctx: &ToolContext,
    ) -> Result<ScheduleListOutput, ToolFailure> {
        Ok(match refused(list(ctx).await)? {
            Ok(views) => ScheduleListOutput::Listed(views.into_iter().map(View::from).collect()),
            Err(refusal) => ScheduleListOutput::Refused(refusal),
        })
    }

    fn render(&self, _args: &ScheduleListArgs, output: &ScheduleListOutput) -> Vec<ContentBlock> {
        rendered(output)
    }

    fn present_call(&self, _args: &ScheduleListArgs) -> Option<CallCard> {
        Some(CallCard::Generic(GenericCall {
            title: "List reminders".to_owned(),
            kind: ToolCallKind::Read,
            ..GenericCall::default()
        }))
    }
}

async fn list(ctx: &ToolContext) -> Result<Vec<ScheduleView>, ScheduleFailure> {
    schedules(ctx)?.list(&ctx.cancel).await
}
