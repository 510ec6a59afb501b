//! The file system on real files.

use super::*;
use protocol::mode::SandboxMode;
use services::file_system::{FileVersion, FsErrorKind, TextOrigin, WriteIntent};
use services::shell::SandboxPolicy;
use std::fs;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::Path;

struct Fixture {
    files: LocalFileSystem,
    root: PathBuf,
    _folder: tempfile::TempDir,
}

impl Fixture {
    fn new() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let root = fs::canonicalize(folder.path()).unwrap();
        Self { files: LocalFileSystem::new(root.clone()), root, _folder: folder }
    }

    fn put(&self, name: &str, content: impl AsRef<[u8]>) -> PathBuf {
        let path = self.root.join(name);
        fs::write(&path, content).unwrap();
        path
    }

    async fn window(&self, name: &str, offset: u64, limit: u64) -> Result<ReadWindow, FsErrorKind> {
        let target = self.files.resolve(name).await.unwrap();
        let request = WindowRequest { offset, limit, max_bytes: 51_200, max_line_chars: 2000 };
        self.files.read_window(&target, request, &CancellationToken::new()).await.map_err(|error| error.kind)
    }

    async fn write(&self, name: &str, content: &str, intent: WriteIntent) -> Result<Written, FsErrorKind> {
        let target = self.files.resolve(name).await.unwrap();
        let request = WriteRequest { target, content: content.to_owned(), intent, sandbox: open() };
        self.files.write(request, &CancellationToken::new()).await.map_err(|error| error.kind)
    }

    async fn edit(
        &self,
        name: &str,
        old: &str,
        new: &str,
        expected: Option<FileVersion>,
    ) -> Result<Written, FsErrorKind> {
        let target = self.files.resolve(name).await.unwrap();
        let request = EditRequest {
            target,
            old_string: old.to_owned(),
            new_string: new.to_owned(),
            replace_all: false,
            expected,
            sandbox: open(),
        };
        self.files.edit(request, &CancellationToken::new()).await.map_err(|error| error.kind)
    }

    /// Names in the root, to see that no staging is left.
    fn names(&self) -> Vec<String> {
        let mut names: Vec<String> = fs::read_dir(&self.root)
            .unwrap()
            .map(|entry| entry.unwrap().file_name().into_string().unwrap())
            .collect();
        names.sort();
        names
    }
}

fn open() -> SandboxPolicy {
    SandboxPolicy { mode: SandboxMode::DangerFullAccess, writable_roots: vec![], network: true }
}

fn mode(path: &Path) -> u32 {
    fs::metadata(path).unwrap().permissions().mode() & 0o7777
}

#[tokio::test]
async fn a_window_has_its_lines_the_total_and_the_version_of_the_whole() {
    let fixture = Fixture::new();
    fixture.put("a.txt", "\u{feff}one\r\ntwo\nthree");
    let read = fixture.window("a.txt", 1, 2).await.unwrap();
    assert_eq!(read.window.lines, [(1, "one".to_owned()), (2, "two".to_owned())]);
    assert_eq!(read.window.total_lines, 3);
    assert_eq!(read.version, FileVersion::of("\u{feff}one\r\ntwo\nthree".as_bytes()));
    assert_eq!(read.origin, TextOrigin::Disk);
}

#[tokio::test]
async fn characters_across_chunk_borders_stay_whole() {
    let fixture = Fixture::new();
    // Three-byte characters after one byte: some of them straddle every chunk border.
    let text = format!("x{}\nend", "€".repeat(200_000));
    fixture.put("wide.txt", &text);
    let read = fixture.window("wide.txt", 2, 1).await.unwrap();
    assert_eq!(read.window.lines, [(2, "end".to_owned())]);
    assert_eq!(read.version, FileVersion::of(text.as_bytes()));
    fixture.put("cut.txt", &text.as_bytes()[..600_000]);
    assert_eq!(fixture.window("cut.txt", 1, 1).await, Err(FsErrorKind::NotText));
}

