//! How one tool call runs: policies, the tool, its output contract, and the order of it all.
//!
//! * [`tool`]: what a tool is; [`typed`]: tools whose schemas come from Rust types.
//! * [`context`]: what a body can reach; [`host`]: what the pipeline asks of the session around it.
//! * [`policies`]: one file a policy.

#![deny(missing_docs)]

pub mod context;
#[cfg(any(test, feature = "fake"))]
pub mod fake;
pub mod host;
pub mod policies;
pub mod tool;
pub mod typed;
