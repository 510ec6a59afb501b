//! The summary that stands for old messages: written by the model, or put together without one.

use crate::session::Shared;
use futures::StreamExt;
use protocol::content::ContentBlock;
use protocol::id::MessageId;
use protocol::message::{AssistantBlock, ContextForm, MessageSource, UserMessage};
use protocol::model::{FinishReason, HistoryMessage, ModelChunk, ModelRequest};
use protocol::tool::{ToolSchema, parse_arguments};
use std::time::Duration;

/// Output cap of the request.
const MAX_TOKENS: u64 = 8192;
/// Most bytes of a summary that are kept.
const MAX_BYTES: usize = 64 << 10;
/// How long the model may take.
const BUDGET: Duration = Duration::from_secs(180);
/// Provider that has no model behind it.
pub(crate) const OFFLINE: &str = "offline";
/// How many of the latest prompts, and how many files, a mechanical summary names.
const MAX_PROMPTS: usize = 20;
const MAX_FILES: usize = 40;
/// Longest prompt, and longest last answer, of a mechanical summary, in characters.
const MAX_PROMPT_CHARS: usize = 600;
const MAX_ANSWER_CHARS: usize = 2000;
/// Longest latest request that is kept word for word, in characters.
const MAX_REQUEST_CHARS: usize = 4000;

const INSTRUCTION: &str = "The conversation above is about to be removed from your context. Write the summary that \
    replaces it, for yourself. Keep what the work needs to go on: what the user asked for and corrected, in their words \
    where wording matters; decisions and why; files read and changed, with paths; commands and what came of them; errors \
    that are still open; what was going on last and what comes next. Leave out greetings, and output that can be had \
    again. Answer with the summary alone, and call no tools.";

/// Asks the model for a summary of `old`; the offline model gets a mechanical one.
///
/// # Errors
/// Why there is none, for the user.
pub(super) async fn write(
    shared: &Shared,
    header: &(String, Vec<ToolSchema>),
    old: Vec<HistoryMessage>,
    focus: &str,
) -> Result<String, String> {
    let core = &shared.core;
    let (model, effort) = core.model();
    if model.provider == OFFLINE {
        return Ok(mechanical(&old));
    }
    let focus = if focus.is_empty() {
        String::new()
    } else {
        format!("\n\nThe user asks to keep above all: {focus}")
    };
    let mut messages = old;
    messages.push(HistoryMessage::User(UserMessage {
        id: MessageId::new(format!("msg_{}", core.clock().fresh_id())),
        content: vec![ContentBlock::text(format!("{INSTRUCTION}{focus}"))],
        source: MessageSource::Plugin { plugin: "compaction".to_owned(), form: ContextForm::Instructions },
    }));
    let cap = shared.models.info(&model).max_output_tokens.map_or(MAX_TOKENS, |most| most.min(MAX_TOKENS));
    let request = ModelRequest {
        model,
        effort,
        system: header.0.clone(),
        messages,
        // The calls in the history need their tools, and the cached prefix stays the same.
        tools: header.1.clone(),
        max_tokens: Some(cap),
        cwd: shared.scope.cwd.clone(),
    };
    let text = tokio::select! {
        biased;
        text = read(shared, request, MAX_BYTES) => text?,
        () = core.clock().sleep(BUDGET) => return Err("the model took too long".to_owned()),
    };
    if text.is_empty() { Err("the model wrote nothing".to_owned()) } else { Ok(text) }
}

/// The text of the answer to a request beside the conversation, trimmed; reasoning and calls are dropped.
pub(crate) async fn read(shared: &Shared, request: ModelRequest, max_bytes: usize) -> Result<String, String> {
    let mut stream = shared.models.stream(request).await.map_err(|error| error.message)?;
    let mut text = String::new();
    while let Some(chunk) = stream.next().await {
        match chunk.map_err(|error| error.message)? {
            ModelChunk::Text(delta) => text.push_str(&delta),
            ModelChunk::Finish(FinishReason::Refusal) => return Err("the model refused".to_owned()),
            ModelChunk::Finish(_) => return Ok(text.trim().to_owned()),
            _ => {}
        }
        if text.len() > max_bytes {
            let end = text.floor_char_boundary(max_bytes);
            text.truncate(end);
            return Ok(text);
        }
    }
    Err("the stream ended before the answer was complete".to_owned())
}

