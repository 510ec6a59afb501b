//! One call through its stages. Each call gets exactly one outcome; nothing here returns an error.
//!
//! `start` judges (in order, never overlapping), `dispatch` runs the body (may overlap), `finish` settles (in order).
//! Called by the batch executor and by tools that make calls of their own. Source: `spec/pipeline.md` §9.

use crate::approval::{self, Answer, Question};
use crate::call::{Call, PendingCall};
use crate::caught::{caught, caught_sync};
use crate::context::{Execution, Nested, ToolContext};
use crate::output::{argument_failure, program_only, succeed, unknown_tool};
use crate::policy::{Body, Dispatched, ExecuteNext, PostNext, PreNext};
use crate::registry::{RUN_CODE, Registry};
use crate::tool::Tool;
use async_trait::async_trait;
use protocol::content::ContentBlock;
use protocol::decision::{PostDecision, PostVerdict, PreDecision, SandboxGrant};
use protocol::live::LiveUpdate;
use protocol::message::UserMessage;
use protocol::schema;
use protocol::tool::{Outcome, ToolFailure};
use serde_json::Value;
use std::pin::pin;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use tokio_util::sync::CancellationToken;

/// Runs calls with the tools, policies and guards of a registry. Cheap to clone.
#[derive(Clone)]
pub struct Pipeline {
    registry: Registry,
    last_seal: Arc<AtomicU64>,
}

/// A call that was judged.
pub enum Started {
    /// Its body may be entered.
    Admitted(Admitted),
    /// It is over without its body.
    Settled(Settled),
}

/// A call whose body may be entered.
pub struct Admitted {
    call: PendingCall,
    grant: Option<SandboxGrant>,
}

/// A call whose body, if it was entered, has ended; its outcome is not final yet.
pub struct Settled {
    call: PendingCall,
    outcome: Outcome,
    /// Whether the body was entered.
    entered: bool,
    /// Whether post-execute policies are skipped: the pipeline itself ended the call.
    bypasses_post: bool,
    user_stopped: bool,
}

impl Settled {
    /// Whether the person stopped the turn when asked about this call; no later call of the batch may run.
    pub fn user_stopped(&self) -> bool {
        self.user_stopped
    }
}

impl Pipeline {
    /// A pipeline over a registry.
    pub fn new(registry: Registry) -> Self {
        Self { registry, last_seal: Arc::default() }
    }

    /// The registry.
    pub fn registry(&self) -> &Registry {
        &self.registry
    }

    /// Runs a call to its end.
    ///
    /// # Cancellation
    /// Cancel `call.cancel`: the body is told and awaited. Dropping the future drops the body where it stands.
    pub async fn run(&self, call: Call) -> Outcome {
        let settled = match self.start(call).await {
            Started::Admitted(admitted) => self.dispatch(admitted).await,
            Started::Settled(settled) => settled,
        };
        self.finish(settled).await
    }

    /// Judges a call: arguments, reachability, cancellation, policies, the person, guards. Calls of one batch are judged
    /// one after the other.
    pub async fn start(&self, call: Call) -> Started {
        let is_lossless = schema::is_lossless(&call.arguments);
        let call = self.pend(call, is_lossless);
        if !is_lossless {
            return bypass(
                call,
                ToolFailure::plain("the arguments are no lossless JSON: numbers must be finite and not -0"),
            );
        }
        let execution = &call.execution;
        if self.is_out_of_direct_reach(&call) {
            let failure = match call.cancel.is_cancelled() {
                true => ToolFailure::aborted_before_dispatch(),
                false => program_only(&execution.name),
            };
            return bypass(call, failure);
        }
        if call.cancel.is_cancelled() {
            return bypass(call, ToolFailure::aborted_before_dispatch());
        }
        let policies = self.registry.policies(call.scope);
        let decision = match PreNext::new(&policies, &call).run().await {
            Ok(decision) => decision,
            Err(failure) => return bypass(call, failure),
        };
        let grant = match decision {
            PreDecision::Allow => None,
            PreDecision::AllowWith { grant } => Some(grant),
            PreDecision::Deny { reason, info } => return settle(call, ToolFailure { message: reason, info }),
            PreDecision::Cancel => return settle(call, ToolFailure::aborted_before_dispatch()),
            PreDecision::Ask { reason, display_reason, rule, grant } => {
                let display_reason = display_reason.and_then(|mut texts| texts.remove("en"));
                let question = Question { reason, display_reason, rule, grant };
                match approval::ask(&call, question).await {
                    Err(failure) => return bypass(call, failure),
                    Ok(Answer::Allowed(grant)) => grant,
                    Ok(Answer::Refused(failure)) => return settle(call, failure),
                    Ok(Answer::Withdrawn) => return settle(call, ToolFailure::aborted_before_dispatch()),
                    Ok(Answer::Stopped) => {
                        let mut settled = settled(call, ToolFailure::aborted_before_dispatch());
                        settled.user_stopped = true;
                        return Started::Settled(settled);
                    }
                }
            }
        };
        if call.cancel.is_cancelled() {
            return settle(call, ToolFailure::aborted_before_dispatch());
        }
        match caught_sync("a guard", || self.registry.check_guards(call.scope, &call.execution)) {
            Err(failure) => bypass(call, failure),
            Ok(Some(reason)) => settle(call, ToolFailure::plain(reason)),
            Ok(None) => Started::Admitted(Admitted { call, grant }),
        }
    }

