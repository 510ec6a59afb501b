//! A line that matched, as it is shown: whole, or the window round the match.

/// The line without its end; of a longer one at most `max_bytes` round the match at `start..end`, with `…` on the cut
/// sides and a note. A line that is not UTF-8 is shown with replacement characters and says so; a binary one is named.
pub(super) fn shown(line: &[u8], (start, end): (usize, usize), max_bytes: usize) -> String {
    let line = without_end(line);
    if memchr::memchr(0, line).is_some() {
        return format!("[binary line of {} bytes]", line.len());
    }
    let (from, to) = window(line, (start.min(line.len()), end.min(line.len())), max_bytes);
    let cut = String::from_utf8_lossy(&line[from..to]);
    let is_utf8 = matches!(cut, std::borrow::Cow::Borrowed(_));
    let mut text = cut.into_owned();
    if (from, to) != (0, line.len()) {
        let (before, after) = (if from > 0 { "…" } else { "" }, if to < line.len() { "…" } else { "" });
        text = format!("{before}{text}{after} (line truncated: bytes {}-{to} of {})", from + 1, line.len());
    }
    if !is_utf8 {
        text.push_str(" (not valid UTF-8)");
    }
    text
}

fn without_end(line: &[u8]) -> &[u8] {
    let line = line.strip_suffix(b"\n").unwrap_or(line);
    line.strip_suffix(b"\r").unwrap_or(line)
}

/// The part of the line to show, cut between characters.
fn window(line: &[u8], (start, end): (usize, usize), max_bytes: usize) -> (usize, usize) {
    if line.len() <= max_bytes {
        return (0, line.len());
    }
    // A quarter of what the match leaves goes before it: what follows tends to say more.
    let spare = max_bytes.saturating_sub(end - start);
    let from = start.saturating_sub(spare / 4).min(line.len() - max_bytes);
    let to = from + max_bytes;
    let is_inside = |at: usize| line.get(at).is_some_and(|byte| byte & 0b1100_0000 == 0b1000_0000);
    let from = (from..from + 4).find(|&at| !is_inside(at)).unwrap_or(from).min(to);
    let to = (to.saturating_sub(3)..=to).rev().find(|&at| !is_inside(at)).unwrap_or(to).max(from);
    (from, to)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_are_shown_whole_when_they_fit() {
        let cases: [(&[u8], &str); 6] = [
            (b"abc\n", "abc"),
            (b"abc\r\n", "abc"),
            (b"abc\r\r\n", "abc\r"),
            (b"  abc", "  abc"),
            (b"caf\xe9", "caf\u{fffd} (not valid UTF-8)"),
            (b"a\0b\n", "[binary line of 3 bytes]"),
        ];
        for (line, expected) in cases {
            assert_eq!(shown(line, (0, 1), 100), expected);
        }
    }

    #[test]
    fn a_long_line_is_cut_to_the_window_round_the_match() {
        let line = format!("{}MATCH{}\n", "a".repeat(100), "b".repeat(100));
        let cases = [
            ((100, 105), 25, "…aaaaaMATCHbbbbbbbbbbbbbbb… (line truncated: bytes 96-120 of 205)"),
            ((0, 1), 5, "aaaaa… (line truncated: bytes 1-5 of 205)"),
            ((204, 205), 5, "…bbbbb (line truncated: bytes 201-205 of 205)"),
            ((100, 205), 5, "…MATCH… (line truncated: bytes 101-105 of 205)"),
        ];
        for (matched, max_bytes, expected) in cases {
            assert_eq!(shown(line.as_bytes(), matched, max_bytes), expected);
        }
    }

    #[test]
    fn characters_are_not_cut() {
        let line = "é".repeat(50);
        for max_bytes in 1..20 {
            let text = shown(line.as_bytes(), (40, 42), max_bytes);
            assert!(!text.contains('\u{fffd}'), "{max_bytes}: {text}");
        }
    }
}
