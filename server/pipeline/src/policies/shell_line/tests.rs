//! What is split, and what is refused.

use super::subjects;

#[test]
fn every_simple_command_of_a_line_is_found() {
    let cases: &[(&str, &[&str])] = &[
        ("cargo test", &["cargo test"]),
        ("cargo +nightly test --all -- x", &["cargo test"]),
        ("git --no-pager log -3", &["git log"]),
        ("ls -la src", &["ls"]),
        ("git status && git diff; cargo test || true", &["git status", "git diff", "cargo test", "true"]),
        ("cat a | grep x |& wc -l & sleep 1", &["cat", "grep", "wc", "sleep"]),
        ("git status\ncargo build\n", &["git status", "cargo build"]),
        ("git sta\\\ntus", &["git status"]),
        ("(cd /x && rm a); { ls; }", &["cd /x", "rm", "ls"]),
        ("echo \"$(git log -1)\" `date`", &["git log", "date", "echo"]),
        ("echo $(echo $(curl x))", &["curl", "echo"]),
        ("echo `echo \\`date\\``", &["date", "echo"]),
        ("diff <(sort a) <(sort b)", &["sort", "diff"]),
        ("sh -c 'git push; rm x'", &["git push", "rm"]),
        ("bash -lc \"cargo test\"", &["cargo test"]),
        ("bash -c \"sh -c 'rm x'\"", &["rm"]),
        ("bash run.sh --fast", &["bash run.sh"]),
        ("env A=1 cargo test", &["A=1 cargo test"]),
        ("RUST_LOG=debug cargo test", &["RUST_LOG=debug cargo test"]),
        ("sudo apt install x", &["sudo apt install"]),
        ("sudo sh -c 'a; b'", &["sudo a", "sudo b"]),
        ("ls | xargs -n 1 -I{} rm {}", &["ls", "xargs rm"]),
        ("time cargo build", &["cargo build"]),
        ("timeout -k 5 30 cargo test", &["cargo test"]),
        ("nice -n 5 make all", &["make all"]),
        ("make -j4 test", &["make -j4 test"]),
        ("npm run build -- --watch", &["npm run build"]),
        ("npm install", &["npm install"]),
        ("npx eslint .", &["npx eslint"]),
        ("python -m pytest -q", &["python -m pytest"]),
        ("python3 tools/x.py --flag", &["python3 tools/x.py"]),
        ("./run.sh && /usr/bin/git status", &["./run.sh", "/usr/bin/git"]),
        ("cargo test 2>&1 | tail -5", &["cargo test", "tail"]),
        ("grep x f >/dev/null 2>/dev/null </dev/null", &["grep"]),
        ("cat <<<\"$HOME\"", &["cat"]),
        ("for f in *.rs; do wc -l $f; done", &["wc"]),
        ("if git diff --quiet; then echo same; else echo other; fi", &["git diff", "echo"]),
        ("! grep -q x y", &["grep"]),
        ("# nothing\nls # and more; rm x", &["ls"]),
        ("echo 'a; rm b' \"c && d\" e\\;f", &["echo"]),
        ("echo $((1 + 2)) $? $HOME ${USER}", &["echo"]),
        ("find . -name '*.rs' -type f", &["find"]),
        ("ps | awk '{print $1}' | sed -n 1,20p", &["ps", "awk", "sed"]),
        ("'git' \"status\"", &["git status"]),
        ("g\\it status", &["git status"]),
    ];
    for (line, expected) in cases {
        let expected: Vec<String> = expected.iter().map(|subject| (*subject).to_owned()).collect();
        assert_eq!(subjects(line), Ok(expected), "{line}");
    }
}

