//! MCP servers as the client and the configuration name them, as the service takes them.

use crate::config::{Config, McpTransport as ConfiguredTransport};
use agent_client_protocol::v1::schema::McpServer;
use services::mcp_servers::{McpServerSpec, McpTransport};
use std::path::PathBuf;

/// The servers a client sent. A second one of the same name is none.
pub fn specs_of_client(servers: &[McpServer]) -> Vec<McpServerSpec> {
    servers.iter().map(spec_of_client).collect()
}

fn spec_of_client(server: &McpServer) -> McpServerSpec {
    let (name, transport) = match server {
        McpServer::Stdio(server) => (
            server.name.clone(),
            McpTransport::Stdio {
                command: server.command.clone(),
                args: server.args.clone(),
                env: server
                    .env
                    .iter()
                    .map(|variable| (variable.name.clone(), variable.value.clone()))
                    .collect(),
            },
        ),
        McpServer::Http(server) => (
            server.name.clone(),
            McpTransport::Http {
                url: server.url.clone(),
                headers: server
                    .headers
                    .iter()
                    .map(|header| (header.name.clone(), header.value.clone()))
                    .collect(),
            },
        ),
        McpServer::Sse(server) => (server.name.clone(), McpTransport::Unsupported { kind: "sse".to_owned() }),
        _ => ("unnamed".to_owned(), McpTransport::Unsupported { kind: "of an unknown kind".to_owned() }),
    };
    McpServerSpec { name, transport }
}

/// The servers of a configuration, by name.
pub fn specs_of_config(config: &Config) -> Vec<McpServerSpec> {
    let spec = |(name, server): (&String, &crate::config::McpServerConfig)| {
        let transport = match &server.transport {
            ConfiguredTransport::Stdio { command, env } => {
                let (program, args) = command.split_first()?;
                McpTransport::Stdio { command: PathBuf::from(program), args: args.to_vec(), env: pairs(env) }
            }
            ConfiguredTransport::Http { url, headers } => {
                McpTransport::Http { url: url.clone(), headers: pairs(headers) }
            }
        };
        Some(McpServerSpec { name: name.clone(), transport })
    };
    config.mcp.iter().filter_map(spec).collect()
}

fn pairs(map: &std::collections::BTreeMap<String, String>) -> Vec<(String, String)> {
    map.iter().map(|(name, value)| (name.clone(), value.clone())).collect()
}
