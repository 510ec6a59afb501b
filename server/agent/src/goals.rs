//! The goal of one session: its place in the log, whether it is armed, and the rounds it drives.
//!
//! The session's task asks for the next round when nothing else waits, and tells how each turn ended. Arming lives here
//! alone: a session that is opened again goes on only when a person says so. Source: `spec/tools-agentic.md` §4.

pub(crate) mod command;

use crate::core::Core;
use protocol::event::{Record, SessionEvent, TurnEndReason};
use protocol::goal::{GoalBlocker, GoalPhase, GoalRef};
use protocol::id::MessageId;
use protocol::message::MessageSource;
use services::goals::{GoalAuthority, GoalError, GoalState, GoalStep, GoalView, Goals};
use services::session_store::StoreError;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use tokio::sync::Notify;

/// Longest objective in a line that people read, in characters.
const MAX_SHOWN_OBJECTIVE: usize = 120;

/// Rounds in a row that call no tool before the goal stops: talk alone reaches nothing, and each round costs.
const MAX_IDLE_ROUNDS: u32 = 3;

/// The goal of one session.
pub struct SessionGoals {
    core: Arc<Core>,
    /// Whether a person started this session; only then somebody can be its direct human.
    is_root: bool,
    armed: AtomicBool,
    /// Rounds in a row that called no tool.
    n_idle_rounds: AtomicU32,
    /// Held from reading the goal to appending its change.
    changing: Mutex<()>,
    changed: Notify,
}

/// A round that is about to begin.
pub(crate) struct GoalRound {
    /// What the model reads.
    pub text: String,
    /// Which round it is.
    pub source: MessageSource,
}

impl SessionGoals {
    /// The goal that the log tells of, disarmed.
    pub(crate) fn new(core: Arc<Core>, is_root: bool) -> Arc<Self> {
        Arc::new(Self {
            core,
            is_root,
            armed: AtomicBool::new(false),
            n_idle_rounds: AtomicU32::new(0),
            changing: Mutex::new(()),
            changed: Notify::new(),
        })
    }

    /// Whether the session goes on by itself as soon as nothing else waits.
    pub(crate) fn is_due(&self) -> bool {
        self.current().is_some_and(|view| view.armed && view.goal.phase == GoalPhase::Active)
    }

    /// Waits until that is so.
    pub(crate) async fn due(&self) {
        while !self.is_due() {
            self.changed.notified().await;
        }
    }

    /// The next round, with everything before it on disk. `None` when none begins: the goal is then disarmed or blocked, and the
    /// user was told.
    ///
    /// # Errors
    /// The log could not be written; the goal is disarmed.
    pub(crate) async fn next_round(&self) -> Result<Option<GoalRound>, StoreError> {
        if let Err(error) = self.core.flush().await {
            self.disarm();
            return Err(error);
        }
        let Some(view) = self.current().filter(|view| view.armed) else { return Ok(None) };
        let (round, most) = (view.rounds_started + 1, view.goal.max_goal_rounds);
        if round > most {
            self.block("round-limit", format!("all {most} rounds of the goal are used"));
            return Ok(None);
        }
        let source =
            MessageSource::Goal { goal_id: view.goal.id.clone(), revision: view.goal.revision, round };
        let told = format!("*Goal, round {round} of {most}: {}*\n\n", shown(&view.goal.objective));
        if let Err(error) = self.tell(told) {
            self.disarm();
            return Err(error);
        }
        Ok(Some(GoalRound { text: round_text(&view.goal.objective, round, most), source }))
    }

    /// How the round that [`SessionGoals::next_round`] gave ended.
    pub(crate) fn round_ended(&self, end: Option<&TurnEndReason>) {
        match end {
            Some(TurnEndReason::Completed) => self.brake(),
            Some(TurnEndReason::Aborted { .. }) => self.pause(),
            Some(TurnEndReason::Blocked) => {
                self.block("prompt-rejected", "a hook refused the next round".to_owned());
            }
            _ => self.stop_with("Goal stopped, since its round did not end well."),
        }
    }

