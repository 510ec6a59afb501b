//! The notation authors write, and its translation to a schema of the subset.
//!
//! A *value spec* is a JSON object with a `type` (`string number integer boolean null array object json`) or a
//! `oneOf`. It differs from a schema in three ways: an object must say `additionalProperties: true` or `false`; a
//! property says `required: true` itself; and `json` stands for any value. A *parameter map* is the property map of
//! an object that stays open. Called where tools are defined; models never see the notation.

use super::SchemaError;
use super::check::check_supported;
use super::lossless::{clone_value, drop_value};
use super::node::{ANNOTATION_KEYWORDS, Type};
use super::path::{Segment, render};
use serde_json::{Map, Value, map};

/// Translates a value spec.
///
/// # Errors
///
/// The first mistake in the notation, its place beginning with `schema`; or, when the notation is well formed, all
/// violations of [`check_supported`].
pub fn compile_value(spec: &Value) -> Result<Value, SchemaError> {
    let mut compiler = Compiler { base: "schema", frames: Vec::new() };
    let opened = compiler.open(Segment::Here, spec);
    compiler.finish(opened)
}

/// Translates a parameter map to an object schema without `additionalProperties`.
///
/// # Errors
///
/// As [`compile_value`]; places in the notation begin with `parameters`, as in `parameters.file_path`.
pub fn compile_parameters(parameters: &Value) -> Result<Value, SchemaError> {
    let mut compiler = Compiler { base: "parameters", frames: Vec::new() };
    let opened = compiler.open_map(parameters);
    compiler.finish(opened)
}

/// A node being translated.
struct Frame<'a> {
    segment: Segment<'a>,
    /// Whether the entry is a required property of the frame below.
    required: bool,
    /// The schema so far.
    node: Map<String, Value>,
    children: Children<'a>,
}

