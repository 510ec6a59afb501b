//! Leaving plan mode by an approved plan. Called by the turn once the calls of a step are done.

use crate::core::Core;
use protocol::event::SessionEvent;
use protocol::message::AssistantMessage;
use services::session_store::StoreError;

/// Name of the tool that presents a plan.
const EXIT_PLAN_MODE: &str = "exit_plan_mode";

/// Restores the mode before plan mode when a call of this message had its plan approved. The approval is read from the
/// logged result, so that the other calls of the message still ran in plan mode.
///
/// # Errors
/// The log could not be written.
pub(crate) fn leave_after(core: &Core, message: &AssistantMessage) -> Result<(), StoreError> {
    let reviews: Vec<_> = message.calls().filter(|call| call.name == EXIT_PLAN_MODE).collect();
    if reviews.is_empty() || !core.state().plan {
        return Ok(());
    }
    let is_approved = core.with_records(|records| {
        records.iter().rev().take_while(|record| !matches!(record.event, SessionEvent::StepStart { .. })).any(
            |record| match &record.event {
                SessionEvent::ToolResult { message, meta: Some(meta), .. } => {
                    !message.is_error
                        && meta["planApproved"] == true
                        && reviews.iter().any(|call| call.id == message.call_id)
                }
                _ => false,
            },
        )
    });
    if is_approved { core.append(SessionEvent::PlanMode { active: false }) } else { Ok(()) }
}
