//! What one scope sees.

use super::layer::{Entry, Layer};
use super::{CodeMode, RUN_CODE, Registry, ResolvedToolSet, ScopeKey, State};
use crate::context::Execution;
use crate::policy::Policy;
use crate::schedule::BatchExecutor;
use crate::tool::Tool;
use protocol::id::SessionId;
use protocol::schema;
use protocol::tool::{ToolFailure, ToolSchema};
use std::collections::HashSet;
use std::sync::Arc;

/// What is put before a model.
#[derive(Clone, Debug, PartialEq)]
pub struct ModelInput {
    /// The tools it can call, in registration order.
    pub schemas: Vec<ToolSchema>,
    /// Every name a configured order may mention, restricted ones included.
    pub known_names: Vec<String>,
}

impl Registry {
    /// The tool as a scope sees it, for inspection and cards. Without a set, tools with a condition are visible.
    pub fn get(
        &self,
        name: &str,
        scope: Option<ScopeKey>,
        tool_set: Option<&ResolvedToolSet>,
    ) -> Option<Arc<dyn Tool>> {
        self.lock().find(name, scope, tool_set, true)
    }

    /// The tool a call may execute now. A set decides; without one, tools with a condition are absent.
    pub fn executable(
        &self,
        name: &str,
        scope: Option<ScopeKey>,
        tool_set: Option<&ResolvedToolSet>,
    ) -> Option<Arc<dyn Tool>> {
        self.lock().find(name, scope, tool_set, false)
    }

    /// The tools a scope sees, without `run_code`: what programs reach and prompts describe.
    pub fn definitions(
        &self,
        scope: Option<ScopeKey>,
        tool_set: Option<&ResolvedToolSet>,
    ) -> Vec<Arc<dyn Tool>> {
        let state = self.lock();
        let visible = state.visible(scope);
        visible
            .into_iter()
            .filter(|entry| tool_set.is_none_or(|set| set.admits(entry.id, scope)))
            .map(|entry| entry.tool.clone())
            .collect()
    }

    /// What the model of a scope is told, by its code mode: detached copies of name, description and parameters.
    ///
    /// # Errors
    /// A tool whose parameters are no lossless JSON, by name.
    pub fn schemas(
        &self,
        scope: Option<ScopeKey>,
        tool_set: Option<&ResolvedToolSet>,
    ) -> Result<Vec<ToolSchema>, ToolFailure> {
        let (code_mode, run_code) = {
            let state = self.lock();
            (state.code_mode(scope), state.run_code.as_ref().map(|(_, tool)| tool.clone()))
        };
        let mut tools = match code_mode {
            CodeMode::Native | CodeMode::Both => self.definitions(scope, tool_set),
            CodeMode::Code => Vec::new(),
        };
        if code_mode != CodeMode::Native {
            let run_code = run_code.ok_or_else(|| {
                ToolFailure::plain(
                    "code mode is on, but nothing here can run programs; set code_mode to native",
                )
            })?;
            tools.push(run_code);
        }
        tools.iter().map(|tool| project(tool.as_ref())).collect()
    }

    /// [`Registry::schemas`], and every name the scope knows, hidden ones included.
    ///
    /// # Errors
    /// As [`Registry::schemas`].
    pub fn model_input(
        &self,
        scope: Option<ScopeKey>,
        tool_set: Option<&ResolvedToolSet>,
    ) -> Result<ModelInput, ToolFailure> {
        let schemas = self.schemas(scope, tool_set)?;
        let state = self.lock();
        let mut known_names: Vec<String> =
            state.overlaid(scope).into_iter().map(|entry| entry.name.clone()).collect();
        if state.code_mode(scope) != CodeMode::Native {
            known_names.push(RUN_CODE.to_owned());
        }
        Ok(ModelInput { schemas, known_names })
    }

    /// How the tools of a scope are put before the model.
    pub fn code_mode(&self, scope: Option<ScopeKey>) -> CodeMode {
        self.lock().code_mode(scope)
    }

