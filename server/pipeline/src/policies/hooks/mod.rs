//! The user's hooks: commands that may refuse a call, a prompt or the end of a turn, or add context.
//!
//! [`Hooks`] runs them and logs each; as a [`Policy`] it stands round calls, and the agent asks it at the other points. A
//! hook can only tighten: its "allow" silences nobody's question. `settings.rs` reads the file, `say.rs` reads a hook's
//! words. Source: `spec/runtime.md` §8; product decisions, "hooks, trust".

mod say;
mod settings;
#[cfg(test)]
mod tests;

pub use settings::{Hook, HookPoint, HookSettings};

use crate::call::PendingCall;
use crate::context::SessionScope;
use crate::policy::{Policy, PostNext, PreNext, strictest};
use async_trait::async_trait;
use protocol::content::ContentBlock;
use protocol::decision::{PostDecision, PostVerdict, PreDecision};
use protocol::event::SessionEvent;
use protocol::id::{MessageId, SessionId};
use protocol::message::{ContextForm, MessageSource, UserMessage};
use protocol::mode::Mode;
use protocol::tool::{Outcome, ToolFailure};
use say::{Say, summary};
use serde_json::{Map, Value, json};
use services::hooks::{HookEnd, HookRun, HookRunner};
use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};
use tokio_util::sync::CancellationToken;

/// Names the hooks in messages and logs.
pub const PLUGIN: &str = "hooks";

/// The dialect of the settings and payloads.
const DIALECT: &str = "claude";

/// The hooks of a deployment.
pub struct Hooks {
    settings: HookSettings,
    runner: Arc<dyn HookRunner>,
    /// Sessions whose turn a hook round a call wants to end, and why.
    stops: Mutex<HashMap<SessionId, String>>,
}

/// What hooks outside a call decided.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct HookVerdict {
    /// Why it is refused; `None` lets it be.
    pub refused: Option<String>,
    /// Texts for the model.
    pub contexts: Vec<String>,
    /// Why the turn is to end; `None` lets it go on.
    pub stop: Option<String>,
}

impl Hooks {
    /// Hooks of a file.
    pub fn new(settings: HookSettings, runner: Arc<dyn HookRunner>) -> Self {
        Self { settings, runner, stops: Mutex::default() }
    }

    /// A prompt is about to enter.
    ///
    /// # Errors
    /// The log could not be written.
    pub async fn user_prompt(
        &self,
        session: &SessionScope,
        prompt: &str,
        cancel: &CancellationToken,
    ) -> Result<HookVerdict, ToolFailure> {
        // What a turn that broke off left behind.
        self.take_stop(&session.session_id);
        self.verdict(HookPoint::UserPromptSubmit, session, json!({ "prompt": prompt }), cancel).await
    }

    /// A turn is about to end; `is_again` says that a hook kept it from ending before. A refusal sends it on.
    ///
    /// # Errors
    /// The log could not be written.
    pub async fn turn_stops(
        &self,
        session: &SessionScope,
        is_again: bool,
        cancel: &CancellationToken,
    ) -> Result<HookVerdict, ToolFailure> {
        self.verdict(HookPoint::Stop, session, json!({ "stop_hook_active": is_again }), cancel).await
    }

    /// The first turn after a session was opened. Only contexts count.
    ///
    /// # Errors
    /// The log could not be written.
    pub async fn session_starts(
        &self,
        session: &SessionScope,
        is_resumed: bool,
        cancel: &CancellationToken,
    ) -> Result<Vec<String>, ToolFailure> {
        let source = if is_resumed { "resume" } else { "startup" };
        let verdict =
            self.verdict(HookPoint::SessionStart, session, json!({ "source": source }), cancel).await?;
        Ok(verdict.contexts)
    }

    /// Why a hook round a call of this session wants its turn to end. Takes it.
    pub fn take_stop(&self, session_id: &SessionId) -> Option<String> {
        self.stops.lock().unwrap_or_else(PoisonError::into_inner).remove(session_id)
    }

    async fn verdict(
        &self,
        point: HookPoint,
        session: &SessionScope,
        payload: Value,
        cancel: &CancellationToken,
    ) -> Result<HookVerdict, ToolFailure> {
        let say = self.run(point, None, session, payload, cancel).await?;
        Ok(HookVerdict { refused: say.refusal(), contexts: say.contexts, stop: say.stop })
    }

