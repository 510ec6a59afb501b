//! The searches on the built program: the same as ripgrep's on a tree with every trap, and the cases of each tool.

use crate::kit::*;
use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;
use serde_json::{Value, json};
use std::collections::BTreeSet;
use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt as _;
use std::os::unix::fs::{PermissionsExt as _, symlink};
use std::path::{Path, PathBuf};
use std::process::Command;

/// ripgrep 14 or newer, as `.ci/install-test-clients` installs it.
fn ripgrep() -> PathBuf {
    let target = Path::new(env!("CARGO_TARGET_TMPDIR")).parent().unwrap();
    let installed = target.join("tools/bin/rg");
    let program = if installed.exists() { installed } else { PathBuf::from("rg") };
    let version = Command::new(&program).arg("--version").output();
    let version =
        version.map(|output| String::from_utf8_lossy(&output.stdout).into_owned()).unwrap_or_default();
    let major = version.split([' ', '.']).nth(1).and_then(|number| number.parse().ok()).unwrap_or(0);
    assert!(major >= 14, "ripgrep 14 or newer is needed: bash .ci/install-test-clients ({version:?})");
    program
}

/// Three thousand files in a repository: rules at several depths, hidden, binary and strange ones, links in a circle.
fn tree(root: &Path) {
    let put = |path: &str, content: &[u8]| {
        let path = root.join(path);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(path, content).unwrap();
    };
    let mut state = 7_u64;
    let mut chance = |n: u64| {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (state >> 33) % n
    };
    for d in 0..60 {
        for f in 0..50 {
            let kind = ["rs", "py", "ts", "md", "log"][chance(5) as usize];
            let mut text = String::new();
            for line in 0..chance(12) {
                let word = ["needle", "thread", "pin", "Needle", "naïve needle"][chance(5) as usize];
                let end = if chance(4) == 0 { "\r\n" } else { "\n" };
                text.push_str(&format!("fn {word}_{line}() {{}}{end}"));
            }
            put(&format!("group{}/pkg{d}/file {f}.{kind}", d % 6), text.as_bytes());
        }
    }
    put(".git/config", b"needle\n");
    put(".gitignore", b"*.log\n/group1/pkg7/\nbuild*/\n!keep.log\n");
    put("group0/.gitignore", b"file 1*.rs\n!file 11.rs\n/pkg6/*.md\n");
    put("group0/pkg0/.ignore", b"*.ts\n");
    put("group2/.rgignore", b"pkg2/\n");
    put("group3/keep.log", b"needle kept\n");
    put("group3/build/out.rs", b"needle built\n");
    put("group3/pkg3/builder/out.rs", b"needle built\n");
    put(".hidden/a.rs", b"needle hidden\n");
    put("group4/.env", b"needle hidden\n");
    put("group4/binary.rs", b"needle before\n\0\nneedle after\n");
    put("group4/late.rs", &[b"needle early\n".repeat(9000), b"\0needle late\n".to_vec()].concat());
    put("group4/latin.rs", b"needle caf\xe9\n");
    put("group4/utf16.rs", b"\xff\xfen\0e\0e\0d\0l\0e\0\n\0");
    put("group4/bom.rs", b"\xef\xbb\xbfneedle after a mark\n");
    put("group4/[odd] {name}.rs", b"needle\n");
    put("group4/no end.rs", b"needle without an end");
    std::fs::write(root.join("group4").join(OsStr::from_bytes(b"na\xefve.rs")), "needle\n").unwrap();
    symlink("..", root.join("group5/up")).unwrap();
    symlink("b", root.join("group5/a")).unwrap();
    symlink("a", root.join("group5/b")).unwrap();
    symlink("pkg5/file 1.rs", root.join("group5/link.rs")).unwrap();
    symlink("/nowhere", root.join("group5/dangling.rs")).unwrap();
    assert!(Command::new("mkfifo").arg(root.join("group5/pipe.rs")).status().unwrap().success());
    put("group5/locked/a.rs", b"needle locked\n");
    // Nobody but root looks in; both searchers run as the same user.
    std::fs::set_permissions(root.join("group5/locked"), std::fs::Permissions::from_mode(0o000)).unwrap();
}

