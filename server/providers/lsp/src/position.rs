//! Places in a text: lines, columns in the three encodings of the protocol, and the smallest change between two texts.
//!
//! The only file that converts columns. Called by `documents` and `translate`.

use lsp_types::{Position, Range};
use services::language_servers::LspPosition;

/// What a server counts columns in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Encoding {
    /// Bytes.
    Utf8,
    /// 16-bit units: the protocol's default.
    Utf16,
    /// Unicode scalar values.
    Utf32,
}

impl Encoding {
    /// The encoding of this name; a server that names none, or an unknown one, counts UTF-16.
    pub fn named(name: Option<&str>) -> Self {
        match name {
            Some("utf-8") => Self::Utf8,
            Some("utf-32") => Self::Utf32,
            _ => Self::Utf16,
        }
    }

    fn width(self, char: char) -> u32 {
        match self {
            Self::Utf8 => char.len_utf8() as u32,
            Self::Utf16 => char.len_utf16() as u32,
            Self::Utf32 => 1,
        }
    }
}

/// A column of `line` counted in `from`, counted in `to`. One inside a character goes to its start, one behind the line
/// to its end.
pub fn column(line: &str, column: u32, from: Encoding, to: Encoding) -> u32 {
    let (mut seen, mut counted) = (0, 0);
    for char in line.chars() {
        seen += from.width(char);
        if seen > column {
            break;
        }
        counted += to.width(char);
    }
    counted
}

/// A text by lines. A line ends with LF, CR LF or CR, as the protocol says.
pub struct Lines<'a> {
    text: &'a str,
    starts: Vec<usize>,
}

impl<'a> Lines<'a> {
    /// Finds the lines of a text; there is always one.
    pub fn new(text: &'a str) -> Self {
        let bytes = text.as_bytes();
        let mut starts = vec![0];
        for (at, &byte) in bytes.iter().enumerate() {
            if byte == b'\n' || (byte == b'\r' && bytes.get(at + 1) != Some(&b'\n')) {
                starts.push(at + 1);
            }
        }
        Self { text, starts }
    }

    /// How many lines there are; a last line end is followed by an empty line.
    pub fn count(&self) -> usize {
        self.starts.len()
    }

    /// A line without its end.
    pub fn line(&self, number: u32) -> Option<&'a str> {
        let number = number as usize;
        let start = *self.starts.get(number)?;
        let end = self.starts.get(number + 1).copied().unwrap_or(self.text.len());
        Some(self.text[start..end].trim_end_matches(['\r', '\n']))
    }

    /// Our place as the server counts it.
    pub fn to_server(&self, position: LspPosition, encoding: Encoding) -> Position {
        let line = self.line(position.line).unwrap_or_default();
        Position::new(position.line, column(line, position.character, Encoding::Utf16, encoding))
    }

    /// The place of a byte as the server counts it.
    fn at_byte(&self, offset: usize, encoding: Encoding) -> Position {
        let line = self.starts.partition_point(|&start| start <= offset).saturating_sub(1);
        let before = &self.text[self.starts[line]..offset];
        let character = before.chars().map(|char| encoding.width(char)).sum();
        Position::new(line as u32, character)
    }
}

/// What must be replaced to get from one text to another.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Change<'a> {
    /// Span of the old text, as the server counts.
    pub range: Range,
    /// What comes there.
    pub text: &'a str,
}

/// The one change that makes `new` of `old`; never cuts a character or a CR LF in two.
pub fn change<'a>(old: &str, new: &'a str, encoding: Encoding) -> Change<'a> {
    let max = old.len().min(new.len());
    let mut head = old.bytes().zip(new.bytes()).take_while(|(a, b)| a == b).count();
    let splits = |text: &str, at: usize| {
        !text.is_char_boundary(at)
            || (at > 0 && text.as_bytes()[at - 1] == b'\r' && text.as_bytes().get(at) == Some(&b'\n'))
    };
    while head > 0 && (splits(old, head) || splits(new, head)) {
        head -= 1;
    }
    let mut tail =
        old.bytes().rev().zip(new.bytes().rev()).take(max - head).take_while(|(a, b)| a == b).count();
    while tail > 0 && (splits(old, old.len() - tail) || splits(new, new.len() - tail)) {
        tail -= 1;
    }
    let lines = Lines::new(old);
    Change {
        range: Range::new(lines.at_byte(head, encoding), lines.at_byte(old.len() - tail, encoding)),
        text: &new[head..new.len() - tail],
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn columns_are_counted_in_every_encoding() {
        let line = "é漢😀x";
        for (utf16, utf8, utf32) in [(0, 0, 0), (1, 2, 1), (2, 5, 2), (4, 9, 3), (5, 10, 4)] {
            assert_eq!(column(line, utf16, Encoding::Utf16, Encoding::Utf8), utf8);
            assert_eq!(column(line, utf16, Encoding::Utf16, Encoding::Utf32), utf32);
            assert_eq!(column(line, utf8, Encoding::Utf8, Encoding::Utf16), utf16);
            assert_eq!(column(line, utf32, Encoding::Utf32, Encoding::Utf16), utf16);
        }
        assert_eq!(column(line, 3, Encoding::Utf16, Encoding::Utf8), 5, "inside the emoji");
        assert_eq!(column(line, 99, Encoding::Utf16, Encoding::Utf8), 10, "behind the line");
    }

    #[test]
    fn every_line_end_ends_a_line() {
        let lines = Lines::new("a\r\nb\rc\n");
        let all: Vec<_> = (0..5).map(|number| lines.line(number)).collect();
        assert_eq!(all, [Some("a"), Some("b"), Some("c"), Some(""), None]);
        assert_eq!(lines.count(), 4);
    }

    /// Applies a change the way a server does.
    fn apply(old: &str, change: &Change<'_>, encoding: Encoding) -> String {
        let lines = Lines::new(old);
        let offset = |position: Position| {
            let line = lines.line(position.line).unwrap();
            let bytes = column(line, position.character, encoding, Encoding::Utf8);
            lines.starts[position.line as usize] + bytes as usize
        };
        let (start, end) = (offset(change.range.start), offset(change.range.end));
        format!("{}{}{}", &old[..start], change.text, &old[end..])
    }

    proptest! {
        #[test]
        fn a_change_makes_the_new_text(old in "[aé😀\r\n]{0,12}", new in "[aé😀\r\n]{0,12}") {
            for encoding in [Encoding::Utf8, Encoding::Utf16, Encoding::Utf32] {
                let change = change(&old, &new, encoding);
                prop_assert_eq!(apply(&old, &change, encoding), new.clone());
            }
        }
    }
}
