//! Logged events that are no calls: messages, the plan, notices, the title, the mode, usage.

use crate::message::{assistant_message, present_text, user_message, user_text};
use crate::plan::plan;
use crate::text::one_line;
use crate::{PresentContext, text};
use agent_client_protocol::v1::schema::{
    Cost, CurrentModeUpdate, SessionInfoUpdate, SessionModeId, SessionUpdate, UsageUpdate,
};
use protocol::event::SessionEvent;
use protocol::id::MessageId;
use protocol::message::MessageSource;
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
        SessionEvent::UserMessage { message } if replay && message.source == MessageSource::User => {
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
        SessionEvent::CommandRun { command_id, name, args } if replay => {
            let line = format!("/{name} {args}");
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
