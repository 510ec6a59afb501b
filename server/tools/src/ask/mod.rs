//! Asking the person.

pub mod ask_user_question;

use crate::listed;
use pipeline::tool::Tool;
use std::sync::Arc;

/// The family's tools, in order.
pub fn tools() -> Vec<Arc<dyn Tool>> {
    vec![listed(ask_user_question::AskUserQuestion)]
}
