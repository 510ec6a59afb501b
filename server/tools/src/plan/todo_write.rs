//! `todo_write`: replaces the session's todo list.
//!
//! Touches only the session's log; the editor shows the latest list as its plan. Source: `spec/tools-agentic.md` §3.

use async_trait::async_trait;
use pipeline::context::ToolContext;
use pipeline::tool::Effect;
use pipeline::typed::TypedTool;
use protocol::card::{CallCard, GenericCall, ToolCallKind};
use protocol::content::ContentBlock;
use protocol::event::{SessionEvent, TodoItem, TodoStatus};
use protocol::tool::ToolFailure;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::collections::HashSet;

/// Arguments of `todo_write`.
#[derive(Debug, Deserialize, JsonSchema)]
pub struct TodoWriteArgs {
    /// The COMPLETE list; it replaces the one before.
    todos: Vec<Todo>,
}

/// One item.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(description = "")]
pub struct Todo {
    /// What is to be done: one short line in the imperative.
    content: String,
    /// pending (not begun), in_progress (being worked on now) or completed (done).
    status: Status,
}

/// How far an item is.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
#[schemars(description = "")]
pub enum Status {
    Pending,
    InProgress,
    Completed,
}

/// The list as it stands now.
#[derive(Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct TodoWriteOutput {
    /// Every item, in order.
    todos: Vec<Todo>,
    /// How many items have each status.
    counts: Counts,
}

/// Items by status.
#[derive(Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Counts {
    pending: u64,
    in_progress: u64,
    completed: u64,
}

/// The tool.
pub struct TodoWrite;

#[async_trait]
impl TypedTool for TodoWrite {
    type Args = TodoWriteArgs;
    type Output = TodoWriteOutput;

    const NAME: &'static str = "todo_write";

    fn description(&self) -> String {
        "Records the structured task list of the current work. Send the complete list each time: it replaces the one \
         before; there are no partial updates and no edits of single items. Use it to plan work of several steps and to \
         show progress: before you begin, add one item for each concrete step. Mark what you work on now as in_progress: \
         several items only when they really run in parallel (for instance concurrent subagents or background commands), \
         one when the work is sequential. While work is left, at least one item is in_progress; none only when all is \
         done. Mark an item completed as soon as it is done, not in batches. A simple task of one step needs no list. \
         Statuses: pending (not begun), in_progress (being worked on), completed (done)."
            .to_owned()
    }

    fn effect(&self, _args: &TodoWriteArgs) -> Effect {
        Effect::None
    }

    async fn execute(&self, args: TodoWriteArgs, ctx: &ToolContext) -> Result<TodoWriteOutput, ToolFailure> {
        let mut todos = args.todos;
        for todo in &mut todos {
            todo.content = todo.content.trim().to_owned();
        }
        let mut seen = HashSet::new();
        for todo in &todos {
            if todo.content.is_empty() {
                return Err(ToolFailure::plain("a todo must not be blank; say what is to be done"));
            }
            if !seen.insert(&todo.content) {
                let quoted = serde_json::Value::from(todo.content.as_str());
                return Err(ToolFailure::plain(format!("the todo {quoted} is in the list twice")));
            }
        }
        let items = todos.iter().map(|todo| TodoItem {
            content: todo.content.clone(),
            status: match todo.status {
                Status::Pending => TodoStatus::Pending,
                Status::InProgress => TodoStatus::InProgress,
                Status::Completed => TodoStatus::Completed,
            },
        });
        ctx.session.host.append(SessionEvent::TodoWrite { todos: items.collect() })?;
        let counts = counts(&todos);
        Ok(TodoWriteOutput { todos, counts })
    }

    fn render(&self, _args: &TodoWriteArgs, output: &TodoWriteOutput) -> Vec<ContentBlock> {
        let Counts { pending, in_progress, completed } = output.counts;
        vec![ContentBlock::text(format!(
            "Todo list updated: {pending} pending, {in_progress} in progress, {completed} completed"
        ))]
    }

