//! Which tools, guards, policies and executors there are, by layer.
//!
//! The global layer is the deployment's; a scope is a session's or a preset's own layer, with at most one parent.
//! Nearer layers shadow farther ones. Nothing here runs a tool. Source: `spec/pipeline.md` §7 and §8.

mod disposer;
mod layer;
mod lookup;
#[cfg(test)]
mod tests;
mod tool_set;

pub use disposer::Disposer;
pub use layer::{CodeMode, Restriction};
pub use lookup::ModelInput;
pub use tool_set::{ActivationContext, Condition, ResolveError, ResolvedToolSet};

use crate::context::Execution;
use crate::policy::Policy;
use crate::schedule::BatchExecutor;
use crate::tool::Tool;
use layer::{Entry, ExecutorSlot, Layer};
use protocol::schema;
use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use tokio::sync::watch;

/// Name of the tool that runs programs over the other tools; provided by [`Registry::provide_run_code`] only.
pub const RUN_CODE: &str = "run_code";

/// A last word before dispatch: a reason refuses the call, `None` leaves it as it is. It cannot allow anything.
pub type Guard = dyn Fn(&Execution) -> Option<String> + Send + Sync;

/// Names a scope. Compare only.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct ScopeKey(u64);

/// How a tool is registered.
#[derive(Clone, Default)]
pub struct Registration {
    /// Decides at each step whether the tool takes part; `None` always admits it.
    pub when: Option<Arc<dyn Condition>>,
}

/// Every layer and what it holds. Cheap to clone; clones are the same registry.
#[derive(Clone)]
pub struct Registry {
    shared: Arc<Shared>,
}

struct Shared {
    state: Mutex<State>,
    changes: watch::Sender<u64>,
}

#[derive(Default)]
struct State {
    last_id: u64,
    global: Layer,
    scopes: HashMap<ScopeKey, ScopeLayer>,
    run_code: Option<(u64, Arc<dyn Tool>)>,
}

struct ScopeLayer {
    parent: Option<ScopeKey>,
    layer: Layer,
}

/// Owns a scope: dropping it takes back everything registered in it.
#[must_use = "dropping the scope takes back everything registered in it"]
pub struct Scope {
    key: ScopeKey,
    registry: Registry,
}

/// Why a contribution was not taken. Nothing was registered.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
pub enum RegistryError {
    /// The output schema is outside the subset.
    #[error("tool {name}: output schema: {source}")]
    OutputSchema {
        /// The tool.
        name: String,
        /// Every violation.
        source: schema::SchemaError,
    },
    /// The time budget is zero.
    #[error("tool {name}: its timeout must be longer than nothing")]
    Timeout {
        /// The tool.
        name: String,
    },
    /// The name belongs to the program tool.
    #[error("{RUN_CODE} is reserved: it cannot be registered, shadowed or restricted")]
    Reserved,
    /// The deployment has a tool of this name.
    #[error("tool {name} is registered already; register it in a scope to replace it for one agent")]
    DuplicateGlobal {
        /// The tool.
        name: String,
    },
    /// The scope has a tool of this name.
    #[error("tool {name} is registered already in this scope")]
    DuplicateInScope {
        /// The tool.
        name: String,
    },
    /// There is a code mode already in this layer, or a program tool in the deployment.
    #[error("{what} is set already; dispose it first")]
    AlreadySet {
        /// What.
        what: &'static str,
    },
    /// Only a scope can be restricted.
    #[error("only a scope can be restricted")]
    Unscoped,
    /// A restriction without a list.
    #[error("a restriction needs an allow list or a deny list")]
    EmptyRestriction,
    /// Names that the scope does not inherit.
    #[error("not inherited here: {}; inherited are: {}", unknown.join(", "), known.join(", "))]
    UnknownNames {
        /// The names, sorted.
        unknown: Vec<String>,
        /// What is inherited, sorted.
        known: Vec<String>,
    },
    /// The scope was dropped.
    #[error("the scope is gone")]
    ScopeGone,
}

impl Default for Registry {
    fn default() -> Self {
        Self::new()
    }
}

impl Registry {
    /// A registry with an empty global layer.
    pub fn new() -> Self {
        Self { shared: Arc::new(Shared { state: Mutex::default(), changes: watch::Sender::new(0) }) }
    }

    /// Opens a scope below `parent`, or below the global layer.
    pub fn open_scope(&self, parent: Option<ScopeKey>) -> Scope {
        let mut state = self.lock();
        let key = ScopeKey(state.fresh_id());
        state.scopes.insert(key, ScopeLayer { parent, layer: Layer::default() });
        Scope { key, registry: self.clone() }
    }

