//! `followspot sessions`: the stored sessions, without an editor.

mod transcript;

use super::output;
use crate::config::Paths;
use clap::{Args, Subcommand};
use protocol::id::SessionId;
use provider_index::SqliteIndex;
use provider_store::JsonlSessionStore;
use services::session_query::text::Phrase;
use services::session_query::{Filter, SessionIndex};
use services::session_store::{SessionStore, SessionSummary, StoreError};
use std::fmt::Write as _;
use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::Arc;
use tokio_util::sync::CancellationToken;

/// List, show, export or delete stored sessions.
///
/// Sessions are kept on this machine only. Where an ID is asked for, its beginning is enough as long as no other
/// session begins so.
#[derive(Args, Debug)]
pub struct SessionsArgs {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand, Debug)]
enum Command {
    /// List sessions, the last used first
    List {
        /// Only those of this folder
        #[arg(long, value_name = "DIR")]
        cwd: Option<PathBuf>,
        /// Also those of sub-agents, and those nothing was said in
        #[arg(long)]
        all: bool,
    },
    /// Show a session as a conversation with its tool calls
    Show {
        /// The session
        id: String,
        /// Whole arguments and results, and what the model thought
        #[arg(long)]
        full: bool,
    },
    /// Find the sessions in which words stand one after another, the best first
    Search {
        /// The words; several need no quotes
        #[arg(required = true)]
        words: Vec<String>,
    },
    /// Write a session as JSON Lines: its header, then one record a line
    Export {
        /// The session
        id: String,
        /// The file to write instead of stdout; it must not exist yet
        #[arg(long, short, value_name = "FILE")]
        output: Option<PathBuf>,
    },
    /// Delete a session with everything stored beside it
    Delete {
        /// The session; here the whole ID, so that no other is deleted by mistake
        id: String,
    },
}

/// Runs one of the commands on the user's sessions.
pub async fn run(args: SessionsArgs) -> ExitCode {
    let paths = match Paths::from_environment() {
        Ok(paths) => paths,
        Err(message) => return output::fail(&message),
    };
    let store = Arc::new(JsonlSessionStore::new(paths.sessions()));
    let index = SqliteIndex::new(&paths.data, store.clone());
    match answer(&args.command, &*store, &index).await {
        Ok(text) => output::print(&text),
        Err(message) => output::fail(&message),
    }
}

/// What a command prints, or why it failed.
async fn answer(
    command: &Command,
    store: &dyn SessionStore,
    index: &dyn SessionIndex,
) -> Result<String, String> {
    match command {
        Command::List { cwd, all } => {
            let cwd = match cwd {
                Some(cwd) => Some(cwd.canonicalize().map_err(|error| format!("{}: {error}", cwd.display()))?),
                None => None,
            };
            let sessions = store.list().await.map_err(told)?;
            let wanted = sessions.into_iter().filter(|session| {
                let is_of_a_person = session.has_prompt && session.header.delegation_depth == 0;
                (*all || is_of_a_person) && cwd.as_ref().is_none_or(|cwd| session.header.cwd == *cwd)
            });
            Ok(listed(wanted))
        }
        Command::Show { id, full } => {
            let session = store.read(&find(store, id).await?).await.map_err(told)?;
            Ok(output::harmless(&transcript::of(&session, *full)))
        }
        Command::Search { words } => search(&words.join(" "), store, index).await,
        Command::Export { id, output } => {
            let session = store.read(&find(store, id).await?).await.map_err(told)?;
            let lines = transcript::json_lines(&session).map_err(|error| error.to_string())?;
            match output {
                None => Ok(lines),
                Some(file) => {
                    write_new(file, &lines).map_err(|error| format!("{}: {error}", file.display()))?;
                    Ok(format!("{} records written to {}\n", session.records.len(), file.display()))
                }
            }
        }
        Command::Delete { id } => {
            let id = SessionId::new(id);
            store.delete(&id).await.map_err(told)?;
            index.forget(&id).await;
            Ok(format!("Session {id} is deleted.\n"))
        }
    }
}

/// Most sessions that a search prints.
const MAX_FOUND: usize = 50;

async fn search(words: &str, store: &dyn SessionStore, index: &dyn SessionIndex) -> Result<String, String> {
    let phrase = Phrase::new(words).ok_or("there is no word to search for")?;
    let all = (0..=u64::MAX, i64::MIN..=i64::MAX);
    let filter = Filter { phrase, seqs: all.0, times: all.1, types: None, surfaces: None };
    let sessions = store.list().await.map_err(told)?;
    let headers: Vec<_> = sessions.iter().map(|session| session.header.clone()).collect();
    let ids: Vec<_> = headers.iter().map(|header| header.id.clone()).collect();
    let found = index.best(&filter, &headers, &ids, MAX_FOUND, &CancellationToken::new()).await;
    let found = found.map_err(|error| format!("the search index: {error}"))?;
    let mut text = String::new();
    for (id, hit) in &found.hits {
        if let Some(session) = sessions.iter().find(|session| session.header.id == *id) {
            // Writing to a string cannot fail.
            let _ = writeln!(text, "{}    {}", listed(std::iter::once(session.clone())), hit.snippet);
        }
    }
    if found.hits.is_empty() {
        text.push_str("No session matches.\n");
    }
    for (n, what) in
        [(found.n_unreadable, "could not be read"), (found.n_waiting, "wait for the next search")]
    {
        if n > 0 {
            let _ = writeln!(text, "Sessions that {what}: {n}");
        }
    }
    Ok(output::harmless(&text))
}

fn told(error: StoreError) -> String {
    match error {
        StoreError::NotFound(_) => format!("{error}; see: followspot sessions list --all"),
        _ => error.to_string(),
    }
}

/// The session whose id is `start`, or the only one whose id begins so.
async fn find(store: &dyn SessionStore, start: &str) -> Result<SessionId, String> {
    let mut ids: Vec<SessionId> =
        store.list().await.map_err(told)?.into_iter().map(|session| session.header.id).collect();
    if let Some(exact) = ids.iter().find(|id| id.as_str() == start) {
        return Ok(exact.clone());
    }
    ids.retain(|id| !start.is_empty() && id.as_str().starts_with(start));
    match ids.as_slice() {
        [] => Err(told(StoreError::NotFound(SessionId::new(start)))),
        [one] => Ok(one.clone()),
        many => Err(format!("{} sessions begin with {start}; give more of the ID", many.len())),
    }
}

fn listed(sessions: impl Iterator<Item = SessionSummary>) -> String {
    let mut text = String::new();
    for SessionSummary { header, title, updated_at, .. } in sessions {
        let title = title.unwrap_or_else(|| "(no title)".to_owned()).replace(['\n', '\t'], " ");
        let cwd = header.cwd.display();
        // Writing to a string cannot fail.
        let _ = writeln!(text, "{}  {}  {title}  {cwd}", header.id, transcript::time(updated_at));
    }
    if text.is_empty() {
        return "No sessions.\n".to_owned();
    }
    output::harmless(&text)
}

/// Writes a file only its owner can read; sessions hold what was worked on.
fn write_new(file: &std::path::Path, text: &str) -> std::io::Result<()> {
    use std::io::Write;
    let mut options = std::fs::OpenOptions::new();
    options.write(true).create_new(true);
    #[cfg(unix)]
    std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
    options.open(file)?.write_all(text.as_bytes())
}

#[cfg(test)]
mod tests;
