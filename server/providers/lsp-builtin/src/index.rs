//! What the files of a project define, by name: read at the first question, brought up to date at each.
//!
//! Ignored and hidden files are left out as a search leaves them out; links are not followed. Blocks: called by `answer` in
//! a blocking task.

use crate::languages::{self, Language};
use crate::syntax::{Definition, Source};
use ignore::WalkBuilder;
use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, PoisonError};
use std::time::SystemTime;
use tokio_util::sync::CancellationToken;
use tree_sitter::Parser;

/// Largest file that is read, in bytes.
pub const MAX_FILE: u64 = 1024 * 1024;
/// Most files that are read.
pub const MAX_FILES: usize = 20_000;
/// Most threads that read.
const MAX_THREADS: usize = 4;

/// The definitions of a project.
pub struct Index {
    root: PathBuf,
    max_files: usize,
    files: HashMap<PathBuf, Entry>,
    /// What was left out, for whoever reads an answer.
    notice: Option<String>,
}

/// One file.
pub struct Entry {
    stamp: Stamp,
    /// Its language.
    pub language: &'static Language,
    /// What it defines.
    pub definitions: Box<[Definition]>,
}

/// What changes with the text of a file.
#[derive(Clone, Copy, PartialEq, Eq)]
struct Stamp {
    modified: Option<SystemTime>,
    size: u64,
}

impl Index {
    /// Of a folder, of at most this many files; empty.
    pub fn new(root: PathBuf, max_files: usize) -> Self {
        Self { root, max_files, files: HashMap::new(), notice: None }
    }

    /// Its folder.
    pub fn root(&self) -> &Path {
        &self.root
    }

    /// Every file that was read.
    pub fn files(&self) -> impl Iterator<Item = (&PathBuf, &Entry)> {
        self.files.iter()
    }

    /// What was left out, for whoever reads an answer.
    pub fn notice(&self) -> Option<&str> {
        self.notice.as_deref()
    }

    /// Reads what is new or changed and forgets what is gone. Stopped early, it keeps what it has read.
    pub fn refresh(&mut self, cancel: &CancellationToken) {
        let mut present = HashMap::new();
        let (mut n_large, mut is_cut) = (0_usize, false);
        let mut builder = WalkBuilder::new(&self.root);
        builder.follow_links(false).add_custom_ignore_filename(".rgignore");
        for entry in builder.build() {
            if cancel.is_cancelled() {
                return;
            }
            let Ok(entry) = entry else { continue };
            if !entry.file_type().is_some_and(|kind| kind.is_file()) {
                continue;
            }
            let Some(language) = languages::of(entry.path()) else { continue };
            let Ok(found) = entry.metadata() else { continue };
            if found.len() > MAX_FILE {
                n_large += 1;
                continue;
            }
            if present.len() >= self.max_files {
                is_cut = true;
                break;
            }
            let stamp = Stamp { modified: found.modified().ok(), size: found.len() };
            present.insert(entry.into_path(), (language, stamp));
        }
        self.files.retain(|path, _| present.contains_key(path));
        let known =
            |path: &PathBuf, stamp: Stamp| self.files.get(path).is_some_and(|entry| entry.stamp == stamp);
        present.retain(|path, (_, stamp)| !known(path, *stamp));
        let todo: Vec<_> = present.into_iter().collect();
        self.files.extend(read_all(&todo, cancel));
        let mut left_out = Vec::new();
        if is_cut {
            left_out.push(format!("only the first {} source files of the folder were read", self.max_files));
        }
        if n_large > 0 {
            left_out.push(format!("{n_large} source files over 1 MiB were not read"));
        }
        self.notice = (!left_out.is_empty()).then(|| left_out.join("; "));
    }
}

