//! `str_replace_editor`: views, creates and edits files by absolute path, in one tool.
//!
//! An opt-in alternative to `read`, `write` and `edit` for models that were trained on it; the same file system,
//! sandbox and rule of reading before changing. Source: `spec/tools-files-shell.md` §5.

use super::{mutation_failure, not_a_file, not_found, shown};
use crate::arguments::not_blank;
use async_trait::async_trait;
use pipeline::context::ToolContext;
use pipeline::tool::Effect;
use pipeline::typed::TypedTool;
use protocol::card::{
    CallCard, DiffCall, DiffResult, FileDiff, FileLocation, GenericCall, ResultCard, ToolCallKind,
};
use protocol::content::ContentBlock;
use protocol::tool::{DurableResult, ToolFailure};
use schemars::JsonSchema;
use serde::Deserialize;
use services::file_system::{
    EditRequest, FileKind, FileVersion, FsError, FsErrorKind, Target, WriteIntent, WriteRequest, Written,
};
use std::path::Path;

/// Longest answer, in characters.
const MAX_OUTPUT_CHARS: usize = 16_000;
/// Largest file that is viewed or inserted into, in bytes.
const MAX_FILE_BYTES: u64 = 10 * 1024 * 1024;
/// Folders that a listing leaves out, besides hidden ones.
const UNLISTED: &[&str] = &["node_modules", "__pycache__"];
/// What is said after a cut answer.
const CLIPPED: &str = "<response clipped> The rest is left out. Find the lines you need with `grep -n`, then view them \
                       with view_range.";

/// Arguments of `str_replace_editor`.
#[derive(Debug, Deserialize, JsonSchema)]
pub struct EditorArgs {
    /// What to do: `view`, `create`, `str_replace` or `insert`.
    command: Command,
    /// Absolute path of a file or folder, for instance `/repo/file.py` or `/repo`.
    path: String,
    /// Required by `create`: the text of the new file.
    file_text: Option<String>,
    /// Required by `insert`: the line of `path` after which `new_str` goes.
    insert_line: Option<i64>,
    /// For `str_replace`, optional: the new text; without it the old one is deleted. Required by `insert`: the text to
    /// insert.
    new_str: Option<String>,
    /// Required by `str_replace`: the text in `path` to replace.
    old_str: Option<String>,
    /// For `view` of a file, optional: the first and the last line to show, counted from 1; `[11, 12]` shows lines 11
    /// and 12, `[11, -1]` all from line 11 on. Without it the whole file is shown.
    view_range: Option<Vec<i64>>,
}

/// What to do.
#[derive(Clone, Copy, Debug, PartialEq, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
#[schemars(description = "")]
pub enum Command {
    View,
    Create,
    StrReplace,
    Insert,
}

/// The tool.
pub struct StrReplaceEditor;

#[async_trait]
impl TypedTool for StrReplaceEditor {
    type Args = EditorArgs;
    type Output = String;

    const NAME: &'static str = super::STR_REPLACE_EDITOR;

    fn description(&self) -> String {
        "Views, creates and edits files.\n\
         * State persists across calls and across the talk with the user.\n\
         * `view` of a file shows it with line numbers, as `cat -n` does; of a folder it lists the files and folders that \
         are not hidden, two levels deep.\n\
         * `create` works only where no file exists.\n\
         * A long answer is cut and marked with <response clipped>.\n\
         On `str_replace`:\n\
         * `old_str` must match one or more whole consecutive lines of the file exactly; mind the white space.\n\
         * When `old_str` occurs more than once nothing is replaced; give enough context to make it unique.\n\
         * `new_str` holds the edited lines that take the place of `old_str`."
            .to_owned()
    }

    fn effect(&self, args: &EditorArgs) -> Effect {
        match args.command {
            Command::View => Effect::None,
            _ => Effect::WritesFile { path: args.path.clone() },
        }
    }

    async fn execute(&self, args: EditorArgs, ctx: &ToolContext) -> Result<String, ToolFailure> {
        not_blank("path", &args.path)?;
        if !Path::new(&args.path).is_absolute() {
            return Err(ToolFailure::plain(format!(
                "path must be absolute, and {} is not; it should begin with a slash, perhaps /{}",
                args.path, args.path
            )));
        }
        let target = ctx.services().files.resolve(&args.path).await?;
        match args.command {
            Command::View => view(&args, &target, ctx).await,
            Command::Create => create(args, &target, ctx).await,
            Command::StrReplace => str_replace(args, &target, ctx).await,
            Command::Insert => insert(args, &target, ctx).await,
        }
    }

