//! A stored session as text: for a person, and as JSON Lines.

use protocol::content::ContentBlock;
use protocol::event::{SessionEvent, TurnEndReason};
use protocol::message::{AssistantBlock, MessageSource};
use services::session_store::StoredSession;
use std::fmt::Write as _;

/// Lines of a result that are shown, unless all are asked for.
const MAX_RESULT_LINES: usize = 10;

/// Characters of arguments and of a line that are shown, unless all are asked for.
const MAX_LINE_CHARS: usize = 160;

/// The conversation: what was said, each call with its arguments, each result. Control characters are left as they are.
pub(super) fn of(session: &StoredSession, full: bool) -> String {
    let mut text = String::new();
    let header = &session.header;
    let title = session.records.iter().rev().find_map(|record| match &record.event {
        SessionEvent::Title { title, .. } => Some(title.as_str()),
        _ => None,
    });
    put(&mut text, &format!("# {}", title.unwrap_or("(no title)")));
    put(&mut text, &format!("{}  {}  {}", header.id, time(header.created_at), header.cwd.display()));
    if session.n_bad_records > 0 {
        put(&mut text, &format!("{} unreadable records are left out", session.n_bad_records));
    }
    for record in &session.records {
        show(&mut text, &record.event, full);
    }
    text
}

fn show(text: &mut String, event: &SessionEvent, full: bool) {
    match event {
        SessionEvent::UserMessage { message } => match &message.source {
            MessageSource::User => section(text, "You", &said(&message.content)),
            source if full => {
                section(text, &format!("Context: {}", name_of(source)), &said(&message.content))
            }
            _ => {}
        },
        SessionEvent::AssistantMessage { message, interrupted, .. } => {
            for block in &message.blocks {
                match block {
                    AssistantBlock::Text { text: words } => section(text, "Followspot", words),
                    AssistantBlock::Reasoning { text: words, .. } if full && !words.trim().is_empty() => {
                        section(text, "Thought", words);
                    }
                    // Shown when it starts.
                    AssistantBlock::Reasoning { .. } | AssistantBlock::ToolCall(_) => {}
                }
            }
            if *interrupted {
                put(text, "(interrupted)");
            }
        }
        SessionEvent::ToolCall { name, arguments, .. } => {
            let arguments = if full { arguments.clone() } else { cut(arguments) };
            text.push('\n');
            put(text, &format!("-> {name} {arguments}"));
        }
        SessionEvent::ToolResult { message, .. } => {
            let mark = if message.is_error { "failed" } else { "result" };
            put(text, &format!("<- {mark}"));
            result(text, &said(&message.content), full);
        }
        SessionEvent::CommandRun { name, args, .. } => {
            section(text, "You", format!("/{name} {args}").trim_end());
        }
        SessionEvent::CommandDone { text: words, .. } | SessionEvent::Notice { text: words, .. } => {
            section(text, "Notice", words);
        }
        SessionEvent::TurnEnd { reason, .. } => {
            if let Some(words) = end(reason) {
                text.push('\n');
                put(text, &format!("({words})"));
            }
        }
        _ => {}
    }
}

fn put(text: &mut String, line: &str) {
    // Writing to a string cannot fail.
    let _ = writeln!(text, "{line}");
}

fn section(text: &mut String, who: &str, words: &str) {
    text.push('\n');
    put(text, &format!("{who}:"));
    put(text, words.trim_end());
}

fn said(content: &[ContentBlock]) -> String {
    let blocks = content.iter().map(|block| match block {
        ContentBlock::Text { text } => text.clone(),
        ContentBlock::Image { attachment } => {
            format!("[image {}]", attachment.name.as_deref().unwrap_or(&attachment.media_type))
        }
        ContentBlock::ResourceLink { uri, .. } => format!("[{uri}]"),
        ContentBlock::Resource { uri, text, .. } => format!("[{uri}]\n{text}"),
    });
    blocks.collect::<Vec<_>>().join("\n")
}

fn result(text: &mut String, words: &str, full: bool) {
    let n_lines = words.lines().count();
    let n_shown = if full { n_lines } else { MAX_RESULT_LINES };
    for line in words.lines().take(n_shown) {
        put(text, &format!("   {}", if full { line.to_owned() } else { cut(line) }));
    }
    if n_lines > n_shown {
        put(text, &format!("   … {} more lines; see them with --full", n_lines - n_shown));
    }
}

fn cut(line: &str) -> String {
    match line.char_indices().nth(MAX_LINE_CHARS) {
        Some((at, _)) => format!("{}…", &line[..at]),
        None => line.to_owned(),
    }
}

fn name_of(source: &MessageSource) -> &str {
    match source {
        MessageSource::User => "user",
        MessageSource::Plugin { plugin, .. } => plugin,
        MessageSource::AgentInstructions { .. } => "instructions",
        MessageSource::SkillCatalog { .. } => "skills",
        MessageSource::SkillInvocation { skill } => skill,
        MessageSource::Coordinator { .. } => "parent",
        MessageSource::Subagent { .. } => "sub-agent",
        MessageSource::Goal { .. } => "goal",
        MessageSource::Checkpoint => "summary",
    }
}

/// How a turn ended when it did not simply end.
fn end(reason: &TurnEndReason) -> Option<String> {
    Some(match reason {
        TurnEndReason::Completed => return None,
        TurnEndReason::Aborted { .. } => "stopped".to_owned(),
        TurnEndReason::Blocked => "blocked by a hook".to_owned(),
        TurnEndReason::Refused => "the model refused".to_owned(),
        TurnEndReason::Error { message, .. } => format!("failed: {message}"),
        TurnEndReason::MaxTokens => "the answer was cut at the output limit".to_owned(),
        TurnEndReason::MaxTurnRequests => "stopped at the limit of model requests".to_owned(),
        TurnEndReason::Interrupted => "the process ended in the middle".to_owned(),
    })
}

/// The header and the records, one JSON value a line.
pub(super) fn json_lines(session: &StoredSession) -> serde_json::Result<String> {
    let mut text = serde_json::to_string(&session.header)?;
    text.push('\n');
    for record in &session.records {
        text.push_str(&serde_json::to_string(record)?);
        text.push('\n');
    }
    Ok(text)
}

/// Milliseconds since the Unix epoch as local time, to the minute.
pub(super) fn time(millis: i64) -> String {
    jiff::Timestamp::from_millisecond(millis).map_or_else(
        |_| "-".to_owned(),
        |time| time.to_zoned_datetime(jiff::tz::TimeZone::system()).strftime("%Y-%m-%d %H:%M").to_string(),
    )
}
