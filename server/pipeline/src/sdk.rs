//! What a model is told about calling tools from programs: two sections of the system prompt.
//!
//! Called when a step is prepared. Deterministic: the same tools give the same bytes, whatever their order.
//! Source: `spec/pipeline.md` §14, `spec/tools-files-shell.md` §16.

use crate::registry::{CodeMode, RUN_CODE, Registry, ResolvedToolSet, ScopeKey};
use crate::tool::{PromptSection, Tool};
use protocol::schema::typescript::{JSON_VALUE_DECLARATION, doc_comment, property_name, to_typescript_at};
use std::fmt::Write;
use std::sync::Arc;

/// How a program is written, whatever the tools.
const INSTRUCTIONS: &str = "A `run_code` program calls tools as async functions: `const page = await tools.read({ file_path: \"a.rs\" })`. \
    Each takes one object and resolves to the tool's JSON value, typed below. A call that fails, also one that was refused, \
    rejects with a ToolCallError (`toolName`, `message`); catch it where the program can go on. Calls go through the same \
    rules and questions as calls of your own, and run one after the other in the order in which they were made, except that \
    neighbours which only read overlap: start independent reads together with Promise.all. You see only what the program \
    returns and what it prints with console; filter and shorten there. An image in a tool's result is attached for you after \
    the program ends. Every run starts afresh: no imports, no files, no network, no timers, only the tools.";

/// The sections about programs; empty where a scope has none.
pub fn program_sections(
    registry: &Registry,
    scope: Option<ScopeKey>,
    tool_set: Option<&ResolvedToolSet>,
) -> Vec<PromptSection> {
    let code_mode = registry.code_mode(scope);
    let section =
        |name: &str, order_tenths, text| PromptSection { name: name.to_owned(), order_tenths, text };
    let rule = format!(
        "Only {RUN_CODE} can be called directly. Every other tool named in this prompt is called from its programs, as \
         tools.<name>(…); called by itself it fails."
    );
    let sdk = || section("tools:sdk", 1500, sdk_text(&registry.definitions(scope, tool_set)));
    match code_mode {
        CodeMode::Native => Vec::new(),
        CodeMode::Both => vec![sdk()],
        CodeMode::Code => vec![section("tools:code-mode", 990, rule), sdk()],
    }
}

/// How to write a program, and the declarations of these tools.
pub fn sdk_text(tools: &[Arc<dyn Tool>]) -> String {
    let mut tools: Vec<&Arc<dyn Tool>> = tools.iter().collect();
    tools.sort_by(|a, b| a.schema().name.cmp(&b.schema().name));
    let mut text =
        format!("{INSTRUCTIONS}\n\n```ts\n{JSON_VALUE_DECLARATION}\n\ninterface ToolArguments {{\n");
    for tool in &tools {
        let schema = tool.schema();
        if let Some(comment) = doc_comment(&schema.description) {
            member(&mut text, &comment);
        }
        member(
            &mut text,
            &format!("{}: {};", property_name(&schema.name), to_typescript_at(&schema.parameters, 1)),
        );
    }
    text.push_str("}\n\ninterface ToolOutputs {\n");
    for tool in &tools {
        let output = to_typescript_at(tool.output_schema(), 1);
        member(&mut text, &format!("{}: {output};", property_name(&tool.schema().name)));
    }
    text.push_str(
        "}\n\ndeclare class ToolCallError extends Error {\n  readonly toolName: string;\n}\n\ndeclare const tools: {\n  \
         readonly [Name in keyof ToolArguments]: (args: ToolArguments[Name]) => Promise<ToolOutputs[Name]>;\n};\n```",
    );
    text
}

fn member(text: &mut String, member: &str) {
    // Writing into a text cannot fail.
    let _ = writeln!(text, "  {member}");
}
