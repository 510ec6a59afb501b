//! The editor at the other end: the official SDK's client over the agent's pipes.
//!
//! It serves files and terminals for real, answers permission questions from a script, and may have any of the bad
//! habits that real clients were seen to have. Every line is recorded, both ways.

use super::files::Buffers;
use super::terminals::Terminals;
use super::wire::{Side, Wire};
use agent_client_protocol::v1::schema::{
    CreateElicitationRequest, CreateTerminalRequest, CreateTerminalResponse, KillTerminalRequest,
    ReadTextFileRequest, ReadTextFileResponse, ReleaseTerminalRequest, RequestPermissionRequest,
    TerminalOutputRequest, WaitForTerminalExitRequest, WriteTextFileRequest, WriteTextFileResponse,
};
use agent_client_protocol::v1::{ConnectionTo, Responder};
use agent_client_protocol::{
    Agent, Client, Error, Lines, UntypedMessage, on_receive_notification, on_receive_request,
};
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::{Value, json};
use std::collections::{HashMap, VecDeque};
use std::future::pending;
use std::io;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use tokio::io::{AsyncBufReadExt, AsyncWriteExt, BufReader};
use tokio::process::{ChildStdin, ChildStdout};
use tokio::sync::{mpsc, oneshot, watch};

/// What a client says of itself in `initialize`.
#[derive(Clone, Debug)]
pub struct ClientKind {
    pub name: &'static str,
    pub reads: bool,
    pub writes: bool,
    pub terminals: bool,
    pub display_terminals: bool,
    pub forms: bool,
}

impl ClientKind {
    /// Offers files in both directions, terminals and forms.
    pub fn full() -> Self {
        let name = "test-editor";
        Self { name, reads: true, writes: true, terminals: true, display_terminals: false, forms: true }
    }

    /// Offers nothing.
    pub fn bare() -> Self {
        Self { reads: false, writes: false, terminals: false, forms: false, ..Self::full() }
    }

    pub fn initialize_params(&self) -> Value {
        let mut capabilities = json!({
            "fs": { "readTextFile": self.reads, "writeTextFile": self.writes },
            "terminal": self.terminals,
        });
        if self.display_terminals {
            capabilities["_meta"] = json!({ "terminal_output": true });
        }
        if self.forms {
            capabilities["elicitation"] = json!({ "form": {} });
        }
        json!({
            "protocolVersion": 1,
            "clientCapabilities": capabilities,
            "clientInfo": { "name": self.name, "version": "1.0.0" },
        })
    }
}

