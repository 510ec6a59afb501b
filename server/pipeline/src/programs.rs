//! The calls of a program: each one goes through the whole pipeline, on one ordered lane.
//!
//! Called by the body of `run_code`, which binds a [`ProgramCalls`] to its program and drives the run and the lane
//! together. What the model is told about it is in [`crate::sdk`]. Source: `spec/pipeline.md` §14.

use crate::caught::caught;
use crate::context::{Nested, ToolContext};
use crate::policy::Policy;
use crate::run::{Admitted, Settled, Started};
use crate::schedule::{DEFAULT_MAX_PARALLEL, execution_mode};
use futures::StreamExt;
use futures::future::BoxFuture;
use futures::stream::{FuturesOrdered, FuturesUnordered};
use protocol::content::ContentBlock;
use protocol::event::SessionEvent;
use protocol::id::{CallId, MessageId};
use protocol::message::{ContextForm, MessageSource, UserMessage};
use protocol::tool::{DurableResult, ExecutionMode, Outcome, ToolFailure};
use serde_json::Value;
use services::code_runtime::CodeHost;
use std::collections::{BTreeMap, VecDeque};
use std::num::NonZeroUsize;
use std::pin::pin;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use tokio::sync::{mpsc, oneshot};
use tokio_util::sync::CancellationToken;

/// Calls that may wait to be started.
const MAX_WAITING: usize = 10_000;
/// What a program reads when it calls after its end.
const RUN_IS_OVER: &str = "the run is over; this call was not made";

/// Identity of a sub-call. Opaque to readers.
pub fn sub_call_id(parent: &CallId, n: usize) -> CallId {
    CallId::new(format!("{parent}:ptc:{n}"))
}

/// A sub-call that ended and is about to be logged, as policies see it.
pub struct SubCallLog<'a> {
    /// The program's call.
    pub parent: &'a ToolContext,
    /// The sub-call.
    pub call_id: &'a CallId,
    /// Name of its tool.
    pub name: &'a str,
    /// Whether it failed.
    pub is_error: bool,
}

/// A call that the program made and nobody started yet.
struct Submitted {
    n: usize,
    name: String,
    arguments: Value,
    reply: oneshot::Sender<Result<Value, String>>,
}

/// The program's end of the lane.
pub struct ProgramCalls {
    state: Mutex<(usize, mpsc::UnboundedSender<Submitted>)>,
    waiting: Arc<AtomicUsize>,
    signal: CancellationToken,
}

impl CodeHost for ProgramCalls {
    fn call(&self, function: &str, argument: Value) -> BoxFuture<'static, Result<Value, String>> {
        let refused = |message: &str| -> BoxFuture<'static, _> {
            let message = message.to_owned();
            Box::pin(async move { Err(message) })
        };
        if self.signal.is_cancelled() {
            return refused(RUN_IS_OVER);
        }
        // The channel is unbounded, what waits is not: a program that calls without end is told so.
        if self.waiting.load(Ordering::Relaxed) >= MAX_WAITING {
            return refused("too many calls wait already; await some of them first");
        }
        let (reply, answer) = oneshot::channel();
        let sent = {
            let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
            let n = state.0 + 1;
            state.0 = n;
            state.1.send(Submitted { n, name: function.to_owned(), arguments: argument, reply })
        };
        match sent {
            Err(_) => refused(RUN_IS_OVER),
            Ok(()) => {
                self.waiting.fetch_add(1, Ordering::Relaxed);
                Box::pin(async move { answer.await.unwrap_or_else(|_| Err(RUN_IS_OVER.to_owned())) })
            }
        }
    }
}

/// The one road all calls of a program take.
pub struct ProgramLane<'a> {
    context: &'a ToolContext,
    nested: &'a Nested,
    signal: CancellationToken,
    calls: Arc<ProgramCalls>,
    submitted: mpsc::UnboundedReceiver<Submitted>,
    max_parallel: NonZeroUsize,
}

impl<'a> ProgramLane<'a> {
    /// The lane of a call that runs a program; `max_parallel` bodies may run at once, [`DEFAULT_MAX_PARALLEL`] by default.
    ///
    /// # Errors
    /// The call has no way back into the pipeline.
    pub fn new(context: &'a ToolContext, max_parallel: Option<NonZeroUsize>) -> Result<Self, ToolFailure> {
        let nested = context.nested().ok_or_else(|| ToolFailure::plain("no tool can be called from here"))?;
        let (sender, submitted) = mpsc::unbounded_channel();
        let signal = context.cancel.child_token();
        let calls =
            ProgramCalls { state: Mutex::new((0, sender)), waiting: Arc::default(), signal: signal.clone() };
        let max_parallel = max_parallel.unwrap_or(DEFAULT_MAX_PARALLEL);
        Ok(Self { context, nested, signal, calls: Arc::new(calls), submitted, max_parallel })
    }

