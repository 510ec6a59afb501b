//! A model on loopback that says what a test wrote for it, with faults as named behaviours.
//!
//! For tests only (feature `scripted`): a server on plain threads, so that it works under any test and any clock. It
//! answers `…/chat/completions` and `…/messages`, keeps each request for assertions, and holds a reply at a [`Gate`].
//!
//! ```ignore
//! let (base_url, model) = ScriptedModel::start(vec![
//!     says("Reading.").calls("read", json!({"file_path": "a.rs"})),
//!     says("Done.").usage(120, 7),
//! ])?;
//! // … run the program with OPENAI_BASE_URL=<base_url> …
//! assert_eq!(model.requests().len(), 2);
//! ```

mod reply;
mod server;
mod write;

pub use reply::{Fault, Gate, Reply, calls, fails, says, thinks};
pub use server::{Received, ScriptedModel};
