//! A session with reminders on a clock that the test moves: when they come, how often, and what survives.

#![allow(clippy::unwrap_used, clippy::expect_used, reason = "a test fails where it stands")]

mod kit;

use kit::*;
use protocol::event::SessionEvent;
use protocol::schedule::ScheduleChange;
use services::fake::World;
use services::schedules::{
    NewSchedule, ScheduleError, ScheduleFailure, ScheduleRule, ScheduleView, Schedules,
};
use std::sync::Arc;
use std::time::Duration;
use tokio_util::sync::CancellationToken;

fn schedules(fixture: &Fixture) -> Arc<dyn Schedules> {
    fixture.session.scope().services.schedules.clone().expect("every session has them")
}

async fn create(fixture: &Fixture, rule: ScheduleRule) -> ScheduleView {
    let new = NewSchedule { prompt: "look".to_owned(), rule };
    schedules(fixture).create(new, &CancellationToken::new()).await.unwrap()
}

fn dispatches(fixture: &Fixture) -> usize {
    let is =
        |event: &SessionEvent| matches!(event, SessionEvent::ScheduleChange(ScheduleChange::Dispatch { .. }));
    fixture.log.events().iter().filter(|event| is(event)).count()
}

fn minutes(n: u64) -> Duration {
    Duration::from_secs(60 * n)
}

/// Moves time in steps that the session's sleeps notice.
async fn pass(fixture: &Fixture, time: Duration) {
    let mut left = time;
    while !left.is_zero() {
        fixture.until(|| fixture.world.clock.n_sleepers() > 0 || fixture.models.n_requests() > 0).await;
        let step = left.min(minutes(1));
        fixture.world.clock.advance(step);
        left -= step;
        for _ in 0..50 {
            tokio::task::yield_now().await;
        }
    }
}

#[tokio::test]
async fn a_reminder_that_comes_once_opens_one_turn_and_ends() {
    let fixture = Fixture::new(vec![says("told")]);
    let view = create(&fixture, ScheduleRule::After(90)).await;
    assert_eq!((view.schedule.id(), view.overdue), ("schedule-1", false));
    pass(&fixture, Duration::from_secs(89)).await;
    assert_eq!(fixture.models.n_requests(), 0);
    fixture.world.clock.advance(Duration::from_secs(1));
    fixture.until(|| fixture.said() == ["told"]).await;
    assert_eq!(fixture.log.turn_openers(), ["schedule"]);
    let asked = fixture.models.last_user_texts();
    assert!(asked.iter().any(|text| text.contains("reminder_prompt_json: \"look\"")), "{asked:?}");
    let cancel = CancellationToken::new();
    assert_eq!(schedules(&fixture).list(&cancel).await.unwrap(), []);
    assert_eq!(fixture.session.state().title, None);
    let events = fixture.log.events();
    let entered = events.iter().position(|event| {
        matches!(event, SessionEvent::UserMessage { message } if message.content[0].as_text().unwrap().starts_with("[SCH"))
    });
    assert!(matches!(
        events[entered.unwrap() + 1],
        SessionEvent::ScheduleChange(ScheduleChange::Dispatch { accepted_at: None, .. })
    ));
}

#[tokio::test]
async fn a_reminder_waits_for_the_turn_that_runs_and_for_those_that_wait() {
    let fixture = Fixture::new(vec![hangs(), says("told")]);
    create(&fixture, ScheduleRule::After(1)).await;
    let prompt = fixture.prompt("work");
    let meanwhile = async {
        fixture.until(|| fixture.models.n_requests() == 1).await;
        fixture.world.clock.advance(minutes(9));
        for _ in 0..200 {
            tokio::task::yield_now().await;
        }
        assert_eq!(dispatches(&fixture), 0);
        fixture.session.cancel();
    };
    futures::join!(prompt, meanwhile);
    fixture.until(|| fixture.said() == ["told"]).await;
    assert_eq!(fixture.log.turn_openers(), ["work", "schedule"]);
}

