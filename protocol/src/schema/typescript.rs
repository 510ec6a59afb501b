//! Prints a schema as a TypeScript type, for models that call tools from code.
//!
//! Called for the declaration text of code mode. Deterministic: the same schema gives the same bytes. Total: what the
//! subset does not know is printed as `unknown`. The text uses one name of its own, [`JSON_VALUE`]; whoever prints
//! types declares it once, with [`JSON_VALUE_DECLARATION`].

use super::node::{Node, Type, scalar_text};
use serde_json::{Map, Value};
use std::borrow::Cow;

/// Name of the type that stands for any JSON.
pub const JSON_VALUE: &str = "JsonValue";

/// The declaration of [`JSON_VALUE`].
pub const JSON_VALUE_DECLARATION: &str =
    "type JsonValue = null | boolean | number | string | JsonValue[] | { [key: string]: JsonValue };";

/// Deeper levels are indented like this one, so that the text of a deep schema stays linear in its size.
const MAX_INDENT_LEVELS: usize = 24;

/// Prints `schema` as a type that starts at the left margin.
///
/// Objects take several lines, two spaces a level; everything else stays on one. Descriptions of properties become
/// doc comments above them, those of branches and array elements stand before their types. The description of the
/// root is left to the caller (see [`doc_comment`]).
pub fn to_typescript(schema: &Value) -> String {
    to_typescript_at(schema, 0)
}

/// As [`to_typescript`], for a type that begins on a line indented by `level` levels. The first line gets no
/// indentation.
pub fn to_typescript_at(schema: &Value, level: usize) -> String {
    let mut text = String::new();
    let mut pending = vec![Piece::Type(schema, level)];
    while let Some(piece) = pending.pop() {
        match piece {
            Piece::Text(piece) => text.push_str(&piece),
            Piece::Line(level) => {
                text.push('\n');
                text.push_str(&"  ".repeat(level.min(MAX_INDENT_LEVELS)));
            }
            Piece::Type(schema, level) => {
                let first = pending.len();
                expand(schema, level, &mut pending);
                // Pieces were added in reading order; the stack gives back the last one first.
                pending[first..].reverse();
            }
        }
    }
    text
}

/// A description as a one-line doc comment: white space collapsed, comment terminators defused. `None` if blank.
pub fn doc_comment(description: &str) -> Option<String> {
    let words: Vec<_> = description.split_whitespace().collect();
    if words.is_empty() { None } else { Some(format!("/** {} */", words.join(" ").replace("*/", "*\\/"))) }
}

/// A property name, quoted unless it is a plain identifier.
pub fn property_name(name: &str) -> Cow<'_, str> {
    let is_start = |c: char| c.is_ascii_alphabetic() || c == '_' || c == '$';
    let is_identifier = name.starts_with(is_start) && name.chars().all(|c| is_start(c) || c.is_ascii_digit());
    if is_identifier { Cow::Borrowed(name) } else { Cow::Owned(Value::from(name).to_string()) }
}

/// What is still to be written.
enum Piece<'a> {
    Text(Cow<'a, str>),
    /// A line break and the indentation of a level.
    Line(usize),
    /// A type that begins on a line of that level.
    Type(&'a Value, usize),
}

/// Adds the pieces of one type, in reading order.
fn expand<'a>(schema: &'a Value, level: usize, pieces: &mut Vec<Piece<'a>>) {
    match Node::of(schema) {
        Node::Any => push(pieces, JSON_VALUE),
        Node::Unsupported | Node::OneOf([]) => push(pieces, "unknown"),
        Node::OneOf(branches) => {
            for (branch_idx, branch) in branches.iter().enumerate() {
                if branch_idx > 0 {
                    push(pieces, " | ");
                }
                if let Some(comment) = comment_of(branch) {
                    push(pieces, comment + " ");
                }
                pieces.push(Piece::Type(branch, level));
            }
        }
        Node::Typed(Type::Object, node) => expand_object(node, level, pieces),
        Node::Typed(Type::Array, node) => match node.get("items") {
            None => push(pieces, "JsonValue[]"),
            Some(items) => {
                let comment = comment_of(items);
                let is_grouped = comment.is_some() || is_compound(items);
                if is_grouped {
                    push(pieces, "(");
                }
                if let Some(comment) = comment {
                    push(pieces, comment + " ");
                }
                pieces.push(Piece::Type(items, level));
                push(pieces, if is_grouped { ")[]" } else { "[]" });
            }
        },
        Node::Typed(kind, node) => match literals(node) {
            Some(literals) => push(pieces, literals.join(" | ")),
            None => push(pieces, scalar_name(kind)),
        },
    }
}

