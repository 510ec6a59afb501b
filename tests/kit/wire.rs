//! Every line that went over the wire, in both directions, as it stood there.
//!
//! Filled by the editor's transport; read by waits, transcripts and the conformance check. It decodes JSON and nothing
//! else.

use serde_json::Value;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

/// Who sent a line.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Side {
    Editor,
    Agent,
}

/// One line.
#[derive(Clone, Debug)]
pub struct Line {
    pub from: Side,
    /// Length in bytes, its end excluded.
    pub n_bytes: usize,
    /// The message; a line that is no JSON is a JSON string.
    pub message: Value,
    /// Whether the line was JSON.
    pub is_json: bool,
}

impl Line {
    pub fn method(&self) -> Option<&str> {
        self.message.get("method")?.as_str()
    }

    pub fn params(&self) -> &Value {
        self.message.get("params").unwrap_or(&Value::Null)
    }

    pub fn id(&self) -> Option<&Value> {
        self.message.get("id").filter(|id| !id.is_null())
    }

    pub fn is_request(&self) -> bool {
        self.method().is_some() && self.id().is_some()
    }

    pub fn is_response(&self) -> bool {
        self.method().is_none()
            && (self.message.get("result").is_some() || self.message.get("error").is_some())
    }

    /// The update of a `session/update` of the agent.
    pub fn update(&self) -> Option<&Value> {
        (self.from == Side::Agent && self.method() == Some("session/update"))
            .then(|| &self.params()["update"])
    }

    /// Kind of that update.
    pub fn update_kind(&self) -> Option<&str> {
        self.update()?["sessionUpdate"].as_str()
    }
}

/// The record of a connection.
#[derive(Default)]
pub struct Wire {
    lines: Mutex<Vec<Arc<Line>>>,
    changed: Condvar,
}

impl Wire {
    pub fn record(&self, from: Side, text: &str) {
        let parsed = serde_json::from_str::<Value>(text);
        let line = Line {
            from,
            n_bytes: text.len(),
            is_json: parsed.is_ok(),
            message: parsed.unwrap_or_else(|_| Value::String(text.chars().take(400).collect())),
        };
        self.lock().push(Arc::new(line));
        self.changed.notify_all();
    }

    pub fn lines(&self) -> Vec<Arc<Line>> {
        self.lock().clone()
    }

    /// Waits until `find` finds something in all lines so far; `None` when `deadline` passed.
    pub fn wait<T>(&self, deadline: Duration, mut find: impl FnMut(&[Arc<Line>]) -> Option<T>) -> Option<T> {
        let end = Instant::now() + deadline;
        let mut lines = self.lock();
        loop {
            if let Some(found) = find(&lines) {
                return Some(found);
            }
            let left = end.checked_duration_since(Instant::now())?;
            // At most a moment, so that `find` may also look at what is not on the wire.
            let nap = left.min(Duration::from_millis(50));
            lines = self.changed.wait_timeout(lines, nap).unwrap_or_else(PoisonError::into_inner).0;
        }
    }

    fn lock(&self) -> MutexGuard<'_, Vec<Arc<Line>>> {
        self.lines.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
