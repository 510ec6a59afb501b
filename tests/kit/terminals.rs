//! Terminals of the test editor: real processes in groups of their own.
//!
//! Used by the editor to answer `terminal/*`. What the agent may rely on is the protocol; what it must not is that a
//! command stops by itself, so nothing here has a budget.

use agent_client_protocol::Error;
use agent_client_protocol::v1::schema::{CreateTerminalRequest, TerminalExitStatus, TerminalOutputResponse};
use serde_json::json;
use std::collections::HashMap;
use std::os::unix::process::ExitStatusExt;
use std::path::PathBuf;
use std::process::Stdio;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use tokio::io::{AsyncRead, AsyncReadExt};
use tokio::process::Command;
use tokio::sync::watch;

/// The terminals of one editor.
pub struct Terminals {
    cwd: PathBuf,
    env: Vec<(String, String)>,
    open: Mutex<HashMap<String, Arc<Terminal>>>,
    n_created: Mutex<usize>,
}

struct Terminal {
    pid: u32,
    limit: usize,
    output: Mutex<(Vec<u8>, bool)>,
    end: watch::Receiver<Option<TerminalExitStatus>>,
}

impl Terminals {
    pub fn new(cwd: PathBuf, env: Vec<(String, String)>) -> Self {
        Self { cwd, env, open: Mutex::default(), n_created: Mutex::new(0) }
    }

    /// Starts a command; one without arguments is a line for the shell, as editors take it.
    pub fn create(&self, request: &CreateTerminalRequest) -> Result<String, Error> {
        let mut command = if request.args.is_empty() {
            let mut shell = Command::new("sh");
            shell.arg("-c").arg(&request.command);
            shell
        } else {
            let mut command = Command::new(&request.command);
            command.args(&request.args);
            command
        };
        command.env_clear().envs(self.env.iter().map(|(name, value)| (name, value)));
        command.envs(request.env.iter().map(|variable| (&variable.name, &variable.value)));
        command.current_dir(request.cwd.as_ref().unwrap_or(&self.cwd));
        command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped()).process_group(0);
        let mut child = command.spawn().map_err(|error| refused(&format!("cannot start: {error}")))?;
        let (end_sender, end) = watch::channel(None);
        let terminal = Arc::new(Terminal {
            pid: child.id().unwrap_or_default(),
            limit: request.output_byte_limit.map_or(usize::MAX, |limit| limit as usize),
            output: Mutex::default(),
            end,
        });
        let readers = [
            child.stdout.take().map(|pipe| tokio::spawn(keep(pipe, terminal.clone()))),
            child.stderr.take().map(|pipe| tokio::spawn(keep(pipe, terminal.clone()))),
        ];
        tokio::spawn(async move {
            let status = child.wait().await;
            // Output that is on its way arrives before the end is told; a pipe that stays open delays nothing.
            for reader in readers.into_iter().flatten() {
                let _ = tokio::time::timeout(std::time::Duration::from_millis(100), reader).await;
            }
            let status = status.map_or_else(
                |_| TerminalExitStatus::new(),
                |status| {
                    TerminalExitStatus::new()
                        .exit_code(status.code().map(|code| code as u32))
                        .signal(status.signal().map(|signal| format!("{signal}")))
                },
            );
            end_sender.send_replace(Some(status));
        });
        let mut n_created = self.n_created.lock().unwrap_or_else(PoisonError::into_inner);
        *n_created += 1;
        let id = format!("term-{}", *n_created);
        self.lock().insert(id.clone(), terminal);
        Ok(id)
    }

    pub fn output(&self, id: &str) -> Result<TerminalOutputResponse, Error> {
        let terminal = self.find(id)?;
        let (bytes, truncated) = terminal.output.lock().unwrap_or_else(PoisonError::into_inner).clone();
        let text = String::from_utf8_lossy(&bytes).into_owned();
        Ok(TerminalOutputResponse::new(text, truncated).exit_status(terminal.end.borrow().clone()))
    }

    pub async fn wait(&self, id: &str) -> Result<TerminalExitStatus, Error> {
        let mut end = self.find(id)?.end.clone();
        let ended = end.wait_for(Option::is_some).await.map_err(|_| refused("the command was lost"))?;
        Ok(ended.clone().unwrap_or_default())
    }

    pub fn kill(&self, id: &str) -> Result<(), Error> {
        kill_group(self.find(id)?.pid);
        Ok(())
    }

    pub fn release(&self, id: &str) -> Result<(), Error> {
        let terminal = self.lock().remove(id).ok_or_else(|| unknown(id))?;
        if terminal.end.borrow().is_none() {
            kill_group(terminal.pid);
        }
        Ok(())
    }

    /// Terminals that were created and not released.
    pub fn n_open(&self) -> usize {
        self.lock().len()
    }

    fn find(&self, id: &str) -> Result<Arc<Terminal>, Error> {
        self.lock().get(id).cloned().ok_or_else(|| unknown(id))
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<String, Arc<Terminal>>> {
        self.open.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

async fn keep(mut pipe: impl AsyncRead + Unpin, terminal: Arc<Terminal>) {
    let mut buffer = vec![0; 16 << 10];
    while let Ok(n_read @ 1..) = pipe.read(&mut buffer).await {
        let mut output = terminal.output.lock().unwrap_or_else(PoisonError::into_inner);
        output.0.extend_from_slice(&buffer[..n_read]);
        let excess = output.0.len().saturating_sub(terminal.limit);
        if excess > 0 {
            output.0.drain(..excess);
            output.1 = true;
        }
    }
}

fn kill_group(pid: u32) {
    let _ = std::process::Command::new("kill")
        .args(["-KILL", "--", &format!("-{pid}")])
        .stderr(Stdio::null())
        .status();
}

fn unknown(id: &str) -> Error {
    Error::invalid_params().data(json!({ "details": format!("no terminal {id}") }))
}

fn refused(details: &str) -> Error {
    Error::internal_error().data(json!({ "details": details }))
}