/// The summary as the model reads it, with the latest request of the user when that is left out too.
pub(super) fn wrap(text: &str, request: Option<&str>) -> String {
    let request = request.map(|text| format!("\n\nThe user's latest request, word for word:\n{text}"));
    let text = format!("{text}{}", request.unwrap_or_default());
    // A closing tag inside would end the summary early.
    let text = text.replace("</compacted-summary>", "<\\/compacted-summary>");
    format!(
        "<compacted-summary>\nThe earlier part of this conversation was removed to make room. This stands for \
         it:\n\n{text}\n</compacted-summary>"
    )
}

/// The last words of the user among these messages.
pub(super) fn latest_request(old: &[HistoryMessage]) -> Option<String> {
    old.iter().rev().find_map(|message| match message {
        HistoryMessage::User(message) if message.source == MessageSource::User => {
            let texts: Vec<&str> = message.content.iter().filter_map(ContentBlock::as_text).collect();
            Some(cut(&texts.join("\n"), MAX_REQUEST_CHARS))
        }
        _ => None,
    })
}

/// What was asked, what was touched and what was said last, put together without a model.
pub(super) fn mechanical(old: &[HistoryMessage]) -> String {
    let mut earlier = None;
    let mut prompts = Vec::new();
    let mut files: Vec<String> = Vec::new();
    let mut last = None;
    for message in old {
        match message {
            HistoryMessage::User(message) => {
                let text =
                    message.content.iter().filter_map(ContentBlock::as_text).collect::<Vec<_>>().join("\n");
                match message.source {
                    MessageSource::User => prompts.push(cut(&text, MAX_PROMPT_CHARS)),
                    MessageSource::Checkpoint => earlier = Some(cut(&text, MAX_ANSWER_CHARS)),
                    _ => {}
                }
            }
            HistoryMessage::Assistant(message) => {
                for block in &message.blocks {
                    match block {
                        AssistantBlock::Text { text } if !text.trim().is_empty() => last = Some(text),
                        AssistantBlock::ToolCall(call) => {
                            let arguments = parse_arguments(&call.arguments);
                            let path =
                                ["file_path", "path"].iter().find_map(|name| arguments.get(name)?.as_str());
                            if let Some(path) = path {
                                files.retain(|known| known != path);
                                files.push(path.to_owned());
                            }
                        }
                        _ => {}
                    }
                }
            }
            HistoryMessage::ToolResult(_) => {}
        }
    }
    let mut parts = vec!["This list was put together without a model; details are missing.".to_owned()];
    if let Some(earlier) = earlier {
        let inner = earlier.replace("<compacted-summary>", "").replace("</compacted-summary>", "");
        parts.push(format!("Before that:\n{}", inner.trim()));
    }
    if !prompts.is_empty() {
        let left_out = prompts.len().saturating_sub(MAX_PROMPTS);
        let rows: Vec<String> = prompts[left_out..].iter().map(|prompt| format!("- {prompt}")).collect();
        let more = if left_out > 0 { format!(" ({left_out} earlier ones left out)") } else { String::new() };
        parts.push(format!("The user asked, in this order{more}:\n{}", rows.join("\n")));
    }
    if !files.is_empty() {
        let left_out = files.len().saturating_sub(MAX_FILES);
        parts.push(format!("Paths that calls named, latest last: {}", files[left_out..].join(", ")));
    }
    if let Some(last) = last {
        parts.push(format!("Your last words were:\n{}", cut(last, MAX_ANSWER_CHARS)));
    }
    parts.join("\n\n")
}

fn cut(text: &str, max_chars: usize) -> String {
    match text.char_indices().nth(max_chars) {
        Some((end, _)) => format!("{} …", &text[..end]),
        None => text.to_owned(),
    }
}
