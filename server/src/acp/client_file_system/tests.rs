//! The file system over clients that behave, and over those that do not.

use super::super::client_testing::ScriptedClient;
use super::sides::plain;
use super::*;
use protocol::mode::SandboxMode;
use serde_json::{Value, json};
use std::collections::HashMap;
use std::fs;

/// How an editor treats text.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Habit {
    /// Buffers with LF and without BOM; both are restored on save (Zed). Missing files read as empty text.
    LfBuffers,
    /// Universal newlines on reading, writes what it is given (Python).
    LfReads,
    /// As it is on the disk.
    Plain,
    /// Trailing blanks go on save.
    Formats,
    /// Takes writes and keeps them to itself.
    NeverSaves,
}

#[derive(Default)]
struct Buffers {
    dirty: HashMap<PathBuf, String>,
}

/// An editor on a folder of its own.
struct Editor {
    root: PathBuf,
    buffers: Arc<Mutex<Buffers>>,
    client: ScriptedClient,
    files: ClientFileSystem,
    _folder: tempfile::TempDir,
}

impl Editor {
    async fn new(habit: Habit) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let root = fs::canonicalize(folder.path()).unwrap().join("project");
        fs::create_dir(&root).unwrap();
        let buffers = Arc::<Mutex<Buffers>>::default();
        let (shared, inside) = (buffers.clone(), root.clone());
        let client = ScriptedClient::answering(move |method, params| {
            let path = PathBuf::from(params["path"].as_str().unwrap());
            if !path.starts_with(&inside) {
                return Err(Error::internal_error());
            }
            let mut buffers = shared.lock().unwrap();
            match method {
                "fs/read_text_file" => read(habit, &buffers, &path),
                "fs/write_text_file" => {
                    write(habit, &mut buffers, &path, params["content"].as_str().unwrap());
                    Ok(Value::Null)
                }
                _ => Err(Error::method_not_found()),
            }
        })
        .await;
        let files = files(&client, &root);
        Self { root, buffers, client, files, _folder: folder }
    }

    fn put(&self, name: &str, bytes: impl AsRef<[u8]>) {
        fs::write(self.root.join(name), bytes).unwrap();
    }

    fn on_disk(&self, name: &str) -> String {
        fs::read_to_string(self.root.join(name)).unwrap()
    }

    fn type_text(&self, name: &str, text: &str) {
        self.buffers.lock().unwrap().dirty.insert(self.root.join(name), text.to_owned());
    }

    async fn target(&self, name: &str) -> Target {
        self.files.resolve(name).await.unwrap()
    }

    async fn read(&self, name: &str) -> Result<TextFile, FsError> {
        self.files.read_text(&self.target(name).await, u64::MAX - 1, &CancellationToken::new()).await
    }

    async fn edit(
        &self,
        name: &str,
        old: &str,
        new: &str,
        seen: Option<&TextFile>,
    ) -> Result<Written, FsError> {
        let request = EditRequest {
            target: self.target(name).await,
            old_string: old.to_owned(),
            new_string: new.to_owned(),
            replace_all: false,
            expected: seen.map(|file| file.version.clone()),
            sandbox: self.policy(SandboxMode::WorkspaceWrite),
        };
        self.files.edit(request, &CancellationToken::new()).await
    }

    async fn write(&self, name: &str, content: &str, intent: WriteIntent) -> Result<Written, FsError> {
        let request = WriteRequest {
            target: self.target(name).await,
            content: content.to_owned(),
            intent,
            sandbox: self.policy(SandboxMode::WorkspaceWrite),
        };
        self.files.write(request, &CancellationToken::new()).await
    }

    fn policy(&self, mode: SandboxMode) -> SandboxPolicy {
        SandboxPolicy { mode, writable_roots: vec![self.root.clone()], network: true }
    }

    fn n_writes(&self) -> usize {
        self.client.methods().iter().filter(|method| *method == "fs/write_text_file").count()
    }
}

