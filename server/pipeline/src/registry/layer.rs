//! One layer of contributions: the deployment's, or one scope's.

use super::{Condition, Guard};
use crate::policy::Policy;
use crate::schedule::BatchExecutor;
use crate::tool::Tool;
use std::collections::BTreeSet;
use std::sync::Arc;

/// Everything one layer holds. Each contribution has an id; ids grow with time across all layers.
#[derive(Default)]
pub(super) struct Layer {
    pub tools: Vec<Entry>,
    pub restrictions: Vec<(u64, Restriction)>,
    pub guards: Vec<(u64, Arc<Guard>)>,
    pub policies: Vec<(u64, Arc<dyn Policy>)>,
    pub executor: Option<ExecutorSlot>,
    pub code_mode: Option<(u64, CodeMode)>,
}

/// A registered tool.
#[derive(Clone)]
pub(super) struct Entry {
    pub id: u64,
    pub name: String,
    pub tool: Arc<dyn Tool>,
    pub when: Option<Arc<dyn Condition>>,
}

/// The executor a layer selects; an empty slot is a selection that went away.
pub(super) struct ExecutorSlot {
    pub id: u64,
    pub executor: Option<Arc<dyn BatchExecutor>>,
}

/// A filter over what a scope inherits. Its own registrations are never filtered.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Restriction {
    /// Only these names stay visible; `None` filters by `deny` alone, an empty set hides everything inherited.
    pub allow: Option<BTreeSet<String>>,
    /// These names are hidden, future registrations of that name included.
    pub deny: Option<BTreeSet<String>>,
}

impl Restriction {
    /// Keeps only these names.
    pub fn allow<S: Into<String>>(names: impl IntoIterator<Item = S>) -> Self {
        Self { allow: Some(names.into_iter().map(Into::into).collect()), deny: None }
    }

    /// Hides these names.
    pub fn deny<S: Into<String>>(names: impl IntoIterator<Item = S>) -> Self {
        Self { allow: None, deny: Some(names.into_iter().map(Into::into).collect()) }
    }

    pub(super) fn admits(&self, name: &str) -> bool {
        self.allow.as_ref().is_none_or(|allow| allow.contains(name))
            && self.deny.as_ref().is_none_or(|deny| !deny.contains(name))
    }

    pub(super) fn names(&self) -> impl Iterator<Item = &String> {
        self.allow.iter().chain(&self.deny).flatten()
    }
}

/// How the tools are put before the model.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum CodeMode {
    /// Every tool by its own name; no `run_code`.
    #[default]
    Native,
    /// Only `run_code`; the other tools are reached from its programs.
    Code,
    /// Every tool by its own name, and `run_code`.
    Both,
}
