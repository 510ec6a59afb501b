//! `grep`: lines by regular expression, by file.
//!
//! Searches the disk through the search service; a list over the cap is cut and saved whole beside the session.
//! Source: `spec/tools-files-shell.md` §7; product decisions, "grep".

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
/// The same for a search that names its files, which opens ignored and hidden ones of that name.
const FOLDERS_LEFT_OUT: &str = "(Ignored and hidden folders and binary files were left out; name a file or folder in `path` to search them too.)";

/// Arguments of `grep`.
#[derive(Debug, Deserialize, JsonSchema)]
pub struct GrepArgs {
    /// Regular expression in ripgrep's syntax.
    pattern: String,
    /// File or folder to search. Default: the session's folder, where a relative path starts too.
    path: Option<String>,
    /// One glob for the files to search, for instance `*.ts` or `*.{js,jsx}`. No list and no negation.
    /// A file it names is searched though it is ignored or hidden.
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
         line numbers, grouped by file. Without path, ignored, hidden and binary files are left out; what path names is \
         searched whole. The first 250 matches are returned; when there are more, the result says where \
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
        let shown = output.matches.iter().take(MAX_MATCHES);
        let lines = shown.map(|found| (found.path.as_str(), found.line_number, found.line.as_str()));
        card::matches_meta(lines, output.matches.len(), output.partial)
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
        card::matches_card(result)
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
        let left_out = if args.include.is_some() { FOLDERS_LEFT_OUT } else { LEFT_OUT };
        notes.push(left_out.to_owned());
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::Bench;
    use protocol::card::{SearchFileMatches, SearchHits, SearchLineMatch, SearchResult};
    use serde_json::json;
    use services::file_search::{GrepFound, GrepMatch, SearchError};
    use std::path::PathBuf;

