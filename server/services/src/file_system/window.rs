//! The window of lines a read returns, cut while the text streams by.

/// Which lines to return.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct WindowRequest {
    /// First line, 1-based.
    pub offset: u64,
    /// Most lines.
    pub limit: u64,
    /// Most bytes of all lines, one more counted for each line end between them.
    pub max_bytes: usize,
    /// Longest line in characters; a longer one is cut and marked.
    pub max_line_chars: usize,
}

/// The lines of a window.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Window {
    /// Line numbers (1-based) and texts without line ends.
    pub lines: Vec<(u64, String)>,
    /// Lines of the whole text; a final line end makes no extra line.
    pub total_lines: u64,
    /// Whether `max_bytes` ended the window.
    pub byte_capped: bool,
}

/// Cuts a window out of a text that arrives in chunks. Holds at most one line up to its cap and the window itself.
pub struct WindowCutter {
    request: WindowRequest,
    window: Window,
    used_bytes: usize,
    line: String,
    line_chars: usize,
    line_overflows: bool,
    /// Whether the current line has any character, also beyond the cap.
    line_open: bool,
    /// A CR that may turn out to end the line.
    pending_cr: bool,
}

impl WindowCutter {
    /// A cutter at the start of a text.
    pub fn new(request: WindowRequest) -> Self {
        Self {
            request,
            window: Window::default(),
            used_bytes: 0,
            line: String::new(),
            line_chars: 0,
            line_overflows: false,
            line_open: false,
            pending_cr: false,
        }
    }

    /// Takes the next piece of text.
    pub fn push(&mut self, chunk: &str) {
        let mut rest = chunk;
        while let Some(newline_idx) = rest.find('\n') {
            self.push_within_line(&rest[..newline_idx]);
            self.end_line();
            rest = &rest[newline_idx + 1..];
        }
        self.push_within_line(rest);
    }

    /// The window, once the whole text went by.
    pub fn finish(mut self) -> Window {
        if self.pending_cr {
            self.pending_cr = false;
            self.append("\r");
        }
        if self.line_open {
            self.end_line();
        }
        self.window
    }

    fn push_within_line(&mut self, text: &str) {
        if text.is_empty() {
            return;
        }
        self.line_open = true;
        if self.pending_cr {
            self.pending_cr = false;
            self.append("\r");
        }
        match text.strip_suffix('\r') {
            Some(before) => {
                self.append(before);
                self.pending_cr = true;
            }
            None => self.append(text),
        }
    }

    fn append(&mut self, text: &str) {
        if !self.line_is_wanted() || self.line_overflows {
            return;
        }
        let room = self.request.max_line_chars - self.line_chars;
        match text.char_indices().nth(room) {
            Some((cut, _)) => {
                self.line.push_str(&text[..cut]);
                self.line_overflows = true;
            }
            None => {
                self.line.push_str(text);
                self.line_chars += text.chars().count();
            }
        }
    }

    fn line_is_wanted(&self) -> bool {
        let number = self.window.total_lines + 1;
        !self.window.byte_capped
            && number >= self.request.offset
            && (self.window.lines.len() as u64) < self.request.limit
    }

    fn end_line(&mut self) {
        if self.line_is_wanted() {
            if self.line_overflows {
                self.line.push_str(&format!("... (line truncated to {} chars)", self.request.max_line_chars));
            }
            let joining = usize::from(!self.window.lines.is_empty());
            if self.used_bytes + joining + self.line.len() <= self.request.max_bytes {
                self.used_bytes += joining + self.line.len();
                self.window.lines.push((self.window.total_lines + 1, std::mem::take(&mut self.line)));
            } else {
                self.window.byte_capped = true;
            }
        }
        self.window.total_lines += 1;
        self.line.clear();
        self.line_chars = 0;
        self.line_overflows = false;
        self.line_open = false;
        self.pending_cr = false;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn cut(text: &str, offset: u64, limit: u64, max_bytes: usize, max_line_chars: usize) -> Window {
        let whole = {
            let mut cutter = WindowCutter::new(WindowRequest { offset, limit, max_bytes, max_line_chars });
            cutter.push(text);
            cutter.finish()
        };
        let mut cutter = WindowCutter::new(WindowRequest { offset, limit, max_bytes, max_line_chars });
        for char in text.chars() {
            cutter.push(char.encode_utf8(&mut [0; 4]));
        }
        assert_eq!(whole, cutter.finish(), "the cut must not depend on the chunks");
        whole
    }

    fn lines(window: &Window) -> Vec<(u64, &str)> {
        window.lines.iter().map(|(number, text)| (*number, text.as_str())).collect()
    }

    #[test]
    fn one_cr_per_line_is_stripped_and_a_final_newline_makes_no_line() {
        let window = cut("a\r\nb\r\r\nc\n", 1, 10, 100, 100);
        assert_eq!(lines(&window), [(1, "a"), (2, "b\r"), (3, "c")]);
        assert_eq!(window.total_lines, 3);
    }

    #[test]
    fn a_lone_cr_at_the_end_of_the_file_is_text() {
        assert_eq!(lines(&cut("a\r", 1, 10, 100, 100)), [(1, "a\r")]);
    }

    #[test]
    fn the_window_is_cut_and_the_total_is_exact() {
        let window = cut("1\n2\n3\n4\n5", 2, 2, 100, 100);
        assert_eq!(lines(&window), [(2, "2"), (3, "3")]);
        assert_eq!(window.total_lines, 5);
        assert!(!window.byte_capped);
    }

    #[test]
    fn long_lines_are_cut_at_characters_and_marked() {
        let window = cut("éééé\nok\n", 1, 10, 100, 3);
        assert_eq!(lines(&window), [(1, "ééé... (line truncated to 3 chars)"), (2, "ok")]);
    }

    #[test]
    fn the_first_line_that_does_not_fit_ends_the_window() {
        let window = cut("aaaa\nbbbb\nc\n", 1, 10, 8, 100);
        assert_eq!(lines(&window), [(1, "aaaa")]);
        assert!(window.byte_capped);
        assert_eq!(window.total_lines, 3);
    }

    #[test]
    fn a_first_line_over_the_byte_cap_leaves_an_empty_window() {
        let window = cut("aaaa\n", 1, 10, 3, 100);
        assert_eq!(window.lines.len(), 0);
        assert!(window.byte_capped);
    }

    #[test]
    fn an_empty_text_has_no_lines() {
        assert_eq!(cut("", 1, 10, 10, 10), Window::default());
    }
}
