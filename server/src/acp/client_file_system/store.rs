//! Storing a text through the editor: written, looked at on both sides, and told as it is. Used by the file system only.

use super::sides::{Sides, fit, plain, version_of};
use super::{ClientFileSystem, Current, MAX_CLIENT_BYTES};
use crate::acp::client::{is_not_owned, words};
use provider_local::files::{blocking, check_fence, io_error, resolve_in, write_now};
use services::file_system::{FileVersion, FsError, FsErrorKind, Target, WriteIntent, WriteRequest, Written};
use services::shell::SandboxPolicy;
use std::path::Path;
use tokio_util::sync::CancellationToken;

/// What is to be stored.
pub(super) struct NewText<'a> {
    pub(super) target: &'a Target,
    pub(super) path: &'a Path,
    pub(super) sandbox: &'a SandboxPolicy,
    /// The text in the form in which the editor gives and takes it.
    pub(super) text: String,
    /// The text as the file on the disk should hold it, line ends and byte-order mark included.
    pub(super) on_disk: String,
    pub(super) before: Current,
}

impl ClientFileSystem {
    /// Checks, right before the editor is asked to write, that the path still leads to the target and that the target
    /// may be written; then makes the folders above it.
    async fn prepare(&self, target: &Target, sandbox: &SandboxPolicy) -> Result<(), FsError> {
        let (target, sandbox) = (target.clone(), sandbox.clone());
        blocking(move || {
            let path = target.display.display();
            let now = target.display.to_str().map(|path| resolve_in(Path::new("/"), path)).transpose()?;
            if now.is_none_or(|now| now.key != target.key) {
                return Err(FsError::new(
                    FsErrorKind::SandboxDenied,
                    format!("{path} was not written: a folder on its path changed meanwhile"),
                ));
            }
            check_fence(&target, &sandbox)?;
            let Some(parent) = target.key.parent() else { return Ok(()) };
            std::fs::create_dir_all(parent).map_err(|error| io_error("make", parent, &error))
        })
        .await
    }

    /// Stores a text through the editor, or on the disk where the path is not the editor's, and tells what is stored now.
    pub(super) async fn store(
        &self,
        new: NewText<'_>,
        cancel: &CancellationToken,
    ) -> Result<Written, FsError> {
        if new.before.sides == Sides::Conflict {
            return Err(conflict(new.target));
        }
        if new.text.len() as u64 > MAX_CLIENT_BYTES {
            return self.store_on_disk(new, None, cancel).await;
        }
        self.prepare(new.target, new.sandbox).await?;
        if let Err(error) = self.write_through(new.path, &new.text, cancel).await? {
            if !is_not_owned(&error) {
                // Whoever refused it there has not allowed it here.
                let message =
                    format!("the editor refused to write {}: {}", new.path.display(), words(&error));
                return Err(FsError::new(FsErrorKind::PermissionDenied, message));
            }
            let notice = format!(
                "This path is not the editor's ({}), so the file was written on the disk.",
                words(&error)
            );
            return self.store_on_disk(new, Some(notice), cancel).await;
        }
        let mut disk = self.disk_text(new.target, cancel).await?;
        if new.text != new.on_disk && disk.as_deref() == Some(new.text.as_str()) {
            // This editor writes what it is given: line ends or byte-order mark, which it hides, would be lost.
            self.prepare(new.target, new.sandbox).await?;
            if self.write_through(new.path, &new.on_disk, cancel).await?.is_ok() {
                disk = self.disk_text(new.target, cancel).await?;
            }
        }
        let stored = match self.read_through(new.path, cancel).await {
            Ok(Ok(text)) if !text.is_empty() || new.text.is_empty() => Some(text),
            Ok(_) => None,
            Err(error) if error.kind == FsErrorKind::Aborted => return Err(error),
            Err(_) => None,
        };
        let notice = notice(&new, stored.as_deref(), disk.as_deref());
        let mut after = stored.or_else(|| disk.clone()).unwrap_or_else(|| new.text.clone());
        if new.before.text.as_ref().is_some_and(|before| !before.contains('\r')) && !new.text.contains('\r') {
            // Line ends that only now show through are no change of the text.
            after = fit(&after, &new.text);
        }
        let version = version_of(&after);
        self.remember(&new.target.key, |known| {
            known.shown |= !after.is_empty();
            known.only_in_editor = disk.is_none().then_some(after.len() as u64);
            if disk.as_deref().is_some_and(|disk| version_of(disk) == version) {
                known.agreed = Some(version.clone());
            }
        });
        Ok(written(new.before.text, after, notice))
    }

    /// Writes beside the editor. The file on the disk must still be the one that was looked at.
    async fn store_on_disk(
        &self,
        new: NewText<'_>,
        notice: Option<String>,
        cancel: &CancellationToken,
    ) -> Result<Written, FsError> {
        let request = WriteRequest {
            target: new.target.clone(),
            content: new.on_disk,
            intent: match &new.before.disk {
                Some(disk) => WriteIntent::ReplaceIfVersion(FileVersion::of(disk.as_bytes())),
                None => WriteIntent::CreateIfAbsent,
            },
            sandbox: new.sandbox.clone(),
        };
        let token = cancel.clone();
        let stored = blocking(move || write_now(&request, &token)).await?;
        self.remember(&new.target.key, |known| known.only_in_editor = None);
        Ok(written(new.before.text, stored.after, notice))
    }
}

/// What the model must know about a text that was stored through the editor.
fn notice(new: &NewText<'_>, stored: Option<&str>, disk: Option<&str>) -> Option<String> {
    let mut notices = Vec::new();
    match stored {
        None => notices.push("The editor took the text but could not be asked what it stored."),
        Some(stored) if plain(stored) == plain(&new.text) => {}
        Some(stored) if new.before.text.as_deref().is_some_and(|before| plain(before) == plain(stored)) => {
            notices.push("The editor took the text but still gives the old one. Read the file before going on.");
        }
        Some(_) => notices.push(
            "The editor changed the text while storing it, for instance by formatting. Read the file before the next \
             edit.",
        ),
    }
    if let Some(stored) = stored
        && disk.is_none_or(|disk| plain(disk) != plain(stored))
    {
        notices.push("The editor has not saved it: commands still see the text that is on the disk.");
    }
    (!notices.is_empty()).then(|| notices.join(" "))
}

fn written(before: Option<String>, after: String, notice: Option<String>) -> Written {
    let existed = before.is_some();
    let is_small = |text: &str| (text.len() as u64) < MAX_CLIENT_BYTES;
    let before = before.filter(|before| is_small(before) && is_small(&after));
    Written { before, version: version_of(&after), after, existed, notice }
}

/// Reading again would not help, so this is no stale version.
fn conflict(target: &Target) -> FsError {
    FsError::new(
        FsErrorKind::Io,
        format!(
            "{} was not written: the editor holds unsaved changes, and the file on the disk has changed as well, so \
             one of the two would be lost. Ask the user to save or reload the file in the editor first",
            target.display.display()
        ),
    )
}
