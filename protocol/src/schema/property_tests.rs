//! Properties that hold for generated schemas and values, among them agreement with a plain recursive validator.

use super::node::same_scalar;
use super::*;
use proptest::prelude::*;
use serde_json::{Value, json};

/// Any JSON, negative zero included, with few distinct keys so that they meet those of schemas.
fn any_json() -> impl Strategy<Value = Value> {
    let scalar = prop_oneof![
        Just(json!(null)),
        any::<bool>().prop_map(Value::from),
        (-2i64..3).prop_map(Value::from),
        prop::sample::select(vec![0.0, -0.0, 1.0, 0.5, 1e300]).prop_map(Value::from),
        "[ab]{0,2}".prop_map(Value::from),
    ];
    scalar.prop_recursive(4, 24, 4, |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..4).prop_map(Value::from),
            prop::collection::vec((key(), inner), 0..4)
                .prop_map(|entries| Value::Object(entries.into_iter().collect())),
        ]
    })
}

fn key() -> impl Strategy<Value = String> {
    prop::sample::select(vec!["a", "b", "c", "toString", "a-b"]).prop_map(str::to_owned)
}

/// A well-formed value spec, with properties that may be required.
fn any_spec() -> impl Strategy<Value = Value> {
    let leaf = prop_oneof![
        prop::sample::select(vec!["string", "number", "integer", "boolean", "null", "json", "array"])
            .prop_map(|name| json!({"type": name})),
        Just(json!({"type": "string", "enum": ["a", "b"]})),
        Just(json!({"type": "integer", "enum": [0, 1.0], "const": 1, "description": "one"})),
        Just(json!({"type": "boolean", "const": true})),
    ];
    leaf.prop_recursive(4, 24, 4, |inner| {
        prop_oneof![
            inner.clone().prop_map(|items| json!({"type": "array", "items": items})),
            prop::collection::vec(inner.clone(), 2..4).prop_map(|branches| json!({"oneOf": branches})),
            (prop::collection::vec((key(), inner, any::<bool>()), 0..4), any::<bool>()).prop_map(
                |(entries, open)| {
                    let mut properties = serde_json::Map::new();
                    for (key, mut spec, required) in entries {
                        if required {
                            spec["required"] = json!(true);
                        }
                        properties.insert(key, spec);
                    }
                    json!({"type": "object", "additionalProperties": open, "properties": properties})
                }
            ),
        ]
    })
}

/// Something like a schema, often outside the subset.
fn any_near_schema() -> impl Strategy<Value = Value> {
    let leaf = prop_oneof![
        any_json(),
        prop::sample::select(vec!["string", "number", "integer", "object", "array", "odd"])
            .prop_map(|name| json!({"type": name})),
    ];
    leaf.prop_recursive(4, 24, 4, |inner| {
        let keyword = prop::sample::select(vec![
            "type",
            "oneOf",
            "properties",
            "required",
            "additionalProperties",
            "items",
            "enum",
            "const",
            "default",
            "x",
        ]);
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..3).prop_map(|branches| json!({"oneOf": branches})),
            inner.clone().prop_map(|items| json!({"type": "array", "items": items})),
            (key(), inner.clone())
                .prop_map(|(key, schema)| json!({"type": "object", "properties": {key: schema}})),
            prop::collection::vec((keyword, inner), 0..4).prop_map(|entries| Value::Object(
                entries.into_iter().map(|(keyword, value)| (keyword.to_owned(), value)).collect()
            )),
        ]
    })
}

