//! Files: reading, writing and editing text.
//!
//! One layer for every file tool, so that unsaved editor text is what all of them see. The pure parts that every
//! provider shares are here too: the [`window`] a read returns, the [`replace`] an edit makes, [`version`]s.

pub mod replace;
pub mod version;
pub mod window;

use crate::shell::SandboxPolicy;
use async_trait::async_trait;
use protocol::tool::ToolFailure;
use std::path::{Path, PathBuf};
use tokio_util::sync::CancellationToken;

pub use version::FileVersion;
pub use window::{Window, WindowRequest};

/// Files of one session. Source: `spec/tools-files-shell.md` §0.2, product decisions "The editor".
#[async_trait]
pub trait FileSystem: Send + Sync {
    /// Resolves a path as the model gave it against the session's folder.
    ///
    /// # Errors
    /// `NotFound` for a blank path or a parent that is a file.
    async fn resolve(&self, path: &str) -> Result<Target, FsError>;

    /// What is at the target on the disk; `None` when nothing is. Existence is never asked of the editor.
    ///
    /// # Errors
    /// `PermissionDenied`, `Io`.
    async fn stat(&self, target: &Target) -> Result<Option<FileStat>, FsError>;

    /// A window of a text file, with its exact total of lines and the version of the whole.
    ///
    /// # Errors
    /// `NotFound`, `NotRegularFile`, `NotText`, `PermissionDenied`, `Io`, `Aborted`.
    async fn read_window(
        &self,
        target: &Target,
        request: WindowRequest,
        cancel: &CancellationToken,
    ) -> Result<ReadWindow, FsError>;

    /// The whole text of a file, exactly (line ends and BOM included).
    ///
    /// # Errors
    /// As [`FileSystem::read_window`], and `TooLarge` above `max_bytes`.
    async fn read_text(
        &self,
        target: &Target,
        max_bytes: u64,
        cancel: &CancellationToken,
    ) -> Result<TextFile, FsError>;

    /// The raw bytes of a file on the disk.
    ///
    /// # Errors
    /// As [`FileSystem::read_text`], without `NotText`.
    async fn read_bytes(
        &self,
        target: &Target,
        max_bytes: u64,
        cancel: &CancellationToken,
    ) -> Result<Vec<u8>, FsError>;

    /// The entries of a folder by name: name and kind.
    ///
    /// # Errors
    /// `NotFound`, `NotDirectory`, `PermissionDenied`, `Io`.
    async fn list_dir(&self, target: &Target) -> Result<Vec<(String, FileKind)>, FsError>;

    /// Writes a whole file, atomically: parents are made, mode and BOM of an old file are kept, links are followed.
    ///
    /// # Errors
    /// `NotObserved` (create on an existing file), `StaleVersion`, `NotRegularFile`, `SandboxDenied`,
    /// `PermissionDenied`, `Io`, `Aborted`. The file is then unchanged.
    async fn write(&self, request: WriteRequest, cancel: &CancellationToken) -> Result<Written, FsError>;

    /// Replaces text in a file, atomically; bytes outside the replaced spans stay as they are.
    ///
    /// # Errors
    /// As [`FileSystem::write`], and `EditNotFound`, `AmbiguousEdit`, `NotText`. The file is then unchanged.
    async fn edit(&self, request: EditRequest, cancel: &CancellationToken) -> Result<Written, FsError>;
}

/// A resolved path.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Target {
    /// Real path; for a missing file the real path of the nearest existing ancestor plus the rest. Identifies the file.
    pub key: PathBuf,
    /// Absolute, lexically normalised, links not resolved. For people and models.
    pub display: PathBuf,
}

impl Target {
    /// The path for people and models.
    pub fn display(&self) -> &Path {
        &self.display
    }
}

/// What is at a path.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FileStat {
    /// File, folder or something else.
    pub kind: FileKind,
    /// Size of a file in bytes.
    pub size: u64,
}

/// Kind of a directory entry.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FileKind {
    /// A regular file.
    File,
    /// A folder.
    Directory,
    /// A pipe, a socket, a device.
    Other,
}

/// Where a text came from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TextOrigin {
    /// The editor's buffer; may differ from the disk.
    Editor,
    /// The disk.
    Disk,
}

