//! Files of a session through its editor: text inside the session's folders is read and written where the user sees it.
//!
//! Compose gives it to a session whose client offers both directions. Existence, kind and size are asked of the disk.
//! Whatever the editor cannot serve (paths outside the session's folders, files over [`MAX_CLIENT_BYTES`], bytes that
//! are no UTF-8, paths it refuses) goes to the disk with the functions of `provider_local::files`.
//!
//! Two copies of a text exist, so three questions are answered here in one place each: which copy counts ([`Sides`]),
//! what a version is ([`version_of`]: the same for the same lines, whichever side they come from, because editors keep
//! line ends and byte-order mark to themselves), and what is stored after a write ([`ClientFileSystem::store`]).
//!
//! Source: product decisions, "Files"; `faults.md` F10–F17 and "Facts about real clients".

mod sides;
mod store;

use self::sides::{Sides, believed, fit, in_form_of, version_of};
use self::store::NewText;
use super::client::ClientLink;
use agent_client_protocol::v1::schema::{ReadTextFileRequest, SessionId, WriteTextFileRequest};
use agent_client_protocol::{Error, JsonRpcRequest};
use async_trait::async_trait;
use provider_local::LocalFileSystem;
use provider_local::files::{
    aborted, blocking, check_fence, edit_now, locked, read_text_now, stat_now, write_now,
};
use services::clock::Clock;
use services::file_system::replace::replace;
use services::file_system::window::WindowCutter;
use services::file_system::{
    EditRequest, FileKind, FileStat, FileSystem, FileVersion, FsError, FsErrorKind, ReadWindow, Target,
    TextFile, TextOrigin, WindowRequest, WriteIntent, WriteRequest, Written,
};
use services::shell::SandboxPolicy;
use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;
use tokio::sync::oneshot;
use tokio_util::sync::CancellationToken;

/// Larger files are read from the disk and never written through the client. Source: product decisions, "Files".
const MAX_CLIENT_BYTES: u64 = 10 << 20;
/// How long the editor may take for one file request.
const REQUEST_BUDGET: Duration = Duration::from_secs(30);
/// How often, and how far apart, an editor is asked again that has not yet noticed a newer text on the disk.
const RELOAD_ATTEMPTS: usize = 3;
const RELOAD_PAUSE: Duration = Duration::from_millis(100);

const BOM: &str = "\u{feff}";

/// Files of one session, through its editor.
pub struct ClientFileSystem {
    link: ClientLink,
    session_id: SessionId,
    local: Arc<LocalFileSystem>,
    /// The session's folders as the client named them, each with its real path.
    roots: Vec<(PathBuf, PathBuf)>,
    clock: Arc<dyn Clock>,
    request_budget: Duration,
    known: Mutex<HashMap<PathBuf, Known>>,
}

/// What is remembered of a file, by its key.
#[derive(Clone, Debug, Default)]
struct Known {
    /// Version of the text when editor and disk last agreed.
    agreed: Option<FileVersion>,
    /// Whether the editor has ever given text for it; until then an empty answer may mean "I do not know this file".
    shown: bool,
    /// Bytes of a text that the editor has and the disk has not yet.
    only_in_editor: Option<u64>,
}

/// Where a file's text is to be had.
enum Route {
    /// On the disk only.
    Disk,
    /// Through the editor, under this path; with the text on the disk, when there is a file.
    Editor { path: PathBuf, disk: Option<String> },
}

/// A file as it is now.
struct Current {
    /// The text that counts, in the form in which the editor gives it; `None` when there is no file.
    text: Option<String>,
    origin: TextOrigin,
    /// The exact text on the disk.
    disk: Option<String>,
    sides: Sides,
}

/// The lock of a target, held until this is dropped.
struct Held {
    target: Target,
    _release: oneshot::Sender<()>,
}

