//! The sessions of one connection, and what each is made of.

use super::client::{ClientLink, ClientProfile};
use super::client_approval::ClientApproval;
use super::client_file_system::ClientFileSystem;
use super::client_questions::ClientQuestions;
use super::client_shell::ClientShell;
use super::commands::{DiagnosticsCommand, McpCommand, SessionsCommand};
use super::mcp::{specs_of_client, specs_of_config};
use super::outbox::Outbox;
use super::stored::Doors;
use super::view::{FindTool, SessionView, ViewObserver, ViewParts, card_of};
use crate::config::{Config, Loaded, Paths, ShellBackend, process_environment};
use agent::commands::Command;
use agent::inbox::Injected;
use agent::session::{Session, SessionParts};
use agent::state::SessionState;
use agent::subagents::{Family, FamilyParts};
use agent_client_protocol::v1::schema::{McpServer, SessionId as WireSessionId};
use pipeline::policies::hooks::Hooks;
use pipeline::registry::Scope;
use pipeline::schedule::Pipeline;
use presenters::commands::{SlashCommand, present_commands};
use presenters::{PresentContext, TerminalStyle};
use protocol::event::{LOG_VERSION, SessionHeader};
use protocol::id::{MessageId, SessionId};
use protocol::message::{ContextForm, MessageSource};
use provider_local::{LocalFileSystem, LocalSearch};
use provider_lsp::{ServerChange, SessionServers, TellingFiles};
use services::Services;
use services::attachments::Attachments;
use services::clock::Clock;
use services::file_system::FileSystem;
use services::mcp_servers::{McpServerSpec, McpServers, McpSession};
use services::model::Models;
use services::sandbox::Sandbox;
use services::session_store::{SessionStore, StoreError};
use services::shell::Shell;
use services::skills::Skills;
use services::spill::Spill;
use services::web::Web;
use std::collections::HashMap;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};
use tools::mcp::{McpTools, absent_tool};
use tools::subagent::structured_output::StructuredOutput;

/// Stored keys, as far as the connection touches them.
pub trait Credentials: Send + Sync {
    /// Removes every stored key.
    ///
    /// # Errors
    /// The file could not be changed.
    fn forget(&self) -> std::io::Result<()>;
}

/// What every session shares.
pub struct ServerParts {
    /// The user's configuration.
    pub config: Config,
    /// Stored sessions.
    pub store: Arc<dyn SessionStore>,
    /// The index over it, opened at the first search.
    pub session_index: Option<Arc<dyn services::session_query::SessionIndex>>,
    /// Models to choose from.
    pub models: Arc<dyn Models>,
    /// Tools and policies.
    pub pipeline: Arc<Pipeline>,
    /// Time.
    pub clock: Arc<dyn Clock>,
    /// The language servers of all sessions.
    pub language_servers: Arc<provider_lsp::Pool>,
    /// Where oversized results go.
    pub spill: Arc<dyn Spill>,
    /// Where images go.
    pub attachments: Arc<dyn Attachments>,
    /// The user's hooks.
    pub hooks: Option<Arc<Hooks>>,
    /// What the user must know about the configuration, in each session.
    pub problems: Vec<String>,
    /// Servers with tools of their own.
    pub mcp_servers: Arc<dyn McpServers>,
    /// Pages and searches.
    pub web: Option<Arc<dyn Web>>,
    /// Instructions in files.
    pub skills: Arc<dyn Skills>,
    /// Stored keys.
    pub credentials: Arc<dyn Credentials>,
    /// Commands as our own children.
    pub local_shell: Arc<dyn Shell>,
    /// Runs programs.
    pub programs: Arc<dyn services::code_runtime::CodeRuntime>,
    /// Lasting terminals of all sessions.
    pub terminals: Arc<dyn services::terminals::Terminals>,
    /// Confines commands, whoever runs them.
    pub sandbox: Arc<dyn Sandbox>,
    /// Where the program keeps its files.
    pub paths: Paths,
    /// The user's own instructions for every workspace.
    pub instructions_file: Option<PathBuf>,
}

/// The sessions of one connection.
pub struct Server {
    parts: ServerParts,
    outbox: Outbox,
    client: OnceLock<(ClientProfile, ClientLink)>,
    sessions: Mutex<HashMap<SessionId, Arc<OpenSession>>>,
    /// The sessions and the agents they start.
    family: Arc<Family>,
    pub(super) doors: Doors,
}

