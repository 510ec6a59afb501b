//! One session as its client sees it: events and live updates to wire values, through the presenters.
//!
//! Runs in the outbox's task, in log order. Keeps what presenting needs between events: the calls that are shown, the
//! folded state, the message that streams, the tails of commands that are shown as text.
//!
//! A load tells the log again on the same road ([`replay`]): the conversation and
//! the plan in their places, the mode, the title and the usage once at its end, since only the last of them counts.

mod replay;
mod shown;
mod sub_calls;
#[cfg(test)]
pub(super) mod tests;

use self::shown::{Shown, ShownCall, follow, present_stream, remember};
use self::sub_calls::SubCall;
use super::config_options::config_options;
use super::outbox::Outbox;
use agent::core::Observer;
use agent::state::SessionState;
use agent_client_protocol::v1::schema::{
    ConfigOptionUpdate, SessionId as WireSessionId, SessionNotification, SessionUpdate,
};
use async_trait::async_trait;
use base64::Engine;
use pipeline::tool::Tool;
use presenters::{
    PresentContext, ResultContext, Showing, SubCalls, TerminalStyle, WholeText, call_in_progress,
    child_progress, child_settled, fallback_card, job_settled, present_call, present_event, present_mode,
    present_reasoning, present_result, present_text, present_usage, terminal_attached, terminal_exited,
    terminal_output, terminal_text, with_sub_calls,
};
use protocol::card::{CallCard, ExitState, GenericCall, ResultCard};
use protocol::content::ContentBlock;
use protocol::event::{Record, SessionEvent, TurnEndReason};
use protocol::id::{CallId, MessageId, SessionId, TerminalId};
use protocol::live::LiveUpdate;
use protocol::tool::{DurableResult, parse_arguments};
use serde_json::Value;
use services::attachments::Attachments;
use services::model::Models;
use services::session_store::Blobs;
use std::borrow::Cow;
use std::collections::HashMap;
use std::sync::{Arc, Weak};
use std::time::{Duration, Instant};
use tokio::sync::Mutex;

/// The parts of a result's meta that name what goes on after the call: a job, an agent.
const LASTING_META: [&str; 2] = ["jobId", "subagentId"];
/// How often a command that is shown as text is shown again.
const TEXT_EVERY: Duration = Duration::from_millis(500);
/// Largest side of a change that is shown as a whole; beyond it the hunks are.
const MAX_WHOLE_BYTES: usize = 1 << 20;

/// Finds the tool that makes a call's cards.
pub type FindTool = Arc<dyn Fn(&str) -> Option<Arc<dyn Tool>> + Send + Sync>;

/// What a view is made of.
pub struct ViewParts {
    /// The session.
    pub session_id: SessionId,
    /// How things look to this client.
    pub context: PresentContext,
    /// Whether the client also displays terminals of ours; used on replay, when its own are gone.
    pub display_terminals: bool,
    /// Tools by name.
    pub find_tool: FindTool,
    /// Full texts of changed files.
    pub blobs: Arc<dyn Blobs>,
    /// Models to choose from.
    pub models: Arc<dyn Models>,
    /// Images of prompts and results.
    pub attachments: Arc<dyn Attachments>,
    /// The fold of an empty log.
    pub initial: SessionState,
    /// Where this view's updates go.
    pub outbox: Outbox,
}

/// One session as its client sees it.
pub struct SessionView {
    parts: ViewParts,
    /// Itself, to put later updates into the outbox.
    this: Weak<SessionView>,
    /// How things look when they are told again.
    replay: PresentContext,
    shown: Mutex<Shown>,
}

impl SessionView {
    /// A view of a session with these records, of which nothing was shown yet.
    pub fn new(parts: ViewParts, records: &[Record]) -> Arc<Self> {
        let mut state = parts.initial.clone();
        for record in records {
            follow(&mut state, &record.event);
        }
        let shown = Shown {
            state,
            calls: HashMap::new(),
            jobs: HashMap::new(),
            streaming: Vec::new(),
            command: None,
            running: HashMap::new(),
        };
        let mut replay = parts.context.clone();
        if parts.display_terminals {
            // The client's own terminals are gone; those it only displays can be filled again.
            replay.terminals = TerminalStyle::Display;
        }
        Arc::new_cyclic(|this| Self { this: this.clone(), replay, shown: Mutex::new(shown), parts })
    }