/// The meaning of an accepted schema, written by plain recursion.
fn fits(schema: &Value, value: &Value) -> bool {
    if let Some(branches) = schema.get("oneOf") {
        return branches.as_array().unwrap().iter().filter(|branch| fits(branch, value)).count() == 1;
    }
    let literal_fits = || {
        schema
            .get("enum")
            .is_none_or(|allowed| allowed.as_array().unwrap().iter().any(|one| same_scalar(one, value)))
            && schema.get("const").is_none_or(|one| same_scalar(one, value))
    };
    match schema.get("type").map(|name| name.as_str().unwrap()) {
        None => is_lossless(value),
        Some("string") => value.is_string() && literal_fits(),
        Some("boolean") => value.is_boolean() && literal_fits(),
        Some("null") => value.is_null() && literal_fits(),
        Some("number") => value.is_number() && is_lossless(value) && literal_fits(),
        Some("integer") => {
            value.as_f64().is_some_and(|float| float.fract() == 0.0) && is_lossless(value) && literal_fits()
        }
        Some("array") => value.as_array().is_some_and(|elements| {
            elements
                .iter()
                .all(|element| schema.get("items").map_or(is_lossless(element), |items| fits(items, element)))
        }),
        Some("object") => value.as_object().is_some_and(|entries| {
            let property = |key: &str| schema.get("properties").and_then(|properties| properties.get(key));
            let required = schema.get("required").and_then(Value::as_array).cloned().unwrap_or_default();
            required.iter().all(|name| entries.contains_key(name.as_str().unwrap()))
                && entries.iter().all(|(key, child)| match property(key) {
                    Some(schema) => fits(schema, child),
                    None => schema["additionalProperties"] != json!(false) && is_lossless(child),
                })
        }),
        Some(other) => panic!("{other} was accepted as a type"),
    }
}

proptest! {
    #[test]
    fn a_well_formed_spec_compiles_to_a_supported_schema(spec in any_spec()) {
        let schema = compile_value(&spec).unwrap();
        prop_assert_eq!(check_supported(&schema), Ok(()));
        prop_assert!(!to_typescript(&schema).contains("unknown"));
    }

    #[test]
    fn validation_agrees_with_plain_recursion(spec in any_spec(), value in any_json()) {
        let schema = compile_value(&spec).unwrap();
        let violations = validate(&schema, &value, "value");
        prop_assert_eq!(violations.is_empty(), fits(&schema, &value), "{} <- {}: {:?}", schema, value, violations);
        prop_assert!(violations.iter().all(|violation| violation.contains("\"value")));
    }

    /// An established validator knows no lossless JSON and compares numbers as numbers: it speaks where values are lossless.
    #[test]
    fn validation_agrees_with_an_established_validator(spec in any_spec(), value in any_json()) {
        let schema = compile_value(&spec).unwrap();
        if is_lossless(&value) {
            let theirs = jsonschema::draft202012::is_valid(&schema, &value);
            let ours = validate(&schema, &value, "value");
            prop_assert_eq!(ours.is_empty(), theirs, "{} <- {}: {:?}", schema, value, ours);
        }
    }

    #[test]
    fn what_fits_is_lossless(schema in any_near_schema(), value in any_json()) {
        if validate(&schema, &value, "").is_empty() {
            prop_assert!(is_lossless(&value));
        }
    }

    #[test]
    fn an_accepted_schema_is_never_unsupported_while_validating(schema in any_near_schema(), value in any_json()) {
        if check_supported(&schema).is_ok() {
            let violations = validate(&schema, &value, "");
            prop_assert_eq!(violations.is_empty(), fits(&schema, &value), "{} <- {}: {:?}", schema, value, violations);
        }
    }

    #[test]
    fn arbitrary_json_is_refused_or_printed_but_never_a_panic(anything in any_near_schema()) {
        let _ = (compile_value(&anything), compile_parameters(&anything), check_object(&anything));
        prop_assert_eq!(to_typescript(&anything), to_typescript(&anything.clone()));
    }

    #[test]
    fn a_copy_is_equal_and_lossless_text_reads_back(value in any_json()) {
        let copy = lossless::clone_value(&value);
        prop_assert_eq!(copy.to_string(), value.to_string());
        if is_lossless(&value) {
            prop_assert_eq!(serde_json::from_str::<Value>(&value.to_string()).unwrap(), value);
        }
    }
}
