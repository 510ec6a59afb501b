//! The reminders of one session: what they are, when they are due, and what a log of them means.
//!
//! Called by the tools of the family `schedule`; implemented by the agent, which gives the reminders. [`ScheduleState`] and
//! the times touch no clock. Source: `spec/tools-agentic.md` §5.

use async_trait::async_trait;
use protocol::schedule::{SCHEDULE_VERSION, Schedule, ScheduleChange};
use std::collections::HashSet;
use tokio_util::sync::CancellationToken;

/// Most reminders of a session that wait at a time.
pub const MAX_SCHEDULES: usize = 100;
/// Shortest time between two occurrences, in seconds.
pub const MIN_EVERY_SECONDS: u64 = 300;
/// Last millisecond of the year 9999.
pub const MAX_MS: i64 = 253_402_300_799_999;
/// First millisecond of the year 1.
pub const MIN_MS: i64 = -62_135_596_800_000;

const DAY_MS: i64 = 86_400_000;

/// The reminders of one session. They come only while it is open.
#[async_trait]
pub trait Schedules: Send + Sync {
    /// Makes a reminder and puts it on disk.
    ///
    /// # Errors
    /// See [`ScheduleErrorCode`]. Cancelled while it waited, nothing was written.
    async fn create(
        &self,
        new: NewSchedule,
        cancel: &CancellationToken,
    ) -> Result<ScheduleView, ScheduleFailure>;

    /// Every reminder that waits, in the order in which they were made.
    ///
    /// # Errors
    /// As [`Schedules::create`].
    async fn list(&self, cancel: &CancellationToken) -> Result<Vec<ScheduleView>, ScheduleFailure>;

    /// Takes a reminder back; `false` when none of this id waits.
    ///
    /// # Errors
    /// As [`Schedules::create`].
    async fn delete(&self, id: &str, cancel: &CancellationToken) -> Result<bool, ScheduleFailure>;
}

/// A reminder to make.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NewSchedule {
    /// What to remind of, trimmed and not empty.
    pub prompt: String,
    /// When.
    pub rule: ScheduleRule,
}

/// When a reminder comes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ScheduleRule {
    /// So many seconds from now; positive.
    After(u64),
    /// Every so many seconds; at least [`MIN_EVERY_SECONDS`].
    Every(u64),
    /// At this instant, RFC 3339 with an offset.
    At(String),
    /// At this time of a clock on the wall.
    AtLocal {
        /// `YYYY-MM-DD`.
        date: String,
        /// `HH:mm:ss[.f]`.
        time: String,
        /// `UTC` or a name of the time zone database with a slash.
        time_zone: String,
    },
}

/// A reminder as it is told.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ScheduleView {
    /// The reminder.
    pub schedule: Schedule,
    /// Whether its time has come.
    pub overdue: bool,
}

/// Why a request came to nothing.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ScheduleFailure {
    /// The caller was stopped before anything was written.
    Cancelled,
    /// An answer for the model.
    Error(ScheduleError),
}

/// What the model reads of a failure.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ScheduleError {
    /// What kind.
    pub code: ScheduleErrorCode,
    /// In words.
    pub message: String,
    /// What was done, when it is not known whether it is on disk.
    pub operation: Option<&'static str>,
    /// To which reminder, when that is known.
    pub id: Option<String>,
}

impl ScheduleError {
    /// A failure that left nothing behind.
    pub fn new(code: ScheduleErrorCode, message: impl Into<String>) -> Self {
        Self { code, message: message.into(), operation: None, id: None }
    }
}

impl From<ScheduleError> for ScheduleFailure {
    fn from(error: ScheduleError) -> Self {
        Self::Error(error)
    }
}

/// Kinds of failures.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[expect(missing_docs, reason = "the words say it")]
pub enum ScheduleErrorCode {
    InvalidPrompt,
    InvalidSelector,
    InvalidRule,
    InvalidTimeZone,
    NotFuture,
    TimeOutOfRange,
    FrequencyTooHigh,
    CorruptScheduleLog,
    InternalError,
    PersistenceUncertain,
}

