//! Servers that misbehave: each fault ends in its own error within the budget, or is survived.

use crate::kit::Workspace;
use services::language_servers::{LanguageServers, LspErrorKind, LspFound, LspOperation};
use std::time::{Duration, Instant};
use tokio_util::sync::CancellationToken;

const TEXT: &str = "let é漢😀 = 1; name\nname\n";

// L06, L08: the error names server and reason, and comes in time.
#[tokio::test]
async fn every_fault_is_an_error_that_names_server_and_reason() {
    for (fault, kind, reason) in [
        ("exit-at-once", LspErrorKind::Unavailable, "Unknown binary 'fake' in official toolchain"),
        (
            "refuse-initialize",
            LspErrorKind::Unavailable,
            "refused to start: no valid TypeScript installation",
        ),
        ("silent-initialize", LspErrorKind::Unavailable, "did not answer `initialize` within 1.5 s"),
        ("silent", LspErrorKind::Timeout, "did not answer hover within 1.5 s"),
        ("crash", LspErrorKind::Unavailable, "panic: the index is broken"),
        ("garbage", LspErrorKind::Unavailable, "no message of the protocol"),
        ("headers", LspErrorKind::Unavailable, "no message of the protocol"),
        ("length", LspErrorKind::Unavailable, "over the cap"),
        ("broken-json", LspErrorKind::Unavailable, "no message of the protocol"),
        ("monster", LspErrorKind::Unavailable, "over the cap"),
        ("error", LspErrorKind::RequestFailed, "the file is not part of a project (-32603)"),
        ("malformed", LspErrorKind::MalformedResponse, "no answer"),
    ] {
        let workspace = Workspace::fake(&["--fault", fault]);
        workspace.put("a.fk", TEXT);
        let begun = Instant::now();
        let error = workspace.hover("a.fk", "name").await.expect_err(fault);
        assert_eq!(error.kind, kind, "{fault}: {error}");
        assert!(
            error.message.contains(reason) && error.message.contains("fake-language-server"),
            "{fault}: {error}"
        );
        assert!(begun.elapsed() < Duration::from_secs(5), "{fault} took {:?}", begun.elapsed());
    }
}

#[tokio::test]
async fn what_can_be_survived_is_survived() {
    for fault in ["late", "noise", "flood", "modified", "crash-once"] {
        let workspace = Workspace::fake(&["--fault", fault]);
        workspace.put("a.fk", TEXT);
        assert_eq!(
            workspace.hover("a.fk", "name").await.unwrap().as_deref(),
            Some("name in version 1"),
            "{fault}"
        );
    }
}

// L09
#[tokio::test]
async fn what_the_server_asks_is_answered() {
    let workspace = Workspace::fake(&["--fault", "asks"]);
    workspace.put("a.fk", TEXT);
    let name = workspace.path("").file_name().unwrap().to_string_lossy().into_owned();
    let expected = serde_json::json!([[null, null], name, null, null, false, -32601]).to_string();
    assert_eq!(workspace.hover("a.fk", "name").await.unwrap(), Some(expected));
}

// L02
#[tokio::test]
async fn an_empty_answer_while_loading_is_asked_again() {
    for fault in ["loading", "status"] {
        let workspace = Workspace::fake(&["--fault", fault]);
        workspace.put("a.fk", TEXT);
        let answer = workspace.ask(LspOperation::Hover, "a.fk", "name", 0).await.unwrap();
        assert!(!answer.is_loading, "{fault}");
        let LspFound::Hover(Some(hover)) = answer.found else { panic!("{fault}: no hover") };
        assert_eq!(hover.contents, "name in version 1");
        assert_eq!(answer.warning.as_deref(), (fault == "status").then_some("no project here"));
    }
}

// L02
#[tokio::test]
async fn an_empty_answer_of_a_server_that_never_finishes_is_labelled() {
    let workspace = Workspace::fake(&["--fault", "loading-forever"]);
    workspace.put("a.fk", TEXT);
    let answer = workspace.ask(LspOperation::FindReferences, "a.fk", "name", 0).await.unwrap();
    assert!(answer.is_loading);
    assert_eq!(answer.found, LspFound::Locations(Vec::new()));
}