#[tokio::test]
async fn only_text_in_regular_files_is_read() {
    let fixture = Fixture::new();
    fixture.put("nul", b"abc\0def");
    fixture.put("latin1", b"caf\xe9\n");
    let mut late_nul = vec![b'a'; 9000];
    late_nul.push(0);
    fixture.put("late-nul", late_nul);
    fs::create_dir(fixture.root.join("folder")).unwrap();
    std::process::Command::new("mkfifo").arg(fixture.root.join("pipe")).status().unwrap();
    let cases = [
        ("nul", Some(FsErrorKind::NotText)),
        ("latin1", Some(FsErrorKind::NotText)),
        ("late-nul", None),
        ("folder", Some(FsErrorKind::NotRegularFile)),
        ("pipe", Some(FsErrorKind::NotRegularFile)),
        ("missing", Some(FsErrorKind::NotFound)),
    ];
    for (name, expected) in cases {
        assert_eq!(fixture.window(name, 1, 1).await.err(), expected, "{name}");
    }
    assert_eq!(fixture.edit("late-nul", "a", "b", None).await, Err(FsErrorKind::NotText));
}

#[tokio::test]
async fn whole_reads_keep_every_byte_and_their_cap() {
    let fixture = Fixture::new();
    fixture.put("a.txt", "\u{feff}a\r\n");
    let target = fixture.files.resolve("a.txt").await.unwrap();
    let cancel = CancellationToken::new();
    let file = fixture.files.read_text(&target, 6, &cancel).await.unwrap();
    assert_eq!(file.text, "\u{feff}a\r\n");
    let error = fixture.files.read_bytes(&target, 5, &cancel).await.unwrap_err();
    assert_eq!(error.kind, FsErrorKind::TooLarge);
    cancel.cancel();
    let error = fixture.files.read_text(&target, 6, &cancel).await.unwrap_err();
    assert_eq!(error.kind, FsErrorKind::Aborted);
}

#[tokio::test]
async fn folders_are_listed_by_name_with_links_followed() {
    let fixture = Fixture::new();
    fixture.put("b", "");
    fs::create_dir(fixture.root.join("a")).unwrap();
    symlink("a", fixture.root.join("c")).unwrap();
    symlink("gone", fixture.root.join("d")).unwrap();
    let target = fixture.files.resolve(".").await.unwrap();
    let entries = fixture.files.list_dir(&target).await.unwrap();
    let expected = [
        ("a", FileKind::Directory),
        ("b", FileKind::File),
        ("c", FileKind::Directory),
        ("d", FileKind::Other),
    ];
    assert_eq!(entries, expected.map(|(name, kind)| (name.to_owned(), kind)));
    let target = fixture.files.resolve("b").await.unwrap();
    assert_eq!(fixture.files.list_dir(&target).await.unwrap_err().kind, FsErrorKind::NotDirectory);
}

#[tokio::test]
async fn a_new_file_gets_its_parents_and_the_users_mode() {
    let fixture = Fixture::new();
    let written = fixture.write("new/deep/a.txt", "hi", WriteIntent::CreateIfAbsent).await.unwrap();
    let expected = Written {
        before: None,
        after: "hi".into(),
        existed: false,
        version: FileVersion::of(b"hi"),
        notice: None,
    };
    assert_eq!(written, expected);
    let path = fixture.put("plain", "");
    assert_eq!(mode(&fixture.root.join("new/deep/a.txt")), mode(&path));
    assert_eq!(fs::read_dir(fixture.root.join("new/deep")).unwrap().count(), 1, "no staging is left");
}

#[tokio::test]
async fn intents_decide_and_a_refused_write_changes_nothing() {
    let fixture = Fixture::new();
    let path = fixture.put("a.txt", "old");
    fs::create_dir(fixture.root.join("folder")).unwrap();
    symlink("missing", fixture.root.join("dangling")).unwrap();
    let version = |text: &str| WriteIntent::ReplaceIfVersion(FileVersion::of(text.as_bytes()));
    let cases = [
        ("a.txt", WriteIntent::CreateIfAbsent, FsErrorKind::NotObserved),
        ("a.txt", version("other"), FsErrorKind::StaleVersion),
        ("gone.txt", version("old"), FsErrorKind::StaleVersion),
        ("folder", WriteIntent::Unconditional, FsErrorKind::NotRegularFile),
        ("dangling", WriteIntent::CreateIfAbsent, FsErrorKind::NotObserved),
    ];
    for (name, intent, expected) in cases {
        assert_eq!(fixture.write(name, "new", intent).await, Err(expected), "{name}");
    }
    assert_eq!(fs::read_to_string(&path).unwrap(), "old");
    let written = fixture.write("a.txt", "new", version("old")).await.unwrap();
    assert_eq!((written.before.as_deref(), written.existed), (Some("old"), true));
    assert_eq!(fs::read_to_string(&path).unwrap(), "new");
    assert_eq!(fixture.names(), ["a.txt", "dangling", "folder"]);
}