    /// Runs the hooks of a point one after the other, in the order of the file.
    async fn run(
        &self,
        point: HookPoint,
        tool: Option<&str>,
        session: &SessionScope,
        payload: Value,
        cancel: &CancellationToken,
    ) -> Result<Say, ToolFailure> {
        let hooks = self.settings.hooks.iter().filter(|hook| hook.point == point);
        let mut all = Say::default();
        let mut input = None;
        for hook in hooks.filter(|hook| tool.is_none_or(|tool| hook.matches(tool))) {
            if cancel.is_cancelled() {
                break;
            }
            let input = input.get_or_insert_with(|| input_of(point, session, &payload)).clone();
            session.host.append(SessionEvent::HookInvoked {
                point: point.id().to_owned(),
                dialect: DIALECT.to_owned(),
                matcher: hook.matcher_text.clone(),
                handler_id: hook.handler_id.clone(),
            })?;
            let began = session.services.clock.monotonic();
            let run = HookRun {
                command: hook.command.clone(),
                cwd: session.cwd.clone(),
                input,
                timeout: hook.timeout,
            };
            let end = self.runner.run(run, cancel).await;
            let took = session.services.clock.monotonic().saturating_sub(began);
            let say = Say::of(point, &end);
            let is_well = matches!(end, HookEnd::Exited { code: Some(0 | 2), .. });
            if !is_well {
                tracing::warn!(
                    hook = hook.handler_id,
                    summary = summary(&end),
                    "a hook failed; it decides nothing"
                );
            }
            session.host.append(SessionEvent::HookResult {
                point: point.id().to_owned(),
                handler_id: hook.handler_id.clone(),
                decision: if is_well { say.decision() } else { "error" }.to_owned(),
                exit_code: match end {
                    HookEnd::Exited { code, .. } => code,
                    _ => None,
                },
                stderr_summary: summary(&end),
                duration_ms: u64::try_from(took.as_millis()).unwrap_or(u64::MAX),
            })?;
            all.merge(say);
        }
        Ok(all)
    }

    fn pending_stop(&self, session_id: &SessionId) -> Option<String> {
        self.stops.lock().unwrap_or_else(PoisonError::into_inner).get(session_id).cloned()
    }

    /// Remembers that a turn is to end; gives the reason.
    fn stop(&self, call: &PendingCall, say: &Say) -> Option<String> {
        let reason = say.stop.clone()?;
        let mut stops = self.stops.lock().unwrap_or_else(PoisonError::into_inner);
        stops.entry(call.execution.session_id.clone()).or_insert_with(|| reason.clone());
        Some(reason)
    }
}

#[async_trait]
impl Policy for Hooks {
    fn name(&self) -> &str {
        PLUGIN
    }

    async fn pre_execute(&self, call: &PendingCall, next: PreNext<'_>) -> Result<PreDecision, ToolFailure> {
        let execution = &call.execution;
        if let Some(reason) = self.pending_stop(&execution.session_id) {
            // Calls beside the one that was stopped.
            return Ok(PreDecision::Deny { reason, info: None });
        }
        let payload = json!({ "tool_name": execution.name, "tool_input": *execution.arguments });
        let say = self
            .run(HookPoint::PreToolUse, Some(&execution.name), &call.session, payload, &call.cancel)
            .await?;
        if call.cancel.is_cancelled() {
            return Ok(PreDecision::Cancel);
        }
        if let Some(reason) = self.stop(call, &say).or_else(|| say.refusal()) {
            return Ok(PreDecision::Deny { reason, info: None });
        }
        let inner = next.run().await?;
        if say.ask.is_empty() {
            return Ok(inner);
        }
        let question = PreDecision::Ask {
            reason: Some(say.ask.join("\n\n")),
            display_reason: None,
            rule: None,
            grant: None,
        };
        Ok(strictest(question, inner))
    }

    async fn post_execute(
        &self,
        call: &PendingCall,
        outcome: &Outcome,
        next: PostNext<'_>,
    ) -> Result<PostDecision, ToolFailure> {
        let mut decision = next.run().await?;
        let Ok(value) = &outcome.result else { return Ok(decision) };
        let execution = &call.execution;
        let payload = json!({
            "tool_name": execution.name,
            "tool_input": *execution.arguments,
            "tool_response": value,
        });
        let say = self
            .run(HookPoint::PostToolUse, Some(&execution.name), &call.session, payload, &call.cancel)
            .await?;
        self.stop(call, &say);
        for text in &say.contexts {
            let id = MessageId::new(format!("msg_{}", call.session.services.clock.fresh_id()));
            decision.additional_contexts.push(context(id, text));
        }
        if let Some(feedback) = say.refusal() {
            decision.verdict = PostVerdict::Block(vec![ContentBlock::text(feedback)]);
        }
        Ok(decision)
    }
}

/// What a hook adds for the model.
pub fn context(id: MessageId, text: &str) -> UserMessage {
    UserMessage {
        id,
        content: vec![ContentBlock::text(text)],
        source: MessageSource::Plugin { plugin: PLUGIN.to_owned(), form: ContextForm::Notice },
    }
}

fn input_of(point: HookPoint, session: &SessionScope, payload: &Value) -> String {
    let mut input = Map::new();
    input.insert("session_id".to_owned(), json!(session.session_id));
    input.insert("cwd".to_owned(), json!(session.cwd));
    input.insert("permission_mode".to_owned(), json!(permission_mode(session.host.mode())));
    input.insert("hook_event_name".to_owned(), json!(point.id()));
    input.extend(payload.as_object().cloned().unwrap_or_default());
    Value::Object(input).to_string()
}

/// The mode in the words of the dialect.
fn permission_mode(mode: Mode) -> &'static str {
    match mode {
        Mode::Plan => "plan",
        Mode::WorkspaceWrite => "acceptEdits",
        Mode::DangerFullAccess => "bypassPermissions",
        Mode::Ask | Mode::ReadOnly => "default",
    }
}
