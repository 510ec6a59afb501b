//! Logged events that are no calls: messages, the plan, notices, the title, the mode, usage.

use crate::message::{assistant_message, present_text, user_message, user_text};
use crate::plan::plan;
use crate::text::one_line;
use crate::{PresentContext, text};
use agent_client_protocol::v1::schema::{
    Cost, CurrentModeUpdate, SessionInfoUpdate, SessionModeId, SessionUpdate, UsageUpdate,
};
use protocol::event::{CompactionReason, SessionEvent};
use protocol::id::MessageId;
use protocol::mode::Mode;

/// Longest session title shown, in characters.
const MAX_TITLE: usize = 80;

/// Whether an event happens now or is told again on load.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Showing {
    /// It happens now; deltas of the model's messages were shown already, and the client has shown its own prompts.
    Live,
    /// It is told again from the log.
    Replay,
}

/// Presents an event that is no call. Empty when there is nothing to show.
///
/// Calls, results and sub-calls go through [`crate::present_call`] and [`crate::present_result`], since they need what
/// the server remembers of them. The events of the mode go through [`present_mode`], since the mode shown is folded
/// from two of them. The part of a message that a killed process left behind is not shown; recovery logs it as a
/// message.
pub fn present_event(ctx: &PresentContext, event: &SessionEvent, showing: Showing) -> Vec<SessionUpdate> {
    let replay = showing == Showing::Replay;
    match event {
        SessionEvent::UserMessage { message } if replay && message.source.is_prompt() => {
            user_message(ctx, message)
        }
        SessionEvent::AssistantMessage { message, .. } if replay => assistant_message(message),
        SessionEvent::TodoWrite { todos } => vec![plan(todos)],
        SessionEvent::Title { title, .. } => vec![present_title(title)],
        SessionEvent::Notice { text, message_id } | SessionEvent::CommandDone { text, message_id, .. } => {
            if text.is_empty() {
                Vec::new()
            } else {
                vec![present_text(message_id, text)]
            }
        }
        // Whoever typed `/compact` is answered by it.
        SessionEvent::Compaction { message, reason, tokens_before, tokens_after, .. }
            if *reason != CompactionReason::Command =>
        {
            let text = format!(
                "*Earlier messages were summarised for the model to make room (about {tokens_before} → {tokens_after} \
                 tokens). What you see here stays.*\n\n"
            );
            vec![present_text(&message.id, &text)]
        }
        SessionEvent::CommandRun { command_id, name, args } if replay => {
            // The input keeps the white space it was typed with.
            let gap = if args.starts_with(char::is_whitespace) { "" } else { " " };
            let line = format!("/{name}{gap}{args}");
            vec![user_text(&MessageId::new(command_id.as_str()), line.trim_end())]
        }
        // The rest is bookkeeping, or presented by the functions named above.
        _ => Vec::new(),
    }
}

/// The session's title, one plain line.
pub fn present_title(title: &str) -> SessionUpdate {
    SessionUpdate::SessionInfoUpdate(SessionInfoUpdate::new().title(text::cut(&one_line(title), MAX_TITLE)))
}

/// The mode that counts now. The config option of the same meaning is sent beside it by the server.
pub fn present_mode(mode: Mode) -> SessionUpdate {
    SessionUpdate::CurrentModeUpdate(CurrentModeUpdate::new(SessionModeId::new(mode.id())))
}