/// What ripgrep finds: paths, as text, with line numbers.
fn ripgrep_matches(root: &Path, arguments: &[&str]) -> BTreeSet<(String, u64)> {
    let output = Command::new(ripgrep())
        .args(["--no-config", "--json"])
        .args(arguments)
        .current_dir(root)
        .env_remove("RIPGREP_CONFIG_PATH")
        .output()
        .unwrap();
    let text = String::from_utf8(output.stdout).unwrap();
    let records = text.lines().map(|line| serde_json::from_str::<Value>(line).unwrap());
    let matches = records.filter(|record| record["type"] == "match").map(|record| {
        let path = &record["data"]["path"];
        let path = match path["text"].as_str() {
            Some(text) => text.to_owned(),
            None => {
                String::from_utf8_lossy(&BASE64_STANDARD.decode(path["bytes"].as_str().unwrap()).unwrap())
                    .into_owned()
            }
        };
        (path.trim_start_matches("./").to_owned(), record["data"]["line_number"].as_u64().unwrap())
    });
    matches.collect()
}

fn ripgrep_files(root: &Path, pattern: &str) -> BTreeSet<String> {
    let output = Command::new(ripgrep())
        .args(["--no-config", "--files", "--null", "--no-ignore", "--hidden", "--glob", pattern])
        .args(
            [".git", ".svn", ".hg", ".bzr", ".jj", ".sl"]
                .iter()
                .flat_map(|name| [format!("--glob=!**/{name}"), format!("--glob=!**/{name}/**")]),
        )
        .current_dir(root)
        .output()
        .unwrap();
    let names = output.stdout.split(|byte| *byte == 0).filter(|name| !name.is_empty());
    names.map(|name| String::from_utf8_lossy(name).trim_start_matches("./").to_owned()).collect()
}

/// The whole list behind a result: the saved one when there is one.
fn whole(result: &str) -> String {
    match result.split("Full list: ").nth(1) {
        Some(rest) => {
            let end = rest.find(".txt").expect("the list is a text file") + 4;
            std::fs::read_to_string(&rest[..end]).unwrap()
        }
        None => result.to_owned(),
    }
}

/// The matches in the text of a `grep` result.
fn matches_in(text: &str) -> BTreeSet<(String, u64)> {
    let mut path = String::new();
    let mut found = BTreeSet::new();
    for line in text.split('\n').skip(2) {
        match line.strip_prefix("Line ").and_then(|rest| rest.split_once(": ")) {
            Some((number, _)) => {
                found.insert((path.clone(), number.parse().unwrap()));
            }
            None if line.is_empty() || line.starts_with('(') => {}
            None => line.clone_into(&mut path),
        }
    }
    found
}

fn differences<T: Ord + std::fmt::Debug>(ours: &BTreeSet<T>, theirs: &BTreeSet<T>) -> String {
    let some = |set: Vec<&T>| format!("{} {:?}", set.len(), &set[..set.len().min(5)]);
    let only_ours = some(ours.difference(theirs).collect());
    format!("only ours: {only_ours}; only ripgrep's: {}", some(theirs.difference(ours).collect()))
}

