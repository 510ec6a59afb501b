//! The durable log of each session.

use async_trait::async_trait;
use protocol::event::{Record, SessionHeader};
use protocol::id::{BlobHash, SessionId};
use std::sync::Arc;

/// Every stored session.
#[async_trait]
pub trait SessionStore: Send + Sync {
    /// Creates a session; its header is on disk when this returns.
    ///
    /// # Errors
    /// [`StoreError`].
    async fn create(&self, header: SessionHeader) -> Result<Arc<dyn SessionLog>, StoreError>;

    /// Opens a session for writing: cuts a torn tail, closes an interrupted turn, takes the writer's lock.
    ///
    /// # Errors
    /// `NotFound`, `Locked`, `Newer`, `Corrupt`, `Io`.
    async fn open(&self, id: &SessionId) -> Result<OpenedSession, StoreError>;

    /// Reads a session without changing or locking it.
    ///
    /// # Errors
    /// As [`SessionStore::open`], without `Locked`.
    async fn read(&self, id: &SessionId) -> Result<StoredSession, StoreError>;

    /// Reads the next part of a log without changing or locking it: what is after `from`, or its beginning when there
    /// is no `from` or the log has been cut or replaced since. A record counts from the moment it is whole.
    ///
    /// # Errors
    /// As [`SessionStore::read`]; `NotFound` too when the session is not of the folder that `header` says.
    async fn read_part(&self, header: &SessionHeader, from: Option<LogMark>) -> Result<LogPart, StoreError>;

    /// Every session, newest activity first.
    ///
    /// # Errors
    /// `Io`.
    async fn list(&self) -> Result<Vec<SessionSummary>, StoreError>;

    /// Gives one session every text that is kept beside another's log, for a fork.
    ///
    /// # Errors
    /// `NotFound`, `Io`.
    async fn copy_blobs(&self, from: &SessionId, to: &SessionId) -> Result<(), StoreError>;

    /// Removes a session with everything beside it.
    ///
    /// # Errors
    /// `NotFound`, `Locked`, `Io`.
    async fn delete(&self, id: &SessionId) -> Result<(), StoreError>;
}

/// The log of one session, open for appending. One writer a session; dropping it releases the lock.
#[async_trait]
pub trait SessionLog: Send + Sync {
    /// Appends a record. It is handed to the system when this returns and is on disk after the next [`SessionLog::flush`].
    ///
    /// Its `seq` is 0 in a new log, else one more than that of the last record of [`StoredSession::records`] or of the
    /// last append; not their number, since records in the middle may be unreadable.
    ///
    /// # Errors
    /// `Io`: nothing of the record is kept, so the next append may try again. So too for a `seq` that does not continue
    /// the log and for a record over the store's size limit.
    fn append(&self, record: &Record) -> Result<(), StoreError>;

    /// Waits until everything appended is on disk.
    ///
    /// # Errors
    /// `Io`.
    async fn flush(&self) -> Result<(), StoreError>;

    /// Full texts kept beside this log.
    fn blobs(&self) -> Arc<dyn Blobs>;

    /// Absolute path of the log.
    fn path(&self) -> std::path::PathBuf;
}

/// Texts kept content-addressed beside a log.
#[async_trait]
pub trait Blobs: Send + Sync {
    /// Keeps a text.
    ///
    /// # Errors
    /// `Io`.
    async fn put(&self, text: &str) -> Result<BlobHash, StoreError>;

    /// A kept text; `None` when it is missing.
    async fn get(&self, hash: &BlobHash) -> Option<String>;
}

/// A session opened for writing.
pub struct OpenedSession {
    /// Its content.
    pub session: StoredSession,
    /// Where to append.
    pub log: Arc<dyn SessionLog>,
}

/// The content of a log.
#[derive(Clone, Debug, PartialEq)]
pub struct StoredSession {
    /// First line.
    pub header: SessionHeader,
    /// Every record that can be read, in order.
    pub records: Vec<Record>,
    /// Records that could not be read and were left out.
    pub n_bad_records: u64,
}

/// How far a log has been read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LogMark {
    /// Which file it was.
    pub file: u64,
    /// Its bytes up to here.
    pub n_bytes: u64,
    /// What stood just before.
    pub check: u64,
}

/// A part of a log, bounded in size.
#[derive(Clone, Debug, PartialEq)]
pub struct LogPart {
    /// Its readable records, in order.
    pub records: Vec<Record>,
    /// Where the next part begins.
    pub mark: LogMark,
    /// Whether it begins where the log does, and not at the given mark.
    pub is_start: bool,
    /// Whether there was more when it was read.
    pub has_more: bool,
}

/// One line of a session list.
#[derive(Clone, Debug, PartialEq)]
pub struct SessionSummary {
    /// First line of the log.
    pub header: SessionHeader,
    /// Latest title.
    pub title: Option<String>,
    /// Time of the last record, milliseconds since the Unix epoch.
    pub updated_at: i64,
    /// Whether the user has said anything yet.
    pub has_prompt: bool,
}

/// Why the store failed.
#[derive(Debug, thiserror::Error)]
pub enum StoreError {
    /// No such session.
    #[error("there is no session {0}")]
    NotFound(SessionId),
    /// Another process writes it.
    #[error("session {0} is open in another Followspot process; close it there first")]
    Locked(SessionId),
    /// Written by a newer version.
    #[error(
        "session {id} was written by a newer Followspot (log format {version}); update this one to open it"
    )]
    Newer {
        /// The session.
        id: SessionId,
        /// Its format.
        version: u32,
    },
    /// The log cannot be understood.
    #[error("the log of session {id} is damaged: {reason}")]
    Corrupt {
        /// The session.
        id: SessionId,
        /// What is wrong.
        reason: String,
    },
    /// The disk refused.
    #[error("the session store failed: {0}")]
    Io(#[from] std::io::Error),
}
