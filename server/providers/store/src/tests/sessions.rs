//! Creating, opening, reading, listing and deleting.

use super::samples::{header, message, notice, one_of_each, prompt, records, title};
use crate::JsonlSessionStore;
use protocol::event::{Record, SessionEvent, TurnEndReason};
use protocol::id::SessionId;
use services::session_store::{SessionLog, SessionStore, StoreError, StoredSession};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use tempfile::TempDir;

fn store() -> (TempDir, JsonlSessionStore) {
    let home = tempfile::tempdir().unwrap();
    let store = JsonlSessionStore::new(home.path().join("sessions"));
    (home, store)
}

fn id(text: &str) -> SessionId {
    SessionId::new(text)
}

async fn write(store: &JsonlSessionStore, name: &str, records: &[Record]) -> Arc<dyn SessionLog> {
    let log = store.create(header(name, "/w")).await.unwrap();
    for record in records {
        log.append(record).unwrap();
    }
    log
}

/// Writes one session, changes its bytes, gives back its log.
async fn damaged(store: &JsonlSessionStore, change: impl FnOnce(String) -> String) -> PathBuf {
    let path = write(store, "s", &one_of_each()).await.path();
    std::fs::write(&path, change(std::fs::read_to_string(&path).unwrap())).unwrap();
    path
}

fn without_line(text: &str, n: usize) -> String {
    let keep =
        |(idx, line): (usize, &str)| if idx == n { "{\"torn\":\n".to_owned() } else { format!("{line}\n") };
    text.lines().enumerate().map(keep).collect()
}

#[tokio::test]
async fn a_created_session_is_on_disk_and_can_be_read_at_once() {
    let (_home, store) = store();
    let log = store.create(header("s", "/home/me/src")).await.unwrap();
    assert!(log.path().ends_with("sessions/home-me-src/s/session.jsonl"));
    let empty = StoredSession { header: header("s", "/home/me/src"), records: vec![], n_bad_records: 0 };
    assert_eq!(store.read(&id("s")).await.unwrap(), empty);
    drop(log);
    assert_eq!(store.open(&id("s")).await.unwrap().session, empty);
}

#[cfg(unix)]
#[tokio::test]
async fn only_the_owner_can_read_a_session() {
    use std::os::unix::fs::PermissionsExt;
    let (home, store) = store();
    let log = store.create(header("s", "/w")).await.unwrap();
    log.blobs().put("text").await.unwrap();
    let mode = |path: &Path| std::fs::metadata(path).unwrap().permissions().mode() & 0o777;
    let dir = log.path().parent().unwrap().to_owned();
    let folders =
        [home.path().join("sessions"), home.path().join("sessions/w"), dir.clone(), dir.join("blobs")];
    assert_eq!(folders.map(|path| mode(&path)), [0o700; 4]);
    assert_eq!([log.path(), dir.join("lock")].map(|path| mode(&path)), [0o600; 2]);
}

#[tokio::test]
async fn kept_texts_are_given_to_another_session_and_stay_when_the_first_goes() {
    let (_home, store) = store();
    let first = write(&store, "first", &[]).await;
    let second = write(&store, "second", &[]).await;
    store.copy_blobs(&id("first"), &id("second")).await.unwrap();
    let hash = first.blobs().put("kept").await.unwrap();
    let own = second.blobs().put("own").await.unwrap();
    store.copy_blobs(&id("first"), &id("second")).await.unwrap();
    drop(first);
    store.delete(&id("first")).await.unwrap();
    assert_eq!(second.blobs().get(&hash).await.as_deref(), Some("kept"));
    assert_eq!(second.blobs().get(&own).await.as_deref(), Some("own"));
    let error = store.copy_blobs(&id("first"), &id("second")).await.unwrap_err();
    assert!(matches!(error, StoreError::NotFound(_)));
}

#[tokio::test]
async fn what_was_appended_comes_back() {
    let (_home, store) = store();
    let records = one_of_each();
    let log = write(&store, "s", &records).await;
    log.flush().await.unwrap();
    let whole = StoredSession { header: header("s", "/w"), records, n_bad_records: 0 };
    assert_eq!(store.read(&id("s")).await.unwrap(), whole);
    drop(log);
    let opened = store.open(&id("s")).await.unwrap();
    assert_eq!(opened.session, whole);
    let next = Record { seq: 16, time: 0, ignorable: false, event: SessionEvent::TurnStart { turn: 2 } };
    opened.log.append(&next).unwrap();
    assert_eq!(store.read(&id("s")).await.unwrap().records[16], next);
}

