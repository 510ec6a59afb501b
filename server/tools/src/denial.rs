//! What the model reads when the sandbox refused a write: a fixed marker, and how to ask for more.
//!
//! Source: `spec/tools-files-shell.md` §0.4; product decisions, "escalation". The arguments that ask for more are in no
//! schema: the permission policy reads them from the open root, and this hint is how the model knows them.

use pipeline::context::ToolContext;
use protocol::mode::{Mode, SandboxMode};

/// Whether a refused call may be repeated with wider permissions: never in plan mode, never when all is allowed.
pub fn may_escalate(ctx: &ToolContext) -> bool {
    ctx.mode() != Mode::Plan && ctx.sandbox().mode != SandboxMode::DangerFullAccess
}

/// The marker, and the hint where escalation is offered; lines without a final line end.
pub fn lines(mode: SandboxMode, may_escalate: bool) -> String {
    let marker = format!("[sandbox: file access denied under {} mode]", mode.id());
    let wider = match mode {
        SandboxMode::ReadOnly => "\"workspace-write\" or \"danger-full-access\"",
        SandboxMode::WorkspaceWrite => "\"danger-full-access\"",
        SandboxMode::DangerFullAccess => return marker,
    };
    if !may_escalate {
        return marker;
    }
    format!(
        "{marker}\n[sandbox: if the task needs it, repeat exactly this call once with sandbox_permissions {wider} and a \
         justification; the user is asked]"
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_strictly_wider_modes_are_offered() {
        let read_only = lines(SandboxMode::ReadOnly, true);
        assert!(read_only.starts_with("[sandbox: file access denied under read-only mode]\n[sandbox: "));
        assert!(read_only.contains("\"workspace-write\" or \"danger-full-access\""));
        let workspace = lines(SandboxMode::WorkspaceWrite, true);
        assert!(!workspace.contains("\"workspace-write\"") && workspace.contains("justification"));
        let full = "[sandbox: file access denied under danger-full-access mode]";
        assert_eq!(lines(SandboxMode::DangerFullAccess, true), full);
        assert_eq!(lines(SandboxMode::ReadOnly, false).lines().count(), 1);
    }
}
