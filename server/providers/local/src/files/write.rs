//! Whole-file writes and edits on the disk. Both block and expect to hold the target's lock.

use super::commit::{Placement, commit};
use super::error::{check_cancelled, io_error};
use super::fence::check_fence;
use super::read::{BOM, check_not_binary, check_regular, not_utf8, open_regular, read_bytes_now};
use services::file_system::replace::replace;
use services::file_system::version::VersionHasher;
use services::file_system::{
    EditRequest, FileVersion, FsError, FsErrorKind, Target, WriteIntent, WriteRequest, Written,
};
use std::fs::{self, Metadata};
use std::io::{ErrorKind, Read};
use tokio_util::sync::CancellationToken;

/// Texts of this size and more are not kept as the basis of a diff.
const DIFF_BASIS_MAX_BYTES: u64 = 10 * 1024 * 1024;

/// Largest file an edit takes into memory.
const EDIT_MAX_BYTES: u64 = 256 * 1024 * 1024;

/// Writes a whole file. `request.target` must be resolved just now.
///
/// # Errors
/// As `FileSystem::write`.
pub fn write_now(request: &WriteRequest, cancel: &CancellationToken) -> Result<Written, FsError> {
    let target = &request.target;
    check_cancelled(cancel)?;
    check_fence(target, &request.sandbox)?;
    let existing = existing(target)?;
    let wanted = match &request.intent {
        WriteIntent::Unconditional => None,
        WriteIntent::CreateIfAbsent => {
            // A link to something missing is in the way as well: making its target would go round the observation.
            if existing.is_some() || fs::symlink_metadata(&target.display).is_ok() {
                return Err(FsError::new(
                    FsErrorKind::NotObserved,
                    format!("{} exists already and has not been read", target.display.display()),
                ));
            }
            None
        }
        WriteIntent::ReplaceIfVersion(version) => Some(version),
    };
    let Some(metadata) = existing else {
        if wanted.is_some() {
            return Err(stale(target, "does not exist any more"));
        }
        let placement = match request.intent {
            WriteIntent::CreateIfAbsent => Placement::Create,
            _ => Placement::Overwrite { old: None },
        };
        commit(target, request.content.as_bytes(), &placement, || check_cancelled(cancel))?;
        return Ok(written(None, request.content.clone(), false));
    };

    let old = read_old(target, &metadata, wanted.is_some(), cancel)?;
    if let Some(wanted) = wanted
        && old.version.as_ref() != Some(wanted)
    {
        return Err(stale(target, "changed since it was read"));
    }
    let content = if old.has_bom && !request.content.starts_with(BOM) {
        format!("{BOM}{}", request.content)
    } else {
        request.content.clone()
    };
    let placement = match wanted {
        Some(_) => Placement::Replace { old: &metadata },
        None => Placement::Overwrite { old: Some(&metadata) },
    };
    commit(target, content.as_bytes(), &placement, || check_cancelled(cancel))?;
    Ok(written(old.text, content, true))
}

/// Replaces text in a file. `request.target` must be resolved just now.
///
/// # Errors
/// As `FileSystem::edit`.
pub fn edit_now(request: &EditRequest, cancel: &CancellationToken) -> Result<Written, FsError> {
    let target = &request.target;
    check_cancelled(cancel)?;
    check_fence(target, &request.sandbox)?;
    let Some(metadata) = existing(target)? else {
        return Err(stale(target, "does not exist"));
    };
    let bytes = read_bytes_now(target, EDIT_MAX_BYTES, cancel)?;
    if let Some(expected) = &request.expected
        && FileVersion::of(&bytes) != *expected
    {
        return Err(stale(target, "changed since it was read"));
    }
    if memchr::memchr(0, &bytes).is_some() {
        return Err(FsError::new(
            FsErrorKind::NotText,
            format!("{} contains NUL bytes; it is not a text file", target.display.display()),
        ));
    }
    let before = String::from_utf8(bytes).map_err(|_| not_utf8(target))?;
    let after = replace(&before, &request.old_string, &request.new_string, request.replace_all)?;
    commit(target, after.as_bytes(), &Placement::Replace { old: &metadata }, || check_cancelled(cancel))?;
    let basis = ((before.len() as u64) < DIFF_BASIS_MAX_BYTES).then_some(before);
    Ok(written(basis, after, true))
}

fn written(before: Option<String>, after: String, existed: bool) -> Written {
    let version = FileVersion::of(after.as_bytes());
    let before = before.filter(|_| (after.len() as u64) < DIFF_BASIS_MAX_BYTES);
    Written { before, after, existed, version, notice: None }
}

fn stale(target: &Target, what: &str) -> FsError {
    FsError::new(FsErrorKind::StaleVersion, format!("{} {what}", target.display.display()))
}

/// The regular file that is there; `None` when nothing is.
fn existing(target: &Target) -> Result<Option<Metadata>, FsError> {
    match fs::symlink_metadata(&target.key) {
        Ok(metadata) => check_regular(target, &metadata).map(|()| Some(metadata)),
        Err(error) if error.kind() == ErrorKind::NotFound => Ok(None),
        Err(error) => Err(io_error("look at", &target.display, &error)),
    }
}

/// What a write needs to know about the file it replaces.
struct Old {
    /// The text, when it is small enough for a diff and text at all.
    text: Option<String>,
    has_bom: bool,
    /// Known for small files, and for others when it was asked for.
    version: Option<FileVersion>,
}

fn read_old(
    target: &Target,
    metadata: &Metadata,
    version_is_needed: bool,
    cancel: &CancellationToken,
) -> Result<Old, FsError> {
    if metadata.len() < DIFF_BASIS_MAX_BYTES {
        let bytes = match read_bytes_now(target, DIFF_BASIS_MAX_BYTES, cancel) {
            Ok(bytes) => bytes,
            // A file that may be replaced but not read.
            Err(error) if error.kind == FsErrorKind::PermissionDenied && !version_is_needed => {
                return Ok(Old { text: None, has_bom: false, version: None });
            }
            Err(error) => return Err(error),
        };
        let version = Some(FileVersion::of(&bytes));
        let has_bom = bytes.starts_with(BOM.as_bytes());
        let text = check_not_binary(target, &bytes).ok().and_then(|()| String::from_utf8(bytes).ok());
        return Ok(Old { text, has_bom, version });
    }
    let (mut file, _) = open_regular(target)?;
    let mut hasher = VersionHasher::default();
    let mut buffer = vec![0; 1024 * 1024];
    let mut has_bom = None;
    loop {
        check_cancelled(cancel)?;
        let n_read = file.read(&mut buffer).map_err(|error| io_error("read", &target.display, &error))?;
        has_bom.get_or_insert_with(|| buffer[..n_read].starts_with(BOM.as_bytes()));
        if n_read == 0 || !version_is_needed {
            break;
        }
        hasher.update(&buffer[..n_read]);
    }
    let version = version_is_needed.then(|| hasher.finish());
    Ok(Old { text: None, has_bom: has_bom.unwrap_or(false), version })
}
