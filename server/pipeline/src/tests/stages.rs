//! One call through its stages.

use super::kit::{FakePolicy, FakeTool, Kit, code, contexts, message, text};
use crate::fake::HostEntry;
use crate::registry::{CodeMode, Registration};
use protocol::content::ContentBlock;
use protocol::decision::{PostDecision, PostVerdict, PreDecision};
use protocol::id::CallId;
use protocol::live::LiveUpdate;
use protocol::tool::{ErrorInfo, Outcome, ToolFailure};
use serde_json::{Value, json};
use std::sync::Arc;

fn watched(name: &'static str) -> FakePolicy {
    FakePolicy { name, ..FakePolicy::default() }
}

fn deny(reason: &str) -> Option<Result<PreDecision, ToolFailure>> {
    Some(Ok(PreDecision::Deny { reason: reason.to_owned(), info: None }))
}

fn post(verdict: PostVerdict) -> Option<Result<PostDecision, ToolFailure>> {
    Some(Ok(PostDecision { verdict, additional_contexts: vec![message("post")] }))
}

/// A body that notes it ran, defers a context and returns `{}`.
fn noted(kit: &Kit, name: &str) -> FakeTool {
    let journal = kit.journal.clone();
    FakeTool::new(name).body(move |_, ctx| {
        journal.note("body");
        ctx.defer_context(message("body"));
        Box::pin(async { Ok(json!({})) })
    })
}

#[tokio::test]
async fn an_allowed_call_passes_every_stage_in_order() {
    let kit = Kit::new();
    let tool = noted(&kit, "t");
    let kit = kit.policy(watched("a")).policy(watched("b")).tool(tool);
    let journal = kit.journal.clone();
    kit.registry()
        .guard(
            None,
            Arc::new(move |_| {
                journal.note("guard");
                None
            }),
        )
        .unwrap()
        .keep();
    let outcome = kit.run("t").await;
    assert_eq!(outcome.result, Ok(json!({})));
    let expected = [
        "pre:a", "pre:b", "guard", "in:a", "in:b", "body", "out:b", "out:a", "post:a", "post:b", "result:a",
        "result:b",
    ];
    assert_eq!(kit.journal.entries(), expected);
    let call_id = CallId::new("call-1");
    assert_eq!(
        kit.session.host.entries(),
        [
            HostEntry::Checkpoint,
            HostEntry::Live(LiveUpdate::CallStarted { call_id: call_id.clone() }),
            HostEntry::Live(LiveUpdate::CallSettled { call_id, result: outcome.durable() }),
        ]
    );
}

#[tokio::test]
async fn a_denied_call_is_seen_by_post_and_observers_only() {
    let info = ErrorInfo { name: "E".into(), code: "C".into(), reason: Some("secret detail".into()) };
    let denied = PreDecision::Deny { reason: "not here".into(), info: Some(info.clone()) };
    let kit = Kit::new();
    let tool = noted(&kit, "t");
    let kit = kit.policy(FakePolicy { pre: Some(Ok(denied)), ..watched("p") }).tool(tool);
    let outcome = kit.run("t").await;
    assert_eq!(outcome.result, Err(ToolFailure { message: "not here".into(), info: Some(info) }));
    assert_eq!(text(&outcome), "Error: not here");
    assert_eq!(kit.journal.entries(), ["pre:p", "post:p", "saw:not here", "result:p"]);
    assert!(kit.session.host.entries().is_empty(), "nothing was shown as started");
}

#[tokio::test]
async fn a_guards_reason_denies_and_the_first_reason_wins() {
    let kit = Kit::new();
    let tool = noted(&kit, "t");
    let kit = kit.tool(tool);
    for reason in [None, Some("second"), Some("third")] {
        let guard = move |_: &crate::context::Execution| reason.map(str::to_owned);
        kit.registry().guard(None, Arc::new(guard)).unwrap().keep();
    }
    let outcome = kit.run("t").await;
    assert_eq!((text(&outcome).as_str(), code(&outcome)), ("Error: second", None));
    assert!(kit.journal.entries().is_empty());
}

