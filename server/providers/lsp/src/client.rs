//! One running server: start, requests that can be cancelled and time out, documents, the end.
//!
//! A supervisor task owns the process; when the process or the connection ends, however, the whole group is killed and
//! `Client::ended` says why. Source: `crates.md` §2 (every rule about `async-lsp` there).

use crate::LspOptions;
use crate::diagnostics::Diagnostics;
use crate::documents::{Documents, SyncContext, Texts};
use crate::guard::{GuardedReader, QueuedWriter};
use crate::handshake::{Traits, folders, parameters};
use crate::inbound::{Inbound, Stop};
use crate::place::extension;
use crate::process::{ServerProcess, Tail, Transport, in_process, spawn};
use crate::readiness::Readiness;
use crate::table::ServerSpec;
use crate::watching::Watching;
use async_lsp::{MainLoop, ServerSocket};
use futures::future::BoxFuture;
use lsp_types::Url;
use lsp_types::notification::{Cancel, Exit, Initialized};
use lsp_types::{CancelParams, InitializedParams, NumberOrString};
use serde_json::Value;
use services::file_system::FileSystem;
use services::language_servers::LspOperation;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, Waker};
use std::time::{Duration, Instant};
use tokio::sync::watch;
use tokio::time::timeout;
use tokio_util::compat::TokioAsyncReadCompatExt;
use tokio_util::sync::CancellationToken;

/// How long a server may take to answer that it cancelled, before it counts as stuck.
const CANCEL_GRACE: Duration = Duration::from_secs(2);
/// After how many edits without a word a server that never tells findings is not waited for.
const MAX_UNHEARD: usize = 3;
/// How long pipes are read after the process ended.
const DRAIN: Duration = Duration::from_millis(100);

/// Bytes on their way to or from a server in this program.
const STREAM: usize = 64 * 1024;

/// Serves one client over a stream until it is closed.
pub type Serve = Arc<dyn Fn(tokio::io::DuplexStream) -> BoxFuture<'static, ()> + Send + Sync>;

/// Where a server lives.
#[derive(Clone)]
pub enum Home {
    /// In a child process of this program file.
    Program(PathBuf),
    /// In this process.
    InProcess(Serve),
}

/// A request that we send.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Method {
    Initialize,
    Shutdown,
    Diagnose,
    Ask(LspOperation),
}

/// Why a request has no answer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum RequestError {
    /// The server is gone.
    Dead,
    /// It answered with an error.
    Refused {
        /// The protocol's code.
        code: i32,
        /// Its words.
        message: String,
    },
    /// Its budget is over.
    Timeout,
    /// The caller stopped.
    Cancelled,
}

/// A server that answered `initialize`.
pub struct Client {
    /// What it is.
    pub server: ServerSpec,
    root: PathBuf,
    link: Link,
    traits: Traits,
    /// Whether it has loaded.
    pub readiness: Arc<Readiness>,
    /// What it says is wrong.
    pub diagnostics: Arc<Diagnostics>,
    /// What changes on the disk.
    watching: Arc<Watching>,
    /// Edits in a row of which nothing was said.
    n_unheard: AtomicUsize,
    documents: tokio::sync::Mutex<Documents>,
    changed: Mutex<Vec<PathBuf>>,
    n_active: AtomicUsize,
    was_idle: AtomicBool,
    last_used: Mutex<Instant>,
}

/// The connection to a process, and its end.
#[derive(Clone)]
struct Link {
    socket: ServerSocket,
    /// The id of the next request: `async-lsp` numbers them from 0 in the order of sending.
    next_id: Arc<Mutex<i32>>,
    kill: CancellationToken,
    ended: watch::Receiver<Option<String>>,
}

macro_rules! untyped_requests {
    ($($name:ident = $method:literal),*) => { $(
        struct $name;
        impl lsp_types::request::Request for $name {
            type Params = Value;
            type Result = Value;
            const METHOD: &'static str = $method;
        }
    )* };
}

