//! The real binary in the hands of a real client, with a scripted model: scenarios by area, and the architecture.
//!
//! A scenario is arranged in data, played, and compared as a picture; see [`kit`]. Rows of the fault catalogue that a
//! test stands for are named in a comment above it (`T03`).

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::print_stderr, reason = "a test fails where it stands")]

mod kit;

mod cancel;
mod files;
mod load;
mod permissions;
mod prompt;
mod shell;
