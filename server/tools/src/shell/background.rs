//! A command as a background job: started here, looked after by the `job_*` tools.
//!
//! What it prints is kept until it is read, each stream within a bound. Source: `spec/tools-files-shell.md` §8.

use super::ansi;
use crate::denial;
use crate::jobs::jobs;
use pipeline::context::ToolContext;
use protocol::id::JobId;
use protocol::job::JobStatus;
use protocol::tool::ToolFailure;
use services::jobs::{JobEnd, JobOutput, NewJob};
use services::shell::{CapturedStream, LiveSink, OutputTap, ShellOutcome, ShellRequest, StreamName};
use std::collections::VecDeque;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// Bytes of each stream that wait to be read; of more, the last.
const MAX_UNREAD_BYTES: usize = 64_000;
/// Bytes of the end of all output that are kept for the card.
const MAX_TAIL_BYTES: usize = 8 << 10;

/// Starts a command as a job of this kind. It does not end with the call.
///
/// # Errors
/// The call is cancelled, or no job can be started.
pub fn start(kind: &str, request: ShellRequest, ctx: &ToolContext) -> Result<JobId, ToolFailure> {
    let jobs = jobs(ctx)?;
    if let Some(nested) = ctx.nested()
        && nested.pipeline.registry().get("job_output", nested.scope, nested.tool_set.as_deref()).is_none()
    {
        return Err(ToolFailure::plain("background jobs are switched off here: job_output is not on offer"));
    }
    if ctx.cancel.is_cancelled() {
        return Err(ToolFailure::aborted());
    }
    let output = Arc::new(CommandOutput::default());
    let host = Arc::clone(&ctx.session.host);
    let live: LiveSink = Arc::new(move |update| host.live(update));
    let shell = ctx.services().shell.clone();
    let may_escalate = denial::may_escalate(ctx);
    let (label, call_id, kept) = (request.display.clone(), request.call_id.clone(), output.clone());
    Ok(jobs.start(NewJob {
        kind: kind.to_owned(),
        label,
        call_id,
        max_output_bytes: None,
        output,
        work: Box::new(move |cancel| {
            Box::pin(async move {
                let tapped = kept.clone();
                let tap: OutputTap = Arc::new(move |stream, bytes| tapped.push(stream, bytes));
                match shell.run_tapped(request, live, tap, &cancel).await {
                    Ok(outcome) => {
                        let end = end(&outcome);
                        kept.finish(outcome, may_escalate);
                        end
                    }
                    Err(error) => {
                        kept.push(StreamName::Stderr, error.to_string().as_bytes());
                        JobEnd::new(JobStatus::Killed, "killed before exit".to_owned())
                    }
                }
            })
        }),
    })?)
}

/// How the job ended by how its command did.
fn end(outcome: &ShellOutcome) -> JobEnd {
    match (&outcome.signal, outcome.exit_code) {
        (Some(signal), _) => JobEnd::new(JobStatus::Killed, format!("signal: {signal}")),
        (None, _) if outcome.aborted => JobEnd::new(JobStatus::Killed, "killed before exit".to_owned()),
        (None, Some(code)) => JobEnd::new(JobStatus::Completed, format!("exit code: {code}")),
        (None, None) => JobEnd::new(JobStatus::Completed, "exit status unknown".to_owned()),
    }
}

/// What a command printed and nobody has read yet, and the end of all of it.
#[derive(Default)]
struct CommandOutput {
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    stdout: Unread,
    stderr: Unread,
    tail: VecDeque<u8>,
    n_total: u64,
    /// What is said after the streams, once.
    trailer: Vec<String>,
}

/// The unread end of one stream.
#[derive(Default)]
struct Unread {
    bytes: VecDeque<u8>,
    n_lost: u64,
    n_lost_ever: u64,
}

