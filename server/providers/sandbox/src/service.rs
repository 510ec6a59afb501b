//! The sandbox service: commands wrapped in `sandbox-exec`.

use crate::arguments::Options;
use crate::backend::{Backend, choose};
use crate::verdict::{bubblewrap_failed, denied, never_ran};
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
    chosen: OnceLock<(Backend, SandboxSupport)>,
}

impl ExecSandbox {
    /// Wraps commands in `wrapper`, for instance `["/usr/bin/followspot", "sandbox-exec"]`. The program's path must be
    /// absolute, since commands run elsewhere. The kernel is asked on first use.
    pub fn new(wrapper: Vec<String>) -> Self {
        Self { wrapper, chosen: OnceLock::new() }
    }

    /// Confines with this backend, whatever else there is.
    pub fn with_backend(wrapper: Vec<String>, backend: Backend) -> Self {
        Self { wrapper, chosen: OnceLock::from((backend, backend.support())) }
    }

    fn chosen(&self) -> &(Backend, SandboxSupport) {
        self.chosen.get_or_init(choose)
    }
}

impl Sandbox for ExecSandbox {
    fn support(&self) -> SandboxSupport {
        self.chosen().1.clone()
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
        // Nothing is confined when only the streams are wanted; that asks no backend.
        let backend = if policy.confines() { self.chosen().0 } else { Backend::Landlock };
        if policy.confines() {
            let (_, support) = self.chosen();
            if support.level == SandboxLevel::None {
                return Err(ShellError::SandboxUnavailable(support.detail.clone()));
            }
        }
        let options = Options {
            backend,
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
        let (backend, support) = self.chosen();
        if *backend == Backend::Bubblewrap
            && let Some(error) = bubblewrap_failed(stderr, exit_code)
        {
            return Err(error);
        }
        // Landlock leaves UDP open, so a network denied by it is never more than partly closed.
        let is_open = !policy.network && *backend == Backend::Landlock;
        let level = if is_open { SandboxLevel::Partial } else { support.level };
        Ok(Some(SandboxReport {
            mode: policy.mode,
            denied: policy.mode != SandboxMode::DangerFullAccess && denied(stderr, exit_code),
            enforcement: level.id().to_owned(),
        }))
    }
}