impl ClientFileSystem {
    /// Files of the session `session_id` (the id that the client knows), whose folders are `roots`: absolute, as the
    /// client named them. Looks at the disk for their real paths.
    pub fn new(
        link: ClientLink,
        session_id: protocol::id::SessionId,
        local: Arc<LocalFileSystem>,
        roots: Vec<PathBuf>,
        clock: Arc<dyn Clock>,
    ) -> Self {
        let real = |root: PathBuf| {
            let real = std::fs::canonicalize(&root).unwrap_or_else(|_| root.clone());
            (root, real)
        };
        Self {
            link,
            session_id: SessionId::new(session_id.as_str()),
            local,
            roots: roots.into_iter().map(real).collect(),
            clock,
            request_budget: REQUEST_BUDGET,
            known: Mutex::default(),
        }
    }

    /// The path under which the editor knows the target; `None` outside the session's folders. A file that links lead
    /// to has one path, so that the editor never holds two copies of it.
    fn client_path(&self, target: &Target) -> Option<PathBuf> {
        let by_key =
            self.roots.iter().find_map(|(root, real)| Some(root.join(target.key.strip_prefix(real).ok()?)));
        by_key.or_else(|| {
            let inside = self.roots.iter().any(|(root, _)| target.display.starts_with(root));
            inside.then(|| target.display.clone())
        })
    }

    async fn route(&self, target: &Target, cancel: &CancellationToken) -> Result<Route, FsError> {
        let Some(path) = self.client_path(target) else { return Ok(Route::Disk) };
        let (target, cancel) = (target.clone(), cancel.clone());
        blocking(move || {
            let Some(stat) = stat_now(&target)? else { return Ok(Route::Editor { path, disk: None }) };
            if stat.kind != FileKind::File || stat.size > MAX_CLIENT_BYTES {
                return Ok(Route::Disk);
            }
            match read_text_now(&target, MAX_CLIENT_BYTES, &cancel) {
                Ok(file) => Ok(Route::Editor { path, disk: Some(file.text) }),
                Err(error) => match error.kind {
                    FsErrorKind::Aborted => Err(error),
                    FsErrorKind::NotFound => Ok(Route::Editor { path, disk: None }),
                    // The disk's own way tells what is wrong with it.
                    _ => Ok(Route::Disk),
                },
            }
        })
        .await
    }

    /// Reads through the editor and decides which text counts.
    async fn current(
        &self,
        target: &Target,
        path: &Path,
        mut disk: Option<String>,
        cancel: &CancellationToken,
    ) -> Result<Current, FsError> {
        let mut attempt = 0;
        loop {
            let answer = self.read_through(path, cancel).await?;
            let known = self.known(&target.key);
            let Some(text) = believed(answer, disk.as_deref(), &known) else {
                let sides = Sides::DiskAlone;
                return Ok(Current { text: disk.clone(), origin: TextOrigin::Disk, disk, sides });
            };
            let Some(disk_text) = disk.take() else {
                if known.agreed == Some(version_of(&text)) {
                    // It was saved once and removed since; what the editor shows is the remains.
                    let sides = Sides::DiskIsNewer;
                    return Ok(Current { text: None, origin: TextOrigin::Disk, disk: None, sides });
                }
                self.remember(&target.key, |known| {
                    known.shown = true;
                    known.only_in_editor = Some(text.len() as u64);
                });
                let sides = Sides::Unsaved;
                return Ok(Current { text: Some(text), origin: TextOrigin::Editor, disk: None, sides });
            };
            let sides = Sides::of(&text, &disk_text, known.agreed.as_ref());
            if sides == Sides::DiskIsNewer && attempt < RELOAD_ATTEMPTS {
                attempt += 1;
                self.pause(RELOAD_PAUSE, cancel).await?;
                disk = self.disk_text(target, cancel).await?;
                continue;
            }
            self.remember(&target.key, |known| {
                known.shown |= !text.is_empty();
                known.only_in_editor = None;
                if sides == Sides::Agree {
                    known.agreed = Some(version_of(&text));
                }
            });
            let (text, origin) = match sides {
                Sides::DiskIsNewer => (fit(&disk_text, &text), TextOrigin::Disk),
                _ => (text, TextOrigin::Editor),
            };
            return Ok(Current { text: Some(text), origin, disk: Some(disk_text), sides });
        }
    }

