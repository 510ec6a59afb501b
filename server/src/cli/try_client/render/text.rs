//! Foreign text made harmless and plain: control sequences, Markdown of tool results, growing snapshots.
//!
//! Pure functions for the transcript. The agent's own words are shown as they are, Markdown included; only what could
//! steer the terminal is taken out.

/// Removes what could steer a terminal, across the chunks of one stream.
#[derive(Clone, Copy, Debug, Default)]
pub struct Plain {
    state: State,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum State {
    #[default]
    Text,
    /// A carriage return was seen: with a newline it is a line end, alone it is one too, since nothing is overwritten.
    Return,
    Escape,
    /// Between the introducer of a control sequence and its final byte.
    Sequence,
    /// In a string that ends with BEL or ESC `\`.
    String,
    StringEscape,
}

impl Plain {
    /// The plain text of the next chunk.
    pub fn push(&mut self, text: &str) -> String {
        let mut plain = String::with_capacity(text.len());
        for character in text.chars() {
            self.state = match (self.state, character) {
                (State::Escape, '[') => State::Sequence,
                (State::Escape, ']' | 'P' | '^' | '_' | 'X') => State::String,
                // `ESC ( B` and its kind: one more character follows.
                (State::Escape, ' '..='/') => State::Escape,
                (State::Escape, _) => State::Text,
                (State::Sequence, '@'..='~') => State::Text,
                (State::Sequence, '\n') => {
                    plain.push('\n');
                    State::Text
                }
                (State::Sequence, _) => State::Sequence,
                (State::String, '\u{7}' | '\n') => State::Text,
                (State::String, '\u{1b}') => State::StringEscape,
                (State::String, _) => State::String,
                (State::StringEscape, '\\') => State::Text,
                (State::StringEscape, _) => State::String,
                (State::Return, '\n') => {
                    plain.push('\n');
                    State::Text
                }
                (State::Return, '\r') => State::Return,
                (State::Return, other) => {
                    plain.push('\n');
                    take(other, &mut plain)
                }
                (State::Text, other) => take(other, &mut plain),
            };
        }
        plain
    }
}

fn take(character: char, plain: &mut String) -> State {
    match character {
        '\u{1b}' => return State::Escape,
        '\r' => return State::Return,
        '\n' | '\t' => plain.push(character),
        // Direction marks can make a command read as another one.
        '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}' => plain.push('\u{fffd}'),
        control if control.is_control() => {}
        other => plain.push(other),
    }
    State::Text
}

/// A whole text made plain.
pub fn plain(text: &str) -> String {
    Plain::default().push(text)
}

/// The same on one line.
pub fn one_line(text: &str) -> String {
    plain(text).split_whitespace().collect::<Vec<_>>().join(" ")
}

/// The text of a tool's Markdown: fences and code spans lose their ticks, links to files their address.
pub fn from_markdown(markdown: &str) -> String {
    let mut lines = Vec::new();
    let mut fence = None::<usize>;
    for line in markdown.lines() {
        let n_ticks = line.chars().take_while(|&character| character == '`').count();
        match fence {
            Some(open) if n_ticks >= open && line.len() == n_ticks => fence = None,
            Some(_) => lines.push(line.to_owned()),
            None if n_ticks >= 3 => fence = Some(n_ticks),
            None => lines.push(inline(line)),
        }
    }
    lines.join("\n")
}

fn inline(line: &str) -> String {
    let mut shown = String::with_capacity(line.len());
    let mut rest = line;
    while let Some(character) = rest.chars().next() {
        let taken = match character {
            '\\' => escaped(rest),
            '[' => link(rest),
            '`' => code_span(rest),
            _ => None,
        };
        let (text, n_bytes) = taken.unwrap_or_else(|| (character.to_string(), character.len_utf8()));
        shown.push_str(&text);
        rest = &rest[n_bytes..];
    }
    shown
}

fn escaped(rest: &str) -> Option<(String, usize)> {
    let next = rest[1..].chars().next()?;
    matches!(next, '\\' | '`' | '*' | '_' | '[' | ']' | '<' | '>' | '~' | '|' | '$')
        .then(|| (next.to_string(), 1 + next.len_utf8()))
}

/// A link at the start of `rest`. The label of a file says where it is; other addresses are kept.
fn link(rest: &str) -> Option<(String, usize)> {
    let end = closing_bracket(rest)?;
    let after = rest[end + 1..].strip_prefix('(')?;
    let (address, _) = after.split_once(')')?;
    let label = inline(&rest[1..end]);
    let text = if address.starts_with("file://") {
        label
    } else if address.starts_with("http://") || address.starts_with("https://") {
        if label == address { label } else { format!("{label} <{address}>") }
    } else {
        return None;
    };
    Some((text, end + 1 + 1 + address.len() + 1))
}

fn closing_bracket(rest: &str) -> Option<usize> {
    let mut skip = false;
    for (at, character) in rest.char_indices().skip(1) {
        match character {
            _ if skip => skip = false,
            '\\' => skip = true,
            '[' => return None,
            ']' => return Some(at),
            _ => {}
        }
    }
    None
}

fn code_span(rest: &str) -> Option<(String, usize)> {
    let n_ticks = rest.len() - rest.trim_start_matches('`').len();
    let ticks = &rest[..n_ticks];
    let mut from = n_ticks;
    loop {
        let at = from + rest[from..].find(ticks)?;
        let run = rest[at..].len() - rest[at..].trim_start_matches('`').len();
        if run == n_ticks {
            let code = &rest[n_ticks..at];
            let padded = code.strip_prefix(' ').and_then(|code| code.strip_suffix(' '));
            let code = padded.filter(|code| !code.trim().is_empty()).unwrap_or(code);
            return Some((code.to_owned(), at + run));
        }
        from = at + run;
    }
}

/// What a newer snapshot of a growing text adds to what has been shown of it.
///
/// A snapshot may have lost its beginning, or have a line of its own in front: then the lines shown last are looked for
/// in it. `None`: nothing in common.
pub fn added<'a>(shown: &str, snapshot: &'a str) -> Option<&'a str> {
    let shown = shown.trim_end_matches('\n');
    if shown.is_empty() {
        return Some(snapshot);
    }
    if let Some(rest) = snapshot.strip_prefix(shown) {
        return Some(rest.strip_prefix('\n').unwrap_or(rest));
    }
    // The longest tail: where the beginning of the snapshot is the end of what was shown.
    let mut tails = shown.match_indices('\n').map(|(at, _)| &shown[at + 1..]);
    if let Some(tail) = tails.find(|tail| starts_with_lines(snapshot, tail)) {
        let rest = &snapshot[tail.len()..];
        return Some(rest.strip_prefix('\n').unwrap_or(rest));
    }
    let last_lines = shown.rmatch_indices('\n').nth(2).map_or(0, |(at, _)| at + 1);
    let tail = &shown[last_lines..];
    let at = snapshot.rfind(tail)?;
    let starts_a_line = at == 0 || snapshot.as_bytes().get(at - 1) == Some(&b'\n');
    let rest = &snapshot[at + tail.len()..];
    starts_a_line.then(|| rest.strip_prefix('\n').unwrap_or(rest))
}