    fn found<'a>(matches: impl IntoIterator<Item = (&'a str, u64, &'a str)>) -> GrepFound {
        let matches = matches.into_iter().map(|(path, line_number, line)| GrepMatch {
            path: PathBuf::from(path),
            line_number,
            line: line.to_owned(),
        });
        GrepFound { matches: matches.collect(), ..GrepFound::default() }
    }

    fn finding(found: GrepFound) -> Bench {
        let bench = Bench::new();
        bench.world().search.grep_result(Ok(found));
        bench
    }

    #[tokio::test]
    async fn matches_are_grouped_by_file() {
        let bench = finding(found([
            ("/project/a.rs", 1, "fn a"),
            ("/project/a.rs", 9, "  fn b"),
            ("/x/c.rs", 2, "fn c"),
        ]));
        let ran = bench.call("grep", json!({"pattern": "fn"})).await;
        assert_eq!(
            ran.text(),
            format!(
                "Found 3 matches\n\na.rs\nLine 1: fn a\nLine 9:   fn b\n\n/x/c.rs\nLine 2: fn c\n\n{LEFT_OUT}"
            )
        );
        assert_eq!(ran.value()["matches"][1], json!({"path": "a.rs", "lineNumber": 9, "line": "  fn b"}));
        let line = |line_number, line: &str| SearchLineMatch { line_number, line: line.into() };
        let files = vec![
            SearchFileMatches { path: "a.rs".into(), matches: vec![line(1, "fn a"), line(9, "  fn b")] },
            SearchFileMatches { path: "/x/c.rs".into(), matches: vec![line(2, "fn c")] },
        ];
        let expected =
            SearchResult { title: None, hits: SearchHits::Matches(files), truncated: false, total: 3 };
        assert_eq!(ran.card, Some(ResultCard::Search(expected)));
    }

    #[tokio::test]
    async fn a_named_place_is_searched_whole() {
        let bench = finding(found([("/project/target/x", 1, "x")]));
        let arguments = json!({"pattern": "$(rm -rf x)", "path": "target", "include": "*.{ts,js}"});
        let ran = bench.call("grep", arguments).await;
        assert_eq!(ran.text(), "Found 1 match\n\ntarget/x\nLine 1: x");
        let request = &bench.world().search.greps()[0];
        assert_eq!(request.pattern, "$(rm -rf x)");
        assert_eq!(request.include.as_deref(), Some("*.{ts,js}"));
        assert_eq!(request.root, PathBuf::from("/project/target"));
        assert!(request.search_ignored);

        let bench = Bench::new();
        let ran = bench.call("grep", json!({"pattern": " "})).await;
        assert_eq!(ran.text(), format!("No matches found\n\n{LEFT_OUT}"));
        assert!(!bench.world().search.greps()[0].search_ignored);
        let Some(ResultCard::Search(card)) = ran.card else { panic!("no card") };
        assert_eq!(card.hits, SearchHits::Matches(Vec::new()));
    }

    #[tokio::test]
    async fn more_than_a_page_is_cut_and_saved_whole() {
        let many = || found((1..=300).map(|line| ("/project/a", line, "x")));
        let bench = finding(many());
        let ran = bench.call("grep", json!({"pattern": "x", "path": "a"})).await;
        assert!(ran.text().starts_with("Found 250 of 300 matches\n\na\nLine 1: x\n"), "{}", ran.text());
        assert!(
            ran.text().ends_with(
                "Line 250: x\n\n(Full list: /spill/session-1/grep-results.txt Read it in pages or search it.)"
            ),
            "{}",
            ran.text()
        );
        let saved = &bench.world().spill.saved()[0];
        assert!(saved.content.starts_with("Found 300 matches\n\na\nLine 1: x\n"));
        assert!(saved.content.ends_with("Line 300: x\n"));

        let bench = finding(many());
        bench.world().spill.fail();
        let ran = bench.call("grep", json!({"pattern": "x", "path": "a"})).await;
        assert!(ran.text().ends_with("\n\n(The full list could not be saved.)"));

        let bench = finding(many());
        let ran = bench.nested("grep", json!({"pattern": "x"})).await;
        assert_eq!(ran.value()["matches"].as_array().unwrap().len(), 300);
        assert_eq!(bench.world().spill.saved().len(), 0);
    }

    #[tokio::test]
    async fn what_was_not_seen_is_told_last() {
        let bench = finding(GrepFound { n_unreadable: 1, partial: true, ..GrepFound::default() });
        let ran = bench.call("grep", json!({"pattern": "x"})).await;
        let lines: Vec<&str> = ran.text().lines().collect();
        assert_eq!((lines[0], lines.len()), ("No matches found", 5));
        assert!(lines[2].contains("ran out of its budget"));
        assert_eq!((lines[3], lines[4]), ("(Could not be read: 1 files or folders.)", LEFT_OUT));
    }

    #[tokio::test]
    async fn arguments_are_checked_before_the_search() {
        let bench = Bench::new();
        for include in ["*.ts,*.js", "!x", " ", "", "{a,b},c"] {
            let ran = bench.call("grep", json!({"pattern": "x", "include": include})).await;
            assert_eq!(ran.code(), "plain", "{include}");
        }
        assert_eq!(bench.call("grep", json!({"pattern": ""})).await.code(), "plain");
        assert_eq!(bench.call("grep", json!({"pattern": "x", "path": " "})).await.code(), "plain");
        assert_eq!(bench.world().search.greps().len(), 0);
    }

    #[tokio::test]
    async fn a_search_that_does_not_happen_fails_with_its_code() {
        let cases = [
            (SearchError::InvalidPattern("unclosed group".into()), "SEARCH_INVALID_PATTERN"),
            (SearchError::Failed("/project/x does not exist".into()), "SEARCH_FAILED"),
            (SearchError::Overflow { max_bytes: 1 }, "SEARCH_RAW_OUTPUT_OVERFLOW"),
        ];
        for (error, code) in cases {
            let bench = Bench::new();
            bench.world().search.grep_result(Err(error));
            let ran = bench.call("grep", json!({"pattern": "("})).await;
            assert_eq!((ran.code(), &ran.card), (code, &None));
        }
        let bench = Bench::new();
        let arguments = json!({"pattern": "x"});
        let ctx = bench.session.context("grep", arguments.clone());
        ctx.cancel.cancel();
        let failure = bench.tool("grep").execute(&arguments, &ctx).await.unwrap_err();
        assert_eq!(failure.code(), Some("SEARCH_ABORTED"));
    }

    #[tokio::test]
    async fn card_data_is_bounded_by_whole_files() {
        let line = "x".repeat(2000);
        let matches =
            (0..40).map(|n| (if n % 2 == 0 { "/project/a" } else { "/project/b" }, n, line.as_str()));
        let mut matches: Vec<_> = matches.collect();
        matches.sort();
        let bench = finding(found(matches));
        let ran = bench.call("grep", json!({"pattern": "x"})).await;
        let Some(ResultCard::Search(card)) = ran.card else { panic!("no card") };
        let SearchHits::Matches(files) = card.hits else { panic!("no matches") };
        assert_eq!((files.len(), card.truncated, card.total), (1, true, 40));
    }

    #[test]
    fn the_call_is_named_by_its_pattern() {
        let bench = Bench::new();
        let cases = [
            (json!({"pattern": "fn"}), "Grep fn"),
            (json!({"pattern": "fn", "path": "src", "include": "*.rs"}), "Grep fn in src (*.rs)"),
        ];
        for (arguments, title) in cases {
            assert!(bench.tool("grep").is_concurrency_safe(&arguments));
            let expected = CallCard::Generic(GenericCall {
                title: title.into(),
                kind: ToolCallKind::Search,
                raw_input: Some("fn".into()),
                ..GenericCall::default()
            });
            assert_eq!(bench.call_card("grep", arguments), expected);
        }
    }
}
