//! Running a program that calls functions of ours.
//!
//! Called by `run_code` and `workflow`. A run starts in a fresh, empty world: it shares nothing with another run and reaches files,
//! processes, the network and timers only through what it is bound to. That contains mistakes of a program; it is no
//! wall against an attacker. Source: `spec/tools-files-shell.md` §16.

use async_trait::async_trait;
use futures::future::BoxFuture;
use serde_json::Value;
use std::fmt;
use std::sync::Arc;
use std::time::Duration;
use tokio_util::sync::CancellationToken;

/// Runs programs. Builds nothing before the first run.
#[async_trait]
pub trait CodeRuntime: Send + Sync {
    /// The language of its programs; decides which declarations the model is shown.
    fn language(&self) -> CodeLanguage;

    /// Runs a program to its end. What goes wrong inside it is a part of the outcome.
    ///
    /// # Errors
    /// [`CodeMisuse`]: the bindings cannot be made; nothing ran.
    ///
    /// # Cancellation
    /// Cancel `request.cancel`: the program is stopped wherever it is, also in an endless loop. Dropping the future
    /// does the same.
    async fn run(&self, request: CodeRequest) -> Result<CodeOutcome, CodeMisuse>;
}

/// A language programs are written in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CodeLanguage {
    /// TypeScript whose types can be erased; they are not checked.
    TypeScript,
}

/// A program to run.
pub struct CodeRequest {
    /// The body of an async function in strict mode.
    pub program: String,
    /// Our own JavaScript, evaluated before the program to a function, in a world where `bindings` are globals already: it may
    /// define further globals, and its function gets what the program returned and gives what stands for it.
    pub prelude: Option<String>,
    /// What it can call.
    pub bindings: Vec<CodeBinding>,
    /// What it may use.
    pub limits: CodeLimits,
    /// Ends the run.
    pub cancel: CancellationToken,
}

/// A global object of async functions.
pub struct CodeBinding {
    /// Its name: letters, digits and `_`, no digit first, no reserved word.
    pub global: String,
    /// Names of its functions; any string, each once.
    pub functions: Vec<String>,
    /// What a function rejects with.
    pub error_class: CodeErrorClass,
    /// Who answers.
    pub host: Arc<dyn CodeHost>,
}

/// A class of errors, a global beside its binding.
pub struct CodeErrorClass {
    /// Its name, with the bounds of [`CodeBinding::global`].
    pub name: String,
    /// The member that holds the name of the function; not a member every error has.
    pub member: String,
}

/// Answers the calls of a program.
pub trait CodeHost: Send + Sync {
    /// Takes a call in. Called in the order in which the program calls, from the thread the program runs on, which it
    /// must not hold up; the answer may come at any time, or never once the run is over.
    ///
    /// The error is the message the program catches.
    fn call(&self, function: &str, argument: Value) -> BoxFuture<'static, Result<Value, String>>;
}

/// What a run may use. Source: `spec/tools-files-shell.md` §16.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CodeLimits {
    /// Time in which the program computes; waiting for a call is free.
    pub busy: Duration,
    /// Time from start to end, waiting included.
    pub wall: Duration,
    /// Bytes of JSON that logs and value (or the message of a failure) may take.
    pub output_bytes: usize,
    /// Bytes of memory of the program.
    pub memory_bytes: usize,
}

impl Default for CodeLimits {
    fn default() -> Self {
        Self {
            busy: Duration::from_secs(60),
            wall: Duration::from_secs(600),
            output_bytes: 64 << 20,
            memory_bytes: 512 << 20,
        }
    }
}

/// How a program ended.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct CodeOutcome {
    /// What it returned; `None` when it returned nothing, or failed.
    pub value: Option<Value>,
    /// What it printed, one entry a call of `console`, also when it failed.
    pub logs: Vec<String>,
    /// Why it failed.
    pub error: Option<CodeError>,
}

/// Why a program failed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CodeError {
    /// What kind of failure it is.
    pub kind: CodeErrorKind,
    /// What happened, with the place in the program where it is known.
    pub message: String,
}

/// What kind of failure it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CodeErrorKind {
    /// It threw, or it is no program.
    Exception,
    /// It took too long.
    Timeout,
    /// It was cancelled.
    Abort,
    /// The engine gave up, for instance for want of memory.
    WorkerExit,
    /// It returned what is no JSON.
    InvalidOutput,
    /// It printed or returned too much.
    OutputLimit,
}

impl CodeErrorKind {
    /// The kind as the model reads it.
    pub fn id(self) -> &'static str {
        match self {
            Self::Exception => "exception",
            Self::Timeout => "timeout",
            Self::Abort => "abort",
            Self::WorkerExit => "worker-exit",
            Self::InvalidOutput => "invalid-output",
            Self::OutputLimit => "output-limit",
        }
    }
}

impl fmt::Display for CodeErrorKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.id())
    }
}

/// The bindings of a run cannot be made: a fault of the caller.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct CodeMisuse(
    /// What is wrong.
    pub String,
);
