//! A call that asks to be let out of the sandbox, for itself alone.

use crate::context::Execution;
use protocol::decision::SandboxGrant;
use protocol::mode::{Mode, SandboxMode};
use serde_json::Value;

/// Tools that take the two undeclared fields.
const TOOLS: [&str; 4] = ["bash", "pwsh", "write", "edit"];

/// What a call asks for.
pub(super) struct Escalation {
    mode: SandboxMode,
    justification: String,
}

impl Escalation {
    /// What the arguments ask for; `None` when they do not ask.
    ///
    /// # Errors
    /// What is wrong with the request, for the model. Nobody is asked then.
    pub(super) fn of(execution: &Execution, mode: Mode) -> Result<Option<Self>, String> {
        if !TOOLS.contains(&execution.name.as_str()) {
            return Ok(None);
        }
        let field = |name: &str| execution.arguments.get(name).filter(|value| !value.is_null());
        let (permissions, justification) = match (field("sandbox_permissions"), field("justification")) {
            (None, None) => return Ok(None),
            (Some(permissions), Some(justification)) => (permissions, justification),
            _ => return Err("give sandbox_permissions and justification together, or neither".to_owned()),
        };
        let asked = match permissions.as_str() {
            Some("workspace-write") => SandboxMode::WorkspaceWrite,
            Some("danger-full-access") => SandboxMode::DangerFullAccess,
            _ => return Err("sandbox_permissions must be workspace-write or danger-full-access".to_owned()),
        };
        let justification = match justification {
            Value::String(text) if !text.trim().is_empty() => text.trim().to_owned(),
            _ => return Err("justification must say why, in words for the user".to_owned()),
        };
        if mode == Mode::Plan {
            return Err("the sandbox cannot be widened in plan mode".to_owned());
        }
        if asked <= mode.sandbox() {
            return Err(format!(
                "sandbox_permissions must be wider than what is allowed now, {}; leave it out",
                mode.sandbox().id()
            ));
        }
        Ok(Some(Self { mode: asked, justification }))
    }

    /// The question to the person.
    pub(super) fn question(&self) -> String {
        format!("escalate sandbox to {}: {}", self.mode.id(), self.justification)
    }

    /// What a yes widens.
    pub(super) fn grant(&self) -> SandboxGrant {
        SandboxGrant { mode: self.mode, writable: Vec::new() }
    }
}
