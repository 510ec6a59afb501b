//! Messages: what a user, a model or a tool said, and where it came from.

use crate::content::ContentBlock;
use crate::id::{CallId, MessageId};
use crate::model::ModelRef;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use std::path::PathBuf;

/// A message in the user role. Not every one was typed by a person; see [`MessageSource`].
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct UserMessage {
    /// Stable identity; duplicates are refused.
    pub id: MessageId,
    /// What it says, in order.
    pub content: Vec<ContentBlock>,
    /// Who put it there.
    pub source: MessageSource,
}

/// Who put a user-role message into the conversation.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "kebab-case")]
pub enum MessageSource {
    /// The person. The only source that is shown as user speech.
    User,
    /// A part of this program.
    Plugin {
        /// Name of the part, for instance `repeat-reminder`.
        plugin: String,
        /// What the text is to the model.
        form: ContextForm,
    },
    /// Workspace instructions (`AGENTS.md` and its kin).
    AgentInstructions {
        /// What it says about which files.
        #[serde(default)]
        changes: Vec<InstructionChange>,
    },
    /// The skills that are there.
    SkillCatalog {
        /// Every skill of the list, by name.
        entries: Vec<SkillEntry>,
    },
    /// A skill the user or the model invoked.
    SkillInvocation {
        /// Name of the skill.
        skill: String,
    },
    /// A child agent's report or settlement.
    Subagent {
        /// Identity of the child's session.
        session: String,
    },
    /// The agent that delegated, to this child of it.
    Coordinator {
        /// The session of the agent that wrote it.
        session: String,
    },
    /// The goal that drives the session: a round of work for it.
    #[serde(rename_all = "camelCase")]
    Goal {
        /// The goal.
        goal_id: String,
        /// Its revision when the round began.
        revision: u64,
        /// Number of the round, from 1.
        round: u64,
    },
    /// The summary that stands for compacted history.
    Checkpoint,
}

impl MessageSource {
    /// Whether it is what the agent is to do: the person's words, or for a child those of the agent that delegated.
    pub fn is_prompt(&self) -> bool {
        matches!(self, Self::User | Self::Coordinator { .. })
    }
}

/// A file of workspace instructions that is in force from now on, or no longer.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct InstructionChange {
    /// The file, absolute.
    pub path: PathBuf,
    /// Version of its content; `None` is a file that went away.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub digest: Option<String>,
}

/// A skill as the model was told of it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct SkillEntry {
    /// Its name.
    pub name: String,
    /// What it is for, one line.
    pub description: String,
}

/// What injected context is to the model.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum ContextForm {
    /// Standing instructions.
    Instructions,
    /// A list of things available.
    Catalog,
    /// The present state of something; supersedes earlier snapshots.
    Snapshot,
    /// A short notice.
    Notice,
    /// Something passed on from elsewhere.
    Relay,
    /// Something recalled from the past.
    Recall,
}

/// A message of the model.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct AssistantMessage {
    /// Stable identity, the same live and on every load.
    pub id: MessageId,
    /// What it said, in order.
    pub blocks: Vec<AssistantBlock>,
    /// The model that said it.
    pub model: ModelRef,
}

impl AssistantMessage {
    /// The calls it makes, in order.
    pub fn calls(&self) -> impl Iterator<Item = &RequestedCall> {
        self.blocks.iter().filter_map(|block| match block {
            AssistantBlock::ToolCall(call) => Some(call),
            _ => None,
        })
    }
}

/// One block of a model's message.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "type", rename_all = "kebab-case")]
pub enum AssistantBlock {
    /// Text for the user, Markdown.
    Text {
        /// The text.
        text: String,
    },
    /// Reasoning shown as a thought.
    Reasoning {
        /// The reasoning; may be empty when the provider hides it.
        text: String,
        /// What the provider wants back unchanged (a signature, redacted data); `None` when nothing.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        replay: Option<Value>,
    },
    /// A tool call.
    ToolCall(RequestedCall),
}

/// A tool call as the model asked for it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct RequestedCall {
    /// Our own identity, unique in the session.
    pub id: CallId,
    /// The provider's identity, only for pairing calls and results in requests to it.
    pub provider_id: String,
    /// Name of the tool as the model wrote it.
    pub name: String,
    /// Arguments as raw text; empty means `{}`.
    pub arguments: String,
}

/// The result of a call as the model reads it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ToolResultMessage {
    /// The call this answers.
    pub call_id: CallId,
    /// What the model reads, in order; never empty.
    pub content: Vec<ContentBlock>,
    /// Whether the tool could not do its job.
    pub is_error: bool,
}
