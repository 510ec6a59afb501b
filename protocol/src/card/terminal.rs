//! The terminal card: a command, its output and how it ended.

/// A command that is about to run or runs.
#[derive(Clone, Debug, PartialEq)]
pub struct TerminalCall {
    /// The command.
    pub title: String,
    /// One line about it, shown above the terminal.
    pub description: Option<String>,
    /// Folder it runs in; relative ones join the session's folder, `None` is the session's folder.
    pub cwd: Option<String>,
}

/// A command that ended.
#[derive(Clone, Debug, PartialEq)]
pub struct TerminalResult {
    /// Replaces the pending title; `None` keeps it.
    pub title: Option<String>,
    /// What it printed, without the exit marker.
    pub output: String,
    /// How it ended.
    pub exit: ExitState,
}

/// How a command ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ExitState {
    /// It exited with this code.
    Code(i32),
    /// This signal ended it.
    Signal(String),
    /// Not known.
    Unknown,
}
