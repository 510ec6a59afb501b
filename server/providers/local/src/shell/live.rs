//! Output shown while a command runs: coalesced, at a bounded rate, with what was dropped named.

use super::decode::Utf8Decoder;
use protocol::id::CallId;
use protocol::live::LiveUpdate;
use services::shell::LiveSink;
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

/// Shortest time between two updates: 20 a second.
pub const PERIOD: Duration = Duration::from_millis(50);

/// Most bytes of one update; of more, the last are shown.
const MAX_UPDATE_BYTES: usize = 32 * 1024;

/// After this many bytes a command is one that floods: it is shown once a second, a few lines at a time.
const FLOOD_BYTES: u64 = 2 * 1024 * 1024;
const FLOOD_PERIOD: Duration = Duration::from_secs(1);
const FLOOD_UPDATE_BYTES: usize = 4 * 1024;

/// Which stream a piece of output came from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Source {
    /// Standard output.
    Stdout,
    /// Standard error.
    Stderr,
}

/// Collects output and passes it on in updates of bounded size and rate.
pub struct LiveOutput {
    sink: LiveSink,
    call_id: CallId,
    state: Mutex<State>,
}

struct State {
    decoders: [Utf8Decoder; 2],
    pending: String,
    n_dropped: u64,
    n_shown: u64,
    last_update: Option<Instant>,
}

impl LiveOutput {
    /// Shows output of a call.
    pub fn new(sink: LiveSink, call_id: CallId) -> Self {
        let state = State {
            decoders: Default::default(),
            pending: String::new(),
            n_dropped: 0,
            n_shown: 0,
            last_update: None,
        };
        Self { sink, call_id, state: Mutex::new(state) }
    }

    /// Takes the next bytes of a stream; shows them now if an update is due.
    pub fn push(&self, source: Source, bytes: &[u8], now: Instant) {
        let update = {
            let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
            let State { decoders, pending, .. } = &mut *state;
            decoders[source as usize].push(bytes, pending);
            state.trim();
            state.take_if_due(now)
        };
        self.show(update);
    }

    /// Shows what waits, if an update is due. Called every [`PERIOD`].
    pub fn tick(&self, now: Instant) {
        let update = self.state.lock().unwrap_or_else(PoisonError::into_inner).take_if_due(now);
        self.show(update);
    }

    /// Shows what waits, at the end of the command.
    pub fn finish(&self) {
        let update = {
            let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
            let State { decoders, pending, .. } = &mut *state;
            decoders.iter_mut().for_each(|decoder| decoder.finish(pending));
            state.trim();
            state.take()
        };
        self.show(update);
    }

    fn show(&self, update: Option<String>) {
        if let Some(delta) = update {
            (self.sink)(LiveUpdate::TerminalOutput { call_id: self.call_id.clone(), delta });
        }
    }
}

impl State {
    fn floods(&self) -> bool {
        self.n_shown >= FLOOD_BYTES
    }

    /// Keeps the end of what waits within the size of an update.
    fn trim(&mut self) {
        let max_bytes = if self.floods() { FLOOD_UPDATE_BYTES } else { MAX_UPDATE_BYTES };
        let n_excess = self.pending.len().saturating_sub(max_bytes);
        if n_excess > 0 {
            let n_cut = self.pending.ceil_char_boundary(n_excess);
            self.pending.drain(..n_cut);
            self.n_dropped += n_cut as u64;
        }
    }

    fn take_if_due(&mut self, now: Instant) -> Option<String> {
        let period = if self.floods() { FLOOD_PERIOD } else { PERIOD };
        let is_due = self.last_update.is_none_or(|last| now.saturating_duration_since(last) >= period);
        if !is_due {
            return None;
        }
        let update = self.take();
        if update.is_some() {
            self.last_update = Some(now);
        }
        update
    }

    fn take(&mut self) -> Option<String> {
        if self.pending.is_empty() && self.n_dropped == 0 {
            return None;
        }
        let pending = std::mem::take(&mut self.pending);
        self.n_shown += pending.len() as u64;
        match std::mem::take(&mut self.n_dropped) {
            0 => Some(pending),
            n => Some(format!("\r\n[{n} bytes are not shown live]\r\n{pending}")),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::Arc;

    fn recorded() -> (LiveOutput, Arc<Mutex<Vec<String>>>) {
        let shown = Arc::new(Mutex::new(Vec::new()));
        let sink_shown = shown.clone();
        let sink: LiveSink = Arc::new(move |update| match update {
            LiveUpdate::TerminalOutput { delta, .. } => sink_shown.lock().unwrap().push(delta),
            other => panic!("unexpected {other:?}"),
        });
        (LiveOutput::new(sink, CallId::new("c")), shown)
    }

    #[test]
    fn output_is_coalesced_between_updates() {
        let (live, shown) = recorded();
        let start = Instant::now();
        live.push(Source::Stdout, b"a", start);
        live.push(Source::Stdout, "bé".as_bytes().split_last().unwrap().1, start);
        live.push(Source::Stderr, b"c", start + PERIOD / 2);
        live.tick(start + PERIOD / 2);
        live.tick(start + PERIOD);
        live.push(Source::Stdout, &"é".as_bytes()[1..], start + PERIOD);
        live.finish();
        assert_eq!(*shown.lock().unwrap(), ["a", "bc", "é"]);
    }

    #[test]
    fn a_flood_is_shown_in_bounded_updates_that_say_so() {
        let (live, shown) = recorded();
        let start = Instant::now();
        for idx in 0..200_000u32 {
            live.push(Source::Stdout, &[b'x'; 1000], start + Duration::from_micros(u64::from(idx) * 50));
        }
        let shown = shown.lock().unwrap();
        let n_bytes: usize = shown.iter().map(String::len).sum();
        assert!(n_bytes < 3 * 1024 * 1024, "{n_bytes} bytes for 200 MB in 10 s");
        assert!(shown.iter().all(|update| update.len() <= MAX_UPDATE_BYTES + 100));
        assert!(shown[1].contains("bytes are not shown live"));
    }
}
