//! The Messages format of Anthropic.
//!
//! `request` writes what is sent, `decode` reads the stream. Neither does I/O.
//!
//! Sources: Claude API docs, "Messages", "Streaming", "Thinking", "Prompt caching".

mod decode;
mod request;

pub(crate) use decode::MessageDecoder;
pub(crate) use request::{MessagesRequest, headers};