    fn render(&self, _args: &EditorArgs, output: &String) -> Vec<ContentBlock> {
        vec![ContentBlock::text(output)]
    }

    fn present_call(&self, args: &EditorArgs) -> Option<CallCard> {
        let path = &args.path;
        let (name, kind, line) = match args.command {
            Command::View => ("view", ToolCallKind::Read, None),
            Command::Insert => {
                let line = args.insert_line.map(|line| u64::try_from(line + 1).unwrap_or(1).max(1));
                ("insert", ToolCallKind::Edit, line)
            }
            Command::Create | Command::StrReplace => {
                return Some(CallCard::Diff(DiffCall {
                    title: title(args),
                    diffs: diffs(args),
                    locations: vec![FileLocation::new(path, None)],
                }));
            }
        };
        Some(CallCard::Generic(GenericCall {
            title: format!("{name} {path}"),
            kind,
            locations: vec![FileLocation::new(path, line)],
            ..GenericCall::default()
        }))
    }

    fn present_result(&self, args: &EditorArgs, result: &DurableResult) -> Option<ResultCard> {
        let changes = matches!(args.command, Command::Create | Command::StrReplace);
        (changes && !result.is_error).then(|| {
            ResultCard::Diff(DiffResult { title: Some(title(args)), diffs: diffs(args), whole: None })
        })
    }
}

fn title(args: &EditorArgs) -> String {
    let name = if args.command == Command::Create { "create" } else { "str_replace" };
    format!("{name} {}", args.path)
}

fn diffs(args: &EditorArgs) -> Vec<FileDiff> {
    let (old_text, new_text) = match args.command {
        Command::Create => (None, &args.file_text),
        _ => (args.old_str.clone(), &args.new_str),
    };
    vec![FileDiff { path: args.path.clone(), old_text, new_text: new_text.clone().unwrap_or_default() }]
}

async fn view(args: &EditorArgs, target: &Target, ctx: &ToolContext) -> Result<String, ToolFailure> {
    let files = &ctx.services().files;
    let path = shown(target);
    match files.stat(target).await? {
        None => {
            ctx.session.observations.absent(target);
            return Err(not_found(target).into());
        }
        Some(stat) if stat.kind == FileKind::Directory => {
            if args.view_range.is_some() {
                return Err(ToolFailure::plain(format!("view_range is for files, and {path} is a folder")));
            }
            let listing = clipped(list(target, ctx).await?);
            return Ok(format!(
                "Files and folders in {path}, two levels deep, hidden ones left out:\n{listing}"
            ));
        }
        Some(stat) if stat.kind == FileKind::Other => return Err(not_a_file(target, "").into()),
        Some(_) => {}
    }
    let file = files.read_text(target, MAX_FILE_BYTES, &ctx.cancel).await?;
    let text = file.text.strip_prefix('\u{feff}').unwrap_or(&file.text);
    let lines: Vec<&str> = text.split('\n').collect();
    let (first, last) =
        args.view_range.as_deref().map_or(Ok((1, lines.len())), |range| check(range, lines.len()))?;
    ctx.session.observations.present(target, file.version);
    let range = args.view_range.as_ref().map_or(String::new(), |range| format!(" with view_range={range:?}"));
    let mut answer = format!("{path}, {} lines in total{range}:\n", lines.len());
    for (line_idx, line) in lines.iter().enumerate().take(last).skip(first - 1) {
        answer.push_str(&format!("{:>6}  {}\n", line_idx + 1, line.strip_suffix('\r').unwrap_or(line)));
    }
    Ok(clipped(answer))
}

/// First and last line of a range, both counted from 1.
fn check(range: &[i64], n_lines: usize) -> Result<(usize, usize), ToolFailure> {
    let wrong = |why: String| Err(ToolFailure::plain(format!("view_range {range:?} is wrong: {why}")));
    let [first, last] = *range else {
        return wrong("it must be two integers, the first and the last line".to_owned());
    };
    let total = i64::try_from(n_lines).unwrap_or(i64::MAX);
    if !(1..=total).contains(&first) {
        return wrong(format!("the first line must be from 1 to {total}, the lines of the file"));
    }
    if last > total {
        return wrong(format!("the last line must be at most {total}, the lines of the file"));
    }
    let last = if last == -1 { total } else { last };
    if last < first {
        return wrong("the last line must not be before the first; -1 means to the end".to_owned());
    }
    Ok((first as usize, last as usize))
}

