//! What the checks ask of the machine: folders, programs, one connection.

use crate::config::{Config, Environment};
use provider_lsp::Program;
use std::io;
use std::net::{TcpStream, ToSocketAddrs};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Duration;

/// How long an address may take to answer.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(3);

/// How long a program may take to say its version.
const VERSION_TIMEOUT: Duration = Duration::from_secs(3);

/// A language server that may be installed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct LanguageServer {
    /// Its program.
    pub program: String,
    /// The languages, for a person.
    pub languages: String,
    /// How to install it, one line.
    pub install: String,
    /// Whether it was found and runs.
    pub is_there: bool,
    /// Whether it was found and does not run.
    pub is_lame: bool,
}

/// Looks for the language servers of the provider's table as changed by the configuration, where the provider looks.
pub(super) async fn language_servers(config: &Config, workspace: &Path) -> Vec<LanguageServer> {
    let changes = config.lsp.servers.iter().map(|(name, server)| {
        let change = provider_lsp::ServerChange {
            command: server.command.clone(),
            extensions: server.extensions.clone(),
            root_markers: server.root_markers.clone(),
        };
        (name.clone(), change)
    });
    let is_trusted = config.trusts(workspace);
    let mut servers = Vec::new();
    for server in provider_lsp::table::servers(changes) {
        let Some(program) = server.command.first() else { continue };
        let found = match provider_lsp::find_program(program, workspace, workspace, is_trusted) {
            Program::Found(path) => Some(path),
            Program::Untrusted(_) | Program::Missing => None,
        };
        // rustup puts a placeholder of this name on PATH, which ends at once when the component is missing.
        let is_lame = match &found {
            Some(path) => program == "rust-analyzer" && !says_version(path.clone()).await,
            None => false,
        };
        servers.push(LanguageServer {
            program: program.clone(),
            languages: server.languages.clone(),
            install: server.install.clone(),
            is_there: found.is_some() && !is_lame,
            is_lame,
        });
    }
    servers
}

async fn says_version(program: PathBuf) -> bool {
    let asked = tokio::task::spawn_blocking(move || {
        let mut command = Command::new(program);
        command.arg("--version").stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
        command.status().is_ok_and(|status| status.success())
    });
    matches!(tokio::time::timeout(VERSION_TIMEOUT, asked).await, Ok(Ok(true)))
}

/// The file of a program: a path as it is, a name as the shell would find it.
pub(super) fn find_program(program: &str) -> Option<PathBuf> {
    if Path::new(program).components().count() > 1 {
        return Some(PathBuf::from(program)).filter(|path| is_executable(path));
    }
    let path = std::env::var_os("PATH")?;
    let extensions: &[&str] = if cfg!(windows) { &[".exe", ".cmd", ".bat"] } else { &[""] };
    std::env::split_paths(&path)
        .flat_map(|folder| {
            extensions.iter().map(move |extension| folder.join(format!("{program}{extension}")))
        })
        .find(|path| is_executable(path))
}

fn is_executable(path: &Path) -> bool {
    let Ok(found) = std::fs::metadata(path) else { return false };
    #[cfg(unix)]
    let may_run = std::os::unix::fs::PermissionsExt::mode(&found.permissions()) & 0o111 != 0;
    #[cfg(not(unix))]
    let may_run = true;
    found.is_file() && may_run
}

/// Makes the folder when it is missing, and a file in it that is removed again.
pub(super) fn try_writing(folder: &Path) -> io::Result<()> {
    let mut builder = std::fs::DirBuilder::new();
    builder.recursive(true);
    #[cfg(unix)]
    std::os::unix::fs::DirBuilderExt::mode(&mut builder, 0o700);
    builder.create(folder)?;
    let file = folder.join(format!(".doctor-{}", std::process::id()));
    std::fs::write(&file, b"")?;
    std::fs::remove_file(&file)
}

/// Where providers are that need no configuration.
const PUBLIC_ADDRESSES: [(&str, &str); 5] = [
    ("deepseek", "https://api.deepseek.com"),
    ("openai", "https://api.openai.com"),
    ("anthropic", "https://api.anthropic.com"),
    ("openrouter", "https://openrouter.ai"),
    ("ollama", "http://127.0.0.1:11434"),
];

/// The address of a provider: from the environment, the configuration, or the public one; `None` when it has none.
pub(super) fn address_of(provider: &str, config: &Config, environment: Environment<'_>) -> Option<String> {
    let variable = format!("{}_BASE_URL", provider.to_ascii_uppercase().replace('-', "_"));
    environment(&variable)
        .map(|address| address.trim().to_owned())
        .filter(|address| !address.is_empty())
        .or_else(|| config.providers.get(provider)?.base_url.clone())
        .or_else(|| {
            let (_, address) = PUBLIC_ADDRESSES.iter().find(|(name, _)| *name == provider)?;
            Some((*address).to_owned())
        })
}

/// How an address answered.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Reached {
    /// A connection was made.
    Directly,
    /// Nothing was tried: requests go through a proxy, and a connection without it says nothing.
    NotTried,
}

/// Connects to the host of an http address, or says why not.
pub(super) async fn reach(address: &str) -> Result<Reached, String> {
    let (host, port) = host_and_port(address).ok_or("it is no http address")?;
    let has_proxy = ["HTTPS_PROXY", "https_proxy", "ALL_PROXY", "all_proxy"]
        .iter()
        .any(|name| std::env::var_os(name).is_some_and(|value| !value.is_empty()));
    if has_proxy && host != "localhost" && !host.starts_with("127.") {
        return Ok(Reached::NotTried);
    }
    let connected = tokio::task::spawn_blocking(move || {
        let mut last = io::Error::new(io::ErrorKind::NotFound, "the host has no address");
        for address in (host.as_str(), port).to_socket_addrs()? {
            match TcpStream::connect_timeout(&address, CONNECT_TIMEOUT) {
                Ok(_) => return Ok(Reached::Directly),
                Err(error) => last = error,
            }
        }
        Err(last)
    });
    // Looking a name up has no time limit of its own.
    match tokio::time::timeout(CONNECT_TIMEOUT * 2, connected).await {
        Ok(Ok(result)) => result.map_err(|error| error.to_string()),
        Ok(Err(error)) => Err(error.to_string()),
        Err(_) => Err("no answer in time".to_owned()),
    }
}

/// Host and port of an http address.
pub(super) fn host_and_port(address: &str) -> Option<(String, u16)> {
    let (rest, default) = match address.split_once("://")? {
        ("http", rest) => (rest, 80),
        ("https", rest) => (rest, 443),
        _ => return None,
    };
    let authority = rest.split(['/', '?', '#']).next()?;
    let host = authority.rsplit_once('@').map_or(authority, |(_, host)| host);
    let (host, port) = match host.strip_prefix('[').and_then(|host| host.split_once(']')) {
        Some((host, port)) => (host, port.strip_prefix(':')),
        None => host.rsplit_once(':').map_or((host, None), |(host, port)| (host, Some(port))),
    };
    let port = port.map_or(Some(default), |port| port.parse().ok())?;
    (!host.is_empty()).then(|| (host.to_owned(), port))
}
