//! The shell on real commands.

use super::*;
use protocol::id::{CallId, SessionId};
use protocol::mode::SandboxMode;
use services::sandbox::{SandboxLevel, SandboxSupport};
use services::shell::{SandboxPolicy, SandboxReport, quiet_environment};
use std::path::PathBuf;

/// Confines nothing, but wraps and judges visibly.
struct FakeSandbox;

impl Sandbox for FakeSandbox {
    fn support(&self) -> SandboxSupport {
        SandboxSupport { level: SandboxLevel::None, detail: String::new() }
    }

    fn wrap(
        &self,
        argv: &[String],
        policy: &SandboxPolicy,
        _: Option<&Path>,
    ) -> Result<Vec<String>, ShellError> {
        match policy.mode {
            SandboxMode::DangerFullAccess => Ok(argv.to_vec()),
            SandboxMode::WorkspaceWrite => Ok([&["env".into(), "WRAPPED=1".into()], argv].concat()),
            SandboxMode::ReadOnly => Err(ShellError::SandboxUnavailable("not here".into())),
        }
    }

    fn judge(
        &self,
        policy: &SandboxPolicy,
        exit_code: Option<i32>,
        stderr: &str,
    ) -> Result<Option<SandboxReport>, ShellError> {
        let denied = exit_code != Some(0) && stderr.contains("denied");
        Ok(policy.confines().then(|| SandboxReport { mode: policy.mode, denied, enforcement: "full".into() }))
    }
}

struct Fixture {
    shell: LocalShell,
    request: ShellRequest,
    shown: Arc<Mutex<Vec<LiveUpdate>>>,
    folder: tempfile::TempDir,
}

impl Fixture {
    fn new(script: &str) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let request = ShellRequest {
            session_id: SessionId::new("s"),
            call_id: CallId::new("c"),
            argv: ["bash", "-c", script].map(String::from).to_vec(),
            display: script.to_owned(),
            workdir: folder.path().to_owned(),
            env: quiet_environment(),
            timeout: Duration::from_secs(20),
            sandbox: SandboxPolicy {
                mode: SandboxMode::DangerFullAccess,
                writable_roots: vec![],
                network: true,
            },
            max_stream_bytes: 64_000,
            max_spill_bytes: 1_000_000,
            spill_directory: folder.path().to_owned(),
        };
        Self { shell: LocalShell::new(Arc::new(FakeSandbox)), request, shown: Arc::default(), folder }
    }

    fn timeout(mut self, timeout: Duration) -> Self {
        self.request.timeout = timeout;
        self
    }

    fn grace(mut self, grace: Duration) -> Self {
        self.shell.grace = grace;
        self
    }

    fn sink(&self) -> LiveSink {
        let shown = self.shown.clone();
        Arc::new(move |update| shown.lock().unwrap().push(update))
    }

    async fn run(&self) -> Result<ShellOutcome, ShellError> {
        self.shell.run(self.request.clone(), self.sink(), &CancellationToken::new()).await
    }
}

fn whole(text: &str) -> CapturedStream {
    CapturedStream {
        text: text.to_owned(),
        truncated: false,
        total_bytes: text.len() as u64,
        spill_path: None,
    }
}

fn exited(exit_code: i32, stdout: &str, stderr: &str) -> ShellOutcome {
    ShellOutcome {
        exit_code: Some(exit_code),
        signal: None,
        timed_out: false,
        aborted: false,
        stdout: whole(stdout),
        stderr: whole(stderr),
        sandbox: None,
    }
}

/// Whether any process has this text in its command line.
fn is_running(text: &str) -> bool {
    std::fs::read_dir("/proc").unwrap().flatten().any(|entry| {
        let Ok(command_line) = std::fs::read(entry.path().join("cmdline")) else { return false };
        memchr::memmem::find(&command_line, text.as_bytes()).is_some()
    })
}

/// A sleeping time that no other process uses: it identifies the sleeper.
fn unique_seconds() -> String {
    format!("{}.{}", 1000 + std::process::id() % 1000, u64::from_str_radix(&random_hex(6), 16).unwrap())
}

