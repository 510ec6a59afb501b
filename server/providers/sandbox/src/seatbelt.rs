//! Seatbelt: the profile that macOS's `sandbox-exec` applies to a command.
//!
//! The text is tested everywhere; it has not been run on a Mac.

use crate::arguments::Options;
use protocol::mode::SandboxMode;
use std::ffi::OsString;
use std::fmt::Write;
use std::path::{Path, PathBuf};

/// The command line that runs the command confined. `temporary` are the folders that count as temporary.
pub(crate) fn around(options: &Options, temporary: &[PathBuf]) -> Vec<OsString> {
    let mut argv: Vec<OsString> = vec!["/usr/bin/sandbox-exec".into(), "-p".into()];
    argv.push(profile(options, temporary).into());
    argv.extend(options.argv.iter().cloned());
    argv
}

/// The profile: everything is allowed but writing, and the network when it is denied; the last rule that fits counts.
fn profile(options: &Options, temporary: &[PathBuf]) -> String {
    let mut profile = "(version 1)\n(allow default)\n".to_owned();
    if options.mode != SandboxMode::DangerFullAccess {
        profile.push_str("(deny file-write*)\n");
        profile.push_str(
            "(allow file-write* (literal \"/dev/null\") (literal \"/dev/zero\") (literal \"/dev/tty\"))\n",
        );
    }
    if options.mode == SandboxMode::WorkspaceWrite {
        for path in temporary.iter().chain(&options.writable) {
            let _ = writeln!(profile, "(allow file-write* (subpath {}))", quoted(path));
        }
    }
    if !options.network {
        profile.push_str("(deny network*)\n");
    }
    profile
}

/// A path as a string of the profile's language.
fn quoted(path: &Path) -> String {
    let text = path.to_string_lossy().replace('\\', "\\\\").replace('"', "\\\"");
    format!("\"{text}\"")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::backend::Backend;

    #[test]
    fn the_profile_grants_what_the_mode_does() {
        let profile = |mode, network| {
            let options = Options {
                backend: Backend::Seatbelt,
                mode,
                writable: vec!["/w \"x\\".into()],
                network,
                capture: None,
                dies_with_parent: false,
                argv: vec!["true".into()],
            };
            profile(&options, &["/private/tmp".into()])
        };
        let open = "(version 1)\n(allow default)\n";
        let read = format!(
            "{open}(deny file-write*)\n(allow file-write* (literal \"/dev/null\") (literal \"/dev/zero\") (literal \"/dev/tty\"))\n"
        );
        let write = format!(
            "{read}(allow file-write* (subpath \"/private/tmp\"))\n(allow file-write* (subpath \"/w \\\"x\\\\\"))\n"
        );
        assert_eq!(profile(SandboxMode::DangerFullAccess, true), open);
        assert_eq!(profile(SandboxMode::DangerFullAccess, false), format!("{open}(deny network*)\n"));
        assert_eq!(profile(SandboxMode::ReadOnly, true), read);
        assert_eq!(profile(SandboxMode::WorkspaceWrite, true), write);
    }
}
