//! What a terminal would show of a stream, as plain text: no control sequences, redrawn lines in their last state.
//!
//! Models pay for every byte of a progress bar; people still see the colours in the editor's terminal. Source:
//! `faults.md` C06. This is no terminal: there is no width, and clearing the screen keeps what was printed.

/// Farthest column that a sequence may move to; keeps a hostile stream from growing a hundredfold.
const MAX_COLUMN: usize = 256;

/// The text without control sequences, each line as it was left.
pub fn plain(text: &str) -> String {
    // CRLF is a line end here as everywhere; only what remains needs the screen.
    let text = text.replace("\r\n", "\n");
    if !text.chars().any(|char| char.is_control() && char != '\n' && char != '\t') {
        return text;
    }
    let mut screen = Screen::default();
    let mut chars = text.chars();
    while let Some(char) = chars.next() {
        match char {
            '\n' => screen.line_feed(),
            '\r' => screen.column = 0,
            '\u{8}' => screen.column = screen.column.saturating_sub(1),
            '\t' => screen.put('\t'),
            '\u{1b}' => escape(&mut chars, &mut screen),
            '\u{9b}' => control_sequence(&mut chars, &mut screen),
            '\u{90}' | '\u{98}' | '\u{9d}' | '\u{9e}' | '\u{9f}' => skip_string(&mut chars),
            control if control.is_control() => {}
            char => screen.put(char),
        }
    }
    screen.text()
}

/// What follows an ESC.
fn escape(chars: &mut std::str::Chars<'_>, screen: &mut Screen) {
    match chars.next() {
        Some('[') => control_sequence(chars, screen),
        Some(']' | 'P' | 'X' | '^' | '_') => skip_string(chars),
        // Intermediates up to a final character, for instance the choice of a character set.
        Some(' '..='/') => {
            chars.by_ref().find(|char| !(' '..='/').contains(char));
        }
        _ => {}
    }
}

/// The rest of a string sequence: up to BEL or ST; an unterminated one ends at the line's end.
fn skip_string(chars: &mut std::str::Chars<'_>) {
    loop {
        let before = chars.clone();
        match chars.next() {
            None | Some('\u{7}' | '\u{9c}') => return,
            Some('\u{1b}') => {
                chars.next();
                return;
            }
            Some('\n') => {
                *chars = before;
                return;
            }
            Some(_) => {}
        }
    }
}

/// The rest of a CSI sequence, carried out where it moves the cursor or erases.
fn control_sequence(chars: &mut std::str::Chars<'_>, screen: &mut Screen) {
    let mut parameters = String::new();
    let last = loop {
        let before = chars.clone();
        match chars.next() {
            Some(char @ ' '..='?') => parameters.push(char),
            Some(char @ '@'..='~') => break char,
            // A broken sequence ends here; what broke it is text.
            Some(_) => {
                *chars = before;
                return;
            }
            None => return,
        }
    };
    let first = parameters.split(';').next().and_then(|number| number.parse::<usize>().ok());
    let n = first.unwrap_or(1).max(1);
    match last {
        'A' => screen.up(n),
        'B' => screen.down(n),
        'C' => screen.column = screen.column.saturating_add(n).min(MAX_COLUMN).max(screen.column),
        'D' => screen.column = screen.column.saturating_sub(n),
        'E' => {
            screen.down(n);
            screen.column = 0;
        }
        'F' => {
            screen.up(n);
            screen.column = 0;
        }
        'G' | '`' => screen.column = (n - 1).min(MAX_COLUMN),
        'H' | 'f' => screen.new_frame(),
        'J' => match first.unwrap_or(0) {
            0 => screen.erase_below(),
            1 => {}
            _ => screen.new_frame(),
        },
        'K' => screen.erase_in_line(first.unwrap_or(0)),
        _ => {}
    }
}

/// Lines without a width, and a cursor.
struct Screen {
    lines: Vec<Vec<char>>,
    row: usize,
    column: usize,
}

impl Default for Screen {
    fn default() -> Self {
        Self { lines: vec![Vec::new()], row: 0, column: 0 }
    }
}