    /// The first reason a guard of the call's scopes gives.
    pub fn check_guards(&self, scope: Option<ScopeKey>, execution: &Execution) -> Option<String> {
        let layers: Vec<Option<ScopeKey>> = {
            let state = self.lock();
            let mut chain: Vec<_> = state.chain(scope).into_iter().map(Some).collect();
            chain.push(None);
            chain.reverse();
            chain
        };
        for layer in layers {
            // One at a time, by id, so that a guard added meanwhile is heard and the lock is never held over one.
            let mut last = 0;
            loop {
                let next = {
                    let state = self.lock();
                    let guards = state.layer(layer).map(|layer| layer.guards.as_slice()).unwrap_or_default();
                    guards.iter().find(|(id, _)| *id > last).cloned()
                };
                let Some((id, guard)) = next else { break };
                if let Some(reason) = guard(execution) {
                    return Some(reason);
                }
                last = id;
            }
        }
        None
    }

    /// Tells the policies of a scope that a session of it has ended.
    pub fn session_closed(&self, scope: Option<ScopeKey>, session_id: &SessionId) {
        for policy in self.policies(scope) {
            policy.session_closed(session_id);
        }
    }

    /// The policies of a scope's calls, outermost first.
    pub(crate) fn policies(&self, scope: Option<ScopeKey>) -> Vec<Arc<dyn Policy>> {
        let state = self.lock();
        let chain = state.chain(scope);
        let layers = chain.into_iter().filter_map(|key| state.layer(Some(key))).chain([&state.global]);
        let mut policies: Vec<_> = layers.flat_map(|layer| layer.policies.iter().cloned()).collect();
        policies.sort_unstable_by_key(|(id, _)| *id);
        policies.into_iter().map(|(_, policy)| policy).collect()
    }

    /// The nearest selected executor: none selected anywhere is `None`, a selection that went away is `Some(None)`.
    pub(crate) fn executor(&self, scope: Option<ScopeKey>) -> Option<Option<Arc<dyn BatchExecutor>>> {
        let state = self.lock();
        let chain = state.chain(scope);
        let mut layers = chain.into_iter().filter_map(|key| state.layer(Some(key))).chain([&state.global]);
        layers.find_map(|layer| layer.executor.as_ref()).map(|slot| slot.executor.clone())
    }

    /// Whether a call of the model by this name can only be made from a program here.
    pub(crate) fn is_reached_by_program_only(&self, name: &str, scope: Option<ScopeKey>) -> bool {
        let state = self.lock();
        name != RUN_CODE
            && state.code_mode(scope) == CodeMode::Code
            && state.visible(scope).iter().any(|entry| entry.name == name)
    }

    pub(super) fn visible_entries(&self, scope: Option<ScopeKey>) -> Vec<Entry> {
        self.lock().visible(scope).into_iter().cloned().collect()
    }
}

fn project(tool: &dyn Tool) -> Result<ToolSchema, ToolFailure> {
    let schema = tool.schema();
    if !schema::is_lossless(&schema.parameters) {
        return Err(ToolFailure::plain(format!(
            "the parameters of tool {} are no lossless JSON",
            schema.name
        )));
    }
    Ok(ToolSchema {
        name: schema.name.clone(),
        description: schema.description.clone(),
        parameters: schema::lossless::clone_value(&schema.parameters),
    })
}

impl State {
    pub(super) fn layer(&self, scope: Option<ScopeKey>) -> Option<&Layer> {
        match scope {
            None => Some(&self.global),
            Some(key) => self.scopes.get(&key).map(|scope| &scope.layer),
        }
    }

    /// The scope and its ancestors, nearest first. A scope that is gone ends the chain.
    fn chain(&self, scope: Option<ScopeKey>) -> Vec<ScopeKey> {
        let mut chain = Vec::new();
        let mut next = scope;
        while let Some(key) = next {
            let Some(found) = self.scopes.get(&key) else { break };
            chain.push(key);
            next = found.parent;
        }
        chain
    }

