//! Batches: order, overlap, barriers, stops.

use super::kit::{FakePolicy, FakeTool, Journal, Kit, message, text};
use crate::context::SessionScope;
use crate::fake::HostEntry;
use crate::registry::Registration;
use crate::run::Pipeline;
use crate::schedule::{Batch, BatchError, BatchExecutor, BatchResult};
use protocol::decision::{PermissionOutcome, PreDecision};
use protocol::event::SessionEvent;
use protocol::id::CallId;
use protocol::message::RequestedCall;
use protocol::tool::ToolFailure;
use serde_json::json;
use std::num::NonZeroUsize;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use tokio::sync::Notify;

pub(super) fn requested(idx: usize, name: &str, arguments: &str) -> RequestedCall {
    RequestedCall {
        id: CallId::new(format!("c{idx}")),
        provider_id: format!("p{idx}"),
        name: name.to_owned(),
        arguments: arguments.to_owned(),
    }
}

fn batch(kit: &Kit, names: &[&str]) -> Batch {
    Batch {
        calls: names.iter().enumerate().map(|(idx, name)| requested(idx, name, "{}")).collect(),
        turn: 1,
        step: 2,
        cancel: kit.cancel.clone(),
        ..Batch::default()
    }
}

async fn execute(kit: &Kit, batch: Batch) -> BatchResult {
    kit.pipeline.execute(batch, &kit.session.scope).await.unwrap()
}

/// `call:c0`, `result:c0 ok` in the order of the log.
fn logged(kit: &Kit) -> Vec<String> {
    let events = kit.session.host.events().into_iter();
    events
        .filter_map(|event| match event {
            SessionEvent::ToolCall { call_id, turn: 1, step: 2, .. } => Some(format!("call:{call_id}")),
            SessionEvent::ToolResult { message, error, turn: 1, step: 2, .. } => {
                let code = error.as_ref().and_then(ToolFailure::code).unwrap_or("plain");
                Some(format!(
                    "result:{}{}",
                    message.call_id,
                    if message.is_error { format!(" {code}") } else { String::new() }
                ))
            }
            _ => None,
        })
        .collect()
}

/// A tool whose bodies note their begin and end, and yield a few times between.
fn noting(journal: &Journal, name: &'static str) -> FakeTool {
    let journal = journal.clone();
    FakeTool::new(name).body(move |_, ctx| {
        let journal = journal.clone();
        let id = ctx.execution.call_id.clone();
        Box::pin(async move {
            journal.note(format!("begin:{id}"));
            for _ in 0..3 {
                tokio::task::yield_now().await;
            }
            journal.note(format!("end:{id}"));
            Ok(json!({}))
        })
    })
}

#[tokio::test]
async fn an_exclusive_call_is_a_barrier_between_two_pools() {
    let kit = Kit::new();
    let (safe, alone) = (noting(&kit.journal, "safe").safe(), noting(&kit.journal, "alone"));
    let kit = kit.tool(safe).tool(alone);
    let result = execute(&kit, batch(&kit, &["safe", "safe", "alone", "safe", "safe"])).await;
    assert_eq!(result.results.len(), 5);
    let mut entries = kit.journal.entries();
    // Which of two equal bodies ends first is nobody's promise.
    entries[2..4].sort();
    entries[8..10].sort();
    let expected = [
        "begin:c0", "begin:c1", "end:c0", "end:c1", "begin:c2", "end:c2", "begin:c3", "begin:c4", "end:c3",
        "end:c4",
    ];
    assert_eq!(entries, expected);
    let log = logged(&kit);
    let at = |entry: &str| log.iter().position(|other| other == entry).unwrap();
    assert!(at("result:c1") < at("call:c2") && at("result:c2") < at("call:c3"), "{log:?}");
}

