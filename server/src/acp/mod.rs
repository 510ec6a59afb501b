//! The connection to the editor; the only user of the ACP SDK besides `try`.
//!
//! * [`transport`]: stdin and stdout as lines. * [`outbox`]: what goes out, in one order.
//! * [`handlers`], [`checked`]: requests in. * [`server`], [`stored`]: sessions, open and not.
//! * [`view`]: events out, through the presenters.
//! * [`client`], [`quirks`]: what the client can do and how it differs.
//! * [`client_file_system`], [`client_shell`], [`client_approval`], [`client_questions`]: services the editor answers.
//! * [`error`]: our errors → JSON-RPC.

mod checked;
mod client;
mod client_approval;
mod client_file_system;
mod client_questions;
mod client_shell;
#[cfg(test)]
mod client_testing;
mod commands;
mod config_options;
mod error;
mod handlers;
mod mcp;
mod outbox;
mod prompt_content;
mod quirks;
mod server;
#[cfg(test)]
mod session_tests;
mod stored;
mod transport;
mod view;

use agent_client_protocol::Client;
use agent_client_protocol::UntypedMessage;
use agent_client_protocol::v1::ConnectionTo;
use outbox::Outbox;
use server::Server;
use std::sync::Arc;
use std::time::Duration;
use transport::{AnyLines, WriteGauge};

pub use server::{Credentials, ServerParts};

/// How long stopping may take, from the end of stdin to the exit.
const STOP_BUDGET: Duration = Duration::from_millis(2500);

/// Serves one client on stdin and stdout until its end of stdin, a signal, or a broken pipe.
///
/// # Errors
/// The transport could not be started.
pub async fn serve(parts: ServerParts) -> anyhow::Result<()> {
    let (lines, writer, gauge) = transport::stdio()?;
    serve_over(parts, lines, gauge, stop_signal()).await;
    let written = tokio::task::spawn_blocking(move || writer.join());
    let _ = tokio::time::timeout(Duration::from_millis(300), written).await;
    Ok(())
}

/// Serves one client over these lines until they end or `stop` completes; everything is stopped then.
async fn serve_over(
    parts: ServerParts,
    lines: AnyLines,
    gauge: Arc<WriteGauge>,
    stop: impl Future<Output = ()>,
) {
    let outbox = Outbox::new(gauge);
    let server = Arc::new(Server::new(parts, outbox.clone()));
    let connection = handlers::agent(server.clone()).connect_with(lines, {
        let outbox = outbox.clone();
        async move |connection: ConnectionTo<Client>| {
            let sender = connection.clone();
            let send: outbox::SendUpdate = Arc::new(move |params| {
                let sent = UntypedMessage::new("session/update", params)
                    .and_then(|message| sender.send_notification(message));
                if let Err(error) = sent {
                    tracing::debug!(%error, "an update was not sent");
                }
            });
            tokio::select! {
                () = outbox.deliver(send) => {}
                () = connection.incoming_closed() => {}
            }
            Ok(())
        }
    });
    let ended = tokio::select! {
        ended = connection => ended,
        () = stop => Ok(()),
    };
    if let Err(error) = ended {
        tracing::warn!(%error, "the connection ended with an error");
    }
    // Whatever still runs is stopped before the process goes: turns, commands, terminals; then the logs are on disk.
    outbox.close();
    if tokio::time::timeout(STOP_BUDGET, server.close()).await.is_err() {
        tracing::warn!("not everything stopped in time");
    }
}

/// Completes when the process is asked to stop.
async fn stop_signal() {
    #[cfg(unix)]
    {
        use tokio::signal::unix::{SignalKind, signal};
        let (Ok(mut terminate), Ok(mut interrupt), Ok(mut hang_up)) =
            (signal(SignalKind::terminate()), signal(SignalKind::interrupt()), signal(SignalKind::hangup()))
        else {
            tracing::warn!("signals cannot be watched; only the end of stdin stops this process");
            return std::future::pending().await;
        };
        tokio::select! {
            _ = terminate.recv() => {}
            _ = interrupt.recv() => {}
            _ = hang_up.recv() => {}
        }
    }
    #[cfg(not(unix))]
    if tokio::signal::ctrl_c().await.is_err() {
        std::future::pending::<()>().await;
    }
}
