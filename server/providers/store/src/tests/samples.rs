//! Headers and events to test with, and what a balanced log is.

use protocol::content::ContentBlock;
use protocol::event::{
    AbortCause, HeaderReason, LOG_VERSION, Record, SessionEvent, SessionHeader, TitleSource, TodoItem,
    TodoStatus, TurnEndReason,
};
use protocol::id::{CallId, MessageId, SessionId};
use protocol::message::{
    AssistantBlock, AssistantMessage, ContextForm, MessageSource, RequestedCall, ToolResultMessage,
    UserMessage,
};
use protocol::mode::Mode;
use protocol::model::{ModelRef, Usage};
use protocol::tool::{ToolFailure, ToolSchema};
use serde_json::json;

pub(crate) fn header(id: &str, cwd: &str) -> SessionHeader {
    SessionHeader {
        version: LOG_VERSION,
        id: SessionId::new(id),
        created_at: 1_000,
        cwd: cwd.into(),
        additional_directories: vec![],
        parent_session: None,
        delegation_depth: 0,
    }
}

pub(crate) fn prompt(text: &str) -> SessionEvent {
    user(text, MessageSource::User)
}

pub(crate) fn user(text: &str, source: MessageSource) -> SessionEvent {
    let message =
        UserMessage { id: MessageId::new("m"), content: vec![ContentBlock::text(text.to_owned())], source };
    SessionEvent::UserMessage { message }
}

pub(crate) fn notice(text: &str) -> SessionEvent {
    user(text, MessageSource::Plugin { plugin: "test".to_owned(), form: ContextForm::Notice })
}

fn assistant(id: &str, blocks: Vec<AssistantBlock>) -> AssistantMessage {
    let model = ModelRef { provider: "p".to_owned(), model: "m".to_owned() };
    AssistantMessage { id: MessageId::new(id), blocks, model }
}

pub(crate) fn message(turn: u64, step: u64, text: &str) -> SessionEvent {
    let blocks = vec![
        AssistantBlock::Reasoning { text: "hm".to_owned(), replay: Some(json!({"signature": [1, 2.5]})) },
        AssistantBlock::Text { text: text.to_owned() },
    ];
    let usage = Some(Usage { input_tokens: 3, ..Usage::default() });
    SessionEvent::AssistantMessage { turn, step, message: assistant("a", blocks), usage, interrupted: false }
}

pub(crate) fn partial(turn: u64, step: u64, text: &str) -> SessionEvent {
    let blocks = vec![AssistantBlock::Text { text: text.to_owned() }];
    SessionEvent::AssistantPartial { turn, step, message: assistant("a", blocks) }
}

pub(crate) fn calls(turn: u64, step: u64, ids: &[&str]) -> SessionEvent {
    let blocks = ids.iter().map(|id| {
        AssistantBlock::ToolCall(RequestedCall {
            id: CallId::new(*id),
            provider_id: format!("p-{id}"),
            name: "read".to_owned(),
            arguments: r#"{"file_path": "ä \" \n"}"#.to_owned(),
        })
    });
    let message = assistant("a", blocks.collect());
    SessionEvent::AssistantMessage { turn, step, message, usage: None, interrupted: false }
}

pub(crate) fn started(turn: u64, step: u64, id: &str) -> SessionEvent {
    SessionEvent::ToolCall {
        turn,
        step,
        call_id: CallId::new(id),
        name: "read".to_owned(),
        arguments: "{}".to_owned(),
    }
}

pub(crate) fn result(turn: u64, step: u64, id: &str) -> SessionEvent {
    SessionEvent::ToolResult {
        turn,
        step,
        message: ToolResultMessage {
            call_id: CallId::new(id),
            content: vec![ContentBlock::text("line\nline\u{2028}\0\n".to_owned())],
            is_error: true,
        },
        error: Some(ToolFailure::coded("FsError", "FS_NOT_FOUND", "gone")),
        meta: Some(json!({"n": 18_446_744_073_709_551_615_u64, "deep": [[[null]]]})),
    }
}

pub(crate) fn sub_call_started(parent: &str, n: u32) -> SessionEvent {
    SessionEvent::PtcDispatchStart {
        root_call_id: CallId::new(parent),
        parent_call_id: CallId::new(parent),
        sub_call_id: CallId::new(format!("{parent}:ptc:{n}")),
        name: "read".to_owned(),
        arguments: json!({}),
    }
}

pub(crate) fn title(text: &str) -> SessionEvent {
    SessionEvent::Title { title: text.to_owned(), source: TitleSource::User }
}

/// Events numbered and timed from 1 000 on.
pub(crate) fn records(events: impl IntoIterator<Item = SessionEvent>) -> Vec<Record> {
    let number = |(idx, event): (usize, SessionEvent)| Record {
        seq: idx as u64,
        time: 1_000 + idx as i64,
        ignorable: event.ignorable(),
        event,
    };
    events.into_iter().enumerate().map(number).collect()
}

/// Records of many shapes.
pub(crate) fn one_of_each() -> Vec<Record> {
    let events = vec![
        SessionEvent::TurnStart { turn: 1 },
        prompt("do it"),
        SessionEvent::RequestHeader {
            system: "be good".to_owned(),
            tools: vec![ToolSchema {
                name: "read".to_owned(),
                description: "reads".to_owned(),
                parameters: json!({"type": "object", "data": 1}),
            }],
            reason: HeaderReason::Initial,
        },
        SessionEvent::StepStart { turn: 1, step: 1 },
        partial(1, 1, "so far"),
        message(1, 1, "all of it"),
        calls(1, 1, &["x", "y"]),
        started(1, 1, "x"),
        sub_call_started("x", 1),
        result(1, 1, "x"),
        SessionEvent::TodoWrite {
            todos: vec![TodoItem { content: "t".to_owned(), status: TodoStatus::InProgress }],
        },
        SessionEvent::PermissionPreset { preset: Mode::ReadOnly },
        title("a title"),
        SessionEvent::EndSeed {},
        SessionEvent::StepEnd { turn: 1, step: 1 },
        SessionEvent::TurnEnd { turn: 1, reason: TurnEndReason::Aborted { cause: AbortCause::User } },
    ];
    records(events)
}

/// Panics unless turns and steps nest and every call has a result in its step.
pub(crate) fn assert_balanced(records: &[Record]) {
    let (mut turn, mut step, mut pending) = (None, None, Vec::<CallId>::new());
    for (idx, record) in records.iter().enumerate() {
        assert_eq!(record.seq, idx as u64);
        match &record.event {
            SessionEvent::TurnStart { turn: n } => assert_eq!(turn.replace(*n), None),
            SessionEvent::TurnEnd { turn: n, .. } => {
                assert_eq!((turn.take(), step), (Some(*n), None));
            }
            SessionEvent::StepStart { turn: n, step: m } => {
                assert_eq!((turn, step.replace(*m)), (Some(*n), None));
            }
            SessionEvent::StepEnd { step: m, .. } => {
                assert_eq!(step.take(), Some(*m));
                assert_eq!(pending, []);
            }
            SessionEvent::AssistantMessage { message, .. } => {
                assert!(step.is_some());
                pending.extend(message.calls().map(|call| call.id.clone()));
            }
            SessionEvent::ToolResult { message, .. } => {
                let idx = pending.iter().position(|id| *id == message.call_id);
                pending.remove(idx.expect("a result belongs to a call"));
            }
            _ => {}
        }
    }
    assert_eq!((turn, step), (None, None));
}
