//! Every key of a configuration file: its place, its form, and what it takes to set it.
//!
//! Whoever clones a repository must be able to open it without harm. So a workspace that is not trusted can narrow what
//! the agent may do, and set what concerns only looks and timing; it cannot name a command, an address, a key, a server
//! or a model, nor widen a permission. Hooks, trust and the protocol are the user's alone.

pub(super) use super::document::Layer;
use super::document::{Document, Need, Section};
use super::{
    CodeMode, Config, Environment, McpServerConfig, McpTransport, Paths, Problem, ShellBackend,
    SubagentConfig, WebSearchConfig, WebSearchKind, WireFormat, values,
};
use protocol::mode::Mode;
use protocol::model::ModelRef;
use std::path::Path;
use toml::de::DeValue;

/// Providers that need no `[providers]` table. `offline` cannot have one.
const BUILT_IN_PROVIDERS: [&str; 6] = ["deepseek", "openai", "anthropic", "openrouter", "ollama", OFFLINE];

/// The embedded model.
const OFFLINE: &str = "offline";

/// A configuration with one more layer on it.
pub(super) struct ReadFile {
    pub config: Config,
    pub problems: Vec<Problem>,
    pub ignored: Vec<Problem>,
}

/// Lays `file` over `below`; a missing file changes nothing.
pub(super) fn read_file(file: &Path, layer: Layer, paths: &Paths, below: &Config) -> ReadFile {
    let mut config = below.clone();
    let text = match std::fs::read_to_string(file) {
        Ok(text) => text,
        Err(error)
            if matches!(error.kind(), std::io::ErrorKind::NotFound | std::io::ErrorKind::NotADirectory) =>
        {
            return ReadFile { config, problems: vec![], ignored: vec![] };
        }
        Err(error) => {
            let message = format!("cannot be read: {error}");
            let problem = Problem { file: Some(file.to_owned()), line: None, key: String::new(), message };
            return ReadFile { config, problems: vec![problem], ignored: vec![] };
        }
    };
    let mut document = Document::new(file, &text, layer);
    document.read(|root| read_root(root, &mut config, paths));
    let Document { problems, ignored, .. } = document;
    ReadFile { config, problems, ignored }
}

/// Lays the environment over `config`.
pub(super) fn read_environment(
    environment: Environment<'_>,
    config: &mut Config,
    problems: &mut Vec<Problem>,
) {
    let mut set = |name: &str, take: &mut dyn FnMut(&DeValue<'_>) -> Result<(), String>| {
        let Some(text) = environment(name).filter(|text| !text.trim().is_empty()) else { return };
        if let Err(message) = take(&DeValue::String(text.trim().into())) {
            problems.push(Problem { file: None, line: None, key: name.to_owned(), message });
        }
    };
    set("FOLLOWSPOT_MODEL", &mut |value| {
        config.model.default = Some(known_model(value, config)?);
        Ok(())
    });
    set("FOLLOWSPOT_PERMISSION_MODE", &mut |value| {
        config.session.mode = values::mode(value)?;
        Ok(())
    });
    set("FOLLOWSPOT_MODEL_TITLES", &mut |value| {
        config.session.model_titles = values::one_of(value, &[("on", true), ("off", false)])?;
        Ok(())
    });
}