#[tokio::test]
async fn an_outer_policy_cannot_weaken_what_an_inner_one_decided() {
    struct Lenient;
    #[async_trait::async_trait]
    impl crate::policy::Policy for Lenient {
        fn name(&self) -> &str {
            "lenient"
        }
        async fn pre_execute(
            &self,
            _call: &crate::call::PendingCall,
            next: crate::policy::PreNext<'_>,
        ) -> Result<PreDecision, ToolFailure> {
            next.run().await?;
            Ok(PreDecision::Allow)
        }
    }
    for (pre, expected) in [
        (deny("no"), "Error: no"),
        (Some(Ok(PreDecision::Cancel)), "Error: tool call aborted before dispatch"),
        // The question is asked although the outer policy allows, and nobody answers.
        (
            Some(Ok(PreDecision::Ask { reason: None, display_reason: None, rule: None, grant: None })),
            "Error: this call needs a permission and nobody could be asked; nothing was run",
        ),
    ] {
        let kit = Kit::new();
        kit.registry().add_policy(None, Arc::new(Lenient)).unwrap().keep();
        let kit = kit.policy(FakePolicy { pre, ..watched("strict") }).tool(FakeTool::new("t"));
        assert_eq!(text(&kit.run("t").await), expected);
    }
}

#[tokio::test]
async fn an_unknown_tool_is_seen_by_policies_and_answered_at_dispatch() {
    let kit = Kit::new().policy(watched("p"));
    let outcome = kit.run("nope").await;
    assert_eq!(code(&outcome), Some("UNKNOWN_TOOL"));
    assert_eq!(kit.journal.entries()[..4], ["pre:p", "in:p", "out:p", "post:p"]);
    assert!(kit.session.host.entries().is_empty());
}

#[tokio::test]
async fn a_call_cancelled_before_it_starts_is_only_observed() {
    let kit = Kit::new();
    let tool = noted(&kit, "t").with(|tool| tool.finalize = |_| Some(vec![ContentBlock::text("final")]));
    let kit = kit.policy(watched("p")).tool(tool);
    kit.cancel.cancel();
    let outcome = kit.run("t").await;
    assert_eq!((code(&outcome), text(&outcome).as_str()), (Some("ABORTED_BEFORE_DISPATCH"), "final"));
    assert_eq!(kit.journal.entries(), ["result:p"]);
}

#[tokio::test]
async fn arguments_that_are_not_lossless_beat_a_cancellation() {
    let kit = Kit::new().policy(watched("p")).tool(FakeTool::new("t"));
    kit.cancel.cancel();
    let outcome = kit.pipeline.run(kit.call("t", json!({"x": -0.0}))).await;
    assert_eq!(code(&outcome), None);
    assert!(text(&outcome).contains("lossless"), "{}", text(&outcome));
    assert_eq!(kit.journal.entries(), ["result:p"]);
}

#[tokio::test]
async fn a_raw_tool_never_runs_with_arguments_that_are_no_object() {
    for (arguments, expected) in [
        (json!("{\"a\": \"cut"), "EOF"),
        (json!([1]), "an array"),
        (Value::Null, "null"),
        (json!(1), "a number"),
    ] {
        let kit = Kit::new();
        let tool = noted(&kit, "t");
        let kit = kit.tool(tool);
        let outcome = kit.pipeline.run(kit.call("t", arguments)).await;
        assert_eq!(code(&outcome), Some("INVALID_ARGS"));
        assert!(text(&outcome).contains(expected), "{}", text(&outcome));
        assert!(kit.journal.entries().is_empty());
    }
}