fn expand_object<'a>(node: &'a Map<String, Value>, level: usize, pieces: &mut Vec<Piece<'a>>) {
    let is_closed = node.get("additionalProperties") == Some(&Value::Bool(false));
    let Some(properties) = properties(node) else {
        return push(pieces, if is_closed { "Record<string, never>" } else { "Record<string, JsonValue>" });
    };
    let required = node.get("required").and_then(Value::as_array);
    push(pieces, "{");
    for (name, schema) in properties {
        if let Some(comment) = comment_of(schema) {
            pieces.push(Piece::Line(level + 1));
            push(pieces, comment);
        }
        let is_required =
            required.is_some_and(|required| required.iter().any(|entry| entry.as_str() == Some(name)));
        pieces.push(Piece::Line(level + 1));
        push(pieces, property_name(name));
        push(pieces, if is_required { ": " } else { "?: " });
        pieces.push(Piece::Type(schema, level + 1));
        push(pieces, ";");
    }
    pieces.push(Piece::Line(level));
    push(pieces, if is_closed { "}" } else { "} & Record<string, JsonValue>" });
}

/// Whether the type of `schema` must be parenthesised before `[]`.
fn is_compound(schema: &Value) -> bool {
    match Node::of(schema) {
        Node::OneOf(branches) => !branches.is_empty(),
        Node::Typed(Type::Object, node) => {
            node.get("additionalProperties") != Some(&Value::Bool(false)) && properties(node).is_some()
        }
        Node::Typed(kind, node) if kind.is_scalar() => {
            literals(node).is_some_and(|literals| literals.len() > 1)
        }
        _ => false,
    }
}

/// The declared properties, if there are any.
fn properties(node: &Map<String, Value>) -> Option<&Map<String, Value>> {
    node.get("properties").and_then(Value::as_object).filter(|properties| !properties.is_empty())
}

/// The literal types of a scalar: its constant, or else its allowed values.
fn literals(node: &Map<String, Value>) -> Option<Vec<String>> {
    let values = match (node.get("const"), node.get("enum")) {
        (Some(constant), _) => std::slice::from_ref(constant),
        (None, Some(Value::Array(allowed))) if !allowed.is_empty() => allowed,
        _ => return None,
    };
    let is_printable = |value: &Value| !value.is_array() && !value.is_object();
    values.iter().all(is_printable).then(|| values.iter().map(scalar_text).collect())
}

fn scalar_name(kind: Type) -> &'static str {
    match kind {
        Type::String => "string",
        Type::Number | Type::Integer => "number",
        Type::Boolean => "boolean",
        Type::Null => "null",
        Type::Object | Type::Array => "unknown",
    }
}

fn comment_of(schema: &Value) -> Option<String> {
    schema.get("description").and_then(Value::as_str).and_then(doc_comment)
}

fn push<'a>(pieces: &mut Vec<Piece<'a>>, text: impl Into<Cow<'a, str>>) {
    pieces.push(Piece::Text(text.into()));
}

#[cfg(test)]
mod tests {
    use super::super::lossless::drop_value;
    use super::*;
    use serde_json::json;

