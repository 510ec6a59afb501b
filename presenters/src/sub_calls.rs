//! The calls a program makes, shown inside the call that runs it: a list with their states, and one of them in full.
//!
//! The server folds the log's sub-call events into a [`SubCalls`] and hands it in. Source: product decisions, "The
//! editor"; sub-calls of programs.

use crate::PresentContext;
use crate::call::{CallView, title_words, update};
use crate::card::text_item;
use crate::text::{cut, escape_markdown, one_line};
use agent_client_protocol::v1::schema::{
    SessionUpdate, ToolCallContent, ToolCallLocation, ToolCallUpdateFields,
};
use protocol::id::CallId;
use protocol::tool::DurableResult;

/// Calls that are listed; of more, the last.
const MAX_LISTED: usize = 30;
/// Longest error told in the list, in characters.
const MAX_ERROR: usize = 120;

/// The calls of one program, in the order in which they started.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SubCalls {
    /// Ended calls that are not listed any more.
    n_omitted: usize,
    listed: Vec<SubCall>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
struct SubCall {
    call_id: CallId,
    title: String,
    state: State,
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum State {
    Running,
    Done,
    /// Why.
    Failed(String),
}

impl SubCalls {
    /// Whether the program made none.
    pub fn is_empty(&self) -> bool {
        self.listed.is_empty()
    }

    /// A call started.
    pub fn start(&mut self, ctx: &PresentContext, call: &CallView<'_>) {
        if self.listed.len() >= MAX_LISTED
            && let Some(ended) = self.listed.iter().position(|call| call.state != State::Running)
        {
            self.listed.remove(ended);
            self.n_omitted += 1;
        }
        // The list is Markdown for everybody, titles are for some only.
        let quirks = crate::Quirks { markdown_titles: false, ..ctx.quirks };
        let title = title_words(call).present(&PresentContext { quirks, ..ctx.clone() });
        self.listed.push(SubCall { call_id: call.call_id.clone(), title, state: State::Running });
    }

    /// A call ended.
    pub fn end(&mut self, call_id: &CallId, result: &DurableResult) {
        let Some(call) = self.listed.iter_mut().find(|call| call.call_id == *call_id) else { return };
        call.state = match &result.error {
            None if !result.is_error => State::Done,
            error => State::Failed(error.as_ref().map(|error| error.message.clone()).unwrap_or_default()),
        };
    }

    fn list(&self) -> ToolCallContent {
        let mut text = String::new();
        if self.n_omitted > 0 {
            text.push_str(&format!("- … {} earlier\n", self.n_omitted));
        }
        for SubCall { title, state, .. } in &self.listed {
            let title = escape_markdown(title);
            match state {
                State::Running => text.push_str(&format!("- ▸ {title}\n")),
                State::Done => text.push_str(&format!("- ✓ {title}\n")),
                State::Failed(reason) => {
                    let reason = escape_markdown(&cut(&one_line(reason), MAX_ERROR));
                    text.push_str(&format!("- ✗ {title}: {reason}\n"));
                }
            }
        }
        text_item(text)
    }
}

/// The call that runs a program, as its calls stand; `shown` is the update that would show one of them by itself.
pub fn present_sub_calls(
    program: &CallId,
    sub_calls: &SubCalls,
    shown: Option<SessionUpdate>,
) -> SessionUpdate {
    let (content, locations) = shown.map(card).unwrap_or_default();
    let content = std::iter::once(sub_calls.list()).chain(content).collect::<Vec<_>>();
    update(program, ToolCallUpdateFields::new().content(content).locations(locations), None)
}

/// The end of a call that ran a program, with its calls above what it ended with.
pub fn with_sub_calls(ended: SessionUpdate, sub_calls: &SubCalls) -> SessionUpdate {
    match ended {
        SessionUpdate::ToolCallUpdate(mut update) if !sub_calls.is_empty() => {
            let content = update.fields.content.take().unwrap_or_default();
            update.fields.content = Some(std::iter::once(sub_calls.list()).chain(content).collect());
            SessionUpdate::ToolCallUpdate(update)
        }
        other => other,
    }
}

/// What an update shows of its call.
fn card(shown: SessionUpdate) -> (Vec<ToolCallContent>, Vec<ToolCallLocation>) {
    match shown {
        SessionUpdate::ToolCall(call) => (call.content, call.locations),
        SessionUpdate::ToolCallUpdate(update) => {
            (update.fields.content.unwrap_or_default(), update.fields.locations.unwrap_or_default())
        }
        _ => Default::default(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fixtures::{full, json_of};
    use crate::{fallback_card, present_call};
    use protocol::content::ContentBlock;
    use protocol::tool::ToolFailure;
    use serde_json::{Value, json};

    fn result(error: Option<&str>) -> DurableResult {
        let error = error.map(ToolFailure::plain);
        DurableResult { content: vec![ContentBlock::text("x")], is_error: error.is_some(), error, meta: None }
    }

    fn started(sub_calls: &mut SubCalls, n: usize) -> SessionUpdate {
        let (call_id, arguments) = (CallId::new(format!("p:ptc:{n}")), json!({ "n": n }));
        let card = fallback_card(&format!("tool_{n}"), &arguments);
        let call = CallView { call_id: &call_id, name: "t", arguments: &arguments, card: &card };
        sub_calls.start(&full(), &call);
        present_call(&full(), &call)
    }

    fn text(update: SessionUpdate) -> Value {
        json_of(update)["content"][0]["content"]["text"].clone()
    }

    #[test]
    fn calls_are_listed_with_their_states() {
        let mut sub_calls = SubCalls::default();
        for n in 1..4 {
            started(&mut sub_calls, n);
        }
        sub_calls.end(&CallId::new("p:ptc:1"), &result(None));
        sub_calls.end(&CallId::new("p:ptc:2"), &result(Some("not\nthere")));
        let shown = present_sub_calls(&CallId::new("p"), &sub_calls, None);
        let expected = "- ✓ tool_1\n- ✗ tool_2: not …\n- ▸ tool_3\n";
        assert_eq!(text(shown), expected);
    }

    #[test]
    fn only_the_last_calls_are_listed_and_what_runs_stays() {
        let mut sub_calls = SubCalls::default();
        for n in 0..40 {
            started(&mut sub_calls, n);
            if n > 0 {
                sub_calls.end(&CallId::new(format!("p:ptc:{n}")), &result(None));
            }
        }
        let shown = text(present_sub_calls(&CallId::new("p"), &sub_calls, None));
        let shown = shown.as_str().unwrap();
        assert!(shown.starts_with("- … 10 earlier\n- ▸ tool_0\n- ✓ tool_11\n"), "{shown}");
    }

    #[test]
    fn the_list_stands_above_the_card_of_one_call_and_above_the_end() {
        let mut sub_calls = SubCalls::default();
        let shown = started(&mut sub_calls, 1);
        let update = json_of(present_sub_calls(&CallId::new("p"), &sub_calls, Some(shown)));
        assert_eq!((update["toolCallId"].as_str(), update.get("status")), (Some("p"), None));
        let fields = ToolCallUpdateFields::new().content(vec![text_item("the end")]);
        let ended = super::update(&CallId::new("p"), fields, None);
        assert_eq!(with_sub_calls(ended.clone(), &SubCalls::default()), ended);
        let ended = json_of(with_sub_calls(ended, &sub_calls));
        assert_eq!(ended["content"].as_array().map(Vec::len), Some(2));
        assert_eq!(ended["content"][1]["content"]["text"], "the end");
    }
}
