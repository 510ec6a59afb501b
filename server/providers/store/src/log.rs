//! The log of one open session: appends whole records, syncs on demand, holds the writer's lock.

use crate::blobs::DirBlobs;
use crate::line::{self, MAX_RECORD_BYTES};
use crate::place::{Place, open_private};
use async_trait::async_trait;
use protocol::event::Record;
use protocol::id::SessionId;
use services::session_store::{Blobs, SessionLog, StoreError};
use std::fs::{File, OpenOptions, TryLockError};
use std::io::{self, Write};
use std::path::PathBuf;
use std::sync::{Arc, Mutex, PoisonError};

/// The writer's lock of a session; released when dropped, and by the system when the process dies.
#[derive(Debug)]
pub(crate) struct WriterLock {
    _file: File,
}

impl WriterLock {
    /// Takes the lock at once or not at all.
    ///
    /// # Errors
    /// `Locked`, `Io`.
    pub fn take(id: &SessionId, place: &Place) -> Result<Self, StoreError> {
        let file = open_private(OpenOptions::new().write(true).create(true).truncate(false), &place.lock())?;
        match file.try_lock() {
            Ok(()) => Ok(Self { _file: file }),
            Err(TryLockError::WouldBlock) => Err(StoreError::Locked(id.clone())),
            // Some network file systems cannot lock; a session without the guard is better than none.
            Err(TryLockError::Error(error)) if error.kind() == io::ErrorKind::Unsupported => {
                tracing::warn!(path = %place.lock().display(), "this file system cannot lock files");
                Ok(Self { _file: file })
            }
            Err(TryLockError::Error(error)) => Err(error.into()),
        }
    }
}

/// A log open for appending.
pub(crate) struct JsonlLog {
    path: PathBuf,
    blobs: Arc<DirBlobs>,
    writer: Mutex<Writer>,
    /// How many appends are known to be on disk. Held while a sync runs, so that those who come meanwhile share the next.
    synced: tokio::sync::Mutex<u64>,
    _lock: WriterLock,
}

struct Writer {
    file: Arc<File>,
    /// Bytes of whole records.
    n_bytes: u64,
    /// Whether something may follow them that a failed append left.
    is_dirty: bool,
    next_seq: u64,
    n_appends: u64,
}

impl JsonlLog {
    /// A log whose `file`, opened for appending, holds `n_bytes` of whole records.
    pub fn new(place: &Place, file: File, n_bytes: u64, next_seq: u64, lock: WriterLock) -> Self {
        Self {
            path: place.log(),
            blobs: Arc::new(DirBlobs::new(place.blobs())),
            writer: Mutex::new(Writer {
                file: Arc::new(file),
                n_bytes,
                is_dirty: false,
                next_seq,
                n_appends: 0,
            }),
            synced: tokio::sync::Mutex::new(0),
            _lock: lock,
        }
    }

    fn writer(&self) -> std::sync::MutexGuard<'_, Writer> {
        // Every state a panic could leave is one that the next append can deal with.
        self.writer.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Writer {
    fn append(&mut self, record: &Record) -> io::Result<()> {
        if record.seq != self.next_seq {
            let message =
                format!("record {} does not continue a log that ends before {}", record.seq, self.next_seq);
            return Err(io::Error::new(io::ErrorKind::InvalidInput, message));
        }
        let line = line::of_record(record)?;
        if line.len() > MAX_RECORD_BYTES {
            let message = format!(
                "a record of {} bytes is over the limit of {MAX_RECORD_BYTES}; keep large texts as blobs",
                line.len()
            );
            return Err(io::Error::new(io::ErrorKind::InvalidInput, message));
        }
        if self.is_dirty {
            self.file.set_len(self.n_bytes)?;
            self.is_dirty = false;
        }
        // One write call unless the disk takes only a part; then the rest is tried for the sake of its error.
        if let Err(error) = (&*self.file).write_all(&line) {
            self.is_dirty = self.file.set_len(self.n_bytes).is_err();
            return Err(error);
        }
        self.n_bytes += line.len() as u64;
        self.next_seq = self.next_seq.wrapping_add(1);
        self.n_appends += 1;
        Ok(())
    }
}

#[async_trait]
impl SessionLog for JsonlLog {
    fn append(&self, record: &Record) -> Result<(), StoreError> {
        Ok(self.writer().append(record)?)
    }

    async fn flush(&self) -> Result<(), StoreError> {
        let wanted = self.writer().n_appends;
        let mut synced = self.synced.lock().await;
        if *synced >= wanted {
            return Ok(());
        }
        // Whatever was appended while this waited is synced with it.
        let (file, n_appends) = {
            let writer = self.writer();
            (Arc::clone(&writer.file), writer.n_appends)
        };
        tokio::task::spawn_blocking(move || file.sync_data()).await.map_err(io::Error::other)??;
        *synced = n_appends;
        Ok(())
    }

    fn blobs(&self) -> Arc<dyn Blobs> {
        Arc::clone(&self.blobs) as Arc<dyn Blobs>
    }

    fn path(&self) -> PathBuf {
        self.path.clone()
    }
}
