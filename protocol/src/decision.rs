//! What policies decide about a call, and what a person answers.

use crate::card::FileDiff;
use crate::content::ContentBlock;
use crate::id::{CallId, SessionId};
use crate::message::UserMessage;
use crate::mode::SandboxMode;
use crate::tool::ErrorInfo;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use std::collections::BTreeMap;
use std::path::PathBuf;

/// A pre-execute decision. A denial is final: nothing later can allow what it refused.
#[derive(Clone, Debug, PartialEq)]
pub enum PreDecision {
    /// The call may run, as far as this policy is concerned.
    Allow,
    /// As `Allow`, and a standing permission widens what this one call may write.
    AllowWith {
        /// How far.
        grant: SandboxGrant,
    },
    /// The call may not run.
    Deny {
        /// Why; the model reads it.
        reason: String,
        /// Machine-readable identity; `info.reason` is never shown to the model.
        info: Option<ErrorInfo>,
    },
    /// The user stopped: the call ends `ABORTED_BEFORE_DISPATCH`.
    Cancel,
    /// A person decides.
    Ask {
        /// Audited reason; `None` uses a default that names the tool.
        reason: Option<String>,
        /// Localised prompt, at least `en`; `None` shows `reason`.
        display_reason: Option<BTreeMap<String, String>>,
        /// The narrow rule that "always" would add; `None` offers no "always".
        rule: Option<PermissionRule>,
        /// What a yes widens for this one call; `None` widens nothing.
        grant: Option<SandboxGrant>,
    },
}

/// A post-execute decision.
#[derive(Clone, Debug, PartialEq)]
pub struct PostDecision {
    /// What happens to the outcome.
    pub verdict: PostVerdict,
    /// User-role messages for the next step.
    pub additional_contexts: Vec<UserMessage>,
}

impl PostDecision {
    /// Accepts the outcome as it is.
    pub fn accept() -> Self {
        Self { verdict: PostVerdict::Accept, additional_contexts: Vec::new() }
    }
}

/// What a post-execute policy does with an outcome.
#[derive(Clone, Debug, PartialEq)]
pub enum PostVerdict {
    /// Keep it.
    Accept,
    /// Keep value and meta, replace what the model reads.
    AcceptContent(Vec<ContentBlock>),
    /// Replace the value: validated and rendered again. Only for a success.
    AcceptValue(Value),
    /// Turn it into a failure with this feedback.
    Block(Vec<ContentBlock>),
}

/// A question to the person whether a call may run.
#[derive(Clone, Debug, PartialEq)]
pub struct PermissionRequest {
    /// The session the person knows.
    pub session_id: SessionId,
    /// The call in question.
    pub call_id: CallId,
    /// Name of the tool.
    pub tool_name: String,
    /// The call's arguments, parsed.
    pub arguments: Value,
    /// Why it is asked; audited and shown.
    pub reason: Option<String>,
    /// The whole change the call would make, when the tool can tell without making it.
    pub preview: Preview,
    /// The narrow rule that "always" would add; `None` offers no "always".
    pub rule: Option<PermissionRule>,
}

/// What a call would do, found out by reading only.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Preview {
    /// Full-file changes, paths absolute.
    pub diffs: Vec<FileDiff>,
}

/// What an allowed call may write beyond the session's mode; for this one call.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SandboxGrant {
    /// The sandbox mode of the call.
    pub mode: SandboxMode,
    /// Further paths it may write, absolute.
    pub writable: Vec<PathBuf>,
}

/// A narrow standing permission of one session.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct PermissionRule {
    /// Tool it is for.
    pub tool: String,
    /// Normalised subjects: program and sub-command of each simple command, or the folder.
    pub subjects: Vec<String>,
    /// How the rule is named to the person, for instance "cargo test".
    pub label: String,
}

/// What the person answered, or that nobody could.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum PermissionOutcome {
    /// This call only.
    AllowedOnce,
    /// This call, and the rule that was offered is added to the session.
    AllowedAlways,
    /// Not this call; the turn goes on.
    Rejected,
    /// The user stopped; the turn ends.
    Cancelled,
    /// Nobody could be asked; counts as no.
    Unavailable,
}
