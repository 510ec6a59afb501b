//! Putting new content in place of old, all or nothing. Source: `spec/tools-files-shell.md` §0.2, atomicity.

use super::error::io_error;
use crate::clock::random_hex;
use rustix::fs::{AtFlags, Mode, OFlags, linkat, mkdirat, open, openat, renameat, statat, unlinkat};
use rustix::io::Errno;
use services::file_system::{FsError, FsErrorKind, Target};
use std::ffi::OsStr;
use std::fs::{File, Metadata};
use std::io::{self, ErrorKind, Write};
use std::os::fd::OwnedFd;
use std::os::unix::fs::{MetadataExt, fchown};
use std::path::{Component, Path};

/// A folder as a place to start from, which need not be readable.
#[cfg(target_os = "linux")]
const FOLDER: OFlags = OFlags::PATH.union(OFlags::DIRECTORY).union(OFlags::NOFOLLOW).union(OFlags::CLOEXEC);
#[cfg(not(target_os = "linux"))]
const FOLDER: OFlags = OFlags::DIRECTORY.union(OFlags::NOFOLLOW).union(OFlags::CLOEXEC);

/// The staged file's name in its staging folder.
const STAGED: &str = "content";

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
/// The target's key is a real path that was checked a moment ago. It is walked folder by folder without following a
/// link, and everything else happens in the folder so reached: one that was swapped for a link since redirects nothing.
///
/// On failure the target is as it was. Staging that cannot be removed after the commit is left behind.
pub(super) fn commit(
    target: &Target,
    bytes: &[u8],
    placement: &Placement<'_>,
    before_commit: impl FnOnce() -> Result<(), FsError>,
) -> Result<(), FsError> {
    let failed = |error: io::Error| io_error("write", &target.display, &error);
    let (Some(parent), Some(name)) = (target.key.parent(), target.key.file_name()) else {
        return Err(FsError::new(FsErrorKind::NotRegularFile, "the root folder is not a file"));
    };
    let parent = match walk(parent) {
        Err(Errno::NOTDIR | Errno::LOOP) => {
            return Err(FsError::new(
                FsErrorKind::SandboxDenied,
                format!(
                    "{} was not written: a folder on its path changed meanwhile",
                    target.display.display()
                ),
            ));
        }
        walked => walked.map_err(|error| failed(error.into()))?,
    };
    let staging = Staging::create(&parent).map_err(failed)?;
    stage(&staging, bytes, placement).map_err(failed)?;

    before_commit()?;
    match placement {
        Placement::Create => return create(&staging, name, target),
        Placement::Overwrite { .. } => {}
        Placement::Replace { old } => {
            if !is_same(old, &parent, name) {
                return Err(FsError::new(
                    FsErrorKind::StaleVersion,
                    format!("{} changed while it was being written", target.display.display()),
                ));
            }
        }
    }
    renameat(&staging.folder, STAGED, &parent, name).map_err(|error| failed(error.into()))
}

/// Opens a real folder, and makes what is missing of it; a link anywhere on the way ends it.
fn walk(path: &Path) -> rustix::io::Result<OwnedFd> {
    let mut folder = open("/", FOLDER, Mode::empty())?;
    for component in path.components() {
        let Component::Normal(name) = component else { continue };
        folder = match openat(&folder, name, FOLDER, Mode::empty()) {
            Err(Errno::NOENT) => {
                match mkdirat(&folder, name, Mode::from_raw_mode(0o777)) {
                    Ok(()) | Err(Errno::EXIST) => {}
                    Err(error) => return Err(error),
                }
                openat(&folder, name, FOLDER, Mode::empty())?
            }
            opened => opened?,
        };
    }
    Ok(folder)
}

/// A private folder beside the target; removed when dropped.
struct Staging<'a> {
    parent: &'a OwnedFd,
    folder: OwnedFd,
    name: String,
}

impl<'a> Staging<'a> {
    fn create(parent: &'a OwnedFd) -> io::Result<Self> {
        let name = format!(".followspot-{}", random_hex(12));
        mkdirat(parent, &name, Mode::RWXU)?;
        let folder = openat(parent, &name, FOLDER, Mode::empty())?;
        Ok(Self { parent, folder, name })
    }
}

