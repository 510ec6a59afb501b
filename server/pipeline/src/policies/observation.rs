//! Read before write: a file is changed only as it was last seen.
//!
//! Source: `spec/tools-files-shell.md` §0.3. Tools record what they saw and ask before they write; the file system
//! then enforces the guard under its lock.

use protocol::tool::ToolFailure;
use services::file_system::{FileVersion, FsError, FsErrorKind, Target, WriteIntent};
use std::collections::HashMap;
use std::path::PathBuf;
use std::sync::{Mutex, PoisonError};

/// What one session has seen of each file.
#[derive(Default)]
pub struct Observations {
    seen: Mutex<HashMap<PathBuf, Seen>>,
}

#[derive(Clone)]
enum Seen {
    Present(FileVersion),
    Absent,
}

impl Observations {
    /// The file was seen, read or written, with this version.
    pub fn present(&self, target: &Target, version: FileVersion) {
        self.record(target, Seen::Present(version));
    }

    /// The file was looked for and is not there.
    pub fn absent(&self, target: &Target) {
        self.record(target, Seen::Absent);
    }

    /// When a write of the whole file may happen.
    pub fn write_intent(&self, target: &Target) -> WriteIntent {
        match self.get(target) {
            Some(Seen::Present(version)) => WriteIntent::ReplaceIfVersion(version),
            Some(Seen::Absent) | None => WriteIntent::CreateIfAbsent,
        }
    }

    /// The version an edit is guarded by.
    ///
    /// # Errors
    /// `NotObserved` for a file never seen, `NotFound` for one seen to be absent.
    pub fn edit_guard(&self, target: &Target) -> Result<FileVersion, FsError> {
        match self.get(target) {
            Some(Seen::Present(version)) => Ok(version),
            Some(Seen::Absent) => Err(FsError::new(
                FsErrorKind::NotFound,
                format!("{} does not exist; use write to create it", target.display.display()),
            )),
            None => Err(FsError::new(
                FsErrorKind::NotObserved,
                format!("{} has not been read in this session", target.display.display()),
            )),
        }
    }

    fn record(&self, target: &Target, seen: Seen) {
        self.seen.lock().unwrap_or_else(PoisonError::into_inner).insert(target.key.clone(), seen);
    }

    fn get(&self, target: &Target) -> Option<Seen> {
        self.seen.lock().unwrap_or_else(PoisonError::into_inner).get(&target.key).cloned()
    }
}

/// Turns a file failure into the model's, with the remedy for the two that re-reading cures.
pub fn with_remedy(error: FsError) -> ToolFailure {
    let remedy = match error.kind {
        FsErrorKind::StaleVersion => " Read the file again, then retry.",
        FsErrorKind::NotObserved => " Read it first, then retry.",
        _ => "",
    };
    let FsError { kind, message } = error;
    ToolFailure::from(FsError::new(
        kind,
        format!("{message}{}{remedy}", if remedy.is_empty() || message.ends_with('.') { "" } else { "." }),
    ))
}