/// The entries of a folder, two levels deep, by path.
async fn list(target: &Target, ctx: &ToolContext) -> Result<String, ToolFailure> {
    let files = &ctx.services().files;
    let mut entries = vec![(shown(target), FileKind::Directory)];
    let mut level = vec![target.clone()];
    for _ in 0..2 {
        let mut below = Vec::new();
        for folder in level {
            // A folder inside that cannot be read is listed without its entries; the one asked for is an error.
            let listed = match files.list_dir(&folder).await {
                Err(error) if folder == *target => return Err(error.into()),
                listed => listed.unwrap_or_default(),
            };
            for (name, kind) in listed {
                if name.starts_with('.') || UNLISTED.contains(&name.as_str()) {
                    continue;
                }
                let entry = Target { key: folder.key.join(&name), display: folder.display.join(&name) };
                entries.push((shown(&entry), kind));
                if kind == FileKind::Directory {
                    below.push(entry);
                }
            }
        }
        level = below;
    }
    entries.sort_by(|(a, _), (b, _)| a.cmp(b));
    let rows = entries.into_iter().map(|(path, kind)| {
        let letter = match kind {
            FileKind::Directory => 'd',
            FileKind::File => 'f',
            FileKind::Other => '?',
        };
        format!("{letter}\t{path}\n")
    });
    Ok(rows.collect())
}

async fn create(args: EditorArgs, target: &Target, ctx: &ToolContext) -> Result<String, ToolFailure> {
    let content = required("file_text", "create", args.file_text)?;
    let exists = || {
        let path = shown(target);
        ToolFailure::plain(format!(
            "{path} exists already; `create` makes new files only, change it with `str_replace`"
        ))
    };
    if ctx.services().files.stat(target).await?.is_some() {
        return Err(exists());
    }
    let written =
        write(target, content, WriteIntent::CreateIfAbsent, ctx).await.map_err(|error| match error.kind {
            FsErrorKind::NotObserved => exists(),
            _ => mutation_failure(error, ctx, false),
        })?;
    Ok(done(format!("Created {}.", shown(target)), target, written, ctx))
}

async fn str_replace(args: EditorArgs, target: &Target, ctx: &ToolContext) -> Result<String, ToolFailure> {
    let version = guard(target, ctx).await?;
    let old_string = required("old_str", "str_replace", args.old_str)?;
    if old_string.is_empty() {
        return Err(ToolFailure::plain("old_str must not be empty; give the text to replace"));
    }
    let request = EditRequest {
        target: target.clone(),
        old_string,
        new_string: args.new_str.unwrap_or_default(),
        replace_all: false,
        expected: Some(version),
        sandbox: ctx.sandbox(),
    };
    let written = ctx.services().files.edit(request, &ctx.cancel).await;
    let written = written.map_err(|error| mutation_failure(error, ctx, false))?;
    Ok(done(format!("Replaced the text in {}.", shown(target)), target, written, ctx))
}

async fn insert(args: EditorArgs, target: &Target, ctx: &ToolContext) -> Result<String, ToolFailure> {
    let version = guard(target, ctx).await?;
    let after_line = required("insert_line", "insert", args.insert_line)?;
    let new = required("new_str", "insert", args.new_str)?;
    let file = ctx.services().files.read_text(target, MAX_FILE_BYTES, &ctx.cancel).await?;
    let Some(text) = inserted(&file.text, after_line, &new) else {
        let n_lines = file.text.split('\n').count();
        return Err(ToolFailure::plain(format!(
            "insert_line {after_line} is outside [0, {n_lines}], the lines of {}",
            shown(target)
        )));
    };
    let written = write(target, text, WriteIntent::ReplaceIfVersion(version), ctx).await;
    let written = written.map_err(|error| mutation_failure(error, ctx, false))?;
    Ok(done(format!("Inserted the text into {}.", shown(target)), target, written, ctx))
}

/// The text with the lines of `new` after line `after_line`; `None` when there is no such line.
fn inserted(text: &str, after_line: i64, new: &str) -> Option<String> {
    let (bom, body) = text.strip_prefix('\u{feff}').map_or(("", text), |body| ("\u{feff}", body));
    let lines: Vec<&str> = body.split_inclusive('\n').collect();
    let n_lines = body.split('\n').count();
    let after_line = usize::try_from(after_line).ok().filter(|line| *line <= n_lines)?;
    let neighbour = lines.get(after_line.saturating_sub(1)).or(lines.last());
    let line_end = if neighbour.is_some_and(|line| line.ends_with("\r\n")) { "\r\n" } else { "\n" };
    let new = new.replace("\r\n", "\n").replace('\n', line_end);
    let at = lines.iter().take(after_line).map(|line| line.len()).sum::<usize>();
    let (before, after) = body.split_at(at);
    Some(if after_line == n_lines {
        format!("{bom}{before}{line_end}{new}")
    } else {
        format!("{bom}{before}{new}{line_end}{after}")
    })
}

