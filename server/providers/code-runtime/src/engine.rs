//! One run, from its program to its outcome, on a thread of its own.
//!
//! The engine computes only while it is polled here; calls of the program wait elsewhere and wake it.

use crate::failed;
use crate::typescript::{FILE, to_javascript};
use crate::watch::{Watch, aborted, json_bytes};
use rquickjs::context::EvalOptions;
use rquickjs::prelude::{Async, Func};
use rquickjs::{
    AsyncContext, AsyncRuntime, CatchResultExt, CaughtError, Ctx, Function, Object, Promise, Value,
};
use serde_json::json;
use services::code_runtime::{CodeBinding, CodeError, CodeErrorKind, CodeOutcome, CodeRequest};
use std::future::poll_fn;
use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::task::Poll;

const PRELUDE: &str = include_str!("prelude.js");
/// Stack of the program; deeper recursion is an error it can catch.
const PROGRAM_STACK_BYTES: usize = 4 << 20;
/// Arguments of calls that are not answered yet, in bytes of JSON; they live outside the program's memory.
const MAX_OPEN_BYTES: usize = 64 << 20;
/// Frames of an error that are told.
const MAX_FRAMES: usize = 8;

/// What a program ended with: its value as JSON, or why there is none.
type Ended = Result<Option<String>, CodeError>;

/// Runs a program to its end.
pub fn run(request: CodeRequest) -> CodeOutcome {
    let javascript = match to_javascript(&request.program) {
        Ok(javascript) => javascript,
        Err(message) => return failed(CodeErrorKind::Exception, &format!("SyntaxError: {message}")),
    };
    match tokio::runtime::Builder::new_current_thread().enable_time().build() {
        Ok(runtime) => runtime.block_on(run_javascript(javascript, request)),
        Err(error) => failed(CodeErrorKind::WorkerExit, &format!("the engine could not start: {error}")),
    }
}

async fn run_javascript(javascript: String, request: CodeRequest) -> CodeOutcome {
    let CodeRequest { prelude, bindings, limits, cancel, .. } = request;
    let watch = Arc::new(Watch::new(limits, cancel.clone()));
    let ended = {
        let mut engine = pin!(evaluate((prelude, javascript), bindings, watch.clone(), limits.memory_bytes));
        let turns = poll_fn(|cx| match watch.turn(|| engine.as_mut().poll(cx)) {
            Poll::Ready(ended) => Poll::Ready(Some(ended)),
            // A program that was stopped inside one of its own callbacks never settles.
            Poll::Pending if watch.must_stop() => Poll::Ready(None),
            Poll::Pending => Poll::Pending,
        });
        tokio::select! {
            biased;
            () = cancel.cancelled() => Some(Err(aborted())),
            ended = turns => ended,
            () = tokio::time::sleep(limits.wall) => Some(Err(watch.too_long())),
        }
    };
    let value_bytes = |ended: &Ended| match ended {
        Ok(value) => value.as_ref().map_or(0, String::len),
        Err(error) => json_bytes(&error.message),
    };
    let has_room = ended.as_ref().is_none_or(|ended| watch.has_room(value_bytes(ended)));
    let too_much = (!has_room).then(|| watch.too_much());
    let (stop, logs) = watch.finish();
    let ended = match (stop.or(too_much), ended) {
        (Some(error), _) => Err(error),
        (None, Some(ended)) => ended,
        (None, None) => Err(aborted()),
    };
    let parsed = ended.and_then(|value| match value {
        None => Ok(None),
        Some(json) => serde_json::from_str(&json).map(Some).map_err(|error| CodeError {
            kind: CodeErrorKind::InvalidOutput,
            message: format!("the value cannot be taken over: {error}"),
        }),
    });
    match parsed {
        Ok(value) => CodeOutcome { value, logs, error: None },
        Err(error) => CodeOutcome { value: None, logs, error: Some(error) },
    }
}

/// A fresh engine and one program in it.
async fn evaluate(
    (prelude, javascript): (Option<String>, String),
    bindings: Vec<CodeBinding>,
    watch: Arc<Watch>,
    memory_bytes: usize,
) -> Ended {
    // The last line is ours.
    let n_lines = javascript.matches('\n').count();
    let engine_failed = |error: rquickjs::Error| CodeError {
        kind: CodeErrorKind::WorkerExit,
        message: format!("the engine failed: {error}"),
    };
    let runtime = AsyncRuntime::new().map_err(engine_failed)?;
    runtime.set_memory_limit(memory_bytes).await;
    runtime.set_max_stack_size(PROGRAM_STACK_BYTES).await;
    let asked = watch.clone();
    runtime.set_interrupt_handler(Some(Box::new(move || asked.must_stop()))).await;
    let context = AsyncContext::full(&runtime).await.map_err(engine_failed)?;
    context
        .async_with(async move |ctx| {
            let world = prepare(&ctx, bindings, watch).map_err(engine_failed)?;
            let conclude: Option<Function<'_>> = match prelude {
                Some(prelude) => Some(ctx.eval(prelude).map_err(engine_failed)?),
                None => None,
            };
            let ended = execute(&ctx, javascript).await;
            let ended = ended.and_then(|value| match conclude {
                Some(conclude) => conclude.call((value,)),
                None => Ok(value),
            });
            match ended.catch(&ctx) {
                Ok(value) => {
                    let to_json: Function<'_> = world.get("toJson").map_err(engine_failed)?;
                    let json: Result<Option<String>, _> = to_json.call((value,)).catch(&ctx);
                    json.map_err(|error| {
                        let message = thrown(&ctx, &world, error).0;
                        let message = message.strip_prefix("TypeError: ").unwrap_or(&message).to_owned();
                        CodeError { kind: CodeErrorKind::InvalidOutput, message }
                    })
                }
                Err(error) => Err(exception(&ctx, &world, error, (memory_bytes, n_lines))),
            }
        })
        .await
}

