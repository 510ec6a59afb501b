//! Agents that an agent starts: children with a session, a log and a turn of their own.
//!
//! Called by the tools of the family `subagent` and by programs that delegate; implemented by the agent, which owns sessions.
//! Each value speaks for one session: its children, and its parent. Source: `spec/tools-agentic.md` §7–9.

use async_trait::async_trait;
use protocol::id::{CallId, MessageId, SessionId};
use protocol::tool::ToolFailure;
use serde_json::Value;
use tokio_util::sync::CancellationToken;

/// How many delegations deep an agent may be. Source: `spec/tools-agentic.md` §7, `maxDepth`.
pub const MAX_DEPTH: u32 = 3;

/// Most children of one top session that live at a time, at any depth.
pub const MAX_LIVE: usize = 64;

/// Name of the tool by which a structured child gives its value.
pub const STRUCTURED_OUTPUT: &str = "structured_output";

/// The family of one session.
#[async_trait]
pub trait Subagents: Send + Sync {
    /// Runs a child to its end and lets go of it. When `cancel` is cancelled it is stopped and waited for.
    ///
    /// # Errors
    /// The child could not be started; how it ended is a value.
    async fn run(&self, child: NewChild, cancel: &CancellationToken) -> Result<ChildEnd, SubagentError>;

    /// Starts a child that works on beside its parent and can be given further messages. Returns when it has accepted its
    /// prompt; from then on no call's cancellation touches it.
    ///
    /// # Errors
    /// The child could not be started.
    async fn start(&self, child: NewChild) -> Result<SessionId, SubagentError>;

    /// Gives a direct child its next turn; one that has settled is opened again.
    ///
    /// # Errors
    /// The message was not delivered.
    async fn send(&self, id: &SessionId, message: String) -> Result<MessageId, SubagentError>;

    /// Ends the present turn of a descendant and leaves the rest of it alone. Without such a turn nothing happens.
    ///
    /// # Errors
    /// `Unauthorized` when it is this agent itself or no descendant of it.
    async fn interrupt(&self, id: &SessionId) -> Result<(), SubagentError>;

    /// The continuable children, or all descendants in pre-order; by the time they were made.
    ///
    /// # Errors
    /// The store could not be read.
    async fn list(&self, descendants: bool) -> Result<Vec<AgentEntry>, SubagentError>;

    /// Tells the parent something before this child has ended.
    ///
    /// # Errors
    /// This agent is no continuable child, or its parent is gone.
    async fn report(&self, output: String) -> Result<MessageId, SubagentError>;
}

/// A child to start.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct NewChild {
    /// What it does, a few words for people.
    pub label: String,
    /// What it is to do.
    pub prompt: String,
    /// Whether it begins with the parent's settled turns.
    pub is_fork: bool,
    /// The call whose card shows it; `None` shows it nowhere.
    pub call_id: Option<CallId>,
    /// Names of the only tools it may use; `None` is all.
    pub allow: Option<Vec<String>>,
    /// Names of tools it may not use.
    pub deny: Option<Vec<String>>,
    /// Schema of the object it must give; `None` asks for none.
    pub output_schema: Option<Value>,
    /// The model it uses, `provider/model`; `None` is the parent's.
    pub model: Option<String>,
}

/// How a child ended.
#[derive(Clone, Debug, PartialEq)]
pub struct ChildEnd {
    /// Its session, which stays stored.
    pub session: SessionId,
    /// Why it stopped.
    pub stop: ChildStop,
    /// What went wrong, for the parent.
    pub diagnostic: Option<String>,
    /// The last that it said; may be empty.
    pub text: String,
    /// The object it gave, when one was asked for and it has completed.
    pub value: Option<Value>,
}

/// Why a child stopped.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ChildStop {
    /// It had said all.
    Completed,
    /// An answer hit the output cap.
    MaxTokens,
    /// It was stopped.
    Aborted,
    /// It, or a hook, refused.
    Refusal,
    /// It failed.
    Error,
}

impl ChildStop {
    /// The word for the end of a child that worked beside its parent.
    pub fn word(self) -> &'static str {
        match self {
            Self::Completed => "finished",
            Self::MaxTokens => "ran out of room",
            Self::Aborted => "was stopped",
            Self::Refusal => "declined",
            Self::Error => "failed",
        }
    }
}

/// A child as it is listed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AgentEntry {
    /// Its session.
    pub id: SessionId,
    /// What is known of it.
    pub state: AgentState,
    /// The session it is a child of.
    pub parent: SessionId,
    /// 1 for a direct child.
    pub depth: u32,
}

/// What is known of a listed child.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum AgentState {
    /// It runs a turn.
    Running {
        /// What it does.
        label: String,
    },
    /// It waits.
    Idle {
        /// What it does.
        label: String,
    },
    /// It has settled, and a message opens it again.
    Ready {
        /// What it did.
        label: String,
    },
    /// Its log cannot be understood.
    Corrupt,
    /// Its log is of another version.
    Unsupported,
    /// Its log cannot be read now.
    Unavailable,
}

/// Why nothing was done. Codes are the seed's.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum SubagentError {
    /// Too deep.
    #[error(
        "a delegation at depth {attempted} is not possible: {MAX_DEPTH} is the deepest; do the work yourself"
    )]
    TooDeep {
        /// The depth it would have had.
        attempted: u32,
    },
    /// Too many live.
    #[error("{MAX_LIVE} agents live already; wait for one to end, or interrupt one")]
    TooMany,
    /// The caller may not.
    #[error("{0}")]
    Unauthorized(String),
    /// There is no such child that could be continued.
    #[error("{0}")]
    NotResumable(String),
    /// The parent of a reporting child is gone.
    #[error("the agent that delegated is not there any more; put what you have to say into your last answer")]
    ParentUnavailable,
    /// The session ends.
    #[error("this session is closing; nothing can be delegated or delivered any more")]
    Draining,
    /// A tool that the child is limited to does not exist.
    #[error("{0}")]
    Unsupported(String),
    /// The child cannot be stored.
    #[error("the child cannot be stored: {0}")]
    PersistenceUnavailable(String),
}

impl From<SubagentError> for ToolFailure {
    fn from(error: SubagentError) -> Self {
        let code = match &error {
            SubagentError::TooDeep { .. } | SubagentError::TooMany => {
                return Self::plain(error.to_string());
            }
            SubagentError::Unauthorized(_) => "UNAUTHORIZED",
            SubagentError::NotResumable(_) => "NOT_RESUMABLE",
            SubagentError::ParentUnavailable => "PARENT_UNAVAILABLE",
            SubagentError::Draining => "DRAINING",
            SubagentError::Unsupported(_) => "UNSUPPORTED_CAPABILITY",
            SubagentError::PersistenceUnavailable(_) => "PERSISTENCE_UNAVAILABLE",
        };
        Self::coded("SubagentError", code, error.to_string())
    }
}
