//! The question to the person, and its two records in the log.
//!
//! Called by [`crate::run`] when a policy asks. Source: `spec/pipeline.md` §9.4a; product decisions, "a permission
//! question answered `cancelled`".

use crate::call::PendingCall;
use crate::caught::caught;
use crate::context::ToolContext;
use protocol::decision::{PermissionOutcome, PermissionRequest, PermissionRule, Preview, SandboxGrant};
use protocol::event::SessionEvent;
use protocol::tool::ToolFailure;

/// What a policy asks.
pub(crate) struct Question {
    pub reason: Option<String>,
    pub display_reason: Option<String>,
    pub rule: Option<PermissionRule>,
    pub grant: Option<SandboxGrant>,
}

/// What became of it.
pub(crate) enum Answer {
    /// The call may run, with this widening.
    Allowed(Option<SandboxGrant>),
    /// It may not; the turn goes on.
    Refused(ToolFailure),
    /// The person stopped the turn.
    Stopped,
    /// The caller's cancellation came first.
    Withdrawn,
}

/// Asks and waits; the caller's cancellation withdraws the question.
///
/// # Errors
/// The log could not be written; the call must not run.
pub(crate) async fn ask(call: &PendingCall, question: Question) -> Result<Answer, ToolFailure> {
    let session = &call.session;
    let execution = &call.execution;
    let reason = question.reason.unwrap_or_else(|| format!("{} asks for permission", execution.name));
    let id = session.services.clock.fresh_id();
    session.host.append(SessionEvent::ApprovalAsked {
        id: id.clone(),
        tool_name: execution.name.clone(),
        call_id: execution.call_id.clone(),
        reason: Some(reason.clone()),
    })?;
    let asked = async {
        let request = PermissionRequest {
            session_id: execution.session_id.clone(),
            call_id: execution.call_id.clone(),
            tool_name: execution.name.clone(),
            arguments: (*execution.arguments).clone(),
            reason: Some(question.display_reason.unwrap_or(reason)),
            preview: preview(call).await,
            rule: question.rule.clone(),
        };
        let answer = caught("the permission question", session.services.approval.ask(request)).await;
        answer.unwrap_or(PermissionOutcome::Unavailable)
    };
    let answered = tokio::select! {
        biased;
        () = call.cancel.cancelled() => None,
        outcome = asked => Some(outcome),
    };
    let outcome = match (answered, question.rule.is_some()) {
        (None, _) => PermissionOutcome::Cancelled,
        // Nothing was offered that could be allowed for good.
        (Some(PermissionOutcome::AllowedAlways), false) => PermissionOutcome::AllowedOnce,
        (Some(outcome), _) => outcome,
    };
    session.host.append(SessionEvent::ApprovalDecided { id, outcome })?;
    Ok(match outcome {
        PermissionOutcome::AllowedOnce => Answer::Allowed(question.grant),
        PermissionOutcome::AllowedAlways => {
            remember(call, question.rule)?;
            Answer::Allowed(question.grant)
        }
        PermissionOutcome::Rejected => Answer::Refused(ToolFailure::plain(
            "the user refused this call; nothing was run. Do not repeat it unchanged: go on without it, or ask what they want",
        )),
        PermissionOutcome::Unavailable => Answer::Refused(ToolFailure::plain(
            "this call needs a permission and nobody could be asked; nothing was run",
        )),
        PermissionOutcome::Cancelled if answered.is_none() || call.cancel.is_cancelled() => Answer::Withdrawn,
        PermissionOutcome::Cancelled => {
            session.host.stop_turn();
            Answer::Stopped
        }
    })
}

async fn preview(call: &PendingCall) -> Preview {
    let Some(tool) = &call.tool else { return Preview::default() };
    let context =
        ToolContext::new(call.execution.clone(), call.session.clone(), call.cancel.child_token(), None);
    caught("a preview", tool.preview(&call.execution.arguments, &context)).await.unwrap_or_default()
}

fn remember(call: &PendingCall, rule: Option<PermissionRule>) -> Result<(), ToolFailure> {
    match rule {
        Some(rule) if !call.session.host.rules().contains(&rule) => {
            call.session.host.append(SessionEvent::PermissionRule { rule })
        }
        _ => Ok(()),
    }
}
