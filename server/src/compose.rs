//! Who implements what: the only place that names concrete providers.

use crate::acp::{Credentials, ServerParts};
use crate::config::{self, Config, Paths, ProviderConfig, WebSearchKind, WireFormat, process_environment};
use anyhow::Context;
use pipeline::policies::hooks::{HookSettings, Hooks};
use pipeline::policies::permission::{PermissionOptions, PermissionPolicy};
use pipeline::policies::repeat::RepeatReminder;
use pipeline::policies::spill::SpillPolicy;
use pipeline::policies::timeout::TimeoutPolicy;
use pipeline::policy::Policy;
use pipeline::registry::{CodeMode, Registration, Registry};
use pipeline::run::Pipeline;
use provider_code_runtime::QuickJsRuntime;
use provider_index::SqliteIndex;
use provider_llm::{LlmConfig, LlmModels};
use provider_local::{
    LocalAttachments, LocalHooks, LocalShell, LocalSkills, LocalSpill, SkillPlaces, SystemClock,
};
use provider_mcp::LocalMcpServers;
use provider_sandbox::ExecSandbox;
use provider_store::JsonlSessionStore;
use provider_web::{HttpWeb, SearchKind, SearchSettings, WebSettings};
use services::clock::Clock;
use services::model::Models;
use services::sandbox::{Sandbox, SandboxLevel};
use std::path::PathBuf;
use std::sync::Arc;
use tools::{ToolChoice, all_tools};

/// Our subcommand that confines a command and then becomes it.
pub const SANDBOX_EXEC: &str = "sandbox-exec";

/// What the server is made of, from the user's configuration.
///
/// # Errors
/// The configuration is wrong, or this user has no home.
pub fn server_parts() -> anyhow::Result<ServerParts> {
    let paths = Paths::from_environment().map_err(anyhow::Error::msg)?;
    let config =
        Config::load(&paths, None, &process_environment).context("the configuration is not valid")?.config;
    server_parts_in(paths, config)
}

/// What the server is made of when its files are in these places.
///
/// # Errors
/// The tools cannot be registered, or this program cannot find its own file.
pub fn server_parts_in(paths: Paths, config: Config) -> anyhow::Result<ServerParts> {
    let clock: Arc<dyn Clock> = Arc::new(SystemClock);
    let attachments = Arc::new(LocalAttachments::new(paths.data.join("attachments")));
    let exe = std::env::current_exe().context("this program cannot find its own file")?;
    let sandbox =
        Arc::new(ExecSandbox::new(vec![exe.to_string_lossy().into_owned(), SANDBOX_EXEC.to_owned()]));
    let (hooks, problems) = hooks(&config);
    let store = Arc::new(JsonlSessionStore::new(paths.sessions()));
    Ok(ServerParts {
        session_index: Some(Arc::new(SqliteIndex::new(&paths.data, store.clone()))),
        store,
        models: models(&config, &paths, attachments.clone()),
        pipeline: Arc::new(pipeline(&config, &*sandbox, hooks.clone())?),
        hooks,
        problems,
        language_servers: Arc::new(language_servers(&config)),
        spill: Arc::new(LocalSpill::new(paths.state.join("spill"))),
        mcp_servers: Arc::new(LocalMcpServers),
        web: Some(Arc::new(HttpWeb::new(web_settings(&config), search_keys(&paths)))),
        credentials: Arc::new(StoredKeys(paths.credentials_file())),
        local_shell: Arc::new(LocalShell::new(sandbox.clone())),
        programs: Arc::new(QuickJsRuntime),
        terminals: Arc::new(provider_local::LocalTerminals::new(sandbox.clone())),
        sandbox,
        skills: Arc::new(LocalSkills::new(skill_places(&config, &paths))),
        instructions_file: Some(paths.config.join("AGENTS.md")),
        clock,
        attachments,
        config,
        paths,
    })
}

/// Where skills are, beside the project's own.
fn skill_places(config: &Config, paths: &Paths) -> SkillPlaces {
    let agents = process_environment("FOLLOWSPOT_AGENTS_HOME").map(PathBuf::from);
    SkillPlaces {
        custom: config.skills.directories.clone(),
        user: paths.config.join("skills"),
        agents: agents.unwrap_or_else(|| paths.home.join(".agents")).join("skills"),
    }
}

/// The language servers of the connection, and the one in this program for languages without one.
fn language_servers(config: &Config) -> provider_lsp::Pool {
    let options =
        provider_lsp::LspOptions { idle: config.lsp.idle_stop, ..provider_lsp::LspOptions::default() };
    provider_lsp::Pool::new(options).with_fallback(provider_lsp::Fallback {
        extensions: provider_lsp_builtin::extensions(),
        serve: Arc::new(|stream| Box::pin(provider_lsp_builtin::serve(stream))),
    })
}