fn starts_with_lines(text: &str, lines: &str) -> bool {
    text.strip_prefix(lines).is_some_and(|rest| rest.is_empty() || rest.starts_with('\n'))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_that_steers_a_terminal_is_left() {
        for (text, expected) in [
            ("\u{1b}[31mred\u{1b}[0m\r\nx", "red\nx"),
            ("10%\r50%\r\n", "10%\n50%\n"),
            ("\u{1b}]0;title\u{7}a\u{1b}]8;;u\u{1b}\\b", "ab"),
            ("\u{1b}(Bz\u{7}\u{8}", "z"),
            ("rm \u{202e}x", "rm \u{fffd}x"),
            ("tab\tand é", "tab\tand é"),
        ] {
            assert_eq!(plain(text), expected, "{text:?}");
            let mut stream = Plain::default();
            let chunked: String = text.chars().map(|chunk| stream.push(&chunk.to_string())).collect();
            assert_eq!(chunked, expected, "{text:?} in pieces");
        }
    }

    #[test]
    fn markdown_of_tools_becomes_text() {
        for (markdown, expected) in [
            (
                "- [src/\\_\\_init\\_\\_.py:3](file:///w/a.py#L3) `` a_ = `x` ``",
                "- src/__init__.py:3 a_ = `x`",
            ),
            ("[docs](https://x.y/z)", "docs <https://x.y/z>"),
            ("````rs\n/// ```\nfn a() {}\n````", "/// ```\nfn a() {}"),
            ("a[0] and [x](y) `", "a[0] and [x](y) `"),
            ("C:\\dir `code`", "C:\\dir code"),
        ] {
            assert_eq!(from_markdown(markdown), expected);
        }
    }

    #[test]
    fn a_growing_text_is_shown_once() {
        for (shown, snapshot, expected) in [
            ("", "a\nb", Some("a\nb")),
            ("a\nb\n", "a\nb\nc", Some("c")),
            ("a\nb\nc\nd", "[9 earlier bytes not shown]\nc\nd\ne", None),
            ("a\nb\nc\nd", "[1 earlier byte not shown]\nb\nc\nd\ne", Some("e")),
            ("What it does\na\nb", "a\nb", Some("")),
            ("What it does\na\nb", "a\nb\n[exit code: 1]", Some("[exit code: 1]")),
            ("x\na\na", "a\na\na", Some("a")),
            ("a", "x", None),
            ("a", "a", Some("")),
        ] {
            assert_eq!(added(shown, snapshot), expected, "{shown:?} → {snapshot:?}");
        }
    }
}
