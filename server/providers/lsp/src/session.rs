//! The language servers as one session sees them: which server a file has, the query from beginning to end, and what a
//! person or model must read when it fails.

use crate::after_edit::{AfterEdit, NoticeSink};
use crate::client::{Client, Home, Question, RequestError};
use crate::documents::Texts;
use crate::place::{Program, extension, program, root};
use crate::pool::{NoClient, Pool};
use crate::position::Lines;
use crate::table::ServerSpec;
use crate::translate;
use async_trait::async_trait;
use lsp_types::Url;
use serde_json::{Value, json};
use services::file_system::FileSystem;
use services::language_servers::{
    LanguageServers, LspAnswer, LspError, LspErrorKind, LspFound, LspOperation, LspQuery,
};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};
use tokio_util::sync::CancellationToken;

/// The protocol's code of an answer that a change of the text made worthless.
const CONTENT_MODIFIED: i32 = -32801;
/// The protocol's code of a request that the server itself gave up.
const SERVER_CANCELLED: i32 = -32802;
/// First pause before a question is asked again.
const FIRST_PAUSE: Duration = Duration::from_millis(100);
/// Longest pause.
const MAX_PAUSE: Duration = Duration::from_secs(2);

/// What a session is to its language servers.
pub struct SessionParts {
    /// Its folder and the additional ones, absolute.
    pub roots: Vec<PathBuf>,
    /// Where the texts of documents come from.
    pub files: Arc<dyn FileSystem>,
    /// The servers, in the order in which they are tried.
    pub servers: Vec<ServerSpec>,
    /// Whether programs inside the folder may run.
    pub is_trusted: bool,
    /// Whether an edit tells what it broke.
    pub diagnostics_after_edit: bool,
}

/// The language servers of one session. Servers that only this session used end with it.
pub struct SessionServers {
    pool: Arc<Pool>,
    id: u64,
    parts: SessionParts,
    pub(crate) after_edit: Arc<AfterEdit>,
}

impl SessionServers {
    /// Of a session whose servers live in `pool`.
    pub fn new(pool: Arc<Pool>, parts: SessionParts) -> Self {
        static NEXT: AtomicU64 = AtomicU64::new(0);
        Self { pool, id: NEXT.fetch_add(1, Ordering::Relaxed), parts, after_edit: Arc::default() }
    }

    /// Sends findings that come after an edit's result there.
    pub fn tell_late_findings(&self, sink: NoticeSink) {
        self.after_edit.tell(sink);
    }

    /// The running servers that this session would use too.
    pub(crate) fn running(&self) -> Vec<Arc<Client>> {
        let mut running = self.pool.running();
        running.retain(|client| self.parts.servers.contains(&client.server));
        running
    }

    pub(crate) fn tells_diagnostics(&self) -> bool {
        self.parts.diagnostics_after_edit
    }

    pub(crate) fn files(&self) -> Arc<dyn FileSystem> {
        self.parts.files.clone()
    }

    /// The real folder of the session that paths are shown relative to.
    pub(crate) fn folder_of(&self, path: &Path) -> PathBuf {
        self.workspace(path).map(|(_, first)| first).unwrap_or_default()
    }

    /// The session's folder that holds the file, and the first of all, links resolved.
    fn workspace(&self, path: &Path) -> Result<(PathBuf, PathBuf), LspError> {
        let real: Vec<_> = self.parts.roots.iter().filter_map(|root| root.canonicalize().ok()).collect();
        let holds = real.iter().find(|root| path.starts_with(root)).cloned();
        holds.zip(real.first().cloned()).ok_or_else(|| {
            LspError::new(
                LspErrorKind::WorkspaceRequired,
                format!(
                    "{} lies outside the session's folders, where language servers are not asked",
                    path.display()
                ),
            )
        })
    }

