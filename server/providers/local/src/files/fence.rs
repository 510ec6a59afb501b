//! What file tools may write. Reads are never fenced. Source: `spec/tools-files-shell.md` §0.4.

use protocol::mode::SandboxMode;
use services::file_system::{FsError, FsErrorKind, Target};
use services::shell::SandboxPolicy;
use std::fs;
use std::path::{Path, PathBuf};

/// Checks that `target` may be written under `policy`. Blocks.
///
/// The target's key must have been resolved just now: the check is on real paths, component by component, then by the
/// identity of its folders. A granted path may be a file. `/tmp` and the system's temporary folder are always granted
/// under `workspace-write`.
///
/// # Errors
/// `SandboxDenied`.
pub fn check_fence(target: &Target, policy: &SandboxPolicy) -> Result<(), FsError> {
    let inside = match policy.mode {
        SandboxMode::DangerFullAccess => true,
        SandboxMode::ReadOnly => false,
        SandboxMode::WorkspaceWrite => {
            let temporary = [PathBuf::from("/tmp"), std::env::temp_dir()];
            policy.writable_roots.iter().chain(&temporary).any(|granted| contains(granted, &target.key))
        }
    };
    if inside {
        return Ok(());
    }
    let reason = match policy.mode {
        SandboxMode::ReadOnly => "nothing may be written",
        _ => "it is outside of the folders that may be written",
    };
    Err(FsError::new(
        FsErrorKind::SandboxDenied,
        format!("{} was not written: {reason} in {} mode", target.display.display(), policy.mode.id()),
    ))
}

fn contains(granted: &Path, key: &Path) -> bool {
    let real = fs::canonicalize(granted);
    let granted = real.as_deref().unwrap_or(granted);
    key.starts_with(granted) || contains_by_identity(granted, key)
}

/// Whether an ancestor of `key` is the granted folder under another name: a bind mount, or another spelling on a disk
/// that ignores case.
#[cfg(unix)]
fn contains_by_identity(granted: &Path, key: &Path) -> bool {
    use std::os::unix::fs::MetadataExt;
    let Ok(granted) = fs::metadata(granted) else { return false };
    key.ancestors().filter_map(|ancestor| fs::symlink_metadata(ancestor).ok()).any(|ancestor| {
        (ancestor.dev(), ancestor.ino()) == (granted.dev(), granted.ino()) && ancestor.is_dir()
    })
}

#[cfg(not(unix))]
fn contains_by_identity(_granted: &Path, _key: &Path) -> bool {
    false
}

#[cfg(test)]
mod tests {
    use super::super::resolve_in;
    use super::*;

    #[test]
    fn writes_stay_inside_the_granted_paths() {
        let folder = tempfile::tempdir_in("/var/tmp").unwrap();
        let root = fs::canonicalize(folder.path()).unwrap();
        fs::create_dir_all(root.join("ws/src")).unwrap();
        fs::create_dir_all(root.join("ws-twin")).unwrap();
        fs::write(root.join("granted.txt"), "").unwrap();
        std::os::unix::fs::symlink(root.join("ws-twin"), root.join("ws/out")).unwrap();
        let policy = |mode| SandboxPolicy {
            mode,
            writable_roots: vec![root.join("ws"), root.join("granted.txt")],
            network: true,
        };
        let allowed = |mode, path: &str| {
            check_fence(&resolve_in(&root.join("ws"), path).unwrap(), &policy(mode)).is_ok()
        };
        let cases = [
            ("src/new.rs", true),
            ("new/deep/file", true),
            ("../ws-twin/x", false),
            ("../x", false),
            ("out/x", false),
            ("out/new/x", false),
            ("../granted.txt", true),
            ("../granted.txt.bak", false),
            ("/tmp/x", true),
            ("/etc/x", false),
        ];
        for (path, expected) in cases {
            assert_eq!(allowed(SandboxMode::WorkspaceWrite, path), expected, "{path}");
            assert!(!allowed(SandboxMode::ReadOnly, path), "{path}");
            assert!(allowed(SandboxMode::DangerFullAccess, path), "{path}");
        }
    }
}
