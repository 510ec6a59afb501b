//! The goal of one session: what it is, what may become of it, and who may say so.
//!
//! Called by the tools of the family `goal`; implemented by the agent, which drives the session towards the goal.
//! [`GoalState`] holds the rules and touches nothing. Source: `spec/tools-agentic.md` §4.

use protocol::goal::{
    GOAL_VERSION, Goal, GoalBlocker, GoalChange, GoalOperation, GoalPhase, GoalRef, GoalSnapshot,
    GoalTombstone,
};
use protocol::tool::ToolFailure;

/// Most rounds of a goal that names no number.
pub const DEFAULT_MAX_ROUNDS: u64 = 256;

/// The largest whole number that every reader of JSON keeps.
pub const MAX_SAFE_INTEGER: u64 = (1 << 53) - 1;

/// The goal of one session.
pub trait Goals: Send + Sync {
    /// The goal now; `None` where there is none.
    fn current(&self) -> Option<GoalView>;

    /// Who drives the turn that runs; `None` when none runs.
    fn authority(&self) -> Option<GoalAuthority>;

    /// Begins a goal, armed. `max_rounds` is [`DEFAULT_MAX_ROUNDS`] where it is `None`.
    ///
    /// # Errors
    /// There is an unfinished goal, or a value is not valid; nothing was changed.
    fn create(&self, objective: &str, max_rounds: Option<u64>) -> Result<GoalView, GoalError>;

    /// Changes the goal if it still is as `of` says.
    ///
    /// # Errors
    /// It is not, or the step is not possible; nothing was changed.
    fn change(&self, of: &GoalRef, step: GoalStep) -> Result<GoalView, GoalError>;
}

/// A goal as it is told.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct GoalView {
    /// The goal.
    pub goal: Goal,
    /// Rounds begun so far.
    pub rounds_started: u64,
    /// Whether the session goes on with it by itself. Lives in the process, never in the log.
    pub armed: bool,
}

/// Who drives a turn.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct GoalAuthority {
    /// A person said something in it, to an agent that nobody delegated to.
    pub human: bool,
    /// It is the present round of the present goal.
    pub round: bool,
}

/// What is done to a goal.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum GoalStep {
    /// Another objective or another number of rounds.
    Edit {
        /// The new objective.
        objective: Option<String>,
        /// The new most rounds.
        max_rounds: Option<u64>,
    },
    /// Stop for now.
    Pause,
    /// Go on.
    Resume,
    /// It is reached.
    Complete,
    /// Something stands in its way.
    Block(GoalBlocker),
    /// Forget it. Only a person does this.
    Clear,
}

/// Why nothing was changed.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum GoalError {
    /// There is no goal.
    #[error("there is no goal in this session")]
    NotFound,
    /// An unfinished one is there.
    #[error(
        "there is an unfinished goal already; complete it, or let the user clear it, before another begins"
    )]
    AlreadyExists,
    /// It changed meanwhile.
    #[error("the goal is now {id} at revision {revision}; read it with get_goal and use these")]
    Stale {
        /// Its id.
        id: String,
        /// Its revision.
        revision: u64,
    },
    /// The objective is blank.
    #[error("the objective must say what is to be reached; it is blank")]
    InvalidObjective,
    /// The number of rounds is no number of rounds.
    #[error("max_goal_rounds must be a positive whole number")]
    InvalidMaxRounds,
    /// The blocker says nothing or has a bad code.
    #[error("a blocked goal needs a reason in words, and a code of lower case words joined by hyphens")]
    InvalidBlockReason,
    /// The edit changes nothing.
    #[error("an edit needs an objective or max_goal_rounds")]
    InvalidEdit,
    /// The step is not possible from where the goal is.
    #[error("{0}")]
    InvalidTransition(String),
    /// The session is closed or its log cannot be written.
    #[error("the goal could not be changed: {0}")]
    NotLive(String),
}

impl GoalError {
    /// The code the model reads.
    pub fn code(&self) -> &'static str {
        match self {
            Self::NotFound => "GOAL_NOT_FOUND",
            Self::AlreadyExists => "GOAL_ALREADY_EXISTS",
            Self::Stale { .. } => "GOAL_STALE_REVISION",
            Self::InvalidObjective => "GOAL_INVALID_OBJECTIVE",
            Self::InvalidMaxRounds => "GOAL_INVALID_MAX_ROUNDS",
            Self::InvalidBlockReason => "GOAL_INVALID_BLOCK_REASON",
            Self::InvalidEdit => "GOAL_INVALID_EDIT",
            Self::InvalidTransition(_) => "GOAL_INVALID_TRANSITION",
            Self::NotLive(_) => "GOAL_AGENT_NOT_LIVE",
        }
    }
}

