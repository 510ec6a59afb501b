//! Checks values against schemas of servers: in the subset by our own checker, else by a general one.
//!
//! The general one is compiled on first use and kept. A schema that nothing understands checks nothing: the server judges
//! its own arguments.

use jsonschema::Validator;
use protocol::schema;
use serde_json::Value;
use std::sync::OnceLock;

/// Most violations that are named.
const MAX_VIOLATIONS: usize = 8;

/// A schema and what checks it.
pub struct Check {
    schema: Value,
    checker: OnceLock<Checker>,
}

enum Checker {
    Subset,
    General(Box<Validator>),
    Nothing,
}

impl Check {
    /// Compiles nothing yet.
    pub fn new(schema: Value) -> Self {
        Self { schema, checker: OnceLock::new() }
    }

    /// Everything that does not fit, with its place; empty when the value fits.
    pub fn violations(&self, value: &Value) -> Vec<String> {
        match self.checker.get_or_init(|| compile(&self.schema)) {
            Checker::Subset => schema::validate(&self.schema, value, ""),
            Checker::General(validator) => validator
                .iter_errors(value)
                .take(MAX_VIOLATIONS)
                .map(|error| match error.instance_path().as_str() {
                    "" => error.to_string(),
                    path => format!("{path}: {error}"),
                })
                .collect(),
            Checker::Nothing => Vec::new(),
        }
    }
}

fn compile(schema: &Value) -> Checker {
    if schema::check_supported(schema).is_ok() {
        return Checker::Subset;
    }
    match jsonschema::validator_for(schema) {
        Ok(validator) => Checker::General(Box::new(validator)),
        Err(error) => {
            tracing::warn!(%error, "a schema of an MCP server cannot be read; its values are not checked");
            Checker::Nothing
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn each_kind_of_schema_is_checked_by_who_understands_it() {
        let inside =
            json!({ "type": "object", "properties": { "n": { "type": "integer" } }, "required": ["n"] });
        let outside = json!({ "type": "object", "properties": { "n": { "type": "integer", "minimum": 3 } } });
        let nonsense = json!({ "type": "object", "properties": { "n": { "type": "whole" } } });
        let cases = [
            (inside.clone(), json!({ "n": 1 }), true),
            (inside, json!({}), false),
            (outside.clone(), json!({ "n": 3 }), true),
            (outside, json!({ "n": 2 }), false),
            (nonsense, json!({ "n": 2 }), true),
        ];
        for (schema, value, fits) in cases {
            let violations = Check::new(schema.clone()).violations(&value);
            assert_eq!(violations.is_empty(), fits, "{schema} {value}: {violations:?}");
        }
    }

    #[test]
    fn a_violation_of_a_general_schema_names_its_place() {
        let schema = json!({ "type": "object", "properties": { "n": { "type": "integer", "minimum": 3 } } });
        let violations = Check::new(schema).violations(&json!({ "n": 2 }));
        assert_eq!(violations, ["/n: 2 is less than the minimum of 3"]);
    }

    #[test]
    fn a_remote_reference_is_never_fetched() {
        let schema = json!({ "$ref": "http://127.0.0.1:9/schema.json" });
        assert_eq!(Check::new(schema).violations(&json!({})), [""; 0]);
    }
}