fn files(client: &ScriptedClient, root: &Path) -> ClientFileSystem {
    let local = Arc::new(LocalFileSystem::new(root.to_owned()));
    let (session_id, clock) = (protocol::id::SessionId::new("s"), Arc::new(provider_local::SystemClock));
    ClientFileSystem::new(client.link.clone(), session_id, local, vec![root.to_owned()], clock)
}

fn read(habit: Habit, buffers: &Buffers, path: &Path) -> Result<Value, Error> {
    let text = match (buffers.dirty.get(path), fs::read_to_string(path)) {
        (Some(text), _) => text.clone(),
        (None, Ok(text)) => text,
        (None, Err(_)) if habit == Habit::LfBuffers => String::new(),
        (None, Err(_)) => return Err(Error::new(-32002, "Resource not found")),
    };
    let text = match habit {
        Habit::LfBuffers | Habit::LfReads => plain(&text).into_owned(),
        _ => text,
    };
    Ok(json!({ "content": text }))
}

fn write(habit: Habit, buffers: &mut Buffers, path: &Path, content: &str) {
    let text = match (habit, fs::read_to_string(path)) {
        (Habit::NeverSaves, _) => {
            buffers.dirty.insert(path.to_owned(), content.to_owned());
            return;
        }
        (Habit::LfBuffers, Ok(disk)) => in_form_of(&plain(content), &disk),
        (Habit::Formats, _) => content.lines().map(|line| format!("{}\n", line.trim_end())).collect(),
        _ => content.to_owned(),
    };
    buffers.dirty.remove(path);
    // No folders are made: that is the agent's part.
    fs::write(path, text).unwrap();
}

#[tokio::test]
async fn unsaved_text_is_what_is_read_and_edited() {
    let editor = Editor::new(Habit::Plain).await;
    editor.put("a.rs", "saved\n");
    editor.type_text("a.rs", "typed\nmore\n");
    let seen = editor.read("a.rs").await.unwrap();
    assert_eq!((seen.text.as_str(), seen.origin), ("typed\nmore\n", TextOrigin::Editor));
    let written = editor.edit("a.rs", "more", "less", Some(&seen)).await.unwrap();
    assert_eq!(
        (written.before.as_deref(), written.after.as_str(), written.notice),
        (Some("typed\nmore\n"), "typed\nless\n", None)
    );
    assert_eq!(editor.on_disk("a.rs"), "typed\nless\n");
}

#[tokio::test]
async fn the_whole_text_is_asked_for_and_the_window_cut_here() {
    let editor = Editor::new(Habit::Plain).await;
    editor.put("a.rs", "1\n2\n3\n");
    let request = WindowRequest { offset: 2, limit: 1, max_bytes: 100, max_line_chars: 100 };
    let target = editor.target("a.rs").await;
    let window = editor.files.read_window(&target, request, &CancellationToken::new()).await.unwrap();
    assert_eq!((window.window.lines, window.window.total_lines), (vec![(2, "2".to_owned())], 3));
    let asked = json!({ "sessionId": "s", "path": editor.root.join("a.rs") });
    let mut params = editor.client.asked()[0].1.clone();
    params.as_object_mut().unwrap().retain(|_, value| !value.is_null());
    assert_eq!(params, asked);
}

