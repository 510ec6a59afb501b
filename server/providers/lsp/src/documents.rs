//! The documents that are open in one server, kept in step with what the agent and the editor see.
//!
//! Before each query every open document is read again and changed where it differs, so that an answer concerns the
//! present text. Few stay open: each costs a reading.

use crate::handshake::{Sync, Traits};
use crate::position::change;
use async_lsp::ServerSocket;
use lsp_types::notification::{
    DidChangeTextDocument, DidChangeWatchedFiles, DidCloseTextDocument, DidOpenTextDocument,
};
use lsp_types::{
    DidChangeTextDocumentParams, DidChangeWatchedFilesParams, DidCloseTextDocumentParams,
    DidOpenTextDocumentParams, FileChangeType, FileEvent, TextDocumentContentChangeEvent,
    TextDocumentIdentifier, TextDocumentItem, Url, VersionedTextDocumentIdentifier,
};
use services::file_system::{FileSystem, Target};
use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use tokio_util::sync::CancellationToken;

/// Most documents that stay open.
const MAX_OPEN: usize = 8;
/// Largest document that is sent, in bytes. Source: `spec/tools-files-shell.md` §13.
pub const MAX_TEXT: u64 = 4_000_000;

/// The texts a server was given, by path: what its positions in them refer to.
pub type Texts = HashMap<PathBuf, Arc<str>>;

/// The open documents of one server, the latest used last.
#[derive(Default)]
pub struct Documents {
    open: Vec<Document>,
}

struct Document {
    path: PathBuf,
    uri: Url,
    version: i32,
    text: Arc<str>,
}

/// What a sync needs.
pub struct SyncContext<'a> {
    /// To the server.
    pub socket: &'a ServerSocket,
    /// How it wants changes.
    pub traits: &'a Traits,
    /// Where texts come from.
    pub files: &'a dyn FileSystem,
    /// The protocol's name of a file's language; `None` for a file the server does not serve.
    pub language_of: &'a (dyn Fn(&Path) -> Option<String> + std::marker::Sync),
    /// Stops the reading.
    pub cancel: &'a CancellationToken,
}

impl Documents {
    /// Brings the server up to date: `changed` are files that we wrote since the last time, `path` and `text` the
    /// document of the query. Errors of the connection are left to the request that follows.
    pub async fn sync(&mut self, ctx: &SyncContext<'_>, changed: Vec<PathBuf>, path: &Path, text: &str) {
        if !changed.is_empty() {
            let event = |path: &PathBuf| {
                let kind = if path.exists() { FileChangeType::CHANGED } else { FileChangeType::DELETED };
                Some(FileEvent::new(Url::from_file_path(path).ok()?, kind))
            };
            let changes = changed.iter().filter_map(event).collect();
            let _ = ctx.socket.notify::<DidChangeWatchedFiles>(DidChangeWatchedFilesParams { changes });
        }
        let unopened = changed.into_iter().filter(|changed| self.position(changed).is_none());
        let mut paths: Vec<PathBuf> = self.open.iter().map(|document| document.path.clone()).collect();
        paths.extend(unopened.filter(|path| (ctx.language_of)(path).is_some()));
        paths.retain(|other| other != path);
        let texts = futures::future::join_all(paths.iter().map(|path| read(ctx, path))).await;
        for (other, text) in paths.iter().zip(texts) {
            match text {
                Some(text) => self.put(ctx, other, &text),
                None => self.close(ctx, other),
            }
        }
        self.put(ctx, path, text);
        while self.open.len() > MAX_OPEN {
            let oldest = self.open[0].path.clone();
            self.close(ctx, &oldest);
        }
    }

    /// The texts the server has now.
    pub fn texts(&self) -> Texts {
        self.open.iter().map(|document| (document.path.clone(), document.text.clone())).collect()
    }

    /// The version of an open document.
    pub fn version(&self, path: &Path) -> Option<i32> {
        self.open.iter().find(|document| document.path == path).map(|document| document.version)
    }

    fn position(&self, path: &Path) -> Option<usize> {
        self.open.iter().position(|document| document.path == path)
    }

    /// Opens or changes a document, and makes it the latest used when its text is new.
    fn put(&mut self, ctx: &SyncContext<'_>, path: &Path, text: &str) {
        let Some(place) = self.position(path) else { return self.open(ctx, path, text) };
        if *self.open[place].text == *text {
            return;
        }
        if ctx.traits.sync == Sync::Reopen {
            self.close(ctx, path);
            return self.open(ctx, path, text);
        }
        let mut document = self.open.remove(place);
        document.version += 1;
        let event = if ctx.traits.sync == Sync::Full {
            TextDocumentContentChangeEvent { range: None, range_length: None, text: text.to_owned() }
        } else {
            let change = change(&document.text, text, ctx.traits.encoding);
            TextDocumentContentChangeEvent {
                range: Some(change.range),
                range_length: None,
                text: change.text.to_owned(),
            }
        };
        let _ = ctx.socket.notify::<DidChangeTextDocument>(DidChangeTextDocumentParams {
            text_document: VersionedTextDocumentIdentifier::new(document.uri.clone(), document.version),
            content_changes: vec![event],
        });
        document.text = text.into();
        self.open.push(document);
    }

    fn open(&mut self, ctx: &SyncContext<'_>, path: &Path, text: &str) {
        let (Some(language), Ok(uri)) = ((ctx.language_of)(path), Url::from_file_path(path)) else { return };
        let _ = ctx.socket.notify::<DidOpenTextDocument>(DidOpenTextDocumentParams {
            text_document: TextDocumentItem::new(uri.clone(), language, 1, text.to_owned()),
        });
        self.open.push(Document { path: path.to_owned(), uri, version: 1, text: text.into() });
    }

    fn close(&mut self, ctx: &SyncContext<'_>, path: &Path) {
        let Some(place) = self.position(path) else { return };
        let document = self.open.remove(place);
        let _ = ctx.socket.notify::<DidCloseTextDocument>(DidCloseTextDocumentParams {
            text_document: TextDocumentIdentifier::new(document.uri),
        });
    }
}

/// The present text of a file; `None` when it is gone, too large or no text.
async fn read(ctx: &SyncContext<'_>, path: &Path) -> Option<String> {
    let target = Target { key: path.to_owned(), display: path.to_owned() };
    Some(ctx.files.read_text(&target, MAX_TEXT, ctx.cancel).await.ok()?.text)
}