    /// The current text for a reader, who has no use for a missing file.
    async fn current_text(
        &self,
        target: &Target,
        path: &Path,
        disk: Option<String>,
        cancel: &CancellationToken,
    ) -> Result<(String, TextOrigin), FsError> {
        let current = self.current(target, path, disk, cancel).await?;
        match current.text {
            Some(text) => Ok((text, current.origin)),
            None => Err(FsError::new(
                FsErrorKind::NotFound,
                format!("{} does not exist", target.display.display()),
            )),
        }
    }

    async fn disk_text(
        &self,
        target: &Target,
        cancel: &CancellationToken,
    ) -> Result<Option<String>, FsError> {
        let (target, cancel) = (target.clone(), cancel.clone());
        blocking(move || match read_text_now(&target, MAX_CLIENT_BYTES, &cancel) {
            Ok(file) => Ok(Some(file.text)),
            Err(error) if error.kind == FsErrorKind::Aborted => Err(error),
            Err(_) => Ok(None),
        })
        .await
    }

    /// Waits for the target's lock. What the path leads to is found out again under it.
    async fn hold(&self, target: &Target, cancel: &CancellationToken) -> Result<Held, FsError> {
        let (got, mut reached) = oneshot::channel();
        let (release, released) = oneshot::channel::<()>();
        let holding = locked(target.clone(), cancel, move |target| {
            if got.send(target).is_ok() {
                // An error is the ordinary end: the holder was dropped.
                let _ = released.blocking_recv();
            }
            Ok(())
        });
        tokio::pin!(holding);
        let target = tokio::select! {
            biased;
            target = &mut reached => target.map_err(|_| aborted()),
            ended = &mut holding => Err(ended.err().unwrap_or_else(aborted)),
        }?;
        Ok(Held { target, _release: release })
    }

    /// The editor's text; the inner error is the editor's own refusal.
    async fn read_through(
        &self,
        path: &Path,
        cancel: &CancellationToken,
    ) -> Result<Result<String, Error>, FsError> {
        let request = ReadTextFileRequest::new(self.session_id.clone(), path);
        let answer = self.ask("read", path, request, cancel).await?;
        Ok(answer.map(|response| response.content))
    }

    async fn write_through(
        &self,
        path: &Path,
        text: &str,
        cancel: &CancellationToken,
    ) -> Result<Result<(), Error>, FsError> {
        let request = WriteTextFileRequest::new(self.session_id.clone(), path, text);
        let answer = self.ask("write", path, request, cancel).await?;
        Ok(answer.map(|_| ()))
    }

    /// Asks the editor within the budget.
    async fn ask<R: JsonRpcRequest>(
        &self,
        verb: &str,
        path: &Path,
        request: R,
        cancel: &CancellationToken,
    ) -> Result<Result<R::Response, Error>, FsError> {
        tokio::select! {
            biased;
            () = cancel.cancelled() => Err(aborted()),
            answer = self.link.request(request) => Ok(answer),
            () = self.clock.sleep(self.request_budget) => {
                let path = path.display();
                let seconds = self.request_budget.as_secs_f32();
                let doubt = if verb == "write" { "; it may still store the text, so read the file again" } else { "" };
                Err(FsError::new(
                    FsErrorKind::Io,
                    format!("the editor did not answer the request to {verb} {path} within {seconds} s{doubt}"),
                ))
            }
        }
    }

    async fn pause(&self, duration: Duration, cancel: &CancellationToken) -> Result<(), FsError> {
        tokio::select! {
            () = cancel.cancelled() => Err(aborted()),
            () = self.clock.sleep(duration) => Ok(()),
        }
    }

