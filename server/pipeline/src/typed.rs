//! Tools whose schemas come from Rust types: the docs of the types are what the model reads.

use crate::context::{Execution, ToolContext};
use crate::tool::{Effect, PromptSection, Tool};
use async_trait::async_trait;
use protocol::card::{CallCard, ResultCard};
use protocol::content::ContentBlock;
use protocol::decision::Preview;
use protocol::schema;
use protocol::tool::{DurableResult, Outcome, ToolFailure, ToolSchema};
use schemars::generate::SchemaSettings;
use schemars::{JsonSchema, SchemaGenerator};
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};
use std::time::Duration;

/// A tool with typed arguments and output. Wrap it in [`Typed`] to register it.
///
/// In `Args`, `Option<T>` is an optional property, a nested object is open unless it says `deny_unknown_fields`, and a
/// doc comment is a description.
#[async_trait]
pub trait TypedTool: Send + Sync + 'static {
    /// Arguments; the root must be a struct.
    type Args: DeserializeOwned + JsonSchema + Send + Sync;
    /// The canonical value.
    type Output: Serialize + DeserializeOwned + JsonSchema + Send + Sync;

    /// Name the model calls it by.
    const NAME: &'static str;

    /// What it does, in the words the model reads.
    fn description(&self) -> String;

    /// As [`Tool::timeout`].
    fn timeout(&self) -> Option<Duration> {
        None
    }

    /// As [`Tool::is_concurrency_safe`].
    fn is_concurrency_safe(&self, _args: &Self::Args) -> bool {
        false
    }

    /// As [`Tool::effect`].
    fn effect(&self, args: &Self::Args) -> Effect;

    /// As [`Tool::execute`], after the arguments were validated.
    ///
    /// # Errors
    /// The tool could not do its job.
    async fn execute(&self, args: Self::Args, ctx: &ToolContext) -> Result<Self::Output, ToolFailure>;

    /// As [`Tool::render`].
    fn render(&self, args: &Self::Args, output: &Self::Output) -> Vec<ContentBlock>;

    /// As [`Tool::presentation_meta`].
    fn presentation_meta(&self, _args: &Self::Args, _output: &Self::Output) -> Option<Value> {
        None
    }

    /// The canonical value of an output. A tool with large texts moves them instead.
    ///
    /// # Errors
    /// The output does not serialise.
    fn to_value(&self, output: Self::Output) -> Result<Value, String> {
        serde_json::to_value(output).map_err(|error| error.to_string())
    }

    /// As [`TypedTool::render`], from the value. A tool with large texts borrows them instead.
    ///
    /// # Errors
    /// The value is no output.
    fn render_value(&self, args: &Self::Args, value: &Value) -> Result<Vec<ContentBlock>, String> {
        Ok(self.render(args, &from_value(value)?))
    }

    /// As [`TypedTool::presentation_meta`], from the value. A tool with large texts borrows them instead.
    ///
    /// # Errors
    /// The value is no output.
    fn meta_of_value(&self, args: &Self::Args, value: &Value) -> Result<Option<Value>, String> {
        Ok(self.presentation_meta(args, &from_value(value)?))
    }

    /// As [`Tool::project_content`].
    fn project_content(&self, _execution: &Execution, _outcome: &Outcome) -> Option<Vec<ContentBlock>> {
        None
    }

    /// As [`Tool::finalize_content`].
    fn finalize_content(&self, _execution: &Execution, _outcome: &Outcome) -> Option<Vec<ContentBlock>> {
        None
    }

    /// As [`Tool::present_call`].
    fn present_call(&self, _args: &Self::Args) -> Option<CallCard> {
        None
    }

    /// As [`Tool::present_result`].
    fn present_result(&self, _args: &Self::Args, _result: &DurableResult) -> Option<ResultCard> {
        None
    }

    /// As [`Tool::preview`].
    async fn preview(&self, _args: Self::Args, _ctx: &ToolContext) -> Preview {
        Preview::default()
    }

    /// As [`Tool::section`].
    fn section(&self) -> Option<PromptSection> {
        None
    }
}

