//! The words every other crate shares. Inert: no I/O, no async, no clock, no wire crate.
//!
//! Reading order, one line a word:
//!
//! * [`id`]: newtypes for everything that is named: session, call, message, terminal, job.
//! * [`content`]: a *content block*, the unit of what models and people read.
//! * [`message`]: a *message*: what a user, a model or a tool said, and where it came from.
//! * [`schema`]: the JSON Schema subset tools are declared in.
//! * [`tool`]: a *tool schema*, a *call*, its *outcome* and its *failure*.
//! * [`card`]: a *card*: how a call or a result is meant to look, in terms of no client.
//! * [`decision`]: what policies decide about a call, and what a person answers.
//! * [`question`]: a *question* the model puts to a person, and its *answer*.
//! * [`model`]: a model request and the chunks of its answer.
//! * [`mode`]: the permission *mode* of a session.
//! * [`job`]: a *job*: work that goes on after its call.
//! * [`goal`]: a *goal*: one long-running objective of a session.
//! * [`schedule`]: a *reminder*: a text that comes at a time.
//! * [`event`]: a *session event*: every record the durable log can hold.
//! * [`live`]: a *live update*: shown at once, never logged.

#![deny(missing_docs)]

pub mod card;
pub mod content;
pub mod decision;
pub mod event;
pub mod goal;
pub mod id;
pub mod job;
pub mod live;
pub mod message;
pub mod mode;
pub mod model;
pub mod question;
pub mod schedule;
pub mod schema;
pub mod tool;
