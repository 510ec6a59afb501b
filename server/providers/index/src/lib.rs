//! The derived search index over the session logs: SQLite with FTS5.
//!
//! The logs are the truth; this file of texts can be deleted at any time and is made again by the next search. Reading
//! order: `file` opens or renews it, `take_in` brings it up to date, `search` asks it, `index` is the service. Only
//! the composition root and the command line name this crate; nothing here decides who may see which session.
//!
//! Source: product decisions, "session log"; `spec/tools-agentic.md` §12.1.

mod file;
mod index;
mod search;
mod take_in;
#[cfg(test)]
mod tests;
mod trouble;

pub use index::SqliteIndex;
