//! `glob`: files by path pattern, newest first.
//!
//! Searches the disk through the search service; a list over the cap is sampled and saved whole beside the session.
//! Source: `spec/tools-files-shell.md` §6; product decisions, "`glob` patterns with `/`".

use super::page::{self, Page};
use super::{MAX_META_BYTES, MAX_TOTAL_BYTES, is_default, limits, root, save, shown, where_saved};
use crate::arguments::not_blank;
use crate::prepared::Prepared;
use async_trait::async_trait;
use pipeline::context::{Execution, ToolContext};
use pipeline::tool::{Effect, PromptSection};
use pipeline::typed::TypedTool;
use protocol::card::{CallCard, GenericCall, ResultCard, SearchHits, SearchResult, ToolCallKind};
use protocol::content::ContentBlock;
use protocol::tool::{DurableResult, Outcome, ToolFailure};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use services::file_search::{GlobRequest, SearchError};
use services::spill::Spilled;
use std::time::Duration;

/// Most paths the model reads at once.
const MAX_PATHS: usize = 100;
/// Name of the saved full list.
const SAVED_NAME: &str = "glob-results.txt";

/// Arguments of `glob`.
#[derive(Debug, Deserialize, JsonSchema)]
pub struct GlobArgs {
    /// Glob pattern for file paths, for instance `**/*.ts` or `src/**/*.test.js`. Without a `/` it matches the file name
    /// at any depth, so `*` and `*.ts` search the whole tree; with a `/` it starts at `path`.
    pattern: String,
    /// Folder to search. Default: the session's folder, where a relative path starts too.
    path: Option<String>,
}

/// Files found.
#[derive(Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct GlobOutput {
    /// Folder that was searched; `.` is the session's folder.
    root: String,
    /// Every path found, newest modification first; relative to the session's folder when inside.
    paths: Vec<String>,
    /// Whether the search ended before the tree was done.
    #[serde(default, skip_serializing_if = "is_default")]
    partial: bool,
    /// Folders that could not be read.
    #[serde(default, skip_serializing_if = "is_default")]
    unreadable: u64,
}

/// The tool.
#[derive(Default)]
pub struct Glob {
    prepared: Prepared,
}

#[async_trait]
impl TypedTool for Glob {
    type Args = GlobArgs;
    type Output = GlobOutput;

    const NAME: &'static str = "glob";

    fn description(&self) -> String {
        "Finds files whose path matches a glob pattern. Returns file paths only, never folders, and does not list what a \
         folder holds. Hidden and ignored files are included, the folders of version control are not. Up to 100 paths \
         come newest modification first; of more, a sample of 100 over the top-level entries comes instead, with a \
         note that it is a sample and where the full sorted list was saved."
            .to_owned()
    }

    fn timeout(&self) -> Option<Duration> {
        Some(Duration::from_secs(30))
    }

    fn is_concurrency_safe(&self, _args: &GlobArgs) -> bool {
        true
    }

    fn effect(&self, _args: &GlobArgs) -> Effect {
        Effect::None
    }

    async fn execute(&self, args: GlobArgs, ctx: &ToolContext) -> Result<GlobOutput, ToolFailure> {
        not_blank("pattern", &args.pattern)?;
        args.path.as_deref().map_or(Ok(()), |path| not_blank("path", path))?;
        let root = root(ctx, args.path.as_deref()).await?;
        let request = GlobRequest { pattern: args.pattern, root: root.clone() };
        let found = ctx.services().search.glob(request, &ctx.cancel).await?;
        let paths: Vec<String> = found.paths.iter().map(|path| shown(ctx.cwd(), path)).collect();
        if paths.iter().map(|path| path.len() + 1).sum::<usize>() > MAX_TOTAL_BYTES {
            return Err(SearchError::Overflow { max_bytes: MAX_TOTAL_BYTES }.into());
        }
        let output = GlobOutput {
            root: shown(ctx.cwd(), &root),
            paths,
            partial: found.partial,
            unreadable: found.n_unreadable,
        };
        if output.paths.len() > MAX_PATHS
            && let Some(spilled) = save(ctx, SAVED_NAME, output.paths.join("\n") + "\n").await
        {
            self.prepared.put(&ctx.execution, text(&output, Some(&spilled)));
        }
        Ok(output)
    }

    fn render(&self, _args: &GlobArgs, output: &GlobOutput) -> Vec<ContentBlock> {
        vec![ContentBlock::text(text(output, None))]
    }

    fn project_content(&self, execution: &Execution, outcome: &Outcome) -> Option<Vec<ContentBlock>> {
        self.prepared.take(execution, outcome)
    }

    fn presentation_meta(&self, _args: &GlobArgs, output: &GlobOutput) -> Option<Value> {
        let mut paths = page::page(&output.paths, &output.root, MAX_PATHS).paths;
        paths.truncate(page::fitting(&paths, MAX_META_BYTES));
        let total = output.paths.len() as u64;
        let truncated = output.partial || (paths.len() as u64) < total;
        serde_json::to_value(GlobMeta { shape: Shape::Paths, paths, truncated, total }).ok()
    }

    fn present_call(&self, args: &GlobArgs) -> Option<CallCard> {
        let place = args.path.as_ref().map(|path| format!(" in {path}")).unwrap_or_default();
        Some(CallCard::Generic(GenericCall {
            title: format!("Glob {}{place}", args.pattern),
            kind: ToolCallKind::Search,
            raw_input: Some(args.pattern.clone().into()),
            ..GenericCall::default()
        }))
    }

    fn present_result(&self, _args: &GlobArgs, result: &DurableResult) -> Option<ResultCard> {
        if result.is_error {
            return None;
        }
        let meta = GlobMeta::deserialize(result.meta.as_ref()?).ok()?;
        Some(ResultCard::Search(SearchResult {
            title: None,
            hits: SearchHits::Paths(meta.paths),
            truncated: meta.truncated,
            total: meta.total,
        }))
    }

    fn section(&self) -> Option<PromptSection> {
        Some(PromptSection {
            name: "tool:glob".to_owned(),
            order_tenths: 1030,
            text: "Find files by name with `glob`, not with `find` or `ls` in a shell.".to_owned(),
        })
    }
}

/// The list or a page of it, and what is missing.
fn text(output: &GlobOutput, spilled: Option<&Spilled>) -> String {
    let Page { paths, sampled } = page::page(&output.paths, &output.root, MAX_PATHS);
    let mut blocks = Vec::new();
    if paths.is_empty() {
        blocks.push("No files found".to_owned());
    } else {
        blocks.push(paths.join("\n"));
    }
    if paths.len() < output.paths.len() {
        let mut footer = format!("({} of {} files", paths.len(), output.paths.len());
        if let Some(coverage) = sampled {
            footer.push_str(&format!(
                ", a sample over {} of {} top-level entries",
                coverage.n_shown, coverage.n_total
            ));
            if coverage.n_shown < coverage.n_total {
                footer.push_str("; narrow the pattern or the path to see the others");
            }
        }
        footer.push_str(&format!(". {})", where_saved(spilled)));
        blocks.push(footer);
    }
    let limits = limits(output.partial, output.unreadable);
    if !limits.is_empty() {
        blocks.push(limits.join("\n"));
    }
    blocks.join("\n\n")
}

/// What the search card is made from.
#[derive(Serialize, Deserialize)]
struct GlobMeta {
    shape: Shape,
    paths: Vec<String>,
    truncated: bool,
    total: u64,
}

/// Tells the card data of `glob` from that of `grep`.
#[derive(Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
enum Shape {
    Paths,
}
