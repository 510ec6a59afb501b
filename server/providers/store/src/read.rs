//! Reads a log from start to end.
//!
//! What cannot be read is counted, not fatal: a torn tail is reported with the place where the good part ends, a bad line in
//! the middle costs that line. Fatal are a header that is unusable and a record this version must not skip. Never
//! writes.

use crate::line::{self, Line};
use crate::repair;
use protocol::event::{LOG_VERSION, Record, SessionHeader};
use protocol::id::SessionId;
use serde::Deserialize;
use services::session_store::StoreError;
use std::fs::File;
use std::io::{BufRead, BufReader};

/// What the file of a session holds.
#[derive(Debug)]
pub(crate) struct ReadLog {
    /// First line.
    pub header: SessionHeader,
    /// Every readable record.
    pub records: Vec<Record>,
    /// Whole lines that are no records. A torn tail is not one.
    pub n_bad_records: u64,
    /// Bytes up to the end of the last whole record.
    pub good_bytes: u64,
    /// How the file ends.
    pub tail: Tail,
    /// The records that close an interrupted turn; not in the file.
    pub closers: Vec<Record>,
}

/// What follows the last line end of a log.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Tail {
    /// Nothing.
    Clean,
    /// A whole record that lacks only its line end.
    Unended,
    /// Part of a record.
    Torn,
}

/// Reads the log of session `id` from `file`, which stands at its start.
///
/// # Errors
/// `Newer`, `Corrupt`, `Io`.
pub(crate) fn read_log(id: &SessionId, file: &File) -> Result<ReadLog, StoreError> {
    let mut reader = BufReader::with_capacity(128 * 1024, file);
    let mut bytes = Vec::new();
    reader.read_until(b'\n', &mut bytes)?;
    let header = parse_header(id, &bytes)?;
    let mut log = ReadLog {
        header,
        records: Vec::new(),
        n_bad_records: 0,
        good_bytes: bytes.len() as u64,
        tail: Tail::Clean,
        closers: Vec::new(),
    };
    loop {
        bytes.clear();
        let n_bytes = reader.read_until(b'\n', &mut bytes)?;
        if n_bytes == 0 {
            break;
        }
        let is_ended = bytes.last() == Some(&b'\n');
        match line::parse(&bytes) {
            Line::Record(record) => log.records.push(*record),
            Line::Unknown(kind) => {
                let reason = format!(
                    "it holds a record of type {kind:?}, which this version does not know and must not skip; \
                     update Followspot to open it"
                );
                return Err(StoreError::Corrupt { id: id.clone(), reason });
            }
            Line::Blank | Line::Skipped => {}
            Line::Bad if is_ended => log.n_bad_records += 1,
            Line::Bad => {
                log.tail = Tail::Torn;
                break;
            }
        }
        if !is_ended {
            log.tail = Tail::Unended;
        }
        log.good_bytes += n_bytes as u64;
    }
    log.closers = repair::closers(&log.records);
    Ok(log)
}

/// Parses the first line.
pub(crate) fn parse_header(id: &SessionId, bytes: &[u8]) -> Result<SessionHeader, StoreError> {
    #[derive(Deserialize)]
    struct Version {
        version: u32,
    }
    let corrupt = |reason: String| StoreError::Corrupt { id: id.clone(), reason };
    // The version first: a newer header may have another shape.
    let Version { version } = serde_json::from_slice(bytes)
        .map_err(|error| corrupt(format!("its first line is no session header ({error})")))?;
    if version > LOG_VERSION {
        return Err(StoreError::Newer { id: id.clone(), version });
    }
    if version < LOG_VERSION {
        return Err(corrupt(format!("log format {version} is no longer understood")));
    }
    let header: SessionHeader = serde_json::from_slice(bytes)
        .map_err(|error| corrupt(format!("its session header is incomplete ({error})")))?;
    if header.id != *id {
        return Err(corrupt(format!("it belongs to session {}", header.id)));
    }
    if bytes.last() != Some(&b'\n') {
        return Err(corrupt("its session header is cut".to_owned()));
    }
    Ok(header)
}
