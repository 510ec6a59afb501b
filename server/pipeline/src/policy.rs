//! A policy: a rule about calls, wrapped around the stages of each call by continuations.
//!
//! An earlier registered policy is outside a later one. Called by [`crate::run`] only; policies call `next` and nothing
//! else of the pipeline. Source: `spec/pipeline.md` §9.4, §9.6, §9.8, §9.11.

use crate::call::PendingCall;
use crate::caught::caught;
use crate::programs::SubCallLog;
use async_trait::async_trait;
use futures::future::BoxFuture;
use protocol::content::ContentBlock;
use protocol::decision::{PostDecision, PreDecision};
use protocol::id::SessionId;
use protocol::message::UserMessage;
use protocol::tool::{Outcome, ToolFailure};
use std::sync::{Arc, Mutex, PoisonError};
use tokio_util::sync::CancellationToken;

/// A rule about calls. Every method has a default that changes nothing.
///
/// An error (or a panic) of a policy ends the call with that failure; later policy stages are skipped.
#[async_trait]
pub trait Policy: Send + Sync {
    /// Name for logs.
    fn name(&self) -> &str;

    /// Whether the call may run. Not calling `next` decides alone; a decision weaker than that of `next` has no effect.
    ///
    /// # Errors
    /// The policy cannot tell; the call ends with the failure.
    async fn pre_execute(&self, _call: &PendingCall, next: PreNext<'_>) -> Result<PreDecision, ToolFailure> {
        next.run().await
    }

    /// Round the body: budgets, retries, measurements. Returns only once what it started is done.
    ///
    /// # Errors
    /// As [`Policy::pre_execute`].
    async fn execute(
        &self,
        dispatch: Dispatch<'_>,
        next: ExecuteNext<'_>,
    ) -> Result<Dispatched, ToolFailure> {
        next.run(dispatch.cancel).await
    }

    /// What becomes of an outcome.
    ///
    /// # Errors
    /// As [`Policy::pre_execute`].
    async fn post_execute(
        &self,
        _call: &PendingCall,
        _outcome: &Outcome,
        next: PostNext<'_>,
    ) -> Result<PostDecision, ToolFailure> {
        next.run().await
    }

    /// The content of a program's sub-call as it is logged; `None` keeps it. Neither the program nor the model sees it.
    ///
    /// # Errors
    /// The content is logged as it was.
    async fn log_sub_call(
        &self,
        _log: &SubCallLog<'_>,
        _content: &[ContentBlock],
    ) -> Result<Option<Vec<ContentBlock>>, ToolFailure> {
        Ok(None)
    }

    /// Sees the final outcome; can change nothing.
    fn observe(&self, _call: &PendingCall, _outcome: &Outcome) {}

    /// A session has ended; what was kept about it can go.
    fn session_closed(&self, _session_id: &SessionId) {}
}

/// The rest of the pre-execute chain; allows by default.
pub struct PreNext<'a> {
    policies: &'a [Arc<dyn Policy>],
    call: &'a PendingCall,
    /// Where the policy outside this one learns what was decided inside.
    decided: Option<&'a Mutex<Option<PreDecision>>>,
}

impl<'a> PreNext<'a> {
    pub(crate) fn new(policies: &'a [Arc<dyn Policy>], call: &'a PendingCall) -> Self {
        Self { policies, call, decided: None }
    }

    /// Asks the rest of the chain.
    ///
    /// # Errors
    /// The failure of a policy further in.
    pub fn run(self) -> BoxFuture<'a, Result<PreDecision, ToolFailure>> {
        Box::pin(async move {
            let decision = match self.policies.split_first() {
                None => PreDecision::Allow,
                Some((policy, rest)) => {
                    let inside = Mutex::new(None);
                    let next = PreNext { policies: rest, call: self.call, decided: Some(&inside) };
                    let own = caught(policy.name(), policy.pre_execute(self.call, next)).await??;
                    match inside.into_inner().unwrap_or_else(PoisonError::into_inner) {
                        Some(inner) if rank(&inner) > rank(&own) => inner,
                        _ => own,
                    }
                }
            };
            if let Some(decided) = self.decided {
                *decided.lock().unwrap_or_else(PoisonError::into_inner) = Some(decision.clone());
            }
            Ok(decision)
        })
    }
}

/// How strict a decision is; a stricter one is never weakened.
fn rank(decision: &PreDecision) -> u8 {
    match decision {
        PreDecision::Allow | PreDecision::AllowWith { .. } => 0,
        PreDecision::Ask { .. } => 1,
        PreDecision::Deny { .. } => 2,
        PreDecision::Cancel => 3,
    }
}

