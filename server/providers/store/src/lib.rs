//! Sessions on disk: one append-only JSON Lines file a session.
//!
//! Reading order: `place` says where things are, `line` what a line is, `read` what a log holds, `part` what it holds
//! more than before, `repair` how
//! an interrupted turn is closed, `log` how a record is appended, `blobs` the texts beside it, `summary` one line
//! of a session list, `store` the whole. Only the composition root and the command line name this crate; everybody
//! else knows `services::session_store`.
//!
//! Source: product decisions, "session log"; `spec/runtime.md` §2–3.

mod blobs;
mod line;
mod log;
mod part;
mod place;
mod read;
mod repair;
mod store;
mod summary;
#[cfg(test)]
mod tests;

pub use store::JsonlSessionStore;
