//! Schemas that a derive cannot say.

use schemars::{Schema, SchemaGenerator, json_schema};

/// A text or an explicit null.
pub fn nullable_string(_generator: &mut SchemaGenerator) -> Schema {
    json_schema!({ "oneOf": [{ "type": "string" }, { "type": "null" }] })
}

/// An integer or an explicit null.
pub fn nullable_integer(_generator: &mut SchemaGenerator) -> Schema {
    json_schema!({ "oneOf": [{ "type": "integer" }, { "type": "null" }] })
}