// Answers are read by us, so that one odd field of a capability does not cost the whole server.
untyped_requests!(
    Initialize = "initialize",
    Shutdown = "shutdown",
    Definition = "textDocument/definition",
    References = "textDocument/references",
    Implementation = "textDocument/implementation",
    HoverRequest = "textDocument/hover",
    DiagnosticRequest = "textDocument/diagnostic"
);

impl Client {
    /// Starts a server and shakes hands.
    ///
    /// # Errors
    /// The reason, as the end of a sentence that starts with the server's name.
    pub async fn start(
        server: ServerSpec,
        home: &Home,
        root: PathBuf,
        options: &LspOptions,
    ) -> Result<Self, String> {
        let uri = Url::from_file_path(&root).map_err(|()| "cannot serve a relative folder".to_owned())?;
        let folders = folders(&root, &uri);
        let transport = match home {
            Home::Program(program) => spawn(program, server.command.get(1..).unwrap_or_default(), &root)
                .map_err(|error| format!("could not be started ({}): {error}", program.display()))?,
            Home::InProcess(serve) => {
                let (ours, theirs) = tokio::io::duplex(STREAM);
                tokio::spawn(serve(theirs));
                in_process(ours)
            }
        };
        let readiness = Arc::new(Readiness::new(server.reports_status, options.settle));
        let diagnostics = Arc::<Diagnostics>::default();
        let watching = Arc::new(Watching::new(root.clone()));
        let inbound = Inbound {
            readiness: readiness.clone(),
            diagnostics: diagnostics.clone(),
            watching: watching.clone(),
            folders: folders.clone(),
            settings: server.settings.clone(),
        };
        let link = Link::new(transport, inbound);
        let params = parameters(&server, &uri, &folders);
        let never = CancellationToken::new();
        let answer =
            link.request(Method::Initialize, params, options.initialize_timeout, &never, &|| false).await;
        let result = match answer {
            Ok(result) => result,
            Err(error) => {
                link.kill.cancel();
                return Err(match error {
                    RequestError::Dead => link.reason().await,
                    RequestError::Refused { message, .. } => format!("refused to start: {message}"),
                    RequestError::Timeout | RequestError::Cancelled => format!(
                        "did not answer `initialize` within {} s",
                        options.initialize_timeout.as_secs_f32()
                    ),
                });
            }
        };
        watching.tell(link.socket.clone());
        let _ = link.socket.notify::<Initialized>(InitializedParams {});
        Ok(Self {
            traits: Traits::of(&result),
            server,
            root,
            link,
            readiness,
            diagnostics,
            watching,
            n_unheard: AtomicUsize::new(0),
            documents: tokio::sync::Mutex::default(),
            changed: Mutex::default(),
            n_active: AtomicUsize::new(0),
            was_idle: AtomicBool::new(false),
            last_used: Mutex::new(Instant::now()),
        })
    }

    /// What it can do.
    pub fn traits(&self) -> &Traits {
        &self.traits
    }

    /// Whether it still runs.
    pub fn is_alive(&self) -> bool {
        self.link.ended.borrow().is_none()
    }

    /// Why it ended, as the end of a sentence that starts with its name. Waits for the end.
    pub async fn reason(&self) -> String {
        self.link.reason().await
    }

    /// Notes a file that we wrote, for the next query.
    pub fn file_changed(&self, path: &Path) {
        if path.starts_with(&self.root) {
            let mut changed = lock(&self.changed);
            changed.retain(|other| other != path);
            changed.push(path.to_owned());
        }
    }

    /// Its program's name.
    pub fn name(&self) -> &str {
        self.server.command.first().map_or(&self.server.name, String::as_str)
    }

    /// Whether it serves a file of this extension at this place.
    pub fn serves(&self, path: &Path, extension: &str) -> bool {
        path.starts_with(&self.root) && self.server.extensions.iter().any(|(known, _)| known == extension)
    }

