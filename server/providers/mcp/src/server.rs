//! One server, kept connected for as long as its session lives.
//!
//! Called by `session.rs`. A server that does not come up is given up after its first try; one that is lost later is
//! connected again, ever more slowly, and given up after ten tries. Source: `spec/runtime.md` §9.

use crate::check::Check;
use crate::child::ServerChild;
use crate::content::tool_info;
use crate::http_client;
use crate::redact::Secrets;
use rmcp::ClientHandler;
use rmcp::model::{ClientCapabilities, ClientConfig, Implementation, Tool};
use rmcp::service::{
    ClientLifecycleMode, ClientServiceExt, NotificationContext, Peer, QuitReason, RoleClient, RunningService,
    RunningServiceCancellationToken,
};
use serde_json::Value;
use services::mcp_servers::{McpServerSpec, McpState, McpToolInfo, McpTransport};
use std::collections::{HashMap, HashSet};
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::{Notify, watch};
use tokio::task::JoinError;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

/// How long a server may take from its start to its list of tools.
const CONNECT_BUDGET: Duration = Duration::from_secs(10);

/// How long a list of tools may take to be read again.
const LIST_BUDGET: Duration = Duration::from_secs(10);

/// The first pause before a lost server is connected again; it doubles with each try.
const FIRST_PAUSE: Duration = Duration::from_millis(500);

const LONGEST_PAUSE: Duration = Duration::from_secs(30);

/// Tries to connect a lost server again.
const MAX_TRIES: u32 = 10;

/// A connection that lived this long ends the outage before it.
const STABLE: Duration = Duration::from_secs(60);

/// How long a connection may take to close.
const CLOSE_BUDGET: Duration = Duration::from_millis(300);

/// Everything known of a server now.
#[derive(Clone)]
pub struct Snapshot {
    /// What is told of it.
    pub state: McpState,
    /// Whom to call; `None` while it is away.
    pub peer: Option<Peer<RoleClient>>,
    /// What checks the arguments and structured results of its tools, by name.
    pub checks: Arc<HashMap<String, ToolChecks>>,
    /// Whether the list of tools changed and was not read again yet.
    pub is_listing: bool,
}

/// What checks the calls of one tool.
pub struct ToolChecks {
    /// Its arguments.
    pub input: Check,
    /// Its structured results; `None` when it promises nothing.
    pub output: Option<Check>,
}

impl Snapshot {
    /// A server that was not connected yet.
    pub fn connecting() -> Self {
        Self { state: McpState::Connecting, peer: None, checks: Arc::default(), is_listing: false }
    }
}

/// Keeps a server connected until `stop`; then ends it.
pub async fn serve(
    spec: McpServerSpec,
    cwd: std::path::PathBuf,
    told: watch::Sender<Snapshot>,
    stop: CancellationToken,
) {
    let secrets = Secrets::of(&spec);
    let mut tries = 0;
    let mut was_ready = false;
    loop {
        let connected = tokio::select! {
            biased;
            () = stop.cancelled() => return,
            connected = connect(&spec, &cwd, &told) => connected,
        };
        let reason = match connected {
            Ok(connection) => {
                was_ready = true;
                let since = Instant::now();
                let Some(reason) = attend(connection, &told, &stop).await else { return };
                if since.elapsed() >= STABLE {
                    tries = 0;
                }
                reason
            }
            Err(reason) => reason,
        };
        let reason = secrets.blot(&reason);
        tracing::warn!(server = spec.name, reason, "an MCP server is not connected");
        tries += 1;
        if !was_ready || tries > MAX_TRIES {
            told.send_replace(Snapshot {
                state: McpState::Failed { reason },
                peer: None,
                checks: Arc::default(),
                is_listing: false,
            });
            return;
        }
        let pause = (FIRST_PAUSE * 2_u32.saturating_pow(tries - 1)).min(LONGEST_PAUSE);
        tokio::select! {
            () = stop.cancelled() => return,
            () = tokio::time::sleep(pause) => {}
        }
    }
}

/// A server that answers.
struct Connection {
    running: RunningService<RoleClient, Handler>,
    changed: Arc<Notify>,
    child: Option<ServerChild>,
    tools: Listed,
}

type Listed = (Arc<Vec<McpToolInfo>>, Arc<HashMap<String, ToolChecks>>);

/// Answers what a server asks: nothing but that its list changed is listened to.
struct Handler {
    changed: Arc<Notify>,
    told: watch::Sender<Snapshot>,
}

impl ClientHandler for Handler {
    fn get_info(&self) -> ClientConfig {
        let this_program = Implementation::new("followspot", env!("CARGO_PKG_VERSION"));
        ClientConfig::new(ClientCapabilities::default(), this_program)
    }

    async fn on_tool_list_changed(&self, _context: NotificationContext<RoleClient>) {
        self.told.send_modify(|snapshot| snapshot.is_listing = true);
        self.changed.notify_one();
    }
}

