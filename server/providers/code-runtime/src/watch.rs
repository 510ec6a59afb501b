//! What a run may still use, asked by the engine every few thousand steps, and the first reason to stop it.

use crate::Cancel;
use services::code_runtime::{CodeError, CodeErrorKind, CodeLimits};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

/// A log costs at least this much of the output limit, so that many empty ones are bounded too.
const MIN_LOG_BYTES: usize = 24;

/// Watches one run.
pub struct Watch {
    limits: CodeLimits,
    cancel: Cancel,
    started: Instant,
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    /// Computing time of the turns that are over.
    busy: Duration,
    /// When the turn that computes now began.
    entered: Option<Instant>,
    logs: Vec<String>,
    output_bytes: usize,
    stop: Option<CodeError>,
}

impl Watch {
    /// Begins to watch now.
    pub fn new(limits: CodeLimits, cancel: Cancel) -> Self {
        Self { limits, cancel, started: Instant::now(), state: Mutex::default() }
    }

    /// Computes one turn of the program, whose time counts as busy.
    pub fn turn<T>(&self, compute: impl FnOnce() -> T) -> T {
        self.lock().entered = Some(Instant::now());
        let result = compute();
        let mut state = self.lock();
        if let Some(entered) = state.entered.take() {
            state.busy += entered.elapsed();
        }
        result
    }

    /// Whether the program must stop now; the first reason stays.
    pub fn must_stop(&self) -> bool {
        let mut state = self.lock();
        if state.stop.is_none() {
            let busy = state.busy + state.entered.map_or(Duration::ZERO, |entered| entered.elapsed());
            if self.cancel.is_cancelled() {
                state.stop = Some(aborted());
            } else if busy > self.limits.busy {
                state.stop = Some(CodeError {
                    kind: CodeErrorKind::Timeout,
                    message: format!("the program computed for more than {}", seconds(self.limits.busy)),
                });
            } else if self.started.elapsed() > self.limits.wall {
                state.stop = Some(self.too_long());
            }
        }
        state.stop.is_some()
    }

    /// Keeps what was printed; past the limit nothing more is kept and the program must stop.
    pub fn print(&self, text: String) {
        let mut state = self.lock();
        if state.stop.is_some() {
            return;
        }
        let bytes = json_bytes(&text).max(MIN_LOG_BYTES);
        if state.output_bytes + bytes > self.limits.output_bytes {
            state.stop = Some(self.too_much());
            return;
        }
        state.output_bytes += bytes;
        state.logs.push(text);
    }

    /// Whether this much more output still fits.
    pub fn has_room(&self, bytes: usize) -> bool {
        self.lock().output_bytes + bytes <= self.limits.output_bytes
    }

    /// The reason to stop, if there is one, and everything printed.
    pub fn finish(&self) -> (Option<CodeError>, Vec<String>) {
        let mut state = self.lock();
        (state.stop.take(), std::mem::take(&mut state.logs))
    }

    /// The failure of a run that did not end in time.
    pub fn too_long(&self) -> CodeError {
        let message = format!("the program did not end within {}", seconds(self.limits.wall));
        CodeError { kind: CodeErrorKind::Timeout, message }
    }

    /// The failure of a run that printed or returned too much.
    pub fn too_much(&self) -> CodeError {
        let message = format!(
            "the program printed or returned more than {} bytes; filter before you return",
            self.limits.output_bytes
        );
        CodeError { kind: CodeErrorKind::OutputLimit, message }
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The failure of a run that was cancelled.
pub fn aborted() -> CodeError {
    CodeError { kind: CodeErrorKind::Abort, message: "the program was cancelled".to_owned() }
}

/// Size of a text as JSON, its separator included.
pub fn json_bytes(text: &str) -> usize {
    let escaped = text.bytes().map(|byte| match byte {
        b'"' | b'\\' | b'\n' | b'\r' | b'\t' => 2,
        0..0x20 => 6,
        _ => 1,
    });
    escaped.sum::<usize>() + 3
}

fn seconds(duration: Duration) -> String {
    format!("{} s", duration.as_secs_f64())
}
