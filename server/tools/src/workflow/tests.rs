//! `workflow` with scripts that a test writes in Rust: hooks, pool, log and card. The engine's part is in the scenarios.

use crate::testing::{Bench, Ran};
use async_trait::async_trait;
use pipeline::fake::HostEntry;
use protocol::event::{AgentOutcome, SessionEvent};
use protocol::id::{MessageId, SessionId};
use protocol::live::LiveUpdate;
use protocol::tool::ToolFailure;
use serde_json::{Value, json};
use services::code_runtime::{CodeError, CodeErrorKind, CodeHost, CodeOutcome};
use services::fake::FakeSubagents;
use services::subagents::{AgentEntry, ChildEnd, ChildStop, NewChild, SubagentError, Subagents};
use std::sync::Arc;
use tokio_util::sync::CancellationToken;

/// Runs a script that calls hooks one after the other, and returns what they gave or the first refusal.
async fn script(bench: &Bench, calls: Vec<(&'static str, Value)>) -> Ran {
    bench.world().programs.runs(|request| async move {
        let host: Arc<dyn CodeHost> = request.bindings[0].host.clone();
        let mut gave = Vec::new();
        for (hook, argument) in calls {
            match host.call(hook, argument).await {
                Ok(value) => gave.push(value),
                Err(message) => {
                    let message = format!("WorkflowError: {message}\n    at program.ts:1");
                    let error = CodeError { kind: CodeErrorKind::Exception, message };
                    return CodeOutcome { error: Some(error), ..CodeOutcome::default() };
                }
            }
        }
        CodeOutcome { value: Some(Value::from(gave)), ..CodeOutcome::default() }
    });
    bench.call("workflow", call("return 1")).await
}

fn call(script: &str) -> Value {
    json!({ "script": script, "meta": { "name": "Sweep", "description": "Looks everywhere." } })
}

fn agent(prompt: &str, options: Value) -> (&'static str, Value) {
    ("agent", json!({ "prompt": prompt, "options": options }))
}

#[tokio::test]
async fn agents_give_texts_objects_and_null() {
    let bench = Bench::new();
    let object = ChildEnd { value: Some(json!({ "n": 1 })), ..FakeSubagents::end(ChildStop::Completed, "x") };
    for end in [
        Ok(FakeSubagents::end(ChildStop::Completed, "text")),
        Ok(object),
        Ok(FakeSubagents::end(ChildStop::Completed, "no object")),
        Ok(FakeSubagents::end(ChildStop::MaxTokens, "half")),
    ] {
        bench.world().subagents.ends(end);
    }
    let schema = json!({ "type": "object", "properties": { "n": { "type": "integer" } } });
    let long = "x".repeat(60);
    let ran = script(
        &bench,
        vec![
            ("phase", json!({ "text": "Scan" })),
            agent("Look.\nThere.", json!({})),
            agent(&long, json!({ "schema": schema, "phase": "Other" })),
            agent("Third", json!({ "schema": schema, "label": "Three" })),
            agent("Fourth", json!({ "provider": "p", "model": "m/n" })),
            ("log", json!({ "text": "that is all" })),
        ],
    )
    .await;
    assert_eq!(ran.value()["result"], json!([null, "text", { "n": 1 }, null, null, null]));
    assert_eq!(ran.value()["agentsStarted"], 4);
    assert!(ran.text().starts_with("Workflow Sweep: 4 agents\n\n[\n  null,\n  \"text\","), "{}", ran.text());
    let expected = [
        NewChild { label: "Look.".to_owned(), prompt: "Look.\nThere.".to_owned(), ..NewChild::default() },
        NewChild {
            label: format!("{}…", "x".repeat(47)),
            prompt: long,
            output_schema: Some(schema.clone()),
            ..NewChild::default()
        },
        NewChild {
            label: "Three".to_owned(),
            prompt: "Third".to_owned(),
            output_schema: Some(schema),
            ..NewChild::default()
        },
        NewChild {
            label: "Fourth".to_owned(),
            prompt: "Fourth".to_owned(),
            model: Some("p/m/n".to_owned()),
            ..NewChild::default()
        },
    ];
    assert_eq!(bench.world().subagents.started(), expected);
    let last = bench.session.host.live_updates().pop();
    let Some(LiveUpdate::ChildProgress { text, .. }) = last else { panic!("{last:?}") };
    let expected =
        "- **Scan**: 1 done, 2 failed\n  - ✓ Look.\n  - ✗ Three\n  - ✗ Fourth\n- **Other**: 1 done\n";
    assert!(text.starts_with(expected) && text.ends_with("\n> that is all\n"), "{text}");
}

#[tokio::test]
async fn the_log_tells_of_the_run_and_of_each_agent() {
    let bench = Bench::new();
    bench.world().subagents.ends(Ok(FakeSubagents::end(ChildStop::Error, "")));
    let ran = script(&bench, vec![agent("One", json!({ "phase": "Scan" }))]).await;
    let run_id = ran.value()["runId"].as_str().unwrap().to_owned();
    let expected = [
        SessionEvent::WorkflowStart { run_id: run_id.clone(), name: "Sweep".to_owned() },
        SessionEvent::WorkflowAgentStart {
            run_id: run_id.clone(),
            seq: 1,
            label: "One".to_owned(),
            phase: Some("Scan".to_owned()),
        },
        SessionEvent::WorkflowAgentEnd {
            run_id: run_id.clone(),
            seq: 1,
            outcome: AgentOutcome::Failed,
            child_id: Some(SessionId::new("child")),
        },
        SessionEvent::WorkflowEnd { run_id, stop_reason: "completed".to_owned() },
    ];
    assert_eq!(bench.session.host.events(), expected);
    assert!(ran.text().starts_with("Workflow Sweep: 1 agent\n"), "{}", ran.text());
}

#[tokio::test]
async fn a_sub_call_of_a_program_leaves_no_record_and_a_broken_log_stops_nothing() {
    let bench = Bench::new();
    let ran = bench.nested("workflow", call("return null")).await;
    assert_eq!(ran.value()["result"], Value::Null);
    assert_eq!(bench.session.host.entries(), [] as [HostEntry; 0]);
    bench.session.host.fail_append();
    let ran = script(&bench, vec![agent("One", json!({}))]).await;
    assert_eq!(ran.value()["result"], json!(["One"]));
}

#[tokio::test]
async fn misuse_is_refused_with_its_code_and_starts_nobody() {
    let cases = [
        (agent(" ", json!({})), "INVALID_ARGUMENT"),
        (agent("x", json!({ "label": 1 })), "INVALID_ARGUMENT"),
        (agent("x", json!({ "provider": "p" })), "INVALID_ARGUMENT"),
        (agent("x", json!({ "model": "m" })), "INVALID_ARGUMENT"),
        (agent("x", json!({ "effort": "high" })), "UNSUPPORTED_OPTION"),
        (agent("x", json!({ "colour": "red" })), "UNSUPPORTED_OPTION"),
        (agent("x", json!({ "schema": { "type": "string" } })), "UNSUPPORTED_SCHEMA"),
        (agent("x", json!({ "schema": { "type": "object", "minProperties": 1 } })), "UNSUPPORTED_SCHEMA"),
    ];
    for (misuse, code) in cases {
        let bench = Bench::new();
        let ran = script(&bench, vec![misuse.clone()]).await;
        assert_eq!(ran.code(), code, "{misuse:?}: {:?}", ran.value);
        assert_eq!(bench.world().subagents.started(), []);
    }
    let bench = Bench::new();
    bench.world().subagents.ends(Err(SubagentError::TooDeep { attempted: 4 }));
    assert_eq!(script(&bench, vec![agent("x", json!({}))]).await.code(), "AGENT_START");
}

#[tokio::test]
async fn a_thousand_agents_are_the_most() {
    let bench = Bench::new();
    let ran = script(&bench, (0..1001).map(|n| agent(&format!("Agent {n}"), json!({}))).collect()).await;
    assert_eq!(ran.code(), "AGENT_CAP");
    assert_eq!(bench.world().subagents.started().len(), 1000);
}

#[tokio::test]
async fn all_that_is_wrong_with_the_meta_is_told_at_once() {
    let bench = Bench::new();
    let meta = json!({ "name": " ", "description": "x", "nmae": 1, "phases": [{ "title": "", "more": 1 }] });
    let ran = bench.call("workflow", json!({ "script": "return 1", "meta": meta })).await;
    let expected = "meta.name must not be blank; meta.phases[0].title must not be blank; meta.nmae is unknown; \
                    meta.phases[0].more is unknown";
    assert_eq!((ran.code(), ran.failure().message.as_str()), ("META_INVALID", expected));
    let ran = bench.call("workflow", call("\nexport const meta = {};")).await;
    assert_eq!(ran.code(), "SCRIPT_PARSE");
}

#[tokio::test]
async fn failures_of_the_engine_keep_their_kind() {
    let cases = [
        (CodeErrorKind::Timeout, "the program computed for more than 10 s", "plain"),
        (CodeErrorKind::InvalidOutput, "too deep", "RESULT_UNSERIALIZABLE"),
        (CodeErrorKind::Exception, "SyntaxError: Expression expected (program.ts:1:9)", "SCRIPT_PARSE"),
        (CodeErrorKind::Exception, "SyntaxError: mine\n    at program.ts:1", "plain"),
        (CodeErrorKind::Exception, "Error: boom\n    at program.ts:1", "plain"),
        (CodeErrorKind::Exception, "WorkflowError: ITEM_CAP: too many", "ITEM_CAP"),
    ];
    for (kind, message, code) in cases {
        let bench = Bench::new();
        let error = CodeError { kind, message: message.to_owned() };
        bench
            .world()
            .programs
            .runs(|_| async { CodeOutcome { error: Some(error), ..CodeOutcome::default() } });
        let ran = bench.call("workflow", call("return 1")).await;
        assert_eq!(ran.code(), code, "{message}");
        assert!(ran.failure().message.contains(message), "{}", ran.failure().message);
    }
}

#[tokio::test]
async fn a_large_result_is_cut_with_a_note() {
    let bench = Bench::new();
    let value = Some(json!("x".repeat(60_000)));
    bench.world().programs.runs(|_| async { CodeOutcome { value, ..CodeOutcome::default() } });
    let ran = bench.call("workflow", call("return 1")).await;
    assert!(ran.text().ends_with(" more characters]"), "{}", &ran.text()[49_000..]);
    assert!(ran.text().len() < 50_100 && ran.value()["result"].as_str().unwrap().len() == 60_000);
}

#[test]
fn the_card_is_named_by_the_meta() {
    assert_eq!(Bench::new().call_card("workflow", call("return 1")).title(), "Workflow Sweep");
}

#[tokio::test]
async fn a_call_that_is_cancelled_before_it_begins_runs_nothing() {
    let bench = Bench::new();
    bench.world().programs.runs(|_| async { panic!("the script ran") });
    for (tool, arguments) in [("workflow", call("return 1")), ("ralph", json!({ "objective": "x" }))] {
        let ctx = bench.session.context(tool, arguments.clone());
        ctx.cancel.cancel();
        assert_eq!(bench.tool(tool).execute(&arguments, &ctx).await, Err(ToolFailure::aborted()));
    }
    assert_eq!((bench.world().subagents.started(), bench.session.host.entries()), (vec![], vec![]));
}

/// Agents that hear no cancellation.
struct Deaf;

#[async_trait]
impl Subagents for Deaf {
    async fn run(&self, _child: NewChild, _cancel: &CancellationToken) -> Result<ChildEnd, SubagentError> {
        std::future::pending().await
    }

    async fn start(&self, _child: NewChild) -> Result<SessionId, SubagentError> {
        Err(SubagentError::Draining)
    }

    async fn send(&self, _id: &SessionId, _message: String) -> Result<MessageId, SubagentError> {
        Err(SubagentError::Draining)
    }

    async fn interrupt(&self, _id: &SessionId) -> Result<(), SubagentError> {
        Err(SubagentError::Draining)
    }

    async fn list(&self, _descendants: bool) -> Result<Vec<AgentEntry>, SubagentError> {
        Err(SubagentError::Draining)
    }

    async fn report(&self, _output: String) -> Result<MessageId, SubagentError> {
        Err(SubagentError::Draining)
    }
}

#[tokio::test]
async fn agents_that_do_not_stop_are_given_up_after_the_grace() {
    let mut bench = Bench::new();
    bench.session.scope.services.subagents = Some(Arc::new(Deaf));
    bench.world().clock.set_instant(true);
    bench.world().programs.runs(|request| async move {
        let host = request.bindings[0].host.clone();
        for n in 0..10 {
            // Nobody waits for them.
            drop(host.call("agent", json!({ "prompt": format!("Agent {n}"), "options": {} })));
        }
        // The pool takes them in before the script ends.
        tokio::task::yield_now().await;
        CodeOutcome { value: Some(json!("over")), ..CodeOutcome::default() }
    });
    let ran = bench.call("workflow", call("return 'over'")).await;
    assert_eq!(ran.value()["result"], "over");
    let events = bench.session.host.events();
    let n_stopped = events.iter().filter(|event| {
        matches!(
            event,
            SessionEvent::WorkflowAgentEnd { outcome: AgentOutcome::Cancelled, child_id: None, .. }
        )
    });
    assert_eq!(n_stopped.count(), 8);
    assert!(
        matches!(events.last(), Some(SessionEvent::WorkflowEnd { stop_reason, .. }) if stop_reason == "completed")
    );
}
