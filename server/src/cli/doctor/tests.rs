//! Machines in good and bad order.

use super::*;
use crate::config::{McpServerConfig, McpTransport, Problem};
use machine::{LanguageServer, Reached};
use protocol::model::ModelRef;
use services::model::{ModelError, ModelErrorKind};
use services::sandbox::{SandboxLevel, SandboxSupport};
use std::io;
use std::path::Path;

fn line(check: Check) -> String {
    lines(&[check])
}

#[test]
fn each_line_names_the_subject_the_finding_and_the_remedy() {
    let model = ModelRef::parse("openai/gpt").unwrap();
    let offline = ModelRef::parse("offline/tour").unwrap();
    let no_key = ModelError {
        kind: ModelErrorKind::Auth,
        message: "no key; run `followspot login openai`".to_owned(),
        status: None,
        retry_after: None,
    };
    let server = |program: &str, is_there| LanguageServer {
        program: program.to_owned(),
        languages: program.to_uppercase(),
        install: format!("get {program}"),
        is_there,
        is_lame: false,
    };
    let support = |level| SandboxSupport { level, detail: "Landlock".to_owned() };
    let refused = Err("connection refused".to_owned());
    let denied = Err(io::Error::from(io::ErrorKind::PermissionDenied));
    let cases = [
        (checks::model(&model, Ok(())), "ok    model  openai/gpt, with all it needs to be asked\n"),
        (
            checks::model(&model, Err(no_key)),
            "fail  model  openai/gpt: no key; run `followspot login openai`\n",
        ),
        (
            checks::model(&offline, Ok(())),
            "warn  model  offline/tour, which is no language model -> store a key with `followspot login PROVIDER`, \
             or set FOLLOWSPOT_MODEL\n",
        ),
        (checks::endpoint("http://h", Ok(Reached::Directly)), "ok    address  http://h answers\n"),
        (
            checks::endpoint("http://h", refused),
            "fail  address  http://h cannot be reached: connection refused -> check the network, or base_url under \
             [providers]\n",
        ),
        (checks::sandbox(&support(SandboxLevel::Full)), "ok    sandbox  Landlock\n"),
        (checks::sandbox(&support(SandboxLevel::Partial)), "warn  sandbox  Landlock\n"),
        (
            checks::sandbox(&support(SandboxLevel::None)),
            "warn  sandbox  Landlock -> until then each command is asked for, unless the mode is \
             danger-full-access\n",
        ),
        (checks::folder(Path::new("/s"), Ok(())), "ok    folder  /s can be written\n"),
        (
            checks::folder(Path::new("/s"), denied),
            "fail  folder  /s: permission denied -> make it yours, or set FOLLOWSPOT_HOME to a folder that is\n",
        ),
        (
            checks::language_servers(&[server("a", true), server("b", false)]),
            "ok    language servers  a (A) -> for the lsp tool in other languages: b (B): get b\n",
        ),
        (
            checks::language_servers(&[server("b", false)]),
            "warn  language servers  none found -> for the lsp tool, install those of your languages: b (B): get b\n",
        ),
    ];
    for (check, expected) in cases {
        assert_eq!(line(check), expected);
    }
    let lame = LanguageServer { is_lame: true, ..server("rust-analyzer", false) };
    let expected = "warn  language servers  rust-analyzer is on PATH but does not run -> rustup component add \
                    rust-analyzer\n";
    assert_eq!(checks::placeholder(&[server("a", false), lame]).map(line).as_deref(), Some(expected));
}

#[test]
fn a_broken_configuration_is_told_problem_by_problem() {
    let paths = Paths::in_one("/h".into(), "/no/such/home".into()).unwrap();
    let problem = |key: &str| Problem {
        file: Some("/c".into()),
        line: Some(3),
        key: key.to_owned(),
        message: "wrong".to_owned(),
    };
    let broken = Err(crate::config::ConfigError { problems: vec![problem("a"), problem("b")] });
    let expected = "fail  configuration  /c:3: a: wrong\nfail  configuration  /c:3: b: wrong\n";
    assert_eq!(lines(&checks::configuration(&paths, &broken)), expected);
    let ignored = Ok(Loaded { config: Config::default(), ignored: vec![problem("a")] });
    let expected = "ok    configuration  the defaults; /no/such/home/config.toml does not exist\n\
                    warn  configuration  /c:3: a: wrong\n";
    assert_eq!(lines(&checks::configuration(&paths, &ignored)), expected);
}

#[test]
fn programs_that_the_configuration_names_must_exist() {
    let mut config = Config::default();
    for (name, program) in [("good", "here"), ("bad", "gone")] {
        let transport = McpTransport::Stdio { command: vec![program.to_owned()], env: Default::default() };
        config.mcp.insert(name.to_owned(), McpServerConfig { transport });
    }
    let expected =
        "fail  program  gone, named by mcp.bad, is not on PATH -> install it, or write its full path\n";
    assert_eq!(lines(&checks::programs(&config, |program| program == "here")), expected);
}

#[test]
fn the_environment_then_the_configuration_says_where_a_provider_is() {
    let mut config = Config::default();
    let own = crate::config::ProviderConfig { base_url: Some("http://own".to_owned()), ..Default::default() };
    config.providers.insert("my-own".to_owned(), own);
    let address = |provider, set: Option<&str>| {
        machine::address_of(provider, &config, &|name: &str| {
            set.filter(|_| name.ends_with("_BASE_URL")).map(str::to_owned)
        })
    };
    assert_eq!(address("my-own", None).as_deref(), Some("http://own"));
    assert_eq!(address("my-own", Some(" http://env ")).as_deref(), Some("http://env"));
    assert_eq!(address("openai", Some(" ")).as_deref(), Some("https://api.openai.com"));
    assert_eq!(address("offline", None), None);
}

#[test]
fn addresses_are_taken_apart() {
    let cases = [
        ("https://api.example/v1", Some(("api.example", 443))),
        ("http://127.0.0.1:8080/v1", Some(("127.0.0.1", 8080))),
        ("http://user:pass@h", Some(("h", 80))),
        ("http://[::1]:9/x", Some(("::1", 9))),
        ("https://[::1]", Some(("::1", 443))),
        ("http://", None),
        ("ftp://h", None),
        ("http://h:x", None),
    ];
    for (address, expected) in cases {
        let expected = expected.map(|(host, port)| (host.to_owned(), port));
        assert_eq!(machine::host_and_port(address), expected, "{address}");
    }
}

#[tokio::test]
async fn a_listening_port_is_reached_and_a_closed_one_is_not() {
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let address = format!("http://{}/v1", listener.local_addr().unwrap());
    assert_eq!(machine::reach(&address).await, Ok(Reached::Directly));
    drop(listener);
    assert!(machine::reach(&address).await.is_err());
}

#[test]
fn a_folder_is_made_and_left_empty() {
    let home = tempfile::tempdir().unwrap();
    let folder = home.path().join("a/b");
    machine::try_writing(&folder).unwrap();
    assert_eq!(std::fs::read_dir(&folder).unwrap().count(), 0);
    std::fs::write(home.path().join("file"), "").unwrap();
    assert!(machine::try_writing(&home.path().join("file/x")).is_err());
}

#[cfg(unix)]
#[test]
fn a_program_is_found_as_the_shell_finds_it() {
    assert!(machine::find_program("sh").is_some());
    assert!(machine::find_program("/bin/sh").is_some());
    assert_eq!(machine::find_program("no-such-program"), None);
    assert_eq!(machine::find_program("/etc/passwd"), None);
}
