//! Closes a turn that no process finished.
//!
//! A pure function from the records of a log to the records that are missing at its end: same log, same closers. Called
//! when a log is opened (they are appended) and when it is only read (they are added to the view).
//!
//! Source: `spec/runtime.md` §3, recovery of a cold log.

use protocol::event::{Record, SessionEvent, TurnEndReason, interrupted_call};
use protocol::id::CallId;
use protocol::message::{AssistantMessage, ToolResultMessage};
use protocol::tool::DurableResult;

/// What is open at the end of a log.
#[derive(Default)]
struct Open {
    turn: Option<u64>,
    step: Option<(u64, u64)>,
    /// The message so far, when the final one is missing.
    partial: Option<(u64, u64, AssistantMessage)>,
    /// Calls without a result, in the order of the transcript.
    calls: Vec<Call>,
    /// Sub-calls of programs without a result, in the order of their start.
    sub_calls: Vec<SessionEvent>,
}

struct Call {
    id: CallId,
    turn: u64,
    step: u64,
    started: bool,
}

/// The records that close the open turn of a log, numbered behind it, at the time of its last record; none when no turn
/// is open.
pub(crate) fn closers(records: &[Record]) -> Vec<Record> {
    let Some(last) = records.last() else { return Vec::new() };
    let mut open = Open::default();
    for record in records {
        open.follow(&record.event);
    }
    let events = open.close().into_iter().enumerate();
    events
        .map(|(idx, event)| Record {
            // Wrapping: the number comes out of a file, which anybody may have edited.
            seq: last.seq.wrapping_add(1 + idx as u64),
            time: last.time,
            ignorable: event.ignorable(),
            event,
        })
        .collect()
}

impl Open {
    fn follow(&mut self, event: &SessionEvent) {
        match event {
            SessionEvent::TurnStart { turn } => *self = Self { turn: Some(*turn), ..Self::default() },
            SessionEvent::TurnEnd { .. } => *self = Self::default(),
            SessionEvent::StepStart { turn, step } => {
                *self = Self { turn: Some(*turn), step: Some((*turn, *step)), ..Self::default() };
            }
            // A lost result cannot be put back before this; the history of the model skips such a call.
            SessionEvent::StepEnd { turn, .. } => *self = Self { turn: Some(*turn), ..Self::default() },
            SessionEvent::AssistantPartial { turn, step, message } => {
                self.partial = Some((*turn, *step, message.clone()));
            }
            SessionEvent::AssistantMessage { turn, step, message, .. } => {
                self.partial = None;
                self.calls.extend(message.calls().map(|call| Call {
                    id: call.id.clone(),
                    turn: *turn,
                    step: *step,
                    started: false,
                }));
            }
            SessionEvent::ToolCall { turn, step, call_id, .. } => {
                match self.calls.iter_mut().find(|call| call.id == *call_id) {
                    Some(call) => call.started = true,
                    // Its message is unreadable; the call still ends.
                    None => self.calls.push(Call {
                        id: call_id.clone(),
                        turn: *turn,
                        step: *step,
                        started: true,
                    }),
                }
            }
            SessionEvent::ToolResult { message, .. } => self.calls.retain(|call| call.id != message.call_id),
            SessionEvent::PtcDispatchStart { .. } => self.sub_calls.push(event.clone()),
            SessionEvent::PtcDispatch { sub_call_id: ended, .. } => self.sub_calls.retain(|start| {
                !matches!(start, SessionEvent::PtcDispatchStart { sub_call_id, .. } if sub_call_id == ended)
            }),
            _ => {}
        }
    }

    fn close(self) -> Vec<SessionEvent> {
        let mut events = Vec::new();
        let Some(turn) = self.turn else { return events };
        if let Some((turn, step, message)) = self.partial
            && !message.blocks.is_empty()
        {
            events.push(SessionEvent::AssistantMessage {
                turn,
                step,
                message,
                usage: None,
                interrupted: true,
            });
        }
        events.extend(self.sub_calls.into_iter().filter_map(end_of_sub_call));
        events.extend(self.calls.into_iter().map(end_of_call));
        if let Some((turn, step)) = self.step {
            events.push(SessionEvent::StepEnd { turn, step });
        }
        events.push(SessionEvent::TurnEnd { turn, reason: TurnEndReason::Interrupted });
        events
    }
}

fn end_of_call(call: Call) -> SessionEvent {
    let failure = interrupted_call(call.started);
    SessionEvent::ToolResult {
        turn: call.turn,
        step: call.step,
        message: ToolResultMessage { call_id: call.id, content: failure.default_content(), is_error: true },
        error: Some(failure),
        meta: None,
    }
}

