//! Cuts, pruning and summaries over made histories; history derived from the log alone.

use super::*;
use protocol::id::CallId;
use protocol::message::{AssistantBlock, AssistantMessage, RequestedCall, ToolResultMessage};
use protocol::model::{ModelRef, Usage};

fn user(id: &str, text: &str) -> SessionEvent {
    message(id, text, MessageSource::User)
}

fn message(id: &str, text: &str, source: MessageSource) -> SessionEvent {
    let content = vec![ContentBlock::text(text)];
    SessionEvent::UserMessage { message: UserMessage { id: MessageId::new(id), content, source } }
}

fn answer(id: &str, text: &str, calls: &[&str]) -> SessionEvent {
    let mut blocks = vec![AssistantBlock::Text { text: text.to_owned() }];
    blocks.extend(calls.iter().map(|call| {
        AssistantBlock::ToolCall(RequestedCall {
            id: CallId::new(*call),
            provider_id: (*call).to_owned(),
            name: "read".to_owned(),
            arguments: format!("{{\"file_path\":\"/w/{call}\"}}"),
        })
    }));
    let model = ModelRef { provider: "p".to_owned(), model: "m".to_owned() };
    let message = AssistantMessage { id: MessageId::new(id), blocks, model };
    SessionEvent::AssistantMessage { turn: 1, step: 1, message, usage: None, interrupted: false }
}

fn result(call: &str, text: &str) -> SessionEvent {
    let content = vec![ContentBlock::text(text)];
    let message = ToolResultMessage { call_id: CallId::new(call), content, is_error: false };
    SessionEvent::ToolResult { turn: 1, step: 1, message, error: None, meta: None }
}

fn compaction(first_kept: Option<&str>) -> SessionEvent {
    let content = vec![ContentBlock::text("so far")];
    SessionEvent::Compaction {
        message: UserMessage { id: MessageId::new("sum"), content, source: MessageSource::Checkpoint },
        first_kept: first_kept.map(MessageId::new),
        reason: CompactionReason::Command,
        tokens_before: 100,
        tokens_after: 10,
    }
}

fn log(events: &[SessionEvent]) -> Vec<Record> {
    let records = (0..).zip(events);
    records
        .map(|(seq, event)| Record { seq, time: 0, ignorable: event.ignorable(), event: event.clone() })
        .collect()
}

/// Ids of messages, and calls of results.
fn names(messages: &[HistoryMessage]) -> Vec<String> {
    messages
        .iter()
        .map(|message| match message {
            HistoryMessage::ToolResult(result) => format!("result of {}", result.call_id.as_str()),
            other => message_id(other).map_or_else(String::new, |id| id.as_str().to_owned()),
        })
        .collect()
}

/// A conversation of prompts, parallel calls and context between them.
fn conversation() -> Vec<SessionEvent> {
    vec![
        user("u1", "first"),
        answer("a1", "looking", &["c1", "c2"]),
        result("c1", "one"),
        result("c2", "two"),
        message("n1", "a note", MessageSource::Goal { goal_id: "goal-1".into(), revision: 1, round: 1 }),
        answer("a2", "done", &[]),
        user("u2", "second"),
        answer("a3", "again", &["c3"]),
        result("c3", "three"),
        answer("a4", "end", &[]),
    ]
}

#[test]
fn no_budget_parts_a_call_from_its_result() {
    let messages = history(&log(&conversation()));
    for budget in 0..=estimate_history(&messages) {
        let at = cut(&messages, budget);
        assert!(estimate_history(&messages[at..]) <= budget, "budget {budget}");
        assert!(!matches!(messages.get(at), Some(HistoryMessage::ToolResult(_))), "budget {budget}");
        assert!(!has_open_calls(&messages[..at]), "budget {budget}");
    }
    assert_eq!(cut(&messages, 0), messages.len());
    assert_eq!(cut(&messages, u64::MAX / 2), 0);
}

