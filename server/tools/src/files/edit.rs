//! `edit`: replaces literal text in a file.
//!
//! Works through the session's file system under the sandbox, on a file that was read as it is now; bytes outside the
//! replaced spans stay. Source: `spec/tools-files-shell.md` §4; product decisions, "BOM and line ends".

use super::change::{self, Before};
use super::{mutation_failure, shown};
use crate::arguments::not_blank;
use crate::denial;
use crate::schema::nullable_string;
use async_trait::async_trait;
use pipeline::context::ToolContext;
use pipeline::tool::{Effect, PromptSection};
use pipeline::typed::TypedTool;
use protocol::card::{CallCard, DiffCall, FileDiff, FileLocation, ResultCard};
use protocol::content::ContentBlock;
use protocol::decision::Preview;
use protocol::tool::{DurableResult, ToolFailure};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use services::file_system::{EditRequest, FsError, replace::replace};

/// Arguments of `edit`.
#[derive(Debug, Deserialize, JsonSchema)]
pub struct EditArgs {
    /// File to edit; a relative path starts at the session's folder.
    file_path: String,
    /// Literal text to replace. It must match exactly.
    old_string: String,
    /// Literal text to put there. An empty one deletes the match.
    new_string: String,
    /// Whether every match is replaced. Default false; then `old_string` must occur exactly once.
    replace_all: Option<bool>,
}

/// What was changed.
#[derive(Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct EditOutput {
    /// Absolute path.
    path: String,
    /// Text before; null when it was too large to keep.
    #[schemars(required, schema_with = "nullable_string")]
    before: Option<String>,
    /// Text that is stored now.
    after: String,
    /// What differs from the request, for instance that the editor formatted the text.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    notice: Option<String>,
}

/// The tool.
pub struct Edit;

#[async_trait]
impl TypedTool for Edit {
    type Args = EditArgs;
    type Output = EditOutput;

    const NAME: &'static str = "edit";

    fn description(&self) -> String {
        "Edits an existing UTF-8 text file by replacing literal text.".to_owned()
    }

    fn effect(&self, args: &EditArgs) -> Effect {
        Effect::WritesFile { path: args.file_path.clone() }
    }

    async fn execute(&self, args: EditArgs, ctx: &ToolContext) -> Result<EditOutput, ToolFailure> {
        not_blank("file_path", &args.file_path)?;
        if args.old_string.is_empty() {
            return Err(ToolFailure::plain("old_string must not be empty; give the text to replace"));
        }
        if args.old_string == args.new_string {
            return Err(ToolFailure::plain(
                "old_string and new_string are equal; there is nothing to change",
            ));
        }
        let failed = |error: FsError| mutation_failure(error, ctx, denial::may_escalate(ctx));
        let files = &ctx.services().files;
        let target = files.resolve(&args.file_path).await?;
        let expected = ctx.session.observations.edit_guard(&target).map_err(failed)?;
        let request = EditRequest {
            target: target.clone(),
            old_string: args.old_string,
            new_string: args.new_string,
            replace_all: args.replace_all.unwrap_or(false),
            expected: Some(expected),
            sandbox: ctx.sandbox(),
        };
        let written = files.edit(request, &ctx.cancel).await.map_err(failed)?;
        ctx.session.observations.present(&target, written.version);
        change::keep(ctx, Before::new(true, written.before.as_deref()), &written.after).await;
        Ok(EditOutput {
            path: shown(&target),
            before: written.before,
            after: written.after,
            notice: written.notice,
        })
    }

    fn render(&self, args: &EditArgs, output: &EditOutput) -> Vec<ContentBlock> {
        let what = if args.replace_all.unwrap_or(false) {
            "Replaced all occurrences in"
        } else {
            "Replaced the text in"
        };
        let mut text = format!("{what} {}.", output.path);
        if let Some(notice) = &output.notice {
            text.push_str(&format!("\nNote: {notice}"));
        }
        vec![ContentBlock::text(text)]
    }

    fn presentation_meta(&self, args: &EditArgs, output: &EditOutput) -> Option<Value> {
        change::meta(&args.file_path, Before::new(true, output.before.as_deref()), &output.after)
    }

    fn present_call(&self, args: &EditArgs) -> Option<CallCard> {
        Some(CallCard::Diff(DiffCall {
            title: title(args),
            diffs: vec![FileDiff {
                path: args.file_path.clone(),
                old_text: (!args.old_string.is_empty()).then(|| args.old_string.clone()),
                new_text: args.new_string.clone(),
            }],
            locations: vec![FileLocation::new(&args.file_path, None)],
        }))
    }

    fn present_result(&self, args: &EditArgs, result: &DurableResult) -> Option<ResultCard> {
        if result.is_error {
            return None;
        }
        change::card(title(args), result.meta.as_ref(), None).map(ResultCard::Diff)
    }

    async fn preview(&self, args: EditArgs, ctx: &ToolContext) -> Preview {
        let files = &ctx.services().files;
        let Ok(target) = files.resolve(&args.file_path).await else { return Preview::default() };
        let Ok(file) = files.read_text(&target, change::MAX_PREVIEW_BYTES, &ctx.cancel).await else {
            return Preview::default();
        };
        let all = args.replace_all.unwrap_or(false);
        match replace(&file.text, &args.old_string, &args.new_string, all) {
            Ok(after) => Preview { diffs: change::preview(&shown(&target), Some(&file.text), &after) },
            Err(_) => Preview::default(),
        }
    }

    fn section(&self) -> Option<PromptSection> {
        Some(PromptSection {
            name: "tool:edit".to_owned(),
            order_tenths: 1020,
            text: "Change files with `edit`, not with `sed` or a script. Read the file first and copy `old_string` from \
                   it exactly, white space included, without the line numbers; add surrounding lines until it occurs \
                   once, or set `replace_all`. After your own edit you can edit again without reading."
                .to_owned(),
        })
    }
}

fn title(args: &EditArgs) -> String {
    format!("Edit {}", args.file_path)
}