/// A session and its view.
pub struct OpenSession {
    /// The session.
    pub session: Arc<Session>,
    /// What its client sees.
    pub view: Arc<SessionView>,
    /// What the user must be told about the session and its folder's configuration, once.
    told: Mutex<Vec<String>>,
    /// The slash commands the client knows of.
    told_commands: Mutex<Option<Vec<SlashCommand>>>,
    mcp: Arc<dyn McpSession>,
    /// Servers of the configuration; those of the client come before them.
    configured_mcp: Vec<McpServerSpec>,
    /// The session's own tools are registered in it.
    _scope: Scope,
    clock: Arc<dyn Clock>,
    outbox: Outbox,
    family: Arc<Family>,
}

impl OpenSession {
    /// Stops the turn that runs, the prompts that wait, and the agents it started. Returns at once.
    pub fn cancel(&self) {
        self.session.cancel();
        self.family.stop_below(&self.session.scope().session_id);
    }

    /// Ends the session and the agents it started.
    pub async fn close(&self) {
        self.family.leave(&self.session.scope().session_id).await;
        self.session.close().await;
    }

    /// Starts to connect the client's MCP servers and those of the configuration that have other names. Returns at once;
    /// servers that are known already stay as they are.
    pub fn connect_mcp(&self, servers: &[McpServer]) {
        self.mcp.connect(specs_of_client(servers));
        self.mcp.connect(self.configured_mcp.clone());
    }

    /// Tells the user what must be known about the session and its folder, the first time this is called.
    pub fn tell_once(&self) {
        let told = std::mem::take(&mut *self.told.lock().unwrap_or_else(PoisonError::into_inner));
        if !told.is_empty() {
            self.tell(&format!("{}\n", told.join("\n")));
        }
    }

    /// Tells the client which slash commands there are, unless it knows.
    pub async fn tell_commands(&self) {
        let commands = self.commands().await;
        let mut told = self.told_commands.lock().unwrap_or_else(PoisonError::into_inner);
        if told.as_ref() != Some(&commands) {
            self.outbox.update(&self.view, present_commands(&commands));
            *told = Some(commands);
        }
    }

    /// Tells the client which slash commands there are, although it was told before: it opened the session anew.
    pub async fn tell_commands_again(&self) {
        self.told_commands.lock().unwrap_or_else(PoisonError::into_inner).take();
        self.tell_commands().await;
    }

    /// The slash commands, then the skills that a person may load by name.
    async fn commands(&self) -> Vec<SlashCommand> {
        let slash = |command: Command| SlashCommand {
            name: command.name.to_owned(),
            description: command.description.to_owned(),
            hint: command.hint.map(str::to_owned),
        };
        let mut commands: Vec<SlashCommand> = self.session.commands().into_iter().map(slash).collect();
        if self.session.model().0.provider == "offline" {
            // Some editors refuse a line that starts with a command they were not told of.
            commands.push(SlashCommand {
                name: "tool".to_owned(),
                description: "Run a tool by hand, through the whole pipeline".to_owned(),
                hint: Some("NAME {\"argument\": \"value\"}".to_owned()),
            });
        }
        let scope = self.session.scope();
        if let Some(skills) = &scope.services.skills {
            for skill in skills.list(&scope.cwd).await.skills {
                if skill.for_user && commands.iter().all(|command| command.name != skill.name) {
                    let hint = Some("what to do with it".to_owned());
                    commands.push(SlashCommand { name: skill.name, description: skill.description, hint });
                }
            }
        }
        commands
    }

    /// Tells the user something, outside any turn. Shown, not logged: it concerns this connection alone.
    pub fn tell(&self, text: &str) {
        let id = MessageId::new(format!("msg_{}", self.clock.fresh_id()));
        self.outbox.update(&self.view, presenters::present_text(&id, text));
    }
}

impl Server {
    /// A server without sessions.
    pub fn new(parts: ServerParts, outbox: Outbox) -> Self {
        let family = Family::new(FamilyParts {
            store: parts.store.clone(),
            report: tools::subagent::report(),
            structured_output: Box::new(|schema| Arc::new(StructuredOutput::new(schema))),
        });
        Self {
            parts,
            outbox,
            client: OnceLock::new(),
            sessions: Mutex::default(),
            family,
            doors: Doors::default(),
        }
    }

    /// What every session shares.
    pub fn parts(&self) -> &ServerParts {
        &self.parts
    }

    /// What goes to the client.
    pub fn outbox(&self) -> &Outbox {
        &self.outbox
    }

    /// A client said what it can do. The first word counts.
    pub fn connected(&self, profile: ClientProfile, link: ClientLink) {
        if self.client.set((profile, link)).is_err() {
            tracing::warn!("initialize was sent twice; the first one counts");
        }
    }

    /// Whether images may be offered: prompt capabilities are fixed for the connection.
    pub fn default_model_takes_images(&self) -> bool {
        let models = &self.parts.models;
        models.info(&models.default_model()).takes_images == Some(true)
    }

