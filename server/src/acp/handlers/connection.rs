//! What a connection begins with: `initialize`, and who may use the models.

use crate::acp::error::{auth_required, failed, invalid_params};
use crate::acp::server::Server;
use agent_client_protocol::Error;
use agent_client_protocol::schema::ProtocolVersion;
use agent_client_protocol::v1::schema::{
    AgentAuthCapabilities, AgentCapabilities, AuthMethod, AuthMethodAgent, AuthMethodTerminal,
    AuthenticateRequest, AuthenticateResponse, Implementation, InitializeRequest, InitializeResponse,
    LogoutCapabilities, LogoutResponse, McpCapabilities, PromptCapabilities,
    SessionAdditionalDirectoriesCapabilities, SessionCapabilities, SessionCloseCapabilities,
    SessionDeleteCapabilities, SessionForkCapabilities, SessionListCapabilities, SessionResumeCapabilities,
    SessionStatusCapabilities, SessionTitleCapabilities,
};

/// Id of the auth method that needs no terminal.
const AUTH_KEY: &str = "api-key";
/// Id of the auth method that runs `followspot login`.
const AUTH_LOGIN: &str = "login";

pub(super) fn initialized(server: &Server, request: &InitializeRequest) -> InitializeResponse {
    // The only version this side speaks; a client that cannot will close the connection.
    InitializeResponse::new(ProtocolVersion::V1)
        .agent_info(
            Implementation::new("followspot", env!("CARGO_PKG_VERSION")).title("Followspot".to_owned()),
        )
        .agent_capabilities(
            AgentCapabilities::new()
                .load_session(true)
                .mcp_capabilities(McpCapabilities::new().http(true))
                .prompt_capabilities(
                    PromptCapabilities::new()
                        .image(server.default_model_takes_images())
                        .embedded_context(true),
                )
                .session_capabilities(
                    SessionCapabilities::new()
                        .list(SessionListCapabilities::new())
                        .resume(SessionResumeCapabilities::new())
                        .close(SessionCloseCapabilities::new())
                        .delete(SessionDeleteCapabilities::new())
                        .fork(SessionForkCapabilities::new())
                        .title(SessionTitleCapabilities::new())
                        .status(SessionStatusCapabilities::new())
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
pub(super) fn authenticate(
    server: &Server,
    request: &AuthenticateRequest,
) -> Result<AuthenticateResponse, Error> {
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

/// Removes every stored key.
pub(super) fn logout(server: &Server) -> Result<LogoutResponse, Error> {
    match server.parts().credentials.forget() {
        Ok(()) => Ok(LogoutResponse::new()),
        Err(error) => Err(failed(&format!("could not remove the stored keys: {error}"))),
    }
}
