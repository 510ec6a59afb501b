//! A file system in memory: files, folders, symbolic links, versions, the sandbox, an editor that formats.

use super::lock;
use crate::file_system::window::WindowCutter;
use crate::file_system::{
    EditRequest, FileKind, FileStat, FileSystem, FileVersion, FsError, FsErrorKind, ReadWindow, Target,
    TextFile, TextOrigin, WindowRequest, WriteIntent, WriteRequest, Written, replace,
};
use crate::shell::SandboxPolicy;
use async_trait::async_trait;
use protocol::mode::SandboxMode;
use std::collections::{BTreeMap, BTreeSet};
use std::path::{Component, Path, PathBuf};
use std::sync::Mutex;
use tokio_util::sync::CancellationToken;

/// Files by absolute path. Folders exist by their files, or by [`FakeFiles::make_dir`].
#[derive(Default)]
pub struct FakeFiles {
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    files: BTreeMap<PathBuf, Vec<u8>>,
    dirs: BTreeSet<PathBuf>,
    links: BTreeMap<PathBuf, PathBuf>,
    formatter: Option<fn(&str) -> String>,
}

impl FakeFiles {
    /// The folder that relative paths join.
    pub const CWD: &str = "/project";

    /// Puts a file there, as if somebody else had written it.
    pub fn put(&self, path: &str, content: impl AsRef<[u8]>) {
        lock(&self.state).files.insert(absolute(path), content.as_ref().to_vec());
    }

    /// Removes a file, as if somebody else had.
    pub fn remove(&self, path: &str) {
        lock(&self.state).files.remove(&absolute(path));
    }

    /// Makes an empty folder.
    pub fn make_dir(&self, path: &str) {
        lock(&self.state).dirs.insert(absolute(path));
    }

    /// Makes a symbolic link.
    pub fn link(&self, path: &str, to: &str) {
        lock(&self.state).links.insert(absolute(path), absolute(to));
    }

    /// Formats every text that is written, as an editor does on save.
    pub fn format_on_save(&self, formatter: fn(&str) -> String) {
        lock(&self.state).formatter = Some(formatter);
    }

    /// The text of a file; `None` when it is missing or no text.
    pub fn text(&self, path: &str) -> Option<String> {
        lock(&self.state).files.get(&absolute(path)).and_then(|bytes| String::from_utf8(bytes.clone()).ok())
    }

    fn bytes(&self, target: &Target, max_bytes: u64, cancel: &CancellationToken) -> Result<Vec<u8>, FsError> {
        let shown = target.display.display();
        if cancel.is_cancelled() {
            return Err(FsError::new(FsErrorKind::Aborted, "the read was cancelled"));
        }
        let state = lock(&self.state);
        match state.files.get(&target.key) {
            Some(bytes) if bytes.len() as u64 > max_bytes => {
                Err(FsError::new(FsErrorKind::TooLarge, format!("{shown} has {} bytes", bytes.len())))
            }
            Some(bytes) => Ok(bytes.clone()),
            None if state.is_dir(&target.key) => {
                Err(FsError::new(FsErrorKind::NotRegularFile, format!("{shown} is a folder")))
            }
            None => Err(FsError::new(FsErrorKind::NotFound, format!("{shown} does not exist"))),
        }
    }

    /// Stores a text and reports what is stored now.
    fn store(&self, target: &Target, before: Option<Vec<u8>>, content: &str) -> Written {
        let mut state = lock(&self.state);
        let after = state.formatter.map_or_else(|| content.to_owned(), |format| format(content));
        state.files.insert(target.key.clone(), after.clone().into_bytes());
        Written {
            existed: before.is_some(),
            before: before.and_then(|bytes| String::from_utf8(bytes).ok()),
            version: FileVersion::of(after.as_bytes()),
            notice: (after != content)
                .then(|| "The editor changed the text when it saved the file.".to_owned()),
            after,
        }
    }
}

impl State {
    fn is_dir(&self, path: &Path) -> bool {
        path == Path::new("/")
            || path == Path::new(FakeFiles::CWD)
            || self.dirs.iter().chain(self.files.keys()).any(|known| known != path && known.starts_with(path))
            || self.dirs.contains(path)
    }

    /// Follows the links on a path, component by component.
    fn real(&self, path: &Path) -> PathBuf {
        let mut real = PathBuf::new();
        for component in path.components() {
            real.push(component);
            // A chain of links is followed to its end; a loop stops at some link of it.
            for _ in 0..8 {
                match self.links.get(&real) {
                    Some(to) => real = to.clone(),
                    None => break,
                }
            }
        }
        real
    }
}

#[async_trait]
impl FileSystem for FakeFiles {
    async fn resolve(&self, path: &str) -> Result<Target, FsError> {
        if path.trim().is_empty() {
            return Err(FsError::new(FsErrorKind::NotFound, "the path is empty"));
        }
        let display = absolute(path);
        let state = lock(&self.state);
        let key = state.real(&display);
        if key.ancestors().skip(1).any(|ancestor| state.files.contains_key(ancestor)) {
            return Err(FsError::new(
                FsErrorKind::NotFound,
                format!("a parent of {} is a file", display.display()),
            ));
        }
        Ok(Target { key, display })
    }

    async fn stat(&self, target: &Target) -> Result<Option<FileStat>, FsError> {
        let state = lock(&self.state);
        Ok(match state.files.get(&target.key) {
            Some(bytes) => Some(FileStat { kind: FileKind::File, size: bytes.len() as u64 }),
            None => state.is_dir(&target.key).then_some(FileStat { kind: FileKind::Directory, size: 0 }),
        })
    }

