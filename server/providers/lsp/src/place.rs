//! Where things are on this machine: the program of a server, the root of a project.

use crate::table::ServerSpec;
use std::ffi::OsStr;
use std::path::{Path, PathBuf};

/// Folders inside a project that hold its own programs.
const PROJECT_FOLDERS: [&str; 3] = ["node_modules/.bin", ".venv/bin", "venv/bin"];
/// Folders below the home that hold programs, where PATH may not say so.
const HOME_FOLDERS: [&str; 5] =
    [".cargo/bin", ".local/bin", "go/bin", ".local/share/nvim/mason/bin", ".local/share/mason/bin"];

/// Where a program was looked for.
#[derive(Debug, PartialEq, Eq)]
pub enum Program {
    /// Here it is.
    Found(PathBuf),
    /// Only the project has it, and the user does not trust the project.
    Untrusted(PathBuf),
    /// Nowhere.
    Missing,
}

/// Finds a program: a path as it is (relative ones from the root), a name in the project, on PATH, and where installers
/// put it. A project's own programs run only when the user trusts it.
pub fn program(name: &str, root: &Path, workspace: &Path, is_trusted: bool) -> Program {
    if Path::new(name).components().count() > 1 {
        let path = root.join(name);
        return if is_executable(&path) { Program::Found(path) } else { Program::Missing };
    }
    let projects = root.ancestors().take_while(|folder| folder.starts_with(workspace));
    let in_project = projects
        .flat_map(|folder| PROJECT_FOLDERS.map(|inner| folder.join(inner).join(name)))
        .find(|path| is_executable(path));
    if let (Some(path), true) = (&in_project, is_trusted) {
        return Program::Found(path.clone());
    }
    let path = std::env::var_os("PATH").unwrap_or_default();
    let home = std::env::var_os("HOME").map(PathBuf::from);
    let of_home = home.iter().flat_map(|home| HOME_FOLDERS.map(|folder| home.join(folder)));
    let everywhere = std::env::split_paths(&path).chain(of_home);
    match everywhere.map(|folder| folder.join(name)).find(|path| path.is_absolute() && is_executable(path)) {
        Some(found) => Program::Found(found),
        None => in_project.map_or(Program::Missing, Program::Untrusted),
    }
}

fn is_executable(path: &Path) -> bool {
    let Ok(found) = std::fs::metadata(path) else { return false };
    #[cfg(unix)]
    let may_run = std::os::unix::fs::PermissionsExt::mode(&found.permissions()) & 0o111 != 0;
    #[cfg(not(unix))]
    let may_run = true;
    found.is_file() && may_run
}

/// The root of the file's project: the session's folder when it has a marker, else the nearest folder with one between
/// the file and the session's folder, else the session's folder. So one server serves all modules of a project.
pub fn root(file: &Path, workspace: &Path, server: &ServerSpec) -> PathBuf {
    let is_root = |folder: &&Path| server.root_markers.iter().any(|marker| folder.join(marker).exists());
    if is_root(&workspace) {
        return workspace.to_owned();
    }
    let folders = file.ancestors().skip(1).take_while(|folder| folder.starts_with(workspace));
    folders.into_iter().find(is_root).unwrap_or(workspace).to_owned()
}

/// The last extension in lower case; files that only start with a dot have none.
pub fn extension(path: &Path) -> Option<String> {
    path.extension().and_then(OsStr::to_str).map(str::to_lowercase)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn server() -> ServerSpec {
        crate::table::built_in().remove(0)
    }

    #[test]
    fn the_root_is_the_workspace_or_the_nearest_marker() {
        let folder = tempfile::tempdir().unwrap();
        let workspace = folder.path();
        let inner = workspace.join("a/b");
        std::fs::create_dir_all(inner.join("src")).unwrap();
        let file = inner.join("src/x.rs");
        assert_eq!(root(&file, workspace, &server()), workspace);
        std::fs::write(inner.join("Cargo.toml"), "").unwrap();
        assert_eq!(root(&file, workspace, &server()), inner);
        std::fs::write(workspace.join("Cargo.toml"), "").unwrap();
        assert_eq!(root(&file, workspace, &server()), workspace);
    }

    #[test]
    fn a_projects_own_program_needs_trust() {
        let folder = tempfile::tempdir().unwrap();
        let workspace = folder.path();
        let bin = workspace.join("node_modules/.bin");
        std::fs::create_dir_all(&bin).unwrap();
        std::fs::create_dir(workspace.join("packages")).unwrap();
        let path = bin.join("no-such-server");
        std::fs::write(&path, "").unwrap();
        let root = workspace.join("packages");
        let look = |is_trusted| program("no-such-server", &root, workspace, is_trusted);
        assert_eq!(look(true), Program::Missing, "it is no program yet");
        #[cfg(unix)]
        {
            use std::os::unix::fs::PermissionsExt;
            std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o755)).unwrap();
            assert_eq!(look(true), Program::Found(path.clone()));
            assert_eq!(look(false), Program::Untrusted(path));
        }
    }

    #[test]
    fn dotfiles_have_no_extension() {
        assert_eq!(extension(Path::new("/w/.rs")), None);
        assert_eq!(extension(Path::new("/w/a.b.RS")).as_deref(), Some("rs"));
    }
}
