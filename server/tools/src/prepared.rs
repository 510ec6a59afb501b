//! Content that a body prepared because rendering is pure: a text that names the file its long form was saved in.
//!
//! A body puts it, the pipeline's `project_content` takes it. Every outcome takes, failures too, so nothing stays.

use pipeline::context::Execution;
use protocol::content::ContentBlock;
use protocol::id::{CallId, SessionId};
use protocol::tool::Outcome;
use std::collections::HashMap;
use std::sync::{Mutex, PoisonError};

/// Prepared content by call.
#[derive(Default)]
pub struct Prepared {
    texts: Mutex<HashMap<(SessionId, CallId), String>>,
}

impl Prepared {
    /// Keeps the text that this execution's result is to show.
    pub fn put(&self, execution: &Execution, text: String) {
        self.texts.lock().unwrap_or_else(PoisonError::into_inner).insert(key(execution), text);
    }

    /// The prepared content, once; `None` for a failure or when nothing was prepared.
    pub fn take(&self, execution: &Execution, outcome: &Outcome) -> Option<Vec<ContentBlock>> {
        let text = self.texts.lock().unwrap_or_else(PoisonError::into_inner).remove(&key(execution))?;
        (!outcome.is_error()).then(|| vec![ContentBlock::text(text)])
    }
}

fn key(execution: &Execution) -> (SessionId, CallId) {
    (execution.session_id.clone(), execution.call_id.clone())
}
