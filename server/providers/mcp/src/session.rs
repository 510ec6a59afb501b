//! The servers of one session.

use crate::content;
use crate::redact::Secrets;
use crate::server::{Snapshot, chain, serve};
use async_trait::async_trait;
use futures::future::join_all;
use protocol::tool::ToolFailure;
use rmcp::model::CallToolRequestParams;
use rmcp::service::{Peer, RoleClient, ServiceError};
use serde_json::Value;
use services::mcp_servers::{McpCall, McpResult, McpServerSpec, McpServerStatus, McpSession, McpState};
use std::path::PathBuf;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;
use tokio::sync::watch;
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;

/// How long a call waits for a server that is just being connected again.
const AWAY_BUDGET: Duration = Duration::from_secs(3);

/// Longest that all servers together may take to end; what lives on then is killed.
const CLOSE_BUDGET: Duration = Duration::from_millis(1500);

/// See [`McpSession`].
pub struct Session {
    cwd: PathBuf,
    servers: Mutex<Vec<Entry>>,
    stop: CancellationToken,
}

struct Entry {
    name: String,
    secrets: Secrets,
    now: watch::Receiver<Snapshot>,
    task: Option<JoinHandle<()>>,
}

impl Session {
    /// A session without servers.
    pub fn new(cwd: PathBuf) -> Self {
        Self { cwd, servers: Mutex::default(), stop: CancellationToken::new() }
    }

    fn lock(&self) -> MutexGuard<'_, Vec<Entry>> {
        self.servers.lock().unwrap_or_else(PoisonError::into_inner)
    }

    async fn wait_for_all(&self, budget: Duration, settled: fn(&Snapshot) -> bool) {
        let waiting: Vec<_> = self.lock().iter().map(|entry| entry.now.clone()).collect();
        let all = join_all(waiting.into_iter().map(async |mut now| {
            // An error says that the server's task is gone: nothing goes on then either.
            let _ = now.wait_for(settled).await;
        }));
        // Those that are late appear by themselves.
        let _ = tokio::time::timeout(budget, all).await;
    }

    fn entry(&self, server: &str) -> Option<(watch::Receiver<Snapshot>, Secrets)> {
        let servers = self.lock();
        let entry = servers.iter().find(|entry| entry.name == server)?;
        Some((entry.now.clone(), entry.secrets.clone()))
    }
}

#[async_trait]
impl McpSession for Session {
    fn connect(&self, specs: Vec<McpServerSpec>) {
        let mut servers = self.lock();
        for spec in specs {
            if self.stop.is_cancelled() || servers.iter().any(|entry| entry.name == spec.name) {
                continue;
            }
            let (told, now) = watch::channel(Snapshot::connecting());
            servers.push(Entry {
                name: spec.name.clone(),
                secrets: Secrets::of(&spec),
                now,
                task: Some(tokio::spawn(serve(spec, self.cwd.clone(), told, self.stop.child_token()))),
            });
        }
    }

    async fn settle(&self, budget: Duration) {
        self.wait_for_all(budget, |snapshot| snapshot.state != McpState::Connecting).await;
    }

    async fn settle_lists(&self, budget: Duration) {
        self.wait_for_all(budget, |snapshot| !snapshot.is_listing).await;
    }

    fn servers(&self) -> Vec<McpServerStatus> {
        let servers = self.lock();
        let status = |entry: &Entry| McpServerStatus {
            name: entry.name.clone(),
            state: entry.now.borrow().state.clone(),
        };
        servers.iter().map(status).collect()
    }

    async fn call(&self, call: McpCall, cancel: &CancellationToken) -> Result<McpResult, ToolFailure> {
        let Some((mut now, secrets)) = self.entry(&call.server) else {
            return Err(ToolFailure::plain(format!("there is no MCP server {}", call.server)));
        };
        let arguments = Value::Object(call.arguments);
        let checks = now.borrow().checks.clone();
        let Some(checks) = checks.get(&call.tool) else {
            return Err(ToolFailure::plain(format!(
                "MCP server {} has no tool {} now",
                call.server, call.tool
            )));
        };
        let violations = checks.input.violations(&arguments);
        if !violations.is_empty() {
            return Err(ToolFailure::coded(
                "ToolArgsError",
                "INVALID_ARGS",
                format!("invalid arguments: {}", violations.join("; ")),
            ));
        }
        let Value::Object(arguments) = arguments else { return Err(ToolFailure::plain("no object")) };
        let peer = tokio::select! {
            biased;
            () = cancel.cancelled() => return Err(ToolFailure::aborted()),
            peer = present(&mut now) => peer,
        };
        let Some(peer) = peer else {
            return Err(ToolFailure::plain(format!(
                "MCP server {} is not connected now; it is being connected again, try later",
                call.server
            )));
        };
        let params = CallToolRequestParams::new(call.tool).with_arguments(arguments);
        // Dropping the call tells the server that it was cancelled.
        let answered = tokio::select! {
            biased;
            () = cancel.cancelled() => return Err(ToolFailure::aborted()),
            answered = peer.call_tool(params) => answered,
        };
        let result = content::result(answered.map_err(|error| failure(&call.server, &secrets, &error))?);
        if let (Some(structured), Some(check), false) = (&result.structured, &checks.output, result.is_error)
        {
            let violations = check.violations(structured);
            if !violations.is_empty() {
                return Err(ToolFailure::coded(
                    "ToolOutputError",
                    "INVALID_TOOL_OUTPUT",
                    format!(
                        "MCP server {} answered what its own output schema forbids: {}",
                        call.server,
                        violations.join("; ")
                    ),
                ));
            }
        }
        Ok(result)
    }

    async fn close(&self) {
        self.stop.cancel();
        let tasks: Vec<JoinHandle<()>> =
            self.lock().iter_mut().filter_map(|entry| entry.task.take()).collect();
        let abort: Vec<_> = tasks.iter().map(JoinHandle::abort_handle).collect();
        if tokio::time::timeout(CLOSE_BUDGET, join_all(tasks)).await.is_err() {
            // Dropped with its task, a child is killed with its group.
            abort.iter().for_each(tokio::task::AbortHandle::abort);
        }
    }
}

impl Drop for Session {
    fn drop(&mut self) {
        self.stop.cancel();
    }
}

/// Whom to call, after a short wait for one that is just away.
async fn present(now: &mut watch::Receiver<Snapshot>) -> Option<Peer<RoleClient>> {
    let back = now.wait_for(|snapshot| {
        snapshot.peer.as_ref().is_some_and(|peer| !peer.is_transport_closed())
            || matches!(snapshot.state, McpState::Failed { .. })
    });
    tokio::time::timeout(AWAY_BUDGET, back).await.ok()?.ok()?.peer.clone()
}

fn failure(server: &str, secrets: &Secrets, error: &ServiceError) -> ToolFailure {
    let message = match error {
        ServiceError::McpError(error) => {
            format!("MCP server {server} refused: {}", secrets.blot(&error.message))
        }
        ServiceError::TransportClosed => {
            format!("MCP server {server} went away during the call; whether it took effect is unknown")
        }
        other => format!("the call of MCP server {server} failed: {}", secrets.blot(&chain(other))),
    };
    ToolFailure::plain(message)
}
