//! The index as a service: opened at the first search, brought up to date before each, stopped when nobody waits.

use crate::take_in::Piece;
use crate::trouble::Trouble;
use crate::{file, search, take_in};
use async_trait::async_trait;
use protocol::event::SessionHeader;
use protocol::id::SessionId;
use rusqlite::Connection;
use services::session_query::{Filter, Found, IndexError, SessionIndex};
use services::session_store::SessionStore;
use std::collections::HashSet;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, Instant};
use tokio::sync::Mutex;
use tokio_util::sync::CancellationToken;

/// After this time of one search, what is not taken in yet waits for the next.
const TAKE_IN_BUDGET: Duration = Duration::from_secs(15);
/// Budget of one search.
const BUDGET: Duration = Duration::from_secs(25);
/// Records that go into the index in one transaction, or the part that reaches it.
const BATCH_RECORDS: usize = 4_000;
/// Sessions that go into the index in one transaction.
const BATCH_PIECES: usize = 64;
/// Steps of the database between two looks at the clock and the caller.
const STEPS_A_LOOK: i32 = 1_000;

/// The index in a file beside the logs. Making one touches no disk.
pub struct SqliteIndex {
    path: PathBuf,
    store: Arc<dyn SessionStore>,
    conn: Arc<Mutex<Option<Connection>>>,
    take_in_budget: Duration,
}

impl SqliteIndex {
    /// The index over `store`, in the folder `folder`.
    pub fn new(folder: &std::path::Path, store: Arc<dyn SessionStore>) -> Self {
        Self { path: file::path_in(folder), store, conn: Arc::default(), take_in_budget: TAKE_IN_BUDGET }
    }

    /// With another time for taking in before a search.
    #[must_use]
    pub fn with_take_in_budget(self, take_in_budget: Duration) -> Self {
        Self { take_in_budget, ..self }
    }

    /// Runs a piece of work on the database, on a blocking thread, until `stop` or the end of the budget.
    async fn with<T: Send + 'static>(
        &self,
        stop: &Stop,
        work: impl FnOnce(&mut Connection) -> Result<T, Trouble> + Send + 'static,
    ) -> Result<T, Trouble> {
        let slot = Arc::clone(&self.conn).lock_owned();
        let Some(mut slot) = stop.cancel.run_until_cancelled(slot).await else {
            return Err(Trouble::Interrupted);
        };
        let (path, stop) = (self.path.clone(), stop.clone());
        let done = tokio::task::spawn_blocking(move || {
            let mut conn = match slot.take() {
                Some(conn) => conn,
                None => file::open(&path)?,
            };
            conn.progress_handler(STEPS_A_LOOK, Some(move || stop.is_over()))?;
            let done = work(&mut conn);
            match &done {
                // Closed before the lock is given back: the file is about to be moved.
                Err(Trouble::Damaged(_)) => drop(conn),
                _ => *slot = Some(conn),
            }
            done
        });
        done.await.map_err(|error| Trouble::Other(error.to_string()))?
    }

    /// Brings the index up to date with these sessions.
    async fn take_in(
        &self,
        among: &[SessionHeader],
        existing: &[SessionId],
        stop: &Stop,
    ) -> Result<TakenIn, Trouble> {
        let marks = self.with(stop, |conn| take_in::marks(conn)).await?;
        let mut taken = TakenIn::default();
        let existing: HashSet<&SessionId> = existing.iter().collect();
        let mut gone: Vec<SessionId> = marks.keys().filter(|id| !existing.contains(id)).cloned().collect();
        let mut batch = Batch::default();
        'sessions: for header in among {
            let mut from = marks.get(&header.id).copied();
            loop {
                if stop.begun.elapsed() > self.take_in_budget {
                    taken.waiting.insert(header.id.clone());
                    continue 'sessions;
                }
                if stop.cancel.is_cancelled() {
                    return Err(Trouble::Interrupted);
                }
                let part = match self.store.read_part(header, from).await {
                    Ok(part) => part,
                    Err(error) => {
                        tracing::warn!(session = %header.id, %error, "session left out of the search");
                        taken.unreadable.insert(header.id.clone());
                        gone.push(header.id.clone());
                        batch.remove(&header.id);
                        continue 'sessions;
                    }
                };
                let (has_more, mark) = (part.has_more, part.mark);
                if from != Some(mark) || part.is_start {
                    batch.push(Piece { session: header.id.clone(), from, part });
                }
                if batch.is_full() {
                    self.write(&mut batch, &mut taken, stop).await?;
                }
                if !has_more {
                    break;
                }
                from = Some(mark);
            }
        }
        self.write(&mut batch, &mut taken, stop).await?;
        if !gone.is_empty() {
            self.with(stop, move |conn| take_in::forget(conn, &gone)).await?;
        }
        Ok(taken)
    }

    async fn write(&self, batch: &mut Batch, taken: &mut TakenIn, stop: &Stop) -> Result<(), Trouble> {
        let pieces = std::mem::take(batch).pieces;
        if pieces.is_empty() {
            return Ok(());
        }
        let sessions: Vec<SessionId> = pieces.iter().map(|piece| piece.session.clone()).collect();
        let n_left_out = self.with(stop, move |conn| take_in::take_in(conn, &pieces)).await?;
        if n_left_out > 0 {
            // Another process is ahead with one of these.
            taken.waiting.extend(sessions);
        }
        Ok(())
    }

    async fn ask(
        &self,
        filter: &Filter,
        among: &[SessionHeader],
        existing: &[SessionId],
        max: usize,
        stop: &Stop,
    ) -> Result<Found, Trouble> {
        let taken = self.take_in(among, existing, stop).await?;
        let ids: Vec<SessionId> = among.iter().map(|header| header.id.clone()).collect();
        let filter = filter.clone();
        let found = self.with(stop, move |conn| search::best(conn, &filter, &ids, max)).await?;
        Ok(Found { n_unreadable: taken.unreadable.len(), n_waiting: taken.waiting.len(), ..found })
    }
}

