//! Times as the session query tools read and write them: RFC 3339 with a zone, milliseconds since the Unix epoch.
//!
//! Pure. A bound between two milliseconds moves inwards, so that no whole millisecond outside the interval matches.

/// Which end of an interval a time is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Bound {
    From,
    To,
}

/// Milliseconds of `YYYY-MM-DDTHH:mm[:ss[.f+]](Z|±HH:MM)`; `None` for anything else and for dates that do not exist.
pub fn parse(text: &str, bound: Bound) -> Option<i64> {
    let (year, month, day) = (digits(text, 0, 4)?, digits(text, 5, 2)?, digits(text, 8, 2)?);
    let (hour, minute) = (digits(text, 11, 2)?, digits(text, 14, 2)?);
    let bytes = text.as_bytes();
    if [(4, b'-'), (7, b'-'), (10, b'T'), (13, b':')].iter().any(|(at, byte)| bytes[*at] != *byte) {
        return None;
    }
    let mut rest = text.get(16..)?;
    let (mut second, mut fraction) = (0, "");
    if let Some(after) = rest.strip_prefix(':') {
        second = digits(after, 0, 2)?;
        rest = after.get(2..)?;
        if let Some(after) = rest.strip_prefix('.') {
            let n_digits = after.bytes().take_while(u8::is_ascii_digit).count();
            if n_digits == 0 {
                return None;
            }
            (fraction, rest) = after.split_at(n_digits);
        }
    }
    let offset_minutes = match rest.as_bytes() {
        [b'Z'] => 0,
        [sign @ (b'+' | b'-'), _, _, b':', _, _] => {
            let (hours, minutes) = (digits(rest, 1, 2)?, digits(rest, 4, 2)?);
            if hours > 23 || minutes > 59 {
                return None;
            }
            (hours * 60 + minutes) * if *sign == b'-' { -1 } else { 1 }
        }
        _ => return None,
    };
    let exists = (1..=12).contains(&month) && (1..=days_in(year, month)).contains(&day);
    if !exists || hour > 23 || minute > 59 || second > 59 {
        return None;
    }
    let mut millis = 0;
    for place in 0..3 {
        let digit = fraction.as_bytes().get(place).map_or(0, |byte| i64::from(byte - b'0'));
        millis = millis * 10 + digit;
    }
    let is_between = fraction.bytes().skip(3).any(|byte| byte != b'0');
    let up = i64::from(is_between && bound == Bound::From);
    let minutes = (days_before(year, month, day) * 24 + hour) * 60 + minute - offset_minutes;
    Some((minutes * 60 + second) * 1000 + millis + up)
}

/// `YYYY-MM-DDTHH:mm:ss.mmmZ`.
pub fn format(millis: i64) -> String {
    const DAY: i64 = 86_400_000;
    let (mut day, rest) = (millis.div_euclid(DAY), millis.rem_euclid(DAY));
    // A first guess from the mean length of a year, then at most a few steps.
    let mut year = 1970 + day.div_euclid(if day < 0 { 365 } else { 366 });
    while days_before(year + 1, 1, 1) <= day {
        year += 1;
    }
    day -= days_before(year, 1, 1);
    let mut month = 1;
    while day >= days_in(year, month) {
        day -= days_in(year, month);
        month += 1;
    }
    let (hour, minute) = (rest / 3_600_000, rest / 60_000 % 60);
    let (second, milli) = (rest / 1000 % 60, rest % 1000);
    format!("{year:04}-{month:02}-{:02}T{hour:02}:{minute:02}:{second:02}.{milli:03}Z", day + 1)
}

fn digits(text: &str, at: usize, n: usize) -> Option<i64> {
    let part = text.get(at..at + n)?;
    if part.bytes().all(|byte| byte.is_ascii_digit()) { part.parse().ok() } else { None }
}

fn is_leap(year: i64) -> bool {
    year % 4 == 0 && (year % 100 != 0 || year % 400 == 0)
}

fn days_in(year: i64, month: i64) -> i64 {
    match month {
        2 => 28 + i64::from(is_leap(year)),
        4 | 6 | 9 | 11 => 30,
        _ => 31,
    }
}

/// Days from the Unix epoch to a date.
fn days_before(year: i64, month: i64, day: i64) -> i64 {
    let before = year - 1;
    let leap_days = before.div_euclid(4) - before.div_euclid(100) + before.div_euclid(400);
    let months: i64 = (1..month).map(|month| days_in(year, month)).sum();
    before * 365 + leap_days - 719_162 + months + day - 1
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_read_exactly_and_bounds_move_inwards() {
        let cases = [
            ("1970-01-01T00:00Z", Some(0), Some(0)),
            ("1970-01-01T00:00:00.1Z", Some(100), Some(100)),
            ("1970-01-01T00:00:00.1000000Z", Some(100), Some(100)),
            ("1970-01-01T00:00:00.0001Z", Some(1), Some(0)),
            ("1970-01-01T01:00+01:00", Some(0), Some(0)),
            ("2000-02-29T00:00:00Z", Some(951_782_400_000), Some(951_782_400_000)),
            ("2100-02-29T00:00Z", None, None),
            ("2026-02-30T00:00Z", None, None),
            ("2026-01-01T00:00", None, None),
            ("2026-01-01T24:00Z", None, None),
            ("2026-01-01T00:00:60Z", None, None),
            ("2026-01-01T00:00+24:00", None, None),
            ("2026-01-01T00:00:00.Z", None, None),
            ("2026-01-01 00:00Z", None, None),
            ("ünfug", None, None),
        ];
        for (text, from, to) in cases {
            assert_eq!((parse(text, Bound::From), parse(text, Bound::To)), (from, to), "{text}");
        }
    }

    #[test]
    fn what_is_written_is_read_back() {
        for millis in [0, 1, -1, 951_782_400_000, 1_767_225_599_999, 4_102_444_800_000, -62_135_596_800_000] {
            assert_eq!(parse(&format(millis), Bound::From), Some(millis), "{}", format(millis));
        }
    }
}