// L03, L04, L05: a folder with blanks and accents; columns behind wide characters, in every encoding.
#[tokio::test]
async fn columns_are_right_in_every_encoding_and_way_to_sync() {
    for encoding in ["utf-8", "utf-16", "utf-32"] {
        for sync in ["0", "1", "2"] {
            let workspace = Workspace::fake(&["--encoding", encoding, "--sync", sync]);
            workspace.put("a b é.fk", TEXT);
            let places = workspace.places(LspOperation::FindReferences, "a b é.fk", "name", 0).await;
            assert_eq!(places, ["a b é.fk:1:15", "a b é.fk:2:1"], "{encoding} {sync}");
            workspace.put("a b é.fk", "😀😀 name é漢😀\n😀 other\n");
            let places = workspace.places(LspOperation::GoToDefinition, "a b é.fk", "other", 0).await;
            assert_eq!(places, ["a b é.fk:2:4"], "{encoding} {sync}");
        }
    }
}

// L01
#[tokio::test]
async fn answers_concern_what_was_just_written_elsewhere_and_unsaved() {
    let workspace = Workspace::fake(&[]);
    workspace.put("a.fk", "name\n");
    workspace.put("b.fk", "old\n");
    assert_eq!(workspace.places(LspOperation::FindReferences, "a.fk", "name", 0).await, ["a.fk:1:1"]);
    workspace.write("b.fk", "\nname\n").await;
    let both = ["a.fk:1:1", "b.fk:2:1"];
    assert_eq!(workspace.places(LspOperation::FindReferences, "a.fk", "name", 0).await, both);
    let unsaved = "\n\n name\n".to_owned();
    workspace.disk.unsaved.lock().unwrap().insert(workspace.path("b.fk"), unsaved);
    let both = ["a.fk:1:1", "b.fk:3:2"];
    assert_eq!(workspace.places(LspOperation::FindReferences, "a.fk", "name", 0).await, both);
    workspace.disk.unsaved.lock().unwrap().clear();
    std::fs::remove_file(workspace.path("b.fk")).unwrap();
    assert_eq!(workspace.places(LspOperation::FindReferences, "a.fk", "name", 0).await, ["a.fk:1:1"]);
    assert_eq!(workspace.n_messages("textDocument/didClose"), 1);
}

#[tokio::test]
async fn an_operation_that_the_server_lacks_is_refused() {
    let workspace = Workspace::fake(&["--fault", "only-hover"]);
    workspace.put("a.fk", TEXT);
    let error = workspace.ask(LspOperation::FindReferences, "a.fk", "name", 0).await.unwrap_err();
    assert_eq!(error.kind, LspErrorKind::UnsupportedOperation);
    assert_eq!(workspace.n_messages("textDocument/references"), 0);
}

#[tokio::test]
async fn questions_without_a_place_or_a_server_say_so() {
    let workspace = Workspace::fake(&[]);
    workspace.put("a.fk", "a\n");
    workspace.put("a.xyz", "a\n");
    let mut query = workspace.question(LspOperation::Hover, "a.fk", "a", 0);
    query.position.line = 2;
    let cancel = CancellationToken::new();
    let error = workspace.servers.query(query, &cancel).await.unwrap_err();
    assert!(error.kind == LspErrorKind::InvalidPosition && error.message.contains("line 3"), "{error}");
    let error = workspace.hover("a.xyz", "a").await.unwrap_err();
    assert!(error.kind == LspErrorKind::Unavailable && error.message.contains(".xyz files"), "{error}");
    let mut query = workspace.question(LspOperation::Hover, "a.fk", "a", 0);
    query.path = "/etc/a.fk".into();
    let error = workspace.servers.query(query, &cancel).await.unwrap_err();
    assert_eq!(error.kind, LspErrorKind::WorkspaceRequired);
    assert_eq!(workspace.messages(), Vec::<String>::new(), "nothing was started for these");
}
