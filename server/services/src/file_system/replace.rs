//! The replacement an edit makes: exact but for BOM and line ends; only the replaced spans change.

use super::{FsError, FsErrorKind};

/// Replaces `old` by `new` in `text`.
///
/// Matching ignores the difference between CRLF and LF and a leading BOM; everything outside the replaced spans stays
/// byte for byte. Line ends in `new` become those of the replaced span, else of the nearest line end before it, else
/// after it, else LF. Matches do not overlap. Source: product decisions, "BOM and line ends".
///
/// # Errors
/// `EditNotFound` for an empty `old` or no match, naming a near miss when there is one; `AmbiguousEdit` for several
/// matches without `replace_all`, with the lines they are on.
pub fn replace(text: &str, old: &str, new: &str, replace_all: bool) -> Result<String, FsError> {
    let old = old.strip_prefix('\u{feff}').unwrap_or(old).replace("\r\n", "\n");
    let new = new.replace("\r\n", "\n");
    if old.is_empty() {
        return Err(FsError::new(FsErrorKind::EditNotFound, "old_string is empty; give the text to replace"));
    }
    let spans = find(text, &old);
    match spans.len() {
        0 => return Err(FsError::new(FsErrorKind::EditNotFound, not_found(text, &old))),
        1 => {}
        _ if replace_all => {}
        n => {
            let lines: Vec<String> =
                spans.iter().take(20).map(|span| line_of(text, span.0).to_string()).collect();
            return Err(FsError::new(
                FsErrorKind::AmbiguousEdit,
                format!(
                    "old_string matches {n} places (lines {}{}); add surrounding lines to make it unique, or set replace_all",
                    lines.join(", "),
                    if n > 20 { ", …" } else { "" }
                ),
            ));
        }
    }
    let mut result = String::with_capacity(text.len() + new.len());
    let mut done = 0;
    for (start, end) in spans {
        result.push_str(&text[done..start]);
        if new.contains('\n') && line_end(text, start, end) == "\r\n" {
            result.push_str(&new.replace('\n', "\r\n"));
        } else {
            result.push_str(&new);
        }
        done = end;
    }
    result.push_str(&text[done..]);
    Ok(result)
}

/// Non-overlapping matches of `old` (LF only) in `text`, as byte spans of `text`.
fn find(text: &str, old: &str) -> Vec<(usize, usize)> {
    if memchr::memmem::find(text.as_bytes(), b"\r\n").is_none() {
        let starts = memchr::memmem::find_iter(text.as_bytes(), old.as_bytes());
        return starts.map(|start| (start, start + old.len())).collect();
    }
    // Match on the LF form and map the spans back: `dropped[i]` is where the i-th dropped CR stood in the LF form.
    let mut plain = String::with_capacity(text.len());
    let mut dropped = Vec::new();
    let mut rest = text;
    while let Some(idx) = rest.find("\r\n") {
        plain.push_str(&rest[..idx]);
        dropped.push(plain.len());
        plain.push('\n');
        rest = &rest[idx + 2..];
    }
    plain.push_str(rest);
    plain
        .match_indices(old)
        .map(|(start, found)| {
            let end = start + found.len();
            // A CR dropped exactly at `start` belongs to the span; one at `end` stays outside it.
            let before_start = dropped.partition_point(|&at| at < start);
            let before_end = dropped.partition_point(|&at| at < end);
            (start + before_start, end + before_end)
        })
        .collect()
}

/// The line end that new lines in a replacement of `start..end` take.
fn line_end(text: &str, start: usize, end: usize) -> &'static str {
    let bytes = text.as_bytes();
    let crlf_at = |idx: usize| if idx > 0 && bytes[idx - 1] == b'\r' { "\r\n" } else { "\n" };
    if let Some(idx) = text[start..end].find('\n') {
        return crlf_at(start + idx);
    }
    if let Some(idx) = text[..start].rfind('\n') {
        return crlf_at(idx);
    }
    if let Some(idx) = text[end..].find('\n') {
        return crlf_at(end + idx);
    }
    "\n"
}

fn line_of(text: &str, at: usize) -> usize {
    text[..at].bytes().filter(|&byte| byte == b'\n').count() + 1
}

