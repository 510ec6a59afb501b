//! The client against a server that misbehaves on demand, and against real ones.
//!
//! Rows of the fault catalogue that a test stands for are named in a comment above it (`L02`).

#![allow(clippy::unwrap_used, clippy::expect_used, reason = "a test fails where it stands")]

mod diagnostics;
mod faults;
mod kit;
mod life;
mod real;
