//! Searching the tree.

pub(crate) mod card;
pub mod glob;
pub mod grep;
pub mod page;

use crate::listed;
use pipeline::context::ToolContext;
use pipeline::tool::Tool;
use protocol::tool::ToolFailure;
use services::file_search::SearchError;
use services::spill::{SpillRequest, Spilled};
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// Cap on all bytes that one search may find.
const MAX_TOTAL_BYTES: usize = 20_000_000;

/// The family's tools, in order.
pub fn tools() -> Vec<Arc<dyn Tool>> {
    vec![listed(glob::Glob::default()), listed(grep::Grep::default())]
}

/// The absolute place to search: the session's folder, or `path` resolved against it.
async fn root(ctx: &ToolContext, path: Option<&str>) -> Result<PathBuf, ToolFailure> {
    match path {
        None => Ok(ctx.cwd().to_owned()),
        Some(path) => {
            let resolved = ctx.services().files.resolve(path).await;
            Ok(resolved.map_err(|error| SearchError::Failed(error.message))?.display)
        }
    }
}

/// A path as the model reads it: relative to the session's folder when inside, `.` for the folder itself.
fn shown(cwd: &Path, path: &Path) -> String {
    match path.strip_prefix(cwd) {
        Ok(relative) if relative.as_os_str().is_empty() => ".".to_owned(),
        Ok(relative) => relative.display().to_string(),
        Err(_) => path.display().to_string(),
    }
}

/// Saves a full list beside the session; `None` for a program's sub-call, which gets it as a value, and when the disk
/// refuses.
async fn save(ctx: &ToolContext, suggested_name: &str, content: String) -> Option<Spilled> {
    if ctx.execution.parent.is_some() {
        return None;
    }
    let request = SpillRequest {
        session_id: ctx.session.session_id.clone(),
        call_id: ctx.execution.call_id.clone(),
        suggested_name: suggested_name.to_owned(),
        content,
    };
    ctx.services().spill.save_text(request).await.ok()
}

/// Where the full list is, as a sentence.
fn where_saved(spilled: Option<&Spilled>) -> String {
    match spilled {
        Some(spilled) => format!("Full list: {} {}", spilled.path.display(), spilled.retrieval_hint),
        None => "The full list could not be saved.".to_owned(),
    }
}

/// What kept a search from seeing everything, as parenthesised lines.
fn limits(partial: bool, n_unreadable: u64) -> Vec<String> {
    let mut lines = Vec::new();
    if partial {
        lines.push(
            "(The search ran out of its budget before it had seen everything; narrow the pattern or the path.)"
                .to_owned(),
        );
    }
    if n_unreadable > 0 {
        lines.push(format!("(Could not be read: {n_unreadable} files or folders.)"));
    }
    lines
}

/// Whether a flag or a count is at its default and need not be written.
fn is_default<T: Default + PartialEq>(value: &T) -> bool {
    *value == T::default()
}
