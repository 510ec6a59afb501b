//! What one call is, and what its body can reach.

use crate::call::Call;
use crate::host::SessionHost;
use crate::policies::observation::Observations;
use crate::registry::{ResolvedToolSet, ScopeKey};
use crate::run::Pipeline;
use protocol::decision::SandboxGrant;
use protocol::id::{CallId, SessionId};
use protocol::live::LiveUpdate;
use protocol::message::UserMessage;
use protocol::mode::{Mode, SandboxMode};
use serde_json::Value;
use services::Services;
use services::shell::SandboxPolicy;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use tokio_util::sync::CancellationToken;

/// Identity and arguments of one call. Frozen: log, policies, body and cards all see the same.
#[derive(Clone, Debug)]
pub struct Execution {
    /// The session the call belongs to.
    pub session_id: SessionId,
    /// The call.
    pub call_id: CallId,
    /// The outermost call; `call_id` itself for a call of the model.
    pub root_call_id: CallId,
    /// Name of the tool as it was called.
    pub name: String,
    /// Parsed arguments; raw text that is no JSON is a JSON string.
    pub arguments: Arc<Value>,
    /// The program's call this is a sub-call of; `None` for a call of the model.
    pub parent: Option<CallId>,
}

/// The session around a call, shared by all its calls.
#[derive(Clone)]
pub struct SessionScope {
    /// The session.
    pub session_id: SessionId,
    /// Its folder, absolute and existing.
    pub cwd: PathBuf,
    /// `cwd` and the additional folders, absolute.
    pub roots: Vec<PathBuf>,
    /// How many delegations deep; 0 for a session a person started.
    pub delegation_depth: u32,
    /// Whether commands may open connections.
    pub network: bool,
    /// What the tools reach.
    pub services: Services,
    /// What the pipeline asks of the session.
    pub host: Arc<dyn SessionHost>,
    /// What the agent has seen of each file.
    pub observations: Arc<Observations>,
}

/// The way back into the pipeline for tools that make calls of their own, such as programs and workflows.
#[derive(Clone)]
pub struct Nested {
    /// Runs the sub-calls.
    pub pipeline: Pipeline,
    /// Whose tools they reach.
    pub scope: Option<ScopeKey>,
    /// What the step admitted.
    pub tool_set: Option<Arc<ResolvedToolSet>>,
}

/// What a body can reach; valid for one execution.
pub struct ToolContext {
    /// What is executed.
    pub execution: Execution,
    /// The session around it.
    pub session: SessionScope,
    /// Ends the body: the caller's cancellation fused with every policy's.
    pub cancel: CancellationToken,
    /// What a permission widened for this call.
    grant: Option<SandboxGrant>,
    /// The way back into the pipeline, for tools that make calls of their own.
    nested: Option<Nested>,
    deferred: Mutex<Vec<UserMessage>>,
    concludes: AtomicBool,
}

impl ToolContext {
    /// The context of one execution. Called by the pipeline and by tests.
    pub fn new(
        execution: Execution,
        session: SessionScope,
        cancel: CancellationToken,
        grant: Option<SandboxGrant>,
    ) -> Self {
        Self {
            execution,
            session,
            cancel,
            grant,
            nested: None,
            deferred: Mutex::default(),
            concludes: AtomicBool::new(false),
        }
    }

    /// The context with a way back into the pipeline. Called by the pipeline.
    #[must_use]
    pub fn with_nested(mut self, nested: Nested) -> Self {
        self.nested = Some(nested);
        self
    }

    /// The way back into the pipeline; `None` only in tests of a tool alone.
    pub fn nested(&self) -> Option<&Nested> {
        self.nested.as_ref()
    }

    /// A sub-call of this call, with everything it inherits; `cancel` is usually a child of this call's.
    pub fn sub_call(
        &self,
        call_id: CallId,
        name: String,
        arguments: Value,
        cancel: CancellationToken,
    ) -> Call {
        Call {
            call_id,
            root_call_id: Some(self.execution.root_call_id.clone()),
            parent: Some(self.execution.call_id.clone()),
            name,
            arguments,
            session: self.session.clone(),
            scope: self.nested.as_ref().and_then(|nested| nested.scope),
            tool_set: self.nested.as_ref().and_then(|nested| nested.tool_set.clone()),
            cancel,
        }
    }

    /// The services.
    pub fn services(&self) -> &Services {
        &self.session.services
    }

    /// The session's folder.
    pub fn cwd(&self) -> &Path {
        &self.session.cwd
    }

    /// The session's mode now.
    pub fn mode(&self) -> Mode {
        self.session.host.mode()
    }

    /// What this call may write: the session's mode now, widened by what was granted for this call.
    pub fn sandbox(&self) -> SandboxPolicy {
        let mode = self.mode();
        let mut policy = SandboxPolicy {
            mode: mode.sandbox(),
            writable_roots: self.session.roots.clone(),
            network: self.session.network,
        };
        if let (Some(grant), true) = (&self.grant, mode != Mode::Plan) {
            policy.mode = policy.mode.max(grant.mode);
            if policy.mode == SandboxMode::ReadOnly && !grant.writable.is_empty() {
                // Only what was granted, not the session's folders.
                policy.mode = SandboxMode::WorkspaceWrite;
                policy.writable_roots.clear();
            }
            policy.writable_roots.extend(grant.writable.iter().cloned());
        }
        policy
    }

    /// Shows something now.
    pub fn live(&self, update: LiveUpdate) {
        self.session.host.live(update);
    }

    /// Attaches a user-role message to this call's result, for the next step.
    pub fn defer_context(&self, message: UserMessage) {
        self.deferred.lock().unwrap_or_else(PoisonError::into_inner).push(message);
    }

    /// Marks a successful result as ending the turn.
    pub fn conclude_turn(&self) {
        self.concludes.store(true, Ordering::Relaxed);
    }

    /// Takes what the body deferred and whether it concluded. Called once by the pipeline.
    pub fn take_effects(&self) -> (Vec<UserMessage>, bool) {
        let deferred = std::mem::take(&mut *self.deferred.lock().unwrap_or_else(PoisonError::into_inner));
        (deferred, self.concludes.load(Ordering::Relaxed))
    }
}
