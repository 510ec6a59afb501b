//! The wrapper on real commands, confined by the real kernel. On a kernel without Landlock the confined cases check that
//! nothing runs.

#![cfg(target_os = "linux")]
#![expect(clippy::unwrap_used, reason = "the helpers of tests may fail as tests do")]

use protocol::mode::SandboxMode;
use provider_sandbox::{CapturedExit, ExecSandbox, probe, read_exit};
use services::sandbox::{Sandbox, SandboxLevel};
use services::shell::{SandboxPolicy, SandboxReport, ShellError};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use std::time::{Duration, Instant};

fn wrapper() -> Vec<String> {
    vec![env!("CARGO_BIN_EXE_sandbox-exec-test").to_owned(), "sandbox-exec".to_owned()]
}

struct Fixture {
    sandbox: ExecSandbox,
    /// Outside of the temporary folders, which are always writable.
    workspace: PathBuf,
    outside: PathBuf,
    _folder: tempfile::TempDir,
}

impl Fixture {
    fn new() -> Self {
        let folder = tempfile::tempdir_in("/var/tmp").unwrap();
        let root = fs::canonicalize(folder.path()).unwrap();
        let (workspace, outside) = (root.join("workspace"), root.join("outside"));
        fs::create_dir(&workspace).unwrap();
        fs::create_dir(&outside).unwrap();
        fs::write(outside.join("old"), "old").unwrap();
        Self { sandbox: ExecSandbox::new(wrapper()), workspace, outside, _folder: folder }
    }

    fn policy(&self, mode: SandboxMode) -> SandboxPolicy {
        SandboxPolicy { mode, writable_roots: vec![self.workspace.clone()], network: true }
    }

    fn command(&self, script: &str, policy: &SandboxPolicy, capture: Option<&Path>) -> Command {
        let argv = ["bash", "-c", script].map(String::from);
        let argv = self.sandbox.wrap(&argv, policy, capture).unwrap();
        let mut command = Command::new(&argv[0]);
        command.args(&argv[1..]).current_dir(&self.workspace).stdin(Stdio::null());
        command
    }

    fn run(&self, script: &str, mode: SandboxMode) -> Output {
        self.command(script, &self.policy(mode), None).output().unwrap()
    }

    fn succeeds(&self, script: &str, mode: SandboxMode) -> bool {
        self.run(script, mode).status.success()
    }
}

fn is_confined_here() -> bool {
    probe().level != SandboxLevel::None
}

/// Waits until something holds, two seconds at most.
fn eventually(holds: impl Fn() -> bool) -> bool {
    let started = Instant::now();
    while started.elapsed() < Duration::from_secs(2) {
        if holds() {
            return true;
        }
        std::thread::sleep(Duration::from_millis(10));
    }
    false
}

#[test]
fn writes_are_confined_to_what_the_mode_grants() {
    if !is_confined_here() {
        return;
    }
    use SandboxMode::{DangerFullAccess, ReadOnly, WorkspaceWrite};
    let cases = [
        ("echo x > new", [false, true, true]),
        ("mkdir sub && mv sub sub2 && rmdir sub2", [false, true, true]),
        ("echo x > ../outside/new", [false, false, true]),
        ("rm ../outside/old", [false, false, true]),
        (": > ../outside/kept", [false, false, true]),
        ("truncate -s 0 ../outside/kept", [false, false, true]),
        ("mv new ../outside/moved", [false, false, true]),
        ("ln -s ../outside out; echo x > out/through-link", [false, false, true]),
        ("t=$(mktemp /tmp/followspot-test-XXXXXX) && rm $t", [false, true, true]),
        ("t=$(mktemp /dev/shm/followspot-test-XXXXXX) && rm $t", [false, true, true]),
        ("echo x > /dev/null && echo y 2>/dev/stderr", [true, true, true]),
        ("cat /etc/passwd ../outside/* >/dev/null", [true, true, true]),
        ("bash -c 'bash -c \"echo x > ../outside/nested\"'", [false, false, true]),
    ];
    for (script, expected) in cases {
        let actual = [ReadOnly, WorkspaceWrite, DangerFullAccess].map(|mode| {
            let fixture = Fixture::new();
            fs::write(fixture.outside.join("kept"), "kept").unwrap();
            if script.starts_with("mv new") {
                fs::write(fixture.workspace.join("new"), "").unwrap();
            }
            fixture.succeeds(script, mode)
        });
        assert_eq!(actual, expected, "{script}");
    }
}

#[test]
fn a_granted_file_is_writable_and_its_neighbour_is_not() {
    if !is_confined_here() {
        return;
    }
    let fixture = Fixture::new();
    let mut policy = fixture.policy(SandboxMode::WorkspaceWrite);
    policy.writable_roots = vec![fixture.outside.join("old")];
    let succeeds = |script| fixture.command(script, &policy, None).status().unwrap().success();
    assert!(succeeds("echo x > ../outside/old"));
    assert!(!succeeds("echo x > ../outside/new"));
    assert!(!succeeds("echo x > new"));
}