#[tokio::test]
async fn results_are_logged_in_model_order_however_fast_they_come() {
    let kit = Kit::new();
    let gate = Arc::new(Notify::new());
    let (wait, open) = (gate.clone(), gate);
    let kit = kit
        .tool(FakeTool::new("slow").safe().body(move |_, _| {
            let wait = wait.clone();
            Box::pin(async move {
                wait.notified().await;
                Ok(json!("slow"))
            })
        }))
        .tool(FakeTool::new("fast").safe().body(move |_, ctx| {
            open.notify_one();
            ctx.defer_context(message("fast"));
            Box::pin(async { Ok(json!("fast")) })
        }));
    let result = execute(&kit, batch(&kit, &["slow", "fast"])).await;
    assert_eq!(logged(&kit), ["call:c0", "call:c1", "result:c0", "result:c1"]);
    let texts: Vec<String> = result.results.iter().map(|result| text(&result.outcome)).collect();
    assert_eq!(texts, ["\"slow\"", "\"fast\""]);
    assert_eq!(result.additional_contexts, [message("fast")]);
    let settled = kit.session.host.entries().into_iter().filter_map(|entry| match entry {
        HostEntry::Live(protocol::live::LiveUpdate::CallSettled { call_id, .. }) => Some(call_id.to_string()),
        _ => None,
    });
    assert_eq!(settled.collect::<Vec<_>>(), ["c1", "c0"], "a card finishes when its body does");
}

#[tokio::test]
async fn no_more_bodies_run_than_the_cap_allows() {
    for (cap, most) in [(Some(2), 2), (Some(1), 1), (None, 10)] {
        let running = Arc::new((AtomicUsize::new(0), AtomicUsize::new(0)));
        let seen = running.clone();
        let kit = Kit::new().tool(FakeTool::new("safe").safe().body(move |_, _| {
            let seen = seen.clone();
            Box::pin(async move {
                let now = seen.0.fetch_add(1, Ordering::SeqCst) + 1;
                seen.1.fetch_max(now, Ordering::SeqCst);
                for _ in 0..20 {
                    tokio::task::yield_now().await;
                }
                seen.0.fetch_sub(1, Ordering::SeqCst);
                Ok(json!({}))
            })
        }));
        let mut batch = batch(&kit, &["safe"; 14]);
        batch.max_parallel = cap.and_then(NonZeroUsize::new);
        execute(&kit, batch).await;
        assert_eq!(running.1.load(Ordering::SeqCst), most);
    }
}

#[tokio::test]
async fn a_denial_in_the_middle_of_a_pool_keeps_the_order() {
    struct DenySecond;
    #[async_trait::async_trait]
    impl crate::policy::Policy for DenySecond {
        fn name(&self) -> &str {
            "deny"
        }
        async fn pre_execute(
            &self,
            call: &crate::call::PendingCall,
            next: crate::policy::PreNext<'_>,
        ) -> Result<PreDecision, ToolFailure> {
            match call.execution.call_id.as_str() {
                "c1" => Ok(PreDecision::Deny { reason: "no".into(), info: None }),
                _ => next.run().await,
            }
        }
    }
    let kit = Kit::new();
    let tool = noting(&kit.journal, "safe").safe();
    let kit = kit.tool(tool);
    kit.registry().add_policy(None, Arc::new(DenySecond)).unwrap().keep();
    execute(&kit, batch(&kit, &["safe", "safe", "safe"])).await;
    assert_eq!(logged(&kit), ["call:c0", "call:c1", "call:c2", "result:c0", "result:c1 plain", "result:c2"]);
    assert_eq!(kit.journal.entries()[..2], ["begin:c0", "begin:c2"]);
}

#[tokio::test]
async fn a_cancelled_batch_commits_what_runs_and_skips_the_rest() {
    let kit = Kit::new();
    let cancel = kit.cancel.clone();
    let alone = noting(&kit.journal, "alone");
    let kit = kit.policy(FakePolicy { name: "p", ..FakePolicy::default() }).tool(alone).tool(
        FakeTool::new("safe").safe().body(move |_, ctx| {
            let cancel = cancel.clone();
            Box::pin(async move {
                ctx.defer_context(message("kept"));
                cancel.cancel();
                ctx.cancel.cancelled().await;
                Err(ToolFailure::coded("E", "MINE", "mine"))
            })
        }),
    );
    let result = execute(&kit, batch(&kit, &["safe", "alone", "alone"])).await;
    assert_eq!(
        logged(&kit),
        [
            "call:c0",
            "result:c0 MINE",
            "call:c1",
            "result:c1 ABORTED_BEFORE_DISPATCH",
            "call:c2",
            "result:c2 ABORTED_BEFORE_DISPATCH"
        ]
    );
    assert_eq!(result.additional_contexts, [message("kept")]);
    let observed = kit.journal.entries().iter().filter(|entry| *entry == "result:p").count();
    assert_eq!(observed, 3, "each call has one observed result");
    assert!(!kit.journal.entries().iter().any(|entry| entry.starts_with("begin")));
}

