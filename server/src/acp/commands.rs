//! Slash commands about what surrounds a session: its MCP servers, the stored sessions.

use agent::commands::{Command, ExtraCommand};
use async_trait::async_trait;
use jiff::Timestamp;
use jiff::tz::TimeZone;
use services::mcp_servers::{McpSession, McpState};
use services::session_store::SessionStore;
use std::path::PathBuf;
use std::sync::Arc;

/// Most sessions that are listed.
const MAX_SESSIONS: usize = 20;

/// `/mcp`: the servers of the session.
pub struct McpCommand(pub Arc<dyn McpSession>);

#[async_trait]
impl ExtraCommand for McpCommand {
    fn command(&self) -> Command {
        Command { name: "mcp", description: "Show the MCP servers and their tools", hint: None }
    }

    async fn run(&self, _input: &str) -> Result<String, String> {
        let rows: Vec<String> = self
            .0
            .servers()
            .into_iter()
            .map(|server| {
                let state = match &server.state {
                    McpState::Connecting => "connecting".to_owned(),
                    McpState::Ready { tools } => {
                        let names: Vec<String> =
                            tools.iter().map(|tool| format!("`{}`", tool.name)).collect();
                        format!("connected, {} tools: {}", names.len(), names.join(", "))
                    }
                    McpState::Failed { reason } => format!("failed: {reason}"),
                };
                format!("- **{}**: {state}", server.name)
            })
            .collect();
        if rows.is_empty() {
            return Ok(
                "There are no MCP servers. Add one to your editor's settings, or as `[mcp.NAME]` to the \
                       configuration."
                    .to_owned(),
            );
        }
        Ok(rows.join("\n"))
    }
}

/// `/diagnostics`: what the running language servers say.
pub struct DiagnosticsCommand(pub Arc<provider_lsp::SessionServers>);

#[async_trait]
impl ExtraCommand for DiagnosticsCommand {
    fn command(&self) -> Command {
        Command {
            name: "diagnostics",
            description: "Show what the running language servers say is wrong",
            hint: None,
        }
    }

    async fn run(&self, _input: &str) -> Result<String, String> {
        Ok(self.0.diagnostics().await)
    }
}

/// `/sessions`: the latest sessions of the folder.
pub struct SessionsCommand {
    /// Where they are stored.
    pub store: Arc<dyn SessionStore>,
    /// The folder, absolute.
    pub cwd: PathBuf,
}

#[async_trait]
impl ExtraCommand for SessionsCommand {
    fn command(&self) -> Command {
        Command { name: "sessions", description: "List the latest sessions of this folder", hint: None }
    }

    async fn run(&self, _input: &str) -> Result<String, String> {
        let all = self.store.list().await.map_err(|error| error.to_string())?;
        let here = |summary: &&services::session_store::SessionSummary| {
            summary.has_prompt && summary.header.cwd == self.cwd && summary.header.delegation_depth == 0
        };
        let rows: Vec<String> = all
            .iter()
            .filter(here)
            .take(MAX_SESSIONS)
            .map(|summary| {
                let time = Timestamp::from_millisecond(summary.updated_at)
                    .map(|time| {
                        time.to_zoned_datetime(TimeZone::system()).strftime("%Y-%m-%d %H:%M").to_string()
                    })
                    .unwrap_or_default();
                let title = summary.title.as_deref().unwrap_or("(no title)");
                format!("- {time} {title} (`{}`)", summary.header.id)
            })
            .collect();
        if rows.is_empty() {
            return Ok("No session of this folder is stored yet.".to_owned());
        }
        Ok(format!(
            "{}\n\nOpen one with your editor's list of sessions, or read it with `followspot sessions show ID`.",
            rows.join("\n")
        ))
    }
}
