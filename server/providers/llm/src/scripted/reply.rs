//! What one reply holds. Built by tests, played by the server.

use serde_json::Value;
use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::time::{Duration, Instant};

/// One reply of the script: parts in order, then the finish.
#[derive(Clone, Debug, Default)]
pub struct Reply {
    pub(super) parts: Vec<Part>,
    pub(super) usage: Option<(u64, u64, u64)>,
    pub(super) finish: Option<String>,
    pub(super) fault: Option<Fault>,
    pub(super) is_repeated: bool,
    pub(super) only_for: Option<String>,
}

#[derive(Clone, Debug)]
pub(super) enum Part {
    Text(String),
    Reasoning(String),
    Call { id: Option<String>, name: String, arguments: Vec<String> },
    Hold(Gate),
    Pause(Duration),
}

/// A way in which a provider fails.
#[derive(Clone, Debug, PartialEq)]
pub enum Fault {
    /// The answer has this status and body instead of a stream.
    Status {
        /// HTTP status.
        status: u16,
        /// Headers beside the usual ones.
        headers: Vec<(String, String)>,
        /// The body, sent as JSON.
        body: String,
    },
    /// The connection is closed before any answer.
    NoAnswer,
    /// After the parts nothing more comes, and the connection stays open.
    Silence,
    /// After the parts only comments come, for ever.
    KeepAliveOnly,
    /// After the parts the connection breaks in the middle of an event.
    CutInEvent,
    /// After the parts the connection breaks between the bytes of one character.
    CutInCharacter,
    /// After the parts the stream ends in good order, but without a finish.
    NoFinish,
    /// After the parts the stream reports an error with this message.
    ErrorEvent(String),
    /// After the parts and the finish the connection stays open without the closing event.
    NoClosingEvent,
}

/// Starts a reply with text.
pub fn says(text: impl Into<String>) -> Reply {
    Reply::default().says(text)
}

/// Starts a reply with reasoning.
pub fn thinks(text: impl Into<String>) -> Reply {
    Reply::default().thinks(text)
}

/// Starts a reply with a call.
pub fn calls(name: &str, arguments: Value) -> Reply {
    Reply::default().calls(name, arguments)
}

/// A reply that is a failing status; `body` is sent as it is.
pub fn fails(status: u16, body: impl Into<String>) -> Reply {
    Reply::default().fault(Fault::Status { status, headers: Vec::new(), body: body.into() })
}

impl Reply {
    /// Adds text, sent in one event.
    pub fn says(self, text: impl Into<String>) -> Self {
        self.part(Part::Text(text.into()))
    }

    /// Adds text in many events.
    pub fn says_in_pieces(mut self, pieces: impl IntoIterator<Item = String>) -> Self {
        self.parts.extend(pieces.into_iter().map(Part::Text));
        self
    }

    /// Adds reasoning, sent in one event.
    pub fn thinks(self, text: impl Into<String>) -> Self {
        self.part(Part::Reasoning(text.into()))
    }

    /// Adds a call whose arguments come in two pieces, with an id of its own.
    pub fn calls(self, name: &str, arguments: Value) -> Self {
        let text = arguments.to_string();
        let mut cut = text.len() / 2;
        while !text.is_char_boundary(cut) {
            cut += 1;
        }
        let (head, tail) = text.split_at(cut);
        let arguments = [head, tail].map(str::to_owned).into();
        self.part(Part::Call { id: None, name: name.to_owned(), arguments })
    }

    /// Adds a call with this id (empty: none is sent) and these pieces of raw argument text.
    pub fn calls_raw(self, id: &str, name: &str, pieces: &[&str]) -> Self {
        let arguments = pieces.iter().map(|&piece| piece.to_owned()).collect();
        self.part(Part::Call { id: Some(id.to_owned()), name: name.to_owned(), arguments })
    }

    /// Waits here until the gate is released, or the client hangs up.
    pub fn hold(self, gate: &Gate) -> Self {
        self.part(Part::Hold(gate.clone()))
    }

    /// Waits here.
    pub fn pause(self, duration: Duration) -> Self {
        self.part(Part::Pause(duration))
    }

    /// Reports tokens of input and output.
    pub fn usage(self, input: u64, output: u64) -> Self {
        self.usage_with_cache(input, output, 0)
    }

    /// Reports tokens of input and output; `cached` is the part of the input that came from the cache.
    pub fn usage_with_cache(mut self, input: u64, output: u64, cached: u64) -> Self {
        self.usage = Some((input, output, cached));
        self
    }

    /// Ends with this reason, in the words of the format, instead of the one that fits the parts.
    pub fn finish(mut self, reason: &str) -> Self {
        self.finish = Some(reason.to_owned());
        self
    }

    /// Fails in this way.
    pub fn fault(mut self, fault: Fault) -> Self {
        self.fault = Some(fault);
        self
    }

    /// Adds a header to a failing status.
    pub fn header(mut self, name: &str, value: &str) -> Self {
        if let Some(Fault::Status { headers, .. }) = &mut self.fault {
            headers.push((name.to_owned(), value.to_owned()));
        }
        self
    }

    /// Answers every further request as well.
    pub fn repeated(mut self) -> Self {
        self.is_repeated = true;
        self
    }

    /// Answers only a request whose JSON holds this text; others take the next reply of the script.
    pub fn only_for(mut self, text: &str) -> Self {
        self.only_for = Some(text.to_owned());
        self
    }

    fn part(mut self, part: Part) -> Self {
        self.parts.push(part);
        self
    }
}

/// Holds a reply until a test releases it. Clones are the same gate.
#[derive(Clone, Debug, Default)]
pub struct Gate {
    shared: Arc<(Mutex<GateState>, Condvar)>,
}

#[derive(Debug, Default)]
struct GateState {
    is_reached: bool,
    is_open: bool,
}

impl Gate {
    /// A closed gate.
    pub fn new() -> Self {
        Self::default()
    }

    /// Lets the reply go on; a gate once opened stays open.
    pub fn release(&self) {
        self.change(|state| state.is_open = true);
    }

    /// Waits until a reply stands at the gate; says whether one did in time.
    pub fn wait_until_reached(&self, limit: Duration) -> bool {
        self.wait(limit, |state| state.is_reached)
    }

    /// The server stands at the gate.
    pub(super) fn reach(&self) {
        self.change(|state| state.is_reached = true);
    }

    /// Waits for the release; says whether it came in time.
    pub(super) fn wait_until_open(&self, limit: Duration) -> bool {
        self.wait(limit, |state| state.is_open)
    }

    fn change(&self, change: impl FnOnce(&mut GateState)) {
        let (state, changed) = &*self.shared;
        change(&mut state.lock().unwrap_or_else(PoisonError::into_inner));
        changed.notify_all();
    }

    fn wait(&self, limit: Duration, is_met: impl Fn(&GateState) -> bool) -> bool {
        let (state, changed) = &*self.shared;
        let end = Instant::now() + limit;
        let mut state = state.lock().unwrap_or_else(PoisonError::into_inner);
        while !is_met(&state) {
            let rest = end.saturating_duration_since(Instant::now());
            if rest.is_zero() {
                return false;
            }
            state = changed.wait_timeout(state, rest).unwrap_or_else(PoisonError::into_inner).0;
        }
        true
    }
}
