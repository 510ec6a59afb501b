//! `workflow`: a script that starts many agents and puts their answers together.
//!
//! The script runs in the embedded engine and reaches nothing but its hooks (`run`, `prelude.js`). What its agents do is asked
//! about by the agents. Source: `spec/tools-agentic.md` §10.

use super::cut;
use super::run::{Caps, Hooks, Journal, Pool};
use crate::subagent::subagents;
use async_trait::async_trait;
use pipeline::context::ToolContext;
use pipeline::tool::{Effect, PromptSection};
use pipeline::typed::TypedTool;
use protocol::card::{CallCard, GenericCall, ToolCallKind};
use protocol::content::ContentBlock;
use protocol::tool::ToolFailure;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, json};
use services::code_runtime::{
    CodeBinding, CodeError, CodeErrorClass, CodeErrorKind, CodeLimits, CodeOutcome, CodeRequest,
};
use std::time::Duration;

/// Most of the result that the model reads, in characters. Source: `spec/tools-agentic.md` §10.1.
const MAX_RESULT_CHARS: usize = 50_000;
/// Members of the description, and those of a phase.
const META: &[&str] = &["name", "description", "whenToUse", "phases"];
const META_PHASE: &[&str] = &["title", "detail", "provider", "model"];
/// Name of the error class of the hooks.
const ERROR_CLASS: &str = "WorkflowError";
/// What the script may use. Agents may work for hours; the script itself only puts things together.
const LIMITS: CodeLimits = CodeLimits {
    busy: Duration::from_secs(10),
    wall: Duration::from_secs(24 * 60 * 60),
    output_bytes: 16 << 20,
    memory_bytes: 256 << 20,
};

/// Arguments of `workflow`.
#[derive(Debug, Deserialize, JsonSchema)]
pub struct WorkflowArgs {
    /// The script: the body of an async JavaScript function, with await and return at its top level.
    script: String,
    /// What the workflow is.
    meta: Meta,
    /// An object that the script finds as args; put a list into a member of it.
    args: Option<Map<String, Value>>,
}

/// What a workflow is.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Meta {
    /// Its name, short; the user sees it.
    name: String,
    /// What it does, in one sentence.
    description: String,
    /// When it is worth running.
    #[serde(rename = "whenToUse")]
    _when_to_use: Option<String>,
    /// Its phases, in order.
    phases: Option<Vec<MetaPhase>>,
}

/// A phase of a workflow.
#[derive(Debug, Deserialize, JsonSchema)]
pub struct MetaPhase {
    /// The title that phase() is called with.
    title: String,
    /// What happens in it.
    #[serde(rename = "detail")]
    _detail: Option<String>,
    /// For readers only: the provider its agents use.
    #[serde(rename = "provider")]
    _provider: Option<String>,
    /// For readers only: the model its agents use.
    #[serde(rename = "model")]
    _model: Option<String>,
}

/// What came out of a workflow.
#[derive(Debug, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct WorkflowOutput {
    /// The run.
    run_id: String,
    /// How many agents were started.
    agents_started: u64,
    /// What the script returned.
    result: Value,
}

/// The tool.
pub struct Workflow;

#[async_trait]
impl TypedTool for Workflow {
    type Args = WorkflowArgs;
    type Output = WorkflowOutput;

    const NAME: &'static str = "workflow";

    fn description(&self) -> String {
        "Runs a JavaScript script that starts many agents, and gives what it returns (JSON). Use it only when the user asks for a \
         workflow, or for work to be spread over many agents; for one or two, use subagent.\n\n\
         The script (plain JavaScript, no TypeScript, no import or export) has these globals:\n\
         - agent(prompt, options?): starts an agent that sees only the prompt and waits for its last text. Options: label (the \
         user sees it), phase, model (\"provider/model\"), schema (JSON Schema of an object; then the answer is such an object). \
         Gives null when the agent fails.\n\
         - pipeline(items, ...stages): each item goes through the stages on its own, stage(previous, item, index). A stage that \
         throws makes its item null.\n\
         - parallel(thunks): starts all functions and waits for all; one that throws gives null.\n\
         - phase(title), log(message): tell the user how far it is.\n\
         - args: the object given with the call.\n\n\
         8 agents run at a time, at most 1000 in a run; pipeline and parallel take 4096 entries. Wrong use throws a WorkflowError \
         that ends the script. The script has no files, network or timers of its own, 10 s of computing and 256 MiB of memory; \
         agents do the work. When it ends, agents nobody waits for are stopped."
            .to_owned()
    }

    fn is_concurrency_safe(&self, _args: &WorkflowArgs) -> bool {
        true
    }

    fn effect(&self, _args: &WorkflowArgs) -> Effect {
        // What the agents do is asked about by the agents.
        Effect::None
    }

    async fn execute(&self, args: WorkflowArgs, ctx: &ToolContext) -> Result<WorkflowOutput, ToolFailure> {
        run(args, ctx, Caps::default()).await
    }

    fn render(&self, args: &WorkflowArgs, output: &WorkflowOutput) -> Vec<ContentBlock> {
        let n = output.agents_started;
        let agents = if n == 1 { "agent" } else { "agents" };
        let value = serde_json::to_string_pretty(&output.result).unwrap_or_default();
        let value = cut(value, MAX_RESULT_CHARS);
        vec![ContentBlock::text(format!("Workflow {}: {n} {agents}\n\n{value}", args.meta.name.trim()))]
    }

    fn present_call(&self, args: &WorkflowArgs) -> Option<CallCard> {
        Some(CallCard::Generic(GenericCall {
            title: format!("Workflow {}", args.meta.name),
            kind: ToolCallKind::Think,
            content: vec![ContentBlock::text(args.meta.description.as_str())],
            raw_input: Some(json!(args.script)),
            ..GenericCall::default()
        }))
    }

