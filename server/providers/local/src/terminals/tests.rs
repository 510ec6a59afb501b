//! Real shells on real terminals.

use super::*;
use protocol::id::CallId;
use protocol::mode::SandboxMode;
use services::sandbox::{SandboxLevel, SandboxSupport};
use services::shell::{SandboxPolicy, SandboxReport, ShellError};
use services::terminals::{TerminalSignal, WaitReason};
use std::path::Path;
use tokio_util::sync::CancellationToken;

struct Open;

impl Sandbox for Open {
    fn support(&self) -> SandboxSupport {
        SandboxSupport { level: SandboxLevel::None, detail: String::new() }
    }

    fn wrap(&self, argv: &[String], _: &SandboxPolicy, _: Option<&Path>) -> Result<Vec<String>, ShellError> {
        Ok(argv.to_vec())
    }

    fn judge(&self, _: &SandboxPolicy, _: Option<i32>, _: &str) -> Result<Option<SandboxReport>, ShellError> {
        Ok(None)
    }
}

fn terminals() -> LocalTerminals {
    LocalTerminals::new(Arc::new(Open))
}

fn request(name: Option<&str>) -> OpenTerminal {
    OpenTerminal {
        owner: SessionId::new("a"),
        call_id: CallId::new("c"),
        kind: SHELL_KIND.to_owned(),
        name: name.map(str::to_owned),
        cwd: std::env::temp_dir(),
        env: Vec::new(),
        sandbox: SandboxPolicy {
            mode: SandboxMode::DangerFullAccess,
            writable_roots: Vec::new(),
            network: true,
        },
    }
}

async fn open(terminals: &LocalTerminals) -> Arc<dyn Terminal> {
    terminals.open(request(None), Arc::new(|_| {})).await.unwrap()
}

async fn send(terminal: &Arc<dyn Terminal>, text: &str) -> services::terminals::Sent {
    terminal.send(text, true, CancellationToken::new()).unwrap().await.unwrap()
}

#[tokio::test]
async fn state_persists_across_sends_and_a_program_reads_its_input() {
    let terminals = terminals();
    let terminal = open(&terminals).await;
    assert_eq!(send(&terminal, "x=4711").await.reason, WaitReason::StdinRead);
    let sent = send(&terminal, "echo is-$x").await;
    assert!(sent.viewport.contains("is-4711"), "{:?}", sent.viewport);
    assert_eq!(send(&terminal, "cat").await.reason, WaitReason::StdinRead);
    assert!(terminal.signal(TerminalSignal::Int).unwrap() > 0);
    assert!(terminal.close().await);
    assert_eq!(terminals.list(&SessionId::new("a")), []);
}

#[tokio::test]
async fn a_second_send_a_foreign_owner_and_a_taken_name_are_refused() {
    let terminals = terminals();
    let terminal = terminals.open(request(Some("n")), Arc::new(|_| {})).await.unwrap();
    let id = terminal.info().id;
    let cancel = CancellationToken::new();
    let active = terminal.send("sleep 300", true, cancel.clone()).unwrap();
    let second = terminal.send("ls", true, CancellationToken::new()).err();
    assert_eq!(second, Some(TerminalError::SendActive(id.clone())));
    let foreign = terminals.get(&SessionId::new("b"), &id).err();
    assert_eq!(foreign, Some(TerminalError::Foreign(id)));
    let unknown = terminals.get(&SessionId::new("a"), "pty-99").err();
    assert_eq!(unknown, Some(TerminalError::Unknown("pty-99".into())));
    let taken = terminals.open(request(Some("n")), Arc::new(|_| {})).await.err();
    assert_eq!(taken, Some(TerminalError::DuplicateName("n".into())));
    cancel.cancel();
    assert_eq!(active.await, Err(TerminalError::Cancelled));
    assert!(send(&terminal, "echo alive-$((1+1))").await.viewport.contains("alive-2"));
    terminal.close().await;
}

#[tokio::test]
async fn the_exit_of_the_shell_ends_the_send_and_is_kept() {
    let terminals = terminals();
    let terminal = open(&terminals).await;
    let sent = send(&terminal, "exit 7").await;
    let exited = TerminalStatus::Exited { exit_code: Some(7), signal: None };
    assert_eq!((sent.reason, sent.status), (WaitReason::SessionExit, exited.clone()));
    assert_eq!(terminal.info().status, exited);
    terminal.close().await;
}
