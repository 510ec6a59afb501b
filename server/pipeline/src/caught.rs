//! Panics as failures: a bug in a tool or a policy costs that call, never the turn.

use futures::FutureExt;
use protocol::tool::ToolFailure;
use std::any::Any;
use std::future::Future;
use std::panic::{AssertUnwindSafe, catch_unwind};

/// Waits for a future; a panic inside is logged and becomes a failure that names `who`.
pub(crate) async fn caught<T>(who: &str, future: impl Future<Output = T>) -> Result<T, ToolFailure> {
    // Nothing that unwinds is looked at again: the call ends with the failure.
    AssertUnwindSafe(future).catch_unwind().await.map_err(|panic| internal(who, &*panic))
}

/// Calls a function; a panic inside is logged and becomes a failure that names `who`.
pub(crate) fn caught_sync<T>(who: &str, function: impl FnOnce() -> T) -> Result<T, ToolFailure> {
    catch_unwind(AssertUnwindSafe(function)).map_err(|panic| internal(who, &*panic))
}

fn internal(who: &str, panic: &(dyn Any + Send)) -> ToolFailure {
    let cause = panic
        .downcast_ref::<&str>()
        .copied()
        .or_else(|| panic.downcast_ref::<String>().map(String::as_str))
        .unwrap_or("no message");
    tracing::error!(who, cause, "a part of a call panicked");
    ToolFailure::plain(format!("internal error in {who}: {cause}"))
}
