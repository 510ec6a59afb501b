//! Watching the disk for one server: what it registered for is told with `workspace/didChangeWatchedFiles`.
//!
//! Nothing is watched before the server registers. One thread owns the watcher and sleeps while nothing happens; it ends
//! with the server. Folders are watched one by one, without those that the ignore rules leave out, up to a bound; what is
//! not watched is said. Source: the protocol, "DidChangeWatchedFiles"; `crates.md`, `notify`.

use async_lsp::ServerSocket;
use globset::{GlobBuilder, GlobMatcher};
use ignore::WalkBuilder;
use lsp_types::notification::DidChangeWatchedFiles;
use lsp_types::{DidChangeWatchedFilesParams, FileChangeType, FileEvent, Url};
use notify::event::{EventKind, ModifyKind, RenameMode};
use notify::{RecommendedWatcher, RecursiveMode, Watcher};
use serde_json::Value;
use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};
use std::path::{Path, PathBuf};
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};
use std::time::{Duration, Instant};

/// Most folders watched for one server.
const MAX_FOLDERS: usize = 8192;
/// Most changes kept for one message; of more, the rest is left out.
const MAX_PENDING: usize = 5000;
/// How long it must be quiet before changes are told without a question.
const QUIET: Duration = Duration::from_millis(100);
/// Longest time that changes are held back.
const MAX_HELD: Duration = Duration::from_secs(1);
/// Folders that are never watched, ignored or not.
const NEVER: [&str; 3] = [".git", "node_modules", "target"];

/// What one server wants to know of the disk.
pub struct Watching {
    shared: Arc<Shared>,
    thread: Mutex<Option<Sender<Message>>>,
}

struct Shared {
    root: PathBuf,
    socket: OnceLock<ServerSocket>,
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    /// By the id of a registration.
    patterns: HashMap<String, Vec<Pattern>>,
    pending: BTreeMap<PathBuf, FileChangeType>,
    warning: Option<String>,
}

/// Files that a server asked for.
struct Pattern {
    /// The folder that the glob is relative to.
    base: PathBuf,
    glob: GlobMatcher,
    is_absolute: bool,
    /// 1 created, 2 changed, 4 deleted.
    kinds: u64,
}

enum Message {
    Event(notify::Result<notify::Event>),
    /// Watch these too.
    Folders(BTreeSet<PathBuf>),
    Stop,
}

impl Watching {
    /// Of a server for this folder, which has registered nothing yet.
    pub fn new(root: PathBuf) -> Self {
        let shared = Shared { root, socket: OnceLock::new(), state: Mutex::default() };
        Self { shared: Arc::new(shared), thread: Mutex::default() }
    }

    /// Tells changes there from now on.
    pub fn tell(&self, socket: ServerSocket) {
        let _ = self.shared.socket.set(socket);
    }

    /// Takes the registrations of a `client/registerCapability`; those for other things are left.
    pub fn register(&self, registrations: &Value) {
        let mut folders = BTreeSet::new();
        for registration in registrations.as_array().into_iter().flatten() {
            if registration["method"] != "workspace/didChangeWatchedFiles" {
                continue;
            }
            let watchers = registration["registerOptions"]["watchers"].as_array().into_iter().flatten();
            let patterns: Vec<Pattern> =
                watchers.filter_map(|watcher| pattern(watcher, &self.shared.root)).collect();
            folders.extend(patterns.iter().map(|pattern| pattern.base.clone()));
            let id = registration["id"].as_str().unwrap_or_default().to_owned();
            self.shared.lock().patterns.insert(id, patterns);
        }
        if !folders.is_empty() {
            self.watch(folders);
        }
    }

    /// Takes registrations back.
    pub fn unregister(&self, unregistrations: &Value) {
        for unregistration in unregistrations.as_array().into_iter().flatten() {
            self.shared.lock().patterns.remove(unregistration["id"].as_str().unwrap_or_default());
        }
    }

    /// Tells what has changed so far.
    pub fn flush(&self) {
        self.shared.flush();
    }

    /// What is not watched, and why.
    pub fn warning(&self) -> Option<String> {
        self.shared.lock().warning.clone()
    }

