//! Searching real trees.

use super::*;
use services::file_search::GrepMatch;
use std::fs::{self, File};
use std::os::unix::fs::symlink;
use std::path::PathBuf;
use std::time::{Instant, SystemTime};

struct Fixture {
    search: LocalSearch,
    root: PathBuf,
    _folder: tempfile::TempDir,
}

impl Fixture {
    /// A tree of these files; the first is the newest.
    fn new(files: &[(&str, &str)]) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let root = fs::canonicalize(folder.path()).unwrap();
        let now = SystemTime::now();
        for (idx, (name, content)) in files.iter().enumerate() {
            let path = root.join(name);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(&path, content).unwrap();
            let age = Duration::from_secs(60 * idx as u64);
            File::options().write(true).open(&path).unwrap().set_modified(now - age).unwrap();
        }
        Self { search: LocalSearch::default(), root, _folder: folder }
    }

    async fn glob_in(&self, folder: &str, pattern: &str) -> Result<Vec<String>, SearchError> {
        let root = if folder.is_empty() { self.root.clone() } else { self.root.join(folder) };
        let request = GlobRequest { pattern: pattern.to_owned(), root };
        let found = self.search.glob(request, &CancellationToken::new()).await?;
        Ok(found.paths.iter().map(|path| self.name(path)).collect())
    }

    fn grep_request(&self, pattern: &str) -> GrepRequest {
        GrepRequest {
            pattern: pattern.to_owned(),
            root: self.root.clone(),
            include: None,
            search_ignored: false,
            max_line_bytes: 2000,
            max_total_bytes: 1_000_000,
        }
    }

    async fn grep(&self, request: GrepRequest) -> Result<Vec<String>, SearchError> {
        let found = self.search.grep(request, &CancellationToken::new()).await?;
        Ok(found
            .matches
            .iter()
            .map(|GrepMatch { path, line_number, line }| format!("{}:{line_number}:{line}", self.name(path)))
            .collect())
    }

    fn name(&self, path: &Path) -> String {
        path.strip_prefix(&self.root).unwrap().display().to_string()
    }
}

fn failed<T>(result: &Result<T, SearchError>) -> bool {
    matches!(result, Err(SearchError::Failed(_)))
}

#[tokio::test]
async fn glob_lists_files_newest_first_hidden_and_ignored_ones_too() {
    let fixture = Fixture::new(&[
        ("z.txt", ""),
        (".hidden/a.txt", ""),
        ("ignored.txt", ""),
        ("sub/b c.txt", ""),
        (".gitignore", "ignored.txt"),
        (".git/c.txt", ""),
        ("sub/.jj/d.txt", ""),
        ("e.md", ""),
    ]);
    symlink("z.txt", fixture.root.join("link.txt")).unwrap();
    symlink("..", fixture.root.join("sub/cycle")).unwrap();
    let cases = [
        ("", "*.txt", vec!["z.txt", ".hidden/a.txt", "ignored.txt", "sub/b c.txt"]),
        ("", "*.nomatch", vec![]),
        ("", "sub/*", vec!["sub/b c.txt"]),
        ("", "b c.txt", vec!["sub/b c.txt"]),
        ("sub", "*.txt", vec!["sub/b c.txt"]),
        ("sub", "sub/*.txt", vec![]),
        ("", "**/*.md", vec!["e.md"]),
        ("", "nowhere/*.md", vec![]),
        ("", ".git/*", vec![]),
        (".git", "*", vec![]),
        ("sub/cycle", "*.md", vec!["sub/cycle/e.md"]),
    ];
    for (folder, pattern, expected) in cases {
        assert_eq!(fixture.glob_in(folder, pattern).await.unwrap(), expected, "{pattern} in {folder:?}");
    }
}

#[tokio::test]
async fn files_of_the_same_time_are_in_path_order() {
    let names: Vec<String> = (0..300).map(|idx| format!("d{}/f{idx:03}", idx % 7)).collect();
    let files: Vec<(&str, &str)> = names.iter().map(|name| (name.as_str(), "")).collect();
    let fixture = Fixture::new(&files);
    let time = SystemTime::now();
    for name in &names {
        File::options().write(true).open(fixture.root.join(name)).unwrap().set_modified(time).unwrap();
    }
    let mut expected = names.clone();
    expected.sort();
    assert_eq!(fixture.glob_in("", "*").await.unwrap(), expected);
}

#[tokio::test]
async fn a_glob_that_cannot_be_searched_says_why() {
    let fixture = Fixture::new(&[("a.txt", "")]);
    assert!(matches!(fixture.glob_in("", "[").await, Err(SearchError::InvalidPattern(_))));
    assert!(failed(&fixture.glob_in("missing", "*").await));
    assert!(failed(&fixture.glob_in("a.txt", "*").await));
}

