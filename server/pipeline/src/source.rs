//! Tools that come and go by themselves while a session lives, such as those of servers it is connected to.

use async_trait::async_trait;

/// Where a session's own tools come from. Called by the session; it changes nothing but the registry.
#[async_trait]
pub trait ToolSource: Send + Sync {
    /// Brings the registry up to date; called before each step. Every wait in it is bounded. Returns what user and model
    /// must know, each thing once.
    ///
    /// # Cancellation
    /// Dropping the future leaves the registry as it was or up to date; nothing to tell is lost.
    async fn refresh(&self) -> Vec<String>;

    /// Ends what the tools stand on; bounded, called once, when the session closes.
    async fn close(&self);
}
