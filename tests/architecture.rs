//! The invariants of `ARCHITECTURE.md` that a look at the files can check.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("..").canonicalize().unwrap()
}

fn text(path: impl AsRef<Path>) -> String {
    let path = root().join(path);
    std::fs::read_to_string(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}

/// The table "may depend on": folder and crate → our crates it may name.
fn table() -> BTreeMap<String, (PathBuf, BTreeSet<String>)> {
    let architecture = text("ARCHITECTURE.md");
    let rows = architecture.lines().filter(|line| line.starts_with("| `") && line.matches('|').count() == 5);
    rows.filter_map(|row| {
        let cells: Vec<&str> = row.trim_matches('|').split('|').map(str::trim).collect();
        let (folder, name) = (cells[0].trim_matches('`'), cells[1].trim_matches('`'));
        (name != "—").then(|| {
            let allowed = cells[3].split(", ").filter(|name| *name != "—").map(str::to_owned).collect();
            (name.to_owned(), (root().join(folder), allowed))
        })
    })
    .collect()
}

/// Names in the `[dependencies]` of a crate, tests excluded.
fn dependencies(folder: &Path) -> BTreeSet<String> {
    let manifest: toml::Table = text(folder.join("Cargo.toml")).parse().unwrap();
    manifest["dependencies"].as_table().unwrap().keys().cloned().collect()
}

/// Every Rust source below a folder.
fn sources(folder: &Path) -> Vec<PathBuf> {
    let mut found = Vec::new();
    for entry in std::fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            found.extend(sources(&path));
        } else if path.extension().is_some_and(|extension| extension == "rs") {
            found.push(path);
        }
    }
    found
}

/// The code of a file, comments left out.
fn code(path: &Path) -> String {
    let text = std::fs::read_to_string(path).unwrap();
    text.lines().filter(|line| !line.trim_start().starts_with("//")).collect::<Vec<_>>().join("\n")
}

#[test]
fn crates_depend_on_what_the_table_allows_and_on_nothing_else_of_ours() {
    let table = table();
    let manifest: toml::Table = text("Cargo.toml").parse().unwrap();
    let members = manifest["workspace"]["members"].as_array().unwrap();
    assert_eq!(members.len(), table.len(), "each member has a row and each row is a member");
    for (name, (folder, allowed)) in &table {
        let ours: BTreeSet<String> =
            dependencies(folder).into_iter().filter(|dependency| table.contains_key(dependency)).collect();
        if name == "followspot" {
            continue;
        }
        let unwanted: Vec<_> = ours.difference(allowed).collect();
        assert!(unwanted.is_empty(), "{name} depends on {unwanted:?}");
    }
}

#[test]
fn only_the_connection_try_and_the_presenters_know_the_sdk() {
    let root = root();
    let allowed =
        [root.join("server/src/acp"), root.join("server/src/cli/try_client"), root.join("presenters")];
    for (folder, _) in table().values() {
        for path in sources(&folder.join("src")) {
            let names_sdk = code(&path).contains("agent_client_protocol::");
            let may = allowed.iter().any(|folder| path.starts_with(folder));
            assert!(!names_sdk || may, "{} names the ACP SDK", path.display());
        }
    }
    for path in sources(&root.join("presenters/src")) {
        let code = code(&path);
        let all = code.matches("agent_client_protocol::").count();
        let schema = code.matches("agent_client_protocol::v1::schema").count();
        assert_eq!(all, schema, "{} uses more of the SDK than its schema types", path.display());
    }
}

#[test]
fn http_language_servers_and_engines_stay_in_their_providers() {
    let homes = [
        ("reqwest", vec!["provider-llm", "provider-web", "provider-mcp"]),
        ("lsp-types", vec!["provider-lsp", "provider-lsp-builtin"]),
        ("async-lsp", vec!["provider-lsp", "provider-lsp-builtin"]),
        ("tree-sitter", vec!["provider-lsp-builtin"]),
        ("rmcp", vec!["provider-mcp"]),
        ("rusqlite", vec!["provider-index"]),
        ("rquickjs", vec!["provider-code-runtime"]),
        // Watching and indexing leave out what searching leaves out.
        ("ignore", vec!["provider-local", "provider-lsp", "provider-lsp-builtin"]),
        ("grep-searcher", vec!["provider-local"]),
        ("landlock", vec!["provider-sandbox"]),
    ];
    for (name, (folder, _)) in table() {
        let dependencies = dependencies(&folder);
        for (dependency, allowed) in &homes {
            let may = allowed.contains(&name.as_str());
            assert!(!dependencies.contains(*dependency) || may, "{name} depends on {dependency}");
        }
    }
}

