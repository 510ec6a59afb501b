//! Changing an editor's file: read, merge, save what was there, replace. A failure leaves the file alone.

use super::entry::Entry;
use super::{block, json};
use std::io::ErrorKind;
use std::path::{Path, PathBuf};

/// What to do with the file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Change {
    Put,
    Take,
}

/// What was done.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Changed {
    /// The file says it now; `backup` is the file as it was, if there was one.
    Yes { backup: Option<PathBuf> },
    /// The file said it already, and was not written.
    No,
}

/// Puts the entry into the file, or takes it out.
///
/// # Errors
/// The file cannot be read, understood or written; the message names it and says what to do.
pub(super) fn apply(change: Change, entry: &Entry, file: &Path) -> Result<Changed, String> {
    // Through a link: dotfiles are often links into a repository, and the link must stay one.
    let target = std::fs::canonicalize(file).unwrap_or_else(|_| file.to_owned());
    let old = match std::fs::read(&target) {
        Ok(bytes) => {
            Some(String::from_utf8(bytes).map_err(|_| format!("{} is no UTF-8 text", file.display()))?)
        }
        Err(error) if error.kind() == ErrorKind::NotFound => None,
        Err(error) => return Err(format!("{} cannot be read: {error}", file.display())),
    };
    if old.is_none() && change == Change::Take {
        return Ok(Changed::No);
    }
    let text = old.as_deref().unwrap_or_default();
    let (mark, text) = match text.strip_prefix('\u{feff}') {
        Some(rest) => ("\u{feff}", rest),
        None => ("", text),
    };
    let new = match (change, entry) {
        (Change::Put, Entry::Json { path, name, program, defaults }) => {
            json::put(text, path, name, program, defaults)
        }
        (Change::Take, Entry::Json { path, name, .. }) => json::take(text, path, name),
        (Change::Put, Entry::Block { comment, body }) => block::put(text, comment, body),
        (Change::Take, Entry::Block { comment, .. }) => block::take(text, comment),
    };
    let new = new.map_err(|problem| {
        format!(
            "{} cannot be changed safely: {problem}. Mend it, or paste the settings by hand: \
             run the command without --write.",
            file.display()
        )
    })?;
    if new == text {
        return Ok(Changed::No);
    }
    let told = |error: std::io::Error| format!("{} cannot be written: {error}", file.display());
    let backup = match &old {
        Some(_) => Some(back_up(&target).map_err(told)?),
        None => None,
    };
    // A file that held nothing but our lines was made by us.
    if new.is_empty() {
        std::fs::remove_file(&target).map_err(told)?;
    } else {
        replace(&target, &format!("{mark}{new}")).map_err(told)?;
    }
    Ok(Changed::Yes { backup })
}

/// A copy beside the file under a name that is free.
fn back_up(file: &Path) -> std::io::Result<PathBuf> {
    let name = |number: u32| {
        let mut name = file.as_os_str().to_owned();
        name.push(".before-followspot");
        if number > 1 {
            name.push(format!(".{number}"));
        }
        PathBuf::from(name)
    };
    let free = (1..1000).map(name).find(|name| !name.exists()).unwrap_or_else(|| name(1000));
    std::fs::copy(file, &free)?;
    Ok(free)
}

/// Whole or not at all: a crash leaves the old file.
fn replace(file: &Path, text: &str) -> std::io::Result<()> {
    let folder = file.parent().unwrap_or(Path::new("."));
    std::fs::create_dir_all(folder)?;
    let mut name = file.as_os_str().to_owned();
    name.push(format!(".{}.new", std::process::id()));
    let new = PathBuf::from(name);
    let written = std::fs::write(&new, text)
        .and_then(|()| match std::fs::metadata(file) {
            Ok(old) => std::fs::set_permissions(&new, old.permissions()),
            Err(_) => Ok(()),
        })
        .and_then(|()| std::fs::File::open(&new)?.sync_all())
        .and_then(|()| std::fs::rename(&new, file));
    if written.is_err() {
        // The first error is the one to tell.
        let _ = std::fs::remove_file(&new);
    }
    written
}
