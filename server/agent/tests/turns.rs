//! A session with a scripted model and a log in memory: what ends in the log, whatever happens.

#![allow(clippy::unwrap_used, clippy::expect_used, reason = "a test fails where it stands")]

mod kit;

use agent::session::PromptEnd;
use futures::FutureExt;
use kit::*;
use protocol::content::ContentBlock;
use protocol::event::{AbortCause, SessionEvent, TurnEndReason};
use protocol::message::{AssistantBlock, MessageSource};
use protocol::mode::Mode;
use protocol::model::{FinishReason, HistoryMessage, ModelChunk};
use services::fake::World;
use services::model::ModelErrorKind;
use tokio_util::sync::CancellationToken;

/// A session for which no time passes while it waits.
fn fixture(answers: Vec<Answer>) -> Fixture {
    let world = World::new();
    world.clock.set_instant(true);
    Fixture::in_world(world, Vec::new(), answers)
}

/// The log in short, without bookkeeping.
fn told(fixture: &Fixture) -> Vec<String> {
    let text = |blocks: &[AssistantBlock]| {
        let texts = blocks.iter().filter_map(|block| match block {
            AssistantBlock::Text { text } => Some(text.clone()),
            AssistantBlock::ToolCall(call) => Some(format!("[{}]", call.name)),
            AssistantBlock::Reasoning { .. } => None,
        });
        texts.collect::<String>()
    };
    let events = fixture.log.events();
    events
        .iter()
        .filter_map(|event| match event {
            SessionEvent::UserMessage { message } => match &message.source {
                MessageSource::User => Some(format!("> {}", message.content[0].as_text().unwrap_or("?"))),
                MessageSource::Plugin { plugin, .. } if plugin != "runtime-context" => {
                    Some(format!("+ {plugin}"))
                }
                _ => None,
            },
            SessionEvent::AssistantMessage { message, interrupted, .. } => {
                Some(format!("< {}{}", text(&message.blocks), if *interrupted { " (cut)" } else { "" }))
            }
            SessionEvent::ToolResult { error, .. } => Some(format!(
                "= {}",
                error.as_ref().and_then(|error| error.code().map(str::to_owned)).unwrap_or("ok".into())
            )),
            SessionEvent::LlmRetry { attempt, code, .. } => Some(format!("retry {attempt} {code}")),
            SessionEvent::TurnEnd { reason, .. } => Some(format!("end {reason:?}")),
            _ => None,
        })
        .collect()
}

const ABORTED: PromptEnd = PromptEnd::Turn(TurnEndReason::Aborted { cause: AbortCause::User });

#[tokio::test]
async fn a_failure_before_anything_is_visible_is_retried_silently() {
    let fixture = fixture(vec![
        vec![Piece::Fails(ModelErrorKind::RateLimit)],
        vec![Piece::Chunk(ModelChunk::Finish(FinishReason::Stop))],
        says("hello"),
    ]);
    assert_eq!(fixture.prompt("hi").await, PromptEnd::Turn(TurnEndReason::Completed));
    assert_eq!(
        told(&fixture),
        ["> hi", "retry 1 RATE_LIMIT", "retry 2 EMPTY_RESPONSE", "< hello", "end Completed"]
    );
}

#[tokio::test]
async fn a_failure_after_something_was_visible_keeps_it_and_goes_on() {
    let mut cut = says("the first half");
    cut[1] = Piece::Fails(ModelErrorKind::Transport);
    let fixture = fixture(vec![cut, says(", the second")]);
    assert_eq!(fixture.prompt("hi").await, PromptEnd::Turn(TurnEndReason::Completed));
    assert_eq!(
        told(&fixture),
        [
            "> hi",
            "< the first half (cut)",
            "retry 1 TRANSPORT",
            "+ stream-recovery",
            "< , the second",
            "end Completed"
        ]
    );
}

#[tokio::test]
async fn retries_end_and_the_error_is_the_turns_end() {
    let fails = vec![Piece::Fails(ModelErrorKind::Server)];
    let fixture = fixture(vec![fails; 6]);
    let end = fixture.prompt("hi").await;
    assert!(
        matches!(&end, PromptEnd::Turn(TurnEndReason::Error { code, message }) if code == "SERVER" && message == "it failed"),
        "{end:?}"
    );
}