/// Explains a miss: the closest text that differs only in white space or look-alike characters, when there is one.
fn not_found(text: &str, old: &str) -> String {
    let base = "old_string was not found in the file; it must match exactly, white space included";
    let wanted = folded(old);
    if wanted.is_empty() {
        return base.to_owned();
    }
    let lines: Vec<&str> = text.lines().collect();
    let n_lines = old.lines().count();
    for (line_idx, window) in lines.windows(n_lines.min(lines.len()).max(1)).enumerate() {
        let candidate = window.join("\n");
        if !folded(&candidate).contains(&wanted) {
            continue;
        }
        let difference = old
            .lines()
            .zip(window)
            .enumerate()
            .find_map(|(idx, (old_line, line))| {
                let (old_char, char) = first_difference(old_line, line)?;
                Some(format!(
                    " On line {} the file has {} where old_string has {}.",
                    line_idx + idx + 1,
                    name(char),
                    name(old_char)
                ))
            })
            .unwrap_or_default();
        return format!(
            "{base}. Line {} is a near miss: it differs in white space or look-alike characters.{difference}",
            line_idx + 1
        );
    }
    format!("{base}. Read the file again and copy the text from there")
}

/// The first differing characters of two lines that are equal once folded, ignoring where each begins.
fn first_difference(old_line: &str, line: &str) -> Option<(Option<char>, Option<char>)> {
    let line = match folded(line).find(&folded(old_line)) {
        Some(0) | None => line,
        Some(_) => line.trim_start(),
    };
    let mut old_chars = old_line.chars();
    let mut chars = line.chars();
    loop {
        match (old_chars.next(), chars.next()) {
            (None, _) => return None,
            (a, b) if a == b => {}
            pair => return Some(pair),
        }
    }
}

/// The text without white space, look-alike punctuation made plain.
fn folded(text: &str) -> String {
    text.chars()
        .filter(|char| !char.is_whitespace() && !matches!(char, '\u{200b}' | '\u{feff}'))
        .map(|char| match char {
            '\u{2018}' | '\u{2019}' => '\'',
            '\u{201c}' | '\u{201d}' => '"',
            '\u{2010}'..='\u{2015}' | '\u{2212}' => '-',
            other => other,
        })
        .collect()
}

fn name(char: Option<char>) -> String {
    match char {
        None => "the end of the line".to_owned(),
        Some('\t') => "a tab (U+0009)".to_owned(),
        Some(' ') => "a space (U+0020)".to_owned(),
        Some(char) => format!("`{char}` (U+{:04X})", char as u32),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_replaced_span_changes() {
        let cases = [
            ("a\nb\nc\n", "b", "B", "a\nB\nc\n"),
            ("a\r\nb\r\nc", "a\nb", "x\ny", "x\r\ny\r\nc"),
            ("a\nb\r\nc\r\n", "a", "1\n2", "1\n2\nb\r\nc\r\n"),
            ("a\nb\r\nc\r\n", "c", "1\n2", "a\nb\r\n1\r\n2\r\n"),
            ("x", "x", "1\n2", "1\n2"),
            ("x\r\n", "x", "1\n2", "1\r\n2\r\n"),
            ("\u{feff}a\nb", "\u{feff}a", "z", "\u{feff}z\nb"),
            ("a\r\n\r\nb", "\n\n", "\n", "a\r\nb"),
            ("cost: x", "x", "$1 \\n $&", "cost: $1 \\n $&"),
            ("a\rb\r\n", "a\rb", "c", "c\r\n"),
        ];
        for (text, old, new, expected) in cases {
            assert_eq!(
                replace(text, old, new, false).as_deref(),
                Ok(expected),
                "{text:?} {old:?} -> {new:?}"
            );
        }
    }

    #[test]
    fn a_match_that_ends_before_a_crlf_leaves_it_alone() {
        assert_eq!(replace("a\r\nb", "a", "x", false).unwrap(), "x\r\nb");
        assert_eq!(replace("a\r\nb", "\nb", "", false).unwrap(), "a");
    }

    #[test]
    fn all_occurrences_take_their_own_line_ends() {
        assert_eq!(replace("x\r\nx\n", "x", "1\n2", true).unwrap(), "1\r\n2\r\n1\r\n2\n");
    }

    #[test]
    fn several_matches_are_ambiguous_and_named() {
        let error = replace("x\ny\nx\n", "x", "z", false).unwrap_err();
        assert_eq!(error.kind, FsErrorKind::AmbiguousEdit);
        assert!(error.message.contains("2 places (lines 1, 3)"), "{}", error.message);
    }

    #[test]
    fn an_empty_search_text_is_refused() {
        assert_eq!(replace("abc", "", "x", true).unwrap_err().kind, FsErrorKind::EditNotFound);
    }

    #[test]
    fn a_near_miss_is_named_by_line_and_code_point() {
        let error = replace("fn a() {\n\tb\u{a0}c();\n}\n", "\tb c();", "x", false).unwrap_err();
        assert_eq!(error.kind, FsErrorKind::EditNotFound);
        assert!(error.message.contains("line 2") && error.message.contains("U+00A0"), "{}", error.message);
        let error = replace("\tlet x;\n", "    let x;", "x", false).unwrap_err();
        assert!(error.message.contains("Line 1") && error.message.contains("U+0009"), "{}", error.message);
    }
}