impl ScheduleErrorCode {
    /// The word for it.
    pub fn id(self) -> &'static str {
        match self {
            Self::InvalidPrompt => "invalid_prompt",
            Self::InvalidSelector => "invalid_selector",
            Self::InvalidRule => "invalid_rule",
            Self::InvalidTimeZone => "invalid_time_zone",
            Self::NotFuture => "not_future",
            Self::TimeOutOfRange => "time_out_of_range",
            Self::FrequencyTooHigh => "frequency_too_high",
            Self::CorruptScheduleLog => "corrupt_schedule_log",
            Self::InternalError => "internal_error",
            Self::PersistenceUncertain => "persistence_uncertain",
        }
    }
}

/// The reminders as the log says they are.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ScheduleState {
    /// What waits and when, in the order in which it was made.
    active: Vec<(Schedule, i64)>,
    /// Every id there ever was.
    ids: HashSet<String>,
    /// Whether the log tells something that cannot have happened; nothing is given then.
    pub is_corrupt: bool,
}

/// One reminder that is given now.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Occurrence {
    /// The reminder.
    pub id: String,
    /// The time it is given for.
    pub at: String,
    /// What to remind of.
    pub prompt: String,
}

/// What is given now, in one turn.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Due {
    /// A reminder that comes once.
    Once(Occurrence),
    /// All that come again and are due.
    Batch(Vec<Occurrence>, String),
}

impl ScheduleState {
    /// Takes a logged change into account.
    pub fn fold(&mut self, change: &ScheduleChange) {
        if self.try_fold(change).is_none() {
            self.is_corrupt = true;
        }
    }

    fn try_fold(&mut self, change: &ScheduleChange) -> Option<()> {
        let (ScheduleChange::Create { version, .. }
        | ScheduleChange::Delete { version, .. }
        | ScheduleChange::Dispatch { version, .. }) = change;
        if *version != SCHEDULE_VERSION {
            return None;
        }
        match change {
            ScheduleChange::Create { schedule, .. } => {
                let at = utc_ms(schedule.scheduled_at())?;
                if !self.ids.insert(schedule.id().to_owned()) {
                    return None;
                }
                self.active.push((schedule.clone(), at));
            }
            ScheduleChange::Delete { id, .. } => {
                self.active.remove(self.place(id)?);
            }
            ScheduleChange::Dispatch { id, accepted_at, .. } => {
                let place = self.place(id)?;
                match (&mut self.active[place], accepted_at) {
                    ((Schedule::After { .. } | Schedule::At { .. }, _), None) => {
                        self.active.remove(place);
                    }
                    ((Schedule::Every { every_seconds, scheduled_at, .. }, target), Some(accepted_at)) => {
                        let (_, next) = occurrence(*target, *every_seconds, utc_ms(accepted_at)?)?;
                        match utc_text(next) {
                            Some(text) => {
                                *target = next;
                                *scheduled_at = text;
                            }
                            None => _ = self.active.remove(place),
                        }
                    }
                    _ => return None,
                }
            }
        }
        Some(())
    }

    fn place(&self, id: &str) -> Option<usize> {
        self.active.iter().position(|(schedule, _)| schedule.id() == id)
    }

    /// Forgets everything: what was copied from another session is not this one's.
    pub fn clear(&mut self) {
        *self = Self::default();
    }

    /// An id that was never used.
    pub fn fresh_id(&self) -> String {
        let mut number = self.ids.len() + 1;
        loop {
            let id = format!("schedule-{number}");
            if !self.ids.contains(&id) {
                return id;
            }
            number += 1;
        }
    }

    /// Whether a reminder of this id waits.
    pub fn has(&self, id: &str) -> bool {
        self.place(id).is_some()
    }

    /// How many wait.
    pub fn len(&self) -> usize {
        self.active.len()
    }

    /// Whether none waits.
    pub fn is_empty(&self) -> bool {
        self.active.is_empty()
    }

    /// What waits, seen at this time.
    pub fn views(&self, now: i64) -> Vec<ScheduleView> {
        let view = |(schedule, at): &(Schedule, i64)| ScheduleView {
            schedule: schedule.clone(),
            overdue: now >= *at,
        };
        self.active.iter().map(view).collect()
    }