impl From<GoalError> for ToolFailure {
    fn from(error: GoalError) -> Self {
        Self::coded("GoalError", error.code(), error.to_string())
    }
}

/// The goal as the log says it is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct GoalState {
    /// The goal.
    pub goal: Goal,
    /// Rounds begun so far.
    pub rounds_started: u64,
    created_at: i64,
    updated_at: i64,
}

impl GoalState {
    /// Takes a logged change into account.
    pub fn fold(state: &mut Option<Self>, change: &GoalChange) {
        *state = match change {
            GoalChange::Cleared(_) => None,
            GoalChange::Set(set) => Some(Self {
                goal: set.goal.clone(),
                rounds_started: set.rounds_started,
                created_at: set.created_at,
                updated_at: set.updated_at,
            }),
        };
    }

    /// Takes a logged round into account; one that does not belong to the goal as it stands counts for nothing.
    pub fn admit(&mut self, id: &str, revision: u64, round: u64) {
        let goal = &self.goal;
        if goal.phase == GoalPhase::Active
            && (goal.id.as_str(), goal.revision) == (id, revision)
            && round == self.rounds_started + 1
            && round <= goal.max_goal_rounds
        {
            self.rounds_started = round;
        }
    }

    /// What it is called now.
    pub fn reference(&self) -> GoalRef {
        GoalRef { id: self.goal.id.clone(), revision: self.goal.revision }
    }

    /// The change that begins a goal with this id at this time (milliseconds since the Unix epoch).
    ///
    /// # Errors
    /// See [`Goals::create`].
    pub fn create(
        before: Option<&Self>,
        id: String,
        objective: &str,
        max_rounds: Option<u64>,
        now: i64,
    ) -> Result<GoalChange, GoalError> {
        if before.is_some_and(|state| state.goal.phase != GoalPhase::Complete) {
            return Err(GoalError::AlreadyExists);
        }
        let goal = Goal {
            id,
            revision: 1,
            objective: objective_of(objective)?,
            phase: GoalPhase::Active,
            max_goal_rounds: rounds_of(max_rounds.unwrap_or(DEFAULT_MAX_ROUNDS))?,
            blocked_reason: None,
        };
        Ok(GoalChange::Set(GoalSnapshot {
            version: GOAL_VERSION,
            operation: GoalOperation::Create,
            goal,
            rounds_started: 0,
            created_at: now.max(0),
            updated_at: now.max(0),
        }))
    }