    fn watch(&self, folders: BTreeSet<PathBuf>) {
        let mut thread = self.thread.lock().unwrap_or_else(PoisonError::into_inner);
        if thread.is_none() {
            let (sender, messages) = channel();
            let events = sender.clone();
            let watcher = notify::recommended_watcher(move |event| {
                let _ = events.send(Message::Event(event));
            });
            let watcher = match watcher {
                Ok(watcher) => watcher,
                Err(error) => return self.shared.warn(&error.to_string()),
            };
            let shared = self.shared.clone();
            let worker = Worker { shared, watcher, watched: HashSet::new(), is_full: false };
            let started = std::thread::Builder::new().name("lsp-watch".to_owned());
            if let Err(error) = started.spawn(move || worker.run(&messages)) {
                return self.shared.warn(&error.to_string());
            }
            *thread = Some(sender);
        }
        if let Some(thread) = &*thread {
            let _ = thread.send(Message::Folders(folders));
        }
    }
}

impl Drop for Watching {
    fn drop(&mut self) {
        let thread = self.thread.get_mut().unwrap_or_else(PoisonError::into_inner);
        if let Some(thread) = thread {
            let _ = thread.send(Message::Stop);
        }
    }
}

impl Shared {
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn warn(&self, reason: &str) {
        let text = format!("not all folders are watched for changes by other programs ({reason})");
        self.lock().warning = Some(text);
    }

    /// Under the lock, so that a question sent after this comes after the changes.
    fn flush(&self) {
        let mut state = self.lock();
        let Some(socket) = self.socket.get().filter(|_| !state.pending.is_empty()) else { return };
        let pending = std::mem::take(&mut state.pending);
        let event = |(path, kind)| Some(FileEvent::new(Url::from_file_path(path).ok()?, kind));
        let changes = pending.into_iter().filter_map(event).collect();
        let _ = socket.notify::<DidChangeWatchedFiles>(DidChangeWatchedFilesParams { changes });
    }

    /// Notes a change that some registration asks for.
    fn note(&self, path: PathBuf, kind: FileChangeType) {
        let mut state = self.lock();
        if !state.patterns.values().flatten().any(|pattern| pattern.wants(&path, kind)) {
            return;
        }
        // Made and then written is made; gone and made again is changed.
        let kind = match (state.pending.get(&path), kind) {
            (Some(&FileChangeType::CREATED), FileChangeType::CHANGED) => FileChangeType::CREATED,
            (Some(&FileChangeType::DELETED), FileChangeType::CREATED) => FileChangeType::CHANGED,
            (_, kind) => kind,
        };
        if state.pending.len() < MAX_PENDING || state.pending.contains_key(&path) {
            state.pending.insert(path, kind);
        }
    }
}

impl Pattern {
    fn wants(&self, path: &Path, kind: FileChangeType) -> bool {
        let bit = match kind {
            FileChangeType::CREATED => 1,
            FileChangeType::CHANGED => 2,
            _ => 4,
        };
        let is_match = if self.is_absolute {
            self.glob.is_match(path)
        } else {
            path.strip_prefix(&self.base).is_ok_and(|relative| self.glob.is_match(relative))
        };
        self.kinds & bit != 0 && is_match
    }
}

/// Reads one `FileSystemWatcher`; `None` when its glob is none.
fn pattern(watcher: &Value, root: &Path) -> Option<Pattern> {
    let glob = &watcher["globPattern"];
    let (base, text) = match glob.as_str() {
        Some(text) => (root.to_owned(), text),
        None => {
            let base = &glob["baseUri"];
            let uri = base.as_str().or_else(|| base["uri"].as_str())?;
            (Url::parse(uri).ok()?.to_file_path().ok()?, glob["pattern"].as_str()?)
        }
    };
    let is_absolute = Path::new(text).is_absolute();
    // What an absolute pattern may match lies below its part without wildcards.
    let base = if is_absolute {
        let fixed = Path::new(text)
            .components()
            .take_while(|part| !part.as_os_str().to_string_lossy().contains(['*', '?', '{', '[']));
        let fixed: PathBuf = fixed.collect();
        if fixed == Path::new(text) { fixed.parent().map(Path::to_owned).unwrap_or(fixed) } else { fixed }
    } else {
        base
    };
    let glob = GlobBuilder::new(text).literal_separator(true).build().ok()?.compile_matcher();
    Some(Pattern { base, glob, is_absolute, kinds: watcher["kind"].as_u64().unwrap_or(7) })
}

