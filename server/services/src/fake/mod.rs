//! In-memory services for tests of other crates, behind the feature `fake`.
//!
//! [`World`] holds one of each and hands them out as [`Services`]; a test keeps the world to arrange and to look.
//! Nothing here touches the disk, the network or the real clock.

mod clock;
mod files;
mod goals;
mod hooks;
mod jobs;
mod language_servers;
mod mcp;
mod people;
mod programs;
mod schedules;
mod search;
mod sessions;
mod shell;
mod skills;
mod stores;
mod subagents;
mod terminals;
mod web;

pub use clock::FakeClock;
pub use files::FakeFiles;
pub use goals::FakeGoals;
pub use hooks::FakeHooks;
pub use jobs::{FakeJobs, FakeOutput};
pub use language_servers::FakeLanguageServers;
pub use mcp::FakeMcp;
pub use people::{FakeApproval, FakeQuestions};
pub use programs::FakePrograms;
pub use schedules::FakeSchedules;
pub use search::FakeSearch;
pub use sessions::FakeSessions;
pub use shell::{FakeShell, shell_outcome};
pub use skills::FakeSkills;
pub use stores::{FakeAttachments, FakeBlobs, FakeSpill};
pub use subagents::FakeSubagents;
pub use terminals::FakeTerminals;
pub use web::FakeWeb;

use crate::Services;
use std::collections::VecDeque;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// One fake of each service.
#[derive(Clone, Default)]
pub struct World {
    /// Files, by absolute path; the session's folder is [`FakeFiles::CWD`].
    pub files: Arc<FakeFiles>,
    /// Scripted results of searches.
    pub search: Arc<FakeSearch>,
    /// Scripted answers of language servers.
    pub language_servers: Arc<FakeLanguageServers>,
    /// Scripted outcomes of commands.
    pub shell: Arc<FakeShell>,
    /// Scripted answers to permission questions.
    pub approval: Arc<FakeApproval>,
    /// Scripted answers to other questions.
    pub questions: Arc<FakeQuestions>,
    /// Spilled texts.
    pub spill: Arc<FakeSpill>,
    /// Stored images.
    pub attachments: Arc<FakeAttachments>,
    /// Stored texts.
    pub blobs: Arc<FakeBlobs>,
    /// Scripted pages and searches.
    pub web: Arc<FakeWeb>,
    /// Background jobs, which run when a test runs them.
    pub jobs: Arc<FakeJobs>,
    /// The goal.
    pub goals: Arc<FakeGoals>,
    /// Reminders.
    pub schedules: Arc<FakeSchedules>,
    /// Skills.
    pub skills: Arc<FakeSkills>,
    /// Children, which answer what a test scripts.
    pub subagents: Arc<FakeSubagents>,
    /// Programs, which do what a test says.
    pub programs: Arc<FakePrograms>,
    /// Terminals that echo.
    pub terminals: Arc<FakeTerminals>,
    /// Past sessions.
    pub sessions: Arc<FakeSessions>,
    /// Time, which stands still until it is moved.
    pub clock: Arc<FakeClock>,
}

impl World {
    /// An empty world.
    pub fn new() -> Self {
        Self::default()
    }

    /// The world with a file of this text in it.
    #[must_use]
    pub fn with_file(self, path: &str, text: &str) -> Self {
        self.files.put(path, text);
        self
    }

    /// The services of a session in this world.
    pub fn services(&self) -> Services {
        Services {
            files: self.files.clone(),
            search: self.search.clone(),
            language_servers: Some(self.language_servers.clone()),
            shell: self.shell.clone(),
            approval: self.approval.clone(),
            questions: Some(self.questions.clone()),
            spill: self.spill.clone(),
            attachments: self.attachments.clone(),
            blobs: self.blobs.clone(),
            web: Some(self.web.clone()),
            jobs: Some(self.jobs.clone()),
            goals: Some(self.goals.clone()),
            schedules: Some(self.schedules.clone()),
            skills: Some(self.skills.clone()),
            subagents: Some(self.subagents.clone()),
            programs: Some(self.programs.clone()),
            terminals: Some(self.terminals.clone()),
            sessions: Some(self.sessions.clone()),
            session_index: None,
            clock: self.clock.clone(),
        }
    }
}

/// A queue of scripted answers and a list of what was asked.
struct Script<Q, A> {
    state: Mutex<(Vec<Q>, VecDeque<A>)>,
}

impl<Q, A> Default for Script<Q, A> {
    fn default() -> Self {
        Self { state: Mutex::new((Vec::new(), VecDeque::new())) }
    }
}

impl<Q: Clone, A> Script<Q, A> {
    fn push(&self, answer: A) {
        lock(&self.state).1.push_back(answer);
    }

    fn ask(&self, question: Q) -> Option<A> {
        let mut state = lock(&self.state);
        state.0.push(question);
        state.1.pop_front()
    }

    fn asked(&self) -> Vec<Q> {
        lock(&self.state).0.clone()
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