#[tokio::test]
async fn a_late_allow_is_a_cancellation_and_a_late_denial_stays_one() {
    for (pre, expected) in
        [(Some(Ok(PreDecision::Allow)), Some("ABORTED_BEFORE_DISPATCH")), (deny("no"), None)]
    {
        let kit = Kit::new();
        let tool = noted(&kit, "t");
        let cancel = kit.cancel.clone();
        let kit = kit.policy(FakePolicy { pre, during_pre: Some(cancel), ..watched("p") }).tool(tool);
        let outcome = kit.run("t").await;
        assert_eq!(code(&outcome), expected);
        assert!(kit.journal.entries().contains(&"post:p".to_owned()));
        assert!(!kit.journal.entries().contains(&"body".to_owned()));
    }
}

#[tokio::test]
async fn a_cancel_decision_ends_the_call_without_a_denial_and_visits_post() {
    let kit = Kit::new();
    let tool = noted(&kit, "t");
    let kit = kit.policy(FakePolicy { pre: Some(Ok(PreDecision::Cancel)), ..watched("p") }).tool(tool);
    let outcome = kit.run("t").await;
    assert_eq!(code(&outcome), Some("ABORTED_BEFORE_DISPATCH"));
    assert_eq!(
        kit.journal.entries(),
        ["pre:p", "post:p", "saw:tool call aborted before dispatch", "result:p"]
    );
}

#[tokio::test]
async fn what_a_policy_throws_skips_the_stages_behind_it() {
    let failing = || Some(Err(ToolFailure::coded("E", "CODE", "broke")));
    let cases = [
        (FakePolicy { pre: failing(), ..watched("p") }, "broke", "pre:p,result:p"),
        (
            FakePolicy { short_circuit: Some(Err(ToolFailure::plain("broke"))), ..watched("p") },
            "broke",
            "pre:p,in:p,result:p",
        ),
        (
            FakePolicy { post: Some(Err(ToolFailure::plain("broke"))), ..watched("p") },
            "broke",
            "pre:p,in:p,body,out:p,post:p,result:p",
        ),
        (
            FakePolicy { panics: Some("pre"), ..watched("p") },
            "internal error in p: told to panic in pre",
            "pre:p,result:p",
        ),
        (
            FakePolicy { panics: Some("in"), ..watched("p") },
            "internal error in p: told to panic in in",
            "pre:p,in:p,result:p",
        ),
        (
            FakePolicy { panics: Some("post"), ..watched("p") },
            "internal error in p: told to panic in post",
            "pre:p,in:p,body,out:p,post:p,result:p",
        ),
    ];
    for (policy, expected, stages) in cases {
        let kit = Kit::new();
        let tool = noted(&kit, "t");
        let kit = kit.policy(policy).tool(tool);
        let outcome = kit.run("t").await;
        assert_eq!(text(&outcome), format!("Error: {expected}"));
        assert_eq!(kit.journal.entries().join(","), stages);
    }
}

#[tokio::test]
async fn an_observer_that_panics_changes_nothing_and_hides_no_other() {
    let kit = Kit::new()
        .policy(FakePolicy { panics: Some("result"), ..watched("bad") })
        .policy(watched("good"))
        .tool(FakeTool::new("t"));
    let outcome = kit.run("t").await;
    assert!(!outcome.is_error());
    assert!(kit.journal.entries().contains(&"result:good".to_owned()));
}

#[tokio::test]
async fn a_body_that_panics_fails_its_call_only() {
    let kit = Kit::new()
        .policy(watched("p"))
        .tool(FakeTool::new("t").body(|_, _| Box::pin(async { panic!("bug {}", 7) })));
    let outcome = kit.run("t").await;
    assert_eq!((text(&outcome).as_str(), code(&outcome)), ("Error: internal error in t: bug 7", None));
    assert!(kit.journal.entries().contains(&"post:p".to_owned()), "a body's failure still visits post");
}

