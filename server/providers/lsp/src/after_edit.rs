//! What an edit broke: new errors of the server that runs for the file, with the edit's result when they come soon, as a
//! notice before the next step when they come later. Never starts a server.
//!
//! Called by `files` after each write. One task an edit: it outlives the wait, so that nothing is half sent.

use crate::client::Client;
use crate::diagnostics::{Finding, Snapshot, listed};
use crate::place::extension;
use crate::session::SessionServers;
use services::file_system::FileSystem;
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, OnceLock, PoisonError};
use std::time::Duration;
use tokio::sync::oneshot;
use tokio_util::sync::CancellationToken;

/// How long an edit waits for the findings. Source: product decisions, `[lsp]`.
const WAIT: Duration = Duration::from_millis(300);
/// How long findings of an edit are looked out for.
const LATE: Duration = Duration::from_secs(30);
/// Servers tell in several pieces: how long one waits for the next.
const PIECES: Duration = Duration::from_millis(150);

/// How long until a server that refused is asked again.
const AGAIN: Duration = Duration::from_secs(1);

/// Takes a notice for the next step: what it is known by, and its text; a later one under the same name replaces it,
/// an empty one takes it back.
pub type NoticeSink = Box<dyn Fn(&str, String) + Send + Sync>;

/// Where late findings go, and what is looked out for.
#[derive(Default)]
pub struct AfterEdit {
    sink: OnceLock<NoticeSink>,
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    n_edits: u64,
    /// Ends the look-out of the edit before.
    last: CancellationToken,
}

impl AfterEdit {
    /// Sends late findings there; the first call counts.
    pub fn tell(&self, sink: NoticeSink) {
        let _ = self.sink.set(sink);
    }

    fn begin(&self) -> (u64, CancellationToken) {
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        state.last.cancel();
        state.last = CancellationToken::new();
        state.n_edits += 1;
        (state.n_edits, state.last.clone())
    }
}

impl Drop for AfterEdit {
    fn drop(&mut self) {
        self.state.get_mut().unwrap_or_else(PoisonError::into_inner).last.cancel();
    }
}

impl SessionServers {
    /// The server that runs for a file already.
    fn running_for(&self, path: &Path) -> Option<Arc<Client>> {
        let extension = extension(path)?;
        self.running().into_iter().find(|client| client.serves(path, &extension))
    }

    /// New errors after we wrote `text` to `path`, when a server that runs tells of them soon; later ones go to the
    /// sink.
    pub async fn after_edit(&self, path: &Path, text: &str, cancel: &CancellationToken) -> Option<String> {
        let client = self.diagnosing(path)?;
        let (n_edit, stop) = self.after_edit.begin();
        let (sender, first) = oneshot::channel();
        let edit = Edit {
            key: format!("diagnostics-{n_edit}"),
            // While it loads, what it says of other files is no news.
            only: client.readiness.is_loading().then(|| path.to_owned()),
            before: client.diagnostics.snapshot(),
            files: self.files(),
            workspace: self.folder_of(path),
            path: path.to_owned(),
            text: text.to_owned(),
            client,
        };
        let after_edit = self.after_edit.clone();
        tokio::spawn(async move {
            let looking = tokio::time::timeout(LATE, edit.look_out(sender, &after_edit));
            tokio::select! {
                _ = looking => {}
                () = stop.cancelled() => {}
            }
        });
        tokio::select! {
            first = tokio::time::timeout(WAIT, first) => first.ok()?.ok()?,
            () = cancel.cancelled() => None,
        }
    }

    fn diagnosing(&self, path: &Path) -> Option<Arc<Client>> {
        if !self.tells_diagnostics() {
            return None;
        }
        self.running_for(path).filter(|client| client.may_diagnose())
    }

