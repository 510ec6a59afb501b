//! All servers of a connection: one per server and root, started once however many ask, restarted once after a crash,
//! then with growing pauses; stopped when nobody has used them for long, or their last session ends.

use crate::LspOptions;
use crate::client::{Client, Home, Serve};
use crate::table::ServerSpec;
use futures::FutureExt;
use futures::future::{BoxFuture, Shared};
use std::collections::{HashMap, HashSet};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::time::{Duration, Instant};

/// A server that ran this long before it ended has not failed to start.
const STABLE: Duration = Duration::from_secs(300);
/// Longest pause before the next try.
const MAX_PAUSE: Duration = Duration::from_secs(120);

/// The outcome of a start; the reason is the end of a sentence that starts with the server's name.
type Started = Result<Arc<Client>, String>;

/// The server in this program that answers by name where no other does.
#[derive(Clone)]
pub struct Fallback {
    /// Extensions without a dot, each with the protocol's name of the language.
    pub extensions: Vec<(String, String)>,
    /// Serves one root.
    pub serve: Serve,
}

/// All servers of a connection.
pub struct Pool {
    options: LspOptions,
    fallback: Option<Fallback>,
    slots: Mutex<Slots>,
}

#[derive(Default)]
struct Slots {
    is_closed: bool,
    by_key: HashMap<Key, Slot>,
}

/// What makes two servers the same.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct Key {
    name: String,
    /// `None` for the fallback.
    program: Option<PathBuf>,
    arguments: Vec<String>,
    root: PathBuf,
}

#[derive(Default)]
struct Slot {
    start: Option<Shared<BoxFuture<'static, Started>>>,
    started: Option<Instant>,
    /// Ends and failed starts in a row.
    n_failures: u32,
    last_reason: String,
    retry_at: Option<Instant>,
    /// Sessions that use it.
    users: HashSet<u64>,
}

/// Why there is no server.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum NoClient {
    /// It does not start, or ends again and again.
    Broken(String),
    /// The connection ends.
    Closed,
}

impl Pool {
    /// A pool without servers.
    pub fn new(options: LspOptions) -> Self {
        Self { options, fallback: None, slots: Mutex::default() }
    }

    /// With a server for the languages whose own is missing or broken.
    pub fn with_fallback(self, fallback: Fallback) -> Self {
        Self { fallback: Some(fallback), ..self }
    }

    /// Whether the fallback serves this extension.
    pub fn falls_back_for(&self, extension: &str) -> bool {
        self.fallback.iter().flat_map(|fallback| &fallback.extensions).any(|(known, _)| known == extension)
    }

    /// The fallback of a root, as [`Pool::client`].
    ///
    /// # Errors
    /// [`NoClient`].
    pub async fn fallback(self: &Arc<Self>, root: &Path, user: u64) -> Result<Arc<Client>, NoClient> {
        let Some(fallback) = self.fallback.clone() else { return Err(NoClient::Closed) };
        let server = ServerSpec::in_process(fallback.extensions);
        self.client(&server, Home::InProcess(fallback.serve), root, user).await
    }

    /// Budgets and pauses.
    pub fn options(&self) -> &LspOptions {
        &self.options
    }

    /// The running server for a root; starts it when none runs. A caller that stops waiting does not stop the start.
    ///
    /// # Errors
    /// [`NoClient`].
    pub async fn client(
        self: &Arc<Self>,
        server: &ServerSpec,
        home: Home,
        root: &Path,
        user: u64,
    ) -> Result<Arc<Client>, NoClient> {
        let key = Key {
            name: server.name.clone(),
            program: match &home {
                Home::Program(program) => Some(program.clone()),
                Home::InProcess(_) => None,
            },
            arguments: server.command.get(1..).unwrap_or_default().to_vec(),
            root: root.to_owned(),
        };
        let start = {
            let mut slots = self.lock();
            if slots.is_closed {
                return Err(NoClient::Closed);
            }
            let slot = slots.by_key.entry(key.clone()).or_default();
            slot.users.insert(user);
            slot.look(&self.options);
            match (&slot.start, slot.retry_at) {
                (Some(start), _) => start.clone(),
                (None, Some(retry_at)) if retry_at > Instant::now() => {
                    let pause = (retry_at - Instant::now()).as_secs_f32().ceil();
                    return Err(NoClient::Broken(format!("{} (next try in {pause} s)", slot.last_reason)));
                }
                (None, _) => {
                    let start = self.start(server.clone(), home, key.root.clone());
                    slot.started = Some(Instant::now());
                    slot.start = Some(start.clone());
                    start
                }
            }
        };
        let started = start.await;
        if let (Err(_), Some(slot)) = (&started, self.lock().by_key.get_mut(&key)) {
            slot.look(&self.options);
        }
        started.map_err(NoClient::Broken)
    }

