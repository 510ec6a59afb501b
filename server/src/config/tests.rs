//! Configurations as people write them, right and wrong.

use super::*;
use std::path::Path;
use tempfile::TempDir;

/// A home with a user's file and a workspace with its own; `None` is no file.
struct Desk {
    dir: TempDir,
    paths: Paths,
}

impl Desk {
    fn new(user: Option<&str>, workspace: Option<&str>) -> Self {
        let dir = tempfile::tempdir().unwrap();
        let root = dir.path().canonicalize().unwrap();
        let paths = Paths::in_one(root.clone(), root.join("config")).unwrap();
        for (file, text) in
            [(paths.config_file(), user), (root.join("work/.followspot/config.toml"), workspace)]
        {
            if let Some(text) = text {
                std::fs::create_dir_all(file.parent().unwrap()).unwrap();
                std::fs::write(file, text).unwrap();
            }
        }
        Self { dir, paths }
    }

    fn workspace(&self) -> PathBuf {
        self.paths.home.join("work")
    }

    fn load(&self, environment: &[(&str, &str)]) -> Result<Loaded, ConfigError> {
        let variable = |name: &str| {
            environment.iter().find(|(set, _)| *set == name).map(|(_, value)| (*value).to_owned())
        };
        Config::load(&self.paths, Some(&self.workspace()), &variable)
    }

    /// Lines for a person, without the folder that differs in each run.
    fn told(&self, problems: &[Problem]) -> Vec<String> {
        let root = format!("{}/", self.dir.path().canonicalize().unwrap().display());
        problems.iter().map(|problem| problem.to_string().replace(&root, "")).collect()
    }
}

fn user(text: &str) -> Config {
    Desk::new(Some(text), None).load(&[]).unwrap().config
}

#[test]
fn without_any_file_the_defaults_hold() {
    let loaded = Desk::new(None, None).load(&[]).unwrap();
    assert_eq!(loaded, Loaded::default());
    let config = loaded.config;
    assert_eq!(config.model.idle_timeout, Duration::from_secs(300));
    assert_eq!(config.session.mode, Mode::WorkspaceWrite);
    assert!(config.sandbox.network && config.lsp.diagnostics_after_edit && !config.protocol.v2);
    assert_eq!(user(""), config);
}

