//! A batch: the calls of one model message, in model order, safe neighbours side by side.
//!
//! Only bodies overlap: judging and settling happen one call at a time, in model order. Called by the agent's turn.
//! Source: `spec/pipeline.md` §11.

use crate::call::Call;
use crate::caught::caught_sync;
use crate::context::SessionScope;
use crate::registry::{Registry, ResolvedToolSet, ScopeKey};
pub use crate::run::Pipeline;
use crate::run::{Admitted, Settled, Started};
use crate::tool::PromptSection;
use async_trait::async_trait;
use futures::StreamExt;
use futures::future::BoxFuture;
use futures::stream::FuturesUnordered;
use protocol::event::SessionEvent;
use protocol::id::CallId;
use protocol::message::{RequestedCall, ToolResultMessage, UserMessage};
use protocol::tool::{ExecutionMode, Outcome, ToolFailure, parse_arguments};
use serde_json::Value;
use std::collections::BTreeMap;
use std::num::NonZeroUsize;
use std::pin::pin;
use std::sync::Arc;
use tokio_util::sync::CancellationToken;

/// Bodies of safe calls that may run at once, when a batch says nothing.
pub const DEFAULT_MAX_PARALLEL: NonZeroUsize = match NonZeroUsize::new(10) {
    Some(ten) => ten,
    None => NonZeroUsize::MIN,
};

/// The calls of one model message.
#[derive(Clone, Default)]
pub struct Batch {
    /// The calls, in model order.
    pub calls: Vec<RequestedCall>,
    /// The turn they are logged under.
    pub turn: u64,
    /// The step they are logged under.
    pub step: u64,
    /// Ends the batch: nothing more starts, what runs is told and awaited.
    pub cancel: CancellationToken,
    /// Whose tools, guards and policies apply; `None` is the global layer's.
    pub scope: Option<ScopeKey>,
    /// What the step admitted; `None` admits every tool without a condition. The caller disposes it afterwards.
    pub tool_set: Option<Arc<ResolvedToolSet>>,
    /// Bodies of safe calls that may run at once; `None` is [`DEFAULT_MAX_PARALLEL`].
    pub max_parallel: Option<NonZeroUsize>,
    /// Whether call and result events are left out, for calls that no model asked for.
    pub unlogged: bool,
}

/// How one call of a batch ended.
#[derive(Clone, Debug, PartialEq)]
pub struct CallResult {
    /// The call.
    pub call_id: CallId,
    /// Its final outcome; the contexts are in [`BatchResult::additional_contexts`].
    pub outcome: Outcome,
}

/// How a batch ended.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct BatchResult {
    /// One a call, in model order, skipped calls included.
    pub results: Vec<CallResult>,
    /// User-role messages for the next step, in model order.
    pub additional_contexts: Vec<UserMessage>,
    /// Whether a successful call ended the turn.
    pub concluded: bool,
}

/// A batch could not go on. Everything started has ended; calls without a result have none in the log either.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
#[error("the calls could not be completed: {failure}")]
pub struct BatchError {
    /// The first failure.
    pub failure: ToolFailure,
    /// What was committed before it.
    pub committed: BatchResult,
}

/// Runs whole batches. The built-in one is [`OrderedExecutor`].
#[async_trait]
pub trait BatchExecutor: Send + Sync {
    /// Sections of the system prompt that live as long as this executor is selected.
    fn sections(&self) -> Vec<PromptSection> {
        Vec::new()
    }

    /// Runs every call; returns only once nothing it started runs any more.
    ///
    /// # Errors
    /// [`BatchError`]: the log could not be written. The caller stops what depends on the batch.
    ///
    /// # Cancellation
    /// Cancel `batch.cancel`. Dropping the future drops running bodies and leaves calls without results.
    async fn execute(
        &self,
        pipeline: &Pipeline,
        batch: Batch,
        session: &SessionScope,
    ) -> Result<BatchResult, BatchError>;
}