/// Tokens the context holds, out of how many, and what the session cost so far in US dollars.
///
/// `None` for a client that cannot take it, and when the size of the window is not known.
pub fn present_usage(
    ctx: &PresentContext,
    used_tokens: u64,
    context_window: Option<u64>,
    cost_usd: Option<f64>,
) -> Option<SessionUpdate> {
    let size = context_window.filter(|_| ctx.quirks.usage_updates)?;
    let cost = cost_usd.map(|amount| Cost::new(amount, "USD"));
    Some(SessionUpdate::UsageUpdate(UsageUpdate::new(used_tokens, size).cost(cost)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fixtures::{full, json_of, quirky};
    use protocol::content::{ContentBlock, ImageAttachment};
    use protocol::event::{TitleSource, TodoItem, TodoStatus};
    use protocol::id::AttachmentId;
    use protocol::message::MessageSource;
    use protocol::message::{AssistantBlock, AssistantMessage, UserMessage};
    use protocol::model::ModelRef;
    use serde_json::{Value, json};

    fn check(event: &SessionEvent, live: &Value, replay: &Value) {
        for (showing, expected) in [(Showing::Live, live), (Showing::Replay, replay)] {
            let updates = present_event(&full(), event, showing).into_iter().map(json_of).collect();
            assert_eq!(Value::Array(updates), *expected, "{showing:?}");
        }
    }

    fn chunk(update: &str, id: &str, text: &str) -> Value {
        json!({ "sessionUpdate": update, "content": { "type": "text", "text": text }, "messageId": id })
    }

    fn user(source: MessageSource) -> SessionEvent {
        let attachment = ImageAttachment {
            attachment_id: AttachmentId::new("i"),
            media_type: "image/png".to_owned(),
            bytes: 9,
            width: 2,
            height: 3,
            name: None,
            original_dimensions: None,
        };
        let content = vec![ContentBlock::text("hi"), ContentBlock::Image { attachment }];
        SessionEvent::UserMessage { message: UserMessage { id: MessageId::new("m"), content, source } }
    }

    #[test]
    fn the_users_words_are_told_again_and_nobody_elses() {
        let words = "[image: image/png, 2×3, 9 bytes]";
        let shown = json!([chunk("user_message_chunk", "m", "hi"), chunk("user_message_chunk", "m", words)]);
        check(&user(MessageSource::User), &json!([]), &shown);
        check(
            &user(MessageSource::Goal { goal_id: "goal-1".into(), revision: 1, round: 1 }),
            &json!([]),
            &json!([]),
        );
        check(&user(MessageSource::Checkpoint), &json!([]), &json!([]));
    }

    #[test]
    fn an_image_whose_bytes_are_at_hand_is_shown() {
        let images = [(AttachmentId::new("i"), "AAAA".to_owned())].into();
        let ctx = PresentContext { images, ..full() };
        let updates = present_event(&ctx, &user(MessageSource::User), Showing::Replay);
        let image = json!({ "type": "image", "data": "AAAA", "mimeType": "image/png" });
        assert_eq!(json_of(updates[1].clone())["content"], image);
    }

    #[test]
    fn a_models_message_is_told_again_block_by_block() {
        let text = |text: &str| AssistantBlock::Text { text: text.to_owned() };
        let reasoning = |text: &str| AssistantBlock::Reasoning { text: text.to_owned(), replay: None };
        let event = SessionEvent::AssistantMessage {
            turn: 1,
            step: 1,
            message: AssistantMessage {
                id: MessageId::new("m"),
                blocks: vec![reasoning("hm"), reasoning(""), text("so")],
                model: ModelRef { provider: "p".to_owned(), model: "m".to_owned() },
            },
            usage: None,
            interrupted: true,
        };
        let shown = json!([chunk("agent_thought_chunk", "m", "hm"), chunk("agent_message_chunk", "m", "so")]);
        check(&event, &json!([]), &shown);
    }

    #[test]
    fn the_todo_list_is_the_plan() {
        let todo = |content: &str, status| TodoItem { content: content.to_owned(), status };
        let todos = vec![
            todo("a", TodoStatus::Completed),
            todo("b", TodoStatus::InProgress),
            todo("c", TodoStatus::Pending),
        ];
        let entry = |content, status| json!({ "content": content, "priority": "medium", "status": status });
        let entries = json!([entry("a", "completed"), entry("b", "in_progress"), entry("c", "pending")]);
        let shown = json!([{ "sessionUpdate": "plan", "entries": entries }]);
        check(&SessionEvent::TodoWrite { todos }, &shown, &shown);
    }

    #[test]
    fn notices_and_commands_are_messages() {
        let message_id = MessageId::new("n");
        let shown = json!([chunk("agent_message_chunk", "n", "careful")]);
        let notice = SessionEvent::Notice { text: "careful".to_owned(), message_id: message_id.clone() };
        check(&notice, &shown, &shown);
        let command_id = || "c1".to_owned();
        let text = "careful".to_owned();
        check(
            &SessionEvent::CommandDone { command_id: command_id(), ok: true, text, message_id },
            &shown,
            &shown,
        );
        for args in ["off", " off"] {
            let (name, args) = ("plan".to_owned(), args.to_owned());
            let run = SessionEvent::CommandRun { command_id: command_id(), name, args };
            check(&run, &json!([]), &json!([chunk("user_message_chunk", "c1", "/plan off")]));
        }
    }

    #[test]
    fn titles_and_modes_are_told() {
        let title = SessionEvent::Title { title: "A\nb".to_owned(), source: TitleSource::User };
        let shown = json!([{ "sessionUpdate": "session_info_update", "title": "A …" }]);
        check(&title, &shown, &shown);
        let mode = json!({ "sessionUpdate": "current_mode_update", "currentModeId": "read-only" });
        assert_eq!(json_of(present_mode(Mode::ReadOnly)), mode);
    }

    #[test]
    fn usage_is_told_to_clients_that_take_it() {
        let usage = present_usage(&full(), 10, Some(100), Some(0.25)).map(json_of);
        let cost = json!({ "amount": 0.25, "currency": "USD" });
        let expected = json!({ "sessionUpdate": "usage_update", "used": 10, "size": 100, "cost": cost });
        assert_eq!(usage, Some(expected));
        assert_eq!(present_usage(&quirky(), 10, Some(100), None), None);
        assert_eq!(present_usage(&full(), 10, None, None), None);
    }
}
