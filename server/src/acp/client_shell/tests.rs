//! The shell over a client that really runs what it is told, and over those that misbehave.

use super::*;
use crate::acp::client_testing::{ScriptedClient, until};
use agent_client_protocol::Error;
use protocol::id::CallId;
use protocol::mode::SandboxMode;
use provider_local::SystemClock;
use serde_json::{Value, json};
use services::sandbox::{SandboxLevel, SandboxSupport};
use services::shell::SandboxReport;
use std::collections::HashMap;
use std::io::Read;
use std::os::unix::process::ExitStatusExt;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::Mutex;
use std::time::Instant;

/// Stands in for `sandbox-exec`: keeps streams, its id and the exit as that does, passes SIGTERM on, and shows stdout
/// when all is over.
const WRAPPER: &str = r#"
dir=$1; shift
[ -d "$dir" ] || exit 70
set -m
"$@" >"$dir/stdout" 2>"$dir/stderr" &
child=$!
trap 'kill -TERM -- "-$child"' TERM
echo "$$" >"$dir/pid.new" && mv "$dir/pid.new" "$dir/pid"
while wait "$child"; code=$?; kill -0 "$child"; do :; done
size() { stat -c %s "$dir/$1"; }
if [ "$code" -gt 128 ]; then end="\"signal\":$((code - 128))"; else end="\"code\":$code"; fi
echo "{$end,\"stdoutBytes\":$(size stdout),\"stderrBytes\":$(size stderr)}" >"$dir/exit.new"
mv "$dir/exit.new" "$dir/exit"
cat "$dir/stdout"
exit "$code"
"#;

struct ScriptSandbox {
    works: bool,
}

impl Sandbox for ScriptSandbox {
    fn support(&self) -> SandboxSupport {
        SandboxSupport { level: SandboxLevel::Full, detail: String::new() }
    }

    fn wrap(
        &self,
        argv: &[String],
        _policy: &SandboxPolicy,
        capture: Option<&Path>,
    ) -> Result<Vec<String>, ShellError> {
        if !self.works {
            return Err(ShellError::SandboxUnavailable("no backend".to_owned()));
        }
        let capture = capture.unwrap().to_str().unwrap();
        let wrapper = ["bash", "-c", WRAPPER, "wrapper", capture].map(str::to_owned);
        Ok(wrapper.into_iter().chain(argv.iter().cloned()).collect())
    }

    fn judge(
        &self,
        policy: &SandboxPolicy,
        _exit_code: Option<i32>,
        stderr: &str,
    ) -> Result<Option<SandboxReport>, ShellError> {
        let denied = stderr.contains("Permission denied");
        Ok(Some(SandboxReport { mode: policy.mode, denied, enforcement: "full".to_owned() }))
    }
}

/// What the local shell says, to know that it was used.
struct LocalAnswer;

#[async_trait]
impl Shell for LocalAnswer {
    async fn run(
        &self,
        _request: ShellRequest,
        _live: LiveSink,
        _cancel: &CancellationToken,
    ) -> Result<ShellOutcome, ShellError> {
        Ok(ShellOutcome { exit_code: Some(77), aborted: false, ..never_started() })
    }
}

/// How a client fails.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Fault {
    None,
    /// Starts no terminal.
    RefusesCreate,
    /// Offered terminals and does not know the method.
    KnowsNoTerminals,
    /// Starts one a second late.
    LateCreate,
    /// Never tells that a command ended.
    SilentWait,
    /// Fails to wait.
    FailingWait,
    /// Fails to kill.
    FailingKill,
    /// Runs nothing on this machine; shows a text and an exit of its own.
    Elsewhere,
}

#[derive(Default)]
struct Running {
    children: HashMap<String, Arc<Mutex<Child>>>,
    shown: HashMap<String, Arc<Mutex<Vec<u8>>>>,
}

/// A client, the shell over it and a folder for the command.
struct Bench {
    client: ScriptedClient,
    shell: ClientShell,
    running: Arc<Mutex<Running>>,
    live: Arc<Mutex<Vec<LiveUpdate>>>,
    workdir: tempfile::TempDir,
    spill: tempfile::TempDir,
}