#[tokio::test]
async fn a_success_after_a_cancellation_is_aborted_and_keeps_its_contexts() {
    let kit = Kit::new();
    let cancel = kit.cancel.clone();
    let kit = kit.tool(FakeTool::new("t").body(move |_, ctx| {
        let cancel = cancel.clone();
        Box::pin(async move {
            ctx.defer_context(message("body"));
            ctx.conclude_turn();
            cancel.cancel();
            ctx.cancel.cancelled().await;
            Ok(json!({}))
        })
    }));
    let outcome = kit.run("t").await;
    assert_eq!(code(&outcome), Some("ABORTED"));
    assert_eq!(contexts(&outcome), ["body"]);
    assert!(!outcome.concludes_turn);
}

#[tokio::test]
async fn a_bodys_own_error_after_a_cancellation_is_kept() {
    let kit = Kit::new();
    let cancel = kit.cancel.clone();
    let kit = kit.tool(FakeTool::new("t").body(move |_, ctx| {
        let cancel = cancel.clone();
        Box::pin(async move {
            cancel.cancel();
            ctx.cancel.cancelled().await;
            Err(ToolFailure::coded("E", "MINE", "mine"))
        })
    }));
    assert_eq!(code(&kit.run("t").await), Some("MINE"));
}

#[tokio::test]
async fn the_callers_cancellation_reaches_the_body_through_a_replaced_token() {
    let kit = Kit::new();
    let cancel = kit.cancel.clone();
    let kit = kit.policy(FakePolicy { replaces_cancel: true, ..watched("p") }).tool(FakeTool::new("t").body(
        move |_, ctx| {
            let cancel = cancel.clone();
            Box::pin(async move {
                cancel.cancel();
                ctx.cancel.cancelled().await;
                Ok(json!({}))
            })
        },
    ));
    assert_eq!(code(&kit.run("t").await), Some("ABORTED"));
}

#[tokio::test]
async fn a_cancellation_during_post_replaces_a_success_and_keeps_an_error() {
    for (fails, expected) in [(false, "ABORTED"), (true, "MINE")] {
        let kit = Kit::new();
        let cancel = kit.cancel.clone();
        let kit = kit.policy(FakePolicy { during_post: Some(cancel), ..watched("p") }).tool(
            FakeTool::new("t").body(move |_, _| {
                Box::pin(async move {
                    if fails { Err(ToolFailure::coded("E", "MINE", "mine")) } else { Ok(json!({})) }
                })
            }),
        );
        assert_eq!(code(&kit.run("t").await), Some(expected));
    }
}

#[tokio::test]
async fn contexts_come_from_the_body_then_the_wrapper_then_post() {
    let kit = Kit::new();
    let tool = noted(&kit, "t");
    let kit = kit
        .policy(FakePolicy { adds_context: true, post: post(PostVerdict::Accept), ..watched("p") })
        .tool(tool);
    assert_eq!(contexts(&kit.run("t").await), ["body", "wrapper", "post"]);
}

#[tokio::test]
async fn a_failed_body_keeps_its_contexts_and_a_block_drops_them() {
    let failing = || {
        FakeTool::new("t").body(|_, ctx| {
            ctx.defer_context(message("body"));
            Box::pin(async { Err(ToolFailure::plain("failed")) })
        })
    };
    let kit = Kit::new().tool(failing());
    assert_eq!(contexts(&kit.run("t").await), ["body"]);

    let feedback = vec![ContentBlock::text("fix a"), ContentBlock::text("fix b")];
    let kit = Kit::new()
        .policy(FakePolicy { post: post(PostVerdict::Block(feedback.clone())), ..watched("p") })
        .tool(failing());
    let outcome = kit.run("t").await;
    assert_eq!(outcome.result, Err(ToolFailure::plain("fix a\nfix b")));
    assert_eq!((outcome.content.clone(), contexts(&outcome)), (feedback, vec!["post"]));
}

