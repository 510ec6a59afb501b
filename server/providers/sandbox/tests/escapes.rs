//! Ways out of the sandbox, tried by real commands under each backend of Linux. A machine without `bwrap` fails here: the
//! package is `bubblewrap`.

#![cfg(target_os = "linux")]
#![expect(clippy::unwrap_used, reason = "the helpers of tests may fail as tests do")]

use protocol::mode::SandboxMode::{self, DangerFullAccess, ReadOnly, WorkspaceWrite};
use provider_sandbox::{Backend, ExecSandbox};
use services::sandbox::{Sandbox, SandboxLevel};
use services::shell::{SandboxPolicy, SandboxReport, ShellError};
use std::fs;
use std::net::{TcpListener, UdpSocket};
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

struct Fixture {
    sandbox: ExecSandbox,
    /// Outside of the temporary folders, which are always writable.
    root: PathBuf,
    _folder: tempfile::TempDir,
}

impl Fixture {
    fn new(backend: Backend) -> Self {
        let folder = tempfile::tempdir_in("/var/tmp").unwrap();
        let root = fs::canonicalize(folder.path()).unwrap();
        for name in ["workspace", "outside"] {
            fs::create_dir(root.join(name)).unwrap();
        }
        fs::write(root.join("outside/old"), "old").unwrap();
        let wrapper = vec![env!("CARGO_BIN_EXE_sandbox-exec-test").to_owned(), "sandbox-exec".to_owned()];
        Self { sandbox: ExecSandbox::with_backend(wrapper, backend), root, _folder: folder }
    }

    fn policy(&self, mode: SandboxMode, network: bool) -> SandboxPolicy {
        SandboxPolicy { mode, writable_roots: vec![self.root.join("workspace")], network }
    }

    fn run(&self, argv: &[&str], policy: &SandboxPolicy) -> Output {
        let argv: Vec<String> = argv.iter().map(|word| (*word).to_owned()).collect();
        let argv = self.sandbox.wrap(&argv, policy, None).unwrap();
        let mut command = Command::new(&argv[0]);
        command.args(&argv[1..]).current_dir(self.root.join("workspace")).stdin(Stdio::null());
        command.output().unwrap()
    }

    fn succeeds(&self, script: &str, policy: &SandboxPolicy) -> bool {
        self.run(&["bash", "-c", script], policy).status.success()
    }

    fn assert_outside_is_untouched(&self, what: &str) {
        let outside = self.root.join("outside");
        let names: Vec<_> = fs::read_dir(&outside).unwrap().map(|entry| entry.unwrap().file_name()).collect();
        assert_eq!(names, ["old"], "{what}");
        assert_eq!(fs::read_to_string(outside.join("old")).unwrap(), "old", "{what}");
    }
}

/// Both backends; a missing one is a failure and not a pass.
fn backends() -> [Backend; 2] {
    let backends = [Backend::Landlock, Backend::Bubblewrap];
    for backend in backends {
        let support = Fixture::new(backend).sandbox.support();
        assert_ne!(support.level, SandboxLevel::None, "{backend:?} cannot be tested: {}", support.detail);
    }
    backends
}

#[test]
fn no_way_leads_out_of_the_workspace() {
    let ways = [
        "echo x > ../outside/new",
        "ln -s ../outside out; echo x > out/new",
        "ln -s ../outside/old link; echo x > link",
        "ln ../outside/old hard && echo x > hard",
        "mv ../outside/old moved",
        "echo x > /proc/self/root$PWD/../outside/new",
        "echo x > /proc/self/cwd/../outside/new",
        "echo x > /proc/$PPID/root$PWD/../outside/new",
        "for p in /proc/[0-9]*; do echo x > $p/root$PWD/../outside/new && exit 0; done; exit 1",
        "for p in /proc/[0-9]*; do echo x > $p/cwd/../outside/new && exit 0; done; exit 1",
        "mount -o remount,rw / && echo x > ../outside/new",
        "chmod -R 777 ../outside; rm -rf ../outside/old",
    ];
    for backend in backends() {
        for way in ways {
            for mode in [ReadOnly, WorkspaceWrite] {
                let fixture = Fixture::new(backend);
                let got_out = fixture.succeeds(way, &fixture.policy(mode, true));
                assert!(!got_out, "{backend:?} {mode:?}: {way}");
                fixture.assert_outside_is_untouched(way);
            }
        }
    }
}

