//! The pipeline's behaviour, case by case, on services in memory.

mod approvals;
mod batches;
pub(crate) mod kit;
mod policies;
mod programs;
mod properties;
mod stages;
