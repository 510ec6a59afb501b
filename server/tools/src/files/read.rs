//! `read`: a window of a text file, with line numbers.
//!
//! Reads through the session's file system, so unsaved editor text is what the model sees, and records the version
//! that was read so that the file may be changed afterwards. Source: `spec/tools-files-shell.md` §1.

use super::{envelope, not_a_file, not_found, shown};
use crate::arguments::{as_positive_integer, not_blank, positive_integer};
use async_trait::async_trait;
use pipeline::context::ToolContext;
use pipeline::tool::{Effect, PromptSection};
use pipeline::typed::TypedTool;
use protocol::card::{
    CallCard, FileLocation, GenericCall, ReadFileLine, ReadResult, ResultCard, ToolCallKind,
};
use protocol::content::ContentBlock;
use protocol::tool::{DurableResult, ToolFailure};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use services::file_system::{FileKind, FsError, FsErrorKind, WindowRequest};
use std::path::Path;

/// Most lines of one call, and the default.
const MAX_LINES: u64 = 2000;
/// Most bytes of all lines of one call.
const MAX_BYTES: usize = 51_200;
/// Longest line, in characters.
const MAX_LINE_CHARS: usize = 2000;

/// Arguments of `read`.
#[derive(Debug, Deserialize, JsonSchema)]
pub struct ReadArgs {
    /// File to read; a relative path starts at the session's folder.
    file_path: String,
    /// First line to return, counted from 1. Default 1.
    offset: Option<f64>,
    /// Most lines to return. Default and maximum 2000.
    limit: Option<f64>,
}

/// A window of a file.
#[derive(Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct ReadOutput {
    /// Absolute path.
    path: String,
    /// First line asked for, counted from 1.
    offset: u64,
    /// The lines of the window.
    lines: Vec<Line>,
    /// Lines of the whole file.
    total_lines: u64,
}

/// One line of a file.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Line {
    /// Line of the file, counted from 1.
    number: u64,
    /// Its text without the line end.
    text: String,
}

/// The tool.
pub struct Read;

#[async_trait]
impl TypedTool for Read {
    type Args = ReadArgs;
    type Output = ReadOutput;

    const NAME: &'static str = "read";

    fn description(&self) -> String {
        "Reads a UTF-8 text file and returns its lines with line numbers.".to_owned()
    }

    fn is_concurrency_safe(&self, _args: &ReadArgs) -> bool {
        true
    }

    fn effect(&self, _args: &ReadArgs) -> Effect {
        Effect::None
    }

    async fn execute(&self, args: ReadArgs, ctx: &ToolContext) -> Result<ReadOutput, ToolFailure> {
        not_blank("file_path", &args.file_path)?;
        let offset = args.offset.map_or(Ok(1), |offset| positive_integer("offset", offset))?;
        let limit = args.limit.map_or(Ok(MAX_LINES), |limit| positive_integer("limit", limit))?;
        if limit > MAX_LINES {
            return Err(ToolFailure::plain(format!("limit must be at most {MAX_LINES}, not {limit}")));
        }
        let files = &ctx.services().files;
        let target = files.resolve(&args.file_path).await?;
        let observations = &ctx.session.observations;
        match files.stat(&target).await? {
            None => {
                observations.absent(&target);
                return Err(not_found(&target).into());
            }
            Some(stat) if stat.kind == FileKind::Directory => {
                return Err(not_a_file(&target, " but a folder; list it with glob").into());
            }
            Some(stat) if stat.kind == FileKind::Other => return Err(not_a_file(&target, "").into()),
            Some(_) => {}
        }
        let request = WindowRequest { offset, limit, max_bytes: MAX_BYTES, max_line_chars: MAX_LINE_CHARS };
        let read = files.read_window(&target, request, &ctx.cancel).await.inspect_err(|error| {
            if error.kind == FsErrorKind::NotFound {
                observations.absent(&target);
            }
        })?;
        let total_lines = read.window.total_lines;
        if offset > total_lines.max(1) {
            return Err(FsError::new(
                FsErrorKind::NotFound,
                format!(
                    "offset {offset} is past the end of {}, which has {total_lines} lines",
                    shown(&target)
                ),
            )
            .into());
        }
        observations.present(&target, read.version);
        let lines = read.window.lines.into_iter().map(|(number, text)| Line { number, text }).collect();
        Ok(ReadOutput { path: shown(&target), offset, lines, total_lines })
    }

    fn render(&self, args: &ReadArgs, output: &ReadOutput) -> Vec<ContentBlock> {
        vec![ContentBlock::text(envelope::wrap(&output.path, "file", &body(args, output)))]
    }