    /// Wire values of a logged event that happens now.
    pub async fn present_event(&self, record: &Record) -> Vec<Value> {
        let mut shown = self.shown.lock().await;
        let updates = self.updates(&mut shown, record, Showing::Live).await;
        drop(shown);
        self.wire_all(updates)
    }

    /// Wire values of a live update.
    pub async fn present_live(&self, update: &LiveUpdate) -> Vec<Value> {
        let mut shown = self.shown.lock().await;
        let updates = self.live_updates(&mut shown, update).await;
        drop(shown);
        self.wire_all(updates)
    }

    /// The wire value of an update; `None` when it cannot be written, which is logged.
    pub fn wire(&self, update: SessionUpdate) -> Option<Value> {
        let notification =
            SessionNotification::new(WireSessionId::new(self.parts.session_id.as_str()), update);
        match presenters::wire::update_params(&notification) {
            Ok(value) => Some(value),
            Err(error) => {
                tracing::error!(%error, "an update could not be written");
                None
            }
        }
    }

    fn wire_all(&self, updates: Vec<SessionUpdate>) -> Vec<Value> {
        updates.into_iter().filter_map(|update| self.wire(update)).collect()
    }

    async fn updates(&self, shown: &mut Shown, record: &Record, showing: Showing) -> Vec<SessionUpdate> {
        let live = showing == Showing::Live;
        let ctx = if live { &self.parts.context } else { &self.replay };
        let (mode, had_plan) = (shown.state.mode(), shown.state.todos.is_some());
        let chosen =
            matches!(record.event, SessionEvent::RequestContext { .. }).then(|| self.chosen(&shown.state));
        follow(&mut shown.state, &record.event);
        match &record.event {
            SessionEvent::ToolCall { call_id, name, arguments, .. } => {
                let call = match shown.running.remove(call_id) {
                    // The calls of its program are told again too.
                    Some(call) => ShownCall { sub_calls: SubCalls::default(), ..call },
                    None => ShownCall::new(name, parse_arguments(arguments), &self.parts.find_tool),
                };
                let update = present_call(ctx, &call.view(call_id));
                shown.calls.insert(call_id.clone(), call);
                vec![update]
            }
            SessionEvent::ApprovalAsked { call_id, .. } => {
                match shown.calls.get_mut(call_id) {
                    Some(call) => call.asked = true,
                    None => return self.asked_sub_call(shown, ctx, call_id),
                }
                Vec::new()
            }
            SessionEvent::PtcDispatchStart { root_call_id, sub_call_id, name, arguments, .. } => {
                let started =
                    SubCall { program: root_call_id, call_id: sub_call_id, name, arguments, result: None };
                self.sub_call(shown, ctx, live, started).await
            }
            SessionEvent::PtcDispatch { root_call_id, sub_call_id, name, arguments, result, .. } => {
                let result = Some(result);
                let ended = SubCall { program: root_call_id, call_id: sub_call_id, name, arguments, result };
                self.sub_call(shown, ctx, live, ended).await
            }
            SessionEvent::ToolResult { message, error, meta, .. } => {
                let result = DurableResult {
                    content: message.content.clone(),
                    is_error: message.is_error,
                    error: error.clone(),
                    meta: meta.clone(),
                };
                // A result that replaces earlier history is no execution.
                let Some(mut call) = shown.calls.remove(&message.call_id) else { return Vec::new() };
                // A policy may have replaced what the model reads; how the call ended was shown when its body did.
                let was_shown =
                    live && call.settled.as_ref().is_some_and(|shown| shown.error == result.error);
                let mut updates = Vec::new();
                if !was_shown {
                    updates.push(self.result(ctx, &message.call_id, &call, &result).await);
                }
                if meta.as_ref().is_some_and(|meta| LASTING_META.iter().any(|name| meta.get(name).is_some()))
                {
                    if let Some(end) = call.job_end.take() {
                        updates.extend(job_end(ctx, &call, &end, live));
                    } else {
                        updates.extend(self.job_so_far(&message.call_id, &call));
                        shown.jobs.insert(message.call_id.clone(), call);
                    }
                }
                updates
            }
            SessionEvent::JobSettled { call_id, .. } | SessionEvent::SubagentSettled { call_id, .. } => {
                if let Some(call) = shown.jobs.remove(call_id) {
                    return job_end(ctx, &call, &record.event, live).into_iter().collect();
                }
                // Its call has not ended yet, and will replace what the card holds.
                if let Some(call) = shown.calls.get_mut(call_id) {
                    call.job_end = Some(record.event.clone());
                }
                Vec::new()
            }
            SessionEvent::PlanMode { .. } | SessionEvent::PermissionPreset { .. } => {
                if live && shown.state.mode() != mode {
                    vec![present_mode(shown.state.mode()), self.config_update(&shown.state)]
                } else {
                    Vec::new()
                }
            }
            SessionEvent::RequestContext { .. } if live && chosen != Some(self.chosen(&shown.state)) => {
                vec![self.config_update(&shown.state)]
            }
            SessionEvent::Title { .. } if !live => Vec::new(),
            SessionEvent::TurnStart { .. } if had_plan => {
                present_event(ctx, &SessionEvent::TodoWrite { todos: Vec::new() }, showing)
            }
            SessionEvent::TurnEnd { .. } if live => {
                shown.streaming.clear();
                self.usage(&shown.state).into_iter().collect()
            }
            // Live it was the answer to the prompt that said so.
            SessionEvent::TurnEnd { reason: TurnEndReason::Error { message, .. }, .. } => {
                let id = MessageId::new(format!("end_{}", record.seq));
                vec![present_text(&id, &format!("The turn failed: {message}"))]
            }
            SessionEvent::LlmRetry { attempt, delay_ms, message, .. } => {
                let id = MessageId::new(format!("retry_{}", record.seq));
                let text =
                    format!("{message}\nTrying again in {:.1} s (retry {attempt}).\n", as_seconds(*delay_ms));
                vec![present_reasoning(&id, &text)]
            }
            // The message that follows tells what was typed; only a command that ends here is told by itself.
            event @ SessionEvent::CommandRun { .. } if !live => {
                shown.command = Some(event.clone());
                Vec::new()
            }
            event @ SessionEvent::CommandDone { text, .. } if !live => {
                let line = shown.command.take().filter(|_| !text.is_empty());
                let line = line.iter().flat_map(|line| present_event(ctx, line, showing));
                line.chain(present_event(ctx, event, showing)).collect()
            }
            event @ SessionEvent::UserMessage { message } if !live => {
                let ctx = self.with_images(ctx, &message.content).await;
                present_event(&ctx, event, showing)
            }
            SessionEvent::AssistantMessage { .. } if live => {
                shown.streaming.clear();
                Vec::new()
            }
            event => present_event(ctx, event, showing),
        }
    }