impl Pipeline {
    /// Runs a batch with the nearest executor of its scope, chosen now.
    ///
    /// # Errors
    /// [`BatchError`]: the log could not be written, or the selected executor went away.
    ///
    /// # Cancellation
    /// As [`BatchExecutor::execute`].
    pub async fn execute(&self, batch: Batch, session: &SessionScope) -> Result<BatchResult, BatchError> {
        match self.registry().executor(batch.scope) {
            None => OrderedExecutor.execute(self, batch, session).await,
            Some(Some(executor)) => executor.execute(self, batch, session).await,
            Some(None) => Err(BatchError {
                failure: ToolFailure::plain("the selected tool executor is gone"),
                committed: BatchResult::default(),
            }),
        }
    }

    /// The prompt sections of a scope's selected executor.
    pub fn executor_sections(&self, scope: Option<ScopeKey>) -> Vec<PromptSection> {
        self.registry().executor(scope).flatten().map(|executor| executor.sections()).unwrap_or_default()
    }
}

/// Whether a call may overlap with its neighbours, asked just before it starts.
pub fn execution_mode(
    registry: &Registry,
    name: &str,
    arguments: &Value,
    scope: Option<ScopeKey>,
    tool_set: Option<&ResolvedToolSet>,
) -> ExecutionMode {
    let is_safe = registry
        .executable(name, scope, tool_set)
        .is_some_and(|tool| caught_sync(name, || tool.is_concurrency_safe(arguments)).unwrap_or(false));
    match is_safe {
        true => ExecutionMode::Parallel,
        false => ExecutionMode::Exclusive,
    }
}

/// Exclusive calls run alone; consecutive safe ones share a rolling pool.
pub struct OrderedExecutor;

#[async_trait]
impl BatchExecutor for OrderedExecutor {
    async fn execute(
        &self,
        pipeline: &Pipeline,
        batch: Batch,
        session: &SessionScope,
    ) -> Result<BatchResult, BatchError> {
        let cancel = batch.cancel.child_token();
        let calls = batch.calls.iter().map(|call| (call.clone(), parse_arguments(&call.arguments))).collect();
        let lane = Lane {
            pipeline,
            batch: &batch,
            session,
            cancel,
            calls,
            bodies: FuturesUnordered::new(),
            settled: BTreeMap::new(),
            result: BatchResult::default(),
        };
        lane.run().await
    }
}

/// What the calls that are under way are, as far as the next one is concerned.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Group {
    /// Safe calls; more may join.
    Pool,
    /// Nothing may join until everything under way is committed.
    Closed,
}

/// The one road all calls of a batch take.
struct Lane<'a> {
    pipeline: &'a Pipeline,
    batch: &'a Batch,
    session: &'a SessionScope,
    /// The batch's cancellation, and the person's stop.
    cancel: CancellationToken,
    calls: Vec<(RequestedCall, Value)>,
    bodies: FuturesUnordered<BoxFuture<'a, (usize, Settled)>>,
    /// Bodies that ended and wait for their turn.
    settled: BTreeMap<usize, Settled>,
    result: BatchResult,
}

