//! `session/prompt`: queued in the dispatch loop, answered at its end.

use super::answer_in_order;
use crate::acp::error::{auth_required, failed, invalid_params, unknown_session};
use crate::acp::prompt_content;
use crate::acp::server::Server;
use agent::session::PromptEnd;
use agent_client_protocol::Error;
use agent_client_protocol::v1::Responder;
use agent_client_protocol::v1::schema::{PromptRequest, PromptResponse, StopReason};
use protocol::event::TurnEndReason;
use services::model::ModelErrorKind;
use std::sync::Arc;
use tokio_util::sync::CancellationToken;

pub(super) fn prompt(server: &Arc<Server>, request: PromptRequest, responder: Responder<PromptResponse>) {
    let Some(open) = server.session(&request.session_id) else {
        answer_in_order(server, responder, Err(unknown_session(&request.session_id.0)));
        return;
    };
    if let Err(error) = open.session.check_model() {
        answer_in_order(server, responder, Err(auth_required(&error.message)));
        return;
    }
    let (model, _) = open.session.model();
    let takes_images = server.parts().models.info(&model).takes_images == Some(true);
    let attachments = server.parts().attachments.clone();
    let content =
        match prompt_content::from_acp(request.prompt, takes_images, &model.to_string(), attachments) {
            Ok(content) => content,
            Err(error) => {
                answer_in_order(server, responder, Err(error));
                return;
            }
        };
    let withdrawn = CancellationToken::new();
    // Queued here, in the dispatch loop, so that prompts are taken in the order in which they came.
    let end = open.session.prompt(content, withdrawn.clone());
    let server = server.clone();
    tokio::spawn(async move {
        let cancellation = responder.cancellation();
        let mut end = std::pin::pin!(end);
        let end = tokio::select! {
            end = &mut end => end,
            () = cancellation.cancelled() => {
                withdrawn.cancel();
                end.await
            }
        };
        // A skill may have been added meanwhile.
        open.tell_commands().await;
        answer_in_order(&server, responder, prompt_answer(end));
    });
}

fn prompt_answer(end: PromptEnd) -> Result<PromptResponse, Error> {
    let stop = match end {
        PromptEnd::Turn(reason) => match reason {
            TurnEndReason::Completed => StopReason::EndTurn,
            TurnEndReason::Aborted { .. } | TurnEndReason::Interrupted => StopReason::Cancelled,
            TurnEndReason::Blocked | TurnEndReason::Refused => StopReason::Refusal,
            TurnEndReason::MaxTokens => StopReason::MaxTokens,
            TurnEndReason::MaxTurnRequests => StopReason::MaxTurnRequests,
            TurnEndReason::Error { message, code } if code == ModelErrorKind::Auth.code() => {
                return Err(auth_required(&message));
            }
            TurnEndReason::Error { message, .. } => return Err(failed(&message)),
        },
        PromptEnd::Command => StopReason::EndTurn,
        PromptEnd::CancelledInQueue => StopReason::Cancelled,
        PromptEnd::Refused(reason) => return Err(invalid_params("prompt", &reason)),
        PromptEnd::QueueFull => {
            return Err(failed("too many prompts wait in this session; wait for one to end, or cancel"));
        }
        PromptEnd::LogFailed(reason) => {
            return Err(failed(&format!("the session could not be stored: {reason}")));
        }
        PromptEnd::Closed => return Err(failed("the session was closed")),
    };
    Ok(PromptResponse::new(stop))
}
