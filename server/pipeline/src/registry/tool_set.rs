//! The tools admitted to one step.

use super::{Registry, ScopeKey};
use crate::tool::Tool;
use async_trait::async_trait;
use futures::future::try_join_all;
use protocol::id::SessionId;
use protocol::model::ModelRef;
use protocol::tool::ToolFailure;
use std::collections::HashSet;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use tokio_util::sync::CancellationToken;

/// Decides at each step whether a tool takes part. It changes no registration and starts no work.
#[async_trait]
pub trait Condition: Send + Sync {
    /// Whether the tool is declared and may be called in this step.
    ///
    /// # Errors
    /// The condition cannot be told; preparing the step then fails.
    ///
    /// # Cancellation
    /// The future is dropped when preparing the step is cancelled.
    async fn admits(&self, context: &ActivationContext) -> Result<bool, ToolFailure>;
}

/// The step being prepared.
#[derive(Clone, Debug)]
pub struct ActivationContext {
    /// Session that prepares it.
    pub session_id: SessionId,
    /// Model it will ask.
    pub model: ModelRef,
    /// Thinking effort; `None` is the model's default.
    pub effort: Option<String>,
    /// Ends the preparation.
    pub cancel: CancellationToken,
}

/// Why a step has no tool set.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
pub enum ResolveError {
    /// The preparation was cancelled.
    #[error("preparing the step was cancelled")]
    Cancelled,
    /// A condition failed.
    #[error("whether tool {tool} takes part in this step cannot be told: {failure}")]
    Condition {
        /// The tool.
        tool: String,
        /// Why.
        failure: ToolFailure,
    },
}

/// The registrations admitted to one step. What is removed, replaced or restricted later drops out by itself.
pub struct ResolvedToolSet {
    registry: Registry,
    scope: Option<ScopeKey>,
    admitted: HashSet<u64>,
    is_disposed: AtomicBool,
}

impl ResolvedToolSet {
    /// Closes admission, once the step's batch is done.
    pub fn dispose(&self) {
        self.is_disposed.store(true, Ordering::Release);
    }

    /// The admitted tools that this scope still sees; none in any other scope than the original one.
    pub fn view(&self, scope: Option<ScopeKey>) -> Vec<Arc<dyn Tool>> {
        self.registry.definitions(scope, Some(self))
    }

    pub(super) fn admits(&self, entry: u64, scope: Option<ScopeKey>) -> bool {
        !self.is_disposed.load(Ordering::Acquire) && scope == self.scope && self.admitted.contains(&entry)
    }
}

impl Registry {
    /// Asks every condition of a scope's tools once, for one step.
    ///
    /// # Errors
    /// [`ResolveError`]; there is then no set at all.
    ///
    /// # Cancellation
    /// Dropping the future drops the conditions; nothing was changed.
    pub async fn resolve(
        &self,
        scope: Option<ScopeKey>,
        context: &ActivationContext,
    ) -> Result<Arc<ResolvedToolSet>, ResolveError> {
        let entries = self.visible_entries(scope);
        let answers = try_join_all(entries.iter().map(async |entry| {
            match &entry.when {
                None => Ok(true),
                Some(condition) => condition
                    .admits(context)
                    .await
                    .map_err(|failure| ResolveError::Condition { tool: entry.name.clone(), failure }),
            }
        }));
        let answers = tokio::select! {
            biased;
            () = context.cancel.cancelled() => return Err(ResolveError::Cancelled),
            answers = answers => answers?,
        };
        if context.cancel.is_cancelled() {
            return Err(ResolveError::Cancelled);
        }
        let admitted = entries
            .iter()
            .zip(answers)
            .filter(|(_, admitted)| *admitted)
            .map(|(entry, _)| entry.id)
            .collect();
        Ok(Arc::new(ResolvedToolSet {
            registry: self.clone(),
            scope,
            admitted,
            is_disposed: AtomicBool::new(false),
        }))
    }
}