#[tokio::test]
async fn a_block_drops_value_meta_and_conclusion() {
    let kit = Kit::new()
        .policy(FakePolicy { post: post(PostVerdict::Block(Vec::new())), ..watched("p") })
        .tool(FakeTool::new("t").with(|tool| tool.meta = |_| Ok(Some(json!(1)))).body(|_, ctx| {
            ctx.conclude_turn();
            Box::pin(async { Ok(json!({})) })
        }));
    let outcome = kit.run("t").await;
    assert_eq!((outcome.meta.clone(), outcome.concludes_turn), (None, false));
    assert_eq!(outcome.result, Err(ToolFailure::plain("a policy blocked the result of this call")));
    assert_eq!(text(&outcome), "(no output)");
}

#[tokio::test]
async fn post_can_replace_content_or_value() {
    let tool = || {
        FakeTool::new("t")
            .output(json!({"type": "object", "additionalProperties": true, "properties": {}}))
            .with(|tool| tool.meta = |value| Ok(Some(value.clone())))
            .body(|_, ctx| {
                ctx.conclude_turn();
                Box::pin(async { Ok(json!({"a": 1})) })
            })
    };
    let run = async |verdict| {
        let kit = Kit::new().policy(FakePolicy { post: post(verdict), ..watched("p") }).tool(tool());
        kit.run("t").await
    };
    let outcome = run(PostVerdict::AcceptContent(vec![ContentBlock::text("shown")])).await;
    assert_eq!(outcome.result, Ok(json!({"a": 1})));
    assert_eq!((text(&outcome).as_str(), &outcome.meta), ("shown", &Some(json!({"a": 1}))));

    let outcome = run(PostVerdict::AcceptValue(json!({"b": 2}))).await;
    assert_eq!(outcome.result, Ok(json!({"b": 2})));
    assert_eq!((text(&outcome).as_str(), &outcome.meta), ("{\"b\":2}", &Some(json!({"b": 2}))));
    assert!(outcome.concludes_turn);

    let outcome = run(PostVerdict::AcceptValue(json!("no object"))).await;
    assert_eq!(code(&outcome), Some("INVALID_TOOL_OUTPUT"));
    assert!(!outcome.concludes_turn);
}

#[tokio::test]
async fn a_value_for_a_failed_call_is_an_error() {
    let kit = Kit::new()
        .policy(FakePolicy { post: post(PostVerdict::AcceptValue(json!({}))), ..watched("p") })
        .tool(FakeTool::new("t").body(|_, _| Box::pin(async { Err(ToolFailure::plain("failed")) })));
    let outcome = kit.run("t").await;
    assert!(outcome.is_error() && text(&outcome).contains("stays failed"), "{}", text(&outcome));
}

#[tokio::test]
async fn output_that_breaks_the_contract_names_every_violation() {
    let strict = json!({"type": "object", "additionalProperties": false, "properties": {"a": {"type": "string"}}, "required": ["a"]});
    let cases: Vec<(FakeTool, &[&str])> = vec![
        (
            FakeTool::new("t").output(strict).body(|_, _| Box::pin(async { Ok(json!({"b": 1})) })),
            &["t returned", "value.a", "value.b"],
        ),
        (FakeTool::new("t").body(|_, _| Box::pin(async { Ok(json!(-0.0)) })), &["lossless"]),
        (FakeTool::new("t").with(|tool| tool.render = |_| Err("bad".into())), &["output.render failed: bad"]),
        (FakeTool::new("t").with(|tool| tool.render = |_| panic!("boom")), &["output.render failed", "boom"]),
        (
            FakeTool::new("t").with(|tool| tool.meta = |_| Err("bad".into())),
            &["output.presentationMeta failed: bad"],
        ),
        (FakeTool::new("t").with(|tool| tool.meta = |_| Ok(Some(json!(-0.0)))), &["output.presentationMeta"]),
    ];
    for (tool, parts) in cases {
        let outcome = Kit::new().tool(tool).run("t").await;
        assert_eq!(code(&outcome), Some("INVALID_TOOL_OUTPUT"));
        for part in parts {
            assert!(text(&outcome).contains(part), "{} lacks {part}", text(&outcome));
        }
    }
}

