//! Does a value fit a schema? Returns every violation, in walk order.
//!
//! Called with arguments before a tool's body runs and with its value afterwards. It changes neither: nothing is
//! coerced and no `default` is applied.

use super::lossless::{is_lossless, is_lossless_number};
use super::node::{Node, Type, same_scalar, scalar_text};
use super::path::{Segment, render};
use serde_json::{Map, Value, map};

/// Checks `value` against `schema`; an empty list means that it fits.
///
/// `path` names the root in messages. An empty `path` is for arguments: properties then stand by their own name,
/// and the root is called `arguments`. Total for every input: what [`super::check_supported`] would refuse is
/// reported as a violation where it meets a value. A value that fits is lossless JSON throughout.
pub fn validate(schema: &Value, value: &Value, path: &str) -> Vec<String> {
    let mut walk = Walk { base: path, frames: Vec::new(), n_trials: 0, violations: Vec::new() };
    walk.enter(Segment::Here, Some(schema), value);
    while walk.advance() {}
    walk.violations
}

/// A value whose parts are being walked.
struct Frame<'a> {
    segment: Segment<'a>,
    parts: Parts<'a>,
}

/// The parts of a value that are still to come.
enum Parts<'a> {
    Object {
        value: &'a Map<String, Value>,
        properties: Option<&'a Map<String, Value>>,
        declared: Option<map::Iter<'a>>,
        own: map::Iter<'a>,
        closed: bool,
    },
    Array {
        items: Option<&'a Value>,
        elements: std::iter::Enumerate<std::slice::Iter<'a, Value>>,
    },
    OneOf {
        value: &'a Value,
        branches: std::slice::Iter<'a, Value>,
        /// Number of violations when the running branch began; `None` before the first branch.
        mark: Option<usize>,
        n_matched: usize,
    },
}

/// What to do next.
enum Step<'a> {
    /// Look at a part; without a schema it only has to be lossless.
    Enter(Segment<'a>, Option<&'a Value>, &'a Value),
    Undeclared(&'a str),
    Leave,
}

/// The state of one validation: an explicit stack instead of recursion.
struct Walk<'a> {
    base: &'a str,
    frames: Vec<Frame<'a>>,
    /// Number of open `oneOf` frames. Inside one, violations are counted and dropped, so they get no text.
    n_trials: usize,
    violations: Vec<String>,
}

impl<'a> Walk<'a> {
    /// Takes one step; false when the walk is over.
    fn advance(&mut self) -> bool {
        let Some(frame) = self.frames.last_mut() else { return false };
        match frame.parts.next(&mut self.violations) {
            Step::Enter(segment, schema, value) => self.enter(segment, schema, value),
            Step::Undeclared(key) => self.report(&[Segment::Key(key)], |path| {
                format!("\"{path}\" is not allowed: it is not a declared property")
            }),
            Step::Leave => self.leave(),
        }
        true
    }

    /// Checks the value itself, and opens it if it has parts.
    fn enter(&mut self, segment: Segment<'a>, schema: Option<&'a Value>, value: &'a Value) {
        match schema.map_or(Node::Any, Node::of) {
            Node::Any if is_lossless(value) => {}
            Node::Any => self.report(&[segment], |path| format!("\"{path}\" must be a lossless JSON value")),
            Node::Unsupported => {
                self.report(&[segment], |path| {
                    format!("\"{path}\" cannot be checked: its schema is not supported")
                });
            }
            Node::OneOf(branches) => {
                let parts = Parts::OneOf { value, branches: branches.iter(), mark: None, n_matched: 0 };
                self.frames.push(Frame { segment, parts });
                self.n_trials += 1;
            }
            Node::Typed(Type::Object, node) => match value {
                Value::Object(value) => self.enter_object(segment, node, value),
                _ => self.report_type(segment, Type::Object),
            },
            Node::Typed(Type::Array, node) => match value {
                Value::Array(elements) => {
                    let parts =
                        Parts::Array { items: node.get("items"), elements: elements.iter().enumerate() };
                    self.frames.push(Frame { segment, parts });
                }
                _ => self.report_type(segment, Type::Array),
            },
            Node::Typed(kind, node) => self.check_scalar(segment, kind, node, value),
        }
    }

