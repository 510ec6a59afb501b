//! A folder with files, the language servers of a session in it, and questions by marks in the text.

use async_trait::async_trait;
use protocol::mode::SandboxMode;
use provider_lsp::{LspOptions, Pool, ServerChange, SessionParts, SessionServers, TellingFiles};
use services::file_system::{
    EditRequest, FileKind, FileStat, FileSystem, FileVersion, FsError, FsErrorKind, ReadWindow, Target,
    TextFile, TextOrigin, WindowRequest, WriteIntent, WriteRequest, Written,
};
use services::language_servers::{
    LanguageServers, LspAnswer, LspError, LspFound, LspOperation, LspPosition, LspQuery,
};
use services::shell::SandboxPolicy;
use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};
use std::time::Duration;
use tempfile::TempDir;
use tokio_util::sync::CancellationToken;

/// Files on the disk, some with unsaved text on top.
pub struct DiskFiles {
    pub unsaved: Mutex<HashMap<PathBuf, String>>,
}

fn refused() -> FsError {
    FsError::new(FsErrorKind::Io, "not in these tests")
}

#[async_trait]
impl FileSystem for DiskFiles {
    async fn resolve(&self, _path: &str) -> Result<Target, FsError> {
        Err(refused())
    }
    async fn stat(&self, _target: &Target) -> Result<Option<FileStat>, FsError> {
        Err(refused())
    }
    async fn read_window(
        &self,
        _t: &Target,
        _r: WindowRequest,
        _c: &CancellationToken,
    ) -> Result<ReadWindow, FsError> {
        Err(refused())
    }
    async fn read_text(
        &self,
        target: &Target,
        _max: u64,
        _c: &CancellationToken,
    ) -> Result<TextFile, FsError> {
        let unsaved = self.unsaved.lock().unwrap().get(&target.key).cloned();
        let text = match unsaved {
            Some(text) => text,
            None => std::fs::read_to_string(&target.key)
                .map_err(|error| FsError::new(FsErrorKind::NotFound, error.to_string()))?,
        };
        Ok(TextFile { version: FileVersion::of(text.as_bytes()), text, origin: TextOrigin::Disk })
    }
    async fn read_bytes(&self, _t: &Target, _max: u64, _c: &CancellationToken) -> Result<Vec<u8>, FsError> {
        Err(refused())
    }
    async fn list_dir(&self, _target: &Target) -> Result<Vec<(String, FileKind)>, FsError> {
        Err(refused())
    }
    async fn write(&self, request: WriteRequest, _c: &CancellationToken) -> Result<Written, FsError> {
        std::fs::write(&request.target.key, &request.content).map_err(|_| refused())?;
        let version = FileVersion::of(request.content.as_bytes());
        Ok(Written { before: None, after: request.content, existed: true, version, notice: None })
    }
    async fn edit(&self, _request: EditRequest, _c: &CancellationToken) -> Result<Written, FsError> {
        Err(refused())
    }
}

pub struct Workspace {
    specs: Vec<provider_lsp::ServerSpec>,
    pub folder: TempDir,
    /// The session's folder as it was opened: perhaps a link.
    pub root: PathBuf,
    pub pool: Arc<Pool>,
    pub servers: Arc<SessionServers>,
    pub disk: Arc<DiskFiles>,
    pub files: Arc<TellingFiles>,
}

/// Short budgets, so that faults end soon.
pub fn quick() -> LspOptions {
    LspOptions {
        initialize_timeout: Duration::from_millis(1500),
        request_timeout: Duration::from_millis(1500),
        readiness_budget: Duration::from_millis(1200),
        settle: Duration::from_millis(150),
        idle: Duration::from_secs(600),
        shutdown: Duration::from_secs(1),
        pause: Duration::from_millis(400),
    }
}

impl Workspace {
    /// A folder in which `.fk` files are served by the fake server with these arguments.
    pub fn fake(arguments: &[&str]) -> Self {
        Self::fake_with(arguments, quick())
    }

    pub fn fake_with(arguments: &[&str], options: LspOptions) -> Self {
        let folder = tempfile::Builder::new().prefix("lsp é ").tempdir().unwrap();
        let log = folder.path().join("messages.log");
        let mut command = vec![env!("CARGO_BIN_EXE_fake-language-server").to_owned()];
        command.extend(arguments.iter().map(|&argument| argument.to_owned()));
        command.extend(["--log".to_owned(), log.display().to_string()]);
        let change = ServerChange {
            command: Some(command),
            extensions: Some(vec!["fk".to_owned()]),
            root_markers: Some(vec!["fake.root".to_owned()]),
        };
        Self::open(folder, [("fake".to_owned(), change)], options)
    }

