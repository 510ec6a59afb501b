//! Small tools for text on a screen: fences, escapes, cuts. Used by every card.

/// A fenced block, its fence longer than any run of backticks inside; trailing line ends are cut.
pub(crate) fn fence(language: &str, text: &str) -> String {
    let text = text.trim_end_matches(['\n', '\r']);
    let ticks = "`".repeat(longest_run(text, '`').max(2) + 1);
    let newline = if text.is_empty() { "" } else { "\n" };
    format!("{ticks}{language}\n{text}{newline}{ticks}")
}

/// An inline code span that keeps `text` as it is.
pub(crate) fn inline_code(text: &str) -> String {
    let ticks = "`".repeat(longest_run(text, '`') + 1);
    let pad = if text.starts_with('`') || text.ends_with('`') { " " } else { "" };
    format!("{ticks}{pad}{text}{pad}{ticks}")
}

/// Escapes what Markdown would take for markup. Underscores inside words stay, since they mean nothing there.
pub(crate) fn escape_markdown(text: &str) -> String {
    let mut escaped = String::with_capacity(text.len());
    let mut before = None::<char>;
    let mut characters = text.chars().peekable();
    while let Some(character) = characters.next() {
        let special = match character {
            '\\' | '`' | '*' | '[' | ']' | '<' | '>' | '~' | '|' | '$' => true,
            '_' => {
                let word = |c: Option<char>| c.is_some_and(char::is_alphanumeric);
                !(word(before) && word(characters.peek().copied()))
            }
            '#' | '-' | '+' => before.is_none(),
            _ => false,
        };
        if special {
            escaped.push('\\');
        }
        escaped.push(character);
        before = Some(character);
    }
    escaped
}

/// A Markdown link; the label is escaped, characters that would end the address early are encoded.
pub(crate) fn link(label: &str, address: &str) -> String {
    let mut encoded = String::with_capacity(address.len());
    for character in address.chars() {
        match character {
            '(' => encoded.push_str("%28"),
            ')' => encoded.push_str("%29"),
            '<' => encoded.push_str("%3C"),
            '>' => encoded.push_str("%3E"),
            ' ' => encoded.push_str("%20"),
            '\\' => encoded.push_str("%5C"),
            c if c.is_control() => {}
            c => encoded.push(c),
        }
    }
    format!("[{}]({encoded})", escape_markdown(&one_line(label)))
}

/// The first line that says something, with ` …` when more follow. Control characters and characters that turn the
/// direction of text are replaced, so that what is read is what is there.
pub(crate) fn one_line(text: &str) -> String {
    let mut lines = text.trim().lines();
    let mut line: String = lines.next().unwrap_or_default().trim_end().chars().map(plain).collect();
    if lines.next().is_some() {
        line.push_str(" …");
    }
    line
}

/// Several lines as they are, with the same replacements as [`one_line`]; tabs stay.
pub(crate) fn visible(text: &str) -> String {
    text.chars().map(|c| if matches!(c, '\n' | '\t') { c } else { plain(c) }).collect()
}

fn plain(character: char) -> char {
    match character {
        '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}' | '\u{200e}' | '\u{200f}' => '\u{fffd}',
        '\u{2028}' | '\u{2029}' => ' ',
        c if c.is_control() => ' ',
        c => c,
    }
}

/// At most `max` characters, the last one `…` when something was cut.
pub(crate) fn cut(text: &str, max: usize) -> String {
    if text.chars().count() <= max {
        return text.to_owned();
    }
    let mut kept: String = text.chars().take(max.saturating_sub(1)).collect();
    kept.push('…');
    kept
}

/// The longest start of `text` of at most `max_bytes` that ends between characters.
pub(crate) fn cut_bytes(text: &str, max_bytes: usize) -> &str {
    &text[..text.floor_char_boundary(max_bytes)]
}

/// `1 match`, `2 matches`.
pub(crate) fn count(n: u64, one: &str, many: &str) -> String {
    format!("{n} {}", if n == 1 { one } else { many })
}

/// Output of a command as plain text: escape sequences are dropped, a carriage return inside a line overwrites it.
pub(crate) fn plain_terminal_text(output: &str) -> String {
    let stripped = strip_escapes(output);
    let mut plain = String::with_capacity(stripped.len());
    for line in stripped.split_inclusive('\n') {
        let (body, end) = match line.strip_suffix('\n') {
            Some(body) => (body.trim_end_matches('\r'), "\n"),
            None => (line, ""),
        };
        let visible = body.trim_end_matches('\r').rsplit('\r').next().unwrap_or_default();
        plain.push_str(visible);
        plain.push_str(end);
    }
    plain
}

