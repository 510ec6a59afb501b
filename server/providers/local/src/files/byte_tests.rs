//! An edit changes its span and not a byte more, whatever the file is made of.

use super::*;
use proptest::prelude::*;
use protocol::mode::SandboxMode;
use services::shell::SandboxPolicy;

/// What lines are made of: scripts, joined emoji, combining marks, blanks that only look like one, tabs, lone CRs.
const PIECES: [&str; 14] = [
    "a",
    "fn x()",
    " ",
    "\t",
    "\u{a0}",
    "漢字",
    "かな",
    "🎭",
    "👩\u{200d}👩\u{200d}👧",
    "e\u{301}",
    "é",
    "\r",
    "\u{2028}",
    "\u{fffd}",
];
/// In no piece, so that the span is the only match.
const TARGET: &str = "«span»";

/// A file around a span, and what is put in its place.
#[derive(Debug)]
struct Case {
    before: String,
    /// The span as it stands in the file, and as the model names it.
    span: String,
    old: String,
    new: String,
    after: String,
}

fn text(max_lines: usize) -> impl Strategy<Value = String> {
    let line = prop::collection::vec(prop::sample::select(PIECES.to_vec()), 0..6);
    let end = prop::sample::select(vec!["\n", "\n", "\r\n", "\r\n", ""]);
    prop::collection::vec((line, end), 0..max_lines)
        .prop_map(|lines| lines.into_iter().map(|(pieces, end)| pieces.concat() + end).collect::<String>())
}

prop_compose! {
    fn case()(
        mark in prop::sample::select(vec!["", "\u{feff}"]),
        head in text(12),
        inner in prop::sample::select(vec!["", "\n", "\r\n", "漢\r\n字\n"]),
        names_crlf: bool,
        new in text(4),
        tail in text(12),
    ) -> Case {
        let span = format!("{TARGET}{inner}{TARGET}");
        let old = if names_crlf { span.clone() } else { span.replace("\r\n", "\n") };
        Case { before: format!("{mark}{head}"), span, old, new, after: tail }
    }
}

/// Without carriage returns: the line ends of a new text take the form of their place.
fn plain(text: &str) -> String {
    text.replace('\r', "")
}

async fn check(case: &Case) {
    let folder = tempfile::tempdir().unwrap();
    let root = std::fs::canonicalize(folder.path()).unwrap();
    let path = root.join("file.txt");
    std::fs::write(&path, [&case.before, &case.span, &case.after].map(String::as_bytes).concat()).unwrap();
    let files = LocalFileSystem::new(root);
    let target = files.resolve("file.txt").await.unwrap();
    let request = EditRequest {
        target,
        old_string: case.old.clone(),
        new_string: case.new.clone(),
        replace_all: false,
        expected: None,
        sandbox: SandboxPolicy { mode: SandboxMode::DangerFullAccess, writable_roots: vec![], network: true },
    };
    let written = files.edit(request, &CancellationToken::new()).await.unwrap();
    let bytes = std::fs::read(&path).unwrap();
    let rest = bytes.strip_prefix(case.before.as_bytes()).expect("what stands before is the same");
    let middle = rest.strip_suffix(case.after.as_bytes()).expect("what stands after is the same");
    assert_eq!(plain(std::str::from_utf8(middle).unwrap()), plain(&case.new));
    // A text is told without the mark; the file has it.
    let told = written.after.strip_prefix('\u{feff}').unwrap_or(&written.after);
    let stored = String::from_utf8(bytes).unwrap();
    assert_eq!(told, stored.strip_prefix('\u{feff}').unwrap_or(&stored));
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 200, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn an_edit_changes_its_span_and_not_a_byte_more(case in case()) {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        runtime.block_on(check(&case));
    }
}

#[tokio::test]
async fn ten_megabytes_stay_but_for_the_span() {
    let block: String = PIECES.concat() + "\r\n" + &PIECES.concat() + "\n";
    let half = block.repeat(5_000_000 / block.len());
    let span = format!("{TARGET}\r\n{TARGET}");
    let case = Case {
        before: format!("\u{feff}{half}"),
        old: span.replace("\r\n", "\n"),
        span,
        new: "one\ntwo 漢字".to_owned(),
        after: half.trim_end().to_owned(),
    };
    check(&case).await;
}
