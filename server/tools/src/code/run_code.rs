//! `run_code`: runs a TypeScript program that calls the other tools.
//!
//! The model gets what the program returns and prints. It touches the world only through its sub-calls, each of which
//! goes through the whole pipeline (`pipeline::programs`). Source: `spec/tools-files-shell.md` §16.

use async_trait::async_trait;
use pipeline::context::ToolContext;
use pipeline::programs::ProgramLane;
use pipeline::tool::Effect;
use pipeline::typed::TypedTool;
use protocol::card::{CallCard, GenericCall, ToolCallKind};
use protocol::content::ContentBlock;
use protocol::tool::ToolFailure;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use services::code_runtime::{
    CodeBinding, CodeErrorClass, CodeLimits, CodeOutcome, CodeRequest, CodeRuntime,
};
use std::sync::Arc;

/// What the model reads when the program gave nothing.
const NO_OUTPUT: &str = "(the program returned and printed nothing)";
/// Levels that are indented, two spaces each; what is deeper stays on one line.
const MAX_LEVELS: usize = 5;

/// Arguments of `run_code`.
#[derive(Debug, Deserialize, JsonSchema)]
pub struct RunCodeArgs {
    /// The program: the body of an async TypeScript function in strict mode, with `await` and `return` at its top level.
    /// Types are erased, not checked; enums, namespaces and parameter properties are refused.
    code: String,
    /// What the program does, in a few words for the user; not blank.
    description: String,
}

/// What came out of a program.
#[derive(Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct RunCodeOutput {
    /// What it printed, one entry a call.
    logs: Vec<String>,
    /// What it returned; absent when it returned nothing.
    #[serde(default, skip_serializing_if = "Option::is_none", deserialize_with = "present")]
    result: Option<Value>,
}

/// A member that is there, `null` included.
fn present<'de, D: serde::Deserializer<'de>>(deserializer: D) -> Result<Option<Value>, D::Error> {
    Value::deserialize(deserializer).map(Some)
}

/// The tool.
pub struct RunCode {
    runtime: Option<Arc<dyn CodeRuntime>>,
    limits: CodeLimits,
}

impl RunCode {
    /// The tool over a runtime.
    pub fn new(runtime: Option<Arc<dyn CodeRuntime>>) -> Self {
        Self { runtime, limits: CodeLimits::default() }
    }
}

#[async_trait]
impl TypedTool for RunCode {
    type Args = RunCodeArgs;
    type Output = RunCodeOutput;

    const NAME: &'static str = "run_code";

    fn description(&self) -> String {
        "Runs a TypeScript program that calls the other tools: await tools.<name>(args). Use it for work of several calls \
         whose results need not be read one by one: loops, filters, sums, calls that depend on each other. Only what the \
         program returns (JSON) and prints (console.log, info, warn, error, debug) comes back, so filter there. Calls obey \
         the same permissions as direct ones. Each run starts afresh, without imports, files, network or timers of its own. \
         Limits: 60 s of computing, 10 minutes in all, 512 MiB of memory, 64 MiB of output."
            .to_owned()
    }

    fn effect(&self, _args: &RunCodeArgs) -> Effect {
        // Its sub-calls are judged, each for itself.
        Effect::None
    }

    async fn execute(&self, args: RunCodeArgs, ctx: &ToolContext) -> Result<RunCodeOutput, ToolFailure> {
        if args.description.trim().is_empty() {
            return Err(ToolFailure::plain("the description must not be blank; say what the program does"));
        }
        let runtime = self
            .runtime
            .as_ref()
            .ok_or_else(|| ToolFailure::plain("nothing here can run programs; call the tools directly"))?;
        let lane = ProgramLane::new(ctx, None)?;
        let request = CodeRequest {
            program: args.code,
            prelude: None,
            bindings: vec![CodeBinding {
                global: "tools".to_owned(),
                functions: lane.names(),
                error_class: CodeErrorClass {
                    name: "ToolCallError".to_owned(),
                    member: "toolName".to_owned(),
                },
                host: lane.host(),
            }],
            limits: self.limits,
            cancel: lane.signal().clone(),
        };
        let ran = lane.drive(runtime.run(request)).await?;
        let CodeOutcome { value, logs, error } =
            ran.map_err(|misuse| ToolFailure::plain(format!("the tools cannot be bound: {misuse}")))?;
        let Some(error) = error else { return Ok(RunCodeOutput { logs, result: value }) };
        let mut message = format!("code run failed ({}): {}", error.kind, error.message);
        if !logs.is_empty() {
            message.push_str(&format!("\nCaptured output:\n{}", logs.join("\n")));
        }
        Err(ToolFailure::coded("CodeRunFailedError", "CODE_RUN_FAILED", message))
    }