fn end_of_sub_call(start: SessionEvent) -> Option<SessionEvent> {
    let SessionEvent::PtcDispatchStart { root_call_id, parent_call_id, sub_call_id, name, arguments } = start
    else {
        return None;
    };
    let failure = interrupted_call(true);
    let result = DurableResult {
        content: failure.default_content(),
        is_error: true,
        error: Some(failure),
        meta: None,
    };
    Some(SessionEvent::PtcDispatch { root_call_id, parent_call_id, sub_call_id, name, arguments, result })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tests::samples::{calls, message, partial, result, started, sub_call_started};

    /// What the closers of a log with these events are, in one word each.
    fn check(events: &[SessionEvent], expected: &[&str]) {
        let records: Vec<Record> = events
            .iter()
            .enumerate()
            .map(|(seq, event)| Record { seq: seq as u64, time: 7, ignorable: false, event: event.clone() })
            .collect();
        let closers = closers(&records);
        for (idx, closer) in closers.iter().enumerate() {
            assert_eq!((closer.seq, closer.time), ((records.len() + idx) as u64, 7));
        }
        let words: Vec<String> = closers.iter().map(|closer| word(&closer.event)).collect();
        assert_eq!(words, expected);
        let mut repaired = records;
        repaired.extend(closers);
        assert_eq!(super::closers(&repaired), []);
    }

    fn word(event: &SessionEvent) -> String {
        match event {
            SessionEvent::AssistantMessage { interrupted, .. } => format!("message {interrupted}"),
            SessionEvent::ToolResult { message, error, .. } => {
                let code = error.as_ref().and_then(|error| error.code()).unwrap_or_default();
                format!("{} {code}", message.call_id)
            }
            SessionEvent::PtcDispatch { sub_call_id, .. } => format!("{sub_call_id} ended"),
            SessionEvent::StepEnd { turn, step } => format!("step {turn}.{step}"),
            SessionEvent::TurnEnd { turn, reason: TurnEndReason::Interrupted } => format!("turn {turn}"),
            other => format!("{other:?}"),
        }
    }

    #[test]
    fn a_closed_log_needs_nothing() {
        check(&[], &[]);
        check(&[SessionEvent::PlanMode { active: true }], &[]);
        let ended = SessionEvent::TurnEnd { turn: 1, reason: TurnEndReason::Completed };
        check(&[SessionEvent::TurnStart { turn: 1 }, ended], &[]);
    }

    #[test]
    fn a_turn_without_a_step_only_ends() {
        check(&[SessionEvent::TurnStart { turn: 4 }], &["turn 4"]);
    }

    #[test]
    fn calls_end_in_the_order_of_the_message_and_say_whether_they_had_started() {
        let events = [
            SessionEvent::TurnStart { turn: 1 },
            SessionEvent::StepStart { turn: 1, step: 1 },
            calls(1, 1, &["a", "b", "c", "d"]),
            started(1, 1, "a"),
            started(1, 1, "c"),
            started(1, 1, "b"),
            result(1, 1, "a"),
        ];
        let expected =
            ["b TOOL_OUTCOME_UNKNOWN", "c TOOL_OUTCOME_UNKNOWN", "d TOOL_NOT_STARTED", "step 1.1", "turn 1"];
        check(&events, &expected);
    }

    #[test]
    fn a_partial_message_becomes_an_interrupted_one() {
        let start = [SessionEvent::TurnStart { turn: 1 }, SessionEvent::StepStart { turn: 1, step: 2 }];
        let with = |more: &[SessionEvent]| [&start[..], more].concat();
        let said = partial(1, 2, "half a sen");
        check(&with(std::slice::from_ref(&said)), &["message true", "step 1.2", "turn 1"]);
        check(&with(&[said.clone(), message(1, 2, "half a sentence.")]), &["step 1.2", "turn 1"]);
        check(&with(&[said, SessionEvent::StepEnd { turn: 1, step: 2 }]), &["turn 1"]);
    }

    #[test]
    fn a_call_whose_message_is_lost_still_ends() {
        let events = [SessionEvent::StepStart { turn: 2, step: 1 }, started(2, 1, "a")];
        check(&events, &["a TOOL_OUTCOME_UNKNOWN", "step 2.1", "turn 2"]);
    }

    #[test]
    fn sub_calls_of_a_program_end_before_it() {
        let events = [
            SessionEvent::StepStart { turn: 1, step: 1 },
            calls(1, 1, &["p"]),
            started(1, 1, "p"),
            sub_call_started("p", 1),
        ];
        check(&events, &["p:ptc:1 ended", "p TOOL_OUTCOME_UNKNOWN", "step 1.1", "turn 1"]);
    }
}
