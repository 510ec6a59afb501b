//! Server-sent events, byte by byte.
//!
//! Called by the stream driver. Linear in the bytes, whatever their chunking: a cut inside a line, a CR LF pair or a
//! UTF-8 character makes no difference. Comments (keep-alives) never become events.
//!
//! Source: WHATWG HTML, "Server-sent events", parsing an event stream.

/// Bytes one event may hold; a larger one is a fault of the provider, not a reason to use all memory.
const MAX_EVENT_BYTES: usize = 32 * 1024 * 1024;

/// One event.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct SseEvent {
    /// The `event` field; empty when there was none.
    pub name: String,
    /// The `data` lines, joined by LF.
    pub data: String,
}

/// An event larger than [`MAX_EVENT_BYTES`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct EventTooLarge;

/// The parser's state between two reads.
#[derive(Debug, Default)]
pub(crate) struct SseParser {
    /// Start of a line whose end has not come yet.
    line: Vec<u8>,
    /// The event being gathered.
    event: SseEvent,
    /// Whether the event has a data line yet; an empty one counts.
    has_data: bool,
    /// Whether the last line ended with CR, so that a following LF belongs to it.
    after_cr: bool,
    /// Whether the first line has been seen; a byte order mark is dropped only before it.
    started: bool,
}

impl SseParser {
    /// Takes what was read and calls `sink` for each event that is complete now.
    pub fn push(&mut self, mut bytes: &[u8], mut sink: impl FnMut(SseEvent)) -> Result<(), EventTooLarge> {
        while !bytes.is_empty() {
            if std::mem::take(&mut self.after_cr) && bytes[0] == b'\n' {
                bytes = &bytes[1..];
                continue;
            }
            let Some(end) = bytes.iter().position(|byte| matches!(byte, b'\n' | b'\r')) else {
                self.line.extend_from_slice(bytes);
                break;
            };
            self.after_cr = bytes[end] == b'\r';
            let complete = if self.line.is_empty() {
                self.end_line(&bytes[..end])
            } else {
                let mut line = std::mem::take(&mut self.line);
                line.extend_from_slice(&bytes[..end]);
                self.end_line(&line)
            };
            if let Some(event) = complete {
                sink(event);
            }
            bytes = &bytes[end + 1..];
        }
        if self.line.len() + self.event.data.len() > MAX_EVENT_BYTES { Err(EventTooLarge) } else { Ok(()) }
    }

    /// What is left when the connection ends: an event whose closing blank line never came. It may be cut.
    pub fn finish(mut self) -> Option<SseEvent> {
        let line = std::mem::take(&mut self.line);
        if !line.is_empty() {
            self.end_line(&line);
        }
        self.has_data.then_some(self.event)
    }

    /// Takes one whole line without its end; a blank one completes the event.
    fn end_line(&mut self, line: &[u8]) -> Option<SseEvent> {
        let line = if self.started { line } else { line.strip_prefix("\u{feff}".as_bytes()).unwrap_or(line) };
        self.started = true;
        if line.is_empty() {
            let event = std::mem::take(&mut self.event);
            return std::mem::take(&mut self.has_data).then_some(event);
        }
        let line = String::from_utf8_lossy(line);
        let (field, value) = line.split_once(':').unwrap_or((&line, ""));
        let value = value.strip_prefix(' ').unwrap_or(value);
        match field {
            "data" => {
                if self.has_data {
                    self.event.data.push('\n');
                }
                self.event.data.push_str(value);
                self.has_data = true;
            }
            "event" => value.clone_into(&mut self.event.name),
            // Comments have an empty field name; `id` and `retry` are for reconnecting, which a model cannot do.
            _ => {}
        }
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse_in_pieces(text: &str, size: usize) -> Vec<SseEvent> {
        let mut parser = SseParser::default();
        let mut events = Vec::new();
        for piece in text.as_bytes().chunks(size) {
            parser.push(piece, |event| events.push(event)).unwrap();
        }
        events.extend(parser.finish());
        events
    }

    fn event(name: &str, data: &str) -> SseEvent {
        SseEvent { name: name.to_owned(), data: data.to_owned() }
    }

    #[test]
    fn chunking_makes_no_difference() {
        let cases = [
            ("data: a\n\ndata: b\n\n", vec![event("", "a"), event("", "b")]),
            (
                "event: ping\ndata: {}\r\n\r\ndata:x\r\rdata: y\n\n",
                vec![event("ping", "{}"), event("", "x"), event("", "y")],
            ),
            (": keep-alive\n\n: keep-alive\n\ndata: ü→🙂\n\n", vec![event("", "ü→🙂")]),
            ("data: one\ndata: two\nid: 7\nretry: 1\n\n", vec![event("", "one\ntwo")]),
            ("\u{feff}data: after the mark\n\n", vec![event("", "after the mark")]),
            ("data\n\nevent: lonely\n\n", vec![event("", "")]),
            ("data: [DONE]", vec![event("", "[DONE]")]),
            ("data: [DONE]\n", vec![event("", "[DONE]")]),
        ];
        for (text, expected) in cases {
            for size in 1..=text.len() {
                assert_eq!(parse_in_pieces(text, size), expected, "{text:?} in pieces of {size}");
            }
        }
    }

    #[test]
    fn bytes_that_are_no_utf8_cost_only_themselves() {
        let mut parser = SseParser::default();
        let mut events = Vec::new();
        parser.push(b"data: a\xffb\n\ndata: c\n\n", |event| events.push(event)).unwrap();
        assert_eq!(events, [event("", "a\u{fffd}b"), event("", "c")]);
    }

    #[test]
    fn an_endless_event_is_refused() {
        let mut parser = SseParser::default();
        let piece = vec![b'x'; 1024 * 1024];
        parser.push(b"data: ", |_| ()).unwrap();
        let refused = (0..64).find_map(|_| parser.push(&piece, |_| ()).err());
        assert_eq!(refused, Some(EventTooLarge));
    }
}
