//! Sessions that are not open yet, or not any more: opened from the store, listed, forked, renamed, deleted.

use super::error::{from_store, invalid_params, unknown_session};
use super::server::{OpenSession, Server};
use agent::fork;
use agent_client_protocol::Error;
use agent_client_protocol::v1::schema::{SessionId as WireSessionId, SessionInfo};
use base64::Engine;
use futures::FutureExt;
use protocol::event::{LOG_VERSION, Record, SessionEvent, SessionHeader, TitleSource};
use protocol::id::SessionId;
use services::session_store::{OpenedSession, SessionSummary, StoreError};
use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError, Weak};
use tokio::sync::OwnedMutexGuard;

/// Sessions on one page of a list.
const PAGE: usize = 50;
/// Longest title, in bytes. Source: `spec/runtime.md` §10.
const MAX_TITLE_BYTES: usize = 80;

/// Folders of a session, each absolute and existing.
pub struct Folders {
    /// Where it works.
    pub cwd: PathBuf,
    /// Further ones.
    pub additional: Vec<PathBuf>,
}

/// Who opens, closes or deletes a session comes one after the other, in the order of [`Doors::pass`].
#[derive(Default)]
pub struct Doors {
    doors: Mutex<HashMap<SessionId, Weak<tokio::sync::Mutex<()>>>>,
}

/// Held by whoever opens, closes or deletes a session.
pub type Pass = OwnedMutexGuard<()>;

impl Doors {
    /// Takes a place in the queue at once; the future waits for its turn.
    pub fn pass(&self, id: &SessionId) -> impl Future<Output = Pass> + Send + 'static {
        let door = {
            let mut doors = self.doors.lock().unwrap_or_else(PoisonError::into_inner);
            doors.retain(|_, door| door.strong_count() > 0);
            let door = doors.get(id).and_then(Weak::upgrade).unwrap_or_default();
            doors.insert(id.clone(), Arc::downgrade(&door));
            door
        };
        let mut turn = Box::pin(door.lock_owned());
        // The first poll is what takes the place.
        let pass = (&mut turn).now_or_never();
        async move {
            match pass {
                Some(pass) => pass,
                None => turn.await,
            }
        }
    }
}

impl Server {
    /// A session with this id: the open one, else the stored one, opened.
    ///
    /// # Errors
    /// -32002 when there is none, -32602 when the folders do not fit it, -32603 when another process has it or its log
    /// cannot be used.
    pub async fn open_stored(&self, id: &SessionId, folders: Folders) -> Result<Arc<OpenSession>, Error> {
        if let Some(open) = self.session(&wire_id(id)) {
            let scope = open.session.scope();
            same_folder(&scope.cwd, &folders.cwd)?;
            if scope.roots.get(1..) != Some(&folders.additional[..]) {
                let reason = "the session is open with other folders; close it first";
                return Err(invalid_params("additionalDirectories", reason));
            }
            return Ok(open);
        }
        let OpenedSession { session, log } =
            self.parts().store.open(id).await.map_err(|error| from_store(&error))?;
        same_folder(&session.header.cwd, &folders.cwd)?;
        let header = SessionHeader { additional_directories: folders.additional, ..session.header };
        let mut told = Vec::new();
        if session.n_bad_records > 0 {
            let records = if session.n_bad_records == 1 { "record" } else { "records" };
            told.push(format!(
                "{} damaged {records} of this session could not be read; the rest is here.",
                session.n_bad_records
            ));
        }
        Ok(self.open(header, log, session.records, told))
    }

