//! Reading and changing files.

pub mod change;
pub mod edit;
pub mod envelope;
pub mod read;
pub mod read_image;
pub mod str_replace_editor;
pub mod write;

use crate::denial;
use crate::listed;
use pipeline::context::ToolContext;
use pipeline::policies::observation::with_remedy;
use pipeline::tool::Tool;
use protocol::tool::ToolFailure;
use services::file_system::{FsError, FsErrorKind, Target};
use std::sync::Arc;

/// The family that lists `str_replace_editor`.
pub const STR_REPLACE_EDITOR: &str = "str_replace_editor";

/// The family's tools, in order.
pub fn tools() -> Vec<Arc<dyn Tool>> {
    vec![listed(read::Read), listed(read_image::ReadImage), listed(write::Write), listed(edit::Edit)]
}

/// The tools of the opt-in family [`STR_REPLACE_EDITOR`].
pub fn editor_tools() -> Vec<Arc<dyn Tool>> {
    vec![listed(str_replace_editor::StrReplaceEditor)]
}

/// A target as models and people read it.
fn shown(target: &Target) -> String {
    target.display.display().to_string()
}

/// Nothing is at the target.
fn not_found(target: &Target) -> FsError {
    FsError::new(FsErrorKind::NotFound, format!("{} does not exist", shown(target)))
}

/// Something is at the target, but no regular file.
fn not_a_file(target: &Target, hint: &str) -> FsError {
    FsError::new(FsErrorKind::NotRegularFile, format!("{} is not a regular file{hint}", shown(target)))
}

/// A failed mutation as the model reads it: with the remedy, or with the sandbox's marker.
fn mutation_failure(error: FsError, ctx: &ToolContext, may_escalate: bool) -> ToolFailure {
    if error.kind == FsErrorKind::SandboxDenied {
        let lines = denial::lines(ctx.sandbox().mode, may_escalate);
        return FsError::new(error.kind, format!("{}\n{lines}", error.message)).into();
    }
    with_remedy(error)
}
