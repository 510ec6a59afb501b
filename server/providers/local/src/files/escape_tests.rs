//! Ways out of the workspace that file tools must not take, also when the way changes between the look and the write.

use super::*;
use protocol::mode::SandboxMode;
use services::file_system::{FsErrorKind, WriteIntent};
use services::shell::SandboxPolicy;
use std::fs;
use std::os::unix::fs::symlink;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

/// A workspace beside a folder that is not to be touched; outside of the temporary folders, which may be written.
struct Fixture {
    files: LocalFileSystem,
    root: PathBuf,
    _folder: tempfile::TempDir,
}

impl Fixture {
    fn new() -> Self {
        let folder = tempfile::tempdir_in("/var/tmp").unwrap();
        let root = fs::canonicalize(folder.path()).unwrap();
        for name in ["workspace", "outside"] {
            fs::create_dir(root.join(name)).unwrap();
        }
        fs::write(root.join("outside/old.txt"), "old\n").unwrap();
        Self { files: LocalFileSystem::new(root.join("workspace")), root, _folder: folder }
    }

    async fn write(&self, path: &str) -> Result<Written, FsError> {
        let target = self.files.resolve(path).await?;
        let sandbox = SandboxPolicy {
            mode: SandboxMode::WorkspaceWrite,
            writable_roots: vec![self.root.join("workspace")],
            network: true,
        };
        let request =
            WriteRequest { target, content: "new\n".into(), intent: WriteIntent::Unconditional, sandbox };
        self.files.write(request, &CancellationToken::new()).await
    }

    fn outside(&self) -> Vec<(String, String)> {
        let mut all: Vec<_> = fs::read_dir(self.root.join("outside"))
            .unwrap()
            .map(|entry| {
                let path = entry.unwrap().path();
                let name = path.file_name().unwrap().to_string_lossy().into_owned();
                (name, fs::read_to_string(&path).unwrap_or_default())
            })
            .collect();
        all.sort();
        all
    }

    fn assert_outside_is_untouched(&self) {
        assert_eq!(self.outside(), [("old.txt".to_owned(), "old\n".to_owned())]);
    }
}

#[tokio::test]
async fn no_spelling_of_a_path_leads_out() {
    let fixture = Fixture::new();
    let workspace = fixture.root.join("workspace");
    symlink(fixture.root.join("outside"), workspace.join("folder-link")).unwrap();
    symlink("../outside/old.txt", workspace.join("file-link")).unwrap();
    symlink("../outside/made-by-link", workspace.join("dangling")).unwrap();
    let through_proc = format!("/proc/self/root{}/outside/old.txt", fixture.root.display());
    let cases = [
        "../outside/old.txt",
        "folder-link/old.txt",
        "folder-link/new/deep.txt",
        "file-link",
        "dangling",
        "x/../../outside/new.txt",
        through_proc.as_str(),
    ];
    for path in cases {
        let refused = fixture.write(path).await.unwrap_err();
        assert!(
            matches!(refused.kind, FsErrorKind::SandboxDenied | FsErrorKind::NotFound),
            "{path}: {refused:?}"
        );
        fixture.assert_outside_is_untouched();
    }
}

#[tokio::test]
async fn a_write_to_a_hard_link_leaves_the_other_name_alone() {
    let fixture = Fixture::new();
    let link = fixture.root.join("workspace/hard");
    fs::hard_link(fixture.root.join("outside/old.txt"), &link).unwrap();
    fixture.write("hard").await.unwrap();
    assert_eq!(fs::read_to_string(link).unwrap(), "new\n");
    fixture.assert_outside_is_untouched();
}

/// Puts a folder and a link to the outside in turn where writes go, until told to stop.
fn swap(workspace: &Path, outside: &Path, is_over: &AtomicBool) {
    let (place, aside, link) = (workspace.join("d"), workspace.join("aside"), workspace.join("link"));
    while !is_over.load(Ordering::Relaxed) {
        let _ = symlink(outside, &link);
        let _ = fs::rename(&place, &aside);
        let _ = fs::rename(&link, &place);
        let _ = fs::remove_file(&place);
        let _ = fs::rename(&aside, &place);
    }
}

#[tokio::test]
async fn a_folder_swapped_for_a_link_in_between_redirects_no_write() {
    let fixture = Fixture::new();
    let (workspace, outside) = (fixture.root.join("workspace"), fixture.root.join("outside"));
    fs::create_dir(workspace.join("d")).unwrap();
    let is_over = Arc::new(AtomicBool::new(false));
    let swapper = std::thread::spawn({
        let is_over = is_over.clone();
        move || swap(&workspace, &outside, &is_over)
    });
    let mut n_refused = 0;
    for n in 0..1000 {
        let path = if n % 2 == 0 { "d/new.txt".to_owned() } else { format!("d/sub-{}/new.txt", n % 7) };
        n_refused += usize::from(fixture.write(&path).await.is_err());
    }
    is_over.store(true, Ordering::Relaxed);
    swapper.join().unwrap();
    fixture.assert_outside_is_untouched();
    assert!(n_refused > 0, "the folder was never away");
}
