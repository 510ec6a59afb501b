//! The command tools against a shell of their own making: requests, texts, cards, failures.

use super::output::console_fence;
use crate::testing::{Bench, Ran};
use pipeline::tool::Effect;
use protocol::card::{
    CallCard, ExitState, GenericCall, GenericResult, ResultCard, TerminalCall, TerminalResult, ToolCallKind,
};
use protocol::content::ContentBlock;
use protocol::id::CallId;
use protocol::live::LiveUpdate;
use protocol::mode::{Mode, SandboxMode};
use protocol::tool::{DurableResult, ToolFailure};
use serde_json::{Value, json};
use services::fake::shell_outcome;
use services::shell::{CapturedStream, SandboxReport, ShellError, ShellOutcome};
use std::path::PathBuf;
use std::time::Duration;

fn command(command: &str) -> Value {
    json!({"command": command, "description": "Do it"})
}

fn captured(text: &str) -> CapturedStream {
    CapturedStream { text: text.into(), total_bytes: text.len() as u64, ..CapturedStream::default() }
}

async fn ended(outcome: ShellOutcome) -> Ran {
    let bench = Bench::new();
    bench.world().shell.outcome(Ok(outcome));
    bench.call("bash", command("x")).await
}

#[tokio::test]
async fn output_then_markers_and_the_card_reads_them_back() {
    let killed = |stdout: &str, signal: &str| ShellOutcome {
        exit_code: None,
        signal: Some(signal.into()),
        ..shell_outcome(stdout, 0)
    };
    let cases = [
        (shell_outcome("hi\n", 0), "hi\n", "hi\n", ExitState::Code(0)),
        (shell_outcome("", 0), "(no output)", "(no output)", ExitState::Code(0)),
        (shell_outcome("", 3), "(no output)\n[exit code: 3]", "(no output)", ExitState::Code(3)),
        (shell_outcome("x", 1), "x\n[exit code: 1]", "x", ExitState::Code(1)),
        (
            ShellOutcome { stderr: captured("e\n"), ..shell_outcome("", 0) },
            "[stderr]\ne\n",
            "[stderr]\ne\n",
            ExitState::Code(0),
        ),
        (
            ShellOutcome { stderr: captured("e"), ..shell_outcome("o", 2) },
            "o\n[stderr]\ne\n[exit code: 2]",
            "o\n[stderr]\ne",
            ExitState::Code(2),
        ),
        (killed("x", "SIGSEGV"), "x\n[killed by signal: SIGSEGV]", "x", ExitState::Signal("SIGSEGV".into())),
        (
            ShellOutcome { timed_out: true, ..killed("", "SIGTERM") },
            "(no output)\n[timed out after 120000ms]\n[killed by signal: SIGTERM]",
            "(no output)\n[timed out after 120000ms]",
            ExitState::Signal("SIGTERM".into()),
        ),
        (
            ShellOutcome { timed_out: true, ..shell_outcome("trapped\n", 0) },
            "trapped\n[timed out after 120000ms]",
            "trapped\n[timed out after 120000ms]",
            ExitState::Code(0),
        ),
        (
            ShellOutcome { exit_code: None, ..shell_outcome("x", 0) },
            "x\n[exit status unknown]",
            "x",
            ExitState::Unknown,
        ),
        (
            shell_outcome("a\n[exit code: 3]", 0),
            "a\n[exit code: 3]\n",
            "a\n[exit code: 3]\n",
            ExitState::Code(0),
        ),
        (
            shell_outcome("\u{1b}[32mok\u{1b}[0m\r\n 5%\r99%\n", 0),
            "ok\n99%\n",
            "ok\n99%\n",
            ExitState::Code(0),
        ),
    ];
    for (outcome, text, output, exit) in cases {
        let ran = ended(outcome).await;
        assert_eq!(ran.text(), text);
        let expected = TerminalResult { title: None, output: output.into(), exit };
        assert_eq!(ran.card, Some(ResultCard::Terminal(expected)));
    }
}

