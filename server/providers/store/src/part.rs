//! Reads a log part by part, and only what is new since the last time.
//!
//! For the search index, which would otherwise read every log again for each search. A mark remembers the file, a length
//! and what stood before it, so that a log that was cut or replaced is noticed and read from its start. Never writes.

use crate::line::{self, Line};
use crate::read::parse_header;
use protocol::event::SessionHeader;
use services::session_store::{LogMark, LogPart, StoreError};
use sha2::{Digest, Sha256};
use std::fs::File;
use std::io::{self, BufRead, BufReader, Read, Seek, SeekFrom};

/// A part ends with the record that reaches this size.
const PART_BYTES: u64 = 4 * 1024 * 1024;
/// How much before a mark must be unchanged.
const CHECKED_BYTES: u64 = 1024;

/// Reads the part of the log of `expected` after `from`.
///
/// # Errors
/// `NotFound` when the log is of another folder, `Newer`, `Corrupt`, `Io`.
pub(crate) fn read_part(
    expected: &SessionHeader,
    file: &File,
    from: Option<LogMark>,
) -> Result<LogPart, StoreError> {
    let metadata = file.metadata()?;
    let identity = identity(&metadata);
    let is_same = |mark: &LogMark| -> io::Result<bool> {
        let may_be = mark.file == identity && mark.n_bytes <= metadata.len();
        Ok(may_be && check(file, mark.n_bytes)? == mark.check)
    };
    let kept = match from {
        Some(mark) if is_same(&mark)? => Some(mark),
        _ => None,
    };
    let mut n_bytes = kept.map_or(0, |mark| mark.n_bytes);
    (&mut &*file).seek(SeekFrom::Start(n_bytes))?;
    let mut reader = BufReader::with_capacity(128 * 1024, file);
    let mut bytes = Vec::new();
    if kept.is_none() {
        reader.read_until(b'\n', &mut bytes)?;
        let header = parse_header(&expected.id, &bytes)?;
        if header.cwd != expected.cwd {
            return Err(StoreError::NotFound(expected.id.clone()));
        }
        n_bytes = bytes.len() as u64;
    }
    let end = n_bytes.saturating_add(PART_BYTES);
    let mut records = Vec::new();
    let mut has_more = false;
    loop {
        if n_bytes >= end {
            has_more = true;
            break;
        }
        bytes.clear();
        reader.read_until(b'\n', &mut bytes)?;
        if bytes.last() != Some(&b'\n') {
            break;
        }
        match line::parse(&bytes) {
            Line::Record(record) => records.push(*record),
            Line::Unknown(kind) => {
                let reason = format!("it holds a record of type {kind:?}, which this version does not know");
                return Err(StoreError::Corrupt { id: expected.id.clone(), reason });
            }
            Line::Blank | Line::Skipped | Line::Bad => {}
        }
        n_bytes += bytes.len() as u64;
    }
    let mark = match kept {
        Some(mark) if mark.n_bytes == n_bytes => mark,
        _ => LogMark { file: identity, n_bytes, check: check(file, n_bytes)? },
    };
    Ok(LogPart { records, mark, is_start: kept.is_none(), has_more })
}

/// A digest of what stands before the byte `at`.
fn check(file: &File, at: u64) -> io::Result<u64> {
    let start = at.saturating_sub(CHECKED_BYTES);
    let mut file = file;
    file.seek(SeekFrom::Start(start))?;
    let mut bytes = Vec::new();
    file.take(at - start).read_to_end(&mut bytes)?;
    let digest = Sha256::digest(&bytes);
    Ok(digest.iter().take(8).fold(0, |value, byte| value << 8 | u64::from(*byte)))
}

/// Which file this is, where the system tells.
fn identity(metadata: &std::fs::Metadata) -> u64 {
    #[cfg(unix)]
    return std::os::unix::fs::MetadataExt::ino(metadata);
    #[cfg(not(unix))]
    {
        let _ = metadata;
        0
    }
}
