//! `edit`: replaces literal text in a file.
//!
//! Works through the session's file system under the sandbox, on a file that was read as it is now; bytes outside the
//! replaced spans stay. Source: `spec/tools-files-shell.md` §4; product decisions, "BOM and line ends".

use super::change::{self, Before, Change};
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

    fn to_value(&self, output: EditOutput) -> Result<Value, String> {
        let EditOutput { path, before, after, notice } = output;
        Ok(change::value([
            ("path", Some(path.into())),
            ("before", Some(before.into())),
            ("after", Some(after.into())),
            ("notice", notice.map(Value::from)),
        ]))
    }

    fn render(&self, args: &EditArgs, output: &EditOutput) -> Vec<ContentBlock> {
        text(args, &output.path, output.notice.as_deref())
    }

    fn render_value(&self, args: &EditArgs, value: &Value) -> Result<Vec<ContentBlock>, String> {
        let change = Change::of(value)?;
        Ok(text(args, change.path, change.notice))
    }

    fn meta_of_value(&self, args: &EditArgs, value: &Value) -> Result<Option<Value>, String> {
        let change = Change::of(value)?;
        Ok(change::meta(&args.file_path, Before::new(true, change.before), change.after))
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

fn text(args: &EditArgs, path: &str, notice: Option<&str>) -> Vec<ContentBlock> {
    let what = if args.replace_all.unwrap_or(false) {
        "Replaced all occurrences in"
    } else {
        "Replaced the text in"
    };
    let note = notice.map(|notice| format!("\nNote: {notice}")).unwrap_or_default();
    vec![ContentBlock::text(format!("{what} {path}.{note}"))]
}

fn title(args: &EditArgs) -> String {
    format!("Edit {}", args.file_path)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::Bench;
    use protocol::card::DiffResult;
    use serde_json::json;
    use services::fake::World;

    fn edit(path: &str, old: &str, new: &str) -> Value {
        json!({"file_path": path, "old_string": old, "new_string": new})
    }

    /// A bench on which `a` was read.
    async fn read(text: &str) -> Bench {
        let bench = Bench::in_world(World::new().with_file("a", text));
        bench.call("read", json!({"file_path": "a"})).await;
        bench
    }

    #[tokio::test]
    async fn only_the_replaced_text_changes() {
        let cases = [
            ("one two\n", "two", "2", "one 2\n"),
            ("a\r\nb\r\nc\r\n", "a\nb", "x\ny", "x\r\ny\r\nc\r\n"),
            ("a\r\nb\n", "b", "1\n2", "a\r\n1\r\n2\n"),
            ("\u{feff}a\n", "a", "b", "\u{feff}b\n"),
            ("gone stays", "gone ", "", "stays"),
            ("x", "x", "$1 $& \\n “q”", "$1 $& \\n “q”"),
        ];
        for (text, old, new, expected) in cases {
            let bench = read(text).await;
            let ran = bench.call("edit", edit("a", old, new)).await;
            assert_eq!(ran.text(), "Replaced the text in /project/a.");
            assert_eq!(bench.world().files.text("a").as_deref(), Some(expected), "{text:?}");
            assert_eq!(ran.value(), &json!({"path": "/project/a", "before": text, "after": expected}));
        }
    }

    #[tokio::test]
    async fn all_occurrences_are_replaced_on_request() {
        let bench = read("x\ny\nx\n").await;
        let mut arguments = edit("a", "x", "z");
        let refused = bench.call("edit", arguments.clone()).await;
        assert_eq!(refused.code(), "FS_AMBIGUOUS_EDIT");
        assert!(refused.text().contains('2') && refused.text().contains("replace_all"), "{}", refused.text());
        arguments["replace_all"] = json!(true);
        assert_eq!(bench.call("edit", arguments).await.text(), "Replaced all occurrences in /project/a.");
        assert_eq!(bench.world().files.text("a").as_deref(), Some("z\ny\nz\n"));
    }

    #[tokio::test]
    async fn what_cannot_be_edited_fails_with_its_code_and_stays() {
        let bench = read("text\n").await;
        bench.world().files.put("unread", "text");
        bench.world().files.put("bin", b"a\0");
        let cases = [
            (edit("unread", "text", "x"), "FS_NOT_OBSERVED", "Read it first, then retry."),
            (edit("a", "nowhere", "x"), "FS_EDIT_NOT_FOUND", "not found"),
            (edit("a", "", "x"), "plain", "old_string must not be empty"),
            (edit("a", "text", "text"), "plain", "nothing to change"),
            (edit(" ", "text", "x"), "plain", "file_path"),
            (edit("bin", "a", "x"), "FS_NOT_OBSERVED", ""),
            (json!({"file_path": "a", "old_string": "x"}), "INVALID_ARGS", "new_string"),
        ];
        for (arguments, code, message) in cases {
            let ran = bench.call("edit", arguments.clone()).await;
            assert_eq!(ran.code(), code, "{arguments}");
            assert!(ran.text().contains(message), "{}", ran.text());
            assert_eq!(ran.card, None);
        }
        assert_eq!(bench.world().files.text("a").as_deref(), Some("text\n"));
        assert_eq!(bench.world().files.text("unread").as_deref(), Some("text"));
    }

    #[tokio::test]
    async fn a_file_seen_to_be_missing_cannot_be_edited() {
        let bench = Bench::new();
        bench.call("read", json!({"file_path": "a"})).await;
        assert_eq!(bench.call("edit", edit("a", "x", "y")).await.code(), "FS_NOT_FOUND");
    }

    #[tokio::test]
    async fn a_stale_file_is_named_before_a_missing_match() {
        let bench = read("one").await;
        bench.world().files.put("a", "other");
        let stale = bench.call("edit", edit("a", "nowhere", "x")).await;
        assert_eq!(stale.code(), "FS_STALE_VERSION");
        assert!(stale.text().ends_with("Read the file again, then retry."));
        bench.world().files.put("a", b"one\xff");
        assert_ne!(bench.call("edit", edit("a", "one", "x")).await.code(), "ok");
        assert_eq!(bench.world().files.text("a"), None, "the bytes stay");
    }

    #[tokio::test]
    async fn edits_follow_one_another_without_reading_again() {
        let bench = read("1").await;
        assert_eq!(bench.call("edit", edit("a", "1", "2")).await.code(), "ok");
        assert_eq!(bench.call("edit", edit("a", "2", "3")).await.code(), "ok");
        assert_eq!(bench.call("write", json!({"file_path": "a", "content": "4"})).await.code(), "ok");
        assert_eq!(bench.call("edit", edit("a", "4", "5")).await.code(), "ok");
        assert_eq!(bench.world().files.text("a").as_deref(), Some("5"));
    }

    #[tokio::test]
    async fn a_windowed_read_is_enough() {
        let bench = Bench::in_world(World::new().with_file("a", "1\n2\n3\n"));
        bench.call("read", json!({"file_path": "a", "offset": 1, "limit": 1})).await;
        assert_eq!(bench.call("edit", edit("a", "3", "x")).await.code(), "ok");
    }

    #[tokio::test]
    async fn an_edit_through_a_link_knows_its_target() {
        let bench = read("1").await;
        bench.world().files.link("link", "a");
        assert_eq!(bench.call("edit", edit("link", "1", "2")).await.code(), "ok");
        assert_eq!(bench.world().files.text("a").as_deref(), Some("2"));
    }

    #[tokio::test]
    async fn distant_replacements_are_separate_hunks() {
        let lines: Vec<String> =
            (1..=30).map(|n| if n % 20 == 5 { "x".into() } else { n.to_string() }).collect();
        let bench = read(&(lines.join("\n") + "\n")).await;
        let mut arguments = edit("a", "x", "y");
        arguments["replace_all"] = json!(true);
        let ran = bench.call("edit", arguments.clone()).await;
        let Some(ResultCard::Diff(DiffResult { title, diffs, whole })) = ran.card else {
            panic!("{:?}", ran.card)
        };
        assert_eq!(title.as_deref(), Some("Edit a"));
        assert!(whole.is_some());
        let shown: Vec<_> =
            diffs.iter().map(|diff| (diff.old_text.as_deref().unwrap(), &*diff.new_text)).collect();
        assert_eq!(
            shown,
            [
                ("2\n3\n4\nx\n6\n7\n8", "2\n3\n4\ny\n6\n7\n8"),
                ("22\n23\n24\nx\n26\n27\n28", "22\n23\n24\ny\n26\n27\n28")
            ]
        );
        let mut stored = ran.durable;
        for meta in [None, Some(json!({"diffs": []})), Some(json!({"diffs": [{"path": 1}]}))] {
            stored.meta = meta;
            assert_eq!(bench.result_card("edit", &arguments, &stored), None);
        }
    }

    #[tokio::test]
    async fn the_preview_is_the_whole_file_and_changes_nothing() {
        let bench = read("1\r\n2\r\n").await;
        let preview = bench.preview("edit", edit("a", "1\n", "one\n")).await;
        let expected = FileDiff {
            path: "/project/a".into(),
            old_text: Some("1\r\n2\r\n".into()),
            new_text: "one\r\n2\r\n".into(),
        };
        assert_eq!(preview.diffs, [expected]);
        assert_eq!(bench.preview("edit", edit("a", "nowhere", "x")).await, Preview::default());
        assert_eq!(bench.preview("edit", edit("missing", "1", "x")).await, Preview::default());
        assert_eq!(bench.world().files.text("a").as_deref(), Some("1\r\n2\r\n"));
    }

    #[test]
    fn the_call_shows_the_replacement() {
        let bench = Bench::new();
        for (old, shown) in [("x", Some("x".to_owned())), ("", None)] {
            let expected = CallCard::Diff(DiffCall {
                title: "Edit a".into(),
                diffs: vec![FileDiff { path: "a".into(), old_text: shown, new_text: "y".into() }],
                locations: vec![FileLocation::new("a", None)],
            });
            assert_eq!(bench.call_card("edit", edit("a", old, "y")), expected);
        }
        assert!(!bench.tool("edit").is_concurrency_safe(&edit("a", "x", "y")));
        assert_eq!(bench.tool("edit").effect(&edit("a", "x", "y")), Effect::WritesFile { path: "a".into() });
    }
}