    /// When the next one is due, in milliseconds since the Unix epoch.
    pub fn next(&self) -> Option<i64> {
        self.active.iter().map(|(_, at)| *at).min()
    }

    /// What is to be given at this time: the earliest of those that come once, else all others that are due.
    pub fn due(&self, now: i64) -> Option<Due> {
        let mut due: Vec<&(Schedule, i64)> = self.active.iter().filter(|(_, at)| now >= *at).collect();
        // Stable: those of one time stay in the order in which they were made.
        due.sort_by_key(|(_, at)| *at);
        let once = due.iter().find(|(schedule, _)| !matches!(schedule, Schedule::Every { .. }));
        if let Some((schedule, _)) = once {
            return Some(Due::Once(Occurrence {
                id: schedule.id().to_owned(),
                at: schedule.scheduled_at().to_owned(),
                prompt: schedule.prompt().to_owned(),
            }));
        }
        let occurrences = due.iter().filter_map(|(schedule, target)| match schedule {
            Schedule::Every { id, prompt, every_seconds, .. } => {
                let (at, _) = occurrence(*target, *every_seconds, now)?;
                Some(Occurrence { id: id.clone(), at: utc_text(at)?, prompt: prompt.clone() })
            }
            _ => None,
        });
        let occurrences: Vec<Occurrence> = occurrences.collect();
        let accepted_at = utc_text(now)?;
        (!occurrences.is_empty()).then_some(Due::Batch(occurrences, accepted_at))
    }
}

impl Due {
    /// What is logged once it was given.
    pub fn dispatches(&self) -> Vec<ScheduleChange> {
        let (given, accepted_at) = match self {
            Self::Once(once) => (std::slice::from_ref(once), None),
            Self::Batch(batch, accepted_at) => (batch.as_slice(), Some(accepted_at.clone())),
        };
        let dispatch = |given: &Occurrence| ScheduleChange::Dispatch {
            version: SCHEDULE_VERSION,
            id: given.id.clone(),
            accepted_at: accepted_at.clone(),
        };
        given.iter().map(dispatch).collect()
    }
}

/// The latest time not after `accepted` of a reminder that comes again, and the one after it, in milliseconds. Missed ones are
/// left out; `None` before its first.
fn occurrence(target: i64, every_seconds: u64, accepted: i64) -> Option<(i64, i64)> {
    let interval = i64::try_from(every_seconds).ok()?.checked_mul(1000).filter(|interval| *interval > 0)?;
    if accepted < target {
        return None;
    }
    let at = target + (accepted - target) / interval * interval;
    Some((at, at.saturating_add(interval)))
}

/// A time as the log holds it; `None` outside of the years 1 to 9999.
pub fn utc_text(ms: i64) -> Option<String> {
    if !(MIN_MS..=MAX_MS).contains(&ms) {
        return None;
    }
    let (days, of_day) = (ms.div_euclid(DAY_MS), ms.rem_euclid(DAY_MS));
    let (year, month, day) = date_of(days);
    let (hour, minute) = (of_day / 3_600_000, of_day / 60_000 % 60);
    let (second, milli) = (of_day / 1000 % 60, of_day % 1000);
    Some(format!("{year:04}-{month:02}-{day:02}T{hour:02}:{minute:02}:{second:02}.{milli:03}Z"))
}

/// Reads a time exactly as [`utc_text`] writes it.
pub fn utc_ms(text: &str) -> Option<i64> {
    let (date, time) = text.strip_suffix('Z')?.split_once('T')?;
    let ms = date_ms(date)? + time_ms(time)?;
    (utc_text(ms)? == text).then_some(ms)
}

/// Milliseconds of a `YYYY-MM-DD` in UTC; `None` when there is no such day or the year is 0000.
pub fn date_ms(text: &str) -> Option<i64> {
    let bytes = text.as_bytes();
    if bytes.len() != 10 || bytes[4] != b'-' || bytes[7] != b'-' {
        return None;
    }
    let (year, month, day) = (digits(&text[..4])?, digits(text.get(5..7)?)?, digits(text.get(8..)?)?);
    let days = days_of(year, month, day);
    (year >= 1 && date_of(days) == (year, month, day)).then_some(days * DAY_MS)
}

