//! What the person does: lines on stdin, Ctrl-C, and the wish of the system that we end.
//!
//! Used by the conversation. stdin is read by a thread of its own, and only once somebody wants a line.

use std::collections::VecDeque;
use std::io::{self, BufRead, IsTerminal, Read};
use tokio::sync::mpsc;

/// Longest prompt that is read from a pipe, in bytes.
const MAX_PROMPT: u64 = 4 << 20;
/// Lines that may be typed ahead.
const MAX_AHEAD: usize = 64;

/// Somebody wants something to stop.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Interrupt {
    /// Ctrl-C: the turn first, then the program.
    Stop,
    /// The system asks the program to end.
    Leave,
}

/// Lines and interrupts.
pub struct Input {
    lines: Option<mpsc::Receiver<String>>,
    ahead: VecDeque<String>,
    interrupts: mpsc::Receiver<Interrupt>,
    is_terminal: bool,
}

impl Input {
    /// Input from this process's stdin and signals.
    ///
    /// # Errors
    /// Signals cannot be received.
    pub fn from_process() -> io::Result<Self> {
        Ok(Self {
            lines: None,
            ahead: VecDeque::new(),
            interrupts: signals()?,
            is_terminal: io::stdin().is_terminal(),
        })
    }

    /// Input that a test writes.
    #[cfg(test)]
    pub fn scripted(lines: &[&str], interrupts: mpsc::Receiver<Interrupt>) -> Self {
        let (sender, receiver) = mpsc::channel(MAX_AHEAD);
        for line in lines {
            sender.try_send((*line).to_owned()).unwrap();
        }
        Self { lines: Some(receiver), ahead: VecDeque::new(), interrupts, is_terminal: false }
    }

    /// Whether a person sits at stdin.
    pub fn is_terminal(&self) -> bool {
        self.is_terminal
    }

    /// Puts aside what was typed before a question.
    pub fn before_question(&mut self) {
        if !self.is_terminal {
            return;
        }
        while let Some(line) = self.lines.as_mut().and_then(|lines| lines.try_recv().ok()) {
            self.ahead.push_back(line);
        }
    }

    /// The next interrupt.
    ///
    /// # Cancellation
    /// None is lost.
    pub async fn interrupt(&mut self) -> Interrupt {
        match self.interrupts.recv().await {
            Some(interrupt) => interrupt,
            // Only a test's input can end here; nobody will interrupt any more.
            None => std::future::pending().await,
        }
    }

    /// The next line, without its end, or the next interrupt; `None` at the end of input.
    ///
    /// # Cancellation
    /// Neither is lost.
    pub async fn line_or_interrupt(&mut self) -> Result<Option<String>, Interrupt> {
        if let Some(line) = self.ahead.pop_front() {
            return Ok(Some(line));
        }
        self.answer_or_interrupt().await
    }

    /// As [`Self::line_or_interrupt`], but the line answers a question that has just been shown: what a person typed
    /// before it stays a prompt. A pipe's lines are answers in their order.
    ///
    /// # Cancellation
    /// Neither is lost.
    pub async fn answer_or_interrupt(&mut self) -> Result<Option<String>, Interrupt> {
        let Self { lines, interrupts, .. } = self;
        let lines = lines.get_or_insert_with(read_lines);
        tokio::select! {
            biased;
            Some(interrupt) = interrupts.recv() => Err(interrupt),
            line = lines.recv() => Ok(line),
        }
    }

    /// All of stdin, as one prompt.
    ///
    /// # Errors
    /// An interrupt came first, or stdin cannot be read as text.
    pub async fn whole(&mut self) -> Result<String, String> {
        let (sender, receiver) = tokio::sync::oneshot::channel();
        let reader = move || {
            let mut text = String::new();
            let read = io::stdin().lock().take(MAX_PROMPT).read_to_string(&mut text);
            // Nobody waits any more after an interrupt.
            let _ = sender.send(read.map(|_| text));
        };
        std::thread::Builder::new()
            .name("stdin".to_owned())
            .spawn(reader)
            .map_err(|error| error.to_string())?;
        tokio::select! {
            _ = self.interrupt() => Err("interrupted".to_owned()),
            read = receiver => match read {
                Ok(Ok(text)) => Ok(text),
                Ok(Err(error)) => Err(format!("stdin could not be read: {error}")),
                Err(_) => Err("stdin could not be read".to_owned()),
            }
        }
    }
}

/// Reads lines until the end of input. Not joined: it blocks on a terminal for as long as nobody types.
fn read_lines() -> mpsc::Receiver<String> {
    let (sender, receiver) = mpsc::channel(MAX_AHEAD);
    let reader = move || {
        let mut stdin = io::stdin().lock();
        loop {
            let mut line = Vec::new();
            match stdin.by_ref().take(MAX_PROMPT).read_until(b'\n', &mut line) {
                Ok(0) | Err(_) => return,
                Ok(_) => {}
            }
            let line = String::from_utf8_lossy(&line).trim_end_matches(['\n', '\r']).to_owned();
            if sender.blocking_send(line).is_err() {
                return;
            }
        }
    };
    // Without the thread the sender is gone, which reads as the end of input.
    if let Err(error) = std::thread::Builder::new().name("stdin".to_owned()).spawn(reader) {
        tracing::error!(%error, "stdin is not read");
    }
    receiver
}

#[cfg(unix)]
fn signals() -> io::Result<mpsc::Receiver<Interrupt>> {
    use tokio::signal::unix::{SignalKind, signal};
    let (sender, receiver) = mpsc::channel(4);
    let mut stop = signal(SignalKind::interrupt())?;
    let mut end = signal(SignalKind::terminate())?;
    let mut hang_up = signal(SignalKind::hangup())?;
    tokio::spawn(async move {
        loop {
            let interrupt = tokio::select! {
                _ = stop.recv() => Interrupt::Stop,
                _ = end.recv() => Interrupt::Leave,
                _ = hang_up.recv() => Interrupt::Leave,
                () = sender.closed() => return,
            };
            // A full queue holds interrupts enough.
            let _ = sender.try_send(interrupt);
        }
    });
    Ok(receiver)
}

#[cfg(not(unix))]
fn signals() -> io::Result<mpsc::Receiver<Interrupt>> {
    let (sender, receiver) = mpsc::channel(4);
    tokio::spawn(async move {
        while tokio::signal::ctrl_c().await.is_ok() {
            let _ = sender.try_send(Interrupt::Stop);
        }
    });
    Ok(receiver)
}