fn read_root(root: &mut Section<'_, '_>, config: &mut Config, paths: &Paths) {
    let folder = |value: &DeValue<'_>| values::text(value).map(|text| paths.expand(&text, &paths.home));
    take(
        &mut config.trusted_folders,
        root.value("trusted_folders", Need::User, |value| values::list(value, folder)),
    );
    // Before `model`, which may name one of them.
    root.named_sections("providers", Need::Trust, |name, section| read_provider(name, section, config));
    root.section("model", Need::Nothing, |section| {
        let default = section.value("default", Need::Trust, |value| known_model(value, config));
        if default.is_some() {
            config.model.default = default;
        }
        take(&mut config.model.idle_timeout, section.value("idle_timeout", Need::Nothing, values::duration));
    });
    root.section("shell", Need::Nothing, |section| {
        let backends =
            [("auto", ShellBackend::Auto), ("client", ShellBackend::Client), ("local", ShellBackend::Local)];
        let backend = section.value("backend", Need::Nothing, |value| values::one_of(value, &backends));
        take(&mut config.shell.backend, backend);
        take(&mut config.shell.persistent, section.value("persistent", Need::Nothing, values::boolean));
    });
    root.section("tools", Need::Nothing, |section| read_tools(section, config));
    root.section("sandbox", Need::Nothing, |section| {
        let networks = [("allow", true), ("deny", false)];
        let network = section.value("network", Need::Nothing, |value| values::one_of(value, &networks));
        let is_wider = network == Some(true) && !config.sandbox.network;
        narrow(&mut config.sandbox.network, network, is_wider, "network", section);
    });
    root.section("session", Need::Nothing, |section| {
        let mode = section.value("mode", Need::Nothing, values::mode);
        let is_wider = mode.is_some_and(|mode| width(mode) > width(config.session.mode));
        narrow(&mut config.session.mode, mode, is_wider, "mode", section);
        let most = section.value("max_turn_requests", Need::Nothing, values::positive::<u32>);
        let is_wider = match (most, config.session.max_turn_requests) {
            (Some(new), Some(old)) => new > old,
            _ => false,
        };
        narrow(&mut config.session.max_turn_requests, most.map(Some), is_wider, "max_turn_requests", section);
        let titles = section.value("model_titles", Need::Nothing, values::boolean);
        let is_wider = titles == Some(true) && !config.session.model_titles;
        narrow(&mut config.session.model_titles, titles, is_wider, "model_titles", section);
    });
    root.section("lsp", Need::Nothing, |section| read_lsp(section, config));
    root.named_sections("mcp", Need::Trust, |name, section| read_mcp(name, section, config));
    root.section("web", Need::Nothing, |section| read_web(section, config));
    root.named_sections("subagents", Need::Trust, |name, section| read_subagent(name, section, config));
    root.section("skills", Need::Nothing, |section| {
        let directories = section.value("directories", Need::Trust, |value| values::list(value, folder));
        take(&mut config.skills.directories, directories);
    });
    root.section("hooks", Need::Nothing, |section| {
        let file = section.value("file", Need::User, |value| {
            values::text(value).map(|text| paths.expand(&text, &paths.config))
        });
        if file.is_some() {
            config.hooks.file = file;
        }
    });
    root.section("protocol", Need::Nothing, |section| {
        take(&mut config.protocol.v2, section.value("v2", Need::User, values::boolean));
    });
}

fn take<T>(target: &mut T, value: Option<T>) {
    if let Some(value) = value {
        *target = value;
    }
}

/// Takes a value that a stranger may only make narrower.
fn narrow<T>(target: &mut T, value: Option<T>, is_wider: bool, key: &str, section: &mut Section<'_, '_>) {
    if is_wider && !section.may_widen() {
        section.ignore(key, Need::Trust);
    } else {
        take(target, value);
    }
}

/// Modes from narrow to wide; [`Mode::ALL`] is in this order.
fn width(mode: Mode) -> Option<usize> {
    Mode::ALL.iter().position(|candidate| *candidate == mode)
}

/// A model of a provider that exists.
fn known_model(value: &DeValue<'_>, config: &Config) -> values::Parsed<ModelRef> {
    let model = values::model(value)?;
    let mut names = BUILT_IN_PROVIDERS.into_iter().chain(config.providers.keys().map(String::as_str));
    if names.clone().any(|name| name == model.provider) {
        return Ok(model);
    }
    let hint = match values::nearest(&model.provider, &mut names) {
        Some(name) => format!("did you mean {name:?}?"),
        None => format!("add it as [providers.{}]", model.provider),
    };
    Err(format!("there is no provider {:?}; {hint}", model.provider))
}

fn read_provider(name: &str, section: &mut Section<'_, '_>, config: &mut Config) {
    if name == OFFLINE {
        return section.refuse("the embedded offline model has no settings".to_owned());
    }
    let provider = config.providers.entry(name.to_owned()).or_default();
    let kinds = [("openai", WireFormat::OpenAi), ("anthropic", WireFormat::Anthropic)];
    take(&mut provider.base_url, section.value("base_url", Need::Trust, values::url).map(Some));
    take(&mut provider.api_key_env, section.value("api_key_env", Need::Trust, values::text).map(Some));
    let kind = section.value("kind", Need::Trust, |value| values::one_of(value, &kinds));
    take(&mut provider.kind, kind.map(Some));
    take(&mut provider.takes_images, section.value("takes_images", Need::Trust, values::boolean).map(Some));
    take(
        &mut provider.context_window,
        section.value("context_window", Need::Trust, values::positive::<u64>).map(Some),
    );
    if provider.base_url.is_none() && !BUILT_IN_PROVIDERS.contains(&name) && !section.has("base_url") {
        section.wrong("", "a provider that is not built in needs base_url".to_owned());
    }
}

