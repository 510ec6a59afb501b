//! The private folder in which the wrapper of a command keeps what it printed and how it ended.
//!
//! `sandbox-exec` writes it; on another machine than ours it writes nothing here. It passes signals on to its command.

use provider_local::shell::{MARKER_VARIABLE, captured_from_file};
use provider_sandbox::{CapturedExit, PID_FILE, STDERR_FILE, STDOUT_FILE, read_exit};
use rustix::process::{Pid, Signal, getpgid, kill_process, kill_process_group, test_kill_process};
use services::shell::{CapturedStream, StreamName};
use std::io;
use std::path::{Path, PathBuf};

/// Most bytes read of a stream at a time.
const MAX_PIECE_BYTES: u64 = 256 << 10;

/// The folder of one command; removed when dropped, unless it is kept.
#[derive(Debug)]
pub(super) struct CaptureFolder {
    path: PathBuf,
    /// Stands in the environment of every process of the command.
    marker: String,
    is_kept: bool,
}

impl CaptureFolder {
    /// Makes a folder that only its owner can enter, for the command marked with `marker`.
    pub(super) async fn create(parent: &Path, marker: &str) -> io::Result<Self> {
        let (path, marker) = (parent.join(format!("terminal-{marker}")), marker.to_owned());
        blocking(move || {
            let mut builder = std::fs::DirBuilder::new();
            #[cfg(unix)]
            std::os::unix::fs::DirBuilderExt::mode(&mut builder, 0o700);
            builder.create(&path)?;
            Ok(Self { path, marker, is_kept: false })
        })
        .await?
    }

    pub(super) fn path(&self) -> &Path {
        &self.path
    }

    /// Leaves the folder where it is: its streams are referred to.
    pub(super) fn keep(mut self) {
        self.is_kept = true;
    }

    /// How the command ended; `None` while it has not, as far as is known here.
    pub(super) async fn exit(&self) -> Option<CapturedExit> {
        let path = self.path.clone();
        blocking(move || read_exit(&path).ok().flatten()).await.ok()?
    }

    /// What one stream holds from `offset` on, a bounded piece of it.
    pub(super) async fn read_from(&self, stream: StreamName, offset: u64) -> Vec<u8> {
        let name = match stream {
            StreamName::Stdout => STDOUT_FILE,
            StreamName::Stderr => STDERR_FILE,
        };
        let path = self.path.join(name);
        let piece = blocking(move || {
            use std::io::{Read, Seek, SeekFrom};
            let mut file = std::fs::File::open(path)?;
            file.seek(SeekFrom::Start(offset))?;
            let mut piece = Vec::new();
            file.take(MAX_PIECE_BYTES).read_to_end(&mut piece)?;
            io::Result::Ok(piece)
        });
        // A stream that is not there yet has printed nothing.
        piece.await.and_then(|piece| piece).unwrap_or_default()
    }

    /// What is kept of stdout and stderr.
    pub(super) async fn streams(
        &self,
        exit: Option<&CapturedExit>,
        max_stream_bytes: usize,
        max_spill_bytes: u64,
    ) -> (CapturedStream, CapturedStream) {
        let folder = self.path.clone();
        let totals = (exit.map(|exit| exit.stdout_bytes), exit.map(|exit| exit.stderr_bytes));
        let streams = blocking(move || {
            let stream = |name: &str, total| {
                captured_from_file(&folder.join(name), total, max_stream_bytes, max_spill_bytes)
                    .unwrap_or_default()
            };
            (stream(STDOUT_FILE, totals.0), stream(STDERR_FILE, totals.1))
        });
        streams.await.unwrap_or_default()
    }

    /// Asks the wrapper to end its command; tells whether there is one on this machine to ask.
    pub(super) async fn terminate(&self) -> bool {
        // Only the wrapper: its group may be the client's own, and it knows whom to pass the signal on to.
        match self.wrapper().await {
            Some(wrapper) => kill_process(wrapper, Signal::TERM).is_ok(),
            None => false,
        }
    }

    /// Ends the wrapper, with everything in its group when the group is its own.
    pub(super) async fn kill(&self) {
        let Some(wrapper) = self.wrapper().await else { return };
        let _ = match getpgid(Some(wrapper)) {
            Ok(group) if group == wrapper => kill_process_group(wrapper, Signal::KILL),
            _ => kill_process(wrapper, Signal::KILL),
        };
    }

    /// Whether the wrapper lives; `None` when it has not started on this machine.
    pub(super) async fn is_alive(&self) -> Option<bool> {
        Some(test_kill_process(self.wrapper().await?).is_ok())
    }

    async fn wrapper(&self) -> Option<Pid> {
        let (path, marker) = (self.path.join(PID_FILE), format!("{MARKER_VARIABLE}={}", self.marker));
        let wrapper = blocking(move || {
            let text = std::fs::read_to_string(path).ok()?;
            // Without its newline it is not written whole yet.
            let pid = text.strip_suffix('\n')?.parse().ok().filter(|&pid: &i32| pid > 1)?;
            is_marked(pid, &marker).then(|| Pid::from_raw(pid))?
        });
        wrapper.await.ok()?
    }
}

/// Whether the process was started for this command. A command that can write where its capture is must not make us
/// signal a process of its choice.
#[cfg(target_os = "linux")]
fn is_marked(pid: i32, marker: &str) -> bool {
    std::fs::read(format!("/proc/{pid}/environ"))
        .is_ok_and(|environ| environ.split(|&byte| byte == 0).any(|entry| entry == marker.as_bytes()))
}

#[cfg(not(target_os = "linux"))]
fn is_marked(_pid: i32, _marker: &str) -> bool {
    true
}

impl Drop for CaptureFolder {
    fn drop(&mut self) {
        if !self.is_kept {
            // Few small files, or large ones that nobody refers to; what cannot be removed goes with the session's folder.
            let _ = std::fs::remove_dir_all(&self.path);
        }
    }
}

async fn blocking<T: Send + 'static>(work: impl FnOnce() -> T + Send + 'static) -> io::Result<T> {
    tokio::task::spawn_blocking(work).await.map_err(io::Error::other)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::process::Command;

    #[tokio::test]
    async fn only_a_process_of_the_command_is_signalled() {
        let parent = tempfile::tempdir().unwrap();
        let folder = CaptureFolder::create(parent.path(), "m1").await.unwrap();
        for (marker, expected) in [("m2", None), ("m11", None), ("m1", Some(true))] {
            let mut child = Command::new("sleep").arg("60").env(MARKER_VARIABLE, marker).spawn().unwrap();
            std::fs::write(folder.path().join(PID_FILE), format!("{}\n", child.id())).unwrap();
            // Until the child has become the program, it has our environment.
            let line = format!("/proc/{}/cmdline", child.id());
            while !std::fs::read(&line).unwrap().starts_with(b"sleep") {
                tokio::task::yield_now().await;
            }
            assert_eq!(folder.is_alive().await, expected, "{marker}");
            child.kill().unwrap();
            child.wait().unwrap();
        }
        std::fs::write(folder.path().join(PID_FILE), std::process::id().to_string()).unwrap();
        assert_eq!(folder.is_alive().await, None);
    }
}