#[tokio::test]
async fn what_cannot_be_retried_ends_the_turn_at_once_and_the_next_prompt_works() {
    let fixture = fixture(vec![vec![Piece::Fails(ModelErrorKind::ContextWindowExceeded)], says("fine")]);
    assert!(matches!(fixture.prompt("hi").await, PromptEnd::Turn(TurnEndReason::Error { .. })));
    assert_eq!(fixture.prompt("again").await, PromptEnd::Turn(TurnEndReason::Completed));
}

#[tokio::test]
async fn a_cancel_during_the_stream_keeps_what_was_said_and_ends_the_queue() {
    let hangs = vec![Piece::Chunk(ModelChunk::Text("let me".into())), Piece::Hangs];
    let fixture = fixture(vec![hangs, says("after")]);
    let running = tokio::spawn(fixture.prompt("one"));
    let waiting = tokio::spawn(fixture.prompt("two"));
    while fixture.models.requests.lock().unwrap().is_empty() {
        tokio::task::yield_now().await;
    }
    fixture.session.cancel();
    assert_eq!(running.await.unwrap(), ABORTED);
    assert_eq!(waiting.await.unwrap(), PromptEnd::CancelledInQueue);
    assert_eq!(fixture.prompt("three").await, PromptEnd::Turn(TurnEndReason::Completed));
    let told = told(&fixture);
    assert_eq!(told[0], "> one");
    assert_eq!(told[told.len() - 3..], ["> three", "< after", "end Completed"]);
}

#[tokio::test]
async fn a_withdrawn_prompt_ends_alone() {
    let fixture = fixture(vec![vec![Piece::Hangs], says("second")]);
    let withdrawn = CancellationToken::new();
    let content = async { Ok(vec![ContentBlock::text("one")]) }.boxed();
    let first = tokio::spawn(fixture.session.prompt(content, withdrawn.clone()));
    let second = tokio::spawn(fixture.prompt("two"));
    while fixture.models.requests.lock().unwrap().is_empty() {
        tokio::task::yield_now().await;
    }
    withdrawn.cancel();
    assert_eq!(first.await.unwrap(), ABORTED);
    assert_eq!(second.await.unwrap(), PromptEnd::Turn(TurnEndReason::Completed));
}

#[tokio::test]
async fn a_cancel_without_a_turn_does_not_hurt_the_next_one() {
    let fixture = fixture(vec![says("hello")]);
    fixture.session.cancel();
    assert_eq!(fixture.prompt("hi").await, PromptEnd::Turn(TurnEndReason::Completed));
}

#[tokio::test]
async fn a_panic_ends_its_turn_only_and_is_told() {
    let fixture = fixture(vec![vec![Piece::Panics], says("fine")]);
    let end = fixture.prompt("hi").await;
    assert!(
        matches!(&end, PromptEnd::Turn(TurnEndReason::Error { code, .. }) if code == "INTERNAL"),
        "{end:?}"
    );
    assert_eq!(fixture.prompt("again").await, PromptEnd::Turn(TurnEndReason::Completed));
}

#[tokio::test]
async fn calls_of_an_answer_that_hit_the_output_cap_are_dropped() {
    let mut answer = calls("read");
    answer[1] = Piece::Chunk(ModelChunk::Finish(FinishReason::MaxTokens));
    answer.insert(0, Piece::Chunk(ModelChunk::Text("so".into())));
    let fixture = fixture(vec![answer]);
    assert_eq!(fixture.prompt("hi").await, PromptEnd::Turn(TurnEndReason::MaxTokens));
    assert_eq!(told(&fixture), ["> hi", "< so", "end MaxTokens"]);
}

#[tokio::test]
async fn an_unknown_tool_is_answered_and_the_model_goes_on() {
    let fixture = fixture(vec![calls("nope"), says("sorry")]);
    assert_eq!(fixture.prompt("hi").await, PromptEnd::Turn(TurnEndReason::Completed));
    assert_eq!(told(&fixture), ["> hi", "< [nope]", "= UNKNOWN_TOOL", "< sorry", "end Completed"]);
    let requests = fixture.models.requests.lock().unwrap();
    let last = requests[1].messages.last().unwrap();
    assert!(matches!(last, HistoryMessage::ToolResult(result) if result.is_error), "{last:?}");
}

#[tokio::test]
async fn a_log_that_cannot_be_written_ends_the_prompt_with_the_reason() {
    let fixture = fixture(vec![says("late")]);
    fixture.log.set_broken(true);
    let end = fixture.prompt("hi").await;
    assert!(matches!(&end, PromptEnd::LogFailed(reason) if reason.contains("disk full")), "{end:?}");
    fixture.log.set_broken(false);
    assert_eq!(fixture.prompt("again").await, PromptEnd::Turn(TurnEndReason::Completed));
}