#[tokio::test]
async fn line_ends_and_byte_order_mark_survive_every_editor() {
    for habit in [Habit::LfBuffers, Habit::LfReads, Habit::Plain] {
        let editor = Editor::new(habit).await;
        editor.put("a.txt", "\u{feff}one\r\ntwo\r\n");
        let seen = editor.read("a.txt").await.unwrap();
        let written = editor.edit("a.txt", "one\ntwo", "1\n2", Some(&seen)).await.unwrap();
        assert_eq!(editor.on_disk("a.txt"), "\u{feff}1\r\n2\r\n");
        assert_eq!((plain(&written.after).as_ref(), written.notice.as_deref()), ("1\n2\n", None));
        let carriage_returns = written.before.unwrap().contains('\r');
        assert_eq!(carriage_returns, written.after.contains('\r'), "both sides of the diff in one form");
        assert_eq!(editor.read("a.txt").await.unwrap().version, written.version);
        // A second edit needs no second read.
        let expected = TextFile { version: written.version, ..seen };
        editor.edit("a.txt", "2", "3", Some(&expected)).await.unwrap();
        assert_eq!(editor.on_disk("a.txt"), "\u{feff}1\r\n3\r\n");
        editor.write("a.txt", "new\n", WriteIntent::Unconditional).await.unwrap();
        assert!(editor.on_disk("a.txt").starts_with('\u{feff}'), "{:?}", editor.on_disk("a.txt"));
    }
}

#[tokio::test]
async fn a_new_file_is_made_with_its_folders_and_exists_from_then_on() {
    for (habit, notice) in [
        (Habit::LfBuffers, None),
        (Habit::Plain, None),
        (
            Habit::NeverSaves,
            Some("The editor has not saved it: commands still see the text that is on the disk."),
        ),
    ] {
        let editor = Editor::new(habit).await;
        let missing = editor.read("new/a.rs").await.unwrap_err();
        assert_eq!(missing.kind, FsErrorKind::NotFound);
        let written = editor.write("new/a.rs", "fn a() {}\n", WriteIntent::CreateIfAbsent).await.unwrap();
        assert_eq!((written.existed, written.before, written.notice.as_deref()), (false, None, notice));
        assert_eq!(written.after, "fn a() {}\n");
        let target = editor.target("new/a.rs").await;
        let stat = editor.files.stat(&target).await.unwrap();
        assert_eq!(stat, Some(FileStat { kind: FileKind::File, size: 10 }));
        assert_eq!(editor.read("new/a.rs").await.unwrap().text, "fn a() {}\n");
        let again = editor.write("new/a.rs", "x", WriteIntent::CreateIfAbsent).await.unwrap_err();
        assert_eq!(again.kind, FsErrorKind::NotObserved);
    }
}

#[tokio::test]
async fn what_the_editor_made_of_the_text_is_told_and_is_the_next_basis() {
    let editor = Editor::new(Habit::Formats).await;
    editor.put("a.rs", "a\n");
    let seen = editor.read("a.rs").await.unwrap();
    let written = editor.edit("a.rs", "a", "b  \nc", Some(&seen)).await.unwrap();
    assert_eq!(written.after, "b\nc\n");
    assert!(written.notice.unwrap().starts_with("The editor changed the text"));
    let expected = TextFile { version: written.version, ..seen };
    editor.edit("a.rs", "b\nc", "d", Some(&expected)).await.unwrap();
    assert_eq!(editor.on_disk("a.rs"), "d\n");
}

#[tokio::test]
async fn an_empty_answer_is_no_text_of_a_file_that_has_some() {
    // An editor that has not noticed the file yet.
    let editor = Editor::new(Habit::Plain).await;
    let client = ScriptedClient::answering(|method, _| match method {
        "fs/read_text_file" => Ok(json!({ "content": "" })),
        _ => Err(Error::new(-32002, "Resource not found")),
    })
    .await;
    let editor = Editor { files: files(&client, &editor.root), client, ..editor };
    editor.put("a.rs", "text\n");
    let seen = editor.read("a.rs").await.unwrap();
    assert_eq!((seen.text.as_str(), seen.origin), ("text\n", TextOrigin::Disk));
    let written = editor.edit("a.rs", "text", "new", Some(&seen)).await.unwrap();
    assert_eq!(written.after, "new\n");
    assert!(written.notice.unwrap().contains("not the editor's"));
    assert_eq!(editor.on_disk("a.rs"), "new\n");
}

