//! The author notation of [`super::spec`] as Rust calls, for tools that are written here.
//!
//! It only builds the notation; mistakes (a `const` of the wrong type, a single branch) surface when it is compiled.

use super::SchemaError;
use super::spec::{compile_parameters, compile_value};
use serde_json::{Map, Value};

/// One value spec under construction.
///
/// ```
/// use protocol::schema::Spec;
/// use serde_json::json;
///
/// let schema = Spec::closed()
///     .required("status", Spec::string().allowed(["open", "done"]))
///     .optional("tags", Spec::array(Spec::string()))
///     .compile();
/// assert_eq!(
///     schema,
///     Ok(json!({
///         "type": "object",
///         "additionalProperties": false,
///         "properties": {
///             "status": {"type": "string", "enum": ["open", "done"]},
///             "tags": {"type": "array", "items": {"type": "string"}},
///         },
///         "required": ["status"],
///     }))
/// );
/// ```
#[derive(Clone, Debug, PartialEq)]
pub struct Spec(Map<String, Value>);

impl Spec {
    /// A string.
    pub fn string() -> Self {
        Self::typed("string")
    }

    /// A finite number.
    pub fn number() -> Self {
        Self::typed("number")
    }

    /// A number without fraction.
    pub fn integer() -> Self {
        Self::typed("integer")
    }

    /// True or false.
    pub fn boolean() -> Self {
        Self::typed("boolean")
    }

    /// Null only.
    pub fn null() -> Self {
        Self::typed("null")
    }

    /// Any lossless JSON.
    pub fn json() -> Self {
        Self::typed("json")
    }

    /// An array whose elements all fit `items`.
    pub fn array(items: Self) -> Self {
        Self::typed("array").with("items", items.0)
    }

    /// An object that takes undeclared properties too.
    pub fn open() -> Self {
        Self::typed("object").with("additionalProperties", true)
    }

    /// An object that takes declared properties only.
    pub fn closed() -> Self {
        Self::typed("object").with("additionalProperties", false)
    }

    /// Exactly one of `branches` must fit; at least two are needed.
    pub fn one_of(branches: impl IntoIterator<Item = Self>) -> Self {
        let branches: Vec<_> = branches.into_iter().map(|branch| Value::Object(branch.0)).collect();
        Self(Map::new()).with("oneOf", branches)
    }

    /// Adds the description that models read.
    pub fn describe(self, description: &str) -> Self {
        self.with("description", description)
    }

    /// Restricts a scalar to `values`.
    pub fn allowed<T: Into<Value>>(self, values: impl IntoIterator<Item = T>) -> Self {
        let values: Vec<Value> = values.into_iter().map(Into::into).collect();
        self.with("enum", values)
    }

    /// Restricts a scalar to one value.
    pub fn constant(self, value: impl Into<Value>) -> Self {
        self.with("const", value)
    }

    /// Adds an annotation: `title`, `default` or `examples`.
    pub fn annotate(self, keyword: &str, value: impl Into<Value>) -> Self {
        self.with(keyword, value)
    }

    /// Adds a property that must be there, to an object.
    pub fn required(self, name: &str, spec: Self) -> Self {
        self.property(name, spec.with("required", true))
    }

    /// Adds a property that may be left out, to an object.
    pub fn optional(self, name: &str, spec: Self) -> Self {
        self.property(name, spec)
    }

    /// The schema.
    ///
    /// # Errors
    ///
    /// As [`compile_value`].
    pub fn compile(self) -> Result<Value, SchemaError> {
        compile_value(&Value::Object(self.0))
    }

    fn typed(name: &str) -> Self {
        Self(Map::new()).with("type", name)
    }

    fn with(mut self, key: &str, value: impl Into<Value>) -> Self {
        self.0.insert(key.to_owned(), value.into());
        self
    }

    fn property(mut self, name: &str, spec: Self) -> Self {
        let properties = self.0.entry("properties").or_insert_with(|| Value::Object(Map::new()));
        if let Value::Object(properties) = properties {
            properties.insert(name.to_owned(), Value::Object(spec.0));
        }
        self
    }
}

/// The parameter map of a tool under construction.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Parameters(Map<String, Value>);

impl Parameters {
    /// No parameters yet.
    pub fn new() -> Self {
        Self::default()
    }

    /// Adds a parameter that must be given.
    pub fn required(self, name: &str, spec: Spec) -> Self {
        self.optional(name, spec.with("required", true))
    }

    /// Adds a parameter that may be left out.
    pub fn optional(mut self, name: &str, spec: Spec) -> Self {
        self.0.insert(name.to_owned(), Value::Object(spec.0));
        self
    }

    /// The schema: an open object.
    ///
    /// # Errors
    ///
    /// As [`compile_parameters`].
    pub fn compile(self) -> Result<Value, SchemaError> {
        compile_parameters(&Value::Object(self.0))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn parameters_compile_to_an_open_object() {
        let parameters = Parameters::new()
            .required("path", Spec::string().describe("Absolute path."))
            .optional("limit", Spec::integer().annotate("default", 10))
            .required("mode", Spec::one_of([Spec::null(), Spec::string().constant("fast")]));
        assert_eq!(
            parameters.compile(),
            Ok(json!({
                "type": "object",
                "properties": {
                    "path": {"type": "string", "description": "Absolute path."},
                    "limit": {"type": "integer", "default": 10},
                    "mode": {"oneOf": [{"type": "null"}, {"type": "string", "const": "fast"}]},
                },
                "required": ["path", "mode"],
            }))
        );
    }

    #[test]
    fn a_wrong_literal_surfaces_when_compiled() {
        let error = Spec::boolean().constant(1).compile().unwrap_err();
        assert_eq!(error.violations, ["schema.const must be a boolean"]);
    }
}
