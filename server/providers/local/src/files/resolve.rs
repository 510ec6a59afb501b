//! From a path as the model gave it to the file it means. Source: `spec/tools-files-shell.md` §0.1, §0.2.

use super::error::io_error;
use services::file_system::{FsError, FsErrorKind, Target};
use std::ffi::OsStr;
use std::fs;
use std::io::ErrorKind;
use std::path::{Component, Path, PathBuf};
use unicode_normalization::UnicodeNormalization;

/// Links followed on the way to a missing file before the path counts as a loop.
const MAX_LINKS: usize = 40;

/// Folder entries looked at for a name that is the same but for its Unicode form.
const MAX_NAMES_COMPARED: usize = 20_000;

/// Resolves a path against a session's folder. Blocks.
///
/// When nothing has exactly this name, the one entry of the folder whose name is the same text in another Unicode form
/// or with another kind of blank is meant; the target then carries the name on the disk.
///
/// # Errors
/// `NotFound` for a blank path, a parent that is a file, or several equivalent names; `PermissionDenied`, `Io`.
pub fn resolve_in(cwd: &Path, path: &str) -> Result<Target, FsError> {
    if path.trim().is_empty() {
        return Err(FsError::new(FsErrorKind::NotFound, "the path is blank; give the path of a file"));
    }
    if path.contains('\0') {
        return Err(FsError::new(
            FsErrorKind::NotFound,
            "the path contains a NUL character; no file has such a name",
        ));
    }
    let requested = Path::new(path);
    let climbs = |path: &Path| path.components().any(|component| component == Component::ParentDir);
    let display = if climbs(requested) || climbs(cwd) {
        let real_cwd = fs::canonicalize(cwd).unwrap_or_else(|_| cwd.to_owned());
        normalised(&real_cwd.join(requested))
    } else {
        normalised(&cwd.join(requested))
    };
    let key = real_path(&display, MAX_LINKS)?;
    if fs::symlink_metadata(&display).is_err()
        && let Some(equivalent) = equivalent(&display)?
    {
        return Ok(Target { key: real_path(&equivalent, MAX_LINKS)?, display: equivalent });
    }
    Ok(Target { key, display })
}

/// The path without `.` and `..`, by its text alone.
fn normalised(path: &Path) -> PathBuf {
    let mut result = PathBuf::new();
    for component in path.components() {
        match component {
            Component::CurDir => {}
            Component::ParentDir => {
                result.pop();
            }
            other => result.push(other),
        }
    }
    result
}

/// The path with all links followed; what does not exist yet stays as it is written.
fn real_path(path: &Path, links_left: usize) -> Result<PathBuf, FsError> {
    match fs::canonicalize(path) {
        Ok(real) => return Ok(real),
        Err(error) if error.kind() == ErrorKind::NotFound => {}
        Err(error) => return Err(io_error("resolve", path, &error)),
    }
    let (Some(parent), Some(name)) = (path.parent(), path.file_name()) else {
        return Ok(path.to_owned());
    };
    let real_parent = real_path(parent, links_left)?;
    let real = real_parent.join(name);
    match fs::read_link(&real) {
        Err(_) => Ok(real),
        Ok(_) if links_left == 0 => {
            Err(FsError::new(FsErrorKind::Io, format!("{} goes through too many links", path.display())))
        }
        // A link to something missing: its target is the file that a write would make.
        Ok(link) => follow(real_parent, &link, links_left - 1),
    }
}

/// Follows a link's text from the folder it lies in, component by component, so that `..` is taken on real folders.
fn follow(mut at: PathBuf, link: &Path, links_left: usize) -> Result<PathBuf, FsError> {
    for component in link.components() {
        match component {
            Component::CurDir => {}
            Component::ParentDir => {
                at.pop();
            }
            Component::Normal(name) => at = real_path(&at.join(name), links_left)?,
            Component::RootDir | Component::Prefix(_) => at = PathBuf::from(component.as_os_str()),
        }
    }
    Ok(at)
}

