//! The web: pages by address, pages by search.

pub mod web_fetch;
pub mod web_search;

use crate::listed;
use pipeline::context::ToolContext;
use pipeline::tool::Tool;
use services::web::{Web, WebError, WebErrorKind};
use std::sync::Arc;
use std::time::Duration;

/// Budget of a call.
const TIMEOUT: Duration = Duration::from_secs(30);

/// The family's tools, in order.
pub fn tools() -> Vec<Arc<dyn Tool>> {
    vec![listed(web_search::WebSearch), listed(web_fetch::WebFetch)]
}

/// The session's web.
fn web(ctx: &ToolContext) -> Result<&dyn Web, WebError> {
    ctx.services()
        .web
        .as_deref()
        .ok_or_else(|| WebError::new(WebErrorKind::Unavailable, "this session has no access to the web"))
}

/// The end of `request`, or of the call: dropping the request closes its connection.
async fn unless_cancelled<T>(
    ctx: &ToolContext,
    request: impl Future<Output = Result<T, WebError>>,
) -> Result<T, WebError> {
    let ended = ctx.cancel.run_until_cancelled(request).await;
    ended.unwrap_or_else(|| Err(WebError::new(WebErrorKind::Aborted, "the request was stopped")))
}
