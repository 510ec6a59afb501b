//! The connection: what this client offers, requests of the agent to where they are served, our requests to it.
//!
//! Used by the entry of `try`. Handlers run in the connection's dispatch loop and must not wait: they hand over and
//! return.

use super::terminals::Terminals;
use super::{Event, fs};
use agent_client_protocol::schema::ProtocolVersion;
use agent_client_protocol::v1::schema::{
    CancelNotification, ClientCapabilities, ClientSessionCapabilities, CompactionCapabilities,
    CreateElicitationRequest, CreateTerminalRequest, CreateTerminalResponse, ElicitationCapabilities,
    ElicitationFormCapabilities, FileSystemCapabilities, Implementation, InitializeRequest,
    InitializeResponse, KillTerminalRequest, KillTerminalResponse, NewSessionRequest, NewSessionResponse,
    NoticeCapabilities, PromptRequest, ReadTextFileRequest, ReadTextFileResponse, ReleaseTerminalRequest,
    ReleaseTerminalResponse, RequestPermissionRequest, SessionConfigOption, SessionConfigOptionCategory,
    SessionConfigOptionValue, SessionId, SessionNotification, SetSessionConfigOptionRequest,
    SetSessionModeRequest, TerminalOutputRequest, WaitForTerminalExitRequest, WaitForTerminalExitResponse,
    WriteTextFileRequest, WriteTextFileResponse,
};
use agent_client_protocol::v1::{ConnectionTo, Responder};
use agent_client_protocol::{Agent, Client, ConnectTo, Error, JsonRpcRequest, on_receive_notification};
use agent_client_protocol::{JsonRpcResponse, on_receive_request};
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::mpsc;

/// Time for an answer that needs no model.
const BUDGET: Duration = Duration::from_secs(30);

/// What this client offers the agent.
#[derive(Clone, Copy, Debug)]
pub struct Offer {
    /// Reading and writing files.
    pub files: bool,
    /// Running terminals.
    pub terminals: bool,
    /// Showing forms.
    pub forms: bool,
}

/// Runs a connection until `talk` is done. Events for the conversation go to `events`.
///
/// # Errors
/// The connection broke.
pub async fn connect<R>(
    transport: impl ConnectTo<Client> + 'static,
    terminals: Arc<Terminals>,
    events: mpsc::UnboundedSender<Event>,
    talk: impl AsyncFnOnce(ConnectionTo<Agent>) -> R,
) -> Result<R, Error> {
    let (updates, permissions, forms) = (events.clone(), events.clone(), events);
    let [create, output, wait, kill, release] = std::array::from_fn(|_| terminals.clone());
    Client
        .v1()
        .name("followspot-try")
        .on_receive_notification(
            async move |update: SessionNotification, _| {
                // The conversation is over when nobody receives; so in the next two.
                let _ = updates.send(Event::Update(Box::new(update)));
                Ok(())
            },
            on_receive_notification!(),
        )
        .on_receive_request(
            async move |request: RequestPermissionRequest, responder, _| {
                let _ = permissions.send(Event::Permission(Box::new(request), responder));
                Ok(())
            },
            on_receive_request!(),
        )
        .on_receive_request(
            async move |request: CreateElicitationRequest, responder, _| {
                let _ = forms.send(Event::Form(Box::new(request), responder));
                Ok(())
            },
            on_receive_request!(),
        )
        .on_receive_request(
            async move |request: ReadTextFileRequest, responder, _| {
                blocking(responder, move || {
                    fs::read(&request.path, request.line, request.limit).map(ReadTextFileResponse::new)
                });
                Ok(())
            },
            on_receive_request!(),
        )
        .on_receive_request(
            async move |request: WriteTextFileRequest, responder, _| {
                blocking(responder, move || {
                    fs::write(&request.path, &request.content).map(|()| WriteTextFileResponse::new())
                });
                Ok(())
            },
            on_receive_request!(),
        )
        .on_receive_request(
            async move |request: CreateTerminalRequest, responder, _| {
                responder.respond_with_result(create.create(&request).map(CreateTerminalResponse::new))
            },
            on_receive_request!(),
        )
        .on_receive_request(
            async move |request: TerminalOutputRequest, responder, _| {
                responder.respond_with_result(output.output(&request.terminal_id))
            },
            on_receive_request!(),
        )
        .on_receive_request(
            async move |request: WaitForTerminalExitRequest, responder, _| {
                let terminals = wait.clone();
                tokio::spawn(async move {
                    let cancellation = responder.cancellation();
                    let waited = cancellation.run_until_cancelled(terminals.wait(&request.terminal_id)).await;
                    respond(responder, waited.map(WaitForTerminalExitResponse::new));
                });
                Ok(())
            },
            on_receive_request!(),
        )
        .on_receive_request(
            async move |request: KillTerminalRequest, responder, _| {
                responder.respond_with_result(
                    kill.kill(&request.terminal_id).map(|()| KillTerminalResponse::new()),
                )
            },
            on_receive_request!(),
        )
        .on_receive_request(
            async move |request: ReleaseTerminalRequest, responder, _| {
                let released = release.release(&request.terminal_id);
                responder.respond_with_result(released.map(|()| ReleaseTerminalResponse::new()))
            },
            on_receive_request!(),
        )
        .connect_with(transport, async move |connection| Ok(talk(connection).await))
        .await
}

