//! One member of an object in a JSON file with comments: put in, or taken out. Pure: text in, text out; what is not ours
//! keeps its bytes.

use jsonc_parser::ParseOptions;
use jsonc_parser::cst::{CstInputValue, CstObject, CstRootNode};
use serde_json::{Map, Value};

/// `text` with the member `name` in the object at `path`. `program` members are set, `defaults` only where missing.
///
/// # Errors
/// The text is no JSON with comments, or something on the way is no object; the message says where.
pub(super) fn put(
    text: &str,
    path: &[&str],
    name: &str,
    program: &Map<String, Value>,
    defaults: &Map<String, Value>,
) -> Result<String, String> {
    let root = parse(text)?;
    let mut object = root.object_value_or_create().ok_or("the outermost value is no object")?;
    for name in path.iter().chain([&name]) {
        object = object
            .object_value_or_create(name)
            .ok_or_else(|| format!("the value of \"{name}\" is no object"))?;
    }
    for (name, value) in program {
        match object.get(name) {
            Some(member) if member.to_serde_value().as_ref() == Some(value) => {}
            Some(member) => member.set_value(input(value)),
            None => _ = object.append(name, input(value)),
        }
    }
    for (name, value) in defaults {
        if object.get(name).is_none() {
            object.append(name, input(value));
        }
    }
    let written = root.to_string();
    Ok(if text.trim().is_empty() { format!("{}\n", written.trim_end()) } else { written })
}

/// `text` without the member `name` of the object at `path`, and without the objects on the way that are empty then.
///
/// # Errors
/// The text is no JSON with comments; the message says where.
pub(super) fn take(text: &str, path: &[&str], name: &str) -> Result<String, String> {
    let root = parse(text)?;
    let Some(mut object) = root.object_value() else { return Ok(text.to_owned()) };
    let mut way: Vec<(CstObject, &str)> = Vec::new();
    for name in path {
        let Some(inner) = object.object_value(name) else { return Ok(text.to_owned()) };
        way.push((object, name));
        object = inner;
    }
    let Some(member) = object.get(name) else { return Ok(text.to_owned()) };
    member.remove();
    for (outer, name) in way.into_iter().rev() {
        let is_empty = outer
            .object_value(name)
            .is_some_and(|inner| inner.children_exclude_trivia_and_tokens().is_empty());
        match outer.get(name) {
            Some(member) if is_empty => member.remove(),
            _ => break,
        }
    }
    Ok(root.to_string())
}

fn parse(text: &str) -> Result<CstRootNode, String> {
    let options = ParseOptions {
        allow_comments: true,
        allow_trailing_commas: true,
        allow_loose_object_property_names: false,
        allow_missing_commas: false,
        allow_single_quoted_strings: false,
        allow_hexadecimal_numbers: false,
        allow_unary_plus_numbers: false,
        allow_bare_decimal_point_numbers: false,
        allow_non_finite_numbers: false,
        allow_extended_string_escapes: false,
    };
    CstRootNode::parse(text, &options).map_err(|error| error.to_string())
}

fn input(value: &Value) -> CstInputValue {
    match value {
        Value::Null => CstInputValue::Null,
        Value::Bool(flag) => CstInputValue::Bool(*flag),
        Value::Number(number) => CstInputValue::Number(number.to_string()),
        Value::String(text) => CstInputValue::String(text.clone()),
        Value::Array(items) => CstInputValue::Array(items.iter().map(input).collect()),
        Value::Object(members) => {
            CstInputValue::Object(members.iter().map(|(name, value)| (name.clone(), input(value))).collect())
        }
    }
}
