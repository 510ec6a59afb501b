//! A goal in memory, and a turn that a test describes.

use super::lock;
use crate::goals::{GoalAuthority, GoalError, GoalState, GoalStep, GoalView, Goals};
use protocol::goal::GoalRef;
use std::sync::Mutex;

/// The goal of a session whose turn is a person's until [`FakeGoals::set_authority`].
pub struct FakeGoals {
    state: Mutex<State>,
}

struct State {
    goal: Option<GoalState>,
    armed: bool,
    authority: Option<GoalAuthority>,
    n_goals: u64,
}

impl Default for FakeGoals {
    fn default() -> Self {
        let authority = Some(GoalAuthority { human: true, round: false });
        Self { state: Mutex::new(State { goal: None, armed: false, authority, n_goals: 0 }) }
    }
}

impl FakeGoals {
    /// Who drives the turn from now on; `None` is no turn.
    pub fn set_authority(&self, authority: Option<GoalAuthority>) {
        lock(&self.state).authority = authority;
    }

    /// Begins the next round of the goal, which drives the turn from now on.
    pub fn begin_round(&self) {
        let mut state = lock(&self.state);
        state.authority = Some(GoalAuthority { human: false, round: true });
        if let Some(goal) = &mut state.goal {
            let GoalRef { id, revision } = goal.reference();
            goal.admit(&id, revision, goal.rounds_started + 1);
        }
    }
}

impl State {
    fn view(&self) -> Option<GoalView> {
        let state = self.goal.as_ref()?;
        Some(GoalView { goal: state.goal.clone(), rounds_started: state.rounds_started, armed: self.armed })
    }
}

impl Goals for FakeGoals {
    fn current(&self) -> Option<GoalView> {
        lock(&self.state).view()
    }

    fn authority(&self) -> Option<GoalAuthority> {
        lock(&self.state).authority
    }

    fn create(&self, objective: &str, max_rounds: Option<u64>) -> Result<GoalView, GoalError> {
        let mut state = lock(&self.state);
        let id = format!("goal-{}", state.n_goals + 1);
        let change = GoalState::create(state.goal.as_ref(), id, objective, max_rounds, 0)?;
        state.n_goals += 1;
        GoalState::fold(&mut state.goal, &change);
        state.armed = true;
        state.view().ok_or(GoalError::NotFound)
    }

    fn change(&self, of: &GoalRef, step: GoalStep) -> Result<GoalView, GoalError> {
        let mut state = lock(&self.state);
        let goal = state.goal.as_ref().ok_or(GoalError::NotFound)?;
        let (change, armed) = goal.step(of, step, state.armed, 0)?;
        GoalState::fold(&mut state.goal, &change);
        state.armed = armed;
        state.view().ok_or(GoalError::NotFound)
    }
}