#[test]
fn grep_finds_what_ripgrep_finds() {
    let run = scenario().start();
    tree(run.workspace());
    // What the model writes, and the same for ripgrep.
    let cases: [(Value, &[&str]); 9] = [
        (json!({ "pattern": "needle" }), &["needle", "."]),
        (json!({ "pattern": "(?i)^fn needle_\\d+" }), &["(?i)^fn needle_\\d+", "."]),
        (json!({ "pattern": "\\bpin_[0-3]\\(\\) \\{\\}$" }), &["\\bpin_[0-3]\\(\\) \\{\\}$", "."]),
        (json!({ "pattern": "ïve" }), &["ïve", "."]),
        (json!({ "pattern": "needle", "include": "*.{rs,md}" }), &["-g", "*.{rs,md}", "needle", "."]),
        (json!({ "pattern": "needle", "include": "group4/**" }), &["-g", "group4/**", "needle", "."]),
        (json!({ "pattern": "caf" }), &["caf", "."]),
        // A named place is searched whole.
        (json!({ "pattern": "needle", "path": "group3" }), &["-uuu", "--text", "needle", "group3"]),
        (json!({ "pattern": "needle", "path": "group0" }), &["-uuu", "--text", "needle", "group0"]),
    ];
    for (arguments, _) in &cases {
        run.model().push(calls("grep", arguments.clone()));
    }
    run.model().push(says("Done."));
    run.prompt("search");
    let results = run.results_for_model();
    assert_eq!(results.len(), cases.len());
    for ((arguments, theirs), result) in cases.iter().zip(&results) {
        let ours = matches_in(&whole(result));
        let theirs = ripgrep_matches(run.workspace(), theirs);
        assert!(!theirs.is_empty(), "{arguments}");
        assert!(ours == theirs, "{arguments}: {}", differences(&ours, &theirs));
    }
    unlock(&run);
}

#[test]
fn glob_lists_what_ripgrep_lists() {
    let run = scenario().start();
    tree(run.workspace());
    let patterns = [
        "*",
        "*.rs",
        "**/*.log",
        "group0/**",
        "group?/pkg1*/*.ts",
        "*.{md,py}",
        "file [1-3].rs",
        "[!f]*",
        ".*",
        "**/pkg3/**",
        "/group4/*",
        "**",
    ];
    for pattern in patterns {
        run.model().push(calls("glob", json!({ "pattern": pattern })));
    }
    run.model().push(says("Done."));
    run.prompt("list");
    for (pattern, result) in patterns.iter().zip(run.results_for_model()) {
        let text = whole(&result);
        let listed = text.lines().filter(|line| !line.is_empty() && !line.starts_with('('));
        let ours: BTreeSet<String> = listed.map(str::to_owned).collect();
        let theirs = ripgrep_files(run.workspace(), pattern);
        assert!(!theirs.is_empty(), "{pattern}");
        assert!(ours == theirs, "{pattern}: {}", differences(&ours, &theirs));
    }
    unlock(&run);
}

/// So that the tree can be removed.
fn unlock(run: &Stage) {
    std::fs::set_permissions(run.path("group5/locked"), std::fs::Permissions::from_mode(0o755)).unwrap();
}

