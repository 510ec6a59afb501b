//! Permission questions answered by the editor's user, as `session/request_permission`.
//!
//! Compose gives it to a session as its approval service. It presents and translates only: what an answer means is
//! decided by the presenters, and whatever is no clear yes is a no.

use super::client::ClientLink;
use agent_client_protocol::UntypedMessage;
use agent_client_protocol::v1::schema::RequestPermissionResponse;
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

/// Sends a permission question with every field spelled out and reads the answer.
///
/// # Errors
/// The client's own error, an answer that is none, or that the connection is gone.
///
/// # Cancellation
/// Dropping the future withdraws the question.
pub(super) async fn ask_permission(
    link: &ClientLink,
    question: &agent_client_protocol::v1::schema::RequestPermissionRequest,
) -> Result<RequestPermissionResponse, agent_client_protocol::Error> {
    let params = wire::permission_params(question)?;
    let answer = link.request(UntypedMessage { method: METHOD.to_owned(), params }).await?;
    Ok(serde_json::from_value(answer)?)
}
