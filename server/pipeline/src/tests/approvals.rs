//! Questions to the person, and what their answers do.

use super::kit::{FakePolicy, FakeTool, Kit, code, text};
use crate::fake::HostEntry;
use protocol::decision::{PermissionOutcome, PermissionRule, PreDecision, SandboxGrant};
use protocol::event::SessionEvent;
use protocol::id::CallId;
use protocol::mode::SandboxMode;
use serde_json::json;
use std::path::PathBuf;
use std::sync::{Arc, Mutex};

fn rule() -> PermissionRule {
    PermissionRule { tool: "t".into(), subjects: vec!["cargo test".into()], label: "cargo test".into() }
}

fn asking(rule: Option<PermissionRule>) -> FakePolicy {
    FakePolicy {
        name: "ask",
        pre: Some(Ok(PreDecision::Ask {
            reason: Some("why".into()),
            display_reason: None,
            rule,
            grant: Some(SandboxGrant { mode: SandboxMode::ReadOnly, writable: vec![PathBuf::from("/x/f")] }),
        })),
        ..FakePolicy::default()
    }
}

/// A session whose tool notes what it may write.
fn kit(rule: Option<PermissionRule>) -> (Kit, Arc<Mutex<Vec<PathBuf>>>) {
    let writable = Arc::new(Mutex::new(Vec::new()));
    let seen = writable.clone();
    let tool = FakeTool::new("t").body(move |_, ctx| {
        *seen.lock().unwrap() = ctx.sandbox().writable_roots;
        Box::pin(async { Ok(json!({})) })
    });
    (Kit::new().policy(asking(rule)).tool(tool), writable)
}

fn asked() -> SessionEvent {
    SessionEvent::ApprovalAsked {
        id: format!("{:032x}", 1),
        tool_name: "t".into(),
        call_id: CallId::new("call-1"),
        reason: Some("why".into()),
    }
}

fn decided(outcome: PermissionOutcome) -> SessionEvent {
    SessionEvent::ApprovalDecided { id: format!("{:032x}", 1), outcome }
}

#[tokio::test]
async fn each_answer_has_its_own_end_and_two_records() {
    let refused = "Error: the user refused this call; nothing was run. Do not repeat it unchanged: go on without it, or ask what they want";
    let nobody = "Error: this call needs a permission and nobody could be asked; nothing was run";
    let cases = [
        (PermissionOutcome::AllowedOnce, "{}"),
        (PermissionOutcome::Rejected, refused),
        (PermissionOutcome::Unavailable, nobody),
        (PermissionOutcome::Cancelled, "Error: tool call aborted before dispatch"),
    ];
    for (answer, expected) in cases {
        let (kit, _) = kit(None);
        kit.session.world.approval.answer(answer);
        let outcome = kit.run("t").await;
        assert_eq!(text(&outcome), expected);
        assert_eq!(kit.session.host.events(), [asked(), decided(answer)]);
        let is_stopped = kit.session.host.entries().contains(&HostEntry::StopTurn);
        assert_eq!(is_stopped, answer == PermissionOutcome::Cancelled);
        assert!(kit.journal.entries().contains(&"post:ask".to_owned()));
    }
}

#[tokio::test]
async fn the_question_carries_the_arguments_the_preview_and_the_rule() {
    let (kit, writable) = kit(Some(rule()));
    kit.session.world.approval.answer(PermissionOutcome::AllowedOnce);
    kit.pipeline.run(kit.call("t", json!({"a": 1}))).await;
    let asked = kit.session.world.approval.asked();
    assert_eq!(asked.len(), 1);
    assert_eq!((&asked[0].arguments, asked[0].preview.diffs.len()), (&json!({"a": 1}), 1));
    assert_eq!((&asked[0].rule, asked[0].reason.as_deref()), (&Some(rule()), Some("why")));
    assert_eq!(*writable.lock().unwrap(), [PathBuf::from("/project"), PathBuf::from("/x/f")]);
}

#[tokio::test]
async fn an_answer_for_always_adds_the_offered_rule_once() {
    let (kit, _) = kit(Some(rule()));
    for _ in 0..2 {
        kit.session.world.approval.answer(PermissionOutcome::AllowedAlways);
        kit.run("t").await;
    }
    let rules: Vec<_> = kit
        .session
        .host
        .events()
        .into_iter()
        .filter(|event| matches!(event, SessionEvent::PermissionRule { .. }))
        .collect();
    assert_eq!(rules, [SessionEvent::PermissionRule { rule: rule() }]);
}

#[tokio::test]
async fn an_answer_for_always_that_was_not_offered_counts_once() {
    let (kit, _) = kit(None);
    kit.session.world.approval.answer(PermissionOutcome::AllowedAlways);
    assert!(!kit.run("t").await.is_error());
    assert_eq!(kit.session.host.events(), [asked(), decided(PermissionOutcome::AllowedOnce)]);
}

#[tokio::test]
async fn a_cancellation_withdraws_the_question() {
    let (kit, _) = kit(None);
    kit.session.world.approval.set_silent(true);
    let cancel = kit.cancel.clone();
    let (outcome, ()) = tokio::join!(kit.run("t"), async {
        tokio::task::yield_now().await;
        cancel.cancel();
    });
    assert_eq!(code(&outcome), Some("ABORTED_BEFORE_DISPATCH"));
    assert_eq!(kit.session.host.events(), [asked(), decided(PermissionOutcome::Cancelled)]);
    assert!(!kit.session.host.entries().contains(&HostEntry::StopTurn), "it is being stopped already");
}

#[tokio::test]
async fn a_question_that_cannot_be_logged_is_not_asked() {
    let (kit, _) = kit(None);
    kit.session.host.fail_append();
    kit.session.world.approval.answer(PermissionOutcome::AllowedOnce);
    let outcome = kit.run("t").await;
    assert_eq!(text(&outcome), "Error: the log could not be written");
    assert!(kit.session.world.approval.asked().is_empty());
}
