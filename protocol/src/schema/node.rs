//! The vocabulary of a schema node: keywords, type names, and how scalars match and compare.
//!
//! Used by the other files of this folder only. It looks at one node at a time and never walks.

use super::lossless::is_lossless_number;
use serde_json::{Map, Number, Value};

/// Keywords that constrain a value, apart from the two that choose the kind of a node.
pub const DETAIL_KEYWORDS: [&str; 6] =
    ["properties", "required", "additionalProperties", "items", "enum", "const"];

/// Keywords that only describe; they never take part in validation.
pub const ANNOTATION_KEYWORDS: [&str; 4] = ["description", "title", "default", "examples"];

/// Every keyword of the subset, as it is listed in messages.
pub const SUPPORTED: &str = "type, oneOf, properties, required, additionalProperties, items, enum, const, \
                             description, title, default, examples";

/// Whether `key` is a keyword of the subset.
pub fn is_keyword(key: &str) -> bool {
    key == "type" || key == "oneOf" || DETAIL_KEYWORDS.contains(&key) || ANNOTATION_KEYWORDS.contains(&key)
}

/// The value of the `type` keyword.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Type {
    Object,
    Array,
    String,
    Number,
    Integer,
    Boolean,
    Null,
}

/// The names of all types, as they are listed in messages.
pub const TYPE_NAMES: &str = "object, array, string, number, integer, boolean, null";

impl Type {
    /// The type called `name`, if the subset has it.
    pub fn parse(name: &str) -> Option<Self> {
        Some(match name {
            "object" => Self::Object,
            "array" => Self::Array,
            "string" => Self::String,
            "number" => Self::Number,
            "integer" => Self::Integer,
            "boolean" => Self::Boolean,
            "null" => Self::Null,
            _ => return None,
        })
    }

    /// Whether the type has no parts, so that `enum` and `const` may stand on it.
    pub fn is_scalar(self) -> bool {
        !matches!(self, Self::Object | Self::Array)
    }

    /// The type with its article: what a value of it must be.
    pub fn noun(self) -> &'static str {
        match self {
            Self::Object => "an object",
            Self::Array => "an array",
            Self::String => "a string",
            Self::Number => "a number",
            Self::Integer => "an integer",
            Self::Boolean => "a boolean",
            Self::Null => "null",
        }
    }

    /// Whether `value` is of this type. Numbers must be lossless; `1.0` is an integer.
    pub fn matches(self, value: &Value) -> bool {
        match (self, value) {
            (Self::Object, Value::Object(_))
            | (Self::Array, Value::Array(_))
            | (Self::String, Value::String(_))
            | (Self::Boolean, Value::Bool(_))
            | (Self::Null, Value::Null) => true,
            (Self::Number, Value::Number(number)) => is_lossless_number(number),
            (Self::Integer, Value::Number(number)) => is_lossless_number(number) && is_integral(number),
            _ => false,
        }
    }
}

/// What kind of node a schema is, seen from a reader that trusts nothing.
#[derive(Clone, Copy, Debug)]
pub enum Node<'a> {
    /// Annotations only: any lossless JSON.
    Any,
    /// Exactly one branch must match.
    OneOf(&'a [Value]),
    /// One type with its details.
    Typed(Type, &'a Map<String, Value>),
    /// Outside the subset; [`super::check_supported`] says why.
    Unsupported,
}

impl<'a> Node<'a> {
    /// Classifies `schema` by its own keywords.
    pub fn of(schema: &'a Value) -> Self {
        let Value::Object(node) = schema else { return Self::Unsupported };
        match (node.get("type"), node.get("oneOf")) {
            (Some(Value::String(name)), None) => {
                Type::parse(name).map_or(Self::Unsupported, |kind| Self::Typed(kind, node))
            }
            (None, Some(Value::Array(branches))) => Self::OneOf(branches),
            (None, None) if node.keys().all(|key| ANNOTATION_KEYWORDS.contains(&key.as_str())) => Self::Any,
            _ => Self::Unsupported,
        }
    }
}

/// Whether two scalars are the same JSON value: types must agree, numbers compare by value (`1` is `1.0`).
///
/// Containers are never the same as anything, since `enum` and `const` hold scalars only.
pub fn same_scalar(left: &Value, right: &Value) -> bool {
    match (left, right) {
        (Value::Null, Value::Null) => true,
        (Value::Bool(left), Value::Bool(right)) => left == right,
        (Value::String(left), Value::String(right)) => left == right,
        (Value::Number(left), Value::Number(right)) => same_number(left, right),
        _ => false,
    }
}

/// A scalar as JSON text. Containers, which an accepted schema cannot hold here, are abbreviated.
pub fn scalar_text(value: &Value) -> String {
    match value {
        Value::Array(_) => "[…]".to_owned(),
        Value::Object(_) => "{…}".to_owned(),
        scalar => scalar.to_string(),
    }
}

/// Whether the number has no fraction.
fn is_integral(number: &Number) -> bool {
    as_integer(number).is_some() || number.as_f64().is_some_and(|float| float.fract() == 0.0)
}

/// Compares without rounding: integers beyond 2^53 must not become equal by way of a float.
fn same_number(left: &Number, right: &Number) -> bool {
    match (as_integer(left), as_integer(right)) {
        (Some(left), Some(right)) => left == right,
        (None, None) => left.as_f64() == right.as_f64(),
        (Some(integer), None) => same_as_float(integer, right),
        (None, Some(integer)) => same_as_float(integer, left),
    }
}

/// Whether a number stored as float has exactly the value `integer`.
fn same_as_float(integer: i128, float: &Number) -> bool {
    // A JSON integer here fits 65 bits, so a float that is equal to it is far inside the range of `i128`.
    float.as_f64().is_some_and(|float| float.fract() == 0.0 && float.abs() < 1e20 && float as i128 == integer)
}

/// The number, when it is stored as an integer.
fn as_integer(number: &Number) -> Option<i128> {
    number.as_i64().map(i128::from).or_else(|| number.as_u64().map(i128::from))
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn a_float_without_fraction_is_an_integer() {
        let cases = [
            (json!(1), true),
            (json!(1.0), true),
            (json!(-3e20), true),
            (json!(u64::MAX), true),
            (json!(1.5), false),
            (json!(-0.0), false),
            (json!("1"), false),
            (json!(null), false),
        ];
        for (value, expected) in cases {
            assert_eq!(Type::Integer.matches(&value), expected, "{value}");
        }
    }

    #[test]
    fn scalars_are_the_same_by_value_and_type() {
        let cases = [
            (json!(1), json!(1.0), true),
            (json!(1.5), json!(1.5), true),
            (json!(1), json!("1"), false),
            (json!(0), json!(false), false),
            (json!(null), json!(null), true),
            (json!(9007199254740993_u64), json!(9007199254740992.0), false),
            (json!(u64::MAX), json!(u64::MAX), true),
            (json!(u64::MAX), json!(-1), false),
            (json!([1]), json!([1]), false),
        ];
        for (left, right, expected) in cases {
            assert_eq!(same_scalar(&left, &right), expected, "{left} {right}");
            assert_eq!(same_scalar(&right, &left), expected, "{right} {left}");
        }
    }
}
