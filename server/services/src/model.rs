//! Language models.

use async_trait::async_trait;
use futures::stream::BoxStream;
use protocol::model::{ModelChunk, ModelInfo, ModelRef, ModelRequest};
use std::time::Duration;

/// Every model that can be chosen.
#[async_trait]
pub trait Models: Send + Sync {
    /// Models to offer, the default first. No network.
    fn list(&self) -> Vec<ModelInfo>;

    /// What is known about a model; unlisted ids get what the provider's family implies.
    fn info(&self, model: &ModelRef) -> ModelInfo;

    /// The model a new session starts with.
    fn default_model(&self) -> ModelRef;

    /// Whether a request to this model could be made now: credentials are read afresh.
    ///
    /// # Errors
    /// [`ModelError`] of kind `Auth` with what to do.
    fn check(&self, model: &ModelRef) -> Result<(), ModelError>;

    /// Sends one request: one attempt. The stream ends after `Finish` or after one error. An event-level idle budget
    /// ends a stream that goes quiet (`Timeout`).
    ///
    /// # Errors
    /// [`ModelError`], in the provider's own words.
    ///
    /// # Cancellation
    /// Dropping the future or the stream closes the connection.
    async fn stream(
        &self,
        request: ModelRequest,
    ) -> Result<BoxStream<'static, Result<ModelChunk, ModelError>>, ModelError>;
}

/// Why a request failed.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{message}")]
pub struct ModelError {
    /// What kind of failure; decides about retries.
    pub kind: ModelErrorKind,
    /// Provider, status and reason in the provider's own words, and what to do.
    pub message: String,
    /// HTTP status, when there was one.
    pub status: Option<u16>,
    /// How long the provider asks to wait.
    pub retry_after: Option<Duration>,
}

/// Kinds of model failures.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ModelErrorKind {
    /// Key missing or refused.
    Auth,
    /// Too many requests.
    RateLimit,
    /// The provider failed.
    Server,
    /// No event in time.
    Timeout,
    /// The connection failed or broke.
    Transport,
    /// The answer held nothing.
    EmptyResponse,
    /// The conversation is longer than the model takes.
    ContextWindowExceeded,
    /// The model does not take something in the request.
    UnsupportedContent,
    /// The provider refused the request for any other reason.
    BadRequest,
}

impl ModelErrorKind {
    /// The code in the log.
    pub fn code(self) -> &'static str {
        match self {
            Self::Auth => "AUTH",
            Self::RateLimit => "RATE_LIMIT",
            Self::Server => "SERVER",
            Self::Timeout => "TIMEOUT",
            Self::Transport => "TRANSPORT",
            Self::EmptyResponse => "EMPTY_RESPONSE",
            Self::ContextWindowExceeded => "CONTEXT_WINDOW_EXCEEDED",
            Self::UnsupportedContent => "UNSUPPORTED_CONTENT",
            Self::BadRequest => "BAD_REQUEST",
        }
    }

    /// Whether trying again can help.
    pub fn is_transient(self) -> bool {
        matches!(self, Self::RateLimit | Self::Server | Self::Timeout | Self::Transport | Self::EmptyResponse)
    }
}