    #[test]
    fn small_types_stay_on_one_line() {
        let closed = json!({"type": "object", "additionalProperties": false});
        let cases = [
            (json!({}), "JsonValue"),
            (json!({"type": "string"}), "string"),
            (json!({"type": "integer"}), "number"),
            (json!({"type": "number", "enum": [1, 2.5]}), "1 | 2.5"),
            (json!({"type": "string", "enum": ["a", "\"b\"\n"]}), r#""a" | "\"b\"\n""#),
            (json!({"type": "string", "enum": ["a", "b"], "const": "b"}), "\"b\""),
            (json!({"type": "boolean"}), "boolean"),
            (json!({"type": "null", "const": null}), "null"),
            (json!({"type": "array"}), "JsonValue[]"),
            (json!({"type": "array", "items": {}}), "JsonValue[]"),
            (json!({"type": "array", "items": {"type": "array", "items": {"type": "string"}}}), "string[][]"),
            (json!({"type": "array", "items": {"type": "string", "enum": ["a"]}}), "\"a\"[]"),
            (json!({"type": "array", "items": {"type": "string", "enum": ["a", "b"]}}), "(\"a\" | \"b\")[]"),
            (
                json!({"type": "array", "items": {"type": "string", "description": "A\n name."}}),
                "(/** A name. */ string)[]",
            ),
            (json!({"oneOf": [{"type": "string"}, {"type": "null"}]}), "string | null"),
            (
                json!({"type": "array", "items": {"oneOf": [{"type": "string"}, {"type": "null"}]}}),
                "(string | null)[]",
            ),
            (
                json!({"oneOf": [{"type": "null", "description": "None."}, {"type": "string"}]}),
                "/** None. */ null | string",
            ),
            (json!({"type": "object"}), "Record<string, JsonValue>"),
            (json!({"type": "array", "items": {"type": "object"}}), "Record<string, JsonValue>[]"),
            (closed, "Record<string, never>"),
        ];
        for (schema, expected) in cases {
            assert_eq!(to_typescript(&schema), expected, "{schema}");
        }
    }

    #[test]
    fn unsupported_schemas_are_unknown() {
        let cases = [
            (json!(true), "unknown"),
            (json!({"anyOf": [{}]}), "unknown"),
            (json!({"type": ["string", "null"]}), "unknown"),
            (json!({"type": "weird"}), "unknown"),
            (json!({"oneOf": []}), "unknown"),
            (json!({"type": "string", "enum": [[1]]}), "string"),
            (json!({"type": "array", "items": {"$ref": "#"}}), "unknown[]"),
        ];
        for (schema, expected) in cases {
            assert_eq!(to_typescript(&schema), expected, "{schema}");
        }
    }

    #[test]
    fn objects_show_comments_optional_keys_and_quoted_names() {
        let schema = json!({
            "type": "object",
            "description": "Not printed: the caller's.",
            "properties": {
                "file_path": {"type": "string", "description": "Absolute path.\n  Ends */ here."},
                "content-type": {"type": "string"},
                "1st": {"type": "integer"},
                "edits": {
                    "type": "array",
                    "items": {
                        "type": "object",
                        "properties": {"old": {"type": "string"}, "$new": {"type": "string", "description": " "}},
                        "required": ["old"],
                        "additionalProperties": false,
                    },
                },
                "extra": {"type": "array", "items": {"type": "object", "properties": {"a": {}}}},
            },
            "required": ["file_path", "edits", "1st"],
        });
        let expected = r#"{
  /** Absolute path. Ends *\/ here. */
  file_path: string;
  "content-type"?: string;
  "1st": number;
  edits: {
    old: string;
    $new?: string;
  }[];
  extra?: ({
    a?: JsonValue;
  } & Record<string, JsonValue>)[];
} & Record<string, JsonValue>"#;
        assert_eq!(to_typescript(&schema), expected);
    }

    #[test]
    fn a_type_can_start_on_an_indented_line() {
        let schema =
            json!({"type": "object", "properties": {"a": {"type": "null"}}, "additionalProperties": false});
        assert_eq!(to_typescript_at(&schema, 1), "{\n    a?: null;\n  }");
    }

    #[test]
    fn five_thousand_levels_are_printed() {
        let schema = (0..5_000).fold(json!({"type": "null"}), |inner, _| {
            let properties = Map::from_iter([("a".to_owned(), inner)]);
            Value::Object(Map::from_iter([
                ("type".to_owned(), json!("object")),
                ("properties".to_owned(), Value::Object(properties)),
                ("additionalProperties".to_owned(), json!(false)),
            ]))
        });
        let text = to_typescript(&schema);
        assert_eq!(text.matches("a?: ").count(), 5_000);
        assert!(text.len() < 1_000_000, "{} bytes", text.len());
        drop_value(schema);
    }
}
