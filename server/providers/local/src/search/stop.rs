//! When a running search has to end: cancelled, out of budget, or full.

use super::SearchBudget;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Instant;

/// Entries a thread looks at before it settles its account; the clock is read only then.
const BATCH: u64 = 64;

/// Shared by the threads of one search.
pub(super) struct Stop {
    is_aborted: AtomicBool,
    is_spent: AtomicBool,
    is_full: AtomicBool,
    n_entries: AtomicU64,
    max_entries: u64,
    deadline: Instant,
}

impl Stop {
    pub fn new(budget: SearchBudget) -> Self {
        Self {
            is_aborted: AtomicBool::new(false),
            is_spent: AtomicBool::new(false),
            is_full: AtomicBool::new(false),
            n_entries: AtomicU64::new(0),
            max_entries: budget.max_entries,
            deadline: Instant::now() + budget.time,
        }
    }

    /// The caller does not want the result any more.
    pub fn abort(&self) {
        self.is_aborted.store(true, Ordering::Relaxed);
    }

    /// Too much was found.
    pub fn fill(&self) {
        self.is_full.store(true, Ordering::Relaxed);
    }

    pub fn is_aborted(&self) -> bool {
        self.is_aborted.load(Ordering::Relaxed)
    }

    /// Whether the budget ended the search.
    pub fn is_spent(&self) -> bool {
        self.is_spent.load(Ordering::Relaxed)
    }

    pub fn is_full(&self) -> bool {
        self.is_full.load(Ordering::Relaxed)
    }

    /// Whether to go no further, for whatever reason.
    pub fn is_due(&self) -> bool {
        self.is_aborted() || self.is_spent() || self.is_full()
    }

    /// Looks at the clock as well; for work that goes on long within one file.
    pub fn is_due_now(&self) -> bool {
        if Instant::now() >= self.deadline {
            self.is_spent.store(true, Ordering::Relaxed);
        }
        self.is_due()
    }

    fn settle(&self, n_entries: u64) {
        let n_before = self.n_entries.fetch_add(n_entries, Ordering::Relaxed);
        if n_before + n_entries > self.max_entries || Instant::now() >= self.deadline {
            self.is_spent.store(true, Ordering::Relaxed);
        }
    }
}

/// Aborts a search whose future is dropped.
pub(super) struct StopOnDrop(pub Arc<Stop>);

impl Drop for StopOnDrop {
    fn drop(&mut self) {
        self.0.abort();
    }
}

/// One thread's account of the entries it looked at.
pub(super) struct Account<'a> {
    stop: &'a Stop,
    n_entries: u64,
}

impl<'a> Account<'a> {
    pub fn new(stop: &'a Stop) -> Self {
        Self { stop, n_entries: 0 }
    }

    /// Counts an entry; true when the search has to end.
    pub fn enter(&mut self) -> bool {
        self.n_entries += 1;
        if self.n_entries == BATCH {
            self.stop.settle(self.n_entries);
            self.n_entries = 0;
        }
        self.stop.is_due()
    }
}

impl Drop for Account<'_> {
    fn drop(&mut self) {
        if self.n_entries > 0 {
            self.stop.settle(self.n_entries);
        }
    }
}
