//! Asking the person whether a call may run.

use async_trait::async_trait;
use protocol::decision::{PermissionOutcome, PermissionRequest};

/// The person who allows or refuses. The seed's `approval` service.
#[async_trait]
pub trait Approval: Send + Sync {
    /// Asks and waits for the answer. Nobody to ask, an error or an unknown answer is `Unavailable` or `Rejected`, never a yes.
    ///
    /// # Cancellation
    /// Dropping the future withdraws the question; a late answer has no effect.
    async fn ask(&self, request: PermissionRequest) -> PermissionOutcome;
}
