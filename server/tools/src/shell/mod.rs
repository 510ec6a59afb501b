//! Running commands.

pub mod ansi;
pub mod background;
pub mod bash;
pub mod exit;

use crate::listed;
use pipeline::tool::Tool;
use std::sync::Arc;

/// The family's tools, in order.
pub fn tools() -> Vec<Arc<dyn Tool>> {
    vec![listed(bash::Bash)]
}