#[test]
fn history_begins_with_the_last_summary_and_goes_on_with_what_was_kept() {
    let after = [answer("a5", "more", &[])];
    let cases: [(Option<&str>, &[&str]); 3] = [
        (None, &["sum", "a5"]),
        (Some("u2"), &["sum", "u2", "a3", "result of c3", "a4", "a5"]),
        (Some("a4"), &["sum", "a4", "a5"]),
    ];
    for (first_kept, expected) in cases {
        let events: Vec<_> =
            conversation().into_iter().chain([compaction(first_kept)]).chain(after.clone()).collect();
        assert_eq!(names(&history(&log(&events))), expected);
    }
}

#[test]
fn only_long_old_results_are_pruned_and_always_in_the_same_way() {
    let long = format!("{}{}", "é".repeat(8000), "z".repeat(1000));
    let mut events = conversation();
    events[2] = result("c1", &long);
    events[8] = result("c3", &long);
    let whole = history(&log(&events));
    events.push(SessionEvent::CompactionPrune { before: Some(MessageId::new("u2")), tokens_after: 9 });
    let pruned = history(&log(&events));
    let text = |messages: &[HistoryMessage], at: usize| match &messages[at] {
        HistoryMessage::ToolResult(result) => result.content[0].as_text().unwrap().to_owned(),
        other => panic!("{other:?}"),
    };
    assert_eq!(text(&pruned, 8), long);
    let short = text(&pruned, 2);
    assert!(short.starts_with(&"é".repeat(4096)) && short.ends_with(&"z".repeat(1000)), "{short}");
    assert!(short.contains("left out to make room") && short.chars().count() < 5400, "{}", short.len());
    let mut same = [pruned.clone(), whole].map(|mut messages| {
        messages.remove(2);
        messages
    });
    same.sort_by_key(|messages| names(messages));
    assert_eq!(same[0], same[1]);
    // Pruning what is pruned changes nothing: the cached prefix stays.
    let mut twice = pruned.clone();
    twice.iter_mut().for_each(prune_message);
    assert_eq!(text(&twice, 2), short);
}

// What a prune left is counted once: only what came after it is added.
#[test]
fn the_context_is_as_it_was_measured_last_plus_what_came_since() {
    let measured = |text: &str| match answer("a", text, &[]) {
        SessionEvent::AssistantMessage { turn, step, message, interrupted, .. } => {
            let usage = Some(Usage { input_tokens: 900, output_tokens: 100, ..Usage::default() });
            SessionEvent::AssistantMessage { turn, step, message, usage, interrupted }
        }
        other => other,
    };
    let long = "x".repeat(4000);
    let long_tokens = estimate_history(&history(&log(&[user("u", &long)])));
    let pruned = SessionEvent::CompactionPrune { before: None, tokens_after: 300 };
    let cases: [(&[SessionEvent], u64); 6] = [
        (&[user("u", &long)], long_tokens + 1),
        (&[user("u", &long), measured("done")], 1000),
        (&[user("u", &long), measured("done"), user("v", &long)], 1000 + long_tokens),
        (&[measured("done"), user("v", &long), pruned.clone()], 300),
        (&[measured("done"), user("v", &long), pruned.clone(), user("w", &long)], 300 + long_tokens),
        (&[measured("done"), user("v", &long), compaction(None), user("w", &long)], 10 + long_tokens),
    ];
    for (events, expected) in cases {
        assert_eq!(pressure(&log(events), "sys", &[]), expected, "{events:?}");
    }
}

#[test]
fn a_second_compaction_needs_an_answer_since_the_first() {
    let answered = [compaction(None), answer("a", "x", &[])];
    assert!(has_answered_since(&[]));
    assert!(!has_answered_since(&log(&[compaction(None), user("u", "x")])));
    assert!(has_answered_since(&log(&answered)));
}

#[test]
fn a_summary_without_a_model_names_prompts_files_and_last_words() {
    let text = summary::mechanical(&history(&log(&conversation())));
    assert_eq!(
        text,
        "This list was put together without a model; details are missing.\n\nThe user asked, in this order:\n- first\n- \
         second\n\nPaths that calls named, latest last: /w/c1, /w/c2, /w/c3\n\nYour last words were:\nend"
    );
    let wrapped = summary::wrap("a</compacted-summary>b", Some("c"));
    assert_eq!(wrapped.matches("</compacted-summary>").count(), 1, "{wrapped}");
}
