//! The typed configuration: what can be set, the defaults, and how the layers come together.
//!
//! Layers, later ones win: the defaults here, the user's `config.toml`, the workspace's `.followspot/config.toml`, the
//! environment. What a workspace may set without being trusted is decided key by key in `config/sections.rs`. Called by
//! the composition root and the command line; nobody else reads configuration files.
//!
//! Source: product decisions, "Configuration".

mod document;
mod paths;
mod sections;
#[cfg(test)]
mod tests;
mod values;

pub use paths::Paths;

use protocol::mode::Mode;
use protocol::model::ModelRef;
use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::path::{Path, PathBuf};
use std::time::Duration;

/// Every setting.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Config {
    /// Folders, absolute, whose own configuration may do what the user's may; folders below them too.
    pub trusted_folders: Vec<PathBuf>,
    /// The language model.
    pub model: ModelConfig,
    /// Providers by name: the user's own, and changes to built-in ones.
    pub providers: BTreeMap<String, ProviderConfig>,
    /// Where commands run.
    pub shell: ShellConfig,
    /// Which tools there are.
    pub tools: ToolsConfig,
    /// What confined commands may reach.
    pub sandbox: SandboxConfig,
    /// How sessions begin.
    pub session: SessionConfig,
    /// Language servers.
    pub lsp: LspConfig,
    /// MCP servers by name, beside those of the editor.
    pub mcp: BTreeMap<String, McpServerConfig>,
    /// The web tools.
    pub web: WebConfig,
    /// Other ACP agents that can be children, by name.
    pub subagents: BTreeMap<String, SubagentConfig>,
    /// Instructions in files.
    pub skills: SkillsConfig,
    /// Hooks of the user.
    pub hooks: HooksConfig,
    /// The protocol spoken with the editor.
    pub protocol: ProtocolConfig,
}

/// `[model]`.
#[derive(Clone, Debug, PartialEq)]
pub struct ModelConfig {
    /// The model new sessions start with; `None` is the first provider with a key.
    pub default: Option<ModelRef>,
    /// How long a model may send no event before the request has failed.
    pub idle_timeout: Duration,
}

impl Default for ModelConfig {
    fn default() -> Self {
        Self { default: None, idle_timeout: Duration::from_secs(300) }
    }
}

/// `[providers.NAME]`.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct ProviderConfig {
    /// Base of its addresses without a slash at the end; `None` keeps a built-in provider's.
    pub base_url: Option<String>,
    /// Environment variable that holds the key; `None` is a built-in provider's own, or no variable.
    pub api_key_env: Option<String>,
    /// Wire format; `None` is the built-in provider's, or OpenAI's.
    pub kind: Option<WireFormat>,
    /// Whether its models take images; `None` leaves that to the catalogue.
    pub takes_images: Option<bool>,
    /// Context window of its models in tokens; `None` leaves that to the catalogue.
    pub context_window: Option<u64>,
}

/// The wire format of a provider.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WireFormat {
    /// OpenAI's Chat Completions.
    OpenAi,
    /// Anthropic's Messages.
    Anthropic,
}

/// `[shell]`.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct ShellConfig {
    /// Who runs commands.
    pub backend: ShellBackend,
    /// Whether the tool `bash` is one lasting shell instead of a fresh one a call.
    pub persistent: bool,
}

/// Who runs commands.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum ShellBackend {
    /// The client when it offers terminals, else this process.
    #[default]
    Auto,
    /// The client's terminals.
    Client,
    /// This process.
    Local,
}

/// `[tools]`.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct ToolsConfig {
    /// Families switched on beyond those that always are.
    pub enable: BTreeSet<ToolFamily>,
    /// Names of tools that are left out.
    pub disable: BTreeSet<String>,
    /// Whether tools are called directly, through `run_code`, or both.
    pub code_mode: CodeMode,
}

/// A family of tools that is off until asked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum ToolFamily {
    /// `terminal_*`.
    Terminal,
    /// `schedule_*`.
    Schedule,
    /// Tools that search stored sessions.
    SessionQuery,
    /// `cordis_*`.
    Cordis,
    /// `str_replace_editor`.
    StrReplaceEditor,
    /// `pwsh`.
    Pwsh,
}