impl Bench {
    async fn new(fault: Fault, form: CommandForm) -> Self {
        let running = Arc::<Mutex<Running>>::default();
        let shared = running.clone();
        let client = ScriptedClient::connect(Arc::new(move |method, params| {
            let running = shared.clone();
            Box::pin(async move { answer(fault, &running, &method, &params).await })
        }))
        .await;
        let sandbox = Arc::new(ScriptSandbox { works: true });
        let shell = ClientShell::new(
            client.link.clone(),
            SessionId::new("s"),
            form,
            sandbox,
            Arc::new(LocalAnswer),
            Arc::new(SystemClock),
        );
        Self {
            client,
            shell,
            running,
            live: Arc::default(),
            workdir: tempfile::tempdir().unwrap(),
            spill: tempfile::tempdir().unwrap(),
        }
    }

    async fn plain() -> Self {
        Self::new(Fault::None, CommandForm::WholeLine).await
    }

    fn request(&self, command: &str) -> ShellRequest {
        ShellRequest {
            session_id: SessionId::new("s"),
            call_id: CallId::new("c"),
            argv: ["bash", "-c", command].map(str::to_owned).to_vec(),
            display: command.to_owned(),
            workdir: self.workdir.path().to_owned(),
            env: vec![("GREETING".to_owned(), "it's me".to_owned())],
            timeout: Duration::from_secs(20),
            sandbox: SandboxPolicy {
                mode: SandboxMode::WorkspaceWrite,
                writable_roots: Vec::new(),
                network: true,
            },
            max_stream_bytes: 1000,
            max_spill_bytes: 100_000,
            spill_directory: self.spill.path().to_owned(),
        }
    }

    async fn run(
        &self,
        request: ShellRequest,
        cancel: &CancellationToken,
    ) -> Result<ShellOutcome, ShellError> {
        let live = self.live.clone();
        self.shell.run(request, Arc::new(move |update| live.lock().unwrap().push(update)), cancel).await
    }

    async fn command(&self, command: &str) -> ShellOutcome {
        self.run(self.request(command), &CancellationToken::new()).await.unwrap()
    }

    fn times(&self, method: &str) -> usize {
        self.client.methods().iter().filter(|asked| *asked == method).count()
    }

    /// The folder of the spilled streams, which is empty when nothing was spilled.
    fn n_left(&self) -> usize {
        std::fs::read_dir(self.spill.path()).unwrap().count()
    }

    async fn everything_is_over(&self, mark: &str) {
        until(|| self.times("terminal/release") == self.times("terminal/create")).await;
        until(|| !is_running(mark)).await;
    }
}

impl Drop for Bench {
    fn drop(&mut self) {
        for child in self.running.lock().unwrap().children.values() {
            let _ = child.lock().unwrap().kill();
        }
    }
}

async fn answer(
    fault: Fault,
    running: &Mutex<Running>,
    method: &str,
    params: &Value,
) -> Result<Value, Error> {
    let id = params["terminalId"].as_str().unwrap_or_default().to_owned();
    match (method, fault) {
        ("terminal/create", Fault::RefusesCreate) => Err(Error::internal_error()),
        ("terminal/create", Fault::KnowsNoTerminals) => Err(Error::method_not_found()),
        ("terminal/create", Fault::Elsewhere) => Ok(json!({ "terminalId": "far" })),
        ("terminal/create", _) => {
            if fault == Fault::LateCreate {
                tokio::time::sleep(Duration::from_millis(300)).await;
            }
            Ok(json!({ "terminalId": create(running, params) }))
        }
        ("terminal/wait_for_exit", Fault::SilentWait) => std::future::pending().await,
        ("terminal/wait_for_exit", Fault::FailingWait) => Err(Error::internal_error()),
        ("terminal/wait_for_exit", Fault::Elsewhere) => Ok(json!({ "exitCode": 4 })),
        ("terminal/wait_for_exit", _) => {
            let child = running.lock().unwrap().children[&id].clone();
            loop {
                if let Some(status) = child.lock().unwrap().try_wait().unwrap() {
                    return Ok(
                        json!({ "exitCode": status.code(), "signal": status.signal().map(|n| n.to_string()) }),
                    );
                }
                tokio::time::sleep(Duration::from_millis(2)).await;
            }
        }
        ("terminal/output", Fault::Elsewhere) => Ok(json!({ "output": "from afar\r\n", "truncated": false })),
        ("terminal/output", _) => {
            let shown = running.lock().unwrap().shown[&id].clone();
            let text = String::from_utf8_lossy(&shown.lock().unwrap()).into_owned();
            Ok(json!({ "output": text, "truncated": false }))
        }
        ("terminal/kill", Fault::FailingKill) => Err(Error::internal_error()),
        ("terminal/kill", _) => {
            if let Some(child) = running.lock().unwrap().children.get(&id) {
                let _ = child.lock().unwrap().kill();
            }
            Ok(json!({}))
        }
        ("terminal/release", _) => Ok(Value::Null),
        _ => Err(Error::method_not_found()),
    }
}