#[test]
fn every_key_is_read() {
    let desk = Desk::new(
        Some(
            r#"
trusted_folders = ["~/src/mine", "/abs"]
[model]
default = "local/some/model"
idle_timeout = "1500ms"
[providers.local]
base_url = "http://127.0.0.1:8080/v1/"
api_key_env = "LOCAL_KEY"
kind = "anthropic"
takes_images = true
context_window = 128_000
[providers.openai]
api_key_env = "OTHER"
[shell]
backend = "local"
persistent = true
[tools]
enable = ["terminal", "pwsh"]
disable = ["bash"]
code_mode = "both"
[sandbox]
network = "deny"
[session]
mode = "ask"
max_turn_requests = 40
model_titles = false
[lsp]
diagnostics_after_edit = false
idle_stop = "90s"
[lsp.rust]
command = ["rust-analyzer", ""]
extensions = [".rs"]
root_markers = ["Cargo.toml"]
[lsp.typescript]
[mcp.files]
command = ["server", "--stdio"]
env = { A = "1" }
[mcp.remote]
url = "https://mcp.example/x"
headers = { "X-A" = "b" }
[web]
allow_private = ["localhost", "10.0.0.0/8", "fd00::/8", "192.168.1.7"]
[web.search]
provider = "searxng"
url = "http://localhost:8888"
[subagents.other]
command = ["other-agent", "acp"]
[skills]
directories = ["~/skills"]

[hooks]
file = "hooks.json"
[protocol]
v2 = true
"#,
        ),
        None,
    );
    let texts = |list: &[&str]| list.iter().map(|text| (*text).to_owned()).collect::<Vec<_>>();
    let table = |name: &str, text: &str| BTreeMap::from([(name.to_owned(), text.to_owned())]);
    let local = ProviderConfig {
        base_url: Some("http://127.0.0.1:8080/v1".to_owned()),
        api_key_env: Some("LOCAL_KEY".to_owned()),
        kind: Some(WireFormat::Anthropic),
        takes_images: Some(true),
        context_window: Some(128_000),
    };
    let openai = ProviderConfig { api_key_env: Some("OTHER".to_owned()), ..ProviderConfig::default() };
    let rust = LspServerConfig {
        command: Some(texts(&["rust-analyzer", ""])),
        extensions: Some(texts(&["rs"])),
        root_markers: Some(texts(&["Cargo.toml"])),
    };
    let stdio = McpTransport::Stdio { command: texts(&["server", "--stdio"]), env: table("A", "1") };
    let http = McpTransport::Http { url: "https://mcp.example/x".to_owned(), headers: table("X-A", "b") };
    let expected = Config {
        trusted_folders: vec![desk.paths.home.join("src/mine"), "/abs".into()],
        model: ModelConfig {
            default: ModelRef::parse("local/some/model"),
            idle_timeout: Duration::from_millis(1_500),
        },
        providers: BTreeMap::from([("local".to_owned(), local), ("openai".to_owned(), openai)]),
        shell: ShellConfig { backend: ShellBackend::Local, persistent: true },
        tools: ToolsConfig {
            enable: BTreeSet::from([ToolFamily::Terminal, ToolFamily::Pwsh]),
            disable: BTreeSet::from(["bash".to_owned()]),
            code_mode: CodeMode::Both,
        },
        sandbox: SandboxConfig { network: false },
        session: SessionConfig { mode: Mode::Ask, max_turn_requests: Some(40), model_titles: false },
        lsp: LspConfig {
            diagnostics_after_edit: false,
            idle_stop: Duration::from_secs(90),
            servers: BTreeMap::from([
                ("rust".to_owned(), rust),
                ("typescript".to_owned(), LspServerConfig::default()),
            ]),
        },
        mcp: BTreeMap::from([
            ("files".to_owned(), McpServerConfig { transport: stdio }),
            ("remote".to_owned(), McpServerConfig { transport: http }),
        ]),
        web: WebConfig {
            allow_private: texts(&["localhost", "10.0.0.0/8", "fd00::/8", "192.168.1.7"]),
            search: Some(WebSearchConfig {
                kind: WebSearchKind::Searxng,
                url: Some("http://localhost:8888".to_owned()),
                api_key_env: None,
            }),
        },
        subagents: BTreeMap::from([(
            "other".to_owned(),
            SubagentConfig { command: texts(&["other-agent", "acp"]), env: BTreeMap::new() },
        )]),
        skills: SkillsConfig { directories: vec![desk.paths.home.join("skills")] },
        hooks: HooksConfig { file: Some(desk.paths.config.join("hooks.json")) },
        protocol: ProtocolConfig { v2: true },
    };
    assert_eq!(desk.load(&[]).unwrap().config, expected);
}

#[test]
fn all_families_can_be_named_at_once() {
    let all: BTreeSet<_> = ToolFamily::ALL.into_iter().collect();
    for text in ["all", "[\"all\"]", "[\"pwsh\", \"all\"]"] {
        let text = if text == "all" { "\"all\"" } else { text };
        assert_eq!(user(&format!("tools.enable = {text}")).tools.enable, all);
    }
    assert_eq!(user("tools.enable = []").tools.enable, BTreeSet::new());
}