impl Lane<'_> {
    async fn run(mut self) -> Result<BatchResult, BatchError> {
        match self.drive().await {
            Ok(()) => Ok(self.result),
            Err(failure) => {
                // Nothing started may outlive the batch; what it did stays uncommitted.
                while self.bodies.next().await.is_some() {}
                Err(BatchError { failure, committed: self.result })
            }
        }
    }

    async fn drive(&mut self) -> Result<(), ToolFailure> {
        let max_parallel = self.batch.max_parallel.unwrap_or(DEFAULT_MAX_PARALLEL).get();
        let mut next = 0;
        let mut group = Group::Closed;
        loop {
            let committed = self.result.results.len();
            if let Some(settled) = self.settled.remove(&committed) {
                self.commit(committed, settled).await?;
                continue;
            }
            let is_idle = committed == next;
            if next < self.calls.len() {
                if self.cancel.is_cancelled() {
                    if is_idle {
                        self.log_call(next)?;
                        let skipped = self.pipeline.skip(self.call(next));
                        self.commit(next, skipped).await?;
                        next += 1;
                        continue;
                    }
                } else if is_idle || (group == Group::Pool && self.bodies.len() < max_parallel) {
                    let mode = self.mode(next);
                    if is_idle || mode == ExecutionMode::Parallel {
                        group = match mode {
                            ExecutionMode::Parallel => Group::Pool,
                            ExecutionMode::Exclusive => Group::Closed,
                        };
                        self.start(next).await?;
                        next += 1;
                        continue;
                    }
                    group = Group::Closed;
                }
            } else if is_idle {
                return Ok(());
            }
            // Everything before `next` that is not committed is settled or runs, and the first of them runs.
            if let Some((idx, settled)) = self.bodies.next().await {
                self.settled.insert(idx, settled);
            }
        }
    }

    fn mode(&self, idx: usize) -> ExecutionMode {
        let (requested, arguments) = &self.calls[idx];
        execution_mode(
            self.pipeline.registry(),
            &requested.name,
            arguments,
            self.batch.scope,
            self.batch.tool_set.as_deref(),
        )
    }

    fn call(&self, idx: usize) -> Call {
        let (requested, arguments) = &self.calls[idx];
        Call {
            call_id: requested.id.clone(),
            root_call_id: None,
            parent: None,
            name: requested.name.clone(),
            arguments: arguments.clone(),
            session: self.session.clone(),
            scope: self.batch.scope,
            tool_set: self.batch.tool_set.clone(),
            cancel: self.cancel.clone(),
        }
    }

    /// Judges a call and launches its body.
    async fn start(&mut self, idx: usize) -> Result<(), ToolFailure> {
        self.log_call(idx)?;
        let judging = self.pipeline.start(self.call(idx));
        match overlap(judging, &mut self.bodies, &mut self.settled).await {
            Started::Admitted(admitted) => self.bodies.push(body(self.pipeline, idx, admitted)),
            Started::Settled(settled) => {
                if settled.user_stopped() {
                    self.cancel.cancel();
                }
                self.settled.insert(idx, settled);
            }
        }
        Ok(())
    }

    /// Logs that a call starts.
    fn log_call(&self, idx: usize) -> Result<(), ToolFailure> {
        let (requested, _) = &self.calls[idx];
        self.log(|| SessionEvent::ToolCall {
            turn: self.batch.turn,
            step: self.batch.step,
            call_id: requested.id.clone(),
            name: requested.name.clone(),
            arguments: requested.arguments.clone(),
        })
    }

    /// Finishes a call and logs its result.
    async fn commit(&mut self, idx: usize, settled: Settled) -> Result<(), ToolFailure> {
        let finishing = self.pipeline.finish(settled);
        let mut outcome = overlap(finishing, &mut self.bodies, &mut self.settled).await;
        let call_id = self.calls[idx].0.id.clone();
        self.log(|| SessionEvent::ToolResult {
            turn: self.batch.turn,
            step: self.batch.step,
            message: ToolResultMessage {
                call_id: call_id.clone(),
                content: outcome.content.clone(),
                is_error: outcome.is_error(),
            },
            error: outcome.result.as_ref().err().cloned(),
            meta: outcome.meta.clone(),
        })?;
        self.result.additional_contexts.append(&mut outcome.additional_contexts);
        self.result.concluded |= outcome.concludes_turn;
        self.result.results.push(CallResult { call_id, outcome });
        Ok(())
    }

    fn log(&self, event: impl FnOnce() -> SessionEvent) -> Result<(), ToolFailure> {
        match self.batch.unlogged {
            true => Ok(()),
            false => self.session.host.append(event()),
        }
    }
}

fn body<'a>(pipeline: &'a Pipeline, idx: usize, admitted: Admitted) -> BoxFuture<'a, (usize, Settled)> {
    Box::pin(async move { (idx, pipeline.dispatch(admitted).await) })
}

/// Waits for a step of the lane while the running bodies go on.
async fn overlap<T>(
    step: impl Future<Output = T>,
    bodies: &mut FuturesUnordered<BoxFuture<'_, (usize, Settled)>>,
    settled: &mut BTreeMap<usize, Settled>,
) -> T {
    let mut step = pin!(step);
    loop {
        tokio::select! {
            biased;
            done = &mut step => return done,
            Some((idx, body)) = bodies.next(), if !bodies.is_empty() => {
                settled.insert(idx, body);
            }
        }
    }
}
