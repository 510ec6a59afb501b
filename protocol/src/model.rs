//! A model request and the chunks of its answer, in terms of no provider.

use crate::message::{AssistantMessage, ToolResultMessage, UserMessage};
use crate::tool::ToolSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use std::fmt;

/// Names one model of one provider, written `provider/model`.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct ModelRef {
    /// Provider, for instance `deepseek`.
    pub provider: String,
    /// Model as the provider names it; may contain slashes.
    pub model: String,
}

impl ModelRef {
    /// Parses `provider/model`; `None` without a slash or with an empty side.
    pub fn parse(text: &str) -> Option<Self> {
        let (provider, model) = text.split_once('/')?;
        (!provider.is_empty() && !model.is_empty())
            .then(|| Self { provider: provider.to_owned(), model: model.to_owned() })
    }
}

impl fmt::Display for ModelRef {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.provider, self.model)
    }
}

/// What is known about one model. Catalogues are advisory: unlisted ids pass through.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ModelInfo {
    /// Which model.
    pub id: ModelRef,
    /// Name to show.
    pub display_name: String,
    /// Whether it takes images; `None` is unknown and counts as no.
    pub takes_images: Option<bool>,
    /// Context window in tokens; `None` when unknown.
    pub context_window: Option<u64>,
    /// Cap on output tokens that requests ask for; `None` leaves it to the provider.
    pub max_output_tokens: Option<u64>,
    /// Thinking efforts it offers, in order, default first in [`ModelInfo::default_effort`]; empty when none.
    pub efforts: Vec<String>,
    /// Effort used when the session chose none.
    pub default_effort: Option<String>,
    /// US dollars per million tokens; `None` when unknown.
    pub price: Option<Price>,
}

/// US dollars per million tokens.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Price {
    /// Uncached input.
    pub input: f64,
    /// Output, reasoning included.
    pub output: f64,
    /// Input read from the cache.
    pub cache_read: f64,
}

impl Price {
    /// US dollars for these tokens. Input that was written to the cache is priced as input.
    #[expect(clippy::cast_precision_loss, reason = "an amount to show")]
    pub fn of(&self, usage: &Usage) -> f64 {
        let input = (usage.input_tokens + usage.cache_write_tokens) as f64 * self.input;
        let rest =
            usage.cache_read_tokens as f64 * self.cache_read + usage.output_tokens as f64 * self.output;
        (input + rest) / 1e6
    }
}

/// One request to a model: one attempt; retries are the caller's.
#[derive(Clone, Debug)]
pub struct ModelRequest {
    /// Which model.
    pub model: ModelRef,
    /// Thinking effort; `None` is the model's default.
    pub effort: Option<String>,
    /// The system prompt.
    pub system: String,
    /// The conversation so far, in order.
    pub messages: Vec<HistoryMessage>,
    /// Tools on offer, in stable order.
    pub tools: Vec<ToolSchema>,
    /// Cap on output tokens; `None` is the model's own.
    pub max_tokens: Option<u64>,
    /// The session's folder, absolute, for the offline model; other providers ignore it.
    pub cwd: std::path::PathBuf,
}

/// One message of the history a request carries.
#[derive(Clone, Debug, PartialEq)]
pub enum HistoryMessage {
    /// User role.
    User(UserMessage),
    /// Assistant role.
    Assistant(AssistantMessage),
    /// The result of a call of the assistant message before.
    ToolResult(ToolResultMessage),
}

/// One chunk of a model's answer. `Usage` comes before `Finish`, nothing after it.
#[derive(Clone, Debug, PartialEq)]
pub enum ModelChunk {
    /// More text for the user.
    Text(String),
    /// More reasoning.
    Reasoning(String),
    /// What must be sent back with the reasoning block that ends here.
    ReasoningReplay(Value),
    /// More of a tool call.
    ToolCall {
        /// Which call of this answer, from 0.
        index: usize,
        /// The provider's id; empty when this chunk brings none.
        id: String,
        /// The tool's name; empty when this chunk brings none.
        name: String,
        /// More of the raw argument text.
        arguments: String,
    },
    /// Tokens used, so far or in all.
    Usage(Usage),
    /// The answer is complete.
    Finish(FinishReason),
}

/// Why a model stopped.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum FinishReason {
    /// It had said all.
    Stop,
    /// It wants its calls run.
    ToolCalls,
    /// The output cap; the answer is cut and its calls are dropped.
    MaxTokens,
    /// The provider refused to go on (content filter, refusal).
    Refusal,
}

/// Tokens of one request, in disjoint buckets.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Usage {
    /// Input that was not cached.
    pub input_tokens: u64,
    /// Output, reasoning included.
    pub output_tokens: u64,
    /// Input read from the provider's cache.
    #[serde(default)]
    pub cache_read_tokens: u64,
    /// Input written to the provider's cache.
    #[serde(default)]
    pub cache_write_tokens: u64,
    /// Reasoning; part of `output_tokens`.
    #[serde(default)]
    pub reasoning_tokens: u64,
}

impl Usage {
    /// Counts another request in.
    pub fn add(&mut self, other: &Self) {
        self.input_tokens += other.input_tokens;
        self.output_tokens += other.output_tokens;
        self.cache_read_tokens += other.cache_read_tokens;
        self.cache_write_tokens += other.cache_write_tokens;
        self.reasoning_tokens += other.reasoning_tokens;
    }

    /// Tokens the context holds after this request.
    pub fn context_tokens(&self) -> u64 {
        self.input_tokens + self.output_tokens + self.cache_read_tokens + self.cache_write_tokens
    }
}
