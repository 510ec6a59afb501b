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

/// Below this size a second thread costs more than it saves.
const SIDE_BY_SIDE_MIN_BYTES: usize = 256 * 1024;

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
        return put(target, &placement, None, request.content.clone(), false, cancel);
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
    put(target, &placement, old.text, content, true, cancel)
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
    let text = text_of(target, &bytes);
    let is_current = || request.expected.as_ref().is_none_or(|expected| FileVersion::of(&bytes) == *expected);
    let edited = || {
        text.as_ref().map(|text| replace(text, &request.old_string, &request.new_string, request.replace_all))
    };
    let (edited, is_current) = both(bytes.len(), edited, is_current);
    // A changed file is the first thing to say: what was seen in it no longer counts.
    if !is_current {
        return Err(stale(target, "changed since it was read"));
    }
    let after = edited.map_err(Clone::clone)??;
    drop(text);
    let before = String::from_utf8(bytes).map_err(|_| not_utf8(target))?;
    let basis = ((before.len() as u64) < DIFF_BASIS_MAX_BYTES).then_some(before);
    put(target, &Placement::Replace { old: &metadata }, basis, after, true, cancel)
}

/// The text that an edit may change: without a NUL anywhere, and UTF-8.
fn text_of<'a>(target: &Target, bytes: &'a [u8]) -> Result<&'a str, FsError> {
    if memchr::memchr(0, bytes).is_some() {
        return Err(FsError::new(
            FsErrorKind::NotText,
            format!("{} contains NUL bytes; it is not a text file", target.display.display()),
        ));
    }
    std::str::from_utf8(bytes).map_err(|_| not_utf8(target))
}

/// Commits `after` and tells what became of the file.
fn put(
    target: &Target,
    placement: &Placement<'_>,
    before: Option<String>,
    after: String,
    existed: bool,
    cancel: &CancellationToken,
) -> Result<Written, FsError> {
    let bytes = after.as_bytes();
    let (committed, version) = both(
        bytes.len(),
        || commit(target, bytes, placement, || check_cancelled(cancel)),
        || FileVersion::of(bytes),
    );
    committed?;
    let before = before.filter(|_| (after.len() as u64) < DIFF_BASIS_MAX_BYTES);
    Ok(Written { before, after, existed, version, notice: None })
}

/// Does two things to a text of `n_bytes`, side by side when it is large: hashing costs as much as reading it.
fn both<A, B: Send>(n_bytes: usize, first: impl FnOnce() -> A, second: impl FnOnce() -> B + Send) -> (A, B) {
    if n_bytes < SIDE_BY_SIDE_MIN_BYTES {
        return (first(), second());
    }
    std::thread::scope(|scope| {
        let second = scope.spawn(second);
        let first = first();
        (first, second.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic)))
    })
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