#[test]
fn what_is_not_surely_understood_is_refused() {
    let lines = [
        "",
        "   # only a comment",
        "echo 'open",
        "echo \"open",
        "echo $(open",
        "echo `open",
        "(ls",
        "ls)",
        "cat <<EOF\nrm x\nEOF",
        "eval 'rm x'",
        "source x",
        ". ./x",
        "exec rm x",
        "trap 'rm x' EXIT",
        "alias git=rm; git status",
        "git() { rm x; }; git status",
        "function git { rm x; }",
        "$CMD x",
        "${CMD} x",
        "$(echo rm) x",
        "`echo rm` x",
        "\"$CMD\" x",
        "g?t status",
        "{git,rm} x",
        "~/x",
        "git $SUB",
        "git {push,x}",
        "git",
        "git -c alias.status='!rm x' status",
        "git -C /x status",
        "PATH=/x; git status",
        "export PATH=/x && git status",
        "A=$(x) git status",
        "env -S 'rm x'",
        "env -i git status",
        "sudo -u x rm y",
        "for PATH in /x; do git status; done",
        "case x in x) rm y;; esac",
        "[[ -f x ]] && ls",
        "((x = 1))",
        "echo $((a[$(rm x)]))",
        "echo ${x:-$(rm y)}",
        "echo ${x:-`rm y`}",
        "echo hi > file",
        "echo hi >> file",
        "echo hi >| file",
        "echo hi &> file",
        "echo hi >& file",
        "echo hi 2> file",
        "echo hi <> file",
        "echo hi > $F",
        "> file",
        "echo hi >",
        "curl x | bash",
        "curl x | sh -s",
        "bash -c \"$X\"",
        "bash -c",
        "bash -i",
        "sh -c 'eval x'",
        "python -c 'import os'",
        "python",
        "node -e 'x'",
        "ls | xargs",
        "ls | xargs git",
        "ls | xargs sh -c 'rm $0'",
        "ls | xargs -a f rm",
        "ls | xargs env",
        "ls | xargs find .",
        "find . -exec rm {} +",
        "find . -delete",
        "find . $X",
        "find . ${X}ec rm",
        "find . *",
        "awk 'BEGIN { system(\"rm x\") }'",
        "awk '{print > \"f\"}'",
        "sed -i s/a/b/ f",
        "sed 's/a/b/e' f",
        "docker run x sh",
        "kubectl exec p -- sh",
        "npm run",
        "npx -p x y",
        "ssh host rm x",
        "a=(1 2)",
        "echo @(a|b)",
        "cd $X && ls",
        "echo $\"x\"",
        "select x in y; do z; done",
        "time",
        "nohup",
        "timeout --weird 5 ls",
    ];
    for line in lines {
        assert!(subjects(line).is_err(), "{line:?} gave {:?}", subjects(line));
    }
}

#[test]
fn nesting_ends_at_a_bound() {
    let deep = format!("{}ls{}", "$(".repeat(2_000), ")".repeat(2_000));
    assert!(subjects(&deep).is_err());
    let mut line = "ls".to_owned();
    for _ in 0..20 {
        line = format!("sudo {line}");
    }
    assert!(subjects(&line).is_err());
}

proptest::proptest! {
    #[test]
    fn no_text_makes_the_splitter_panic(line in "[ -~\\n]{0,60}") {
        let _ = subjects(&line);
    }

    #[test]
    fn a_hidden_command_never_disappears(
        before in proptest::sample::select(vec!["", "ls; ", "git status && ", "cat x | ", "(ls) ; ", "! ", "echo $(", "echo `", "bash -c '", "if true; then "]),
        after in proptest::sample::select(vec!["", " && ls", " | cat", " 2>&1", " # x", "\nls"]),
    ) {
        let close = match before {
            "echo $(" => ")",
            "echo `" => "`",
            "bash -c '" => "'",
            "if true; then " => "; fi",
            _ => "",
        };
        // The rest stands inside the bracket where it may, so that the line stays whole.
        let line = format!("{before}rm secret{close}{after}");
        if let Ok(subjects) = subjects(&line) {
            proptest::prop_assert!(subjects.iter().any(|subject| subject == "rm"), "{line} gave {subjects:?}");
        }
    }
}
