//! The outside world as traits. Tools, policies and the agent reach everything through these; providers implement them.
//!
//! One file a service. Services are object-safe and shared as `Arc<dyn …>`; an ability a session may lack is an
//! `Option` of a service. Every method that can wait takes the caller's cancellation, or documents what happens when
//! its future is dropped.

#![deny(missing_docs)]

pub mod approval;
pub mod attachments;
pub mod clock;
pub mod code_runtime;
#[cfg(any(test, feature = "fake"))]
pub mod fake;
pub mod file_search;
pub mod file_system;
pub mod goals;
pub mod hooks;
pub mod jobs;
pub mod language_servers;
pub mod mcp_servers;
pub mod model;
pub mod questions;
pub mod sandbox;
pub mod schedules;
pub mod session_query;
pub mod session_store;
pub mod shell;
pub mod skills;
pub mod spill;
pub mod subagents;
pub mod terminals;
pub mod web;

use std::sync::Arc;

/// What one session's tools can reach. Built when the session opens; cheap to clone.
#[derive(Clone)]
pub struct Services {
    /// Files, through the editor where it offers them.
    pub files: Arc<dyn file_system::FileSystem>,
    /// Searching the tree, always on the disk.
    pub search: Arc<dyn file_search::FileSearch>,
    /// Language servers; `None` where nothing starts any.
    pub language_servers: Option<Arc<dyn language_servers::LanguageServers>>,
    /// Commands, in the client's terminal or ours.
    pub shell: Arc<dyn shell::Shell>,
    /// The person who allows or refuses.
    pub approval: Arc<dyn approval::Approval>,
    /// The person who answers questions; `None` when nobody can.
    pub questions: Option<Arc<dyn questions::Questions>>,
    /// Where oversized results go.
    pub spill: Arc<dyn spill::Spill>,
    /// Where images go.
    pub attachments: Arc<dyn attachments::Attachments>,
    /// Full texts of changed files, kept beside the session's log.
    pub blobs: Arc<dyn session_store::Blobs>,
    /// Pages and searches; `None` where there is no web.
    pub web: Option<Arc<dyn web::Web>>,
    /// Background jobs; `None` where nothing can go on after its call. The session that opens fills it in.
    pub jobs: Option<Arc<dyn jobs::Jobs>>,
    /// The session's goal; `None` where there can be none. The session that opens fills it in.
    pub goals: Option<Arc<dyn goals::Goals>>,
    /// The session's reminders; `None` where there can be none. The session that opens fills it in.
    pub schedules: Option<Arc<dyn schedules::Schedules>>,
    /// Instructions in files; `None` where there are none to find.
    pub skills: Option<Arc<dyn skills::Skills>>,
    /// Agents that this session's agent starts; `None` where it cannot.
    pub subagents: Option<Arc<dyn subagents::Subagents>>,
    /// Programs that start agents; `None` where nothing runs them.
    pub programs: Option<Arc<dyn code_runtime::CodeRuntime>>,
    /// Lasting terminals; `None` where there are none.
    pub terminals: Option<Arc<dyn terminals::Terminals>>,
    /// Past sessions; `None` where they cannot be looked at.
    pub sessions: Option<Arc<dyn session_store::SessionStore>>,
    /// A faster way to search them; `None` where their logs are read instead.
    pub session_index: Option<Arc<dyn session_query::SessionIndex>>,
    /// Time.
    pub clock: Arc<dyn clock::Clock>,
}
