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

#[cfg(test)]
mod tests {
    use super::*;
    use services::file_system::FileSystem;
    use services::file_system::FileVersion;

    fn target(path: &str) -> Target {
        Target { key: PathBuf::from(path), display: PathBuf::from("/shown") }
    }

    #[test]
    fn a_write_creates_what_was_never_seen_and_replaces_what_was() {
        let observations = Observations::default();
        let version = FileVersion::of(b"a");
        assert_eq!(observations.write_intent(&target("/f")), WriteIntent::CreateIfAbsent);
        observations.present(&target("/f"), version.clone());
        assert_eq!(observations.write_intent(&target("/f")), WriteIntent::ReplaceIfVersion(version));
        observations.absent(&target("/f"));
        assert_eq!(observations.write_intent(&target("/f")), WriteIntent::CreateIfAbsent);
        assert_eq!(observations.write_intent(&target("/g")), WriteIntent::CreateIfAbsent);
    }

    #[test]
    fn an_edit_needs_a_file_that_was_seen_and_is_there() {
        let observations = Observations::default();
        let kind =
            |observations: &Observations| observations.edit_guard(&target("/f")).map_err(|error| error.kind);
        assert_eq!(kind(&observations), Err(FsErrorKind::NotObserved));
        observations.absent(&target("/f"));
        assert_eq!(kind(&observations), Err(FsErrorKind::NotFound));
        observations.present(&target("/f"), FileVersion::of(b"a"));
        observations.present(&target("/f"), FileVersion::of(b"b"));
        assert_eq!(kind(&observations), Ok(FileVersion::of(b"b")), "the last look counts");
    }

    #[test]
    fn only_what_reading_again_cures_says_so_and_keeps_its_code() {
        let cases = [
            (FsErrorKind::StaleVersion, "x", "x. Read the file again, then retry."),
            (FsErrorKind::NotObserved, "x.", "x. Read it first, then retry."),
            (FsErrorKind::SandboxDenied, "x", "x"),
        ];
        for (kind, message, expected) in cases {
            let failure = with_remedy(FsError::new(kind, message));
            assert_eq!((failure.message.as_str(), failure.code()), (expected, Some(kind.code())));
        }
    }

    #[tokio::test]
    async fn files_reached_by_different_paths_are_one_and_sessions_are_apart() {
        let world = services::fake::World::new().with_file("/project/f", "a");
        world.files.link("/project/link", "/project/f");
        let (first, second) = (Observations::default(), Observations::default());
        let direct = world.files.resolve("f").await.unwrap();
        first.present(&direct, FileVersion::of(b"a"));
        let linked = world.files.resolve("/project/./link").await.unwrap();
        assert!(first.edit_guard(&linked).is_ok());
        assert!(second.edit_guard(&linked).is_err());
    }
}
