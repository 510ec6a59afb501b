//! Whether a call may run: by the session's mode, what the call would do, and what it asks to be widened.
//!
//! The mode is read anew for each call. Source: product decisions, "Modes", "allow_always", "escalation";
//! `spec/tools-files-shell.md` §0.4.

mod escalation;
mod rules;
#[cfg(test)]
mod tests;

use crate::call::PendingCall;
use crate::caught::caught_sync;
use crate::policy::{Policy, PreNext, strictest};
use crate::tool::Effect;
use async_trait::async_trait;
use escalation::Escalation;
use protocol::decision::{PermissionRule, PreDecision, SandboxGrant};
use protocol::mode::{Mode, SandboxMode};
use protocol::tool::ToolFailure;
use services::file_system::Target;
use std::path::PathBuf;

/// What the policy has to know about the machine.
#[derive(Clone, Debug)]
pub struct PermissionOptions {
    /// Whether commands can be confined here. Where they cannot, every command is asked for, and runs unconfined.
    pub can_confine_commands: bool,
    /// Folders that may always be written beside the session's, absolute: `/tmp` and the system's temporary folder.
    pub temporary_folders: Vec<PathBuf>,
}

/// Decides by mode and effect. Calls the rest of the chain unless it refuses, and the stricter word counts.
pub struct PermissionPolicy {
    options: PermissionOptions,
}

impl PermissionPolicy {
    /// The policy on this machine.
    pub fn new(options: PermissionOptions) -> Self {
        Self { options }
    }

    async fn decide(&self, call: &PendingCall) -> Result<PreDecision, ToolFailure> {
        let Some(tool) = &call.tool else { return Ok(PreDecision::Allow) };
        let execution = &call.execution;
        if !execution.arguments.is_object() {
            // Such a call fails before its body: there is nothing to ask about.
            return Ok(PreDecision::Allow);
        }
        let mode = call.session.host.mode();
        let effect = caught_sync(&execution.name, || tool.effect(&execution.arguments))?;
        let escalation = match Escalation::of(execution, mode) {
            Ok(escalation) => escalation,
            Err(reason) => return Ok(deny(reason)),
        };
        let request = match effect {
            Effect::None => return Ok(PreDecision::Allow),
            Effect::WritesFile { path } => self.judge_write(call, mode, &path, escalation).await,
            Effect::RunsCommand { command, is_shell } => {
                self.judge_command(call, mode, &command, is_shell, escalation)
            }
            Effect::Acts { subject } => judge_act(call, mode, subject),
            Effect::Unknown => judge_unknown(call, mode),
        };
        Ok(match request {
            Verdict::Allow => PreDecision::Allow,
            Verdict::Deny(reason) => deny(reason),
            Verdict::Ask(question) => question.settle(&call.session.host.rules()),
        })
    }

    async fn judge_write(
        &self,
        call: &PendingCall,
        mode: Mode,
        path: &str,
        escalation: Option<Escalation>,
    ) -> Verdict {
        let name = &call.execution.name;
        if mode == Mode::Plan {
            return in_plan_mode(name);
        }
        let target = call.session.services.files.resolve(path).await.ok();
        let rule = target.as_ref().and_then(|target| rules::for_folder(call, target, escalation.as_ref()));
        if let Some(escalation) = escalation {
            return Verdict::Ask(Ask {
                reason: escalation.question(),
                rule,
                grant: Some(escalation.grant()),
            });
        }
        if mode == Mode::DangerFullAccess {
            return Verdict::Allow;
        }
        let Some(target) = target else {
            // The tool will fail on the same path; if it does not, the sandbox still holds.
            return match mode {
                Mode::Ask => {
                    Verdict::Ask(Ask { reason: format!("{name} wants to change {path}"), rule, grant: None })
                }
                _ => Verdict::Allow,
            };
        };
        let reason = match mode {
            Mode::WorkspaceWrite if self.is_writable(call, &target).await => return Verdict::Allow,
            Mode::WorkspaceWrite => format!("{name} wants to change {path}, outside the session's folders"),
            Mode::ReadOnly => format!("{name} wants to change {path} in read-only mode"),
            _ => format!("{name} wants to change {path}"),
        };
        // Only the file that the question shows.
        let grant = SandboxGrant { mode: SandboxMode::ReadOnly, writable: vec![target.key] };
        Verdict::Ask(Ask { reason, rule, grant: Some(grant) })
    }