    async fn live_updates(&self, shown: &mut Shown, update: &LiveUpdate) -> Vec<SessionUpdate> {
        let ctx = &self.parts.context;
        match update {
            LiveUpdate::Text { .. } | LiveUpdate::Reasoning { .. } => {
                remember(&mut shown.streaming, update);
                present_stream(update).into_iter().collect()
            }
            LiveUpdate::CallStarted { call_id } => {
                let Some(call) = shown.calls.get_mut(call_id) else { return Vec::new() };
                call.started = true;
                vec![call_in_progress(ctx, &call.view(call_id), call.asked)]
            }
            LiveUpdate::CallSettled { call_id, result } => {
                let Some(call) = shown.calls.get_mut(call_id) else { return Vec::new() };
                let update = self.result(ctx, call_id, call, result).await;
                call.settled = Some(result.clone());
                vec![update]
            }
            LiveUpdate::ChildProgress { call_id, text } => {
                let call = shown.call_mut(call_id);
                call.map(|call| child_progress(ctx, &call.view(call_id), text)).into_iter().collect()
            }
            LiveUpdate::ChildCallAsked { call_id, name, arguments } => {
                if shown.calls.contains_key(call_id) {
                    return Vec::new();
                }
                let mut call = ShownCall::new(name, arguments.clone(), &self.parts.find_tool);
                call.asked = true;
                let update = present_call(ctx, &call.view(call_id));
                shown.calls.insert(call_id.clone(), call);
                vec![update]
            }
            LiveUpdate::ChildCallEnded { call_id, result } => {
                let Some(call) = shown.calls.remove(call_id) else { return Vec::new() };
                vec![self.result(ctx, call_id, &call, result).await]
            }
            LiveUpdate::TerminalAttached { call_id, terminal_id } => {
                let Some(call) = shown.call_mut(call_id) else { return Vec::new() };
                call.terminal = Some(terminal_id.clone());
                vec![terminal_attached(ctx, &call.view(call_id), terminal_id)]
            }
            LiveUpdate::TerminalOpened { call_id, .. } => {
                if let (TerminalStyle::Display, Some(call)) = (ctx.terminals, shown.calls.get_mut(call_id))
                    // Only such a card announced a terminal.
                    && matches!(call.card, CallCard::Terminal(_))
                {
                    call.terminal = Some(TerminalId::new(call_id.as_str()));
                }
                Vec::new()
            }
            LiveUpdate::TerminalOutput { call_id, delta } => {
                let Some(call) = shown.call_mut(call_id) else { return Vec::new() };
                if call.terminal.is_some() {
                    return vec![terminal_output(call_id, delta)];
                }
                self.text_output(call_id, call, delta).into_iter().collect()
            }
            LiveUpdate::TerminalExited { call_id, exit_code, signal } => {
                let displayed = ctx.terminals == TerminalStyle::Display
                    && shown.calls.get(call_id).is_some_and(|call| call.terminal.is_some());
                let exit = match (exit_code, signal) {
                    (_, Some(signal)) => ExitState::Signal(signal.clone()),
                    (Some(code), None) => ExitState::Code(*code),
                    (None, None) => ExitState::Unknown,
                };
                displayed.then(|| terminal_exited(call_id, &exit)).into_iter().collect()
            }
        }
    }

