//! Bubblewrap: the command in namespaces in which only what may be written can be.
//!
//! The second choice on Linux, for kernels without Landlock. The command has process numbers of its own, so that the
//! folders of outside processes under `/proc` lead nowhere; what it leaves in the background ends with it.

use crate::arguments::Options;
use protocol::mode::SandboxMode;
use std::ffi::OsString;
use std::path::PathBuf;
use std::process::{Command, Stdio};

const PROGRAM: &str = "bwrap";

/// Whether a command can be confined: the program is there, and the system lets it.
pub(crate) fn works() -> bool {
    let options = Options {
        backend: crate::backend::Backend::Bubblewrap,
        mode: SandboxMode::ReadOnly,
        writable: Vec::new(),
        network: false,
        capture: None,
        dies_with_parent: true,
        argv: vec!["true".into()],
    };
    let argv = around(&options, &[]);
    let mut command = Command::new(&argv[0]);
    command.args(&argv[1..]).stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
    command.status().is_ok_and(|status| status.success())
}

/// The command line that runs the command confined. `temporary` are the folders that count as temporary.
pub(crate) fn around(options: &Options, temporary: &[PathBuf]) -> Vec<OsString> {
    let mut argv: Vec<OsString> = vec![PROGRAM.into()];
    if options.mode == SandboxMode::DangerFullAccess {
        // Root could go back to the network it came from.
        argv.extend(["--dev-bind", "/", "/", "--cap-drop", "CAP_SYS_ADMIN"].map(OsString::from));
    } else {
        argv.extend(["--ro-bind", "/", "/", "--dev", "/dev"].map(OsString::from));
        // Root could mount everything anew.
        argv.extend(["--unshare-pid", "--proc", "/proc", "--cap-drop", "ALL"].map(OsString::from));
    }
    if options.mode == SandboxMode::WorkspaceWrite {
        for path in temporary.iter().chain(&options.writable) {
            // One that is missing grants nothing.
            argv.extend(["--bind-try".into(), path.into(), path.into()]);
        }
    }
    if !options.network {
        argv.push("--unshare-net".into());
    }
    if options.dies_with_parent {
        argv.push("--die-with-parent".into());
    }
    argv.push("--".into());
    argv.extend(options.argv.iter().cloned());
    argv
}