    fn presentation_meta(&self, _args: &ReadArgs, output: &ReadOutput) -> Option<Value> {
        let lines = output.lines.iter().cloned().map(|Line { number, text }| ReadFileLine { number, text });
        let meta = ReadMeta {
            path: output.path.clone(),
            offset: output.offset,
            lines: lines.collect(),
            total_lines: output.total_lines,
            lang: language(&output.path).map(str::to_owned),
        };
        serde_json::to_value(meta).ok()
    }

    fn present_call(&self, args: &ReadArgs) -> Option<CallCard> {
        let path = &args.file_path;
        let first = args.offset.unwrap_or(1.0);
        let window = match (args.offset, args.limit) {
            (_, Some(limit)) if limit > 0.0 => format!(" ({first} - {})", first + limit - 1.0),
            (Some(offset), _) => format!(" (from line {offset})"),
            (None, _) => String::new(),
        };
        Some(CallCard::Generic(GenericCall {
            title: format!("Read {path}{window}"),
            kind: ToolCallKind::Read,
            locations: vec![FileLocation::new(path, Some(as_positive_integer(first).unwrap_or(1)))],
            ..GenericCall::default()
        }))
    }

    fn present_result(&self, _args: &ReadArgs, result: &DurableResult) -> Option<ResultCard> {
        if result.is_error {
            return None;
        }
        let meta = ReadMeta::deserialize(result.meta.as_ref()?).ok().filter(ReadMeta::is_sound)?;
        let body = envelope::unwrap(result.single_text()?, &meta.path, "file")?;
        Some(ResultCard::Read(ReadResult {
            title: None,
            path: meta.path,
            offset: meta.offset,
            lines: meta.lines,
            total_lines: meta.total_lines,
            lang: meta.lang,
            content: Some(body.to_owned()),
        }))
    }

    fn section(&self) -> Option<PromptSection> {
        Some(PromptSection {
            name: "tool:read".to_owned(),
            order_tenths: 1000,
            text: "Look at files with `read`, not with `cat`, `head`, `tail` or `sed` in a shell. Each line comes as \
                   `N: text`; number, colon and blank are not part of the file. A long file comes in windows: go on \
                   with the `offset` that the last line names. Read a file before you change it."
                .to_owned(),
        })
    }
}

/// Numbered lines, then where the window ends.
fn body(args: &ReadArgs, output: &ReadOutput) -> String {
    let limit = args.limit.map_or(MAX_LINES as usize, |limit| limit as usize);
    let last = output.lines.last().map_or(output.offset - 1, |line| line.number);
    let total = output.total_lines;
    let next = last + 1;
    let range = match output.lines.first() {
        Some(first) => format!("Lines {}-{last}", first.number),
        None => "No lines".to_owned(),
    };
    let footer = if last >= total {
        format!("(End of file: {total} lines in total.)")
    } else if output.lines.len() < limit {
        format!("({range}: the limit of {MAX_BYTES} bytes was reached. Continue with offset={next}.)")
    } else {
        format!("({range} of {total}. Continue with offset={next}.)")
    };
    let mut body = String::new();
    for line in &output.lines {
        body.push_str(&format!("{}: {}\n", line.number, line.text));
    }
    if !output.lines.is_empty() {
        body.push('\n');
    }
    body + &footer
}

/// What the read card is made from.
#[derive(Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
struct ReadMeta {
    path: String,
    offset: u64,
    lines: Vec<ReadFileLine>,
    total_lines: u64,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    lang: Option<String>,
}

impl ReadMeta {
    /// Line numbers from `offset` on, strictly increasing, within the file.
    fn is_sound(&self) -> bool {
        self.offset >= 1
            && self.lines.iter().all(|line| (self.offset..=self.total_lines).contains(&line.number))
            && self.lines.windows(2).all(|pair| pair[0].number < pair[1].number)
    }
}

