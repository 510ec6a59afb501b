//! Hooks that end as a test says.

use super::Script;
use crate::hooks::{HookEnd, HookRun, HookRunner};
use async_trait::async_trait;
use tokio_util::sync::CancellationToken;

/// Answers from a script; beyond it every hook ends well and says nothing.
#[derive(Default)]
pub struct FakeHooks {
    runs: Script<HookRun, HookEnd>,
}

impl FakeHooks {
    /// Adds the end of a hook.
    pub fn end(&self, end: HookEnd) {
        self.runs.push(end);
    }

    /// Adds a hook that exits with this code and says this on stdout and stderr.
    pub fn exits(&self, code: i32, stdout: &str, stderr: &str) {
        self.end(HookEnd::Exited { code: Some(code), stdout: stdout.to_owned(), stderr: stderr.to_owned() });
    }

    /// Every hook that ran, in order.
    pub fn ran(&self) -> Vec<HookRun> {
        self.runs.asked()
    }
}

#[async_trait]
impl HookRunner for FakeHooks {
    async fn run(&self, run: HookRun, _cancel: &CancellationToken) -> HookEnd {
        let well = || HookEnd::Exited { code: Some(0), stdout: String::new(), stderr: String::new() };
        self.runs.ask(run).unwrap_or_else(well)
    }
}