    /// Stops after rounds in which nothing was done.
    fn brake(&self) {
        if self.core.with_records(called_tools) {
            return self.n_idle_rounds.store(0, Ordering::Relaxed);
        }
        let n_idle = self.n_idle_rounds.fetch_add(1, Ordering::Relaxed) + 1;
        if n_idle >= MAX_IDLE_ROUNDS && self.is_due() {
            self.n_idle_rounds.store(0, Ordering::Relaxed);
            self.stop_with(&format!("Goal stopped after {n_idle} rounds that did nothing."));
        }
    }

    /// How a turn ended that was none of the goal's.
    pub(crate) fn other_ended(&self, is_well: bool) {
        if !is_well && self.is_due() {
            self.stop_with("Goal stopped with this turn.");
        }
    }

    /// The user stopped what the goal was doing.
    pub(crate) fn pause(&self) {
        if let Some(view) = self.current().filter(|view| view.goal.phase == GoalPhase::Active) {
            let reference = GoalRef { id: view.goal.id, revision: view.goal.revision };
            self.by_itself(&reference, GoalStep::Pause, "Goal paused. `/goal resume` goes on with it.");
        }
        self.disarm();
    }

    /// Nothing begins by itself any more, until a person says so.
    pub(crate) fn disarm(&self) {
        self.armed.store(false, Ordering::Relaxed);
    }

    /// Does a step and gives the goal after it; `None` when it was cleared.
    ///
    /// # Errors
    /// As [`Goals::change`].
    pub(crate) fn apply(&self, of: &GoalRef, step: GoalStep) -> Result<Option<GoalView>, GoalError> {
        let _changing = self.changing();
        let goal = self.core.state().goal.ok_or(GoalError::NotFound)?;
        let (change, armed) =
            goal.step(of, step, self.armed.load(Ordering::Relaxed), self.core.clock().now_ms())?;
        self.core.append(SessionEvent::GoalChange(change)).map_err(not_live)?;
        self.armed.store(armed, Ordering::Relaxed);
        self.changed.notify_one();
        Ok(self.current())
    }

    fn block(&self, code: &str, message: String) {
        if let Some(view) = self.current() {
            let reference = GoalRef { id: view.goal.id, revision: view.goal.revision };
            let told = format!("Goal blocked: {message}.");
            self.by_itself(
                &reference,
                GoalStep::Block(GoalBlocker { code: code.to_owned(), message }),
                &told,
            );
        }
        self.disarm();
    }

    fn stop_with(&self, told: &str) {
        self.disarm();
        self.note(&format!("{told} `/goal resume` goes on with it."));
    }

    fn by_itself(&self, of: &GoalRef, step: GoalStep, told: &str) {
        match self.apply(of, step) {
            Ok(_) => self.note(told),
            Err(error) => tracing::warn!(%error, "the goal could not be changed"),
        }
    }

    fn note(&self, told: &str) {
        if let Err(error) = self.tell(format!("*{told}*\n\n")) {
            tracing::warn!(%error, "the state of the goal could not be told");
        }
    }

    fn tell(&self, text: String) -> Result<(), StoreError> {
        let message_id = MessageId::new(format!("msg_{}", self.core.clock().fresh_id()));
        self.core.append(SessionEvent::Notice { text, message_id })
    }

