//! Terminals that echo what is typed.

use super::lock;
use crate::shell::{LiveSink, SandboxPolicy};
use crate::terminals::{
    OpenTerminal, Sent, Terminal, TerminalError, TerminalInfo, TerminalSignal, TerminalStatus, Terminals,
    WaitReason,
};
use async_trait::async_trait;
use futures::future::BoxFuture;
use protocol::id::SessionId;
use std::sync::{Arc, Mutex};
use tokio_util::sync::CancellationToken;

/// Terminals, of one owner.
#[derive(Default)]
pub struct FakeTerminals {
    open: Mutex<Vec<Arc<FakeTerminal>>>,
}

struct FakeTerminal {
    id: String,
    request: OpenTerminal,
    printed: Mutex<String>,
    closed: CancellationToken,
}

#[async_trait]
impl Terminals for FakeTerminals {
    async fn open(&self, request: OpenTerminal, _live: LiveSink) -> Result<Arc<dyn Terminal>, TerminalError> {
        let mut open = lock(&self.open);
        let id = format!("pty-{}", open.len() + 1);
        let (printed, closed) = Default::default();
        let terminal = Arc::new(FakeTerminal { id, request, printed, closed });
        open.push(terminal.clone());
        Ok(terminal)
    }

    fn get(&self, _owner: &SessionId, id: &str) -> Result<Arc<dyn Terminal>, TerminalError> {
        let found = lock(&self.open).iter().find(|it| it.id == id && !it.closed.is_cancelled()).cloned();
        found.map(|it| it as Arc<dyn Terminal>).ok_or_else(|| TerminalError::Unknown(id.to_owned()))
    }

    fn list(&self, _owner: &SessionId) -> Vec<TerminalInfo> {
        lock(&self.open).iter().filter(|it| !it.closed.is_cancelled()).map(|it| it.info()).collect()
    }
}

#[async_trait]
impl Terminal for FakeTerminal {
    fn info(&self) -> TerminalInfo {
        TerminalInfo {
            id: self.id.clone(),
            name: self.request.name.clone(),
            kind: self.request.kind.clone(),
            pid: Some(7),
            status: TerminalStatus::Running,
        }
    }

    fn sandbox(&self) -> SandboxPolicy {
        self.request.sandbox.clone()
    }

    fn send(
        &self,
        text: &str,
        _submit: bool,
        _cancel: CancellationToken,
    ) -> Result<BoxFuture<'static, Result<Sent, TerminalError>>, TerminalError> {
        lock(&self.printed).push_str(&format!("{text}\n"));
        let sent = Sent {
            viewport: text.to_owned(),
            truncated: false,
            reason: WaitReason::StdinRead,
            status: TerminalStatus::Running,
        };
        Ok(Box::pin(async move { Ok(sent) }))
    }

    fn output(&self) -> String {
        lock(&self.printed).clone()
    }

    fn signal(&self, _signal: TerminalSignal) -> Result<i32, TerminalError> {
        Ok(7)
    }

    async fn close(&self) -> bool {
        let was_closed = self.closed.is_cancelled();
        self.closed.cancel();
        !was_closed
    }

    async fn exited(&self) -> TerminalStatus {
        self.closed.cancelled().await;
        TerminalStatus::Exited { exit_code: Some(0), signal: None }
    }
}