    /// Everything the running servers say, as Markdown.
    pub async fn diagnostics(&self) -> String {
        let mut parts = Vec::new();
        for client in self.running() {
            let name = client.name();
            let found = client.diagnostics.all();
            if found.is_empty() {
                parts.push(format!("**{name}**: nothing is wrong in the files it looked at."));
                continue;
            }
            let texts = client.texts().await;
            let mut rows = Vec::new();
            for (path, findings) in found {
                let of_file = BTreeMap::from([(path.clone(), findings)]);
                let list = listed(&of_file, &self.folder_of(&path), &texts, client.traits().encoding);
                rows.extend(list.lines().map(|line| format!("- {line}")));
            }
            const MAX_ROWS: usize = 200;
            let n_more = rows.len().saturating_sub(MAX_ROWS);
            rows.truncate(MAX_ROWS);
            if n_more > 0 {
                rows.push(format!("- … and {n_more} more"));
            }
            parts.push(format!("**{name}**\n\n{}", rows.join("\n")));
        }
        if parts.is_empty() {
            return "No language server runs: one starts with the first question that needs it.".to_owned();
        }
        parts.join("\n\n")
    }
}

/// One edit whose findings are awaited.
struct Edit {
    key: String,
    only: Option<PathBuf>,
    before: Snapshot,
    files: Arc<dyn FileSystem>,
    workspace: PathBuf,
    path: PathBuf,
    text: String,
    client: Arc<Client>,
}

impl Edit {
    async fn look_out(&self, first: oneshot::Sender<Option<String>>, after_edit: &AfterEdit) {
        let diagnostics = &self.client.diagnostics;
        let mut changes = diagnostics.changes();
        let Some(version) = self.sync().await else { return };
        let mut first = Some(first);
        let mut told: BTreeMap<PathBuf, Vec<Finding>> = BTreeMap::new();
        let mut attached = self.before.clone();
        loop {
            changes.mark_unchanged();
            let is_asked =
                !self.client.traits().pulls_diagnostics() || self.client.pull(&self.path, LATE).await;
            if diagnostics.is_fresh(&self.path, version, &self.before) {
                let found = diagnostics.new_errors(&attached, self.only.as_deref());
                if first.is_some() || found != told {
                    let text = self.text_of(&found).await;
                    // Whoever waited may be gone: then it is a notice.
                    let is_taken = first.take().is_some_and(|first| first.send(text.clone()).is_ok());
                    if is_taken {
                        attached = diagnostics.snapshot();
                    } else {
                        if let Some(sink) = after_edit.sink.get() {
                            sink(&self.key, text.unwrap_or_default());
                        }
                        told = found;
                    }
                }
            }
            // A server that would not answer while it loads is asked again.
            let wait = if is_asked { LATE } else { AGAIN };
            let _ = tokio::time::timeout(wait, changes.changed()).await;
            if !self.client.is_alive() {
                return;
            }
            if first.is_none() {
                tokio::time::sleep(PIECES).await;
            }
        }
    }

    /// Sends the text in a task of its own: a sync that stops halfway would forget changes.
    async fn sync(&self) -> Option<i32> {
        let (client, files) = (self.client.clone(), self.files.clone());
        let (path, text) = (self.path.clone(), self.text.clone());
        tokio::spawn(async move { client.bring_up_to_date(&*files, &path, &text).await }).await.ok()?
    }

    async fn text_of(&self, found: &BTreeMap<PathBuf, Vec<Finding>>) -> Option<String> {
        let n = found.values().map(Vec::len).sum::<usize>();
        if n == 0 {
            return None;
        }
        let rows = listed(found, &self.workspace, &self.client.texts().await, self.client.traits().encoding);
        let name = self.client.name();
        let errors = if n == 1 { "error" } else { "errors" };
        let path = self.path.strip_prefix(&self.workspace).unwrap_or(&self.path).display();
        Some(if self.before.knows(&self.path) {
            format!("after this change of {path}, {name} reports {n} new {errors}:\n{rows}")
        } else {
            format!(
                "{name} reports {n} {errors} after this change of {path}, some perhaps from before:\n{rows}"
            )
        })
    }
}
