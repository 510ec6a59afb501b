//! `write`: creates a file or replaces its whole text.
//!
//! Writes through the session's file system under the sandbox; a file that exists must have been read as it is now.
//! Source: `spec/tools-files-shell.md` §3.

use super::change::{self, Before};
use super::{envelope, mutation_failure, shown};
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
use services::file_system::{FsError, WriteRequest};

/// Arguments of `write`.
#[derive(Debug, Deserialize, JsonSchema)]
pub struct WriteArgs {
    /// File to write; a relative path starts at the session's folder.
    file_path: String,
    /// The whole text of the file, UTF-8.
    content: String,
}

/// What was written.
#[derive(Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct WriteOutput {
    /// Absolute path.
    path: String,
    /// Whether the file is new.
    operation: Operation,
    /// Text before; null for a new file, or when it was no text or too large.
    #[schemars(required, schema_with = "nullable_string")]
    before: Option<String>,
    /// Text that is stored now.
    after: String,
    /// What differs from the request, for instance that the editor formatted the text.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    notice: Option<String>,
}

/// Whether a write made a file or replaced one.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum Operation {
    Create,
    Update,
}

/// The tool.
pub struct Write;

#[async_trait]
impl TypedTool for Write {
    type Args = WriteArgs;
    type Output = WriteOutput;

    const NAME: &'static str = "write";

    fn description(&self) -> String {
        "Creates a UTF-8 text file, or replaces the whole text of one.".to_owned()
    }

    fn effect(&self, args: &WriteArgs) -> Effect {
        Effect::WritesFile { path: args.file_path.clone() }
    }

    async fn execute(&self, args: WriteArgs, ctx: &ToolContext) -> Result<WriteOutput, ToolFailure> {
        not_blank("file_path", &args.file_path)?;
        let files = &ctx.services().files;
        let target = files.resolve(&args.file_path).await?;
        let request = WriteRequest {
            target: target.clone(),
            content: args.content,
            intent: ctx.session.observations.write_intent(&target),
            sandbox: ctx.sandbox(),
        };
        let failed = |error: FsError| mutation_failure(error, ctx, denial::may_escalate(ctx));
        let written = files.write(request, &ctx.cancel).await.map_err(failed)?;
        ctx.session.observations.present(&target, written.version);
        let before = Before::new(written.existed, written.before.as_deref());
        change::keep(ctx, before, &written.after).await;
        Ok(WriteOutput {
            path: shown(&target),
            operation: if written.existed { Operation::Update } else { Operation::Create },
            before: written.before,
            after: written.after,
            notice: written.notice,
        })
    }

    fn render(&self, _args: &WriteArgs, output: &WriteOutput) -> Vec<ContentBlock> {
        let mut body = match output.operation {
            Operation::Create => "Created file".to_owned(),
            Operation::Update => "Updated file".to_owned(),
        };
        if let Some(notice) = &output.notice {
            body.push_str(&format!("\nNote: {notice}"));
        }
        vec![ContentBlock::text(envelope::wrap(&output.path, "file", &body))]
    }

    fn presentation_meta(&self, args: &WriteArgs, output: &WriteOutput) -> Option<Value> {
        let before = Before::new(output.operation == Operation::Update, output.before.as_deref());
        change::meta(&args.file_path, before, &output.after)
    }

    fn present_call(&self, args: &WriteArgs) -> Option<CallCard> {
        Some(CallCard::Diff(DiffCall {
            title: title(args),
            diffs: vec![whole_from(args)],
            locations: vec![FileLocation::new(&args.file_path, None)],
        }))
    }

    fn present_result(&self, args: &WriteArgs, result: &DurableResult) -> Option<ResultCard> {
        if result.is_error {
            return None;
        }
        change::card(title(args), result.meta.as_ref(), Some(whole_from(args))).map(ResultCard::Diff)
    }

    async fn preview(&self, args: WriteArgs, ctx: &ToolContext) -> Preview {
        let files = &ctx.services().files;
        let Ok(target) = files.resolve(&args.file_path).await else { return Preview::default() };
        let before = match files.stat(&target).await {
            Ok(None) => None,
            Ok(Some(_)) => match files.read_text(&target, change::MAX_PREVIEW_BYTES, &ctx.cancel).await {
                Ok(file) => Some(file.text),
                Err(_) => return Preview::default(),
            },
            Err(_) => return Preview::default(),
        };
        Preview { diffs: change::preview(&shown(&target), before.as_deref(), &args.content) }
    }

    fn section(&self) -> Option<PromptSection> {
        Some(PromptSection {
            name: "tool:write".to_owned(),
            order_tenths: 1010,
            text: "Use `write` for new files and for whole rewrites; folders on the way are made. A file that exists \
                   must have been read first, and must not have changed since. Change a part of a file with `edit`."
                .to_owned(),
        })
    }
}

fn title(args: &WriteArgs) -> String {
    format!("Write {}", args.file_path)
}

fn whole_from(args: &WriteArgs) -> FileDiff {
    FileDiff { path: args.file_path.clone(), old_text: None, new_text: args.content.clone() }
}
