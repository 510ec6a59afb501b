//! Planning the work: the todo list, and the way out of plan mode.

pub mod exit_plan_mode;
pub mod todo_write;

use crate::listed;
use pipeline::tool::Tool;
use std::sync::Arc;

/// The family's tools, in order.
pub fn tools() -> Vec<Arc<dyn Tool>> {
    vec![listed(todo_write::TodoWrite), listed(exit_plan_mode::ExitPlanMode)]
}
