//! Language models: every provider, and the embedded one that needs none.
//!
//! Reading order: [`endpoint`] says where a provider is, [`credentials`] where its key is, [`history_repair`] makes any
//! history one that providers take, `openai` and `anthropic` are the two wire formats, `http`, `stream` and `sse` carry
//! them, `offline` is the model without a network. One request is one attempt; retries are the caller's.
//!
//! Nothing here touches the network, TLS or the disk before the first request, but for the credentials file.

#![deny(missing_docs)]

mod anthropic;
mod catalogue;
mod content;
mod credentials;
mod endpoint;
mod failure;
mod history_repair;
mod http;
mod models;
mod offline;
mod openai;
#[cfg(any(test, feature = "scripted"))]
pub mod scripted;
mod sse;
mod stream;

pub use credentials::{Credentials, Secret, store_key};
pub use endpoint::{ProviderConfig, ProviderKind, built_in_providers};
pub use models::{LlmConfig, LlmModels};

#[cfg(test)]
mod faults_tests;
