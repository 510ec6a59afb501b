//! Lexical paths: joining, shortening, and addresses an editor can open. Never touches a disk.

use crate::PresentContext;
use std::path::{Component, Path, PathBuf};

/// Joins `path` to `cwd` when it is relative, and resolves `.` and `..` lexically.
///
/// Links are not followed, so `link/..` is the folder that holds the link.
pub fn absolute(cwd: &Path, path: impl AsRef<Path>) -> PathBuf {
    let mut joined = PathBuf::new();
    for component in cwd.join(path).components() {
        match component {
            Component::CurDir => {}
            Component::ParentDir => {
                joined.pop();
            }
            other => joined.push(other),
        }
    }
    joined
}

/// Shortens a path for people: relative inside the session's folder, with the folder's name in front inside another
/// folder of the session. Everything else, and those folders themselves, stays as it is.
pub fn shown(ctx: &PresentContext, path: &str) -> String {
    let absolute = absolute(&ctx.cwd, path);
    if let Some(relative) = inside(&absolute, &ctx.cwd) {
        return relative;
    }
    let rooted = ctx.roots.iter().find_map(|root| {
        let name = root.file_name()?.to_string_lossy();
        Some(format!("{name}/{}", inside(&absolute, root)?))
    });
    rooted.unwrap_or_else(|| path.to_owned())
}

/// The part of `path` below `folder`; `None` outside it and for the folder itself.
fn inside(path: &Path, folder: &Path) -> Option<String> {
    if folder.as_os_str().is_empty() {
        return None;
    }
    let relative = path.strip_prefix(folder).ok()?.to_string_lossy().into_owned();
    (!relative.is_empty()).then_some(relative)
}

/// Replaces the session's folders in a line of text wherever an absolute path inside them begins.
pub(crate) fn shorten_in(ctx: &PresentContext, text: &str) -> String {
    let mut shortened = strip_folder(text, &ctx.cwd, "");
    for root in &ctx.roots {
        if let Some(name) = root.file_name() {
            shortened = strip_folder(&shortened, root, &format!("{}/", name.to_string_lossy()));
        }
    }
    shortened
}

/// Replaces `folder/` by `short` where it begins a word and something follows.
fn strip_folder(text: &str, folder: &Path, short: &str) -> String {
    let prefix = format!("{}/", folder.to_string_lossy().trim_end_matches('/'));
    if prefix == "/" {
        return text.to_owned();
    }
    let mut result = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(at) = rest.find(&prefix) {
        let (before, from) = rest.split_at(at);
        let after = &from[prefix.len()..];
        let begins = before.chars().next_back().or(result.chars().next_back());
        let begins = begins.is_none_or(|c| c.is_whitespace() || "\"'`(=".contains(c));
        let goes_on = after.chars().next().is_some_and(|c| !c.is_whitespace() && !"\"'`)".contains(c));
        result.push_str(before);
        result.push_str(if begins && goes_on { short } else { &prefix });
        rest = after;
    }
    result + rest
}

/// The `file://` address of an absolute path, percent-encoded; with `#L<line>` when a 1-based line is given.
///
/// Only unreserved characters and `/` stay, so that the address survives inside a Markdown link.
pub fn file_uri(path: &Path, line: Option<u64>) -> String {
    let text = path.to_string_lossy();
    let text = if cfg!(windows) { format!("/{}", text.replace('\\', "/")) } else { text.into_owned() };
    let mut uri = String::from("file://");
    for &byte in text.as_bytes() {
        if byte.is_ascii_alphanumeric() || b"-._~/".contains(&byte) {
            uri.push(char::from(byte));
        } else {
            uri.push_str(&format!("%{byte:02X}"));
        }
    }
    if let Some(line) = line {
        uri.push_str(&format!("#L{line}"));
    }
    uri
}

#[cfg(test)]
mod tests {
    use super::*;

    fn context() -> PresentContext {
        PresentContext {
            cwd: PathBuf::from("/w/app"),
            roots: vec![PathBuf::from("/w/lib")],
            ..PresentContext::default()
        }
    }

    #[test]
    fn paths_are_joined_without_asking_the_disk() {
        for (path, expected) in [
            ("src/a.rs", "/w/app/src/a.rs"),
            ("./src/../b.rs", "/w/app/b.rs"),
            ("../x", "/w/x"),
            ("/etc/hosts", "/etc/hosts"),
            ("/../..", "/"),
            ("", "/w/app"),
        ] {
            assert_eq!(absolute(Path::new("/w/app"), path), PathBuf::from(expected), "{path}");
        }
    }

    #[test]
    fn only_paths_inside_the_sessions_folders_are_shortened() {
        for (path, expected) in [
            ("/w/app/src/a.rs", "src/a.rs"),
            ("/w/app/..cache/x", "..cache/x"),
            ("/w/app", "/w/app"),
            ("/w/apple/a.rs", "/w/apple/a.rs"),
            ("/w/lib/a.rs", "lib/a.rs"),
            ("/w/lib", "/w/lib"),
            ("/etc/hosts", "/etc/hosts"),
            ("src/a.rs", "src/a.rs"),
            ("../lib/a.rs", "lib/a.rs"),
        ] {
            assert_eq!(shown(&context(), path), expected, "{path}");
        }
    }

    #[test]
    fn a_line_of_text_loses_the_folder_only_where_a_path_begins() {
        for (text, expected) in [
            ("Grep x in /w/app/src", "Grep x in src"),
            ("Glob *.rs in /w/app", "Glob *.rs in /w/app"),
            ("Glob *.rs in /w/app/", "Glob *.rs in /w/app/"),
            ("Read /x/w/app/a", "Read /x/w/app/a"),
            ("Read /w/lib/a \"/w/app/b\"", "Read lib/a \"b\""),
        ] {
            assert_eq!(shorten_in(&context(), text), expected, "{text}");
        }
    }

    #[test]
    fn addresses_are_percent_encoded() {
        let uri = file_uri(Path::new("/w/a b (1)/ü#.rs"), Some(7));
        assert_eq!(uri, "file:///w/a%20b%20%281%29/%C3%BC%23.rs#L7");
        assert_eq!(file_uri(Path::new("/w/a.rs"), None), "file:///w/a.rs");
    }
}
