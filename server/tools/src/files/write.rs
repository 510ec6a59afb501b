//! `write`: creates a file or replaces its whole text.
//!
//! Writes through the session's file system under the sandbox; a file that exists must have been read as it is now.
//! Source: `spec/tools-files-shell.md` §3.

use super::change::{self, Before, Change};
use super::{envelope, mutation_failure, shown};
use crate::arguments::not_blank;
use crate::denial;
use crate::schema::nullable_string;
use async_trait::async_trait;
use pipeline::context::ToolContext;
use pipeline::tool::{Effect, PromptSection};
use pipeline::typed::{TypedTool, from_value};
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

    fn to_value(&self, output: WriteOutput) -> Result<Value, String> {
        let WriteOutput { path, operation, before, after, notice } = output;
        let operation = serde_json::to_value(operation).map_err(|error| error.to_string())?;
        Ok(change::value([
            ("path", Some(path.into())),
            ("operation", Some(operation)),
            ("before", Some(before.into())),
            ("after", Some(after.into())),
            ("notice", notice.map(Value::from)),
        ]))
    }

    fn render(&self, _args: &WriteArgs, output: &WriteOutput) -> Vec<ContentBlock> {
        text(&output.path, output.operation, output.notice.as_deref())
    }

    fn render_value(&self, _args: &WriteArgs, value: &Value) -> Result<Vec<ContentBlock>, String> {
        let change = Change::of(value)?;
        Ok(text(change.path, operation(value)?, change.notice))
    }

    fn meta_of_value(&self, args: &WriteArgs, value: &Value) -> Result<Option<Value>, String> {
        let change = Change::of(value)?;
        let existed = operation(value)? == Operation::Update;
        Ok(change::meta(&args.file_path, Before::new(existed, change.before), change.after))
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

fn operation(value: &Value) -> Result<Operation, String> {
    from_value(value.get("operation").unwrap_or(&Value::Null))
}

fn text(path: &str, operation: Operation, notice: Option<&str>) -> Vec<ContentBlock> {
    let body = match operation {
        Operation::Create => "Created file",
        Operation::Update => "Updated file",
    };
    let note = notice.map(|notice| format!("\nNote: {notice}")).unwrap_or_default();
    vec![ContentBlock::text(envelope::wrap(path, "file", &format!("{body}{note}")))]
}

fn title(args: &WriteArgs) -> String {
    format!("Write {}", args.file_path)
}

fn whole_from(args: &WriteArgs) -> FileDiff {
    FileDiff { path: args.file_path.clone(), old_text: None, new_text: args.content.clone() }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::Bench;
    use protocol::card::{DiffResult, WholeFile};
    use protocol::decision::SandboxGrant;
    use protocol::id::BlobHash;
    use protocol::mode::{Mode, SandboxMode};
    use serde_json::json;
    use services::fake::World;
    use services::file_system::FileVersion;

    fn hash(text: &str) -> BlobHash {
        BlobHash::new(FileVersion::of(text.as_bytes()).as_hex())
    }

    #[tokio::test]
    async fn a_new_file_is_created_with_its_folders() {
        let bench = Bench::new();
        let ran = bench.call("write", json!({"file_path": "d/e/a.txt", "content": "one\r\ntwo"})).await;
        assert_eq!(
            ran.text(),
            "<path>/project/d/e/a.txt</path>\n<type>file</type>\n<content>\nCreated file\n</content>"
        );
        assert_eq!(
            ran.value(),
            &json!({"path": "/project/d/e/a.txt", "operation": "create", "before": null, "after": "one\r\ntwo"})
        );
        assert_eq!(bench.world().files.text("d/e/a.txt").as_deref(), Some("one\r\ntwo"));
        let expected = DiffResultOf { old: None, new: "one\r\ntwo", before: None, after: "one\r\ntwo" };
        assert_eq!(ran.card, Some(expected.card("d/e/a.txt")));
    }

    #[tokio::test]
    async fn an_empty_text_makes_an_empty_file() {
        let bench = Bench::new();
        assert_eq!(bench.call("write", json!({"file_path": "a", "content": ""})).await.code(), "ok");
        assert_eq!(bench.world().files.text("a").as_deref(), Some(""));
    }

    #[tokio::test]
    async fn a_file_must_be_known_as_it_is_before_it_is_replaced() {
        let bench = Bench::in_world(World::new().with_file("a", "1"));
        let write = json!({"file_path": "a", "content": "2"});
        let read = json!({"file_path": "a"});
        let refused = bench.call("write", write.clone()).await;
        assert_eq!(refused.code(), "FS_NOT_OBSERVED");
        assert!(refused.text().ends_with("Read it first, then retry."), "{}", refused.text());
        assert_eq!(bench.world().files.text("a").as_deref(), Some("1"));
        assert_eq!(refused.card, None);

        bench.call("read", read.clone()).await;
        bench.world().files.put("a", "other");
        let stale = bench.call("write", write.clone()).await;
        assert_eq!(stale.code(), "FS_STALE_VERSION");
        assert!(stale.text().ends_with("Read the file again, then retry."), "{}", stale.text());
        assert_eq!(bench.world().files.text("a").as_deref(), Some("other"));

        bench.call("read", read.clone()).await;
        let updated = bench.call("write", write.clone()).await;
        assert!(updated.text().contains("\nUpdated file\n"), "{}", updated.text());
        assert_eq!(bench.call("write", json!({"file_path": "a", "content": "3"})).await.code(), "ok");

        bench.world().files.remove("a");
        assert_eq!(bench.call("write", write.clone()).await.code(), "FS_STALE_VERSION");
        assert_eq!(bench.world().files.text("a"), None);
        assert_eq!(bench.call("read", read).await.code(), "FS_NOT_FOUND");
        assert_eq!(bench.call("write", write).await.code(), "ok");
    }

    #[tokio::test]
    async fn a_touched_but_equal_file_is_not_stale() {
        let bench = Bench::in_world(World::new().with_file("a", "1"));
        bench.call("read", json!({"file_path": "a"})).await;
        bench.world().files.put("a", "1");
        assert_eq!(bench.call("write", json!({"file_path": "a", "content": "2"})).await.code(), "ok");
    }

    #[tokio::test]
    async fn what_cannot_be_written_fails_with_its_code() {
        let bench = Bench::in_world(World::new().with_file("dir/b", "").with_file("a", ""));
        let cases = [
            (json!({"file_path": "dir", "content": ""}), "FS_NOT_REGULAR_FILE"),
            (json!({"file_path": " ", "content": ""}), "plain"),
            (json!({"file_path": "a/b", "content": ""}), "FS_NOT_FOUND"),
            (json!({"file_path": "a"}), "INVALID_ARGS"),
        ];
        for (arguments, code) in cases {
            assert_eq!(bench.call("write", arguments.clone()).await.code(), code, "{arguments}");
        }
    }

    #[tokio::test]
    async fn a_write_outside_the_sandbox_is_refused_with_marker_and_hint() {
        let bench = Bench::new();
        let arguments = json!({"file_path": "/etc/x", "content": "1"});
        let refused = bench.call("write", arguments.clone()).await;
        assert_eq!(refused.code(), "FS_SANDBOX_DENIED");
        let lines: Vec<&str> = refused.text().lines().collect();
        assert_eq!(lines[1], "[sandbox: file access denied under workspace-write mode]");
        assert!(lines[2].contains("sandbox_permissions \"danger-full-access\""), "{}", lines[2]);
        assert_eq!(bench.world().files.text("/etc/x"), None);

        let grant = SandboxGrant { mode: SandboxMode::DangerFullAccess, writable: Vec::new() };
        assert_eq!(bench.granted("write", arguments, grant).await.code(), "ok");
    }

    #[tokio::test]
    async fn plan_mode_offers_no_escalation() {
        let bench = Bench::new();
        bench.session.host.set_mode(Mode::Plan);
        let refused = bench.call("write", json!({"file_path": "a", "content": "1"})).await;
        assert_eq!(refused.code(), "FS_SANDBOX_DENIED");
        assert!(
            refused.text().ends_with("\n[sandbox: file access denied under read-only mode]"),
            "{}",
            refused.text()
        );
    }

    #[tokio::test]
    async fn undeclared_arguments_are_left_to_the_policies() {
        let bench = Bench::new();
        let arguments =
            json!({"file_path": "a", "content": "1", "sandbox_permissions": "danger-full-access"});
        assert_eq!(bench.call("write", arguments).await.code(), "ok");
    }

    #[tokio::test]
    async fn an_overwrite_is_shown_as_hunks_and_keeps_both_texts() {
        let before: String = (1..=20).map(|n| format!("{n}\n")).collect();
        let after = before.replace("\n10\n", "\nten\n");
        let bench = Bench::in_world(World::new().with_file("a", &before));
        bench.call("read", json!({"file_path": "a"})).await;
        let ran = bench.call("write", json!({"file_path": "a", "content": after})).await;
        let expected = DiffResultOf {
            old: Some("7\n8\n9\n10\n11\n12\n13"),
            new: "7\n8\n9\nten\n11\n12\n13",
            before: Some(&before),
            after: &after,
        };
        assert_eq!(ran.card, Some(expected.card("a")));
        let blobs = &bench.session.scope.services.blobs;
        assert_eq!(blobs.get(&hash(&before)).await, Some(before));
        assert_eq!(blobs.get(&hash(&after)).await, Some(after));
    }

    #[tokio::test]
    async fn without_hunks_the_whole_file_is_shown() {
        let bench = Bench::in_world(World::new().with_file("a", "same"));
        bench.call("read", json!({"file_path": "a"})).await;
        let ran = bench.call("write", json!({"file_path": "a", "content": "same"})).await;
        let expected = DiffResultOf { old: None, new: "same", before: Some("same"), after: "same" };
        assert_eq!(ran.card, Some(expected.card("a")));
        let mut stored = ran.durable;
        stored.meta = Some(json!({"diffs": "broken"}));
        let card = bench.result_card("write", &json!({"file_path": "a", "content": "same"}), &stored);
        let fallback =
            DiffResult { title: Some("Write a".into()), diffs: vec![diff("a", None, "same")], whole: None };
        assert_eq!(card, Some(ResultCard::Diff(fallback)));
    }

    #[tokio::test]
    async fn the_model_is_told_what_the_editor_made_of_the_text() {
        let bench = Bench::new();
        bench.world().files.format_on_save(|text| text.to_uppercase());
        let ran = bench.call("write", json!({"file_path": "a", "content": "x"})).await;
        assert!(
            ran.text().contains("Created file\nNote: The editor changed the text when it saved the file.\n"),
            "{}",
            ran.text()
        );
        assert_eq!(ran.value()["after"], "X");
        let edit = json!({"file_path": "a", "old_string": "X", "new_string": "y"});
        assert_eq!(bench.call("edit", edit).await.code(), "ok");
    }

    #[tokio::test]
    async fn texts_over_a_mebibyte_are_not_kept() {
        let bench = Bench::new();
        let ran =
            bench.call("write", json!({"file_path": "a", "content": "x".repeat(1024 * 1024 + 1)})).await;
        assert_eq!(ran.durable.meta, Some(json!({"diffs": []})));
    }

    #[tokio::test]
    async fn the_preview_shows_the_whole_change_and_changes_nothing() {
        let bench = Bench::in_world(World::new().with_file("a", "1\n"));
        let preview = bench.preview("write", json!({"file_path": "a", "content": "2\n"})).await;
        assert_eq!(preview.diffs, [diff("/project/a", Some("1\n"), "2\n")]);
        let preview = bench.preview("write", json!({"file_path": "new", "content": "2\n"})).await;
        assert_eq!(preview.diffs, [diff("/project/new", None, "2\n")]);
        bench.world().files.put("bin", b"\0");
        assert_eq!(
            bench.preview("write", json!({"file_path": "bin", "content": ""})).await,
            Preview::default()
        );
        assert_eq!(bench.world().files.text("a").as_deref(), Some("1\n"));
        assert_eq!(bench.world().files.text("new"), None);
    }

    #[test]
    fn the_call_shows_the_text_and_names_the_file() {
        let bench = Bench::new();
        let arguments = json!({"file_path": "a", "content": "x"});
        let expected = CallCard::Diff(DiffCall {
            title: "Write a".into(),
            diffs: vec![diff("a", None, "x")],
            locations: vec![FileLocation::new("a", None)],
        });
        assert_eq!(bench.call_card("write", arguments.clone()), expected);
        assert!(!bench.tool("write").is_concurrency_safe(&arguments));
        assert_eq!(bench.tool("write").effect(&arguments), Effect::WritesFile { path: "a".into() });
    }

    fn diff(path: &str, old: Option<&str>, new: &str) -> FileDiff {
        FileDiff { path: path.into(), old_text: old.map(str::to_owned), new_text: new.into() }
    }

    /// A card of one change.
    struct DiffResultOf<'a> {
        old: Option<&'a str>,
        new: &'a str,
        before: Option<&'a str>,
        after: &'a str,
    }

    impl DiffResultOf<'_> {
        fn card(&self, path: &str) -> ResultCard {
            let whole =
                WholeFile { path: path.into(), before: self.before.map(hash), after: hash(self.after) };
            ResultCard::Diff(DiffResult {
                title: Some(format!("Write {path}")),
                diffs: vec![diff(path, self.old, self.new)],
                whole: Some(whole),
            })
        }
    }
}
