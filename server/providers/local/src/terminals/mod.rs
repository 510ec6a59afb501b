//! Terminals on this machine: the table of all that are open, by id and owner.
//!
//! `compose` makes one [`LocalTerminals`] for all sessions. [`pty`] runs one terminal, [`screen`] keeps what it printed.

mod probe;
mod pty;
mod screen;

use async_trait::async_trait;
use protocol::id::SessionId;
use pty::PtyTerminal;
use services::sandbox::Sandbox;
use services::shell::LiveSink;
use services::terminals::{
    OpenTerminal, SHELL_KIND, Terminal, TerminalError, TerminalInfo, TerminalStatus, Terminals,
};
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// Terminals whose shell has exited that stay readable; the oldest go first.
const MAX_EXITED: usize = 16;

/// All open terminals of the program.
pub struct LocalTerminals {
    sandbox: Arc<dyn Sandbox>,
    table: Arc<Mutex<Table>>,
}

#[derive(Default)]
struct Table {
    n_opened: u64,
    open: BTreeMap<u64, Entry>,
}

struct Entry {
    owner: SessionId,
    name: Option<String>,
    /// `None` while it starts.
    terminal: Option<Arc<PtyTerminal>>,
}

impl Table {
    /// Takes out the oldest terminals whose shell has exited, beyond those that are kept for reading.
    fn forget_exited(&mut self) -> Vec<Entry> {
        let has_ended =
            |entry: &Entry| entry.terminal.as_ref().is_some_and(|it| has_exited(&it.info().status));
        let ended: Vec<u64> =
            self.open.iter().filter(|(_, entry)| has_ended(entry)).map(|(&number, _)| number).collect();
        let n_excess = ended.len().saturating_sub(MAX_EXITED);
        ended[..n_excess].iter().filter_map(|number| self.open.remove(number)).collect()
    }
}

/// A place in the table; given up when it is dropped.
pub(crate) struct Place {
    table: Arc<Mutex<Table>>,
    number: u64,
}

impl Place {
    fn id(&self) -> String {
        format!("pty-{}", self.number)
    }

    /// Gives the place up.
    fn leave(&self) {
        let left = lock(&self.table).open.remove(&self.number);
        // Outside the lock: the last handle of a terminal may end here.
        drop(left);
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        self.leave();
    }
}

impl LocalTerminals {
    /// No terminals yet; their shells are confined by `sandbox`.
    pub fn new(sandbox: Arc<dyn Sandbox>) -> Self {
        Self { sandbox, table: Arc::default() }
    }

    fn take_place(&self, request: &OpenTerminal) -> Result<Place, TerminalError> {
        // Dropped outside the lock, which the end of a terminal takes.
        let _forgotten = lock(&self.table).forget_exited();
        let mut table = lock(&self.table);
        if let Some(name) = &request.name
            && table
                .open
                .values()
                .any(|entry| entry.owner == request.owner && entry.name.as_ref() == Some(name))
        {
            return Err(TerminalError::DuplicateName(name.clone()));
        }
        table.n_opened += 1;
        let number = table.n_opened;
        let entry = Entry { owner: request.owner.clone(), name: request.name.clone(), terminal: None };
        table.open.insert(number, entry);
        Ok(Place { table: self.table.clone(), number })
    }
}

#[async_trait]
impl Terminals for LocalTerminals {
    async fn open(&self, request: OpenTerminal, live: LiveSink) -> Result<Arc<dyn Terminal>, TerminalError> {
        if request.kind != SHELL_KIND {
            return Err(TerminalError::NoBackend(request.kind));
        }
        let place = self.take_place(&request)?;
        crate::shell::check_workdir(&request.cwd).await?;
        let number = place.number;
        let terminal = PtyTerminal::start(request, place, self.sandbox.as_ref(), live)?;
        let guard = pty::CloseOnDrop(Some(terminal.clone()));
        terminal.first_prompt().await;
        if let Some(entry) = lock(&self.table).open.get_mut(&number) {
            entry.terminal = Some(terminal.clone());
        }
        guard.keep();
        Ok(terminal)
    }

    fn get(&self, owner: &SessionId, id: &str) -> Result<Arc<dyn Terminal>, TerminalError> {
        let unknown = || TerminalError::Unknown(id.to_owned());
        let number: u64 = id.strip_prefix("pty-").and_then(|n| n.parse().ok()).ok_or_else(unknown)?;
        let table = lock(&self.table);
        let entry = table.open.get(&number).ok_or_else(unknown)?;
        if entry.owner != *owner {
            return Err(TerminalError::Foreign(id.to_owned()));
        }
        let terminal = entry.terminal.clone().ok_or_else(unknown)?;
        Ok(terminal)
    }

    fn list(&self, owner: &SessionId) -> Vec<TerminalInfo> {
        let table = lock(&self.table);
        let own = table.open.values().filter(|entry| entry.owner == *owner);
        own.filter_map(|entry| entry.terminal.as_ref()).map(|terminal| terminal.info()).collect()
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

fn has_exited(status: &TerminalStatus) -> bool {
    *status != TerminalStatus::Running
}

#[cfg(test)]
mod tests;