#[tokio::test]
async fn what_the_editor_refuses_to_write_is_not_written_behind_it() {
    let editor = Editor::new(Habit::Plain).await;
    let client = ScriptedClient::answering(|method, _| match method {
        "fs/read_text_file" => Ok(json!({ "content": "text\n" })),
        _ => Err(Error::internal_error().data(json!({ "details": "Permission denied by the user" }))),
    })
    .await;
    let editor = Editor { files: files(&client, &editor.root), client, ..editor };
    editor.put("a.rs", "text\n");
    let seen = editor.read("a.rs").await.unwrap();
    let refused = editor.edit("a.rs", "text", "new", Some(&seen)).await.unwrap_err();
    assert_eq!(refused.kind, FsErrorKind::PermissionDenied);
    assert!(refused.message.contains("Permission denied by the user"), "{}", refused.message);
    assert_eq!(editor.on_disk("a.rs"), "text\n");
}

#[tokio::test]
async fn a_buffer_that_was_emptied_is_empty() {
    let editor = Editor::new(Habit::Plain).await;
    editor.put("a.rs", "text\n");
    editor.read("a.rs").await.unwrap();
    editor.type_text("a.rs", "");
    assert_eq!(editor.read("a.rs").await.unwrap().text, "");
}

#[tokio::test]
async fn outside_of_the_folders_the_disk_is_used_and_the_editor_not_asked() {
    let editor = Editor::new(Habit::Plain).await;
    let outside = editor.root.parent().unwrap().join("outside.txt");
    fs::write(&outside, "text\n").unwrap();
    let path = outside.to_str().unwrap();
    let seen = editor.read(path).await.unwrap();
    assert_eq!((seen.text.as_str(), seen.origin), ("text\n", TextOrigin::Disk));
    editor.edit(path, "text", "new", Some(&seen)).await.unwrap();
    assert_eq!(fs::read_to_string(&outside).unwrap(), "new\n");
    assert_eq!(editor.client.methods(), Vec::<String>::new());
}

#[tokio::test]
async fn large_files_and_bytes_that_are_no_text_are_the_disks_affair() {
    let editor = Editor::new(Habit::Plain).await;
    editor.put("latin1.txt", b"caf\xe9\n");
    assert_eq!(editor.read("latin1.txt").await.unwrap_err().kind, FsErrorKind::NotText);
    editor.put("large.txt", "x\n".repeat(6 << 20));
    assert_eq!(editor.read("large.txt").await.unwrap().origin, TextOrigin::Disk);
    editor.write("latin1.txt", "text\n", WriteIntent::Unconditional).await.unwrap();
    editor.write("new.txt", &"x\n".repeat(6 << 20), WriteIntent::CreateIfAbsent).await.unwrap();
    assert_eq!(editor.n_writes(), 0);
    assert_eq!(editor.on_disk("latin1.txt"), "text\n");
}

#[tokio::test]
async fn the_fence_holds_before_the_editor_is_asked_to_write() {
    let editor = Editor::new(Habit::Plain).await;
    editor.put("a.rs", "a\n");
    let elsewhere = tempfile::tempdir_in("/var/tmp").unwrap();
    std::os::unix::fs::symlink(elsewhere.path(), editor.root.join("out")).unwrap();
    let cases = [("a.rs", SandboxMode::ReadOnly), ("out/new.rs", SandboxMode::WorkspaceWrite)];
    for (name, mode) in cases {
        let request = WriteRequest {
            target: editor.target(name).await,
            content: "b\n".to_owned(),
            intent: WriteIntent::Unconditional,
            sandbox: editor.policy(mode),
        };
        let denied = editor.files.write(request, &CancellationToken::new()).await.unwrap_err();
        assert_eq!(denied.kind, FsErrorKind::SandboxDenied, "{name}");
    }
    assert_eq!((editor.n_writes(), editor.on_disk("a.rs").as_str()), (0, "a\n"));
    assert_eq!(fs::read_dir(elsewhere.path()).unwrap().count(), 0);
}