    fn enter_object(
        &mut self,
        segment: Segment<'a>,
        node: &'a Map<String, Value>,
        value: &'a Map<String, Value>,
    ) {
        let required = node.get("required").and_then(Value::as_array);
        for name in required.into_iter().flatten().filter_map(Value::as_str) {
            if !value.contains_key(name) {
                let place = [segment, Segment::Key(name)];
                self.report(&place, |path| format!("missing required property \"{path}\""));
            }
        }
        let properties = node.get("properties").and_then(Value::as_object);
        let parts = Parts::Object {
            value,
            properties,
            declared: properties.map(Map::iter),
            own: value.iter(),
            closed: node.get("additionalProperties") == Some(&Value::Bool(false)),
        };
        self.frames.push(Frame { segment, parts });
    }

    fn check_scalar(&mut self, segment: Segment<'a>, kind: Type, node: &Map<String, Value>, value: &Value) {
        if !kind.matches(value) {
            return match value {
                Value::Number(number) if kind == Type::Number && !is_lossless_number(number) => {
                    self.report(&[segment], |path| {
                        format!("\"{path}\" must be a finite JSON number other than -0")
                    });
                }
                _ => self.report_type(segment, kind),
            };
        }
        if let Some(Value::Array(allowed)) = node.get("enum")
            && !allowed.iter().any(|member| same_scalar(member, value))
        {
            return self.report(&[segment], |path| {
                let members: Vec<_> = allowed.iter().map(scalar_text).collect();
                format!("\"{path}\" must be one of [{}]", members.join(","))
            });
        }
        if let Some(constant) = node.get("const")
            && !same_scalar(constant, value)
        {
            self.report(&[segment], |path| format!("\"{path}\" must equal {}", scalar_text(constant)));
        }
    }

    fn leave(&mut self) {
        let Some(frame) = self.frames.pop() else { return };
        if let Parts::OneOf { n_matched, .. } = frame.parts {
            self.n_trials -= 1;
            if n_matched != 1 {
                self.report(&[frame.segment], |path| {
                    format!("\"{path}\" must match exactly one of its alternatives (matched {n_matched})")
                });
            }
        }
    }

    fn report_type(&mut self, segment: Segment<'_>, kind: Type) {
        self.report(&[segment], |path| format!("\"{path}\" must be {}", kind.noun()));
    }

