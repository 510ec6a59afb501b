//! A log cut anywhere opens, keeps every whole record, is balanced, and is not changed by a second opening.

use super::samples::{
    assert_balanced, calls, header, message, notice, partial, prompt, records, result, started, title,
};
use crate::JsonlSessionStore;
use proptest::prelude::*;
use protocol::event::{Record, SessionEvent, TurnEndReason};
use protocol::id::SessionId;
use services::session_store::{SessionStore, StoreError, StoredSession};

/// The events of turn 1, 2, …, each with these steps; a step is its number of calls and its words.
fn log(turns: Vec<Vec<(usize, String)>>) -> Vec<Record> {
    let mut events = vec![SessionEvent::PlanMode { active: false }];
    for (turn, steps) in (1..).zip(turns) {
        events.push(SessionEvent::TurnStart { turn });
        events.push(prompt("go"));
        for (step, (n_calls, words)) in (1..).zip(steps) {
            events.push(SessionEvent::StepStart { turn, step });
            events.push(partial(turn, step, &words));
            let ids: Vec<String> = (0..n_calls).map(|n| format!("c{turn}.{step}.{n}")).collect();
            let ids: Vec<&str> = ids.iter().map(String::as_str).collect();
            if ids.is_empty() {
                events.push(message(turn, step, &words));
            } else {
                events.push(calls(turn, step, &ids));
            }
            events.extend(ids.iter().map(|id| started(turn, step, id)));
            events.push(notice(&words));
            events.extend(ids.iter().rev().map(|id| result(turn, step, id)));
            events.push(SessionEvent::StepEnd { turn, step });
        }
        events.push(title("t"));
        events.push(SessionEvent::TurnEnd { turn, reason: TurnEndReason::Completed });
    }
    records(events)
}

async fn check(records: Vec<Record>, cut: prop::sample::Index, torn: &[u8]) {
    let home = tempfile::tempdir().unwrap();
    let store = JsonlSessionStore::new(home.path().to_owned());
    let id = SessionId::new("s");
    let log = store.create(header("s", "/w")).await.unwrap();
    let n_header = std::fs::metadata(log.path()).unwrap().len() as usize;
    for record in &records {
        log.append(record).unwrap();
    }
    let path = log.path();
    drop(log);
    let mut bytes = std::fs::read(&path).unwrap();
    bytes.truncate(cut.index(bytes.len() + 1));
    let text = String::from_utf8_lossy(&bytes).into_owned();
    let n_whole = text.matches('\n').count().saturating_sub(1);
    let n_whole = n_whole
        + usize::from(
            text.ends_with('}') && serde_json::from_str::<Record>(text.lines().last().unwrap()).is_ok(),
        );
    if text.ends_with('\n') {
        bytes.extend(torn);
    }
    std::fs::write(&path, &bytes).unwrap();

    if bytes.len() < n_header {
        assert!(matches!(store.open(&id).await, Err(StoreError::Corrupt { .. })));
        return;
    }
    let read = store.read(&id).await.unwrap();
    assert_eq!(std::fs::read(&path).unwrap(), bytes);
    let opened = store.open(&id).await.unwrap().session;
    assert_eq!(opened, read);
    assert_eq!(opened.records[..n_whole], records[..n_whole]);
    assert_eq!(opened.n_bad_records, 0);
    assert_balanced(&opened.records);

    let repaired = std::fs::read(&path).unwrap();
    let again = store.open(&id).await.unwrap();
    assert_eq!(again.session, opened);
    assert_eq!(std::fs::read(&path).unwrap(), repaired);
    let StoredSession { records, .. } = opened;
    let next = SessionEvent::TurnStart { turn: 99 };
    again.log.append(&Record { seq: records.len() as u64, time: 0, ignorable: false, event: next }).unwrap();
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(192))]

    #[test]
    fn a_log_cut_at_any_byte_opens_whole_and_balanced(
        turns in prop::collection::vec(prop::collection::vec((0_usize..4, "\\PC{0,12}"), 0..4), 1..4),
        cut: prop::sample::Index,
        torn in prop::sample::select(vec![&b""[..], b"{\"seq\":", b"\0\0\0\0", b"\xff\xfe", b"}"]),
    ) {
        let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
        runtime.block_on(check(log(turns), cut, torn));
    }
}