    /// Ends a call of a stopped batch without judging it: `ABORTED_BEFORE_DISPATCH`.
    pub fn skip(&self, call: Call) -> Settled {
        let is_lossless = schema::is_lossless(&call.arguments);
        let mut settled = settled(self.pend(call, is_lossless), ToolFailure::aborted_before_dispatch());
        settled.bypasses_post = true;
        settled
    }

    /// Runs the body inside the policies round it, and waits until it is quiescent.
    pub async fn dispatch(&self, admitted: Admitted) -> Settled {
        let Admitted { call, grant } = admitted;
        let seal = self.last_seal.fetch_add(1, Ordering::Relaxed) + 1;
        let step = BodyStep {
            pipeline: self,
            call: &call,
            grant,
            seal,
            entered: AtomicBool::new(false),
            deferred: Mutex::default(),
        };
        let policies = self.registry.policies(call.scope);
        let ran = ExecuteNext::new(&policies, &call, &step).run(call.cancel.child_token()).await;
        let entered = step.entered.load(Ordering::Relaxed);
        let mut contexts = step.deferred.into_inner().unwrap_or_else(PoisonError::into_inner);
        let bypasses_post = ran.is_err();
        let mut outcome = match ran {
            Err(failure) => Outcome::failed(failure),
            Ok(dispatched) => {
                contexts.extend(dispatched.contexts);
                match dispatched.seal == Some(seal) {
                    true => dispatched.outcome,
                    false => self.renormalise(&call, dispatched.outcome),
                }
            }
        };
        outcome.additional_contexts = contexts;
        abort_late_success(&call, entered, &mut outcome);
        if entered && call.is_top_level() {
            call.session.host.live(LiveUpdate::CallSettled {
                call_id: call.execution.call_id.clone(),
                result: outcome.durable(),
            });
        }
        Settled { call, outcome, entered, bypasses_post, user_stopped: false }
    }

    /// Applies what follows the body: projection, post-execute policies, late cancellation, the finalizer, observers.
    /// Calls of one batch are finished one after the other, in model order.
    pub async fn finish(&self, settled: Settled) -> Outcome {
        let Settled { call, mut outcome, entered, bypasses_post, .. } = settled;
        let policies = self.registry.policies(call.scope);
        if !bypasses_post {
            outcome = self.post_execute(&call, outcome, &policies).await;
        }
        abort_late_success(&call, entered, &mut outcome);
        finalize(&call, &mut outcome);
        for policy in &policies {
            // Logged where it is caught; an observer changes nothing.
            let _ = caught_sync(policy.name(), || policy.observe(&call, &outcome));
        }
        outcome
    }

    fn pend(&self, call: Call, keeps_arguments: bool) -> PendingCall {
        let tool = self.registry.executable(&call.name, call.scope, call.tool_set.as_deref());
        let arguments = match keeps_arguments {
            true => call.arguments,
            false => {
                schema::lossless::drop_value(call.arguments);
                Value::Null
            }
        };
        PendingCall {
            execution: Execution {
                session_id: call.session.session_id.clone(),
                root_call_id: call.root_call_id.unwrap_or_else(|| call.call_id.clone()),
                call_id: call.call_id,
                name: call.name,
                arguments: Arc::new(arguments),
                parent: call.parent,
            },
            session: call.session,
            scope: call.scope,
            tool_set: call.tool_set,
            cancel: call.cancel,
            tool,
        }
    }