fn create(running: &Mutex<Running>, params: &Value) -> String {
    let command = params["command"].as_str().unwrap();
    let arguments: Vec<&str> =
        params["args"].as_array().into_iter().flatten().map(|word| word.as_str().unwrap()).collect();
    let mut process = match arguments.is_empty() {
        true => Command::new("sh"),
        false => Command::new(command),
    };
    match arguments.is_empty() {
        true => process.args(["-c", command]),
        false => process.args(arguments),
    };
    for variable in params["env"].as_array().unwrap() {
        process.env(variable["name"].as_str().unwrap(), variable["value"].as_str().unwrap());
    }
    process
        .current_dir(params["cwd"].as_str().unwrap())
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::null());
    let mut child = process.spawn().unwrap();
    let mut pipe = child.stdout.take().unwrap();
    let shown = Arc::<Mutex<Vec<u8>>>::default();
    let filled = shown.clone();
    std::thread::spawn(move || {
        let mut buffer = [0; 4096];
        while let Ok(n_read @ 1..) = pipe.read(&mut buffer) {
            filled.lock().unwrap().extend_from_slice(&buffer[..n_read]);
        }
    });
    let mut running = running.lock().unwrap();
    let id = format!("t{}", running.children.len());
    running.children.insert(id.clone(), Arc::new(Mutex::new(child)));
    running.shown.insert(id.clone(), shown);
    id
}

/// Whether a process has this text in its command line.
fn is_running(mark: &str) -> bool {
    std::fs::read_dir("/proc").unwrap().flatten().any(|entry| {
        std::fs::read(entry.path().join("cmdline"))
            .is_ok_and(|line| String::from_utf8_lossy(&line).split('\0').any(|word| word == mark))
    })
}

fn texts(outcome: &ShellOutcome) -> (&str, &str, Option<i32>) {
    (&outcome.stdout.text, &outcome.stderr.text, outcome.exit_code)
}

#[tokio::test]
async fn streams_and_exit_come_apart_and_the_terminal_is_shown_and_released() {
    for form in [CommandForm::WholeLine, CommandForm::ProgramAndArgs] {
        let bench = Bench::new(Fault::None, form).await;
        let command = "printf '%s|' \"$GREETING\" 'a  b' \"c'd\"; pwd >&2; exit 3";
        let outcome = bench.command(command).await;
        let workdir = std::fs::canonicalize(bench.workdir.path()).unwrap();
        let stderr = format!("{}\n", workdir.display());
        assert_eq!(texts(&outcome), ("it's me|a  b|c'd|", stderr.as_str(), Some(3)));
        assert_eq!((outcome.timed_out, outcome.aborted, outcome.signal.as_deref()), (false, false, None));
        let report = SandboxReport {
            mode: SandboxMode::WorkspaceWrite,
            denied: false,
            enforcement: "full".to_owned(),
        };
        assert_eq!(outcome.sandbox, Some(report));
        let attached =
            LiveUpdate::TerminalAttached { call_id: CallId::new("c"), terminal_id: TerminalId::new("t0") };
        assert_eq!(*bench.live.lock().unwrap(), [attached]);
        assert_eq!(bench.client.methods(), ["terminal/create", "terminal/wait_for_exit", "terminal/release"]);
        assert_eq!(bench.n_left(), 0);
    }
}

