//! Rules about calls, one file each. Who composes a deployment adds them to the registry; the order is in `README.md`.

pub mod hooks;
pub mod observation;
pub mod permission;
pub mod repeat;
pub mod shell_line;
pub mod spill;
pub mod timeout;