    /// Whether the model called by name what only programs reach here.
    fn is_out_of_direct_reach(&self, call: &PendingCall) -> bool {
        call.is_top_level() && self.registry.is_reached_by_program_only(&call.execution.name, call.scope)
    }

    /// The tool that would run now.
    fn resolve(&self, call: &PendingCall) -> Result<Arc<dyn Tool>, ToolFailure> {
        let name = &call.execution.name;
        if self.is_out_of_direct_reach(call) {
            return Err(program_only(name));
        }
        if !call.is_top_level() && name == RUN_CODE {
            return Err(unknown_tool(name));
        }
        let tool = self.registry.executable(name, call.scope, call.tool_set.as_deref());
        tool.ok_or_else(|| unknown_tool(name))
    }

    /// A success that this dispatch did not validate goes through the output contract again.
    fn renormalise(&self, call: &PendingCall, outcome: Outcome) -> Outcome {
        match outcome.result {
            Err(_) => outcome,
            Ok(value) => match self.resolve(call) {
                Ok(tool) => succeed(tool.as_ref(), &call.execution.arguments, value, outcome.concludes_turn),
                Err(failure) => Outcome::failed(failure),
            },
        }
    }

    async fn post_execute(
        &self,
        call: &PendingCall,
        mut outcome: Outcome,
        policies: &[Arc<dyn crate::policy::Policy>],
    ) -> Outcome {
        let projected = call
            .tool
            .as_ref()
            .map(|tool| caught_sync("projectContent", || tool.project_content(&call.execution, &outcome)));
        match projected {
            Some(Err(failure)) => return with_contexts(failure, outcome.additional_contexts),
            Some(Ok(Some(content))) => outcome.content = content,
            Some(Ok(None)) | None => {}
        }
        match PostNext::new(policies, call, &outcome).run().await {
            Err(failure) => with_contexts(failure, outcome.additional_contexts),
            Ok(decision) => self.apply(call, outcome, decision),
        }
    }

    fn apply(&self, call: &PendingCall, mut outcome: Outcome, decision: PostDecision) -> Outcome {
        let PostDecision { verdict, additional_contexts } = decision;
        let mut contexts = std::mem::take(&mut outcome.additional_contexts);
        match verdict {
            PostVerdict::Accept => {}
            PostVerdict::AcceptContent(content) => outcome.content = content,
            PostVerdict::AcceptValue(value) => {
                outcome = match outcome.result {
                    Ok(_) => self.renormalise(call, Outcome { result: Ok(value), ..outcome }),
                    Err(_) => {
                        schema::lossless::drop_value(value);
                        Outcome::failed(ToolFailure::plain(
                            "a policy tried to give a failed call a value; the call stays failed",
                        ))
                    }
                };
            }
            PostVerdict::Block(feedback) => {
                contexts.clear();
                let message = block_message(&feedback);
                outcome = Outcome { content: feedback, ..Outcome::failed(ToolFailure::plain(message)) };
            }
        }
        contexts.extend(additional_contexts);
        outcome.additional_contexts = contexts;
        outcome
    }
}

fn settled(call: PendingCall, failure: ToolFailure) -> Settled {
    Settled {
        call,
        outcome: Outcome::failed(failure),
        entered: false,
        bypasses_post: false,
        user_stopped: false,
    }
}

/// Ends a call before its body; post-execute policies see it.
fn settle(call: PendingCall, failure: ToolFailure) -> Started {
    Started::Settled(settled(call, failure))
}

/// Ends a call before its body; post-execute policies do not see it.
fn bypass(call: PendingCall, failure: ToolFailure) -> Started {
    Started::Settled(Settled { bypasses_post: true, ..settled(call, failure) })
}

fn with_contexts(failure: ToolFailure, additional_contexts: Vec<UserMessage>) -> Outcome {
    Outcome { additional_contexts, ..Outcome::failed(failure) }
}

/// A success of a cancelled call is a cancellation; failures stay what they are.
fn abort_late_success(call: &PendingCall, entered: bool, outcome: &mut Outcome) {
    if call.cancel.is_cancelled() && !outcome.is_error() {
        let failure = match entered {
            true => ToolFailure::aborted(),
            false => ToolFailure::aborted_before_dispatch(),
        };
        *outcome = with_contexts(failure, std::mem::take(&mut outcome.additional_contexts));
    }
}

