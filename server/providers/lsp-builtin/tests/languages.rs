//! Every language through the protocol: definition, uses and hover of a name of a small project.

#![allow(clippy::unwrap_used, clippy::expect_used, reason = "a test fails where it stands")]

use async_lsp::{AnyEvent, AnyNotification, AnyRequest, LspService, MainLoop, ResponseError, ServerSocket};
use lsp_types::Url;
use serde_json::{Value, json};
use std::future::{Ready, ready};
use std::ops::ControlFlow;
use std::path::Path;
use std::task::{Context, Poll};
use tokio_util::compat::{TokioAsyncReadCompatExt, TokioAsyncWriteCompatExt};

struct Client;

impl tower_service::Service<AnyRequest> for Client {
    type Response = Value;
    type Error = ResponseError;
    type Future = Ready<Result<Value, ResponseError>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), ResponseError>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, _: AnyRequest) -> Self::Future {
        ready(Ok(Value::Null))
    }
}

impl LspService for Client {
    fn notify(&mut self, _: AnyNotification) -> ControlFlow<async_lsp::Result<()>> {
        ControlFlow::Continue(())
    }

    fn emit(&mut self, _: AnyEvent) -> ControlFlow<async_lsp::Result<()>> {
        ControlFlow::Continue(())
    }
}

macro_rules! requests {
    ($($name:ident = $method:literal),*) => { $(
        struct $name;
        impl lsp_types::request::Request for $name {
            type Params = Value;
            type Result = Value;
            const METHOD: &'static str = $method;
        }
    )* };
}

requests!(
    Initialize = "initialize",
    Definition = "textDocument/definition",
    References = "textDocument/references",
    Hover = "textDocument/hover"
);

async fn connect(root: &Path) -> ServerSocket {
    let (ours, theirs) = tokio::io::duplex(4096);
    tokio::spawn(provider_lsp_builtin::serve(theirs));
    let (connection, server) = MainLoop::new_client(|_| Client);
    let kept = server.clone();
    let (input, output) = tokio::io::split(ours);
    tokio::spawn(async move {
        let _kept = kept;
        let _ = connection.run_buffered(input.compat(), output.compat_write()).await;
    });
    server.request::<Initialize>(json!({ "rootUri": Url::from_file_path(root).unwrap() })).await.unwrap();
    server
}

/// Where the answer's places are: `file:line:column`, from 1, columns in bytes.
fn places(answer: &Value) -> Vec<String> {
    let place = |one: &Value| {
        let file = one["uri"].as_str().unwrap().rsplit('/').next().unwrap().to_owned();
        let start = &one["range"]["start"];
        format!("{file}:{}:{}", start["line"].as_u64().unwrap() + 1, start["character"].as_u64().unwrap() + 1)
    };
    answer.as_array().unwrap().iter().map(place).collect()
}

/// The file that defines `greet`, with a comment that says hello; the one that uses it, on its last line; where it is
/// defined; where it stands; how the definition begins.
type Case = (
    &'static str,
    &'static str,
    &'static str,
    &'static str,
    &'static str,
    &'static [&'static str],
    &'static str,
);