/// What the user answers to one question.
#[derive(Clone, Debug, PartialEq)]
pub enum Decision {
    /// Picks the option of this kind.
    Kind(&'static str),
    /// Answers with this id, offered or not.
    Id(&'static str),
    /// Picks the option with this name.
    Named(&'static str),
    /// Closes the question.
    Cancelled,
    /// The client fails to ask.
    Fails,
    /// Does not answer until the test does.
    Parked,
}

pub fn allow_once() -> Decision {
    Decision::Kind("allow_once")
}

pub fn allow_always() -> Decision {
    Decision::Kind("allow_always")
}

pub fn reject_once() -> Decision {
    Decision::Kind("reject_once")
}

/// How a method misbehaves.
#[derive(Clone, Debug, PartialEq)]
pub enum Fault {
    /// Never answers.
    Silent,
    /// Answers with this code.
    Fails(i32),
}

/// How this editor differs from the ideal one.
#[derive(Clone, Default)]
pub struct Habits {
    /// A missing file reads as empty text.
    pub missing_is_empty: bool,
    /// Buffers hold no carriage returns.
    pub strips_carriage_returns: bool,
    /// Applied to a text before it is saved.
    pub format_on_save: Option<fn(&str) -> String>,
    /// `fs/write_text_file` is answered with `null` instead of an object.
    pub null_answers: bool,
    /// Methods that misbehave.
    pub faults: HashMap<&'static str, Fault>,
}

enum Outgoing {
    Line(String),
    Close,
}

/// What the handlers share.
pub struct Desk {
    pub buffers: Buffers,
    pub terminals: Terminals,
    habits: Mutex<Habits>,
    decisions: Mutex<VecDeque<Decision>>,
    parked: Mutex<Vec<(Value, Responder<Value>)>>,
    /// Requests that are never answered; kept, because the SDK answers for a responder that is dropped.
    unanswered: Mutex<Vec<Responder<Value>>>,
    /// Questions nobody scripted an answer for; a test with any fails.
    unexpected: Mutex<Vec<String>>,
}

/// A connected editor.
pub struct Editor {
    pub wire: Arc<Wire>,
    pub desk: Arc<Desk>,
    connection: ConnectionTo<Agent>,
    outgoing: mpsc::UnboundedSender<Outgoing>,
    reading: watch::Sender<bool>,
}

impl Desk {
    pub fn new(buffers: Buffers, terminals: Terminals, habits: Habits, decisions: Vec<Decision>) -> Self {
        Self {
            buffers,
            terminals,
            habits: Mutex::new(habits),
            decisions: Mutex::new(decisions.into()),
            parked: Mutex::default(),
            unanswered: Mutex::default(),
            unexpected: Mutex::default(),
        }
    }

    pub fn decide(&self, decision: Decision) {
        lock(&self.decisions).push_back(decision);
    }

    pub fn n_parked(&self) -> usize {
        lock(&self.parked).len()
    }

    /// Answers every parked question.
    pub fn answer_parked(&self, decision: &Decision) {
        for (params, responder) in std::mem::take(&mut *lock(&self.parked)) {
            let _ = responder.respond_with_result(answer(&params, decision));
        }
    }

    /// Fills in and sends every parked form.
    pub fn answer_form(&self, content: Value) {
        for (_, responder) in std::mem::take(&mut *lock(&self.parked)) {
            let _ = responder.respond(json!({ "action": "accept", "content": content.clone() }));
        }
    }

    pub fn unexpected(&self) -> Vec<String> {
        lock(&self.unexpected).clone()
    }

    /// Decisions nobody asked for.
    pub fn unused_decisions(&self) -> Vec<Decision> {
        lock(&self.decisions).iter().cloned().collect()
    }
}

impl Editor {
    /// Connects over the pipes of a started agent.
    pub async fn connect(stdin: ChildStdin, stdout: ChildStdout, wire: Arc<Wire>, desk: Arc<Desk>) -> Self {
        let (outgoing, queue) = mpsc::unbounded_channel();
        tokio::spawn(write(stdin, queue));
        let (reading, may_read) = watch::channel(true);
        let sink = futures::sink::unfold(
            (outgoing.clone(), wire.clone()),
            |(queue, wire), line: String| async move {
                wire.record(Side::Editor, &line);
                queue.send(Outgoing::Line(line)).map_err(|_| io::Error::from(io::ErrorKind::BrokenPipe))?;
                Ok::<_, io::Error>((queue, wire))
            },
        );
        let incoming = futures::stream::unfold((BufReader::new(stdout), may_read, wire.clone()), read);
        let asked = desk.clone();
        let client = Client
            .v1()
            .on_receive_request(
                async move |message: UntypedMessage, responder: Responder<Value>, _cx| {
                    tokio::spawn(serve(asked.clone(), message, responder));
                    Ok(())
                },
                on_receive_request!(),
            )
            .on_receive_notification(
                async move |_message: UntypedMessage, _cx| Ok(()),
                on_receive_notification!(),
            );
        let (connected, connection) = oneshot::channel();
        tokio::spawn(client.connect_with(Lines::new(Box::pin(sink), Box::pin(incoming)), async move |cx| {
            let _ = connected.send(cx);
            pending::<Result<(), Error>>().await
        }));
        let connection = connection.await.expect("the client connects");
        Self { wire, desk, connection, outgoing, reading }
    }

    /// Sends a request.
    pub fn request(
        &self,
        method: &str,
        params: Value,
    ) -> impl Future<Output = Result<Value, Error>> + Send + 'static {
        let sent = self.connection.send_request(UntypedMessage { method: method.to_owned(), params });
        async move { sent.block_task().await }
    }

    /// Sends a notification.
    pub fn notify(&self, method: &str, params: Value) {
        let _ = self.connection.send_notification(UntypedMessage { method: method.to_owned(), params });
    }

    /// Sends a line as it is.
    pub fn send_line(&self, line: &str) {
        self.wire.record(Side::Editor, line);
        let _ = self.outgoing.send(Outgoing::Line(line.to_owned()));
    }

    /// Closes the agent's stdin.
    pub fn close(&self) {
        let _ = self.outgoing.send(Outgoing::Close);
    }

    /// Stops or goes on reading what the agent says.
    pub fn set_reading(&self, reads: bool) {
        self.reading.send_replace(reads);
    }
}

async fn write(stdin: ChildStdin, mut queue: mpsc::UnboundedReceiver<Outgoing>) {
    let mut stdin = stdin;
    while let Some(Outgoing::Line(line)) = queue.recv().await {
        let line = line + "\n";
        if stdin.write_all(line.as_bytes()).await.is_err() || stdin.flush().await.is_err() {
            return;
        }
    }
}

type Reading = (BufReader<ChildStdout>, watch::Receiver<bool>, Arc<Wire>);

async fn read((mut stdout, mut may_read, wire): Reading) -> Option<(io::Result<String>, Reading)> {
    let _ = may_read.wait_for(|reads| *reads).await;
    let mut line = Vec::new();
    match stdout.read_until(b'\n', &mut line).await {
        Ok(0) | Err(_) => return None,
        Ok(_) => {}
    }
    if line.last() == Some(&b'\n') {
        line.pop();
    }
    let line = String::from_utf8_lossy(&line).into_owned();
    wire.record(Side::Agent, &line);
    Some((Ok(line), (stdout, may_read, wire)))
}

/// Answers one request of the agent.
async fn serve(desk: Arc<Desk>, message: UntypedMessage, responder: Responder<Value>) {
    let habits = lock(&desk.habits).clone();
    match habits.faults.get(message.method.as_str()) {
        Some(Fault::Silent) => {
            lock(&desk.unanswered).push(responder);
            return;
        }
        Some(Fault::Fails(code)) => {
            let _ = responder.respond_with_error(Error::new(*code, "the editor could not"));
            return;
        }
        None => {}
    }
    let UntypedMessage { method, params } = message;
    let answer = match method.as_str() {
        "session/request_permission" => match parsed::<RequestPermissionRequest>(&params) {
            Ok(_) => match next_decision(&desk, &method, &params) {
                Decision::Parked => {
                    lock(&desk.parked).push((params, responder));
                    return;
                }
                decision => answer(&params, &decision),
            },
            Err(error) => Err(error),
        },
        "elicitation/create" => match parsed::<CreateElicitationRequest>(&params) {
            Ok(_) => match next_decision(&desk, &method, &params) {
                Decision::Parked => {
                    lock(&desk.parked).push((params, responder));
                    return;
                }
                Decision::Cancelled => Ok(json!({ "action": "cancel" })),
                _ => Ok(json!({ "action": "decline" })),
            },
            Err(error) => Err(error),
        },
        _ => work(&desk, &habits, &method, params).await,
    };
    let _ = responder.respond_with_result(answer);
}

/// Files and terminals.
async fn work(desk: &Desk, habits: &Habits, method: &str, params: Value) -> Result<Value, Error> {
    match method {
        "fs/read_text_file" => {
            let request: ReadTextFileRequest = parsed(&params)?;
            json_of(ReadTextFileResponse::new(desk.buffers.read(&request, habits)?))
        }
        "fs/write_text_file" => {
            let request: WriteTextFileRequest = parsed(&params)?;
            desk.buffers.write(&request, habits)?;
            if habits.null_answers { Ok(Value::Null) } else { json_of(WriteTextFileResponse::new()) }
        }
        "terminal/create" => {
            let request: CreateTerminalRequest = parsed(&params)?;
            json_of(CreateTerminalResponse::new(desk.terminals.create(&request)?))
        }
        "terminal/output" => {
            let request: TerminalOutputRequest = parsed(&params)?;
            json_of(desk.terminals.output(&request.terminal_id.0)?)
        }
        "terminal/wait_for_exit" => {
            let request: WaitForTerminalExitRequest = parsed(&params)?;
            json_of(desk.terminals.wait(&request.terminal_id.0).await?)
        }
        "terminal/kill" => {
            let request: KillTerminalRequest = parsed(&params)?;
            desk.terminals.kill(&request.terminal_id.0).map(|()| json!({}))
        }
        "terminal/release" => {
            let request: ReleaseTerminalRequest = parsed(&params)?;
            desk.terminals.release(&request.terminal_id.0).map(|()| json!({}))
        }
        _ => Err(Error::method_not_found()),
    }
}

fn next_decision(desk: &Desk, method: &str, params: &Value) -> Decision {
    lock(&desk.decisions).pop_front().unwrap_or_else(|| {
        lock(&desk.unexpected).push(format!("{method} {params}"));
        Decision::Cancelled
    })
}

/// The wire form of a decision about the question `params`.
fn answer(params: &Value, decision: &Decision) -> Result<Value, Error> {
    let by = |key: &str, wanted: &str| -> Result<Value, Error> {
        let options = params["options"].as_array().into_iter().flatten();
        let option = options.into_iter().find(|option| option[key] == wanted).ok_or_else(|| {
            Error::invalid_params().data(json!({ "details": format!("no option with {key} {wanted}") }))
        })?;
        Ok(option["optionId"].clone())
    };
    let id = match decision {
        Decision::Kind(kind) => by("kind", kind)?,
        Decision::Named(name) => by("name", name)?,
        Decision::Id(id) => json!(id),
        Decision::Fails => return Err(Error::internal_error().data(json!({ "details": "no window" }))),
        Decision::Cancelled | Decision::Parked => {
            return Ok(json!({ "outcome": { "outcome": "cancelled" } }));
        }
    };
    Ok(json!({ "outcome": { "outcome": "selected", "optionId": id } }))
}

fn parsed<T: DeserializeOwned>(params: &Value) -> Result<T, Error> {
    serde_json::from_value(params.clone())
        .map_err(|error| Error::invalid_params().data(json!({ "details": error.to_string() })))
}

fn json_of(answer: impl Serialize) -> Result<Value, Error> {
    Ok(serde_json::to_value(answer)?)
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
