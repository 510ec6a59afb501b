//! The protocol: documents are taken in the order in which they come, questions are answered in blocking tasks.
//!
//! Counts columns in bytes and says so; the client of this program offers that. What to know about answers (files left out) is
//! told as `experimental/serverStatus`. Called by `serve`.

use crate::answer::{Document, Documents, Operation, Question, answer};
use crate::index::{Index, MAX_FILES};
use async_lsp::{
    AnyEvent, AnyNotification, AnyRequest, ClientSocket, ErrorCode, LspService, RequestId, ResponseError,
};
use lsp_types::Url;
use serde_json::{Value, json};
use std::collections::HashMap;
use std::future::Future;
use std::ops::ControlFlow;
use std::path::PathBuf;
use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll};
use tokio_util::sync::{CancellationToken, DropGuard};
use tower_service::Service;

/// The server of one root.
pub struct ByName {
    client: ClientSocket,
    documents: Documents,
    index: Arc<Mutex<Index>>,
    /// Questions that are not answered yet.
    open: Arc<Mutex<HashMap<RequestId, CancellationToken>>>,
    /// The notice that the client knows.
    told: Arc<Mutex<Option<String>>>,
    end: CancellationToken,
    _end: DropGuard,
}

/// What rust-analyzer calls its status.
struct Status;

impl lsp_types::notification::Notification for Status {
    type Params = Value;
    const METHOD: &'static str = "experimental/serverStatus";
}

type Answer = Pin<Box<dyn Future<Output = Result<Value, ResponseError>> + Send>>;

impl ByName {
    /// A server for the client at the other end.
    pub fn new(client: ClientSocket) -> Self {
        let end = CancellationToken::new();
        Self {
            client,
            documents: Documents::new(),
            index: Arc::new(Mutex::new(Index::new(PathBuf::from("/"), 0))),
            open: Arc::default(),
            told: Arc::default(),
            _end: end.clone().drop_guard(),
            end,
        }
    }

    fn initialize(&mut self, params: &Value) -> Result<Value, ResponseError> {
        let root = params["rootUri"].as_str().and_then(path_of);
        let root = root.ok_or_else(|| ResponseError::new(ErrorCode::INVALID_PARAMS, "a root is needed"))?;
        self.index = Arc::new(Mutex::new(Index::new(root, MAX_FILES)));
        Ok(json!({
            "capabilities": {
                "positionEncoding": "utf-8",
                "textDocumentSync": 1,
                "definitionProvider": true,
                "referencesProvider": true,
                "hoverProvider": true,
            },
            "serverInfo": { "name": "by-name" },
        }))
    }

    fn question(&self, id: RequestId, operation: Operation, params: &Value) -> Answer {
        let number =
            |name: &str| params["position"][name].as_u64().and_then(|number| u32::try_from(number).ok());
        let path = params["textDocument"]["uri"].as_str().and_then(path_of);
        let (Some(path), Some(line), Some(column)) = (path, number("line"), number("character")) else {
            let error = ResponseError::new(ErrorCode::INVALID_PARAMS, "a file and a position are needed");
            return Box::pin(std::future::ready(Err(error)));
        };
        let question = Question { operation, path, line, column };
        let cancel = self.end.child_token();
        lock(&self.open).insert(id.clone(), cancel.clone());
        let (index, documents) = (self.index.clone(), self.documents.clone());
        let (open, told, client) = (self.open.clone(), self.told.clone(), self.client.clone());
        Box::pin(async move {
            let work = tokio::task::spawn_blocking(move || answer(&index, &documents, &question, &cancel));
            let found = work.await;
            lock(&open).remove(&id);
            let (value, notice) = found
                // A grammar or we ourselves panicked: this question has no answer, the next one may have.
                .map_err(|error| ResponseError::new(ErrorCode::INTERNAL_ERROR, error))?
                .ok_or_else(|| ResponseError::new(ErrorCode::REQUEST_CANCELLED, "cancelled"))?;
            let is_news = *lock(&told) != notice;
            if is_news {
                let _ = client.notify::<Status>(status(notice.as_deref()));
                // Answers overtake notifications in the queue of the connection; an answered request does not.
                let _ = client.request::<lsp_types::request::WorkspaceFoldersRequest>(()).await;
                *lock(&told) = notice;
            }
            Ok(value)
        })
    }
}

impl Service<AnyRequest> for ByName {
    type Response = Value;
    type Error = ResponseError;
    type Future = Answer;

    fn poll_ready(&mut self, _cx: &mut Context<'_>) -> Poll<Result<(), ResponseError>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, request: AnyRequest) -> Answer {
        let operation = match request.method.as_str() {
            "textDocument/definition" => Operation::Definition,
            "textDocument/references" => Operation::References,
            "textDocument/hover" => Operation::Hover,
            method => {
                let answer = match method {
                    "initialize" => self.initialize(&request.params),
                    "shutdown" => Ok(Value::Null),
                    _ => Err(ResponseError::new(
                        ErrorCode::METHOD_NOT_FOUND,
                        format!("unknown method {method}"),
                    )),
                };
                return Box::pin(std::future::ready(answer));
            }
        };
        self.question(request.id, operation, &request.params)
    }
}

impl LspService for ByName {
    fn notify(&mut self, notification: AnyNotification) -> ControlFlow<async_lsp::Result<()>> {
        let params = &notification.params;
        let document = &params["textDocument"];
        let path = document["uri"].as_str().and_then(path_of);
        match (notification.method.as_str(), path) {
            ("initialized", _) => {
                let _ = self.client.notify::<Status>(status(None));
            }
            ("textDocument/didOpen", Some(path)) => self.put(path, &document["text"]),
            ("textDocument/didChange", Some(path)) => self.put(path, &params["contentChanges"][0]["text"]),
            ("textDocument/didClose", Some(path)) => {
                self.documents.remove(&path);
            }
            ("$/cancelRequest", _) => {
                let id = serde_json::from_value::<RequestId>(params["id"].clone());
                if let Some(cancel) = id.ok().and_then(|id| lock(&self.open).get(&id).cloned()) {
                    cancel.cancel();
                }
            }
            ("exit", _) => return ControlFlow::Break(Ok(())),
            _ => {}
        }
        ControlFlow::Continue(())
    }

    fn emit(&mut self, _event: AnyEvent) -> ControlFlow<async_lsp::Result<()>> {
        ControlFlow::Continue(())
    }
}

impl ByName {
    fn put(&mut self, path: PathBuf, text: &Value) {
        let text = text.as_str().unwrap_or_default().to_owned();
        self.documents.insert(path, Arc::new(Document::new(text)));
    }
}

fn status(notice: Option<&str>) -> Value {
    let health = if notice.is_some() { "warning" } else { "ok" };
    json!({ "health": health, "quiescent": true, "message": notice })
}

fn path_of(uri: &str) -> Option<PathBuf> {
    Url::parse(uri).ok()?.to_file_path().ok()
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
