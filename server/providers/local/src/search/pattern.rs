//! Globs as the tools mean them: without `/` on base names at any depth, with `/` from the root.

use globset::{GlobBuilder, GlobMatcher};
use services::file_search::SearchError;
use std::path::{Component, Path, PathBuf};

/// A compiled glob.
#[derive(Debug)]
pub(super) struct Pattern {
    matcher: GlobMatcher,
    /// Whether it matches paths below the root rather than base names.
    is_anchored: bool,
    /// Folders that every match lies in: where the walk can begin.
    prefix: PathBuf,
    /// How deep below the root a match can lie; `None` when any depth.
    max_depth: Option<usize>,
}

impl Pattern {
    /// Compiles a glob for a search of `root`.
    ///
    /// # Errors
    /// `InvalidPattern`.
    pub fn new(pattern: &str, root: &Path) -> Result<Self, SearchError> {
        let relative = relative(pattern, root);
        let is_anchored = relative.contains('/');
        let glob = relative.strip_prefix('/').unwrap_or(&relative);
        let matcher = GlobBuilder::new(glob)
            .literal_separator(true)
            .backslash_escape(true)
            .build()
            .map_err(|error| SearchError::InvalidPattern(format!("the pattern does not parse: {error}")))?
            .compile_matcher();
        let (prefix, max_depth) = if is_anchored { extent(glob) } else { (PathBuf::new(), None) };
        Ok(Self { matcher, is_anchored, prefix, max_depth })
    }

    pub fn prefix(&self) -> &Path {
        &self.prefix
    }

    pub fn max_depth(&self) -> Option<usize> {
        self.max_depth
    }

    /// Whether a file at `path` below `root` matches.
    pub fn matches(&self, root: &Path, path: &Path) -> bool {
        let subject =
            if self.is_anchored { path.strip_prefix(root).ok() } else { path.file_name().map(Path::new) };
        subject.is_some_and(|subject| self.matcher.is_match(subject))
    }
}

/// The pattern seen from the root: an absolute one below it loses the root, `./` and a trailing `/` are understood.
fn relative(pattern: &str, root: &Path) -> String {
    let below = Path::new(pattern)
        .is_absolute()
        .then(|| root.to_str().and_then(|root| pattern.strip_prefix(root)))
        .flatten()
        .filter(|rest| rest.starts_with('/') && rest.len() > 1);
    let pattern = below.unwrap_or(pattern);
    let mut pattern = match pattern.strip_prefix("./") {
        // Still anchored, although the slash is gone.
        Some(rest) => format!("/{rest}"),
        None => pattern.to_owned(),
    };
    if pattern.ends_with('/') {
        pattern.push_str("**");
    }
    pattern
}

/// Leading folders without wildcards, and the depth of the deepest match.
fn extent(glob: &str) -> (PathBuf, Option<usize>) {
    let is_plain = |part: &str| !part.contains(['*', '?', '[', ']', '{', '}', '\\', '!']);
    // A slash inside braces splits alternatives of different depth: then nothing can be said.
    if glob.contains('{') {
        return (PathBuf::new(), None);
    }
    let parts: Vec<&str> = glob.split('/').collect();
    let prefix: PathBuf = parts[..parts.len() - 1].iter().take_while(|part| is_plain(part)).collect();
    if prefix.components().any(|component| !matches!(component, Component::Normal(_))) {
        return (PathBuf::new(), None);
    }
    (prefix, (!glob.contains("**")).then_some(parts.len()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn patterns_match_as_documented() {
        let cases = [
            ("*.rs", "a.rs", true),
            ("*.rs", "deep/er/a.rs", true),
            ("*.rs", "a.rs/b", false),
            ("src/*.rs", "src/a.rs", true),
            ("src/*.rs", "x/src/a.rs", false),
            ("src/*.rs", "src/sub/a.rs", false),
            ("src/**/*.rs", "src/a.rs", true),
            ("src/**/*.rs", "src/x/y/a.rs", true),
            ("**/test/*.{js,ts}", "a/test/b.ts", true),
            ("{src,lib/sub}/*.rs", "lib/sub/a.rs", true),
            ("/*.rs", "a.rs", true),
            ("/*.rs", "src/a.rs", false),
            ("./a.rs", "a.rs", true),
            ("./a.rs", "src/a.rs", false),
            ("/root/src/a.*", "src/a.rs", true),
            ("src/", "src/deep/a.rs", true),
            (".*", ".env", true),
            ("*", ".env", true),
            ("a[0-9].txt", "a7.txt", true),
            ("with space.txt", "with space.txt", true),
            ("-x", "-x", true),
            ("\\*", "*", true),
        ];
        let root = Path::new("/root");
        for (pattern, path, expected) in cases {
            let compiled = Pattern::new(pattern, root).unwrap();
            assert_eq!(compiled.matches(root, &root.join(path)), expected, "{pattern} on {path}");
            if expected {
                assert!(Path::new(path).starts_with(compiled.prefix()), "{pattern} begins too deep");
                let depth = Path::new(path).components().count();
                assert!(compiled.max_depth().is_none_or(|max| depth <= max), "{pattern} ends too early");
            }
        }
    }

    #[test]
    fn the_walk_begins_where_matches_can_be() {
        let cases = [
            ("*.rs", "", None),
            ("src/net/*.rs", "src/net", Some(3)),
            ("src/**/a", "src", None),
            ("s*/a", "", Some(2)),
            ("../a/b", "", None),
            ("{a,b/c}/d", "", None),
        ];
        for (pattern, prefix, max_depth) in cases {
            let compiled = Pattern::new(pattern, Path::new("/root")).unwrap();
            assert_eq!(
                (compiled.prefix(), compiled.max_depth()),
                (Path::new(prefix), max_depth),
                "{pattern}"
            );
        }
    }

    #[test]
    fn a_pattern_that_does_not_parse_says_so() {
        for pattern in ["[", "{a", "a[z-a]"] {
            let error = Pattern::new(pattern, Path::new("/")).unwrap_err();
            assert!(matches!(error, SearchError::InvalidPattern(_)), "{pattern}");
        }
    }
}