    /// Records one violation at `tail`, seen from the innermost open value.
    fn report(&mut self, tail: &[Segment<'_>], message: impl FnOnce(&str) -> String) {
        if self.n_trials > 0 {
            return self.violations.push(String::new());
        }
        let segments = self.frames.iter().map(|frame| frame.segment).chain(tail.iter().copied());
        let path = render(self.base, segments);
        self.violations.push(message(if path.is_empty() { "arguments" } else { &path }));
    }
}

impl<'a> Parts<'a> {
    /// The next step. `violations` is where a finished branch left its own, which are taken back.
    fn next(&mut self, violations: &mut Vec<String>) -> Step<'a> {
        match self {
            Self::Object { value, properties, declared, own, closed } => {
                for (key, schema) in declared.iter_mut().flatten() {
                    if let Some(child) = value.get(key) {
                        return Step::Enter(Segment::Key(key), Some(schema), child);
                    }
                }
                for (key, child) in own {
                    if properties.is_some_and(|properties| properties.contains_key(key)) {
                        continue;
                    }
                    return if *closed {
                        Step::Undeclared(key)
                    } else {
                        Step::Enter(Segment::Key(key), None, child)
                    };
                }
                Step::Leave
            }
            Self::Array { items, elements } => match elements.next() {
                Some((item_idx, element)) => Step::Enter(Segment::Index(item_idx), *items, element),
                None => Step::Leave,
            },
            Self::OneOf { value, branches, mark, n_matched } => {
                if let Some(mark) = mark.take() {
                    *n_matched += usize::from(violations.len() == mark);
                    violations.truncate(mark);
                }
                match branches.next() {
                    Some(branch) => {
                        *mark = Some(violations.len());
                        Step::Enter(Segment::Here, Some(branch), value)
                    }
                    None => Step::Leave,
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::check_supported;
    use super::super::lossless::drop_value;
    use super::*;
    use serde_json::json;

    /// Validates each value of a case below the root `value`; the schema must be inside the subset.
    fn check(schema: Value, cases: Vec<(Value, Vec<&str>)>) {
        assert_eq!(check_supported(&schema), Ok(()), "{schema}");
        for (value, expected) in cases {
            assert_eq!(validate(&schema, &value, "value"), expected, "{schema} <- {value}");
        }
    }

    #[test]
    fn case_number_takes_no_text_and_no_negative_zero() {
        check(
            json!({"type": "number"}),
            vec![
                (json!("1"), vec!["\"value\" must be a number"]),
                (json!(-0.0), vec!["\"value\" must be a finite JSON number other than -0"]),
                (json!(-1.5), vec![]),
                (json!(u64::MAX), vec![]),
            ],
        );
    }

    #[test]
    fn case_one_of_needs_exactly_one_match() {
        check(
            json!({"oneOf": [{"type": "number"}, {"type": "integer"}]}),
            vec![
                (json!(1), vec!["\"value\" must match exactly one of its alternatives (matched 2)"]),
                (json!(1.5), vec![]),
            ],
        );
        check(
            json!({"oneOf": [{"type": "string"}, {"type": "number"}]}),
            vec![(json!(null), vec!["\"value\" must match exactly one of its alternatives (matched 0)"])],
        );
    }

    #[test]
    fn case_nested_object() {
        let schema = json!({
            "type": "object",
            "properties": {
                "file": {"type": "string"},
                "nested": {
                    "type": "object",
                    "properties": {"line": {"type": "integer"}},
                    "required": ["line"],
                    "additionalProperties": false,
                },
            },
            "required": ["file"],
        });
        check(
            schema,
            vec![
                (
                    json!({"file": 1, "nested": {}}),
                    vec![
                        "\"value.file\" must be a string",
                        "missing required property \"value.nested.line\"",
                    ],
                ),
                (json!({"file": "a", "extra": [1], "nested": {"line": 2}}), vec![]),
                (
                    json!({"file": "a", "nested": {"line": 2, "extra": 1}}),
                    vec!["\"value.nested.extra\" is not allowed: it is not a declared property"],
                ),
            ],
        );
    }

    #[test]
    fn case_enum_is_checked_before_const() {
        check(
            json!({"type": "string", "enum": ["a", "b"], "const": "a"}),
            vec![
                (json!("a"), vec![]),
                (json!("c"), vec!["\"value\" must be one of [\"a\",\"b\"]"]),
                (json!("b"), vec!["\"value\" must equal \"a\""]),
            ],
        );
    }

    #[test]
    fn case_five_thousand_levels_of_one_of_are_validated() {
        let schema = (0..5_000).fold(json!({"type": "string"}), |inner, _| {
            let mut node = Map::new();
            node.insert("oneOf".to_owned(), Value::Array(vec![inner, json!({"type": "null"})]));
            Value::Object(node)
        });
        assert_eq!(validate(&schema, &json!("x"), "value"), Vec::<String>::new());
        assert_eq!(
            validate(&schema, &json!(1), "value"),
            ["\"value\" must match exactly one of its alternatives (matched 0)"]
        );
        drop_value(schema);
    }

    #[test]
    fn five_thousand_levels_of_arrays_and_objects_are_validated() {
        let schema = (0..5_000).fold(json!({"type": "null"}), |inner, _| {
            let items = Map::from_iter([("type".to_owned(), json!("array")), ("items".to_owned(), inner)]);
            let properties = Map::from_iter([("a".to_owned(), Value::Object(items))]);
            Value::Object(Map::from_iter([
                ("type".to_owned(), json!("object")),
                ("properties".to_owned(), Value::Object(properties)),
            ]))
        });
        let wrap = |core: Value| {
            (0..5_000).fold(core, |inner, _| {
                Value::Object(Map::from_iter([("a".to_owned(), Value::Array(vec![inner]))]))
            })
        };
        let (good, bad) = (wrap(json!(null)), wrap(json!(1)));
        assert_eq!(check_supported(&schema), Ok(()));
        assert_eq!(validate(&schema, &good, ""), Vec::<String>::new());
        let path = ".a[0]".repeat(5_000);
        assert_eq!(validate(&schema, &bad, ""), [format!("\"{}\" must be null", &path[1..])]);
        assert_eq!(validate(&json!({}), &bad, ""), Vec::<String>::new());
        for value in [schema, good, bad] {
            drop_value(value);
        }
    }

    #[test]
    fn row_no_type_wants_lossless_json() {
        check(
            json!({}),
            vec![
                (json!({"a": [null, 1.5, "x"]}), vec![]),
                (json!({"a": [-0.0]}), vec!["\"value\" must be a lossless JSON value"]),
            ],
        );
    }

    #[test]
    fn row_scalar_types_are_not_coerced() {
        for (name, noun, good) in [
            ("string", "a string", json!("")),
            ("boolean", "a boolean", json!(false)),
            ("null", "null", json!(null)),
            ("number", "a number", json!(0.5)),
        ] {
            for value in [json!("1"), json!(true), json!(null), json!(1.5), json!([]), json!({})] {
                let fits = std::mem::discriminant(&value) == std::mem::discriminant(&good);
                let expected = if fits { vec![] } else { vec![format!("\"value\" must be {noun}")] };
                assert_eq!(validate(&json!({"type": name}), &value, "value"), expected, "{name} <- {value}");
            }
        }
    }

    #[test]
    fn row_integer_is_an_integral_value() {
        let bad = vec!["\"value\" must be an integer"];
        check(
            json!({"type": "integer"}),
            vec![
                (json!(1), vec![]),
                (json!(1.0), vec![]),
                (json!(1.5), bad.clone()),
                (json!(-0.0), bad.clone()),
                (json!("1"), bad),
            ],
        );
    }

    #[test]
    fn row_enum_and_const_compare_value_and_type() {
        check(
            json!({"type": "number", "enum": [1, 2.5]}),
            vec![
                (json!(1.0), vec![]),
                (json!(2.5), vec![]),
                (json!(2), vec!["\"value\" must be one of [1,2.5]"]),
            ],
        );
        check(json!({"type": "null", "const": null}), vec![(json!(null), vec![])]);
        check(
            json!({"type": "boolean", "const": true}),
            vec![(json!(false), vec!["\"value\" must equal true"])],
        );
    }

    #[test]
    fn row_object_reports_required_then_properties_then_extras() {
        let schema = json!({
            "type": "object",
            "properties": {"b": {"type": "null"}, "a": {"type": "null"}, "z": {}},
            "required": ["z", "a"],
            "additionalProperties": false,
        });
        check(
            schema,
            vec![
                (json!([]), vec!["\"value\" must be an object"]),
                (
                    json!({"y": 1, "a": 1, "x": -0.0, "b": 1}),
                    vec![
                        "missing required property \"value.z\"",
                        "\"value.b\" must be null",
                        "\"value.a\" must be null",
                        "\"value.y\" is not allowed: it is not a declared property",
                        "\"value.x\" is not allowed: it is not a declared property",
                    ],
                ),
            ],
        );
    }

    #[test]
    fn row_object_is_open_but_undeclared_values_are_lossless() {
        check(
            json!({"type": "object", "properties": {"a": {}}, "additionalProperties": true}),
            vec![
                (json!({"x": {"y": [1]}}), vec![]),
                (
                    json!({"x": {"y": [-0.0]}, "a": -0.0}),
                    vec![
                        "\"value.a\" must be a lossless JSON value",
                        "\"value.x\" must be a lossless JSON value",
                    ],
                ),
            ],
        );
    }

    #[test]
    fn row_object_keys_are_plain_data() {
        let schema = json!({
            "type": "object",
            "properties": {"toString": {"type": "string"}, "__proto__": {"type": "object"}},
            "required": ["toString", "__proto__"],
            "additionalProperties": false,
        });
        check(
            schema,
            vec![
                (json!({"toString": "x", "__proto__": {}}), vec![]),
                (
                    json!({"constructor": 1}),
                    vec![
                        "missing required property \"value.toString\"",
                        "missing required property \"value.__proto__\"",
                        "\"value.constructor\" is not allowed: it is not a declared property",
                    ],
                ),
            ],
        );
    }

    #[test]
    fn row_array_checks_each_element() {
        check(
            json!({"type": "array", "items": {"type": "array", "items": {"type": "integer"}}}),
            vec![
                (json!({}), vec!["\"value\" must be an array"]),
                (
                    json!([[1, "x"], 2, []]),
                    vec!["\"value[0][1]\" must be an integer", "\"value[1]\" must be an array"],
                ),
            ],
        );
        check(
            json!({"type": "array"}),
            vec![
                (json!([1, "x", {}]), vec![]),
                (json!([1, [-0.0]]), vec!["\"value[1]\" must be a lossless JSON value"]),
            ],
        );
    }

    #[test]
    fn row_one_of_drops_the_violations_of_its_branches() {
        let closed = |name: &str| {
            json!({
                "type": "object", "properties": {name: {"type": "string"}}, "required": [name],
                "additionalProperties": false,
            })
        };
        let schema = json!({"type": "array", "items": {"oneOf": [
            closed("a"), {"oneOf": [closed("b"), {"type": "array", "items": closed("c")}]},
        ]}});
        check(
            schema,
            vec![
                (json!([{"a": "x"}, {"b": "x"}, [], [{"c": "x"}]]), vec![]),
                (
                    json!([{"a": 1, "d": 2}, [{"c": 1}], {"b": "x"}]),
                    vec![
                        "\"value[0]\" must match exactly one of its alternatives (matched 0)",
                        "\"value[1]\" must match exactly one of its alternatives (matched 0)",
                    ],
                ),
            ],
        );
    }

    #[test]
    fn an_empty_path_is_for_arguments() {
        let schema = json!({
            "type": "object",
            "properties": {"a": {"type": "array", "items": {"type": "string"}}},
            "required": ["b"],
        });
        assert_eq!(validate(&schema, &json!("raw text"), ""), ["\"arguments\" must be an object"]);
        assert_eq!(
            validate(&schema, &json!({"a": [1]}), ""),
            ["missing required property \"b\"", "\"a[0]\" must be a string"]
        );
    }

    #[test]
    fn a_default_is_never_applied_and_annotations_never_validate() {
        let schema = json!({
            "type": "object",
            "properties": {"a": {"type": "string", "default": "x", "examples": [1]}},
            "required": ["a"],
        });
        check(
            schema,
            vec![
                (json!({}), vec!["missing required property \"value.a\""]),
                (json!({"a": "anything"}), vec![]),
            ],
        );
    }

    #[test]
    fn a_schema_outside_the_subset_lets_nothing_through() {
        for schema in [json!({"anyOf": [{}]}), json!({"type": ["string"]}), json!(true), json!({"enum": [1]})]
        {
            assert_eq!(
                validate(&schema, &json!(1), "value"),
                ["\"value\" cannot be checked: its schema is not supported"],
                "{schema}"
            );
        }
    }
}
