//! Where a session lives, and how private files are made.
//!
//! Layout: `<root>/<normalised cwd>/<escaped id>/` with `session.jsonl`, `lock`, `summary.json` and `blobs/<hash>`. The
//! cwd part is for people who look around; a session is found by its id alone. Used by every module of this crate.

use protocol::id::SessionId;
use sha2::{Digest, Sha256};
use std::fs::{DirBuilder, File, OpenOptions};
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};

/// Longest name of a folder we choose, in bytes; file systems allow 255.
const MAX_NAME_BYTES: usize = 120;

/// The folder of one session. It may or may not exist.
#[derive(Clone, Debug)]
pub(crate) struct Place {
    /// Absolute path.
    pub dir: PathBuf,
}

impl Place {
    /// Where a session of `cwd` is created.
    pub fn of(root: &Path, cwd: &Path, id: &SessionId) -> Self {
        Self { dir: root.join(normalised(cwd)).join(escaped(id)) }
    }

    /// Finds a stored session without knowing its cwd: one look into each folder of `root`.
    ///
    /// # Errors
    /// The root cannot be read; a missing one holds no sessions.
    pub fn find(root: &Path, id: &SessionId) -> io::Result<Option<Self>> {
        let name = escaped(id);
        for folder in folders(root)? {
            let place = Self { dir: folder.join(&name) };
            if place.log().is_file() {
                return Ok(Some(place));
            }
        }
        Ok(None)
    }

    /// Every stored session, in no order.
    ///
    /// # Errors
    /// The root cannot be read. A folder in it that cannot is left out.
    pub fn all(root: &Path) -> io::Result<Vec<Self>> {
        let mut places = Vec::new();
        for folder in folders(root)? {
            match folders(&folder) {
                Ok(sessions) => places.extend(sessions.into_iter().map(|dir| Self { dir })),
                Err(error) => tracing::warn!(folder = %folder.display(), %error, "session folder left out"),
            }
        }
        Ok(places)
    }

    /// The log.
    pub fn log(&self) -> PathBuf {
        self.dir.join("session.jsonl")
    }

    /// The file the writer's lock is on.
    pub fn lock(&self) -> PathBuf {
        self.dir.join("lock")
    }

    /// What a session list shows, derived from a prefix of the log.
    pub fn summary(&self) -> PathBuf {
        self.dir.join("summary.json")
    }

    /// The folder of kept texts.
    pub fn blobs(&self) -> PathBuf {
        self.dir.join("blobs")
    }
}

/// The folders directly in `dir`; none when it is missing.
fn folders(dir: &Path) -> io::Result<Vec<PathBuf>> {
    let entries = match std::fs::read_dir(dir) {
        Ok(entries) => entries,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
        Err(error) => return Err(error),
    };
    let mut found = Vec::new();
    for entry in entries {
        let entry = entry?;
        if entry.file_type()?.is_dir() {
            found.push(entry.path());
        }
    }
    Ok(found)
}

/// A readable folder name for a cwd. Two cwds may share one; ids are unique, so nothing depends on it.
fn normalised(cwd: &Path) -> String {
    let name: String =
        cwd.to_string_lossy().chars().map(|c| if is_plain(c) { c } else { '-' }).collect::<String>();
    let name = name.trim_start_matches(['-', '.']);
    let name = &name[name.len().saturating_sub(MAX_NAME_BYTES)..];
    if name.is_empty() { "_no-cwd".to_owned() } else { name.to_owned() }
}

/// A folder name for an id, different for different ids, never a path and never hidden.
fn escaped(id: &SessionId) -> String {
    use std::fmt::Write;
    let mut name = String::new();
    for (idx, byte) in id.as_str().bytes().enumerate() {
        let c = char::from(byte);
        if is_plain(c) && !(idx == 0 && c == '.') {
            name.push(c);
        } else {
            // Writing to a string cannot fail.
            let _ = write!(name, "%{byte:02x}");
        }
    }
    if name.is_empty() {
        return "%".to_owned();
    }
    if name.len() > MAX_NAME_BYTES {
        // `%%` cannot come out of the loop above, so no short id is equal to this.
        return format!("%%{}", hex(&Sha256::digest(id.as_str().as_bytes())));
    }
    name
}