    /// A new session that begins with what is settled of another.
    ///
    /// # Errors
    /// -32002 when there is no such session, -32603 when the store fails.
    pub async fn fork(&self, id: &SessionId, folders: Folders) -> Result<Arc<OpenSession>, Error> {
        let parts = self.parts();
        let now_ms = parts.clock.now_ms();
        let seed = match self.session(&wire_id(id)) {
            Some(open) => open.session.with_records(|records| fork::seed(records, now_ms)),
            None => {
                let stored = parts.store.read(id).await.map_err(|error| from_store(&error))?;
                fork::seed(&stored.records, now_ms)
            }
        };
        let header = SessionHeader {
            version: LOG_VERSION,
            id: SessionId::new(format!("ses_{}", parts.clock.fresh_id())),
            created_at: now_ms,
            cwd: folders.cwd,
            additional_directories: folders.additional,
            parent_session: Some(id.clone()),
            delegation_depth: 0,
        };
        match self.seeded(&header, seed).await {
            Ok((log, seed)) => Ok(self.open(header, log, seed, Vec::new())),
            Err(error) => {
                if let Err(error) = parts.store.delete(&header.id).await {
                    tracing::debug!(%error, "a fork that failed was not removed");
                }
                Err(from_store(&error))
            }
        }
    }

    /// Creates a session whose log holds these records, and the texts they speak of.
    async fn seeded(
        &self,
        header: &SessionHeader,
        seed: Vec<Record>,
    ) -> Result<(Arc<dyn services::session_store::SessionLog>, Vec<Record>), StoreError> {
        let store = &self.parts().store;
        let log = store.create(header.clone()).await?;
        let appended = tokio::task::spawn_blocking({
            let log = log.clone();
            move || seed.iter().try_for_each(|record| log.append(record)).map(|()| seed)
        });
        let seed = appended.await.map_err(std::io::Error::other)??;
        log.flush().await?;
        if let Some(parent) = &header.parent_session {
            store.copy_blobs(parent, &header.id).await?;
        }
        Ok((log, seed))
    }

    /// One page of the sessions a person started and spoke in, newest first, and where the next one begins.
    ///
    /// # Errors
    /// -32602 for a cursor that this server did not give or a relative folder, -32603 when the store fails.
    pub async fn list(
        &self,
        cwd: Option<&Path>,
        cursor: Option<&str>,
    ) -> Result<(Vec<SessionInfo>, Option<String>), Error> {
        if let Some(cwd) = cwd.filter(|cwd| !cwd.is_absolute()) {
            return Err(invalid_params("cwd", &format!("`{}` is not an absolute path", cwd.display())));
        }
        let after = cursor.map(Key::parse).transpose()?;
        let mut sessions = self.parts().store.list().await.map_err(|error| from_store(&error))?;
        sessions.retain(|session| {
            session.has_prompt
                && session.header.delegation_depth == 0
                && cwd.is_none_or(|cwd| session.header.cwd == cwd)
                && after.as_ref().is_none_or(|after| after.is_before(session))
        });
        let next = (sessions.len() > PAGE).then(|| Key::of(&sessions[PAGE - 1]).cursor());
        sessions.truncate(PAGE);
        Ok((sessions.into_iter().map(info).collect(), next))
    }

    /// Gives a session a title, open or not; gives back what was stored. The caller holds its pass.
    ///
    /// # Errors
    /// -32602 for an empty title, -32002 when there is no such session, -32603 when the store fails.
    pub async fn set_title(&self, id: &SessionId, title: &str) -> Result<String, Error> {
        let title = title_line(title).ok_or_else(|| invalid_params("title", "the title is empty"))?;
        let stored = match self.session(&wire_id(id)) {
            Some(open) => open.session.set_title(title.clone()).await,
            None => self.set_stored_title(id, title.clone()).await,
        };
        stored.map(|()| title).map_err(|error| from_store(&error))
    }

    async fn set_stored_title(&self, id: &SessionId, title: String) -> Result<(), StoreError> {
        let opened = self.parts().store.open(id).await?;
        let seq = opened.session.records.last().map_or(0, |record| record.seq + 1);
        let event = SessionEvent::Title { title, source: TitleSource::User };
        let time = self.parts().clock.now_ms();
        opened.log.append(&Record { seq, time, ignorable: event.ignorable(), event })?;
        opened.log.flush().await
    }

