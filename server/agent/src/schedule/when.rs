//! From what a reminder is asked for to the instant it is due. Source: `spec/tools-agentic.md` §5.2.

use jiff::civil::DateTime;
use jiff::tz::{AmbiguousOffset, TimeZone};
use services::schedules::{
    MAX_MS, MIN_MS, ScheduleError, ScheduleErrorCode, ScheduleRule, date_ms, time_ms, utc_text,
};

/// The instant of a rule asked for at `now`, both in milliseconds since the Unix epoch.
///
/// # Errors
/// `invalid_rule`, `invalid_time_zone`, `not_future`, `time_out_of_range`.
pub(super) fn target(rule: &ScheduleRule, now: i64) -> Result<i64, ScheduleError> {
    let target = match rule {
        ScheduleRule::After(seconds) | ScheduleRule::Every(seconds) => {
            let ms = i64::try_from(*seconds).ok().and_then(|seconds| seconds.checked_mul(1000));
            ms.and_then(|ms| ms.checked_add(now)).ok_or_else(out_of_range)?
        }
        ScheduleRule::At(text) => instant(text).ok_or_else(|| {
            ScheduleError::new(
                ScheduleErrorCode::InvalidRule,
                "at must be a real time written YYYY-MM-DDTHH:mm:ss[.f] with Z or an offset ±HH:MM",
            )
        })?,
        ScheduleRule::AtLocal { date, time, time_zone } => local(date, time, time_zone)?,
    };
    if !(MIN_MS..=MAX_MS).contains(&target) {
        return Err(out_of_range());
    }
    if target <= now {
        let now = utc_text(now).unwrap_or_default();
        return Err(ScheduleError::new(
            ScheduleErrorCode::NotFuture,
            format!("that time is not in the future; it is {now} now"),
        ));
    }
    Ok(target)
}

fn out_of_range() -> ScheduleError {
    ScheduleError::new(ScheduleErrorCode::TimeOutOfRange, "the time must be within the years 0001 to 9999")
}

/// `YYYY-MM-DDTHH:mm:ss[.f](Z|±HH:MM)`.
fn instant(text: &str) -> Option<i64> {
    let (date, rest) = text.split_once('T')?;
    let zone = rest.find(['Z', '+', '-'])?;
    let (time, zone) = rest.split_at(zone);
    Some(date_ms(date)? + time_ms(time)? - offset_ms(zone)?)
}

fn offset_ms(zone: &str) -> Option<i64> {
    if zone == "Z" {
        return Some(0);
    }
    if zone == "-00:00" || zone.len() != 6 {
        return None;
    }
    // Hours and minutes are read as a time of the day, which bounds both.
    let ms = time_ms(&format!("{}:00", zone.get(1..)?))?;
    Some(if zone.starts_with('-') { -ms } else { ms })
}

fn local(date: &str, time: &str, zone: &str) -> Result<i64, ScheduleError> {
    let rule = |message: &str| ScheduleError::new(ScheduleErrorCode::InvalidRule, message);
    let fields = date_ms(date).zip(time_ms(time));
    let (day, of_day) =
        fields.ok_or_else(|| rule("at needs a real date YYYY-MM-DD and a time HH:mm:ss[.f]"))?;
    let civil = civil(day + of_day).ok_or_else(out_of_range)?;
    let zone = time_zone(zone).ok_or_else(|| {
        ScheduleError::new(
            ScheduleErrorCode::InvalidTimeZone,
            "time_zone must be UTC or a name of the time zone database such as Europe/Berlin",
        )
    })?;
    let offset = match zone.to_ambiguous_timestamp(civil).offset() {
        AmbiguousOffset::Unambiguous { offset } => offset,
        // The clock shows this time twice; the first one is meant.
        AmbiguousOffset::Fold { before, .. } => before,
        AmbiguousOffset::Gap { .. } => {
            return Err(rule("the clock skips that time on that day in this time zone"));
        }
    };
    Ok(day + of_day - i64::from(offset.seconds()) * 1000)
}

/// The fields of a time in UTC.
fn civil(ms: i64) -> Option<DateTime> {
    utc_text(ms)?.trim_end_matches('Z').parse().ok()
}

