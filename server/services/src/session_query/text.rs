//! What of an event can be searched, and how a phrase is found in it.
//!
//! Pure. The session query tools and the index both search by this, so that they find the same.
//! Source: `spec/tools-agentic.md` §12.1.

use protocol::content::ContentBlock;
use protocol::event::{SessionEvent, TodoStatus, TurnEndReason};
use protocol::message::AssistantBlock;

/// Longest snippet, in code points, marks of omission included.
const MAX_SNIPPET: usize = 240;
/// Code points shown before a match.
const BEFORE_MATCH: usize = 60;

/// The words of an event; empty when it has none.
pub fn of(event: &SessionEvent) -> String {
    let mut parts = Vec::new();
    match event {
        SessionEvent::UserMessage { message } | SessionEvent::Compaction { message, .. } => {
            parts.extend(texts(&message.content))
        }
        SessionEvent::AssistantMessage { message, .. } => {
            for block in &message.blocks {
                match block {
                    AssistantBlock::Text { text } => parts.push(text.clone()),
                    AssistantBlock::ToolCall(call) => {
                        parts.extend([call.name.clone(), call.arguments.clone()]);
                    }
                    AssistantBlock::Reasoning { .. } => {}
                }
            }
        }
        SessionEvent::ToolCall { name, arguments, .. } => parts.extend([name.clone(), arguments.clone()]),
        SessionEvent::ToolResult { message, error, .. } => {
            parts.extend(texts(&message.content));
            if let Some(info) = error.as_ref().and_then(|failure| failure.info.as_ref()) {
                parts.extend([info.name.clone(), info.code.clone()]);
            }
        }
        SessionEvent::TodoWrite { todos } => {
            for todo in todos {
                let status = match todo.status {
                    TodoStatus::Pending => "pending",
                    TodoStatus::InProgress => "in_progress",
                    TodoStatus::Completed => "completed",
                };
                parts.extend([status.to_owned(), todo.content.clone()]);
            }
        }
        SessionEvent::TurnEnd { reason, .. } => match reason {
            TurnEndReason::Error { message, .. } => parts.extend(["error".to_owned(), message.clone()]),
            TurnEndReason::Aborted { .. } => parts.push("aborted".to_owned()),
            TurnEndReason::MaxTokens => parts.push("max-tokens".to_owned()),
            TurnEndReason::Interrupted => parts.push("interrupted".to_owned()),
            _ => {}
        },
        _ => {}
    }
    let parts: Vec<&str> = parts.iter().map(|part| part.trim()).filter(|part| !part.is_empty()).collect();
    parts.join("\n")
}

fn texts(content: &[ContentBlock]) -> impl Iterator<Item = String> + '_ {
    content.iter().filter_map(ContentBlock::as_text).map(str::to_owned)
}

/// A phrase: its words one after another. Letters and digits make words, case does not count, and in scripts written
/// without spaces every character is a word of its own, so that a part of a sentence is found.
#[derive(Clone, Debug, PartialEq)]
pub struct Phrase(Vec<String>);

impl Phrase {
    /// The phrase of a query; `None` when it has no word.
    pub fn new(query: &str) -> Option<Self> {
        let words: Vec<String> = words(query).map(|(_, word)| word.to_lowercase()).collect();
        if words.is_empty() { None } else { Some(Self(words)) }
    }

    /// Its words, in lower case; each is of letters, digits and marks alone.
    pub fn words(&self) -> &[String] {
        &self.0
    }

    /// How often the phrase is in a text, and the byte at which it first is; `None` when it is not.
    pub fn find(&self, text: &str) -> Option<(usize, usize)> {
        let words: Vec<(usize, &str)> = words(text).collect();
        let (mut n_found, mut first, mut idx) = (0, None, 0);
        while idx + self.0.len() <= words.len() {
            let window = &words[idx..idx + self.0.len()];
            if window.iter().zip(&self.0).all(|((_, word), wanted)| is_same(word, wanted)) {
                n_found += 1;
                first = first.or(Some(window[0].0));
                idx += self.0.len();
            } else {
                idx += 1;
            }
        }
        first.map(|at| (n_found, at))
    }
}