#[tokio::test]
async fn a_batch_that_is_cancelled_already_dispatches_nothing() {
    let kit = Kit::new();
    let tool = noting(&kit.journal, "safe").safe();
    let kit = kit.tool(tool);
    kit.cancel.cancel();
    let result = execute(&kit, batch(&kit, &["safe", "safe"])).await;
    assert_eq!(result.results.len(), 2);
    assert!(kit.journal.entries().is_empty());
}

#[tokio::test]
async fn a_question_answered_cancelled_stops_the_calls_behind_it() {
    let kit = Kit::new();
    let safe = noting(&kit.journal, "safe").safe();
    let ask = PreDecision::Ask { reason: None, display_reason: None, rule: None, grant: None };
    let kit = kit.policy(FakePolicy { name: "p", pre: Some(Ok(ask)), ..FakePolicy::default() }).tool(safe);
    for answer in [PermissionOutcome::AllowedOnce, PermissionOutcome::Cancelled] {
        kit.session.world.approval.answer(answer);
    }
    let result = execute(&kit, batch(&kit, &["safe", "safe", "safe"])).await;
    assert_eq!(result.results.len(), 3);
    assert_eq!(kit.session.world.approval.asked().len(), 2, "no further question");
    let log = logged(&kit);
    assert!(log.contains(&"result:c1 ABORTED_BEFORE_DISPATCH".to_owned()), "{log:?}");
    assert!(log.contains(&"result:c2 ABORTED_BEFORE_DISPATCH".to_owned()), "{log:?}");
    assert!(kit.session.host.entries().contains(&HostEntry::StopTurn));
}

#[tokio::test]
async fn a_refusal_ends_only_its_own_call() {
    let kit = Kit::new();
    let tool = noting(&kit.journal, "alone");
    let ask = PreDecision::Ask { reason: None, display_reason: None, rule: None, grant: None };
    let kit = kit.policy(FakePolicy { name: "p", pre: Some(Ok(ask)), ..FakePolicy::default() }).tool(tool);
    kit.session.world.approval.answer(PermissionOutcome::Rejected);
    kit.session.world.approval.answer(PermissionOutcome::AllowedOnce);
    execute(&kit, batch(&kit, &["alone", "alone"])).await;
    assert_eq!(logged(&kit), ["call:c0", "result:c0 plain", "call:c1", "result:c1"]);
}

#[tokio::test]
async fn arguments_that_do_not_parse_are_answered_and_siblings_run() {
    let kit = Kit::new();
    let tool = noting(&kit.journal, "alone");
    let kit = kit.tool(tool);
    let mut batch = batch(&kit, &[]);
    for (idx, arguments) in ["{\"cut\": ", "", "[]", "null", "{}"].iter().enumerate() {
        batch.calls.push(requested(idx, "alone", arguments));
    }
    execute(&kit, batch).await;
    let results: Vec<String> = logged(&kit).into_iter().filter(|entry| entry.starts_with("result")).collect();
    assert_eq!(
        results,
        [
            "result:c0 INVALID_ARGS",
            "result:c1",
            "result:c2 INVALID_ARGS",
            "result:c3 INVALID_ARGS",
            "result:c4"
        ]
    );
}

#[tokio::test]
async fn a_classifier_that_panics_or_a_tool_nobody_knows_runs_alone() {
    let kit = Kit::new();
    let (bad, safe) = (noting(&kit.journal, "bad"), noting(&kit.journal, "safe").safe());
    let kit = kit.tool(bad.with(|tool| tool.safe = |_| panic!("classifier"))).tool(safe);
    execute(&kit, batch(&kit, &["safe", "bad", "nobody", "safe"])).await;
    assert_eq!(kit.journal.entries(), ["begin:c0", "end:c0", "begin:c1", "end:c1", "begin:c3", "end:c3"]);
}