#[tokio::test]
async fn a_link_and_its_file_are_one_file_for_the_editor() {
    let editor = Editor::new(Habit::Plain).await;
    editor.put("real.rs", "a\n");
    std::os::unix::fs::symlink("real.rs", editor.root.join("link.rs")).unwrap();
    let seen = editor.read("link.rs").await.unwrap();
    editor.edit("link.rs", "a", "b", Some(&seen)).await.unwrap();
    assert_eq!(editor.on_disk("real.rs"), "b\n");
    assert!(fs::symlink_metadata(editor.root.join("link.rs")).unwrap().is_symlink());
    let real = json!(editor.root.join("real.rs"));
    assert!(editor.client.asked().iter().all(|(_, params)| params["path"] == real));
}

#[tokio::test]
async fn a_dangling_link_is_not_created_through() {
    let editor = Editor::new(Habit::Plain).await;
    std::os::unix::fs::symlink("nowhere.rs", editor.root.join("link.rs")).unwrap();
    let refused = editor.write("link.rs", "a\n", WriteIntent::CreateIfAbsent).await.unwrap_err();
    assert_eq!((refused.kind, editor.n_writes()), (FsErrorKind::NotObserved, 0));
}

#[tokio::test]
async fn a_change_of_the_user_is_found_before_writing_and_its_side_named() {
    let editor = Editor::new(Habit::Plain).await;
    editor.put("a.rs", "a\n");
    let seen = editor.read("a.rs").await.unwrap();
    editor.type_text("a.rs", "a typed\n");
    let stale = editor.edit("a.rs", "a", "b", Some(&seen)).await.unwrap_err();
    assert_eq!(stale.kind, FsErrorKind::StaleVersion);
    assert!(stale.message.contains("editor holds changes that are not saved"), "{}", stale.message);
    let seen = editor.read("a.rs").await.unwrap();
    editor.edit("a.rs", "typed", "kept", Some(&seen)).await.unwrap();
    assert_eq!(editor.on_disk("a.rs"), "a kept\n");
}

#[tokio::test]
async fn a_newer_disk_wins_over_a_buffer_that_did_not_notice() {
    let editor = Editor::new(Habit::Plain).await;
    editor.put("a.rs", "old\n");
    editor.read("a.rs").await.unwrap();
    // The editor keeps what it had, without a change of its own.
    editor.type_text("a.rs", "old\n");
    editor.put("a.rs", "made by a command\n");
    let seen = editor.read("a.rs").await.unwrap();
    assert_eq!((seen.text.as_str(), seen.origin), ("made by a command\n", TextOrigin::Disk));
    editor.edit("a.rs", "made", "edited", Some(&seen)).await.unwrap();
    assert_eq!(editor.on_disk("a.rs"), "edited by a command\n");
}

#[tokio::test]
async fn a_file_that_a_command_removed_is_gone_though_the_editor_shows_it() {
    let editor = Editor::new(Habit::Plain).await;
    editor.put("a.rs", "a\n");
    let seen = editor.read("a.rs").await.unwrap();
    editor.type_text("a.rs", "a\n");
    fs::remove_file(editor.root.join("a.rs")).unwrap();
    assert_eq!(editor.read("a.rs").await.unwrap_err().kind, FsErrorKind::NotFound);
    assert_eq!(editor.edit("a.rs", "a", "b", Some(&seen)).await.unwrap_err().kind, FsErrorKind::StaleVersion);
    let written = editor.write("a.rs", "new\n", WriteIntent::CreateIfAbsent).await.unwrap();
    assert_eq!((written.existed, editor.on_disk("a.rs").as_str()), (false, "new\n"));
}

