//! The wrapper's command line, written by the service and read by the wrapper.

use crate::backend::Backend;
use protocol::mode::SandboxMode;
use std::ffi::{OsStr, OsString};
use std::path::PathBuf;

/// What the wrapper is told.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Options {
    /// What confines; Landlock unless another is named.
    pub backend: Backend,
    pub mode: SandboxMode,
    /// Paths that may be written under `workspace-write`.
    pub writable: Vec<PathBuf>,
    /// Whether connections are allowed.
    pub network: bool,
    /// Folder for the streams and the exit; `None` becomes the command at once.
    pub capture: Option<PathBuf>,
    /// Whether to die when the parent does: set by a capturing wrapper for the one it starts.
    pub dies_with_parent: bool,
    /// The command.
    pub argv: Vec<OsString>,
}

impl Options {
    /// As arguments.
    pub fn to_arguments(&self) -> Vec<OsString> {
        let mut arguments: Vec<OsString> = vec!["--mode".into(), self.mode.id().into()];
        if self.backend != Backend::Landlock {
            arguments.extend(["--backend".into(), self.backend.id().into()]);
        }
        for path in &self.writable {
            arguments.extend(["--writable".into(), path.into()]);
        }
        arguments.extend(["--network".into(), if self.network { "allow".into() } else { "deny".into() }]);
        if let Some(folder) = &self.capture {
            arguments.extend(["--capture".into(), folder.into()]);
        }
        if self.dies_with_parent {
            arguments.push("--die-with-parent".into());
        }
        arguments.push("--".into());
        arguments.extend(self.argv.iter().cloned());
        arguments
    }

    /// From arguments.
    ///
    /// # Errors
    /// One line that says what is wrong. Nothing has a default: a forgotten flag must not widen anything.
    pub fn parse(arguments: impl IntoIterator<Item = OsString>) -> Result<Self, String> {
        let mut arguments = arguments.into_iter();
        let (mut mode, mut network, mut capture, mut dies_with_parent) = (None, None, None, false);
        let mut writable = Vec::new();
        let mut backend = Backend::Landlock;
        loop {
            let Some(flag) = arguments.next() else { return Err("no command after `--`".into()) };
            let mut value = || arguments.next().ok_or_else(|| format!("{} needs a value", flag.display()));
            match flag.to_str() {
                Some("--") => break,
                Some("--mode") => mode = Some(mode_of(&value()?)?),
                Some("--backend") => backend = backend_of(&value()?)?,
                Some("--writable") => writable.push(PathBuf::from(value()?)),
                Some("--network") => network = Some(network_of(&value()?)?),
                Some("--capture") => capture = Some(PathBuf::from(value()?)),
                Some("--die-with-parent") => dies_with_parent = true,
                _ => return Err(format!("unknown argument {}", flag.display())),
            }
        }
        let argv: Vec<OsString> = arguments.collect();
        if argv.is_empty() {
            return Err("no command after `--`".into());
        }
        Ok(Self {
            backend,
            mode: mode.ok_or("--mode is missing")?,
            writable,
            network: network.ok_or("--network is missing")?,
            capture,
            dies_with_parent,
            argv,
        })
    }
}

fn mode_of(value: &OsStr) -> Result<SandboxMode, String> {
    [SandboxMode::ReadOnly, SandboxMode::WorkspaceWrite, SandboxMode::DangerFullAccess]
        .into_iter()
        .find(|mode| value == mode.id())
        .ok_or_else(|| format!("unknown mode {}", value.display()))
}

fn backend_of(value: &OsStr) -> Result<Backend, String> {
    Backend::ALL
        .into_iter()
        .find(|backend| value == backend.id())
        .ok_or_else(|| format!("unknown backend {}", value.display()))
}

fn network_of(value: &OsStr) -> Result<bool, String> {
    match value.to_str() {
        Some("allow") => Ok(true),
        Some("deny") => Ok(false),
        _ => Err(format!("--network is allow or deny, not {}", value.display())),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_written_is_read_back() {
        let options = Options {
            backend: Backend::Bubblewrap,
            mode: SandboxMode::WorkspaceWrite,
            writable: vec!["/a b".into(), "--network".into()],
            network: false,
            capture: Some("/c".into()),
            dies_with_parent: true,
            argv: ["bash", "-c", "--", "--mode"].map(OsString::from).to_vec(),
        };
        assert_eq!(Options::parse(options.to_arguments()), Ok(options.clone()));
        let options = Options {
            backend: Backend::Landlock,
            writable: vec![],
            capture: None,
            dies_with_parent: false,
            ..options
        };
        assert_eq!(Options::parse(options.to_arguments()), Ok(options));
    }

    #[test]
    fn nothing_may_be_missing_or_unknown() {
        let cases = [
            "",
            "--mode read-only --network allow",
            "--mode read-only --network allow --",
            "--network allow -- true",
            "--mode read-only -- true",
            "--mode wide --network allow -- true",
            "--mode read-only --network maybe -- true",
            "--mode read-only --network allow --other -- true",
            "--mode read-only --network allow --backend hope -- true",
            "--mode",
        ];
        for case in cases {
            assert!(Options::parse(case.split_whitespace().map(OsString::from)).is_err(), "{case}");
        }
    }
}