#[tokio::test]
async fn a_later_call_is_classified_just_before_it_starts() {
    // The first call's result replaces the safe tool by an exclusive one before the others start.
    struct Swap(std::sync::Mutex<Option<(crate::registry::Disposer, crate::registry::Registry, Journal)>>);
    impl crate::policy::Policy for Swap {
        fn name(&self) -> &str {
            "swap"
        }
        fn observe(&self, _call: &crate::call::PendingCall, _outcome: &protocol::tool::Outcome) {
            if let Some((disposer, registry, journal)) = self.0.lock().unwrap().take() {
                drop(disposer);
                let tool = noting(&journal, "safe");
                registry.register(None, Arc::new(tool), Registration::default()).unwrap().keep();
            }
        }
    }
    let kit = Kit::new();
    let first = noting(&kit.journal, "first");
    let safe = noting(&kit.journal, "safe").safe();
    let kit = kit.tool(first);
    let disposer = kit.registry().register(None, Arc::new(safe), Registration::default()).unwrap();
    let swap = Swap(std::sync::Mutex::new(Some((disposer, kit.registry().clone(), kit.journal.clone()))));
    kit.registry().add_policy(None, Arc::new(swap)).unwrap().keep();
    execute(&kit, batch(&kit, &["first", "safe", "safe"])).await;
    assert_eq!(kit.journal.entries(), ["begin:c0", "end:c0", "begin:c1", "end:c1", "begin:c2", "end:c2"]);
}

#[tokio::test]
async fn a_success_can_conclude_the_turn() {
    let concluding = |name: &str, fails: bool| {
        FakeTool::new(name).body(move |_, ctx| {
            ctx.conclude_turn();
            Box::pin(async move { if fails { Err(ToolFailure::plain("x")) } else { Ok(json!({})) } })
        })
    };
    let kit =
        Kit::new().tool(concluding("ends", false)).tool(concluding("fails", true)).tool(FakeTool::new("t"));
    assert!(execute(&kit, batch(&kit, &["t", "ends", "t"])).await.concluded);
    assert!(!execute(&kit, batch(&kit, &["t", "fails"])).await.concluded);
}

#[tokio::test]
async fn a_log_that_fails_ends_the_batch_once_nothing_runs() {
    let kit = Kit::new();
    let host = kit.session.host.clone();
    let journal = kit.journal.clone();
    let kit = kit.tool(FakeTool::new("safe").safe().body(move |_, _| {
        let (host, journal) = (host.clone(), journal.clone());
        Box::pin(async move {
            host.fail_append();
            for _ in 0..5 {
                tokio::task::yield_now().await;
            }
            journal.note("end");
            Ok(json!({}))
        })
    }));
    let error = kit.pipeline.execute(batch(&kit, &["safe", "safe"]), &kit.session.scope).await.unwrap_err();
    assert_eq!(error.failure, ToolFailure::plain("the log could not be written"));
    assert!(error.committed.results.is_empty());
    assert!(kit.journal.entries().len() <= 2 && !kit.journal.entries().is_empty());
}

#[tokio::test]
async fn an_unlogged_batch_writes_no_call_or_result() {
    let kit = Kit::new().tool(FakeTool::new("t"));
    let batch = Batch { unlogged: true, ..batch(&kit, &["t"]) };
    assert_eq!(execute(&kit, batch).await.results.len(), 1);
    assert!(kit.session.host.events().is_empty());
}

#[tokio::test]
async fn the_nearest_executor_takes_the_batch_and_one_that_went_away_takes_none() {
    struct Fixed(&'static str);
    #[async_trait::async_trait]
    impl BatchExecutor for Fixed {
        async fn execute(
            &self,
            _pipeline: &Pipeline,
            _batch: Batch,
            _session: &SessionScope,
        ) -> Result<BatchResult, BatchError> {
            Ok(BatchResult { additional_contexts: vec![message(self.0)], ..BatchResult::default() })
        }
    }
    let kit = Kit::new().tool(FakeTool::new("t"));
    let scope = kit.registry().open_scope(None);
    let run = async |scope| {
        let batch = Batch { scope, ..batch(&kit, &["t"]) };
        kit.pipeline.execute(batch, &kit.session.scope).await
    };
    assert_eq!(run(Some(scope.key())).await.unwrap().results.len(), 1);
    let outer = kit.registry().set_executor(None, Arc::new(Fixed("outer"))).unwrap();
    let inner = kit.registry().set_executor(Some(scope.key()), Arc::new(Fixed("inner"))).unwrap();
    assert_eq!(run(None).await.unwrap().additional_contexts, [message("outer")]);
    assert_eq!(run(Some(scope.key())).await.unwrap().additional_contexts, [message("inner")]);
    drop(inner);
    assert!(run(Some(scope.key())).await.is_err());
    drop(outer);
    assert!(run(None).await.is_err());
}
