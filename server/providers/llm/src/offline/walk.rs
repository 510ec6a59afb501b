//! A script over many requests, written as one straight line.
//!
//! Each request starts the script anew. A call that has a result gives it; the first that has none is the answer of
//! this request and leaves the script by `?`. So a script must be a function of the situation alone.

use super::situation::{Done, Situation, Step};
use serde_json::Value;

/// What one request is answered with.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Ask {
    /// Said before the calls, or the whole answer.
    pub text: String,
    /// Tool and arguments of each call; none ends the turn.
    pub calls: Vec<(String, Value)>,
}

impl Ask {
    pub fn say(text: impl Into<String>) -> Self {
        Self { text: text.into(), calls: Vec::new() }
    }
}

/// Plays a script.
pub(super) struct Walk<'s> {
    pub situation: &'s Situation<'s>,
    rest: std::slice::Iter<'s, Step>,
}

impl<'s> Walk<'s> {
    pub fn new(situation: &'s Situation<'s>) -> Self {
        Self { situation, rest: situation.steps.iter() }
    }

    /// Whether the tool is on offer.
    pub fn has(&self, tool: &str) -> bool {
        self.situation.tool(tool).is_some()
    }

    /// Calls the tools in one batch; their results if they have run.
    pub fn calls(&mut self, text: &str, calls: Vec<(String, Value)>) -> Result<&'s [Done], Ask> {
        match self.rest.next() {
            Some(step) => Ok(step),
            None => Err(Ask { text: text.to_owned(), calls }),
        }
    }

    /// Calls one tool; its result if it has run. One that is not on offer leaves with the reason.
    pub fn call(&mut self, text: &str, tool: &str, arguments: Value) -> Result<&'s Done, Ask> {
        if !self.has(tool) {
            return Err(Ask::say(format!("This session has no `{tool}` tool, so I cannot do that.")));
        }
        let missing = || Ask::say(format!("The `{tool}` call left no result."));
        self.calls(text, vec![(tool.to_owned(), arguments)])?.first().ok_or_else(missing)
    }
}

impl Done {
    /// The first line of the result that says something, at most 200 characters.
    pub fn headline(&self) -> String {
        let line = self
            .text
            .lines()
            .map(str::trim)
            .find(|line| {
                !line.is_empty()
                    && !line.starts_with("<path>")
                    && !line.starts_with("<type>")
                    && *line != "<content>"
            })
            .unwrap_or("(nothing)");
        let cut: String = line.chars().take(200).collect();
        if cut.len() < line.len() { format!("{cut}…") } else { cut }
    }
}
