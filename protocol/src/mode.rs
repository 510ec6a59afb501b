//! The permission mode of a session.

use serde::{Deserialize, Serialize};

/// What the agent may do without asking. Shown in the editor as the session mode.
///
/// Source: product decisions, "The editor", modes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Mode {
    /// Plan guidance and a read-only sandbox; nothing widens it while on.
    Plan,
    /// Nothing is changed; what would change something asks.
    ReadOnly,
    /// Every change and every command asks first.
    Ask,
    /// Changes inside the workspace run; what reaches outside asks.
    #[default]
    WorkspaceWrite,
    /// No sandbox and no questions.
    DangerFullAccess,
}

impl Mode {
    /// Every mode, in the order in which they are offered.
    pub const ALL: [Self; 5] =
        [Self::Plan, Self::ReadOnly, Self::Ask, Self::WorkspaceWrite, Self::DangerFullAccess];

    /// The id on the wire and in the configuration.
    pub fn id(self) -> &'static str {
        match self {
            Self::Plan => "plan",
            Self::ReadOnly => "read-only",
            Self::Ask => "ask",
            Self::WorkspaceWrite => "workspace-write",
            Self::DangerFullAccess => "danger-full-access",
        }
    }

    /// The mode with this id.
    pub fn from_id(id: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|mode| mode.id() == id)
    }

    /// The name a person reads.
    pub fn name(self) -> &'static str {
        match self {
            Self::Plan => "Plan",
            Self::ReadOnly => "Read only",
            Self::Ask => "Ask",
            Self::WorkspaceWrite => "Workspace write",
            Self::DangerFullAccess => "Full access",
        }
    }

    /// One line about it for a person.
    pub fn description(self) -> &'static str {
        match self {
            Self::Plan => "Explore and plan; nothing is changed",
            Self::ReadOnly => "Read and search; anything that changes something is refused or asked for",
            Self::Ask => "Ask before every edit and every command",
            Self::WorkspaceWrite => "Edit and run inside the workspace; ask for anything outside",
            Self::DangerFullAccess => "No sandbox and no questions",
        }
    }

    /// What file tools and commands may write in this mode.
    pub fn sandbox(self) -> SandboxMode {
        match self {
            Self::Plan | Self::ReadOnly => SandboxMode::ReadOnly,
            Self::Ask | Self::WorkspaceWrite => SandboxMode::WorkspaceWrite,
            Self::DangerFullAccess => SandboxMode::DangerFullAccess,
        }
    }
}

/// What may be written, from narrow to wide. Reads are never restricted.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum SandboxMode {
    /// Nothing.
    ReadOnly,
    /// The session's folders and the temporary folders.
    WorkspaceWrite,
    /// Everything.
    DangerFullAccess,
}

impl SandboxMode {
    /// The id in markers and arguments.
    pub fn id(self) -> &'static str {
        match self {
            Self::ReadOnly => "read-only",
            Self::WorkspaceWrite => "workspace-write",
            Self::DangerFullAccess => "danger-full-access",
        }
    }
}
