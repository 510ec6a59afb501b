//! `lsp`: definition, references, implementations and hover of the symbol at a place.
//!
//! Asks the language servers service about the present text of the file. Source: `spec/tools-files-shell.md` §13; product
//! decisions, "characters", "Follow".

use crate::arguments::{not_blank, positive_integer};
use crate::search::card;
use async_trait::async_trait;
use pipeline::context::ToolContext;
use pipeline::tool::{Effect, PromptSection};
use pipeline::typed::TypedTool;
use protocol::card::{CallCard, FileLocation, GenericCall, ResultCard, ToolCallKind};
use protocol::content::ContentBlock;
use protocol::tool::{DurableResult, ToolFailure};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use services::language_servers::{
    LspError, LspErrorKind, LspFound, LspOperation, LspPosition, LspQuery, LspRange,
};
use std::path::Path;
use std::time::Duration;

/// Most places the model reads at once.
const MAX_LOCATIONS: usize = 100;
/// Longest text, notice included, in characters.
const MAX_TEXT: usize = 16_000;
/// Largest source, in bytes.
const MAX_SOURCE: u64 = 4_000_000;

/// How the notice of an answer by name begins.
const BY_NAME: &str = "(by name, from the syntax tree;";

/// What can be asked.
#[derive(Clone, Copy, Debug, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
enum Operation {
    GoToDefinition,
    FindReferences,
    GoToImplementation,
    Hover,
}

impl From<Operation> for LspOperation {
    fn from(operation: Operation) -> Self {
        match operation {
            Operation::GoToDefinition => Self::GoToDefinition,
            Operation::FindReferences => Self::FindReferences,
            Operation::GoToImplementation => Self::GoToImplementation,
            Operation::Hover => Self::Hover,
        }
    }
}

/// Arguments of `lsp`.
#[derive(Debug, Deserialize, JsonSchema)]
pub struct LspArgs {
    /// What to ask: `goToDefinition`, `findReferences` (the declaration included), `goToImplementation`, or `hover` (type
    /// and documentation).
    operation: Operation,
    /// Source file, absolute or relative to the session's folder.
    file_path: String,
    /// Line of the symbol, counted from 1.
    line: f64,
    /// Column of the symbol, counted from 1 in UTF-16 code units; any character of the name will do.
    character: f64,
}

/// What a server answered.
#[derive(Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(tag = "kind", rename_all = "camelCase")]
pub enum LspOutput {
    /// Places.
    #[serde(rename_all = "camelCase")]
    Locations {
        /// Every place, in the server's order.
        locations: Vec<OutLocation>,
        /// The session's folder, links resolved.
        resolved_workspace_uri: String,
        /// What to know about the answer, for instance that the server is still loading.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        notice: Option<String>,
    },
    /// Type and documentation.
    Hover {
        /// What was found, or null.
        #[schemars(schema_with = "nullable_hover")]
        hover: Option<OutHover>,
        /// As for locations.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        notice: Option<String>,
    },
}

fn nullable_hover(generator: &mut schemars::SchemaGenerator) -> schemars::Schema {
    let hover = OutHover::json_schema(generator);
    schemars::json_schema!({ "oneOf": [hover, { "type": "null" }] })
}

/// A place.
#[derive(Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct OutLocation {
    /// Address of the file.
    uri: String,
    /// Where in it.
    range: OutRange,
    /// Its path; relative to the session's folder when inside, missing when the address is none of a file.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    path: Option<String>,
    /// Text of its first line, when known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    line_text: Option<String>,
}

/// Type and documentation of a symbol.
#[derive(Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct OutHover {
    /// Markdown.
    contents: String,
    /// What it is about.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    range: Option<OutRange>,
}

/// A span; lines and UTF-16 columns from 0, the end behind the last character.
#[derive(Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct OutRange {
    /// First character.
    start: OutPosition,
    /// Behind the last character.
    end: OutPosition,
}

/// A place in a text.
#[derive(Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct OutPosition {
    /// Line from 0.
    line: u32,
    /// UTF-16 column from 0.
    character: u32,
}

impl From<LspRange> for OutRange {
    fn from(range: LspRange) -> Self {
        let place = |at: LspPosition| OutPosition { line: at.line, character: at.character };
        Self { start: place(range.start), end: place(range.end) }
    }
}

