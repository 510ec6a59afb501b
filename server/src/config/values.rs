//! What a single value may be. Each function takes a TOML value and says, in words that follow "key: ", what is wrong.

use super::ToolFamily;
use protocol::mode::Mode;
use protocol::model::ModelRef;
use std::collections::BTreeSet;
use std::net::IpAddr;
use std::time::Duration;
use toml::de::DeValue;

/// A parsed value, or what is wrong with it.
pub(super) type Parsed<T> = Result<T, String>;

pub(super) fn boolean(value: &DeValue<'_>) -> Parsed<bool> {
    value.as_bool().ok_or_else(|| expected("true or false", value))
}

/// Text that is not blank.
pub(super) fn text(value: &DeValue<'_>) -> Parsed<String> {
    match value.as_str() {
        Some(text) if !text.trim().is_empty() => Ok(text.to_owned()),
        _ => Err(expected("text that is not empty", value)),
    }
}

/// A whole number from 1 on.
pub(super) fn positive<T: TryFrom<u64>>(value: &DeValue<'_>) -> Parsed<T> {
    let number = value.as_integer().and_then(|number| {
        let digits = number.as_str().trim_start_matches('+');
        u64::from_str_radix(digits, number.radix()).ok()
    });
    number
        .filter(|number| *number > 0)
        .and_then(|number| T::try_from(number).ok())
        .ok_or_else(|| expected("a whole number from 1 on", value))
}

pub(super) fn list<T>(value: &DeValue<'_>, item: impl Fn(&DeValue<'_>) -> Parsed<T>) -> Parsed<Vec<T>> {
    let items = value.as_array().ok_or_else(|| expected("a list", value))?;
    items.iter().map(|entry| item(entry.get_ref())).collect()
}

/// Program and arguments.
pub(super) fn command(value: &DeValue<'_>) -> Parsed<Vec<String>> {
    let what = "a program and its arguments, such as [\"server\", \"--stdio\"]";
    let words = value.as_array().ok_or_else(|| expected(what, value))?;
    let words: Option<Vec<String>> =
        words.iter().map(|word| word.get_ref().as_str().map(str::to_owned)).collect();
    words
        .filter(|words| words.first().is_some_and(|program| !program.trim().is_empty()))
        .ok_or_else(|| expected(what, value))
}

/// Names and texts, such as an environment.
pub(super) fn pairs(value: &DeValue<'_>) -> Parsed<std::collections::BTreeMap<String, String>> {
    let what = "a table of texts, such as { NAME = \"value\" }";
    let table = value.as_table().ok_or_else(|| expected(what, value))?;
    table
        .iter()
        .map(|(name, text)| Some((name.get_ref().to_string(), text.get_ref().as_str()?.to_owned())))
        .collect::<Option<_>>()
        .ok_or_else(|| expected(what, value))
}

/// A length of time such as `"300s"`; longer than nothing.
pub(super) fn duration(value: &DeValue<'_>) -> Parsed<Duration> {
    let parse = |text: &str| {
        let digits = text.len() - text.trim_start_matches(|c: char| c.is_ascii_digit()).len();
        let (number, unit) = text.split_at(digits);
        let number: u64 = number.parse().ok()?;
        let millis = match unit.trim() {
            "ms" => 1,
            "s" => 1_000,
            "m" => 60_000,
            "h" => 3_600_000,
            _ => return None,
        };
        number.checked_mul(millis).filter(|millis| *millis > 0).map(Duration::from_millis)
    };
    value
        .as_str()
        .and_then(parse)
        .ok_or_else(|| expected("a length of time such as \"300s\", \"5m\" or \"1500ms\"", value))
}

/// One of some words.
pub(super) fn one_of<T: Copy>(value: &DeValue<'_>, words: &[(&str, T)]) -> Parsed<T> {
    let word = value.as_str();
    match words.iter().find(|(name, _)| Some(*name) == word) {
        Some((_, meant)) => Ok(*meant),
        None => {
            let names: Vec<_> = words.iter().map(|(name, _)| format!("{name:?}")).collect();
            let hint = word.and_then(|word| nearest(word, words.iter().map(|(name, _)| *name)));
            let hint = hint.map(|name| format!("; did you mean {name:?}?")).unwrap_or_default();
            Err(format!("{}{hint}", expected(&format!("one of {}", names.join(", ")), value)))
        }
    }
}