    async fn read_window(
        &self,
        target: &Target,
        request: WindowRequest,
        cancel: &CancellationToken,
    ) -> Result<ReadWindow, FsError> {
        let file = self.read_text(target, u64::MAX, cancel).await?;
        let mut cutter = WindowCutter::new(request);
        cutter.push(file.text.strip_prefix('\u{feff}').unwrap_or(&file.text));
        Ok(ReadWindow { window: cutter.finish(), version: file.version, origin: file.origin })
    }

    async fn read_text(
        &self,
        target: &Target,
        max_bytes: u64,
        cancel: &CancellationToken,
    ) -> Result<TextFile, FsError> {
        let bytes = self.bytes(target, max_bytes, cancel)?;
        let version = FileVersion::of(&bytes);
        let not_text =
            || FsError::new(FsErrorKind::NotText, format!("{} is no UTF-8 text", target.display.display()));
        if bytes.contains(&0) {
            return Err(not_text());
        }
        let text = String::from_utf8(bytes).map_err(|_| not_text())?;
        Ok(TextFile { text, version, origin: TextOrigin::Disk })
    }

    async fn read_bytes(
        &self,
        target: &Target,
        max_bytes: u64,
        cancel: &CancellationToken,
    ) -> Result<Vec<u8>, FsError> {
        self.bytes(target, max_bytes, cancel)
    }

    async fn list_dir(&self, target: &Target) -> Result<Vec<(String, FileKind)>, FsError> {
        let state = lock(&self.state);
        if state.files.contains_key(&target.key) {
            return Err(FsError::new(
                FsErrorKind::NotDirectory,
                format!("{} is a file", target.display.display()),
            ));
        }
        if !state.is_dir(&target.key) {
            return Err(FsError::new(
                FsErrorKind::NotFound,
                format!("{} does not exist", target.display.display()),
            ));
        }
        let mut entries = BTreeMap::new();
        for (path, is_dir) in
            state.files.keys().map(|path| (path, false)).chain(state.dirs.iter().map(|path| (path, true)))
        {
            let Ok(below) = path.strip_prefix(&target.key) else { continue };
            let mut components = below.components();
            let Some(first) = components.next() else { continue };
            let kind =
                if is_dir || components.next().is_some() { FileKind::Directory } else { FileKind::File };
            entries.insert(first.as_os_str().to_string_lossy().into_owned(), kind);
        }
        Ok(entries.into_iter().collect())
    }

    async fn write(&self, request: WriteRequest, cancel: &CancellationToken) -> Result<Written, FsError> {
        check_writable(&request.target, &request.sandbox)?;
        let shown = request.target.display.display();
        let before = match self.bytes(&request.target, u64::MAX, cancel) {
            Ok(bytes) => Some(bytes),
            Err(error) if error.kind == FsErrorKind::NotFound => None,
            Err(error) => return Err(error),
        };
        match (&request.intent, &before) {
            (WriteIntent::CreateIfAbsent, Some(_)) => {
                return Err(FsError::new(
                    FsErrorKind::NotObserved,
                    format!("{shown} exists and has not been read in this session"),
                ));
            }
            (WriteIntent::ReplaceIfVersion(version), before)
                if before.as_deref().map(FileVersion::of).as_ref() != Some(version) =>
            {
                return Err(FsError::new(
                    FsErrorKind::StaleVersion,
                    format!("{shown} changed since it was read"),
                ));
            }
            _ => {}
        }
        Ok(self.store(&request.target, before, &request.content))
    }

    async fn edit(&self, request: EditRequest, cancel: &CancellationToken) -> Result<Written, FsError> {
        check_writable(&request.target, &request.sandbox)?;
        let file = self.read_text(&request.target, u64::MAX, cancel).await?;
        if request.expected.as_ref().is_some_and(|expected| *expected != file.version) {
            return Err(FsError::new(
                FsErrorKind::StaleVersion,
                format!("{} changed since it was read", request.target.display.display()),
            ));
        }
        let after =
            replace::replace(&file.text, &request.old_string, &request.new_string, request.replace_all)?;
        Ok(self.store(&request.target, Some(file.text.into_bytes()), &after))
    }
}

fn check_writable(target: &Target, sandbox: &SandboxPolicy) -> Result<(), FsError> {
    let temporary = PathBuf::from("/tmp");
    let is_allowed = match sandbox.mode {
        SandboxMode::ReadOnly => false,
        SandboxMode::WorkspaceWrite => {
            sandbox.writable_roots.iter().chain([&temporary]).any(|root| target.key.starts_with(root))
        }
        SandboxMode::DangerFullAccess => true,
    };
    if is_allowed {
        return Ok(());
    }
    Err(FsError::new(
        FsErrorKind::SandboxDenied,
        format!("{} may not be written under {} mode", target.display.display(), sandbox.mode.id()),
    ))
}

/// Joins the session's folder and removes `.` and `..` lexically.
fn absolute(path: &str) -> PathBuf {
    let mut absolute = PathBuf::new();
    for component in Path::new(FakeFiles::CWD).join(path).components() {
        match component {
            Component::ParentDir => {
                absolute.pop();
            }
            Component::CurDir => {}
            other => absolute.push(other),
        }
    }
    absolute
}
