//! The JSON Schema subset tools are declared in: accept a schema, check a value, print it as TypeScript.
//!
//! Called by whoever registers a tool, runs one, or lets a model ask for structured output. Schemas and values are
//! plain [`serde_json::Value`]s. Nothing here recurses on the native stack, coerces a value, applies a `default`, or
//! knows a keyword outside the subset: an unknown keyword is refused, never ignored.
//!
//! Reading order:
//!
//! * [`lossless`]: which values survive a JSON round trip, and how to copy and drop deep ones.
//! * `node`: the keywords, the type names, how scalars compare.
//! * `path`: how a place inside a schema or a value is written in a message.
//! * [`check`]: is this schema inside the subset?
//! * [`validate`](mod@validate): does this value fit that schema?
//! * [`spec`]: the shorter notation authors write, and its translation to a schema.
//! * [`builder`]: the same notation as Rust calls.
//! * [`typescript`]: a schema as a TypeScript type, for models that write code.

pub mod builder;
pub mod check;
pub mod lossless;
mod node;
mod path;
#[cfg(test)]
mod property_tests;
pub mod spec;
pub mod typescript;
pub mod validate;

pub use builder::{Parameters, Spec};
pub use check::{check_object, check_supported};
pub use lossless::is_lossless;
pub use spec::{compile_parameters, compile_value};
pub use typescript::to_typescript;
pub use validate::validate;

use crate::tool::ToolFailure;

/// A schema is outside the subset, or its author's notation is malformed.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("unsupported JSON Schema: {}", violations.join("; "))]
pub struct SchemaError {
    /// What is wrong, one sentence a place, in walk order; never empty.
    pub violations: Vec<String>,
}

impl SchemaError {
    /// Class name, as it stands in the failure of a call.
    pub const NAME: &str = "JsonSchemaError";
    /// Code, as it stands in the failure of a call.
    pub const CODE: &str = "UNSUPPORTED_SCHEMA";

    /// An error with one violation.
    pub(crate) fn one(violation: String) -> Self {
        Self { violations: vec![violation] }
    }
}

impl From<SchemaError> for ToolFailure {
    fn from(error: SchemaError) -> Self {
        Self::coded(SchemaError::NAME, SchemaError::CODE, error.to_string())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_schema_error_becomes_a_coded_failure_with_all_violations() {
        let error = SchemaError { violations: vec!["schema.a is bad".into(), "schema.b is bad".into()] };
        assert_eq!(
            ToolFailure::from(error),
            ToolFailure::coded(
                "JsonSchemaError",
                "UNSUPPORTED_SCHEMA",
                "unsupported JSON Schema: schema.a is bad; schema.b is bad"
            )
        );
    }
}