/// Milliseconds of a `HH:mm:ss[.f]` with one to three digits of a fraction.
pub fn time_ms(text: &str) -> Option<i64> {
    let (whole, fraction) = match text.split_once('.') {
        Some((whole, fraction)) => (whole, Some(fraction)),
        None => (text, None),
    };
    let bytes = whole.as_bytes();
    if bytes.len() != 8 || bytes[2] != b':' || bytes[5] != b':' {
        return None;
    }
    let (hour, minute) = (digits(&whole[..2])?, digits(whole.get(3..5)?)?);
    let second = digits(whole.get(6..)?)?;
    let milli = match fraction {
        None => 0,
        Some(text) if (1..=3).contains(&text.len()) => {
            digits(text)? * [100, 10, 1].get(text.len() - 1).copied()?
        }
        Some(_) => return None,
    };
    (hour <= 23 && minute <= 59 && second <= 59)
        .then_some(((hour * 60 + minute) * 60 + second) * 1000 + milli)
}

fn digits(text: &str) -> Option<i64> {
    if text.is_empty() || !text.bytes().all(|byte| byte.is_ascii_digit()) {
        return None;
    }
    text.parse().ok()
}

/// Days from 1970-01-01 in the Gregorian calendar, counted in years that begin in March.
fn days_of(year: i64, month: i64, day: i64) -> i64 {
    let year = if month <= 2 { year - 1 } else { year };
    let (era, of_era) = (year.div_euclid(400), year.rem_euclid(400));
    let of_year = (153 * ((month + 9) % 12) + 2) / 5 + day - 1;
    era * 146_097 + of_era * 365 + of_era / 4 - of_era / 100 + of_year - 719_468
}

