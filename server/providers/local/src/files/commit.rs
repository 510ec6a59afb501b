//! Putting new content in place of old, all or nothing. Source: `spec/tools-files-shell.md` §0.2, atomicity.

use super::error::io_error;
use services::file_system::{FsError, FsErrorKind, Target};
use std::fs::{self, File, Metadata, OpenOptions};
use std::io::{self, ErrorKind, Write};
use std::path::Path;

/// How the new content takes its place.
pub(super) enum Placement<'a> {
    /// Only where nothing is; a racing creator wins.
    Create,
    /// Whatever is there now; `old` is the file it was decided on, for its mode and owner.
    Overwrite { old: Option<&'a Metadata> },
    /// Only while the file is still the one that was read.
    Replace { old: &'a Metadata },
}

/// Writes `bytes` beside the target, syncs them and moves them into place. `before_commit` runs last and can refuse.
///
/// On failure the target is as it was. Staging that cannot be removed after the commit is left behind.
pub(super) fn commit(
    target: &Target,
    bytes: &[u8],
    placement: &Placement<'_>,
    before_commit: impl FnOnce() -> Result<(), FsError>,
) -> Result<(), FsError> {
    let failed = |error: io::Error| io_error("write", &target.display, &error);
    let Some(parent) = target.key.parent() else {
        return Err(FsError::new(FsErrorKind::NotRegularFile, "the root folder is not a file"));
    };
    fs::create_dir_all(parent).map_err(failed)?;
    let mut builder = tempfile::Builder::new();
    builder.prefix(".followspot-");
    #[cfg(unix)]
    builder.permissions(std::os::unix::fs::PermissionsExt::from_mode(0o700));
    let staging = builder.tempdir_in(parent).map_err(failed)?;
    let staged = staging.path().join("content");
    stage(&staged, bytes, placement).map_err(failed)?;

    before_commit()?;
    // The folder was resolved a moment ago; a link that took its place since must not redirect the write.
    if fs::canonicalize(parent).map_err(failed)? != parent {
        return Err(FsError::new(
            FsErrorKind::SandboxDenied,
            format!("{} was not written: a folder on its path changed meanwhile", target.display.display()),
        ));
    }
    match placement {
        Placement::Create => create(&staged, target)?,
        Placement::Overwrite { .. } => fs::rename(&staged, &target.key).map_err(failed)?,
        Placement::Replace { old } => {
            if !fs::symlink_metadata(&target.key).is_ok_and(|now| is_same(old, &now)) {
                return Err(FsError::new(
                    FsErrorKind::StaleVersion,
                    format!("{} changed while it was being written", target.display.display()),
                ));
            }
            fs::rename(&staged, &target.key).map_err(failed)?;
        }
    }
    let _ = staging.close();
    Ok(())
}

fn stage(staged: &Path, bytes: &[u8], placement: &Placement<'_>) -> io::Result<()> {
    let old = match placement {
        Placement::Create => None,
        Placement::Overwrite { old } => *old,
        Placement::Replace { old } => Some(*old),
    };
    let mut options = OpenOptions::new();
    options.write(true).create_new(true);
    #[cfg(unix)]
    if old.is_some() {
        // Closed until it has the old file's mode; a new file gets the user's default instead.
        std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
    }
    let mut file = options.open(staged)?;
    file.write_all(bytes)?;
    if let Some(old) = old {
        take_after(&file, old)?;
    }
    file.sync_all()
}

/// Gives the file the mode of the old one, and its owner where the system lets us.
fn take_after(file: &File, old: &Metadata) -> io::Result<()> {
    #[cfg(unix)]
    {
        use std::os::unix::fs::{MetadataExt, fchown};
        let new = file.metadata()?;
        if (new.uid(), new.gid()) != (old.uid(), old.gid()) {
            // Only root may give files away; without it the content matters more than the owner. The owner comes
            // before the mode, because changing it clears the set-id bits.
            let _ = fchown(file, Some(old.uid()), Some(old.gid()));
        }
    }
    file.set_permissions(old.permissions())
}

/// Moves the staged file to a name that must be free.
fn create(staged: &Path, target: &Target) -> Result<(), FsError> {
    let placed = match fs::hard_link(staged, &target.key) {
        Err(error) if matches!(error.kind(), ErrorKind::PermissionDenied | ErrorKind::Unsupported) => {
            // A disk without hard links.
            move_without_replacing(staged, &target.key)
        }
        placed => placed,
    };
    match placed {
        Ok(()) => Ok(()),
        Err(error) if error.kind() == ErrorKind::AlreadyExists => {
            let path = target.display.display();
            match fs::metadata(&target.key) {
                Ok(metadata) if !metadata.is_file() => Err(FsError::new(
                    FsErrorKind::NotRegularFile,
                    format!("{path} is not a regular file; it was made meanwhile"),
                )),
                _ => Err(FsError::new(FsErrorKind::NotObserved, format!("{path} exists already"))),
            }
        }
        Err(error) => Err(io_error("write", &target.display, &error)),
    }
}

#[cfg(target_os = "linux")]
fn move_without_replacing(from: &Path, to: &Path) -> io::Result<()> {
    use rustix::fs::{CWD, RenameFlags, renameat_with};
    renameat_with(CWD, from, CWD, to, RenameFlags::NOREPLACE).map_err(io::Error::from)
}

#[cfg(not(target_os = "linux"))]
fn move_without_replacing(from: &Path, to: &Path) -> io::Result<()> {
    let mut source = File::open(from)?;
    let mut file = OpenOptions::new().write(true).create_new(true).open(to)?;
    io::copy(&mut source, &mut file)?;
    file.sync_all()
}

/// Whether nothing wrote to the file in between.
#[cfg(unix)]
fn is_same(old: &Metadata, now: &Metadata) -> bool {
    use std::os::unix::fs::MetadataExt;
    let identity = |metadata: &Metadata| {
        (metadata.dev(), metadata.ino(), metadata.size(), metadata.mtime(), metadata.mtime_nsec())
    };
    identity(old) == identity(now)
}

#[cfg(not(unix))]
fn is_same(old: &Metadata, now: &Metadata) -> bool {
    (old.len(), old.modified().ok()) == (now.len(), now.modified().ok())
}
