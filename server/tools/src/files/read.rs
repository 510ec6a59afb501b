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