#[tokio::test]
async fn grep_finds_lines_in_path_order() {
    let fixture = Fixture::new(&[
        ("b.rs", "fn one() {}\nfn two() {}\r\nlet x;\n"),
        ("a.rs", "// fn\nfn three() {}"),
        ("c.ts", "fn four"),
        ("a.rs.bak/d.rs", "fn five\n"),
    ]);
    let all = ["a.rs:2:fn three() {}", "a.rs.bak/d.rs:1:fn five", "b.rs:1:fn one() {}", "b.rs:2:fn two() {}"];
    let mut request = fixture.grep_request(r"^fn \w+");
    request.include = Some("*.rs".into());
    assert_eq!(fixture.grep(request.clone()).await.unwrap(), all);
    request.include = Some("*.{ts,js}".into());
    assert_eq!(fixture.grep(request.clone()).await.unwrap(), ["c.ts:1:fn four"]);
    request.include = Some("a.rs.bak/*".into());
    assert_eq!(fixture.grep(request.clone()).await.unwrap(), ["a.rs.bak/d.rs:1:fn five"]);
    request.include = None;
    request.root.push("b.rs");
    assert_eq!(fixture.grep(request).await.unwrap(), ["b.rs:1:fn one() {}", "b.rs:2:fn two() {}"]);
    assert_eq!(fixture.grep(fixture.grep_request("$(rm -rf x)")).await.unwrap(), [""; 0]);
}

#[tokio::test]
async fn ignored_hidden_and_binary_files_are_searched_when_asked_for() {
    let fixture = Fixture::new(&[
        ("seen.txt", "needle\n"),
        (".ignore", "ignored.txt\n"),
        ("ignored.txt", "needle\n"),
        (".hidden", "needle\n"),
        (".env.local", "needle\n"),
        ("binary", "\0\nneedle\n"),
    ]);
    let mut request = fixture.grep_request("needle");
    assert_eq!(fixture.grep(request.clone()).await.unwrap(), ["seen.txt:1:needle"]);
    request.include = Some(".env*".into());
    assert_eq!(fixture.grep(request.clone()).await.unwrap(), [".env.local:1:needle"]);
    request.include = None;
    request.search_ignored = true;
    let all = [
        ".env.local:1:needle",
        ".hidden:1:needle",
        "binary:2:needle",
        "ignored.txt:1:needle",
        "seen.txt:1:needle",
    ];
    assert_eq!(fixture.grep(request).await.unwrap(), all);
}

#[tokio::test]
async fn long_and_broken_lines_are_bounded_and_named() {
    let minified = format!("{}needle{}", "x".repeat(5000), "y".repeat(5000));
    let fixture = Fixture::new(&[("min.js", &minified)]);
    fs::write(fixture.root.join("latin1.txt"), b"needle caf\xe9\n").unwrap();
    let mut request = fixture.grep_request("needle");
    request.max_line_bytes = 22;
    let expected = [
        "latin1.txt:1:needle caf\u{fffd} (not valid UTF-8)",
        "min.js:1:…xxxxneedleyyyyyyyyyyyy… (line truncated: bytes 4997-5018 of 10006)",
    ];
    assert_eq!(fixture.grep(request).await.unwrap(), expected);
}

#[tokio::test]
async fn a_grep_that_cannot_be_done_says_why() {
    let fixture = Fixture::new(&[("a.txt", "needle\nneedle\nneedle\n")]);
    for pattern in ["(", "a\\nb"] {
        let error = fixture.grep(fixture.grep_request(pattern)).await;
        assert!(matches!(error, Err(SearchError::InvalidPattern(_))), "{pattern}");
    }
    let mut request = fixture.grep_request("x");
    request.include = Some("[".into());
    assert!(matches!(fixture.grep(request).await, Err(SearchError::InvalidPattern(_))));
    let mut request = fixture.grep_request("x");
    request.root.push("missing");
    assert!(failed(&fixture.grep(request).await));
    let mut request = fixture.grep_request("needle");
    request.max_total_bytes = 10;
    assert_eq!(fixture.grep(request).await, Err(SearchError::Overflow { max_bytes: 10 }));
}

#[tokio::test]
async fn a_spent_budget_gives_a_partial_result_that_says_so() {
    let names: Vec<String> = (0..500).map(|idx| format!("d{}/f{idx}", idx % 20)).collect();
    let files: Vec<(&str, &str)> = names.iter().map(|name| (name.as_str(), "needle\n")).collect();
    let fixture = Fixture::new(&files);
    let search = LocalSearch::new(SearchBudget { max_entries: 200, ..SearchBudget::default() });
    let cancel = CancellationToken::new();
    let request = GlobRequest { pattern: "*".into(), root: fixture.root.clone() };
    let found = search.glob(request, &cancel).await.unwrap();
    assert!(found.partial && !found.paths.is_empty() && found.paths.len() < 500, "{}", found.paths.len());
    let found = search.grep(fixture.grep_request("needle"), &cancel).await.unwrap();
    assert!(
        found.partial && !found.matches.is_empty() && found.matches.len() < 500,
        "{}",
        found.matches.len()
    );
}

#[tokio::test]
async fn a_cancelled_search_ends_soon_even_inside_one_endless_file() {
    let fixture = Fixture::new(&[("a.txt", "")]);
    // Sparse: nothing on the disk, hours to read.
    File::options().write(true).open(fixture.root.join("a.txt")).unwrap().set_len(1 << 42).unwrap();
    let mut request = fixture.grep_request("needle");
    request.root.push("a.txt");
    request.search_ignored = true;
    let cancel = CancellationToken::new();
    let token = cancel.clone();
    let started = Instant::now();
    let (result, ()) = tokio::join!(fixture.search.grep(request, &cancel), async move {
        tokio::time::sleep(Duration::from_millis(50)).await;
        token.cancel();
    });
    // One line longer than memory allows may end the search before the cancellation does.
    assert!(result == Err(SearchError::Aborted) || result.is_ok_and(|found| found.n_unreadable == 1));
    assert!(started.elapsed() < Duration::from_secs(5), "{:?}", started.elapsed());
}