#[test]
fn a_wrong_key_is_named_with_its_line_and_what_would_be_right() {
    let cases = [
        ("\n\nmodle = 1", "3: modle: unknown key; did you mean \"model\"?"),
        ("[shell]\nbackedn = \"auto\"", "2: shell.backedn: unknown key; did you mean \"backend\"?"),
        ("[sandbox]\nfilesystem = 1", "2: sandbox.filesystem: unknown key; known here: network"),
        (
            "[shell]\nbackend = \"clinet\"",
            "2: shell.backend: expected one of \"auto\", \"client\", \"local\", found \"clinet\"; did you mean \
             \"client\"?",
        ),
        ("shell = 3", "1: shell: must be a table"),
        ("shell.persistent = \"yes\"", "1: shell.persistent: expected true or false, found \"yes\""),
        (
            "[model]\nidle_timeout = 300",
            "2: model.idle_timeout: expected a length of time such as \"300s\", \"5m\" or \"1500ms\", found 300",
        ),
        (
            "[model]\nidle_timeout = \"0s\"",
            "2: model.idle_timeout: expected a length of time such as \"300s\", \"5m\" or \"1500ms\", found \"0s\"",
        ),
        ("model.default = \"gpt\"", "1: model.default: expected \"provider/model\", found \"gpt\""),
        (
            "model.default = \"deepsek/x\"",
            "1: model.default: there is no provider \"deepsek\"; did you mean \"deepseek\"?",
        ),
        (
            "model.default = \"mine/x\"",
            "1: model.default: there is no provider \"mine\"; add it as [providers.mine]",
        ),
        (
            "[providers.mine]\napi_key_env = \"K\"",
            "2: providers.mine: a provider that is not built in needs base_url",
        ),
        (
            "[providers.mine]\nbase_url = \"localhost\"",
            "2: providers.mine.base_url: expected an address that begins with http:// or https://, found \
             \"localhost\"",
        ),
        (
            "[providers.offline]\nkind = \"openai\"",
            "2: providers.offline: the embedded offline model has no settings",
        ),
        ("[providers.\"a/b\"]", "1: providers.a/b: a name is 1 to 32 letters, digits, - and _"),
        ("[providers]\nmine = 1", "2: providers.mine: must be a table"),
        (
            "tools.enable = [\"terminal\", \"shedule\"]",
            "1: tools.enable: expected one of \"terminal\", \"schedule\", \"session_query\", \"cordis\", \
             \"str_replace_editor\", \"pwsh\", \"all\", found \"shedule\"; did you mean \"schedule\"?",
        ),
        ("tools.disable = \"bash\"", "1: tools.disable: expected a list, found \"bash\""),
        (
            "session.mode = \"yolo\"",
            "1: session.mode: expected one of \"plan\", \"read-only\", \"ask\", \"workspace-write\", \
             \"danger-full-access\", found \"yolo\"",
        ),
        (
            "session.max_turn_requests = 0",
            "1: session.max_turn_requests: expected a whole number from 1 on, found 0",
        ),
        (
            "[lsp]\ndiagnostic_after_edit = true",
            "2: lsp.diagnostic_after_edit: unknown key; did you mean \"diagnostics_after_edit\"?",
        ),
        (
            "[lsp.rust]\ncommand = []",
            "2: lsp.rust.command: expected a program and its arguments, such as [\"server\", \"--stdio\"], found a \
             TOML array",
        ),
        ("[lsp.rust]\ncommands = [\"x\"]", "2: lsp.rust.commands: unknown key; did you mean \"command\"?"),
        ("[mcp.x]\nurl = \"http://h\"\ncommand = [\"c\"]", "2: mcp.x: a server has either command or url"),
        (
            "[mcp.x]\nurl = \"http://h\"\nenv = { A = \"1\" }",
            "3: mcp.x.env: only a server with command has an environment",
        ),
        (
            "[web]\nallow_private = [\"10.0.0.0/33\"]",
            "2: web.allow_private: expected a host, an address or a range such as \"10.0.0.0/8\", without a scheme \
             or port, found \"10.0.0.0/33\"",
        ),
        (
            "[web.search]\nprovider = \"searxng\"",
            "2: web.search: a SearXNG search needs url, the address of the instance",
        ),
        ("[subagents.x]\nenv = { A = \"1\" }", "2: subagents.x: a subagent needs command"),
        ("trusted_folders = [1]", "1: trusted_folders: expected text that is not empty, found 1"),
    ];
    for (text, expected) in cases {
        let desk = Desk::new(Some(text), None);
        let error = desk.load(&[]).unwrap_err();
        assert_eq!(desk.told(&error.problems), [format!("config/config.toml:{expected}")], "{text}");
    }
}

#[test]
fn all_problems_are_told_at_once() {
    let desk = Desk::new(
        Some("trusted_folders = [\"~/work\"]\n[shell]\nbackend = 1\n[model]\nx = 1\n"),
        Some("[protcol]\nv2 = true\n"),
    );
    let error =
        desk.load(&[("FOLLOWSPOT_MODEL", "gpt"), ("FOLLOWSPOT_PERMISSION_MODE", "asks")]).unwrap_err();
    let told = desk.told(&error.problems);
    let starts = [
        "config/config.toml:3: shell.backend: expected one of",
        "config/config.toml:5: model.x: unknown key; known here: default, idle_timeout",
        "work/.followspot/config.toml:1: protcol: unknown key; did you mean \"protocol\"?",
        "FOLLOWSPOT_MODEL: expected \"provider/model\"",
        "FOLLOWSPOT_PERMISSION_MODE: expected one of",
    ];
    assert_eq!(told.len(), starts.len(), "{told:#?}");
    for (line, start) in told.iter().zip(starts) {
        assert!(line.starts_with(start), "{line}");
    }
    assert_eq!(error.to_string().lines().count(), 5);
}

