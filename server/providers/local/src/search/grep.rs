//! Lines by regular expression, by ripgrep's rules. Source: `spec/tools-files-shell.md` §7, product decisions "grep".

use super::line::shown;
use super::stop::{Account, Stop};
use super::{n_threads, unsearchable};
use grep_matcher::Matcher;
use grep_regex::{RegexMatcher, RegexMatcherBuilder};
use grep_searcher::{BinaryDetection, Searcher, SearcherBuilder, Sink, SinkMatch};
use ignore::overrides::{Override, OverrideBuilder};
use ignore::{WalkBuilder, WalkState};
use services::file_search::{GrepFound, GrepMatch, GrepRequest, SearchError};
use std::fs::{self, File};
use std::io::{self, Read};
use std::path::Path;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Mutex, PoisonError};

/// Longest line a search takes into memory; a file with a longer one counts as unreadable.
const MAX_LINE_BYTES: usize = 128 * 1024 * 1024;

/// Finds every matching line. Blocks.
pub(super) fn grep(request: &GrepRequest, stop: &Stop) -> Result<GrepFound, SearchError> {
    let matcher = RegexMatcherBuilder::new()
        .multi_line(true)
        .line_terminator(Some(b'\n'))
        .build(&request.pattern)
        .map_err(|error| {
            SearchError::InvalidPattern(format!("the regular expression does not parse: {error}"))
        })?;
    let root = request.root.as_path();
    let include = request.include.as_deref().map(|glob| include(glob, root)).transpose()?;
    let metadata = fs::metadata(root).map_err(|error| unsearchable(root, &error))?;
    let search = Search {
        request,
        matcher,
        stop,
        found: Mutex::default(),
        n_kept_bytes: AtomicUsize::new(0),
        n_unreadable: AtomicU64::new(0),
    };
    if metadata.is_file() {
        File::open(root).map_err(|error| unsearchable(root, &error))?;
        search.thread().search(root);
    } else if metadata.is_dir() {
        fs::read_dir(root).map_err(|error| unsearchable(root, &error))?;
        search.walk(root, include);
    } else {
        return Err(SearchError::Failed(format!("{} is neither a file nor a folder", root.display())));
    }
    if stop.is_aborted() {
        return Err(SearchError::Aborted);
    }
    if stop.is_full() {
        return Err(SearchError::Overflow { max_bytes: request.max_total_bytes });
    }
    let mut found = search.found.into_inner().unwrap_or_else(PoisonError::into_inner);
    // Stable: the lines of a file stay in their order.
    found.sort_by(|a, b| a.path.as_os_str().cmp(b.path.as_os_str()));
    Ok(GrepFound { matches: found, n_unreadable: search.n_unreadable.into_inner(), partial: stop.is_spent() })
}

/// The files to search. As with ripgrep, a file this names is searched though it is ignored or hidden by its own name;
/// a folder that is ignored stays closed.
fn include(glob: &str, root: &Path) -> Result<Override, SearchError> {
    let mut builder = OverrideBuilder::new(root);
    let added = builder.add(glob).map(|_| ());
    added
        .and_then(|()| builder.build())
        .map_err(|error| SearchError::InvalidPattern(format!("the include pattern does not parse: {error}")))
}

/// One search, shared by its threads.
struct Search<'a> {
    request: &'a GrepRequest,
    matcher: RegexMatcher,
    stop: &'a Stop,
    found: Mutex<Vec<GrepMatch>>,
    n_kept_bytes: AtomicUsize,
    n_unreadable: AtomicU64,
}

impl Search<'_> {
    fn walk(&self, root: &Path, include: Option<Override>) {
        let mut builder = WalkBuilder::new(root);
        builder.follow_links(false).threads(n_threads());
        if self.request.search_ignored {
            builder.standard_filters(false);
        } else {
            builder.add_custom_ignore_filename(".rgignore");
        }
        if let Some(include) = include {
            builder.overrides(include);
        }
        builder.build_parallel().run(|| {
            let mut thread = self.thread();
            let mut account = Account::new(self.stop);
            Box::new(move |entry| {
                if account.enter() {
                    return WalkState::Quit;
                }
                match entry {
                    Ok(entry) if entry.file_type().is_some_and(|kind| kind.is_file()) => {
                        thread.search(entry.path());
                    }
                    Ok(_) => {}
                    Err(_) => {
                        self.n_unreadable.fetch_add(1, Ordering::Relaxed);
                    }
                }
                WalkState::Continue
            })
        });
    }

    fn thread(&self) -> Thread<'_> {
        let binary =
            if self.request.search_ignored { BinaryDetection::none() } else { BinaryDetection::quit(0) };
        let searcher = SearcherBuilder::new()
            .binary_detection(binary)
            .line_number(true)
            .heap_limit(Some(MAX_LINE_BYTES))
            .build();
        Thread { search: self, searcher, found: Vec::new() }
    }
}

/// One thread with its own buffers; what it found joins the rest when the thread ends.
struct Thread<'a> {
    search: &'a Search<'a>,
    searcher: Searcher,
    found: Vec<GrepMatch>,
}

impl Thread<'_> {
    fn search(&mut self, path: &Path) {
        let Self { search, searcher, found } = self;
        let searched = File::open(path).and_then(|file| {
            let reader = StoppableFile { file, stop: search.stop };
            searcher.search_reader(&search.matcher, reader, LineSink { search, path, found })
        });
        if searched.is_err() && !search.stop.is_due() {
            search.n_unreadable.fetch_add(1, Ordering::Relaxed);
        }
    }
}

impl Drop for Thread<'_> {
    fn drop(&mut self) {
        self.search.found.lock().unwrap_or_else(PoisonError::into_inner).append(&mut self.found);
    }
}

/// A file whose reading ends when the search has to.
struct StoppableFile<'a> {
    file: File,
    stop: &'a Stop,
}

impl Read for StoppableFile<'_> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        if self.stop.is_due_now() {
            return Err(io::Error::other("the search was stopped"));
        }
        self.file.read(buffer)
    }
}

/// Takes the matching lines of one file.
struct LineSink<'a> {
    search: &'a Search<'a>,
    path: &'a Path,
    found: &'a mut Vec<GrepMatch>,
}

impl Sink for LineSink<'_> {
    type Error = io::Error;

    fn matched(&mut self, _: &Searcher, matched: &SinkMatch<'_>) -> io::Result<bool> {
        let Search { request, matcher, stop, n_kept_bytes, .. } = self.search;
        let bytes = matched.bytes();
        let span = if bytes.len() <= request.max_line_bytes {
            (0, 0)
        } else {
            let found = matcher.find(bytes).map_err(io::Error::other)?;
            found.map_or((0, 0), |found| (found.start(), found.end()))
        };
        let line = shown(bytes, span, request.max_line_bytes);
        let n_bytes = line.len() + self.path.as_os_str().len();
        if n_kept_bytes.fetch_add(n_bytes, Ordering::Relaxed) + n_bytes > request.max_total_bytes {
            stop.fill();
            return Ok(false);
        }
        let line_number = matched.line_number().unwrap_or(0);
        self.found.push(GrepMatch { path: self.path.to_owned(), line_number, line });
        Ok(!stop.is_due())
    }
}