fn read_tools(section: &mut Section<'_, '_>, config: &mut Config) {
    take(&mut config.tools.enable, section.value("enable", Need::Trust, values::families));
    let disable = section.value("disable", Need::Nothing, |value| values::list(value, values::text));
    // Layers add up here: a workspace must not switch on again what the user switched off.
    config.tools.disable.extend(disable.into_iter().flatten());
    let modes = [("native", CodeMode::Native), ("code", CodeMode::Code), ("both", CodeMode::Both)];
    let code_mode = section.value("code_mode", Need::Trust, |value| values::one_of(value, &modes));
    take(&mut config.tools.code_mode, code_mode);
}

fn read_lsp(section: &mut Section<'_, '_>, config: &mut Config) {
    let after_edit = section.value("diagnostics_after_edit", Need::Nothing, values::boolean);
    take(&mut config.lsp.diagnostics_after_edit, after_edit);
    take(&mut config.lsp.idle_stop, section.value("idle_stop", Need::Nothing, values::duration));
    section.other_sections(Need::Trust, |name, section| {
        let server = config.lsp.servers.entry(name.to_owned()).or_default();
        take(&mut server.command, section.value("command", Need::Trust, values::command).map(Some));
        let extensions =
            section.value("extensions", Need::Trust, |value| values::list(value, values::extension));
        take(&mut server.extensions, extensions.map(Some));
        let markers = section.value("root_markers", Need::Trust, |value| values::list(value, values::text));
        take(&mut server.root_markers, markers.map(Some));
    });
}

fn read_mcp(name: &str, section: &mut Section<'_, '_>, config: &mut Config) {
    let (has_command, has_url) = (section.has("command"), section.has("url"));
    let command = section.value("command", Need::Trust, values::command);
    let env = section.value("env", Need::Trust, values::pairs);
    let url = section.value("url", Need::Trust, values::url);
    let headers = section.value("headers", Need::Trust, values::pairs);
    if has_command == has_url {
        return section.wrong("", "a server has either command or url".to_owned());
    }
    if has_command && headers.is_some() {
        section.wrong("headers", "only a server with url has headers".to_owned());
    }
    if has_url && env.is_some() {
        section.wrong("env", "only a server with command has an environment".to_owned());
    }
    let transport = match (command, url) {
        (Some(command), _) => McpTransport::Stdio { command, env: env.unwrap_or_default() },
        (None, Some(url)) => McpTransport::Http { url, headers: headers.unwrap_or_default() },
        (None, None) => return,
    };
    config.mcp.insert(name.to_owned(), McpServerConfig { transport });
}

fn read_web(section: &mut Section<'_, '_>, config: &mut Config) {
    let allowed =
        section.value("allow_private", Need::Trust, |value| values::list(value, values::host_or_range));
    take(&mut config.web.allow_private, allowed);
    section.section("search", Need::Trust, |section| {
        let kinds = [
            ("searxng", WebSearchKind::Searxng),
            ("brave", WebSearchKind::Brave),
            ("tavily", WebSearchKind::Tavily),
        ];
        let has_kind = section.has("provider");
        let kind = section.value("provider", Need::Trust, |value| values::one_of(value, &kinds));
        let url = section.value("url", Need::Trust, values::url);
        let api_key_env = section.value("api_key_env", Need::Trust, values::text);
        match kind {
            Some(WebSearchKind::Searxng) if !section.has("url") => {
                section.wrong("", "a SearXNG search needs url, the address of the instance".to_owned());
            }
            Some(kind) => config.web.search = Some(WebSearchConfig { kind, url, api_key_env }),
            None if has_kind => {}
            None => section.wrong("", "a search needs provider".to_owned()),
        }
    });
}

fn read_subagent(name: &str, section: &mut Section<'_, '_>, config: &mut Config) {
    let has_command = section.has("command");
    let command = section.value("command", Need::Trust, values::command);
    let env = section.value("env", Need::Trust, values::pairs).unwrap_or_default();
    match command {
        Some(command) => {
            config.subagents.insert(name.to_owned(), SubagentConfig { command, env });
        }
        None if has_command => {}
        None => section.wrong("", "a subagent needs command".to_owned()),
    }
}
