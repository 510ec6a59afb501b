//! Skills: instructions in files.

pub mod skill;

use crate::listed;
use pipeline::tool::Tool;
use std::sync::Arc;

/// The tools of the family.
pub fn tools() -> Vec<Arc<dyn Tool>> {
    vec![listed(skill::SkillTool)]
}