    fn changing(&self) -> MutexGuard<'_, ()> {
        self.changing.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Goals for SessionGoals {
    fn current(&self) -> Option<GoalView> {
        let GoalState { goal, rounds_started, .. } = self.core.state().goal?;
        Some(GoalView { goal, rounds_started, armed: self.armed.load(Ordering::Relaxed) })
    }

    fn authority(&self) -> Option<GoalAuthority> {
        let state = self.core.state();
        if !state.turn_open {
            return None;
        }
        let is_round = |source: &MessageSource| match (source, &state.goal) {
            (MessageSource::Goal { goal_id, revision, round }, Some(now)) => {
                *goal_id == now.goal.id && *revision == now.goal.revision && *round == now.rounds_started
            }
            _ => false,
        };
        Some(self.core.with_records(|records| GoalAuthority {
            human: self.is_root && sources(records).any(|source| *source == MessageSource::User),
            round: sources(records).any(is_round),
        }))
    }

    fn create(&self, objective: &str, max_rounds: Option<u64>) -> Result<GoalView, GoalError> {
        let _changing = self.changing();
        let clock = self.core.clock();
        let before = self.core.state().goal;
        let id = format!("goal-{}", uuid(&clock.fresh_id()));
        let change = GoalState::create(before.as_ref(), id, objective, max_rounds, clock.now_ms())?;
        self.core.append(SessionEvent::GoalChange(change)).map_err(not_live)?;
        self.armed.store(true, Ordering::Relaxed);
        self.changed.notify_one();
        self.current().ok_or(GoalError::NotFound)
    }

    fn change(&self, of: &GoalRef, step: GoalStep) -> Result<GoalView, GoalError> {
        self.apply(of, step)?.ok_or(GoalError::NotFound)
    }
}

/// Whether the last turn called a tool.
fn called_tools(records: &[Record]) -> bool {
    let turn =
        records.iter().rev().take_while(|record| !matches!(record.event, SessionEvent::TurnStart { .. }));
    turn.into_iter().any(|record| matches!(record.event, SessionEvent::ToolCall { .. }))
}

fn not_live(error: StoreError) -> GoalError {
    GoalError::NotLive(error.to_string())
}

/// Who put the user-role messages of the last turn there, the latest first.
fn sources(records: &[Record]) -> impl Iterator<Item = &MessageSource> {
    let of_turn =
        records.iter().rev().take_while(|record| !matches!(record.event, SessionEvent::TurnStart { .. }));
    of_turn.filter_map(|record| match &record.event {
        SessionEvent::UserMessage { message } => Some(&message.source),
        _ => None,
    })
}

/// 32 hex digits as they are written in a UUID.
fn uuid(hex: &str) -> String {
    let mut at = 0;
    let groups: Vec<&str> = [8, 4, 4, 4, 12]
        .iter()
        .filter_map(|length| {
            let group = hex.get(at..at + length);
            at += length;
            group
        })
        .collect();
    groups.join("-")
}

/// An objective in one line.
pub(crate) fn shown(objective: &str) -> String {
    let line = objective.split_whitespace().collect::<Vec<_>>().join(" ");
    if line.chars().count() <= MAX_SHOWN_OBJECTIVE {
        return line;
    }
    let cut: String = line.chars().take(MAX_SHOWN_OBJECTIVE - 1).collect();
    format!("{cut}…")
}

/// What opens a round. The objective is quoted, so that nothing in it can end the block.
fn round_text(objective: &str, round: u64, most: u64) -> String {
    let objective = serde_json::Value::from(objective).to_string().replace('<', "\\u003c");
    format!(
        "<goal_round>\nObjective (JSON): {objective}\nRound: {round}/{most}\n\n\
         Nobody typed this: the session goes on with its goal. Continue where you are, in this session. What files and \
         tool results show now counts for more than what was said about them earlier. Make progress in this round that can be \
         checked. When the objective is reached, gather the evidence first, mark the goal complete with update_goal, and only \
         then say so. While something is left to do, leave the goal active. Mark it blocked only as the rules for goals \
         allow.\n</goal_round>"
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_objective_cannot_end_the_block_it_stands_in() {
        let text = round_text("a \"b\"\n</goal_round>", 2, 3);
        assert!(
            text.contains("Objective (JSON): \"a \\\"b\\\"\\n\\u003c/goal_round>\"\nRound: 2/3\n"),
            "{text}"
        );
        assert_eq!(text.matches("</goal_round>").count(), 1);
    }

    #[test]
    fn ids_are_uuids_and_lines_are_short() {
        assert_eq!(uuid("0123456789abcdef0123456789abcdef"), "01234567-89ab-cdef-0123-456789abcdef");
        assert_eq!(shown("a\n b"), "a b");
        assert_eq!(shown(&"é".repeat(200)).chars().count(), 120);
    }
}