#[tokio::test]
async fn when_both_sides_changed_neither_is_lost() {
    let editor = Editor::new(Habit::Plain).await;
    editor.put("a.rs", "old\n");
    editor.read("a.rs").await.unwrap();
    editor.type_text("a.rs", "typed\n");
    editor.put("a.rs", "made by a command\n");
    let seen = editor.read("a.rs").await.unwrap();
    assert_eq!(seen.text, "typed\n");
    let refused = editor.edit("a.rs", "typed", "x", Some(&seen)).await.unwrap_err();
    assert_eq!(refused.kind, FsErrorKind::Io);
    assert!(refused.message.contains("Ask the user to save or reload"), "{}", refused.message);
    assert_eq!((editor.n_writes(), editor.on_disk("a.rs").as_str()), (0, "made by a command\n"));
}

#[tokio::test]
async fn unsaved_text_under_a_new_name_is_not_overwritten_and_can_be_read() {
    let editor = Editor::new(Habit::Plain).await;
    editor.type_text("a.rs", "typed\n");
    let refused = editor.write("a.rs", "x\n", WriteIntent::CreateIfAbsent).await.unwrap_err();
    assert_eq!((refused.kind, editor.n_writes()), (FsErrorKind::NotObserved, 0));
    assert!(editor.files.stat(&editor.target("a.rs").await).await.unwrap().is_some());
    let seen = editor.read("a.rs").await.unwrap();
    let intent = WriteIntent::ReplaceIfVersion(seen.version);
    assert_eq!(editor.write("a.rs", "x\n", intent).await.unwrap().before.as_deref(), Some("typed\n"));
}

#[tokio::test]
async fn a_failed_match_changes_nothing() {
    let editor = Editor::new(Habit::Plain).await;
    editor.put("a.rs", "a\na\n");
    for (old, kind) in [("b", FsErrorKind::EditNotFound), ("a", FsErrorKind::AmbiguousEdit)] {
        assert_eq!(editor.edit("a.rs", old, "x", None).await.unwrap_err().kind, kind);
    }
    assert_eq!(editor.edit("none.rs", "a", "x", None).await.unwrap_err().kind, FsErrorKind::StaleVersion);
    assert_eq!((editor.n_writes(), editor.on_disk("a.rs").as_str()), (0, "a\na\n"));
}

#[tokio::test]
async fn two_edits_of_one_version_at_once_leave_one_stale() {
    let editor = Editor::new(Habit::Plain).await;
    editor.put("a.rs", "a\n");
    let seen = editor.read("a.rs").await.unwrap();
    let (first, second) =
        tokio::join!(editor.edit("a.rs", "a", "b", Some(&seen)), editor.edit("a.rs", "a", "c", Some(&seen)));
    let mut kinds = [first.err().map(|error| error.kind), second.err().map(|error| error.kind)];
    kinds.sort_by_key(Option::is_some);
    assert_eq!(kinds, [None, Some(FsErrorKind::StaleVersion)]);
}

#[tokio::test]
async fn an_editor_that_never_answers_costs_its_budget_and_a_cancel_ends_the_wait() {
    let editor = Editor::new(Habit::Plain).await;
    editor.put("a.rs", "a\n");
    let client = ScriptedClient::connect(Arc::new(|_, _| Box::pin(std::future::pending()))).await;
    let mut silent = files(&client, &editor.root);
    silent.request_budget = Duration::from_millis(50);
    let target = editor.target("a.rs").await;
    let none = CancellationToken::new();
    let late = silent.read_text(&target, 100, &none).await.unwrap_err();
    assert_eq!(late.kind, FsErrorKind::Io);
    assert!(late.message.contains("the editor did not answer"), "{}", late.message);
    silent.request_budget = Duration::from_secs(60);
    let cancel = CancellationToken::new();
    let (ended, ()) = tokio::join!(silent.read_text(&target, 100, &cancel), async {
        client.was_asked("fs/read_text_file").await;
        cancel.cancel();
    });
    assert_eq!(ended.unwrap_err().kind, FsErrorKind::Aborted);
}
