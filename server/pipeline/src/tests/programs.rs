//! The calls of programs: a "program" here is a future that calls the lane's host.

use super::kit::{FakePolicy, FakeTool, Kit, code, contexts, message, text};
use crate::context::ToolContext;
use crate::fake::HostEntry;
use crate::policies::spill::SpillPolicy;
use crate::policy::Policy;
use crate::programs::{ProgramLane, SubCallLog};
use crate::registry::{CodeMode, Registration};
use crate::sdk::program_sections;
use async_trait::async_trait;
use futures::future::{BoxFuture, join_all};
use protocol::content::{ContentBlock, ImageAttachment};
use protocol::decision::PreDecision;
use protocol::event::SessionEvent;
use protocol::id::AttachmentId;
use protocol::tool::{Outcome, ToolFailure};
use serde_json::{Value, json};
use services::code_runtime::CodeHost;
use std::num::NonZeroUsize;
use std::sync::Arc;
use std::time::Duration;

/// Real time, for bodies that overlap.
#[expect(
    clippy::disallowed_methods,
    reason = "several bodies sleep at once, which the clock in memory does not order"
)]
async fn sleep(duration: Duration) {
    tokio::time::sleep(duration).await;
}

type Program = dyn Fn(Arc<dyn CodeHost>) -> BoxFuture<'static, Value> + Send + Sync;

