//! The system's clock and random source as the clock service. Called through `Services::clock`.

use async_trait::async_trait;
use services::clock::Clock;
use std::fmt::Write as _;
use std::hash::{BuildHasher, Hasher, RandomState};
use std::sync::LazyLock;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

/// The zero of monotonic readings.
static START: LazyLock<Instant> = LazyLock::new(Instant::now);

/// The system's time.
#[derive(Clone, Copy, Debug, Default)]
pub struct SystemClock;

#[async_trait]
impl Clock for SystemClock {
    fn now_ms(&self) -> i64 {
        let signed = |duration: Duration| i64::try_from(duration.as_millis()).unwrap_or(i64::MAX);
        match SystemTime::now().duration_since(UNIX_EPOCH) {
            Ok(since) => signed(since),
            Err(before) => -signed(before.duration()),
        }
    }

    fn local_date(&self) -> String {
        let now = jiff::Timestamp::now().to_zoned_datetime(jiff::tz::TimeZone::system());
        now.strftime("%Y-%m-%d").to_string()
    }

    fn monotonic(&self) -> Duration {
        START.elapsed()
    }

    async fn sleep(&self, duration: Duration) {
        tokio::time::sleep(duration).await;
    }

    fn fresh_id(&self) -> String {
        random_hex(16)
    }
}

/// `n_bytes` random bytes as lower-case hex.
pub(crate) fn random_hex(n_bytes: usize) -> String {
    let mut bytes = vec![0; n_bytes];
    if getrandom::fill(&mut bytes).is_err() {
        // No random source: the randomly keyed hasher of the standard library still gives distinct identities.
        for byte in &mut bytes {
            *byte = RandomState::new().build_hasher().finish() as u8;
        }
    }
    let mut hex = String::with_capacity(2 * n_bytes);
    for byte in bytes {
        let _ = write!(hex, "{byte:02x}");
    }
    hex
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::HashSet;

    #[test]
    fn fresh_ids_are_distinct_and_of_32_hex_digits() {
        let ids: HashSet<String> = (0..1000).map(|_| SystemClock.fresh_id()).collect();
        assert_eq!(ids.len(), 1000);
        assert!(ids.iter().all(|id| {
            id.len() == 32 && id.bytes().all(|byte| matches!(byte, b'0'..=b'9' | b'a'..=b'f'))
        }));
    }

    #[test]
    fn the_monotonic_reading_never_goes_back() {
        let first = SystemClock.monotonic();
        assert!(SystemClock.monotonic() >= first);
        assert!(SystemClock.now_ms() > 1_600_000_000_000);
    }
}
