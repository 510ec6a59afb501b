//! Requests of the client. Each handler forwards and returns: the dispatch loop never waits.

use super::checked::Checked;
use super::client::{ClientLink, ClientProfile};
use super::config_options::{self, config_options, mode_state};
use super::error::{auth_required, failed, from_store, invalid_params, unknown_session};
use super::prompt_content;
use super::server::{OpenSession, Server};
use agent::session::PromptEnd;
use agent_client_protocol::schema::ProtocolVersion;
use agent_client_protocol::v1::schema::{
    AgentAuthCapabilities, AgentCapabilities, AuthMethod, AuthMethodAgent, AuthMethodTerminal, AuthenticateRequest,
    AuthenticateResponse, CancelNotification, CloseSessionRequest, CloseSessionResponse, Implementation,
    InitializeRequest, InitializeResponse, LogoutCapabilities, LogoutRequest, LogoutResponse, NewSessionRequest,
    NewSessionResponse, PromptCapabilities, PromptRequest, PromptResponse,
    SessionAdditionalDirectoriesCapabilities, SessionCapabilities, SessionCloseCapabilities,
    SessionConfigOption, SessionConfigOptionValue, SessionId as WireSessionId, SetSessionConfigOptionRequest,
    SetSessionConfigOptionResponse, SetSessionModeRequest, SetSessionModeResponse, StopReason,
};
use agent_client_protocol::v1::{self, Responder};
use agent_client_protocol::{
    Agent, Client, Error, HandleDispatchFrom, JsonRpcResponse, on_receive_notification, on_receive_request,
};
use protocol::event::TurnEndReason;
use protocol::mode::Mode;
use protocol::model::ModelRef;
use services::model::ModelErrorKind;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;
use tokio_util::sync::CancellationToken;

/// Commands are sent this long after the answer of `session/new`: a client registers the session after it read that
/// answer, and drops what comes before. Source: `clients.md` §2, session life cycle.
const COMMANDS_DELAY: Duration = Duration::from_millis(30);

/// Id of the auth method that needs no terminal.
const AUTH_KEY: &str = "api-key";
/// Id of the auth method that runs `followspot login`.
const AUTH_LOGIN: &str = "login";

