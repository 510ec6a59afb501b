//! Programs in an embedded JavaScript engine, TypeScript included: implements `services::code_runtime`.
//!
//! * [`QuickJsRuntime`]: checks the bindings, gives each run a thread of its own, and waits.
//! * `typescript`: erases the types. `engine`: one run. `watch`: its limits. `prelude.js`: the world of a program.
//!
//! The only crate that links the engine; only the program's composition names it. Nothing is built before a run.

#![deny(missing_docs)]

mod depth;
mod engine;
mod misuse;
#[cfg(test)]
mod tests;
mod typescript;
mod watch;

use async_trait::async_trait;
use services::code_runtime::{
    CodeError, CodeErrorKind, CodeLanguage, CodeMisuse, CodeOutcome, CodeRequest, CodeRuntime,
};
use std::thread;
use tokio::sync::oneshot;
use tokio_util::sync::CancellationToken;

/// Stack of a run's thread. Only touched pages count; the parser of a deeply nested program needs them.
const STACK_BYTES: usize = 512 << 20;
/// Longest program.
const MAX_PROGRAM_BYTES: usize = 512 << 10;

/// Runs each program in a fresh engine on a thread of its own.
#[derive(Clone, Copy, Debug, Default)]
pub struct QuickJsRuntime;

#[async_trait]
impl CodeRuntime for QuickJsRuntime {
    fn language(&self) -> CodeLanguage {
        CodeLanguage::TypeScript
    }

    async fn run(&self, mut request: CodeRequest) -> Result<CodeOutcome, CodeMisuse> {
        misuse::check(&request.bindings)?;
        if request.program.len() > MAX_PROGRAM_BYTES {
            let message = "the program is longer than 512 KiB; read large data with a tool";
            return Ok(failed(CodeErrorKind::Exception, message));
        }
        if depth::deepest(&request.program) > depth::MAX_DEPTH {
            let message =
                "the program nests too deeply, or has one endless statement; end statements with `;`";
            return Ok(failed(CodeErrorKind::Exception, message));
        }
        // Dropping this future stops the program too.
        let cancel = request.cancel.child_token();
        request.cancel = cancel.clone();
        let _stop = cancel.drop_guard();
        let (done, outcome) = oneshot::channel();
        let spawned =
            thread::Builder::new().name("program".to_owned()).stack_size(STACK_BYTES).spawn(move || {
                // Whoever waited may have been dropped.
                let _ = done.send(engine::run(request));
            });
        match spawned {
            // A thread that panicked sends nothing.
            Ok(_) => {
                Ok(outcome.await.unwrap_or_else(|_| failed(CodeErrorKind::WorkerExit, "the engine failed")))
            }
            Err(error) => {
                Ok(failed(CodeErrorKind::WorkerExit, &format!("no thread for the program: {error}")))
            }
        }
    }
}

fn failed(kind: CodeErrorKind, message: &str) -> CodeOutcome {
    CodeOutcome { error: Some(CodeError { kind, message: message.to_owned() }), ..CodeOutcome::default() }
}

/// The cancellation of a request, for the engine's own use.
type Cancel = CancellationToken;
