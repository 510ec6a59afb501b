//! The five tools on sessions in memory.

use crate::testing::Bench;
use protocol::content::ContentBlock;
use protocol::event::{CompactionReason, Record, SessionEvent, SessionHeader};
use protocol::id::{MessageId, SessionId};
use protocol::message::{MessageSource, UserMessage};
use serde_json::{Value, json};
use std::path::PathBuf;

fn header(id: &str, cwd: PathBuf, parent: Option<&str>) -> SessionHeader {
    SessionHeader {
        version: 1,
        id: SessionId::new(id),
        created_at: 0,
        cwd,
        additional_directories: Vec::new(),
        parent_session: parent.map(SessionId::new),
        delegation_depth: 0,
    }
}

fn said(text: &str) -> SessionEvent {
    SessionEvent::UserMessage {
        message: UserMessage {
            id: MessageId::new(text),
            content: vec![ContentBlock::text(text)],
            source: MessageSource::User,
        },
    }
}

fn log(events: Vec<SessionEvent>) -> Vec<Record> {
    let numbered = (0_u64..).zip(events);
    numbered.map(|(seq, event)| Record { seq, time: 1000, ignorable: false, event }).collect()
}

/// The caller, an `old` session with a `child`, a `foreign` one with a `hidden` child here and in between.
fn bench() -> Bench {
    let bench = Bench::new();
    let ctx = bench.session.context("session_search", json!({}));
    let (own, cwd) = (ctx.execution.session_id.to_string(), ctx.session.cwd.clone());
    let step = SessionEvent::StepStart { turn: 1, step: 1 };
    let put = |id: &str, cwd: &PathBuf, parent: Option<&str>, events: Vec<SessionEvent>| {
        bench.world().sessions.put(header(id, cwd.clone(), parent), log(events));
    };
    put(&own, &cwd, None, vec![said("alpha before"), step, said("alpha beta now")]);
    put("old", &cwd, None, vec![said("alpha beta, in the old days"), said("then")]);
    put("child", &cwd, Some("old"), vec![said("nothing")]);
    let elsewhere = PathBuf::from("/elsewhere");
    put("foreign", &elsewhere, Some("old"), vec![said("alpha beta secret")]);
    put("hidden", &cwd, Some("foreign"), vec![said("nothing")]);
    bench
}

#[tokio::test]
async fn what_is_not_valid_is_refused_with_its_code() {
    let search = |extra: Value| {
        let mut arguments = json!({"query": "alpha"});
        arguments.as_object_mut().unwrap().extend(extra.as_object().unwrap().clone());
        arguments
    };
    let (query, filter) = ("SESSION_QUERY_INVALID_QUERY", "SESSION_QUERY_INVALID_FILTER");
    let cases = [
        (json!({"query": "   "}), query),
        (json!({"query": "bad\0query"}), query),
        (search(json!({"session_ids": []})), filter),
        (search(json!({"availability": ["archived"]})), "INVALID_ARGS"),
        (search(json!({"event_seq_from": -1})), filter),
        (search(json!({"event_seq_from": 2, "event_seq_to": 1})), filter),
        (search(json!({"event_time_from": "2026-01-01T00:00:00"})), filter),
        (search(json!({"created_at_from": "2026-02-30T00:00Z"})), filter),
        (
            search(json!({"created_at_from": "2026-01-02T00:00Z", "created_at_to": "2026-01-01T00:00Z"})),
            filter,
        ),
    ];
    for (arguments, code) in cases {
        assert_eq!(bench().call("session_search", arguments.clone()).await.code(), code, "{arguments}");
    }
}

#[tokio::test]
async fn a_search_finds_sessions_of_this_workspace_other_than_its_own() {
    let ran = bench().call("session_search", json!({"query": "  alpha   BETA "})).await;
    let expected = "Sessions found: 1\n\n1. old — untitled\nCreated: 1970-01-01T00:00:00.000Z\nParent: root\n\
                    Availability: persisted\nBest match: 0 | user/message | current | 1970-01-01T00:00:01.000Z\n\
                    alpha beta, in the old days";
    assert_eq!(ran.text(), expected);
    let none = "No past session of this workspace matches.";
    for extra in [json!(["live"]), json!(["live", "persisted"])] {
        let ran = bench().call("session_search", json!({"query": "alpha", "availability": extra})).await;
        assert_eq!(ran.text() == none, extra == json!(["live"]));
    }
    let masked = bench().call("session_search", json!({"query": "nothing", "session_ids": ["hidden"]})).await;
    assert!(masked.text().contains("Parent: [outside workspace]"), "{}", masked.text());
    let by_parent = json!({"query": "nothing", "parent_session_ids": ["foreign"]});
    assert_eq!(bench().call("session_search", by_parent).await.text(), none);
}

#[tokio::test]
async fn more_hits_than_are_shown_are_told_and_foreign_ones_do_not_count() {
    for n_more in [0, 1] {
        let bench = Bench::new();
        let cwd = bench.session.context("session_search", json!({})).session.cwd.clone();
        for idx in 0..100 + n_more {
            let head = header(&format!("s{idx}"), cwd.clone(), None);
            bench.world().sessions.put(head, log(vec![said("alpha")]));
        }
        let head = header("foreign", PathBuf::from("/elsewhere"), None);
        bench.world().sessions.put(head, log(vec![said("alpha")]));
        let ran = bench.call("session_search", json!({"query": "alpha"})).await;
        assert_eq!(ran.text().ends_with("there are more."), n_more == 1, "{n_more}");
    }
}