    /// What a job that goes on has shown so far; its call's end has replaced it.
    fn job_so_far(&self, call_id: &CallId, call: &ShownCall) -> Option<SessionUpdate> {
        let (ctx, view) = (&self.parts.context, call.view(call_id));
        match &call.terminal {
            Some(terminal_id) => Some(terminal_attached(ctx, &view, terminal_id)),
            None if call.text.tail.is_empty() => None,
            None => Some(terminal_text(ctx, &view, &call.text.tail, call.text.omitted_bytes)),
        }
    }

    /// A growing snapshot of the output's end, at a bounded rate.
    fn text_output(&self, call_id: &CallId, call: &mut ShownCall, delta: &str) -> Option<SessionUpdate> {
        call.text.push(delta);
        let now = Instant::now();
        let due = call.text.shown_at.is_none_or(|at| now.duration_since(at) >= TEXT_EVERY);
        if due {
            call.text.shown_at = Some(now);
            call.text.scheduled = false;
            let view = call.view(call_id);
            return Some(terminal_text(&self.parts.context, &view, &call.text.tail, call.text.omitted_bytes));
        }
        if !call.text.scheduled {
            call.text.scheduled = true;
            let (this, call_id) = (self.this.clone(), call_id.clone());
            tokio::spawn(async move {
                tokio::time::sleep(TEXT_EVERY).await;
                if let Some(view) = this.upgrade() {
                    // Nothing new: only asks for what came meanwhile.
                    let nudge = LiveUpdate::TerminalOutput { call_id, delta: String::new() };
                    view.parts.outbox.live(&view, nudge);
                }
            });
        }
        None
    }

