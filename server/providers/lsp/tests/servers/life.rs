//! How servers live: started once, restarted once, stopped when idle, cancelled, ended with the session.

use crate::kit::{Workspace, quick};
use provider_lsp::LspOptions;
use services::language_servers::{LanguageServers, LspErrorKind, LspOperation};
use std::time::{Duration, Instant};
use tokio_util::sync::CancellationToken;

// L07
#[tokio::test]
async fn many_questions_start_one_server() {
    let workspace = Workspace::fake(&[]);
    for module in ["x", "y", "z"] {
        workspace.put(&format!("{module}/a.fk"), "name\n");
    }
    let names = ["x/a.fk", "y/a.fk", "z/a.fk", "x/a.fk"];
    let answers = futures::future::join_all(names.map(|name| workspace.hover(name, "name"))).await;
    assert!(answers.iter().all(Result::is_ok), "{answers:?}");
    assert_eq!(workspace.n_messages("start"), 1);
}

// L07: the second session of a connection uses the server of the first, and it lives until the last of them is gone.
#[tokio::test]
async fn sessions_share_one_server() {
    let workspace = Workspace::fake(&[]);
    workspace.put("a.fk", "name\n");
    workspace.hover("a.fk", "name").await.unwrap();
    let other = workspace.another_session();
    let query = workspace.question(LspOperation::Hover, "a.fk", "name", 0);
    other.query(query, &CancellationToken::new()).await.unwrap();
    assert_eq!(workspace.n_messages("start"), 1);
    drop(other);
    workspace.hover("a.fk", "name").await.unwrap();
    assert_eq!((workspace.n_messages("start"), workspace.n_messages("shutdown")), (1, 0));
}

#[tokio::test]
async fn roots_have_a_server_each() {
    let workspace = Workspace::fake(&[]);
    for module in ["x", "y"] {
        workspace.put(&format!("{module}/fake.root"), "");
        workspace.put(&format!("{module}/a.fk"), "name\n");
        workspace.hover(&format!("{module}/a.fk"), "name").await.unwrap();
    }
    assert_eq!(workspace.n_messages("start"), 2);
}

// L08: one restart, then a pause in which nothing is started.
#[tokio::test]
async fn a_server_that_crashes_twice_rests() {
    let workspace = Workspace::fake(&["--fault", "crash"]);
    workspace.put("a.fk", "name\n");
    workspace.hover("a.fk", "name").await.unwrap_err();
    assert_eq!(workspace.n_messages("start"), 2);
    let error = workspace.hover("a.fk", "name").await.unwrap_err();
    assert!(error.message.contains("next try in"), "{error}");
    assert_eq!(workspace.n_messages("start"), 2);
    tokio::time::sleep(Duration::from_millis(450)).await;
    workspace.hover("a.fk", "name").await.unwrap_err();
    assert!(workspace.n_messages("start") > 2);
}

#[tokio::test]
async fn a_cancelled_question_returns_at_once_and_tells_the_server() {
    let workspace = Workspace::fake_with(
        &["--fault", "silent"],
        LspOptions { request_timeout: Duration::from_secs(60), ..quick() },
    );
    workspace.put("a.fk", "name\n");
    let cancel = CancellationToken::new();
    let query = workspace.question(LspOperation::Hover, "a.fk", "name", 0);
    let asking = workspace.servers.query(query, &cancel);
    let cancelling = async {
        while workspace.n_messages("textDocument/hover") == 0 {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
        cancel.cancel();
        Instant::now()
    };
    let (answer, cancelled) = tokio::join!(asking, cancelling);
    assert!(cancelled.elapsed() < Duration::from_millis(200));
    assert_eq!(answer.unwrap_err().kind, LspErrorKind::Aborted);
    while workspace.n_messages("$/cancelRequest") == 0 {
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
}

#[tokio::test]
async fn an_idle_server_ends_and_starts_again() {
    let workspace = Workspace::fake_with(&[], LspOptions { idle: Duration::from_millis(100), ..quick() });
    workspace.put("a.fk", "name\n");
    for n in 1..=3 {
        workspace.hover("a.fk", "name").await.unwrap();
        while workspace.n_messages("exit") < n {
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
        while !workspace.pool.running().is_empty() {
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
        assert_eq!(workspace.n_messages("start"), n);
    }
}

#[tokio::test]
async fn servers_end_with_the_connection_in_time() {
    for fault in ["none", "silent"] {
        let workspace = Workspace::fake(&["--fault", fault]);
        workspace.put("a.fk", "name\n");
        let _ = workspace.hover("a.fk", "name").await;
        let begun = Instant::now();
        workspace.pool.close().await;
        assert!(begun.elapsed() < Duration::from_millis(1500));
        assert_eq!(workspace.n_messages("shutdown"), 1, "{fault}");
        assert_eq!(workspace.hover("a.fk", "name").await.unwrap_err().kind, LspErrorKind::Disposed);
    }
}

#[tokio::test]
async fn servers_end_with_their_last_session() {
    let workspace = Workspace::fake(&[]);
    workspace.put("a.fk", "name\n");
    workspace.hover("a.fk", "name").await.unwrap();
    let Workspace { folder, pool, servers, files, .. } = workspace;
    drop((servers, files));
    while !std::fs::read_to_string(folder.path().join("messages.log")).unwrap().ends_with("exit\n") {
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    assert!(pool.running().is_empty());
}
