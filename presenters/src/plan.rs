//! The todo list as the client's plan. Every write replaces the whole list.

use agent_client_protocol::v1::schema::{Plan, PlanEntry, PlanEntryPriority, PlanEntryStatus, SessionUpdate};
use protocol::event::{TodoItem, TodoStatus};

/// The whole list; priorities are not known, so all are medium.
pub(crate) fn plan(todos: &[TodoItem]) -> SessionUpdate {
    SessionUpdate::Plan(Plan::new(todos.iter().map(entry).collect()))
}

fn entry(todo: &TodoItem) -> PlanEntry {
    let status = match todo.status {
        TodoStatus::Pending => PlanEntryStatus::Pending,
        TodoStatus::InProgress => PlanEntryStatus::InProgress,
        TodoStatus::Completed => PlanEntryStatus::Completed,
    };
    PlanEntry::new(todo.content.as_str(), PlanEntryPriority::Medium, status)
}