    fn start(
        self: &Arc<Self>,
        server: ServerSpec,
        home: Home,
        root: PathBuf,
    ) -> Shared<BoxFuture<'static, Started>> {
        let options = self.options.clone();
        let pool = Arc::downgrade(self);
        let task = tokio::spawn(async move {
            let client = Arc::new(Client::start(server, &home, root, &options).await?);
            tokio::spawn(stop_when_idle(Arc::downgrade(&client), options));
            // Nobody may be left to end it.
            if pool.upgrade().is_none_or(|pool| pool.lock().is_closed) {
                client.kill();
            }
            Ok(client)
        });
        async move { task.await.unwrap_or_else(|error| Err(format!("could not be started: {error}"))) }
            .boxed()
            .shared()
    }

    /// Every server that runs.
    pub fn running(&self) -> Vec<Arc<Client>> {
        let slots = self.lock();
        let starts = slots.by_key.values().filter_map(|slot| slot.start.as_ref()?.peek()?.clone().ok());
        starts.filter(|client| client.is_alive()).collect()
    }

    /// A session ended: servers that only it used end too, in the background.
    pub fn release(&self, user: u64) {
        let mut ending = Vec::new();
        self.lock().by_key.retain(|_, slot| {
            if slot.users.remove(&user) && slot.users.is_empty() {
                ending.extend(slot.start.take());
            }
            !slot.users.is_empty()
        });
        let budget = self.options.shutdown;
        if let (false, Ok(runtime)) = (ending.is_empty(), tokio::runtime::Handle::try_current()) {
            runtime.spawn(stop_all(ending, budget));
        }
    }

    /// Ends every server and starts no more. Within the shutdown budget and a moment.
    pub async fn close(&self) {
        let ending = {
            let mut slots = self.lock();
            slots.is_closed = true;
            slots.by_key.drain().filter_map(|(_, slot)| slot.start).collect()
        };
        stop_all(ending, self.options.shutdown).await;
    }

    fn lock(&self) -> MutexGuard<'_, Slots> {
        self.slots.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Ends servers, all at once. One that still starts is killed when it has; its process dies with the program.
async fn stop_all(starts: Vec<Shared<BoxFuture<'static, Started>>>, budget: Duration) {
    futures::future::join_all(starts.into_iter().map(|start| async move {
        if let Ok(Ok(client)) = tokio::time::timeout(budget / 2, start).await {
            client.stop(budget / 2).await;
        }
    }))
    .await;
}

impl Slot {
    /// Notices a start that failed or a server that ended, and decides when the next one may start: the first end is
    /// forgiven at once.
    fn look(&mut self, options: &LspOptions) {
        let reason = match self.start.as_ref().and_then(Shared::peek) {
            None => return,
            Some(Ok(client)) if client.is_alive() => return,
            Some(Ok(client)) => {
                let ran = self.started.map_or(Duration::ZERO, |started| started.elapsed());
                if client.was_idle() {
                    self.n_failures = 0;
                    self.start = None;
                    return;
                }
                if ran > STABLE {
                    self.n_failures = 0;
                }
                self.n_failures += 1;
                client.reason().now_or_never().unwrap_or_default()
            }
            Some(Err(reason)) => {
                // A start that failed has nothing to be forgiven.
                self.n_failures = self.n_failures.max(1) + 1;
                reason.clone()
            }
        };
        self.start = None;
        self.last_reason = reason;
        let doubled = options.pause * 2_u32.saturating_pow(self.n_failures.saturating_sub(2));
        self.retry_at = (self.n_failures > 1).then(|| Instant::now() + doubled.min(MAX_PAUSE));
    }
}

async fn stop_when_idle(client: Weak<Client>, options: LspOptions) {
    loop {
        tokio::time::sleep(options.idle / 4).await;
        let Some(client) = client.upgrade().filter(|client| client.is_alive()) else { return };
        if client.idle_for() >= options.idle {
            client.stop_idle(options.shutdown).await;
            return;
        }
    }
}
