//! The budget, the spill and the reminder, in a whole pipeline.

use super::kit::{FakeTool, Kit, code, contexts, message, text};
use crate::policies::repeat::RepeatReminder;
use crate::policies::spill::SpillPolicy;
use crate::policies::timeout::TimeoutPolicy;
use crate::policy::Policy;
use protocol::content::{ContentBlock, ImageAttachment};
use protocol::id::{AttachmentId, CallId};
use protocol::tool::ToolFailure;
use serde_json::{Value, json};
use std::sync::Arc;
use std::time::Duration;

fn with_policy(kit: Kit, policy: impl Policy + 'static) -> Kit {
    kit.registry().add_policy(None, Arc::new(policy)).unwrap().keep();
    kit
}

/// A tool with a budget of one second that ends when it is told to, with `end`.
fn budgeted(end: fn() -> Result<Value, ToolFailure>) -> FakeTool {
    FakeTool::new("t").with(|tool| tool.timeout = Some(Duration::from_secs(1))).body(move |_, ctx| {
        Box::pin(async move {
            ctx.defer_context(message("body"));
            ctx.cancel.cancelled().await;
            // Quiescence takes a while, and is waited for.
            for _ in 0..5 {
                tokio::task::yield_now().await;
            }
            end()
        })
    })
}

async fn until_asleep(kit: &Kit) {
    while kit.session.world.clock.n_sleepers() == 0 {
        tokio::task::yield_now().await;
    }
}

#[tokio::test]
async fn a_budget_that_is_over_replaces_whatever_came_back() {
    for end in [
        (|| Ok(json!({}))) as fn() -> Result<Value, ToolFailure>,
        || Err(ToolFailure::aborted()),
        || Err(ToolFailure::coded("E", "MINE", "mine")),
    ] {
        let kit = with_policy(Kit::new().tool(budgeted(end)), TimeoutPolicy);
        let (outcome, ()) = tokio::join!(kit.run("t"), async {
            until_asleep(&kit).await;
            kit.session.world.clock.advance(Duration::from_millis(999));
            tokio::task::yield_now().await;
            kit.session.world.clock.advance(Duration::from_millis(1));
        });
        assert_eq!(code(&outcome), Some("TOOL_TIMEOUT"));
        assert_eq!(text(&outcome), "Error: tool call timed out after 1000ms");
        assert_eq!(contexts(&outcome), ["body"]);
    }
}

#[tokio::test]
async fn who_comes_first_names_the_end() {
    let kit = with_policy(Kit::new().tool(budgeted(|| Ok(json!({})))), TimeoutPolicy);
    let (outcome, ()) = tokio::join!(kit.run("t"), async {
        until_asleep(&kit).await;
        kit.cancel.cancel();
        kit.session.world.clock.advance(Duration::from_secs(5));
    });
    assert_eq!(code(&outcome), Some("ABORTED"));

    let kit = with_policy(Kit::new().tool(budgeted(|| Ok(json!({})))), TimeoutPolicy);
    let (outcome, ()) = tokio::join!(kit.run("t"), async {
        until_asleep(&kit).await;
        kit.session.world.clock.advance(Duration::from_secs(5));
        for _ in 0..3 {
            tokio::task::yield_now().await;
        }
        kit.cancel.cancel();
    });
    assert_eq!(code(&outcome), Some("TOOL_TIMEOUT"));
}

#[tokio::test]
async fn a_tool_without_a_budget_and_one_in_time_are_left_alone() {
    let in_time = FakeTool::new("in-time").with(|tool| tool.timeout = Some(Duration::from_secs(1)));
    let kit = with_policy(Kit::new().tool(FakeTool::new("t")).tool(in_time), TimeoutPolicy);
    assert!(!kit.run("t").await.is_error());
    assert!(!kit.run("in-time").await.is_error());
    assert_eq!(kit.session.world.clock.n_sleepers(), 0);
}

fn image() -> ContentBlock {
    ContentBlock::Image {
        attachment: ImageAttachment {
            attachment_id: AttachmentId::new("i"),
            media_type: "image/png".into(),
            bytes: 1,
            width: 1,
            height: 1,
            name: None,
            original_dimensions: None,
        },
    }
}

fn rendering(name: &str, render: fn(&Value) -> Result<Vec<ContentBlock>, String>) -> FakeTool {
    FakeTool::new(name).with(|tool| tool.render = render)
}

fn two_bytes_each(_: &Value) -> Result<Vec<ContentBlock>, String> {
    Ok(vec![ContentBlock::text("é".repeat(400))])
}

