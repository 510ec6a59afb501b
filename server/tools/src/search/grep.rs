//! `grep`: lines by regular expression, by file.
//!
//! Searches the disk through the search service; a list over the cap is cut and saved whole beside the session.
//! Source: `spec/tools-files-shell.md` §7; product decisions, "grep".

use super::page;
use super::{MAX_META_BYTES, MAX_TOTAL_BYTES, is_default, limits, root, save, shown, where_saved};
use crate::arguments::not_blank;
use crate::prepared::Prepared;
use async_trait::async_trait;
use pipeline::context::{Execution, ToolContext};
use pipeline::tool::{Effect, PromptSection};
use pipeline::typed::TypedTool;
use protocol::card::{
    CallCard, GenericCall, ResultCard, SearchFileMatches, SearchHits, SearchLineMatch, SearchResult,
    ToolCallKind,
};
use protocol::content::ContentBlock;
use protocol::tool::{DurableResult, Outcome, ToolFailure};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use services::file_search::GrepRequest;
use std::time::Duration;

/// Most matches the model reads at once.
const MAX_MATCHES: usize = 250;
/// Longest line kept, in bytes; of a longer one the window round the match.
const MAX_LINE_BYTES: usize = 2000;
/// Name of the saved full list.
const SAVED_NAME: &str = "grep-results.txt";
/// Said when no place was named.
const LEFT_OUT: &str =
    "(Ignored, hidden and binary files were left out; name a file or folder in `path` to search them too.)";

/// Arguments of `grep`.
#[derive(Debug, Deserialize, JsonSchema)]
pub struct GrepArgs {
    /// Regular expression in ripgrep's syntax.
    pattern: String,
    /// File or folder to search. Default: the session's folder, where a relative path starts too.
    path: Option<String>,
    /// One glob for the files to search, for instance `*.ts` or `*.{js,jsx}`. No list and no negation.
    include: Option<String>,
}

/// Lines found.
#[derive(Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct GrepOutput {
    /// Every match, by path and line.
    matches: Vec<Match>,
    /// Whether the search ended before the tree was done.
    #[serde(default, skip_serializing_if = "is_default")]
    partial: bool,
    /// Files and folders that could not be read.
    #[serde(default, skip_serializing_if = "is_default")]
    unreadable: u64,
}

/// One line found.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Match {
    /// Its file; relative to the session's folder when inside.
    path: String,
    /// Its line, counted from 1.
    line_number: u64,
    /// Its text; of a very long line the window round the match.
    line: String,
}

/// The tool.
#[derive(Default)]
pub struct Grep {
    prepared: Prepared,
}

#[async_trait]
impl TypedTool for Grep {
    type Args = GrepArgs;
    type Output = GrepOutput;

    const NAME: &'static str = "grep";

    fn description(&self) -> String {
        "Searches the contents of files for a regular expression in ripgrep's syntax. Returns matching lines with their \
         line numbers, grouped by file. The first 250 matches are returned; when there are more, the result says where \
         the full list was saved. For the lines around a match, read the file."
            .to_owned()
    }

    fn timeout(&self) -> Option<Duration> {
        Some(Duration::from_secs(30))
    }

    fn is_concurrency_safe(&self, _args: &GrepArgs) -> bool {
        true
    }

    fn effect(&self, _args: &GrepArgs) -> Effect {
        Effect::None
    }

    async fn execute(&self, args: GrepArgs, ctx: &ToolContext) -> Result<GrepOutput, ToolFailure> {
        if args.pattern.is_empty() {
            return Err(ToolFailure::plain("pattern must not be empty"));
        }
        args.path.as_deref().map_or(Ok(()), |path| not_blank("path", path))?;
        args.include.as_deref().map_or(Ok(()), check_include)?;
        let request = GrepRequest {
            pattern: args.pattern.clone(),
            root: root(ctx, args.path.as_deref()).await?,
            include: args.include.clone(),
            search_ignored: args.path.is_some(),
            max_line_bytes: MAX_LINE_BYTES,
            max_total_bytes: MAX_TOTAL_BYTES,
        };
        let found = ctx.services().search.grep(request, &ctx.cancel).await?;
        let matches = found.matches.into_iter().map(|found| Match {
            path: shown(ctx.cwd(), &found.path),
            line_number: found.line_number,
            line: found.line,
        });
        let output =
            GrepOutput { matches: matches.collect(), partial: found.partial, unreadable: found.n_unreadable };
        if output.matches.len() > MAX_MATCHES {
            let full = format!("{}\n\n{}\n", header(&output, output.matches.len()), groups(&output.matches));
            if let Some(spilled) = save(ctx, SAVED_NAME, full).await {
                self.prepared.put(&ctx.execution, text(&args, &output, &where_saved(Some(&spilled))));
            }
        }
        Ok(output)
    }

    fn render(&self, args: &GrepArgs, output: &GrepOutput) -> Vec<ContentBlock> {
        vec![ContentBlock::text(text(args, output, &where_saved(None)))]
    }

