//! Asks the index. It names the events that hold the words; what a match is and how good it is, is decided as
//! everywhere by `services::session_query`.

use crate::take_in::{place_of, role_of};
use crate::trouble::Trouble;
use protocol::id::SessionId;
use rusqlite::{Connection, OptionalExtension};
use services::session_query::text::{self, Phrase};
use services::session_query::{Filter, Found, HistoryStart, Hit, Surface};
use std::cmp::Reverse;
use std::collections::HashMap;

/// Words of a phrase the index is asked for; the rest is compared in the text.
const MAX_ASKED_WORDS: usize = 32;

/// A session that may be looked at.
struct Session<'a> {
    id: &'a SessionId,
    start: HistoryStart,
    best: Option<Best>,
}

/// The best event of a session so far. The order of the fields is the order of hits.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
struct Best {
    matches: Reverse<usize>,
    n_chars: i64,
    time: i64,
    seq: u64,
    doc: i64,
    surface: Surface,
    at: usize,
}

/// The best event of each of these sessions.
pub(crate) fn best(
    conn: &mut Connection,
    filter: &Filter,
    among: &[SessionId],
    max: usize,
) -> Result<Found, Trouble> {
    let snapshot = conn.transaction()?;
    let mut sessions = sessions(&snapshot, among)?;
    {
        let mut docs = snapshot.prepare("SELECT rowid FROM words WHERE words MATCH ?1")?;
        let mut read =
            snapshot.prepare("SELECT seq, time, kind, role, n_chars, text FROM docs WHERE id = ?1")?;
        let mut rows = docs.query([expression(&filter.phrase)])?;
        while let Some(row) = rows.next()? {
            let doc: i64 = row.get(0)?;
            let (num, at_record) = place_of(doc);
            let Some(session) = sessions.get_mut(&num) else { continue };
            let start = session.start;
            let known_best = session.best;
            let better = read.query_row([doc], |row| {
                let (seq, time) = (row.get::<_, i64>(0)?.cast_unsigned(), row.get(1)?);
                let surface = start.surface(at_record, role_of(row.get(3)?));
                if !filter.fits(seq, time, row.get_ref(2)?.as_str()?, surface) {
                    return Ok(None);
                }
                let n_chars: i64 = row.get(4)?;
                if known_best.is_some_and(|best| may_not_beat(best, &filter.phrase, n_chars)) {
                    return Ok(None);
                }
                let found = filter.phrase.find(row.get_ref(5)?.as_str()?);
                Ok(found.map(|(n_matches, at)| Best {
                    matches: Reverse(n_matches),
                    n_chars,
                    time,
                    seq,
                    doc,
                    surface,
                    at,
                }))
            });
            if let Some(better) = better.optional()?.flatten()
                && session.best.is_none_or(|best| better < best)
            {
                session.best = Some(better);
            }
        }
    }
    let mut ranked: Vec<(&SessionId, Best)> =
        sessions.values().filter_map(|session| session.best.map(|best| (session.id, best))).collect();
    ranked.sort_by(|(a, x), (b, y)| {
        let order = (x.matches, x.n_chars, x.time).cmp(&(y.matches, y.n_chars, y.time));
        order.then_with(|| a.cmp(b))
    });
    let mut found = Found { has_more: ranked.len() > max, ..Found::default() };
    for (id, best) in ranked.into_iter().take(max) {
        found.hits.push((id.clone(), hit(&snapshot, best)?));
    }
    Ok(found)
}

/// Whether an event of this length cannot hold more matches than the best one: each is at least as long as its words,
/// with something between words that are not of scripts without spaces. Counted low, so never wrongly.
fn may_not_beat(best: Best, phrase: &Phrase, n_chars: i64) -> bool {
    let shortest: usize = phrase.words().iter().map(|word| word.chars().count().div_ceil(3).max(1)).sum();
    let most = usize::try_from(n_chars).unwrap_or(usize::MAX) / shortest.max(1);
    most < best.matches.0
}

/// The words as a phrase of the query language. They hold no quote, whatever was asked.
fn expression(phrase: &Phrase) -> String {
    let asked = phrase.words().len().min(MAX_ASKED_WORDS);
    format!("\"{}\"", phrase.words()[..asked].join(" "))
}

fn sessions<'a>(conn: &Connection, among: &'a [SessionId]) -> Result<HashMap<i64, Session<'a>>, Trouble> {
    let wanted: HashMap<&str, &SessionId> = among.iter().map(|id| (id.as_str(), id)).collect();
    let mut query = conn.prepare("SELECT num, id, kept_from, summary_at FROM sessions")?;
    let mut rows = query.query([])?;
    let mut sessions = HashMap::new();
    while let Some(row) = rows.next()? {
        let id: String = row.get(1)?;
        let Some(id) = wanted.get(id.as_str()) else { continue };
        let start = HistoryStart {
            kept_from: row.get::<_, i64>(2)?.cast_unsigned(),
            summary_at: row.get::<_, Option<i64>>(3)?.map(i64::cast_unsigned),
        };
        sessions.insert(row.get(0)?, Session { id, start, best: None });
    }
    Ok(sessions)
}

fn hit(conn: &Connection, best: Best) -> Result<Hit, Trouble> {
    let (kind, words) = conn.query_row("SELECT kind, text FROM docs WHERE id = ?1", [best.doc], |row| {
        Ok((row.get::<_, String>(0)?, row.get::<_, String>(1)?))
    })?;
    Ok(Hit {
        matches: best.matches,
        n_chars: usize::try_from(best.n_chars).unwrap_or(usize::MAX),
        time: best.time,
        seq: best.seq,
        kind,
        surface: best.surface,
        snippet: text::snippet(&words, best.at),
    })
}