    /// The open session with this id.
    pub fn session(&self, id: &WireSessionId) -> Option<Arc<OpenSession>> {
        self.lock().get(&SessionId::new(id.0.as_ref())).cloned()
    }

    /// Takes a session out, to close it.
    pub fn forget(&self, id: &WireSessionId) -> Option<Arc<OpenSession>> {
        self.lock().remove(&SessionId::new(id.0.as_ref()))
    }

    /// Creates a session; it is on disk when this returns.
    ///
    /// # Errors
    /// The store refused.
    pub async fn new_session(
        &self,
        cwd: PathBuf,
        additional_directories: Vec<PathBuf>,
    ) -> Result<Arc<OpenSession>, StoreError> {
        let header = SessionHeader {
            version: LOG_VERSION,
            id: SessionId::new(format!("ses_{}", self.parts.clock.fresh_id())),
            created_at: self.parts.clock.now_ms(),
            cwd,
            additional_directories,
            parent_session: None,
            delegation_depth: 0,
        };
        let log = self.parts.store.create(header.clone()).await?;
        Ok(self.open(header, log, Vec::new(), Vec::new()))
    }

    /// Ends every session, all at once.
    pub async fn close(&self) {
        let sessions: Vec<_> = self.lock().drain().map(|(_, open)| open).collect();
        let closing = futures::future::join_all(sessions.iter().map(|open| open.close()));
        // Language servers get their own share of the budget, whatever a session still waits for.
        futures::join!(closing, self.parts.language_servers.close());
    }

    /// A session's language servers, and its files, which tell them what is written.
    fn language_servers(
        &self,
        config: &Config,
        cwd: &std::path::Path,
        roots: Vec<PathBuf>,
        files: Arc<dyn FileSystem>,
    ) -> (Arc<dyn FileSystem>, Arc<SessionServers>) {
        let changes = config.lsp.servers.iter().map(|(name, server)| {
            let change = ServerChange {
                command: server.command.clone(),
                extensions: server.extensions.clone(),
                root_markers: server.root_markers.clone(),
            };
            (name.clone(), change)
        });
        let session = provider_lsp::SessionParts {
            roots,
            files: files.clone(),
            servers: provider_lsp::table::servers(changes),
            is_trusted: config.trusts(cwd),
            diagnostics_after_edit: config.lsp.diagnostics_after_edit,
        };
        let servers = Arc::new(SessionServers::new(self.parts.language_servers.clone(), session));
        (Arc::new(TellingFiles::new(files, servers.clone())), servers)
    }

