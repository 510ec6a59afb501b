//! The language servers we know, as data, and what a configuration changes about them.
//!
//! For a file, the servers that serve its extension are tried in the order of the table; those named in a configuration
//! come first. Called by the composition and by `doctor`.

use serde_json::{Value, json};

/// One language server.
#[derive(Clone, Debug, PartialEq)]
pub struct ServerSpec {
    /// Its name; `[lsp.NAME]` changes it.
    pub name: String,
    /// The languages, for a person.
    pub languages: String,
    /// Program and arguments.
    pub command: Vec<String>,
    /// Extensions without a dot, in lower case, each with the protocol's name of the language.
    pub extensions: Vec<(String, String)>,
    /// Files and folders that mark the root of a project.
    pub root_markers: Vec<String>,
    /// How to install it; empty when not known.
    pub install: String,
    /// `initializationOptions`.
    pub options: Value,
    /// What `workspace/configuration` is answered from.
    pub settings: Value,
    /// Whether it sends `experimental/serverStatus`.
    pub reports_status: bool,
}

impl ServerSpec {
    /// The server in this program: it has no command, and tells when it is ready.
    pub fn in_process(extensions: Vec<(String, String)>) -> Self {
        Self { extensions, reports_status: true, ..unknown("by-name") }
    }
}

/// A change to a server of the table, or a new one. What is `None` stays, or is empty.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ServerChange {
    /// Program and arguments.
    pub command: Option<Vec<String>>,
    /// Extensions; taken away from the other servers.
    pub extensions: Option<Vec<String>>,
    /// Names that mark a root.
    pub root_markers: Option<Vec<String>>,
}

/// Name, languages, command, extensions (`ext` or `ext=language`), markers, install line; separated by spaces inside.
type Row = (&'static str, &'static str, &'static str, &'static str, &'static str, &'static str);