#[test]
fn a_denial_is_recognised_and_reported() {
    if !is_confined_here() {
        return;
    }
    let fixture = Fixture::new();
    let judged = |script, mode| {
        let output = fixture.run(script, mode);
        let stderr = String::from_utf8_lossy(&output.stderr);
        fixture.sandbox.judge(&fixture.policy(mode), output.status.code(), &stderr).unwrap()
    };
    let report =
        |mode, denied| Some(SandboxReport { mode, denied, enforcement: probe().level.id().to_owned() });
    use SandboxMode::{DangerFullAccess, ReadOnly, WorkspaceWrite};
    assert_eq!(judged("echo x > new", ReadOnly), report(ReadOnly, true));
    assert_eq!(judged("false", ReadOnly), report(ReadOnly, false));
    assert_eq!(judged("echo x > new", WorkspaceWrite), report(WorkspaceWrite, false));
    assert_eq!(judged("echo x > new", DangerFullAccess), None);
}

#[test]
fn the_command_takes_the_wrappers_place_and_inherits_nothing_of_it() {
    if !is_confined_here() {
        return;
    }
    let fixture = Fixture::new();
    let run = |mode, network| {
        let policy = SandboxPolicy { network, ..fixture.policy(mode) };
        let child = fixture
            .command("echo $$; ls /proc/self/fd; env | sort; exit 7", &policy, None)
            .env_clear()
            .env("PATH", "/usr/bin:/bin")
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let pid = child.id();
        let output = child.wait_with_output().unwrap();
        assert_eq!(output.status.code(), Some(7));
        let text = String::from_utf8(output.stdout).unwrap();
        // The same process, the same open files, the same variables.
        text.strip_prefix(&format!("{pid}\n")).unwrap().to_owned()
    };
    assert_eq!(run(SandboxMode::WorkspaceWrite, false), run(SandboxMode::DangerFullAccess, true));
}

#[test]
fn privileges_cannot_be_gained() {
    if !is_confined_here() {
        return;
    }
    let output = Fixture::new().run("grep NoNewPrivs /proc/self/status", SandboxMode::ReadOnly);
    assert_eq!(String::from_utf8_lossy(&output.stdout), "NoNewPrivs:\t1\n");
}

#[test]
fn a_denied_network_refuses_connections() {
    if !is_confined_here() || !probe().detail.contains("TCP") {
        return;
    }
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let script = format!("exec 3<>/dev/tcp/127.0.0.1/{}", listener.local_addr().unwrap().port());
    let fixture = Fixture::new();
    for mode in [SandboxMode::ReadOnly, SandboxMode::WorkspaceWrite, SandboxMode::DangerFullAccess] {
        for network in [true, false] {
            let policy = SandboxPolicy { network, ..fixture.policy(mode) };
            let output = fixture.command(&script, &policy, None).output().unwrap();
            assert_eq!(output.status.success(), network, "{mode:?}: {output:?}");
        }
    }
    let policy = SandboxPolicy { network: false, ..fixture.policy(SandboxMode::ReadOnly) };
    let report = fixture.sandbox.judge(&policy, Some(0), "").unwrap().unwrap();
    assert_eq!(report.enforcement, "partial");
}

#[test]
fn what_cannot_be_started_or_understood_never_runs() {
    let fixture = Fixture::new();
    let policy = fixture.policy(SandboxMode::WorkspaceWrite);
    let judged = |arguments: &[&str]| {
        let output = Command::new(&wrapper()[0]).args(arguments).output().unwrap();
        let stderr = String::from_utf8_lossy(&output.stderr);
        fixture.sandbox.judge(&policy, output.status.code(), &stderr)
    };
    let bad = judged(&["sandbox-exec", "--mode", "read-only", "--", "touch", "x"]);
    assert_eq!(bad, Err(ShellError::SandboxUnavailable("--network is missing".into())));
    let open =
        ["sandbox-exec", "--mode", "danger-full-access", "--network", "allow", "--", "no-such-program"];
    assert!(matches!(judged(&open), Err(ShellError::Spawn { program, .. }) if program == "no-such-program"));
}

#[test]
fn captured_streams_pass_through_and_are_kept_with_the_exit() {
    let fixture = Fixture::new();
    let modes = if is_confined_here() {
        vec![SandboxMode::WorkspaceWrite, SandboxMode::DangerFullAccess]
    } else {
        vec![SandboxMode::DangerFullAccess]
    };
    for mode in modes {
        let folder = tempfile::tempdir_in("/var/tmp").unwrap();
        let output = fixture
            .command("echo out; echo err >&2; exit 3", &fixture.policy(mode), Some(folder.path()))
            .output()
            .unwrap();
        assert_eq!(output.status.code(), Some(3));
        assert_eq!((output.stdout.as_slice(), output.stderr.as_slice()), (&b"out\n"[..], &b"err\n"[..]));
        let kept = |name| fs::read_to_string(folder.path().join(name)).unwrap();
        assert_eq!((kept("stdout"), kept("stderr")), ("out\n".into(), "err\n".into()));
        let exit = CapturedExit { code: Some(3), signal: None, stdout_bytes: 4, stderr_bytes: 4 };
        assert_eq!(read_exit(folder.path()).unwrap(), Some(exit));
    }
}