/// The one entry beside a missing file whose name is equivalent to it.
fn equivalent(missing: &Path) -> Result<Option<PathBuf>, FsError> {
    let (Some(parent), Some(name)) = (missing.parent(), missing.file_name().and_then(OsStr::to_str)) else {
        return Ok(None);
    };
    if name.is_ascii() && !name.contains(' ') {
        return Ok(None);
    }
    let Ok(entries) = fs::read_dir(parent) else { return Ok(None) };
    let wanted = folded(name);
    let mut found = None;
    for entry in entries.take(MAX_NAMES_COMPARED).flatten() {
        let entry_name = entry.file_name();
        if entry_name.to_str().is_none_or(|entry_name| folded(entry_name) != wanted) {
            continue;
        }
        if found.replace(parent.join(entry_name)).is_some() {
            return Err(FsError::new(
                FsErrorKind::NotFound,
                format!(
                    "{} does not exist, and several names beside it differ only in their Unicode form or blanks; \
                     list the folder and copy the exact name",
                    missing.display()
                ),
            ));
        }
    }
    Ok(found)
}

/// The name in composed form, every kind of blank made plain.
fn folded(name: &str) -> String {
    name.nfc()
        .map(|char| match char {
            '\u{a0}' | '\u{2000}'..='\u{200a}' | '\u{202f}' | '\u{205f}' | '\u{3000}' => ' ',
            other => other,
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::symlink;

    fn folder() -> (tempfile::TempDir, PathBuf) {
        let folder = tempfile::tempdir().unwrap();
        let real = fs::canonicalize(folder.path()).unwrap();
        (folder, real)
    }

    #[test]
    fn a_missing_file_is_keyed_by_its_real_ancestor() {
        let (_guard, root) = folder();
        fs::create_dir(root.join("real")).unwrap();
        symlink("real", root.join("link")).unwrap();
        let target = resolve_in(&root, "link/new/file.txt").unwrap();
        assert_eq!(
            target,
            Target { key: root.join("real/new/file.txt"), display: root.join("link/new/file.txt") }
        );
        fs::create_dir(root.join("real/new")).unwrap();
        fs::write(root.join("real/new/file.txt"), "").unwrap();
        assert_eq!(resolve_in(&root, "link/new/file.txt").unwrap(), target, "the key survives creation");
    }

    #[test]
    fn dots_are_taken_on_the_real_folder() {
        let (_guard, root) = folder();
        fs::create_dir_all(root.join("a/b")).unwrap();
        symlink("a/b", root.join("in")).unwrap();
        assert_eq!(resolve_in(&root.join("in"), "../x").unwrap().display, root.join("a/x"));
        assert_eq!(resolve_in(&root, "./a/./b//y").unwrap().display, root.join("a/b/y"));
    }

    #[test]
    fn dangling_links_and_loops_are_seen_through() {
        let (_guard, root) = folder();
        symlink("elsewhere/../gone.txt", root.join("dangling")).unwrap();
        assert_eq!(resolve_in(&root, "dangling").unwrap().key, root.join("gone.txt"));
        symlink("/nowhere-at-all/deep", root.join("out")).unwrap();
        assert_eq!(resolve_in(&root, "out/x").unwrap().key, Path::new("/nowhere-at-all/deep/x"));
        symlink("loop", root.join("loop")).unwrap();
        assert_eq!(resolve_in(&root, "loop").unwrap_err().kind, FsErrorKind::Io);
    }

    #[test]
    fn blank_paths_and_files_as_parents_are_not_found() {
        let (_guard, root) = folder();
        fs::write(root.join("file"), "").unwrap();
        for path in ["", "  ", "file/x", "file/x/y", "a\0b"] {
            assert_eq!(resolve_in(&root, path).unwrap_err().kind, FsErrorKind::NotFound, "{path:?}");
        }
    }

    #[test]
    fn an_equivalent_name_is_taken_when_it_is_the_only_one() {
        let (_guard, root) = folder();
        fs::write(root.join("cafe\u{301}.txt"), "").unwrap();
        fs::write(root.join("Shot 1\u{202f}PM.png"), "").unwrap();
        assert_eq!(resolve_in(&root, "caf\u{e9}.txt").unwrap().display, root.join("cafe\u{301}.txt"));
        assert_eq!(resolve_in(&root, "Shot 1 PM.png").unwrap().key, root.join("Shot 1\u{202f}PM.png"));
        fs::write(root.join("caf\u{e9}.txt"), "").unwrap();
        assert_eq!(resolve_in(&root, "caf\u{e9}.txt").unwrap().display, root.join("caf\u{e9}.txt"));
        fs::write(root.join("Shot 1\u{a0}PM.png"), "").unwrap();
        assert_eq!(resolve_in(&root, "Shot 1 PM.png").unwrap_err().kind, FsErrorKind::NotFound);
    }
}
