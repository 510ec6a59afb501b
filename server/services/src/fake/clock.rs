//! A clock that a test moves.

use super::lock;
use crate::clock::Clock;
use async_trait::async_trait;
use futures::channel::oneshot;
use std::sync::Mutex;
use std::time::Duration;

/// Time that stands still until [`FakeClock::advance`], or passes at once in sleeps after [`FakeClock::set_instant`].
#[derive(Default)]
pub struct FakeClock {
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    now: Duration,
    instant: bool,
    n_ids: u64,
    sleepers: Vec<(Duration, oneshot::Sender<()>)>,
}

impl FakeClock {
    /// Milliseconds since the Unix epoch at which every fake clock begins.
    pub const START_MS: i64 = 1_700_000_000_000;

    /// Moves time forward and wakes every sleep that is over.
    pub fn advance(&self, by: Duration) {
        let mut state = lock(&self.state);
        state.now += by;
        let now = state.now;
        for (_, waker) in state.sleepers.extract_if(.., |(due, _)| *due <= now) {
            // A sleep that was dropped meanwhile needs no waking.
            let _ = waker.send(());
        }
    }

    /// Whether a sleep is over as soon as it begins, moving time by its length.
    pub fn set_instant(&self, instant: bool) {
        lock(&self.state).instant = instant;
    }

    /// How many sleeps wait now, dropped ones left out.
    pub fn n_sleepers(&self) -> usize {
        lock(&self.state).sleepers.iter().filter(|(_, waker)| !waker.is_canceled()).count()
    }
}

#[async_trait]
impl Clock for FakeClock {
    fn local_date(&self) -> String {
        "2026-01-02".to_owned()
    }

    fn now_ms(&self) -> i64 {
        Self::START_MS + i64::try_from(lock(&self.state).now.as_millis()).unwrap_or(i64::MAX / 2)
    }

    fn monotonic(&self) -> Duration {
        lock(&self.state).now
    }

    async fn sleep(&self, duration: Duration) {
        let over = {
            let mut state = lock(&self.state);
            if state.instant || duration.is_zero() {
                state.now += duration;
                return;
            }
            let (waker, over) = oneshot::channel();
            let due = state.now + duration;
            state.sleepers.push((due, waker));
            over
        };
        // The sender lives as long as the clock.
        let _ = over.await;
    }

    fn fresh_id(&self) -> String {
        let mut state = lock(&self.state);
        state.n_ids += 1;
        format!("{:032x}", state.n_ids)
    }
}
