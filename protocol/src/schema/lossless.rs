//! Which values survive a JSON round trip, and iterative forms of what `serde_json` does by recursion.
//!
//! Called by the schema walkers and by everyone who snapshots a tool's value. It never reports *where* a value is
//! lossy: the caller names the place it was looking at.

use serde_json::{Map, Number, Value, map};

/// Whether writing `value` as JSON and reading it back gives the same value.
///
/// The only losses a [`Value`] can hold are a negative zero (many readers drop the sign) and a number that is not
/// finite. Works at any nesting depth.
pub fn is_lossless(value: &Value) -> bool {
    let mut pending = vec![value];
    while let Some(value) = pending.pop() {
        match value {
            Value::Number(number) if !is_lossless_number(number) => return false,
            Value::Array(items) => pending.extend(items),
            Value::Object(entries) => pending.extend(entries.values()),
            _ => {}
        }
    }
    true
}

/// Whether `number` is finite and not −0.
pub(crate) fn is_lossless_number(number: &Number) -> bool {
    number.is_i64()
        || number.is_u64()
        || number
            .as_f64()
            .is_some_and(|float| float.is_finite() && !(float == 0.0 && float.is_sign_negative()))
}

/// Copies `value` without native recursion, unlike `Value::clone`.
pub fn clone_value(value: &Value) -> Value {
    enum Open<'a> {
        Array(std::slice::Iter<'a, Value>, Vec<Value>),
        Object(map::Iter<'a>, Map<String, Value>, Option<&'a String>),
    }
    let mut open: Vec<Open<'_>> = Vec::new();
    let mut next = value;
    loop {
        let mut done = match next {
            Value::Array(items) => {
                open.push(Open::Array(items.iter(), Vec::with_capacity(items.len())));
                None
            }
            Value::Object(entries) => {
                open.push(Open::Object(entries.iter(), Map::with_capacity(entries.len()), None));
                None
            }
            scalar => Some(scalar.clone()),
        };
        next = loop {
            let Some(container) = open.last_mut() else {
                return done.unwrap_or(Value::Null);
            };
            let child = match container {
                Open::Array(source, copy) => {
                    copy.extend(done.take());
                    source.next()
                }
                Open::Object(source, copy, key) => {
                    if let (Some(key), Some(value)) = (key.take(), done.take()) {
                        copy.insert(key.clone(), value);
                    }
                    source.next().map(|(next_key, value)| {
                        *key = Some(next_key);
                        value
                    })
                }
            };
            match child {
                Some(child) => break child,
                None => {
                    done = match open.pop() {
                        Some(Open::Array(_, copy)) => Some(Value::Array(copy)),
                        Some(Open::Object(_, copy, _)) => Some(Value::Object(copy)),
                        None => None,
                    };
                }
            }
        };
    }
}

/// Drops `value` without native recursion; a plain drop of some thousand levels overflows the stack.
pub fn drop_value(value: Value) {
    let mut pending = vec![value];
    while let Some(value) = pending.pop() {
        match value {
            Value::Array(items) => pending.extend(items),
            Value::Object(entries) => pending.extend(entries.into_iter().map(|(_, value)| value)),
            _ => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    /// `levels` arrays around `core`.
    fn nested(levels: usize, core: Value) -> Value {
        (0..levels).fold(core, |inner, _| Value::Array(vec![inner]))
    }

    #[test]
    fn only_negative_zero_is_lossy() {
        let cases = [
            (json!(null), true),
            (json!(0), true),
            (json!(0.0), true),
            (json!(-0.0), false),
            (json!(-1.5e308), true),
            (json!(u64::MAX), true),
            (json!({"a": [1, {"b": "x"}]}), true),
            (json!({"a": [1, {"b": -0.0}]}), false),
        ];
        for (value, expected) in cases {
            assert_eq!(is_lossless(&value), expected, "{value}");
        }
    }

    #[test]
    fn five_thousand_levels_are_walked_copied_and_dropped() {
        let good = nested(5_000, json!(1));
        let bad = nested(5_000, json!(-0.0));
        let copy = clone_value(&good);
        assert!(is_lossless(&good));
        assert!(is_lossless(&copy));
        assert!(!is_lossless(&bad));
        for value in [good, bad, copy] {
            drop_value(value);
        }
    }

    #[test]
    fn a_copy_keeps_values_and_key_order() {
        let value = json!({"z": [1, [], {}, {"b": null, "a": [true]}], "a": "x", "__proto__": {"k": -0.5}});
        assert_eq!(clone_value(&value).to_string(), value.to_string());
    }
}