#[tokio::test]
async fn the_current_step_is_never_found_in_the_own_session() {
    let ran = bench().call("session_event_search", json!({"query": "alpha"})).await;
    assert!(ran.text().contains("alpha before") && !ran.text().contains("now"), "{}", ran.text());
    let ran = bench().call("session_event_search", json!({"query": "alpha", "seq_from": 2})).await;
    assert!(ran.text().ends_with("No event matches."), "{}", ran.text());
}

#[tokio::test]
async fn a_foreign_session_is_refused_as_an_unknown_one() {
    for tool in ["session_event_search", "session_trace", "session_event_trace", "session_event_read"] {
        let mut failures = Vec::new();
        for id in ["foreign", "made-up"] {
            let arguments = json!({"session_id": id, "query": "alpha", "seq": 0});
            failures.push(bench().call(tool, arguments).await.failure().clone());
        }
        assert_eq!(failures[0].code(), Some("SESSION_QUERY_TOOL_UNAUTHORIZED"), "{tool}");
        assert_eq!(failures[0], failures[1], "{tool}");
    }
}

#[tokio::test]
async fn a_trace_marks_foreign_sessions_and_hides_what_is_below_them() {
    let ran = bench().call("session_trace", json!({"session_id": "old"})).await;
    let expected = "Session: old — untitled\nCreated: 1970-01-01T00:00:00.000Z\nAvailability: persisted\nAncestors:\n\
                    none (root)\nDescendants:\n- child — untitled | 1970-01-01T00:00:00.000Z | persisted\n\
                    - [outside workspace]";
    assert_eq!(ran.text(), expected);
    let ran = bench().call("session_trace", json!({"session_id": "hidden"})).await;
    assert!(ran.text().contains("Ancestors:\n- [outside workspace]\nDescendants:\nnone"), "{}", ran.text());
}

#[tokio::test]
async fn a_circle_of_parents_is_told() {
    let bench = bench();
    let cwd = bench.session.context("session_trace", json!({})).session.cwd.clone();
    bench.world().sessions.put(header("a", cwd.clone(), Some("b")), Vec::new());
    bench.world().sessions.put(header("b", cwd, Some("a")), Vec::new());
    let ran = bench.call("session_trace", json!({"session_id": "a"})).await;
    assert_eq!(ran.code(), "SESSION_QUERY_INVALID_LINEAGE");
}

#[tokio::test]
async fn an_event_is_read_whole_with_what_is_around_it() {
    let read = |extra: Value| async move {
        let mut arguments = json!({"session_id": "old", "seq": 0});
        arguments.as_object_mut().unwrap().extend(extra.as_object().unwrap().clone());
        bench().call("session_event_read", arguments).await
    };
    let ran = read(json!({"before": 3, "after": 50})).await;
    let (text, after) = (ran.text(), "After:\n1 | user/message | 1970-01-01T00:00:01.000Z\n    then");
    assert!(text.starts_with("Session: old — untitled\n\n```json\n{\n  \"seq\": 0,"), "{text}");
    assert!(text.ends_with(after) && !text.contains("Before"), "{text}");
    assert_eq!(read(json!({"before": 51})).await.code(), "SESSION_QUERY_INVALID_WINDOW");
    assert_eq!(read(json!({"after": -1})).await.code(), "SESSION_QUERY_INVALID_WINDOW");
    assert_eq!(read(json!({"seq": 9})).await.code(), "SESSION_QUERY_EVENT_NOT_FOUND");
}

#[tokio::test]
async fn an_event_is_traced() {
    let ran = bench().call("session_event_trace", json!({"session_id": "old", "seq": 1})).await;
    assert!(
        ran.text()
            .contains("Event: 1 | user/message | current | 1970-01-01T00:00:01.000Z\nReplaced by: none")
    );
    let ran = bench().call("session_event_trace", json!({"session_id": "old", "seq": 2})).await;
    assert_eq!(ran.code(), "SESSION_QUERY_EVENT_NOT_FOUND");
}

#[tokio::test]
async fn a_trace_follows_what_compactions_replaced() {
    let bench = bench();
    let cwd = bench.session.context("session_trace", json!({})).session.cwd.clone();
    let compacted = |kept: Option<&str>, text: &str| SessionEvent::Compaction {
        message: UserMessage {
            id: MessageId::new(text),
            content: vec![ContentBlock::text(text)],
            source: MessageSource::User,
        },
        first_kept: kept.map(MessageId::new),
        reason: CompactionReason::Command,
        tokens_before: 2,
        tokens_after: 1,
    };
    let events = vec![said("one"), said("two"), compacted(Some("two"), "sum"), compacted(None, "all")];
    bench.world().sessions.put(header("long", cwd, None), log(events));
    let cases = [
        (0, "shadowed", "Replaced by: 2\nReplacement chain: 2, 3\nReplaces: none"),
        (1, "shadowed", "Replaced by: 3\nReplacement chain: 3\nReplaces: none"),
        (2, "shadowed", "Replaced by: 3\nReplacement chain: 3\nReplaces: 0"),
        (3, "current", "Replaced by: none\nReplacement chain: none\nReplaces: 1, 2"),
    ];
    for (seq, surface, links) in cases {
        let ran = bench.call("session_event_trace", json!({"session_id": "long", "seq": seq})).await;
        assert!(ran.text().contains(&format!(" | {surface} | ")), "{}", ran.text());
        assert!(ran.text().contains(links), "{}", ran.text());
    }
    let current = json!({"query": "two", "session_ids": ["long"], "event_surfaces": ["current"]});
    let ran = bench.call("session_search", current).await;
    assert_eq!(ran.text(), "No past session of this workspace matches.");
}