#[test]
fn what_must_not_reach_the_world_is_held_to_it_by_clippy() {
    for folder in ["protocol", "presenters", "server/pipeline", "server/tools"] {
        let rules = text(Path::new(folder).join("clippy.toml"));
        for banned in ["std::fs::read", "std::env::var", "std::time::Instant::now", "std::process::Command"] {
            assert!(rules.contains(banned), "{folder}/clippy.toml does not ban {banned}");
        }
    }
    for path in sources(&root().join("protocol/src")) {
        let code = code(&path);
        for word in ["async fn", "tokio", "std::fs", "std::env", "SystemTime", "Instant"] {
            assert!(!code.contains(word), "{} says {word}: protocol is inert", path.display());
        }
    }
}

#[test]
fn only_the_transport_writes_to_stdout_while_an_editor_is_served() {
    let root = root();
    let folders = [
        "server/agent",
        "server/pipeline",
        "server/services",
        "server/tools",
        "server/providers",
        "presenters",
    ];
    let mut paths: Vec<PathBuf> = folders.iter().flat_map(|folder| sources(&root.join(folder))).collect();
    paths.extend(sources(&root.join("server/src/acp")));
    // The wrapper round a command passes the command's own output on; it is no server.
    paths.retain(|path| !path.starts_with(root.join("server/providers/sandbox")));
    // Programs of tests and benchmarks.
    paths.retain(|path| {
        !path
            .components()
            .any(|part| ["tests", "examples", "bin"].iter().any(|name| part.as_os_str() == *name))
    });
    for path in paths {
        let names_it = code(&path).contains("stdout()");
        let may = path.ends_with("acp/transport.rs");
        let is_childs = code(&path).matches("stdout()").count() == code(&path).matches(".stdout()").count();
        assert!(!names_it || may || is_childs, "{} names stdout", path.display());
    }
}

#[test]
fn the_tests_that_the_table_of_faults_names_exist() {
    let table = text("tests/FAULTS.md");
    let mut n_named = 0;
    for cell in table.lines().filter(|line| line.starts_with("| ")).flat_map(|line| line.split("; ")) {
        let Some((path, rest)) = cell.split_once('`').and_then(|(_, rest)| rest.split_once("` ")) else {
            continue;
        };
        let name: String = rest.chars().take_while(|char| char.is_alphanumeric() || *char == '_').collect();
        if path.ends_with(".rs") && name.contains('_') {
            n_named += 1;
            assert!(text(path).contains(&format!("fn {name}(")), "{path} has no test {name}");
        }
    }
    assert!(n_named > 100, "only {n_named} tests are named");
}

/// Keys of the README's table of settings; `.url` stands for its neighbour's table.
fn settings_of_the_readme() -> Vec<String> {
    let readme = text("README.md");
    let section = readme.split("## Configuration").nth(1).unwrap().split("\n## ").next().unwrap();
    let mut keys: Vec<String> = Vec::new();
    for row in section.lines().filter(|line| line.starts_with("| `")) {
        let cell = row.trim_matches('|').split('|').next().unwrap();
        for key in cell.split('`').skip(1).step_by(2) {
            keys.push(match key.strip_prefix('.') {
                Some(last) => format!("{}.{last}", keys.last().unwrap().rsplit_once('.').unwrap().0),
                None => key.to_owned(),
            });
        }
    }
    keys
}

/// What the program finds wrong with a configuration of these keys, each with a value that none of them takes.
fn complaints_about(keys: &[String]) -> String {
    let home = tempfile::tempdir().unwrap();
    let lines: String = keys.iter().map(|key| format!("{key} = 0\n")).collect();
    std::fs::write(home.path().join("config.toml"), lines).unwrap();
    let output = std::process::Command::new(env!("CARGO_BIN_EXE_followspot"))
        .arg("acp")
        .env("FOLLOWSPOT_HOME", home.path())
        .stdin(std::process::Stdio::null())
        .output()
        .unwrap();
    assert!(!output.status.success());
    String::from_utf8_lossy(&output.stderr).into_owned()
}

#[test]
fn every_setting_of_the_readme_exists() {
    let keys = settings_of_the_readme();
    assert!(keys.len() > 15, "{keys:?}");
    for key in &keys {
        let complaints = complaints_about(std::slice::from_ref(key));
        assert!(complaints.contains(key) && !complaints.contains("unknown key"), "{complaints}");
    }
    assert!(complaints_about(&["model.invented".to_owned()]).contains("unknown key"));
}

#[test]
fn no_source_file_is_forgotten() {
    for (folder, _) in table().values() {
        let src = folder.join("src");
        let all = sources(&src);
        let code: String = all.iter().map(|path| self::code(path)).collect();
        for path in &all {
            let stem = path.file_stem().unwrap().to_str().unwrap();
            if ["lib", "main"].contains(&stem) || path.starts_with(src.join("bin")) {
                continue;
            }
            let module = if stem == "mod" {
                path.parent().unwrap().file_name().unwrap().to_str().unwrap()
            } else {
                stem
            };
            let declared =
                [format!("mod {module};"), format!("mod r#{module};"), format!("#[path = \"{module}.rs\"]")];
            assert!(declared.iter().any(|line| code.contains(line)), "{} is in no module", path.display());
        }
    }
}