    /// The running server for a file: the first of its language that is installed and starts; else the one that answers by
    /// name, and why.
    async fn client(&self, path: &Path, workspace: &Path) -> Result<(Arc<Client>, Option<String>), LspError> {
        let extension = extension(path);
        let serves = |server: &&ServerSpec| {
            server.extensions.iter().any(|(known, _)| Some(known) == extension.as_ref())
        };
        let (mut problems, mut missing) = (Vec::new(), Vec::new());
        for server in self.parts.servers.iter().filter(serves) {
            let root = root(path, workspace, server);
            let name = server.command.first().map_or("", String::as_str);
            match program(name, &root, workspace, self.parts.is_trusted) {
                Program::Found(found) => {
                    match self.pool.client(server, Home::Program(found), &root, self.id).await {
                        Ok(client) => return Ok((client, None)),
                        Err(NoClient::Closed) => {
                            return Err(LspError::new(LspErrorKind::Disposed, "the connection is closing"));
                        }
                        Err(NoClient::Broken(reason)) => problems.insert(0, broken(server, &reason)),
                    }
                }
                Program::Untrusted(found) => problems.push(format!(
                    "{name} is only in the project ({}), whose programs run when its folder is among your \
                     trusted_folders.{}",
                    found.display(),
                    remedy(server)
                )),
                Program::Missing => {
                    missing.push(server);
                    problems.push(format!(
                        "{name} ({}) is not installed.{}",
                        server.languages,
                        remedy(server)
                    ));
                }
            }
        }
        if extension.as_deref().is_some_and(|extension| self.pool.falls_back_for(extension))
            && let Ok(client) = self.pool.fallback(workspace, self.id).await
        {
            let why = match missing.first() {
                Some(first) if missing.len() == problems.len() => {
                    let install = if first.install.is_empty() { "" } else { ": " };
                    format!(
                        "no language server for {} is installed{install}{}",
                        first.languages, first.install
                    )
                }
                _ => problems.first().cloned().unwrap_or_else(|| "no language server is known".to_owned()),
            };
            return Ok((client, Some(why)));
        }
        if problems.is_empty() {
            let files =
                extension.map_or("files without an extension".to_owned(), |name| format!(".{name} files"));
            problems.push(format!(
                "No language server is known for {files}; [lsp.NAME] in the configuration adds one."
            ));
        }
        problems.push("Search the text instead.".to_owned());
        Err(LspError::new(LspErrorKind::Unavailable, problems.join(" ")))
    }

    /// Asks until the answer is one: what a server says while it loads is asked again within the budget.
    async fn converse(
        &self,
        client: &Client,
        query: &LspQuery,
        cancel: &CancellationToken,
    ) -> Result<LspAnswer, Failed> {
        let options = self.pool.options();
        let (begun, mut pause) = (Instant::now(), FIRST_PAUSE);
        let uri = Url::from_file_path(&query.path).map_err(|()| {
            Failed::Answer(LspErrorKind::InvalidPosition, "the path is not absolute".to_owned())
        })?;
        let encoding = client.traits().encoding;
        let position = Lines::new(&query.text).to_server(query.position, encoding);
        let mut params = json!({ "textDocument": { "uri": uri }, "position": position });
        if query.operation == LspOperation::FindReferences {
            params["context"] = json!({ "includeDeclaration": true });
        }
        let mut changes = client.readiness.changes();
        loop {
            let was_loading = client.readiness.is_loading();
            changes.mark_unchanged();
            let question = Question {
                operation: query.operation,
                params: params.clone(),
                path: &query.path,
                text: &query.text,
                files: &*self.parts.files,
            };
            let budget = options.request_timeout.saturating_sub(begun.elapsed());
            let answer = client.ask(&question, budget, cancel).await;
            let may_wait = begun.elapsed() < options.readiness_budget;
            let found = match answer {
                Ok((value, texts)) => Some(self.read(query, value, texts, client).await?),
                Err(RequestError::Refused { code: CONTENT_MODIFIED | SERVER_CANCELLED, .. }) if may_wait => {
                    None
                }
                Err(error) => return Err(Failed::Request(error)),
            };
            // An answer from before the loading was over is not yet one, though the loading may be over by now. One
            // place is a definition, but the users of a name may be more than those known so far.
            let is_poor = match &found {
                None => true,
                Some(LspFound::Hover(hover)) => hover.is_none(),
                Some(LspFound::Locations(all)) => {
                    all.is_empty() || query.operation != LspOperation::GoToDefinition
                }
            };
            if let Some(found) = found.filter(|_| !(is_poor && was_loading && may_wait)) {
                return Ok(LspAnswer {
                    is_loading: is_poor && was_loading && client.readiness.is_loading(),
                    warning: client.warning(),
                    found,
                    workspace: PathBuf::new(),
                    by_name: None,
                    server: client.name().to_owned(),
                });
            }
            // The last try comes when the budget is over, not after it.
            let rest = options.readiness_budget.saturating_sub(begun.elapsed()).max(FIRST_PAUSE);
            tokio::select! {
                _ = changes.changed() => {}
                () = tokio::time::sleep(pause.min(rest)) => pause = (pause * 2).min(MAX_PAUSE),
                () = cancel.cancelled() => return Err(Failed::Request(RequestError::Cancelled)),
            }
        }
    }