/// The day that stands so many days after 1970-01-01.
fn date_of(days: i64) -> (i64, i64, i64) {
    let days = days + 719_468;
    let (era, of_era) = (days.div_euclid(146_097), days.rem_euclid(146_097));
    let year = (of_era - of_era / 1460 + of_era / 36_524 - of_era / 146_096) / 365;
    let of_year = of_era - (365 * year + year / 4 - year / 100);
    let shifted = (5 * of_year + 2) / 153;
    let month = if shifted < 10 { shifted + 3 } else { shifted - 9 };
    let year = year + era * 400 + i64::from(month <= 2);
    (year, month, of_year - (153 * shifted + 2) / 5 + 1)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn every(id: &str, at: &str) -> ScheduleChange {
        let (id, prompt, scheduled_at) = (id.to_owned(), format!("of {id}"), at.to_owned());
        let schedule = Schedule::Every { id, prompt, every_seconds: 300, scheduled_at };
        ScheduleChange::Create { version: 1, schedule }
    }

    fn once(id: &str, at: &str) -> ScheduleChange {
        let schedule =
            Schedule::At { id: id.to_owned(), prompt: format!("of {id}"), scheduled_at: at.to_owned() };
        ScheduleChange::Create { version: 1, schedule }
    }

    fn folded(changes: &[ScheduleChange]) -> ScheduleState {
        let mut state = ScheduleState::default();
        changes.iter().for_each(|change| state.fold(change));
        state
    }

    #[test]
    fn times_are_written_and_read_the_same() {
        let cases = [
            (0, "1970-01-01T00:00:00.000Z"),
            (31_000, "1970-01-01T00:00:31.000Z"),
            (MAX_MS, "9999-12-31T23:59:59.999Z"),
            (MIN_MS, "0001-01-01T00:00:00.000Z"),
            (951_782_400_000, "2000-02-29T00:00:00.000Z"),
            (1_786_012_345_678, "2026-08-06T10:32:25.678Z"),
        ];
        for (ms, text) in cases {
            assert_eq!(utc_text(ms).as_deref(), Some(text));
            assert_eq!(utc_ms(text), Some(ms));
        }
        assert_eq!((utc_text(MAX_MS + 1), utc_text(MIN_MS - 1)), (None, None));
        for text in ["1970-01-01T00:00:00Z", "1970-01-01T00:00:00.0Z", "2023-02-29T00:00:00.000Z", ""] {
            assert_eq!(utc_ms(text), None, "{text}");
        }
    }

    #[test]
    fn one_that_comes_again_skips_what_was_missed_and_keeps_its_beat() {
        let at = |text: &str| utc_ms(text).unwrap();
        let mut state = folded(&[every("a", "2026-01-01T12:05:00.000Z")]);
        assert_eq!(state.due(at("2026-01-01T12:04:59.999Z")), None);
        let due = state.due(at("2026-01-01T12:17:34.000Z")).unwrap();
        let Due::Batch(given, accepted) = &due else { panic!("a batch") };
        assert_eq!(given[0].at, "2026-01-01T12:15:00.000Z");
        assert_eq!(accepted, "2026-01-01T12:17:34.000Z");
        due.dispatches().iter().for_each(|change| state.fold(change));
        assert_eq!(state.views(0)[0].schedule.scheduled_at(), "2026-01-01T12:20:00.000Z");
        assert!(!state.is_corrupt);
        let early = ScheduleChange::Dispatch {
            version: 1,
            id: "a".into(),
            accepted_at: Some("2026-01-01T12:19:00.000Z".into()),
        };
        state.fold(&early);
        assert!(state.is_corrupt);
    }

    #[test]
    fn one_whose_next_time_is_beyond_all_years_ends() {
        let mut state = folded(&[every("a", "9999-12-31T23:58:00.000Z")]);
        let due = state.due(MAX_MS).unwrap();
        due.dispatches().iter().for_each(|change| state.fold(change));
        assert!(state.is_empty() && !state.is_corrupt);
    }

    #[test]
    fn those_that_come_once_go_first_one_at_a_time_and_the_others_together() {
        let mut state = folded(&[
            every("e1", "2026-01-01T00:00:02.000Z"),
            once("o1", "2026-01-01T00:00:03.000Z"),
            every("e2", "2026-01-01T00:00:01.000Z"),
            once("o2", "2026-01-01T00:00:03.000Z"),
            once("later", "2027-01-01T00:00:00.000Z"),
        ]);
        let now = utc_ms("2026-01-01T00:01:00.000Z").unwrap();
        let mut given = Vec::new();
        while let Some(due) = state.due(now) {
            given.push(match &due {
                Due::Once(once) => vec![once.id.clone()],
                Due::Batch(batch, _) => batch.iter().map(|one| one.id.clone()).collect(),
            });
            due.dispatches().iter().for_each(|change| state.fold(change));
        }
        assert_eq!(given, [vec!["o1"], vec!["o2"], vec!["e2", "e1"]]);
        assert_eq!(state.len(), 3);
    }

    #[test]
    fn ids_are_never_used_twice() {
        let delete = |id: &str| ScheduleChange::Delete { version: 1, id: id.into() };
        let mut state = folded(&[once("schedule-1", "2026-01-01T00:00:03.000Z"), delete("schedule-1")]);
        assert_eq!(state.fresh_id(), "schedule-2");
        state.fold(&once("schedule-3", "2026-01-01T00:00:03.000Z"));
        assert_eq!(state.fresh_id(), "schedule-4");
    }

    #[test]
    fn a_log_that_cannot_be_true_is_corrupt() {
        let first = || once("a", "2026-01-01T00:00:03.000Z");
        let accepted_at = Some("2026-01-01T00:00:03.000Z".to_owned());
        let cases = [
            vec![first(), first()],
            vec![ScheduleChange::Delete { version: 1, id: "a".into() }],
            vec![ScheduleChange::Dispatch { version: 1, id: "a".into(), accepted_at: None }],
            vec![first(), ScheduleChange::Dispatch { version: 1, id: "a".into(), accepted_at }],
            vec![
                every("a", "2026-01-01T00:00:03.000Z"),
                ScheduleChange::Dispatch { version: 1, id: "a".into(), accepted_at: None },
            ],
            vec![first(), ScheduleChange::Delete { version: 2, id: "a".into() }],
            vec![once("a", "2026-02-30T00:00:03.000Z")],
        ];
        for changes in cases {
            assert!(folded(&changes).is_corrupt, "{changes:?}");
        }
    }
}
