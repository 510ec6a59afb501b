//! Writing for a person in a terminal. Used by the commands beside the server; the server's stdout is the wire.

use std::io::{ErrorKind, Write};
use std::process::ExitCode;

/// Exit code of a wrong command line.
pub(crate) const USAGE: u8 = 2;

/// Writes `text` to stdout. A reader that went away, such as `head`, is no failure.
pub(crate) fn print(text: &str) -> ExitCode {
    let mut stdout = std::io::stdout().lock();
    match stdout.write_all(text.as_bytes()).and_then(|()| stdout.flush()) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) if error.kind() == ErrorKind::BrokenPipe => ExitCode::SUCCESS,
        Err(error) => fail(&format!("stdout cannot be written: {error}")),
    }
}

/// Says on stderr what went wrong; the exit code of a failure.
pub(crate) fn fail(message: &str) -> ExitCode {
    complain(message);
    ExitCode::FAILURE
}

/// Says on stderr what is wrong with the command line; its exit code.
pub(crate) fn usage(message: &str) -> ExitCode {
    complain(message);
    ExitCode::from(USAGE)
}

fn complain(message: &str) {
    // Nobody is left to tell when stderr is gone.
    let _ = writeln!(std::io::stderr(), "followspot: {message}");
}

/// Text from elsewhere that may be shown in a terminal: control characters, which could steer it, are shown as `·`.
pub(crate) fn harmless(text: &str) -> String {
    text.chars().map(|c| if c.is_control() && !matches!(c, '\n' | '\t') { '·' } else { c }).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_from_elsewhere_cannot_steer_the_terminal() {
        assert_eq!(harmless("a\x1b[31mb\r\n\tc\u{9b}d"), "a·[31mb·\n\tc·d");
    }
}