/// A typed tool with its schemas compiled.
pub struct Typed<T> {
    tool: T,
    schema: ToolSchema,
    output: Value,
}

impl<T: TypedTool> Typed<T> {
    /// Compiles the schemas of a typed tool.
    ///
    /// # Panics
    /// When a derived schema leaves the enforced subset: an error in the tool's types, found by its first test.
    pub fn new(tool: T) -> Self {
        let parameters = derive_parameters::<T::Args>();
        let output = derive::<T::Output>();
        for (what, checked) in
            [("parameters", schema::check_object(&parameters)), ("output", schema::check_supported(&output))]
        {
            if let Err(error) = checked {
                panic!("{}: {what}: {error}", T::NAME);
            }
        }
        let schema = ToolSchema { name: T::NAME.to_owned(), description: tool.description(), parameters };
        Self { tool, schema, output }
    }

    fn soft_args(&self, arguments: &Value) -> Option<T::Args> {
        self.args(arguments).ok()
    }

    fn args(&self, arguments: &Value) -> Result<T::Args, ToolFailure> {
        let violations = schema::validate(&self.schema.parameters, arguments, "");
        if !violations.is_empty() {
            return Err(invalid_args(&violations.join("; ")));
        }
        T::Args::deserialize(arguments).map_err(|error| invalid_args(&error.to_string()))
    }
}

/// A value as what it stands for, borrowing from it where the type can.
///
/// # Errors
/// The value does not have the type's shape.
pub fn from_value<'a, O: Deserialize<'a>>(value: &'a Value) -> Result<O, String> {
    O::deserialize(value).map_err(|error| error.to_string())
}

fn invalid_args(violations: &str) -> ToolFailure {
    ToolFailure::coded("ToolArgsError", "INVALID_ARGS", format!("invalid arguments: {violations}"))
}

#[async_trait]
impl<T: TypedTool> Tool for Typed<T> {
    fn schema(&self) -> &ToolSchema {
        &self.schema
    }

    fn output_schema(&self) -> &Value {
        &self.output
    }

    fn timeout(&self) -> Option<Duration> {
        self.tool.timeout()
    }

    fn is_concurrency_safe(&self, arguments: &Value) -> bool {
        self.soft_args(arguments).is_some_and(|args| self.tool.is_concurrency_safe(&args))
    }

    fn effect(&self, arguments: &Value) -> Effect {
        // Invalid arguments never reach the body, so there is nothing to ask a person about.
        self.soft_args(arguments).map_or(Effect::None, |args| self.tool.effect(&args))
    }

    async fn execute(&self, arguments: &Value, ctx: &ToolContext) -> Result<Value, ToolFailure> {
        let output = self.tool.execute(self.args(arguments)?, ctx).await?;
        self.tool.to_value(output).map_err(|error| {
            ToolFailure::coded("ToolOutputError", "INVALID_TOOL_OUTPUT", format!("{}: {error}", T::NAME))
        })
    }

    fn render(&self, arguments: &Value, value: &Value) -> Result<Vec<ContentBlock>, String> {
        let args = self.args(arguments).map_err(|failure| failure.message)?;
        self.tool.render_value(&args, value)
    }

    fn presentation_meta(&self, arguments: &Value, value: &Value) -> Result<Option<Value>, String> {
        let args = self.args(arguments).map_err(|failure| failure.message)?;
        self.tool.meta_of_value(&args, value)
    }

    fn project_content(&self, execution: &Execution, outcome: &Outcome) -> Option<Vec<ContentBlock>> {
        self.tool.project_content(execution, outcome)
    }

    fn finalize_content(&self, execution: &Execution, outcome: &Outcome) -> Option<Vec<ContentBlock>> {
        self.tool.finalize_content(execution, outcome)
    }