/// The children of a node: those to come, and those translated.
enum Children<'a> {
    None,
    Properties { is_root_map: bool, entries: map::Iter<'a>, done: Map<String, Value>, required: Vec<Value> },
    Items(Option<&'a Value>),
    Branches { branches: std::iter::Enumerate<std::slice::Iter<'a, Value>>, done: Vec<Value> },
}

/// The state of one translation: an explicit stack instead of recursion.
struct Compiler<'a> {
    base: &'static str,
    frames: Vec<Frame<'a>>,
}

impl<'a> Compiler<'a> {
    /// Runs to the end and checks the result against the subset.
    fn finish(mut self, opened: Result<(), SchemaError>) -> Result<Value, SchemaError> {
        let schema = match opened.and_then(|()| self.run()) {
            Ok(schema) => schema,
            Err(error) => {
                // Half-made nodes can be as deep as the spec, so they must not be dropped by recursion either.
                for frame in self.frames {
                    drop_value(Value::Object(close(frame.node, frame.children)));
                }
                return Err(error);
            }
        };
        match check_supported(&schema) {
            Ok(()) => Ok(schema),
            Err(error) => {
                drop_value(schema);
                Err(error)
            }
        }
    }

    fn run(&mut self) -> Result<Value, SchemaError> {
        loop {
            let child = match self.frames.last_mut().map(|frame| &mut frame.children) {
                Some(Children::Properties { is_root_map, entries, .. }) => {
                    entries.next().map(|(key, spec)| {
                        let key = key.as_str();
                        (if *is_root_map { Segment::Key(key) } else { Segment::Property(key) }, spec)
                    })
                }
                Some(Children::Items(items)) => items.take().map(|spec| (Segment::Items, spec)),
                Some(Children::Branches { branches, .. }) => {
                    branches.next().map(|(branch_idx, spec)| (Segment::Branch(branch_idx), spec))
                }
                Some(Children::None) | None => None,
            };
            if let Some((segment, spec)) = child {
                self.open(segment, spec)?;
                continue;
            }
            let Some(Frame { segment, required, node, children }) = self.frames.pop() else {
                return Ok(Value::Object(Map::new()));
            };
            let schema = Value::Object(close(node, children));
            let Some(parent) = self.frames.last_mut() else { return Ok(schema) };
            parent.attach(segment, required, schema);
        }
    }

    /// Opens the root of a parameter map.
    fn open_map(&mut self, parameters: &'a Value) -> Result<(), SchemaError> {
        let Value::Object(entries) = parameters else {
            return Err(self.error(&[], "must be an object that maps parameter names to specs"));
        };
        let mut node = Map::new();
        node.insert("type".to_owned(), "object".into());
        let children = properties(entries, true);
        self.frames.push(Frame { segment: Segment::Here, required: false, node, children });
        Ok(())
    }

    /// Checks one spec and opens the node for it.
    fn open(&mut self, segment: Segment<'a>, spec: &'a Value) -> Result<(), SchemaError> {
        let Value::Object(spec) = spec else {
            return Err(self.error(&[segment], "must be a spec object"));
        };
        let kind = self.kind(segment, spec)?;
        let is_entry = matches!(segment, Segment::Property(_) | Segment::Key(_));
        for key in spec.keys() {
            let allowed = ANNOTATION_KEYWORDS.contains(&key.as_str())
                || kind.keys().contains(&key.as_str())
                || (is_entry && key == "required");
            if !allowed {
                let problem = format!("is not allowed in {}", kind.label());
                return Err(self.error(&[segment, Segment::Key(key)], &problem));
            }
        }
        let required = spec.get("required");
        if required.is_some_and(|required| required != &Value::Bool(true)) {
            let problem = "must be true; leave it out when the property is optional";
            return Err(self.error(&[segment, Segment::Key("required")], problem));
        }
        let mut node = Map::new();
        if let Kind::Typed(_) = kind
            && let Some(name) = spec.get("type")
        {
            node.insert("type".to_owned(), name.clone());
        }
        let children = match self.details(segment, spec, kind, &mut node) {
            Ok(children) => children,
            Err(error) => {
                drop_value(Value::Object(node));
                return Err(error);
            }
        };
        self.frames.push(Frame { segment, required: required.is_some(), node, children });
        Ok(())
    }

    fn kind(&self, segment: Segment<'a>, spec: &Map<String, Value>) -> Result<Kind, SchemaError> {
        match (spec.get("type"), spec.get("oneOf")) {
            (Some(_), Some(_)) => Err(self.error(&[segment], "cannot declare both \"type\" and \"oneOf\"")),
            (None, None) => Err(self.error(&[segment], "must declare a \"type\" or \"oneOf\"")),
            (None, Some(_)) => Ok(Kind::OneOf),
            (Some(name), None) => match name.as_str() {
                Some("json") => Some(Kind::Json),
                name => name.and_then(Type::parse).map(Kind::Typed),
            }
            .ok_or_else(|| {
                let problem = "must be one of string, number, integer, boolean, null, array, object, json";
                self.error(&[segment, Segment::Key("type")], problem)
            }),
        }
    }

    /// Copies annotations and own constraints to `node` and finds the children.
    fn details(
        &self,
        segment: Segment<'a>,
        spec: &'a Map<String, Value>,
        kind: Kind,
        node: &mut Map<String, Value>,
    ) -> Result<Children<'a>, SchemaError> {
        let mut copy = |keyword: &str| {
            if let Some(value) = spec.get(keyword) {
                node.insert(keyword.to_owned(), clone_value(value));
            }
        };
        ANNOTATION_KEYWORDS.into_iter().for_each(&mut copy);
        Ok(match kind {
            Kind::Json => Children::None,
            Kind::OneOf => match spec.get("oneOf") {
                Some(Value::Array(branches)) => {
                    Children::Branches { branches: branches.iter().enumerate(), done: Vec::new() }
                }
                _ => return Err(self.error(&[segment, Segment::Key("oneOf")], "must be an array of specs")),
            },
            Kind::Typed(Type::Array) => Children::Items(spec.get("items")),
            Kind::Typed(Type::Object) => {
                if !spec.get("additionalProperties").is_some_and(Value::is_boolean) {
                    let place = [segment, Segment::Key("additionalProperties")];
                    return Err(self.error(&place, "must be declared as true or false"));
                }
                copy("additionalProperties");
                match spec.get("properties") {
                    Some(Value::Object(entries)) => properties(entries, false),
                    Some(_) => {
                        let problem = "must be an object that maps property names to specs";
                        return Err(self.error(&[segment, Segment::Key("properties")], problem));
                    }
                    None => Children::None,
                }
            }
            Kind::Typed(_) => {
                if spec.get("enum").is_some_and(|allowed| !allowed.is_array()) {
                    return Err(self.error(&[segment, Segment::Key("enum")], "must be an array"));
                }
                copy("enum");
                copy("const");
                Children::None
            }
        })
    }

    /// A mistake at `tail`, seen from the innermost open node.
    fn error(&self, tail: &[Segment<'_>], problem: &str) -> SchemaError {
        let segments = self.frames.iter().map(|frame| frame.segment).chain(tail.iter().copied());
        SchemaError::one(format!("{} {problem}", render(self.base, segments)))
    }
}

impl Frame<'_> {
    /// Takes over a translated child.
    fn attach(&mut self, segment: Segment<'_>, is_required: bool, schema: Value) {
        match (&mut self.children, segment) {
            (Children::Properties { done, required, .. }, Segment::Property(key) | Segment::Key(key)) => {
                done.insert(key.to_owned(), schema);
                if is_required {
                    required.push(key.into());
                }
            }
            (Children::Branches { done, .. }, _) => done.push(schema),
            (_, _) => {
                self.node.insert("items".to_owned(), schema);
            }
        }
    }
}