#[tokio::test]
async fn a_replaced_file_keeps_mode_bom_and_link() {
    let fixture = Fixture::new();
    let path = fixture.put("tool.sh", "\u{feff}#!/bin/sh\n");
    fs::set_permissions(&path, fs::Permissions::from_mode(0o4751)).unwrap();
    symlink("tool.sh", fixture.root.join("link")).unwrap();
    let written = fixture.write("link", "#!/bin/bash\n", WriteIntent::Unconditional).await.unwrap();
    assert_eq!(written.after, "\u{feff}#!/bin/bash\n");
    assert_eq!(fs::read_to_string(&path).unwrap(), written.after);
    assert_eq!(mode(&path), 0o4751);
    assert!(fs::symlink_metadata(fixture.root.join("link")).unwrap().is_symlink());
}

#[tokio::test]
async fn a_write_that_is_not_guarded_goes_through_a_dangling_link() {
    let fixture = Fixture::new();
    symlink("made-here", fixture.root.join("dangling")).unwrap();
    fixture.write("dangling", "x", WriteIntent::Unconditional).await.unwrap();
    assert_eq!(fs::read_to_string(fixture.root.join("made-here")).unwrap(), "x");
}

#[tokio::test]
async fn what_is_no_basis_for_a_diff_is_left_out() {
    let fixture = Fixture::new();
    fixture.put("binary", b"a\0b");
    fixture.put("big", vec![b'a'; 10 * 1024 * 1024]);
    for name in ["binary", "big"] {
        let written = fixture.write(name, "new", WriteIntent::Unconditional).await.unwrap();
        assert_eq!((written.before, written.existed), (None, true), "{name}");
    }
}

#[tokio::test]
async fn an_edit_changes_only_its_span() {
    let fixture = Fixture::new();
    let path = fixture.put("a.txt", "\u{feff}one\r\ntwo\r\nthree\n");
    let version = FileVersion::of(&fs::read(&path).unwrap());
    let written = fixture.edit("a.txt", "one\ntwo", "1\n2", Some(version.clone())).await.unwrap();
    assert_eq!(written.after, "\u{feff}1\r\n2\r\nthree\n");
    assert_eq!(fs::read_to_string(&path).unwrap(), written.after);
    assert_eq!(written.before.as_deref(), Some("\u{feff}one\r\ntwo\r\nthree\n"));
    let cases = [
        ("a.txt", "1", Some(version), FsErrorKind::StaleVersion),
        ("a.txt", "nowhere", None, FsErrorKind::EditNotFound),
        ("a.txt", "", None, FsErrorKind::EditNotFound),
        ("a.txt", "e", None, FsErrorKind::AmbiguousEdit),
        ("gone.txt", "1", None, FsErrorKind::StaleVersion),
        (".", "1", None, FsErrorKind::NotRegularFile),
    ];
    for (name, old, expected, kind) in cases {
        assert_eq!(fixture.edit(name, old, "x", expected).await, Err(kind), "{name} {old:?}");
    }
    assert_eq!(fs::read_to_string(&path).unwrap(), written.after);
}

#[tokio::test]
async fn a_touched_but_equal_file_is_not_stale() {
    let fixture = Fixture::new();
    let path = fixture.put("a.txt", "same");
    let version = FileVersion::of(b"same");
    fs::write(&path, "same").unwrap();
    fixture.edit("a.txt", "same", "other", Some(version)).await.unwrap();
}

