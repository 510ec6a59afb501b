//! Brings the index up to date with parts of logs.
//!
//! Each part goes in with the mark where the next one begins, in one transaction: whoever is killed in between loses
//! nothing, and two processes that take in the same part write it once.

use crate::trouble::Trouble;
use protocol::event::{Record, SessionEvent};
use protocol::id::SessionId;
use rusqlite::{Connection, OptionalExtension, Transaction, TransactionBehavior, params};
use services::session_query::text;
use services::session_query::{HistoryStart, Role, kind, message_id};
use services::session_store::{LogMark, LogPart};
use std::collections::HashMap;

/// A part of one log, and how far it was taken in before.
pub(crate) struct Piece {
    pub session: SessionId,
    pub from: Option<LogMark>,
    pub part: LogPart,
}

/// How far each known session has been taken in.
pub(crate) fn marks(conn: &Connection) -> Result<HashMap<SessionId, LogMark>, Trouble> {
    let mut query = conn.prepare("SELECT id, file, n_bytes, checked FROM sessions")?;
    let rows = query.query_map([], |row| {
        let mark = LogMark {
            file: row.get::<_, i64>(1)?.cast_unsigned(),
            n_bytes: row.get::<_, i64>(2)?.cast_unsigned(),
            check: row.get::<_, i64>(3)?.cast_unsigned(),
        };
        Ok((SessionId::new(row.get::<_, String>(0)?), mark))
    })?;
    Ok(rows.collect::<Result<_, _>>()?)
}

/// Takes in pieces. Returns how many were left out because another process had gone on with their session.
pub(crate) fn take_in(conn: &mut Connection, pieces: &[Piece]) -> Result<usize, Trouble> {
    let change = conn.transaction_with_behavior(TransactionBehavior::Immediate)?;
    let mut n_left_out = 0;
    for piece in pieces {
        n_left_out += usize::from(!take_in_one(&change, piece)?);
    }
    change.commit()?;
    Ok(n_left_out)
}

/// Forgets sessions.
pub(crate) fn forget(conn: &mut Connection, sessions: &[SessionId]) -> Result<(), Trouble> {
    if sessions.is_empty() {
        return Ok(());
    }
    let change = conn.transaction_with_behavior(TransactionBehavior::Immediate)?;
    for session in sessions {
        if let Some(known) = Known::read(&change, session)? {
            clear(&change, known.num)?;
            change.execute("DELETE FROM sessions WHERE num = ?1", [known.num])?;
        }
    }
    Ok(change.commit()?)
}

/// Id of the document at a position in the log of a session.
pub(crate) fn doc_id(num: i64, at: u64) -> i64 {
    (num << 32) | i64::try_from(at.min(u64::from(u32::MAX))).unwrap_or(i64::MAX)
}

/// The session and the position of a document.
pub(crate) fn place_of(doc: i64) -> (i64, u64) {
    (doc >> 32, doc.cast_unsigned() & u64::from(u32::MAX))
}

/// A role as it is stored.
pub(crate) fn role_of(stored: i64) -> Role {
    match stored {
        1 => Role::Message,
        2 => Role::Summary,
        _ => Role::LogOnly,
    }
}

/// A session in the index.
struct Known {
    num: i64,
    mark: LogMark,
    n_records: u64,
    start: HistoryStart,
}

impl Known {
    fn read(change: &Transaction<'_>, session: &SessionId) -> Result<Option<Self>, Trouble> {
        let mut query = change.prepare_cached(
            "SELECT num, file, n_bytes, checked, n_records, kept_from, summary_at FROM sessions WHERE id = ?1",
        )?;
        let known = query.query_row([session.as_str()], |row| {
            let unsigned = |idx| row.get::<_, i64>(idx).map(i64::cast_unsigned);
            Ok(Self {
                num: row.get(0)?,
                mark: LogMark { file: unsigned(1)?, n_bytes: unsigned(2)?, check: unsigned(3)? },
                n_records: unsigned(4)?,
                start: HistoryStart {
                    kept_from: unsigned(5)?,
                    summary_at: row.get::<_, Option<i64>>(6)?.map(i64::cast_unsigned),
                },
            })
        });
        Ok(known.optional()?)
    }