impl Drop for Staging<'_> {
    fn drop(&mut self) {
        let _ = unlinkat(&self.folder, STAGED, AtFlags::empty());
        let _ = unlinkat(self.parent, &self.name, AtFlags::REMOVEDIR);
    }
}

fn stage(staging: &Staging<'_>, bytes: &[u8], placement: &Placement<'_>) -> io::Result<()> {
    let old = match placement {
        Placement::Create => None,
        Placement::Overwrite { old } => *old,
        Placement::Replace { old } => Some(*old),
    };
    // Closed until it has the old file's mode; a new file gets the user's default instead.
    let mode = if old.is_some() { 0o600 } else { 0o666 };
    let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL | OFlags::CLOEXEC;
    let mut file = File::from(openat(&staging.folder, STAGED, flags, Mode::from_raw_mode(mode))?);
    file.write_all(bytes)?;
    if let Some(old) = old {
        take_after(&file, old)?;
    }
    file.sync_all()
}

/// Gives the file the mode of the old one, and its owner where the system lets us.
fn take_after(file: &File, old: &Metadata) -> io::Result<()> {
    let new = file.metadata()?;
    if (new.uid(), new.gid()) != (old.uid(), old.gid()) {
        // Only root may give files away; without it the content matters more than the owner. The owner comes before the
        // mode, because changing it clears the set-id bits.
        let _ = fchown(file, Some(old.uid()), Some(old.gid()));
    }
    file.set_permissions(old.permissions())
}

/// Moves the staged file to a name that must be free.
fn create(staging: &Staging<'_>, name: &OsStr, target: &Target) -> Result<(), FsError> {
    let placed = match linkat(&staging.folder, STAGED, staging.parent, name, AtFlags::empty()) {
        Err(Errno::PERM | Errno::ACCESS | Errno::NOTSUP | Errno::NOSYS) => {
            // A disk without hard links.
            move_without_replacing(staging, name)
        }
        placed => placed.map_err(io::Error::from),
    };
    match placed {
        Ok(()) => Ok(()),
        Err(error) if error.kind() == ErrorKind::AlreadyExists => {
            let path = target.display.display();
            match statat(staging.parent, name, AtFlags::empty()) {
                Ok(stat) if !rustix::fs::FileType::from_raw_mode(stat.st_mode).is_file() => {
                    Err(FsError::new(
                        FsErrorKind::NotRegularFile,
                        format!("{path} is not a regular file; it was made meanwhile"),
                    ))
                }
                _ => Err(FsError::new(FsErrorKind::NotObserved, format!("{path} exists already"))),
            }
        }
        Err(error) => Err(io_error("write", &target.display, &error)),
    }
}

#[cfg(target_os = "linux")]
fn move_without_replacing(staging: &Staging<'_>, name: &OsStr) -> io::Result<()> {
    use rustix::fs::{RenameFlags, renameat_with};
    renameat_with(&staging.folder, STAGED, staging.parent, name, RenameFlags::NOREPLACE)
        .map_err(io::Error::from)
}

#[cfg(not(target_os = "linux"))]
fn move_without_replacing(staging: &Staging<'_>, name: &OsStr) -> io::Result<()> {
    let read = OFlags::RDONLY | OFlags::CLOEXEC;
    let new = OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL | OFlags::CLOEXEC;
    let mut source = File::from(openat(&staging.folder, STAGED, read, Mode::empty())?);
    let mut file = File::from(openat(staging.parent, name, new, Mode::from_raw_mode(0o666))?);
    io::copy(&mut source, &mut file)?;
    file.sync_all()
}

/// Whether nothing wrote to the file in between.
fn is_same(old: &Metadata, parent: &OwnedFd, name: &OsStr) -> bool {
    let opened = openat(parent, name, FOLDER.difference(OFlags::DIRECTORY), Mode::empty());
    let identity = |metadata: &Metadata| {
        (metadata.dev(), metadata.ino(), metadata.size(), metadata.mtime(), metadata.mtime_nsec())
    };
    opened.is_ok_and(|file| File::from(file).metadata().is_ok_and(|now| identity(old) == identity(&now)))
}
