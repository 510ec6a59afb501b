//! What a view remembers between two events.

use super::{FindTool, card_of};
use agent::state::SessionState;
use agent_client_protocol::v1::schema::SessionUpdate;
use presenters::{CallView, SubCalls, present_reasoning, present_text};
use protocol::card::CallCard;
use protocol::event::SessionEvent;
use protocol::id::{CallId, TerminalId};
use protocol::live::LiveUpdate;
use protocol::tool::DurableResult;
use serde_json::Value;
use std::collections::HashMap;
use std::time::Instant;

/// How much of its end is shown while it runs.
const TEXT_TAIL_BYTES: usize = 8 << 10;

/// What was shown so far.
pub(super) struct Shown {
    pub state: SessionState,
    pub calls: HashMap<CallId, ShownCall>,
    /// Calls that ended and whose background jobs have not: their cards go on changing.
    pub jobs: HashMap<CallId, ShownCall>,
    /// What was shown of the model's message that is not logged yet, in order.
    pub streaming: Vec<LiveUpdate>,
    /// A command told again whose end decides how it is shown.
    pub command: Option<SessionEvent>,
    /// While the log is told again: what was known of the calls that run.
    pub running: HashMap<CallId, ShownCall>,
}

/// A call that is shown and not yet ended.
pub(super) struct ShownCall {
    pub name: String,
    pub arguments: Value,
    pub card: CallCard,
    /// Whether a question replaced its content.
    pub asked: bool,
    /// Whether its body was entered.
    pub started: bool,
    pub terminal: Option<TerminalId>,
    /// What it was shown to end with, before its result was logged.
    pub settled: Option<DurableResult>,
    pub text: TextTail,
    /// How its job ended, when that was told before the call's own end.
    pub job_end: Option<SessionEvent>,
    /// The calls of the program it runs.
    pub sub_calls: SubCalls,
    /// Those of them that run and have no card of their own.
    pub sub_running: HashMap<CallId, ShownCall>,
}

/// The end of the output of a command that is shown as text.
#[derive(Default)]
pub(super) struct TextTail {
    pub tail: String,
    pub omitted_bytes: u64,
    pub shown_at: Option<Instant>,
    /// Whether an update is under way that will show what came since.
    pub scheduled: bool,
}

impl Shown {
    /// The call, or the one whose job goes on.
    pub fn call_mut(&mut self, call_id: &CallId) -> Option<&mut ShownCall> {
        match self.calls.get_mut(call_id) {
            Some(call) => Some(call),
            None => self.jobs.get_mut(call_id),
        }
    }
}

impl ShownCall {
    pub fn new(name: &str, arguments: Value, find_tool: &FindTool) -> Self {
        Self {
            name: name.to_owned(),
            card: card_of(find_tool, name, &arguments),
            arguments,
            asked: false,
            started: false,
            terminal: None,
            settled: None,
            text: TextTail::default(),
            job_end: None,
            sub_calls: SubCalls::default(),
            sub_running: HashMap::new(),
        }
    }

    pub fn view<'a>(&'a self, call_id: &'a CallId) -> CallView<'a> {
        CallView { call_id, name: &self.name, arguments: &self.arguments, card: &self.card }
    }
}

impl TextTail {
    pub fn push(&mut self, delta: &str) {
        self.tail.push_str(delta);
        if self.tail.len() > TEXT_TAIL_BYTES {
            let excess = self.tail.len() - TEXT_TAIL_BYTES;
            let cut = self.tail.ceil_char_boundary(excess);
            self.tail.drain(..cut);
            self.omitted_bytes += cut as u64;
        }
    }
}

/// Takes an event into account. Prompts and tool lists are of no use to a view, and large.
pub(super) fn follow(state: &mut SessionState, event: &SessionEvent) {
    if !matches!(event, SessionEvent::RequestHeader { .. }) {
        state.apply(event);
    }
}

/// More of a model's message as a wire value.
pub(super) fn present_stream(update: &LiveUpdate) -> Option<SessionUpdate> {
    match update {
        LiveUpdate::Text { message_id, delta } => Some(present_text(message_id, delta)),
        LiveUpdate::Reasoning { message_id, delta } => Some(present_reasoning(message_id, delta)),
        _ => None,
    }
}

/// Adds more of a model's message to what was shown of it.
pub(super) fn remember(streaming: &mut Vec<LiveUpdate>, update: &LiveUpdate) {
    match (streaming.last_mut(), update) {
        (
            Some(LiveUpdate::Text { message_id, delta }),
            LiveUpdate::Text { message_id: same, delta: more },
        )
        | (
            Some(LiveUpdate::Reasoning { message_id, delta }),
            LiveUpdate::Reasoning { message_id: same, delta: more },
        ) if message_id == same => delta.push_str(more),
        _ => streaming.push(update.clone()),
    }
}
