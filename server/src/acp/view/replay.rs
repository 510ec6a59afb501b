//! The log told again: on load, and its end for a client that is told nothing else.

use super::SessionView;
use super::shown::{ShownCall, present_stream};
use agent::state::SessionState;
use agent_client_protocol::v1::schema::SessionUpdate;
use presenters::{
    Showing, TerminalStyle, call_in_progress, present_event, present_mode, present_title, terminal_attached,
};
use protocol::event::{Record, SessionEvent};
use protocol::id::CallId;
use serde_json::Value;

impl SessionView {
    /// The log is told again from its start.
    pub async fn begin_replay(&self) {
        let mut shown = self.shown.lock().await;
        shown.state = self.parts.initial.clone();
        shown.running = std::mem::take(&mut shown.calls);
        let jobs = std::mem::take(&mut shown.jobs);
        shown.running.extend(jobs);
        shown.command = None;
    }

    /// Wire values of a logged event that is told again.
    pub async fn present_replayed(&self, record: &Record) -> Vec<Value> {
        let mut shown = self.shown.lock().await;
        let updates = self.updates(&mut shown, record, Showing::Replay).await;
        drop(shown);
        self.wire_all(updates)
    }

    /// Everything logged was told: wire values of what is not in the log yet, and of what counts now.
    pub async fn end_replay(&self) -> Vec<Value> {
        let mut shown = self.shown.lock().await;
        shown.running.clear();
        let mut updates: Vec<SessionUpdate> = shown.streaming.iter().filter_map(present_stream).collect();
        for (call_id, call) in &shown.calls {
            updates.extend(self.running_call(call_id, call).await);
        }
        for (call_id, call) in &shown.jobs {
            updates.extend(self.job_so_far(call_id, call));
        }
        updates.push(present_mode(shown.state.mode()));
        updates.extend(self.present(&shown.state));
        drop(shown);
        self.wire_all(updates)
    }

    /// Wire values of the title, the plan and the usage, for a client that is not told the log.
    pub async fn present_state(&self) -> Vec<Value> {
        let shown = self.shown.lock().await;
        let mut updates = self.present(&shown.state);
        if let Some(todos) = &shown.state.todos {
            let event = SessionEvent::TodoWrite { todos: todos.clone() };
            updates.extend(present_event(&self.parts.context, &event, Showing::Live));
        }
        drop(shown);
        self.wire_all(updates)
    }

    /// A call that runs while the log is told again, as far as it got.
    async fn running_call(&self, call_id: &CallId, call: &ShownCall) -> Vec<SessionUpdate> {
        let ctx = &self.parts.context;
        if let Some(result) = &call.settled {
            return vec![self.result(&self.replay, call_id, call, result).await];
        }
        let started = call.started.then(|| call_in_progress(ctx, &call.view(call_id), false));
        let terminal = call.terminal.as_ref().filter(|_| ctx.terminals == TerminalStyle::Client);
        let terminal = terminal.map(|terminal_id| terminal_attached(ctx, &call.view(call_id), terminal_id));
        started.into_iter().chain(terminal).collect()
    }

    /// The title, and the usage unless a turn runs, which will end with it.
    fn present(&self, state: &SessionState) -> Vec<SessionUpdate> {
        let title = state.title.as_ref().map(|(title, _)| present_title(title));
        let usage = if state.turn_open { None } else { self.usage(state) };
        title.into_iter().chain(usage).collect()
    }
}