/// The program tool: its program is a closure.
fn program<F>(program: impl Fn(Arc<dyn CodeHost>) -> F + Send + Sync + 'static) -> FakeTool
where
    F: Future<Output = Value> + Send + 'static,
{
    let program: Arc<Program> = Arc::new(move |host| Box::pin(program(host)));
    FakeTool::new("run_code").body(move |_, ctx| Box::pin(drive(program.clone(), ctx)))
}

async fn drive(program: Arc<Program>, ctx: &ToolContext) -> Result<Value, ToolFailure> {
    let lane = ProgramLane::new(ctx, NonZeroUsize::new(3))?;
    let (host, signal) = (lane.host(), lane.signal().clone());
    // As a runtime does: the program stops when it is cancelled.
    let run = async move {
        tokio::select! {
            biased;
            () = signal.cancelled() => json!("stopped"),
            value = program(host) => value,
        }
    };
    lane.drive(run).await
}

trait InCodeMode {
    fn run_code(self, tool: FakeTool) -> Self;
}

impl InCodeMode for Kit {
    fn run_code(self, tool: FakeTool) -> Self {
        self.registry().provide_run_code(Arc::new(tool)).unwrap().keep();
        self.registry().set_code_mode(None, CodeMode::Code).unwrap().keep();
        self
    }
}

/// A body that notes its start and its end, and takes the milliseconds its argument says.
fn timed(kit: &Kit, name: &'static str) -> FakeTool {
    let journal = kit.journal.clone();
    FakeTool::new(name).body(move |arguments, ctx| {
        let journal = journal.clone();
        let ms = arguments["ms"].as_u64().unwrap_or(1);
        Box::pin(async move {
            journal.note(format!("{name}+{}", arguments["n"]));
            tokio::select! {
                () = ctx.cancel.cancelled() => journal.note(format!("{name}!{}", arguments["n"])),
                () = sleep(Duration::from_millis(ms)) => journal.note(format!("{name}-{}", arguments["n"])),
            }
            Ok(arguments.clone())
        })
    })
}

/// The sub-call events in short: `+id name` and `-id outcome`.
fn dispatches(kit: &Kit) -> Vec<String> {
    let short = |event: SessionEvent| match event {
        SessionEvent::PtcDispatchStart { sub_call_id, root_call_id, parent_call_id, name, .. } => {
            assert_eq!((root_call_id.as_str(), parent_call_id.as_str()), ("call-1", "call-1"));
            Some(format!("+{sub_call_id} {name}"))
        }
        SessionEvent::PtcDispatch { sub_call_id, result, .. } => {
            let code = result.error.as_ref().and_then(ToolFailure::code).unwrap_or("plain");
            Some(format!("-{sub_call_id} {}", if result.is_error { code } else { "ok" }))
        }
        _ => None,
    };
    kit.session.host.events().into_iter().filter_map(short).collect()
}

fn answers(answers: Vec<Result<Value, String>>) -> Value {
    answers.into_iter().map(|answer| answer.unwrap_or_else(Value::from)).collect()
}

#[tokio::test]
async fn a_sub_call_has_its_own_identity_and_two_events() {
    let kit = Kit::new().tool(FakeTool::new("t").with(|tool| tool.meta = |_| Ok(Some(json!({"m": 1})))));
    let kit = kit.run_code(program(|host| async move { host.call("t", json!({"x": 1})).await.unwrap() }));
    assert_eq!(kit.run("run_code").await.result, Ok(json!({"x": 1})));
    assert_eq!(dispatches(&kit), ["+call-1:ptc:1 t", "-call-1:ptc:1 ok"]);
    let Some(SessionEvent::PtcDispatch { result, arguments, .. }) = kit.session.host.events().pop() else {
        panic!("no settle event")
    };
    assert_eq!(arguments, json!({"x": 1}));
    assert_eq!((result.meta, result.is_error), (Some(json!({"m": 1})), false));
    // Nothing of a sub-call is shown live but what the outer call shows.
    let sub_lives =
        kit.session.host.entries().into_iter().filter(|entry| matches!(entry, HostEntry::Live(_)));
    assert_eq!(sub_lives.count(), 2);
}

#[tokio::test]
async fn safe_calls_overlap_within_the_cap_and_exclusive_ones_are_barriers() {
    let kit = Kit::new();
    let (safe, alone) = (timed(&kit, "safe").safe(), timed(&kit, "alone"));
    let kit = kit.tool(safe).tool(alone).run_code(program(|host| async move {
        let plan = [
            ("safe", 120),
            ("safe", 40),
            ("safe", 80),
            ("safe", 15),
            ("alone", 5),
            ("alone", 1),
            ("safe", 1),
        ];
        let calls = plan.iter().enumerate().map(|(n, (name, ms))| host.call(name, json!({"n": n, "ms": ms})));
        let calls: Vec<_> = calls.collect();
        answers(join_all(calls).await)
    }));
    assert!(!kit.run("run_code").await.is_error());
    let expected = [
        "safe+0", "safe+1", "safe+2", "safe-1", "safe+3", "safe-3", "safe-2", "safe-0", "alone+4", "alone-4",
        "alone+5", "alone-5", "safe+6", "safe-6",
    ];
    assert_eq!(kit.journal.entries(), expected);
    let ends: Vec<String> = dispatches(&kit).into_iter().filter(|entry| entry.starts_with('-')).collect();
    let in_order: Vec<String> = (1..=7).map(|n| format!("-call-1:ptc:{n} ok")).collect();
    assert_eq!(ends, in_order, "commits keep the order of submission");
}

#[tokio::test]
async fn the_second_call_is_judged_after_the_first() {
    struct SlowJudge(super::kit::Journal);
    #[async_trait]
    impl Policy for SlowJudge {
        fn name(&self) -> &str {
            "judge"
        }
        async fn pre_execute(
            &self,
            call: &crate::call::PendingCall,
            next: crate::policy::PreNext<'_>,
        ) -> Result<PreDecision, ToolFailure> {
            self.0.note(format!("pre+{}", call.execution.call_id));
            sleep(Duration::from_millis(10)).await;
            self.0.note(format!("pre-{}", call.execution.call_id));
            next.run().await
        }
    }
    let kit = Kit::new().tool(FakeTool::new("t").safe()).run_code(program(|host| async move {
        let calls = [host.call("t", json!({})), host.call("t", json!({}))];
        answers(join_all(calls).await)
    }));
    kit.registry().add_policy(None, Arc::new(SlowJudge(kit.journal.clone()))).unwrap().keep();
    kit.run("run_code").await;
    let expected = ["call-1", "call-1:ptc:1", "call-1:ptc:2"];
    let expected: Vec<String> =
        expected.iter().flat_map(|id| [format!("pre+{id}"), format!("pre-{id}")]).collect();
    assert_eq!(kit.journal.entries(), expected);
}

#[tokio::test]
async fn what_fails_rejects_with_its_message_only() {
    let deny = |name: &'static str| PreDecision::Deny { reason: format!("no {name}"), info: None };
    struct Deny(PreDecision);
    #[async_trait]
    impl Policy for Deny {
        fn name(&self) -> &str {
            "deny"
        }
        async fn pre_execute(
            &self,
            call: &crate::call::PendingCall,
            next: crate::policy::PreNext<'_>,
        ) -> Result<PreDecision, ToolFailure> {
            if call.execution.name == "denied" { Ok(self.0.clone()) } else { next.run().await }
        }
    }
    let kit = Kit::new()
        .tool(FakeTool::new("denied"))
        .tool(FakeTool::new("fails").body(|_, _| {
            Box::pin(async { Err(ToolFailure::coded("FsError", "FS_NOT_FOUND", "it is not there")) })
        }))
        .run_code(program(|host| async move {
            let names = ["denied", "fails", "nowhere", "run_code"];
            answers(join_all(names.map(|name| host.call(name, json!({})))).await)
        }));
    kit.registry().add_policy(None, Arc::new(Deny(deny("entry")))).unwrap().keep();
    let outcome = kit.run("run_code").await;
    let said = outcome.result.unwrap();
    assert_eq!(said[0], "no entry");
    assert_eq!(said[1], "it is not there");
    assert!(said[2].as_str().unwrap().contains("no tool named"), "{said}");
    assert!(said[3].as_str().unwrap().contains("no tool named"), "{said}");
    let ends: Vec<String> = dispatches(&kit).into_iter().filter(|entry| entry.starts_with('-')).collect();
    let expected = ["plain", "FS_NOT_FOUND", "UNKNOWN_TOOL", "UNKNOWN_TOOL"];
    let expected: Vec<String> =
        expected.iter().enumerate().map(|(n, code)| format!("-call-1:ptc:{} {code}", n + 1)).collect();
    assert_eq!(ends, expected);
}

#[tokio::test]
async fn a_tool_removed_meanwhile_rejects() {
    let kit = Kit::new();
    let removed =
        kit.registry().register(None, Arc::new(FakeTool::new("t")), Registration::default()).unwrap();
    let removed = Arc::new(std::sync::Mutex::new(Some(removed)));
    let kit = kit.run_code(program(move |host| {
        let removed = removed.clone();
        async move {
            let first = host.call("t", json!({})).await;
            drop(removed.lock().unwrap().take());
            answers(vec![first, host.call("t", json!({})).await])
        }
    }));
    let said = kit.run("run_code").await.result.unwrap();
    assert_eq!(said[0], json!({}));
    assert!(said[1].as_str().unwrap().contains("no tool named"), "{said}");
}

#[tokio::test]
async fn a_cancelled_program_drains_what_runs_and_refuses_what_waits() {
    let kit = Kit::new();
    let tool = timed(&kit, "t");
    let kit = kit.tool(tool).run_code(program(|host| async move {
        let calls = [1, 2, 3].map(|n| host.call("t", json!({"n": n, "ms": 10_000})));
        answers(join_all(calls).await)
    }));
    let cancel = kit.cancel.clone();
    let stop = async {
        sleep(Duration::from_millis(10)).await;
        cancel.cancel();
    };
    let (outcome, ()) = tokio::join!(kit.run("run_code"), stop);
    assert_eq!(code(&outcome), Some("ABORTED"));
    assert_eq!(kit.journal.entries(), ["t+1", "t!1"]);
    assert_eq!(dispatches(&kit), ["+call-1:ptc:1 t", "-call-1:ptc:1 ABORTED"]);
}

#[tokio::test]
async fn calls_left_behind_are_ended_with_the_run_and_late_ones_refused() {
    let kit = Kit::new();
    let late: Arc<std::sync::Mutex<Option<Arc<dyn CodeHost>>>> = Arc::default();
    let kept = late.clone();
    let tool = timed(&kit, "t").safe();
    let kit = kit.tool(tool).run_code(program(move |host| {
        *kept.lock().unwrap() = Some(host.clone());
        async move {
            let left = [1, 2].map(|n| host.call("t", json!({"n": n, "ms": 10_000})));
            sleep(Duration::from_millis(30)).await;
            drop(left);
            json!("done")
        }
    }));
    assert_eq!(kit.run("run_code").await.result, Ok(json!("done")));
    let mut entries = kit.journal.entries();
    entries.sort();
    assert_eq!(entries, ["t!1", "t!2", "t+1", "t+2"]);
    let expected = ["+call-1:ptc:1 t", "+call-1:ptc:2 t", "-call-1:ptc:1 ABORTED", "-call-1:ptc:2 ABORTED"];
    assert_eq!(dispatches(&kit), expected);
    let host = late.lock().unwrap().take().unwrap();
    let refused = host.call("t", json!({})).await.unwrap_err();
    assert!(refused.contains("the run is over"), "{refused}");
}

#[tokio::test]
async fn a_program_that_calls_without_end_is_told_so() {
    let kit = Kit::new().tool(FakeTool::new("t").safe()).run_code(program(|host| async move {
        let calls: Vec<_> = (0..10_001).map(|_| host.call("t", json!({}))).collect();
        let all = join_all(calls).await;
        json!(all.iter().filter(|answer| answer.is_err()).count())
    }));
    assert_eq!(kit.run("run_code").await.result, Ok(json!(1)));
}

fn image() -> ContentBlock {
    let attachment = ImageAttachment {
        attachment_id: AttachmentId::new("i"),
        media_type: "image/png".to_owned(),
        bytes: 9,
        width: 2,
        height: 3,
        name: None,
        original_dimensions: None,
    };
    ContentBlock::Image { attachment }
}

#[tokio::test]
async fn contexts_and_images_are_deferred_to_the_outer_result_also_when_the_program_fails() {
    let noting = |name: &'static str| {
        FakeTool::new(name).safe().body(move |_, ctx| {
            Box::pin(async move {
                ctx.defer_context(message(name));
                Ok(json!({}))
            })
        })
    };
    let run_code = FakeTool::new("run_code").body(|_, ctx| {
        Box::pin(async move {
            let program: Arc<Program> = Arc::new(|host| {
                Box::pin(async move {
                    answers(join_all(["a", "picture", "b"].map(|name| host.call(name, json!({})))).await)
                })
            });
            drive(program, ctx).await?;
            Err(ToolFailure::plain("it threw"))
        })
    });
    let picture = noting("picture").with(|tool| tool.render = |_| Ok(vec![image()]));
    let kit = Kit::new().tool(noting("a")).tool(picture).tool(noting("b")).run_code(run_code);
    let outcome = kit.run("run_code").await;
    assert_eq!(text(&outcome), "Error: it threw");
    assert_eq!(contexts(&outcome), ["a", "picture", "msg_call-1:ptc:2", "b"]);
    assert_eq!(outcome.additional_contexts[2].content[1], image());
}