#[tokio::test]
async fn an_id_exists_once() {
    let (_home, store) = store();
    let log = store.create(header("s", "/w")).await.unwrap();
    assert!(matches!(store.create(header("s", "/w")).await, Err(StoreError::Locked(_))));
    drop(log);
    assert!(matches!(store.create(header("s", "/w")).await, Err(StoreError::Io(_))));
}

#[tokio::test]
async fn a_missing_session_is_not_found() {
    let (home, store) = store();
    for name in ["s", "", "..", "../..", &"x".repeat(5_000)] {
        let name = &SessionId::new(name);
        let (read, open, delete) = tokio::join!(store.read(name), store.open(name), store.delete(name));
        assert!(matches!(read, Err(StoreError::NotFound(_))), "{name}");
        assert!(matches!(open, Err(StoreError::NotFound(_))), "{name}");
        assert!(matches!(delete, Err(StoreError::NotFound(_))), "{name}");
    }
    assert_eq!(store.list().await.unwrap(), []);
    assert_eq!(std::fs::read_dir(home.path()).unwrap().count(), 0);
}

#[tokio::test]
async fn the_second_writer_is_refused_until_the_first_is_gone() {
    let (_home, store) = store();
    drop(write(&store, "s", &one_of_each()).await);
    let first = store.open(&id("s")).await.unwrap();
    assert!(matches!(store.open(&id("s")).await, Err(StoreError::Locked(_))));
    assert!(matches!(store.delete(&id("s")).await, Err(StoreError::Locked(_))));
    assert_eq!(store.read(&id("s")).await.unwrap(), first.session);
    drop(first);
    store.open(&id("s")).await.unwrap();
}

#[tokio::test]
async fn a_deleted_session_is_gone_with_all_beside_it() {
    let (_home, store) = store();
    let log = write(&store, "s", &one_of_each()).await;
    log.blobs().put("text").await.unwrap();
    let dir = log.path().parent().unwrap().to_owned();
    drop(log);
    store.delete(&id("s")).await.unwrap();
    assert!(!dir.exists());
    assert!(matches!(store.read(&id("s")).await, Err(StoreError::NotFound(_))));
    store.create(header("s", "/w")).await.unwrap();
}

#[tokio::test]
async fn records_that_do_not_fit_are_refused_and_leave_nothing() {
    let (_home, store) = store();
    let log = write(&store, "s", &records([SessionEvent::TurnStart { turn: 1 }])).await;
    let before = std::fs::read(log.path()).unwrap();
    let huge = Record { seq: 1, time: 0, ignorable: false, event: prompt(&"x".repeat(8 << 20)) };
    let cases = [
        (huge, "is over the limit of 8388608"),
        (records([prompt("a")]).remove(0), "record 0 does not continue a log that ends before 1"),
    ];
    for (record, reason) in cases {
        let error = log.append(&record).unwrap_err().to_string();
        assert!(error.contains(reason), "{error}");
    }
    assert_eq!(std::fs::read(log.path()).unwrap(), before);
}

#[tokio::test]
async fn many_flushes_at_once_all_return() {
    let (_home, store) = store();
    let log = write(&store, "s", &one_of_each()).await;
    let waiters: Vec<_> = (0..50).map(|_| Arc::clone(&log)).collect();
    for waiter in waiters.into_iter().map(|log| tokio::spawn(async move { log.flush().await })) {
        waiter.await.unwrap().unwrap();
    }
}

#[tokio::test]
async fn a_bad_record_in_the_middle_costs_that_record() {
    let (_home, store) = store();
    let path = damaged(&store, |text| without_line(&text, 5)).await;
    let before = std::fs::read(&path).unwrap();
    let mut left = one_of_each();
    left.remove(4);
    let expected = StoredSession { header: header("s", "/w"), records: left, n_bad_records: 1 };
    assert_eq!(store.read(&id("s")).await.unwrap(), expected);
    assert_eq!(store.open(&id("s")).await.unwrap().session, expected);
    assert_eq!(std::fs::read(&path).unwrap(), before);
}

#[tokio::test]
async fn a_record_of_the_future_stops_the_reader_unless_it_may_be_skipped() {
    let line = |ignorable: &str| {
        format!("{{\"seq\":16,\"time\":9{ignorable},\"type\":\"goal/dream\",\"data\":[]}}\n")
    };
    let (_home, store) = store();
    let path = damaged(&store, |text| text + &line(",\"ignorable\":true")).await;
    let skipped = store.open(&id("s")).await.unwrap().session;
    assert_eq!((skipped.records, skipped.n_bad_records), (one_of_each(), 0));
    std::fs::write(&path, std::fs::read_to_string(&path).unwrap() + &line("")).unwrap();
    let error = store.open(&id("s")).await.map(|opened| opened.session).unwrap_err();
    assert!(matches!(&error, StoreError::Corrupt { reason, .. } if reason.contains("goal/dream")), "{error}");
}