    /// Opens a session over its log and its records; `told` is what the user must know about it.
    pub(super) fn open(
        &self,
        header: SessionHeader,
        log: Arc<dyn services::session_store::SessionLog>,
        records: Vec<protocol::event::Record>,
        mut told: Vec<String>,
    ) -> Arc<OpenSession> {
        let parts = &self.parts;
        let id = header.id.clone();
        let (config, ignored) = self.workspace_config(&header.cwd);
        told.extend(ignored);
        told.extend(parts.problems.iter().cloned());
        let default_mode = config.session.mode;
        let (preset, plan) = SessionState::initial_mode(default_mode);
        let mut roots = vec![header.cwd.clone()];
        roots.extend(header.additional_directories.iter().cloned());
        let (profile, link) = match self.client.get() {
            Some((profile, link)) => (profile.clone(), Some(link.clone())),
            None => (ClientProfile::default(), None),
        };
        let client_terminals = config.shell.backend != ShellBackend::Local;
        let context = PresentContext {
            cwd: header.cwd.clone(),
            roots: roots.clone(),
            terminals: profile.terminal_style(client_terminals),
            quirks: profile.quirks,
            ..PresentContext::default()
        };
        let scope = parts.pipeline.registry().open_scope(None);
        let key = Some(scope.key());
        let mcp = parts.mcp_servers.open(header.cwd.clone());
        let disabled = config.tools.disable.iter().cloned().collect();
        let mcp_tools = McpTools::new(mcp.clone(), parts.pipeline.registry().clone(), scope.key(), disabled);
        let find_tool: FindTool = {
            let pipeline = parts.pipeline.clone();
            Arc::new(move |name| pipeline.registry().get(name, key, None).or_else(|| absent_tool(name)))
        };
        let parts_of_view = ViewParts {
            session_id: header.id.clone(),
            context: context.clone(),
            display_terminals: profile.display_terminals,
            find_tool: find_tool.clone(),
            blobs: log.blobs(),
            models: parts.models.clone(),
            attachments: parts.attachments.clone(),
            initial: SessionState::new(preset, plan),
            outbox: self.outbox.clone(),
        };
        let view = SessionView::new(parts_of_view, &records);

        let local_files = Arc::new(LocalFileSystem::new(header.cwd.clone()));
        let local_shell = parts.local_shell.clone();
        let stop: Arc<OnceLock<std::sync::Weak<Session>>> = Arc::default();
        let files: Arc<dyn FileSystem> = match &link {
            Some(link) if profile.files => Arc::new(ClientFileSystem::new(
                link.clone(),
                header.id.clone(),
                local_files,
                roots.clone(),
                parts.clock.clone(),
            )),
            _ => local_files,
        };
        let (files, language_servers) = self.language_servers(&config, &header.cwd, roots, files);
        let mut services = Services {
            files,
            shell: local_shell.clone(),
            approval: Arc::new(super::client_approval::NoApproval),
            questions: None,
            search: Arc::new(LocalSearch::default()),
            language_servers: Some(language_servers.clone()),
            spill: parts.spill.clone(),
            attachments: parts.attachments.clone(),
            blobs: log.blobs(),
            web: parts.web.clone(),
            jobs: None,
            goals: None,
            schedules: None,
            skills: Some(parts.skills.clone()),
            subagents: Some(self.family.of(id.clone())),
            programs: Some(parts.programs.clone()),
            terminals: Some(parts.terminals.clone()),
            sessions: Some(parts.store.clone()),
            session_index: parts.session_index.clone(),
            clock: parts.clock.clone(),
        };
        if let Some(link) = link {
            if context.terminals == TerminalStyle::Client {
                services.shell = Arc::new(ClientShell::new(
                    link.clone(),
                    header.id.clone(),
                    profile.command_form,
                    parts.sandbox.clone(),
                    local_shell,
                    parts.clock.clone(),
                ));
            }
            let card_of_call = {
                let find_tool = find_tool.clone();
                Arc::new(move |name: &str, arguments: &_| card_of(&find_tool, name, arguments))
            };
            services.approval = Arc::new(ClientApproval::new(link.clone(), context.clone(), card_of_call));
            let stop_all = {
                let (stop, family, id) = (stop.clone(), self.family.clone(), id.clone());
                Arc::new(move || {
                    if let Some(session) = stop.get().and_then(std::sync::Weak::upgrade) {
                        session.cancel();
                        family.stop_below(&id);
                    }
                })
            };
            services.questions = Some(Arc::new(ClientQuestions::new(link, context, profile.forms, stop_all)));
        }
        let cwd = header.cwd.clone();
        let session = Session::open(SessionParts {
            header,
            log,
            records,
            services,
            models: parts.models.clone(),
            pipeline: parts.pipeline.clone(),
            scope: key,
            tool_source: Some(Arc::new(mcp_tools)),
            hooks: parts.hooks.clone(),
            observer: Arc::new(ViewObserver(view.clone())),
            default_mode,
            network: config.sandbox.network,
            instructions_file: parts.instructions_file.clone(),
            max_turn_requests: config.session.max_turn_requests.map(u64::from),
            model_titles: config.session.model_titles,
            commands: vec![
                Arc::new(McpCommand(mcp.clone())),
                Arc::new(DiagnosticsCommand(language_servers.clone())),
                Arc::new(SessionsCommand { store: parts.store.clone(), cwd }),
            ],
            parent: None,
        });
        let inbox = Arc::downgrade(session.inbox());
        language_servers.tell_late_findings(Box::new(move |key, text| {
            let Some(inbox) = inbox.upgrade() else { return };
            inbox.retract(key);
            if !text.is_empty() {
                inbox.push(Injected {
                    key: key.to_owned(),
                    source: MessageSource::Plugin {
                        plugin: "language-servers".to_owned(),
                        form: ContextForm::Notice,
                    },
                    text,
                    wakes: false,
                });
            }
        }));
        let open = Arc::new(OpenSession {
            session: session.clone(),
            view,
            told: Mutex::new(told),
            told_commands: Mutex::default(),
            mcp,
            configured_mcp: specs_of_config(&config),
            _scope: scope,
            clock: parts.clock.clone(),
            outbox: self.outbox.clone(),
            family: self.family.clone(),
        });
        self.family.enter(&session);
        // Set once, right here: the questions' stop cannot run before the session does.
        let _ = stop.set(Arc::downgrade(&session));
        self.lock().insert(id, open.clone());
        open
    }

    /// The configuration for a folder, and what the user must be told about it.
    fn workspace_config(&self, cwd: &std::path::Path) -> (Config, Vec<String>) {
        match Config::load(&self.parts.paths, Some(cwd), &process_environment) {
            Ok(Loaded { config, ignored }) => (config, ignored.iter().map(ToString::to_string).collect()),
            Err(error) => (
                self.parts.config.clone(),
                vec![format!("The configuration of this folder is not used: {error}")],
            ),
        }
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<SessionId, Arc<OpenSession>>> {
        self.sessions.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