async fn connect(
    spec: &McpServerSpec,
    cwd: &Path,
    told: &watch::Sender<Snapshot>,
) -> Result<Connection, String> {
    let changed = Arc::<Notify>::default();
    let handler = Handler { changed: changed.clone(), told: told.clone() };
    let deadline = Instant::now() + CONNECT_BUDGET;
    let (served, mut child) = match &spec.transport {
        McpTransport::Unsupported { kind } => {
            return Err(format!("its transport {kind} is not supported; use stdio or http"));
        }
        McpTransport::Http { url, headers } => {
            let transport = http_client::transport(url, headers)?;
            let serving = handler.serve_with_lifecycle(transport, ClientLifecycleMode::Initialize);
            (tokio::time::timeout_at(deadline, serving).await, None)
        }
        McpTransport::Stdio { command, args, env } => {
            let (child, stdout, stdin) = ServerChild::start(command, args, env, cwd)
                .map_err(|error| format!("{} could not be started: {error}", command.display()))?;
            let serving = handler.serve_with_lifecycle((stdout, stdin), ClientLifecycleMode::Initialize);
            (tokio::time::timeout_at(deadline, serving).await, Some(child))
        }
    };
    let too_late = || format!("it did not answer within {} s", CONNECT_BUDGET.as_secs());
    let ready = match served {
        Ok(Ok(running)) => match tokio::time::timeout_at(deadline, list(running.peer())).await {
            Ok(Ok(tools)) => Ok((running, tools)),
            Ok(Err(reason)) => Err(reason),
            Err(_) => Err(too_late()),
        },
        Ok(Err(error)) => Err(chain(&error)),
        Err(_) => Err(too_late()),
    };
    match ready {
        Ok((running, tools)) => Ok(Connection { running, changed, child, tools }),
        Err(reason) => {
            let words = match &mut child {
                Some(child) => child.last_words().await,
                None => String::new(),
            };
            Err(if words.is_empty() { reason } else { format!("{reason}; {words}") })
        }
    }
}

/// Serves a connection until it breaks; `None` when the session stopped it.
async fn attend(
    connection: Connection,
    told: &watch::Sender<Snapshot>,
    stop: &CancellationToken,
) -> Option<String> {
    let Connection { running, changed, mut child, tools } = connection;
    let peer = running.peer().clone();
    let closing = running.cancellation_token();
    let mut ended = Box::pin(running.waiting());
    tell(told, &peer, tools);
    let reason = loop {
        tokio::select! {
            biased;
            () = stop.cancelled() => {
                close(closing, ended, child).await;
                return None;
            }
            ended = &mut ended => break format!("the connection ended ({})", quit_text(&ended)),
            () = changed.notified() => {
                told.send_modify(|snapshot| snapshot.is_listing = true);
                match tokio::time::timeout(LIST_BUDGET, list(&peer)).await {
                    Ok(Ok(tools)) => tell(told, &peer, tools),
                    // The tools known so far stay.
                    Ok(Err(reason)) => tracing::warn!(reason, "a changed list of MCP tools cannot be read"),
                    Err(_) => tracing::warn!("a changed list of MCP tools did not come in time"),
                }
                told.send_modify(|snapshot| snapshot.is_listing = false);
            }
        }
    };
    told.send_modify(|snapshot| {
        snapshot.peer = None;
        snapshot.is_listing = false;
    });
    let words = match &mut child {
        Some(child) => child.last_words().await,
        None => String::new(),
    };
    Some(if words.is_empty() { reason } else { words })
}

async fn close(
    closing: RunningServiceCancellationToken,
    ended: impl Future<Output = Result<QuitReason, JoinError>>,
    child: Option<ServerChild>,
) {
    closing.cancel();
    // Whoever does not let go in time loses the connection with its task.
    let _ = tokio::time::timeout(CLOSE_BUDGET, ended).await;
    if let Some(child) = child {
        child.stop().await;
    }
}

fn tell(told: &watch::Sender<Snapshot>, peer: &Peer<RoleClient>, (tools, checks): Listed) {
    told.send_replace(Snapshot {
        state: McpState::Ready { tools },
        peer: Some(peer.clone()),
        checks,
        is_listing: false,
    });
}

async fn list(peer: &Peer<RoleClient>) -> Result<Listed, String> {
    let tools = match peer.peer_info() {
        // A server without tools may refuse to list them.
        Some(info) if info.capabilities.tools.is_none() => Vec::new(),
        _ => peer
            .list_all_tools()
            .await
            .map_err(|error| format!("its tools cannot be listed: {}", chain(&error)))?,
    };
    let mut names = HashSet::new();
    if let Some(twice) = tools.iter().find(|tool| !names.insert(tool.name.clone())) {
        return Err(format!("its list of tools is invalid: {} stands in it twice", twice.name));
    }
    let checks = tools.iter().map(|tool| (tool.name.clone().into_owned(), checks(tool))).collect();
    Ok((Arc::new(tools.iter().map(tool_info).collect()), Arc::new(checks)))
}

fn checks(tool: &Tool) -> ToolChecks {
    let check = |schema: &Arc<rmcp::model::JsonObject>| Check::new(Value::Object((**schema).clone()));
    ToolChecks { input: check(&tool.input_schema), output: tool.output_schema.as_ref().map(check) }
}

fn quit_text(ended: &Result<QuitReason, JoinError>) -> &'static str {
    match ended {
        Ok(QuitReason::Closed) => "closed by the server",
        Ok(QuitReason::Cancelled) => "cancelled",
        _ => "an internal error",
    }
}

/// An error with its causes, each said once.
pub fn chain(error: &dyn std::error::Error) -> String {
    let mut text = error.to_string();
    let mut cause = error.source();
    while let Some(error) = cause {
        let words = error.to_string();
        if !text.contains(&words) {
            text = format!("{text}: {words}");
        }
        cause = error.source();
    }
    text
}
