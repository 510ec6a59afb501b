//! An edit through the editor changes its span and not a byte more: random files, one session, one turn.

use crate::kit::*;
use proptest::prelude::*;
use proptest::strategy::ValueTree as _;
use proptest::test_runner::TestRunner;
use serde_json::json;

/// Files of one turn.
const N_CASES: usize = 40;
/// In no other piece, so that the span is the only match.
const SPAN: &str = "«span»";
const PIECES: [&str; 10] =
    ["a", "fn x()", " ", "\t", "\u{a0}", "漢字", "👩\u{200d}👩\u{200d}👧", "e\u{301}", "é", "\u{fffd}"];

/// What stands before the span, what replaces it, what stands after.
#[derive(Debug)]
struct Case {
    before: String,
    new: String,
    after: String,
}

fn text(max_lines: usize) -> impl Strategy<Value = String> {
    let line = prop::collection::vec(prop::sample::select(PIECES.to_vec()), 0..6);
    let end = prop::sample::select(vec!["\n", "\r\n", ""]);
    prop::collection::vec((line, end), 0..max_lines)
        .prop_map(|lines| lines.into_iter().map(|(pieces, end)| pieces.concat() + end).collect::<String>())
}

fn case() -> impl Strategy<Value = Case> {
    (prop::sample::select(vec!["", "\u{feff}"]), text(12), text(4), text(12))
        .prop_map(|(mark, head, new, after)| Case { before: format!("{mark}{head}"), new: new + "!", after })
}

fn plain(text: &str) -> String {
    text.replace("\r\n", "\n")
}

/// Reads and edits every file in one turn, then compares the files.
fn check(arranged: Scenario, cases: &[Case]) {
    let mut arranged = arranged;
    for (n, Case { before, new, after }) in cases.iter().enumerate() {
        let path = format!("{n}.txt");
        arranged = arranged.file(&path, format!("{before}{SPAN}{after}")).model(
            calls("read", json!({ "file_path": path, "limit": 1 }))
                .calls("edit", json!({ "file_path": path, "old_string": SPAN, "new_string": new })),
        );
    }
    let run = arranged.model(says("Done.")).prompt("edit all");
    for (n, case) in cases.iter().enumerate() {
        let bytes = std::fs::read(run.path(&format!("{n}.txt"))).unwrap();
        let text = String::from_utf8(bytes).unwrap();
        let middle = text.strip_prefix(&case.before).and_then(|rest| rest.strip_suffix(case.after.as_str()));
        let middle = middle.unwrap_or_else(|| panic!("{n}: {case:?} became {text:?}"));
        assert_eq!(plain(middle), plain(&case.new), "{n}: {case:?}");
    }
}

// F01, F02, F04, F17: whatever the file is made of.
#[test]
fn random_files_keep_every_byte_outside_of_the_span() {
    let mut runner = TestRunner::default();
    let cases: Vec<Case> = (0..N_CASES).map(|_| case().new_tree(&mut runner).unwrap().current()).collect();
    check(scenario(), &cases);
    check(scenario().client(ClientKind::bare()), &cases);
}

#[test]
fn a_file_of_ten_megabytes_keeps_every_byte_outside_of_the_span() {
    let block = PIECES.concat() + "\r\n" + &PIECES.concat() + "\n";
    let half = block.repeat(5_000_000 / block.len());
    let case =
        Case { before: format!("\u{feff}{half}"), new: "one\ntwo".into(), after: half.trim_end().into() };
    check(scenario(), &[case]);
}
