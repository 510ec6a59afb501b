//! `glob`: files by path pattern, newest first.
//!
//! Searches the disk through the search service; a list over the cap is sampled and saved whole beside the session.
//! Source: `spec/tools-files-shell.md` §6; product decisions, "`glob` patterns with `/`".

use super::page::{self, Page};
use super::{MAX_TOTAL_BYTES, card, is_default, limits, root, save, shown, where_saved};
use crate::arguments::not_blank;
use crate::prepared::Prepared;
use async_trait::async_trait;
use pipeline::context::{Execution, ToolContext};
use pipeline::tool::{Effect, PromptSection};
use pipeline::typed::TypedTool;
use protocol::card::{CallCard, GenericCall, ResultCard, ToolCallKind};
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
        let paths = page::page(&output.paths, &output.root, MAX_PATHS).paths;
        card::paths_meta(paths, output.paths.len(), output.partial)
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
        card::paths_card(result)
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::Bench;
    use protocol::card::{SearchHits, SearchResult};
    use protocol::id::{CallId, SessionId};
    use serde_json::json;
    use services::fake::World;
    use services::file_search::GlobFound;
    use std::path::PathBuf;

    fn found(paths: impl IntoIterator<Item = String>) -> GlobFound {
        GlobFound { paths: paths.into_iter().map(PathBuf::from).collect(), ..GlobFound::default() }
    }

    fn finding(found: GlobFound) -> Bench {
        let bench = Bench::new();
        bench.world().search.glob_result(Ok(found));
        bench
    }

    #[tokio::test]
    async fn paths_come_in_order_relative_to_the_session() {
        let paths = ["/project/new file's.ts", "/project/src/a.ts", "/else/b.ts"].map(str::to_owned);
        let bench = finding(found(paths));
        let ran = bench.call("glob", json!({"pattern": "-*.ts"})).await;
        assert_eq!(ran.text(), "new file's.ts\nsrc/a.ts\n/else/b.ts");
        assert_eq!(ran.value(), &json!({"root": ".", "paths": ["new file's.ts", "src/a.ts", "/else/b.ts"]}));
        let request = &bench.world().search.globs()[0];
        assert_eq!(
            (request.pattern.as_str(), request.root.as_path()),
            ("-*.ts", std::path::Path::new("/project"))
        );
    }

    #[tokio::test]
    async fn nothing_found_is_a_result_with_an_empty_card() {
        let bench = Bench::new();
        let ran = bench.call("glob", json!({"pattern": "*.nomatch", "path": "src"})).await;
        assert_eq!(ran.text(), "No files found");
        assert_eq!(ran.value(), &json!({"root": "src", "paths": []}));
        assert_eq!(bench.world().search.globs()[0].root, PathBuf::from("/project/src"));
        let hits = SearchHits::Paths(Vec::new());
        let expected = SearchResult { title: None, hits, truncated: false, total: 0 };
        assert_eq!(ran.card, Some(ResultCard::Search(expected)));
    }

    #[tokio::test]
    async fn a_long_list_is_sampled_and_saved_whole() {
        let many = (0..150).map(|n| format!("/project/v/{n}")).chain(["/project/src/a".to_owned()]);
        let bench = finding(found(many));
        let ran = bench.call("glob", json!({"pattern": "*"})).await;
        let (list, footer) = ran.text().split_once("\n\n").unwrap();
        assert_eq!((list.lines().count(), list.lines().last()), (100, Some("src/a")));
        assert_eq!(
            footer,
            "(100 of 151 files, a sample over 2 of 2 top-level entries. Full list: \
             /spill/session-1/glob-results.txt Read it in pages or search it.)"
        );
        let saved = bench.world().spill.saved();
        assert_eq!(
            (&saved[0].session_id, &saved[0].call_id),
            (&SessionId::new("session-1"), &CallId::new("call-1"))
        );
        assert_eq!(saved[0].content.lines().count(), 151);
        let Some(ResultCard::Search(card)) = ran.card else { panic!("no card") };
        assert_eq!((card.truncated, card.total), (true, 151));
        let SearchHits::Paths(paths) = card.hits else { panic!("no paths") };
        assert_eq!(paths.len(), 100);
    }

    #[tokio::test]
    async fn entries_beyond_the_page_are_hinted_at() {
        let many = (0..101).map(|n| format!("/project/d{n}/f")).chain(["/project/d0/g".to_owned()]);
        let bench = finding(found(many));
        let ran = bench.call("glob", json!({"pattern": "*"})).await;
        assert!(
            ran.text().contains(
                "(100 of 102 files, a sample over 100 of 101 top-level entries; narrow the pattern or the path to see \
                 the others. Full list: "
            ),
            "{}",
            ran.text()
        );
    }

    #[tokio::test]
    async fn a_flat_list_is_cut_at_its_head() {
        let bench = finding(found((0..101).map(|n| format!("/project/f{n}"))));
        bench.world().spill.fail();
        let ran = bench.call("glob", json!({"pattern": "*"})).await;
        assert!(
            ran.text().ends_with("f99\n\n(100 of 101 files. The full list could not be saved.)"),
            "{}",
            ran.text()
        );
    }

    #[tokio::test]
    async fn a_program_gets_the_whole_list_and_nothing_is_saved() {
        let bench = finding(found((0..101).map(|n| format!("/project/f{n}"))));
        let ran = bench.nested("glob", json!({"pattern": "*"})).await;
        assert_eq!(ran.value()["paths"].as_array().unwrap().len(), 101);
        assert_eq!(bench.world().spill.saved().len(), 0);
    }

    #[tokio::test]
    async fn what_was_not_seen_is_told() {
        let bench = finding(GlobFound { n_unreadable: 2, partial: true, ..found(["/project/a".to_owned()]) });
        let ran = bench.call("glob", json!({"pattern": "*"})).await;
        let lines: Vec<&str> = ran.text().lines().collect();
        assert!(lines[2].contains("ran out of its budget"), "{lines:?}");
        assert_eq!(lines[3], "(Could not be read: 2 files or folders.)");
        let Some(ResultCard::Search(card)) = ran.card else { panic!("no card") };
        assert!(card.truncated);
    }

    #[tokio::test]
    async fn a_search_that_does_not_happen_fails_with_its_code() {
        let cases = [
            (SearchError::InvalidPattern("unclosed character class".into()), "SEARCH_INVALID_PATTERN"),
            (SearchError::Failed("/project/x does not exist".into()), "SEARCH_FAILED"),
            (SearchError::Overflow { max_bytes: 1 }, "SEARCH_RAW_OUTPUT_OVERFLOW"),
            (SearchError::Aborted, "SEARCH_ABORTED"),
        ];
        for (error, code) in cases {
            let bench = Bench::new();
            bench.world().search.glob_result(Err(error));
            assert_eq!(bench.call("glob", json!({"pattern": "["})).await.code(), code);
        }
        let bench = Bench::in_world(World::new().with_file("file", ""));
        let cases = [
            (json!({"pattern": " "}), "plain"),
            (json!({"pattern": "*", "path": ""}), "plain"),
            (json!({"pattern": "*", "path": "file/x"}), "SEARCH_FAILED"),
            (json!({}), "INVALID_ARGS"),
        ];
        for (arguments, code) in cases {
            assert_eq!(bench.call("glob", arguments.clone()).await.code(), code, "{arguments}");
        }
        assert_eq!(bench.world().search.globs().len(), 0);
    }

    #[tokio::test]
    async fn paths_over_the_raw_cap_overflow() {
        let bench = finding(found((0..2001).map(|n| format!("/project/{}{n}", "x".repeat(10_000)))));
        assert_eq!(bench.call("glob", json!({"pattern": "*"})).await.code(), "SEARCH_RAW_OUTPUT_OVERFLOW");
    }

    #[tokio::test]
    async fn card_data_is_bounded() {
        let bench = finding(found((0..50).map(|n| format!("/project/{}{n}", "x".repeat(4000)))));
        let ran = bench.call("glob", json!({"pattern": "*"})).await;
        assert!(ran.durable.meta.as_ref().unwrap().to_string().len() < 70_000);
        let Some(ResultCard::Search(card)) = ran.card else { panic!("no card") };
        assert_eq!((card.truncated, card.total), (true, 50));
    }

    #[test]
    fn the_call_is_named_by_its_pattern() {
        let bench = Bench::new();
        let cases = [
            (json!({"pattern": "*.rs"}), "Glob *.rs"),
            (json!({"pattern": "*.rs", "path": "src"}), "Glob *.rs in src"),
        ];
        for (arguments, title) in cases {
            assert!(bench.tool("glob").is_concurrency_safe(&arguments));
            assert_eq!(bench.tool("glob").effect(&arguments), Effect::None);
            let expected = CallCard::Generic(GenericCall {
                title: title.into(),
                kind: ToolCallKind::Search,
                raw_input: Some("*.rs".into()),
                ..GenericCall::default()
            });
            assert_eq!(bench.call_card("glob", arguments), expected);
        }
    }

    #[tokio::test]
    async fn card_data_of_the_other_search_makes_no_card() {
        let bench = finding(found(["/project/a".to_owned()]));
        let arguments = json!({"pattern": "*"});
        let mut stored = bench.call("glob", arguments.clone()).await.durable;
        for meta in [
            None,
            Some(json!({"shape": "matches", "files": [], "truncated": false, "total": 0})),
            Some(json!({"shape": "paths", "paths": [1], "truncated": false, "total": 0})),
            Some(json!({"shape": "paths", "paths": [], "truncated": false, "total": -1})),
        ] {
            stored.meta = meta;
            assert_eq!(bench.result_card("glob", &arguments, &stored), None);
        }
    }
}