/// Whether a word is the one that was asked for, which is in lower case.
fn is_same(word: &str, wanted: &str) -> bool {
    if word.is_ascii() { word.eq_ignore_ascii_case(wanted) } else { word.to_lowercase() == wanted }
}

/// The words of a text in lower case with spaces between, which a tokenizer that splits at ASCII punctuation takes apart
/// into the words that [`Phrase`] compares.
pub fn normalised(text: &str) -> String {
    let mut line = String::with_capacity(text.len());
    for (_, word) in words(text) {
        if !line.is_empty() {
            line.push(' ');
        }
        match word.is_ascii() {
            true => line.extend(word.chars().map(|c| c.to_ascii_lowercase())),
            false => line.push_str(&word.to_lowercase()),
        }
    }
    line
}

/// The words of a text with the byte each begins at.
fn words(text: &str) -> impl Iterator<Item = (usize, &str)> {
    let mut rest = text.char_indices().peekable();
    std::iter::from_fn(move || {
        let (start, first) = rest.find(|(_, c)| c.is_alphanumeric())?;
        let mut end = start + first.len_utf8();
        if !stands_alone(first) {
            while let Some((at, c)) = rest.next_if(|(_, c)| c.is_alphanumeric() && !stands_alone(*c)) {
                end = at + c.len_utf8();
            }
        }
        Some((start, &text[start..end]))
    })
}

/// Ideographs, kana, Hangul and Thai.
fn stands_alone(c: char) -> bool {
    matches!(u32::from(c), 0x0e00..=0x0e7f | 0x3040..=0x30ff | 0x3400..=0x9fff | 0xac00..=0xd7af | 0xf900..=0xfaff
        | 0x20000..=0x323af)
}

/// One line around the byte `at`, which begins a character.
pub fn snippet(text: &str, at: usize) -> String {
    let squeezed = |part: &str| part.split_whitespace().collect::<Vec<_>>().join(" ");
    // Enough of the text for a whole snippet, however much of it is white space.
    let before: Vec<char> = squeezed(&text[..at]).chars().collect();
    let ends_in_space = text[..at].ends_with(char::is_whitespace) && !before.is_empty();
    let kept = before.len().saturating_sub(BEFORE_MATCH);
    let mut line = String::new();
    if kept > 0 {
        line.push('…');
    }
    line.extend(&before[kept..]);
    if ends_in_space {
        line.push(' ');
    }
    line.push_str(&squeezed(&text[at..]));
    if line.chars().count() > MAX_SNIPPET {
        line = line.chars().take(MAX_SNIPPET - 1).chain(['…']).collect();
    }
    line
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn phrases_are_whole_words_in_a_row_and_operators_are_text() {
        let cases = [
            ("AI", "a BRAID of hair", None),
            ("ai", "an AI, an ai", Some((2, 3))),
            ("alpha beta", "alpha, beta; alpha gamma", Some((1, 0))),
            ("foo\" OR (", "foo or bar", Some((1, 0))),
            ("会话", "查找会话记录", Some((1, 6))),
            ("NEAR/3", "near 3", Some((1, 0))),
        ];
        for (query, text, expected) in cases {
            assert_eq!(Phrase::new(query).unwrap().find(text), expected, "{query} in {text}");
        }
        assert_eq!(Phrase::new("\" * ("), None);
    }

    #[test]
    fn a_snippet_is_one_bounded_line_with_the_match_in_it() {
        let text = format!("{}\n\n needle  here {}", "é ".repeat(500), "x".repeat(500));
        let line = snippet(&text, text.find("needle").unwrap());
        assert_eq!(line.chars().count(), MAX_SNIPPET);
        assert!(line.starts_with('…') && line.ends_with('…') && line.contains("é needle here x"), "{line}");
        assert_eq!(snippet("short", 0), "short");
    }
}