fn is_plain(c: char) -> bool {
    c.is_ascii_alphanumeric() || matches!(c, '.' | '_' | '-')
}

/// Lower-case hexadecimal.
pub(crate) fn hex(bytes: &[u8]) -> String {
    use std::fmt::Write;
    bytes.iter().fold(String::with_capacity(bytes.len() * 2), |mut text, byte| {
        // Writing to a string cannot fail.
        let _ = write!(text, "{byte:02x}");
        text
    })
}

/// Makes a folder and those above it that only the owner can enter. An existing one is left as it is.
pub(crate) fn create_private_dir(dir: &Path) -> io::Result<()> {
    let mut builder = DirBuilder::new();
    builder.recursive(true);
    #[cfg(unix)]
    std::os::unix::fs::DirBuilderExt::mode(&mut builder, 0o700);
    builder.create(dir)
}

/// Opens a file, made readable by the owner only when it is new.
pub(crate) fn open_private(options: &mut OpenOptions, path: &Path) -> io::Result<File> {
    #[cfg(unix)]
    std::os::unix::fs::OpenOptionsExt::mode(options, 0o600);
    options.open(path)
}

/// Whether a replaced file must survive a loss of power.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Durability {
    /// It is on disk on return, its name too.
    Synced,
    /// The system writes it when it likes.
    Lazy,
}

/// Puts a whole file in place: readers see the old one or the new one, never a part.
pub(crate) fn replace_file(path: &Path, bytes: &[u8], durability: Durability) -> io::Result<()> {
    static COUNTER: AtomicU64 = AtomicU64::new(0);
    let n = COUNTER.fetch_add(1, Ordering::Relaxed);
    let temporary = path.with_extension(format!("tmp-{}-{n}", std::process::id()));
    let written = (|| {
        let mut file = open_private(OpenOptions::new().write(true).create_new(true), &temporary)?;
        file.write_all(bytes)?;
        if durability == Durability::Synced {
            file.sync_all()?;
        }
        std::fs::rename(&temporary, path)
    })();
    if let Err(error) = written {
        // Best effort: the error below is the one that matters.
        let _ = std::fs::remove_file(&temporary);
        return Err(error);
    }
    match path.parent() {
        Some(parent) if durability == Durability::Synced => sync_dir(parent),
        _ => Ok(()),
    }
}

/// Makes names in a folder durable. Systems that cannot open folders do this by themselves.
pub(crate) fn sync_dir(dir: &Path) -> io::Result<()> {
    #[cfg(unix)]
    File::open(dir)?.sync_all()?;
    #[cfg(not(unix))]
    let _ = dir;
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ids_become_names_that_stay_in_their_folder() {
        let long = "x".repeat(400);
        let cases = [
            ("0192f-ab", "0192f-ab"),
            ("../../etc", "%2e.%2f..%2fetc"),
            ("..", "%2e."),
            ("a b/ü", "a%20b%2f%c3%bc"),
            ("", "%"),
        ];
        for (id, name) in cases {
            assert_eq!(escaped(&SessionId::new(id)), name);
        }
        assert_eq!(escaped(&SessionId::new(long)).len(), 66);
    }

    #[test]
    fn folders_are_named_after_the_cwd() {
        let long = format!("/{}/end", "x".repeat(400));
        let cases =
            [("/home/me/src", "home-me-src"), ("/", "_no-cwd"), ("/a b/é", "a-b--"), ("/.hidden", "hidden")];
        for (cwd, name) in cases {
            assert_eq!(normalised(Path::new(cwd)), name);
        }
        assert!(normalised(Path::new(&long)).ends_with("x-end"));
        assert_eq!(normalised(Path::new(&long)).len(), MAX_NAME_BYTES);
    }
}