    fn project_content(&self, execution: &Execution, outcome: &Outcome) -> Option<Vec<ContentBlock>> {
        self.prepared.take(execution, outcome)
    }

    fn presentation_meta(&self, _args: &GrepArgs, output: &GrepOutput) -> Option<Value> {
        let n_shown = output.matches.len().min(MAX_MATCHES);
        let mut files: Vec<SearchFileMatches> = Vec::new();
        for found in &output.matches[..n_shown] {
            let line = SearchLineMatch { line_number: found.line_number, line: found.line.clone() };
            match files.last_mut().filter(|file| file.path == found.path) {
                Some(file) => file.matches.push(line),
                None => files.push(SearchFileMatches { path: found.path.clone(), matches: vec![line] }),
            }
        }
        files.truncate(page::fitting(&files, MAX_META_BYTES));
        let n_kept: usize = files.iter().map(|file| file.matches.len()).sum();
        let truncated = output.partial || n_kept < output.matches.len();
        let total = output.matches.len() as u64;
        serde_json::to_value(GrepMeta { shape: Shape::Matches, files, truncated, total }).ok()
    }

    fn present_call(&self, args: &GrepArgs) -> Option<CallCard> {
        let place = args.path.as_ref().map(|path| format!(" in {path}")).unwrap_or_default();
        let include = args.include.as_ref().map(|include| format!(" ({include})")).unwrap_or_default();
        Some(CallCard::Generic(GenericCall {
            title: format!("Grep {}{place}{include}", args.pattern),
            kind: ToolCallKind::Search,
            raw_input: Some(args.pattern.clone().into()),
            ..GenericCall::default()
        }))
    }

    fn present_result(&self, _args: &GrepArgs, result: &DurableResult) -> Option<ResultCard> {
        if result.is_error {
            return None;
        }
        let meta = GrepMeta::deserialize(result.meta.as_ref()?).ok()?;
        Some(ResultCard::Search(SearchResult {
            title: None,
            hits: SearchHits::Matches(meta.files),
            truncated: meta.truncated,
            total: meta.total,
        }))
    }

    fn section(&self) -> Option<PromptSection> {
        Some(PromptSection {
            name: "tool:grep".to_owned(),
            order_tenths: 1040,
            text: "Search file contents with `grep`, not with `grep` or `rg` in a shell.".to_owned(),
        })
    }
}

/// One positive glob: no blank, no negation, no comma outside braces.
fn check_include(include: &str) -> Result<(), ToolFailure> {
    not_blank("include", include)?;
    if include.starts_with('!') {
        return Err(ToolFailure::plain("include cannot be negated; name the files to search"));
    }
    let mut depth = 0_usize;
    for char in include.chars() {
        match char {
            '{' => depth += 1,
            '}' => depth = depth.saturating_sub(1),
            ',' if depth == 0 => {
                return Err(ToolFailure::plain(
                    "include is one glob, not a list; put alternatives in braces, for instance *.{ts,js}",
                ));
            }
            _ => {}
        }
    }
    Ok(())
}

/// Header, matches by file, and what is missing.
fn text(args: &GrepArgs, output: &GrepOutput, where_saved: &str) -> String {
    let n_shown = output.matches.len().min(MAX_MATCHES);
    let mut blocks = vec![header(output, n_shown)];
    if n_shown > 0 {
        blocks.push(groups(&output.matches[..n_shown]));
    }
    if n_shown < output.matches.len() {
        blocks.push(format!("({where_saved})"));
    }
    let mut notes = limits(output.partial, output.unreadable);
    if args.path.is_none() {
        notes.push(LEFT_OUT.to_owned());
    }
    if !notes.is_empty() {
        blocks.push(notes.join("\n"));
    }
    blocks.join("\n\n")
}

fn header(output: &GrepOutput, n_shown: usize) -> String {
    match output.matches.len() {
        0 => "No matches found".to_owned(),
        1 => "Found 1 match".to_owned(),
        n if n_shown < n => format!("Found {n_shown} of {n} matches"),
        n => format!("Found {n} matches"),
    }
}

/// Matches by file, a blank line between files.
fn groups(matches: &[Match]) -> String {
    let mut text = String::new();
    let mut current = None;
    for found in matches {
        if current != Some(&found.path) {
            text.push_str(if current.is_some() { "\n\n" } else { "" });
            text.push_str(&found.path);
            current = Some(&found.path);
        }
        text.push_str(&format!("\nLine {}: {}", found.line_number, found.line));
    }
    text
}

/// What the search card is made from.
#[derive(Serialize, Deserialize)]
struct GrepMeta {
    shape: Shape,
    files: Vec<SearchFileMatches>,
    truncated: bool,
    total: u64,
}

/// Tells the card data of `grep` from that of `glob`.
#[derive(Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
enum Shape {
    Matches,
}
