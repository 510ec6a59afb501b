//! What the end of a wrapped command says: it was denied something, or it never ran.

use services::shell::ShellError;

/// Begins the one line of a wrapper that gives up. It is printed before the command could print anything.
pub(crate) const PREFIX: &str = "followspot sandbox-exec: ";
pub(crate) const CANNOT_CONFINE: &str = "cannot confine: ";
pub(crate) const CANNOT_START: &str = "cannot start: ";

/// The wrapper's exit codes, after the shells': cannot confine or was called wrongly, and found no such program.
pub(crate) const EXIT_CANNOT_CONFINE: u8 = 126;
pub(crate) const EXIT_CANNOT_START: u8 = 127;

/// How the system's refusals read in error messages, lower-case.
const SIGNATURES: [&str; 3] = ["permission denied", "operation not permitted", "read-only file system"];

/// Whether a command that ended so was probably refused something: it failed, and its errors speak of a refusal.
pub fn denied(stderr: &str, exit_code: Option<i32>) -> bool {
    exit_code.is_some_and(|code| code != 0) && {
        let stderr = stderr.to_lowercase();
        SIGNATURES.iter().any(|signature| stderr.contains(signature))
    }
}

/// The failure of a wrapper that gave up before the command ran; `None` when it ran.
pub(crate) fn never_ran(stderr: &str, exit_code: Option<i32>) -> Option<ShellError> {
    let line = stderr.lines().next()?.strip_prefix(PREFIX)?;
    match exit_code.and_then(|code| u8::try_from(code).ok())? {
        EXIT_CANNOT_CONFINE => {
            let reason = line.strip_prefix(CANNOT_CONFINE).unwrap_or(line);
            Some(ShellError::SandboxUnavailable(reason.to_owned()))
        }
        EXIT_CANNOT_START => {
            let (program, reason) = line.strip_prefix(CANNOT_START)?.rsplit_once(": ")?;
            Some(ShellError::Spawn { program: program.to_owned(), reason: reason.to_owned() })
        }
        _ => None,
    }
}

/// The failure of `bwrap` itself; `None` when the command ran.
pub(crate) fn bubblewrap_failed(stderr: &str, exit_code: Option<i32>) -> Option<ShellError> {
    let line = stderr.lines().next()?.strip_prefix("bwrap: ").filter(|_| exit_code == Some(1))?;
    match line.strip_prefix("execvp ").and_then(|rest| rest.rsplit_once(": ")) {
        Some((program, reason)) => {
            Some(ShellError::Spawn { program: program.to_owned(), reason: reason.to_owned() })
        }
        None => Some(ShellError::SandboxUnavailable(format!("bubblewrap: {line}"))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_denial_is_a_failure_that_speaks_of_one() {
        let cases = [
            ("bash: /etc/x: Permission denied\n", Some(1), true),
            ("mount: Operation not permitted", Some(32), true),
            ("touch: cannot touch 'x': READ-ONLY FILE SYSTEM", Some(1), true),
            ("bash: /etc/x: Permission denied\n", Some(0), false),
            ("bash: /etc/x: Permission denied\n", None, false),
            ("no such file", Some(1), false),
        ];
        for (stderr, exit_code, expected) in cases {
            assert_eq!(denied(stderr, exit_code), expected, "{stderr:?} {exit_code:?}");
        }
    }

    #[test]
    fn only_the_wrappers_own_first_line_counts_as_never_ran() {
        let unavailable = Some(ShellError::SandboxUnavailable("no Landlock".into()));
        let spawn = Some(ShellError::Spawn { program: "a: b".into(), reason: "No such file".into() });
        let cases = [
            ("followspot sandbox-exec: cannot confine: no Landlock\n", Some(126), unavailable),
            ("followspot sandbox-exec: cannot start: a: b: No such file\n", Some(127), spawn),
            ("followspot sandbox-exec: cannot confine: no Landlock\n", Some(0), None),
            ("x\nfollowspot sandbox-exec: cannot confine: no Landlock\n", Some(126), None),
            ("bash: x: command not found\n", Some(127), None),
            ("", Some(126), None),
        ];
        for (stderr, exit_code, expected) in cases {
            assert_eq!(never_ran(stderr, exit_code), expected, "{stderr:?} {exit_code:?}");
        }
    }
}
