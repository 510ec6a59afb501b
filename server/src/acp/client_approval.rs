//! Permission questions answered by the editor's user, as `session/request_permission`.
//!
//! Compose gives it to a session as its approval service. It presents and translates only: what an answer means is
//! decided by the presenters, and whatever is no clear yes is a no.

use super::client::ClientLink;
use agent_client_protocol::v1::schema::{RequestPermissionRequest, RequestPermissionResponse};
use agent_client_protocol::{Error, UntypedMessage};
use async_trait::async_trait;
use presenters::permission::{permission_outcome, present_permission};
use presenters::{CallView, PresentContext, wire};
use protocol::card::CallCard;
use protocol::decision::{PermissionOutcome, PermissionRequest};
use serde_json::Value;
use services::approval::Approval;
use std::sync::Arc;

/// Makes the card of a call from the name of its tool and its arguments.
pub type CardOf = Arc<dyn Fn(&str, &Value) -> CallCard + Send + Sync>;

/// Method of the question; sent untyped, because the typed message leaves out fields that some clients must find.
const METHOD: &str = "session/request_permission";

/// Asks the editor's user.
pub struct ClientApproval {
    link: ClientLink,
    context: PresentContext,
    card_of: CardOf,
}

impl ClientApproval {
    /// Asks over this link; questions look as `context` says and show the card that `card_of` makes.
    pub fn new(link: ClientLink, context: PresentContext, card_of: CardOf) -> Self {
        Self { link, context, card_of }
    }
}

#[async_trait]
impl Approval for ClientApproval {
    /// Waits without a budget: a person answers. A client that cannot ask is a fault of the question, never a choice.
    async fn ask(&self, request: PermissionRequest) -> PermissionOutcome {
        let card = (self.card_of)(&request.tool_name, &request.arguments);
        let call = CallView {
            call_id: &request.call_id,
            name: &request.tool_name,
            arguments: &request.arguments,
            card: &card,
        };
        let question = present_permission(&self.context, &request, &call);
        match ask_permission(&self.link, &question).await {
            Ok(response) => permission_outcome(&request, &response.outcome),
            Err(error) => {
                tracing::warn!(tool = request.tool_name, %error, "the client could not ask for permission");
                PermissionOutcome::Unavailable
            }
        }
    }
}

/// Nobody to ask: the session has no client.
pub struct NoApproval;

#[async_trait]
impl Approval for NoApproval {
    async fn ask(&self, _request: PermissionRequest) -> PermissionOutcome {
        PermissionOutcome::Unavailable
    }
}

/// Sends a permission question with every field spelled out and reads the answer.
///
/// # Errors
/// The client's own error, an answer that is none, or that the connection is gone.
///
/// # Cancellation
/// Dropping the future withdraws the question.
pub(super) async fn ask_permission(
    link: &ClientLink,
    question: &RequestPermissionRequest,
) -> Result<RequestPermissionResponse, Error> {
    let params = wire::permission_params(question)?;
    let answer = link.request(UntypedMessage { method: METHOD.to_owned(), params }).await?;
    Ok(serde_json::from_value(answer)?)
}

#[cfg(test)]
mod tests {
    use super::super::client_testing::ScriptedClient;
    use super::*;
    use presenters::fallback_card;
    use protocol::card::FileDiff;
    use protocol::decision::{PermissionRule, Preview};
    use protocol::id::{CallId, SessionId};
    use serde_json::json;
    use std::future::pending;

    fn question() -> PermissionRequest {
        PermissionRequest {
            session_id: SessionId::new("s"),
            call_id: CallId::new("c"),
            tool_name: "write".to_owned(),
            arguments: json!({ "file_path": "a.rs", "content": "a" }),
            reason: Some("The mode asks first.".to_owned()),
            preview: Preview {
                diffs: vec![FileDiff {
                    path: "/w/a.rs".to_owned(),
                    old_text: None,
                    new_text: "a".to_owned(),
                }],
            },
            rule: Some(PermissionRule {
                tool: "write".to_owned(),
                subjects: vec!["/w".to_owned()],
                label: "write in /w".to_owned(),
            }),
        }
    }

    fn approval(client: &ScriptedClient) -> ClientApproval {
        ClientApproval::new(client.link.clone(), PresentContext::default(), Arc::new(fallback_card))
    }

    #[tokio::test]
    async fn only_an_offered_allowance_is_a_yes() {
        let selected = |id: &str| Ok(json!({ "outcome": { "outcome": "selected", "optionId": id } }));
        let cases = [
            (selected("allow-once"), PermissionOutcome::AllowedOnce),
            (selected("allow-always"), PermissionOutcome::AllowedAlways),
            (selected("reject-once"), PermissionOutcome::Rejected),
            (selected("yes"), PermissionOutcome::Rejected),
            (Ok(json!({ "outcome": { "outcome": "cancelled" } })), PermissionOutcome::Cancelled),
            (Ok(json!({ "outcome": "allow" })), PermissionOutcome::Unavailable),
            (Ok(Value::Null), PermissionOutcome::Unavailable),
            (Err(Error::invalid_params()), PermissionOutcome::Unavailable),
            (Err(Error::internal_error()), PermissionOutcome::Unavailable),
        ];
        for (answer, expected) in cases {
            let given = answer.clone();
            let client = ScriptedClient::answering(move |_, _| given.clone()).await;
            assert_eq!(approval(&client).ask(question()).await, expected, "{answer:?}");
        }
        assert_eq!(NoApproval.ask(question()).await, PermissionOutcome::Unavailable);
    }

    #[tokio::test]
    async fn a_question_spells_out_that_a_file_is_new() {
        let client = ScriptedClient::answering(|_, _| Err(Error::internal_error())).await;
        approval(&client).ask(question()).await;
        let (method, params) = client.asked().remove(0);
        assert_eq!((method.as_str(), &params["sessionId"]), (METHOD, &json!("s")));
        let content = params["toolCall"]["content"].as_array().unwrap().clone();
        let diff = content.into_iter().find(|item| item["type"] == "diff").unwrap();
        assert_eq!(diff.get("oldText"), Some(&Value::Null));
    }

    #[tokio::test]
    async fn dropping_the_wait_withdraws_the_question() {
        let client = ScriptedClient::connect(Arc::new(|_, _| Box::pin(pending()))).await;
        let approval = approval(&client);
        tokio::select! {
            outcome = approval.ask(question()) => panic!("answered {outcome:?}"),
            () = client.was_asked(METHOD) => {}
        }
        client.was_withdrawn(METHOD).await;
    }
}
