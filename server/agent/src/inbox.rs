//! What enters a session's conversation without a prompt: notices of jobs, and whatever else happens by itself.
//!
//! Filled from anywhere, emptied by the turn at each step. What `wakes` opens a turn of its own when none runs; several
//! that wait share one. Source: `spec/tools-agentic.md` §13.

use protocol::content::ContentBlock;
use protocol::message::MessageSource;
use std::collections::VecDeque;
use std::sync::{Mutex, MutexGuard, PoisonError};
use tokio::sync::Notify;

/// A user-role message that waits for the next step.
#[derive(Clone, Debug, PartialEq)]
pub struct Injected {
    /// Identifies it for [`Inbox::retract`].
    pub key: String,
    /// Who puts it there.
    pub source: MessageSource,
    /// What it says; bounded by whoever makes it.
    pub text: String,
    /// Whether it opens a turn when none runs.
    pub wakes: bool,
}

impl Injected {
    pub(crate) fn content(&self) -> Vec<ContentBlock> {
        vec![ContentBlock::text(self.text.clone())]
    }
}

/// Messages that wait for the next step.
#[derive(Default)]
pub struct Inbox {
    waiting: Mutex<VecDeque<Injected>>,
    filled: Notify,
}

impl Inbox {
    /// Adds a message.
    pub fn push(&self, message: Injected) {
        let wakes = message.wakes;
        self.lock().push_back(message);
        if wakes {
            self.filled.notify_one();
        }
    }

    /// Takes back what is not needed any more.
    pub fn retract(&self, key: &str) {
        self.lock().retain(|message| message.key != key);
    }

    /// Takes everything, in order.
    pub(crate) fn take(&self) -> VecDeque<Injected> {
        std::mem::take(&mut *self.lock())
    }

    /// What waits enters with the next prompt and opens no turn: the user has just stopped one.
    pub(crate) fn hush(&self) {
        self.lock().iter_mut().for_each(|message| message.wakes = false);
    }

    /// Whether something is there that opens a turn.
    pub(crate) fn wakes(&self) -> bool {
        self.lock().iter().any(|message| message.wakes)
    }

    /// Waits until something is there that opens a turn.
    pub(crate) async fn wanted(&self) {
        while !self.wakes() {
            self.filled.notified().await;
        }
    }

    fn lock(&self) -> MutexGuard<'_, VecDeque<Injected>> {
        self.waiting.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use futures::FutureExt;

    fn message(key: &str, wakes: bool) -> Injected {
        Injected {
            key: key.into(),
            source: MessageSource::Goal { goal_id: "goal-1".into(), revision: 1, round: 1 },
            text: key.into(),
            wakes,
        }
    }

    #[test]
    fn only_what_wakes_is_wanted_and_only_while_it_waits() {
        let inbox = Inbox::default();
        inbox.push(message("quiet", false));
        assert!(inbox.wanted().now_or_never().is_none());
        inbox.push(message("loud", true));
        assert!(inbox.wanted().now_or_never().is_some());
        inbox.retract("loud");
        assert!(inbox.wanted().now_or_never().is_none());
        inbox.push(message("loud", true));
        inbox.hush();
        assert!(inbox.wanted().now_or_never().is_none());
        assert_eq!(inbox.take(), [message("quiet", false), message("loud", false)]);
    }
}
