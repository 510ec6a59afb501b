//! Planning the work.

pub mod todo_write;

use crate::listed;
use pipeline::tool::Tool;
use std::sync::Arc;

/// The family's tools, in order.
pub fn tools() -> Vec<Arc<dyn Tool>> {
    vec![listed(todo_write::TodoWrite)]
}