#[tokio::test]
async fn writes_outside_the_fence_are_denied_and_leave_no_trace() {
    let outside = tempfile::tempdir_in("/var/tmp").unwrap();
    let fixture = Fixture::new();
    symlink(outside.path(), fixture.root.join("out")).unwrap();
    let target = fixture.files.resolve("out/new/a.txt").await.unwrap();
    for mode in [SandboxMode::ReadOnly, SandboxMode::WorkspaceWrite] {
        let sandbox = SandboxPolicy { mode, writable_roots: vec![fixture.root.clone()], network: true };
        let request = WriteRequest {
            target: target.clone(),
            content: "x".into(),
            intent: WriteIntent::Unconditional,
            sandbox,
        };
        let error = fixture.files.write(request, &CancellationToken::new()).await.unwrap_err();
        assert_eq!(error.kind, FsErrorKind::SandboxDenied);
    }
    assert_eq!(fs::read_dir(outside.path()).unwrap().count(), 0);
}

#[tokio::test]
async fn a_target_redirected_after_it_was_resolved_is_fenced_again() {
    let outside = tempfile::tempdir_in("/var/tmp").unwrap();
    let inside = tempfile::tempdir_in("/var/tmp").unwrap();
    let root = fs::canonicalize(inside.path()).unwrap();
    fs::create_dir(root.join("sub")).unwrap();
    let files = LocalFileSystem::new(root.clone());
    let target = files.resolve("sub/a.txt").await.unwrap();
    fs::remove_dir(root.join("sub")).unwrap();
    symlink(outside.path(), root.join("sub")).unwrap();
    let sandbox =
        SandboxPolicy { mode: SandboxMode::WorkspaceWrite, writable_roots: vec![root], network: true };
    let request = WriteRequest { target, content: "x".into(), intent: WriteIntent::CreateIfAbsent, sandbox };
    let error = files.write(request, &CancellationToken::new()).await.unwrap_err();
    assert_eq!(error.kind, FsErrorKind::SandboxDenied);
    assert_eq!(fs::read_dir(outside.path()).unwrap().count(), 0);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn of_many_guarded_writers_one_wins_and_the_others_are_stale() {
    let fixture = Fixture::new();
    fixture.put("a.txt", "start");
    let target = fixture.files.resolve("a.txt").await.unwrap();
    let writers: Vec<_> = (0..20)
        .map(|idx| {
            let (files, target) = (fixture.files.clone(), target.clone());
            tokio::spawn(async move {
                let request = WriteRequest {
                    target,
                    content: format!("writer {idx}"),
                    intent: WriteIntent::ReplaceIfVersion(FileVersion::of(b"start")),
                    sandbox: open(),
                };
                files.write(request, &CancellationToken::new()).await.map_err(|error| error.kind)
            })
        })
        .collect();
    let mut winners = Vec::new();
    for writer in writers {
        match writer.await.unwrap() {
            Ok(written) => winners.push(written.after),
            Err(kind) => assert_eq!(kind, FsErrorKind::StaleVersion),
        }
    }
    assert_eq!(winners, [fs::read_to_string(fixture.root.join("a.txt")).unwrap()]);
    assert_eq!(fixture.names(), ["a.txt"]);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn of_many_creators_one_wins() {
    let fixture = Fixture::new();
    let mut creators = Vec::new();
    for idx in 0..20 {
        let (files, target) = (fixture.files.clone(), fixture.files.resolve("a.txt").await.unwrap());
        creators.push(tokio::spawn(async move {
            let request = WriteRequest {
                target,
                content: format!("creator {idx}"),
                intent: WriteIntent::CreateIfAbsent,
                sandbox: open(),
            };
            files.write(request, &CancellationToken::new()).await.map_err(|error| error.kind)
        }));
    }
    let mut n_created = 0;
    for creator in creators {
        match creator.await.unwrap() {
            Ok(_) => n_created += 1,
            Err(kind) => assert_eq!(kind, FsErrorKind::NotObserved),
        }
    }
    assert_eq!(n_created, 1);
}

#[tokio::test]
async fn a_cancelled_write_changes_nothing() {
    let fixture = Fixture::new();
    let path = fixture.put("a.txt", "old");
    let target = fixture.files.resolve("a.txt").await.unwrap();
    let cancel = CancellationToken::new();
    cancel.cancel();
    let request =
        WriteRequest { target, content: "new".into(), intent: WriteIntent::Unconditional, sandbox: open() };
    assert_eq!(fixture.files.write(request, &cancel).await.unwrap_err().kind, FsErrorKind::Aborted);
    assert_eq!(fs::read_to_string(&path).unwrap(), "old");
    assert_eq!(fixture.names(), ["a.txt"]);
}