fn strip_escapes(output: &str) -> String {
    let mut plain = String::with_capacity(output.len());
    let mut characters = output.chars().peekable();
    while let Some(character) = characters.next() {
        match character {
            '\u{1b}' => skip_escape(&mut characters),
            '\u{8}' => {
                if plain.ends_with(|c| c != '\n') {
                    plain.pop();
                }
            }
            '\n' | '\t' | '\r' => plain.push(character),
            c if c.is_control() => {}
            c => plain.push(c),
        }
    }
    plain
}

/// Skips one sequence whose escape character is already taken: CSI to its final byte, string sequences to their
/// terminator, everything else by one character.
fn skip_escape(characters: &mut std::iter::Peekable<std::str::Chars<'_>>) {
    match characters.next() {
        Some('[') => while characters.next().is_some_and(|c| !('\u{40}'..='\u{7e}').contains(&c)) {},
        Some(']' | 'P' | 'X' | '^' | '_') => {
            while let Some(character) = characters.next() {
                if character == '\u{7}' {
                    return;
                }
                if character == '\u{1b}' {
                    characters.next_if_eq(&'\\');
                    return;
                }
            }
        }
        Some('(' | ')' | '*' | '+' | '#' | '%' | ' ') => {
            characters.next();
        }
        _ => {}
    }
}

/// Line ends as a terminal wants them: every LF without a CR before it gets one.
pub(crate) fn terminal_line_ends(output: &str) -> String {
    let mut result = String::with_capacity(output.len());
    let mut before = '\0';
    for character in output.chars() {
        if character == '\n' && before != '\r' {
            result.push('\r');
        }
        result.push(character);
        before = character;
    }
    result
}

fn longest_run(text: &str, wanted: char) -> usize {
    text.split(|c| c != wanted).map(str::len).max().unwrap_or(0) / wanted.len_utf8()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_fence_is_longer_than_any_inside() {
        for (text, expected) in [
            ("a\n\n", "```rs\na\n```"),
            ("", "```rs\n```"),
            ("x ``` y", "````rs\nx ``` y\n````"),
            ("`````", "``````rs\n`````\n``````"),
        ] {
            assert_eq!(fence("rs", text), expected, "{text:?}");
        }
    }

    #[test]
    fn code_spans_keep_backticks() {
        for (text, expected) in [("a", "`a`"), ("a`b", "``a`b``"), ("`a", "`` `a ``")] {
            assert_eq!(inline_code(text), expected);
        }
    }

    #[test]
    fn markup_is_escaped_and_words_are_left_alone() {
        for (text, expected) in [
            ("__init__.py", "\\_\\_init\\_\\_.py"),
            ("my_file.rs", "my_file.rs"),
            ("a*b*c", "a\\*b\\*c"),
            ("# x - y", "\\# x - y"),
        ] {
            assert_eq!(escape_markdown(text), expected);
        }
    }

    #[test]
    fn one_line_says_when_there_are_more_and_hides_nothing() {
        for (text, expected) in [
            ("\n  ls -l\n", "ls -l"),
            ("cd x\nmake", "cd x …"),
            ("a\tb\u{1b}[1m", "a b [1m"),
            ("safe\u{202e}evil", "safe\u{fffd}evil"),
            ("", ""),
        ] {
            assert_eq!(one_line(text), expected);
        }
    }

    #[test]
    fn cuts_never_split_a_character() {
        assert_eq!(cut("äöü", 3), "äöü");
        assert_eq!(cut("äöüß", 3), "äö…");
        assert_eq!(cut_bytes("äöü", 3), "ä");
    }

    #[test]
    fn terminal_output_becomes_plain_text() {
        for (output, expected) in [
            ("\u{1b}[31mred\u{1b}[0m\r\n", "red\n"),
            ("10%\r50%\r100%\n", "100%\n"),
            ("\u{1b}]0;title\u{7}x\u{1b}]8;;u\u{1b}\\y", "xy"),
            ("ab\u{8}c", "ac"),
            ("\u{1b}(Bz\u{7}", "z"),
        ] {
            assert_eq!(plain_terminal_text(output), expected, "{output:?}");
        }
    }

    #[test]
    fn terminals_get_both_line_end_characters() {
        assert_eq!(terminal_line_ends("a\nb\r\nc"), "a\r\nb\r\nc");
    }

    #[test]
    fn links_survive_awkward_labels_and_addresses() {
        assert_eq!(link("a]b_", "https://x.y/a (b)"), "[a\\]b\\_](https://x.y/a%20%28b%29)");
    }
}