    fn judge_command(
        &self,
        call: &PendingCall,
        mode: Mode,
        command: &str,
        is_shell: bool,
        escalation: Option<Escalation>,
    ) -> Verdict {
        let name = &call.execution.name;
        let is_shell = is_shell && name != "pwsh";
        let rule = |grant: Option<&SandboxGrant>| {
            is_shell.then(|| rules::for_command(name, command, grant.map(|grant| grant.mode))).flatten()
        };
        if let Some(escalation) = escalation {
            let grant = escalation.grant();
            return Verdict::Ask(Ask {
                reason: escalation.question(),
                rule: rule(Some(&grant)),
                grant: Some(grant),
            });
        }
        if !self.options.can_confine_commands && mode != Mode::DangerFullAccess {
            if mode == Mode::Plan {
                return Verdict::Deny(format!(
                    "{name} is refused in plan mode: commands cannot be confined on this machine"
                ));
            }
            let grant = SandboxGrant { mode: SandboxMode::DangerFullAccess, writable: Vec::new() };
            return Verdict::Ask(Ask {
                reason: format!("{name} wants to run a command; nothing on this machine can confine it"),
                rule: rule(Some(&grant)),
                grant: Some(grant),
            });
        }
        match mode {
            Mode::Ask => Verdict::Ask(Ask {
                reason: format!("{name} wants to run a command"),
                rule: rule(None),
                grant: None,
            }),
            Mode::Plan | Mode::ReadOnly | Mode::WorkspaceWrite | Mode::DangerFullAccess => Verdict::Allow,
        }
    }

    /// Whether the sandbox lets this file be written anyway: by path components of real paths.
    async fn is_writable(&self, call: &PendingCall, target: &Target) -> bool {
        for folder in call.session.roots.iter().chain(&self.options.temporary_folders) {
            if target.key.starts_with(folder) {
                return true;
            }
            // A folder may be named by a link; its real path is what counts.
            let resolved = call.session.services.files.resolve(&folder.to_string_lossy()).await;
            if resolved.is_ok_and(|resolved| target.key.starts_with(resolved.key)) {
                return true;
            }
        }
        false
    }
}

#[async_trait]
impl Policy for PermissionPolicy {
    fn name(&self) -> &str {
        "permission"
    }

    async fn pre_execute(&self, call: &PendingCall, next: PreNext<'_>) -> Result<PreDecision, ToolFailure> {
        let own = self.decide(call).await?;
        match own {
            PreDecision::Deny { .. } | PreDecision::Cancel => Ok(own),
            _ => Ok(strictest(own, next.run().await?)),
        }
    }
}

fn judge_act(call: &PendingCall, mode: Mode, subject: String) -> Verdict {
    let name = &call.execution.name;
    match mode {
        Mode::Plan => in_plan_mode(name),
        Mode::WorkspaceWrite | Mode::DangerFullAccess => Verdict::Allow,
        Mode::Ask | Mode::ReadOnly => Verdict::Ask(Ask {
            reason: format!("{name} wants to act: {subject}"),
            rule: Some(rules::for_subject(name, subject)),
            grant: None,
        }),
    }
}

fn judge_unknown(call: &PendingCall, mode: Mode) -> Verdict {
    let name = &call.execution.name;
    match mode {
        Mode::Plan => in_plan_mode(name),
        Mode::DangerFullAccess => Verdict::Allow,
        Mode::Ask | Mode::ReadOnly | Mode::WorkspaceWrite => Verdict::Ask(Ask {
            reason: format!("{name} does not say that it only reads"),
            rule: Some(rules::for_subject(name, name.clone())),
            grant: None,
        }),
    }
}

fn in_plan_mode(name: &str) -> Verdict {
    Verdict::Deny(format!(
        "{name} is refused in plan mode, where nothing may be changed; finish the plan and leave plan mode first"
    ))
}

fn deny(reason: String) -> PreDecision {
    PreDecision::Deny { reason, info: None }
}

enum Verdict {
    Allow,
    Deny(String),
    Ask(Ask),
}

/// A question, unless a standing permission answers it.
struct Ask {
    reason: String,
    rule: Option<PermissionRule>,
    grant: Option<SandboxGrant>,
}

impl Ask {
    fn settle(self, standing: &[PermissionRule]) -> PreDecision {
        if self.rule.as_ref().is_some_and(|rule| rules::is_covered(rule, standing)) {
            return match self.grant {
                Some(grant) => PreDecision::AllowWith { grant },
                None => PreDecision::Allow,
            };
        }
        PreDecision::Ask {
            reason: Some(self.reason),
            display_reason: None,
            rule: self.rule,
            grant: self.grant,
        }
    }
}
