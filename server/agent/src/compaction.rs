//! Making room in the model's context: old results are pruned, then old messages replaced by a summary.
//!
//! Called by the turn before each request and after a provider's overflow error, and by `/compact`. Writes one event when
//! all is known, so that a cancel leaves the session as it was; what the user saw is not touched. Source:
//! `spec/runtime.md` §4; faults S13, A06.

mod measure;
mod summary;

use self::measure::{estimate, estimate_history, estimate_message};
use crate::core::Core;
use crate::history::{history, message_id, prune};
use crate::session::Shared;
use protocol::content::ContentBlock;
use protocol::event::{CompactionReason, Record, SessionEvent};
use protocol::id::{CallId, MessageId};
use protocol::message::{MessageSource, UserMessage};
use protocol::model::HistoryMessage;
use services::session_store::StoreError;
use tokio_util::sync::CancellationToken;

pub(crate) use self::measure::pressure;
pub(crate) use self::summary::{OFFLINE, read};

/// Percent of the window from which on the context is compacted.
const THRESHOLD_PERCENT: u64 = 80;
/// Percent of the window that is kept as it was.
const RETAIN_PERCENT: u64 = 16;
/// Less than this is not worth a summary.
const MIN_TOKENS: u64 = 256;

/// What came of it.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Compacted {
    /// There is nothing that could be left out.
    Nothing,
    /// The context is smaller now.
    Done {
        /// Tokens before, roughly.
        before: u64,
        /// Tokens after, roughly.
        after: u64,
        /// Why the model did not write the summary, when it could not.
        unsummarised: Option<String>,
    },
    /// No summary could be had; nothing changed.
    Failed(String),
    /// Stopped by the user; nothing changed.
    Cancelled,
}

/// Whether a context of `tokens` is close to the window.
pub(crate) fn is_full(tokens: u64, window: Option<u64>) -> bool {
    window.is_some_and(|window| tokens >= window * THRESHOLD_PERCENT / 100)
}

/// Whether the model has answered since the last compaction, or there was none. Without an answer between them a second
/// one would not help, and would go on for ever.
pub(crate) fn has_answered_since(records: &[Record]) -> bool {
    let last = records.iter().rev().find(|record| {
        matches!(record.event, SessionEvent::Compaction { .. } | SessionEvent::AssistantMessage { .. })
    });
    !last.is_some_and(|record| matches!(record.event, SessionEvent::Compaction { .. }))
}

/// Prunes, and summarises when that is not enough.
///
/// # Errors
/// The log could not be written.
pub(crate) async fn compact(
    shared: &Shared,
    reason: CompactionReason,
    focus: &str,
    cancel: &CancellationToken,
) -> Result<Compacted, StoreError> {
    let core = &shared.core;
    let state = core.state();
    let (model, _) = core.model();
    let window = shared.models.info(&model).context_window;
    let header = state.header.clone().unwrap_or_default();
    let fixed = estimate(&header.0, &header.1, &[]);
    let messages = core.with_records(history);
    let before = core.with_records(|records| pressure(records, &header.0, &header.1));
    let budget = window.unwrap_or(before).min(before) * RETAIN_PERCENT / 100;

    if reason == CompactionReason::Threshold
        && let Some(after) = prune_old(core, &messages, fixed, budget)?
        && !is_full(after, window)
    {
        return Ok(Compacted::Done { before, after, unsummarised: None });
    }

    let cut = cut(&messages, budget);
    // What the user said alone is not summarised, and neither is what a summary would not make smaller.
    let old = &messages[..cut];
    let is_worth_it = old.iter().any(|message| matches!(message, HistoryMessage::Assistant(_)))
        && estimate_history(old) >= MIN_TOKENS;
    if !is_worth_it {
        return Ok(Compacted::Nothing);
    }
    let mut old = messages[..cut].to_vec();
    old.iter_mut().for_each(prune_message);
    let first_kept = messages.get(cut).and_then(message_id).cloned();
    let written = tokio::select! {
        biased;
        () = cancel.cancelled() => return Ok(Compacted::Cancelled),
        written = summary::write(shared, &header, old.clone(), focus) => written,
    };
    let (text, unsummarised) = match written {
        Ok(text) => (text, None),
        Err(error) if reason == CompactionReason::Command => return Ok(Compacted::Failed(error)),
        Err(error) => (summary::mechanical(&old), Some(error)),
    };
    let id = fresh_message_id(core);
    let content = vec![ContentBlock::text(summary::wrap(&text, summary::latest_request(&old).as_deref()))];
    let message = UserMessage { id, content, source: MessageSource::Checkpoint };
    let kept = estimate_history(&messages[cut..]);
    let after = fixed + kept + estimate_message(&HistoryMessage::User(message.clone()));
    if after >= fixed + estimate_history(&messages) {
        return Ok(Compacted::Nothing);
    }
    core.append(SessionEvent::Compaction {
        message,
        first_kept,
        reason,
        tokens_before: before,
        tokens_after: after,
    })?;
    core.flush().await?;
    shared.forget_instructed_folders();
    Ok(Compacted::Done { before, after, unsummarised })
}