#[tokio::test]
async fn a_slash_command_runs_without_the_model() {
    let fixture = fixture(Vec::new());
    assert_eq!(fixture.prompt("/plan").await, PromptEnd::Command);
    assert_eq!(fixture.session.state().mode(), Mode::Plan);
    assert_eq!(fixture.prompt("/permission read-only").await, PromptEnd::Command);
    assert_eq!(fixture.session.state().mode(), Mode::ReadOnly);
}

#[tokio::test]
async fn closing_awaits_the_turn_and_later_prompts_are_told() {
    let fixture = fixture(vec![vec![Piece::Hangs]]);
    let running = tokio::spawn(fixture.prompt("one"));
    while fixture.models.requests.lock().unwrap().is_empty() {
        tokio::task::yield_now().await;
    }
    fixture.session.close().await;
    assert_eq!(running.await.unwrap(), ABORTED);
    assert_eq!(fixture.prompt("two").await, PromptEnd::Closed);
}

/// Two turns whose first is long enough to be summarised.
fn long_then(mut answers: Vec<Answer>) -> Fixture {
    answers.insert(0, says(&"word ".repeat(2000)));
    fixture(answers)
}

fn compactions(log: &MemoryLog) -> usize {
    log.events().iter().filter(|event| matches!(event, SessionEvent::Compaction { .. })).count()
}

#[tokio::test]
async fn a_request_that_is_too_long_is_asked_again_with_a_summary() {
    let overflow = vec![Piece::Fails(ModelErrorKind::ContextWindowExceeded)];
    let fixture = long_then(vec![overflow, says("Summary."), says("Done.")]);
    fixture.prompt("first").await;
    assert_eq!(fixture.prompt("second").await, PromptEnd::Turn(TurnEndReason::Completed));
    assert_eq!(compactions(&fixture.log), 1);
    let requests = fixture.models.requests.lock().unwrap();
    let HistoryMessage::User(first) = &requests.last().unwrap().messages[0] else {
        panic!("no user message first")
    };
    assert_eq!(first.source, MessageSource::Checkpoint);
    assert!(first.content[0].as_text().unwrap().contains("Summary."));
}

#[tokio::test]
async fn a_request_that_stays_too_long_fails_and_says_why_instead_of_looping() {
    let overflow = || vec![Piece::Fails(ModelErrorKind::ContextWindowExceeded)];
    let fixture = long_then(vec![overflow(), says("Summary."), overflow()]);
    fixture.prompt("first").await;
    let end = fixture.prompt("second").await;
    let PromptEnd::Turn(TurnEndReason::Error { message, code }) = end else { panic!("{end:?}") };
    assert_eq!(code, "CONTEXT_WINDOW_EXCEEDED");
    assert!(message.contains("still too long"), "{message}");
    assert_eq!(compactions(&fixture.log), 1);
}

#[tokio::test]
async fn a_model_that_cannot_summarise_is_replaced_by_a_plain_list_and_the_user_is_told() {
    let overflow = || vec![Piece::Fails(ModelErrorKind::ContextWindowExceeded)];
    let fixture = long_then(vec![overflow(), overflow(), says("Done.")]);
    fixture.prompt("first").await;
    assert_eq!(fixture.prompt("second").await, PromptEnd::Turn(TurnEndReason::Completed));
    let events = fixture.log.events();
    let notices = events.iter().filter(
        |event| matches!(event, SessionEvent::Notice { text, .. } if text.contains("could not summarise")),
    );
    assert_eq!(notices.count(), 1);
}

#[tokio::test]
async fn compact_that_fails_or_is_cancelled_leaves_the_session_as_it_was() {
    for broken in [Piece::Fails(ModelErrorKind::Auth), Piece::Hangs] {
        // Time passes here: a cancel is to end what the budget would only end later.
        let fixture = Fixture::new(vec![says(&"word ".repeat(2000)), vec![broken]]);
        fixture.prompt("first").await;
        let end = fixture.prompt("/compact");
        let stop = async {
            while fixture.models.requests.lock().unwrap().len() < 2 {
                tokio::task::yield_now().await;
            }
            fixture.session.cancel();
        };
        futures::join!(end, stop);
        assert_eq!(compactions(&fixture.log), 0);
    }
}