#[test]
fn a_text_that_is_no_toml_is_told_with_its_line() {
    let desk = Desk::new(Some("[model]\ndefault = \n"), None);
    let error = desk.load(&[]).unwrap_err();
    let told = desk.told(&error.problems);
    assert!(told[0].starts_with("config/config.toml:2: "), "{told:?}");
    let desk = Desk::new(Some("[shell]\n[shell]\n"), None);
    assert_eq!(desk.load(&[]).unwrap_err().problems[0].line, Some(2));
}

#[test]
fn later_layers_win_key_by_key() {
    let user = "trusted_folders = [\"~/work\"]\n[model]\ndefault = \"openai/a\"\nidle_timeout = \"1s\"\n\
                [providers.mine]\nbase_url = \"http://a\"\n[tools]\ndisable = [\"bash\"]\n";
    let workspace = "[model]\ndefault = \"mine/b\"\n[providers.mine]\napi_key_env = \"K\"\n\
                     [tools]\ndisable = [\"grep\"]\n[session]\nmode = \"danger-full-access\"\n";
    let desk = Desk::new(Some(user), Some(workspace));
    let loaded = desk.load(&[]).unwrap();
    assert_eq!(loaded.ignored, []);
    let config = loaded.config;
    assert_eq!(config.model.default, ModelRef::parse("mine/b"));
    assert_eq!(config.model.idle_timeout, Duration::from_secs(1));
    assert_eq!(config.providers["mine"].base_url.as_deref(), Some("http://a"));
    assert_eq!(config.providers["mine"].api_key_env.as_deref(), Some("K"));
    assert_eq!(config.tools.disable, BTreeSet::from(["bash".to_owned(), "grep".to_owned()]));
    assert_eq!(config.session.mode, Mode::DangerFullAccess);

    let environment = [("FOLLOWSPOT_MODEL", " ollama/c "), ("FOLLOWSPOT_PERMISSION_MODE", "plan")];
    let config = desk.load(&environment).unwrap().config;
    assert_eq!(config.model.default, ModelRef::parse("ollama/c"));
    assert_eq!(config.session.mode, Mode::Plan);
    assert_eq!(
        desk.load(&[("FOLLOWSPOT_MODEL", " ")]).unwrap().config.model.default,
        ModelRef::parse("mine/b")
    );
}

#[test]
fn an_untrusted_workspace_sets_only_what_can_do_no_harm() {
    let workspace = r#"
trusted_folders = ["/"]
model = { default = "openai/a", idle_timeout = "5s" }
providers.evil.base_url = "http://evil"
mcp.evil.command = ["evil"]
subagents.evil.command = ["evil"]
lsp = { diagnostics_after_edit = false, rust.command = ["evil"] }
hooks.file = "evil"
protocol.v2 = true
tools = { enable = "all", disable = ["bash"], code_mode = "code" }
web = { allow_private = ["localhost"], search.provider = "brave" }
sandbox.network = "deny"
session = { mode = "read-only", max_turn_requests = 3, model_titles = false }
"#;
    let desk = Desk::new(None, Some(workspace));
    let loaded = desk.load(&[]).unwrap();
    let mut expected = Config::default();
    expected.model.idle_timeout = Duration::from_secs(5);
    expected.lsp.diagnostics_after_edit = false;
    expected.tools.disable = BTreeSet::from(["bash".to_owned()]);
    expected.sandbox.network = false;
    expected.session =
        SessionConfig { mode: Mode::ReadOnly, max_turn_requests: Some(3), model_titles: false };
    assert_eq!(loaded.config, expected);
    let keys: BTreeSet<_> = loaded.ignored.iter().map(|ignored| ignored.key.as_str()).collect();
    let expected = [
        "hooks.file",
        "lsp.rust",
        "mcp.evil",
        "model.default",
        "protocol.v2",
        "providers.evil",
        "subagents.evil",
        "tools.code_mode",
        "tools.enable",
        "trusted_folders",
        "web.allow_private",
        "web.search",
    ];
    assert_eq!(keys, BTreeSet::from(expected));
    assert_eq!(
        desk.told(&loaded.ignored[2..3]),
        ["work/.followspot/config.toml:4: providers.evil: ignored, since this folder is not among your \
          trusted_folders"]
    );
}

