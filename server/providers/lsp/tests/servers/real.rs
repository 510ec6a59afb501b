//! Real language servers, installed by `.ci/install-language-servers`, on a small project each.
//!
//! All of them: a session folder that is a link to one with blanks and accents, wide characters before the column, a
//! definition in a dependency, references, implementation, hover, unsaved text of the editor, an edit and a question right
//! after it, and what the edit broke.

use crate::kit::Workspace;
use provider_lsp::{LspOptions, ServerChange};
use services::language_servers::{LspErrorKind, LspOperation};
use std::path::Path;
use std::process::Command;
use std::time::Duration;

const MISSING: &str = "is missing: run .ci/test, which installs the language servers that tests need";

/// A project and what is asked in it. `^` before a path puts the file beside the session's folder.
struct Project {
    server: &'static str,
    command: Vec<String>,
    files: &'static [(&'static str, &'static str)],
    /// The file of the questions.
    file: &'static str,
    /// Defined at its first place, used at its second, behind wide characters.
    name: &'static str,
    /// Defined in a dependency: the name, and the end of the place.
    far: (&'static str, &'static str),
    /// What is implemented, and the line of its implementation; `None` for a server that lacks the operation.
    implemented: Option<(&'static str, u32)>,
    /// What makes the text wrong when it is put at its end, and a part of what the server says.
    broken: (&'static str, &'static str),
}

/// The folder of programs from npm.
fn from_npm(program: &str) -> Vec<String> {
    let target = Path::new(env!("CARGO_TARGET_TMPDIR")).parent().unwrap();
    let path = target.join("tools/lsp/node_modules/.bin").join(program);
    assert!(path.exists(), "{program} {MISSING}");
    vec![path.display().to_string(), "--stdio".to_owned()]
}

fn on_path(program: &str, version: &str) -> Vec<String> {
    let answers = Command::new(program).arg(version).output().is_ok_and(|output| output.status.success());
    assert!(answers, "{program} {MISSING}");
    vec![program.to_owned()]
}

fn open(server: &str, command: Vec<String>, files: &[(&str, &str)]) -> Workspace {
    let folder = tempfile::Builder::new().prefix("real ").tempdir().unwrap();
    let (real, link) = (folder.path().join("a wörk 空間"), folder.path().join("link"));
    std::fs::create_dir(&real).unwrap();
    std::os::unix::fs::symlink(&real, &link).unwrap();
    let change = ServerChange { command: Some(command), ..ServerChange::default() };
    let options = LspOptions { readiness_budget: Duration::from_secs(30), ..LspOptions::default() };
    let workspace = Workspace::open_at(link, folder, [(server.to_owned(), change)], options);
    for (name, text) in files {
        match name.strip_prefix('^') {
            Some(name) => {
                let path = workspace.folder.path().join(name);
                std::fs::create_dir_all(path.parent().unwrap()).unwrap();
                std::fs::write(path, text).unwrap();
            }
            None => workspace.put(name, text),
        }
    }
    workspace
}

/// `file:line:column` of the `nth` place of `mark`, from 1.
fn place(workspace: &Workspace, file: &str, mark: &str, nth: usize) -> String {
    let at = workspace.question(LspOperation::Hover, file, mark, nth).position;
    format!("{file}:{}:{}", at.line + 1, at.character + 1)
}

async fn check(project: Project) {
    let Project { server, command, files, file, name, far, implemented, broken } = project;
    let workspace = open(server, command, files);
    let text = std::fs::read_to_string(workspace.path(file)).unwrap();
    let mut expected = [0, 1].map(|nth| place(&workspace, file, name, nth));
    let defined = expected[0].clone();
    expected.sort();
    let places = workspace.places(LspOperation::GoToDefinition, file, name, 1).await;
    assert_eq!(places, [defined]);
    let mut places = workspace.places(LspOperation::FindReferences, file, name, 0).await;
    places.sort();
    assert_eq!(places, expected);
    let hover = workspace.hover(file, name).await.unwrap().expect("a hover");
    assert!(hover.contains(name), "{hover}");
    let places = workspace.places(LspOperation::GoToDefinition, file, far.0, 0).await;
    assert!(places.len() == 1 && places[0].ends_with(far.1), "{places:?}");
    match implemented {
        Some((name, line)) => {
            let places = workspace.places(LspOperation::GoToImplementation, file, name, 0).await;
            assert!(places.iter().any(|place| place.starts_with(&format!("{file}:{line}:"))), "{places:?}");
        }
        None => {
            let error = workspace.ask(LspOperation::GoToImplementation, file, name, 0).await.unwrap_err();
            assert_eq!(error.kind, LspErrorKind::UnsupportedOperation);
        }
    }
    // Two lines more at the end of the first, unsaved in the editor; then one more, written, and asked at once.
    let longer = |lines: &str| text.replacen('\n', &format!("\n{lines}"), 1);
    workspace.disk.unsaved.lock().unwrap().insert(workspace.path(file), longer("\n\n"));
    let moved = place(&workspace, file, name, 0);
    assert_eq!(workspace.places(LspOperation::GoToDefinition, file, name, 1).await, [moved]);
    workspace.disk.unsaved.lock().unwrap().clear();
    workspace.write(file, &longer("\n")).await;
    let moved = place(&workspace, file, name, 0);
    assert_eq!(workspace.places(LspOperation::GoToDefinition, file, name, 1).await, [moved]);
    tells_what_broke(&workspace, file, &format!("{text}{}", broken.0), broken.1).await;
    workspace.pool.close().await;
}

/// With the edit's result or, on a busy machine, later.
async fn tells_what_broke(workspace: &Workspace, file: &str, text: &str, expected: &str) {
    let (sender, mut late) = tokio::sync::mpsc::unbounded_channel();
    workspace.servers.tell_late_findings(Box::new(move |_, text| {
        let _ = sender.send(text);
    }));
    let mut told = workspace.write(file, text).await.unwrap_or_default();
    while !told.contains(expected) {
        let more = tokio::time::timeout(Duration::from_secs(25), late.recv()).await;
        told = more.unwrap_or_else(|_| panic!("{file}: only {told}")).unwrap();
    }
}

#[tokio::test]
async fn pyright_answers() {
    check(Project {
        server: "pyright",
        command: from_npm("pyright-langserver"),
        files: &[
            ("pyrightconfig.json", "{\"extraPaths\": [\"../dep\"]}"),
            ("^dep/far.py", "def far_away(): return 1\n"),
            (
                "a b é.py",
                "from far import far_away\n\ndef greet_all(): return 1\n\nx = (\"é漢😀\", greet_all(), far_away())\n",
            ),
        ],
        file: "a b é.py",
        name: "greet_all",
        far: ("far_away", "dep/far.py:1:5"),
        implemented: None,
        broken: ("missing_name\n", "missing_name"),
    })
    .await;
}

#[tokio::test]
async fn typescript_language_server_answers() {
    check(Project {
        server: "typescript",
        command: from_npm("typescript-language-server"),
        files: &[
            ("package.json", "{}"),
            ("tsconfig.json", "{\"compilerOptions\": {\"moduleResolution\": \"node\"}}"),
            ("node_modules/dep/package.json", "{\"name\": \"dep\", \"types\": \"index.d.ts\"}"),
            ("node_modules/dep/index.d.ts", "export declare function farAway(): number;\n"),
            (
                "a b é.ts",
                "import { farAway } from \"dep\";\n\ninterface Greets { greet(): number }\n\
                 class One implements Greets { greet() { return 1 } }\nfunction greetAll() { return new One().greet() }\n\
                 export const x = [\"é漢😀\", greetAll(), farAway()];\n",
            ),
        ],
        file: "a b é.ts",
        name: "greetAll",
        far: ("farAway", "node_modules/dep/index.d.ts:1:25"),
        implemented: Some(("Greets", 4)),
        broken: ("missingName;\n", "missingName"),
    })
    .await;
}

#[tokio::test]
async fn clangd_answers() {
    check(Project {
        server: "clangd",
        command: on_path("clangd", "--version"),
        files: &[
            ("^dep/far.h", "inline int far_away() { return 1; }\n"),
            (
                "a b é.cpp",
                "#include \"../dep/far.h\"\nstruct Greets { virtual int greet() = 0; };\n\
                 struct One : Greets { int greet() override { return 1; } };\n\
                 int greet_all(One &one) { return one.greet(); }\n\
                 int uses(One &one) { (void)\"é漢😀\"; return greet_all(one) + far_away(); }\n",
            ),
        ],
        file: "a b é.cpp",
        name: "greet_all",
        far: ("far_away", "dep/far.h:1:12"),
        implemented: Some(("greet", 3)),
        broken: ("int wrong = missing_name;\n", "missing_name"),
    })
    .await;
}

#[tokio::test]
async fn gopls_answers() {
    on_path("go", "version");
    check(Project {
        server: "gopls",
        command: on_path("gopls", "version"),
        files: &[
            ("go.mod", "module fixture\n\ngo 1.19\n\nrequire dep v0.0.0\n\nreplace dep => ../dep\n"),
            ("^dep/go.mod", "module dep\n\ngo 1.19\n"),
            ("^dep/far.go", "package dep\n\nfunc FarAway() int { return 1 }\n"),
            (
                "main.go",
                "package main\n\nimport \"dep\"\n\ntype Greets interface{ Greet() int }\ntype One struct{}\n\n\
                 func (One) Greet() int { return 1 }\nfunc greetAll(one One) int { return one.Greet() }\n\
                 func main() { _, _ = \"é漢😀\", greetAll(One{})+dep.FarAway() }\n",
            ),
        ],
        file: "main.go",
        name: "greetAll",
        far: ("FarAway", "dep/far.go:3:6"),
        implemented: Some(("Greets", 6)),
        broken: ("var wrong int = missingName\n", "missingName"),
    })
    .await;
}

#[tokio::test]
async fn rust_analyzer_answers() {
    check(Project {
        server: "rust",
        command: on_path("rust-analyzer", "--version"),
        files: &[
            (
                "Cargo.toml",
                "[package]\nname = \"fixture\"\nversion = \"0.1.0\"\nedition = \"2021\"\n\n[dependencies]\n\
                 dep = { path = \"../dep\" }\n",
            ),
            ("^dep/Cargo.toml", "[package]\nname = \"dep\"\nversion = \"0.1.0\"\nedition = \"2021\"\n"),
            ("^dep/src/lib.rs", "pub fn far_away() -> u32 { 1 }\n"),
            (
                "src/lib.rs",
                "pub trait Greets { fn greet(&self) -> u32; }\npub struct One;\n\
                 impl Greets for One { fn greet(&self) -> u32 { 1 } }\n\
                 pub fn greet_all(one: &One) -> u32 { one.greet() }\n\
                 pub fn uses() { let _ = (\"é漢😀\", greet_all(&One), dep::far_away()); }\n",
            ),
        ],
        file: "src/lib.rs",
        name: "greet_all",
        far: ("far_away", "dep/src/lib.rs:1:8"),
        implemented: Some(("Greets", 3)),
        broken: ("pub fn wrong() -> u32 { greet_all(&One, 2) }\n", "expected 1 argument, found 2"),
    })
    .await;
}

// It knows hover alone of what the tool asks, from a schema beside the file.
#[tokio::test]
async fn the_json_server_answers() {
    let text = "{\n\"$schema\": \"./schema.json\", \"é漢😀\": 1, \"colour\": \"red\"}\n";
    let schema =
        r#"{ "properties": { "colour": { "type": "string", "description": "What it is painted in" } } }"#;
    let files = [("schema.json", schema), ("a b é.json", text)];
    let workspace = open("json", from_npm("vscode-json-language-server"), &files);
    let file = "a b é.json";
    assert_eq!(workspace.hover(file, "colour").await.unwrap().as_deref(), Some("What it is painted in"));
    let unsaved = text.replace("\"colour\"", "\n\n\"x\": 2, \"colour\"");
    workspace.disk.unsaved.lock().unwrap().insert(workspace.path(file), unsaved);
    assert_eq!(workspace.hover(file, "colour").await.unwrap().as_deref(), Some("What it is painted in"));
    workspace.disk.unsaved.lock().unwrap().clear();
    workspace.write(file, &text.replace("colour", "number")).await;
    assert_eq!(workspace.hover(file, "number").await.unwrap(), None);
    tells_what_broke(&workspace, file, &text.replace("1,", "1,,"), "expected").await;
    workspace.pool.close().await;
}