#[async_trait]
impl SessionIndex for SqliteIndex {
    async fn best(
        &self,
        filter: &Filter,
        among: &[SessionHeader],
        existing: &[SessionId],
        max: usize,
        cancel: &CancellationToken,
    ) -> Result<Found, IndexError> {
        let stop = Stop { cancel: cancel.child_token(), begun: Instant::now() };
        // Whoever drops this future waits for no answer any more.
        let _guard = stop.cancel.clone().drop_guard();
        let mut answer = self.ask(filter, among, existing, max, &stop).await;
        if let Err(Trouble::Damaged(reason)) = &answer {
            tracing::warn!(path = %self.path.display(), reason, "search index set aside and made again");
            let slot = self.conn.lock().await;
            let path = self.path.clone();
            let aside = tokio::task::spawn_blocking(move || file::set_aside(&path)).await;
            drop(slot);
            answer = match aside {
                Ok(Ok(())) => self.ask(filter, among, existing, max, &stop).await,
                Ok(Err(trouble)) => Err(trouble),
                Err(error) => Err(Trouble::Other(error.to_string())),
            };
        }
        answer.map_err(|trouble| match trouble {
            Trouble::Interrupted if cancel.is_cancelled() => IndexError::Cancelled,
            Trouble::Interrupted => IndexError::TimedOut,
            Trouble::Damaged(reason) | Trouble::Other(reason) => IndexError::Unavailable(reason),
        })
    }

    async fn forget(&self, session: &SessionId) {
        let stop = Stop { cancel: CancellationToken::new(), begun: Instant::now() };
        let _guard = stop.cancel.clone().drop_guard();
        let (path, gone) = (self.path.clone(), [session.clone()]);
        let work = move |conn: &mut Connection| {
            take_in::forget(conn, &gone)?;
            // The journal still holds the texts until it is written back.
            Ok(conn.query_row("PRAGMA wal_checkpoint(TRUNCATE)", [], |_| Ok(()))?)
        };
        // An index that was never made is not made for this.
        let is_there = tokio::task::spawn_blocking(move || path.exists()).await;
        if is_there.is_ok_and(|is_there| is_there)
            && let Err(trouble) = self.with(&stop, work).await
        {
            tracing::debug!(?trouble, "the search index still holds a deleted session");
        }
    }
}

/// When work ends that nobody waits for.
#[derive(Clone)]
struct Stop {
    cancel: CancellationToken,
    begun: Instant,
}

impl Stop {
    fn is_over(&self) -> bool {
        self.cancel.is_cancelled() || self.begun.elapsed() > BUDGET
    }
}

/// What became of the sessions.
#[derive(Default)]
struct TakenIn {
    unreadable: HashSet<SessionId>,
    waiting: HashSet<SessionId>,
}

/// Pieces that go into the index together.
#[derive(Default)]
struct Batch {
    pieces: Vec<Piece>,
    n_records: usize,
}

impl Batch {
    fn push(&mut self, piece: Piece) {
        self.n_records += piece.part.records.len();
        self.pieces.push(piece);
    }

    fn remove(&mut self, session: &SessionId) {
        self.pieces.retain(|piece| piece.session != *session);
    }

    fn is_full(&self) -> bool {
        self.n_records >= BATCH_RECORDS || self.pieces.len() >= BATCH_PIECES
    }
}