/// Adds the translated children to their node.
fn close(mut node: Map<String, Value>, children: Children<'_>) -> Map<String, Value> {
    match children {
        Children::None | Children::Items(_) => {}
        Children::Branches { done, .. } => {
            node.insert("oneOf".to_owned(), Value::Array(done));
        }
        Children::Properties { done, required, .. } => {
            node.insert("properties".to_owned(), Value::Object(done));
            if !required.is_empty() {
                node.insert("required".to_owned(), Value::Array(required));
            }
        }
    }
    node
}

fn properties(entries: &Map<String, Value>, is_root_map: bool) -> Children<'_> {
    Children::Properties { is_root_map, entries: entries.iter(), done: Map::new(), required: Vec::new() }
}

/// The kind of a spec node.
#[derive(Clone, Copy)]
enum Kind {
    Typed(Type),
    Json,
    OneOf,
}

impl Kind {
    /// The keys of this kind besides annotations.
    fn keys(self) -> &'static [&'static str] {
        match self {
            Self::Json => &["type"],
            Self::OneOf => &["oneOf"],
            Self::Typed(Type::Array) => &["type", "items"],
            Self::Typed(Type::Object) => &["type", "additionalProperties", "properties"],
            Self::Typed(_) => &["type", "enum", "const"],
        }
    }

    fn label(self) -> &'static str {
        match self {
            Self::Json => "a json spec",
            Self::OneOf => "a oneOf spec",
            Self::Typed(Type::Array) => "an array spec",
            Self::Typed(Type::Object) => "an object spec",
            Self::Typed(_) => "a scalar spec",
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn compiles(spec: Value, schema: Value) {
        // Compared as text, so that the order of keys counts.
        assert_eq!(compile_value(&spec).map(|schema| schema.to_string()), Ok(schema.to_string()), "{spec}");
    }

    fn refused(cases: Vec<(Value, &str)>) {
        for (spec, violation) in cases {
            assert_eq!(compile_value(&spec), Err(SchemaError::one(violation.to_owned())), "{spec}");
        }
    }

    #[test]
    fn row_scalars_keep_type_and_constraints() {
        for name in ["string", "number", "integer", "boolean", "null"] {
            compiles(json!({"type": name}), json!({"type": name}));
        }
        compiles(
            json!({"enum": ["a", "b"], "const": "a", "type": "string"}),
            json!({"type": "string", "enum": ["a", "b"], "const": "a"}),
        );
    }

    #[test]
    fn row_arrays_keep_their_items_if_given() {
        compiles(json!({"type": "array"}), json!({"type": "array"}));
        compiles(
            json!({"type": "array", "items": {"type": "json"}, "description": "d"}),
            json!({"type": "array", "description": "d", "items": {}}),
        );
    }

    #[test]
    fn row_objects_gather_required_in_declaration_order() {
        compiles(
            json!({
                "type": "object",
                "properties": {
                    "z": {"type": "string", "required": true},
                    "m": {"type": "null"},
                    "a": {"oneOf": [{"type": "null"}, {"type": "json"}], "required": true},
                },
                "additionalProperties": false,
            }),
            json!({
                "type": "object",
                "additionalProperties": false,
                "properties": {
                    "z": {"type": "string"},
                    "m": {"type": "null"},
                    "a": {"oneOf": [{"type": "null"}, {}]},
                },
                "required": ["z", "a"],
            }),
        );
        compiles(
            json!({"type": "object", "additionalProperties": true, "properties": {}}),
            json!({"type": "object", "additionalProperties": true, "properties": {}}),
        );
        compiles(
            json!({"type": "object", "additionalProperties": true}),
            json!({"type": "object", "additionalProperties": true}),
        );
    }

    #[test]
    fn row_json_is_an_annotation_only_node() {
        compiles(json!({"type": "json"}), json!({}));
        compiles(json!({"type": "json", "title": "t"}), json!({"title": "t"}));
    }

    #[test]
    fn row_one_of_keeps_its_branches() {
        compiles(
            json!({"oneOf": [{"type": "string"}, {"type": "array"}], "description": "d"}),
            json!({"description": "d", "oneOf": [{"type": "string"}, {"type": "array"}]}),
        );
    }

    #[test]
    fn annotations_are_copied_and_never_applied() {
        compiles(
            json!({"type": "integer", "examples": [1, "x"], "default": {"a": null}, "title": "t", "description": "d"}),
            json!({"type": "integer", "description": "d", "title": "t", "default": {"a": null}, "examples": [1, "x"]}),
        );
    }

    #[test]
    fn author_errors_are_raised_one_at_a_time() {
        refused(vec![
            (json!("string"), "schema must be a spec object"),
            (json!({"type": "array", "items": [1]}), "schema.items must be a spec object"),
            (json!({}), "schema must declare a \"type\" or \"oneOf\""),
            (
                json!({"type": "text", "minimum": 1}),
                "schema.type must be one of string, number, integer, boolean, null, array, object, json",
            ),
            (
                json!({"type": ["string"]}),
                "schema.type must be one of string, number, integer, boolean, null, array, object, json",
            ),
            (json!({"type": "string", "oneOf": []}), "schema cannot declare both \"type\" and \"oneOf\""),
            (json!({"type": "string", "items": {}, "x": 1}), "schema.items is not allowed in a scalar spec"),
            (json!({"type": "array", "enum": []}), "schema.enum is not allowed in an array spec"),
            (json!({"type": "json", "const": 1}), "schema.const is not allowed in a json spec"),
            (json!({"oneOf": [], "properties": {}}), "schema.properties is not allowed in a oneOf spec"),
            (json!({"oneOf": {}}), "schema.oneOf must be an array of specs"),
            (
                json!({"type": "object", "additionalProperties": true, "required": ["a"]}),
                "schema.required is not allowed in an object spec",
            ),
            (json!({"type": "object"}), "schema.additionalProperties must be declared as true or false"),
            (
                json!({"type": "object", "additionalProperties": {}}),
                "schema.additionalProperties must be declared as true or false",
            ),
            (
                json!({"type": "object", "additionalProperties": true, "properties": []}),
                "schema.properties must be an object that maps property names to specs",
            ),
            (json!({"type": "string", "enum": "a"}), "schema.enum must be an array"),
            (
                json!({"oneOf": [{"type": "null"}, {"type": "object", "additionalProperties": false, "properties": {
                    "a": {"type": "array", "items": {"type": "x"}},
                }}]}),
                "schema.oneOf[1].properties.a.items.type must be one of \
                 string, number, integer, boolean, null, array, object, json",
            ),
        ]);
    }

    #[test]
    fn required_is_legal_on_property_entries_only_and_only_as_true() {
        refused(vec![
            (json!({"type": "string", "required": true}), "schema.required is not allowed in a scalar spec"),
            (
                json!({"type": "array", "items": {"type": "string", "required": true}}),
                "schema.items.required is not allowed in a scalar spec",
            ),
            (
                json!({"oneOf": [{"type": "json", "required": true}, {"type": "json"}]}),
                "schema.oneOf[0].required is not allowed in a json spec",
            ),
        ]);
        for required in [json!(false), json!(null), json!("true")] {
            assert_eq!(
                compile_parameters(&json!({"a": {"type": "string", "required": required}})),
                Err(SchemaError::one(
                    "parameters.a.required must be true; leave it out when the property is optional"
                        .to_owned()
                ))
            );
        }
    }

    #[test]
    fn the_raw_checks_run_after_compiling() {
        refused(vec![
            (
                json!({"type": "string", "enum": [1]}),
                "schema.enum must be a non-empty array in which every member is a string",
            ),
            (
                json!({"type": "string", "enum": []}),
                "schema.enum must be a non-empty array in which every member is a string",
            ),
            (json!({"type": "integer", "const": "1"}), "schema.const must be an integer"),
            (
                json!({"type": "integer", "enum": [1], "const": 2}),
                "schema.const must be a member of \"enum\"",
            ),
            (json!({"oneOf": [{"type": "json"}]}), "schema.oneOf must be an array of at least two schemas"),
            (json!({"type": "json", "default": -0.0}), "schema.default must be a lossless JSON value"),
            (json!({"type": "json", "description": 1}), "schema.description must be a string"),
        ]);
    }

    #[test]
    fn a_parameter_map_is_an_implicit_open_object() {
        let cases = [
            (json!({}), json!({"type": "object", "properties": {}})),
            (
                json!({"b": {"type": "string", "required": true}, "a": {"type": "json"}}),
                json!({
                    "type": "object", "properties": {"b": {"type": "string"}, "a": {}}, "required": ["b"],
                }),
            ),
        ];
        for (parameters, schema) in cases {
            let compiled = compile_parameters(&parameters).map(|schema| schema.to_string());
            assert_eq!(compiled, Ok(schema.to_string()));
        }
    }

    #[test]
    fn places_in_a_parameter_map_begin_with_parameters() {
        let inner =
            json!({"type": "object", "additionalProperties": true, "properties": {"b": {"type": "x"}}});
        let kinds = "must be one of string, number, integer, boolean, null, array, object, json";
        let cases = [
            (json!([]), "parameters must be an object that maps parameter names to specs".to_owned()),
            (json!({"a": 1}), "parameters.a must be a spec object".to_owned()),
            (json!({"a": inner}), format!("parameters.a.properties.b.type {kinds}")),
            (
                json!({"a": {"type": "array", "items": inner}}),
                format!("parameters.a.items.properties.b.type {kinds}"),
            ),
        ];
        for (parameters, violation) in cases {
            assert_eq!(compile_parameters(&parameters), Err(SchemaError::one(violation)));
        }
    }

    #[test]
    fn a_property_may_have_any_name() {
        let names = ["__proto__", "toString", "constructor", "type", "required", "oneOf", ""];
        let entry = |required: bool| {
            let entry =
                if required { json!({"type": "null", "required": true}) } else { json!({"type": "null"}) };
            Value::Object(names.iter().map(|name| ((*name).to_owned(), entry.clone())).collect())
        };
        assert_eq!(
            compile_parameters(&entry(true)),
            Ok(json!({"type": "object", "properties": entry(false), "required": names}))
        );
    }

    #[test]
    fn case_five_thousand_levels_compile_or_fail_without_overflow() {
        let wrap = |core: Value| {
            (0..5_000).fold(core, |inner, _| {
                let branches = vec![inner, json!({"type": "null"})];
                Value::Object(Map::from_iter([("oneOf".to_owned(), Value::Array(branches))]))
            })
        };
        let good = wrap(json!({"type": "string"}));
        let schema = compile_value(&good).unwrap();
        let (malformed, wrong) = (wrap(json!({"type": "x"})), wrap(json!({"type": "null", "const": 1})));
        let place = format!("schema{}", ".oneOf[0]".repeat(5_000));
        let error = compile_value(&malformed).unwrap_err();
        assert!(error.violations[0].starts_with(&format!("{place}.type must be one of")));
        assert_eq!(compile_value(&wrong).unwrap_err().violations, [format!("{place}.const must be null")]);
        let deep_default = (0..5_000).fold(json!(1), |inner, _| Value::Array(vec![inner]));
        let annotated = Value::Object(Map::from_iter([
            ("type".to_owned(), json!("string")),
            ("default".to_owned(), deep_default),
            ("enum".to_owned(), json!("not an array")),
        ]));
        assert_eq!(compile_value(&annotated).unwrap_err().violations, ["schema.enum must be an array"]);
        for value in [good, schema, malformed, wrong, annotated] {
            drop_value(value);
        }
    }
}
