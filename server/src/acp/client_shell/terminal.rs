//! One terminal of the client: made, watched, killed, and released whatever happens.

use crate::acp::client::ClientLink;
use agent_client_protocol::Error;
use agent_client_protocol::v1::schema::{
    CreateTerminalRequest, KillTerminalRequest, ReleaseTerminalRequest, SessionId, TerminalExitStatus,
    TerminalId, TerminalOutputRequest, TerminalOutputResponse, WaitForTerminalExitRequest,
};
use futures::future::BoxFuture;
use provider_local::shell::kill_marked;
use services::clock::Clock;
use std::time::Duration;
use tokio::sync::oneshot;

/// How long the client may take to kill.
const KILL_BUDGET: Duration = Duration::from_secs(2);
/// How long a release is waited for; it was sent, so that nothing is lost by going on.
const RELEASE_BUDGET: Duration = Duration::from_secs(1);

/// The client's report of an exit.
pub(super) type ExitReport = BoxFuture<'static, Result<TerminalExitStatus, Error>>;

/// The client's terminals.
#[derive(Clone)]
pub(super) struct Terminals {
    link: ClientLink,
    /// The session they belong to.
    pub(super) session_id: SessionId,
}

/// A terminal. Dropped unreleased, it is killed and released in the background.
pub(super) struct Terminal {
    terminals: Terminals,
    id: TerminalId,
    /// Stands in the environment of every process of the command.
    marker: String,
    is_released: bool,
}

impl Terminals {
    pub(super) fn new(link: ClientLink, session_id: protocol::id::SessionId) -> Self {
        Self { link, session_id: SessionId::new(session_id.as_str()) }
    }

    /// Asks for a terminal. A client that answers after the receiver was dropped gets its terminal back at once.
    pub(super) fn create(
        &self,
        request: CreateTerminalRequest,
        marker: String,
    ) -> oneshot::Receiver<Result<Terminal, Error>> {
        let (answered, answer) = oneshot::channel();
        let terminals = self.clone();
        // Owned by nobody on purpose: it outlives a wait that was given up, and ends with the connection at the latest.
        tokio::spawn(async move {
            let created = terminals.link.request(request).await;
            let terminal = created.map(|created| Terminal {
                terminals,
                id: created.terminal_id,
                marker,
                is_released: false,
            });
            // When nobody listens, dropping the terminal releases it.
            let _ = answered.send(terminal);
        });
        answer
    }
}

impl Terminal {
    /// The client's name for it.
    pub(super) fn id(&self) -> &str {
        &self.id.0
    }

    /// The client's report of the exit. It may come late, or never.
    pub(super) fn wait_for_exit(&self) -> ExitReport {
        let (link, request) =
            (self.link().clone(), WaitForTerminalExitRequest::new(self.session(), self.id.clone()));
        Box::pin(async move { Ok(link.request(request).await?.exit_status) })
    }

    /// What it shows.
    pub(super) async fn output(&self) -> Result<TerminalOutputResponse, Error> {
        self.link().request(TerminalOutputRequest::new(self.session(), self.id.clone())).await
    }

    /// Has the client kill the command; waits for the answer a little.
    pub(super) async fn kill(&self, clock: &dyn Clock) {
        let (link, request) =
            (self.link().clone(), KillTerminalRequest::new(self.session(), self.id.clone()));
        let killing = tokio::spawn(async move {
            if let Err(error) = link.request(request).await {
                tracing::debug!(%error, "the client did not kill a terminal");
            }
        });
        bounded(killing, KILL_BUDGET, clock).await;
    }

    /// Kills every process of the command that runs on this machine.
    pub(super) async fn kill_marked(&self) {
        let marker = self.marker.clone();
        let _ = tokio::task::spawn_blocking(move || kill_marked(&marker)).await;
    }

    /// Gives it back; waits for the answer a little.
    pub(super) async fn release(mut self, clock: &dyn Clock) {
        self.is_released = true;
        let (link, request) =
            (self.link().clone(), ReleaseTerminalRequest::new(self.session(), self.id.clone()));
        bounded(tokio::spawn(release(link, request)), RELEASE_BUDGET, clock).await;
    }

    fn link(&self) -> &ClientLink {
        &self.terminals.link
    }

    fn session(&self) -> SessionId {
        self.terminals.session_id.clone()
    }
}

impl Drop for Terminal {
    fn drop(&mut self) {
        // Without a runtime the process is ending, and the client with its connection knows.
        let Ok(runtime) = tokio::runtime::Handle::try_current() else { return };
        if self.is_released {
            return;
        }
        let link = self.link().clone();
        let (kill, release_request) = (
            KillTerminalRequest::new(self.session(), self.id.clone()),
            ReleaseTerminalRequest::new(self.session(), self.id.clone()),
        );
        let marker = std::mem::take(&mut self.marker);
        // A destructor cannot wait. Each step is bounded or ends with the connection.
        runtime.spawn(async move {
            let marked = tokio::task::spawn_blocking(move || kill_marked(&marker));
            let _ = tokio::time::timeout(KILL_BUDGET, link.request(kill)).await;
            let _ = marked.await;
            release(link, release_request).await;
        });
    }
}

async fn release(link: ClientLink, request: ReleaseTerminalRequest) {
    if let Err(error) = link.request(request).await {
        tracing::debug!(%error, "the client did not release a terminal");
    }
}

/// Waits for a task within a budget. It goes on after that: dropping a request would withdraw it.
async fn bounded(task: tokio::task::JoinHandle<()>, budget: Duration, clock: &dyn Clock) {
    tokio::select! {
        _ = task => {}
        () = clock.sleep(budget) => {}
    }
}