#[tokio::test]
async fn a_success_made_by_a_wrapper_is_validated_and_rendered_again() {
    let authored = |value: Value| Outcome {
        result: Ok(value),
        content: vec![ContentBlock::text("authored")],
        meta: Some(json!("authored")),
        additional_contexts: vec![message("authored")],
        concludes_turn: false,
    };
    let run = async |outcome: Outcome, name: &str| {
        let tool = FakeTool::new("t").output(json!({"type": "string"}));
        let kit =
            Kit::new().policy(FakePolicy { short_circuit: Some(Ok(outcome)), ..watched("p") }).tool(tool);
        kit.run(name).await
    };
    let outcome = run(authored(json!("ok")), "t").await;
    assert_eq!((text(&outcome).as_str(), &outcome.meta), ("\"ok\"", &None));
    assert_eq!(contexts(&outcome), ["authored"]);
    assert_eq!(code(&run(authored(json!(1)), "t").await), Some("INVALID_TOOL_OUTPUT"));
    assert_eq!(code(&run(authored(json!("ok")), "gone").await), Some("UNKNOWN_TOOL"));

    let failed =
        Outcome { content: vec![ContentBlock::text("kept")], ..Outcome::failed(ToolFailure::plain("x")) };
    assert_eq!(text(&run(failed, "t").await), "kept");
}

#[tokio::test]
async fn content_is_projected_before_post_and_finalized_once_after() {
    let kit = Kit::new().policy(FakePolicy { pre: deny("no"), ..watched("p") }).tool(
        FakeTool::new("t").with(|tool| {
            tool.project =
                |outcome| Some(vec![ContentBlock::text(format!("projected {}", outcome.is_error()))]);
            tool.finalize = |outcome| {
                let mut content = outcome.content.clone();
                content.push(ContentBlock::text("final"));
                Some(content)
            };
        }),
    );
    let outcome = kit.run("t").await;
    assert_eq!(text(&outcome), "projected true|final");
}

#[tokio::test]
async fn a_finalizer_that_panics_ends_the_call_with_an_error() {
    let kit = Kit::new()
        .policy(watched("p"))
        .tool(FakeTool::new("t").with(|tool| tool.finalize = |_| panic!("twice?")));
    let outcome = kit.run("t").await;
    assert_eq!(text(&outcome), "Error: internal error in finalizeContent: twice?");
    assert!(kit.journal.entries().contains(&"result:p".to_owned()));
}

#[tokio::test]
async fn a_checkpoint_that_fails_keeps_the_body_from_running() {
    let kit = Kit::new();
    let tool = noted(&kit, "t");
    let kit = kit.tool(tool);
    kit.session.host.fail_checkpoint();
    let outcome = kit.run("t").await;
    assert_eq!(text(&outcome), "Error: the log could not be flushed");
    assert!(kit.journal.entries().is_empty());
}

#[tokio::test]
async fn the_tool_is_looked_up_again_at_dispatch() {
    struct Unregister(std::sync::Mutex<Option<crate::registry::Disposer>>);
    #[async_trait::async_trait]
    impl crate::policy::Policy for Unregister {
        fn name(&self) -> &str {
            "unregister"
        }
        async fn pre_execute(
            &self,
            _call: &crate::call::PendingCall,
            next: crate::policy::PreNext<'_>,
        ) -> Result<PreDecision, ToolFailure> {
            self.0.lock().unwrap().take();
            next.run().await
        }
    }
    let kit = Kit::new();
    let tool = noted(&kit, "t");
    let disposer = kit.registry().register(None, Arc::new(tool), Registration::default()).unwrap();
    let policy = Unregister(std::sync::Mutex::new(Some(disposer)));
    kit.registry().add_policy(None, Arc::new(policy)).unwrap().keep();
    assert_eq!(code(&kit.run("t").await), Some("UNKNOWN_TOOL"));
    assert!(kit.journal.entries().is_empty());
}

