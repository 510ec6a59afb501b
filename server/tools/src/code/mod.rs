//! Programs over the other tools.

pub mod run_code;

use crate::listed;
use pipeline::tool::Tool;
use services::code_runtime::CodeRuntime;
use std::sync::Arc;

/// The program tool, for `Registry::provide_run_code`. Without a runtime each of its calls fails.
pub fn run_code(runtime: Option<Arc<dyn CodeRuntime>>) -> Arc<dyn Tool> {
    listed(run_code::RunCode::new(runtime))
}
