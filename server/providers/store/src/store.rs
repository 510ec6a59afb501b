//! Every session under one root: created, opened, read, listed, deleted.

use crate::blobs;
use crate::line;
use crate::log::{JsonlLog, WriterLock};
use crate::part;
use crate::place::{Durability, Place, create_private_dir, open_private, replace_file, sync_dir};
use crate::read::{ReadLog, Tail, read_log};
use crate::summary;
use async_trait::async_trait;
use protocol::event::SessionHeader;
use protocol::id::SessionId;
use services::session_store::{
    LogMark, LogPart, OpenedSession, SessionLog, SessionStore, SessionSummary, StoreError, StoredSession,
};
use std::fs::{File, OpenOptions};
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// Sessions as JSON Lines files. Making one touches no disk; the root is made with the first session.
#[derive(Clone, Debug)]
pub struct JsonlSessionStore {
    root: Arc<Path>,
}

impl JsonlSessionStore {
    /// The store in `root`, an absolute folder such as `~/.local/share/followspot/sessions`.
    pub fn new(root: PathBuf) -> Self {
        Self { root: root.into() }
    }

    /// Runs a piece of blocking work on the store.
    async fn blocking<T: Send + 'static>(
        &self,
        work: impl FnOnce(&Path) -> Result<T, StoreError> + Send + 'static,
    ) -> Result<T, StoreError> {
        let root = Arc::clone(&self.root);
        tokio::task::spawn_blocking(move || work(&root)).await.map_err(io::Error::other)?
    }
}

#[async_trait]
impl SessionStore for JsonlSessionStore {
    async fn create(&self, header: SessionHeader) -> Result<Arc<dyn SessionLog>, StoreError> {
        self.blocking(move |root| Ok(Arc::new(create(root, &header)?) as Arc<dyn SessionLog>)).await
    }

    async fn open(&self, id: &SessionId) -> Result<OpenedSession, StoreError> {
        let id = id.clone();
        self.blocking(move |root| open(root, &id)).await
    }

    async fn read(&self, id: &SessionId) -> Result<StoredSession, StoreError> {
        let id = id.clone();
        self.blocking(move |root| {
            let place = find(root, &id)?;
            let log = read_log(&id, &File::open(place.log()).map_err(|error| missing(&id, error))?)?;
            Ok(stored(log))
        })
        .await
    }

    async fn read_part(&self, header: &SessionHeader, from: Option<LogMark>) -> Result<LogPart, StoreError> {
        let header = header.clone();
        self.blocking(move |root| {
            // Almost always where its folder says; looking everywhere costs more than reading.
            let place = Place::of(root, &header.cwd, &header.id);
            let file = File::open(place.log()).map_err(|error| missing(&header.id, error))?;
            part::read_part(&header, &file, from)
        })
        .await
    }

    async fn list(&self) -> Result<Vec<SessionSummary>, StoreError> {
        self.blocking(|root| {
            let mut summaries = Vec::new();
            for place in Place::all(root)? {
                match summary::summarise(&place) {
                    Ok(summary) => summaries.push(summary),
                    // Being created or deleted at this moment.
                    Err(StoreError::Io(error)) if error.kind() == io::ErrorKind::NotFound => {}
                    Err(error) => {
                        tracing::warn!(folder = %place.dir.display(), %error, "session left out of the list");
                    }
                }
            }
            summaries
                .sort_by(|a, b| b.updated_at.cmp(&a.updated_at).then_with(|| a.header.id.cmp(&b.header.id)));
            Ok(summaries)
        })
        .await
    }

    async fn copy_blobs(&self, from: &SessionId, to: &SessionId) -> Result<(), StoreError> {
        let (from, to) = (from.clone(), to.clone());
        self.blocking(move |root| {
            Ok(blobs::copy_all(&find(root, &from)?.blobs(), &find(root, &to)?.blobs())?)
        })
        .await
    }

    async fn delete(&self, id: &SessionId) -> Result<(), StoreError> {
        let id = id.clone();
        self.blocking(move |root| {
            let place = find(root, &id)?;
            let _lock = WriterLock::take(&id, &place)?;
            // The log first: without it nobody sees the rest as a session.
            std::fs::remove_file(place.log()).map_err(|error| missing(&id, error))?;
            Ok(std::fs::remove_dir_all(&place.dir)?)
        })
        .await
    }
}

fn find(root: &Path, id: &SessionId) -> Result<Place, StoreError> {
    Place::find(root, id)?.ok_or_else(|| StoreError::NotFound(id.clone()))
}

/// A file that went away between finding and opening it.
fn missing(id: &SessionId, error: io::Error) -> StoreError {
    match error.kind() {
        io::ErrorKind::NotFound => StoreError::NotFound(id.clone()),
        _ => error.into(),
    }
}

fn create(root: &Path, header: &SessionHeader) -> Result<JsonlLog, StoreError> {
    let place = Place::of(root, &header.cwd, &header.id);
    let folder = place.dir.parent().unwrap_or(root);
    let is_first_of_folder = !folder.exists();
    create_private_dir(&place.dir)?;
    let lock = WriterLock::take(&header.id, &place)?;
    if place.log().exists() {
        let message = format!("session {} exists already", header.id);
        return Err(io::Error::new(io::ErrorKind::AlreadyExists, message).into());
    }
    let line = line::of_header(header).map_err(io::Error::from)?;
    replace_file(&place.log(), &line, Durability::Synced)?;
    // The names above the log, each in its folder.
    sync_dir(folder)?;
    if is_first_of_folder {
        sync_dir(root)?;
    }
    let file = open_private(OpenOptions::new().append(true), &place.log())?;
    Ok(JsonlLog::new(&place, file, line.len() as u64, 0, lock))
}

fn open(root: &Path, id: &SessionId) -> Result<OpenedSession, StoreError> {
    let place = find(root, id)?;
    let lock = WriterLock::take(id, &place).map_err(|error| match error {
        StoreError::Io(error) => missing(id, error),
        other => other,
    })?;
    let file = open_private(OpenOptions::new().read(true).append(true), &place.log())
        .map_err(|error| missing(id, error))?;
    let log = read_log(id, &file)?;
    let mut n_bytes = log.good_bytes;
    match log.tail {
        Tail::Clean => {}
        Tail::Torn => {
            tracing::warn!(path = %place.log().display(), at = n_bytes, "torn end of a session log cut off");
            file.set_len(n_bytes)?;
        }
        Tail::Unended => {
            (&file).write_all(b"\n")?;
            n_bytes += 1;
        }
    }
    if log.n_bad_records > 0 {
        tracing::warn!(path = %place.log().display(), n = log.n_bad_records, "unreadable records left out");
    }
    let next_seq = log.records.last().map_or(0, |record| record.seq.wrapping_add(1));
    let writer = JsonlLog::new(&place, file, n_bytes, next_seq, lock);
    for closer in &log.closers {
        writer.append(closer)?;
    }
    Ok(OpenedSession { session: stored(log), log: Arc::new(writer) })
}

fn stored(log: ReadLog) -> StoredSession {
    let ReadLog { header, mut records, n_bad_records, closers, .. } = log;
    records.extend(closers);
    StoredSession { header, records, n_bad_records }
}
