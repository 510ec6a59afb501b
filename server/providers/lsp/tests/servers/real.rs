//! Real language servers, installed by `.ci/install-language-servers`.
//!
//! Each: definition and references behind wide characters, hover, and an edit that the next answer concerns.

use crate::kit::Workspace;
use provider_lsp::{LspOptions, ServerChange};
use services::language_servers::LspOperation;
use std::path::Path;
use std::process::Command;

const MISSING: &str = "is missing: run .ci/test, which installs the language servers that tests need";

/// The folder of programs from npm.
fn from_npm(program: &str) -> String {
    let target = Path::new(env!("CARGO_TARGET_TMPDIR")).parent().unwrap();
    let path = target.join("tools/lsp/node_modules/.bin").join(program);
    assert!(path.exists(), "{program} {MISSING}");
    path.display().to_string()
}

fn on_path(program: &str) -> String {
    let answers = Command::new(program).arg("--version").output().is_ok_and(|output| output.status.success());
    assert!(answers, "{program} {MISSING}");
    program.to_owned()
}

fn open(name: &str, command: Vec<String>) -> Workspace {
    let folder = tempfile::Builder::new().prefix("real é ").tempdir().unwrap();
    let change = ServerChange { command: Some(command), ..ServerChange::default() };
    let options =
        LspOptions { readiness_budget: std::time::Duration::from_secs(30), ..LspOptions::default() };
    Workspace::open(folder, [(name.to_owned(), change)], options)
}

/// Asks for the name `greet_all` in `file`: defined in the first place of the text, used in the second, behind an emoji.
async fn check(workspace: &Workspace, file: &str, definition: &str, usage: &str, in_hover: &str) {
    let text = std::fs::read_to_string(workspace.path(file)).unwrap();
    let places = workspace.places(LspOperation::GoToDefinition, file, "greet_all", 1).await;
    assert_eq!(places, [format!("{file}:{definition}")]);
    let mut places = workspace.places(LspOperation::FindReferences, file, "greet_all", 0).await;
    places.sort();
    assert_eq!(places, [format!("{file}:{definition}"), format!("{file}:{usage}")]);
    let hover = workspace.hover(file, "greet_all").await.unwrap().expect("a hover");
    assert!(hover.contains(in_hover), "{hover}");
    // Two lines more at the top, unsaved in the editor.
    workspace.disk.unsaved.lock().unwrap().insert(workspace.path(file), format!("\n\n{text}"));
    let (line, column) = definition.split_once(':').unwrap();
    let moved = format!("{file}:{}:{column}", line.parse::<u32>().unwrap() + 2);
    assert_eq!(workspace.places(LspOperation::GoToDefinition, file, "greet_all", 1).await, [moved]);
    workspace.pool.close().await;
}

#[tokio::test]
async fn pyright_answers() {
    let workspace = open("pyright", vec![from_npm("pyright-langserver"), "--stdio".to_owned()]);
    workspace.put("a b.py", "def greet_all(): return 1\n\nx = (\"é漢😀\", greet_all())\n");
    check(&workspace, "a b.py", "1:5", "3:14", "greet_all").await;
}

#[tokio::test]
async fn typescript_language_server_answers() {
    let workspace = open("typescript", vec![from_npm("typescript-language-server"), "--stdio".to_owned()]);
    workspace.put("package.json", "{}");
    workspace.put("a b.ts", "function greet_all() { return 1 }\n\nconst x = [\"é漢😀\", greet_all()];\n");
    check(&workspace, "a b.ts", "1:10", "3:20", "greet_all").await;
}

#[tokio::test]
async fn clangd_answers() {
    let workspace = open("clangd", vec![on_path("clangd")]);
    workspace.put(
        "a b.c",
        "int greet_all(void) { return 1; }\n\nint x(void) { (void)\"é漢😀\"; return greet_all(); }\n",
    );
    check(&workspace, "a b.c", "1:5", "3:36", "greet_all").await;
}

#[tokio::test]
async fn rust_analyzer_answers() {
    let workspace = open("rust", vec![on_path("rust-analyzer")]);
    workspace.put("Cargo.toml", "[package]\nname = \"fixture\"\nversion = \"0.1.0\"\nedition = \"2021\"\n");
    workspace.put(
        "src/lib.rs",
        "pub fn greet_all() -> u32 { 1 }\n\npub fn x() { let _ = (\"é漢😀\", greet_all()); }\n",
    );
    check(&workspace, "src/lib.rs", "1:8", "3:31", "greet_all").await;
}
