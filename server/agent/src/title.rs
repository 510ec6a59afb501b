//! The title of a session: first made from the first prompt, then written by the model.
//!
//! Called by the turn and by the session's task. Source: `spec/runtime.md` §10.

use crate::compaction::{OFFLINE, read};
use crate::session::Shared;
use crate::state::SessionState;
use protocol::content::ContentBlock;
use protocol::event::{Record, SessionEvent, TitleSource};
use protocol::id::MessageId;
use protocol::message::{AssistantBlock, MessageSource, UserMessage};
use protocol::model::{HistoryMessage, ModelRequest};
use std::time::Duration;

/// Longest title of the first prompt, and of the model, in bytes.
const MAX_FALLBACK_BYTES: usize = 40;
const MAX_WRITTEN_BYTES: usize = 60;
/// How much of prompt and answer the model is shown, in characters.
const MAX_SHOWN_CHARS: usize = 2000;
/// Output cap of the request; a model that thinks first needs more than a title takes.
const MAX_TOKENS: u64 = 1024;
/// Most bytes of the answer that are read.
const MAX_BYTES: usize = 4096;
/// How long the model may take.
const BUDGET: Duration = Duration::from_secs(30);

const SYSTEM: &str = "You name conversations. Answer with a title of three to six words for the conversation below, in the \
    user's language, and nothing else: no quotes, no full stop.";

/// First five words, bounded; `None` for a prompt without text.
pub(crate) fn fallback_title(prompt: &str) -> Option<String> {
    let words: Vec<&str> = prompt.split_whitespace().take(5).collect();
    bounded(&words.join(" "), MAX_FALLBACK_BYTES)
}

/// Whether the model is to write a title now: after the first turn, when nobody gave one and there is a real model.
pub(crate) fn is_wanted(shared: &Shared) -> bool {
    let state = shared.core.state();
    shared.model_titles
        && state.turn == 1
        && is_provisional(&state)
        && shared.core.model().0.provider != OFFLINE
}

/// Asks the model for a title and logs it, unless the user was faster. A failure leaves the title as it is.
pub(crate) async fn write(shared: &Shared) {
    let core = &shared.core;
    let Some(shown) = core.with_records(shown) else { return };
    let (model, _) = core.model();
    let most = shared.models.info(&model).max_output_tokens;
    let request = ModelRequest {
        model,
        effort: None,
        system: SYSTEM.to_owned(),
        messages: vec![HistoryMessage::User(UserMessage {
            id: MessageId::new(format!("msg_{}", core.clock().fresh_id())),
            content: vec![ContentBlock::text(shown)],
            source: MessageSource::User,
        })],
        tools: Vec::new(),
        max_tokens: Some(most.map_or(MAX_TOKENS, |most| most.min(MAX_TOKENS))),
        cwd: shared.scope.cwd.clone(),
    };
    let answer = tokio::select! {
        biased;
        answer = read(shared, request, MAX_BYTES) => answer,
        () = core.clock().sleep(BUDGET) => Err("the model took too long".to_owned()),
    };
    let written = match answer {
        Ok(answer) => written_title(&answer),
        Err(error) => return tracing::debug!(error, "no title was written"),
    };
    let Some(title) = written else { return };
    let event = SessionEvent::Title { title, source: TitleSource::Provider };
    let logged = match core.append_if(is_provisional, event) {
        Ok(()) => core.flush().await,
        error => error,
    };
    if let Err(error) = logged {
        tracing::debug!(%error, "the title was not logged");
    }
}

fn is_provisional(state: &SessionState) -> bool {
    matches!(state.title, Some((_, TitleSource::Fallback)))
}

/// The first prompt and the first words of an answer; `None` without a prompt.
fn shown(records: &[Record]) -> Option<String> {
    let prompt = records.iter().find_map(|record| match &record.event {
        SessionEvent::UserMessage { message } if message.source == MessageSource::User => {
            let texts: Vec<&str> = message.content.iter().filter_map(ContentBlock::as_text).collect();
            Some(texts.join("\n"))
        }
        _ => None,
    })?;
    let answers = records.iter().filter_map(|record| match &record.event {
        SessionEvent::AssistantMessage { message, .. } => Some(&message.blocks),
        _ => None,
    });
    let texts = answers.flatten().filter_map(|block| match block {
        AssistantBlock::Text { text } => Some(text.as_str()),
        _ => None,
    });
    let cut = |text: &str| text.chars().take(MAX_SHOWN_CHARS).collect::<String>();
    let answer = texts.collect::<Vec<_>>().join("\n");
    Some(format!("User:\n{}\n\nAssistant:\n{}", cut(&prompt), cut(&answer)))
}

/// The title in what a model wrote: its first line without what models like to put around it.
fn written_title(answer: &str) -> Option<String> {
    let line = answer.lines().map(str::trim).find(|line| !line.is_empty())?;
    let line = line.trim_start_matches(['#', ' ']);
    let line = line.strip_prefix("Title:").unwrap_or(line);
    let line = line.trim_matches(|char: char| char.is_whitespace() || "\"'`*_“”„«»".contains(char));
    let line = line.trim_end_matches('.');
    bounded(&line.split_whitespace().collect::<Vec<_>>().join(" "), MAX_WRITTEN_BYTES)
}

/// At most so many bytes, cut at a character; `None` when nothing is left.
fn bounded(title: &str, max_bytes: usize) -> Option<String> {
    let mut title = title.to_owned();
    if title.len() > max_bytes {
        let most = max_bytes - '…'.len_utf8();
        let cut = title.floor_char_boundary(most);
        title.truncate(cut);
        title.truncate(title.trim_end().len());
        title.push('…');
    }
    (!title.is_empty()).then_some(title)
}

#[cfg(test)]
mod tests {
    use super::{fallback_title, written_title};

    #[test]
    fn a_title_is_five_words_of_the_prompt_at_most_forty_bytes() {
        let cases = [
            ("fix the bug", Some("fix the bug")),
            ("  one two\nthree four five six", Some("one two three four five")),
            ("", None),
            ("   \n", None),
            (
                "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa",
                Some("aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa…"),
            ),
            ("ééééééééééééééééééééééééé", Some("éééééééééééééééééé…")),
        ];
        for (prompt, expected) in cases {
            assert_eq!(fallback_title(prompt).as_deref(), expected);
        }
    }

    #[test]
    fn a_written_title_loses_what_models_put_around_it() {
        let long = "word ".repeat(30);
        let cases = [
            ("Fix the login bug", Some("Fix the login bug")),
            ("\n\"Fix the login bug.\"\n\nBecause …", Some("Fix the login bug")),
            ("## **Fix  it**", Some("Fix it")),
            ("Title: Fix it.", Some("Fix it")),
            ("„Anmeldung reparieren“", Some("Anmeldung reparieren")),
            ("", None),
            ("**", None),
            (&long, Some("word word word word word word word word word word word wo…")),
        ];
        for (answer, expected) in cases {
            assert_eq!(written_title(answer).as_deref(), expected, "{answer}");
        }
    }
}
