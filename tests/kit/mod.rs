//! What scenarios are made of: the real binary, a scripted model on loopback, a real client around it.
//!
//! Reading order: [`scenario`] arranges and plays; [`editor`] with [`files`] and [`terminals`] is the client;
//! [`process`] is the agent; [`wire`] records, [`transcript`] draws, [`conformance`] judges, with the
//! official [`schema`]; [`history`] judges what providers are sent.

pub mod conformance;
pub mod editor;
pub mod files;
pub mod history;
pub mod process;
pub mod scenario;
pub mod schema;
pub mod terminals;
pub mod transcript;
pub mod wire;

pub use editor::{ClientKind, Decision, Fault, Habits, allow_always, allow_once, reject_once};
pub use history::history_faults;
pub use provider_llm::scripted::{Fault as ModelFault, Gate, calls, fails, says, thinks};
pub use scenario::{DEADLINE, Pending, Scenario, Stage, scenario, with_scripted_model};
pub use transcript::Detail;
pub use wire::Side;