/// Answers a request from a thread that may block.
fn blocking<T: JsonRpcResponse + Send + 'static>(
    responder: Responder<T>,
    work: impl FnOnce() -> Result<T, Error> + Send + 'static,
) {
    tokio::task::spawn_blocking(move || respond(responder, work()));
}

/// Answers a request; the only failure is that the connection is gone, and then nobody waits for an answer.
pub fn respond<T: JsonRpcResponse>(responder: Responder<T>, result: Result<T, Error>) {
    if let Err(error) = responder.respond_with_result(result) {
        tracing::debug!(%error, "an answer was not sent");
    }
}

/// Introduces this client.
///
/// # Errors
/// The agent's, or that it took too long. So too below.
pub async fn initialize(connection: &ConnectionTo<Agent>, offer: Offer) -> Result<InitializeResponse, Error> {
    let files = FileSystemCapabilities::new().read_text_file(offer.files).write_text_file(offer.files);
    let session = ClientSessionCapabilities::new()
        .compaction(CompactionCapabilities::default())
        .notices(NoticeCapabilities::default());
    let form = ElicitationCapabilities::new().form(ElicitationFormCapabilities::new());
    let capabilities = ClientCapabilities::new()
        .fs(files)
        .terminal(offer.terminals)
        .session(session)
        .elicitation(offer.forms.then_some(form));
    let client =
        Implementation::new("followspot-try", env!("CARGO_PKG_VERSION")).title("Followspot in the terminal");
    let request =
        InitializeRequest::new(ProtocolVersion::V1).client_capabilities(capabilities).client_info(client);
    send(connection, request, "initialize").await
}

/// Begins a session in `cwd`.
///
/// # Errors
/// As [`initialize`].
pub async fn new_session(connection: &ConnectionTo<Agent>, cwd: &Path) -> Result<NewSessionResponse, Error> {
    send(connection, NewSessionRequest::new(cwd), "session/new").await
}

/// Selects a model or a mode by the option of that category. Returns all options as they are then.
///
/// # Errors
/// As [`initialize`]; -32602 when the session has no such option.
pub async fn select(
    connection: &ConnectionTo<Agent>,
    session_id: &SessionId,
    options: &[SessionConfigOption],
    category: &SessionConfigOptionCategory,
    value: &str,
) -> Result<Vec<SessionConfigOption>, Error> {
    let id = match category {
        SessionConfigOptionCategory::Mode => "mode",
        _ => "model",
    };
    let Some(option) = super::render::find_option(options, category, id) else {
        return Err(Error::invalid_params()
            .data(serde_json::json!({ "details": format!("there is no {id} to set") })));
    };
    let value = SessionConfigOptionValue::value_id(value.to_owned());
    let request = SetSessionConfigOptionRequest::new(session_id.clone(), option.id.clone(), value);
    Ok(send(connection, request, "session/set_config_option").await?.config_options)
}

/// Selects a mode of an agent that has modes and no option for them.
///
/// # Errors
/// As [`initialize`].
pub async fn set_mode(
    connection: &ConnectionTo<Agent>,
    session_id: &SessionId,
    mode: &str,
) -> Result<(), Error> {
    let request = SetSessionModeRequest::new(session_id.clone(), mode.to_owned());
    send(connection, request, "session/set_mode").await.map(|_| ())
}

/// Sends a prompt; its end comes as an event, behind all updates of the turn.
pub fn prompt(
    connection: &ConnectionTo<Agent>,
    session_id: &SessionId,
    words: &str,
    events: mpsc::UnboundedSender<Event>,
) {
    let request = connection.send_request(PromptRequest::new(session_id.clone(), vec![words.into()]));
    tokio::spawn(async move {
        let ended = request.block_task().await;
        // Nobody receives once the conversation is over.
        let _ = events.send(Event::TurnEnded(ended));
    });
}

/// Asks the agent to stop the turn.
pub fn cancel(connection: &ConnectionTo<Agent>, session_id: &SessionId) {
    if let Err(error) = connection.send_notification(CancelNotification::new(session_id.clone())) {
        tracing::debug!(%error, "the turn could not be cancelled: the connection is gone");
    }
}

async fn send<R: JsonRpcRequest>(
    connection: &ConnectionTo<Agent>,
    request: R,
    method: &str,
) -> Result<R::Response, Error> {
    match tokio::time::timeout(BUDGET, connection.send_request(request).block_task()).await {
        Ok(answered) => answered,
        Err(_) => Err(Error::internal_error()
            .data(serde_json::json!({ "details": format!("no answer to {method} within {BUDGET:?}") }))),
    }
}

/// An error in words for a person.
pub fn words(error: &Error) -> String {
    let data = error.data.as_ref();
    let details =
        data.and_then(|data| data.get("details").or_else(|| data.get("uri")).unwrap_or(data).as_str());
    match details {
        Some(details) if !error.message.contains(details) => format!("{}: {details}", error.message),
        _ => error.message.clone(),
    }
}
