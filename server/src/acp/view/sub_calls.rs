//! The calls of a program, shown in the card of the call that runs it.
//!
//! A call of a program that asks the user becomes a card of its own, so that the question has something to be about.

use super::SessionView;
use super::shown::{Shown, ShownCall};
use agent_client_protocol::v1::schema::SessionUpdate;
use presenters::{PresentContext, TerminalStyle, present_call, present_sub_calls};
use protocol::id::CallId;
use protocol::tool::DurableResult;
use serde_json::Value;

/// A sub-call as the log tells it.
pub(super) struct SubCall<'a> {
    pub program: &'a CallId,
    pub call_id: &'a CallId,
    pub name: &'a str,
    pub arguments: &'a Value,
    /// `None` when it starts.
    pub result: Option<&'a DurableResult>,
}

impl SessionView {
    /// A call of a program started or ended. Told again only its place in the list is of interest.
    pub(super) async fn sub_call(
        &self,
        shown: &mut Shown,
        ctx: &PresentContext,
        is_live: bool,
        sub_call: SubCall<'_>,
    ) -> Vec<SessionUpdate> {
        let SubCall { program, call_id, name, arguments, result } = sub_call;
        let asked = result.and_then(|_| shown.calls.remove(call_id));
        let call = ShownCall::new(name, arguments.clone(), &self.parts.find_tool);
        let Some(outer) = shown.calls.get_mut(program) else { return Vec::new() };
        match result {
            None => outer.sub_calls.start(ctx, &call.view(call_id)),
            Some(result) => outer.sub_calls.end(call_id, result),
        }
        let sub_calls = outer.sub_calls.clone();
        // Terminals belong to calls the client knows.
        let inside = PresentContext { terminals: TerminalStyle::Text, ..ctx.clone() };
        let card = match (is_live, result) {
            (false, _) => None,
            (true, None) => {
                let card = present_call(&inside, &call.view(call_id));
                outer.sub_running.insert(call_id.clone(), call);
                Some(card)
            }
            (true, Some(result)) => {
                outer.sub_running.remove(call_id);
                Some(self.result(&inside, call_id, &call, result).await)
            }
        };
        let mut updates = Vec::new();
        if let (None, Some(asked)) = (result, shown.running.remove(call_id)) {
            updates.push(present_call(ctx, &asked.view(call_id)));
            shown.calls.insert(call_id.clone(), asked);
        }
        if let (Some(asked), Some(result)) = (asked, result) {
            updates.push(self.result(ctx, call_id, &asked, result).await);
        }
        if card.is_some() {
            updates.push(present_sub_calls(program, &sub_calls, card));
        }
        updates
    }

    /// A call of a program asks the user: from now on it is a card of its own.
    pub(super) fn asked_sub_call(
        &self,
        shown: &mut Shown,
        ctx: &PresentContext,
        call_id: &CallId,
    ) -> Vec<SessionUpdate> {
        let mut found = shown.calls.values_mut().filter_map(|call| call.sub_running.remove(call_id));
        let Some(mut call) = found.next() else { return Vec::new() };
        drop(found);
        let update = present_call(ctx, &call.view(call_id));
        call.asked = true;
        shown.calls.insert(call_id.clone(), call);
        vec![update]
    }
}