#[tokio::test]
async fn headers_that_cannot_be_used_say_why() {
    let cases = [
        ("{\"version\":2,\"shape\":\"new\"}\n", "log format 2"),
        ("{\"version\":0}\n", "no longer understood"),
        ("", "no session header"),
        ("garbage\n", "no session header"),
        ("{\"version\":1,\"id\":\"s\"}\n", "incomplete"),
        ("{\"version\":1,\"id\":\"other\",\"createdAt\":1,\"cwd\":\"/w\"}\n", "belongs to session other"),
    ];
    for (first_line, reason) in cases {
        let (_home, store) = store();
        damaged(&store, |_| first_line.to_owned()).await;
        for error in [
            store.read(&id("s")).await.unwrap_err(),
            store.open(&id("s")).await.map(|opened| opened.session).unwrap_err(),
        ] {
            assert!(error.to_string().contains(reason), "{error}");
        }
        // A bad session fails alone.
        write(&store, "good", &[]).await;
        assert!(store.list().await.unwrap().iter().any(|summary| summary.header.id == id("good")));
    }
}

#[tokio::test]
async fn a_whole_last_record_without_its_line_end_is_kept() {
    let (_home, store) = store();
    let path = damaged(&store, |text| text.trim_end().to_owned()).await;
    assert_eq!(store.read(&id("s")).await.unwrap().records, one_of_each());
    assert_eq!(store.open(&id("s")).await.unwrap().session.records, one_of_each());
    assert!(std::fs::read_to_string(&path).unwrap().ends_with("}\n"));
}

#[tokio::test]
async fn an_open_turn_is_closed_in_the_log_when_opened_and_only_shown_when_read() {
    let (_home, store) = store();
    let open = records([SessionEvent::TurnStart { turn: 1 }, prompt("go")]);
    let log = write(&store, "s", &open).await;
    let before = std::fs::read(log.path()).unwrap();
    let path = log.path();
    drop(log);
    let read = store.read(&id("s")).await.unwrap();
    let end = SessionEvent::TurnEnd { turn: 1, reason: TurnEndReason::Interrupted };
    assert_eq!(read.records[2], Record { seq: 2, time: 1_001, ignorable: false, event: end });
    assert_eq!(std::fs::read(&path).unwrap(), before);
    assert_eq!(store.open(&id("s")).await.unwrap().session, read);
    assert_ne!(std::fs::read(&path).unwrap(), before);
    assert_eq!(store.read(&id("s")).await.unwrap(), read);
}

#[tokio::test]
async fn the_list_is_newest_first_with_title_and_prompt() {
    let (_home, store) = store();
    let session = |more: Vec<SessionEvent>| records(more);
    write(&store, "old", &session(vec![notice("context")])).await;
    write(&store, "new", &session(vec![title("first"), prompt("p"), title("last"), message(1, 1, "x")]))
        .await;
    write(&store, "empty", &[]).await;
    let list = store.list().await.unwrap();
    let told: Vec<_> = list
        .iter()
        .map(|one| (one.header.id.as_str(), one.title.as_deref(), one.updated_at, one.has_prompt))
        .collect();
    let expected =
        [("new", Some("last"), 1_003, true), ("empty", None, 1_000, false), ("old", None, 1_000, false)];
    assert_eq!(told, expected);
}

#[tokio::test]
async fn a_remembered_summary_follows_the_log() {
    let (_home, store) = store();
    let log = write(&store, "s", &records([title("one"), prompt(&"x".repeat(40_000))])).await;
    let kept = log.path().with_file_name("summary.json");
    let only = || async {
        let one = store.list().await.unwrap().remove(0);
        (one.title.unwrap(), one.updated_at, one.has_prompt)
    };
    assert_eq!(only().await, ("one".to_owned(), 1_001, true));
    assert!(kept.exists());
    log.append(&Record { seq: 2, time: 2_000, ignorable: false, event: title("two") }).unwrap();
    assert_eq!(only().await, ("two".to_owned(), 2_000, true));
    // Shorter than remembered, unreadable, gone: the log is asked.
    let short =
        std::fs::read_to_string(log.path()).unwrap().lines().take(2).collect::<Vec<_>>().join("\n") + "\n";
    std::fs::write(log.path(), short).unwrap();
    assert_eq!(only().await, ("one".to_owned(), 1_000, false));
    std::fs::write(&kept, "{").unwrap();
    assert_eq!(only().await, ("one".to_owned(), 1_000, false));
}