    /// Removes a session, open or not. One that does not exist is removed already. The caller holds its pass.
    ///
    /// # Errors
    /// -32603 when another process has it open or the store fails.
    pub async fn delete(&self, id: &SessionId) -> Result<(), Error> {
        if let Some(open) = self.forget(&wire_id(id)) {
            open.close().await;
        }
        let deleted = self.parts().store.delete(id).await;
        if let (Ok(()), Some(index)) = (&deleted, &self.parts().session_index) {
            index.forget(id).await;
        }
        match deleted {
            Ok(()) | Err(StoreError::NotFound(_)) => Ok(()),
            Err(error) => Err(from_store(&error)),
        }
    }

    /// Whether a session is open here. An unknown one is an error.
    ///
    /// # Errors
    /// -32002 when there is no such session, -32603 when the store fails.
    pub async fn is_open(&self, id: &SessionId) -> Result<bool, Error> {
        if self.session(&wire_id(id)).is_some() {
            return Ok(true);
        }
        let stored = self.parts().store.list().await.map_err(|error| from_store(&error))?;
        match stored.iter().any(|session| session.header.id == *id) {
            true => Ok(false),
            false => Err(unknown_session(id.as_str())),
        }
    }
}

fn wire_id(id: &SessionId) -> WireSessionId {
    WireSessionId::new(id.as_str())
}

/// A session goes on in the folder it was made for. Source: ACP, `LoadSessionRequest::additional_directories`.
fn same_folder(stored: &Path, asked: &Path) -> Result<(), Error> {
    let is_same = stored == asked
        || matches!((stored.canonicalize(), asked.canonicalize()), (Ok(stored), Ok(asked)) if stored == asked);
    if is_same {
        return Ok(());
    }
    Err(invalid_params("cwd", &format!("the session works in `{}`", stored.display())))
}

fn info(session: SessionSummary) -> SessionInfo {
    let SessionSummary { header, title, updated_at, .. } = session;
    // A time that no calendar has comes from a log that was tampered with; the session is listed all the same.
    let updated_at = jiff::Timestamp::from_millisecond(updated_at).ok().map(|time| time.to_string());
    SessionInfo::new(wire_id(&header.id), header.cwd)
        .additional_directories(header.additional_directories)
        .title(title)
        .updated_at(updated_at)
}

/// One line of at most [`MAX_TITLE_BYTES`]; `None` when nothing is left.
fn title_line(title: &str) -> Option<String> {
    let mut title = title.split_whitespace().collect::<Vec<_>>().join(" ");
    if title.len() > MAX_TITLE_BYTES {
        let most = MAX_TITLE_BYTES - '…'.len_utf8();
        let cut = title.floor_char_boundary(most);
        title.truncate(cut);
        title.truncate(title.trim_end().len());
        title.push('…');
    }
    (!title.is_empty()).then_some(title)
}

/// Where a session stands in the list: newest first, then by id.
struct Key {
    updated_at: i64,
    id: SessionId,
}

impl Key {
    fn of(session: &SessionSummary) -> Self {
        Self { updated_at: session.updated_at, id: session.header.id.clone() }
    }

    fn is_before(&self, session: &SessionSummary) -> bool {
        session.updated_at < self.updated_at
            || session.updated_at == self.updated_at && session.header.id > self.id
    }

    fn cursor(&self) -> String {
        ENGINE.encode(format!("{} {}", self.updated_at, self.id))
    }

    fn parse(cursor: &str) -> Result<Self, Error> {
        let text = ENGINE.decode(cursor).ok().and_then(|bytes| String::from_utf8(bytes).ok());
        let key = text
            .as_deref()
            .and_then(|text| text.split_once(' '))
            .and_then(|(time, id)| Some(Self { updated_at: time.parse().ok()?, id: SessionId::new(id) }));
        key.ok_or_else(|| invalid_params("cursor", "not a cursor that session/list gave; start without one"))
    }
}

const ENGINE: base64::engine::GeneralPurpose = base64::engine::general_purpose::URL_SAFE_NO_PAD;