/// Makes the outcome loggable, lets the tool transform its content once, and makes sure there is something to read.
fn finalize(call: &PendingCall, outcome: &mut Outcome) {
    if outcome.meta.as_ref().is_some_and(|meta| !schema::is_lossless(meta)) {
        let contexts = std::mem::take(&mut outcome.additional_contexts);
        *outcome = with_contexts(
            ToolFailure::plain("the presentation data of this call is no lossless JSON"),
            contexts,
        );
    }
    if let Some(tool) = &call.tool {
        match caught_sync("finalizeContent", || tool.finalize_content(&call.execution, outcome)) {
            Ok(Some(content)) => outcome.content = content,
            Ok(None) => {}
            Err(failure) => {
                *outcome = with_contexts(failure, std::mem::take(&mut outcome.additional_contexts));
            }
        }
    }
    if outcome.content.is_empty() {
        outcome.content.push(ContentBlock::text("(no output)"));
    }
    outcome.concludes_turn &= !outcome.is_error();
}

fn block_message(feedback: &[ContentBlock]) -> String {
    let parts: Vec<&str> = feedback
        .iter()
        .map(|block| match block {
            ContentBlock::Text { text } => text.as_str(),
            ContentBlock::Image { .. } => "[image content]",
            ContentBlock::ResourceLink { .. } => "[resource-link content]",
            ContentBlock::Resource { .. } => "[resource content]",
        })
        .collect();
    match parts.is_empty() {
        true => "a policy blocked the result of this call".to_owned(),
        false => parts.join("\n"),
    }
}

/// The innermost step of a dispatch.
struct BodyStep<'a> {
    pipeline: &'a Pipeline,
    call: &'a PendingCall,
    grant: Option<SandboxGrant>,
    seal: u64,
    entered: AtomicBool,
    deferred: Mutex<Vec<UserMessage>>,
}

impl BodyStep<'_> {
    async fn run(&self, cancel: CancellationToken) -> Outcome {
        let call = self.call;
        let is_cancelled = || call.cancel.is_cancelled() || cancel.is_cancelled();
        if is_cancelled() {
            return Outcome::failed(ToolFailure::aborted_before_dispatch());
        }
        let tool = match self.pipeline.resolve(call) {
            Ok(tool) => tool,
            Err(failure) => return Outcome::failed(failure),
        };
        if let Some(failure) = argument_failure(&call.execution.arguments) {
            return Outcome::failed(failure);
        }
        if call.is_top_level() {
            // What the world is about to be changed for must be on disk first.
            if let Err(failure) = call.session.host.checkpoint().await {
                return Outcome::failed(failure);
            }
            if is_cancelled() {
                return Outcome::failed(ToolFailure::aborted_before_dispatch());
            }
        }
        if !self.entered.swap(true, Ordering::Relaxed) && call.is_top_level() {
            call.session.host.live(LiveUpdate::CallStarted { call_id: call.execution.call_id.clone() });
        }
        let nested =
            Nested { pipeline: self.pipeline.clone(), scope: call.scope, tool_set: call.tool_set.clone() };
        let body_cancel = cancel.child_token();
        let context = ToolContext::new(
            call.execution.clone(),
            call.session.clone(),
            body_cancel.clone(),
            self.grant.clone(),
        )
        .with_nested(nested);
        let name = &call.execution.name;
        let result = {
            let mut body = pin!(caught(name, tool.execute(&call.execution.arguments, &context)));
            tokio::select! {
                biased;
                result = &mut body => result,
                () = call.cancel.cancelled() => {
                    // A policy may have put an unrelated token in place; the caller's word still counts.
                    body_cancel.cancel();
                    body.await
                }
            }
        };
        let (deferred, concludes) = context.take_effects();
        self.deferred.lock().unwrap_or_else(PoisonError::into_inner).extend(deferred);
        match result.and_then(|result| result) {
            Err(failure) => Outcome::failed(failure),
            Ok(value) => {
                let outcome = succeed(tool.as_ref(), &call.execution.arguments, value, concludes);
                match is_cancelled() && !outcome.is_error() {
                    true => Outcome::failed(ToolFailure::aborted()),
                    false => outcome,
                }
            }
        }
    }
}

#[async_trait]
impl Body for BodyStep<'_> {
    async fn enter(&self, cancel: CancellationToken) -> Dispatched {
        Dispatched::sealed(self.run(cancel).await, self.seal)
    }
}
