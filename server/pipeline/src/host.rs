//! What the pipeline asks of the session around a call. Implemented by the agent's session, and by tests.

use async_trait::async_trait;
use protocol::decision::PermissionRule;
use protocol::event::SessionEvent;
use protocol::live::LiveUpdate;
use protocol::mode::Mode;
use protocol::tool::ToolFailure;

/// The session around a call.
#[async_trait]
pub trait SessionHost: Send + Sync {
    /// Appends an event to the log, then shows it.
    ///
    /// # Errors
    /// The log could not be written; nothing was shown.
    fn append(&self, event: SessionEvent) -> Result<(), ToolFailure>;

    /// Shows something now, without logging it.
    fn live(&self, update: LiveUpdate);

    /// Waits until everything appended is on disk. Called before each top-level body.
    ///
    /// # Errors
    /// The disk refused; the body is then not entered.
    async fn checkpoint(&self) -> Result<(), ToolFailure>;

    /// The mode now; may change at any time and counts from the next check.
    fn mode(&self) -> Mode;

    /// The standing permissions of the session.
    fn rules(&self) -> Vec<PermissionRule>;

    /// Whether the exact model of the session declares that it takes images; unknown counts as no.
    fn takes_images(&self) -> bool {
        false
    }

    /// The user stopped: ends the top session's turn as a cancel does. Returns at once.
    fn stop_turn(&self);
}