#[test]
fn a_captured_command_does_not_see_the_secrets_of_the_terminals_owner() {
    let fixture = Fixture::new();
    let folder = tempfile::tempdir_in("/var/tmp").unwrap();
    let script = "echo \"$OWNER_API_KEY|$FOLLOWSPOT_TOKEN|$FOLLOWSPOT_SESSION_ID|$OWNER\"";
    let output = fixture
        .command(script, &fixture.policy(SandboxMode::DangerFullAccess), Some(folder.path()))
        .envs([
            ("OWNER_API_KEY", "k"),
            ("FOLLOWSPOT_TOKEN", "t"),
            ("FOLLOWSPOT_SESSION_ID", "s"),
            ("OWNER", "o"),
        ])
        .output()
        .unwrap();
    assert_eq!(String::from_utf8(output.stdout).unwrap(), "||s|o\n");
}

#[test]
fn a_captured_command_is_confined_too_and_cannot_touch_the_capture() {
    if !is_confined_here() {
        return;
    }
    let fixture = Fixture::new();
    let folder = tempfile::tempdir_in("/var/tmp").unwrap();
    let script = format!("echo x > ../outside/new; echo forged > {}/exit", folder.path().display());
    let policy = fixture.policy(SandboxMode::WorkspaceWrite);
    let output = fixture.command(&script, &policy, Some(folder.path())).output().unwrap();
    assert_eq!(output.status.code(), Some(1));
    assert!(!fixture.outside.join("new").exists());
    assert_eq!(read_exit(folder.path()).unwrap().unwrap().code, Some(1));
}

#[test]
fn a_background_child_does_not_hold_the_captured_command() {
    let fixture = Fixture::new();
    let folder = tempfile::tempdir().unwrap();
    let started = Instant::now();
    let policy = fixture.policy(SandboxMode::DangerFullAccess);
    let status = fixture
        .command("sleep 5 & echo hi", &policy, Some(folder.path()))
        .stdout(Stdio::null())
        .status()
        .unwrap();
    assert_eq!(status.code(), Some(0));
    assert!(started.elapsed() < Duration::from_secs(3), "{:?}", started.elapsed());
    assert_eq!(fs::read_to_string(folder.path().join("stdout")).unwrap(), "hi\n");
}

#[test]
fn a_signal_to_the_wrapper_reaches_the_whole_command() {
    use std::os::unix::process::CommandExt;
    let fixture = Fixture::new();
    for (script, own_group, code) in [
        ("sleep 600 & echo $! > pid; wait", true, 143),
        ("echo $$ > pid; exec sleep 600", false, 143),
        ("trap '' TERM; sleep 600 & echo $! > pid; wait", true, 137),
    ] {
        let folder = tempfile::tempdir().unwrap();
        let mut command =
            fixture.command(script, &fixture.policy(SandboxMode::DangerFullAccess), Some(folder.path()));
        if own_group {
            command.process_group(0);
        }
        let pid_file = fixture.workspace.join("pid");
        let _ = fs::remove_file(&pid_file);
        let mut child = command.spawn().unwrap();
        assert!(eventually(|| fs::read_to_string(&pid_file).is_ok_and(|pid| pid.ends_with('\n'))));
        let pid = fs::read_to_string(&pid_file).unwrap().trim().to_owned();
        let terminated = Command::new("kill").arg(child.id().to_string()).status().unwrap();
        assert!(terminated.success());
        let status = child.wait().unwrap();
        let signal = std::os::unix::process::ExitStatusExt::signal(&status);
        assert_eq!(status.code().or(signal.map(|signal| 128 + signal)), Some(code), "{script}");
        let exit = read_exit(folder.path()).unwrap().unwrap();
        assert_eq!((exit.code, exit.signal), (None, Some(code - 128)), "{script}");
        // A zombie that nobody reaps yet counts as gone.
        let is_gone =
            || fs::read_to_string(format!("/proc/{pid}/stat")).map_or(true, |stat| stat.contains(") Z "));
        assert!(eventually(is_gone), "{script}");
    }
}

#[test]
fn a_wrapper_that_is_killed_outright_takes_its_command_along() {
    let fixture = Fixture::new();
    let folder = tempfile::tempdir().unwrap();
    let policy = fixture.policy(SandboxMode::DangerFullAccess);
    let mut child =
        fixture.command("echo $$ > pid; exec sleep 600", &policy, Some(folder.path())).spawn().unwrap();
    let pid_file = fixture.workspace.join("pid");
    assert!(eventually(|| fs::read_to_string(&pid_file).is_ok_and(|pid| pid.ends_with('\n'))));
    let pid = fs::read_to_string(&pid_file).unwrap().trim().to_owned();
    child.kill().unwrap();
    child.wait().unwrap();
    let is_gone =
        || fs::read_to_string(format!("/proc/{pid}/stat")).map_or(true, |stat| stat.contains(") Z "));
    assert!(eventually(is_gone));
    assert_eq!(read_exit(folder.path()).unwrap(), None);
}