    fn section(&self) -> Option<PromptSection> {
        Some(PromptSection {
            name: "tool:workflow".to_owned(),
            order_tenths: 1150,
            text: "`workflow` is for when the user asks for a workflow, or for work spread over many agents, in so many words. One \
                   or two delegations are plain subagents; what you can do yourself needs neither."
                .to_owned(),
        })
    }
}

async fn run(args: WorkflowArgs, ctx: &ToolContext, caps: Caps) -> Result<WorkflowOutput, ToolFailure> {
    check_meta(&args.meta, ctx.execution.arguments.get("meta"))?;
    if args.script.trim_start().starts_with("export const meta") {
        let message = "the script must not begin with `export const meta`: the meta is an argument of the call, \
                       and the script only the body of a function";
        return Err(failed("SCRIPT_PARSE", message));
    }
    let family = subagents(ctx)?;
    let programs = ctx.services().programs.clone();
    let programs = programs.ok_or_else(|| ToolFailure::plain("nothing here can run scripts"))?;
    if ctx.cancel.is_cancelled() {
        return Err(ToolFailure::aborted());
    }
    let pool = Pool::new(ctx, family, Journal::begin(ctx, args.meta.name.trim()), caps);
    let hooks = pool.hooks();
    let request = CodeRequest {
        program: args.script,
        prelude: Some(prelude(args.args, caps)),
        bindings: vec![CodeBinding {
            global: "workflowHost".to_owned(),
            functions: Hooks::NAMES.map(str::to_owned).to_vec(),
            error_class: CodeErrorClass { name: ERROR_CLASS.to_owned(), member: "hook".to_owned() },
            host: hooks.clone(),
        }],
        limits: LIMITS,
        cancel: pool.signal().clone(),
    };
    let (ran, journal) = pool.drive(programs.run(request)).await;
    let run_id = journal.run_id.clone();
    if ctx.cancel.is_cancelled() {
        journal.end("cancelled");
        return Err(ToolFailure::aborted());
    }
    let ended = match ran {
        Err(misuse) => Err(ToolFailure::plain(format!("the script cannot be started: {misuse}"))),
        Ok(CodeOutcome { error: Some(error), .. }) => Err(failure_of(&error)),
        Ok(CodeOutcome { value, .. }) => Ok(value.unwrap_or_default()),
    };
    journal.end(if ended.is_ok() { "completed" } else { "error" });
    Ok(WorkflowOutput { run_id, agents_started: hooks.n_agents(), result: ended? })
}

/// Our part of the script's world, with its settings.
fn prelude(args: Option<Map<String, Value>>, caps: Caps) -> String {
    let settings = json!({ "args": args.unwrap_or_default(), "maxItems": caps.items }).to_string();
    // The text of the settings is a literal too: JSON is the same in both languages but for `__proto__`.
    format!("({})({})", include_str!("prelude.js").trim_end(), Value::from(settings))
}

/// Names everything that is wrong in one failure.
fn check_meta(meta: &Meta, given: Option<&Value>) -> Result<(), ToolFailure> {
    let mut wrong = Vec::new();
    for (name, text) in [("name", &meta.name), ("description", &meta.description)] {
        if text.trim().is_empty() {
            wrong.push(format!("meta.{name} must not be blank"));
        }
    }
    for (idx, phase) in meta.phases.iter().flatten().enumerate() {
        if phase.title.trim().is_empty() {
            wrong.push(format!("meta.phases[{idx}].title must not be blank"));
        }
    }
    let mut unknown = |value: Option<&Value>, place: &str, known: &[&str]| {
        let names = value.and_then(Value::as_object).into_iter().flat_map(Map::keys);
        wrong.extend(
            names
                .filter(|name| !known.contains(&name.as_str()))
                .map(|name| format!("{place}.{name} is unknown")),
        );
    };
    unknown(given, "meta", META);
    let phases = given.and_then(|meta| meta.get("phases")).and_then(Value::as_array);
    for (idx, phase) in phases.into_iter().flatten().enumerate() {
        unknown(Some(phase), &format!("meta.phases[{idx}]"), META_PHASE);
    }
    if wrong.is_empty() { Ok(()) } else { Err(failed("META_INVALID", &wrong.join("; "))) }
}

fn failed(code: &str, message: &str) -> ToolFailure {
    ToolFailure::coded(ERROR_CLASS, code, message.to_owned())
}

/// Why the script has no result.
fn failure_of(error: &CodeError) -> ToolFailure {
    let message = &error.message;
    match error.kind {
        CodeErrorKind::InvalidOutput => failed("RESULT_UNSERIALIZABLE", message),
        CodeErrorKind::Exception => {
            let coded = message.strip_prefix(ERROR_CLASS).and_then(|rest| rest.strip_prefix(": "));
            let is_code =
                |code: &str| !code.is_empty() && code.chars().all(|c| c.is_ascii_uppercase() || c == '_');
            match coded.and_then(|rest| rest.split_once(": ")) {
                Some((code, _)) if is_code(code) => failed(code, &format!("the workflow failed: {message}")),
                // What the parser complains about names a column, and what a script throws does not.
                _ if message.starts_with("SyntaxError: ")
                    && message.lines().all(|line| line.ends_with(')')) =>
                {
                    failed("SCRIPT_PARSE", &format!("the script is no JavaScript: {message}"))
                }
                _ => ToolFailure::plain(format!("the workflow failed: {message}")),
            }
        }
        kind => ToolFailure::plain(format!("the workflow failed ({kind}): {message}")),
    }
}