    fn write(&self, change: &Transaction<'_>) -> Result<(), Trouble> {
        let mut update = change.prepare_cached(
            "UPDATE sessions SET file = ?2, n_bytes = ?3, checked = ?4, n_records = ?5, kept_from = ?6, \
             summary_at = ?7 WHERE num = ?1",
        )?;
        update.execute(params![
            self.num,
            self.mark.file.cast_signed(),
            self.mark.n_bytes.cast_signed(),
            self.mark.check.cast_signed(),
            self.n_records.cast_signed(),
            self.start.kept_from.cast_signed(),
            self.start.summary_at.map(u64::cast_signed),
        ])?;
        Ok(())
    }
}

fn take_in_one(change: &Transaction<'_>, piece: &Piece) -> Result<bool, Trouble> {
    let known = Known::read(change, &piece.session)?;
    if known.as_ref().map(|known| known.mark) != piece.from {
        return Ok(false);
    }
    let mut known = match known {
        Some(known) => known,
        None => {
            change.execute(
                "INSERT INTO sessions(id, file, n_bytes, checked, n_records, kept_from) VALUES (?1, 0, 0, 0, 0, 0)",
                [piece.session.as_str()],
            )?;
            let num = change.last_insert_rowid();
            Known { num, mark: piece.part.mark, n_records: 0, start: HistoryStart::default() }
        }
    };
    if piece.part.is_start {
        clear(change, known.num)?;
        (known.n_records, known.start) = (0, HistoryStart::default());
    }
    for record in &piece.part.records {
        add(change, &mut known, record)?;
        known.n_records += 1;
    }
    known.mark = piece.part.mark;
    known.write(change)?;
    Ok(true)
}

fn add(change: &Transaction<'_>, known: &mut Known, record: &Record) -> Result<(), Trouble> {
    let at = known.n_records;
    if let SessionEvent::Compaction { first_kept, .. } = &record.event {
        let kept = match first_kept {
            Some(id) => change
                .query_row(
                    "SELECT max(id) FROM docs WHERE id >= ?1 AND id < ?2 AND message = ?3",
                    params![doc_id(known.num, 0), doc_id(known.num, at), id.as_str()],
                    |row| row.get::<_, Option<i64>>(0),
                )?
                .map(|doc| place_of(doc).1),
            None => None,
        };
        known.start = HistoryStart { kept_from: kept.unwrap_or(at), summary_at: Some(at) };
    }
    let (words, message) = (text::of(&record.event), message_id(&record.event));
    // A message without words can still be the first that a compaction keeps.
    if (words.is_empty() && message.is_none()) || at > u64::from(u32::MAX) {
        return Ok(());
    }
    let role = match Role::of(&record.event) {
        Role::LogOnly => 0,
        Role::Message => 1,
        Role::Summary => 2,
    };
    let id = doc_id(known.num, at);
    let mut insert = change.prepare_cached(
        "INSERT INTO docs(id, seq, time, kind, role, message, n_chars, text) VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8)",
    )?;
    insert.execute(params![
        id,
        record.seq.cast_signed(),
        record.time,
        kind(&record.event),
        role,
        message.map(|id| id.as_str()),
        i64::try_from(words.chars().count()).unwrap_or(i64::MAX),
        words,
    ])?;
    let mut insert = change.prepare_cached("INSERT INTO words(rowid, body) VALUES (?1, ?2)")?;
    insert.execute(params![id, text::normalised(&words)])?;
    Ok(())
}

/// Removes every document of a session.
fn clear(change: &Transaction<'_>, num: i64) -> Result<(), Trouble> {
    let range = params![doc_id(num, 0), doc_id(num, u64::MAX)];
    // Words are taken out of the index by telling it the text again; so nothing of it stays in the file.
    let mut read = change.prepare_cached("SELECT id, text FROM docs WHERE id BETWEEN ?1 AND ?2")?;
    let mut delete =
        change.prepare_cached("INSERT INTO words(words, rowid, body) VALUES ('delete', ?1, ?2)")?;
    let mut rows = read.query(range)?;
    while let Some(row) = rows.next()? {
        delete.execute(params![
            row.get::<_, i64>(0)?,
            text::normalised(row.get_ref(1)?.as_str().unwrap_or(""))
        ])?;
    }
    change.execute("DELETE FROM docs WHERE id BETWEEN ?1 AND ?2", range)?;
    Ok(())
}
