//! Painted text that only grows: whole lines, and streams that may stop in the middle of one.
//!
//! Used by the transcript. Nothing here moves the cursor, so the result reads the same on a terminal and in a file.

use std::fmt::Write;

/// Longest part of a line that is shown, in characters.
const MAX_LINE: usize = 400;

/// How a stretch of text is painted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ink {
    /// As the terminal likes it.
    Plain,
    /// Less important.
    Dim,
    /// A heading.
    Bold,
    /// Removed, failed.
    Red,
    /// Added, allowed.
    Green,
    /// Asks for attention.
    Yellow,
    /// A place or a mark.
    Cyan,
}

impl Ink {
    fn code(self) -> &'static str {
        match self {
            Self::Plain => "",
            Self::Dim => "\u{1b}[2m",
            Self::Bold => "\u{1b}[1m",
            Self::Red => "\u{1b}[31m",
            Self::Green => "\u{1b}[32m",
            Self::Yellow => "\u{1b}[33m",
            Self::Cyan => "\u{1b}[36m",
        }
    }
}

/// One line as painted stretches.
pub type Spans = Vec<(Ink, String)>;

/// A line of one stretch.
pub fn span(ink: Ink, text: impl Into<String>) -> Spans {
    vec![(ink, text.into())]
}

/// What is to be printed next.
#[derive(Debug)]
pub struct Page {
    colours: bool,
    text: String,
    /// The last line has not been ended.
    mid_line: bool,
    /// The last line printed was empty, or nothing has been printed.
    blank: bool,
}

impl Page {
    /// An empty page.
    pub fn new(colours: bool) -> Self {
        Self { colours, text: String::new(), mid_line: false, blank: true }
    }

    /// Takes what is to be printed.
    pub fn take(&mut self) -> String {
        std::mem::take(&mut self.text)
    }

    /// Adds a whole line; one that was not ended is ended first.
    pub fn line(&mut self, spans: &[(Ink, String)]) {
        self.end_line();
        for (ink, text) in spans {
            self.paint(*ink, text);
        }
        self.text.push('\n');
        self.blank = spans.iter().all(|(_, text)| text.is_empty());
    }

    /// Adds an empty line, unless one stands there.
    pub fn blank_line(&mut self) {
        self.end_line();
        if !self.blank {
            self.line(&[]);
        }
    }

    /// Adds text that may go on later; each of its lines starts with `prefix`.
    pub fn stream(&mut self, ink: Ink, prefix: &str, text: &str) {
        for piece in text.split_inclusive('\n') {
            let body = piece.strip_suffix('\n').unwrap_or(piece);
            if !self.mid_line {
                self.paint(Ink::Dim, if body.is_empty() { prefix.trim_end() } else { prefix });
            }
            self.paint(ink, body);
            self.mid_line = body.len() == piece.len();
            if !self.mid_line {
                self.text.push('\n');
                self.blank = prefix.trim().is_empty() && body.is_empty();
            } else {
                self.blank = false;
            }
        }
    }

    /// Ends the line that a stream has left open.
    pub fn end_line(&mut self) {
        if self.mid_line {
            self.text.push('\n');
            self.mid_line = false;
        }
    }

    /// Somebody else ended the open line: the person, by typing an answer.
    pub fn line_was_ended(&mut self) {
        self.mid_line = false;
    }

    fn paint(&mut self, ink: Ink, text: &str) {
        if text.is_empty() {
        } else if self.colours && ink != Ink::Plain {
            // Writing into a String cannot fail.
            let _ = write!(self.text, "{}{text}\u{1b}[0m", ink.code());
        } else {
            self.text.push_str(text);
        }
    }
}

/// Lets the first lines of a stream pass and counts the others; long lines are cut.
#[derive(Clone, Debug)]
pub struct LineLimit {
    max_lines: usize,
    begun: usize,
    mid_line: bool,
    column: usize,
}

impl LineLimit {
    /// Lets `max_lines` pass.
    pub fn new(max_lines: usize) -> Self {
        Self { max_lines, begun: 0, mid_line: false, column: 0 }
    }

    /// The part of the next text that is shown.
    pub fn pass(&mut self, text: &str) -> String {
        let mut shown = String::new();
        for piece in text.split_inclusive('\n') {
            if !self.mid_line {
                self.begun += 1;
                self.column = 0;
            }
            let body = piece.strip_suffix('\n').unwrap_or(piece);
            self.mid_line = body.len() == piece.len();
            if self.begun > self.max_lines {
                continue;
            }
            for character in body.chars() {
                self.column += 1;
                match self.column {
                    ..=MAX_LINE => shown.push(character),
                    column if column == MAX_LINE + 1 => shown.push('…'),
                    _ => break,
                }
            }
            if !self.mid_line {
                shown.push('\n');
            }
        }
        shown
    }

    /// Counts lines that nobody handed over.
    pub fn skip(&mut self, n_lines: usize) {
        self.begun += n_lines;
        self.mid_line = false;
    }

    /// Takes the number of lines that were not shown.
    pub fn take_hidden(&mut self) -> usize {
        let hidden = self.begun.saturating_sub(self.max_lines);
        self.begun -= hidden;
        hidden
    }
}

/// `… 3 more lines`.
pub fn more_lines(n_lines: usize) -> String {
    format!("… {n_lines} more {}", if n_lines == 1 { "line" } else { "lines" })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_ends_what_a_stream_has_left_open() {
        let mut page = Page::new(false);
        page.stream(Ink::Plain, "| ", "one\ntw");
        page.stream(Ink::Plain, "| ", "o");
        page.line(&span(Ink::Plain, "next"));
        page.blank_line();
        page.blank_line();
        assert_eq!(page.take(), "| one\n| two\nnext\n\n");
    }

    #[test]
    fn colours_never_cross_a_line_end() {
        let mut page = Page::new(true);
        page.stream(Ink::Red, "", "a\nb");
        assert_eq!(page.take(), "\u{1b}[31ma\u{1b}[0m\n\u{1b}[31mb\u{1b}[0m");
    }

    #[test]
    fn lines_over_the_limit_are_counted_however_they_are_chunked() {
        for size in 1..7 {
            let mut limit = LineLimit::new(2);
            let text = "one\ntwo\nthree\nfour";
            let shown: String = (text.as_bytes().chunks(size))
                .map(|chunk| limit.pass(std::str::from_utf8(chunk).unwrap()))
                .collect();
            assert_eq!((shown.as_str(), limit.take_hidden()), ("one\ntwo\n", 2));
        }
    }

    #[test]
    fn a_long_line_is_cut_once() {
        let mut limit = LineLimit::new(2);
        let shown = limit.pass(&"x".repeat(MAX_LINE)) + &limit.pass("yz") + &limit.pass("z\nnext\n");
        assert_eq!(shown, format!("{}…\nnext\n", "x".repeat(MAX_LINE)));
    }
}
