//! The client of MCP servers: as children on their standard streams, or over streamable HTTP.
//!
//! Called by the composition, which hands [`LocalMcpServers`] out as a service. `session.rs` holds the servers of one
//! session; `server.rs` keeps one connected; `child.rs` and `http.rs` are the two ways to reach one; `content.rs` and
//! `check.rs` read what comes. Nothing here starts, resolves or compiles anything before the first server is connected,
//! and no value of an environment or a header is ever logged.

mod check;
mod child;
mod content;
mod http_client;
mod redact;
mod server;
mod session;

use services::mcp_servers::{McpServers, McpSession};
use std::path::PathBuf;
use std::sync::Arc;

/// MCP servers, reached from this machine.
#[derive(Default)]
pub struct LocalMcpServers;

impl McpServers for LocalMcpServers {
    fn open(&self, cwd: PathBuf) -> Arc<dyn McpSession> {
        Arc::new(session::Session::new(cwd))
    }
}
