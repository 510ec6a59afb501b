//! Rules about calls, one file each.

pub mod observation;