#[test]
fn a_folder_swapped_for_a_link_redirects_no_command() {
    for backend in backends() {
        let fixture = Fixture::new(backend);
        let (workspace, outside) = (fixture.root.join("workspace"), fixture.root.join("outside"));
        fs::create_dir(workspace.join("d")).unwrap();
        let is_over = Arc::new(AtomicBool::new(false));
        let swapper = std::thread::spawn({
            let is_over = is_over.clone();
            move || swap(&workspace, &outside, &is_over)
        });
        let policy = fixture.policy(WorkspaceWrite, true);
        fixture.succeeds("for n in $(seq 3000); do echo x 2>/dev/null > d/new; done 2>/dev/null", &policy);
        is_over.store(true, Ordering::Relaxed);
        swapper.join().unwrap();
        fixture.assert_outside_is_untouched(&format!("{backend:?}"));
    }
}

/// Puts a folder and a link to the outside in turn where writes go, until told to stop.
fn swap(workspace: &Path, outside: &Path, is_over: &AtomicBool) {
    let (place, aside, link) = (workspace.join("d"), workspace.join("aside"), workspace.join("link"));
    while !is_over.load(Ordering::Relaxed) {
        let _ = std::os::unix::fs::symlink(outside, &link);
        let _ = fs::rename(&place, &aside);
        let _ = fs::rename(&link, &place);
        let _ = fs::remove_file(&place);
        let _ = fs::rename(&aside, &place);
    }
}

#[test]
fn both_backends_grant_what_the_mode_does() {
    let cases = [
        ("echo x > new", [false, true, true]),
        ("echo x > ../outside/new", [false, false, true]),
        ("t=$(mktemp /tmp/followspot-test-XXXXXX) && rm $t", [false, true, true]),
        ("echo x > /dev/null && echo y 2>/dev/stderr", [true, true, true]),
        ("cat /etc/passwd ../outside/* >/dev/null", [true, true, true]),
    ];
    for backend in backends() {
        for (script, expected) in cases {
            let actual = [ReadOnly, WorkspaceWrite, DangerFullAccess].map(|mode| {
                let fixture = Fixture::new(backend);
                fixture.succeeds(script, &fixture.policy(mode, true))
            });
            assert_eq!(actual, expected, "{backend:?}: {script}");
        }
    }
}

// Landlock has no rule for UDP, and says so by calling itself partial.
#[test]
fn a_denied_network_is_denied_to_every_child() {
    let tcp = TcpListener::bind("127.0.0.1:0").unwrap();
    let udp = UdpSocket::bind("127.0.0.1:0").unwrap();
    udp.set_nonblocking(true).unwrap();
    let connects = format!("bash -c 'exec 3<>/dev/tcp/127.0.0.1/{}'", tcp.local_addr().unwrap().port());
    let sends = format!("echo x > /dev/udp/127.0.0.1/{}", udp.local_addr().unwrap().port());
    for backend in backends() {
        let fixture = Fixture::new(backend);
        for mode in [ReadOnly, WorkspaceWrite, DangerFullAccess] {
            for network in [true, false] {
                let policy = fixture.policy(mode, network);
                assert_eq!(fixture.succeeds(&connects, &policy), network, "{backend:?} {mode:?}");
            }
            let denied = fixture.policy(mode, false);
            fixture.succeeds(&sends, &denied);
            let arrived = udp.recv(&mut [0; 8]).is_ok();
            let enforcement = fixture.sandbox.judge(&denied, Some(0), "").unwrap().unwrap().enforcement;
            let is_landlock = backend == Backend::Landlock;
            assert_eq!(
                (arrived, enforcement == "partial"),
                (is_landlock, is_landlock),
                "{backend:?} {mode:?}"
            );
        }
    }
}

#[test]
fn the_end_of_a_command_in_bubblewrap_is_understood() {
    let [_, backend] = backends();
    let fixture = Fixture::new(backend);
    let policy = fixture.policy(ReadOnly, true);
    let judged = |argv: &[&str]| {
        let output = fixture.run(argv, &policy);
        let stderr = String::from_utf8_lossy(&output.stderr);
        (output.status.code(), fixture.sandbox.judge(&policy, output.status.code(), &stderr))
    };
    let report = |denied| Ok(Some(SandboxReport { mode: ReadOnly, denied, enforcement: "full".to_owned() }));
    assert_eq!(judged(&["bash", "-c", "exit 7"]), (Some(7), report(false)));
    assert_eq!(judged(&["bash", "-c", "echo x > new"]), (Some(1), report(true)));
    let missing = judged(&["no-such-program"]).1;
    assert!(matches!(missing, Err(ShellError::Spawn { program, .. }) if program == "no-such-program"));
    let broken = fixture.sandbox.judge(&policy, Some(1), "bwrap: No permissions to create new namespace\n");
    assert!(matches!(broken, Err(ShellError::SandboxUnavailable(reason)) if reason.contains("namespace")));
}