async fn wait_until_gone(text: &str) -> bool {
    for _ in 0..200 {
        if !is_running(text) {
            return true;
        }
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    false
}

#[tokio::test]
async fn streams_and_exit_codes_come_back_separately() {
    let cases = [
        ("echo hi", exited(0, "hi\n", "")),
        ("true", exited(0, "", "")),
        ("printf x; echo e >&2; exit 3", exited(3, "x", "e\n")),
        ("cat; echo $?", exited(0, "0\n", "")),
        ("printf 'caf\\xc3\\xa9 \\xff'", exited(0, "café \u{fffd}", "")),
    ];
    for (script, expected) in cases {
        let mut outcome = Fixture::new(script).run().await.unwrap();
        // The replacement character is longer than the byte it stands for.
        outcome.stdout.total_bytes = outcome.stdout.text.len() as u64;
        assert_eq!(outcome, expected, "{script}");
    }
}

#[tokio::test]
async fn a_signal_is_named() {
    let outcome = Fixture::new("kill -SEGV $$").run().await.unwrap();
    assert_eq!((outcome.exit_code, outcome.signal.as_deref()), (None, Some("SIGSEGV")));
}

#[tokio::test]
async fn what_cannot_start_says_why() {
    let mut fixture = Fixture::new("true");
    fixture.request.workdir = PathBuf::from("/nowhere-at-all");
    assert_eq!(
        fixture.run().await,
        Err(ShellError::Workdir { path: "/nowhere-at-all".into(), reason: "it does not exist".into() })
    );
    fixture.request.workdir = PathBuf::from("/etc/passwd");
    assert!(matches!(fixture.run().await, Err(ShellError::Workdir { .. })));
    fixture.request.workdir = PathBuf::from("/");
    fixture.request.argv = vec!["no-such-program-at-all".into()];
    assert!(
        matches!(fixture.run().await, Err(ShellError::Spawn { program, .. }) if program == "no-such-program-at-all")
    );
    fixture.request.sandbox.mode = SandboxMode::ReadOnly;
    assert_eq!(fixture.run().await, Err(ShellError::SandboxUnavailable("not here".into())));
    assert_eq!(*fixture.shown.lock().unwrap(), []);
}

#[tokio::test]
async fn a_confined_command_runs_wrapped_and_is_judged() {
    let mut fixture = Fixture::new("echo $WRAPPED; echo denied >&2; exit 1");
    fixture.request.sandbox.mode = SandboxMode::WorkspaceWrite;
    let report =
        SandboxReport { mode: SandboxMode::WorkspaceWrite, denied: true, enforcement: "full".into() };
    let expected = ShellOutcome { sandbox: Some(report), ..exited(1, "1\n", "denied\n") };
    assert_eq!(fixture.run().await.unwrap(), expected);
}

#[tokio::test]
async fn the_environment_is_scrubbed_and_quiet() {
    let mut fixture = Fixture::new("echo $PAGER $TERM $MINE; env | cut -d= -f1");
    fixture.request.env.push(("MINE".into(), "given".into()));
    let text = fixture.run().await.unwrap().stdout.text;
    assert!(text.starts_with("cat dumb given\n"), "{text}");
    let names: Vec<&str> = text.lines().skip(1).collect();
    assert!(names.contains(&"PATH"));
    let secrets: Vec<&&str> =
        names.iter().filter(|name| is_secret_name(name) && **name != MARKER_VARIABLE).collect();
    assert_eq!(secrets, [&""; 0]);
}

#[tokio::test]
async fn live_updates_frame_the_output() {
    let fixture = Fixture::new("echo one; sleep 0.2; echo two >&2; exit 4");
    fixture.run().await.unwrap();
    let call_id = CallId::new("c");
    let shown = fixture.shown.lock().unwrap();
    let expected = [
        LiveUpdate::TerminalOpened { call_id: call_id.clone(), cwd: fixture.folder.path().to_owned() },
        LiveUpdate::TerminalOutput { call_id: call_id.clone(), delta: "one\n".into() },
        LiveUpdate::TerminalOutput { call_id: call_id.clone(), delta: "two\n".into() },
        LiveUpdate::TerminalExited { call_id, exit_code: Some(4), signal: None },
    ];
    assert_eq!(*shown, expected);
}

#[tokio::test]
async fn a_background_child_that_holds_the_pipe_does_not_hold_the_call() {
    let started = Instant::now();
    let outcome = Fixture::new("sleep 1000 & echo $!").run().await.unwrap();
    assert!(started.elapsed() < Duration::from_secs(2), "{:?}", started.elapsed());
    let pid = Pid::from_raw(outcome.stdout.text.trim().parse().unwrap()).unwrap();
    // A command that ended by itself may leave a server behind.
    rustix::process::kill_process(pid, rustix::process::Signal::KILL).unwrap();
}

#[tokio::test]
async fn a_background_child_that_keeps_printing_does_not_hold_the_call() {
    let started = Instant::now();
    let outcome = Fixture::new("yes & echo hi >&2").run().await.unwrap();
    assert_eq!(outcome.stderr, whole("hi\n"));
    assert!(started.elapsed() < Duration::from_secs(5), "{:?}", started.elapsed());
}

#[tokio::test]
async fn a_timeout_stops_the_whole_tree() {
    let (inner, detached) = (unique_seconds(), unique_seconds());
    let script = format!("echo begun; setsid sleep {detached} & sleep {inner} & sleep {inner}");
    let outcome = Fixture::new(&script).timeout(Duration::from_millis(300)).run().await.unwrap();
    let expected = ShellOutcome {
        exit_code: None,
        signal: Some("SIGTERM".into()),
        timed_out: true,
        ..exited(0, "begun\n", "")
    };
    assert_eq!(outcome, expected);
    assert!(!is_running(&inner) && !is_running(&detached));
}

#[tokio::test]
async fn what_ignores_the_polite_signal_is_killed_after_the_grace() {
    let seconds = unique_seconds();
    let script = format!("trap '' TERM; sleep {seconds} & wait; sleep {seconds}");
    let started = Instant::now();
    let outcome = Fixture::new(&script)
        .timeout(Duration::from_millis(200))
        .grace(Duration::from_millis(400))
        .run()
        .await
        .unwrap();
    assert_eq!((outcome.signal.as_deref(), outcome.timed_out), (Some("SIGKILL"), true));
    assert!(started.elapsed() < Duration::from_secs(3));
    assert!(!is_running(&seconds));
}

#[tokio::test]
async fn a_leader_that_ends_politely_does_not_save_its_stubborn_child() {
    let seconds = unique_seconds();
    let script = format!(
        "trap 'exit 0' TERM; bash -c \"trap '' TERM; sleep {seconds}; sleep {seconds}\" & while :; do sleep 0.05; done"
    );
    let outcome = Fixture::new(&script)
        .timeout(Duration::from_millis(500))
        .grace(Duration::from_millis(500))
        .run()
        .await
        .unwrap();
    assert_eq!((outcome.exit_code, outcome.timed_out, outcome.aborted), (Some(0), true, false));
    assert!(!is_running(&seconds));
}

#[tokio::test]
async fn a_cancelled_command_keeps_what_it_printed() {
    let fixture = Fixture::new("echo begun; sleep 1000");
    let cancel = CancellationToken::new();
    let token = cancel.clone();
    let ((), outcome) = tokio::join!(
        async move {
            tokio::time::sleep(Duration::from_millis(300)).await;
            token.cancel();
        },
        fixture.shell.run(fixture.request.clone(), fixture.sink(), &cancel),
    );
    let expected = ShellOutcome {
        exit_code: None,
        signal: Some("SIGTERM".into()),
        aborted: true,
        ..exited(0, "begun\n", "")
    };
    assert_eq!(outcome.unwrap(), expected);
    let outcome = fixture.shell.run(fixture.request.clone(), fixture.sink(), &cancel).await.unwrap();
    assert_eq!(outcome, never_started());
}

#[tokio::test]
async fn dropping_the_future_kills_everything() {
    let (inner, detached) = (unique_seconds(), unique_seconds());
    let fixture = Fixture::new(&format!("setsid sleep {detached} & sleep {inner}"));
    let run = tokio::time::timeout(Duration::from_millis(400), fixture.run()).await;
    assert!(run.is_err(), "it was still running");
    assert!(wait_until_gone(&inner).await && wait_until_gone(&detached).await);
}

#[tokio::test]
async fn large_output_is_kept_at_both_ends_and_whole_on_disk() {
    let mut fixture = Fixture::new("seq 1 100000");
    fixture.request.max_stream_bytes = 1000;
    let stdout = fixture.run().await.unwrap().stdout;
    let expected: String = (1..=100_000).map(|n| format!("{n}\n")).collect();
    assert_eq!(stdout.total_bytes, expected.len() as u64);
    assert!(stdout.truncated && stdout.text.len() < 1300);
    assert!(stdout.text.starts_with("1\n2\n") && stdout.text.ends_with("99999\n100000\n"));
    assert_eq!(std::fs::read_to_string(stdout.spill_path.unwrap()).unwrap(), expected);

    fixture.request.argv[2] = "head -c 50000000 /dev/zero | tr '\\0' x".into();
    let stdout = fixture.run().await.unwrap().stdout;
    assert_eq!((stdout.total_bytes, stdout.spill_path), (50_000_000, None));
    assert!(stdout.text.len() < 1300);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn of_200_commands_cancelled_at_random_no_process_is_left() {
    let seconds = unique_seconds();
    let scripts = [
        format!("sleep {seconds}"),
        format!("sleep {seconds} & sleep {seconds} & wait"),
        format!("setsid sleep {seconds} & sleep {seconds}"),
        format!("(trap '' HUP; nohup sleep {seconds} >/dev/null 2>&1 &) ; sleep {seconds}"),
        format!("for i in 1 2 3; do sleep {seconds} | cat & done; wait"),
    ];
    let mut runs = tokio::task::JoinSet::new();
    let limit = Arc::new(tokio::sync::Semaphore::new(16));
    for idx in 0..200usize {
        let script = scripts[idx % scripts.len()].clone();
        let limit = limit.clone();
        let delay = Duration::from_millis(u64::from_str_radix(&random_hex(1), 16).unwrap() / 4);
        runs.spawn(async move {
            let _permit = limit.acquire_owned().await.unwrap();
            let fixture = Fixture::new(&script);
            let cancel = CancellationToken::new();
            let token = cancel.clone();
            let run = fixture.shell.run(fixture.request.clone(), fixture.sink(), &cancel);
            if idx % 4 == 3 {
                // Dropped instead of cancelled.
                let _ = tokio::time::timeout(delay, run).await;
                return;
            }
            let (outcome, ()) = tokio::join!(run, async move {
                tokio::time::sleep(delay).await;
                token.cancel();
            });
            assert!(outcome.unwrap().aborted);
        });
    }
    while let Some(run) = runs.join_next().await {
        run.unwrap();
    }
    assert!(wait_until_gone(&seconds).await, "a process survived");
}