/// Highlighting hint by file extension.
fn language(path: &str) -> Option<&'static str> {
    let extension = Path::new(path).extension()?.to_str()?.to_lowercase();
    Some(match extension.as_str() {
        "ts" | "mts" | "cts" => "ts",
        "js" | "mjs" | "cjs" => "js",
        "json" | "jsonc" => "json",
        "c" | "h" => "c",
        "cc" | "cpp" | "hpp" | "cxx" => "cpp",
        "kt" => "kotlin",
        "sh" | "bash" | "zsh" => "sh",
        "yaml" | "yml" => "yaml",
        "md" | "markdown" => "md",
        "html" | "htm" => "html",
        own => {
            return [
                "tsx", "jsx", "py", "rb", "go", "rs", "java", "cs", "swift", "php", "toml", "ini", "mdx",
                "css", "scss", "less", "sql", "xml", "lua",
            ]
            .into_iter()
            .find(|known| *known == own);
        }
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::Bench;
    use serde_json::json;
    use services::fake::World;

    #[tokio::test]
    async fn a_window_comes_with_numbers_and_says_where_to_go_on() {
        let bench = Bench::in_world(World::new().with_file("a.txt", "one\r\ntwo\r\nthree\r\n"));
        let ran = bench.call("read", json!({"file_path": "a.txt", "offset": 2, "limit": 1})).await;
        assert_eq!(
            ran.text(),
            "<path>/project/a.txt</path>\n<type>file</type>\n<content>\n2: two\n\n\
             (Lines 2-2 of 3. Continue with offset=3.)\n</content>"
        );
        assert_eq!(
            ran.value(),
            &json!({"path": "/project/a.txt", "offset": 2, "lines": [{"number": 2, "text": "two"}], "totalLines": 3})
        );
    }

    #[tokio::test]
    async fn the_end_of_the_file_is_told() {
        let cases = [
            ("", "(End of file: 0 lines in total.)"),
            ("a\tb", "1: a\tb\n\n(End of file: 1 lines in total.)"),
        ];
        for (text, body) in cases {
            let bench = Bench::in_world(World::new().with_file("a", text));
            let ran = bench.call("read", json!({"file_path": "a"})).await;
            assert_eq!(envelope::unwrap(ran.text(), "/project/a", "file"), Some(body));
        }
    }

    #[tokio::test]
    async fn long_files_come_in_windows_of_bytes_and_lines() {
        let bench =
            Bench::in_world(World::new().with_file("a", &format!("{}\n", "x".repeat(1000)).repeat(100)));
        let ran = bench.call("read", json!({"file_path": "a"})).await;
        assert!(
            ran.text().ends_with(
                "(Lines 1-51: the limit of 51200 bytes was reached. Continue with offset=52.)\n</content>"
            ),
            "{}",
            &ran.text()[ran.text().len() - 200..]
        );
        let bench = Bench::in_world(World::new().with_file("a", &"x\n".repeat(2001)));
        let ran = bench.call("read", json!({"file_path": "a"})).await;
        assert!(ran.text().ends_with("(Lines 1-2000 of 2001. Continue with offset=2001.)\n</content>"));
    }

    #[test]
    fn a_window_that_holds_no_line_points_at_the_same_line() {
        let args = ReadArgs { file_path: "a".into(), offset: Some(5.0), limit: None };
        let output = ReadOutput { path: "/a".into(), offset: 5, lines: Vec::new(), total_lines: 9 };
        assert_eq!(
            body(&args, &output),
            "(No lines: the limit of 51200 bytes was reached. Continue with offset=5.)"
        );
    }

    #[tokio::test]
    async fn a_file_without_line_ends_is_one_cut_line() {
        let bench = Bench::in_world(World::new().with_file("a", &"é".repeat(200_000)));
        let ran = bench.call("read", json!({"file_path": "a"})).await;
        let line = ran.value()["lines"][0]["text"].as_str().unwrap().to_owned();
        assert_eq!(line, format!("{}... (line truncated to 2000 chars)", "é".repeat(2000)));
    }

    #[tokio::test]
    async fn what_cannot_be_read_fails_with_its_code() {
        let bench = Bench::in_world(World::new().with_file("a.txt", "1\n2\n3\n").with_file("dir/b", ""));
        bench.world().files.put("nul", b"a\0b");
        bench.world().files.put("latin1", b"caf\xe9");
        let cases = [
            (json!({"file_path": "a.txt", "offset": 10}), "FS_NOT_FOUND", "offset 10 is past the end"),
            (json!({"file_path": "a.txt", "limit": 2001}), "plain", "at most 2000"),
            (
                json!({"file_path": "a.txt", "offset": 1.5}),
                "plain",
                "offset must be a positive integer, not 1.5",
            ),
            (json!({"file_path": "a.txt", "offset": 0}), "plain", "offset must be a positive integer, not 0"),
            (json!({"file_path": "a.txt", "limit": -1}), "plain", "limit must be a positive integer"),
            (json!({"file_path": "a.txt", "limit": "1"}), "INVALID_ARGS", "limit"),
            (json!({}), "INVALID_ARGS", "file_path"),
            (json!({"file_path": "nul"}), "FS_NOT_TEXT", "nul"),
            (json!({"file_path": "latin1"}), "FS_NOT_TEXT", "latin1"),
            (json!({"file_path": "dir"}), "FS_NOT_REGULAR_FILE", "list it with glob"),
            (json!({"file_path": "none"}), "FS_NOT_FOUND", "/project/none does not exist"),
            (json!({"file_path": "a.txt/b"}), "FS_NOT_FOUND", "parent"),
            (json!({"file_path": " "}), "plain", "file_path must not be blank"),
        ];
        for (arguments, code, message) in cases {
            let ran = bench.call("read", arguments.clone()).await;
            assert_eq!(ran.code(), code, "{arguments}");
            assert!(ran.text().starts_with("Error: ") && ran.text().contains(message), "{}", ran.text());
            assert_eq!(ran.card, None);
        }
    }

    #[tokio::test]
    async fn a_file_that_is_missing_may_then_be_created() {
        let bench = Bench::new();
        assert_eq!(bench.call("read", json!({"file_path": "new"})).await.code(), "FS_NOT_FOUND");
        assert_eq!(bench.call("write", json!({"file_path": "new", "content": "x"})).await.code(), "ok");
    }

    #[tokio::test]
    async fn a_cancelled_read_is_aborted() {
        let bench = Bench::in_world(World::new().with_file("a", "x"));
        let arguments = json!({"file_path": "a"});
        let ctx = bench.session.context("read", arguments.clone());
        ctx.cancel.cancel();
        let failure = bench.tool("read").execute(&arguments, &ctx).await.unwrap_err();
        assert_eq!(failure.code(), Some("FS_ABORTED"));
    }

    #[test]
    fn the_title_tells_the_window_and_the_location_its_first_line() {
        let cases = [
            (json!({"file_path": "a.ts", "offset": 5, "limit": 4}), "Read a.ts (5 - 8)", 5),
            (json!({"file_path": "a.ts", "limit": 10}), "Read a.ts (1 - 10)", 1),
            (json!({"file_path": "a.ts", "offset": 3}), "Read a.ts (from line 3)", 3),
            (json!({"file_path": "a.ts"}), "Read a.ts", 1),
            (json!({"file_path": "a.ts", "offset": 0}), "Read a.ts (from line 0)", 1),
        ];
        for (arguments, title, line) in cases {
            let expected = CallCard::Generic(GenericCall {
                title: title.to_owned(),
                kind: ToolCallKind::Read,
                locations: vec![FileLocation::new("a.ts", Some(line))],
                ..GenericCall::default()
            });
            assert_eq!(Bench::new().call_card("read", arguments), expected);
        }
    }

    #[tokio::test]
    async fn the_card_holds_the_window_and_the_body_without_its_frame() {
        let bench = Bench::in_world(World::new().with_file("a.rs", "fn a() {}\n"));
        let ran = bench.call("read", json!({"file_path": "a.rs"})).await;
        let expected = ResultCard::Read(ReadResult {
            title: None,
            path: "/project/a.rs".to_owned(),
            offset: 1,
            lines: vec![ReadFileLine { number: 1, text: "fn a() {}".to_owned() }],
            total_lines: 1,
            lang: Some("rs".to_owned()),
            content: Some("1: fn a() {}\n\n(End of file: 1 lines in total.)".to_owned()),
        });
        assert_eq!(ran.card, Some(expected));
    }

    #[tokio::test]
    async fn stored_data_that_makes_no_sense_makes_no_card() {
        let arguments = json!({"file_path": "a.rs"});
        let bench = Bench::in_world(World::new().with_file("a.rs", "1\n2\n"));
        let good = bench.call("read", arguments.clone()).await.durable;
        let bad: [fn(&mut DurableResult); 7] = [
            |result| result.meta.as_mut().unwrap()["lines"][1]["number"] = json!(3),
            |result| result.meta.as_mut().unwrap()["lines"][1]["number"] = json!(1),
            |result| result.meta.as_mut().unwrap()["offset"] = json!(0),
            |result| result.meta.as_mut().unwrap()["totalLines"] = json!(-1),
            |result| result.meta = None,
            |result| result.content = vec![ContentBlock::text("spilled")],
            |result| result.is_error = true,
        ];
        assert!(bench.result_card("read", &arguments, &good).is_some());
        for spoil in bad {
            let mut result = good.clone();
            spoil(&mut result);
            assert_eq!(bench.result_card("read", &arguments, &result), None);
        }
    }

    #[test]
    fn languages_go_by_extension() {
        let cases = [
            ("a.TSX", Some("tsx")),
            ("a.mts", Some("ts")),
            ("a.rs", Some("rs")),
            (".bashrc", None),
            ("Makefile", None),
            ("a.xyz", None),
        ];
        for (path, expected) in cases {
            assert_eq!(language(path), expected, "{path}");
        }
    }

    #[test]
    fn reading_overlaps_and_changes_nothing() {
        let tool = Bench::new();
        let tool = tool.tool("read");
        assert!(tool.is_concurrency_safe(&json!({"file_path": "a"})));
        assert!(!tool.is_concurrency_safe(&json!({})));
        assert_eq!(tool.effect(&json!({"file_path": "a"})), Effect::None);
    }
}