    /// The change that this step is, and whether the goal is armed after it.
    ///
    /// # Errors
    /// See [`Goals::change`].
    pub fn step(
        &self,
        of: &GoalRef,
        step: GoalStep,
        armed: bool,
        now: i64,
    ) -> Result<(GoalChange, bool), GoalError> {
        if *of != self.reference() {
            return Err(GoalError::Stale { id: self.goal.id.clone(), revision: self.goal.revision });
        }
        let now = now.max(self.updated_at);
        let mut goal = Goal { revision: self.goal.revision + 1, ..self.goal.clone() };
        let phase = goal.phase;
        let unless = |possible: bool, verb: &str| {
            if possible {
                return Ok(());
            }
            Err(GoalError::InvalidTransition(format!("a goal that is {} cannot be {verb}", phase.id())))
        };
        let (operation, armed) = match step {
            GoalStep::Clear => {
                let cleared = GoalRef { id: goal.id, revision: goal.revision };
                let change = GoalTombstone {
                    version: GOAL_VERSION,
                    operation: GoalOperation::Clear,
                    cleared,
                    cleared_at: now,
                };
                return Ok((GoalChange::Cleared(change), false));
            }
            GoalStep::Edit { objective: None, max_rounds: None } => return Err(GoalError::InvalidEdit),
            GoalStep::Edit { objective, max_rounds } => {
                if let Some(objective) = objective {
                    goal.objective = objective_of(&objective)?;
                }
                if let Some(rounds) = max_rounds {
                    goal.max_goal_rounds = rounds_of(rounds)?;
                }
                (GoalOperation::Edit, armed)
            }
            GoalStep::Pause => {
                unless(phase == GoalPhase::Active, "paused")?;
                goal.phase = GoalPhase::Paused;
                (GoalOperation::Pause, false)
            }
            GoalStep::Resume => {
                unless(phase != GoalPhase::Complete, "resumed")?;
                if phase == GoalPhase::Active && armed {
                    return Err(GoalError::InvalidTransition("the goal is worked on already".to_owned()));
                }
                if self.rounds_started >= goal.max_goal_rounds {
                    return Err(GoalError::InvalidTransition(format!(
                        "all {} rounds of the goal are used; raise max_goal_rounds first",
                        goal.max_goal_rounds
                    )));
                }
                goal.phase = GoalPhase::Active;
                goal.blocked_reason = None;
                (GoalOperation::Resume, true)
            }
            GoalStep::Complete => {
                unless(phase != GoalPhase::Complete, "completed")?;
                goal.phase = GoalPhase::Complete;
                goal.blocked_reason = None;
                (GoalOperation::Complete, false)
            }
            GoalStep::Block(blocker) => {
                unless(phase == GoalPhase::Active, "blocked")?;
                if !is_code(&blocker.code) || blocker.message.trim().is_empty() {
                    return Err(GoalError::InvalidBlockReason);
                }
                goal.phase = GoalPhase::Blocked;
                goal.blocked_reason =
                    Some(GoalBlocker { message: blocker.message.trim().to_owned(), ..blocker });
                (GoalOperation::Block, false)
            }
        };
        Ok((
            GoalChange::Set(GoalSnapshot {
                version: GOAL_VERSION,
                operation,
                goal,
                rounds_started: self.rounds_started,
                created_at: self.created_at,
                updated_at: now,
            }),
            armed,
        ))
    }
}

fn objective_of(text: &str) -> Result<String, GoalError> {
    let text = text.trim();
    if text.is_empty() { Err(GoalError::InvalidObjective) } else { Ok(text.to_owned()) }
}

fn rounds_of(rounds: u64) -> Result<u64, GoalError> {
    if rounds == 0 || rounds > MAX_SAFE_INTEGER { Err(GoalError::InvalidMaxRounds) } else { Ok(rounds) }
}

