//! The file of the index: opened, made, or set aside when it is damaged or not ours.
//!
//! A file belongs to one format, whose number is in its name, so that two versions of the program never fight over one.

use crate::trouble::Trouble;
use rusqlite::{Connection, ErrorCode, TransactionBehavior};
use std::path::{Path, PathBuf};
use std::time::Duration;

/// Number of the format; to be raised with every change of the tables or of what is a word.
const FORMAT: i32 = 1;
/// Marks the file as ours: `FSix`.
const APPLICATION_ID: i32 = 0x4653_6978;
/// How long a writer of another process is waited for.
const BUSY_TIMEOUT: Duration = Duration::from_secs(2);
/// How often turning the journal on is tried; that step does not wait by itself.
const MAX_JOURNAL_TRIES: u32 = 40;
const JOURNAL_PAUSE: Duration = Duration::from_millis(50);

/// Positions of records are the lower half of a document's id, sessions the upper. `words` keeps no text of its own.
const TABLES: &str = "
    CREATE TABLE sessions(
        num INTEGER PRIMARY KEY, id TEXT NOT NULL UNIQUE, file INTEGER NOT NULL, n_bytes INTEGER NOT NULL,
        checked INTEGER NOT NULL, n_records INTEGER NOT NULL, kept_from INTEGER NOT NULL, summary_at INTEGER);
    CREATE TABLE docs(
        id INTEGER PRIMARY KEY, seq INTEGER NOT NULL, time INTEGER NOT NULL, kind TEXT NOT NULL,
        role INTEGER NOT NULL, message TEXT, n_chars INTEGER NOT NULL, text TEXT NOT NULL);
    CREATE VIRTUAL TABLE words USING fts5(body, content='', tokenize='ascii');
    INSERT INTO words(words, rank) VALUES ('secure-delete', 1);
";

/// Where the index is in a folder.
pub(crate) fn path_in(folder: &Path) -> PathBuf {
    folder.join(format!("search-{FORMAT}.sqlite"))
}

/// Opens the index, which is made when it is missing and made again when it is damaged or not ours.
pub(crate) fn open(path: &Path) -> Result<Connection, Trouble> {
    match open_as_is(path) {
        Err(Trouble::Damaged(reason)) => {
            tracing::warn!(path = %path.display(), reason, "search index set aside and made again");
            set_aside(path)?;
            open_as_is(path)
        }
        opened => opened,
    }
}

/// Moves the file out of the way, over the one that was set aside before.
pub(crate) fn set_aside(path: &Path) -> Result<(), Trouble> {
    let is_gone = |done: std::io::Result<()>| match done {
        // Another process was faster.
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(()),
        other => other,
    };
    is_gone(std::fs::rename(path, with_suffix(path, ".damaged")))?;
    for suffix in ["-wal", "-shm"] {
        is_gone(std::fs::remove_file(with_suffix(path, suffix)))?;
    }
    Ok(())
}

fn with_suffix(path: &Path, suffix: &str) -> PathBuf {
    let mut name = path.as_os_str().to_owned();
    name.push(suffix);
    name.into()
}

fn open_as_is(path: &Path) -> Result<Connection, Trouble> {
    create_private(path)?;
    let mut conn = Connection::open(path)?;
    conn.busy_timeout(BUSY_TIMEOUT)?;
    use_journal(&conn)?;
    conn.execute_batch(
        "PRAGMA synchronous = NORMAL; PRAGMA temp_store = MEMORY; PRAGMA secure_delete = ON;
         PRAGMA cache_size = -8192; PRAGMA trusted_schema = OFF;",
    )?;
    // Another process may be making the tables at this moment, so whether there are any is asked under the lock.
    if marks(&conn)? != (APPLICATION_ID, FORMAT) {
        let made = conn.transaction_with_behavior(TransactionBehavior::Immediate)?;
        if marks(&made)? != (APPLICATION_ID, FORMAT) {
            let n_tables: i64 = made.query_row("SELECT count(*) FROM sqlite_schema", [], |row| row.get(0))?;
            if n_tables != 0 {
                return Err(Trouble::Damaged("it is not an index of this program".to_owned()));
            }
            made.execute_batch(TABLES)?;
            made.pragma_update(None, "application_id", APPLICATION_ID)?;
            made.pragma_update(None, "user_version", FORMAT)?;
        }
        made.commit()?;
    }
    Ok(conn)
}

fn marks(conn: &Connection) -> rusqlite::Result<(i32, i32)> {
    let ask = |name| conn.pragma_query_value(None, name, |row| row.get(0));
    Ok((ask("application_id")?, ask("user_version")?))
}

fn use_journal(conn: &Connection) -> Result<(), Trouble> {
    let mut n_tries = 0;
    loop {
        let mode = conn.pragma_update_and_check(None, "journal_mode", "wal", |row| row.get::<_, String>(0));
        match mode {
            Err(error) if error.sqlite_error_code() == Some(ErrorCode::DatabaseBusy) => {
                n_tries += 1;
                if n_tries == MAX_JOURNAL_TRIES {
                    return Err(error.into());
                }
                std::thread::sleep(JOURNAL_PAUSE);
            }
            Err(error) => return Err(error.into()),
            Ok(mode) if mode == "wal" => return Ok(()),
            Ok(mode) => return Err(Trouble::Other(format!("its journal can only be {mode} here"))),
        }
    }
}

/// Makes the file and its folder for the owner alone; what the index holds was said in private.
fn create_private(path: &Path) -> std::io::Result<()> {
    if let Some(folder) = path.parent() {
        let mut builder = std::fs::DirBuilder::new();
        builder.recursive(true);
        #[cfg(unix)]
        std::os::unix::fs::DirBuilderExt::mode(&mut builder, 0o700);
        builder.create(folder)?;
    }
    let mut options = std::fs::OpenOptions::new();
    options.append(true).create(true);
    #[cfg(unix)]
    std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
    options.open(path).map(drop)
}