impl Unread {
    fn push(&mut self, bytes: &[u8]) {
        self.bytes.extend(bytes);
        let n_excess = self.bytes.len().saturating_sub(MAX_UNREAD_BYTES);
        self.bytes.drain(..n_excess);
        self.n_lost += n_excess as u64;
        self.n_lost_ever += n_excess as u64;
    }

    /// Takes the text; a character that is not complete yet stays.
    fn take(&mut self) -> String {
        let mut bytes: Vec<u8> = self.bytes.drain(..).collect();
        let n_whole = match std::str::from_utf8(&bytes) {
            Err(error) if error.error_len().is_none() => error.valid_up_to(),
            _ => bytes.len(),
        };
        self.bytes.extend(bytes.drain(n_whole..));
        let text = ansi::plain(&String::from_utf8_lossy(&bytes));
        match std::mem::take(&mut self.n_lost) {
            0 => text,
            n => format!("[{n} bytes before this were not kept for reading]\n{text}"),
        }
    }
}

impl CommandOutput {
    fn push(&self, stream: StreamName, bytes: &[u8]) {
        let mut state = self.lock();
        state.n_total += bytes.len() as u64;
        state.tail.extend(bytes);
        let n_excess = state.tail.len().saturating_sub(MAX_TAIL_BYTES);
        state.tail.drain(..n_excess);
        match stream {
            StreamName::Stdout => state.stdout.push(bytes),
            StreamName::Stderr => state.stderr.push(bytes),
        }
    }

