//! Time and fresh identities.

use async_trait::async_trait;
use std::time::Duration;

/// Time. The system's, or a test's.
#[async_trait]
pub trait Clock: Send + Sync {
    /// Milliseconds since the Unix epoch.
    fn now_ms(&self) -> i64;

    /// Today's date where the user is, `YYYY-MM-DD`.
    fn local_date(&self) -> String;

    /// A monotonic reading, for measuring durations only.
    fn monotonic(&self) -> Duration;

    /// Waits. Dropping the future ends the wait.
    async fn sleep(&self, duration: Duration);

    /// A fresh random identity of 32 lower-case hex digits.
    fn fresh_id(&self) -> String;
}
