//! The child of a call, in the call's card: how far it is, and how it ended.

use crate::PresentContext;
use crate::call::{CallView, content, update};
use crate::card::text_item;
use agent_client_protocol::v1::schema::{SessionUpdate, ToolCallUpdateFields};

/// How far the child is, below what it was asked to do. `text` is Markdown.
pub fn child_progress(ctx: &PresentContext, call: &CallView<'_>, text: &str) -> SessionUpdate {
    let mut shown = content(ctx, call);
    shown.push(text_item(text.to_owned()));
    update(call.call_id, ToolCallUpdateFields::new().content(shown), None)
}

/// How a child that worked beside its parent has ended. `status` is a word, `said` its last words, Markdown.
pub fn child_settled(ctx: &PresentContext, call: &CallView<'_>, status: &str, said: &str) -> SessionUpdate {
    let mut shown = content(ctx, call);
    if !said.is_empty() {
        shown.push(text_item(said.to_owned()));
    }
    shown.push(text_item(format!("The agent {status}.")));
    update(call.call_id, ToolCallUpdateFields::new().content(shown), None)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fixtures::json_of;
    use protocol::card::{CallCard, GenericCall};
    use protocol::content::ContentBlock;
    use protocol::id::CallId;
    use serde_json::{Value, json};

    #[test]
    fn a_child_is_shown_below_its_task_and_changes_no_status() {
        let card = CallCard::Generic(GenericCall {
            title: "Delegate: Look".to_owned(),
            content: vec![ContentBlock::text("Find it.")],
            ..GenericCall::default()
        });
        let (call_id, arguments) = (CallId::new("c"), json!({}));
        let call = CallView { call_id: &call_id, name: "subagent", arguments: &arguments, card: &card };
        let ctx = PresentContext::default();
        let texts = |update: SessionUpdate| -> Vec<Value> {
            let update = json_of(update);
            assert!(update.get("status").is_none(), "{update}");
            update["content"].as_array().unwrap().iter().map(|item| item["content"]["text"].clone()).collect()
        };
        assert_eq!(texts(child_progress(&ctx, &call, "Step 1")), [json!("Find it."), json!("Step 1")]);
        assert_eq!(
            texts(child_settled(&ctx, &call, "finished", "Found.")),
            [json!("Find it."), json!("Found."), json!("The agent finished.")]
        );
    }
}