/// Makes the world of the program; its way to the host is in no global.
fn prepare<'js>(
    ctx: &Ctx<'js>,
    bindings: Vec<CodeBinding>,
    watch: Arc<Watch>,
) -> rquickjs::Result<Object<'js>> {
    let spec: Vec<serde_json::Value> = bindings
        .iter()
        .map(|binding| {
            json!({
                "global": binding.global,
                "functions": binding.functions,
                "errorClass": binding.error_class.name,
                "member": binding.error_class.member,
            })
        })
        .collect();
    let hosts: Vec<_> = bindings.into_iter().map(|binding| binding.host).collect();
    let open_bytes = Arc::new(AtomicUsize::new(0));
    let call = Func::from(Async(move |binding: usize, name: String, argument: String| {
        // Taken in here, in the order of the program; only the answer is waited for.
        let open = Open::new(&open_bytes, argument.len());
        let answer = match (hosts.get(binding), serde_json::from_str(&argument)) {
            _ if open_bytes.load(Ordering::Relaxed) > MAX_OPEN_BYTES => {
                Err("the arguments of the calls that wait are too large; await some of them first".to_owned())
            }
            (Some(host), Ok(argument)) => Ok(host.call(&name, argument)),
            (_, Err(error)) => Err(format!("the argument cannot be taken over: {error}")),
            (None, _) => Err("nothing is bound here".to_owned()),
        };
        async move {
            let _open = open;
            let answer = match answer {
                Ok(answer) => answer.await,
                Err(message) => Err(message),
            };
            match answer {
                Ok(value) => format!("v{value}"),
                Err(message) => format!("e{message}"),
            }
        }
    }));
    let print = Func::from(move |text: String| watch.print(text));
    let install: Function<'js> = ctx.eval(PRELUDE)?;
    install.call((call, print, serde_json::Value::from(spec).to_string()))
}

/// The argument of a call, until the call is answered.
struct Open {
    all: Arc<AtomicUsize>,
    bytes: usize,
}

impl Open {
    fn new(all: &Arc<AtomicUsize>, bytes: usize) -> Self {
        all.fetch_add(bytes, Ordering::Relaxed);
        Self { all: all.clone(), bytes }
    }
}

impl Drop for Open {
    fn drop(&mut self) {
        self.all.fetch_sub(self.bytes, Ordering::Relaxed);
    }
}

async fn execute<'js>(ctx: &Ctx<'js>, javascript: String) -> rquickjs::Result<Value<'js>> {
    let mut options = EvalOptions::default();
    options.strict = true;
    options.filename = Some(FILE.to_owned());
    let promise: Promise<'js> = ctx.eval_with_options(javascript, options)?;
    promise.into_future().await
}

fn exception<'js>(
    ctx: &Ctx<'js>,
    world: &Object<'js>,
    error: CaughtError<'js>,
    (memory_bytes, n_lines): (usize, usize),
) -> CodeError {
    let (text, stack) = thrown(ctx, world, error);
    if text == "InternalError: out of memory" {
        let message = format!("the program needs more than {} MiB of memory", memory_bytes >> 20);
        return CodeError { kind: CodeErrorKind::WorkerExit, message };
    }
    let text = match text.as_str() {
        "null" => format!(
            "null was thrown; the engine does so too when {} MiB of memory are used up",
            memory_bytes >> 20
        ),
        _ => text,
    };
    let frames = stack.lines().filter_map(|line| frame(line, n_lines)).take(MAX_FRAMES);
    let lines: Vec<String> =
        std::iter::once(text).chain(frames.map(|frame| format!("    at {frame}"))).collect();
    CodeError { kind: CodeErrorKind::Exception, message: lines.join("\n") }
}

/// What was thrown as a text, and its stack.
fn thrown<'js>(ctx: &Ctx<'js>, world: &Object<'js>, error: CaughtError<'js>) -> (String, String) {
    let value = match error {
        CaughtError::Exception(exception) => exception.into_value(),
        CaughtError::Value(value) => value,
        CaughtError::Error(error) => return (error.to_string(), String::new()),
    };
    let described = world.get("describe").and_then(|describe: Function<'js>| describe.call((value,)));
    let texts: Vec<String> = described.catch(ctx).unwrap_or_default();
    let mut texts = texts.into_iter();
    match (texts.next(), texts.next()) {
        (Some(text), Some(stack)) => (text, stack),
        _ => ("the program failed and its error cannot be read".to_owned(), String::new()),
    }
}

/// A frame of the program as it is told; `None` for a frame of the prelude, and of what starts the program behind its end.
fn frame(line: &str, n_lines: usize) -> Option<String> {
    let (before, place) = line.trim().strip_prefix("at ")?.split_once(&format!("{FILE}:"))?;
    // The engine's columns are those of its last step, not of what failed; lines are right.
    let number = place.split([':', ')']).next()?.parse::<usize>().ok().filter(|line| *line <= n_lines)?;
    let place = format!("{FILE}:{number}");
    let function = before.trim_end_matches('(').trim();
    match function {
        "" | "<anonymous>" | "<eval>" => Some(place),
        named => Some(format!("{named} ({place})")),
    }
}