    /// What it says is wrong with itself or with our watching, for whoever reads an answer.
    pub fn warning(&self) -> Option<String> {
        self.readiness.warning().or_else(|| self.watching.warning())
    }

    /// Whether waiting for findings is worth it: not for a server that has none to tell.
    pub fn may_diagnose(&self) -> bool {
        if self.traits.pulls_diagnostics() || self.diagnostics.is_used() {
            return true;
        }
        self.n_unheard.fetch_add(1, Ordering::Relaxed) < MAX_UNHEARD
    }

    /// The texts it has now.
    pub async fn texts(&self) -> Texts {
        self.documents.lock().await.texts()
    }

    /// Brings all documents up to date, this one to this text; its version, `None` when it cannot be opened.
    pub async fn bring_up_to_date(&self, files: &dyn FileSystem, path: &Path, text: &str) -> Option<i32> {
        let mut documents = self.documents.lock().await;
        self.sync(&mut documents, files, path, text, &CancellationToken::new()).await;
        documents.version(path)
    }

    async fn sync(
        &self,
        documents: &mut Documents,
        files: &dyn FileSystem,
        path: &Path,
        text: &str,
        cancel: &CancellationToken,
    ) {
        let language_of = |path: &Path| {
            let extension = extension(path)?;
            let known = self.server.extensions.iter().find(|(known, _)| *known == extension);
            known.map(|(_, language)| language.clone())
        };
        let context = SyncContext {
            socket: &self.link.socket,
            traits: &self.traits,
            files,
            language_of: &language_of,
            cancel,
        };
        let changed = std::mem::take(&mut *lock(&self.changed));
        self.watching.flush();
        documents.sync(&context, changed, path, text).await;
    }

    /// Asks what is wrong with an open document and keeps the answer; whether there was one.
    pub async fn pull(&self, path: &Path, budget: Duration) -> bool {
        let Ok(uri) = Url::from_file_path(path) else { return false };
        let version = self.documents.lock().await.version(path);
        let params = serde_json::json!({ "textDocument": { "uri": uri } });
        let never = CancellationToken::new();
        let answer = self.link.request(Method::Diagnose, params, budget, &never, &|| true).await;
        let Ok(answer) = answer else { return false };
        if answer["items"].is_array() {
            self.diagnostics.put(path, version, &answer["items"]);
        }
        true
    }

    /// Brings all documents up to date and sends a question, in one piece, so that no other change comes between.
    ///
    /// # Errors
    /// [`RequestError`].
    pub async fn ask(
        &self,
        question: &Question<'_>,
        budget: Duration,
        cancel: &CancellationToken,
    ) -> Result<(Value, Texts), RequestError> {
        self.n_active.fetch_add(1, Ordering::Relaxed);
        let _active = Active(self);
        let mut documents = self.documents.lock().await;
        self.sync(&mut documents, question.files, question.path, question.text, cancel).await;
        let texts = documents.texts();
        let is_loading = || self.readiness.is_loading();
        let method = Method::Ask(question.operation);
        let answer = self.link.request(method, question.params.clone(), budget, cancel, &is_loading);
        let mut answer = std::pin::pin!(answer);
        // The first poll sends; then others may go on while we wait.
        let first = std::future::poll_fn(|cx| Poll::Ready(answer.as_mut().poll(cx))).await;
        drop(documents);
        let answer = match first {
            Poll::Ready(answer) => answer?,
            Poll::Pending => answer.await?,
        };
        Ok((answer, texts))
    }

    /// Time since the last use; zero while it is used.
    pub fn idle_for(&self) -> Duration {
        if self.n_active.load(Ordering::Relaxed) > 0 {
            Duration::ZERO
        } else {
            lock(&self.last_used).elapsed()
        }
    }