/// The thread that owns the watcher.
struct Worker {
    shared: Arc<Shared>,
    watcher: RecommendedWatcher,
    watched: HashSet<PathBuf>,
    is_full: bool,
}

impl Worker {
    fn run(mut self, messages: &Receiver<Message>) {
        let mut since: Option<Instant> = None;
        loop {
            let message = match since {
                None => messages.recv().map_err(|_| RecvTimeoutError::Disconnected),
                Some(_) => messages.recv_timeout(QUIET),
            };
            match message {
                Ok(Message::Event(Ok(event))) => {
                    self.take(event);
                    since.get_or_insert_with(Instant::now);
                }
                Ok(Message::Event(Err(error))) => self.shared.warn(&error.to_string()),
                Ok(Message::Folders(folders)) => folders.iter().for_each(|folder| self.add(folder, false)),
                Ok(Message::Stop) | Err(RecvTimeoutError::Disconnected) => return,
                Err(RecvTimeoutError::Timeout) => {
                    self.shared.flush();
                    since = None;
                }
            }
            if since.is_some_and(|since| since.elapsed() > MAX_HELD) {
                self.shared.flush();
                since = None;
            }
        }
    }

    fn take(&mut self, event: notify::Event) {
        let mut paths = event.paths.into_iter();
        match event.kind {
            EventKind::Create(_) | EventKind::Modify(ModifyKind::Name(RenameMode::To)) => {
                paths.for_each(|path| self.created(path));
            }
            EventKind::Remove(_) | EventKind::Modify(ModifyKind::Name(RenameMode::From)) => {
                paths.for_each(|path| self.removed(path));
            }
            // From and To of the same rename were told one by one.
            EventKind::Modify(ModifyKind::Name(RenameMode::Both)) | EventKind::Access(_) => {}
            _ => paths.by_ref().for_each(|path| self.shared.note(path, FileChangeType::CHANGED)),
        }
    }

    fn created(&mut self, path: PathBuf) {
        if path.is_dir() {
            self.add(&path, true);
        }
        self.shared.note(path, FileChangeType::CREATED);
    }

    fn removed(&mut self, path: PathBuf) {
        self.watched.retain(|folder| !folder.starts_with(&path));
        self.shared.note(path, FileChangeType::DELETED);
    }

