//! Reminders of one session: made, listed and taken back. An opt-in family.
//!
//! What does not work is an answer of its own, not a failed call. Source: `spec/tools-agentic.md` §5.

pub mod schedule_create;
pub mod schedule_delete;
pub mod schedule_list;

use crate::listed;
use pipeline::context::ToolContext;
use pipeline::tool::Tool;
use protocol::content::ContentBlock;
use protocol::schedule::Schedule;
use protocol::tool::ToolFailure;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use services::schedules::{ScheduleError, ScheduleErrorCode, ScheduleFailure, ScheduleView, Schedules};
use std::sync::Arc;

/// Name of the family where it is switched on.
pub const SCHEDULE: &str = "schedule";

/// The family's tools, in order.
pub fn tools() -> Vec<Arc<dyn Tool>> {
    vec![
        listed(schedule_create::ScheduleCreate),
        listed(schedule_list::ScheduleList),
        listed(schedule_delete::ScheduleDelete),
    ]
}

/// A reminder as the model reads it.
#[derive(Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct View {
    id: String,
    kind: Kind,
    prompt: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    after_seconds: Option<u64>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    every_seconds: Option<u64>,
    scheduled_at: String,
    state: State,
    delivery_mode: DeliveryMode,
}

/// How a reminder comes.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum Kind {
    After,
    At,
    Every,
}

/// Whether its time has come.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum State {
    Scheduled,
    Overdue,
}

/// Where it comes.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum DeliveryMode {
    SessionLocal,
}

/// Why nothing came of a request.
#[derive(Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Refusal {
    code: String,
    message: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    operation: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    id: Option<String>,
}

impl From<ScheduleView> for View {
    fn from(view: ScheduleView) -> Self {
        let (kind, after_seconds, every_seconds) = match &view.schedule {
            Schedule::After { after_seconds, .. } => (Kind::After, Some(*after_seconds), None),
            Schedule::At { .. } => (Kind::At, None, None),
            Schedule::Every { every_seconds, .. } => (Kind::Every, None, Some(*every_seconds)),
        };
        Self {
            id: view.schedule.id().to_owned(),
            kind,
            prompt: view.schedule.prompt().to_owned(),
            after_seconds,
            every_seconds,
            scheduled_at: view.schedule.scheduled_at().to_owned(),
            state: if view.overdue { State::Overdue } else { State::Scheduled },
            delivery_mode: DeliveryMode::SessionLocal,
        }
    }
}

impl From<ScheduleError> for Refusal {
    fn from(error: ScheduleError) -> Self {
        Self {
            code: error.code.id().to_owned(),
            message: error.message,
            operation: error.operation.map(str::to_owned),
            id: error.id,
        }
    }
}

/// A failure is a value; only a cancelled call fails.
fn refused<T>(result: Result<T, ScheduleFailure>) -> Result<Result<T, Refusal>, ToolFailure> {
    match result {
        Ok(value) => Ok(Ok(value)),
        Err(ScheduleFailure::Cancelled) => Err(ToolFailure::aborted()),
        Err(ScheduleFailure::Error(error)) => Ok(Err(error.into())),
    }
}

/// The session's reminders.
fn schedules(ctx: &ToolContext) -> Result<Arc<dyn Schedules>, ScheduleFailure> {
    let owned = ctx.services().schedules.clone().filter(|_| ctx.session.delegation_depth == 0);
    owned.ok_or_else(|| {
        error(ScheduleErrorCode::InternalError, "reminders belong to the session that the user started")
    })
}

fn error(code: ScheduleErrorCode, message: &str) -> ScheduleFailure {
    ScheduleError::new(code, message).into()
}

/// The value itself, as the model reads it.
fn rendered(value: &impl Serialize) -> Vec<ContentBlock> {
    // The values of this family are plain data, which always serialises.
    vec![ContentBlock::text(serde_json::to_string(value).unwrap_or_default())]
}