#[tokio::test]
async fn a_background_child_does_not_hold_the_call_up() {
    for fault in [Fault::None, Fault::SilentWait, Fault::FailingWait] {
        let bench = Bench::new(fault, CommandForm::WholeLine).await;
        let started = Instant::now();
        let outcome = bench.command("sleep 4.125 & echo hi").await;
        assert_eq!(texts(&outcome), ("hi\n", "", Some(0)), "{fault:?}");
        assert!(started.elapsed() < Duration::from_secs(3), "{fault:?}: {:?}", started.elapsed());
        assert_eq!(bench.times("terminal/release"), 1);
    }
}

#[tokio::test]
async fn a_timeout_asks_politely_first() {
    let bench = Bench::plain().await;
    let request =
        ShellRequest { timeout: Duration::from_millis(200), ..bench.request("echo on; sleep 31.25") };
    let outcome = bench.run(request, &CancellationToken::new()).await.unwrap();
    assert_eq!(texts(&outcome), ("on\n", "", None));
    assert_eq!((outcome.timed_out, outcome.signal.as_deref()), (true, Some("SIGTERM")));
    assert_eq!(bench.times("terminal/kill"), 0);
    bench.everything_is_over("31.25").await;
}

#[tokio::test]
async fn a_command_that_does_not_listen_is_killed_with_all_its_descendants() {
    for fault in [Fault::None, Fault::SilentWait, Fault::FailingKill] {
        let mut bench = Bench::new(fault, CommandForm::WholeLine).await;
        bench.shell.grace = Duration::from_millis(100);
        let seconds = format!("32.{}", fault as u8);
        let command = format!("trap '' TERM; setsid sleep {seconds} & while true; do sleep {seconds}; done");
        let request = ShellRequest { timeout: Duration::from_millis(200), ..bench.request(&command) };
        let outcome = bench.run(request, &CancellationToken::new()).await.unwrap();
        assert_eq!((outcome.timed_out, outcome.exit_code), (true, None), "{fault:?}");
        assert_eq!(outcome.signal.as_deref(), Some("SIGKILL"), "{fault:?}");
        assert_eq!(bench.times("terminal/kill"), 1);
        bench.everything_is_over(&seconds).await;
    }
}

#[tokio::test]
async fn a_cancel_stops_the_command_at_once() {
    for fault in [Fault::None, Fault::SilentWait] {
        let bench = Bench::new(fault, CommandForm::WholeLine).await;
        let cancel = CancellationToken::new();
        let request = bench.request("sleep 33.25");
        let (outcome, elapsed) = tokio::join!(bench.run(request, &cancel), async {
            until(|| is_running("33.25")).await;
            cancel.cancel();
            Instant::now()
        });
        let outcome = outcome.unwrap();
        assert_eq!((outcome.aborted, outcome.timed_out), (true, false));
        assert!(elapsed.elapsed() < Duration::from_secs(1), "{fault:?}: {:?}", elapsed.elapsed());
        bench.everything_is_over("33.25").await;
    }
}

#[tokio::test]
async fn a_dropped_call_leaves_nothing_behind() {
    let bench = Bench::plain().await;
    let (none, request) = (CancellationToken::new(), bench.request("sleep 34.25"));
    tokio::select! {
        outcome = bench.run(request, &none) => panic!("{outcome:?}"),
        () = until(|| is_running("34.25")) => {}
    }
    bench.everything_is_over("34.25").await;
    assert_eq!(bench.n_left(), 0);
}

#[tokio::test]
async fn what_the_client_refuses_runs_nowhere() {
    let bench = Bench::new(Fault::RefusesCreate, CommandForm::WholeLine).await;
    let refused = bench.run(bench.request("echo hi"), &CancellationToken::new()).await;
    assert!(
        matches!(&refused, Err(ShellError::Spawn { reason, .. }) if reason.contains("refused")),
        "{refused:?}"
    );
    assert_eq!(bench.client.methods(), ["terminal/create"]);
    assert_eq!(bench.n_left(), 0);
}

#[tokio::test]
async fn a_client_that_knows_no_terminals_after_all_leaves_them_to_us() {
    let bench = Bench::new(Fault::KnowsNoTerminals, CommandForm::WholeLine).await;
    assert_eq!(bench.command("echo hi").await.exit_code, Some(77));
    assert_eq!(bench.client.methods(), ["terminal/create"]);
    assert_eq!(bench.n_left(), 0);
}

