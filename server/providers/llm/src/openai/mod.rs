//! Chat Completions, the format that DeepSeek, OpenAI, OpenRouter, Ollama and most servers speak.
//!
//! `request` writes what is sent, `decode` reads the stream. Neither does I/O.
//!
//! Sources: OpenAI API reference, "Chat"; DeepSeek API, "Thinking Mode"; OpenRouter, "Reasoning Tokens".

mod decode;
mod request;

pub(crate) use decode::ChatDecoder;
pub(crate) use request::{ChatRequest, headers};