#[tokio::test]
async fn in_code_mode_a_native_name_is_reached_from_programs_only() {
    let kit = Kit::new();
    let tool = noted(&kit, "t");
    let kit = kit.policy(watched("p")).tool(tool);
    kit.registry().provide_run_code(Arc::new(FakeTool::new("run_code"))).unwrap().keep();
    kit.registry().set_code_mode(None, CodeMode::Code).unwrap().keep();

    let outcome = kit.run("t").await;
    assert_eq!(code(&outcome), Some("UNKNOWN_TOOL"));
    assert!(text(&outcome).contains("run_code"), "{}", text(&outcome));
    assert_eq!(kit.journal.entries(), ["result:p"], "no policy sees a call that can only fail");
    assert!(!kit.run("run_code").await.is_error());

    let sub_call =
        |name: &str| crate::call::Call { parent: Some(CallId::new("root")), ..kit.call(name, json!({})) };
    assert!(!kit.pipeline.run(sub_call("t")).await.is_error());
    assert_eq!(code(&kit.pipeline.run(sub_call("run_code")).await), Some("UNKNOWN_TOOL"));

    kit.cancel.cancel();
    assert_eq!(code(&kit.run("t").await), Some("ABORTED_BEFORE_DISPATCH"));
}

#[tokio::test]
async fn a_sub_call_shows_nothing_and_waits_for_no_checkpoint() {
    let kit = Kit::new().tool(FakeTool::new("t"));
    let call = crate::call::Call { parent: Some(CallId::new("root")), ..kit.call("t", json!({})) };
    assert!(!kit.pipeline.run(call).await.is_error());
    assert!(kit.session.host.entries().is_empty());
}

#[tokio::test]
async fn a_composite_makes_sub_calls_through_the_pipeline() {
    let composite = FakeTool::new("composite").body(|_, ctx| {
        Box::pin(async move {
            let pipeline = ctx.nested().unwrap().pipeline.clone();
            let id = CallId::new(format!("{}:ptc:1", ctx.execution.call_id));
            let call = ctx.sub_call(id, "leaf".into(), json!({"x": 1}), ctx.cancel.child_token());
            let outcome = pipeline.run(call).await;
            for context in outcome.additional_contexts {
                ctx.defer_context(context);
            }
            outcome.result
        })
    });
    let kit = Kit::new().policy(watched("p")).tool(composite).tool(FakeTool::new("leaf"));
    assert_eq!(kit.run("composite").await.result, Ok(json!({"x": 1})));
    let starts = kit.journal.entries().iter().filter(|entry| *entry == "pre:p").count();
    assert_eq!(starts, 2, "policies see the sub-call too");
}

#[tokio::test]
async fn policies_of_a_scope_see_only_its_calls() {
    let kit = Kit::new().tool(FakeTool::new("t"));
    let parent = kit.registry().open_scope(None);
    let child = kit.registry().open_scope(Some(parent.key()));
    let other = kit.registry().open_scope(None);
    let policy = FakePolicy { journal: kit.journal.clone(), ..watched("scoped") };
    kit.registry().add_policy(Some(parent.key()), Arc::new(policy)).unwrap().keep();
    for (scope, is_seen) in
        [(None, false), (Some(other.key()), false), (Some(parent.key()), true), (Some(child.key()), true)]
    {
        let before = kit.journal.entries().len();
        kit.pipeline.run(crate::call::Call { scope, ..kit.call("t", json!({})) }).await;
        assert_eq!(kit.journal.entries().len() > before, is_seen);
    }
}
