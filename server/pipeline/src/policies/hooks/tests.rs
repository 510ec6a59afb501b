//! Which hooks run, what they are told, and what their words do.

use super::*;
use crate::fake::FakeSession;
use crate::policy::{PostNext, PreNext};
use services::fake::{FakeHooks, World};

fn settings(text: &str) -> HookSettings {
    HookSettings::parse(text).expect("settings")
}

fn one(point: &str, matcher: &str) -> HookSettings {
    settings(
        &json!({ "hooks": { point: [{ "matcher": matcher, "hooks": [
        { "type": "command", "command": "check", "timeout": 5 }
    ] }] } })
        .to_string(),
    )
}

#[test]
fn a_file_is_read_as_far_as_it_is_right() {
    let text = json!({ "hooks": {
        "PreToolUse": [
            { "matcher": "Bash", "hooks": [{ "type": "command", "command": "a" }, { "type": "prompt" }] },
            { "matcher": "(", "hooks": [{ "type": "command", "command": "b" }] },
            { "matcher": "*" },
        ],
        "Stop": [{ "hooks": [{ "type": "command", "command": "c", "timeout": 0.5 }] }],
        "Notification": [],
    } });
    let settings = settings(&text.to_string());
    let hooks: Vec<_> = settings
        .hooks
        .iter()
        .map(|hook| (hook.handler_id.as_str(), hook.command.as_str(), hook.timeout.as_millis()))
        .collect();
    assert_eq!(hooks, [("PreToolUse[0].0", "a", 600_000), ("Stop[0].0", "c", 500)]);
    assert_eq!(settings.problems.len(), 4, "{:?}", settings.problems);
    for (broken, reason) in [("nonsense", "it is not JSON"), ("[]", "it has no object `hooks`")] {
        let error = HookSettings::parse(broken).expect_err(broken);
        assert!(error.starts_with(reason), "{error}");
    }
}

#[test]
fn a_matcher_is_all_names_or_a_pattern_for_the_whole_name() {
    let cases = [
        ("", "bash", true),
        ("*", "bash", true),
        ("bash|edit", "edit", true),
        ("Bash", "bash", true),
        ("WebFetch", "web_fetch", true),
        ("Bash", "bash_output", false),
        ("edit", "str_replace_editor", false),
        ("mcp__.*", "mcp__files__read", true),
        ("mcp__files__read", "mcp__files__read", true),
        (".*edit", "str_replace_editor", false),
    ];
    for (matcher, tool, expected) in cases {
        assert_eq!(one("PreToolUse", matcher).hooks[0].matches(tool), expected, "{matcher} {tool}");
    }
}

/// What hooks that end so decide before a call, and whether it was logged.
async fn before(code: i32, stdout: &str, stderr: &str) -> (PreDecision, Vec<SessionEvent>) {
    let runner = Arc::new(FakeHooks::default());
    runner.exits(code, stdout, stderr);
    let hooks = Hooks::new(one("PreToolUse", "bash"), runner.clone());
    let session = FakeSession::new(World::new());
    let call = pending(&session);
    let decision = hooks.pre_execute(&call, PreNext::new(&[], &call)).await.expect("a decision");
    let ran = runner.ran();
    let input: Value = serde_json::from_str(&ran[0].input).expect("JSON");
    assert_eq!(
        input,
        json!({
            "session_id": call.execution.session_id, "cwd": call.session.cwd, "permission_mode": "acceptEdits",
            "hook_event_name": "PreToolUse", "tool_name": "bash", "tool_input": { "command": "ls" }
        })
    );
    (decision, session.host.events())
}

fn pending(session: &FakeSession) -> PendingCall {
    let ctx = session.context("bash", json!({ "command": "ls" }));
    PendingCall {
        execution: ctx.execution.clone(),
        session: ctx.session.clone(),
        scope: None,
        tool_set: None,
        cancel: CancellationToken::new(),
        tool: None,
    }
}

fn deny(reason: &str) -> PreDecision {
    PreDecision::Deny { reason: reason.to_owned(), info: None }
}

