//! The wrapper: reads its arguments, restricts itself, becomes the command.

use crate::arguments::Options;
use crate::backend::Backend;
use crate::confine::confine;
use crate::tee;
use crate::verdict::{CANNOT_CONFINE, CANNOT_START, EXIT_CANNOT_CONFINE, EXIT_CANNOT_START, PREFIX};
use crate::{bubblewrap, seatbelt};
use std::ffi::OsString;
use std::path::PathBuf;
use std::process::{Command, ExitCode};

/// Runs the wrapper on what follows `sandbox-exec` on the command line. Without `--capture` it returns only when it gives
/// up, after one line on stderr that begins with `followspot sandbox-exec: `: 126 when the policy cannot be enforced or
/// the arguments are wrong, 127 when the program cannot be started.
///
/// Adds no variable and no open file to the command.
pub fn main(arguments: impl IntoIterator<Item = OsString>) -> ExitCode {
    let arguments: Vec<OsString> = arguments.into_iter().collect();
    let n_arguments = arguments.len();
    let mut options = match Options::parse(arguments) {
        Ok(options) => options,
        Err(reason) => return give_up(EXIT_CANNOT_CONFINE, &reason),
    };
    if let Some(folder) = options.capture.take() {
        options.dies_with_parent = true;
        return match tee::run(&folder, &again(&options, n_arguments)) {
            Ok(code) => code,
            Err(error) => give_up(EXIT_CANNOT_CONFINE, &format!("cannot capture: {error}")),
        };
    }
    #[cfg(target_os = "linux")]
    if options.dies_with_parent {
        // A capturing wrapper that is killed outright must not leave the command behind.
        let _ = rustix::process::set_parent_process_death_signal(Some(rustix::process::Signal::KILL));
    }
    let around = match options.backend {
        Backend::Landlock => {
            if let Err(reason) = confine(&options) {
                return give_up(EXIT_CANNOT_CONFINE, &format!("{CANNOT_CONFINE}{reason}"));
            }
            return become_command(&options.argv);
        }
        Backend::Bubblewrap => bubblewrap::around(&options, &temporary_folders()),
        Backend::Seatbelt => seatbelt::around(&options, &temporary_folders()),
    };
    become_command(&around)
}

/// Folders that may be written under `workspace-write` wherever the workspace is, by their real paths.
fn temporary_folders() -> Vec<PathBuf> {
    let folders = [PathBuf::from("/tmp"), PathBuf::from("/dev/shm"), std::env::temp_dir()];
    folders.into_iter().map(|folder| folder.canonicalize().unwrap_or(folder)).collect()
}

#[cfg(unix)]
fn become_command(argv: &[OsString]) -> ExitCode {
    use std::os::unix::process::CommandExt;
    let Some((program, arguments)) = argv.split_first() else {
        return give_up(EXIT_CANNOT_CONFINE, "no command");
    };
    // Comes back only when it failed.
    let error = Command::new(program).args(arguments).exec();
    give_up(EXIT_CANNOT_START, &format!("{CANNOT_START}{}: {error}", program.display()))
}

#[cfg(not(unix))]
fn become_command(argv: &[OsString]) -> ExitCode {
    let Some((program, arguments)) = argv.split_first() else {
        return give_up(EXIT_CANNOT_CONFINE, "no command");
    };
    match Command::new(program).args(arguments).status() {
        Ok(status) => ExitCode::from(status.code().and_then(|code| u8::try_from(code).ok()).unwrap_or(1)),
        Err(error) => give_up(EXIT_CANNOT_START, &format!("{CANNOT_START}{}: {error}", program.display())),
    }
}

/// This program again, with these options: program, then all its arguments.
fn again(options: &Options, n_arguments: usize) -> Vec<OsString> {
    let mut own: Vec<OsString> = std::env::args_os().collect();
    own.truncate(own.len().saturating_sub(n_arguments).max(1));
    // The running program itself, even if its file was replaced meanwhile.
    own[0] = if cfg!(target_os = "linux") {
        "/proc/self/exe".into()
    } else {
        std::env::current_exe().map_or_else(|_| own[0].clone(), OsString::from)
    };
    own.extend(options.to_arguments());
    own
}

fn give_up(code: u8, reason: &str) -> ExitCode {
    eprintln!("{PREFIX}{reason}");
    ExitCode::from(code)
}