    /// Registers a tool in a layer; `None` is the global one. A scoped tool shadows outer tools of its name.
    ///
    /// # Errors
    /// `OutputSchema`, `Timeout`, `Reserved`, `DuplicateGlobal`, `DuplicateInScope`, `ScopeGone`.
    pub fn register(
        &self,
        scope: Option<ScopeKey>,
        tool: Arc<dyn Tool>,
        registration: Registration,
    ) -> Result<Disposer, RegistryError> {
        let name = tool.schema().name.clone();
        check_definition(&name, tool.as_ref())?;
        if name == RUN_CODE {
            return Err(RegistryError::Reserved);
        }
        let id = {
            let mut state = self.lock();
            let id = state.fresh_id();
            let layer = state.layer_mut(scope)?;
            if layer.tools.iter().any(|entry| entry.name == name) {
                return Err(match scope {
                    None => RegistryError::DuplicateGlobal { name },
                    Some(_) => RegistryError::DuplicateInScope { name },
                });
            }
            layer.tools.push(Entry { id, name, tool, when: registration.when });
            id
        };
        self.changed();
        Ok(self.disposer(scope, true, move |layer| remove_by(&mut layer.tools, |entry| entry.id == id)))
    }

    /// Provides the program tool of the deployment; seen only where the code mode is not `Native`.
    ///
    /// # Errors
    /// `OutputSchema`, `Timeout`, `AlreadySet`.
    pub fn provide_run_code(&self, tool: Arc<dyn Tool>) -> Result<Disposer, RegistryError> {
        check_definition(RUN_CODE, tool.as_ref())?;
        let id = {
            let mut state = self.lock();
            if state.run_code.is_some() {
                return Err(RegistryError::AlreadySet { what: RUN_CODE });
            }
            let id = state.fresh_id();
            state.run_code = Some((id, tool));
            id
        };
        self.changed();
        let registry = self.clone();
        Ok(Disposer::new(move || {
            let removed = registry.lock().run_code.take_if(|(current, _)| *current == id);
            registry.changed();
            drop(removed);
        }))
    }

    /// Chooses how a scope's tools are put before the model; the nearest choice wins.
    ///
    /// # Errors
    /// `AlreadySet` for a second choice in the same layer, `ScopeGone`.
    pub fn set_code_mode(
        &self,
        scope: Option<ScopeKey>,
        code_mode: CodeMode,
    ) -> Result<Disposer, RegistryError> {
        let id = {
            let mut state = self.lock();
            let id = state.fresh_id();
            let layer = state.layer_mut(scope)?;
            if layer.code_mode.is_some() {
                return Err(RegistryError::AlreadySet { what: "the code mode" });
            }
            layer.code_mode = Some((id, code_mode));
            id
        };
        self.changed();
        Ok(self.disposer(scope, true, move |layer| {
            layer.code_mode.take_if(|(current, _)| *current == id);
        }))
    }

    /// Filters what a scope inherits. Restrictions intersect, and reach every scope below.
    ///
    /// # Errors
    /// `Unscoped`, `EmptyRestriction`, `Reserved`, `UnknownNames`, `ScopeGone`.
    pub fn restrict(
        &self,
        scope: Option<ScopeKey>,
        restriction: Restriction,
    ) -> Result<Disposer, RegistryError> {
        let Some(key) = scope else { return Err(RegistryError::Unscoped) };
        if restriction.allow.is_none() && restriction.deny.is_none() {
            return Err(RegistryError::EmptyRestriction);
        }
        if restriction.names().any(|name| name == RUN_CODE) {
            return Err(RegistryError::Reserved);
        }
        let id = {
            let mut state = self.lock();
            if !state.scopes.contains_key(&key) {
                return Err(RegistryError::ScopeGone);
            }
            let mut known: Vec<String> =
                state.inherited(key).into_iter().map(|entry| entry.name.clone()).collect();
            known.sort_unstable();
            let mut unknown: Vec<String> =
                restriction.names().filter(|name| !known.contains(name)).cloned().collect();
            if !unknown.is_empty() {
                unknown.sort_unstable();
                unknown.dedup();
                return Err(RegistryError::UnknownNames { unknown, known });
            }
            let id = state.fresh_id();
            state.layer_mut(scope)?.restrictions.push((id, restriction));
            id
        };
        self.changed();
        Ok(self.disposer(scope, true, move |layer| layer.restrictions.retain(|(other, _)| *other != id)))
    }

