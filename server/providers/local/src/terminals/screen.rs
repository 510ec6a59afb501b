//! What a terminal printed: a bounded log of the lines, and the present screen for full-screen programs.

/// Rows of a terminal.
pub const ROWS: u16 = 40;
/// Columns of a terminal.
pub const COLUMNS: u16 = 160;
/// Bytes of output that are kept; of more, the last.
const MAX_LOG_BYTES: usize = 4 << 20;

/// The output of one terminal. Full-screen programs draw on the alternate screen, which never enters the log.
pub struct Screen {
    parser: vt100::Parser,
    log: Vec<u8>,
    /// Bytes that were dropped before the log.
    n_dropped: u64,
    /// Bytes ever logged up to which the last send has read.
    n_read: u64,
    marker: Vec<u8>,
    n_matched: usize,
    n_prompts: u64,
    n_bytes: u64,
}

impl Screen {
    /// Empty; prompts are told by `marker`, which must not repeat its first byte.
    pub fn new(marker: &str) -> Self {
        Self {
            parser: vt100::Parser::new(ROWS, COLUMNS, 0),
            log: Vec::new(),
            n_dropped: 0,
            n_read: 0,
            marker: marker.as_bytes().to_vec(),
            n_matched: 0,
            n_prompts: 0,
            n_bytes: 0,
        }
    }

    /// Takes the next bytes.
    pub fn push(&mut self, bytes: &[u8]) {
        self.n_bytes += bytes.len() as u64;
        for &byte in bytes {
            let was_alternate = self.is_alternate();
            self.parser.process(&[byte]);
            match (was_alternate, self.is_alternate()) {
                (false, false) => self.log.push(byte),
                // The beginning of the sequence that switches is in the log already.
                (false, true) => {
                    let at = memchr::memrchr(0x1b, &self.log).unwrap_or(self.log.len());
                    self.log.truncate(at);
                }
                _ => {}
            }
            self.match_marker(byte);
        }
        if self.log.len() > MAX_LOG_BYTES + MAX_LOG_BYTES / 4 {
            let n_excess = self.log.len() - MAX_LOG_BYTES;
            self.log.drain(..n_excess);
            self.n_dropped += n_excess as u64;
        }
    }

    fn match_marker(&mut self, byte: u8) {
        self.n_matched = if self.marker.get(self.n_matched) == Some(&byte) {
            self.n_matched + 1
        } else {
            usize::from(self.marker.first() == Some(&byte))
        };
        if self.n_matched == self.marker.len() {
            self.n_matched = 0;
            self.n_prompts += 1;
        }
    }

    /// Prompts of the shell that were shown so far.
    pub fn n_prompts(&self) -> u64 {
        self.n_prompts
    }

    /// Bytes ever printed.
    pub fn n_bytes(&self) -> u64 {
        self.n_bytes
    }

    /// Whether a full-screen program has the screen.
    pub fn is_alternate(&self) -> bool {
        self.parser.screen().alternate_screen()
    }

    /// What came since the last take, or the screen of a full-screen program; and whether a part of it is gone.
    pub fn take_new(&mut self) -> (String, bool) {
        let n_ever = self.n_dropped + self.log.len() as u64;
        let is_cut = self.n_read < self.n_dropped;
        let from = usize::try_from(self.n_read.saturating_sub(self.n_dropped)).unwrap_or(usize::MAX);
        let text = if self.is_alternate() {
            self.parser.screen().contents()
        } else {
            String::from_utf8_lossy(self.log.get(from..).unwrap_or_default()).into_owned()
        };
        self.n_read = n_ever;
        (text, is_cut)
    }

    /// Everything that is kept.
    pub fn all(&self) -> String {
        let mut text = String::from_utf8_lossy(&self.log).into_owned();
        if self.is_alternate() {
            text.push('\n');
            text.push_str(&self.parser.screen().contents());
        }
        text
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_full_screen_program_shows_its_screen_and_leaves_the_log_alone() {
        let mut screen = Screen::new("MARK");
        screen.push("before\r\n\x1b[?1049h\x1b[2J\x1b[1;1H漢字 drawn".as_bytes());
        assert_eq!(screen.take_new(), ("漢字 drawn".to_owned(), false));
        assert_eq!(screen.all(), "before\r\n\n漢字 drawn");
        screen.push(b"\x1b[?1049lafter MA");
        screen.push(b"RK");
        assert_eq!(screen.take_new().0, "after MARK");
        assert_eq!(screen.n_prompts(), 1);
    }

    #[test]
    fn the_log_is_bounded_and_a_cut_is_told() {
        let mut screen = Screen::new("MARK");
        screen.push(&vec![b'x'; MAX_LOG_BYTES * 3 / 2]);
        let (text, is_cut) = screen.take_new();
        assert_eq!((text.len(), is_cut), (MAX_LOG_BYTES, true));
    }
}