/// Logs that old long results are shortened; the tokens left, or `None` when there is none to shorten.
fn prune_old(
    core: &Core,
    messages: &[HistoryMessage],
    fixed: u64,
    budget: u64,
) -> Result<Option<u64>, StoreError> {
    let cut = cut(messages, budget);
    let mut pruned = messages.to_vec();
    pruned[..cut].iter_mut().for_each(prune_message);
    if pruned == messages {
        return Ok(None);
    }
    let tokens_after = fixed + estimate_history(&pruned);
    let before: Option<MessageId> = messages.get(cut).and_then(message_id).cloned();
    core.append(SessionEvent::CompactionPrune { before, tokens_after })?;
    Ok(Some(tokens_after))
}

fn prune_message(message: &mut HistoryMessage) {
    if let HistoryMessage::ToolResult(result) = message {
        result.content.iter_mut().for_each(prune);
    }
}

/// Where the part begins that is kept: as early as the budget allows, at a message with an identity, so that a result is
/// never parted from its call.
fn cut(messages: &[HistoryMessage], budget: u64) -> usize {
    let mut cut = messages.len();
    let mut tokens = 0;
    for (at, message) in messages.iter().enumerate().rev() {
        tokens += estimate_message(message);
        if tokens > budget {
            break;
        }
        let follows_calls = at > 0 && has_open_calls(&messages[..at]);
        if message_id(message).is_some() && !follows_calls && !is_checkpoint(message) {
            cut = at;
        }
    }
    cut
}

/// Whether calls of the last answer of these have no result among them.
fn has_open_calls(messages: &[HistoryMessage]) -> bool {
    let Some(at) = messages.iter().rposition(|message| matches!(message, HistoryMessage::Assistant(_)))
    else {
        return false;
    };
    let HistoryMessage::Assistant(answer) = &messages[at] else { return false };
    let has_result = |id: &CallId| {
        messages[at..]
            .iter()
            .any(|message| matches!(message, HistoryMessage::ToolResult(result) if result.call_id == *id))
    };
    !answer.calls().all(|call| has_result(&call.id))
}

fn is_checkpoint(message: &HistoryMessage) -> bool {
    matches!(message, HistoryMessage::User(message) if message.source == MessageSource::Checkpoint)
}

fn fresh_message_id(core: &Core) -> MessageId {
    MessageId::new(format!("msg_{}", core.clock().fresh_id()))
}

/// What the user reads after `/compact`.
pub(crate) fn told(compacted: Compacted) -> Result<String, String> {
    match compacted {
        Compacted::Nothing => Ok("There is nothing to compact yet.".to_owned()),
        Compacted::Done { before, after, .. } => Ok(format!(
            "Earlier messages were replaced by a summary: the context went from about {before} to about {after} tokens. \
             What you see here stays."
        )),
        Compacted::Failed(error) => {
            Err(format!("The conversation was not compacted, and nothing changed: {error}"))
        }
        Compacted::Cancelled => Err("The command was cancelled; nothing changed.".to_owned()),
    }
}

#[cfg(test)]
mod tests;
