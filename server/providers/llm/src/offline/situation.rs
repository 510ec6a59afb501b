//! What a request says: the prompt, what was called since, and what came of it.

use crate::content::link_path;
use protocol::content::ContentBlock;
use protocol::message::{MessageSource, UserMessage};
use protocol::model::{HistoryMessage, ModelRequest};
use protocol::tool::{ToolSchema, parse_arguments};
use serde_json::Value;
use std::collections::HashMap;

/// A call that was made and what came of it.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Done {
    pub name: String,
    pub arguments: Value,
    /// Text of the result; images and other kinds are left out.
    pub text: String,
    pub is_error: bool,
}

/// One step since the prompt: the calls of one answer.
pub(super) type Step = Vec<Done>;

/// A request as the offline model sees it.
pub(super) struct Situation<'a> {
    pub request: &'a ModelRequest,
    /// What the person wrote.
    pub prompt: String,
    /// Path of the first resource the prompt points at.
    pub pointed_at: Option<String>,
    /// Identity of the prompt, for names that must differ between prompts.
    pub prompt_id: &'a str,
    /// Steps since the prompt, in order.
    pub steps: Vec<Step>,
    /// Calls in the whole history, so that new ids are new.
    pub n_calls_before: usize,
    /// Characters of the messages.
    pub n_chars: usize,
    /// What came from elsewhere after the prompt had been answered.
    notice: Option<String>,
}

impl<'a> Situation<'a> {
    pub fn read(request: &'a ModelRequest) -> Self {
        let (start, prompt) = prompt(&request.messages);
        let mut steps = Vec::new();
        let mut results: HashMap<&str, (String, bool)> = HashMap::new();
        let mut n_calls_before = 0;
        let mut n_chars = 0;
        for message in &request.messages {
            match message {
                HistoryMessage::User(message) => n_chars += text_of(&message.content).len(),
                HistoryMessage::Assistant(message) => {
                    n_calls_before += message.calls().count();
                    n_chars +=
                        message.calls().map(|call| call.name.len() + call.arguments.len()).sum::<usize>();
                }
                HistoryMessage::ToolResult(message) => {
                    let text = text_of(&message.content);
                    n_chars += text.len();
                    results.insert(message.call_id.as_str(), (text, message.is_error));
                }
            }
        }
        let mut is_answered = false;
        let mut notice = None;
        for message in &request.messages[start..] {
            match message {
                HistoryMessage::Assistant(message) => {
                    let done = message.calls().map(|call| {
                        let (text, is_error) = results.get(call.id.as_str()).cloned().unwrap_or_default();
                        let arguments = parse_arguments(&call.arguments);
                        Done { name: call.name.clone(), arguments, text, is_error }
                    });
                    let step: Step = done.collect();
                    is_answered = step.is_empty();
                    if !is_answered {
                        steps.push(step);
                    }
                    notice = None;
                }
                HistoryMessage::User(message) if is_answered => notice = Some(text_of(&message.content)),
                _ => {}
            }
        }
        let content = prompt.map_or(&[][..], |message| &message.content);
        Self {
            request,
            prompt: text_of(content).trim().to_owned(),
            pointed_at: content.iter().find_map(|block| match block {
                ContentBlock::ResourceLink { uri, .. } | ContentBlock::Resource { uri, .. } => link_path(uri),
                _ => None,
            }),
            prompt_id: prompt.map_or("", |message| message.id.as_str()),
            steps,
            n_calls_before,
            n_chars,
            notice,
        }
    }

    /// What came from elsewhere after the prompt had been answered; there is no prompt to follow then.
    pub fn notice_after_answer(&self) -> Option<&str> {
        self.notice.as_deref()
    }

    /// The tool of this name, if it is on offer.
    pub fn tool(&self, name: &str) -> Option<&'a ToolSchema> {
        self.request.tools.iter().find(|tool| tool.name == name)
    }

    /// Whether the tool's schema has this parameter.
    pub fn accepts(&self, tool: &str, parameter: &str) -> bool {
        self.tool(tool).is_some_and(|tool| tool.parameters["properties"].get(parameter).is_some())
    }
}

/// Where the prompt is: the last message that a person wrote, or the first of all for a delegated task.
fn prompt(messages: &[HistoryMessage]) -> (usize, Option<&UserMessage>) {
    let find = |wanted: &dyn Fn(&UserMessage) -> bool, newest: bool| {
        let mut found = messages.iter().enumerate().filter_map(|(index, message)| match message {
            HistoryMessage::User(message) if wanted(message) => Some((index, message)),
            _ => None,
        });
        if newest { found.last() } else { found.next() }
    };
    let typed = find(&|message| message.source.is_prompt(), true);
    let given = || {
        let is_task = |message: &UserMessage| {
            matches!(message.source, MessageSource::Subagent { .. } | MessageSource::Goal { .. })
        };
        find(&is_task, false)
    };
    match typed.or_else(given) {
        Some((index, message)) => (index, Some(message)),
        None => (messages.len(), None),
    }
}

/// The text blocks, one a line.
fn text_of(content: &[ContentBlock]) -> String {
    content.iter().filter_map(ContentBlock::as_text).collect::<Vec<_>>().join("\n")
}