#[tokio::test]
async fn a_terminal_that_comes_too_late_runs_nothing_and_is_released() {
    let mut bench = Bench::new(Fault::LateCreate, CommandForm::WholeLine).await;
    bench.shell.create_budget = Duration::from_millis(50);
    let made = bench.workdir.path().join("made");
    let failed = bench.run(bench.request("touch made"), &CancellationToken::new()).await;
    assert!(matches!(failed, Err(ShellError::Spawn { .. })), "{failed:?}");
    bench.client.was_asked("terminal/release").await;
    let cancel = CancellationToken::new();
    bench.shell.create_budget = CREATE_BUDGET;
    let (outcome, ()) = tokio::join!(bench.run(bench.request("touch made"), &cancel), async {
        until(|| bench.times("terminal/create") == 2).await;
        cancel.cancel();
    });
    assert!(outcome.unwrap().aborted);
    until(|| bench.times("terminal/release") == 2).await;
    assert!(!made.exists());
}

#[tokio::test]
async fn without_a_capture_the_terminal_tells() {
    let bench = Bench::new(Fault::Elsewhere, CommandForm::WholeLine).await;
    let outcome = bench.command("echo hi").await;
    assert_eq!(texts(&outcome), ("from afar\r\n", "", Some(4)));
    assert_eq!(bench.times("terminal/release"), 1);
}

#[tokio::test]
async fn long_output_is_cut_and_the_whole_of_it_kept() {
    let bench = Bench::plain().await;
    let outcome = bench.command("seq 1 2000").await;
    assert!(outcome.stdout.truncated && outcome.stdout.text.len() < 1200, "{:?}", outcome.stdout);
    let whole: String = (1..=2000).map(|n| format!("{n}\n")).collect();
    let path = outcome.stdout.spill_path.unwrap();
    assert_eq!(std::fs::read_to_string(path).unwrap(), whole);
    assert_eq!(outcome.stdout.total_bytes, whole.len() as u64);
}

#[tokio::test]
async fn nothing_is_started_without_a_folder_or_a_sandbox() {
    let mut bench = Bench::plain().await;
    let request = ShellRequest { workdir: "/nowhere-at-all".into(), ..bench.request("true") };
    let failed = bench.run(request, &CancellationToken::new()).await;
    assert!(matches!(failed, Err(ShellError::Workdir { .. })), "{failed:?}");
    bench.shell.sandbox = Arc::new(ScriptSandbox { works: false });
    let failed = bench.run(bench.request("true"), &CancellationToken::new()).await;
    assert!(matches!(failed, Err(ShellError::SandboxUnavailable(_))), "{failed:?}");
    assert_eq!(bench.client.methods(), Vec::<String>::new());
    assert_eq!(bench.n_left(), 0);
}

#[test]
fn an_exit_is_told_in_our_words() {
    let status = |code: Option<u32>, signal: Option<&str>| {
        TerminalExitStatus::new().exit_code(code).signal(signal.map(str::to_owned))
    };
    let cases = [
        (status(Some(3), None), Cause::Exited, (Some(3), None)),
        (status(Some(137), None), Cause::Exited, (Some(137), None)),
        (status(Some(137), None), Cause::TimedOut, (None, Some("SIGKILL"))),
        (status(None, Some("15")), Cause::TimedOut, (None, Some("SIGTERM"))),
        (status(None, Some("SIGTERM")), Cause::Exited, (None, Some("SIGTERM"))),
        (status(None, None), Cause::Exited, (None, None)),
    ];
    for (status, cause, (code, signal)) in cases {
        assert_eq!(reported_exit(&status, cause), (code, signal.map(str::to_owned)), "{status:?}");
    }
}

#[test]
fn a_line_means_exactly_the_words_it_was_made_of() {
    let words =
        ["/bin/a b", "--x=1", "it's", "", "$HOME `x` \"y\"", "a\nb", "ü", "~", "*", "-"].map(str::to_owned);
    let line = format!("printf '%s\\0' {}", shell_line(&words));
    let output = Command::new("sh").args(["-c", &line]).output().unwrap();
    let got: Vec<String> = String::from_utf8(output.stdout).unwrap().split('\0').map(str::to_owned).collect();
    assert_eq!(got[..words.len()], words);
}