#[tokio::test]
async fn a_replaced_text_still_shows_how_the_command_ended() {
    let bench = Bench::new();
    bench.world().shell.outcome(Ok(shell_outcome("x", 3)));
    let mut stored = bench.call("bash", command("x")).await.durable;
    stored.content = vec![ContentBlock::text("head … tail\n\n(Omitted 9 bytes.)")];
    let terminal = |output: &str, exit| {
        Some(ResultCard::Terminal(TerminalResult { title: None, output: output.into(), exit }))
    };
    let shown = "head … tail\n\n(Omitted 9 bytes.)";
    assert_eq!(bench.result_card("bash", &command("x"), &stored), terminal(shown, ExitState::Code(3)));
    stored.content = vec![ContentBlock::text("x\n[exit code: 4]")];
    stored.meta = None;
    assert_eq!(bench.result_card("bash", &command("x"), &stored), terminal("x", ExitState::Code(4)));
}

#[tokio::test]
async fn a_cut_stream_says_how_much_there_was_and_where_it_is() {
    let stdout = CapturedStream {
        text: "head\n… 90000 bytes left out …\ntail".into(),
        truncated: true,
        total_bytes: 100_000,
        spill_path: Some("/spill/out".into()),
    };
    let stderr = CapturedStream { truncated: true, total_bytes: 7, ..CapturedStream::default() };
    let ran = ended(ShellOutcome { stdout, stderr, ..shell_outcome("", 0) }).await;
    assert_eq!(
        ran.text(),
        "head\n… 90000 bytes left out …\ntail\n[output truncated: 100000 bytes in all; full output: /spill/out]\n\
         [stderr]\n[output truncated: 7 bytes in all; full output: (unavailable)]"
    );
    assert_eq!(ran.value()["stdout"]["spillPath"], "/spill/out");
}

#[tokio::test]
async fn a_denied_write_is_marked_before_the_exit() {
    let report =
        SandboxReport { mode: SandboxMode::WorkspaceWrite, denied: true, enforcement: "full".into() };
    let outcome = ShellOutcome { sandbox: Some(report), ..shell_outcome("", 1) };
    let ran = ended(outcome.clone()).await;
    let lines: Vec<&str> = ran.text().lines().collect();
    assert_eq!(lines[..2], ["(no output)", "[sandbox: file access denied under workspace-write mode]"]);
    assert!(lines[2].starts_with("[sandbox: ") && lines[2].contains("sandbox_permissions"));
    assert_eq!(lines[3], "[exit code: 1]");
    let sandbox = json!({
        "mode": "workspace-write", "denied": true, "enforcement": "full", "mayEscalate": true
    });
    assert_eq!(ran.value()["sandbox"], sandbox);

    let bench = Bench::new();
    bench.session.host.set_mode(Mode::Plan);
    bench.world().shell.outcome(Ok(outcome));
    let ran = bench.call("bash", command("x")).await;
    assert_eq!(ran.text().lines().count(), 3, "{}", ran.text());
}

#[tokio::test]
async fn the_request_holds_what_the_call_says() {
    let bench = Bench::new();
    let mut arguments = command("pwd");
    arguments["workdir"] = json!("sub");
    arguments["timeoutMs"] = json!(1500);
    bench.call("bash", arguments).await;
    let request = &bench.world().shell.requests()[0];
    assert_eq!(request.argv, ["bash", "-c", "pwd"]);
    assert_eq!(request.display, "pwd");
    assert_eq!(request.workdir, PathBuf::from("/project/sub"));
    assert_eq!(request.timeout, Duration::from_millis(1500));
    assert_eq!((request.max_stream_bytes, request.max_spill_bytes), (64_000, 64 * 1024 * 1024));
    assert_eq!(request.spill_directory, PathBuf::from("/spill/session-1"));
    assert_eq!(request.sandbox.mode, SandboxMode::WorkspaceWrite);
    let variable =
        |name: &str| request.env.iter().find(|(known, _)| known == name).map(|(_, value)| value.as_str());
    let expected = [
        ("TERM", "dumb"),
        ("NO_COLOR", "1"),
        ("PAGER", "cat"),
        ("GIT_PAGER", "cat"),
        ("FOLLOWSPOT_SHELL", "1"),
        ("FOLLOWSPOT_SESSION_ID", "session-1"),
    ];
    for (name, value) in expected {
        assert_eq!(variable(name), Some(value), "{name}");
    }
}

