//! A *reminder*: a text that the session's agent is given at a time, once or again and again.
//!
//! Data only; times are text as the log holds them, `YYYY-MM-DDTHH:mm:ss.SSSZ`. Source: `spec/tools-agentic.md` §5.1.

use serde::{Deserialize, Serialize};

/// Version of [`ScheduleChange`] written today.
pub const SCHEDULE_VERSION: u32 = 1;

/// A reminder that waits.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "lowercase", rename_all_fields = "camelCase", deny_unknown_fields)]
pub enum Schedule {
    /// Once, so long after it was made.
    After {
        /// `schedule-N`.
        id: String,
        /// What to remind of.
        prompt: String,
        /// Seconds from its making to its time.
        after_seconds: u64,
        /// Its time.
        scheduled_at: String,
    },
    /// Once, at a time.
    At {
        /// `schedule-N`.
        id: String,
        /// What to remind of.
        prompt: String,
        /// Its time.
        scheduled_at: String,
    },
    /// Again and again.
    Every {
        /// `schedule-N`.
        id: String,
        /// What to remind of.
        prompt: String,
        /// Seconds between two times.
        every_seconds: u64,
        /// Its next time.
        scheduled_at: String,
    },
}

impl Schedule {
    /// Its id.
    pub fn id(&self) -> &str {
        let (Self::After { id, .. } | Self::At { id, .. } | Self::Every { id, .. }) = self;
        id
    }

    /// What to remind of.
    pub fn prompt(&self) -> &str {
        let (Self::After { prompt, .. } | Self::At { prompt, .. } | Self::Every { prompt, .. }) = self;
        prompt
    }

    /// Its next time.
    pub fn scheduled_at(&self) -> &str {
        let (Self::After { scheduled_at, .. }
        | Self::At { scheduled_at, .. }
        | Self::Every { scheduled_at, .. }) = self;
        scheduled_at
    }
}

/// A change of a session's reminders. Never part of the model's history.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "operation", rename_all = "lowercase", rename_all_fields = "camelCase", deny_unknown_fields)]
pub enum ScheduleChange {
    /// A reminder was made.
    Create {
        /// [`SCHEDULE_VERSION`].
        version: u32,
        /// The reminder.
        schedule: Schedule,
    },
    /// A reminder was taken back.
    Delete {
        /// [`SCHEDULE_VERSION`].
        version: u32,
        /// Which.
        id: String,
    },
    /// A reminder was given: one that is given once has ended.
    Dispatch {
        /// [`SCHEDULE_VERSION`].
        version: u32,
        /// Which.
        id: String,
        /// When; there exactly for one that comes again.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        accepted_at: Option<String>,
    },
}
