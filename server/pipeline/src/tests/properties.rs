//! Whatever the calls do and whenever the batch is cancelled: one result a call, in model order, and nothing runs after.

use super::batches::requested;
use super::kit::{FakeTool, Kit};
use crate::schedule::Batch;
use proptest::prelude::*;
use protocol::event::SessionEvent;
use protocol::tool::ToolFailure;
use serde_json::json;
use std::num::NonZeroUsize;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

/// What one call does.
#[derive(Clone, Debug)]
struct Plan {
    safe: bool,
    fails: bool,
    panics: bool,
    known: bool,
    well_formed: bool,
    /// How often its body yields.
    n_yields: usize,
    /// Whether it ends early when cancelled.
    listens: bool,
}

fn plan() -> impl Strategy<Value = Plan> {
    (any::<bool>(), 0..10_u8, 0..12_usize, any::<bool>()).prop_map(|(safe, kind, n_yields, listens)| Plan {
        safe,
        fails: kind == 0,
        panics: kind == 1,
        known: kind != 2,
        well_formed: kind != 3,
        n_yields,
        listens,
    })
}

fn arguments(plan: &Plan) -> String {
    match plan.well_formed {
        true => json!({"fails": plan.fails, "panics": plan.panics, "yields": plan.n_yields, "listens": plan.listens})
            .to_string(),
        false => "{\"cut".to_owned(),
    }
}

fn tool(name: &str, running: &Arc<AtomicUsize>) -> FakeTool {
    struct Running(Arc<AtomicUsize>);
    impl Drop for Running {
        fn drop(&mut self) {
            self.0.fetch_sub(1, Ordering::SeqCst);
        }
    }
    let running = running.clone();
    FakeTool::new(name).body(move |arguments, ctx| {
        running.fetch_add(1, Ordering::SeqCst);
        let guard = Running(running.clone());
        Box::pin(async move {
            let _guard = guard;
            for _ in 0..arguments["yields"].as_u64().unwrap() {
                if arguments["listens"] == true && ctx.cancel.is_cancelled() {
                    return Err(ToolFailure::aborted());
                }
                tokio::task::yield_now().await;
            }
            assert!(arguments["panics"] != true, "told to panic");
            match arguments["fails"] == true {
                true => Err(ToolFailure::plain("failed")),
                false => Ok(json!({})),
            }
        })
    })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(200))]

    #[test]
    fn each_call_has_one_result_in_model_order_and_nothing_outlives_the_batch(
        plans in proptest::collection::vec(plan(), 0..12),
        cap in 1..5_usize,
        cancel_after in proptest::option::of(0..40_usize),
    ) {
        let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
        runtime.block_on(async {
            let running = Arc::new(AtomicUsize::new(0));
            let kit = Kit::new().tool(tool("safe", &running).safe()).tool(tool("alone", &running));
            let batch = Batch {
                calls: plans
                    .iter()
                    .enumerate()
                    .map(|(idx, plan)| {
                        let name = match (plan.known, plan.safe) {
                            (false, _) => "nobody",
                            (true, true) => "safe",
                            (true, false) => "alone",
                        };
                        requested(idx, name, &arguments(plan))
                    })
                    .collect(),
                turn: 1,
                step: 1,
                cancel: kit.cancel.clone(),
                max_parallel: NonZeroUsize::new(cap),
                ..Batch::default()
            };
            let ids: Vec<_> = batch.calls.iter().map(|call| call.id.clone()).collect();
            let cancel = kit.cancel.clone();
            let canceller = async {
                if let Some(n) = cancel_after {
                    for _ in 0..n {
                        tokio::task::yield_now().await;
                    }
                    cancel.cancel();
                }
            };
            let (result, ()) = tokio::join!(kit.pipeline.execute(batch, &kit.session.scope), canceller);
            let result = result.unwrap();
            assert_eq!(running.load(Ordering::SeqCst), 0, "nothing runs after settlement");
            let answered: Vec<_> = result.results.iter().map(|result| result.call_id.clone()).collect();
            assert_eq!(answered, ids);

            let mut n_called = Vec::new();
            let mut n_answered = Vec::new();
            for event in kit.session.host.events() {
                match event {
                    SessionEvent::ToolCall { call_id, .. } => n_called.push(call_id),
                    SessionEvent::ToolResult { message, .. } => {
                        assert!(n_called.contains(&message.call_id), "a result follows its call");
                        assert!(!message.content.is_empty());
                        n_answered.push(message.call_id);
                    }
                    _ => {}
                }
            }
            assert_eq!((&n_called, &n_answered), (&ids, &ids));
            for (plan, result) in plans.iter().zip(&result.results) {
                let code = result.outcome.result.as_ref().err().and_then(ToolFailure::code);
                if cancel_after.is_none() {
                    let expected = match plan {
                        Plan { known: false, .. } => Some("UNKNOWN_TOOL"),
                        Plan { well_formed: false, .. } => Some("INVALID_ARGS"),
                        _ => None,
                    };
                    assert_eq!(code, expected, "{plan:?}");
                    assert_eq!(
                        result.outcome.is_error(),
                        plan.fails || plan.panics || expected.is_some(),
                        "{plan:?}"
                    );
                }
            }
        });
    }
}
