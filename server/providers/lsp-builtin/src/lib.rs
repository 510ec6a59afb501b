//! A language server in this program, for files whose own server is not installed: it answers by name, from syntax trees,
//! and never starts anything.
//!
//! Reading order: `languages` (what can be read, as data), `syntax` (one text), `index` (a project), `answer` (a question),
//! `server` (the protocol). Nothing is read before the first question. Only `compose` in the server names this crate.

mod answer;
mod index;
mod languages;
mod server;
mod syntax;

pub use languages::extensions;

use async_lsp::MainLoop;
use tokio::io::DuplexStream;
use tokio_util::compat::{TokioAsyncReadCompatExt, TokioAsyncWriteCompatExt};

/// Serves one client over a stream, until it says `exit` or closes the stream.
pub async fn serve(stream: DuplexStream) {
    let (input, output) = tokio::io::split(stream);
    let (connection, client) = MainLoop::new_server(server::ByName::new);
    if let Err(error) = connection.run_buffered(input.compat(), output.compat_write()).await {
        tracing::debug!(%error, "the connection of the by-name language server ended");
    }
    // The loop panics when its last socket goes before it.
    drop(client);
}
