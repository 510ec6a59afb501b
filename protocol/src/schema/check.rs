//! Is a schema inside the subset? All violations are collected, in walk order.
//!
//! Called before a schema is trusted: at registration, and for schemas that models or plugins hand in. It checks a
//! schema only, never a value.

use super::SchemaError;
use super::lossless::is_lossless;
use super::node::{
    ANNOTATION_KEYWORDS, DETAIL_KEYWORDS, SUPPORTED, TYPE_NAMES, Type, is_keyword, same_scalar,
};
use super::path::{Segment, render};
use serde_json::{Map, Value, map};

/// Accepts a schema of any root.
///
/// # Errors
///
/// Lists everything outside the subset, each violation beginning with its place (`schema.properties.a.type …`).
pub fn check_supported(schema: &Value) -> Result<(), SchemaError> {
    let mut walk = Walk { frames: Vec::new(), violations: Vec::new() };
    walk.enter(Segment::Here, schema);
    while walk.advance() {}
    if walk.violations.is_empty() { Ok(()) } else { Err(SchemaError { violations: walk.violations }) }
}

/// Accepts a schema whose root is `type: "object"`, for callers that need an object.
///
/// # Errors
///
/// As [`check_supported`]; an accepted schema with another root is one violation.
pub fn check_object(schema: &Value) -> Result<(), SchemaError> {
    check_supported(schema)?;
    match schema.get("type") {
        Some(Value::String(name)) if name == "object" => Ok(()),
        _ => Err(SchemaError::one("schema must have type \"object\" at its root".to_owned())),
    }
}

/// A node whose children are being walked.
struct Frame<'a> {
    segment: Segment<'a>,
    node: &'a Map<String, Value>,
    children: Children<'a>,
}