/// The agent's side of a connection.
pub fn agent(server: Arc<Server>) -> v1::Builder<Agent, impl HandleDispatchFrom<Client>> {
    let on = || server.clone();
    Agent
        .v1()
        .name("followspot")
        .on_receive_request(
            {
                let server = on();
                async move |Checked(request): Checked<InitializeRequest>, responder, connection: v1::ConnectionTo<Client>| {
                    let link = ClientLink::new(connection, server.outbox().clone());
                    server.connected(ClientProfile::new(&request), link);
                    responder.respond(initialized(&server, &request))
                }
            },
            on_receive_request!(),
        )
        .on_receive_request(
            {
                let server = on();
                async move |Checked(request): Checked<AuthenticateRequest>, responder, _| {
                    responder.respond_with_result(authenticate(&server, &request))
                }
            },
            on_receive_request!(),
        )
        .on_receive_request(
            {
                let server = on();
                async move |_: Checked<LogoutRequest>, responder, _| {
                    responder.respond_with_result(match server.parts().credentials.forget() {
                        Ok(()) => Ok(LogoutResponse::new()),
                        Err(error) => Err(failed(&format!("could not remove the stored keys: {error}"))),
                    })
                }
            },
            on_receive_request!(),
        )
        .on_receive_request(
            {
                let server = on();
                async move |Checked(request): Checked<NewSessionRequest>, responder, _| {
                    let server = server.clone();
                    tokio::spawn(async move { new_session(&server, request, responder).await });
                    Ok(())
                }
            },
            on_receive_request!(),
        )
        .on_receive_request(
            {
                let server = on();
                async move |Checked(request): Checked<PromptRequest>, responder, _| {
                    prompt(&server, request, responder);
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
                        open.session.cancel();
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
                    answer_in_order(&server, responder, set_mode(&server, &request));
                    Ok(())
                }
            },
            on_receive_request!(),
        )
        .on_receive_request(
            {
                let server = on();
                async move |Checked(request): Checked<SetSessionConfigOptionRequest>, responder, _| {
                    answer_in_order(&server, responder, set_config_option(&server, &request));
                    Ok(())
                }
            },
            on_receive_request!(),
        )
        .on_receive_request(
            {
                let server = on();
                async move |Checked(request): Checked<CloseSessionRequest>, responder, _| {
                    let Some(open) = server.forget(&request.session_id) else {
                        return responder.respond_with_error(unknown_session(&request.session_id.0));
                    };
                    let server = server.clone();
                    tokio::spawn(async move {
                        open.session.close().await;
                        answer_in_order(&server, responder, Ok(CloseSessionResponse::new()));
                    });
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

fn initialized(server: &Server, request: &InitializeRequest) -> InitializeResponse {
    // The only version this side speaks; a client that cannot will close the connection.
    InitializeResponse::new(ProtocolVersion::V1)
        .agent_info(Implementation::new("followspot", env!("CARGO_PKG_VERSION")).title("Followspot".to_owned()))
        .agent_capabilities(
            AgentCapabilities::new()
                .prompt_capabilities(
                    PromptCapabilities::new()
                        .image(server.default_model_takes_images())
                        .embedded_context(true),
                )
                .session_capabilities(
                    SessionCapabilities::new()
                        .close(SessionCloseCapabilities::new())
                        .additional_directories(SessionAdditionalDirectoriesCapabilities::new()),
                )
                .auth(AgentAuthCapabilities::new().logout(LogoutCapabilities::new())),
        )
        .auth_methods(auth_methods(request.client_capabilities.auth.terminal))
}

fn auth_methods(terminal: bool) -> Vec<AuthMethod> {
    let mut methods = vec![AuthMethod::Agent(
        AuthMethodAgent::new(AUTH_KEY, "API key").description(
            "Set the provider's key in the environment (for instance DEEPSEEK_API_KEY), or run `followspot login` in a \
             terminal; then try again"
                .to_owned(),
        ),
    )];
    if terminal {
        methods.push(AuthMethod::Terminal(
            AuthMethodTerminal::new(AUTH_LOGIN, "Log in")
                .description("Store the key of a model provider".to_owned())
                .args(vec!["login".to_owned()]),
        ));
    }
    methods
}

/// Keys are read afresh: a login in another terminal counts at once.
fn authenticate(server: &Server, request: &AuthenticateRequest) -> Result<AuthenticateResponse, Error> {
    match request.method_id.0.as_ref() {
        AUTH_KEY | AUTH_LOGIN => {}
        other => return Err(invalid_params("methodId", &format!("there is no auth method `{other}`"))),
    }
    let models = &server.parts().models;
    match models.check(&models.default_model()) {
        Ok(()) => Ok(AuthenticateResponse::new()),
        Err(error) => Err(auth_required(&error.message)),
    }
}

async fn new_session(server: &Arc<Server>, request: NewSessionRequest, responder: Responder<NewSessionResponse>) {
    let opened = match folders(&request) {
        Ok((cwd, further)) => server.new_session(cwd, further).await.map_err(|error| from_store(&error)),
        Err(error) => Err(error),
    };
    let open = match opened {
        Ok(open) => open,
        Err(error) => {
            let _ = responder.respond_with_error(error);
            return;
        }
    };
    let mode = open.session.state().mode();
    let response = NewSessionResponse::new(WireSessionId::new(open.session.scope().session_id.as_str()))
        .modes(mode_state(mode))
        .config_options(options_of(server, &open));
    answer_in_order(server, responder, Ok(response));
    tokio::time::sleep(COMMANDS_DELAY).await;
    let outbox = server.outbox();
    outbox.update(&open.view, server.commands(&open));
    if !open.told.is_empty() {
        open.tell(&format!("{}\n", open.told.join("\n")));
    }
    if !request.mcp_servers.is_empty() {
        let names: Vec<String> = request.mcp_servers.iter().map(super::server::mcp_server_name).collect();
        open.tell(&format!(
            "MCP servers are not connected by this version; their tools are missing: {}.\n",
            names.join(", ")
        ));
    }
}

/// The folders of a session, each absolute and existing.
fn folders(request: &NewSessionRequest) -> Result<(PathBuf, Vec<PathBuf>), Error> {
    folder("cwd", &request.cwd)?;
    for (idx, path) in request.additional_directories.iter().enumerate() {
        folder(&format!("additionalDirectories[{idx}]"), path)?;
    }
    Ok((request.cwd.clone(), request.additional_directories.clone()))
}

fn folder(field: &str, path: &Path) -> Result<(), Error> {
    if !path.is_absolute() {
        return Err(invalid_params(field, &format!("`{}` is not an absolute path", path.display())));
    }
    if !path.is_dir() {
        return Err(invalid_params(
            field,
            &format!("`{}` is not a folder on the machine this agent runs on", path.display()),
        ));
    }
    Ok(())
}

fn prompt(server: &Arc<Server>, request: PromptRequest, responder: Responder<PromptResponse>) {
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
    let content = match prompt_content::from_acp(request.prompt, takes_images, &model.to_string(), attachments) {
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
        PromptEnd::LogFailed(reason) => return Err(failed(&format!("the session could not be stored: {reason}"))),
        PromptEnd::Closed => return Err(failed("the session was closed")),
    };
    Ok(PromptResponse::new(stop))
}

fn set_mode(server: &Server, request: &SetSessionModeRequest) -> Result<SetSessionModeResponse, Error> {
    let open = server.session(&request.session_id).ok_or_else(|| unknown_session(&request.session_id.0))?;
    let mode = mode_of("modeId", &request.mode_id.0)?;
    open.session.set_mode(mode).map_err(|error| from_store(&error))?;
    Ok(SetSessionModeResponse::new())
}

fn mode_of(field: &str, id: &str) -> Result<Mode, Error> {
    Mode::from_id(id).ok_or_else(|| {
        let known: Vec<&str> = Mode::ALL.iter().map(|mode| mode.id()).collect();
        invalid_params(field, &format!("there is no mode `{id}`; use one of {}", known.join(", ")))
    })
}

fn set_config_option(
    server: &Server,
    request: &SetSessionConfigOptionRequest,
) -> Result<SetSessionConfigOptionResponse, Error> {
    let open = server.session(&request.session_id).ok_or_else(|| unknown_session(&request.session_id.0))?;
    let SessionConfigOptionValue::ValueId { value } = &request.value else {
        return Err(invalid_params("value", "this option takes the id of one of its values"));
    };
    let value = value.0.as_ref();
    let models = &server.parts().models;
    let (model, _) = open.session.model();
    let changed = match request.config_id.0.as_ref() {
        config_options::MODE => open.session.set_mode(mode_of("value", value)?),
        config_options::MODEL => {
            let model = ModelRef::parse(value)
                .ok_or_else(|| invalid_params("value", &format!("`{value}` is not written provider/model")))?;
            // -32000 only for a provider that was chosen and has no key.
            models.check(&model).map_err(|error| match error.kind {
                ModelErrorKind::Auth => auth_required(&error.message),
                _ => invalid_params("value", &error.message),
            })?;
            let effort = models.info(&model).default_effort;
            open.session.set_model(model, effort)
        }
        config_options::EFFORT => {
            let efforts = models.info(&model).efforts;
            if !efforts.iter().any(|effort| effort == value) {
                return Err(invalid_params(
                    "value",
                    &format!("{model} has no effort `{value}`; use one of {}", efforts.join(", ")),
                ));
            }
            open.session.set_model(model, Some(value.to_owned()))
        }
        other => return Err(invalid_params("configId", &format!("there is no option `{other}`"))),
    };
    changed.map_err(|error| from_store(&error))?;
    Ok(SetSessionConfigOptionResponse::new(options_of(server, &open)))
}

fn options_of(server: &Server, open: &OpenSession) -> Vec<SessionConfigOption> {
    let (model, effort) = open.session.model();
    config_options(&*server.parts().models, open.session.state().mode(), &model, effort.as_deref())
}