    async fn read(
        &self,
        query: &LspQuery,
        value: Value,
        texts: Texts,
        client: &Client,
    ) -> Result<LspFound, Failed> {
        let encoding = client.traits().encoding;
        let malformed = |reason| Failed::Answer(LspErrorKind::MalformedResponse, reason);
        if query.operation == LspOperation::Hover {
            return translate::hover(value, &query.text, encoding).map(LspFound::Hover).map_err(malformed);
        }
        let raw = translate::locations(value).map_err(malformed)?;
        let resolved = tokio::task::spawn_blocking(move || translate::resolve(raw, encoding, &texts)).await;
        resolved.map(LspFound::Locations).map_err(|error| malformed(error.to_string()))
    }
}

impl Drop for SessionServers {
    fn drop(&mut self) {
        self.pool.release(self.id);
    }
}

/// Why a conversation failed.
enum Failed {
    Request(RequestError),
    Answer(LspErrorKind, String),
}

#[async_trait]
impl LanguageServers for SessionServers {
    async fn query(&self, query: LspQuery, cancel: &CancellationToken) -> Result<LspAnswer, LspError> {
        let stopped = || LspError::new(LspErrorKind::Aborted, "the query was stopped before it was done");
        let (holder, workspace) = self.workspace(&query.path)?;
        check_position(&query)?;
        let may_fall_back =
            extension(&query.path).is_some_and(|extension| self.pool.falls_back_for(&extension));
        let mut n_deaths = 0;
        loop {
            let (client, by_name) = tokio::select! {
                client = self.client(&query.path, &holder) => client?,
                () = cancel.cancelled() => return Err(stopped()),
            };
            let name = client.name().to_owned();
            if !client.traits().offers(query.operation) {
                let why = by_name.map_or(String::new(), |why| format!("; {why}"));
                return Err(LspError::new(
                    LspErrorKind::UnsupportedOperation,
                    format!("{name} does not offer {}{why}", query.operation.id()),
                ));
            }
            let failed = match self.converse(&client, &query, cancel).await {
                Ok(answer) => return Ok(LspAnswer { workspace, by_name, ..answer }),
                Err(failed) => failed,
            };
            return Err(match failed {
                // The first death is forgiven: the question goes to a new process. After the second the server rests,
                // and what answers by name may stand in.
                Failed::Request(RequestError::Dead) if n_deaths == 0 || (n_deaths == 1 && may_fall_back) => {
                    client.reason().await;
                    n_deaths += 1;
                    continue;
                }
                Failed::Request(RequestError::Dead) => LspError::new(
                    LspErrorKind::Unavailable,
                    format!("{} Search the text instead.", broken(&client.server, &client.reason().await)),
                ),
                Failed::Request(RequestError::Cancelled) => stopped(),
                Failed::Request(RequestError::Timeout) => LspError::new(
                    LspErrorKind::Timeout,
                    format!(
                        "{name} did not answer {} within {} s; ask again later, or search the text",
                        query.operation.id(),
                        self.pool.options().request_timeout.as_secs_f32()
                    ),
                ),
                Failed::Request(RequestError::Refused { code, message }) => LspError::new(
                    LspErrorKind::RequestFailed,
                    format!("{name} answered {} with an error: {message} ({code})", query.operation.id()),
                ),
                Failed::Answer(kind, reason) => {
                    LspError::new(kind, format!("{name} answered what is no answer: {reason}"))
                }
            });
        }
    }

    fn file_changed(&self, path: &Path) {
        for client in self.pool.running() {
            client.file_changed(path);
        }
    }
}

/// Refuses a line behind the end of the text; a column behind its line is the line's end.
fn check_position(query: &LspQuery) -> Result<(), LspError> {
    let n_lines = Lines::new(&query.text).count();
    if (query.position.line as usize) < n_lines {
        return Ok(());
    }
    Err(LspError::new(
        LspErrorKind::InvalidPosition,
        format!(
            "line {} is behind the end of {}, which has {n_lines} lines",
            u64::from(query.position.line) + 1,
            query.path.display()
        ),
    ))
}

fn broken(server: &ServerSpec, reason: &str) -> String {
    let name = server.command.first().map_or("", String::as_str);
    let end = if reason.ends_with(['.', '!']) { "" } else { "." };
    format!("{name} ({}) {reason}{end}{}", server.languages, remedy(server))
}

fn remedy(server: &ServerSpec) -> String {
    if server.install.is_empty() { String::new() } else { format!(" To install it: {}.", server.install) }
}