#[tokio::test]
async fn a_sub_call_can_conclude_the_turn() {
    let ends = |fails: bool| {
        FakeTool::new("ends").body(move |_, ctx| {
            Box::pin(async move {
                ctx.conclude_turn();
                if fails { Err(ToolFailure::plain("no")) } else { Ok(json!({})) }
            })
        })
    };
    for fails in [false, true] {
        let kit = Kit::new().tool(ends(fails)).run_code(program(|host| async move {
            let _ = host.call("ends", json!({})).await;
            json!({})
        }));
        assert_eq!(kit.run("run_code").await.concludes_turn, !fails);
    }
}

#[tokio::test]
async fn only_the_logged_copy_of_a_sub_result_is_changed_or_spilled() {
    struct Log(Result<Option<Vec<ContentBlock>>, ToolFailure>, super::kit::Journal);
    #[async_trait]
    impl Policy for Log {
        fn name(&self) -> &str {
            "log"
        }
        async fn log_sub_call(
            &self,
            log: &SubCallLog<'_>,
            content: &[ContentBlock],
        ) -> Result<Option<Vec<ContentBlock>>, ToolFailure> {
            self.1.note(format!("{} {} {} {}", log.call_id, log.name, log.is_error, content.len()));
            self.0.clone()
        }
    }
    let cases = [
        (Ok(Some(vec![ContentBlock::text("short")])), "short"),
        (Ok(None), "\"long\""),
        (Err(ToolFailure::plain("broken")), "\"long\""),
    ];
    for (answer, logged) in cases {
        let long = FakeTool::new("t").body(|_, _| Box::pin(async { Ok(json!("long")) }));
        let kit = Kit::new()
            .tool(long)
            .run_code(program(|host| async move { host.call("t", json!({})).await.unwrap() }));
        kit.registry().add_policy(None, Arc::new(Log(answer, kit.journal.clone()))).unwrap().keep();
        assert_eq!(kit.run("run_code").await.result, Ok(json!("long")));
        let Some(SessionEvent::PtcDispatch { result, .. }) = kit.session.host.events().pop() else {
            panic!()
        };
        assert_eq!(result.single_text(), Some(logged));
        assert_eq!(kit.journal.entries(), ["call-1:ptc:1 t false 1"]);
    }
    let long = FakeTool::new("t").body(|_, _| Box::pin(async { Ok(json!("x".repeat(60_000))) }));
    let kit = Kit::new().tool(long).run_code(program(|host| async move {
        json!(host.call("t", json!({})).await.unwrap().as_str().map(str::len))
    }));
    kit.registry().add_policy(None, Arc::new(SpillPolicy::default())).unwrap().keep();
    assert_eq!(kit.run("run_code").await.result, Ok(json!(60_000)));
    let Some(SessionEvent::PtcDispatch { result, .. }) = kit.session.host.events().pop() else { panic!() };
    assert!(result.single_text().unwrap().len() <= 50_000);
}

