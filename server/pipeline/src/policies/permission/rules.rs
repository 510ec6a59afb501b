//! Standing permissions: which rule a call would add, and whether the rules there are cover it.
//!
//! A rule is for one tool. A widened sandbox is part of its subjects, so that a rule given inside the sandbox never
//! opens it.

use super::escalation::Escalation;
use crate::call::PendingCall;
use crate::policies::shell_line;
use protocol::decision::PermissionRule;
use protocol::mode::SandboxMode;
use services::file_system::Target;
use std::path::Path;

/// Whether the rules of this tool together cover every subject.
pub(super) fn is_covered(wanted: &PermissionRule, standing: &[PermissionRule]) -> bool {
    wanted.subjects.iter().all(|subject| {
        standing.iter().any(|rule| rule.tool == wanted.tool && rule.subjects.contains(subject))
    })
}

/// The rule for the folder a file is in.
pub(super) fn for_folder(
    call: &PendingCall,
    target: &Target,
    escalation: Option<&Escalation>,
) -> Option<PermissionRule> {
    if escalation.is_some() {
        // A wider sandbox is asked for each time a file tool wants one.
        return None;
    }
    let folder = target.key.parent()?;
    let name = &call.execution.name;
    let shown = match folder.strip_prefix(&call.session.cwd) {
        Ok(below) if below == Path::new("") => "this folder".to_owned(),
        Ok(below) => below.display().to_string(),
        Err(_) => folder.display().to_string(),
    };
    Some(PermissionRule {
        tool: name.clone(),
        subjects: vec![folder.to_str()?.to_owned()],
        label: format!("{name} in {shown}"),
    })
}

/// The rule for all commands of a shell line; `None` when the line is not understood for sure.
pub(super) fn for_command(name: &str, command: &str, widened: Option<SandboxMode>) -> Option<PermissionRule> {
    let subjects = shell_line::subjects(command).ok()?;
    let label = subjects.join(", ");
    Some(match widened {
        None => PermissionRule { tool: name.to_owned(), subjects, label },
        Some(mode) => PermissionRule {
            tool: name.to_owned(),
            subjects: subjects.iter().map(|subject| format!("{}: {subject}", mode.id())).collect(),
            label: format!("{label} with {}", mode.id()),
        },
    })
}

/// The rule for a tool that acts, by what it acts on.
pub(super) fn for_subject(name: &str, subject: String) -> PermissionRule {
    PermissionRule { tool: name.to_owned(), label: subject.clone(), subjects: vec![subject] }
}