/// A tool, its arguments, the code it ends with (`ok` or `plain` for none), what the result says.
type Case = (&'static str, Value, &'static str, &'static str);

// G01, G02; the cases of the tools' own pages.
#[test]
fn each_case_of_a_search_has_its_outcome() {
    let minified = format!("{}middle{}", "x".repeat(50_000), "y".repeat(50_000));
    let cases: Vec<Case> = vec![
        ("glob", json!({ "pattern": "*.nomatch" }), "ok", "No files found"),
        ("glob", json!({ "pattern": "[" }), "SEARCH_INVALID_PATTERN", ""),
        ("glob", json!({ "pattern": "*", "path": ".git" }), "ok", "No files found"),
        ("glob", json!({ "pattern": " " }), "plain", "blank"),
        ("glob", json!({ "pattern": "*", "path": "missing" }), "SEARCH_FAILED", "does not exist"),
        ("glob", json!({ "pattern": "-dash*" }), "ok", "-dash it's \"q\".txt"),
        ("glob", json!({ "pattern": "*.txt", "path": "src" }), "ok", "src/a.txt"),
        ("grep", json!({ "pattern": "needle" }), "ok", "Found 3 matches\n\n"),
        ("grep", json!({ "pattern": "needle" }), "ok", "Ignored, hidden and binary files were left out"),
        (
            "grep",
            json!({ "pattern": "needle", "path": "src/b.txt" }),
            "ok",
            "Found 1 match\n\nsrc/b.txt\nLine 2: needle",
        ),
        ("grep", json!({ "pattern": "needle", "path": "ignored.txt" }), "ok", "Found 1 match"),
        ("grep", json!({ "pattern": "needle", "include": "*.{txt,js}" }), "ok", "Found 4 matches"),
        ("grep", json!({ "pattern": "needle", "include": "*.ts,*.js" }), "plain", "braces"),
        ("grep", json!({ "pattern": "needle", "include": "!x" }), "plain", "negated"),
        ("grep", json!({ "pattern": "needle", "include": " " }), "plain", "blank"),
        ("grep", json!({ "pattern": "needle", "path": "missing" }), "SEARCH_FAILED", "does not exist"),
        ("grep", json!({ "pattern": "(" }), "SEARCH_INVALID_PATTERN", ""),
        ("grep", json!({ "pattern": "" }), "plain", "empty"),
        ("grep", json!({ "pattern": "$(rm -rf x)" }), "ok", "No matches found"),
        ("grep", json!({ "pattern": "middle" }), "ok", "line truncated"),
        ("grep", json!({ "pattern": "middle" }), "ok", "xmiddley"),
    ];
    let mut arranged = scenario()
        .file("src/a.txt", "needle one\nneedle two\n")
        .file("src/b.txt", "first\r\nneedle\r\n")
        .file("src/-dash it's \"q\".txt", "")
        .file(".ignore", "ignored.txt\n")
        .file("ignored.txt", "needle\n")
        .file("min.js", &minified)
        .file(".git/needle.txt", "needle\n");
    for (tool, arguments, ..) in &cases {
        arranged = arranged.model(calls(tool, arguments.clone()));
    }
    let run = arranged.model(says("Done.")).prompt("search");
    let updates = run.updates("tool_call_update");
    let ends =
        updates.iter().filter(|update| update["status"] == "completed" || update["status"] == "failed");
    let results = run.results_for_model();
    assert_eq!(results.len(), cases.len());
    for (((tool, arguments, code, fact), result), end) in cases.iter().zip(&results).zip(ends) {
        let found = if end["status"] == "completed" {
            "ok"
        } else {
            end["rawOutput"]["error"]["code"].as_str().unwrap_or("plain")
        };
        assert_eq!(found, *code, "{tool} {arguments}: {result}");
        assert!(result.contains(fact), "{tool} {arguments}: {result}");
        assert!(result.len() < 10_000, "{tool} {arguments}: {} bytes", result.len());
    }
}

// A long list is cut, saved whole and says so; the card has links, and no single place to follow.
#[test]
fn a_long_list_is_cut_and_saved_whole() {
    let mut arranged = scenario();
    for n in 0..300 {
        arranged = arranged.file(&format!("src/f{n:03}.txt"), "needle\n");
    }
    let run = arranged
        .model(calls("grep", json!({ "pattern": "needle" })))
        .model(calls("glob", json!({ "pattern": "*.txt" })))
        .model(says("Done."))
        .prompt("search");
    let results = run.results_for_model();
    assert!(results[0].starts_with("Found 250 of 300 matches\n\n"), "{}", results[0]);
    assert_eq!(matches_in(&whole(&results[0])).len(), 300);
    assert!(results[1].contains("100 of 300 files"), "{}", results[1]);
    assert_eq!(whole(&results[1]).lines().count(), 300);
    for end in run.updates("tool_call_update").iter().filter(|update| update["status"] == "completed") {
        let text = end["content"][0]["content"]["text"].as_str().unwrap();
        assert!(text.contains("](file://") && text.contains("shown"), "{text}");
        assert_eq!(end["locations"].as_array().map_or(0, Vec::len), 0);
    }
}
