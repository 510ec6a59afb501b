//! Reminders that a test answers for.

use super::lock;
use crate::schedules::{NewSchedule, ScheduleFailure, ScheduleState, ScheduleView, Schedules, utc_text};
use async_trait::async_trait;
use protocol::schedule::{SCHEDULE_VERSION, Schedule, ScheduleChange};
use std::sync::Mutex;
use tokio_util::sync::CancellationToken;

/// Reminders in memory, all at the beginning of 1970 plus one second, or what a test says of the next request.
#[derive(Default)]
pub struct FakeSchedules {
    state: Mutex<ScheduleState>,
    asked: Mutex<Vec<NewSchedule>>,
    next: Mutex<Option<ScheduleFailure>>,
}

impl FakeSchedules {
    /// The next request fails so.
    pub fn fail(&self, failure: ScheduleFailure) {
        *lock(&self.next) = Some(failure);
    }

    /// What was to be made.
    pub fn asked(&self) -> Vec<NewSchedule> {
        lock(&self.asked).clone()
    }

    fn failure(&self) -> Result<(), ScheduleFailure> {
        lock(&self.next).take().map_or(Ok(()), Err)
    }
}

#[async_trait]
impl Schedules for FakeSchedules {
    async fn create(
        &self,
        new: NewSchedule,
        _cancel: &CancellationToken,
    ) -> Result<ScheduleView, ScheduleFailure> {
        lock(&self.asked).push(new.clone());
        self.failure()?;
        let mut state = lock(&self.state);
        let schedule = Schedule::At {
            id: state.fresh_id(),
            prompt: new.prompt,
            scheduled_at: utc_text(1000).unwrap_or_default(),
        };
        state.fold(&ScheduleChange::Create { version: SCHEDULE_VERSION, schedule: schedule.clone() });
        Ok(ScheduleView { schedule, overdue: false })
    }

    async fn list(&self, _cancel: &CancellationToken) -> Result<Vec<ScheduleView>, ScheduleFailure> {
        self.failure()?;
        Ok(lock(&self.state).views(1000))
    }

    async fn delete(&self, id: &str, _cancel: &CancellationToken) -> Result<bool, ScheduleFailure> {
        self.failure()?;
        let mut state = lock(&self.state);
        let is_there = state.has(id);
        if is_there {
            state.fold(&ScheduleChange::Delete { version: SCHEDULE_VERSION, id: id.to_owned() });
        }
        Ok(is_there)
    }
}
