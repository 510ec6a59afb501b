//! Requests of the client. Each handler forwards and returns: the dispatch loop never waits.
//!
//! * [`connection`]: `initialize` and authentication. * [`sessions`]: a session's life. * [`prompt`]: prompts.
//! * [`options`]: mode and config options.

mod connection;
mod options;
mod prompt;
mod sessions;

use super::checked::Checked;
use super::client::{ClientLink, ClientProfile};
use super::server::Server;
use agent_client_protocol::v1::schema::{
    AuthenticateRequest, CancelNotification, CloseSessionRequest, DeleteSessionRequest, ForkSessionRequest,
    InitializeRequest, ListSessionsRequest, LoadSessionRequest, LogoutRequest, NewSessionRequest,
    PromptRequest, ResumeSessionRequest, SessionStatusRequest, SetSessionConfigOptionRequest,
    SetSessionModeRequest, SetSessionTitleRequest,
};
use agent_client_protocol::v1::{self, Responder};
use agent_client_protocol::{
    Agent, Client, Error, HandleDispatchFrom, JsonRpcResponse, on_receive_notification, on_receive_request,
};
use std::sync::Arc;

/// The agent's side of a connection.
pub fn agent(server: Arc<Server>) -> v1::Builder<Agent, impl HandleDispatchFrom<Client>> {
    let on = || server.clone();
    Agent
        .v1()
        .name("followspot")
        .on_receive_request(
            {
                let server = on();
                async move |Checked(request): Checked<InitializeRequest>,
                            responder,
                            client: v1::ConnectionTo<Client>| {
                    let link = ClientLink::new(client, server.outbox().clone());
                    server.connected(ClientProfile::new(&request), link);
                    responder.respond(connection::initialized(&server, &request))
                }
            },
            on_receive_request!(),
        )
        .on_receive_request(
            {
                let server = on();
                async move |Checked(request): Checked<AuthenticateRequest>, responder, _| {
                    responder.respond_with_result(connection::authenticate(&server, &request))
                }
            },
            on_receive_request!(),
        )
        .on_receive_request(
            {
                let server = on();
                async move |_: Checked<LogoutRequest>, responder, _| {
                    responder.respond_with_result(connection::logout(&server))
                }
            },
            on_receive_request!(),
        )
        .on_receive_request(
            {
                let server = on();
                async move |Checked(request): Checked<NewSessionRequest>, responder, _| {
                    let server = server.clone();
                    tokio::spawn(async move { sessions::new(&server, request, responder).await });
                    Ok(())
                }
            },
            on_receive_request!(),
        )
        .on_receive_request(
            {
                let server = on();
                async move |Checked(request): Checked<PromptRequest>, responder, _| {
                    prompt::prompt(&server, request, responder);
                    Ok(())
                }
            },
            on_receive_request!(),
        )
        .on_receive_notification(
            {
                let server = on();
                async move |Checked(notification): Checked<CancelNotification>, _| {
                    if let Some(open) = server.session(&notification.session_id) {
                        open.cancel();
                    }
                    Ok(())
                }
            },
            on_receive_notification!(),
        )
        .on_receive_request(
            {
                let server = on();
                async move |Checked(request): Checked<SetSessionModeRequest>, responder, _| {
                    answer_in_order(&server, responder, options::set_mode(&server, &request));
                    Ok(())
                }
            },
            on_receive_request!(),
        )
        .on_receive_request(
            {
                let server = on();
                async move |Checked(request): Checked<SetSessionConfigOptionRequest>, responder, _| {
                    answer_in_order(&server, responder, options::set_config_option(&server, &request));
                    Ok(())
                }
            },
            on_receive_request!(),
        )
        .on_receive_request(
            {
                let server = on();
                async move |Checked(request): Checked<CloseSessionRequest>, responder, _| {
                    sessions::close(&server, request, responder);
                    Ok(())
                }
            },
            on_receive_request!(),
        )
        .on_receive_request(
            {
                let server = on();
                async move |Checked(request): Checked<LoadSessionRequest>, responder, _| {
                    sessions::load(&server, request, responder);
                    Ok(())
                }
            },
            on_receive_request!(),
        )
        .on_receive_request(
            {
                let server = on();
                async move |Checked(request): Checked<ResumeSessionRequest>, responder, _| {
                    sessions::resume(&server, request, responder);
                    Ok(())
                }
            },
            on_receive_request!(),
        )
        .on_receive_request(
            {
                let server = on();
                async move |Checked(request): Checked<ForkSessionRequest>, responder, _| {
                    sessions::fork(&server, request, responder);
                    Ok(())
                }
            },
            on_receive_request!(),
        )
        .on_receive_request(
            {
                let server = on();
                async move |Checked(request): Checked<ListSessionsRequest>, responder, _| {
                    sessions::list(&server, request, responder);
                    Ok(())
                }
            },
            on_receive_request!(),
        )
        .on_receive_request(
            {
                let server = on();
                async move |Checked(request): Checked<DeleteSessionRequest>, responder, _| {
                    sessions::delete(&server, request, responder);
                    Ok(())
                }
            },
            on_receive_request!(),
        )
        .on_receive_request(
            {
                let server = on();
                async move |Checked(request): Checked<SetSessionTitleRequest>, responder, _| {
                    sessions::set_title(&server, request, responder);
                    Ok(())
                }
            },
            on_receive_request!(),
        )
        .on_receive_request(
            {
                let server = on();
                async move |Checked(request): Checked<SessionStatusRequest>, responder, _| {
                    sessions::status(&server, request, responder);
                    Ok(())
                }
            },
            on_receive_request!(),
        )
}

/// Answers after everything that was queued before: an update that a request caused comes before its answer.
fn answer_in_order<T: JsonRpcResponse>(server: &Server, responder: Responder<T>, answer: Result<T, Error>) {
    server.outbox().run(move || {
        // An error means that the connection is gone, and with it whoever waits.
        let _ = responder.respond_with_result(answer);
    });
}