    pub fn open(
        folder: TempDir,
        changes: impl IntoIterator<Item = (String, ServerChange)>,
        options: LspOptions,
    ) -> Self {
        let root = folder.path().to_owned();
        Self::open_at(root, folder, changes, options)
    }

    /// With a session's folder somewhere in `folder`.
    pub fn open_at(
        root: PathBuf,
        folder: TempDir,
        changes: impl IntoIterator<Item = (String, ServerChange)>,
        options: LspOptions,
    ) -> Self {
        let pool = Arc::new(Pool::new(options));
        let disk = Arc::new(DiskFiles { unsaved: Mutex::default() });
        let servers = provider_lsp::table::servers(changes);
        let parts = SessionParts {
            roots: vec![root.clone()],
            files: disk.clone(),
            servers: servers.clone(),
            is_trusted: false,
            diagnostics_after_edit: true,
        };
        let specs = servers;
        let servers = Arc::new(SessionServers::new(pool.clone(), parts));
        let files = Arc::new(TellingFiles::new(disk.clone(), servers.clone()));
        Self { specs, folder, root, pool, servers, disk, files }
    }

    /// Another session in the same folder, on the same connection.
    pub fn another_session(&self) -> SessionServers {
        let parts = SessionParts {
            roots: vec![self.root.clone()],
            files: self.disk.clone(),
            servers: self.specs.clone(),
            is_trusted: false,
            diagnostics_after_edit: true,
        };
        SessionServers::new(self.pool.clone(), parts)
    }

    pub fn path(&self, name: &str) -> PathBuf {
        self.root.canonicalize().unwrap().join(name)
    }

    pub fn put(&self, name: &str, text: &str) {
        let path = self.path(name);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(path, text).unwrap();
    }

    /// Writes as the agent does.
    pub async fn write(&self, name: &str, text: &str) -> Option<String> {
        let key = self.path(name);
        let sandbox =
            SandboxPolicy { mode: SandboxMode::DangerFullAccess, writable_roots: Vec::new(), network: true };
        let request = WriteRequest {
            target: Target { display: key.clone(), key },
            content: text.to_owned(),
            intent: WriteIntent::Unconditional,
            sandbox,
        };
        self.files.write(request, &CancellationToken::new()).await.unwrap().notice
    }

    /// The question at the `nth` (from 0) place of `mark` in the present text of a file.
    pub fn question(&self, operation: LspOperation, name: &str, mark: &str, nth: usize) -> LspQuery {
        let path = self.path(name);
        let unsaved = self.disk.unsaved.lock().unwrap().get(&path).cloned();
        let text = unsaved.unwrap_or_else(|| std::fs::read_to_string(&path).unwrap());
        let (at, _) = text.match_indices(mark).nth(nth).expect("the mark is in the text");
        let before = &text[..at];
        let line = before.matches('\n').count() as u32;
        let character = before.rsplit('\n').next().unwrap().encode_utf16().count() as u32;
        LspQuery { operation, path, text, position: LspPosition { line, character } }
    }

    pub async fn ask(
        &self,
        operation: LspOperation,
        name: &str,
        mark: &str,
        nth: usize,
    ) -> Result<LspAnswer, LspError> {
        self.servers.query(self.question(operation, name, mark, nth), &CancellationToken::new()).await
    }

    pub async fn hover(&self, name: &str, mark: &str) -> Result<Option<String>, LspError> {
        match self.ask(LspOperation::Hover, name, mark, 0).await?.found {
            LspFound::Hover(hover) => Ok(hover.map(|hover| hover.contents)),
            LspFound::Locations(_) => panic!("places for a hover"),
        }
    }

    /// Places found, as `file:line:column` from 1, relative to the folder.
    pub async fn places(&self, operation: LspOperation, name: &str, mark: &str, nth: usize) -> Vec<String> {
        let answer = self.ask(operation, name, mark, nth).await.unwrap();
        self.shown(&answer)
    }

    pub fn shown(&self, answer: &LspAnswer) -> Vec<String> {
        let LspFound::Locations(all) = &answer.found else { panic!("no places") };
        let root = self.path("");
        let place = |location: &services::language_servers::LspLocation| {
            let path = location.path.as_deref().unwrap_or(Path::new("?"));
            let path = path.strip_prefix(&root).unwrap_or(path).display();
            format!("{path}:{}:{}", location.range.start.line + 1, location.range.start.character + 1)
        };
        all.iter().map(place).collect()
    }

    /// What the fake server was sent.
    pub fn messages(&self) -> Vec<String> {
        let log = std::fs::read_to_string(self.path("messages.log")).unwrap_or_default();
        log.lines().map(str::to_owned).collect()
    }

    pub fn n_messages(&self, method: &str) -> usize {
        self.messages().iter().filter(|message| *message == method).count()
    }
}
