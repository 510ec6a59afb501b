//! Knowing code by meaning, through the language servers service.

mod query;

use pipeline::tool::Tool;
use std::sync::Arc;

/// The tools of this family.
pub fn tools() -> Vec<Arc<dyn Tool>> {
    vec![crate::listed(query::Lsp)]
}