#[tokio::test]
async fn one_that_comes_again_skips_what_it_missed() {
    let fixture = Fixture::new(vec![says("one"), says("two")]);
    create(&fixture, ScheduleRule::Every(300)).await;
    fixture.until(|| fixture.world.clock.n_sleepers() == 1).await;
    fixture.world.clock.advance(minutes(17));
    fixture.until(|| fixture.said() == ["one"]).await;
    fixture.until(|| fixture.world.clock.n_sleepers() == 1).await;
    assert_eq!(dispatches(&fixture), 1);
    pass(&fixture, minutes(3)).await;
    fixture.until(|| fixture.said() == ["one", "two"]).await;
    let left = schedules(&fixture).list(&CancellationToken::new()).await.unwrap();
    assert_eq!((left.len(), left[0].overdue), (1, false));
}

#[tokio::test]
async fn a_log_that_is_opened_again_gives_what_is_overdue_once() {
    let first = Fixture::new(Vec::new());
    create(&first, ScheduleRule::After(60)).await;
    create(&first, ScheduleRule::Every(300)).await;
    first.session.close().await;
    first.world.clock.advance(minutes(60));
    assert_eq!(dispatches(&first), 0);
    let world = World::new();
    world.clock.advance(minutes(60));
    let again = Fixture::in_world(world, first.log.events(), vec![says("one"), says("two")]);
    again.until(|| again.said() == ["one", "two"]).await;
    assert_eq!(dispatches(&again), 2);
    let left = schedules(&again).list(&CancellationToken::new()).await.unwrap();
    assert_eq!(left.len(), 1);
}

#[tokio::test]
async fn a_fork_does_not_take_reminders_along() {
    let first = Fixture::new(Vec::new());
    create(&first, ScheduleRule::After(60)).await;
    let mut events = first.log.events();
    events.push(SessionEvent::EndSeed {});
    let fork = Fixture::over(events, Vec::new());
    assert_eq!(schedules(&fork).list(&CancellationToken::new()).await.unwrap(), []);
    assert_eq!(create(&fork, ScheduleRule::After(60)).await.schedule.id(), "schedule-1");
}

#[tokio::test]
async fn ids_are_not_used_again_and_a_second_delete_finds_nothing() {
    let fixture = Fixture::new(Vec::new());
    let cancel = CancellationToken::new();
    create(&fixture, ScheduleRule::After(60)).await;
    assert!(schedules(&fixture).delete("schedule-1", &cancel).await.unwrap());
    assert!(!schedules(&fixture).delete("schedule-1", &cancel).await.unwrap());
    assert_eq!(create(&fixture, ScheduleRule::After(60)).await.schedule.id(), "schedule-2");
}

#[tokio::test]
async fn a_request_that_was_cancelled_writes_nothing() {
    let fixture = Fixture::new(Vec::new());
    let cancel = CancellationToken::new();
    cancel.cancel();
    let new = NewSchedule { prompt: "look".to_owned(), rule: ScheduleRule::After(60) };
    let failure = schedules(&fixture).create(new, &cancel).await.unwrap_err();
    assert_eq!(failure, ScheduleFailure::Cancelled);
    assert_eq!(fixture.log.events(), []);
}

#[tokio::test]
async fn a_disk_that_refuses_leaves_it_uncertain_and_a_false_log_gives_nothing() {
    let code = |failure: ScheduleFailure| match failure {
        ScheduleFailure::Error(ScheduleError { code, operation, .. }) => (code.id(), operation),
        ScheduleFailure::Cancelled => ("cancelled", None),
    };
    let cancel = CancellationToken::new();
    let fixture = Fixture::new(Vec::new());
    fixture.log.set_broken(true);
    let failure = schedules(&fixture).list(&cancel).await.unwrap_err();
    assert_eq!(code(failure), ("persistence_uncertain", Some("list")));

    let delete = ScheduleChange::Delete { version: 1, id: "schedule-9".to_owned() };
    let fixture = Fixture::over(vec![SessionEvent::ScheduleChange(delete)], Vec::new());
    let failure = schedules(&fixture).list(&cancel).await.unwrap_err();
    assert_eq!(code(failure), ("corrupt_schedule_log", None));
}

#[tokio::test]
async fn a_hundred_reminders_are_enough() {
    let fixture = Fixture::new(Vec::new());
    for _ in 0..services::schedules::MAX_SCHEDULES {
        create(&fixture, ScheduleRule::After(60)).await;
    }
    let new = NewSchedule { prompt: "look".to_owned(), rule: ScheduleRule::After(60) };
    let failure = schedules(&fixture).create(new, &CancellationToken::new()).await.unwrap_err();
    assert!(matches!(failure, ScheduleFailure::Error(error) if error.message.contains("100 reminders")));
}