    /// The command has ended: what was not passed on is taken from what was captured, and what is known now is added.
    fn finish(&self, outcome: ShellOutcome, may_escalate: bool) {
        if self.lock().n_total == 0 {
            self.push(StreamName::Stdout, outcome.stdout.text.as_bytes());
            self.push(StreamName::Stderr, outcome.stderr.text.as_bytes());
        }
        let mut state = self.lock();
        let mut trailer = Vec::new();
        let streams = [
            ("stdout", &outcome.stdout, state.stdout.n_lost_ever),
            ("stderr", &outcome.stderr, state.stderr.n_lost_ever),
        ];
        for (name, captured, n_lost) in streams {
            if n_lost > 0 {
                trailer.push(whole(name, captured));
            }
        }
        if let Some(sandbox) = outcome.sandbox.filter(|sandbox| sandbox.denied) {
            trailer.push(denial::lines(sandbox.mode, may_escalate));
        }
        state.trailer = trailer;
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn whole(name: &str, captured: &CapturedStream) -> String {
    let place = captured
        .spill_path
        .as_ref()
        .map_or_else(|| "(unavailable)".to_owned(), |path| path.display().to_string());
    format!("[{name}: {} bytes in all; full output: {place}]", captured.total_bytes)
}

impl JobOutput for CommandOutput {
    fn read(&self) -> String {
        let mut state = self.lock();
        let trailer = std::mem::take(&mut state.trailer);
        let mut text = state.stdout.take();
        let stderr = state.stderr.take();
        if !stderr.is_empty() {
            add_line(&mut text, "[stderr]\n");
            text.push_str(&stderr);
        }
        for line in trailer {
            add_line(&mut text, &line);
        }
        text
    }

    fn tail(&self) -> (String, u64) {
        let mut state = self.lock();
        let n_omitted = state.n_total - state.tail.len() as u64;
        // The cut may have gone through a character.
        let n_cut = if n_omitted == 0 {
            0
        } else {
            state.tail.iter().take(3).take_while(|&&byte| byte & 0b1100_0000 == 0b1000_0000).count()
        };
        let bytes = &state.tail.make_contiguous()[n_cut..];
        (String::from_utf8_lossy(bytes).into_owned(), n_omitted + n_cut as u64)
    }
}

fn add_line(text: &mut String, line: &str) {
    if !text.is_empty() && !text.ends_with('\n') {
        text.push('\n');
    }
    text.push_str(line);
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::Bench;
    use protocol::mode::SandboxMode;
    use serde_json::{Value, json};
    use services::fake::shell_outcome;
    use services::jobs::Jobs;
    use services::shell::{SandboxReport, ShellError};

    fn background(command: &str) -> Value {
        json!({"command": command, "description": "Do it", "run_in_background": true})
    }

    async fn ended(outcome: Result<ShellOutcome, ShellError>) -> String {
        let bench = Bench::new();
        bench.world().shell.outcome(outcome);
        let ran = bench.call("bash", background("x")).await;
        assert_eq!(ran.text(), "started background job bash-1");
        assert_eq!(ran.durable.meta, Some(json!({"jobId": "bash-1"})));
        bench.call("job_output", json!({"job_id": "bash-1", "wait": true})).await.text().to_owned()
    }

    #[tokio::test]
    async fn a_job_ends_as_its_command_does() {
        let killed = ShellOutcome { exit_code: None, signal: Some("SIGSEGV".into()), ..shell_outcome("", 0) };
        let report =
            SandboxReport { mode: SandboxMode::DangerFullAccess, denied: true, enforcement: "full".into() };
        let spawn = ShellError::Spawn { program: "bash".into(), reason: "no memory".into() };
        let cases = [
            (Ok(shell_outcome("hi\n", 0)), "hi\n[status: completed, exit code: 0]"),
            (Ok(shell_outcome("", 3)), "(no new output)\n[status: completed, exit code: 3]"),
            (Ok(killed), "(no new output)\n[status: killed, signal: SIGSEGV]"),
            (
                Ok(ShellOutcome {
                    stderr: CapturedStream { text: "e".into(), ..CapturedStream::default() },
                    ..shell_outcome("o", 0)
                }),
                "o\n[stderr]\ne\n[status: completed, exit code: 0]",
            ),
            (
                Ok(ShellOutcome { sandbox: Some(report), ..shell_outcome("o", 1) }),
                "o\n[sandbox: file access denied under danger-full-access mode]\n[status: completed, exit code: 1]",
            ),
            (Err(spawn), "[stderr]\ncould not start bash: no memory\n[status: killed, killed before exit]"),
        ];
        for (outcome, expected) in cases {
            assert_eq!(ended(outcome).await, expected);
        }
    }

    #[tokio::test]
    async fn a_cancelled_call_starts_nothing() {
        let bench = Bench::new();
        let ctx = bench.session.context("bash", background("x"));
        ctx.cancel.cancel();
        let failure = bench.tool("bash").execute(&background("x"), &ctx).await.unwrap_err();
        assert_eq!(failure, ToolFailure::aborted());
        assert_eq!(bench.world().jobs.list(), []);
    }

    #[tokio::test]
    async fn the_eleventh_job_is_refused() {
        let bench = Bench::new();
        for _ in 0..10 {
            assert_eq!(bench.call("bash", background("x")).await.code(), "ok");
        }
        let ran = bench.call("bash", background("x")).await;
        assert_eq!(ran.code(), "plain");
        assert!(ran.text().contains("job_kill"), "{}", ran.text());
    }

    #[test]
    fn unread_output_is_bounded_and_says_what_was_lost() {
        let output = CommandOutput::default();
        output.push(StreamName::Stdout, &vec![b'x'; MAX_UNREAD_BYTES + 5]);
        let text = output.read();
        assert!(text.starts_with("[5 bytes before this were not kept for reading]\nx"), "{}", &text[..60]);
        assert_eq!(output.read(), "");
        let (tail, n_omitted) = output.tail();
        assert_eq!((tail.len(), n_omitted), (MAX_TAIL_BYTES, (MAX_UNREAD_BYTES + 5 - MAX_TAIL_BYTES) as u64));
    }

    #[test]
    fn a_character_is_read_whole() {
        let output = CommandOutput::default();
        output.push(StreamName::Stdout, b"a\xc3");
        assert_eq!(output.read(), "a");
        output.push(StreamName::Stdout, b"\xa9");
        assert_eq!(output.read(), "é");
    }
}