    fn known(&self, key: &Path) -> Known {
        self.memory().get(key).cloned().unwrap_or_default()
    }

    fn remember(&self, key: &Path, change: impl FnOnce(&mut Known)) {
        change(self.memory().entry(key.to_owned()).or_default());
    }

    fn memory(&self) -> MutexGuard<'_, HashMap<PathBuf, Known>> {
        self.known.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[async_trait]
impl FileSystem for ClientFileSystem {
    async fn resolve(&self, path: &str) -> Result<Target, FsError> {
        self.local.resolve(path).await
    }

    async fn stat(&self, target: &Target) -> Result<Option<FileStat>, FsError> {
        let stat = self.local.stat(target).await?;
        if stat.is_some() {
            return Ok(stat);
        }
        // Written through the editor in this session, and not on the disk yet.
        Ok(self.known(&target.key).only_in_editor.map(|size| FileStat { kind: FileKind::File, size }))
    }

    async fn read_window(
        &self,
        target: &Target,
        request: WindowRequest,
        cancel: &CancellationToken,
    ) -> Result<ReadWindow, FsError> {
        let Route::Editor { path, disk } = self.route(target, cancel).await? else {
            return self.local.read_window(target, request, cancel).await;
        };
        let (text, origin) = self.current_text(target, &path, disk, cancel).await?;
        let mut cutter = WindowCutter::new(request);
        cutter.push(text.strip_prefix(BOM).unwrap_or(&text));
        Ok(ReadWindow { window: cutter.finish(), version: version_of(&text), origin })
    }

    async fn read_text(
        &self,
        target: &Target,
        max_bytes: u64,
        cancel: &CancellationToken,
    ) -> Result<TextFile, FsError> {
        let Route::Editor { path, disk } = self.route(target, cancel).await? else {
            return self.local.read_text(target, max_bytes, cancel).await;
        };
        let (text, origin) = self.current_text(target, &path, disk, cancel).await?;
        if text.len() as u64 > max_bytes {
            let path = target.display.display();
            return Err(FsError::new(
                FsErrorKind::TooLarge,
                format!("{path} has {} bytes; at most {max_bytes} are read at once", text.len()),
            ));
        }
        Ok(TextFile { version: version_of(&text), text, origin })
    }

    async fn read_bytes(
        &self,
        target: &Target,
        max_bytes: u64,
        cancel: &CancellationToken,
    ) -> Result<Vec<u8>, FsError> {
        self.local.read_bytes(target, max_bytes, cancel).await
    }

    async fn list_dir(&self, target: &Target) -> Result<Vec<(String, FileKind)>, FsError> {
        self.local.list_dir(target).await
    }

    /// # Cancellation
    /// Once the editor was asked to write, dropping the future leaves open whether it did.
    async fn write(&self, request: WriteRequest, cancel: &CancellationToken) -> Result<Written, FsError> {
        let held = self.hold(&request.target, cancel).await?;
        let target = &held.target;
        let Route::Editor { path, disk } = self.route(target, cancel).await? else {
            let (request, token) = (WriteRequest { target: target.clone(), ..request }, cancel.clone());
            return blocking(move || write_now(&request, &token)).await;
        };
        fence(target, &request.sandbox).await?;
        let before = self.current(target, &path, disk, cancel).await?;
        match &request.intent {
            WriteIntent::Unconditional => {}
            WriteIntent::CreateIfAbsent if before.text.is_some() => {
                let path = target.display.display();
                let where_to = match before.disk {
                    Some(_) => "exists already and has not been read",
                    None => "is open in the editor with text that is not saved and has not been read",
                };
                return Err(FsError::new(FsErrorKind::NotObserved, format!("{path} {where_to}")));
            }
            WriteIntent::CreateIfAbsent if before.disk.is_none() && is_link(target).await? => {
                let path = target.display.display();
                return Err(FsError::new(
                    FsErrorKind::NotObserved,
                    format!("{path} exists already: it is a link to a file that is missing"),
                ));
            }
            WriteIntent::CreateIfAbsent => {}
            WriteIntent::ReplaceIfVersion(version) => before.expect(target, version)?,
        }
        // A byte-order mark stays, on whichever side it is kept.
        let keeps_bom = |side: Option<&str>| side.is_some_and(|text| text.starts_with(BOM));
        let with_bom = |keeps: bool| match keeps && !request.content.starts_with(BOM) {
            true => format!("{BOM}{}", request.content),
            false => request.content.clone(),
        };
        let text = with_bom(keeps_bom(before.text.as_deref()));
        let on_disk = with_bom(keeps_bom(before.text.as_deref()) || keeps_bom(before.disk.as_deref()));
        let new = NewText { target, path: &path, sandbox: &request.sandbox, text, on_disk, before };
        self.store(new, cancel).await
    }