/// The version a change is guarded by; a file that is gone is recorded as absent.
async fn guard(target: &Target, ctx: &ToolContext) -> Result<FileVersion, ToolFailure> {
    let observations = &ctx.session.observations;
    let guard = observations.edit_guard(target);
    match ctx.services().files.stat(target).await? {
        None => {
            observations.absent(target);
            guard.map_err(|error| mutation_failure(error, ctx, false))?;
            Err(not_found(target).into())
        }
        Some(stat) if stat.kind != FileKind::File => Err(not_a_file(target, "").into()),
        Some(_) => guard.map_err(|error| mutation_failure(error, ctx, false)),
    }
}

async fn write(
    target: &Target,
    content: String,
    intent: WriteIntent,
    ctx: &ToolContext,
) -> Result<Written, FsError> {
    let request = WriteRequest { target: target.clone(), content, intent, sandbox: ctx.sandbox() };
    ctx.services().files.write(request, &ctx.cancel).await
}

/// Records what is stored now, and says what was done.
fn done(sentence: String, target: &Target, written: Written, ctx: &ToolContext) -> String {
    ctx.session.observations.present(target, written.version);
    match written.notice {
        Some(notice) => format!("{sentence}\nNote: {notice}"),
        None => sentence,
    }
}

fn required<T>(name: &str, command: &str, value: Option<T>) -> Result<T, ToolFailure> {
    value.ok_or_else(|| ToolFailure::plain(format!("`{command}` needs {name}")))
}