/// What the web tools reach, from the configuration and the environment.
fn web_settings(config: &Config) -> WebSettings {
    WebSettings {
        allow_private: config.web.allow_private.clone(),
        search: config.web.search.as_ref().map(|search| SearchSettings {
            kind: match search.kind {
                WebSearchKind::Searxng => SearchKind::Searxng,
                WebSearchKind::Brave => SearchKind::Brave,
                WebSearchKind::Tavily => SearchKind::Tavily,
            },
            url: search.url.clone(),
            api_key_env: search.api_key_env.clone(),
        }),
        search_provider: process_environment("FOLLOWSPOT_WEB_SEARCH_PROVIDER"),
        fetch_provider: process_environment("FOLLOWSPOT_WEB_FETCH_PROVIDER"),
    }
}

/// The keys of web searches: as those of models, the environment first, then what `followspot login` stored.
fn search_keys(paths: &Paths) -> provider_web::Keys {
    let credentials = provider_llm::Credentials::new(Some(paths.credentials_file()));
    Arc::new(move |search, variable| {
        let key = credentials.key(search, &[variable.to_owned()])?;
        Some(key.expose().to_owned())
    })
}

/// The models that the configuration and the environment offer.
pub fn models(
    config: &Config,
    paths: &Paths,
    attachments: Arc<dyn services::attachments::Attachments>,
) -> Arc<dyn Models> {
    let providers =
        config.providers.iter().map(|(name, provider)| (name.clone(), provider_of(provider))).collect();
    Arc::new(LlmModels::new(
        LlmConfig {
            default: config.model.default.as_ref().map(ToString::to_string),
            idle_timeout: config.model.idle_timeout,
            providers,
        },
        provider_llm::Credentials::new(Some(paths.credentials_file())),
        Some(attachments),
    ))
}

fn provider_of(provider: &ProviderConfig) -> provider_llm::ProviderConfig {
    provider_llm::ProviderConfig {
        base_url: provider.base_url.clone(),
        api_key_env: provider.api_key_env.clone(),
        kind: provider.kind.map(|kind| match kind {
            WireFormat::OpenAi => provider_llm::ProviderKind::Openai,
            WireFormat::Anthropic => provider_llm::ProviderKind::Anthropic,
        }),
        takes_images: provider.takes_images,
        context_window: provider.context_window,
    }
}

/// Every tool that is switched on, and the policies; the earlier one is outside the later.
fn pipeline(config: &Config, sandbox: &dyn Sandbox, hooks: Option<Arc<Hooks>>) -> anyhow::Result<Pipeline> {
    let registry = Registry::new();
    let choice = ToolChoice {
        enable: config.tools.enable.iter().map(|family| family.id().to_owned()).collect(),
        disable: config.tools.disable.iter().cloned().collect(),
    };
    for tool in all_tools(&choice) {
        registry.register(None, tool, Registration::default())?.keep();
    }
    // The engine itself is built by the first program.
    registry.provide_run_code(tools::code::run_code(Some(Arc::new(QuickJsRuntime))))?.keep();
    let code_mode = match config.tools.code_mode {
        config::CodeMode::Native => CodeMode::Native,
        config::CodeMode::Code => CodeMode::Code,
        config::CodeMode::Both => CodeMode::Both,
    };
    registry.set_code_mode(None, code_mode)?.keep();
    let mut policies: Vec<Arc<dyn Policy>> = vec![
        Arc::new(SpillPolicy::default()),
        Arc::new(RepeatReminder::default()),
        Arc::new(PermissionPolicy::new(PermissionOptions {
            can_confine_commands: sandbox.support().level != SandboxLevel::None,
            temporary_folders: vec![PathBuf::from("/tmp"), std::env::temp_dir()],
        })),
    ];
    policies.extend(hooks.map(|hooks| hooks as Arc<dyn Policy>));
    policies.push(Arc::new(TimeoutPolicy));
    for policy in policies {
        registry.add_policy(None, policy)?.keep();
    }
    Ok(Pipeline::new(registry))
}

/// The hooks of the user's file, and what of it was not taken; a file that is not used at all is one problem.
fn hooks(config: &Config) -> (Option<Arc<Hooks>>, Vec<String>) {
    let Some(file) = &config.hooks.file else { return (None, Vec::new()) };
    let read = std::fs::read_to_string(file).map_err(|error| error.to_string());
    match read.and_then(|text| HookSettings::parse(&text)) {
        Ok(settings) => {
            let problems =
                settings.problems.iter().map(|problem| format!("{}: {problem}", file.display())).collect();
            (Some(Arc::new(Hooks::new(settings, Arc::new(LocalHooks)))), problems)
        }
        Err(error) => (None, vec![format!("The hooks in {} are not used: {error}", file.display())]),
    }
}

/// The file of stored keys.
struct StoredKeys(PathBuf);

impl Credentials for StoredKeys {
    fn forget(&self) -> std::io::Result<()> {
        match std::fs::remove_file(&self.0) {
            Err(error) if error.kind() != std::io::ErrorKind::NotFound => Err(error),
            _ => Ok(()),
        }
    }
}