    /// Watches a folder and those in it; what is in a new one is told, since it may be older than the watch.
    fn add(&mut self, folder: &Path, is_new: bool) {
        if self.is_full || !folder.is_dir() {
            return;
        }
        // Ignore rules are about what a folder holds, so a new folder is judged from its parent.
        let top = if is_new { folder.parent().unwrap_or(folder) } else { folder }.to_owned();
        let wanted = folder.to_owned();
        let walk = WalkBuilder::new(&top)
            .hidden(false)
            .require_git(false)
            .filter_entry(move |entry| {
                let is_never =
                    entry.depth() > 0 && entry.file_name().to_str().is_some_and(|name| NEVER.contains(&name));
                !is_never && (entry.depth() == 0 || entry.path().starts_with(&wanted))
            })
            .build();
        for entry in walk.flatten() {
            let path = entry.path();
            if !path.starts_with(folder) {
                continue;
            }
            if !entry.file_type().is_some_and(|kind| kind.is_dir()) {
                if is_new {
                    self.shared.note(path.to_owned(), FileChangeType::CREATED);
                }
                continue;
            }
            if !self.watched.insert(path.to_owned()) {
                continue;
            }
            let problem = if self.watched.len() > MAX_FOLDERS {
                Some(format!("more than {MAX_FOLDERS} folders"))
            } else {
                self.watcher.watch(path, RecursiveMode::NonRecursive).err().and_then(|error| {
                    // A folder that is gone by now, or closed to us, is no loss.
                    let is_limit = matches!(error.kind, notify::ErrorKind::MaxFilesWatch);
                    is_limit.then(|| "the system's limit of watches is reached".to_owned())
                })
            };
            if let Some(problem) = problem {
                self.is_full = true;
                return self.shared.warn(&problem);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn pending(watching: &Watching) -> Vec<(String, FileChangeType)> {
        let state = watching.shared.lock();
        let name = |path: &Path| path.strip_prefix(&watching.shared.root).unwrap().display().to_string();
        state.pending.iter().map(|(path, kind)| (name(path), *kind)).collect()
    }

    fn registration(id: &str, watchers: Value) -> Value {
        json!([{ "id": id, "method": "workspace/didChangeWatchedFiles", "registerOptions": { "watchers": watchers } }])
    }

    #[test]
    fn patterns_in_every_spelling_match_what_they_say() {
        let root = Path::new("/w é");
        for (watcher, path, kind, wanted) in [
            (json!({ "globPattern": "**/*.rs" }), "/w é/a/b.rs", FileChangeType::CHANGED, true),
            (json!({ "globPattern": "*.rs" }), "/w é/a/b.rs", FileChangeType::CHANGED, false),
            (json!({ "globPattern": "**/*.{toml,lock}" }), "/w é/Cargo.lock", FileChangeType::CREATED, true),
            (json!({ "globPattern": "/w é/**/*.rs" }), "/w é/b.rs", FileChangeType::DELETED, true),
            (json!({ "globPattern": "**/*", "kind": 4 }), "/w é/b.rs", FileChangeType::CHANGED, false),
            (json!({ "globPattern": "**/*", "kind": 4 }), "/w é/b.rs", FileChangeType::DELETED, true),
            (
                json!({ "globPattern": { "baseUri": "file:///w%20%C3%A9/x", "pattern": "*.go" } }),
                "/w é/x/a.go",
                FileChangeType::CHANGED,
                true,
            ),
            (
                json!({ "globPattern": { "baseUri": { "uri": "file:///other", "name": "o" }, "pattern": "**/*" } }),
                "/w é/x/a.go",
                FileChangeType::CHANGED,
                false,
            ),
        ] {
            let pattern = pattern(&watcher, root).unwrap();
            assert_eq!(pattern.wants(Path::new(path), kind), wanted, "{watcher} {path}");
        }
        assert_eq!(pattern(&json!({ "globPattern": "/w/[x]/**" }), root).unwrap().base, Path::new("/w"));
    }

    #[test]
    fn changes_by_others_are_noted_without_ignored_folders() {
        let folder = tempfile::tempdir().unwrap();
        let root = folder.path().canonicalize().unwrap();
        std::fs::write(root.join(".gitignore"), "out/\n").unwrap();
        for name in ["out", "target", "src"] {
            std::fs::create_dir(root.join(name)).unwrap();
        }
        std::fs::write(root.join("src/old.fk"), "1").unwrap();
        let watching = Watching::new(root.clone());
        watching.register(&registration("w", json!([{ "globPattern": "**/*.fk" }])));
        let wait_for = |name: &str| {
            let begun = Instant::now();
            while !pending(&watching).iter().any(|(path, _)| path == name) {
                assert!(begun.elapsed() < Duration::from_secs(20), "{name}: {:?}", pending(&watching));
                std::thread::sleep(Duration::from_millis(5));
            }
        };
        // The thread may still be adding folders: touch until it has seen one.
        let begun = Instant::now();
        while pending(&watching).is_empty() {
            assert!(begun.elapsed() < Duration::from_secs(20));
            std::fs::write(root.join("src/old.fk"), "2").unwrap();
            std::thread::sleep(Duration::from_millis(5));
        }
        std::fs::write(root.join("out/a.fk"), "").unwrap();
        std::fs::write(root.join("target/a.fk"), "").unwrap();
        std::fs::create_dir_all(root.join("n/m")).unwrap();
        std::fs::write(root.join("n/m/new.fk"), "").unwrap();
        wait_for("n/m/new.fk");
        std::fs::write(root.join("src/other.txt"), "").unwrap();
        std::fs::remove_file(root.join("src/old.fk")).unwrap();
        let begun = Instant::now();
        let expected = [
            ("n/m/new.fk".to_owned(), FileChangeType::CREATED),
            ("src/old.fk".to_owned(), FileChangeType::DELETED),
        ];
        while pending(&watching) != expected {
            assert!(begun.elapsed() < Duration::from_secs(20), "{:?}", pending(&watching));
            std::thread::sleep(Duration::from_millis(5));
        }
        watching.unregister(&json!([{ "id": "w", "method": "workspace/didChangeWatchedFiles" }]));
        assert!(watching.shared.lock().patterns.is_empty());
    }
}