/// The children of a node that are still to come.
enum Children<'a> {
    Properties(Option<map::Iter<'a>>),
    Items(Option<&'a Value>),
    Branches(std::iter::Enumerate<std::slice::Iter<'a, Value>>),
}

/// The state of one check: an explicit stack instead of recursion.
struct Walk<'a> {
    frames: Vec<Frame<'a>>,
    violations: Vec<String>,
}

impl<'a> Walk<'a> {
    /// Takes one step; false when the walk is over.
    fn advance(&mut self) -> bool {
        let Some(frame) = self.frames.last_mut() else { return false };
        let child = match &mut frame.children {
            Children::Properties(entries) => entries
                .as_mut()
                .and_then(Iterator::next)
                .map(|(key, schema)| (Segment::Property(key.as_str()), schema)),
            Children::Items(items) => items.take().map(|schema| (Segment::Items, schema)),
            Children::Branches(branches) => {
                branches.next().map(|(branch_idx, schema)| (Segment::Branch(branch_idx), schema))
            }
        };
        if let Some((segment, schema)) = child {
            self.enter(segment, schema);
        } else if let Some(frame) = self.frames.pop() {
            self.leave(&frame);
        }
        true
    }

    /// Checks what is said before the children of a node, and opens the node if it has any.
    fn enter(&mut self, segment: Segment<'a>, schema: &'a Value) {
        let Value::Object(node) = schema else {
            return self.report(&[segment], "must be a schema object");
        };
        self.check_keys(segment, node);
        match (node.get("type"), node.get("oneOf")) {
            (Some(_), Some(_)) => self.report(&[segment], "cannot declare both \"type\" and \"oneOf\""),
            (None, None) => {
                for keyword in DETAIL_KEYWORDS.into_iter().filter(|keyword| node.contains_key(*keyword)) {
                    self.report(&[segment, Segment::Key(keyword)], "needs a \"type\" or \"oneOf\" beside it");
                }
            }
            (None, Some(branches)) => {
                let branches = match branches {
                    Value::Array(branches) if branches.len() >= 2 => branches.as_slice(),
                    _ => {
                        let problem = "must be an array of at least two schemas";
                        self.report(&[segment, Segment::Key("oneOf")], problem);
                        &[]
                    }
                };
                let children = Children::Branches(branches.iter().enumerate());
                self.frames.push(Frame { segment, node, children });
            }
            (Some(Value::String(name)), None) => match Type::parse(name) {
                Some(kind) => self.enter_typed(segment, node, kind),
                None => self.report_type(segment),
            },
            (Some(Value::Array(_)), None) => {
                let problem = "must be one type name, not an array of types; use \"oneOf\" for alternatives";
                self.report(&[segment, Segment::Key("type")], problem);
            }
            (Some(_), None) => self.report_type(segment),
        }
    }

    fn enter_typed(&mut self, segment: Segment<'a>, node: &'a Map<String, Value>, kind: Type) {
        for keyword in DETAIL_KEYWORDS.into_iter().filter(|keyword| node.contains_key(*keyword)) {
            let (allowed, home) = match keyword {
                "items" => (kind == Type::Array, "type \"array\""),
                "enum" | "const" => (kind.is_scalar(), "a scalar type"),
                _ => (kind == Type::Object, "type \"object\""),
            };
            if !allowed {
                self.report(&[segment, Segment::Key(keyword)], &format!("is only allowed with {home}"));
            }
        }
        let children = match kind {
            Type::Object => Children::Properties(match node.get("properties") {
                Some(Value::Object(entries)) => Some(entries.iter()),
                Some(_) => {
                    let problem = "must be an object that maps names to schemas";
                    self.report(&[segment, Segment::Key("properties")], problem);
                    None
                }
                None => None,
            }),
            Type::Array => Children::Items(node.get("items")),
            scalar => return self.check_literals(segment, node, scalar),
        };
        self.frames.push(Frame { segment, node, children });
    }

    /// Checks what is said after the children of a node.
    fn leave(&mut self, frame: &Frame<'a>) {
        match frame.children {
            Children::Items(_) => {}
            Children::Branches(_) => {
                for keyword in DETAIL_KEYWORDS.into_iter().filter(|keyword| frame.node.contains_key(*keyword))
                {
                    self.report(&[frame.segment, Segment::Key(keyword)], "is not allowed beside \"oneOf\"");
                }
            }
            Children::Properties(_) => {
                if let Some(required) = frame.node.get("required") {
                    self.check_required(frame, required);
                }
                if frame.node.get("additionalProperties").is_some_and(|open| !open.is_boolean()) {
                    let place = [frame.segment, Segment::Key("additionalProperties")];
                    self.report(&place, "must be true or false");
                }
            }
        }
    }

    fn check_keys(&mut self, segment: Segment<'a>, node: &'a Map<String, Value>) {
        for key in node.keys().filter(|key| !is_keyword(key)) {
            let problem = format!("is not a supported keyword (supported: {SUPPORTED})");
            self.report(&[segment, Segment::Key(key)], &problem);
        }
        for keyword in ANNOTATION_KEYWORDS {
            let Some(annotation) = node.get(keyword) else { continue };
            let is_text = matches!(keyword, "description" | "title");
            if is_text && !annotation.is_string() {
                self.report(&[segment, Segment::Key(keyword)], "must be a string");
            } else if !is_lossless(annotation) {
                self.report(&[segment, Segment::Key(keyword)], "must be a lossless JSON value");
            }
        }
    }

    fn check_required(&mut self, frame: &Frame<'a>, required: &'a Value) {
        let place = [frame.segment, Segment::Key("required")];
        let names =
            required.as_array().map(|names| names.iter().map(Value::as_str).collect::<Option<Vec<_>>>());
        let Some(Some(names)) = names else {
            return self.report(&place, "must be an array of strings");
        };
        let properties = frame.node.get("properties").and_then(Value::as_object);
        for name in names {
            if !properties.is_some_and(|properties| properties.contains_key(name)) {
                self.report(&place, &format!("names \"{name}\", which is not in \"properties\""));
            }
        }
    }

    fn check_literals(&mut self, segment: Segment<'a>, node: &'a Map<String, Value>, kind: Type) {
        let allowed = match node.get("enum") {
            Some(Value::Array(allowed))
                if !allowed.is_empty() && allowed.iter().all(|value| kind.matches(value)) =>
            {
                Some(allowed)
            }
            Some(_) => {
                let problem = format!("must be a non-empty array in which every member is {}", kind.noun());
                self.report(&[segment, Segment::Key("enum")], &problem);
                None
            }
            None => None,
        };
        let Some(constant) = node.get("const") else { return };
        if !kind.matches(constant) {
            self.report(&[segment, Segment::Key("const")], &format!("must be {}", kind.noun()));
        } else if allowed.is_some_and(|allowed| !allowed.iter().any(|value| same_scalar(value, constant))) {
            self.report(&[segment, Segment::Key("const")], "must be a member of \"enum\"");
        }
    }

    fn report_type(&mut self, segment: Segment<'a>) {
        self.report(&[segment, Segment::Key("type")], &format!("must be one of {TYPE_NAMES}"));
    }

    /// Records one violation at `tail`, seen from the innermost open node.
    fn report(&mut self, tail: &[Segment<'_>], problem: &str) {
        let segments = self.frames.iter().map(|frame| frame.segment).chain(tail.iter().copied());
        self.violations.push(format!("{} {problem}", render("schema", segments)));
    }
}

#[cfg(test)]
mod tests {
    use super::super::lossless::drop_value;
    use super::*;
    use serde_json::json;

    /// Collects what [`check_supported`] finds, without the tail that lists supported keywords.
    fn violations(schema: Value) -> Vec<String> {
        let found = check_supported(&schema).err().map(|error| error.violations).unwrap_or_default();
        found.into_iter().map(|text| text.replace(&format!(" (supported: {SUPPORTED})"), "")).collect()
    }

    fn check(cases: Vec<(Value, Vec<&str>)>) {
        for (schema, expected) in cases {
            let label = schema.to_string();
            assert_eq!(violations(schema), expected, "{label}");
        }
    }

    #[test]
    fn rule_1_a_node_must_be_an_object() {
        check(vec![
            (json!(true), vec!["schema must be a schema object"]),
            (json!([]), vec!["schema must be a schema object"]),
            (
                json!({"type": "object", "properties": {"a": null, "b": {"type": "string"}}}),
                vec!["schema.properties.a must be a schema object"],
            ),
            (json!({"type": "array", "items": [{}]}), vec!["schema.items must be a schema object"]),
            (json!({"oneOf": [{}, 1]}), vec!["schema.oneOf[1] must be a schema object"]),
        ]);
    }

    #[test]
    fn rule_2_unknown_keywords_and_bad_annotations_are_refused() {
        check(vec![
            (json!({"description": "d", "title": "t", "default": [1], "examples": {"a": 1}}), vec![]),
            (
                json!({"description": 1, "title": null}),
                vec!["schema.description must be a string", "schema.title must be a string"],
            ),
            (
                json!({"default": {"a": [-0.0]}, "examples": -0.0, "x": 1, "$ref": "#"}),
                vec![
                    "schema.x is not a supported keyword",
                    "schema.$ref is not a supported keyword",
                    "schema.default must be a lossless JSON value",
                    "schema.examples must be a lossless JSON value",
                ],
            ),
        ]);
        for keyword in ["anyOf", "allOf", "not", "pattern", "minimum", "maxLength", "$ref", "format"] {
            assert_eq!(
                violations(json!({"type": "string", keyword: 1})),
                [format!("schema.{keyword} is not a supported keyword")]
            );
        }
    }

    #[test]
    fn rule_2_an_unknown_keyword_is_told_the_whole_subset() {
        assert_eq!(
            check_supported(&json!({"$id": "x"})).unwrap_err().violations,
            ["schema.$id is not a supported keyword (supported: type, oneOf, properties, required, \
              additionalProperties, items, enum, const, description, title, default, examples)"]
        );
    }

    #[test]
    fn rule_3_type_and_one_of_exclude_each_other_and_stop_the_node() {
        let branches = json!([{"type": "wrong"}, {}]);
        check(vec![
            (
                json!({"type": "string", "oneOf": branches, "enum": []}),
                vec!["schema cannot declare both \"type\" and \"oneOf\""],
            ),
            (json!({}), vec![]),
            (
                json!({"items": {"type": "wrong"}}),
                vec!["schema.items needs a \"type\" or \"oneOf\" beside it"],
            ),
        ]);
    }

    #[test]
    fn rule_4_one_of_needs_two_branches_and_no_siblings() {
        check(vec![
            (json!({"oneOf": [{"type": "string"}, {"type": "null"}], "description": "d"}), vec![]),
            (json!({"oneOf": {}}), vec!["schema.oneOf must be an array of at least two schemas"]),
            (
                json!({"oneOf": [{"type": "wrong"}], "const": 1}),
                vec![
                    "schema.oneOf must be an array of at least two schemas",
                    "schema.const is not allowed beside \"oneOf\"",
                ],
            ),
            (
                json!({"items": {}, "properties": {}, "oneOf": [{"enum": [1]}, {"type": "array", "items": 1}]}),
                vec![
                    "schema.oneOf[0].enum needs a \"type\" or \"oneOf\" beside it",
                    "schema.oneOf[1].items must be a schema object",
                    "schema.properties is not allowed beside \"oneOf\"",
                    "schema.items is not allowed beside \"oneOf\"",
                ],
            ),
        ]);
    }

    #[test]
    fn rule_5_a_bad_type_stops_the_node() {
        let bad = "schema.type must be one of object, array, string, number, integer, boolean, null";
        check(vec![
            (json!({"type": "weird", "enum": [], "properties": 1}), vec![bad]),
            (json!({"type": null}), vec![bad]),
            (json!({"type": {}}), vec![bad]),
        ]);
        for name in ["object", "array", "string", "number", "integer", "boolean", "null"] {
            assert_eq!(violations(json!({"type": name})), Vec::<String>::new());
        }
    }

    #[test]
    fn rule_6_misplaced_keywords_are_refused() {
        check(vec![
            (
                json!({"type": "string", "properties": {}, "required": [], "additionalProperties": true, "items": {}}),
                vec![
                    "schema.properties is only allowed with type \"object\"",
                    "schema.required is only allowed with type \"object\"",
                    "schema.additionalProperties is only allowed with type \"object\"",
                    "schema.items is only allowed with type \"array\"",
                ],
            ),
            (
                json!({"type": "object", "items": {}, "enum": [], "const": 1}),
                vec![
                    "schema.items is only allowed with type \"array\"",
                    "schema.enum is only allowed with a scalar type",
                    "schema.const is only allowed with a scalar type",
                ],
            ),
            (
                json!({"type": "array", "required": [], "const": 1}),
                vec![
                    "schema.required is only allowed with type \"object\"",
                    "schema.const is only allowed with a scalar type",
                ],
            ),
        ]);
    }

    #[test]
    fn rule_7_object_details_are_checked_after_the_properties() {
        check(vec![
            (
                json!({"type": "object", "properties": []}),
                vec!["schema.properties must be an object that maps names to schemas"],
            ),
            (
                json!({
                    "type": "object", "required": ["a", "gone", "toString"], "additionalProperties": {},
                    "properties": {"b": {"type": "x"}, "a": {"items": {}}},
                }),
                vec![
                    "schema.properties.b.type must be one of object, array, string, number, integer, boolean, null",
                    "schema.properties.a.items needs a \"type\" or \"oneOf\" beside it",
                    "schema.required names \"gone\", which is not in \"properties\"",
                    "schema.required names \"toString\", which is not in \"properties\"",
                    "schema.additionalProperties must be true or false",
                ],
            ),
            (json!({"type": "object", "required": "a"}), vec!["schema.required must be an array of strings"]),
            (
                json!({"type": "object", "required": ["a", 1]}),
                vec!["schema.required must be an array of strings"],
            ),
            (
                json!({"type": "object", "required": ["a"]}),
                vec!["schema.required names \"a\", which is not in \"properties\""],
            ),
            (
                json!({"type": "object", "properties": {"__proto__": {}, "constructor": {}}, "required": ["__proto__"]}),
                vec![],
            ),
        ]);
    }

    #[test]
    fn rule_8_items_are_walked() {
        check(vec![
            (json!({"type": "array"}), vec![]),
            (
                json!({"type": "array", "items": {"type": "array", "items": {"enum": []}}}),
                vec!["schema.items.items.enum needs a \"type\" or \"oneOf\" beside it"],
            ),
        ]);
    }

    #[test]
    fn rule_9_literals_must_match_the_type() {
        check(vec![
            (json!({"type": "integer", "enum": [1, 2.0], "const": 2}), vec![]),
            (json!({"type": "null", "enum": [null], "const": null}), vec![]),
            (
                json!({"type": "string", "enum": []}),
                vec!["schema.enum must be a non-empty array in which every member is a string"],
            ),
            (
                json!({"type": "number", "enum": [1, -0.0], "const": -0.0}),
                vec![
                    "schema.enum must be a non-empty array in which every member is a number",
                    "schema.const must be a number",
                ],
            ),
            (json!({"type": "integer", "const": 1.5}), vec!["schema.const must be an integer"]),
            (
                json!({"type": "string", "enum": "a", "const": "b"}),
                vec!["schema.enum must be a non-empty array in which every member is a string"],
            ),
            (
                json!({"type": "string", "enum": ["a"], "const": "b"}),
                vec!["schema.const must be a member of \"enum\""],
            ),
        ]);
    }

    #[test]
    fn object_roots_are_asked_for_only_when_the_rest_is_fine() {
        let root = "schema must have type \"object\" at its root";
        let cases = [
            (json!({"type": "object"}), vec![]),
            (json!({"type": "string"}), vec![root]),
            (json!({}), vec![root]),
            (json!({"oneOf": [{"type": "object"}, {"type": "null"}]}), vec![root]),
            (
                json!({"type": "string", "items": {}}),
                vec!["schema.items is only allowed with type \"array\""],
            ),
        ];
        for (schema, expected) in cases {
            let found = check_object(&schema).err().map(|error| error.violations).unwrap_or_default();
            assert_eq!(found, expected, "{schema}");
        }
    }

    #[test]
    fn case_three_violations_in_one_tree() {
        check(vec![(
            json!({
                "type": "object", "pattern": "x",
                "properties": {"a": {"type": "weird"}, "b": {"type": "string", "minimum": 1}},
            }),
            vec![
                "schema.pattern is not a supported keyword",
                "schema.properties.a.type must be one of object, array, string, number, integer, boolean, null",
                "schema.properties.b.minimum is not a supported keyword",
            ],
        )]);
    }

    #[test]
    fn case_six_keywords_without_a_type() {
        check(vec![(
            json!({
                "properties": {}, "required": [], "additionalProperties": true, "items": {}, "enum": [], "const": null,
            }),
            vec![
                "schema.properties needs a \"type\" or \"oneOf\" beside it",
                "schema.required needs a \"type\" or \"oneOf\" beside it",
                "schema.additionalProperties needs a \"type\" or \"oneOf\" beside it",
                "schema.items needs a \"type\" or \"oneOf\" beside it",
                "schema.enum needs a \"type\" or \"oneOf\" beside it",
                "schema.const needs a \"type\" or \"oneOf\" beside it",
            ],
        )]);
    }

    #[test]
    fn case_required_name_without_property() {
        check(vec![(
            json!({"type": "object", "properties": {}, "required": ["missing"]}),
            vec!["schema.required names \"missing\", which is not in \"properties\""],
        )]);
    }

    #[test]
    fn case_type_arrays_single_branches_and_double_declarations() {
        check(vec![
            (
                json!({"type": ["string", "null"]}),
                vec![
                    "schema.type must be one type name, not an array of types; use \"oneOf\" for alternatives",
                ],
            ),
            (json!({"oneOf": [{}]}), vec!["schema.oneOf must be an array of at least two schemas"]),
            (
                json!({"type": "string", "oneOf": [{"type": "string"}, {"type": "null"}]}),
                vec!["schema cannot declare both \"type\" and \"oneOf\""],
            ),
        ]);
    }

    #[test]
    fn case_five_thousand_levels_are_accepted_and_a_fault_at_the_bottom_is_found() {
        let wrap = |core: Value| {
            (0..5_000).fold(core, |inner, _| {
                let mut node = Map::new();
                node.insert("oneOf".to_owned(), Value::Array(vec![inner, json!({"type": "null"})]));
                Value::Object(node)
            })
        };
        let good = wrap(json!({"type": "string"}));
        assert_eq!(check_supported(&good), Ok(()));
        drop_value(good);
        let bad = wrap(json!({"type": "string", "const": 1}));
        let expected = format!("schema{}.const must be a string", ".oneOf[0]".repeat(5_000));
        assert_eq!(check_supported(&bad).unwrap_err().violations, [expected]);
        drop_value(bad);
    }
}