    /// # Cancellation
    /// As [`ClientFileSystem::write`].
    async fn edit(&self, request: EditRequest, cancel: &CancellationToken) -> Result<Written, FsError> {
        let held = self.hold(&request.target, cancel).await?;
        let target = &held.target;
        let Route::Editor { path, disk } = self.route(target, cancel).await? else {
            let (request, token) = (EditRequest { target: target.clone(), ..request }, cancel.clone());
            return blocking(move || edit_now(&request, &token)).await;
        };
        fence(target, &request.sandbox).await?;
        let before = self.current(target, &path, disk, cancel).await?;
        let Some(text) = &before.text else { return Err(stale(target, "does not exist", Sides::DiskAlone)) };
        if let Some(version) = &request.expected {
            before.expect(target, version)?;
        }
        let edited =
            |text: &str| replace(text, &request.old_string, &request.new_string, request.replace_all);
        let new_text = edited(text)?;
        let on_disk = match (&before.disk, before.sides) {
            (Some(disk), Sides::Agree | Sides::DiskIsNewer | Sides::DiskAlone) => edited(disk)?,
            (Some(disk), _) => in_form_of(&new_text, disk),
            (None, _) => new_text.clone(),
        };
        let new = NewText { target, path: &path, sandbox: &request.sandbox, text: new_text, on_disk, before };
        self.store(new, cancel).await
    }
}

impl Current {
    /// Fails when this is not the version that was observed. The failure says which side the text comes from, so that
    /// reading again is never asked for in vain.
    fn expect(&self, target: &Target, version: &FileVersion) -> Result<(), FsError> {
        match &self.text {
            None => Err(stale(target, "does not exist any more", self.sides)),
            Some(text) if version_of(text) != *version => {
                Err(stale(target, "changed since it was read", self.sides))
            }
            Some(_) => Ok(()),
        }
    }
}

fn stale(target: &Target, what: &str, sides: Sides) -> FsError {
    let side = match sides {
        Sides::Agree | Sides::DiskAlone => "",
        Sides::Unsaved | Sides::Conflict => {
            "; the editor holds changes that are not saved, and they are what is read"
        }
        Sides::DiskIsNewer => "; the text on the disk is newer than the editor's, and it is what is read",
    };
    FsError::new(FsErrorKind::StaleVersion, format!("{} {what}{side}", target.display.display()))
}

/// Refuses before the editor is asked anything. The check is made again right before each write.
async fn fence(target: &Target, sandbox: &SandboxPolicy) -> Result<(), FsError> {
    let (target, sandbox) = (target.clone(), sandbox.clone());
    blocking(move || check_fence(&target, &sandbox)).await
}

/// Whether the path itself is a link. Making the target of one that leads nowhere would go round the observation.
async fn is_link(target: &Target) -> Result<bool, FsError> {
    let display = target.display.clone();
    blocking(move || Ok(std::fs::symlink_metadata(display).is_ok())).await
}

#[cfg(test)]
mod tests;
