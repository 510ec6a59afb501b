//! One call on its way: what the caller asks for, and what policies see of it.

use crate::context::{Execution, SessionScope};
use crate::registry::{ResolvedToolSet, ScopeKey};
use crate::tool::Tool;
use protocol::id::CallId;
use serde_json::Value;
use std::sync::Arc;
use tokio_util::sync::CancellationToken;

/// A call to run.
#[derive(Clone)]
pub struct Call {
    /// The call.
    pub call_id: CallId,
    /// The model's call this is a part of; `None` for a call of the model itself.
    pub root_call_id: Option<CallId>,
    /// The program's call this is a sub-call of; `None` for a call of the model itself.
    pub parent: Option<CallId>,
    /// Name of the tool.
    pub name: String,
    /// Parsed arguments; see [`protocol::tool::parse_arguments`].
    pub arguments: Value,
    /// The session around it.
    pub session: SessionScope,
    /// Whose tools, guards and policies apply; `None` is the global layer's.
    pub scope: Option<ScopeKey>,
    /// What the step admitted; `None` admits every tool without a condition.
    pub tool_set: Option<Arc<ResolvedToolSet>>,
    /// The caller's cancellation.
    pub cancel: CancellationToken,
}

/// A call as policies see it: frozen, the same in every stage.
pub struct PendingCall {
    /// Identity and arguments.
    pub execution: Execution,
    /// The session around it.
    pub session: SessionScope,
    /// Whose tools, guards and policies apply.
    pub scope: Option<ScopeKey>,
    /// What the step admitted.
    pub tool_set: Option<Arc<ResolvedToolSet>>,
    /// The caller's cancellation; policies that wait must observe it.
    pub cancel: CancellationToken,
    /// The tool as the caller saw it when the call started; `None` when there is none of this name. What runs is looked
    /// up again at dispatch.
    pub tool: Option<Arc<dyn Tool>>,
}

impl PendingCall {
    /// Whether a model made the call, not a program.
    pub fn is_top_level(&self) -> bool {
        self.execution.parent.is_none()
    }
}