fn time_zone(name: &str) -> Option<TimeZone> {
    if name == "UTC" {
        return Some(TimeZone::UTC);
    }
    let is_name = |each: char| each.is_ascii_alphanumeric() || matches!(each, '/' | '_' | '+' | '.' | '-');
    if !name.contains('/') || !name.chars().all(is_name) {
        return None;
    }
    TimeZone::get(name).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The instant as text, or the code of the failure; asked for one second after the epoch.
    fn when(rule: ScheduleRule) -> String {
        match target(&rule, 1000) {
            Ok(ms) => utc_text(ms).unwrap(),
            Err(error) => error.code.id().to_owned(),
        }
    }

    #[test]
    fn an_instant_is_written_with_its_offset() {
        let cases = [
            ("2026-08-06T09:00:00+08:00", "2026-08-06T01:00:00.000Z"),
            ("2026-08-06T09:00:00.1Z", "2026-08-06T09:00:00.100Z"),
            ("2026-08-06T09:00:00.12+00:00", "2026-08-06T09:00:00.120Z"),
            ("2026-08-06T09:00:00-05:30", "2026-08-06T14:30:00.000Z"),
            ("2026-08-06T09:00:00", "invalid_rule"),
            ("2026-08-06 09:00:00Z", "invalid_rule"),
            ("2026-08-06t09:00:00Z", "invalid_rule"),
            ("2026-02-30T09:00:00Z", "invalid_rule"),
            ("2026-08-06T24:00:00Z", "invalid_rule"),
            ("2026-08-06T09:00:60Z", "invalid_rule"),
            ("2026-08-06T09:00:00.1234Z", "invalid_rule"),
            ("2026-08-06T09:00:00.Z", "invalid_rule"),
            ("2026-08-06T09:00:00-00:00", "invalid_rule"),
            ("2026-08-06T09:00:00+24:00", "invalid_rule"),
            ("2026-08-06T09:00:00+01:60", "invalid_rule"),
            ("2026-08-06T09:00:00+0100", "invalid_rule"),
            ("0000-08-06T09:00:00Z", "invalid_rule"),
            ("é026-08-06T09:00:00Z", "invalid_rule"),
            ("", "invalid_rule"),
            ("1970-01-01T00:00:01Z", "not_future"),
            ("1970-01-01T00:00:01.001Z", "1970-01-01T00:00:01.001Z"),
            ("9999-12-31T23:59:59.999-23:59", "time_out_of_range"),
        ];
        for (text, expected) in cases {
            assert_eq!(when(ScheduleRule::At(text.into())), expected, "{text}");
        }
    }

    #[test]
    fn a_time_on_the_wall_is_that_of_its_zone_and_day() {
        let cases = [
            (("2026-08-06", "09:00:00.25", "Asia/Shanghai"), "2026-08-06T01:00:00.250Z"),
            (("2026-11-01", "01:30:00", "America/New_York"), "2026-11-01T05:30:00.000Z"),
            (("2026-03-08", "02:30:00", "America/New_York"), "invalid_rule"),
            (("2026-07-01", "12:00:00", "US/Eastern"), "2026-07-01T16:00:00.000Z"),
            (("2026-07-01", "12:00:00", "UTC"), "2026-07-01T12:00:00.000Z"),
            (("2026-07-01", "12:00:00", "CST"), "invalid_time_zone"),
            (("2026-07-01", "12:00:00", "GMT"), "invalid_time_zone"),
            (("2026-07-01", "12:00:00", "+08:00"), "invalid_time_zone"),
            (("2026-07-01", "12:00:00", " UTC"), "invalid_time_zone"),
            (("2026-07-01", "12:00:00", "Mars/Base"), "invalid_time_zone"),
            (("2026-07-01", "12:00:00", "../../etc/passwd"), "invalid_time_zone"),
            (("2026-02-29", "12:00:00", "UTC"), "invalid_rule"),
            (("2026-07-01", "12:00", "UTC"), "invalid_rule"),
            (("1969-07-01", "12:00:00", "UTC"), "not_future"),
        ];
        for ((date, time, time_zone), expected) in cases {
            let rule =
                ScheduleRule::AtLocal { date: date.into(), time: time.into(), time_zone: time_zone.into() };
            assert_eq!(when(rule), expected, "{date} {time} {time_zone}");
        }
    }

    #[test]
    fn seconds_count_from_now_and_not_beyond_all_years() {
        assert_eq!(when(ScheduleRule::After(30)), "1970-01-01T00:00:31.000Z");
        assert_eq!(when(ScheduleRule::Every(300)), "1970-01-01T00:05:01.000Z");
        for seconds in [(1 << 53) - 1, u64::MAX] {
            assert_eq!(when(ScheduleRule::After(seconds)), "time_out_of_range");
        }
    }
}