    /// Ends the server: politely within `budget`, then by force.
    pub async fn stop(&self, budget: Duration) {
        let polite = async {
            let never = CancellationToken::new();
            if self.link.request(Method::Shutdown, Value::Null, budget, &never, &|| true).await.is_ok() {
                let _ = self.link.socket.notify::<Exit>(());
                self.link.reason().await;
            }
        };
        let _ = timeout(budget, polite).await;
        self.kill();
        let _ = timeout(DRAIN * 3, self.link.reason()).await;
    }

    /// Ends a server that nobody uses; it does not count as crashed.
    pub async fn stop_idle(&self, budget: Duration) {
        self.was_idle.store(true, Ordering::Relaxed);
        self.stop(budget).await;
    }

    /// Whether it was ended because nobody used it.
    pub fn was_idle(&self) -> bool {
        self.was_idle.load(Ordering::Relaxed)
    }

    /// Ends the server by force.
    pub fn kill(&self) {
        self.link.kill.cancel();
    }
}

impl Drop for Client {
    fn drop(&mut self) {
        self.kill();
    }
}

/// A question and the document it is about.
pub struct Question<'a> {
    /// What is asked.
    pub operation: LspOperation,
    /// Its parameters.
    pub params: Value,
    /// The document.
    pub path: &'a Path,
    /// Its present text.
    pub text: &'a str,
    /// Where the texts of other documents come from.
    pub files: &'a dyn FileSystem,
}

/// Counts a use from its start to its end.
struct Active<'a>(&'a Client);

impl Drop for Active<'_> {
    fn drop(&mut self) {
        self.0.n_active.fetch_sub(1, Ordering::Relaxed);
        *lock(&self.0.last_used) = Instant::now();
    }
}

impl Link {
    /// Connects to a server and starts its supervisor.
    fn new(transport: Transport, inbound: Inbound) -> Self {
        let (main_loop, socket) = MainLoop::new_client(|_| inbound);
        let reader = GuardedReader::new(transport.output.compat());
        let writer = QueuedWriter::new(transport.input);
        let kept = socket.clone();
        let mut connection = tokio::spawn(async move {
            // The loop panics when its last socket goes before it.
            let _kept = kept;
            main_loop.run_buffered(reader, writer).await
        });
        let tail = Tail::default();
        let mut process = transport.process;
        let stderr = process.as_mut().and_then(|process| process.stderr.take());
        let mut complaints = tokio::spawn(tail.clone().collect(stderr));
        let (ended_sender, ended) = watch::channel(None);
        let kill = CancellationToken::new();
        let (stop, killed) = (socket.clone(), kill.clone());
        tokio::spawn(async move {
            let mut broken = None;
            let status = tokio::select! {
                status = ServerProcess::wait(&mut process) => status,
                result = &mut connection => {
                    broken = result.ok().and_then(Result::err);
                    timeout(DRAIN * 2, ServerProcess::wait(&mut process)).await.ok().flatten()
                }
                () = killed.cancelled() => None,
            };
            drop(process.as_mut().and_then(|process| process.group.take()));
            let status = match status {
                Some(status) => Some(status),
                None => {
                    let _ = timeout(DRAIN, ServerProcess::wait(&mut process)).await;
                    None
                }
            };
            let _ = timeout(DRAIN, &mut complaints).await;
            complaints.abort();
            if !connection.is_finished() {
                // What it wrote last may still be an answer.
                if status.is_some() {
                    let _ = timeout(DRAIN, &mut connection).await;
                }
                let _ = stop.emit(Stop);
                connection.abort();
            }
            let what = match (status, broken) {
                // A process whose connection broke ends by itself, so the cause comes first; but a pipe that breaks says
                // only that the process has gone.
                (_, Some(error)) if !is_gone(&error) => {
                    format!("sent what is no message of the protocol ({error})")
                }
                (Some(status), _) => format!("ended with {status}"),
                (None, Some(_)) => "closed its output".to_owned(),
                (None, None) => "was stopped".to_owned(),
            };
            let reason = tail.shown().map_or(what.clone(), |tail| format!("{what}; it said: {tail}"));
            let _ = ended_sender.send(Some(reason));
        });
        Self { socket, next_id: Arc::default(), kill, ended }
    }