/// The stricter of a policy's own decision and that of the rest of the chain; two questions become one.
///
/// A standing rule cannot silence the other question, so a merged one offers no "always".
pub fn strictest(own: PreDecision, inner: PreDecision) -> PreDecision {
    match (own, inner) {
        (
            PreDecision::Ask { reason, display_reason, grant, .. },
            PreDecision::Ask {
                reason: inner_reason, display_reason: inner_display, grant: inner_grant, ..
            },
        ) => {
            let reasons: Vec<String> = reason.into_iter().chain(inner_reason).collect();
            PreDecision::Ask {
                reason: (!reasons.is_empty()).then(|| reasons.join("\n\n")),
                display_reason: display_reason.or(inner_display),
                rule: None,
                grant: grant.or(inner_grant),
            }
        }
        // A widening that needs no question of its own rides on the other's question.
        (
            PreDecision::AllowWith { grant: widening },
            PreDecision::Ask { reason, display_reason, grant, .. },
        )
        | (
            PreDecision::Ask { reason, display_reason, grant, .. },
            PreDecision::AllowWith { grant: widening },
        ) => PreDecision::Ask { reason, display_reason, rule: None, grant: grant.or(Some(widening)) },
        (PreDecision::Allow, inner @ PreDecision::AllowWith { .. }) => inner,
        (own, inner) if rank(&inner) > rank(&own) => inner,
        (own, _) => own,
    }
}

/// A call about to be dispatched, as the policies round the body see it.
pub struct Dispatch<'a> {
    /// The call.
    pub call: &'a PendingCall,
    /// What ends the body; a policy may hand on another token, which the caller's cancellation still ends.
    pub cancel: CancellationToken,
}

/// What a dispatch came back with, and what policies round it add.
pub struct Dispatched {
    pub(crate) outcome: Outcome,
    pub(crate) contexts: Vec<UserMessage>,
    /// The execution that validated the outcome; anything else is validated again.
    pub(crate) seal: Option<u64>,
}

impl Dispatched {
    /// An outcome made by a policy: a success is validated and rendered again.
    pub fn new(mut outcome: Outcome) -> Self {
        let contexts = std::mem::take(&mut outcome.additional_contexts);
        Self { outcome, contexts, seal: None }
    }

    pub(crate) fn sealed(outcome: Outcome, seal: u64) -> Self {
        Self { outcome, contexts: Vec::new(), seal: Some(seal) }
    }

    /// The outcome.
    pub fn outcome(&self) -> &Outcome {
        &self.outcome
    }

    /// Attaches a user-role message for the next step.
    pub fn add_context(&mut self, message: UserMessage) {
        self.contexts.push(message);
    }

    /// Puts another outcome in its place, keeping what was attached.
    #[must_use]
    pub fn replace(mut self, outcome: Outcome) -> Self {
        let mut replaced = Self::new(outcome);
        self.contexts.append(&mut replaced.contexts);
        replaced.contexts = self.contexts;
        replaced
    }
}

/// The body as the innermost step: everything between the policies and the tool.
#[async_trait]
pub(crate) trait Body: Send + Sync {
    async fn enter(&self, cancel: CancellationToken) -> Dispatched;
}

/// The rest of the execute chain, down to the body. May be run again, for instance to retry.
#[derive(Clone, Copy)]
pub struct ExecuteNext<'a> {
    policies: &'a [Arc<dyn Policy>],
    call: &'a PendingCall,
    body: &'a dyn Body,
}

impl<'a> ExecuteNext<'a> {
    pub(crate) fn new(policies: &'a [Arc<dyn Policy>], call: &'a PendingCall, body: &'a dyn Body) -> Self {
        Self { policies, call, body }
    }

    /// Dispatches with this cancellation; the caller's own ends the body as well.
    ///
    /// # Errors
    /// The failure of a policy further in; a failure of the tool is an outcome.
    pub fn run(self, cancel: CancellationToken) -> BoxFuture<'a, Result<Dispatched, ToolFailure>> {
        Box::pin(async move {
            match self.policies.split_first() {
                None => Ok(self.body.enter(cancel).await),
                Some((policy, rest)) => {
                    let next = ExecuteNext { policies: rest, ..self };
                    caught(policy.name(), policy.execute(Dispatch { call: self.call, cancel }, next)).await?
                }
            }
        })
    }
}

/// The rest of the post-execute chain; accepts by default.
pub struct PostNext<'a> {
    policies: &'a [Arc<dyn Policy>],
    call: &'a PendingCall,
    outcome: &'a Outcome,
}

impl<'a> PostNext<'a> {
    pub(crate) fn new(policies: &'a [Arc<dyn Policy>], call: &'a PendingCall, outcome: &'a Outcome) -> Self {
        Self { policies, call, outcome }
    }

    /// Asks the rest of the chain.
    ///
    /// # Errors
    /// The failure of a policy further in.
    pub fn run(self) -> BoxFuture<'a, Result<PostDecision, ToolFailure>> {
        Box::pin(async move {
            match self.policies.split_first() {
                None => Ok(PostDecision::accept()),
                Some((policy, rest)) => {
                    let next = PostNext { policies: rest, ..self };
                    caught(policy.name(), policy.post_execute(self.call, self.outcome, next)).await?
                }
            }
        })
    }
}
