//! A client of language servers: what the `lsp` tool asks is answered by the servers people already have.
//!
//! Reading order: [`table`] (the servers as data), [`session`] (a query from beginning to end), `pool` (one server per
//! root), `client` (one server), `documents` (what it knows of our texts), `translate` and `position` (what it answers).
//! The types of the protocol stay in here. Only `compose` in the server, and its sessions, name these types.

mod after_edit;
mod client;
mod diagnostics;
mod documents;
mod files;
mod guard;
mod handshake;
mod inbound;
mod place;
pub mod pool;
mod position;
mod process;
mod readiness;
pub mod session;
pub mod table;
mod translate;
mod watching;

pub use client::Serve;
pub use files::TellingFiles;
pub use place::{Program, program as find_program};
pub use pool::{Fallback, Pool};
pub use session::{SessionParts, SessionServers};
pub use table::{ServerChange, ServerSpec};

use std::time::Duration;

/// Budgets and pauses.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LspOptions {
    /// For the answer to `initialize`.
    pub initialize_timeout: Duration,
    /// For all answers of one query.
    pub request_timeout: Duration,
    /// How long a poor answer of a loading server is asked again.
    pub readiness_budget: Duration,
    /// How long a server that says nothing about its loading counts as loading.
    pub settle: Duration,
    /// After how long without a query a server ends.
    pub idle: Duration,
    /// For ending a server politely.
    pub shutdown: Duration,
    /// Pause after the second failure in a row; doubled each time.
    pub pause: Duration,
}

impl Default for LspOptions {
    fn default() -> Self {
        Self {
            initialize_timeout: Duration::from_secs(15),
            request_timeout: Duration::from_secs(40),
            readiness_budget: Duration::from_secs(15),
            settle: Duration::from_millis(1500),
            idle: Duration::from_secs(600),
            shutdown: Duration::from_secs(1),
            pause: Duration::from_secs(5),
        }
    }
}
