//! The session's goal: one long-running objective that the session works towards by itself.
//!
//! The rules of goals are in `services::goals`; here is who may ask for what. Source: `spec/tools-agentic.md` §4.

pub mod create_goal;
pub mod get_goal;
pub mod update_goal;

use crate::listed;
use pipeline::context::ToolContext;
use pipeline::tool::Tool;
use protocol::content::ContentBlock;
use protocol::goal::{Goal as GoalData, GoalBlocker, GoalPhase};
use protocol::tool::ToolFailure;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use services::goals::{GoalAuthority, GoalView, Goals, MAX_SAFE_INTEGER};
use std::sync::Arc;

/// Rounds of the same obstacle before a round may call the goal blocked.
const BLOCKED_AFTER_ROUNDS: u64 = 3;

/// The family's tools, in order.
pub fn tools() -> Vec<Arc<dyn Tool>> {
    vec![listed(create_goal::CreateGoal), listed(get_goal::GetGoal), listed(update_goal::UpdateGoal)]
}

/// The goal, if there is one.
#[derive(Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(untagged)]
pub enum GoalOutput {
    /// There is one.
    There(Present),
    /// There is none.
    Missing(Absent),
}

/// A goal and whether it is worked on by itself.
#[derive(Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Present {
    goal: Goal,
    activation: Activation,
}

/// No goal.
#[derive(Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Absent {
    goal: (),
}

/// A goal as the model reads it.
#[derive(Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Goal {
    id: String,
    revision: u64,
    objective: String,
    phase: Phase,
    rounds_started: u64,
    max_goal_rounds: u64,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    blocked_reason: Option<Blocker>,
}

/// What stands in the way of a goal.
#[derive(Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Blocker {
    code: String,
    message: String,
}

/// How far a goal is.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum Phase {
    Active,
    Paused,
    Blocked,
    Complete,
}

/// Whether the session goes on with a goal by itself.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum Activation {
    Armed,
    Disarmed,
}

impl From<Option<GoalView>> for GoalOutput {
    fn from(view: Option<GoalView>) -> Self {
        let Some(GoalView { goal, rounds_started, armed }) = view else {
            return Self::Missing(Absent { goal: () });
        };
        let GoalData { id, revision, objective, phase, max_goal_rounds, blocked_reason } = goal;
        Self::There(Present {
            goal: Goal {
                id,
                revision,
                objective,
                phase: match phase {
                    GoalPhase::Active => Phase::Active,
                    GoalPhase::Paused => Phase::Paused,
                    GoalPhase::Blocked => Phase::Blocked,
                    GoalPhase::Complete => Phase::Complete,
                },
                rounds_started,
                max_goal_rounds,
                blocked_reason: blocked_reason.map(|GoalBlocker { code, message }| Blocker { code, message }),
            },
            activation: if armed { Activation::Armed } else { Activation::Disarmed },
        })
    }
}

impl GoalOutput {
    fn render(&self) -> Vec<ContentBlock> {
        // The value is plain data, which always serialises.
        vec![ContentBlock::text(serde_json::to_string(self).unwrap_or_default())]
    }
}

/// The session's goal, and who drives the turn that asks.
///
/// # Errors
/// `GOAL_TOOL_AGENT_REQUIRED`, `GOAL_TOOL_DRIVER_REQUIRED`.
fn goals(ctx: &ToolContext) -> Result<(Arc<dyn Goals>, GoalAuthority), ToolFailure> {
    let goals = ctx.services().goals.clone();
    let goals = goals.ok_or_else(|| failure("AGENT_REQUIRED", "there is no agent that could have a goal"))?;
    let authority = goals.authority();
    let authority =
        authority.ok_or_else(|| failure("DRIVER_REQUIRED", "goals are reached only in a turn that runs"))?;
    Ok((goals, authority))
}

/// Whether a person asks, in the session that they started.
fn needs_human(authority: GoalAuthority) -> Result<(), ToolFailure> {
    if authority.human {
        return Ok(());
    }
    Err(failure(
        "AUTHORITY_REQUIRED",
        "only a turn that the user opened may do this; a round of the goal or another agent may not",
    ))
}

fn failure(code: &str, message: &str) -> ToolFailure {
    ToolFailure::coded("GoalToolError", &format!("GOAL_TOOL_{code}"), message.to_owned())
}

/// A JSON number as a positive whole number.
fn positive(number: f64) -> Option<u64> {
    let is_whole = number.fract() == 0.0 && number > 0.0 && number <= MAX_SAFE_INTEGER as f64;
    is_whole.then_some(number as u64)
}
