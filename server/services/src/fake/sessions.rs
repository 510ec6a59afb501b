//! Past sessions in memory, to be listed and read.

use super::lock;
use crate::session_store::{
    LogMark, LogPart, OpenedSession, SessionLog, SessionStore, SessionSummary, StoreError, StoredSession,
};
use async_trait::async_trait;
use protocol::event::{Record, SessionEvent, SessionHeader};
use protocol::id::SessionId;
use std::sync::{Arc, Mutex};

/// Sessions that a test has put; nothing can be written through it.
#[derive(Default)]
pub struct FakeSessions {
    sessions: Mutex<Vec<StoredSession>>,
}

impl FakeSessions {
    /// Adds a session.
    pub fn put(&self, header: SessionHeader, records: Vec<Record>) {
        lock(&self.sessions).push(StoredSession { header, records, n_bad_records: 0 });
    }
}

fn read_only<T>() -> Result<T, StoreError> {
    Err(StoreError::Io(std::io::ErrorKind::ReadOnlyFilesystem.into()))
}

#[async_trait]
impl SessionStore for FakeSessions {
    async fn create(&self, _header: SessionHeader) -> Result<Arc<dyn SessionLog>, StoreError> {
        read_only()
    }

    async fn open(&self, _id: &SessionId) -> Result<OpenedSession, StoreError> {
        read_only()
    }

    async fn read(&self, id: &SessionId) -> Result<StoredSession, StoreError> {
        let sessions = lock(&self.sessions);
        let found = sessions.iter().find(|session| session.header.id == *id).cloned();
        found.ok_or_else(|| StoreError::NotFound(id.clone()))
    }

    async fn read_part(&self, header: &SessionHeader, from: Option<LogMark>) -> Result<LogPart, StoreError> {
        let session = self.read(&header.id).await?;
        let n_read = from.map_or(0, |mark| mark.n_bytes);
        let n_skipped = usize::try_from(n_read).unwrap_or(usize::MAX);
        // A mark counts records here.
        let mark = LogMark { file: 0, n_bytes: session.records.len() as u64, check: 0 };
        let records = session.records.into_iter().skip(n_skipped).collect();
        Ok(LogPart { records, mark, is_start: n_read == 0, has_more: false })
    }

    async fn list(&self) -> Result<Vec<SessionSummary>, StoreError> {
        let summary = |session: &StoredSession| SessionSummary {
            header: session.header.clone(),
            title: session.records.iter().rev().find_map(|record| match &record.event {
                SessionEvent::Title { title, .. } => Some(title.clone()),
                _ => None,
            }),
            updated_at: session.records.last().map_or(session.header.created_at, |record| record.time),
            has_prompt: true,
        };
        Ok(lock(&self.sessions).iter().map(summary).collect())
    }

    async fn copy_blobs(&self, _from: &SessionId, _to: &SessionId) -> Result<(), StoreError> {
        read_only()
    }

    async fn delete(&self, _id: &SessionId) -> Result<(), StoreError> {
        read_only()
    }
}
