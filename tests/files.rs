//! Files: what is read, what is stored, byte for byte, through the editor and on the disk.

use crate::kit::*;
use provider_llm::scripted::Reply;
use serde_json::json;
use std::os::unix::fs::PermissionsExt;
use std::time::{Duration, SystemTime};

fn read(path: &str) -> Reply {
    calls("read", json!({ "file_path": path }))
}

fn write(path: &str, content: &str) -> Reply {
    calls("write", json!({ "file_path": path, "content": content }))
}

fn edit(path: &str, old: &str, new: &str) -> Reply {
    calls("edit", json!({ "file_path": path, "old_string": old, "new_string": new }))
}

/// Whether the `n`th call, from 0, failed.
fn failed(run: &Stage, n: usize) -> bool {
    let ends = run.updates("tool_call_update");
    let mut ends =
        ends.iter().filter(|update| update["status"] == "completed" || update["status"] == "failed");
    ends.nth(n).expect("the call has ended")["status"] == "failed"
}

fn in_editor(habits: Habits) -> Scenario {
    scenario().habits(habits)
}

/// Each way to files: an ideal editor, one that keeps LF only, the disk.
fn ways() -> [(&'static str, Scenario); 3] {
    [
        ("editor", scenario()),
        ("editor with LF", in_editor(Habits { strips_carriage_returns: true, ..Habits::default() })),
        ("disk", scenario().client(ClientKind::bare())),
    ]
}

// F13, V01: read and edit go through the editor, the card has path, old and new text.
#[test]
fn an_edit_goes_through_the_editor() {
    let run = scenario()
        .file("src/lib.rs", "fn a() {}\nfn c() {}\n")
        .model(read("src/lib.rs"))
        .model(edit("src/lib.rs", "fn a", "fn b"))
        .model(says("Done."))
        .prompt("rename");
    insta::assert_snapshot!(run.picture(Detail { requests: true, ..Detail::default() }), @r#"
    > rename
    < call 1 read pending  Read src/lib.rs  at src/lib.rs:1
    < call 1 in_progress
    ~ fs/read_text_file  src/lib.rs
    < call 1 completed  "```rs⏎fn a() {}⏎fn c() {}⏎```"
    < call 2 edit pending  Edit src/lib.rs  at src/lib.rs  diff src/lib.rs -fn a +fn b
    < call 2 in_progress
    ~ fs/read_text_file  src/lib.rs
    ~ fs/write_text_file  src/lib.rs
    ~ fs/read_text_file  src/lib.rs
    < call 2 completed  Edit src/lib.rs  at src/lib.rs:1  diff src/lib.rs -fn a() {} +fn b() {}
    < Done.
    = end_turn
    "#);
    let end = run.updates("tool_call_update").pop().unwrap();
    let diff = &end["content"][0];
    assert_eq!(diff["path"], json!(run.path("src/lib.rs")));
    assert_eq!(diff["oldText"], "fn a() {}\nfn c() {}\n");
    assert_eq!(diff["newText"], "fn b() {}\nfn c() {}\n");
    run.assert_file("src/lib.rs", "fn b() {}\nfn c() {}\n");
}

#[test]
fn without_an_editor_the_same_turn_works_on_the_disk() {
    let run = scenario()
        .client(ClientKind::bare())
        .file("src/lib.rs", "fn a() {}\nfn c() {}\n")
        .model(read("src/lib.rs"))
        .model(edit("src/lib.rs", "fn a", "fn b"))
        .model(says("Done."))
        .prompt("rename");
    insta::assert_snapshot!(run.picture(Detail { requests: true, ..Detail::default() }), @r#"
    > rename
    < call 1 read pending  Read src/lib.rs  at src/lib.rs:1
    < call 1 in_progress
    < call 1 completed  "```rs⏎fn a() {}⏎fn c() {}⏎```"
    < call 2 edit pending  Edit src/lib.rs  at src/lib.rs  diff src/lib.rs -fn a +fn b
    < call 2 in_progress
    < call 2 completed  Edit src/lib.rs  at src/lib.rs:1  diff src/lib.rs -fn a() {} +fn b() {}
    < Done.
    = end_turn
    "#);
    assert!(run.requests_of_agent().is_empty());
    run.assert_file("src/lib.rs", "fn b() {}\nfn c() {}\n");
}

// F12: one direction is not enough.
#[test]
fn a_client_that_offers_one_direction_is_not_asked() {
    for (reads, writes) in [(true, false), (false, true)] {
        let run = scenario()
            .client(ClientKind { reads, writes, ..ClientKind::full() })
            .file("a.txt", "one\n")
            .model(read("a.txt"))
            .model(edit("a.txt", "one", "two"))
            .model(says("Done."))
            .prompt("go");
        assert!(run.requests_of_agent().is_empty());
        run.assert_file("a.txt", "two\n");
    }
}

// V01, V02: a new file has no old text; the diff survives the end of the call.
#[test]
fn a_new_file_is_shown_as_new() {
    for (way, scenario) in ways() {
        let run = scenario.model(write("deep/new.txt", "hello\n")).model(says("Done.")).prompt("go");
        let end = run.updates("tool_call_update").pop().unwrap();
        let shown =
            end["content"].as_array().or(run.updates("tool_call")[0]["content"].as_array()).unwrap().clone();
        assert_eq!(shown[0]["type"], "diff", "{way}");
        assert_eq!(shown[0]["oldText"], json!(null), "{way}");
        assert_eq!(shown[0]["newText"], "hello\n", "{way}");
        run.assert_file("deep/new.txt", "hello\n");
    }
}

// F15: editors that answer "" for a missing file.
#[test]
fn a_missing_file_is_missing_whatever_the_editor_says() {
    for missing_is_empty in [false, true] {
        let run = in_editor(Habits { missing_is_empty, ..Habits::default() })
            .model(read("gone.txt"))
            .model(write("gone.txt", "now here\n"))
            .model(says("Done."))
            .prompt("go");
        assert!(failed(&run, 0));
        assert!(run.results_for_model()[0].contains("gone.txt"), "{:?}", run.results_for_model());
        assert!(!failed(&run, 1));
        run.assert_file("gone.txt", "now here\n");
    }
}

// F10, F13: the text in the buffer is what counts, and it is never lost.
#[test]
fn unsaved_text_is_what_the_model_reads_and_edits() {
    let run = scenario()
        .file("a.txt", "old\n")
        .unsaved("a.txt", "typed by the user\nand more\n")
        .model(read("a.txt"))
        .model(edit("a.txt", "and more", "and less"))
        .model(says("Done."))
        .prompt("go");
    assert!(run.results_for_model()[0].contains("typed by the user"), "{:?}", run.results_for_model());
    run.assert_file("a.txt", "typed by the user\nand less\n");
}

// F11: what was stored can differ from what was sent.
#[test]
fn a_format_on_save_is_told_and_the_next_edit_fits() {
    let run = in_editor(Habits { format_on_save: Some(|text| text.replace("  ", " ")), ..Habits::default() })
        .file("a.txt", "let x = 1;\n")
        .model(read("a.txt"))
        .model(edit("a.txt", "let x = 1;", "let  x  =  2;"))
        .model(edit("a.txt", "let x = 2;", "let x = 3;"))
        .model(says("Done."))
        .prompt("go");
    let results = run.results_for_model();
    assert!(results[1].contains("Note"), "{results:?}");
    assert!(!failed(&run, 2), "{results:?}");
    run.assert_file("a.txt", "let x = 3;\n");
    let ends = run.updates("tool_call_update");
    let shown = ends.iter().filter(|update| update["status"] == "completed").nth(1).unwrap();
    assert_eq!(shown["content"][0]["newText"], "let x = 2;\n");
}

#[test]
fn both_forms_of_an_answer_are_accepted() {
    for null_answers in [false, true] {
        let run = in_editor(Habits { null_answers, ..Habits::default() })
            .model(write("a.txt", "x\n"))
            .model(says("Done."))
            .prompt("go");
        assert!(!failed(&run, 0));
        run.assert_file("a.txt", "x\n");
    }
}

// What the user's client refuses to write is not written behind its back.
#[test]
fn a_write_that_is_refused_is_not_made_on_the_disk() {
    let habits =
        Habits { faults: [("fs/write_text_file", Fault::Fails(-32603))].into(), ..Habits::default() };
    let run = in_editor(habits)
        .file("a.txt", "one\n")
        .model(read("a.txt"))
        .model(edit("a.txt", "one", "two"))
        .model(says("Done."))
        .prompt("go");
    assert!(failed(&run, 1), "{:?}", run.results_for_model());
    run.assert_file("a.txt", "one\n");
}

// F14: a path the editor does not own is the disk's, and that is said.
#[test]
fn an_editor_that_refuses_a_path_does_not_stop_the_work() {
    for (method, code) in [("fs/read_text_file", -32603), ("fs/write_text_file", -32002)] {
        let run = in_editor(Habits { faults: [(method, Fault::Fails(code))].into(), ..Habits::default() })
            .file("a.txt", "one\n")
            .model(read("a.txt"))
            .model(edit("a.txt", "one", "two"))
            .model(says("Done."))
            .prompt("go");
        assert!(!failed(&run, 0) && !failed(&run, 1), "{method}: {:?}", run.results_for_model());
        run.assert_file("a.txt", "two\n");
    }
}

/// A file before, what is replaced by what, the file after.
struct Case {
    what: &'static str,
    before: &'static [u8],
    old: &'static str,
    new: &'static str,
    after: &'static [u8],
}

// F01, F02, F04, F05, F06, F17: only the replaced span changes.
#[test]
fn an_edit_changes_nothing_but_its_span() {
    let cases = [
        Case {
            what: "CRLF stays, text with LF matches",
            before: b"one\r\ntwo\r\nthree\r\n",
            old: "one\ntwo",
            new: "1\n2\n2b",
            after: b"1\r\n2\r\n2b\r\nthree\r\n",
        },
        Case {
            what: "a byte-order mark stays",
            before: b"\xef\xbb\xbfone\ntwo\n",
            old: "one",
            new: "1",
            after: b"\xef\xbb\xbf1\ntwo\n",
        },
        Case {
            what: "no last newline stays none",
            before: b"one\ntwo",
            old: "two",
            new: "2",
            after: b"one\n2",
        },
        Case {
            what: "dollars, backslashes and quotes are text",
            before: b"x = value\n",
            old: "value",
            new: "$& $1 \\n \\\\ \"it's\" \u{201c}q\u{201d}",
            after: "x = $& $1 \\n \\\\ \"it's\" \u{201c}q\u{201d}\n".as_bytes(),
        },
        Case {
            what: "tabs stay tabs",
            before: b"\tif x {\n\t\ty();\n\t}\n",
            old: "\t\ty();",
            new: "\t\tz();",
            after: b"\tif x {\n\t\tz();\n\t}\n",
        },
        Case {
            what: "other characters stay",
            before: "naïve — 漢字 🎭\nline\n".as_bytes(),
            old: "line",
            new: "ligne",
            after: "naïve — 漢字 🎭\nligne\n".as_bytes(),
        },
    ];
    for case in cases {
        for (way, scenario) in ways() {
            let run = scenario
                .file("a.txt", case.before)
                .model(read("a.txt"))
                .model(edit("a.txt", case.old, case.new))
                .model(says("Done."))
                .prompt("go");
            assert!(!failed(&run, 1), "{way}: {}: {:?}", case.what, run.results_for_model());
            let after = std::fs::read(run.path("a.txt")).unwrap();
            let expected = match (way, case.what) {
                // This editor itself saves LF.
                ("editor with LF", "CRLF stays, text with LF matches") => continue,
                _ => case.after,
            };
            assert_eq!(
                String::from_utf8_lossy(&after),
                String::from_utf8_lossy(expected),
                "{way}: {}",
                case.what
            );
        }
    }
}

// F02: mixed line ends, only on the disk, where nobody else touches them.
#[test]
fn mixed_line_ends_stay_mixed() {
    let run = scenario()
        .client(ClientKind::bare())
        .file("a.txt", "one\r\ntwo\nthree\r\n")
        .model(read("a.txt"))
        .model(edit("a.txt", "two", "2"))
        .model(says("Done."))
        .prompt("go");
    run.assert_file("a.txt", "one\r\n2\nthree\r\n");
}

// F03, F05, F07: what does not fit exactly is refused with a reason, and the file stays.
#[test]
fn an_edit_that_does_not_fit_changes_nothing_and_says_why() {
    let text = "let a = 1;\nlet\u{a0}b = 2;\nlet a = 1;\n";
    let cases = [
        ("", "x", "empty"),
        ("let c = 3;", "x", "not found"),
        ("let b = 2;", "x", "U+00A0"),
        ("let a = 1;", "x", "2"),
        ("let a = 1;", "let a = 1;", ""),
    ];
    for (old, new, reason) in cases {
        for (way, scenario) in ways() {
            let run = scenario
                .file("a.txt", text)
                .model(read("a.txt"))
                .model(edit("a.txt", old, new))
                .model(says("No."))
                .prompt("go");
            assert!(failed(&run, 1), "{way}: {old:?}");
            let results = run.results_for_model();
            assert!(results[1].contains(reason), "{way}: {old:?}: {results:?}");
            run.assert_file("a.txt", text);
        }
    }
}

// F04: text that was decoded with losses is never written back.
#[test]
fn a_file_that_is_no_utf8_is_never_rewritten() {
    let bytes = b"caf\xe9 au lait\nline\n";
    for (way, scenario) in ways() {
        let run = scenario
            .file("a.txt", bytes)
            .model(read("a.txt"))
            .model(edit("a.txt", "line", "ligne"))
            .model(says("No."))
            .prompt("go");
        assert!(failed(&run, 1), "{way}: {:?}", run.results_for_model());
        assert_eq!(std::fs::read(run.path("a.txt")).unwrap(), bytes, "{way}");
    }
}

// F08: a touched file is not a changed one; own edits count as known.
#[test]
fn a_touched_file_is_not_stale_and_neither_is_an_own_edit() {
    for (way, scenario) in ways() {
        let gate = Gate::new();
        let run = scenario
            .file("a.txt", "one\n")
            .model(read("a.txt"))
            .model(
                says("Now.")
                    .hold(&gate)
                    .calls("edit", json!({ "file_path": "a.txt", "old_string": "one", "new_string": "two" })),
            )
            .model(edit("a.txt", "two", "three"))
            .model(write("a.txt", "four\n"))
            .model(says("Done."))
            .start();
        let pending = run.send("go");
        assert!(gate.wait_until_reached(DEADLINE));
        let file = std::fs::File::options().write(true).open(run.path("a.txt")).unwrap();
        file.set_modified(SystemTime::now() + Duration::from_secs(60)).unwrap();
        gate.release();
        assert_eq!(run.end(pending), "end_turn");
        assert_eq!([1, 2, 3].map(|n| failed(&run, n)), [false; 3], "{way}: {:?}", run.results_for_model());
        run.assert_file("a.txt", "four\n");
    }
}

// F09: the user changes the file while the model thinks.
#[test]
fn a_change_by_the_user_is_found_before_writing() {
    for (way, scenario) in ways() {
        let gate = Gate::new();
        let run = scenario
            .file("a.txt", "one\ntwo\n")
            .model(read("a.txt"))
            .model(
                says("Now.")
                    .hold(&gate)
                    .calls("edit", json!({ "file_path": "a.txt", "old_string": "one", "new_string": "1" })),
            )
            .model(read("a.txt"))
            .model(edit("a.txt", "one", "1"))
            .model(says("Done."))
            .start();
        let pending = run.send("go");
        assert!(gate.wait_until_reached(DEADLINE));
        run.write("a.txt", "one\ntwo by the user\n");
        gate.release();
        assert_eq!(run.end(pending), "end_turn");
        assert!(failed(&run, 1), "{way}: {:?}", run.results_for_model());
        assert!(!failed(&run, 3), "{way}: {:?}", run.results_for_model());
        run.assert_file("a.txt", "1\ntwo by the user\n");
    }
}

// F09: the user types into the buffer while the model thinks.
#[test]
fn a_change_in_the_buffer_is_found_before_writing() {
    let gate = Gate::new();
    let run = scenario()
        .file("a.txt", "one\ntwo\n")
        .model(read("a.txt"))
        .model(
            says("Now.").hold(&gate).calls("write", json!({ "file_path": "a.txt", "content": "all new\n" })),
        )
        .model(says("Oh."))
        .start();
    let pending = run.send("go");
    assert!(gate.wait_until_reached(DEADLINE));
    run.desk().buffers.type_into(run.path("a.txt"), "one\ntwo, typed\n");
    gate.release();
    assert_eq!(run.end(pending), "end_turn");
    assert!(failed(&run, 1), "{:?}", run.results_for_model());
    run.assert_file("a.txt", "one\ntwo\n");
}

// F21: nothing is replaced unread; the result says created or replaced.
#[test]
fn a_file_that_was_never_read_is_not_replaced() {
    for (way, scenario) in ways() {
        let run = scenario
            .file("a.txt", "precious\n")
            .model(write("a.txt", "gone\n"))
            .model(edit("a.txt", "precious", "gone"))
            .model(says("Oh."))
            .prompt("go");
        assert!(failed(&run, 0) && failed(&run, 1), "{way}");
        run.assert_file("a.txt", "precious\n");
    }
}

// F18: mode bits and links stay.
#[test]
fn replacing_a_file_keeps_its_mode_and_its_link() {
    for (way, scenario) in ways() {
        let run = scenario.file("real.sh", "echo one\n").start();
        std::fs::set_permissions(run.path("real.sh"), std::fs::Permissions::from_mode(0o750)).unwrap();
        std::os::unix::fs::symlink("real.sh", run.path("link.sh")).unwrap();
        for reply in [read("link.sh"), edit("link.sh", "one", "two"), says("Done.")] {
            run.model().push(reply);
        }
        assert_eq!(run.prompt("go"), "end_turn");
        run.assert_file("real.sh", "echo two\n");
        assert!(std::fs::symlink_metadata(run.path("link.sh")).unwrap().is_symlink(), "{way}");
        let mode = std::fs::metadata(run.path("real.sh")).unwrap().permissions().mode() & 0o777;
        assert_eq!(mode, 0o750, "{way}");
    }
}

// F19: a pipe, a device and a giant file neither hang nor kill.
#[test]
fn what_is_no_ordinary_file_is_refused_at_once() {
    for (way, scenario) in ways() {
        let run = scenario.start();
        let made = std::process::Command::new("mkfifo").arg(run.path("pipe")).status().unwrap();
        assert!(made.success());
        let giant = std::fs::File::create(run.path("giant.txt")).unwrap();
        giant.set_len(3 << 30).unwrap();
        for reply in [read("pipe"), read("/dev/zero"), read("giant.txt"), read("."), says("Done.")] {
            run.model().push(reply);
        }
        assert_eq!(run.prompt("go"), "end_turn");
        assert_eq!([0, 1, 3].map(|n| failed(&run, n)), [true; 3], "{way}");
        assert!(run.results_for_model().iter().all(|result| result.len() < 300_000), "{way}");
        assert!(run.process().peak_memory() < 200 << 20, "{way}: {}", run.process().peak_memory());
    }
}

// F20: a name in another Unicode form is found when it is the only one, and that is said.
#[test]
fn a_name_in_another_unicode_form_is_found() {
    let run = scenario()
        .file("cafe\u{301}.txt", "inside\n")
        .model(read("caf\u{e9}.txt"))
        .model(says("Done."))
        .prompt("go");
    assert!(!failed(&run, 0), "{:?}", run.results_for_model());
    assert!(run.results_for_model()[0].contains("inside"));
}

// F16: the window is cut here, with the right line numbers, whatever the editor sends.
#[test]
fn a_window_has_the_line_numbers_of_the_file() {
    let text: String = (1..=50).map(|n| format!("line {n}\n")).collect();
    for (way, scenario) in ways() {
        let run = scenario
            .file("a.txt", &text)
            .model(calls("read", json!({ "file_path": "a.txt", "offset": 20, "limit": 3 })))
            .model(says("Done."))
            .prompt("go");
        let result = run.results_for_model()[0].clone();
        assert!(
            ["line 20", "line 21", "line 22"].iter().all(|line| result.contains(line)),
            "{way}: {result}"
        );
        assert!(!result.contains("line 19\n") && !result.contains("line 23\n"), "{way}: {result}");
        let call = &run.updates("tool_call")[0];
        assert_eq!(call["locations"][0]["line"], 20, "{way}");
    }
}

// G02 is the tools' own; here: what was found is linked and only a single place is followed.
#[test]
fn what_a_search_finds_is_shown() {
    let run = scenario()
        .file("src/a.rs", "fn needle() {}\n")
        .file("src/b.rs", "// needle\n")
        .model(calls("grep", json!({ "pattern": "needle" })))
        .model(calls("glob", json!({ "pattern": "src/b*" })))
        .model(says("Done."))
        .prompt("find");
    insta::assert_snapshot!(run.transcript(), @r#"
    > find
    < call 1 search pending  Grep needle
    < call 1 in_progress
    < call 1 completed  "2 matches in 2 files⏎⏎- [src/a.rs:1](file://$CWD/src/a.rs#L1) `fn needle() {}`⏎- [src/b.rs:1](file://$CWD/src/b.rs#L1) `// needle`"
    < call 2 search pending  Glob src/b*
    < call 2 in_progress
    < call 2 completed  at src/b.rs  "1 file⏎⏎- [src/b.rs](file://$CWD/src/b.rs)"
    < Done.
    = end_turn
    "#);
}

#[test]
fn an_agents_file_of_the_workspace_is_followed() {
    let run = scenario().file("AGENTS.md", "Always answer in verse.\n").model(says("Roses.")).prompt("go");
    let request = run.model().requests()[0].to_string();
    assert!(request.contains("Always answer in verse."), "{request}");
}
