//! An editor in this process: the official SDK's client over lines in memory, around the server as it is composed.

use super::super::client_testing::until;
use super::super::serve_over;
use super::super::transport::{AnyLines, WriteGauge};
use crate::compose::server_parts_in;
use crate::config::{Config, Paths, process_environment};
use agent_client_protocol::v1::ConnectionTo;
use agent_client_protocol::{Agent, Client, Error, Lines, UntypedMessage, on_receive_notification};
use serde_json::{Value, json};
use std::future::pending;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};
use tempfile::TempDir;
use tokio::sync::{mpsc, oneshot};
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;

/// A user's home and workspace; servers come and go in it.
pub struct Home {
    root: TempDir,
}

impl Home {
    /// A home whose model is the embedded one.
    pub fn new() -> Self {
        let root = tempfile::tempdir().unwrap();
        let home = Self { root };
        std::fs::create_dir(home.workspace()).unwrap();
        home.configure("danger-full-access");
        home
    }

    /// Sets the mode that sessions begin in.
    pub fn configure(&self, mode: &str) {
        let config = format!("[model]\ndefault = \"offline/offline\"\n[session]\nmode = \"{mode}\"\n");
        std::fs::write(self.paths().config_file(), config).unwrap();
    }

    pub fn workspace(&self) -> PathBuf {
        self.root.path().canonicalize().unwrap().join("workspace")
    }

    pub fn paths(&self) -> Paths {
        let root = self.root.path().canonicalize().unwrap();
        Paths::in_one(root.clone(), root).unwrap()
    }

    /// The whole text of a session's log.
    pub fn log(&self, session: &str) -> String {
        fn find(folder: &Path, session: &str) -> Option<PathBuf> {
            std::fs::read_dir(folder)
                .unwrap()
                .flatten()
                .map(|entry| entry.path())
                .filter(|path| path.is_dir())
                .find_map(|path| match path.file_name().unwrap() == session {
                    true => Some(path.join("session.jsonl")),
                    false => find(&path, session),
                })
        }
        std::fs::read_to_string(find(&self.paths().sessions(), session).expect("the session is stored"))
            .unwrap()
    }

    /// Starts a server and says `initialize` to it.
    pub async fn editor(&self) -> Editor {
        let paths = self.paths();
        let config = Config::load(&paths, None, &process_environment).unwrap().config;
        let parts = server_parts_in(paths, config).unwrap();
        let stop = CancellationToken::new();
        let gauge = Arc::<WriteGauge>::default();
        let (to_agent, from_editor) = mpsc::unbounded_channel();
        let (to_editor, from_agent) = mpsc::unbounded_channel();
        let wire = Arc::<Mutex<Vec<Value>>>::default();
        let (noted, counted) = (wire.clone(), gauge.clone());
        let theirs = lines(to_editor, from_editor, move |line| {
            noted.lock().unwrap().push(serde_json::from_str(line).unwrap());
            counted.count(line);
        });
        let ours = lines(to_agent, from_agent, |_| {});
        let served = tokio::spawn({
            let stop = stop.clone();
            async move { serve_over(parts, theirs, gauge, stop.cancelled()).await }
        });
        let (connected, connection) = oneshot::channel();
        let client = Client
            .v1()
            .on_receive_notification(async move |_: UntypedMessage, _cx| Ok(()), on_receive_notification!());
        tokio::spawn(client.connect_with(ours, async move |cx| {
            let _ = connected.send(cx);
            pending::<Result<(), Error>>().await
        }));
        let connection = connection.await.unwrap();
        let editor = Editor { connection, wire, stop, served, cwd: self.workspace() };
        let capabilities = json!({ "protocolVersion": 1, "clientCapabilities": {} });
        editor.request("initialize", capabilities).await.unwrap();
        editor
    }
}

/// Lines over two channels; `sent` sees each that goes out.
fn lines(
    out: mpsc::UnboundedSender<String>,
    mut incoming: mpsc::UnboundedReceiver<String>,
    sent: impl Fn(&str) + Send + Sync + Clone + 'static,
) -> AnyLines {
    let sink = futures::sink::unfold(out, move |out, line: String| {
        let sent = sent.clone();
        async move {
            sent(&line);
            out.send(line).map_err(|_| io::Error::from(io::ErrorKind::BrokenPipe))?;
            Ok::<_, io::Error>(out)
        }
    });
    let incoming = futures::stream::poll_fn(move |cx| incoming.poll_recv(cx).map(|line| line.map(Ok)));
    Lines::new(Box::pin(sink), Box::pin(incoming))
}

/// A connected editor.
pub struct Editor {
    connection: ConnectionTo<Agent>,
    wire: Arc<Mutex<Vec<Value>>>,
    stop: CancellationToken,
    served: JoinHandle<()>,
    cwd: PathBuf,
}

impl Editor {
    /// Sends a request at once; the future waits for the answer.
    pub fn send(&self, method: &str, params: Value) -> impl Future<Output = Result<Value, Error>> + use<> {
        let sent = self.connection.send_request(UntypedMessage { method: method.to_owned(), params });
        async move { sent.block_task().await }
    }

    pub async fn request(&self, method: &str, params: Value) -> Result<Value, Error> {
        self.send(method, params).await
    }

    /// A request about a session in the workspace.
    pub async fn about(&self, method: &str, session: &str) -> Result<Value, Error> {
        self.request(method, self.params(session)).await
    }

    pub fn params(&self, session: &str) -> Value {
        json!({ "sessionId": session, "cwd": self.cwd, "mcpServers": [] })
    }

    /// Opens a session and waits until its commands came.
    pub async fn new_session(&self) -> String {
        let params = json!({ "cwd": self.cwd, "mcpServers": [] });
        let answer = self.request("session/new", params).await.unwrap();
        let session = answer["sessionId"].as_str().unwrap().to_owned();
        self.told_commands(&session).await;
        session
    }

    /// Waits until a session's commands were told.
    pub async fn told_commands(&self, session: &str) {
        let told = || {
            let updates = self.updates(session);
            updates.iter().any(|update| update["sessionUpdate"] == "available_commands_update")
        };
        until(told).await;
    }

    /// Plays a prompt; gives the stop reason.
    pub async fn prompt(&self, session: &str, text: &str) -> String {
        let params = json!({ "sessionId": session, "prompt": [{ "type": "text", "text": text }] });
        let answer = self.request("session/prompt", params).await.unwrap();
        answer["stopReason"].as_str().unwrap().to_owned()
    }

    /// Every line of the agent so far.
    pub fn wire(&self) -> Vec<Value> {
        self.wire.lock().unwrap().clone()
    }

    /// The updates of a session so far.
    pub fn updates(&self, session: &str) -> Vec<Value> {
        let wire = self.wire();
        let updates = wire.into_iter().filter(|line| line["params"]["sessionId"] == session);
        updates.map(|mut line| line["params"]["update"].take()).collect()
    }

    /// Forgets what was said so far.
    pub fn clear(&self) {
        self.wire.lock().unwrap().clear();
    }

    /// Stops the server and waits for it.
    pub async fn end(self) {
        self.stop.cancel();
        self.served.await.unwrap();
    }
}
