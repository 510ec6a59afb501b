//! `schedule_delete`: takes a reminder back.

use super::{Refusal, error, refused, rendered, schedules};
use async_trait::async_trait;
use pipeline::context::ToolContext;
use pipeline::tool::Effect;
use pipeline::typed::TypedTool;
use protocol::card::{CallCard, GenericCall, ToolCallKind};
use protocol::content::ContentBlock;
use protocol::tool::ToolFailure;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use services::schedules::{ScheduleErrorCode, ScheduleFailure};

/// Arguments of `schedule_delete`.
#[derive(Debug, Deserialize, JsonSchema)]
pub struct ScheduleDeleteArgs {
    /// Id of the reminder, as schedule_create or schedule_list told it.
    id: String,
}

/// What became of it.
#[derive(Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(untagged)]
pub enum ScheduleDeleteOutput {
    /// It is gone, or was not there.
    Answered(Answer),
    /// That is not known.
    Refused(Refusal),
}

/// Whether one was deleted.
#[derive(Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Answer {
    id: String,
    deleted: bool,
    /// `schedule_not_found` when none was.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    code: Option<String>,
}

/// The tool.
pub struct ScheduleDelete;

#[async_trait]
impl TypedTool for ScheduleDelete {
    type Args = ScheduleDeleteArgs;
    type Output = ScheduleDeleteOutput;

    const NAME: &'static str = "schedule_delete";

    fn description(&self) -> String {
        "Takes back a reminder of this session, so that it does not come any more. deleted is false, with code \
         schedule_not_found, when none of this id waits: it was never there, came already, or was deleted before."
            .to_owned()
    }

    fn effect(&self, _args: &ScheduleDeleteArgs) -> Effect {
        Effect::None
    }

    async fn execute(
        &self,
        args: ScheduleDeleteArgs,
        ctx: &ToolContext,
    ) -> Result<ScheduleDeleteOutput, ToolFailure> {
        Ok(match refused(delete(&args.id, ctx).await)? {
            Ok(deleted) => ScheduleDeleteOutput::Answered(Answer {
                id: args.id,
                deleted,
                code: (!deleted).then(|| "schedule_not_found".to_owned()),
            }),
            Err(refusal) => ScheduleDeleteOutput::Refused(refusal),
        })
    }

    fn render(&self, _args: &ScheduleDeleteArgs, output: &ScheduleDeleteOutput) -> Vec<ContentBlock> {
        rendered(output)
    }

    fn present_call(&self, args: &ScheduleDeleteArgs) -> Option<CallCard> {
        Some(CallCard::Generic(GenericCall {
            title: format!("Delete reminder {}", args.id),
            kind: ToolCallKind::Other,
            raw_input: Some(args.id.clone().into()),
            ..GenericCall::default()
        }))
    }
}

async fn delete(id: &str, ctx: &ToolContext) -> Result<bool, ScheduleFailure> {
    let schedules = schedules(ctx)?;
    if id.is_empty() || id.trim() != id {
        return Err(error(ScheduleErrorCode::InvalidRule, "id must be that of a reminder, without spaces"));
    }
    schedules.delete(id, &ctx.cancel).await
}

#[cfg(test)]
mod tests {
    use crate::testing::Bench;
    use serde_json::json;

    #[tokio::test]
    async fn a_reminder_is_listed_until_it_is_deleted_and_deleted_once() {
        let bench = Bench::new();
        bench.call("schedule_create", json!({"prompt": "x", "after_seconds": 1})).await;
        let listed = bench.call("schedule_list", json!({})).await;
        assert_eq!(listed.value()[0]["state"], "overdue");
        let delete =
            async |id: &str| bench.call("schedule_delete", json!({"id": id})).await.text().to_owned();
        assert_eq!(delete("schedule-1").await, r#"{"id":"schedule-1","deleted":true}"#);
        let missing = r#"{"id":"schedule-1","deleted":false,"code":"schedule_not_found"}"#;
        assert_eq!(delete("schedule-1").await, missing);
        assert_eq!(bench.call("schedule_list", json!({})).await.text(), "[]");
        for id in ["", " schedule-1"] {
            assert!(delete(id).await.contains("invalid_rule"));
        }
    }
}