#[tokio::test]
async fn exit_codes_and_words_decide_before_a_call() {
    let specific = |decision: &str| {
        json!({ "hookSpecificOutput": { "permissionDecision": decision, "permissionDecisionReason": "why" } })
            .to_string()
    };
    let ask =
        PreDecision::Ask { reason: Some("why".to_owned()), display_reason: None, rule: None, grant: None };
    let cases = [
        (0, String::new(), "", PreDecision::Allow, "none"),
        (2, String::new(), "not here\n", deny("not here"), "deny"),
        (1, String::new(), "broken", PreDecision::Allow, "error"),
        (0, specific("deny"), "", deny("why"), "deny"),
        (0, specific("ask"), "", ask, "ask"),
        (0, specific("allow"), "", PreDecision::Allow, "allow"),
        (0, json!({ "decision": "block", "reason": "old" }).to_string(), "", deny("old"), "deny"),
        (0, json!({ "continue": false, "stopReason": "enough" }).to_string(), "", deny("enough"), "stop"),
        (0, "just words".to_owned(), "", PreDecision::Allow, "none"),
    ];
    for (code, stdout, stderr, expected, logged) in cases {
        let (decision, events) = before(code, &stdout, stderr).await;
        assert_eq!(decision, expected, "{code} {stdout}");
        let [
            SessionEvent::HookInvoked { handler_id, .. },
            SessionEvent::HookResult { decision, exit_code, .. },
        ] = events.as_slice()
        else {
            panic!("{events:?}")
        };
        assert_eq!(
            (handler_id.as_str(), decision.as_str(), *exit_code),
            ("PreToolUse[0].0", logged, Some(code))
        );
    }
}

#[tokio::test]
async fn a_stop_reaches_the_calls_beside_it_and_the_turn_once() {
    let runner = Arc::new(FakeHooks::default());
    runner.exits(0, r#"{"continue": false, "stopReason": "enough"}"#, "");
    let hooks = Hooks::new(one("PreToolUse", "bash"), runner.clone());
    let session = FakeSession::new(World::new());
    let call = pending(&session);
    for _ in 0..2 {
        let decision = hooks.pre_execute(&call, PreNext::new(&[], &call)).await.expect("a decision");
        assert_eq!(decision, deny("enough"));
    }
    assert_eq!(runner.ran().len(), 1);
    let id = &call.execution.session_id;
    assert_eq!((hooks.take_stop(id), hooks.take_stop(id)), (Some("enough".to_owned()), None));
}

#[tokio::test]
async fn after_a_call_a_hook_blocks_with_feedback_or_adds_context() {
    let outcome = |result| Outcome {
        result,
        content: vec![ContentBlock::text("done")],
        meta: None,
        additional_contexts: Vec::new(),
        concludes_turn: false,
    };
    let context = r#"{"hookSpecificOutput": {"additionalContext": "mind the tests"}}"#;
    let feedback = PostVerdict::Block(vec![ContentBlock::text("format it")]);
    let cases = [
        (2, "", "format it", Ok(json!({})), feedback, 0, 1),
        (0, context, "", Ok(json!({})), PostVerdict::Accept, 1, 1),
        (2, "", "format it", Err(ToolFailure::plain("no")), PostVerdict::Accept, 0, 0),
    ];
    for (code, stdout, stderr, result, verdict, n_contexts, n_ran) in cases {
        let runner = Arc::new(FakeHooks::default());
        runner.exits(code, stdout, stderr);
        let hooks = Hooks::new(one("PostToolUse", "*"), runner.clone());
        let session = FakeSession::new(World::new());
        let (call, outcome) = (pending(&session), outcome(result));
        let next = PostNext::new(&[], &call, &outcome);
        let decision = hooks.post_execute(&call, &outcome, next).await.expect("a decision");
        assert_eq!(decision.verdict, verdict);
        assert_eq!((decision.additional_contexts.len(), runner.ran().len()), (n_contexts, n_ran));
    }
}

#[tokio::test]
async fn a_prompt_is_refused_or_given_context_and_reasons_are_joined() {
    let two = settings(
        &json!({ "hooks": { "UserPromptSubmit": [{ "hooks": [
        { "type": "command", "command": "a" }, { "type": "command", "command": "b" }
    ] }] } })
        .to_string(),
    );
    let runner = Arc::new(FakeHooks::default());
    let hooks = Hooks::new(two, runner.clone());
    let session = FakeSession::new(World::new());
    let scope = pending(&session).session;
    let cancel = CancellationToken::new();
    runner.exits(2, "", "no secrets");
    runner.exits(0, r#"{"decision": "block", "reason": "too late"}"#, "");
    let verdict = hooks.user_prompt(&scope, "hello", &cancel).await.expect("a verdict");
    assert_eq!(verdict.refused.as_deref(), Some("no secrets\n\ntoo late"));
    runner.exits(0, "The branch is main.\n", "");
    runner.end(HookEnd::TimedOut);
    let verdict = hooks.user_prompt(&scope, "hello", &cancel).await.expect("a verdict");
    let expected = HookVerdict { contexts: vec!["The branch is main.".to_owned()], ..HookVerdict::default() };
    assert_eq!(verdict, expected);
    assert!(runner.ran()[0].input.contains(r#""prompt":"hello""#));
    cancel.cancel();
    hooks.turn_stops(&scope, true, &cancel).await.expect("a verdict");
    assert_eq!(runner.ran().len(), 4, "nothing starts after a cancel");
}