fn clipped(text: String) -> String {
    match text.char_indices().nth(MAX_OUTPUT_CHARS) {
        Some((end, _)) => format!("{}{CLIPPED}", &text[..end]),
        None => text,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::Bench;
    use serde_json::{Value, json};
    use services::fake::World;

    const THREE: &str = "one\ntwo\nthree\n";

    fn with(path: &str, text: &str) -> Bench {
        Bench::in_world(World::new().with_file(path, text))
    }

    async fn run(bench: &Bench, arguments: Value) -> crate::testing::Ran {
        bench.call("str_replace_editor", arguments).await
    }

    fn view_of(path: &str) -> Value {
        json!({"command": "view", "path": path})
    }

    #[tokio::test]
    async fn a_view_numbers_the_lines() {
        let bench = with("/project/a", THREE);
        let mut arguments = view_of("/project/a");
        let whole = "/project/a, 4 lines in total:\n     1  one\n     2  two\n     3  three\n     4  \n";
        assert_eq!(run(&bench, arguments.clone()).await.text(), whole);
        arguments["view_range"] = json!([2, -1]);
        let tail =
            "/project/a, 4 lines in total with view_range=[2, -1]:\n     2  two\n     3  three\n     4  \n";
        assert_eq!(run(&bench, arguments.clone()).await.text(), tail);
        arguments["view_range"] = json!([2, 2]);
        assert!(run(&bench, arguments).await.text().ends_with(":\n     2  two\n"));
    }

    #[tokio::test]
    async fn a_wrong_range_is_explained() {
        let bench = with("/project/a", THREE);
        let cases = [
            (json!([1]), "two integers"),
            (json!([0, 2]), "from 1 to 4"),
            (json!([5, 5]), "from 1 to 4"),
            (json!([1, 5]), "at most 4"),
            (json!([3, 2]), "not be before the first"),
            (json!([1, -2]), "not be before the first"),
        ];
        for (range, why) in cases {
            let ran =
                run(&bench, json!({"command": "view", "path": "/project/a", "view_range": range})).await;
            assert_eq!(ran.code(), "plain");
            assert!(ran.text().contains(why) && ran.text().contains("view_range ["), "{}", ran.text());
        }
    }

    #[tokio::test]
    async fn a_folder_is_listed_two_levels_deep() {
        let mut world = World::new();
        for path in
            ["d/a", "d/sub/b", "d/sub/deep/c", "d/.hidden", "d/node_modules/x", "d/__pycache__/y", "d/é"]
        {
            world = world.with_file(&format!("/project/{path}"), "");
        }
        let bench = Bench::in_world(world);
        let ran = run(&bench, view_of("/project/d")).await;
        let rows = "d\t/project/d\nf\t/project/d/a\nd\t/project/d/sub\nf\t/project/d/sub/b\nd\t/project/d/sub/deep\nf\t/project/d/é\n";
        assert_eq!(
            ran.text(),
            format!("Files and folders in /project/d, two levels deep, hidden ones left out:\n{rows}")
        );
        let ran = run(&bench, json!({"command": "view", "path": "/project/d", "view_range": [1, 2]})).await;
        assert_eq!(ran.code(), "plain");
    }

    #[tokio::test]
    async fn a_long_answer_is_clipped() {
        let bench = with("/project/a", &"é\n".repeat(10_000));
        let ran = run(&bench, view_of("/project/a")).await;
        let (kept, note) = ran.text().split_once("<response clipped>").unwrap();
        assert_eq!(kept.chars().count(), MAX_OUTPUT_CHARS);
        assert!(note.contains("grep -n"));
    }

    #[tokio::test]
    async fn paths_must_be_absolute() {
        let bench = with("/project/a.txt", "");
        let ran = run(&bench, view_of("a.txt")).await;
        assert_eq!((ran.code(), ran.text().contains("perhaps /a.txt")), ("plain", true));
        assert_eq!(run(&bench, view_of(" ")).await.code(), "plain");
    }

    #[tokio::test]
    async fn create_makes_new_files_only() {
        let bench = Bench::new();
        let arguments = json!({"command": "create", "path": "/project/a", "file_text": "x\n"});
        assert_eq!(run(&bench, arguments.clone()).await.text(), "Created /project/a.");
        assert_eq!(run(&bench, arguments).await.code(), "plain");
        assert_eq!(bench.world().files.text("a").as_deref(), Some("x\n"));
        assert_eq!(run(&bench, json!({"command": "create", "path": "/project/b"})).await.code(), "plain");
    }

    #[tokio::test]
    async fn a_file_seen_to_be_gone_can_be_created() {
        let bench = with("/project/a", "1");
        run(&bench, view_of("/project/a")).await;
        bench.world().files.remove("a");
        assert_eq!(run(&bench, view_of("/project/a")).await.code(), "FS_NOT_FOUND");
        let create = json!({"command": "create", "path": "/project/a", "file_text": "2"});
        assert_eq!(run(&bench, create).await.code(), "ok");
    }

    #[tokio::test]
    async fn str_replace_replaces_the_only_match() {
        let bench = with("/project/a", "one\r\ntwo\r\none more\r\n");
        let replace = |old: Option<&str>, new: Option<&str>| {
            let mut arguments = json!({"command": "str_replace", "path": "/project/a"});
            old.into_iter().for_each(|old| arguments["old_str"] = json!(old));
            new.into_iter().for_each(|new| arguments["new_str"] = json!(new));
            arguments
        };
        assert_eq!(run(&bench, replace(None, None)).await.code(), "FS_NOT_OBSERVED");
        run(&bench, view_of("/project/a")).await;
        assert_eq!(run(&bench, replace(None, None)).await.code(), "plain");
        assert_eq!(run(&bench, replace(Some(""), None)).await.code(), "plain");
        assert_eq!(run(&bench, replace(Some("three"), None)).await.code(), "FS_EDIT_NOT_FOUND");
        let twice = run(&bench, replace(Some("one"), None)).await;
        assert_eq!((twice.code(), twice.text().contains("1, 3")), ("FS_AMBIGUOUS_EDIT", true));
        assert_eq!(
            run(&bench, replace(Some("one\ntwo\n"), None)).await.text(),
            "Replaced the text in /project/a."
        );
        assert_eq!(run(&bench, replace(Some("more"), Some("1\n2"))).await.code(), "ok");
        assert_eq!(bench.world().files.text("a").as_deref(), Some("one 1\r\n2\r\n"));
        let missing = json!({"command": "str_replace", "path": "/project/none", "old_str": "x"});
        assert_eq!(run(&bench, missing).await.code(), "FS_NOT_OBSERVED");
        let create = json!({"command": "create", "path": "/project/none", "file_text": ""});
        assert_eq!(run(&bench, create).await.code(), "ok");
        bench.world().files.make_dir("dir");
        let folder = json!({"command": "str_replace", "path": "/project/dir", "old_str": "x"});
        assert_eq!(run(&bench, folder).await.code(), "FS_NOT_REGULAR_FILE");
    }

    #[test]
    fn lines_are_inserted_after_a_line() {
        let cases = [
            (THREE, 0, "new", Some("new\none\ntwo\nthree\n")),
            (THREE, 1, "a\nb", Some("one\na\nb\ntwo\nthree\n")),
            (THREE, 3, "new", Some("one\ntwo\nthree\nnew\n")),
            (THREE, 4, "new", Some("one\ntwo\nthree\n\nnew")),
            (THREE, 5, "new", None),
            (THREE, -1, "new", None),
            ("", 0, "new", Some("new\n")),
            ("", 1, "new", Some("\nnew")),
            ("a\r\nb", 1, "x\ny", Some("a\r\nx\r\ny\r\nb")),
            ("a\r\nb", 2, "x", Some("a\r\nb\nx")),
            ("\u{feff}a", 0, "x", Some("\u{feff}x\na")),
        ];
        for (text, line, new, expected) in cases {
            assert_eq!(inserted(text, line, new).as_deref(), expected, "{text:?} {line}");
        }
    }

    #[tokio::test]
    async fn insert_names_the_lines_there_are() {
        let bench = with("/project/a", THREE);
        let insert = |line: i64| json!({"command": "insert", "path": "/project/a", "insert_line": line, "new_str": "x"});
        assert_eq!(run(&bench, insert(0)).await.code(), "FS_NOT_OBSERVED");
        run(&bench, view_of("/project/a")).await;
        let ran = run(&bench, insert(5)).await;
        assert!(ran.text().contains("[0, 4]"), "{}", ran.text());
        assert_eq!(run(&bench, insert(3)).await.text(), "Inserted the text into /project/a.");
        assert_eq!(run(&bench, insert(0)).await.code(), "ok");
        assert_eq!(bench.world().files.text("a").as_deref(), Some("x\none\ntwo\nthree\nx\n"));
        let incomplete = json!({"command": "insert", "path": "/project/a", "insert_line": 0});
        assert_eq!(run(&bench, incomplete).await.code(), "plain");
        bench.world().files.put("a", "other");
        assert_eq!(run(&bench, insert(0)).await.code(), "FS_STALE_VERSION");
    }

    #[tokio::test]
    async fn the_sandbox_marker_comes_without_a_hint() {
        let bench = Bench::new();
        let ran = run(&bench, json!({"command": "create", "path": "/etc/x", "file_text": ""})).await;
        assert_eq!(ran.code(), "FS_SANDBOX_DENIED");
        assert!(ran.text().ends_with("\n[sandbox: file access denied under workspace-write mode]"));
    }

    #[tokio::test]
    async fn cards_follow_the_command() {
        let bench = with("/project/a", "");
        let card = |arguments| bench.call_card("str_replace_editor", arguments);
        let change = |title: &str, old: Option<&str>, new: &str| DiffCall {
            title: title.into(),
            diffs: vec![FileDiff {
                path: "/a".into(),
                old_text: old.map(str::to_owned),
                new_text: new.into(),
            }],
            locations: vec![FileLocation::new("/a", None)],
        };
        let view = card(view_of("/a"));
        assert_eq!((view.title(), matches!(view, CallCard::Generic(_))), ("view /a", true));
        let create = json!({"command": "create", "path": "/a", "file_text": "x"});
        assert_eq!(card(create), CallCard::Diff(change("create /a", None, "x")));
        let replace = json!({"command": "str_replace", "path": "/a", "old_str": "x"});
        assert_eq!(card(replace), CallCard::Diff(change("str_replace /a", Some("x"), "")));
        for (line, shown) in [(json!(4), 5), (json!(-7), 1)] {
            let insert = json!({"command": "insert", "path": "/a", "insert_line": line, "new_str": ""});
            let CallCard::Generic(generic) = card(insert) else { panic!("no generic card") };
            assert_eq!(generic.kind, ToolCallKind::Edit);
            assert_eq!(generic.locations, [FileLocation::new("/a", Some(shown))]);
        }
        let ran = run(&bench, json!({"command": "create", "path": "/project/new", "file_text": "x"})).await;
        assert!(matches!(ran.card, Some(ResultCard::Diff(_))), "the diff survives completion");
        assert_eq!(run(&bench, view_of("/project/new")).await.card, None);
        let tool = bench.tool("str_replace_editor");
        assert_eq!(tool.effect(&view_of("/a")), Effect::None);
        let create = json!({"command": "create", "path": "/a"});
        assert_eq!(tool.effect(&create), Effect::WritesFile { path: "/a".into() });
    }
}
