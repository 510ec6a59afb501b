//! The sandbox service: commands wrapped in `sandbox-exec`.

use crate::arguments::Options;
use crate::confine::probe;
use crate::verdict::{denied, never_ran};
use protocol::mode::SandboxMode;
use services::sandbox::{Sandbox, SandboxLevel, SandboxSupport};
use services::shell::{SandboxPolicy, SandboxReport, ShellError};
use std::ffi::OsString;
use std::path::Path;
use std::sync::OnceLock;

/// Confines commands by wrapping them in this program's own `sandbox-exec`.
#[derive(Debug)]
pub struct ExecSandbox {
    wrapper: Vec<String>,
    support: OnceLock<SandboxSupport>,
}

impl ExecSandbox {
    /// Wraps commands in `wrapper`, for instance `["/usr/bin/followspot", "sandbox-exec"]`. The program's path must be
    /// absolute, since commands run elsewhere. The kernel is asked on first use.
    pub fn new(wrapper: Vec<String>) -> Self {
        Self { wrapper, support: OnceLock::new() }
    }

    fn known_support(&self) -> &SandboxSupport {
        self.support.get_or_init(probe)
    }
}

impl Sandbox for ExecSandbox {
    fn support(&self) -> SandboxSupport {
        self.known_support().clone()
    }

    fn wrap(
        &self,
        argv: &[String],
        policy: &SandboxPolicy,
        capture: Option<&Path>,
    ) -> Result<Vec<String>, ShellError> {
        if !policy.confines() && capture.is_none() {
            return Ok(argv.to_vec());
        }
        let support = self.known_support();
        if policy.confines() && support.level == SandboxLevel::None {
            return Err(ShellError::SandboxUnavailable(support.detail.clone()));
        }
        let options = Options {
            mode: policy.mode,
            writable: policy.writable_roots.clone(),
            network: policy.network,
            capture: capture.map(Path::to_owned),
            dies_with_parent: false,
            argv: argv.iter().map(OsString::from).collect(),
        };
        let arguments = options.to_arguments().into_iter().map(|argument| {
            argument.into_string().map_err(|argument| {
                ShellError::SandboxUnavailable(format!("{} is not a UTF-8 path", argument.display()))
            })
        });
        self.wrapper.iter().cloned().map(Ok).chain(arguments).collect()
    }

    fn judge(
        &self,
        policy: &SandboxPolicy,
        exit_code: Option<i32>,
        stderr: &str,
    ) -> Result<Option<SandboxReport>, ShellError> {
        if let Some(error) = never_ran(stderr, exit_code) {
            return Err(error);
        }
        if !policy.confines() {
            return Ok(None);
        }
        // UDP stays open, so a denied network is never more than partly enforced.
        let level = if policy.network { self.known_support().level } else { SandboxLevel::Partial };
        Ok(Some(SandboxReport {
            mode: policy.mode,
            denied: policy.mode != SandboxMode::DangerFullAccess && denied(stderr, exit_code),
            enforcement: level.id().to_owned(),
        }))
    }
}