/// The built-in servers.
const ROWS: &[Row] = &[
    (
        "rust",
        "Rust",
        "rust-analyzer",
        "rs=rust",
        "Cargo.toml rust-project.json",
        "rustup component add rust-analyzer",
    ),
    (
        "clangd",
        "C, C++",
        "clangd",
        "c cc=cpp cpp cxx=cpp h=cpp hh=cpp hpp=cpp hxx=cpp m=objective-c mm=objective-cpp cu=cuda-cpp",
        "compile_commands.json compile_flags.txt .clangd CMakeLists.txt meson.build",
        "apt install clangd, or brew install llvm",
    ),
    ("gopls", "Go", "gopls", "go", "go.work go.mod", "go install golang.org/x/tools/gopls@latest"),
    (
        "pyright",
        "Python",
        "pyright-langserver --stdio",
        "py=python pyi=python",
        "pyrightconfig.json pyproject.toml setup.py setup.cfg requirements.txt Pipfile",
        "npm install -g pyright",
    ),
    (
        "basedpyright",
        "Python",
        "basedpyright-langserver --stdio",
        "py=python pyi=python",
        "pyrightconfig.json pyproject.toml setup.py setup.cfg requirements.txt Pipfile",
        "pip install basedpyright",
    ),
    (
        "pylsp",
        "Python",
        "pylsp",
        "py=python pyi=python",
        "pyproject.toml setup.py setup.cfg requirements.txt Pipfile",
        "pip install python-lsp-server",
    ),
    (
        "typescript",
        "TypeScript, JavaScript",
        "typescript-language-server --stdio",
        "ts=typescript mts=typescript cts=typescript tsx=typescriptreact js=javascript mjs=javascript cjs=javascript \
         jsx=javascriptreact",
        "tsconfig.json jsconfig.json package.json",
        "npm install -g typescript-language-server typescript@5",
    ),
    (
        "vtsls",
        "TypeScript, JavaScript",
        "vtsls --stdio",
        "ts=typescript mts=typescript cts=typescript tsx=typescriptreact js=javascript mjs=javascript cjs=javascript \
         jsx=javascriptreact",
        "tsconfig.json jsconfig.json package.json",
        "npm install -g @vtsls/language-server",
    ),
    (
        "json",
        "JSON",
        "vscode-json-language-server --stdio",
        "json jsonc",
        "",
        "npm install -g vscode-langservers-extracted",
    ),
    (
        "css",
        "CSS",
        "vscode-css-language-server --stdio",
        "css scss less",
        "package.json",
        "npm install -g vscode-langservers-extracted",
    ),
    (
        "html",
        "HTML",
        "vscode-html-language-server --stdio",
        "html htm=html",
        "package.json",
        "npm install -g vscode-langservers-extracted",
    ),
    (
        "yaml",
        "YAML",
        "yaml-language-server --stdio",
        "yaml yml=yaml",
        "",
        "npm install -g yaml-language-server",
    ),
    (
        "bash",
        "shell",
        "bash-language-server start",
        "sh=shellscript bash=shellscript",
        "",
        "npm install -g bash-language-server",
    ),
    (
        "lua",
        "Lua",
        "lua-language-server",
        "lua",
        ".luarc.json .luarc.jsonc",
        "brew install lua-language-server",
    ),
    ("zls", "Zig", "zls", "zig", "build.zig", "the release of your Zig version from github.com/zigtools/zls"),
    (
        "jdtls",
        "Java",
        "jdtls",
        "java",
        "pom.xml build.gradle build.gradle.kts settings.gradle .project",
        "brew install jdtls",
    ),
    (
        "kotlin",
        "Kotlin",
        "kotlin-language-server",
        "kt=kotlin kts=kotlin",
        "build.gradle.kts build.gradle pom.xml",
        "brew install kotlin-language-server",
    ),
    (
        "omnisharp",
        "C#",
        "omnisharp -lsp",
        "cs=csharp",
        "global.json omnisharp.json",
        "the release from github.com/OmniSharp/omnisharp-roslyn",
    ),
    (
        "ruby",
        "Ruby",
        "ruby-lsp",
        "rb=ruby rake=ruby gemspec=ruby",
        "Gemfile .ruby-version",
        "gem install ruby-lsp",
    ),
    ("php", "PHP", "intelephense --stdio", "php", "composer.json", "npm install -g intelephense"),
    ("elixir", "Elixir", "elixir-ls", "ex=elixir exs=elixir", "mix.exs", "brew install elixir-ls"),
    (
        "haskell",
        "Haskell",
        "haskell-language-server-wrapper --lsp",
        "hs=haskell lhs=haskell",
        "hie.yaml stack.yaml cabal.project package.yaml",
        "ghcup install hls",
    ),
    (
        "ocaml",
        "OCaml",
        "ocamllsp",
        "ml=ocaml mli=ocaml.interface",
        "dune-project",
        "opam install ocaml-lsp-server",
    ),
    (
        "terraform",
        "Terraform",
        "terraform-ls serve",
        "tf=terraform tfvars=terraform-vars",
        ".terraform",
        "brew install hashicorp/tap/terraform-ls",
    ),
    ("dart", "Dart", "dart language-server", "dart", "pubspec.yaml", "the Dart or Flutter SDK"),
    ("swift", "Swift", "sourcekit-lsp", "swift", "Package.swift", "the Swift toolchain"),
];

/// The built-in servers, in the order in which they are tried.
pub fn built_in() -> Vec<ServerSpec> {
    ROWS.iter().map(spec).collect()
}

/// The built-in servers with a configuration's changes; those it names come first.
pub fn servers(changes: impl IntoIterator<Item = (String, ServerChange)>) -> Vec<ServerSpec> {
    let mut table = built_in();
    let mut named = Vec::new();
    for (name, change) in changes {
        let place = table.iter().position(|server| server.name == name);
        let mut server = place.map_or_else(|| unknown(&name), |place| table.remove(place));
        if let Some(command) = change.command {
            server.command = command;
        }
        if let Some(markers) = change.root_markers {
            server.root_markers = markers;
        }
        if let Some(extensions) = change.extensions {
            let languages = |extension: &String| {
                let extension = extension.trim_start_matches('.').to_lowercase();
                let language = language_of(&extension);
                (extension, language)
            };
            server.extensions = extensions.iter().map(languages).collect();
            let taken = &server.extensions;
            for other in table.iter_mut().chain(&mut named) {
                other.extensions.retain(|(extension, _)| taken.iter().all(|(theirs, _)| theirs != extension));
            }
        }
        named.push(server);
    }
    named.retain(|server| !server.command.is_empty());
    named.extend(table);
    named
}

