//! What a server asks and tells: every request is answered at once, unknown ones with method-not-found.
//!
//! Works on untyped JSON, so that a message with odd parameters never ends the connection. Source: `crates.md` §2;
//! `faults.md` L09.

use crate::diagnostics::Diagnostics;
use crate::readiness::Readiness;
use crate::watching::Watching;
use async_lsp::{AnyEvent, AnyNotification, AnyRequest, ErrorCode, LspService, ResponseError};
use serde_json::{Value, json};
use std::future::{Ready, ready};
use std::ops::ControlFlow;
use std::sync::Arc;
use std::task::{Context, Poll};
use tower_service::Service;

/// The client's side of one connection.
pub struct Inbound {
    /// Where loading is noted.
    pub readiness: Arc<Readiness>,
    /// Where findings are kept.
    pub diagnostics: Arc<Diagnostics>,
    /// What watches the disk for the server.
    pub watching: Arc<Watching>,
    /// Answer to `workspace/workspaceFolders`.
    pub folders: Value,
    /// What `workspace/configuration` looks sections up in.
    pub settings: Value,
}

/// Ends the main loop without an error.
pub struct Stop;

impl Service<AnyRequest> for Inbound {
    type Response = Value;
    type Error = ResponseError;
    type Future = Ready<Result<Value, ResponseError>>;

    fn poll_ready(&mut self, _cx: &mut Context<'_>) -> Poll<Result<(), ResponseError>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, request: AnyRequest) -> Self::Future {
        ready(self.answer(&request.method, &request.params))
    }
}

impl LspService for Inbound {
    fn notify(&mut self, notification: AnyNotification) -> ControlFlow<async_lsp::Result<()>> {
        match notification.method.as_str() {
            "$/progress" => self.readiness.progress(&notification.params),
            "textDocument/publishDiagnostics" => self.diagnostics.published(&notification.params),
            "experimental/serverStatus" => self.readiness.status(&notification.params),
            "window/logMessage" | "window/showMessage" => {
                tracing::debug!(message = %notification.params["message"], "a language server says");
            }
            _ => {}
        }
        ControlFlow::Continue(())
    }

    fn emit(&mut self, event: AnyEvent) -> ControlFlow<async_lsp::Result<()>> {
        if event.is::<Stop>() { ControlFlow::Break(Ok(())) } else { ControlFlow::Continue(()) }
    }
}

impl Inbound {
    fn answer(&self, method: &str, params: &Value) -> Result<Value, ResponseError> {
        match method {
            "workspace/configuration" => {
                let items = params["items"].as_array().map(Vec::as_slice).unwrap_or_default();
                Ok(items.iter().map(|item| section(&self.settings, item["section"].as_str())).collect())
            }
            "workspace/workspaceFolders" => Ok(self.folders.clone()),
            "workspace/applyEdit" => {
                Ok(json!({ "applied": false, "failureReason": "this client only asks questions" }))
            }
            "window/showDocument" => Ok(json!({ "success": false })),
            "client/registerCapability" => {
                self.watching.register(&params["registrations"]);
                Ok(Value::Null)
            }
            "client/unregisterCapability" => {
                // The misspelling is the protocol's.
                self.watching.unregister(&params["unregisterations"]);
                Ok(Value::Null)
            }
            "workspace/diagnostic/refresh" => {
                self.diagnostics.refresh();
                Ok(Value::Null)
            }
            "window/workDoneProgress/create" | "window/showMessageRequest" => Ok(Value::Null),
            refresh if refresh.starts_with("workspace/") && refresh.ends_with("/refresh") => Ok(Value::Null),
            unknown => {
                Err(ResponseError::new(ErrorCode::METHOD_NOT_FOUND, format!("unknown method {unknown}")))
            }
        }
    }
}

/// The settings under a dotted name; the whole without a name, null for an unknown one.
fn section(settings: &Value, name: Option<&str>) -> Value {
    let Some(name) = name.filter(|name| !name.is_empty()) else { return settings.clone() };
    name.split('.').try_fold(settings, |found, part| found.get(part)).cloned().unwrap_or(Value::Null)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;

    #[test]
    fn requests_are_answered_and_unknown_ones_refused() {
        let inbound = Inbound {
            readiness: Arc::new(Readiness::new(false, Duration::ZERO)),
            diagnostics: Arc::default(),
            watching: Arc::new(Watching::new("/w".into())),
            folders: json!([{ "uri": "file:///w", "name": "w" }]),
            settings: json!({ "python": { "analysis": { "autoSearchPaths": true } } }),
        };
        let items = json!({ "items": [{ "section": "python.analysis" }, { "section": "x.y" }, {}] });
        let cases = [
            (
                "workspace/configuration",
                items,
                Some(json!([{ "autoSearchPaths": true }, null, inbound.settings.clone()])),
            ),
            ("workspace/workspaceFolders", json!(null), Some(inbound.folders.clone())),
            ("client/registerCapability", json!({ "registrations": [] }), Some(Value::Null)),
            ("workspace/semanticTokens/refresh", json!(null), Some(Value::Null)),
            ("window/showMessageRequest", json!({ "actions": [] }), Some(Value::Null)),
            ("client/somethingNew", json!(null), None),
        ];
        for (method, params, expected) in cases {
            let answer = inbound.answer(method, &params);
            assert_eq!(answer.clone().ok(), expected, "{method}");
            if let Err(error) = answer {
                assert_eq!(error.code, ErrorCode::METHOD_NOT_FOUND);
            }
        }
    }
}
