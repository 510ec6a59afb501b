//! One line of a session list, without parsing whole logs.
//!
//! Beside a log lies `summary.json`: what its first `n_bytes` say. A prefix of a log never changes, so the file is right
//! whenever the log is at least that long; only what follows is scanned. It is written by whoever lists, is never needed,
//! and may be deleted.

use crate::line::{self, Line};
use crate::place::{Durability, Place, replace_file};
use crate::read::parse_header;
use protocol::event::{Record, SessionEvent, SessionHeader};
use protocol::id::SessionId;
use protocol::message::MessageSource;
use serde::{Deserialize, Serialize};
use services::session_store::{SessionSummary, StoreError};
use std::fs::File;
use std::io::{BufRead, BufReader, Seek, SeekFrom};

/// A scan longer than this is worth remembering, in bytes.
const MIN_SCAN_TO_KEEP: u64 = 32 * 1024;

/// Where a record's type stands, seen from the start of its line: behind `seq`, `time` and `ignorable`.
const TYPE_WITHIN: usize = 128;

/// What a prefix of a log says.
#[derive(Debug, Deserialize, Serialize)]
#[serde(rename_all = "camelCase")]
struct Prefix {
    n_bytes: u64,
    header: SessionHeader,
    title: Option<String>,
    updated_at: i64,
    has_prompt: bool,
}

/// Summarises the session at `place`.
///
/// # Errors
/// `Newer`, `Corrupt`: the header is unusable. `Io`.
pub(crate) fn summarise(place: &Place) -> Result<SessionSummary, StoreError> {
    let file = File::open(place.log())?;
    let n_bytes = file.metadata()?.len();
    let kept = std::fs::read(place.summary())
        .ok()
        .and_then(|bytes| serde_json::from_slice::<Prefix>(&bytes).ok())
        .filter(|kept| kept.n_bytes <= n_bytes);
    let mut reader = BufReader::with_capacity(64 * 1024, file);
    let mut prefix = match kept {
        Some(kept) => {
            reader.seek(SeekFrom::Start(kept.n_bytes))?;
            kept
        }
        None => first_line(&mut reader)?,
    };
    let start = prefix.n_bytes;
    if start < n_bytes {
        prefix.scan(&mut reader)?;
    }
    if prefix.n_bytes - start >= MIN_SCAN_TO_KEEP {
        let kept = serde_json::to_vec(&prefix)
            .map_err(std::io::Error::from)
            .and_then(|bytes| replace_file(&place.summary(), &bytes, Durability::Lazy));
        if let Err(error) = kept {
            tracing::debug!(path = %place.summary().display(), %error, "summary not kept");
        }
    }
    let Prefix { header, title, updated_at, has_prompt, .. } = prefix;
    Ok(SessionSummary { header, title, updated_at, has_prompt })
}

fn first_line(reader: &mut impl BufRead) -> Result<Prefix, StoreError> {
    #[derive(Deserialize)]
    struct Named {
        id: SessionId,
    }
    let mut bytes = Vec::new();
    reader.read_until(b'\n', &mut bytes)?;
    // The name of the folder is one-way, so the header is believed about the id; opening checks it.
    let id = serde_json::from_slice::<Named>(&bytes).map_or_else(|_| SessionId::new("?"), |named| named.id);
    let header = parse_header(&id, &bytes)?;
    let updated_at = header.created_at;
    Ok(Prefix { n_bytes: bytes.len() as u64, header, title: None, updated_at, has_prompt: false })
}

impl Prefix {
    /// Goes on to the end of the last whole line.
    fn scan(&mut self, reader: &mut impl BufRead) -> std::io::Result<()> {
        #[derive(Deserialize)]
        struct Timed {
            time: i64,
        }
        let (mut line, mut last) = (Vec::new(), Vec::new());
        loop {
            line.clear();
            reader.read_until(b'\n', &mut line)?;
            if line.last() != Some(&b'\n') {
                break;
            }
            self.n_bytes += line.len() as u64;
            if is_telling(&line)
                && let Line::Record(record) = line::parse(&line)
            {
                self.take(*record);
            }
            if line.starts_with(b"{") {
                std::mem::swap(&mut line, &mut last);
            }
        }
        if let Ok(timed) = serde_json::from_slice::<Timed>(&last) {
            self.updated_at = timed.time;
        }
        Ok(())
    }

    fn take(&mut self, record: Record) {
        match record.event {
            SessionEvent::Title { title, .. } => self.title = Some(title),
            SessionEvent::UserMessage { message } if message.source == MessageSource::User => {
                self.has_prompt = true;
            }
            _ => {}
        }
    }
}

/// Whether a line is of a type that a summary is made from; cheap, so that only those are parsed.
fn is_telling(line: &[u8]) -> bool {
    let start = &line[..line.len().min(TYPE_WITHIN)];
    [br#""type":"session/title""#.as_slice(), br#""type":"user/message""#]
        .iter()
        .any(|kind| start.windows(kind.len()).any(|window| window == *kind))
}