    async fn result(
        &self,
        ctx: &PresentContext,
        call_id: &CallId,
        call: &ShownCall,
        result: &DurableResult,
    ) -> SessionUpdate {
        let card = (self.parts.find_tool)(&call.name).and_then(|tool| {
            std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
                tool.present_result(&call.arguments, result)
            }))
            .unwrap_or_default()
        });
        let whole_file = match &card {
            Some(ResultCard::Diff(diff)) => self.whole_file(diff).await,
            _ => None,
        };
        let shown = ResultContext { terminal: call.terminal.clone(), whole_file };
        let ctx = self.with_images(ctx, &result.content).await;
        let ended = present_result(&ctx, &call.view(call_id), result, card.as_ref(), &shown);
        with_sub_calls(ended, &call.sub_calls)
    }

    /// The context with the images of this content fetched; one that is lost is named in words.
    async fn with_images<'a>(
        &self,
        ctx: &'a PresentContext,
        content: &[ContentBlock],
    ) -> Cow<'a, PresentContext> {
        let mut ctx = Cow::Borrowed(ctx);
        for block in content {
            let ContentBlock::Image { attachment } = block else { continue };
            match self.parts.attachments.load(&attachment.attachment_id).await {
                Ok(bytes) => {
                    let data = base64::engine::general_purpose::STANDARD.encode(bytes);
                    ctx.to_mut().images.insert(attachment.attachment_id.clone(), data);
                }
                Err(error) => {
                    tracing::debug!(id = %attachment.attachment_id, %error, "an image is not shown")
                }
            }
        }
        ctx
    }

    /// Both sides of a change, when both are still kept and neither is too large.
    async fn whole_file(&self, diff: &protocol::card::DiffResult) -> Option<WholeText> {
        let whole = diff.whole.as_ref()?;
        let after = self.parts.blobs.get(&whole.after).await?;
        let before = match &whole.before {
            Some(hash) => Some(self.parts.blobs.get(hash).await?),
            None => None,
        };
        let largest = after.len().max(before.as_ref().map_or(0, String::len));
        (largest <= MAX_WHOLE_BYTES).then_some(WholeText { before, after })
    }

    fn chosen(&self, state: &SessionState) -> (protocol::model::ModelRef, Option<String>) {
        state.model.clone().unwrap_or_else(|| {
            let model = self.parts.models.default_model();
            let effort = self.parts.models.info(&model).default_effort;
            (model, effort)
        })
    }

    fn config_update(&self, state: &SessionState) -> SessionUpdate {
        let (model, effort) = self.chosen(state);
        let options = config_options(&*self.parts.models, state.mode(), &model, effort.as_deref());
        SessionUpdate::ConfigOptionUpdate(ConfigOptionUpdate::new(options))
    }

    fn usage(&self, state: &SessionState) -> Option<SessionUpdate> {
        let usage = state.usage?;
        let info = self.parts.models.info(&self.chosen(state).0);
        // A sum that leaves out what one model cost would be a lie.
        let cost = state
            .spent
            .iter()
            .map(|(model, spent)| self.parts.models.info(model).price.map(|price| price.of(spent)));
        let cost = cost.sum::<Option<f64>>().filter(|_| !state.spent.is_empty());
        present_usage(&self.parts.context, usage.context_tokens(), info.context_window, cost)
    }
}

/// The card of a call: the tool's own, else the generic one. A tool that panics here costs its card only.
pub fn card_of(find_tool: &FindTool, name: &str, arguments: &Value) -> CallCard {
    find_tool(name)
        .and_then(|tool| {
            std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| tool.present_call(arguments)))
                .unwrap_or_default()
        })
        .or_else(|| absent_card(name, arguments))
        .unwrap_or_else(|| fallback_card(name, arguments))
}

/// The card of a tool whose MCP server is not connected: as the tool's own, as far as its name tells.
fn absent_card(name: &str, arguments: &Value) -> Option<CallCard> {
    let (server, tool) = name.strip_prefix("mcp__")?.split_once("__")?;
    Some(CallCard::Generic(GenericCall {
        title: format!("{tool} ({server})"),
        raw_input: Some(arguments.clone()),
        ..GenericCall::default()
    }))
}

#[expect(clippy::cast_precision_loss, reason = "a delay of seconds, shown with one decimal")]
fn as_seconds(ms: u64) -> f64 {
    ms as f64 / 1000.0
}

/// Puts what happens in a session into the outbox.
pub struct ViewObserver(pub Arc<SessionView>);

#[async_trait]
impl Observer for ViewObserver {
    fn event(&self, record: &Record) {
        self.0.parts.outbox.event(&self.0, record.clone());
    }

    fn live(&self, update: LiveUpdate) {
        self.0.parts.outbox.live(&self.0, update);
    }

    async fn ready(&self) {
        self.0.parts.outbox.ready().await;
    }
}

/// How a job ended, in the card of its call. On load a terminal of the client is gone, and the logged end of the output
/// stands for it.
fn job_end(ctx: &PresentContext, call: &ShownCall, end: &SessionEvent, live: bool) -> Option<SessionUpdate> {
    let (call_id, job_id, status, detail, tail, omitted_bytes) = match end {
        SessionEvent::JobSettled { call_id, job_id, status, detail, tail, omitted_bytes } => {
            (call_id, job_id, status, detail, tail, omitted_bytes)
        }
        SessionEvent::SubagentSettled { call_id, status, text, .. } => {
            return Some(child_settled(ctx, &call.view(call_id), status, text));
        }
        _ => return None,
    };
    let detail = detail.as_ref().map(|detail| format!(", {detail}")).unwrap_or_default();
    let line = format!("{job_id}: {status}{detail}");
    let terminal = call.terminal.as_ref().filter(|_| live);
    Some(job_settled(ctx, &call.view(call_id), (tail, *omitted_bytes), &line, terminal))
}
