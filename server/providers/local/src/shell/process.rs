//! The processes of one command: its group, and descendants that left the group.
//!
//! A command runs in its own process group. What calls `setsid` leaves it, but keeps the environment variable that every
//! command is started with; `/proc` finds it by that. Where there is no `/proc` only the group is reached.

use rustix::process::{Pid, Signal, kill_process, kill_process_group, test_kill_process_group};
use std::time::{Duration, Instant};
use tokio::process::Child;

/// The variable that marks the processes of one command.
pub const MARKER_VARIABLE: &str = "FOLLOWSPOT_CALL";

/// Longest a look through `/proc` may take.
const MAX_SCAN: Duration = Duration::from_millis(500);

/// Largest part of an environment that is looked at.
const MAX_ENVIRONMENT_BYTES: u64 = 256 * 1024;

/// How often stragglers are looked for after the kill: a process may fork while it is being found.
const MAX_SWEEPS: usize = 5;

/// The processes of a running command. Dropped while armed, it kills them all.
#[derive(Debug)]
pub struct ProcessTree {
    group: Pid,
    /// `NAME=value` as it stands in their environment.
    marker: String,
    is_armed: bool,
}

impl ProcessTree {
    /// The processes of the group that `leader` leads, and those marked with `marker`.
    pub fn new(leader: Pid, marker: &str) -> Self {
        Self { group: leader, marker: format!("{MARKER_VARIABLE}={marker}"), is_armed: true }
    }

    /// Lets what is left of the command live on: it ended by itself.
    pub fn disarm(mut self) {
        self.is_armed = false;
    }

    /// Stops everything: SIGTERM, up to `grace`, SIGKILL. Returns when the group is gone, at the latest a moment after
    /// the grace.
    pub async fn stop(&self, child: &mut Child, grace: Duration) {
        self.signal_group(Signal::TERM);
        for pid in self.living().await {
            let _ = kill_process(pid, Signal::TERM);
        }
        let deadline = Instant::now() + grace;
        let mut pause = Duration::from_millis(2);
        loop {
            // Reaps the leader, which would otherwise count as alive.
            let _ = tokio::time::timeout(pause, child.wait()).await;
            if self.living().await.is_empty() || Instant::now() >= deadline {
                break;
            }
            if !matches!(child.try_wait(), Ok(None)) {
                tokio::time::sleep(pause).await;
            }
            pause = (pause * 2).min(Duration::from_millis(100));
        }
        self.kill().await;
    }

    /// Kills everything that is left.
    async fn kill(&self) {
        for _ in 0..MAX_SWEEPS {
            let living = self.living().await;
            if living.is_empty() {
                return;
            }
            self.signal_group(Signal::KILL);
            for pid in living {
                let _ = kill_process(pid, Signal::KILL);
            }
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    }

    fn signal_group(&self, signal: Signal) {
        let _ = kill_process_group(self.group, signal);
    }

    /// Living processes of the command. Zombies do not count.
    async fn living(&self) -> Vec<Pid> {
        let (group, marker) = (self.group, self.marker.clone());
        tokio::task::spawn_blocking(move || living_now(group, &marker)).await.unwrap_or_default()
    }
}

impl Drop for ProcessTree {
    fn drop(&mut self) {
        if !self.is_armed {
            return;
        }
        self.signal_group(Signal::KILL);
        let (group, marker) = (self.group, std::mem::take(&mut self.marker));
        // A destructor must not wait; the sweep is bounded and touches only marked processes.
        std::thread::spawn(move || {
            for _ in 0..MAX_SWEEPS {
                let living = living_now(group, &marker);
                if living.is_empty() {
                    return;
                }
                for pid in living {
                    let _ = kill_process(pid, Signal::KILL);
                }
                std::thread::sleep(Duration::from_millis(5));
            }
        });
    }
}

/// Kills every process marked with `marker`, for a command whose start somebody else made. Blocks for a moment.
pub fn kill_marked(marker: &str) {
    let marker = format!("{MARKER_VARIABLE}={marker}");
    for _ in 0..MAX_SWEEPS {
        let living = scan(None, &marker).unwrap_or_default();
        if living.is_empty() {
            return;
        }
        for pid in living {
            let _ = kill_process(pid, Signal::KILL);
        }
        std::thread::sleep(Duration::from_millis(5));
    }
}

fn living_now(group: Pid, marker: &str) -> Vec<Pid> {
    scan(Some(group), marker).unwrap_or_else(|| {
        // No `/proc`: the group is alive or not.
        if test_kill_process_group(group).is_ok() { vec![group] } else { Vec::new() }
    })
}

/// Processes of the group, or with the marker in their environment; `None` where there is no `/proc`.
fn scan(group: Option<Pid>, marker: &str) -> Option<Vec<Pid>> {
    let entries = std::fs::read_dir("/proc").ok()?;
    let mut is_proc = false;
    let started = Instant::now();
    let finder = memchr::memmem::Finder::new(marker.as_bytes());
    let mut found = Vec::new();
    for entry in entries.flatten() {
        if started.elapsed() > MAX_SCAN {
            break;
        }
        let name = entry.file_name();
        let number = name.to_str().and_then(|name| name.parse().ok()).filter(|&pid: &i32| pid > 0);
        let Some(pid) = number.and_then(Pid::from_raw) else {
            continue;
        };
        let folder = entry.path();
        let Ok(stat) = std::fs::read(folder.join("stat")) else { continue };
        let Some((state, process_group)) = state_and_group(&stat) else { continue };
        is_proc = true;
        if matches!(state, b'Z' | b'X') {
            continue;
        }
        if group == Some(process_group) || has_marker(&folder, &finder) {
            found.push(pid);
        }
    }
    is_proc.then_some(found)
}

/// State and process group out of `/proc/<pid>/stat`: `pid (name) state parent group …`; the name may hold anything.
fn state_and_group(stat: &[u8]) -> Option<(u8, Pid)> {
    let after_name = &stat[memchr::memrchr(b')', stat)? + 1..];
    let mut fields = after_name.split(|&byte| byte == b' ').filter(|field| !field.is_empty());
    let state = *fields.next()?.first()?;
    // A process that is just being released shows group -1: it is gone.
    let group = std::str::from_utf8(fields.nth(1)?).ok()?.parse().ok().filter(|&group: &i32| group > 0)?;
    Some((state, Pid::from_raw(group)?))
}

fn has_marker(folder: &std::path::Path, finder: &memchr::memmem::Finder<'_>) -> bool {
    use std::io::Read;
    let mut environment = Vec::new();
    std::fs::File::open(folder.join("environ"))
        .and_then(|file| file.take(MAX_ENVIRONMENT_BYTES).read_to_end(&mut environment))
        .is_ok_and(|_| finder.find(&environment).is_some())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn state_and_group_are_found_behind_any_name() {
        let cases = [
            ("12 (bash) S 1 34 34 0", Some((b'S', 34))),
            ("12 (a) Z 9 (b c) R 1 56 34 0", Some((b'R', 56))),
            ("12 (gone) X 0 -1 -1 0", None),
            ("garbage", None),
        ];
        for (stat, expected) in cases {
            let expected = expected.map(|(state, group)| (state, Pid::from_raw(group).unwrap()));
            assert_eq!(state_and_group(stat.as_bytes()), expected, "{stat}");
        }
    }
}