/// The tool.
pub struct Lsp;

#[async_trait]
impl TypedTool for Lsp {
    type Args = LspArgs;
    type Output = LspOutput;

    const NAME: &'static str = "lsp";

    fn description(&self) -> String {
        "Asks a language server about the symbol at a place of a source file: where it is defined, where it is used, what \
         implements it, or its type and documentation. Answers by meaning, not by text, on the present contents of the \
         file, unsaved changes of the editor included. Line and character count from 1, characters in UTF-16 code units. \
         Places are returned as path:line:column, at most 100. Where no language server for the language is \
         installed, common languages are answered by name only, and the answer or the error says how to install one."
            .to_owned()
    }

    fn timeout(&self) -> Option<Duration> {
        Some(Duration::from_secs(60))
    }

    fn is_concurrency_safe(&self, _args: &LspArgs) -> bool {
        true
    }

    fn effect(&self, _args: &LspArgs) -> Effect {
        Effect::None
    }

    async fn execute(&self, args: LspArgs, ctx: &ToolContext) -> Result<LspOutput, ToolFailure> {
        not_blank("file_path", &args.file_path)?;
        let line = positive_integer("line", args.line)?;
        let character = positive_integer("character", args.character)?;
        let services = ctx.services();
        let Some(servers) = &services.language_servers else {
            return Err(
                LspError::new(LspErrorKind::Unavailable, "language servers are not available here").into()
            );
        };
        let target = services.files.resolve(&args.file_path).await?;
        let text = services.files.read_text(&target, MAX_SOURCE, &ctx.cancel).await?.text;
        let from_zero = |number: u64| u32::try_from(number - 1).unwrap_or(u32::MAX);
        let query = LspQuery {
            operation: args.operation.into(),
            path: target.key,
            text,
            position: LspPosition { line: from_zero(line), character: from_zero(character) },
        };
        let answer = servers.query(query, &ctx.cancel).await?;
        let mut notices = Vec::new();
        notices.extend(answer.by_name.as_ref().map(|why| format!("{BY_NAME} {why})")));
        if answer.is_loading {
            notices.push(format!("({}: the server is still loading, may be incomplete)", answer.server));
        }
        notices.extend(answer.warning.map(|warning| format!("({} reports: {warning})", answer.server)));
        let notice = (!notices.is_empty()).then(|| notices.join("\n"));
        Ok(match answer.found {
            LspFound::Hover(hover) => LspOutput::Hover {
                hover: hover.map(|hover| OutHover {
                    contents: hover.contents,
                    range: hover.range.map(OutRange::from),
                }),
                notice,
            },
            LspFound::Locations(all) => LspOutput::Locations {
                locations: all
                    .into_iter()
                    .map(|location| OutLocation {
                        uri: location.uri,
                        range: location.range.into(),
                        path: location.path.map(|path| shown(&answer.workspace, &path)),
                        line_text: location.line_text,
                    })
                    .collect(),
                resolved_workspace_uri: file_uri(&answer.workspace),
                notice,
            },
        })
    }

    fn render(&self, _args: &LspArgs, output: &LspOutput) -> Vec<ContentBlock> {
        let (body, notice) = match output {
            LspOutput::Hover { hover, notice } => (
                hover.as_ref().map_or("No hover information.".to_owned(), |hover| hover.contents.clone()),
                notice,
            ),
            LspOutput::Locations { locations, notice, .. } => (rows(locations), notice),
        };
        let notice = notice.as_ref().map(|notice| format!("\n\n{notice}")).unwrap_or_default();
        let room = MAX_TEXT.saturating_sub(notice.chars().count());
        vec![ContentBlock::text(capped(&body, room) + &notice)]
    }

    fn presentation_meta(&self, _args: &LspArgs, output: &LspOutput) -> Option<Value> {
        let LspOutput::Locations { locations, .. } = output else { return None };
        let shown = locations.iter().take(MAX_LOCATIONS).filter_map(|location| {
            let line_number = u64::from(location.range.start.line) + 1;
            let text = location.line_text.as_deref().unwrap_or_default();
            Some((location.path.as_deref()?, line_number, text))
        });
        card::matches_meta(shown, locations.len(), false)
    }

