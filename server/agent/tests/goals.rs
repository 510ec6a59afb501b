//! A session with a goal and a scripted model: which rounds begin, and what stops them.

#![allow(clippy::unwrap_used, clippy::expect_used, reason = "a test fails where it stands")]

mod kit;

use kit::*;
use protocol::event::SessionEvent;
use protocol::goal::{GoalBlocker, GoalChange, GoalOperation, GoalPhase, GoalRef};
use services::goals::{GoalAuthority, GoalStep, GoalView, Goals};
use std::sync::Arc;

fn goals(fixture: &Fixture) -> Arc<dyn Goals> {
    fixture.session.scope().services.goals.clone().expect("every session has them")
}

fn goal(fixture: &Fixture) -> GoalView {
    goals(fixture).current().expect("a goal")
}

/// What was done to the goal, in order.
fn operations(fixture: &Fixture) -> Vec<GoalOperation> {
    let events = fixture.log.events();
    let of = |event: &SessionEvent| match event {
        SessionEvent::GoalChange(GoalChange::Set(set)) => Some(set.operation),
        SessionEvent::GoalChange(GoalChange::Cleared(cleared)) => Some(cleared.operation),
        _ => None,
    };
    events.iter().filter_map(of).collect()
}

#[tokio::test]
async fn two_rounds_are_driven_and_the_third_is_the_limit() {
    let fixture = Fixture::new(vec![says("one"), says("two")]);
    goals(&fixture).create("ship", Some(2)).unwrap();
    fixture.until(|| goal(&fixture).goal.phase == GoalPhase::Blocked).await;
    let GoalBlocker { code, .. } = goal(&fixture).goal.blocked_reason.unwrap();
    assert_eq!((code.as_str(), goal(&fixture).rounds_started), ("round-limit", 2));
    assert_eq!(operations(&fixture), [GoalOperation::Create, GoalOperation::Block]);
    let asked = fixture.models.last_user_texts();
    assert!(asked.iter().any(|text| text.contains("Round: 2/2")), "{asked:?}");
    assert_eq!(fixture.session.state().title, None);
}

#[tokio::test]
async fn rounds_that_do_nothing_stop_the_goal() {
    let answers = ["one", "two", "three"].map(says);
    let fixture = Fixture::new(answers.to_vec());
    goals(&fixture).create("ship", None).unwrap();
    fixture.until(|| goal(&fixture).rounds_started == 3 && !goal(&fixture).armed).await;
    assert_eq!(goal(&fixture).goal.phase, GoalPhase::Active);
    let told = fixture.log.events().into_iter().any(|event| {
        matches!(event, SessionEvent::Notice { text, .. } if text.contains("after 3 rounds that did nothing"))
    });
    assert!(told);
}

#[tokio::test]
async fn a_goal_of_the_log_begins_no_round_until_a_person_resumes_it() {
    let fixture = Fixture::new(vec![says("one")]);
    goals(&fixture).create("ship", Some(1)).unwrap();
    fixture.until(|| goal(&fixture).goal.phase == GoalPhase::Blocked).await;
    let mut events = fixture.log.events();
    events.retain(|event| {
        !matches!(event, SessionEvent::GoalChange(GoalChange::Set(set)) if set.operation == GoalOperation::Block)
    });
    let again = Fixture::over(events, vec![says("hello"), says("two")]);
    again.prompt("hi").await;
    let view = goal(&again);
    assert_eq!((view.goal.phase, view.rounds_started, view.armed), (GoalPhase::Active, 1, false));
    let reference = GoalRef { id: view.goal.id, revision: view.goal.revision };
    let edit = GoalStep::Edit { objective: None, max_rounds: Some(2) };
    goals(&again).change(&reference, edit).unwrap();
    again.prompt("/goal resume").await;
    again.until(|| goal(&again).goal.phase == GoalPhase::Blocked).await;
    assert_eq!(goal(&again).rounds_started, 2);
}