    /// What a scope inherits before any restriction: global tools, overlaid by each ancestor, nearer ones winning.
    pub(super) fn inherited(&self, scope: ScopeKey) -> Vec<&Entry> {
        let parent = self.scopes.get(&scope).and_then(|scope| scope.parent);
        self.overlaid(parent)
    }

    /// Global tools, overlaid by each layer of the chain, without any restriction.
    fn overlaid(&self, scope: Option<ScopeKey>) -> Vec<&Entry> {
        let mut entries: Vec<&Entry> = self.global.tools.iter().collect();
        for key in self.chain(scope).into_iter().rev() {
            if let Some(layer) = self.layer(Some(key)) {
                overlay(&mut entries, layer);
            }
        }
        entries
    }

    fn visible(&self, scope: Option<ScopeKey>) -> Vec<&Entry> {
        let chain = self.chain(scope);
        let Some((own, _)) = chain.split_first() else { return self.global.tools.iter().collect() };
        let mut entries = self.inherited(*own);
        entries.retain(|entry| self.admits(&chain, &entry.name));
        if let Some(layer) = self.layer(Some(*own)) {
            overlay(&mut entries, layer);
        }
        entries
    }

    /// Whether every restriction of the chain lets an inherited tool of this name through.
    fn admits(&self, chain: &[ScopeKey], name: &str) -> bool {
        chain
            .iter()
            .filter_map(|key| self.layer(Some(*key)))
            .flat_map(|layer| &layer.restrictions)
            .all(|(_, restriction)| restriction.admits(name))
    }

    fn find(
        &self,
        name: &str,
        scope: Option<ScopeKey>,
        tool_set: Option<&ResolvedToolSet>,
        inspecting: bool,
    ) -> Option<Arc<dyn Tool>> {
        if name == RUN_CODE {
            let is_offered = self.code_mode(scope) != CodeMode::Native;
            return self.run_code.as_ref().filter(|_| is_offered).map(|(_, tool)| tool.clone());
        }
        let entry = self.find_entry(name, scope)?;
        let is_admitted = match tool_set {
            Some(set) => set.admits(entry.id, scope),
            None => inspecting || entry.when.is_none(),
        };
        is_admitted.then(|| entry.tool.clone())
    }

    fn find_entry(&self, name: &str, scope: Option<ScopeKey>) -> Option<&Entry> {
        let chain = self.chain(scope);
        let in_layer = |layer: &'_ Layer| layer.tools.iter().position(|entry| entry.name == name);
        for (idx, key) in chain.iter().enumerate() {
            let layer = self.layer(Some(*key))?;
            if let Some(found) = in_layer(layer) {
                return (idx == 0 || self.admits(&chain, name)).then(|| &layer.tools[found]);
            }
        }
        let found = in_layer(&self.global)?;
        self.admits(&chain, name).then(|| &self.global.tools[found])
    }

    fn code_mode(&self, scope: Option<ScopeKey>) -> CodeMode {
        let chain = self.chain(scope);
        let mut layers = chain.into_iter().filter_map(|key| self.layer(Some(key))).chain([&self.global]);
        layers.find_map(|layer| layer.code_mode).map(|(_, code_mode)| code_mode).unwrap_or_default()
    }
}

/// Puts a nearer layer over the entries: a shadowing tool takes the place of what it shadows, others come last.
fn overlay<'a>(entries: &mut Vec<&'a Entry>, layer: &'a Layer) {
    let names: HashSet<&str> = entries.iter().map(|entry| entry.name.as_str()).collect();
    let (shadowing, new): (Vec<&Entry>, Vec<&Entry>) =
        layer.tools.iter().partition(|entry| names.contains(entry.name.as_str()));
    for entry in shadowing {
        if let Some(place) = entries.iter_mut().find(|place| place.name == entry.name) {
            *place = entry;
        }
    }
    entries.extend(new);
}