    async fn reason(&self) -> String {
        let mut ended = self.ended.clone();
        match ended.wait_for(Option::is_some).await {
            Ok(reason) => reason.clone().unwrap_or_default(),
            Err(_) => "ended".to_owned(),
        }
    }

    /// Sends a request at the first poll and waits for its answer, the budget, or the caller's stop; whoever gives up
    /// tells the server. A server that does not even answer that, and is not loading, is ended: it hangs.
    async fn request(
        &self,
        method: Method,
        params: Value,
        budget: Duration,
        cancel: &CancellationToken,
        is_loading: &(dyn Fn() -> bool + Sync),
    ) -> Result<Value, RequestError> {
        let (id, mut answer) = self.send(method, params);
        let mut ended = self.ended.clone();
        let given_up = tokio::select! {
            biased;
            answer = &mut answer => return read(answer),
            () = cancel.cancelled() => RequestError::Cancelled,
            () = tokio::time::sleep(budget) => RequestError::Timeout,
            _ = ended.wait_for(Option::is_some) => return Err(RequestError::Dead),
        };
        let _ = self.socket.notify::<Cancel>(CancelParams { id: NumberOrString::Number(id) });
        if !is_loading() {
            let kill = self.kill.clone();
            tokio::spawn(async move {
                if timeout(CANCEL_GRACE, answer).await.is_err() {
                    kill.cancel();
                }
            });
        }
        Err(given_up)
    }

    /// Puts a request into the queue and gives its id and the answer to wait for.
    fn send(
        &self,
        method: Method,
        params: Value,
    ) -> (i32, BoxFuture<'static, Result<Value, async_lsp::Error>>) {
        let socket = self.socket.clone();
        let mut answer: BoxFuture<'static, _> = match method {
            Method::Initialize => Box::pin(async move { socket.request::<Initialize>(params).await }),
            Method::Diagnose => Box::pin(async move { socket.request::<DiagnosticRequest>(params).await }),
            Method::Shutdown => Box::pin(async move { socket.request::<Shutdown>(params).await }),
            Method::Ask(LspOperation::GoToDefinition) => {
                Box::pin(async move { socket.request::<Definition>(params).await })
            }
            Method::Ask(LspOperation::FindReferences) => {
                Box::pin(async move { socket.request::<References>(params).await })
            }
            Method::Ask(LspOperation::GoToImplementation) => {
                Box::pin(async move { socket.request::<Implementation>(params).await })
            }
            Method::Ask(LspOperation::Hover) => {
                Box::pin(async move { socket.request::<HoverRequest>(params).await })
            }
        };
        let mut next_id = lock(&self.next_id);
        let id = *next_id;
        *next_id += 1;
        // The first poll queues it: under the lock, so that ids and queue have the same order.
        let answer = match answer.as_mut().poll(&mut Context::from_waker(Waker::noop())) {
            Poll::Ready(answer) => Box::pin(std::future::ready(answer)),
            Poll::Pending => answer,
        };
        (id, answer)
    }
}

fn read(answer: Result<Value, async_lsp::Error>) -> Result<Value, RequestError> {
    answer.map_err(|error| match error {
        async_lsp::Error::Response(error) => {
            RequestError::Refused { code: error.code.0, message: error.message }
        }
        _ => RequestError::Dead,
    })
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Whether the error says only that nobody is at the other end.
fn is_gone(error: &async_lsp::Error) -> bool {
    match error {
        async_lsp::Error::Eof => true,
        async_lsp::Error::Io(error) => {
            matches!(error.kind(), std::io::ErrorKind::BrokenPipe | std::io::ErrorKind::ConnectionReset)
        }
        _ => false,
    }
}
