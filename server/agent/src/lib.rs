//! What happens over time: sessions, turns, steps, and the history a model is shown.
//!
//! * [`session`]: a session and its handle; one task owns it and runs one turn at a time.
//! * [`core`]: its log and the state folded from it; the host of its tool calls.
//! * [`state`]: the fold. * [`history`]: log → messages. * [`prompt`]: the system prompt and injected context.
//! * [`turn`], [`step`]: one prompt to its end; one model request and its calls.
//! * [`jobs`]: work that goes on between turns. * [`inbox`]: what enters without a prompt.
//! * [`plan_mode`]: the way out of plan mode.
//! * [`goals`]: the goal that drives the session.
//! * [`schedule`]: reminders that are given when they are due.
//! * [`fork`]: the part of a log that another session begins with.
//! * [`compaction`]: making room in the model's context.
//! * [`subagents`]: agents that agents start.
//! * [`commands`]: slash commands. * [`title`]: the title, of the first prompt or by the model.

#![deny(missing_docs)]

pub mod commands;
mod compaction;
pub mod core;
pub mod fork;
pub mod goals;
pub mod history;
pub mod inbox;
pub mod jobs;
mod plan_mode;
pub mod prompt;
pub mod schedule;
pub mod session;
pub mod state;
mod step;
pub mod subagents;
mod title;
mod turn;
