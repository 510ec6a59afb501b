//! How one tool call runs: policies, the tool, its output contract, and the order of it all.
//!
//! * [`tool`]: what a tool is; [`typed`]: tools whose schemas come from Rust types.
//! * [`context`]: what a body can reach; [`host`]: what the pipeline asks of the session around it.
//! * [`registry`]: which tools, guards, policies and executors there are, by layer.
//! * [`policy`]: what a policy is; [`policies`]: one file a policy.
//! * [`programs`]: the calls a program makes; [`sdk`]: what the model is told about them.
//! * [`call`] and [`run`]: one call through its stages; [`schedule`]: a batch of them.

#![deny(missing_docs)]

mod approval;
pub mod call;
mod caught;
pub mod context;
#[cfg(any(test, feature = "fake"))]
pub mod fake;
pub mod host;
mod output;
pub mod policies;
pub mod policy;
pub mod programs;
pub mod registry;
pub mod run;
pub mod schedule;
pub mod sdk;
pub mod source;
#[cfg(test)]
mod tests;
pub mod tool;
pub mod typed;
