//! Cards: how a call and its result are meant to look, in terms of no client.
//!
//! A [`CallCard`] is made from the arguments alone, a [`ResultCard`] from the arguments and the durable result.
//! Both are pure and never stored; replay makes them again. A result card *replaces* the call card's content.
//! The unions are closed: a new card needs a new presenter.
//!
//! Source: seed on the tool pipeline, UI presentation types; `spec/presentation.md` §2–4.

mod diff;
mod generic;
mod read;
mod search;
mod terminal;
mod web;

pub use diff::{DiffCall, DiffResult, FileDiff, WholeFile};
pub use generic::{GenericCall, GenericResult};
pub use read::{ReadFileLine, ReadResult};
pub use search::{SearchFileMatches, SearchHits, SearchLineMatch, SearchResult};
pub use terminal::{ExitState, TerminalCall, TerminalResult};
pub use web::{WebFetch, WebResult, WebSearch, WebSource};

/// What a call looks like while it is pending or runs.
#[derive(Clone, Debug, PartialEq)]
pub enum CallCard {
    /// Title, kind and salient input.
    Generic(GenericCall),
    /// A command.
    Terminal(TerminalCall),
    /// Changes to files.
    Diff(DiffCall),
}

impl CallCard {
    /// The title, complete on its own.
    pub fn title(&self) -> &str {
        match self {
            Self::Generic(card) => &card.title,
            Self::Terminal(card) => &card.title,
            Self::Diff(card) => &card.title,
        }
    }
}

/// What a completed call looks like.
#[derive(Clone, Debug, PartialEq)]
pub enum ResultCard {
    /// A title or content of its own.
    Generic(GenericResult),
    /// The output and exit of a command.
    Terminal(TerminalResult),
    /// The changes as they were made.
    Diff(DiffResult),
    /// Matches or paths.
    Search(SearchResult),
    /// A window of a file.
    Read(ReadResult),
    /// Search results or a page of the web.
    Web(WebResult),
}

/// What kind of work a call does; picks an icon.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum ToolCallKind {
    /// Reads something.
    Read,
    /// Changes a file.
    Edit,
    /// Removes something.
    Delete,
    /// Moves or renames something.
    Move,
    /// Searches.
    Search,
    /// Runs code or a command.
    Execute,
    /// Plans or reasons.
    Think,
    /// Gets something from outside.
    Fetch,
    /// Switches the mode of the session.
    SwitchMode,
    /// Anything else.
    #[default]
    Other,
}

/// A place in a file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FileLocation {
    /// Path as the model gave it; absolute or relative to the session's folder.
    pub path: String,
    /// 1-based line; `None` means the file as a whole.
    pub line: Option<u64>,
}

impl FileLocation {
    /// The place `line` (1-based) of `path`.
    pub fn new(path: impl Into<String>, line: Option<u64>) -> Self {
        Self { path: path.into(), line }
    }
}