impl Screen {
    fn put(&mut self, char: char) {
        let column = self.column;
        let line = self.line();
        if column < line.len() {
            line[column] = char;
        } else {
            line.resize(column, ' ');
            line.push(char);
        }
        self.column += 1;
    }

    fn line_feed(&mut self) {
        self.down(1);
        self.column = 0;
    }

    fn up(&mut self, n: usize) {
        self.row = self.row.saturating_sub(n);
    }

    /// Moves down, at most one line below the last.
    fn down(&mut self, n: usize) {
        self.row = self.row.saturating_add(n).min(self.lines.len());
        if self.row == self.lines.len() {
            self.lines.push(Vec::new());
        }
    }

    /// A screen that is cleared or drawn from its top: goes on below what was printed, which stays.
    fn new_frame(&mut self) {
        self.row = self.lines.len() - 1;
        if !self.line().is_empty() {
            self.lines.push(Vec::new());
            self.row += 1;
        }
        self.column = 0;
    }

    fn erase_below(&mut self) {
        self.erase_in_line(0);
        self.lines.truncate(self.row + 1);
    }

    fn erase_in_line(&mut self, how: usize) {
        let column = self.column;
        let line = self.line();
        match how {
            0 => line.truncate(column),
            1 => {
                let end = (column + 1).min(line.len());
                line[..end].fill(' ');
            }
            _ => line.clear(),
        }
    }

    fn line(&mut self) -> &mut Vec<char> {
        &mut self.lines[self.row]
    }

    fn text(self) -> String {
        let mut text = String::new();
        for (line_idx, line) in self.lines.into_iter().enumerate() {
            if line_idx > 0 {
                text.push('\n');
            }
            text.extend(line);
        }
        text
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn control_sequences_are_gone_and_redrawn_lines_show_their_last_state() {
        let cases = [
            ("plain\ttext\n", "plain\ttext\n"),
            ("a\r\nb\r\n", "a\nb\n"),
            ("\u{1b}[1;31mred\u{1b}[0m\n", "red\n"),
            (" 10%\r 50%\r100%\n", "100%\n"),
            ("long line\rab\n", "abng line\n"),
            ("long line\r\u{1b}[Kab\n", "ab\n"),
            ("long line\u{1b}[2K\rab", "ab"),
            ("abc\u{8}\u{8}X", "aXc"),
            ("|\u{8}/\u{8}-\u{8}done", "done"),
            ("one 1\ntwo 1\n\u{1b}[2Aone 2\ntwo 2\n", "one 2\ntwo 2\n"),
            ("\u{1b}]0;title\u{7}x\u{1b}]8;;http://a\u{1b}\\link\u{1b}]8;;\u{1b}\\", "xlink"),
            ("a\u{7}\u{0}b\u{1b}(Bc", "abc"),
            ("frame 1\u{1b}[2J\u{1b}[Hframe 2", "frame 1\nframe 2"),
            ("a\u{1b}[3Cb", "a   b"),
            ("a\u{1b}[99999999999999999999Cb", "a b"),
            ("\u{9b}1mé\u{9b}0m", "é"),
            ("cut \u{1b}[3", "cut "),
            ("cut \u{1b}", "cut "),
            ("broken \u{1b}[3\nnext", "broken \nnext"),
            ("broken \u{1b}]0;title\nnext", "broken \nnext"),
        ];
        for (raw, expected) in cases {
            assert_eq!(plain(raw), expected, "{raw:?}");
        }
    }

    proptest! {
        #[test]
        fn no_control_character_but_tab_and_line_feed_is_left(
            raw in "([a-z\u{1b}\u{9b}\r\n\t\u{8}\u{7}\\[\\];0-9A-KmHJ]|\\PC){0,80}",
        ) {
            let text = plain(&raw);
            prop_assert!(text.chars().all(|char| !char.is_control() || char == '\n' || char == '\t'), "{:?}", text);
            prop_assert_eq!(plain(&text), text);
        }
    }
}