fn read_all(
    todo: &[(PathBuf, (&'static Language, Stamp))],
    cancel: &CancellationToken,
) -> Vec<(PathBuf, Entry)> {
    let (next, done) = (AtomicUsize::new(0), Mutex::new(Vec::new()));
    let work = || {
        let mut parser = Parser::new();
        while let Some((path, (language, stamp))) = todo.get(next.fetch_add(1, Ordering::Relaxed)) {
            if cancel.is_cancelled() {
                return;
            }
            let definitions = definitions(&mut parser, path, language, cancel);
            // A file whose reading was stopped is read at the next question.
            if !cancel.is_cancelled() {
                let entry = Entry { stamp: *stamp, language, definitions: definitions.into() };
                done.lock().unwrap_or_else(PoisonError::into_inner).push((path.clone(), entry));
            }
        }
    };
    let n_threads =
        std::thread::available_parallelism().map_or(1, usize::from).min(MAX_THREADS).min(todo.len() / 8 + 1);
    std::thread::scope(|scope| {
        for _ in 1..n_threads {
            scope.spawn(work);
        }
        work();
    });
    done.into_inner().unwrap_or_else(PoisonError::into_inner)
}

fn definitions(
    parser: &mut Parser,
    path: &Path,
    language: &'static Language,
    cancel: &CancellationToken,
) -> Vec<Definition> {
    let Some(text) = read(path) else { return Vec::new() };
    Source::parse(parser, language, &text, cancel).map(|source| source.definitions()).unwrap_or_default()
}

/// The text of a file; `None` when it is gone, too large or no text.
pub fn read(path: &Path) -> Option<String> {
    let size = std::fs::symlink_metadata(path).ok().filter(std::fs::Metadata::is_file)?.len();
    (size <= MAX_FILE).then(|| std::fs::read_to_string(path).ok())?
}

#[cfg(test)]
mod tests {
    use super::*;

    fn names(index: &Index) -> Vec<&str> {
        let mut names: Vec<_> = index
            .files()
            .flat_map(|(_, entry)| &entry.definitions)
            .map(|definition| &*definition.name)
            .collect();
        names.sort_unstable();
        names
    }

    #[test]
    fn ignored_large_and_foreign_files_are_left_out_and_changes_are_seen() {
        let folder = tempfile::tempdir().unwrap();
        let put = |path: &str, text: &str| {
            let path = folder.path().join(path);
            std::fs::create_dir_all(path.parent().unwrap()).unwrap();
            std::fs::write(path, text).unwrap();
        };
        put(".ignore", "target\n");
        put("target/a.rs", "fn ignored() {}");
        put("a.rs", "fn one() {}");
        put("b.txt", "fn foreign() {}");
        put("c.rs", &format!("fn large() {{}}\n{}", " ".repeat(MAX_FILE as usize)));
        let never = CancellationToken::new();
        let mut index = Index::new(folder.path().to_owned(), 10);
        index.refresh(&never);
        assert_eq!(names(&index), ["one"]);
        assert_eq!(index.notice(), Some("1 source files over 1 MiB were not read"));
        std::fs::remove_file(folder.path().join("c.rs")).unwrap();
        put("a.rs", "fn another() {}");
        put("d.py", "def two(): pass");
        index.refresh(&never);
        assert_eq!((names(&index), index.notice()), (vec!["another", "two"], None));
    }

    #[test]
    fn more_files_than_the_bound_are_told_and_a_stopped_reading_goes_on_later() {
        let folder = tempfile::tempdir().unwrap();
        for number in 0..5 {
            std::fs::write(folder.path().join(format!("{number}.rs")), "fn x() {}").unwrap();
        }
        let mut index = Index::new(folder.path().to_owned(), 3);
        let stopped = CancellationToken::new();
        stopped.cancel();
        index.refresh(&stopped);
        assert_eq!(names(&index).len(), 0);
        index.refresh(&CancellationToken::new());
        assert_eq!(names(&index).len(), 3);
        assert_eq!(index.notice(), Some("only the first 3 source files of the folder were read"));
    }
}
