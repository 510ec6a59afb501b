//! The real binary in the hands of a real client, with a scripted model: scenarios by area, and the architecture.
//!
//! A scenario is arranged in data, played, and compared as a picture; see [`kit`]. Rows of the fault catalogue that a
//! test stands for are named in a comment above it (`T03`).

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::print_stderr,
    reason = "a test fails where it stands"
)]

mod kit;

mod architecture;
mod bytes;
mod cancel;
mod code_mode;
mod compaction;
mod conversation;
mod editors;
mod file_cases;
mod files;
mod goals;
mod hooks;
mod images;
mod jobs;
mod kills;
mod load;
mod lsp;
mod mcp;
mod models;
mod official_clients;
mod permissions;
mod plan;
mod prompt;
mod protocol;
mod schedules;
mod search;
mod session_query;
mod shell;
mod storage;
mod subagents;
mod terminals;
mod titles;
mod web;
mod workflow;