fn unknown(name: &str) -> ServerSpec {
    ServerSpec {
        name: name.to_owned(),
        languages: name.to_owned(),
        command: Vec::new(),
        extensions: Vec::new(),
        root_markers: Vec::new(),
        install: String::new(),
        options: Value::Null,
        settings: Value::Null,
        reports_status: false,
    }
}

/// The protocol's name of the language of an extension, as the table has it; else the extension.
fn language_of(extension: &str) -> String {
    let known = ROWS.iter().flat_map(|row| pairs(row.3)).find(|(known, _)| known == extension);
    known.map_or_else(|| extension.to_owned(), |(_, language)| language)
}

fn spec(row: &Row) -> ServerSpec {
    let &(name, languages, command, extensions, markers, install) = row;
    let words = |text: &str| text.split_whitespace().map(str::to_owned).collect::<Vec<_>>();
    let (options, settings) = extras(name);
    ServerSpec {
        name: name.to_owned(),
        languages: languages.to_owned(),
        command: words(command),
        extensions: pairs(extensions).collect(),
        root_markers: words(markers),
        install: install.to_owned(),
        options,
        settings,
        reports_status: name == "rust",
    }
}

fn pairs(extensions: &'static str) -> impl Iterator<Item = (String, String)> {
    extensions.split_whitespace().map(|entry| {
        let (extension, language) = entry.split_once('=').unwrap_or((entry, entry));
        (extension.to_owned(), language.to_owned())
    })
}

/// Initialization options and settings of servers that need some.
fn extras(name: &str) -> (Value, Value) {
    match name {
        // We ask questions only: checking in the background would take the machine for nothing.
        "rust" => {
            let settings = json!({ "checkOnSave": false });
            (settings.clone(), json!({ "rust-analyzer": settings }))
        }
        "typescript" => (json!({ "disableAutomaticTypingAcquisition": true }), Value::Null),
        "pyright" | "basedpyright" => {
            (Value::Null, json!({ "python": { "analysis": { "useLibraryCodeForTypes": true } } }))
        }
        _ => (Value::Null, Value::Null),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_server_is_complete_and_named_once() {
        let table = built_in();
        for server in &table {
            assert!(!server.command.is_empty() && !server.extensions.is_empty(), "{}", server.name);
            assert!(!server.install.is_empty(), "{}", server.name);
            assert_eq!(table.iter().filter(|other| other.name == server.name).count(), 1, "{}", server.name);
        }
    }

    #[test]
    fn a_configuration_changes_adds_and_takes_extensions_away() {
        let words = |words: &[&str]| Some(words.iter().map(|&word| word.to_owned()).collect::<Vec<_>>());
        let changes = [
            ("pylsp", ServerChange { command: words(&["my-pylsp", "-v"]), ..ServerChange::default() }),
            (
                "mine",
                ServerChange {
                    command: words(&["mine"]),
                    extensions: words(&["rs", "xyz"]),
                    root_markers: words(&["m"]),
                },
            ),
        ];
        let servers = servers(changes.map(|(name, change)| (name.to_owned(), change)));
        assert_eq!(servers[0].command, ["my-pylsp", "-v"]);
        assert_eq!(
            servers[0].extensions,
            [("py", "python"), ("pyi", "python")].map(|(a, b)| (a.into(), b.into()))
        );
        assert_eq!(
            servers[1].extensions,
            [("rs", "rust"), ("xyz", "xyz")].map(|(a, b)| (a.into(), b.into()))
        );
        let rust = servers.iter().find(|server| server.name == "rust").unwrap();
        assert_eq!(rust.extensions, []);
        assert_eq!(servers.len(), built_in().len() + 1);
    }
}
