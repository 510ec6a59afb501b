//! MCP servers that are as a test says.

use super::{Script, lock};
use crate::mcp_servers::{McpCall, McpResult, McpServerSpec, McpServerStatus, McpSession, McpState};
use async_trait::async_trait;
use protocol::tool::ToolFailure;
use std::sync::Mutex;
use std::time::Duration;
use tokio_util::sync::CancellationToken;

/// Servers in any state; calls are answered from a script, and beyond it with nothing.
#[derive(Default)]
pub struct FakeMcp {
    servers: Mutex<Vec<McpServerStatus>>,
    calls: Script<McpCall, Result<McpResult, ToolFailure>>,
    waits: Mutex<Vec<Duration>>,
}

impl FakeMcp {
    /// Puts a server into a state.
    pub fn set(&self, name: &str, state: McpState) {
        let mut servers = lock(&self.servers);
        servers.retain(|server| server.name != name);
        servers.push(McpServerStatus { name: name.to_owned(), state });
    }

    /// Adds the end of a call.
    pub fn answer(&self, answer: Result<McpResult, ToolFailure>) {
        self.calls.push(answer);
    }

    /// Every call, in order.
    pub fn called(&self) -> Vec<McpCall> {
        self.calls.asked()
    }

    /// The budget of every wait for servers.
    pub fn waits(&self) -> Vec<Duration> {
        lock(&self.waits).clone()
    }
}

#[async_trait]
impl McpSession for FakeMcp {
    fn connect(&self, servers: Vec<McpServerSpec>) {
        for server in servers {
            self.set(&server.name, McpState::Connecting);
        }
    }

    async fn settle(&self, budget: Duration) {
        lock(&self.waits).push(budget);
    }

    async fn settle_lists(&self, _budget: Duration) {}

    fn servers(&self) -> Vec<McpServerStatus> {
        lock(&self.servers).clone()
    }

    async fn call(&self, call: McpCall, _cancel: &CancellationToken) -> Result<McpResult, ToolFailure> {
        self.calls.ask(call).unwrap_or_else(|| Ok(McpResult::default()))
    }

    async fn close(&self) {
        lock(&self.servers).clear();
    }
}