    fn render(&self, _args: &RunCodeArgs, output: &RunCodeOutput) -> Vec<ContentBlock> {
        let result = output.result.as_ref().map(|result| match result {
            Value::String(text) => text.clone(),
            other => pretty(other),
        });
        let parts = [Some(output.logs.join("\n")), result];
        let parts: Vec<String> = parts.into_iter().flatten().filter(|part| !part.is_empty()).collect();
        let text = if parts.is_empty() { NO_OUTPUT.to_owned() } else { parts.join("\n") };
        vec![ContentBlock::text(text)]
    }

    fn present_call(&self, args: &RunCodeArgs) -> Option<CallCard> {
        Some(CallCard::Generic(GenericCall {
            title: args.description.clone(),
            kind: ToolCallKind::Execute,
            raw_input: Some(json!(args.code)),
            ..GenericCall::default()
        }))
    }
}

/// A value over several lines, down to a depth.
fn pretty(value: &Value) -> String {
    let mut text = String::new();
    write(value, 0, &mut text);
    text
}

fn write(value: &Value, level: usize, text: &mut String) {
    let line = |text: &mut String, level: usize| {
        text.push('\n');
        text.push_str(&"  ".repeat(level));
    };
    match value {
        Value::Array(items) if level < MAX_LEVELS && !items.is_empty() => {
            text.push('[');
            for (idx, item) in items.iter().enumerate() {
                text.push_str(if idx == 0 { "" } else { "," });
                line(text, level + 1);
                write(item, level + 1, text);
            }
            line(text, level);
            text.push(']');
        }
        Value::Object(members) if level < MAX_LEVELS && !members.is_empty() => {
            text.push('{');
            for (idx, (key, member)) in members.iter().enumerate() {
                text.push_str(if idx == 0 { "" } else { "," });
                line(text, level + 1);
                text.push_str(&format!("{}: ", Value::from(key.as_str())));
                write(member, level + 1, text);
            }
            line(text, level);
            text.push('}');
        }
        other => text.push_str(&other.to_string()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use pipeline::call::Call;
    use pipeline::fake::FakeSession;
    use pipeline::registry::{CodeMode, Registry};
    use pipeline::run::Pipeline;
    use protocol::id::CallId;
    use protocol::tool::Outcome;
    use services::code_runtime::{CodeError, CodeErrorKind, CodeLanguage, CodeMisuse};
    use services::fake::World;
    use std::sync::Mutex;
    use tokio_util::sync::CancellationToken;

    /// Ends each program as a test says, and keeps what it was asked.
    struct FakeRuntime {
        outcome: CodeOutcome,
        asked: Mutex<Vec<(String, Vec<String>, CodeLimits)>>,
    }

    #[async_trait]
    impl CodeRuntime for FakeRuntime {
        fn language(&self) -> CodeLanguage {
            CodeLanguage::TypeScript
        }

        async fn run(&self, request: CodeRequest) -> Result<CodeOutcome, CodeMisuse> {
            let binding = &request.bindings[0];
            let names = vec![
                binding.global.clone(),
                binding.error_class.name.clone(),
                binding.error_class.member.clone(),
            ];
            self.asked.lock().unwrap().push((request.program, names, request.limits));
            Ok(self.outcome.clone())
        }
    }

    async fn run(runtime: Option<Arc<dyn CodeRuntime>>, description: &str) -> Outcome {
        let registry = Registry::new();
        registry.provide_run_code(crate::code::run_code(runtime)).unwrap().keep();
        registry.set_code_mode(None, CodeMode::Both).unwrap().keep();
        let call = Call {
            call_id: CallId::new("call-1"),
            root_call_id: None,
            parent: None,
            name: "run_code".to_owned(),
            arguments: json!({ "code": "return 1", "description": description }),
            session: FakeSession::new(World::new()).scope,
            scope: None,
            tool_set: None,
            cancel: CancellationToken::new(),
        };
        Pipeline::new(registry).run(call).await
    }

    async fn ended(outcome: CodeOutcome) -> Outcome {
        run(Some(Arc::new(FakeRuntime { outcome, asked: Mutex::default() })), "Try").await
    }

    fn text(outcome: &Outcome) -> &str {
        outcome.content[0].as_text().unwrap()
    }

    #[tokio::test]
    async fn the_model_reads_what_was_printed_and_then_the_value() {
        let deep = json!([[[[[{ "a": [1] }]]]]]);
        let cases = [
            (vec![], None, NO_OUTPUT),
            (vec!["a", "b"], None, "a\nb"),
            (vec![], Some(json!("plain\ntext")), "plain\ntext"),
            (vec!["a"], Some(json!(null)), "a\nnull"),
            (vec![""], Some(json!("")), NO_OUTPUT),
            (
                vec![],
                Some(json!({ "b": [], "a": { "c": 1.5 } })),
                "{\n  \"b\": [],\n  \"a\": {\n    \"c\": 1.5\n  }\n}",
            ),
            (
                vec![],
                Some(deep),
                "[\n  [\n    [\n      [\n        [\n          {\"a\":[1]}\n        ]\n      ]\n    ]\n  ]\n]",
            ),
        ];
        for (logs, value, expected) in cases {
            let logs = logs.into_iter().map(str::to_owned).collect();
            let outcome = ended(CodeOutcome { value: value.clone(), logs, error: None }).await;
            assert_eq!(text(&outcome), expected);
            assert_eq!(outcome.result.unwrap().get("result"), value.as_ref());
        }
    }

    #[tokio::test]
    async fn a_failure_names_its_kind_and_keeps_what_was_printed() {
        let error = Some(CodeError { kind: CodeErrorKind::Timeout, message: "too long".to_owned() });
        let outcome =
            ended(CodeOutcome { value: None, logs: vec!["a".to_owned()], error: error.clone() }).await;
        assert_eq!(text(&outcome), "Error: code run failed (timeout): too long\nCaptured output:\na");
        let info = outcome.result.unwrap_err().info.unwrap();
        assert_eq!((info.name.as_str(), info.code.as_str()), ("CodeRunFailedError", "CODE_RUN_FAILED"));
        let outcome = ended(CodeOutcome { value: None, logs: vec![], error }).await;
        assert_eq!(text(&outcome), "Error: code run failed (timeout): too long");
    }

    #[tokio::test]
    async fn without_a_description_or_a_runtime_nothing_runs() {
        let runtime = Arc::new(FakeRuntime { outcome: CodeOutcome::default(), asked: Mutex::default() });
        let outcome = run(Some(runtime.clone()), " \n").await;
        assert_eq!(outcome.result.unwrap_err().info, None);
        assert!(runtime.asked.lock().unwrap().is_empty());
        let outcome = run(None, "Try").await;
        assert_eq!(text(&outcome), "Error: nothing here can run programs; call the tools directly");
        run(Some(runtime.clone()), "Try").await;
        let names = ["tools", "ToolCallError", "toolName"].map(str::to_owned).to_vec();
        let asked = runtime.asked.lock().unwrap().clone();
        assert_eq!(asked, [("return 1".to_owned(), names, CodeLimits::default())]);
    }

    #[test]
    fn the_card_is_the_description_and_the_code() {
        let card =
            crate::code::run_code(None).present_call(&json!({ "code": "return 1", "description": "Add" }));
        let expected = GenericCall {
            title: "Add".to_owned(),
            kind: ToolCallKind::Execute,
            raw_input: Some(json!("return 1")),
            ..GenericCall::default()
        };
        assert_eq!(card, Some(CallCard::Generic(expected)));
    }
}