#[tokio::test(flavor = "multi_thread")]
async fn every_language_is_answered() {
    let cases: &[Case] = &[
        (
            "a.rs",
            "/// Says hello.\npub fn greet(n: &str) {}\n",
            "b.rs",
            "fn m() { greet(\"greet\"); } // greet\n",
            "a.rs:2:8",
            &["b.rs:1:10", "a.rs:2:8"],
            "pub fn greet(n: &str)",
        ),
        (
            "a.py",
            "def greet(n):\n    \"\"\"Says hello.\"\"\"\n",
            "b.py",
            "greet('greet')  # greet\n",
            "a.py:1:5",
            &["b.py:1:1", "a.py:1:5"],
            "def greet(n)",
        ),
        (
            "a.js",
            "// Says hello.\nexport const greet = (n) => n;\n",
            "b.js",
            "greet('greet'); // greet\n",
            "a.js:2:14",
            &["b.js:1:1", "a.js:2:14"],
            "export const greet = (n) => n;",
        ),
        (
            "a.ts",
            "/** Says hello. */\nexport function greet(n: string) {}\n",
            "b.tsx",
            "greet(<p>greet</p>);\n",
            "a.ts:2:17",
            &["b.tsx:1:1", "a.ts:2:17"],
            "export function greet(n: string)",
        ),
        (
            "a.go",
            "package x\n\n// Says hello.\nfunc greet(n string) {}\n",
            "b.go",
            "package x\nfunc m() { greet(\"greet\") }\n",
            "a.go:4:6",
            &["b.go:2:12", "a.go:4:6"],
            "func greet(n string)",
        ),
        (
            "a.c",
            "/* Says hello. */\nvoid greet(const char *n) {}\n",
            "b.c",
            "int m(void) { greet(\"greet\"); }\n",
            "a.c:2:6",
            &["b.c:1:15", "a.c:2:6"],
            "void greet(const char *n)",
        ),
        (
            "a.cpp",
            "// Says hello.\nvoid Host::greet(int n) {}\n",
            "b.cpp",
            "void m(Host &h) { h.greet(1); }\n",
            "a.cpp:2:12",
            &["b.cpp:1:21", "a.cpp:2:12"],
            "void Host::greet(int n)",
        ),
        (
            "A.java",
            "class A {\n  /** Says hello. */\n  void greet(int n) {}\n}\n",
            "B.java",
            "class B { void m(A a) { a.greet(1); } }\n",
            "A.java:3:8",
            &["B.java:1:27", "A.java:3:8"],
            "void greet(int n)",
        ),
        (
            "a.rb",
            "# Says hello.\ndef greet(n)\n  n\nend\n",
            "b.rb",
            "greet('greet') # greet\n",
            "a.rb:2:5",
            &["b.rb:1:1", "a.rb:2:5"],
            "def greet(n)",
        ),
        (
            "a.sh",
            "# Says hello.\ngreet() {\n  true\n}\n",
            "b.sh",
            "greet 'greet' # greet\n",
            "a.sh:2:1",
            &["b.sh:1:1", "a.sh:2:1"],
            "greet()",
        ),
        (
            "a.php",
            "<?php\n/** Says hello. */\nfunction greet($n) {}\n",
            "b.php",
            "<?php greet('greet'); // greet\n",
            "a.php:3:10",
            &["b.php:1:7", "a.php:3:10"],
            "function greet($n)",
        ),
        (
            "A.cs",
            "class A {\n  // Says hello.\n  void greet(int n) {}\n}\n",
            "B.cs",
            "class B { void M(A a) { a.greet(1); } }\n",
            "A.cs:3:8",
            &["B.cs:1:27", "A.cs:3:8"],
            "void greet(int n)",
        ),
    ];
    for &(defining, text, using, call, definition, uses, signature) in cases {
        let folder = tempfile::tempdir().unwrap();
        std::fs::write(folder.path().join(defining), text).unwrap();
        std::fs::write(folder.path().join(using), call).unwrap();
        let server = connect(folder.path()).await;
        let (line, last) = call.lines().enumerate().last().unwrap();
        let at = json!({
            "textDocument": { "uri": Url::from_file_path(folder.path().join(using)).unwrap() },
            "position": { "line": line, "character": last.find("greet").unwrap() + 2 },
        });
        let found = server.request::<Definition>(at.clone()).await.unwrap();
        assert_eq!(places(&found), [definition], "{using}");
        let found = server.request::<References>(at.clone()).await.unwrap();
        assert_eq!(places(&found), uses, "{using}");
        let found = server.request::<Hover>(at).await.unwrap();
        let shown = found["contents"]["value"].as_str().unwrap();
        assert!(
            shown.contains(&format!("\n{signature}\n```")) && shown.ends_with("Says hello."),
            "{using}: {shown}"
        );
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn prototypes_come_last_and_locals_are_their_first_use() {
    let folder = tempfile::tempdir().unwrap();
    let put = |name: &str, text: &str| std::fs::write(folder.path().join(name), text).unwrap();
    put("b.c", "void greet(int n);\nvoid m(int number) { greet(number); }\n");
    std::fs::create_dir(folder.path().join("far")).unwrap();
    put("far/a.c", "void greet(int n) {}\n");
    let server = connect(folder.path()).await;
    let uri = Url::from_file_path(folder.path().join("b.c")).unwrap();
    for (column, expected) in [(21, vec!["a.c:1:6", "b.c:1:6"]), (28, vec!["b.c:2:12"]), (0, vec![])] {
        let at = json!({ "textDocument": { "uri": uri }, "position": { "line": 1, "character": column } });
        let found = server.request::<Definition>(at).await.unwrap();
        let found = if found.is_null() { Vec::new() } else { places(&found) };
        assert_eq!(found, expected, "{column}");
    }
}