pub(super) fn mode(value: &DeValue<'_>) -> Parsed<Mode> {
    one_of(value, &Mode::ALL.map(|mode| (mode.id(), mode)))
}

/// Names of families, or `"all"`, alone or in the list.
pub(super) fn families(value: &DeValue<'_>) -> Parsed<BTreeSet<ToolFamily>> {
    let mut words: Vec<(&str, Option<ToolFamily>)> =
        ToolFamily::ALL.map(|family| (family.id(), Some(family))).to_vec();
    words.push(("all", None));
    let chosen = match value {
        DeValue::String(_) => vec![one_of(value, &[("all", None)])?],
        _ => list(value, |entry| one_of(entry, &words))?,
    };
    if chosen.contains(&None) {
        return Ok(ToolFamily::ALL.into_iter().collect());
    }
    Ok(chosen.into_iter().flatten().collect())
}

/// `provider/model`.
pub(super) fn model(value: &DeValue<'_>) -> Parsed<ModelRef> {
    value
        .as_str()
        .and_then(|text| ModelRef::parse(text.trim()))
        .ok_or_else(|| expected("\"provider/model\"", value))
}

/// An http address, without slashes at its end.
pub(super) fn url(value: &DeValue<'_>) -> Parsed<String> {
    let what = "an address that begins with http:// or https://";
    let text = value.as_str().unwrap_or_default().trim().trim_end_matches('/');
    let host = ["http://", "https://"].iter().find_map(|scheme| text.strip_prefix(scheme));
    match host {
        Some(host) if !host.is_empty() && !text.contains(char::is_whitespace) => Ok(text.to_owned()),
        _ => Err(expected(what, value)),
    }
}

/// A file name extension; the dot is taken off.
pub(super) fn extension(value: &DeValue<'_>) -> Parsed<String> {
    let text = text(value)?;
    let name = text.trim().trim_start_matches('.');
    if name.is_empty() || name.contains(['/', '\\', '*']) {
        return Err(expected("a file name extension such as \"rs\"", value));
    }
    Ok(name.to_owned())
}

/// A host, an address or a range of addresses.
pub(super) fn host_or_range(value: &DeValue<'_>) -> Parsed<String> {
    let text = text(value)?;
    let text = text.trim();
    let is_good = match text.split_once('/') {
        Some((address, bits)) => match (address.parse::<IpAddr>(), bits.parse::<u8>()) {
            (Ok(IpAddr::V4(_)), Ok(bits)) => bits <= 32,
            (Ok(IpAddr::V6(_)), Ok(bits)) => bits <= 128,
            _ => false,
        },
        None => {
            text.parse::<IpAddr>().is_ok()
                || text.chars().all(|c| c.is_alphanumeric() || matches!(c, '.' | '-' | '_'))
        }
    };
    let what = "a host, an address or a range such as \"10.0.0.0/8\", without a scheme or port";
    if is_good { Ok(text.to_owned()) } else { Err(expected(what, value)) }
}

/// The words of a value that is not what it should be.
fn expected(what: &str, found: &DeValue<'_>) -> String {
    let found = match found {
        DeValue::String(text) => format!("{:?}", text),
        DeValue::Boolean(value) => value.to_string(),
        DeValue::Integer(number) => number.to_string(),
        other => format!("a TOML {}", other.type_str()),
    };
    format!("expected {what}, found {found}")
}

/// The name most like `word`, when one is like it.
pub(super) fn nearest<'a>(word: &str, names: impl Iterator<Item = &'a str>) -> Option<&'a str> {
    let bound = (word.chars().count() / 3).max(2);
    names
        .map(|name| (distance(word, name), name))
        .filter(|(distance, name)| *distance <= bound && *distance < name.chars().count())
        .min()
        .map(|(_, name)| name)
}

/// Insertions, deletions and substitutions between two words.
fn distance(from: &str, to: &str) -> usize {
    let to: Vec<char> = to.chars().collect();
    let mut row: Vec<usize> = (0..=to.len()).collect();
    for (n, a) in from.chars().enumerate() {
        let mut diagonal = row[0];
        row[0] = n + 1;
        for (idx, b) in to.iter().enumerate() {
            let substituted = diagonal + usize::from(a != *b);
            diagonal = row[idx + 1];
            row[idx + 1] = substituted.min(row[idx] + 1).min(diagonal + 1);
        }
    }
    row[to.len()]
}