#[tokio::test]
async fn folder_and_budget_have_defaults_and_bounds() {
    let bench = Bench::new();
    bench.call("bash", command("x")).await;
    let mut arguments = command("x");
    arguments["workdir"] = json!("/tmp");
    arguments["timeoutMs"] = json!(1e12);
    let ran = bench.call("bash", arguments).await;
    assert_eq!(ran.value()["timeoutMs"], json!(600_000.0));
    let requests = bench.world().shell.requests();
    assert_eq!(
        (&requests[0].workdir, requests[0].timeout),
        (&PathBuf::from("/project"), Duration::from_secs(120))
    );
    assert_eq!(
        (&requests[1].workdir, requests[1].timeout),
        (&PathBuf::from("/tmp"), Duration::from_secs(600))
    );
}

#[tokio::test]
async fn bad_arguments_run_nothing() {
    let bench = Bench::new();
    let cases = [
        (json!({"command": " ", "description": "x"}), "plain"),
        (json!({"command": "x", "description": " "}), "plain"),
        (json!({"command": "x"}), "INVALID_ARGS"),
        (json!({"command": "x", "description": "x", "timeoutMs": 0}), "plain"),
        (json!({"command": "x", "description": "x", "timeoutMs": -5}), "plain"),
        (json!({"command": "x", "description": "x", "timeoutMs": "5"}), "INVALID_ARGS"),
        (json!({"command": " ", "description": "x", "run_in_background": true}), "plain"),
    ];
    for (arguments, code) in cases {
        assert_eq!(bench.call("bash", arguments.clone()).await.code(), code, "{arguments}");
    }
    assert_eq!(bench.world().shell.requests().len(), 0);
}

#[tokio::test]
async fn a_command_that_did_not_run_is_a_failure() {
    let cases = [
        (ShellError::Workdir { path: "/gone".into(), reason: "no such folder".into() }, "plain", "/gone"),
        (ShellError::Spawn { program: "bash".into(), reason: "not found".into() }, "plain", "bash"),
        (ShellError::SandboxUnavailable("no backend".into()), "SANDBOX_UNAVAILABLE", "no backend"),
    ];
    for (error, code, message) in cases {
        let bench = Bench::new();
        bench.world().shell.outcome(Err(error));
        let ran = bench.call("bash", command("x")).await;
        assert_eq!(ran.code(), code);
        assert!(ran.text().contains(message), "{}", ran.text());
        let Some(ResultCard::Generic(card)) = ran.card else { panic!("no generic card") };
        let fenced = format!("```console\n{}\n```", ran.durable.single_text().unwrap());
        assert_eq!(card.content, Some(vec![ContentBlock::text(fenced)]));
    }
}

#[tokio::test]
async fn a_cancelled_command_is_aborted() {
    let bench = Bench::new();
    bench.world().shell.set_endless(true);
    let ctx = bench.session.context("bash", command("sleep 9"));
    ctx.cancel.cancel();
    let failure = bench.tool("bash").execute(&command("sleep 9"), &ctx).await.unwrap_err();
    assert_eq!(failure, ToolFailure::aborted());
}

#[tokio::test]
async fn what_the_command_shows_is_shown_at_once() {
    let bench = Bench::new();
    let update = LiveUpdate::TerminalOutput { call_id: CallId::new("call-1"), delta: "hi".into() };
    bench.world().shell.show(update.clone());
    bench.call("bash", command("x")).await;
    assert_eq!(bench.session.host.live_updates(), [update]);
}