#[test]
fn an_untrusted_workspace_cannot_widen_what_the_user_narrowed() {
    let user = "[session]\nmode = \"ask\"\nmax_turn_requests = 5\n[sandbox]\nnetwork = \"deny\"\n";
    let workspace =
        "[session]\nmode = \"workspace-write\"\nmax_turn_requests = 9\n[sandbox]\nnetwork = \"allow\"\n";
    let desk = Desk::new(Some(user), Some(workspace));
    let loaded = desk.load(&[]).unwrap();
    assert_eq!(loaded.config, Desk::new(Some(user), None).load(&[]).unwrap().config);
    assert_eq!(loaded.ignored.len(), 3);
}

#[test]
fn a_faulty_file_of_a_stranger_is_set_aside_as_a_whole() {
    let desk = Desk::new(None, Some("[session]\nmode = \"plan\"\n[nonsense]\n"));
    let loaded = desk.load(&[]).unwrap();
    assert_eq!(loaded.config, Config::default());
    assert_eq!(loaded.ignored.len(), 1);
    assert_eq!(loaded.ignored[0].key, "nonsense");
}

#[test]
fn even_a_trusted_workspace_sets_no_hooks_and_no_trust() {
    let desk = Desk::new(
        Some("trusted_folders = [\"~/work\"]"),
        Some("trusted_folders = [\"/\"]\nhooks.file = \"x\"\nprotocol.v2 = true\n"),
    );
    let loaded = desk.load(&[]).unwrap();
    assert_eq!(loaded.config.trusted_folders, [desk.workspace()]);
    assert_eq!((loaded.config.hooks.file, loaded.config.protocol.v2), (None, false));
    assert_eq!(loaded.ignored.len(), 3);
    assert!(loaded.ignored[0].message.contains("only the user's own"));
}

#[test]
fn trust_holds_for_a_folder_and_those_below_it_but_not_for_its_neighbours() {
    let config = Config { trusted_folders: vec!["/a/b".into()], ..Config::default() };
    let cases = [("/a/b", true), ("/a/b/c", true), ("/a", false), ("/a/bc", false), ("/", false)];
    for (folder, is_trusted) in cases {
        assert_eq!(config.trusts(Path::new(folder)), is_trusted, "{folder}");
    }
}

#[cfg(unix)]
#[test]
fn a_link_to_an_untrusted_folder_is_not_trusted() {
    let desk = Desk::new(Some("trusted_folders = [\"~/mine\"]"), Some("protocol.v2 = true"));
    std::fs::create_dir(desk.paths.home.join("mine")).unwrap();
    std::os::unix::fs::symlink(desk.workspace(), desk.paths.home.join("mine/link")).unwrap();
    let config = desk.load(&[]).unwrap().config;
    assert!(config.trusts(&desk.paths.home.join("mine")));
    assert!(!config.trusts(&desk.paths.home.join("mine/link")));
}

#[test]
fn a_file_that_cannot_be_read_is_an_error() {
    let desk = Desk::new(None, None);
    std::fs::create_dir_all(desk.paths.config_file()).unwrap();
    let error = desk.load(&[]).unwrap_err();
    assert!(desk.told(&error.problems)[0].starts_with("config/config.toml: cannot be read: "), "{error}");
}

#[test]
fn one_folder_can_hold_everything() {
    let paths = Paths::in_one("/home/me".into(), "/x".into()).unwrap();
    assert_eq!(paths.config_file(), Path::new("/x/config.toml"));
    assert_eq!(paths.credentials_file(), Path::new("/x/credentials.toml"));
    assert_eq!(paths.sessions(), Path::new("/x/sessions"));
    assert_eq!(paths.expand("~/a", Path::new("/b")), Path::new("/home/me/a"));
    assert_eq!(paths.expand("~a", Path::new("/b")), Path::new("/b/~a"));
    assert!(Paths::in_one("/home/me".into(), "x".into()).unwrap_err().contains("absolute"));
}