impl ToolFamily {
    /// Every family.
    pub const ALL: [Self; 6] = [
        Self::Terminal,
        Self::Schedule,
        Self::SessionQuery,
        Self::Cordis,
        Self::StrReplaceEditor,
        Self::Pwsh,
    ];

    /// Its name in the configuration.
    pub fn id(self) -> &'static str {
        match self {
            Self::Terminal => "terminal",
            Self::Schedule => "schedule",
            Self::SessionQuery => "session_query",
            Self::Cordis => "cordis",
            Self::StrReplaceEditor => "str_replace_editor",
            Self::Pwsh => "pwsh",
        }
    }
}

/// How the model reaches tools.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum CodeMode {
    /// By calling them.
    #[default]
    Native,
    /// From programs in `run_code`.
    Code,
    /// Both ways.
    Both,
}

/// `[sandbox]`.
#[derive(Clone, Debug, PartialEq)]
pub struct SandboxConfig {
    /// Whether confined commands reach the network.
    pub network: bool,
}

impl Default for SandboxConfig {
    fn default() -> Self {
        Self { network: true }
    }
}

/// `[session]`.
#[derive(Clone, Debug, PartialEq)]
pub struct SessionConfig {
    /// The mode new sessions start in.
    pub mode: Mode,
    /// Model requests in one turn, at least 1; `None` is unlimited.
    pub max_turn_requests: Option<u32>,
    /// Whether the model writes a session's title after its first turn.
    pub model_titles: bool,
}

impl Default for SessionConfig {
    fn default() -> Self {
        Self { mode: Mode::default(), max_turn_requests: None, model_titles: true }
    }
}

/// `[lsp]`.
#[derive(Clone, Debug, PartialEq)]
pub struct LspConfig {
    /// Whether the model is told of new diagnostics after an edit.
    pub diagnostics_after_edit: bool,
    /// After how long without use a language server ends.
    pub idle_stop: Duration,
    /// New servers, and changes to those of the built-in table, by name.
    pub servers: BTreeMap<String, LspServerConfig>,
}

impl Default for LspConfig {
    fn default() -> Self {
        Self { diagnostics_after_edit: true, idle_stop: Duration::from_secs(600), servers: BTreeMap::new() }
    }
}

/// `[lsp.NAME]`. What is `None` is that of the built-in server of this name.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct LspServerConfig {
    /// Program and arguments.
    pub command: Option<Vec<String>>,
    /// File name extensions it serves, without a dot; taken away from other servers.
    pub extensions: Option<Vec<String>>,
    /// Names of files that mark the root of a project.
    pub root_markers: Option<Vec<String>>,
}

/// `[mcp.NAME]`.
#[derive(Clone, Debug, PartialEq)]
pub struct McpServerConfig {
    /// How it is reached.
    pub transport: McpTransport,
}

/// How an MCP server is reached.
#[derive(Clone, Debug, PartialEq)]
pub enum McpTransport {
    /// As a child process.
    Stdio {
        /// Program and arguments.
        command: Vec<String>,
        /// Variables set for it.
        env: BTreeMap<String, String>,
    },
    /// Streamable HTTP.
    Http {
        /// Its address.
        url: String,
        /// Headers of each request.
        headers: BTreeMap<String, String>,
    },
}

/// `[web]`.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct WebConfig {
    /// Hosts, addresses and CIDR ranges that may be fetched although they are private.
    pub allow_private: Vec<String>,
    /// Where `web_search` searches; `None` is nowhere.
    pub search: Option<WebSearchConfig>,
}

/// `[web.search]`.
#[derive(Clone, Debug, PartialEq)]
pub struct WebSearchConfig {
    /// What the endpoint speaks.
    pub kind: WebSearchKind,
    /// Its address; `None` is the public one, which SearXNG has not.
    pub url: Option<String>,
    /// Environment variable that holds its key; `None` is the usual one of its kind.
    pub api_key_env: Option<String>,
}

/// What a search endpoint speaks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WebSearchKind {
    /// A SearXNG instance with its JSON format on.
    Searxng,
    /// Brave Search.
    Brave,
    /// Tavily.
    Tavily,
}

/// `[subagents.NAME]`.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct SubagentConfig {
    /// Program and arguments.
    pub command: Vec<String>,
    /// Variables set for it.
    pub env: BTreeMap<String, String>,
}

