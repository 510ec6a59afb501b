//! The tools of MCP servers, as far as a session is connected to any.
//!
//! [`McpTools`] keeps the session's layer of the registry as the servers are; `tool.rs` is one of their tools. Source:
//! `spec/runtime.md` §9; product decisions, "MCP start".

mod tool;

use async_trait::async_trait;
use pipeline::registry::{Disposer, Registration, Registry, RegistryError, ScopeKey};
use pipeline::source::ToolSource;
use pipeline::tool::Tool;
use services::mcp_servers::{McpSession, McpState, McpToolInfo, PREFIX, tool_name};
use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;
use tool::{AbsentTool, McpTool};

/// How long the first step waits for servers that are still being connected.
const FIRST_WAIT: Duration = Duration::from_secs(5);

/// How long a step waits for a list of tools that is being read again.
const LIST_WAIT: Duration = Duration::from_secs(2);

/// The tools of a session's servers, registered in the session's scope.
pub struct McpTools {
    session: Arc<dyn McpSession>,
    registry: Registry,
    scope: ScopeKey,
    /// Names that are never listed.
    disabled: Vec<String>,
    has_waited: AtomicBool,
    servers: Mutex<HashMap<String, Held>>,
}

/// What cards of a call are made with when no tool of its name is registered; `None` when the name is none of a server's.
pub fn absent_tool(name: &str) -> Option<Arc<dyn Tool>> {
    name.starts_with(PREFIX).then(|| Arc::new(AbsentTool::new(name)) as Arc<dyn Tool>)
}

/// What is registered of a server.
enum Held {
    /// This list.
    Tools { tools: Arc<Vec<McpToolInfo>>, _registered: Vec<Disposer> },
    /// Nothing, and that was told.
    Nothing { reason: String },
}

impl McpTools {
    /// Registers nothing yet.
    pub fn new(
        session: Arc<dyn McpSession>,
        registry: Registry,
        scope: ScopeKey,
        disabled: Vec<String>,
    ) -> Self {
        Self {
            session,
            registry,
            scope,
            disabled,
            has_waited: AtomicBool::new(false),
            servers: Mutex::default(),
        }
    }

    /// The servers behind the tools.
    pub fn session(&self) -> &Arc<dyn McpSession> {
        &self.session
    }

    fn sync(&self) -> Vec<String> {
        let mut held = self.servers.lock().unwrap_or_else(PoisonError::into_inner);
        let mut told = Vec::new();
        for server in self.session.servers() {
            match server.state {
                McpState::Connecting => {}
                McpState::Failed { reason } => {
                    let known = matches!(held.get(&server.name), Some(Held::Nothing { reason: told }) if *told == reason);
                    if !known {
                        told.push(format!(
                            "MCP server {} is not connected, its tools are missing: {reason}",
                            server.name
                        ));
                        held.insert(server.name, Held::Nothing { reason });
                    }
                }
                McpState::Ready { tools } => {
                    match held.get(&server.name) {
                        Some(Held::Tools { tools: known, .. }) if *known == tools => continue,
                        _ => {}
                    }
                    // The old list goes first: most names are in both.
                    held.remove(&server.name);
                    let next = match self.register(&server.name, &tools) {
                        Ok(registered) => Held::Tools { tools, _registered: registered },
                        Err(error) => {
                            told.push(format!(
                                "The tools of MCP server {} are missing: {error}",
                                server.name
                            ));
                            // Not registered again until the list changes.
                            Held::Tools { tools, _registered: Vec::new() }
                        }
                    };
                    held.insert(server.name, next);
                }
            }
        }
        told
    }

    /// Registers the whole list, or nothing of it.
    fn register(&self, server: &str, tools: &[McpToolInfo]) -> Result<Vec<Disposer>, RegistryError> {
        let mut registered = Vec::with_capacity(tools.len());
        for info in tools {
            let name = tool_name(server, &info.name);
            if self.disabled.contains(&name) {
                continue;
            }
            let tool: Arc<dyn Tool> =
                Arc::new(McpTool::new(name, server, info.clone(), self.session.clone()));
            registered.push(self.registry.register(Some(self.scope), tool, Registration::default())?);
        }
        Ok(registered)
    }
}

#[async_trait]
impl ToolSource for McpTools {
    async fn refresh(&self) -> Vec<String> {
        if !self.has_waited.load(Ordering::Relaxed) {
            self.session.settle(FIRST_WAIT).await;
            self.has_waited.store(true, Ordering::Relaxed);
        }
        // What a call changed is there at the next step.
        self.session.settle_lists(LIST_WAIT).await;
        self.sync()
    }

    async fn close(&self) {
        self.session.close().await;
    }
}

#[cfg(test)]
mod tests;
