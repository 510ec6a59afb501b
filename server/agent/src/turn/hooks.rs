//! Where a turn asks the user's hooks: at its prompt, when a hook round a call stopped it, and at its end.

use super::{Turn, unprepared};
use pipeline::policies::hooks::{HookVerdict, Hooks, context};
use protocol::content::ContentBlock;
use protocol::event::{AbortCause, SessionEvent, TurnEndReason};
use protocol::id::MessageId;
use protocol::tool::ToolFailure;
use services::session_store::StoreError;
use std::sync::atomic::Ordering;

/// How often hooks may send one turn on when it wants to end.
const MAX_SENT_ON: u32 = 10;

impl Turn<'_> {
    /// Asks whether a prompt may enter; gives what enters with it, or why the turn ends.
    pub(super) async fn ask_at_prompt(
        &self,
        prompt: &[ContentBlock],
    ) -> Result<Result<Vec<String>, TurnEndReason>, StoreError> {
        let Some(hooks) = &self.shared.hooks else { return Ok(Ok(Vec::new())) };
        let (contexts, verdict) = match self.prompt_verdict(hooks, prompt).await {
            Ok(answers) => answers,
            Err(failure) => return Ok(Err(unprepared(&failure.message))),
        };
        if let Some(reason) = verdict.stop {
            return self.stopped(&reason).map(Err);
        }
        if let Some(reason) = verdict.refused {
            self.say(&format!("A hook refused this prompt: {reason}"))?;
            return Ok(Err(TurnEndReason::Blocked));
        }
        Ok(Ok(contexts.into_iter().chain(verdict.contexts).collect()))
    }

    async fn prompt_verdict(
        &self,
        hooks: &Hooks,
        prompt: &[ContentBlock],
    ) -> Result<(Vec<String>, HookVerdict), ToolFailure> {
        let (scope, cancel) = (&self.shared.scope, &self.cancel);
        let mut contexts = Vec::new();
        if !self.shared.is_started.swap(true, Ordering::Relaxed) {
            let is_resumed = self.shared.resumed.load(Ordering::Relaxed);
            contexts = hooks.session_starts(scope, is_resumed, cancel).await?;
        }
        let text: Vec<&str> = prompt.iter().filter_map(ContentBlock::as_text).collect();
        Ok((contexts, hooks.user_prompt(scope, &text.join("\n"), cancel).await?))
    }

    /// Adds what hooks say to the conversation.
    pub(super) fn add_contexts(&self, contexts: &[String]) -> Result<(), StoreError> {
        for text in contexts {
            let message = context(self.fresh_message_id(), text);
            self.shared.core.append(SessionEvent::UserMessage { message })?;
        }
        Ok(())
    }

    /// Whether a hook round one of the calls ended the turn.
    pub(super) fn stopped_by_call(&self) -> Result<Option<TurnEndReason>, StoreError> {
        let reason =
            self.shared.hooks.as_ref().and_then(|hooks| hooks.take_stop(&self.shared.scope.session_id));
        reason.map(|reason| self.stopped(&reason)).transpose()
    }

    /// Asks whether the turn may end; `None` sends it on.
    pub(super) async fn ask_at_end(&self) -> Result<Option<TurnEndReason>, StoreError> {
        let Some(hooks) = &self.shared.hooks else { return Ok(Some(TurnEndReason::Completed)) };
        let n_before = self.n_sent_on.load(Ordering::Relaxed);
        let asked = hooks.turn_stops(&self.shared.scope, n_before > 0, &self.cancel).await;
        let verdict = match asked {
            Ok(verdict) => verdict,
            Err(failure) => return Ok(Some(unprepared(&failure.message))),
        };
        self.add_contexts(&verdict.contexts)?;
        let Some(reason) = verdict.refused.filter(|_| verdict.stop.is_none() && !self.cancel.is_cancelled())
        else {
            return Ok(Some(TurnEndReason::Completed));
        };
        if n_before >= MAX_SENT_ON {
            self.say(&format!("A hook would not let the turn end {MAX_SENT_ON} times; it ends now."))?;
            return Ok(Some(TurnEndReason::Completed));
        }
        self.n_sent_on.store(n_before + 1, Ordering::Relaxed);
        self.add_contexts(&[reason])?;
        Ok(None)
    }

    fn stopped(&self, reason: &str) -> Result<TurnEndReason, StoreError> {
        self.say(&format!("A hook ended the turn: {reason}"))?;
        Ok(TurnEndReason::Aborted { cause: AbortCause::Hook })
    }

    fn say(&self, text: &str) -> Result<(), StoreError> {
        let message_id = self.fresh_message_id();
        self.shared.core.append(SessionEvent::Notice { text: format!("{text}\n\n"), message_id })
    }

    fn fresh_message_id(&self) -> MessageId {
        MessageId::new(format!("msg_{}", self.shared.core.clock().fresh_id()))
    }
}