    /// The names a program can call, in the order of the registry.
    pub fn names(&self) -> Vec<String> {
        let registry = self.nested.pipeline.registry();
        let tools = registry.definitions(self.nested.scope, self.nested.tool_set.as_deref());
        tools.iter().map(|tool| tool.schema().name.clone()).collect()
    }

    /// Who takes in the program's calls.
    pub fn host(&self) -> Arc<dyn CodeHost> {
        self.calls.clone()
    }

    /// Ends the run; cancelled with the call.
    pub fn signal(&self) -> &CancellationToken {
        &self.signal
    }

    /// Waits for the run and makes its calls meanwhile. When the run ends, calls that run are cancelled and awaited, and
    /// calls that wait are refused.
    ///
    /// # Errors
    /// The log could not be written; nothing runs any more.
    pub async fn drive<T>(self, run: impl Future<Output = T>) -> Result<T, ToolFailure> {
        let signal = self.signal.clone();
        let mut road = Road {
            context: self.context,
            nested: self.nested,
            signal: self.signal,
            submitted: self.submitted,
            waiting: self.calls.waiting.clone(),
            max_parallel: self.max_parallel.get(),
            queue: VecDeque::new(),
            under_way: Bodies { bodies: FuturesUnordered::new(), settled: BTreeMap::new() },
            started: Vec::new(),
            n_committed: 0,
            logs: FuturesOrdered::new(),
        };
        drop(self.calls);
        let run = async {
            let output = run.await;
            signal.cancel();
            output
        };
        let lane = async {
            let driven = road.run().await;
            // Without a log nothing may go on; the program is stopped and what runs is awaited.
            signal.cancel();
            while road.under_way.next().await {}
            driven
        };
        let (output, driven) = tokio::join!(run, lane);
        driven.map(|()| output)
    }
}

/// A call that was started and is not committed.
struct UnderWay {
    call_id: CallId,
    name: String,
    arguments: Value,
    reply: oneshot::Sender<Result<Value, String>>,
}

/// What the calls that are under way are, as far as the next one is concerned.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Group {
    /// Safe calls; more may join.
    Pool,
    /// Nothing may join until everything under way is committed.
    Closed,
}

/// Bodies that run, and those that ended and wait for their turn.
struct Bodies<'a> {
    bodies: FuturesUnordered<BoxFuture<'a, (usize, Settled)>>,
    settled: BTreeMap<usize, Settled>,
}

impl Bodies<'_> {
    /// Waits until a body ends; `false` when none runs.
    async fn next(&mut self) -> bool {
        match self.bodies.next().await {
            Some((idx, settled)) => {
                self.settled.insert(idx, settled);
                true
            }
            None => false,
        }
    }

    /// Waits for a step of the lane while the bodies go on.
    async fn overlap<T>(&mut self, step: impl Future<Output = T>) -> T {
        let mut step = pin!(step);
        loop {
            tokio::select! {
                biased;
                done = &mut step => return done,
                _ = self.next(), if !self.bodies.is_empty() => {}
            }
        }
    }
}

struct Road<'a> {
    context: &'a ToolContext,
    nested: &'a Nested,
    signal: CancellationToken,
    submitted: mpsc::UnboundedReceiver<Submitted>,
    waiting: Arc<AtomicUsize>,
    max_parallel: usize,
    queue: VecDeque<Submitted>,
    under_way: Bodies<'a>,
    /// Every started call, in order; committed ones are taken out.
    started: Vec<Option<UnderWay>>,
    n_committed: usize,
    /// Settle events on their way into the log, in the order of the commits.
    logs: FuturesOrdered<BoxFuture<'a, SessionEvent>>,
}