/// `[skills]`.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct SkillsConfig {
    /// Folders of skills beside the usual ones, absolute; the earlier one wins a name.
    pub directories: Vec<PathBuf>,
}

/// `[hooks]`.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct HooksConfig {
    /// The file that lists them, absolute; `None` is no hooks.
    pub file: Option<PathBuf>,
}

/// `[protocol]`.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct ProtocolConfig {
    /// Whether the draft of version 2 is offered.
    pub v2: bool,
}

/// A configuration and what happened to the workspace's part of it.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Loaded {
    /// Every setting.
    pub config: Config,
    /// What the workspace's file says that was not taken; empty without such a file.
    pub ignored: Vec<Problem>,
}

/// Something in a configuration that was not taken.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Problem {
    /// The file, absolute; `None` is the environment.
    pub file: Option<PathBuf>,
    /// 1-based line; `None` when the whole file or the environment is meant.
    pub line: Option<usize>,
    /// The key with dots, the variable's name, or empty.
    pub key: String,
    /// What is wrong with it and what would be right.
    pub message: String,
}

impl fmt::Display for Problem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some(file) = &self.file {
            write!(f, "{}", file.display())?;
            if let Some(line) = self.line {
                write!(f, ":{line}")?;
            }
            f.write_str(": ")?;
        }
        if !self.key.is_empty() {
            write!(f, "{}: ", self.key)?;
        }
        f.write_str(&self.message)
    }
}

/// Everything that is wrong with a configuration; never empty.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ConfigError {
    /// In the order of the layers and lines.
    pub problems: Vec<Problem>,
}

impl fmt::Display for ConfigError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (idx, problem) in self.problems.iter().enumerate() {
            if idx > 0 {
                f.write_str("\n")?;
            }
            write!(f, "{problem}")?;
        }
        Ok(())
    }
}

impl std::error::Error for ConfigError {}

/// A variable of the environment; `None` when unset.
pub type Environment<'a> = &'a dyn Fn(&str) -> Option<String>;

/// The environment of this process.
pub fn process_environment(name: &str) -> Option<String> {
    std::env::var(name).ok()
}

impl Config {
    /// Loads every layer; without `workspace`, an absolute folder, only the user's and the environment.
    ///
    /// A faulty file of a workspace that is not trusted is no error: nothing of it is taken, and that is said in
    /// [`Loaded::ignored`].
    ///
    /// # Errors
    /// All problems of the user's file, a trusted workspace's file and the environment.
    pub fn load(
        paths: &Paths,
        workspace: Option<&Path>,
        environment: Environment<'_>,
    ) -> Result<Loaded, ConfigError> {
        let mut loaded = Loaded::default();
        let mut problems = Vec::new();
        let user = sections::read_file(&paths.config_file(), sections::Layer::User, paths, &loaded.config);
        loaded.config = user.config;
        problems.extend(user.problems);

        // Working in the folder that holds the user's own file must not load it a second time.
        let file = workspace
            .map(|folder| folder.join(".followspot/config.toml"))
            .filter(|file| *file != paths.config_file());
        if let (Some(file), Some(workspace)) = (file, workspace) {
            let is_trusted = loaded.config.trusts(workspace);
            let layer = if is_trusted { sections::Layer::Trusted } else { sections::Layer::Untrusted };
            let read = sections::read_file(&file, layer, paths, &loaded.config);
            loaded.ignored = read.ignored;
            match (is_trusted, read.problems.is_empty()) {
                (true, _) => {
                    loaded.config = read.config;
                    problems.extend(read.problems);
                }
                (false, true) => loaded.config = read.config,
                (false, false) => loaded.ignored = read.problems,
            }
        }

        sections::read_environment(environment, &mut loaded.config, &mut problems);
        if problems.is_empty() { Ok(loaded) } else { Err(ConfigError { problems }) }
    }

    /// Whether the user trusts the configuration in this folder, absolute. Links are followed first.
    pub fn trusts(&self, folder: &Path) -> bool {
        let real = |path: &Path| path.canonicalize().unwrap_or_else(|_| path.to_owned());
        let folder = real(folder);
        self.trusted_folders.iter().any(|trusted| folder.starts_with(real(trusted)))
    }
}