/// A window that was read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ReadWindow {
    /// The lines.
    pub window: Window,
    /// Version of the whole text.
    pub version: FileVersion,
    /// Where the text came from.
    pub origin: TextOrigin,
}

/// A whole text that was read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TextFile {
    /// The exact text.
    pub text: String,
    /// Its version.
    pub version: FileVersion,
    /// Where it came from.
    pub origin: TextOrigin,
}

/// When a write may happen.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum WriteIntent {
    /// Always.
    Unconditional,
    /// Only when nothing is there.
    CreateIfAbsent,
    /// Only when this version is there.
    ReplaceIfVersion(FileVersion),
}

/// A whole file to write.
#[derive(Clone, Debug)]
pub struct WriteRequest {
    /// Where.
    pub target: Target,
    /// The exact text.
    pub content: String,
    /// When.
    pub intent: WriteIntent,
    /// What may be written.
    pub sandbox: SandboxPolicy,
}

/// A replacement to make.
#[derive(Clone, Debug)]
pub struct EditRequest {
    /// Where.
    pub target: Target,
    /// Text to find, not empty; matched modulo BOM and CR/LF.
    pub old_string: String,
    /// Text to put there, byte for byte but for line ends.
    pub new_string: String,
    /// Every occurrence instead of the only one.
    pub replace_all: bool,
    /// The version that was observed; `None` edits whatever is there.
    pub expected: Option<FileVersion>,
    /// What may be written.
    pub sandbox: SandboxPolicy,
}

/// What a mutation did.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Written {
    /// The exact text before; `None` for a new file, or when it was over 10 MiB, binary or unreadable.
    pub before: Option<String>,
    /// The exact text that is stored now; may differ from what was sent when the editor formats on save.
    pub after: String,
    /// Whether the file existed before.
    pub existed: bool,
    /// Version of what is stored now.
    pub version: FileVersion,
    /// What the model must be told, for instance that the editor reformatted the file; `None` when nothing.
    pub notice: Option<String>,
}

/// Why a file operation failed. Codes are the seed's.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{message}")]
pub struct FsError {
    /// What kind of failure.
    pub kind: FsErrorKind,
    /// The fact and the next move.
    pub message: String,
}

/// Kinds of file failures.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FsErrorKind {
    /// Nothing is there.
    NotFound,
    /// No folder.
    NotDirectory,
    /// Binary, or not UTF-8.
    NotText,
    /// A folder, pipe or device.
    NotRegularFile,
    /// Over the cap.
    TooLarge,
    /// The system refused.
    PermissionDenied,
    /// Outside what the sandbox mode lets be written.
    SandboxDenied,
    /// The disk or the editor failed.
    Io,
    /// Changed since it was observed.
    StaleVersion,
    /// Never observed.
    NotObserved,
    /// More than one match.
    AmbiguousEdit,
    /// No match.
    EditNotFound,
    /// Cancelled.
    Aborted,
}

impl FsErrorKind {
    /// The code the model's failure carries.
    pub fn code(self) -> &'static str {
        match self {
            Self::NotFound => "FS_NOT_FOUND",
            Self::NotDirectory => "FS_NOT_DIRECTORY",
            Self::NotText => "FS_NOT_TEXT",
            Self::NotRegularFile => "FS_NOT_REGULAR_FILE",
            Self::TooLarge => "FS_TOO_LARGE",
            Self::PermissionDenied => "FS_PERMISSION_DENIED",
            Self::SandboxDenied => "FS_SANDBOX_DENIED",
            Self::Io => "FS_IO_ERROR",
            Self::StaleVersion => "FS_STALE_VERSION",
            Self::NotObserved => "FS_NOT_OBSERVED",
            Self::AmbiguousEdit => "FS_AMBIGUOUS_EDIT",
            Self::EditNotFound => "FS_EDIT_NOT_FOUND",
            Self::Aborted => "FS_ABORTED",
        }
    }
}

impl FsError {
    /// A failure of this kind.
    pub fn new(kind: FsErrorKind, message: impl Into<String>) -> Self {
        Self { kind, message: message.into() }
    }
}

impl From<FsError> for ToolFailure {
    fn from(error: FsError) -> Self {
        Self::coded("FsError", error.kind.code(), error.message)
    }
}
