//! A *goal*: one long-running objective of a session, as the log and the model know it.
//!
//! Data only; what may become of a goal is decided by `services::goals`. Source: `spec/tools-agentic.md` §4.1.

use serde::{Deserialize, Serialize};

/// Version of [`GoalChange`] written today.
pub const GOAL_VERSION: u32 = 1;

/// A goal.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Goal {
    /// `goal-<uuid>`, never used twice in a session.
    pub id: String,
    /// From 1; every change adds one.
    pub revision: u64,
    /// What is to be reached, trimmed and not empty.
    pub objective: String,
    /// How far it is.
    pub phase: GoalPhase,
    /// Most rounds that may be begun for it; positive.
    pub max_goal_rounds: u64,
    /// What stands in its way; there exactly while the phase is blocked.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub blocked_reason: Option<GoalBlocker>,
}

/// How far a goal is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum GoalPhase {
    /// Worked on.
    Active,
    /// Stopped by a person.
    Paused,
    /// Something stands in its way.
    Blocked,
    /// Reached.
    Complete,
}

impl GoalPhase {
    /// The word for it.
    pub fn id(self) -> &'static str {
        match self {
            Self::Active => "active",
            Self::Paused => "paused",
            Self::Blocked => "blocked",
            Self::Complete => "complete",
        }
    }
}

/// What stands in the way of a goal.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct GoalBlocker {
    /// Lower case words joined by hyphens, for instance `round-limit`.
    pub code: String,
    /// In words, trimmed and not empty.
    pub message: String,
}

/// Names one state of one goal.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct GoalRef {
    /// The goal.
    pub id: String,
    /// Its revision.
    pub revision: u64,
}

/// What changed a goal.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
#[expect(missing_docs, reason = "the words say it")]
pub enum GoalOperation {
    Create,
    Edit,
    Pause,
    Resume,
    Complete,
    Block,
    Clear,
}

/// A change of the session's goal. Never part of the model's history.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(untagged)]
pub enum GoalChange {
    /// The goal after the change.
    Set(GoalSnapshot),
    /// The goal is gone.
    Cleared(GoalTombstone),
}

/// The goal after a change.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct GoalSnapshot {
    /// [`GOAL_VERSION`].
    pub version: u32,
    /// What was done; never [`GoalOperation::Clear`].
    pub operation: GoalOperation,
    /// The goal.
    pub goal: Goal,
    /// Rounds begun so far.
    pub rounds_started: u64,
    /// Milliseconds since the Unix epoch.
    pub created_at: i64,
    /// Milliseconds since the Unix epoch; never before what it was.
    pub updated_at: i64,
}

/// What is left of a goal that was cleared.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct GoalTombstone {
    /// [`GOAL_VERSION`].
    pub version: u32,
    /// [`GoalOperation::Clear`].
    pub operation: GoalOperation,
    /// The goal, with the revision that clearing it was.
    pub cleared: GoalRef,
    /// Milliseconds since the Unix epoch.
    pub cleared_at: i64,
}
