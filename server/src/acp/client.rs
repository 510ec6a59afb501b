//! The client at the other end: what it can do, and how requests reach it.

use super::outbox::Outbox;
use super::quirks;
use agent_client_protocol::v1::ConnectionTo;
use agent_client_protocol::v1::schema::InitializeRequest;
use agent_client_protocol::{Client, Error, ErrorCode, JsonRpcRequest};
use presenters::{Quirks, TerminalStyle};

/// What a client can do. Taken once, from `initialize`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ClientProfile {
    /// Name it gave, for instance `zed`; empty when it gave none.
    pub name: String,
    /// Version it gave.
    pub version: String,
    /// Whether files are read and written through it: only when it offers both directions.
    pub files: bool,
    /// Whether it runs terminals.
    pub terminals: bool,
    /// Whether it shows terminals that we run (`_meta.terminal_output`).
    pub display_terminals: bool,
    /// Whether it shows forms.
    pub forms: bool,
    /// Whether it can run a login command in a terminal.
    pub terminal_auth: bool,
    /// How it differs from what the protocol says.
    pub quirks: Quirks,
    /// How it wants a command line in `terminal/create`.
    pub command_form: quirks::CommandForm,
}

impl ClientProfile {
    /// The profile of a client that said this.
    pub fn new(request: &InitializeRequest) -> Self {
        let capabilities = &request.client_capabilities;
        let (name, version) = match &request.client_info {
            Some(info) => (info.name.clone(), info.version.clone()),
            None => (String::new(), String::new()),
        };
        let meta_flag = |key: &str| {
            capabilities.meta.as_ref().and_then(|meta| meta.get(key)).is_some_and(|value| value == true)
        };
        let (quirks, command_form) = quirks::of(&name, &version);
        Self {
            name,
            version,
            files: capabilities.fs.read_text_file && capabilities.fs.write_text_file,
            terminals: capabilities.terminal,
            display_terminals: meta_flag("terminal_output"),
            forms: capabilities.elicitation.as_ref().is_some_and(|elicitation| elicitation.form.is_some()),
            terminal_auth: capabilities.auth.terminal,
            quirks,
            command_form,
        }
    }

    /// How commands are shown to it, given whether ours may run in its terminals.
    pub fn terminal_style(&self, client_terminals_allowed: bool) -> TerminalStyle {
        match (self.terminals && client_terminals_allowed, self.display_terminals) {
            (true, _) => TerminalStyle::Client,
            (false, true) => TerminalStyle::Display,
            (false, false) => TerminalStyle::Text,
        }
    }
}

/// Whether an error says that the request is none of the client's business (a path outside its folders, a method it does
/// not know), so that doing it ourselves goes round nobody. Any other error is a refusal, and a refusal counts.
pub fn is_not_owned(error: &Error) -> bool {
    const RESOURCE_NOT_FOUND: i32 = -32002;
    let details = error.data.as_ref().map(ToString::to_string).unwrap_or_default();
    let says_outside = [&error.message, &details].iter().any(|text| text.to_lowercase().contains("outside"));
    error.code == ErrorCode::METHOD_NOT_FOUND
        || error.code == ErrorCode::from(RESOURCE_NOT_FOUND)
        || says_outside
}

/// An error in the client's own words.
pub fn words(error: &Error) -> String {
    match error.data.as_ref().and_then(|data| data.get("details")).and_then(|details| details.as_str()) {
        Some(details) if details != error.message => format!("{}: {details}", error.message),
        _ => error.message.clone(),
    }
}

/// Sends requests to the client, each after everything that was queued before it.
#[derive(Clone)]
pub struct ClientLink {
    connection: ConnectionTo<Client>,
    outbox: Outbox,
}

impl ClientLink {
    /// A link over this connection.
    pub fn new(connection: ConnectionTo<Client>, outbox: Outbox) -> Self {
        Self { connection, outbox }
    }

    /// Sends a request and waits for the answer, however long it takes.
    ///
    /// # Errors
    /// The client's own error, or that the connection is gone.
    ///
    /// # Cancellation
    /// Dropping the future sends `$/cancel_request` and forgets the answer.
    pub async fn request<R: JsonRpcRequest>(&self, request: R) -> Result<R::Response, Error> {
        self.outbox.flushed().await;
        self.connection.send_request(request).block_task().await
    }
}