#[tokio::test]
async fn an_oversized_text_is_kept_whole_and_shown_by_its_ends() {
    let kit = Kit::new().tool(rendering("t", two_bytes_each));
    let kit = with_policy(kit, SpillPolicy { max_inline_bytes: 500 });
    let shown = text(&kit.run("t").await);
    assert!(shown.len() <= 500, "{} bytes", shown.len());
    assert!(shown.starts_with("éé") && shown.contains("é\n…\né"), "{shown}");
    let n_shown = shown.matches('é').count() * 2;
    let notice = format!(
        "\n\n(Omitted {} bytes. The whole text is in /spill/session-1/t.txt. Read it in pages or search it.)",
        800 - n_shown
    );
    assert!(shown.ends_with(&notice), "{shown}");
    let saved = kit.session.world.spill.saved();
    assert_eq!((saved.len(), saved[0].content.len()), (1, 800));
}

#[tokio::test]
async fn what_the_spill_leaves_alone() {
    let over: fn(&Value) -> Result<Vec<ContentBlock>, String> =
        |_| Ok(vec![ContentBlock::text("a".repeat(600))]);
    let kit = Kit::new()
        .tool(rendering("read", over))
        .tool(rendering("long", over))
        .tool(rendering("image", |_| Ok(vec![ContentBlock::text("a".repeat(600)), image()])))
        .tool(rendering("fits", |_| Ok(vec![ContentBlock::text("a".repeat(500))])));
    let kit = with_policy(kit, SpillPolicy { max_inline_bytes: 500 });
    for name in ["read", "image", "fits"] {
        kit.run(name).await;
    }
    let sub_call = crate::call::Call { parent: Some(CallId::new("root")), ..kit.call("long", json!({})) };
    assert_eq!(text(&kit.pipeline.run(sub_call).await).len(), 600);
    assert!(kit.session.world.spill.saved().is_empty());

    kit.session.world.spill.fail();
    assert_eq!(text(&kit.run("long").await).len(), 600, "a failed save keeps the text inline");
}

#[tokio::test]
async fn a_notice_that_does_not_fit_keeps_the_text_inline() {
    let kit =
        with_policy(Kit::new().tool(rendering("t", two_bytes_each)), SpillPolicy { max_inline_bytes: 20 });
    assert_eq!(text(&kit.run("t").await).len(), 800);
}

#[tokio::test]
async fn equal_calls_in_a_row_are_mentioned_at_three_five_and_eight() {
    let kit =
        with_policy(Kit::new().tool(FakeTool::new("t")).tool(FakeTool::new("u")), RepeatReminder::default());
    let mut said = Vec::new();
    for n in 1..=9 {
        // The order of keys does not make a call a different one.
        let arguments = if n % 2 == 0 { json!({"a": 1, "b": 2}) } else { json!({"b": 2, "a": 1}) };
        let outcome = kit.pipeline.run(kit.call("t", arguments)).await;
        if let [message] = outcome.additional_contexts.as_slice() {
            said.push((n, message.content[0].as_text().unwrap().to_owned()));
        }
    }
    assert_eq!(said.iter().map(|(n, _)| *n).collect::<Vec<_>>(), [3, 5, 8]);
    assert!(!said[0].1.contains("{\"") && said[1].1.contains("t 5 times") && said[1].1.contains("{\""));

    kit.run("u").await;
    for n in 1..=3 {
        let outcome = kit.pipeline.run(kit.call("t", json!({"a": 1, "b": 2}))).await;
        assert_eq!(outcome.additional_contexts.len(), usize::from(n == 3), "another call starts over");
    }
}

#[tokio::test]
async fn calls_of_a_session_that_ended_are_forgotten() {
    let kit = with_policy(Kit::new().tool(FakeTool::new("t")), RepeatReminder::default());
    let mut said = Vec::new();
    for n in 1..=5 {
        let call = kit.call("t", json!({}));
        let session_id = call.session.session_id.clone();
        said.push(kit.pipeline.run(call).await.additional_contexts.len());
        if n == 2 {
            kit.pipeline.registry().session_closed(None, &session_id);
        }
    }
    assert_eq!(said, [0, 0, 0, 0, 1]);
}

#[tokio::test]
async fn long_arguments_are_quoted_up_to_a_bound() {
    let kit = with_policy(Kit::new().tool(FakeTool::new("t")), RepeatReminder::default());
    let mut last = String::new();
    for _ in 0..5 {
        let outcome = kit.pipeline.run(kit.call("t", json!({"a": "x".repeat(2_000)}))).await;
        last = outcome
            .additional_contexts
            .first()
            .map_or(last, |message| message.content[0].as_text().unwrap().to_owned());
    }
    assert!(last.contains('…') && last.len() < 800, "{last}");
}