    fn present_call(&self, args: &TodoWriteArgs) -> Option<CallCard> {
        let done = counts(&args.todos).completed;
        Some(CallCard::Generic(GenericCall {
            title: format!("Todo: {done}/{}", args.todos.len()),
            kind: ToolCallKind::Other,
            ..GenericCall::default()
        }))
    }
}

fn counts(todos: &[Todo]) -> Counts {
    let mut counts = Counts::default();
    for todo in todos {
        match todo.status {
            Status::Pending => counts.pending += 1,
            Status::InProgress => counts.in_progress += 1,
            Status::Completed => counts.completed += 1,
        }
    }
    counts
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::Bench;
    use serde_json::json;

    #[tokio::test]
    async fn the_whole_list_is_logged_and_counted() {
        let bench = Bench::new();
        let todos = json!([
            {"content": "  plan the work  ", "status": "in_progress"},
            {"content": "build", "status": "pending"},
            {"content": "read", "status": "in_progress"},
        ]);
        let ran = bench.call("todo_write", json!({"todos": todos})).await;
        assert_eq!(ran.text(), "Todo list updated: 1 pending, 2 in progress, 0 completed");
        assert_eq!(ran.value()["counts"], json!({"pending": 1, "inProgress": 2, "completed": 0}));
        assert_eq!(ran.value()["todos"][0], json!({"content": "plan the work", "status": "in_progress"}));
        let item = |content: &str, status| TodoItem { content: content.into(), status };
        let expected = vec![
            item("plan the work", TodoStatus::InProgress),
            item("build", TodoStatus::Pending),
            item("read", TodoStatus::InProgress),
        ];
        assert_eq!(bench.session.host.events(), [SessionEvent::TodoWrite { todos: expected }]);

        let ran = bench.call("todo_write", json!({"todos": []})).await;
        assert_eq!(ran.text(), "Todo list updated: 0 pending, 0 in progress, 0 completed");
        assert_eq!(bench.session.host.events()[1], SessionEvent::TodoWrite { todos: Vec::new() });
        assert_eq!(ran.card, None);
    }

    #[tokio::test]
    async fn a_list_that_makes_no_sense_is_not_logged() {
        let bench = Bench::new();
        let cases = [
            (json!([{"content": "a", "status": "doing"}]), "INVALID_ARGS", "status"),
            (json!("a"), "INVALID_ARGS", "todos"),
            (json!([{"content": "a", "status": "pending", "priority": 1}]), "INVALID_ARGS", "priority"),
            (json!([{"content": " ", "status": "pending"}]), "plain", "blank"),
            (
                json!([{"content": "a \"b\"", "status": "pending"}, {"content": " a \"b\"", "status": "completed"}]),
                "plain",
                "\"a \\\"b\\\"\" is in the list twice",
            ),
        ];
        for (todos, code, message) in cases {
            let ran = bench.call("todo_write", json!({"todos": todos})).await;
            assert_eq!(ran.code(), code, "{todos}");
            assert!(ran.text().contains(message), "{}", ran.text());
        }
        assert_eq!(bench.session.host.events(), []);
    }

    #[tokio::test]
    async fn a_log_that_cannot_be_written_fails_the_call() {
        let bench = Bench::new();
        bench.session.host.fail_append();
        assert_eq!(bench.call("todo_write", json!({"todos": []})).await.code(), "plain");
    }

    #[test]
    fn the_title_counts_what_is_done() {
        let bench = Bench::new();
        let todos =
            json!([{"content": "a", "status": "completed"}, {"content": "b", "status": "in_progress"}]);
        assert_eq!(bench.call_card("todo_write", json!({"todos": todos})).title(), "Todo: 1/2");
        let tool = bench.tool("todo_write");
        assert!(!tool.is_concurrency_safe(&json!({"todos": []})));
        assert_eq!(tool.effect(&json!({"todos": []})), Effect::None);
    }
}