#[tokio::test]
async fn a_cancel_during_a_round_pauses_the_goal_and_one_of_other_work_disarms_it() {
    let fixture = Fixture::new(vec![hangs()]);
    goals(&fixture).create("ship", None).unwrap();
    fixture.until(|| fixture.models.n_requests() == 1).await;
    assert_eq!(goals(&fixture).authority(), Some(GoalAuthority { human: false, round: true }));
    fixture.session.cancel();
    fixture.until(|| goal(&fixture).goal.phase == GoalPhase::Paused).await;
    assert!(!goal(&fixture).armed);

    let fixture = Fixture::new(vec![hangs()]);
    let prompt = fixture.prompt("work");
    let meanwhile = async {
        fixture.until(|| fixture.models.n_requests() == 1).await;
        assert_eq!(goals(&fixture).authority(), Some(GoalAuthority { human: true, round: false }));
        goals(&fixture).create("ship", None).unwrap();
        fixture.session.cancel();
    };
    futures::join!(prompt, meanwhile);
    fixture.until(|| !goal(&fixture).armed).await;
    assert_eq!(goal(&fixture).goal.phase, GoalPhase::Active);
    assert_eq!(goals(&fixture).authority(), None);
}

#[tokio::test]
async fn a_round_that_fails_or_is_cut_off_stops_the_goal_without_a_change() {
    for answer in [fails(), cut_off(), panics()] {
        let fixture = Fixture::new(vec![answer]);
        goals(&fixture).create("ship", None).unwrap();
        fixture.until(|| !goal(&fixture).armed).await;
        assert_eq!(goal(&fixture).goal.phase, GoalPhase::Active);
        assert_eq!(operations(&fixture), [GoalOperation::Create]);
        assert_eq!(fixture.models.n_requests(), 1);
    }
}

#[tokio::test]
async fn what_a_person_says_comes_before_the_next_round() {
    let fixture = Fixture::new(vec![says("one"), says("answer"), says("two")]);
    let goals = goals(&fixture);
    goals.create("ship", Some(2)).unwrap();
    // Queued before the session's task has begun the round.
    fixture.prompt("first").await;
    fixture.until(|| goal(&fixture).goal.phase == GoalPhase::Blocked).await;
    assert_eq!(fixture.session.state().title.unwrap().0, "first");
    assert_eq!(fixture.said(), ["one", "answer", "two"]);
    assert_eq!(fixture.log.turn_openers(), ["first", "goal 1", "goal 2"]);
}

#[tokio::test]
async fn a_closed_session_begins_no_round_and_leaves_the_goal_active() {
    let fixture = Fixture::new(vec![hangs()]);
    goals(&fixture).create("ship", None).unwrap();
    fixture.until(|| fixture.models.n_requests() == 1).await;
    fixture.session.close().await;
    assert_eq!(operations(&fixture), [GoalOperation::Create]);
    assert!(!goal(&fixture).armed);
}

#[tokio::test]
async fn a_log_that_cannot_be_written_stops_the_rounds() {
    let fixture = Fixture::new(Vec::new());
    goals(&fixture).create("ship", None).unwrap();
    fixture.log.set_broken(true);
    fixture.until(|| !goal(&fixture).armed).await;
    assert_eq!(goals(&fixture).create("x", None).unwrap_err().code(), "GOAL_ALREADY_EXISTS");
    let view = goal(&fixture);
    let reference = GoalRef { id: view.goal.id, revision: 1 };
    let refused = goals(&fixture).change(&reference, GoalStep::Pause).unwrap_err();
    assert_eq!(refused.code(), "GOAL_AGENT_NOT_LIVE");
}

#[tokio::test]
async fn the_command_shows_edits_pauses_and_clears() {
    let fixture = Fixture::new(Vec::new());
    let run = async |line: &str| {
        fixture.prompt(line).await;
        fixture.log.last_command()
    };
    assert!(run("/goal").await.1.contains("no goal"));
    assert!(!run("/goal pause").await.0);
    goals(&fixture).create("ship", Some(3)).unwrap();
    // The queue comes first: the goal is paused before its first round.
    let (ok, told) = run("/goal PAUSE").await;
    assert!(ok && told.contains("Status: paused") && told.contains("0 of 3"), "{told}");
    assert!(run("/goal").await.1.contains("`/goal resume`"));
    let (ok, told) = run("/goal another").await;
    assert!(!ok && told.contains("unfinished goal"), "{told}");
    assert!(run("/goal edit new words").await.1.contains("**Goal**: new words"));
    assert_eq!(run("/goal clear").await, (true, "The goal is cleared.".to_owned()));
    assert_eq!(goals(&fixture).current(), None);
}
