//! What each finding means, and what to do about it. No I/O.

use super::machine::{LanguageServer, Reached};
use crate::config::{Config, ConfigError, Loaded, McpTransport, Paths};
use protocol::model::ModelRef;
use services::model::ModelError;
use services::sandbox::{SandboxLevel, SandboxSupport};
use std::io;
use std::path::Path;

/// The result of one check.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Check {
    /// How bad it is.
    pub verdict: Verdict,
    /// What was looked at.
    pub subject: &'static str,
    /// What was found.
    pub finding: String,
    /// What to do; `None` when nothing has to be done or the finding says it.
    pub remedy: Option<String>,
}

/// How bad a finding is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Verdict {
    /// All is well.
    Good,
    /// It works, with less than there could be.
    Doubtful,
    /// It does not work.
    Broken,
}

impl Check {
    fn new(verdict: Verdict, subject: &'static str, finding: impl Into<String>) -> Self {
        Self { verdict, subject, finding: finding.into(), remedy: None }
    }

    fn remedy(self, remedy: impl Into<String>) -> Self {
        Self { remedy: Some(remedy.into()), ..self }
    }
}

/// The configuration files: one line when all is well, else one a problem.
pub(super) fn configuration(paths: &Paths, loaded: &Result<Loaded, ConfigError>) -> Vec<Check> {
    let subject = "configuration";
    match loaded {
        Err(error) => error
            .problems
            .iter()
            .map(|problem| Check::new(Verdict::Broken, subject, problem.to_string()))
            .collect(),
        Ok(loaded) => {
            let file = paths.config_file();
            let finding = match file.exists() {
                true => file.display().to_string(),
                false => format!("the defaults; {} does not exist", file.display()),
            };
            let ignored = loaded
                .ignored
                .iter()
                .map(|ignored| Check::new(Verdict::Doubtful, subject, ignored.to_string()));
            std::iter::once(Check::new(Verdict::Good, subject, finding)).chain(ignored).collect()
        }
    }
}

/// The model new sessions start with.
pub(super) fn model(model: &ModelRef, usable: Result<(), ModelError>) -> Check {
    let subject = "model";
    match usable {
        Ok(()) if model.provider == "offline" => {
            Check::new(Verdict::Doubtful, subject, format!("{model}, which is no language model"))
                .remedy("store a key with `followspot login PROVIDER`, or set FOLLOWSPOT_MODEL")
        }
        Ok(()) => Check::new(Verdict::Good, subject, format!("{model}, with all it needs to be asked")),
        Err(error) => Check::new(Verdict::Broken, subject, format!("{model}: {error}")),
    }
}

/// The address of the model's provider.
pub(super) fn endpoint(address: &str, reached: Result<Reached, String>) -> Check {
    let subject = "address";
    match reached {
        Ok(Reached::Directly) => Check::new(Verdict::Good, subject, format!("{address} answers")),
        Ok(Reached::NotTried) => {
            Check::new(Verdict::Doubtful, subject, format!("{address} was not tried, since a proxy is set"))
        }
        Err(reason) => Check::new(Verdict::Broken, subject, format!("{address} cannot be reached: {reason}"))
            .remedy("check the network, or base_url under [providers]"),
    }
}

/// What confines commands.
pub(super) fn sandbox(support: &SandboxSupport) -> Check {
    let subject = "sandbox";
    match support.level {
        SandboxLevel::Full => Check::new(Verdict::Good, subject, &support.detail),
        SandboxLevel::Partial => Check::new(Verdict::Doubtful, subject, &support.detail),
        SandboxLevel::None => Check::new(Verdict::Doubtful, subject, &support.detail)
            .remedy("until then each command is asked for, unless the mode is danger-full-access"),
    }
}

/// A folder the server writes to.
pub(super) fn folder(folder: &Path, written: io::Result<()>) -> Check {
    let subject = "folder";
    match written {
        Ok(()) => Check::new(Verdict::Good, subject, format!("{} can be written", folder.display())),
        Err(error) => Check::new(Verdict::Broken, subject, format!("{}: {error}", folder.display()))
            .remedy("make it yours, or set FOLLOWSPOT_HOME to a folder that is"),
    }
}

/// A language server that is only a placeholder of rustup.
pub(super) fn placeholder(servers: &[LanguageServer]) -> Option<Check> {
    let server = servers.iter().find(|server| server.is_lame)?;
    let finding = format!("{} is on PATH but does not run", server.program);
    let check = Check::new(Verdict::Doubtful, "language servers", finding);
    Some(check.remedy(format!("rustup component add {}", server.program)))
}

/// Language servers: those found, and of each language without one the first that could be installed, and how.
pub(super) fn language_servers(servers: &[LanguageServer]) -> Check {
    let found: Vec<_> = servers.iter().filter(|server| server.is_there).collect();
    let mut missing: Vec<&LanguageServer> = Vec::new();
    for server in servers {
        let is_served = found.iter().chain(&missing).any(|other| other.languages == server.languages);
        if !is_served {
            missing.push(server);
        }
    }
    let name = |server: &&LanguageServer| format!("{} ({})", server.program, server.languages);
    let install = |server: &&LanguageServer| match server.install.as_str() {
        "" => name(server),
        install => format!("{}: {install}", name(server)),
    };
    let found = found.iter().map(name).collect::<Vec<_>>().join(", ");
    let missing = missing.iter().map(install).collect::<Vec<_>>().join("; ");
    let subject = "language servers";
    match (found.is_empty(), missing.is_empty()) {
        (true, _) => Check::new(Verdict::Doubtful, subject, "none found")
            .remedy(format!("for the lsp tool, install those of your languages: {missing}")),
        (false, true) => Check::new(Verdict::Good, subject, found),
        (false, false) => Check::new(Verdict::Good, subject, found)
            .remedy(format!("for the lsp tool in other languages: {missing}")),
    }
}

/// Programs the configuration names; only those that are missing.
pub(super) fn programs(config: &Config, is_there: impl Fn(&str) -> bool) -> Vec<Check> {
    let servers = config.lsp.servers.iter().map(|(name, server)| {
        (format!("lsp.{name}"), server.command.as_ref().and_then(|command| command.first()))
    });
    let mcp = config.mcp.iter().map(|(name, server)| {
        let program = match &server.transport {
            McpTransport::Stdio { command, .. } => command.first(),
            McpTransport::Http { .. } => None,
        };
        (format!("mcp.{name}"), program)
    });
    let agents =
        config.subagents.iter().map(|(name, agent)| (format!("subagents.{name}"), agent.command.first()));
    servers
        .chain(mcp)
        .chain(agents)
        .filter_map(|(key, program)| Some((key, program?)))
        .filter(|(_, program)| !is_there(program))
        .map(|(key, program)| {
            Check::new(Verdict::Broken, "program", format!("{program}, named by {key}, is not on PATH"))
                .remedy("install it, or write its full path")
        })
        .collect()
}