    fn present_call(&self, args: &LspArgs) -> Option<CallCard> {
        let line = crate::arguments::as_positive_integer(args.line);
        Some(CallCard::Generic(GenericCall {
            title: title(args),
            kind: ToolCallKind::Search,
            locations: vec![FileLocation::new(args.file_path.clone(), line)],
            ..GenericCall::default()
        }))
    }

    fn present_result(&self, args: &LspArgs, result: &DurableResult) -> Option<ResultCard> {
        let mut card = card::matches_card(result)?;
        let is_by_name =
            result.content.iter().any(|block| block.as_text().is_some_and(|text| text.contains(BY_NAME)));
        if let (ResultCard::Search(card), true) = (&mut card, is_by_name) {
            card.title = Some(format!("{} (by name)", title(args)));
        }
        Some(card)
    }

    fn section(&self) -> Option<PromptSection> {
        Some(PromptSection {
            name: "tool:lsp".to_owned(),
            order_tenths: 1120,
            text: "To follow a symbol to its definition, its uses or its type, prefer `lsp` to searching for its name."
                .to_owned(),
        })
    }
}

/// What is asked, and where.
fn title(args: &LspArgs) -> String {
    let operation = LspOperation::from(args.operation).id();
    format!("LSP {operation} {}:{}:{}", args.file_path, args.line, args.character)
}

/// Places as `path:line:column`, grouped by file in first-seen order.
fn rows(locations: &[OutLocation]) -> String {
    if locations.is_empty() {
        return "No results.".to_owned();
    }
    let mut groups: Vec<(&str, Vec<String>)> = Vec::new();
    for location in locations.iter().take(MAX_LOCATIONS) {
        let path = location.path.as_deref().unwrap_or(&location.uri);
        let start = &location.range.start;
        let row = format!("{path}:{}:{}", u64::from(start.line) + 1, u64::from(start.character) + 1);
        match groups.iter_mut().find(|(known, _)| *known == path) {
            Some((_, rows)) => rows.push(row),
            None => groups.push((path, vec![row])),
        }
    }
    let mut rows: Vec<String> = groups.into_iter().flat_map(|(_, rows)| rows).collect();
    if locations.len() > MAX_LOCATIONS {
        let n_omitted = locations.len() - MAX_LOCATIONS;
        rows.push(format!("… {n_omitted} more results omitted (the limit is {MAX_LOCATIONS})"));
    }
    rows.join("\n")
}

fn capped(body: &str, room: usize) -> String {
    if body.chars().count() <= room {
        return body.to_owned();
    }
    let notice = format!("\n… cut at {MAX_TEXT} characters");
    let kept: String = body.chars().take(room.saturating_sub(notice.chars().count())).collect();
    kept + &notice
}

/// A path as the model reads it: relative to the real session folder when inside, `.` for the folder itself.
fn shown(workspace: &Path, path: &Path) -> String {
    match path.strip_prefix(workspace) {
        Ok(relative) if relative.as_os_str().is_empty() => ".".to_owned(),
        Ok(relative) => relative.display().to_string(),
        Err(_) => path.display().to_string(),
    }
}

fn file_uri(path: &Path) -> String {
    let mut uri = "file://".to_owned();
    for &byte in path.to_string_lossy().as_bytes() {
        if byte.is_ascii_alphanumeric() || b"-._~/".contains(&byte) {
            uri.push(char::from(byte));
        } else {
            uri.push_str(&format!("%{byte:02X}"));
        }
    }
    uri
}

#[cfg(test)]
mod tests {
    use crate::testing::Bench;
    use protocol::card::{ResultCard, SearchHits};
    use serde_json::{Value, json};
    use services::fake::World;
    use services::language_servers::{
        LspAnswer, LspError, LspErrorKind, LspFound, LspHover, LspLocation, LspOperation, LspPosition,
        LspRange,
    };
    use std::path::PathBuf;

    fn bench(answer: Result<LspFound, LspError>, is_loading: bool) -> Bench {
        let bench = Bench::in_world(World::new().with_file("/project/a.rs", "fn é() {}\n"));
        bench.world().language_servers.answer(answer.map(|found| LspAnswer {
            found,
            workspace: PathBuf::from("/project"),
            server: "rust-analyzer".to_owned(),
            is_loading,
            warning: None,
            by_name: None,
        }));
        bench
    }

