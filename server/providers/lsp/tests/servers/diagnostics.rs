//! What an edit broke, told with its result or later; changes on the disk by others.

use crate::kit::Workspace;
use std::sync::{Arc, Mutex};
use std::time::Duration;

const BROKEN: &str =
    "after this change of a.fk, fake-language-server reports 1 new error:\na.fk:2:4: BAD two is bad (E7)";

fn shown(notice: Option<String>) -> Option<String> {
    // The program of the tests is named by its whole path.
    notice.map(|notice| notice.replace(env!("CARGO_BIN_EXE_fake-language-server"), "fake-language-server"))
}

#[tokio::test]
async fn an_edit_tells_the_errors_that_it_made_and_no_others() {
    for arguments in [
        ["--tells", "push", "--encoding", "utf-8"],
        ["--tells", "pull", "--encoding", "utf-16"],
        ["--tells", "unversioned", "--encoding", "utf-32"],
    ] {
        let workspace = Workspace::fake(&arguments);
        assert_eq!(workspace.write("a.fk", "BAD\n").await, None, "no server was started for this");
        assert_eq!(workspace.n_messages("start"), 0);
        workspace.hover("a.fk", "BAD").await.unwrap();
        // A first edit makes the errors known, the next ones are compared with it.
        let first = shown(workspace.write("a.fk", "BAD one\n").await);
        assert!(first.is_some_and(|first| first.contains("a.fk:1:1: BAD one is bad (E7)")), "{arguments:?}");
        assert_eq!(shown(workspace.write("a.fk", "BAD one\n😀 BAD two\n").await).as_deref(), Some(BROKEN));
        assert_eq!(
            workspace.write("a.fk", "\n😀 BAD two\n\nBAD one\n").await,
            None,
            "only moved: {arguments:?}"
        );
        assert_eq!(workspace.write("a.fk", "fine\n").await, None);
        let many: String = (0..12).map(|n| format!("BAD {n}\n")).collect();
        let many = shown(workspace.write("a.fk", &many).await).unwrap();
        assert!(many.contains("reports 12 new errors") && many.ends_with("\n… and 2 more"), "{many}");
        assert!(workspace.servers.diagnostics().await.contains("- a.fk:1:1: BAD 0 is bad (E7)\n"));
    }
}

#[tokio::test]
async fn what_is_found_late_is_a_notice() {
    let workspace = Workspace::fake(&["--tells", "late"]);
    workspace.put("a.fk", "fine\n");
    workspace.hover("a.fk", "fine").await.unwrap();
    let told = Arc::new(Mutex::new(Vec::new()));
    let (sink, heard) = (told.clone(), Arc::new(tokio::sync::Notify::new()));
    let hear = heard.clone();
    workspace.servers.tell_late_findings(Box::new(move |_, text| {
        sink.lock().unwrap().push(text);
        hear.notify_one();
    }));
    assert_eq!(workspace.write("a.fk", "fine\n😀 BAD two\n").await, None);
    tokio::time::timeout(Duration::from_secs(20), heard.notified()).await.unwrap();
    let told = told.lock().unwrap().clone();
    assert_eq!(
        told.iter().map(|text| shown(Some(text.clone()))).collect::<Vec<_>>(),
        [Some(BROKEN.to_owned())]
    );
}

#[tokio::test]
async fn a_server_that_tells_nothing_costs_few_edits_a_wait() {
    let workspace = Workspace::fake(&[]);
    workspace.put("a.fk", "fine\n");
    workspace.hover("a.fk", "fine").await.unwrap();
    for n in 0..5 {
        assert_eq!(workspace.write("a.fk", &format!("{n}\n")).await, None);
    }
    // An edit that is not waited for is not sent either, before the next question.
    assert_eq!(workspace.n_messages("textDocument/didChange"), 3);
}

// L01: what a checkout or a command of the shell changed is told, ignored folders are not.
#[tokio::test]
async fn changes_on_the_disk_are_told_as_registered() {
    let workspace = Workspace::fake(&["--watch", "**/*.{fk,lock}"]);
    workspace.put("a.fk", "name\n");
    workspace.put("src/b.fk", "name\n");
    workspace.put(".gitignore", "out\n");
    workspace.put("out/c.fk", "name\n");
    workspace.hover("a.fk", "name").await.unwrap();
    let is_told = |line: &str| workspace.n_messages(line) > 0;
    // Watching begins in the background; from the first change that is told all are.
    for n in 0.. {
        workspace.put("probe.lock", &n.to_string());
        tokio::time::sleep(Duration::from_millis(20)).await;
        if is_told("watched probe.lock 1") || is_told("watched probe.lock 2") {
            break;
        }
        assert!(n < 1000);
    }
    workspace.put("out/c.fk", "other\n");
    workspace.put("src/b.txt", "other\n");
    workspace.put("new/deep/d.fk", "name\n");
    std::fs::rename(workspace.path("src/b.fk"), workspace.path("src/e.fk")).unwrap();
    let expected = ["watched d.fk 1", "watched b.fk 3", "watched e.fk 1"];
    for n in 0.. {
        tokio::time::sleep(Duration::from_millis(10)).await;
        if expected.iter().all(|line| is_told(line)) {
            break;
        }
        assert!(n < 1000, "{:?}", workspace.messages());
    }
    assert!(!workspace.messages().iter().any(|line| line.contains("c.fk") || line.contains("b.txt")));
}
