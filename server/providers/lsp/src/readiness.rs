//! Whether a server has finished loading, from what it says of itself.
//!
//! Three sources, the best first: rust-analyzer's `experimental/serverStatus`, open `$/progress`, and the age of a server
//! that says nothing. Source: `crates.md` §2, "Readiness differs".

use serde_json::Value;
use std::collections::HashMap;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};
use tokio::sync::watch;

/// How long an open progress counts: some are never ended.
const MAX_PROGRESS: Duration = Duration::from_secs(60);

/// What a server said about its loading.
pub struct Readiness {
    state: Mutex<State>,
    changes: watch::Sender<u64>,
    settle: Duration,
}

struct State {
    started: Instant,
    /// Open progress by token.
    open: HashMap<String, Instant>,
    /// What the server's status says; `None` for a server without one.
    is_quiescent: Option<bool>,
    warning: Option<String>,
}

impl Readiness {
    /// Of a server that starts now. `reports_status`: it will send its status, so it loads until it says otherwise.
    /// `settle`: how long a server that says nothing counts as loading.
    pub fn new(reports_status: bool, settle: Duration) -> Self {
        let state = State {
            started: Instant::now(),
            open: HashMap::new(),
            is_quiescent: reports_status.then_some(false),
            warning: None,
        };
        Self { state: Mutex::new(state), changes: watch::Sender::new(0), settle }
    }

    /// Whether an empty answer may only mean that the server does not know yet.
    pub fn is_loading(&self) -> bool {
        let state = self.lock();
        if let Some(is_quiescent) = state.is_quiescent {
            return !is_quiescent;
        }
        state.open.values().any(|since| since.elapsed() < MAX_PROGRESS)
            || state.started.elapsed() < self.settle
    }

    /// What the server says is wrong with the project.
    pub fn warning(&self) -> Option<String> {
        self.lock().warning.clone()
    }

    /// Wakes whenever something was said.
    pub fn changes(&self) -> watch::Receiver<u64> {
        self.changes.subscribe()
    }

    /// Takes `$/progress`.
    pub fn progress(&self, params: &Value) {
        let token = params["token"].to_string();
        match params["value"]["kind"].as_str() {
            Some("begin") => {
                self.lock().open.insert(token, Instant::now());
            }
            Some("end") => {
                self.lock().open.remove(&token);
            }
            _ => return,
        }
        self.changes.send_modify(|version| *version += 1);
    }

    /// Takes `experimental/serverStatus`.
    pub fn status(&self, params: &Value) {
        let mut state = self.lock();
        if let Some(is_quiescent) = params["quiescent"].as_bool() {
            state.is_quiescent = Some(is_quiescent);
        }
        let is_well = params["health"].as_str().is_none_or(|health| health == "ok");
        state.warning = params["message"].as_str().filter(|_| !is_well).map(str::to_owned);
        drop(state);
        self.changes.send_modify(|version| *version += 1);
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn progress_counts_until_its_end() {
        let readiness = Readiness::new(false, Duration::ZERO);
        assert!(!readiness.is_loading());
        let say = |kind: &str| readiness.progress(&json!({ "token": "t", "value": { "kind": kind } }));
        say("begin");
        assert!(readiness.is_loading());
        say("report");
        assert!(readiness.is_loading());
        say("end");
        assert!(!readiness.is_loading());
    }

    #[test]
    fn a_status_outranks_progress_and_names_what_is_wrong() {
        let readiness = Readiness::new(true, Duration::ZERO);
        assert!(readiness.is_loading());
        readiness.status(&json!({ "health": "warning", "quiescent": true, "message": "no workspace" }));
        readiness.progress(&json!({ "token": 1, "value": { "kind": "begin" } }));
        assert!(!readiness.is_loading());
        assert_eq!(readiness.warning().as_deref(), Some("no workspace"));
    }

    #[test]
    fn a_silent_server_settles() {
        assert!(Readiness::new(false, Duration::from_secs(60)).is_loading());
    }
}