/// Whether this is lower case words joined by hyphens, beginning with a letter.
fn is_code(code: &str) -> bool {
    code.starts_with(|first: char| first.is_ascii_lowercase())
        && code.split('-').all(|word| {
            !word.is_empty() && word.chars().all(|each| each.is_ascii_lowercase() || each.is_ascii_digit())
        })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn begun(max_rounds: u64) -> GoalState {
        let change = GoalState::create(None, "goal-1".into(), " ship ", Some(max_rounds), 5).unwrap();
        let mut state = None;
        GoalState::fold(&mut state, &change);
        state.unwrap()
    }

    fn after(state: &GoalState, step: GoalStep, armed: bool) -> Result<(GoalState, bool), &'static str> {
        let (change, armed) = state.step(&state.reference(), step, armed, 7).map_err(|error| error.code())?;
        let mut state = Some(state.clone());
        GoalState::fold(&mut state, &change);
        Ok((state.unwrap(), armed))
    }

    fn blocker(code: &str, message: &str) -> GoalStep {
        GoalStep::Block(GoalBlocker { code: code.into(), message: message.into() })
    }

    /// Phase and arming after a step from each phase; `None` where it is not possible.
    type Ends = [Option<(GoalPhase, bool)>; 4];

    #[test]
    fn each_step_leads_where_the_table_says() {
        use GoalPhase::{Active, Blocked, Complete, Paused};
        let edit = || GoalStep::Edit { objective: Some("other".into()), max_rounds: None };
        let phases = |step: &dyn Fn() -> GoalStep| {
            [Active, Paused, Blocked, Complete].map(|phase| {
                let mut state = begun(2);
                state.goal.phase = phase;
                after(&state, step(), false).map(|(state, armed)| (state.goal.phase, armed)).ok()
            })
        };
        let cases: [(&dyn Fn() -> GoalStep, Ends); 5] = [
            (&edit, [Active, Paused, Blocked, Complete].map(|phase| Some((phase, false)))),
            (&|| GoalStep::Pause, [Some((Paused, false)), None, None, None]),
            (&|| GoalStep::Resume, [Some((Active, true)), Some((Active, true)), Some((Active, true)), None]),
            (
                &|| GoalStep::Complete,
                [Some((Complete, false)), Some((Complete, false)), Some((Complete, false)), None],
            ),
            (&|| blocker("no-key", "no key"), [Some((Blocked, false)), None, None, None]),
        ];
        for (step, expected) in cases {
            assert_eq!(phases(step), expected, "{:?}", step());
        }
    }

    #[test]
    fn every_change_is_one_revision_and_only_of_the_goal_it_names() {
        let first = begun(2);
        let (second, armed) = after(&first, GoalStep::Pause, true).unwrap();
        assert_eq!((second.goal.revision, armed), (2, false));
        assert_eq!(second.goal.objective, "ship");
        let stale = second.step(&first.reference(), GoalStep::Resume, false, 9).unwrap_err();
        assert_eq!(stale, GoalError::Stale { id: "goal-1".into(), revision: 2 });
        let cleared = second.step(&second.reference(), GoalStep::Clear, false, 9).unwrap();
        let json = serde_json::to_value(&cleared.0).unwrap();
        let expected = serde_json::json!({"version": 1, "operation": "clear",
            "cleared": {"id": "goal-1", "revision": 3}, "clearedAt": 9});
        assert_eq!(json, expected);
        assert_eq!(serde_json::from_value::<GoalChange>(json).unwrap(), cleared.0);
    }

    #[test]
    fn a_clock_that_goes_back_does_not_take_the_goal_along() {
        let state = begun(2);
        let (change, _) = state.step(&state.reference(), GoalStep::Pause, true, 1).unwrap();
        let GoalChange::Set(set) = change else { panic!("a snapshot") };
        assert_eq!((set.created_at, set.updated_at), (5, 5));
    }

    #[test]
    fn resuming_needs_rounds_that_are_left_and_an_edit_gives_some() {
        let mut state = begun(1);
        state.admit("goal-1", 1, 1);
        let (state, _) = after(&state, GoalStep::Pause, true).unwrap();
        assert_eq!(after(&state, GoalStep::Resume, false).unwrap_err(), "GOAL_INVALID_TRANSITION");
        let edit = GoalStep::Edit { objective: None, max_rounds: Some(2) };
        let (state, _) = after(&state, edit, false).unwrap();
        assert_eq!(state.goal.phase, GoalPhase::Paused);
        let (state, armed) = after(&state, GoalStep::Resume, false).unwrap();
        assert_eq!((state.goal.phase, state.rounds_started, armed), (GoalPhase::Active, 1, true));
        assert_eq!(after(&state, GoalStep::Resume, true).unwrap_err(), "GOAL_INVALID_TRANSITION");
    }

    #[test]
    fn only_the_next_round_of_the_goal_as_it_stands_counts() {
        let mut state = begun(1);
        for (id, revision, round) in [("goal-2", 1, 1), ("goal-1", 2, 1), ("goal-1", 1, 2)] {
            state.admit(id, revision, round);
            assert_eq!(state.rounds_started, 0);
        }
        state.admit("goal-1", 1, 1);
        state.admit("goal-1", 1, 2);
        assert_eq!(state.rounds_started, 1);
    }

    #[test]
    fn values_that_make_no_sense_have_codes_of_their_own() {
        let create = |objective: &str, rounds: u64| {
            GoalState::create(None, "g".into(), objective, Some(rounds), 0).unwrap_err().code()
        };
        assert_eq!(create(" ", 1), "GOAL_INVALID_OBJECTIVE");
        assert_eq!(create("x", 0), "GOAL_INVALID_MAX_ROUNDS");
        assert_eq!(create("x", MAX_SAFE_INTEGER + 1), "GOAL_INVALID_MAX_ROUNDS");
        let state = begun(1);
        let edit = GoalStep::Edit { objective: None, max_rounds: None };
        assert_eq!(after(&state, edit, true).unwrap_err(), "GOAL_INVALID_EDIT");
        for (code, message) in [("No", "x"), ("1a", "x"), ("a--b", "x"), ("", "x"), ("a-b", " ")] {
            assert_eq!(
                after(&state, blocker(code, message), true).unwrap_err(),
                "GOAL_INVALID_BLOCK_REASON",
                "{code}"
            );
        }
        assert_eq!(
            GoalState::create(Some(&state), "g".into(), "x", None, 0).unwrap_err().code(),
            "GOAL_ALREADY_EXISTS"
        );
    }
}
