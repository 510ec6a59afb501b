//! Files by pattern, newest first. Source: `spec/tools-files-shell.md` §6, product decisions "glob".

use super::pattern::Pattern;
use super::stop::{Account, Stop};
use super::{is_version_control, n_threads, unsearchable};
use ignore::{DirEntry, WalkBuilder, WalkState};
use services::file_search::{GlobFound, GlobRequest, SearchError};
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};

/// Seconds and nanoseconds.
type Modified = (i64, i64);

/// Finds every matching file below the root. Blocks.
pub(super) fn glob(request: &GlobRequest, stop: &Stop) -> Result<GlobFound, SearchError> {
    let root = request.root.as_path();
    let pattern = Pattern::new(&request.pattern, root)?;
    let metadata = fs::metadata(root).map_err(|error| unsearchable(root, &error))?;
    if !metadata.is_dir() {
        return Err(SearchError::Failed(format!("{} is not a folder", root.display())));
    }
    fs::read_dir(root).map_err(|error| unsearchable(root, &error))?;
    if [root, pattern.prefix()].iter().any(|path| path.iter().any(is_version_control)) {
        return Ok(GlobFound::default());
    }
    let Some(start) = start(root, pattern.prefix()) else { return Ok(GlobFound::default()) };

    let found = Mutex::new(Vec::new());
    let n_unreadable = AtomicU64::new(0);
    let n_skipped = pattern.prefix().iter().count();
    WalkBuilder::new(&start)
        .standard_filters(false)
        .follow_links(false)
        .max_depth(pattern.max_depth().map(|depth| depth - n_skipped))
        .filter_entry(|entry| !is_version_control(entry.file_name()))
        .threads(n_threads())
        .build_parallel()
        .run(|| {
            let mut thread = Thread { found: Vec::new(), all: &found, account: Account::new(stop) };
            let (pattern, n_unreadable) = (&pattern, &n_unreadable);
            Box::new(move |entry| {
                if thread.account.enter() {
                    return WalkState::Quit;
                }
                match entry {
                    Ok(entry) => thread.take(&entry, root, pattern),
                    Err(_) => {
                        n_unreadable.fetch_add(1, Ordering::Relaxed);
                    }
                }
                WalkState::Continue
            })
        });
    if stop.is_aborted() {
        return Err(SearchError::Aborted);
    }
    let mut found = found.into_inner().unwrap_or_else(PoisonError::into_inner);
    found.sort_unstable_by(|(a_modified, a_path), (b_modified, b_path)| {
        b_modified.cmp(a_modified).then_with(|| a_path.as_os_str().cmp(b_path.as_os_str()))
    });
    Ok(GlobFound {
        paths: found.into_iter().map(|(_, path)| path).collect(),
        n_unreadable: n_unreadable.into_inner(),
        partial: stop.is_spent(),
    })
}

/// The folder in which all matches lie; `None` when it is missing or behind a link, which a walk would not follow.
fn start(root: &Path, prefix: &Path) -> Option<PathBuf> {
    let mut start = root.to_owned();
    for part in prefix {
        start.push(part);
        if !fs::symlink_metadata(&start).is_ok_and(|metadata| metadata.is_dir()) {
            return None;
        }
    }
    Some(start)
}

/// What one thread of the walk found; joins the rest when the thread ends.
struct Thread<'a> {
    found: Vec<(Modified, PathBuf)>,
    all: &'a Mutex<Vec<(Modified, PathBuf)>>,
    account: Account<'a>,
}

impl Thread<'_> {
    fn take(&mut self, entry: &DirEntry, root: &Path, pattern: &Pattern) {
        if !entry.file_type().is_some_and(|kind| kind.is_file()) || !pattern.matches(root, entry.path()) {
            return;
        }
        // A file that is gone by now is not listed.
        if let Ok(metadata) = entry.metadata() {
            self.found.push((modified(&metadata), entry.path().to_owned()));
        }
    }
}

impl Drop for Thread<'_> {
    fn drop(&mut self) {
        self.all.lock().unwrap_or_else(PoisonError::into_inner).append(&mut self.found);
    }
}

#[cfg(unix)]
fn modified(metadata: &fs::Metadata) -> Modified {
    use std::os::unix::fs::MetadataExt;
    (metadata.mtime(), metadata.mtime_nsec())
}

#[cfg(not(unix))]
fn modified(metadata: &fs::Metadata) -> Modified {
    let since = metadata
        .modified()
        .ok()
        .and_then(|time| time.duration_since(std::time::UNIX_EPOCH).ok())
        .unwrap_or_default();
    (i64::try_from(since.as_secs()).unwrap_or(i64::MAX), i64::from(since.subsec_nanos()))
}
