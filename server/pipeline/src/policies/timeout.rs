//! The cooperative budget of a call: when it is over, the body is told, and awaited.
//!
//! Source: `spec/pipeline.md` §12.

use crate::policy::{Dispatch, Dispatched, ExecuteNext, Policy};
use async_trait::async_trait;
use protocol::tool::{Outcome, ToolFailure};
use std::pin::pin;

/// Enforces [`crate::tool::Tool::timeout`]. Never leaves a body behind: one that ignores its cancellation is waited for.
pub struct TimeoutPolicy;

#[async_trait]
impl Policy for TimeoutPolicy {
    fn name(&self) -> &str {
        "timeout"
    }

    async fn execute(
        &self,
        dispatch: Dispatch<'_>,
        next: ExecuteNext<'_>,
    ) -> Result<Dispatched, ToolFailure> {
        let Dispatch { call, cancel } = dispatch;
        let Some(budget) = call.tool.as_ref().and_then(|tool| tool.timeout()) else {
            return next.run(cancel).await;
        };
        let deadline = cancel.child_token();
        let mut body = pin!(next.run(deadline.clone()));
        let is_over = tokio::select! {
            biased;
            result = &mut body => return result,
            // Whoever came first names the end; a deadline after the caller's word is none.
            () = cancel.cancelled() => false,
            () = call.session.services.clock.sleep(budget) => true,
        };
        if !is_over {
            return body.await;
        }
        deadline.cancel();
        let ended = body.await?;
        Ok(ended.replace(Outcome::failed(ToolFailure::coded(
            "ToolTimeoutError",
            "TOOL_TIMEOUT",
            format!("tool call timed out after {}ms", budget.as_millis()),
        ))))
    }
}