impl Road<'_> {
    async fn run(&mut self) -> Result<(), ToolFailure> {
        let mut group = Group::Closed;
        loop {
            while let Ok(submitted) = self.submitted.try_recv() {
                self.queue.push_back(submitted);
            }
            if let Some(settled) = self.under_way.settled.remove(&self.n_committed) {
                self.commit(settled).await;
                continue;
            }
            let is_over = self.signal.is_cancelled();
            let is_idle = self.n_committed == self.started.len();
            if is_over {
                self.refuse_waiting();
                if is_idle && self.logs.is_empty() {
                    return Ok(());
                }
            } else if self.logs.len() < self.max_parallel
                && (is_idle || group == Group::Pool && self.under_way.bodies.len() < self.max_parallel)
                && let Some(next) = self.queue.pop_front()
            {
                let mode = self.mode(&next);
                if is_idle || mode == ExecutionMode::Parallel {
                    group = match mode {
                        ExecutionMode::Parallel => Group::Pool,
                        ExecutionMode::Exclusive => Group::Closed,
                    };
                    self.start(next).await?;
                } else {
                    group = Group::Closed;
                    self.queue.push_front(next);
                }
                continue;
            }
            tokio::select! {
                biased;
                () = self.signal.cancelled(), if !is_over => {}
                Some(event) = self.logs.next(), if !self.logs.is_empty() => self.context.session.host.append(event)?,
                _ = self.under_way.next(), if !self.under_way.bodies.is_empty() => {}
                Some(submitted) = self.submitted.recv(), if !is_over => self.queue.push_back(submitted),
            }
        }
    }

    /// What was never started leaves no trace.
    fn refuse_waiting(&mut self) {
        self.submitted.close();
        while let Ok(submitted) = self.submitted.try_recv() {
            self.queue.push_back(submitted);
        }
        for submitted in self.queue.drain(..) {
            // The program may be gone already.
            let _ = submitted.reply.send(Err(RUN_IS_OVER.to_owned()));
        }
    }

    fn mode(&self, next: &Submitted) -> ExecutionMode {
        execution_mode(
            self.nested.pipeline.registry(),
            &next.name,
            &next.arguments,
            self.nested.scope,
            self.nested.tool_set.as_deref(),
        )
    }

    /// Logs that a call starts, judges it and launches its body.
    async fn start(&mut self, next: Submitted) -> Result<(), ToolFailure> {
        self.waiting.fetch_sub(1, Ordering::Relaxed);
        let Submitted { n, name, arguments, reply } = next;
        let execution = &self.context.execution;
        let call_id = sub_call_id(&execution.call_id, n);
        self.context.session.host.append(SessionEvent::PtcDispatchStart {
            root_call_id: execution.root_call_id.clone(),
            parent_call_id: execution.call_id.clone(),
            sub_call_id: call_id.clone(),
            name: name.clone(),
            arguments: arguments.clone(),
        })?;
        let call =
            self.context.sub_call(call_id.clone(), name.clone(), arguments.clone(), self.signal.clone());
        let idx = self.started.len();
        self.started.push(Some(UnderWay { call_id, name, arguments, reply }));
        match self.under_way.overlap(self.nested.pipeline.start(call)).await {
            Started::Admitted(admitted) => self.launch(idx, admitted),
            Started::Settled(settled) => {
                self.under_way.settled.insert(idx, settled);
            }
        }
        Ok(())
    }

    fn launch(&mut self, idx: usize, admitted: Admitted) {
        let pipeline = &self.nested.pipeline;
        self.under_way.bodies.push(Box::pin(async move { (idx, pipeline.dispatch(admitted).await) }));
    }

    /// Finishes a call: the program gets its value, the outer call what it defers, the log its end.
    async fn commit(&mut self, settled: Settled) {
        let mut outcome = self.under_way.overlap(self.nested.pipeline.finish(settled)).await;
        let idx = self.n_committed;
        self.n_committed += 1;
        let Some(UnderWay { call_id, name, arguments, reply }) = self.started[idx].take() else { return };
        for context in std::mem::take(&mut outcome.additional_contexts) {
            self.context.defer_context(context);
        }
        let has_image = outcome.content.iter().any(|block| matches!(block, ContentBlock::Image { .. }));
        if has_image && !outcome.is_error() {
            self.context.defer_context(shown_later(&call_id, &name, &outcome));
        }
        if outcome.concludes_turn {
            self.context.conclude_turn();
        }
        let result = outcome.durable();
        // The program may be over; its late results are logged all the same.
        let _ = reply.send(outcome.result.map_err(|failure| failure.message));
        let (context, policies) = (self.context, self.nested.pipeline.registry().policies(self.nested.scope));
        self.logs.push_back(Box::pin(settle_event(context, policies, call_id, name, arguments, result)));
    }
}

/// The images of a sub-result, for the model to see: a program can only pass on text.
fn shown_later(call_id: &CallId, name: &str, outcome: &Outcome) -> UserMessage {
    let mut content = vec![ContentBlock::text(format!("Result of tools.{name} ({call_id}):"))];
    content.extend(outcome.content.iter().cloned());
    UserMessage {
        id: MessageId::new(format!("msg_{call_id}")),
        content,
        source: MessageSource::Plugin { plugin: "run_code".to_owned(), form: ContextForm::Relay },
    }
}

/// The event that ends a sub-call. Policies may replace the content that is logged, and nothing else.
async fn settle_event(
    context: &ToolContext,
    policies: Vec<Arc<dyn Policy>>,
    sub_call_id: CallId,
    name: String,
    arguments: Value,
    mut result: DurableResult,
) -> SessionEvent {
    let log = SubCallLog { parent: context, call_id: &sub_call_id, name: &name, is_error: result.is_error };
    for policy in policies {
        let changed = caught(policy.name(), policy.log_sub_call(&log, &result.content)).await;
        match changed.and_then(|changed| changed) {
            Ok(None) => {}
            Ok(Some(content)) => result.content = content,
            Err(failure) => {
                tracing::warn!(policy = policy.name(), %failure, "the content of a sub-call is logged as it was");
            }
        }
    }
    SessionEvent::PtcDispatch {
        root_call_id: context.execution.root_call_id.clone(),
        parent_call_id: context.execution.call_id.clone(),
        sub_call_id,
        name,
        arguments,
        result,
    }
}