    /// Adds a last word before dispatch. Global guards speak first, then each scope, farthest first.
    ///
    /// # Errors
    /// `ScopeGone`.
    pub fn guard(&self, scope: Option<ScopeKey>, guard: Arc<Guard>) -> Result<Disposer, RegistryError> {
        let id = {
            let mut state = self.lock();
            let id = state.fresh_id();
            state.layer_mut(scope)?.guards.push((id, guard));
            id
        };
        Ok(self.disposer(scope, false, move |layer| remove_by(&mut layer.guards, |(other, _)| *other == id)))
    }

    /// Adds a policy for the calls of a scope and those below it; `None` is every call. An earlier policy is outside a
    /// later one, whatever their layers.
    ///
    /// # Errors
    /// `ScopeGone`.
    pub fn add_policy(
        &self,
        scope: Option<ScopeKey>,
        policy: Arc<dyn Policy>,
    ) -> Result<Disposer, RegistryError> {
        let id = {
            let mut state = self.lock();
            let id = state.fresh_id();
            state.layer_mut(scope)?.policies.push((id, policy));
            id
        };
        Ok(self
            .disposer(scope, false, move |layer| remove_by(&mut layer.policies, |(other, _)| *other == id)))
    }

    /// Selects who executes the batches of a scope; replaces the layer's selection. Disposing it leaves the scope
    /// without an executor until another is set.
    ///
    /// # Errors
    /// `ScopeGone`.
    pub fn set_executor(
        &self,
        scope: Option<ScopeKey>,
        executor: Arc<dyn BatchExecutor>,
    ) -> Result<Disposer, RegistryError> {
        let id = {
            let mut state = self.lock();
            let id = state.fresh_id();
            state.layer_mut(scope)?.executor = Some(ExecutorSlot { id, executor: Some(executor) });
            id
        };
        self.changed();
        Ok(self.disposer(scope, true, move |layer| {
            layer.executor.as_mut().filter(|slot| slot.id == id).and_then(|slot| slot.executor.take())
        }))
    }

    /// Counts the changes of tools, restrictions, code modes and executors, in every scope. Listeners read again.
    pub fn subscribe(&self) -> watch::Receiver<u64> {
        self.shared.changes.subscribe()
    }

    fn disposer<R>(
        &self,
        scope: Option<ScopeKey>,
        announce: bool,
        remove: impl FnOnce(&mut Layer) -> R + Send + Sync + 'static,
    ) -> Disposer {
        let registry = self.clone();
        Disposer::new(move || {
            let removed = {
                let mut state = registry.lock();
                state.layer_mut(scope).map(remove)
            };
            // A scope that is gone took its contributions along and said so.
            if removed.is_ok() && announce {
                registry.changed();
            }
            // What was removed is dropped here, outside the lock: it may have destructors that come back.
        })
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.shared.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn changed(&self) {
        self.shared.changes.send_modify(|count| *count += 1);
    }
}

/// Removes the first item that `is_it` and hands it out.
fn remove_by<T>(items: &mut Vec<T>, is_it: impl Fn(&T) -> bool) -> Option<T> {
    let idx = items.iter().position(is_it)?;
    Some(items.remove(idx))
}

fn check_definition(name: &str, tool: &dyn Tool) -> Result<(), RegistryError> {
    schema::check_supported(tool.output_schema())
        .map_err(|source| RegistryError::OutputSchema { name: name.to_owned(), source })?;
    match tool.timeout() {
        Some(timeout) if timeout.is_zero() => Err(RegistryError::Timeout { name: name.to_owned() }),
        _ => Ok(()),
    }
}

impl Scope {
    /// The scope's name.
    pub fn key(&self) -> ScopeKey {
        self.key
    }
}

impl Drop for Scope {
    fn drop(&mut self) {
        // The layer is dropped outside the lock: tools may have destructors of their own.
        let layer = self.registry.lock().scopes.remove(&self.key);
        drop(layer);
        self.registry.changed();
    }
}

impl State {
    fn fresh_id(&mut self) -> u64 {
        self.last_id += 1;
        self.last_id
    }

    fn layer_mut(&mut self, scope: Option<ScopeKey>) -> Result<&mut Layer, RegistryError> {
        match scope {
            None => Ok(&mut self.global),
            Some(key) => Ok(&mut self.scopes.get_mut(&key).ok_or(RegistryError::ScopeGone)?.layer),
        }
    }
}