    fn present_call(&self, arguments: &Value) -> Option<CallCard> {
        self.tool.present_call(&self.soft_args(arguments)?)
    }

    fn present_result(&self, arguments: &Value, result: &DurableResult) -> Option<ResultCard> {
        self.tool.present_result(&self.soft_args(arguments)?, result)
    }

    async fn preview(&self, arguments: &Value, ctx: &ToolContext) -> Preview {
        match self.soft_args(arguments) {
            Some(args) => self.tool.preview(args, ctx).await,
            None => Preview::default(),
        }
    }

    fn section(&self) -> Option<PromptSection> {
        self.tool.section()
    }
}

/// The parameter schema of `A`: an open object, without an `additionalProperties` keyword at the root.
pub fn derive_parameters<A: JsonSchema>() -> Value {
    let mut schema = derive::<A>();
    if let Value::Object(root) = &mut schema {
        root.shift_remove("additionalProperties");
        root.shift_remove("description");
        // A tool without parameters says so.
        root.entry("properties").or_insert_with(|| Value::Object(Map::new()));
    }
    schema
}

/// The schema of `T` in the enforced subset, everything inlined.
pub fn derive<T: JsonSchema>() -> Value {
    let settings = SchemaSettings::draft2020_12().with(|settings| {
        settings.inline_subschemas = true;
        settings.meta_schema = None;
    });
    let mut schema = SchemaGenerator::new(settings).into_root_schema_for::<T>().to_value();
    to_subset(&mut schema);
    schema
}

/// Rewrites what `schemars` says into the subset: nullable becomes optional, objects say whether they are open.
fn to_subset(schema: &mut Value) {
    if *schema == Value::Bool(true) {
        *schema = Value::Object(Map::new());
        return;
    }
    let Value::Object(node) = schema else { return };
    for keyword in ["title", "format", "minimum", "maximum", "$schema"] {
        node.shift_remove(keyword);
    }
    if let Some(Value::String(description)) = node.get_mut("description") {
        *description = unwrapped(description);
    }
    if node.get("default") == Some(&Value::Null) {
        node.shift_remove("default");
    }
    if let Some(Value::Array(types)) = node.get_mut("type") {
        types.retain(|kind| kind != "null");
        if let [only] = types.as_slice() {
            let only = only.clone();
            node.insert("type".to_owned(), only);
        }
    }
    if let Some(Value::Array(mut branches)) = node.shift_remove("anyOf") {
        branches.retain(|branch| branch.get("type") != Some(&Value::String("null".to_owned())));
        if branches.len() == 1 {
            if let Some(Value::Object(only)) = branches.pop() {
                for (keyword, value) in only {
                    node.entry(keyword).or_insert(value);
                }
            }
        } else {
            node.insert("oneOf".to_owned(), Value::Array(branches));
        }
    }
    if let Some(Value::Array(branches)) = node.get_mut("oneOf") {
        branches.iter_mut().for_each(to_subset);
    }
    if let Some(Value::Array(values)) = node.get_mut("enum") {
        values.retain(|value| !value.is_null());
    }
    if let Some(items) = node.get_mut("items") {
        to_subset(items);
    }
    if node.get("type").is_some_and(|kind| kind == "object") {
        if let Some(Value::Object(properties)) = node.get_mut("properties") {
            properties.values_mut().for_each(to_subset);
        }
        // The subset's `additionalProperties` is a bool; a map of anything is an open object.
        if !node.get("additionalProperties").is_some_and(Value::is_boolean) {
            node.insert("additionalProperties".to_owned(), Value::Bool(true));
        }
    }
}

/// A doc comment without the line breaks that only keep the source narrow.
fn unwrapped(doc: &str) -> String {
    let paragraphs: Vec<String> = doc.split("\n\n").map(|paragraph| paragraph.replace('\n', " ")).collect();
    paragraphs.join("\n\n")
}
