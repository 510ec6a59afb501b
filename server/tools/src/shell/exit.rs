//! How a command ended, as the last line of its text, and read back from there for the card.
//!
//! [`parse`] is the exact inverse of [`append`] up to one line end before the marker. Source: `spec/presentation.md` §7.

use protocol::card::ExitState;

const CODE: &str = "[exit code: ";
const SIGNAL: &str = "[killed by signal: ";
const UNKNOWN: &str = "[exit status unknown]";

/// The text with its exit marker as last line; a plain success has none.
///
/// A success whose own last line would read as a marker gets a line end, so that it is not taken for one.
pub fn append(mut text: String, exit: &ExitState) -> String {
    let marker = match exit {
        ExitState::Code(0) => {
            if split(&text).is_some() {
                text.push('\n');
            }
            return text;
        }
        ExitState::Code(code) => format!("{CODE}{code}]"),
        ExitState::Signal(signal) => format!("{SIGNAL}{signal}]"),
        ExitState::Unknown => UNKNOWN.to_owned(),
    };
    if !text.ends_with('\n') {
        text.push('\n');
    }
    text + &marker
}

/// The text without its exit marker, and how the command ended; no marker means success.
pub fn parse(text: &str) -> (&str, ExitState) {
    split(text).unwrap_or((text, ExitState::Code(0)))
}

/// Splits off a marker that is a whole last line behind another line.
fn split(text: &str) -> Option<(&str, ExitState)> {
    let (output, last) = text.rsplit_once('\n')?;
    Some((output, exit_of(last)?))
}

/// What a marker says; only markers that [`append`] writes.
fn exit_of(line: &str) -> Option<ExitState> {
    if line == UNKNOWN {
        return Some(ExitState::Unknown);
    }
    if let Some(rest) = line.strip_prefix(CODE) {
        let digits = rest.strip_suffix(']')?;
        let code: i32 = digits.parse().ok()?;
        return (code != 0 && code.to_string() == digits).then_some(ExitState::Code(code));
    }
    let signal = line.strip_prefix(SIGNAL)?.strip_suffix(']')?;
    let is_name = !signal.is_empty() && !signal.contains([']', '\r']);
    is_name.then(|| ExitState::Signal(signal.to_owned()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn markers_end_the_text_on_their_own_line() {
        let cases = [
            ("x", ExitState::Code(3), "x\n[exit code: 3]"),
            ("x\n", ExitState::Code(-1), "x\n[exit code: -1]"),
            ("(no output)", ExitState::Signal("SIGTERM".into()), "(no output)\n[killed by signal: SIGTERM]"),
            ("x", ExitState::Unknown, "x\n[exit status unknown]"),
            ("hi\n", ExitState::Code(0), "hi\n"),
            ("a\n[exit code: 3]", ExitState::Code(0), "a\n[exit code: 3]\n"),
        ];
        for (text, exit, expected) in cases {
            assert_eq!(append(text.to_owned(), &exit), expected);
        }
    }

    #[test]
    fn only_a_last_line_behind_another_is_a_marker() {
        let cases = [
            ("x\n[exit code: 3]", "x", ExitState::Code(3)),
            ("[exit code: 3]", "[exit code: 3]", ExitState::Code(0)),
            ("[exit code: 3]\nx", "[exit code: 3]\nx", ExitState::Code(0)),
            ("x\n[exit code: 3]\n", "x\n[exit code: 3]\n", ExitState::Code(0)),
            ("x\n[exit code: 0]", "x\n[exit code: 0]", ExitState::Code(0)),
            ("x\n[exit code: +3]", "x\n[exit code: +3]", ExitState::Code(0)),
            ("x y [exit code: 3]", "x y [exit code: 3]", ExitState::Code(0)),
            (
                "[timed out after 10ms]\n[killed by signal: SIGKILL]",
                "[timed out after 10ms]",
                ExitState::Signal("SIGKILL".into()),
            ),
        ];
        for (text, output, exit) in cases {
            assert_eq!(parse(text), (output, exit), "{text:?}");
        }
    }

    fn exits() -> impl Strategy<Value = ExitState> {
        prop_oneof![
            any::<i32>().prop_map(ExitState::Code),
            Just(ExitState::Code(0)),
            "[A-Z]{1,3}[A-Z0-9+-]{0,8}".prop_map(ExitState::Signal),
            Just(ExitState::Unknown),
        ]
    }

    /// Texts that are likely to look like markers.
    fn texts() -> impl Strategy<Value = String> {
        let piece = prop_oneof![
            Just("\n".to_owned()),
            Just("[exit code: 3]".to_owned()),
            Just("[killed by signal: SIGTERM]".to_owned()),
            Just("[exit status unknown]".to_owned()),
            ".{0,4}",
        ];
        prop::collection::vec(piece, 1..6).prop_map(|pieces| pieces.concat())
    }

    proptest! {
        #[test]
        fn what_was_appended_is_parsed_back(text in texts(), exit in exits()) {
            let rendered = append(text.clone(), &exit);
            let (output, parsed) = parse(&rendered);
            prop_assert_eq!(&parsed, &exit);
            let without_line_end = |text: &str| text.strip_suffix('\n').unwrap_or(text).to_owned();
            if exit == ExitState::Code(0) {
                let with_line_end = text.clone() + "\n";
                prop_assert!(output == text || output == with_line_end);
            } else {
                prop_assert_eq!(output, without_line_end(&text));
            }
        }
    }
}