#[test]
fn the_call_is_a_terminal_or_a_job() {
    let bench = Bench::new();
    let mut arguments = command("ls");
    arguments["workdir"] = json!("sub");
    let expected = CallCard::Terminal(TerminalCall {
        title: "ls".into(),
        description: Some("Do it".into()),
        cwd: Some("sub".into()),
    });
    assert_eq!(bench.call_card("bash", arguments.clone()), expected);
    arguments["run_in_background"] = json!(true);
    let expected = CallCard::Generic(GenericCall {
        title: "ls".into(),
        kind: ToolCallKind::Execute,
        raw_input: Some("ls".into()),
        content: vec![ContentBlock::text("Do it")],
        locations: Vec::new(),
    });
    assert_eq!(bench.call_card("bash", arguments.clone()), expected);
    let tool = bench.tool("bash");
    assert!(!tool.is_concurrency_safe(&arguments));
    assert_eq!(tool.effect(&arguments), Effect::RunsCommand { command: "ls".into(), is_shell: true });
    assert_eq!(tool.present_call(&json!({"command": "ls"})), None);
}

#[test]
fn a_job_is_acknowledged_in_a_fence() {
    let bench = Bench::new();
    let mut arguments = command("x");
    arguments["run_in_background"] = json!(true);
    let value = json!({"kind": "background", "jobId": "bash-1"});
    let content = bench.tool("bash").render(&arguments, &value).unwrap();
    assert_eq!(content, [ContentBlock::text("started background job bash-1")]);
    let stored = DurableResult { content, is_error: false, error: None, meta: None };
    let expected = GenericResult {
        title: None,
        content: Some(vec![ContentBlock::text("```console\nstarted background job bash-1\n```")]),
    };
    assert_eq!(bench.result_card("bash", &arguments, &stored), Some(ResultCard::Generic(expected)));
}

#[test]
fn a_fence_is_longer_than_any_inside_it() {
    assert_eq!(console_fence("a\n\n"), "```console\na\n```");
    assert_eq!(console_fence("````x"), "`````console\n````x\n`````");
}

#[tokio::test]
async fn powershell_is_run_without_profile_and_speaks_utf8() {
    let bench = Bench::new();
    bench.world().shell.outcome(Ok(shell_outcome("x", 3)));
    let ran = bench.call("pwsh", command("Write-Output \"a b\"; exit 3")).await;
    assert_eq!(ran.text(), "x\n[exit code: 3]");
    let request = &bench.world().shell.requests()[0];
    let (script, options) = request.argv.split_last().unwrap();
    assert_eq!(options, ["pwsh", "-NoLogo", "-NoProfile", "-NonInteractive", "-Command"]);
    assert!(
        script.contains("UTF8Encoding") && script.ends_with("; Write-Output \"a b\"; exit 3"),
        "{script}"
    );
    assert_eq!(request.display, "Write-Output \"a b\"; exit 3");
    assert_eq!(request.timeout, Duration::from_secs(120));
}

#[tokio::test]
async fn powershell_that_is_not_installed_is_named() {
    let cases = [
        (
            ShellError::Spawn { program: "pwsh".into(), reason: "not found".into() },
            "SHELL_UNAVAILABLE",
            "PATH",
        ),
        (ShellError::Workdir { path: "/gone".into(), reason: "no such folder".into() }, "plain", "/gone"),
        (ShellError::SandboxUnavailable("no backend".into()), "SANDBOX_UNAVAILABLE", "no backend"),
    ];
    for (error, code, message) in cases {
        let bench = Bench::new();
        bench.world().shell.outcome(Err(error));
        let ran = bench.call("pwsh", command("x")).await;
        assert_eq!(ran.code(), code);
        assert!(ran.text().contains(message), "{}", ran.text());
    }
}
