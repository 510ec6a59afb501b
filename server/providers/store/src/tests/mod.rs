//! Tests of the store as its callers see it.

mod crash;
mod property;
pub(crate) mod samples;
mod sessions;
mod speed;
