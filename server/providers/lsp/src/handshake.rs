//! What we tell a server of ourselves, and what it tells of itself.

use crate::position::Encoding;
use crate::table::ServerSpec;
use lsp_types::Url;
use serde_json::{Value, json};
use services::language_servers::LspOperation;
use std::path::Path;

/// What a server can do.
#[derive(Clone, Debug, PartialEq)]
pub struct Traits {
    /// What it counts columns in.
    pub encoding: Encoding,
    /// How it wants changes of open documents.
    pub sync: Sync,
    capabilities: Value,
}

/// How a server wants changes of open documents.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Sync {
    /// The whole text.
    Full,
    /// What changed.
    Incremental,
    /// Not at all: a document is closed and opened again.
    Reopen,
}

/// Parameters of `initialize`.
pub fn parameters(server: &ServerSpec, root: &Url, folders: &Value) -> Value {
    json!({
        "processId": std::process::id(),
        "clientInfo": { "name": "followspot", "version": env!("CARGO_PKG_VERSION") },
        "rootUri": root,
        "rootPath": root.to_file_path().ok(),
        "workspaceFolders": folders,
        "initializationOptions": server.options,
        "capabilities": {
            "general": { "positionEncodings": ["utf-16", "utf-8", "utf-32"] },
            "window": { "workDoneProgress": true },
            "workspace": {
                "configuration": true,
                "workspaceFolders": true,
                "didChangeWatchedFiles": { "dynamicRegistration": true, "relativePatternSupport": true },
                "diagnostics": { "refreshSupport": true },
            },
            "textDocument": {
                "synchronization": { "dynamicRegistration": false },
                "definition": { "linkSupport": true },
                "implementation": { "linkSupport": true },
                "references": {},
                "publishDiagnostics": { "versionSupport": true },
                "diagnostic": { "dynamicRegistration": false },
                "hover": { "contentFormat": ["markdown", "plaintext"] },
            },
            "experimental": { "serverStatusNotification": true },
        },
    })
}

/// `workspaceFolders` of a server for one root.
pub fn folders(root: &Path, uri: &Url) -> Value {
    let name = root.file_name().map_or_else(|| "root".into(), |name| name.to_string_lossy());
    json!([{ "uri": uri, "name": name }])
}

impl Traits {
    /// Reads the result of `initialize`.
    pub fn of(result: &Value) -> Self {
        let capabilities = result["capabilities"].clone();
        let sync = &capabilities["textDocumentSync"];
        let kind = sync.as_u64().or_else(|| sync["change"].as_u64());
        // Servers before 3.17 named it elsewhere: clangd still does.
        let encoding =
            capabilities["positionEncoding"].as_str().or_else(|| result["offsetEncoding"].as_str());
        Self {
            encoding: Encoding::named(encoding),
            sync: match kind {
                Some(2) => Sync::Incremental,
                Some(1) => Sync::Full,
                _ => Sync::Reopen,
            },
            capabilities,
        }
    }

    /// Whether the server wants to be asked what is wrong.
    pub fn pulls_diagnostics(&self) -> bool {
        self.capabilities["diagnosticProvider"].is_object()
    }

    /// Whether the server offers an operation: `true` or an object of options.
    pub fn offers(&self, operation: LspOperation) -> bool {
        let name = match operation {
            LspOperation::GoToDefinition => "definitionProvider",
            LspOperation::FindReferences => "referencesProvider",
            LspOperation::GoToImplementation => "implementationProvider",
            LspOperation::Hover => "hoverProvider",
        };
        let offered = &self.capabilities[name];
        offered.as_bool().unwrap_or_else(|| offered.is_object())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn traits_are_read_in_every_spelling() {
        let of = |capabilities: Value| Traits::of(&json!({ "capabilities": capabilities }));
        for (capabilities, encoding, sync) in [
            (json!({ "textDocumentSync": 2 }), Encoding::Utf16, Sync::Incremental),
            (
                json!({ "textDocumentSync": { "change": 1 }, "positionEncoding": "utf-8" }),
                Encoding::Utf8,
                Sync::Full,
            ),
            (json!({ "textDocumentSync": {}, "positionEncoding": "utf-32" }), Encoding::Utf32, Sync::Reopen),
            (json!({}), Encoding::Utf16, Sync::Reopen),
        ] {
            let traits = of(capabilities);
            assert_eq!((traits.encoding, traits.sync), (encoding, sync));
        }
        let traits =
            of(json!({ "hoverProvider": {}, "definitionProvider": true, "referencesProvider": false }));
        let all = [
            LspOperation::Hover,
            LspOperation::GoToDefinition,
            LspOperation::FindReferences,
            LspOperation::GoToImplementation,
        ];
        assert_eq!(all.map(|operation| traits.offers(operation)), [true, true, false, false]);
    }
}