    fn location(path: &str, line: u32, character: u32) -> LspLocation {
        let at = LspPosition { line, character };
        LspLocation {
            uri: format!("file://{path}"),
            path: path.starts_with('/').then(|| PathBuf::from(path)),
            range: LspRange { start: at, end: at },
            line_text: Some("text".to_owned()),
        }
    }

    fn arguments(operation: &str) -> Value {
        json!({ "operation": operation, "file_path": "a.rs", "line": 1, "character": 4 })
    }

    #[tokio::test]
    async fn places_are_rows_by_file_and_links() {
        let found = vec![
            location("/project/b.rs", 2, 4),
            location("/usr/dep.rs", 0, 0),
            location("/project/b.rs", 9, 0),
        ];
        let bench = bench(Ok(LspFound::Locations(found)), false);
        let ran = bench.call("lsp", arguments("findReferences")).await;
        assert_eq!(ran.text(), "b.rs:3:5\nb.rs:10:1\n/usr/dep.rs:1:1");
        let query = &bench.world().language_servers.queries()[0];
        assert_eq!(query.operation, LspOperation::FindReferences);
        assert_eq!(
            (query.text.as_str(), query.position),
            ("fn é() {}\n", LspPosition { line: 0, character: 3 })
        );
        let Some(ResultCard::Search(card)) = ran.card else { panic!("no card") };
        assert_eq!((card.total, card.truncated), (3, false));
        let SearchHits::Matches(files) = card.hits else { panic!("no matches") };
        assert_eq!(files.iter().map(|file| file.path.as_str()).collect::<Vec<_>>(), ["b.rs", "/usr/dep.rs"]);
    }

    #[tokio::test]
    async fn more_than_a_hundred_places_are_counted() {
        let found = (0..101).map(|line| location("/project/b.rs", line, 0)).collect();
        let bench = bench(Ok(LspFound::Locations(found)), false);
        let ran = bench.call("lsp", arguments("findReferences")).await;
        assert_eq!(ran.text().lines().count(), 101);
        assert!(ran.text().ends_with("b.rs:100:1\n… 1 more results omitted (the limit is 100)"));
    }

    #[tokio::test]
    async fn nothing_found_says_whether_the_server_is_still_loading() {
        let nothing =
            bench(Ok(LspFound::Locations(Vec::new())), false).call("lsp", arguments("goToDefinition")).await;
        assert_eq!(nothing.text(), "No results.");
        let loading = bench(Ok(LspFound::Hover(None)), true).call("lsp", arguments("hover")).await;
        assert_eq!(
            loading.text(),
            "No hover information.\n\n(rust-analyzer: the server is still loading, may be incomplete)"
        );
    }

    #[tokio::test]
    async fn hover_is_shown_as_it_is_up_to_the_cap() {
        let hover = LspHover { contents: "é".repeat(20_000), range: None };
        let ran = bench(Ok(LspFound::Hover(Some(hover))), false).call("lsp", arguments("hover")).await;
        assert_eq!(ran.text().chars().count(), 16_000);
        assert!(ran.text().ends_with("é\n… cut at 16000 characters"));
        assert_eq!(ran.card, None);
    }

    #[tokio::test]
    async fn bad_arguments_and_failures_are_errors() {
        let with = |name: &str, value: Value| {
            let mut arguments = arguments("hover");
            arguments[name] = value;
            arguments
        };
        for (arguments, code) in [
            (with("character", json!(0)), "plain"),
            (with("line", json!(1.5)), "plain"),
            (with("file_path", json!(" ")), "plain"),
            (with("operation", json!("rename")), "INVALID_ARGS"),
            (with("file_path", json!("missing.rs")), "FS_NOT_FOUND"),
            (with("line", json!(1)), "LSP_UNAVAILABLE"),
        ] {
            let error = LspError::new(LspErrorKind::Unavailable, "no server");
            let ran = bench(Err(error), false).call("lsp", arguments.clone()).await;
            assert_eq!(ran.code(), code, "{arguments}");
        }
    }
}