#[tokio::test]
async fn a_log_that_fails_ends_the_program() {
    let kit = Kit::new().tool(FakeTool::new("t")).run_code(program(|host| async move {
        let first = host.call("t", json!({})).await;
        answers(vec![first, host.call("t", json!({})).await])
    }));
    kit.session.host.fail_append();
    let outcome: Outcome = kit.run("run_code").await;
    assert_eq!(text(&outcome), "Error: the log could not be written");
}

#[tokio::test]
async fn sections_say_how_programs_call_tools_where_they_can() {
    let sections = |code_mode: CodeMode| {
        let kit = Kit::new()
            .tool(FakeTool::new("zeta"))
            .tool(FakeTool::new("a-b").output(json!({"type": "string"})))
            .policy(FakePolicy::default());
        kit.registry().set_code_mode(None, code_mode).unwrap().keep();
        let sections = program_sections(kit.registry(), None, None);
        sections.into_iter().map(|section| (section.order_tenths, section.text)).collect::<Vec<_>>()
    };
    assert_eq!(sections(CodeMode::Native), []);
    let both = sections(CodeMode::Both);
    let code = sections(CodeMode::Code);
    assert_eq!((both.len(), code.len()), (1, 2));
    assert_eq!((code[0].0, &code[1]), (990, &both[0]));
    assert!(code[0].1.contains("Only run_code can be called directly"), "{}", code[0].1);
    let (order, text) = &both[0];
    assert_eq!(*order, 1500);
    let declared = "interface ToolArguments {
  /** does a-b */
  \"a-b\": Record<string, JsonValue>;
  /** does zeta */
  zeta: Record<string, JsonValue>;
}

interface ToolOutputs {
  \"a-b\": string;
  zeta: JsonValue;
}

declare class ToolCallError extends Error {
  readonly toolName: string;
}

declare const tools: {
  readonly [Name in keyof ToolArguments]: (args: ToolArguments[Name]) => Promise<ToolOutputs[Name]>;
};
```";
    assert!(text.ends_with(declared), "{text}");
}
