//! A writer that is killed and a disk that is full, both in a child process: this test binary run again.

use super::samples::{assert_balanced, calls, header, prompt, started};
use crate::JsonlSessionStore;
use protocol::event::{Record, SessionEvent};
use protocol::id::SessionId;
use services::session_store::{SessionLog, SessionStore};
use std::io::{BufRead, BufReader};
use std::process::{Child, Command, Stdio};

/// Tells a child its root; absent in an ordinary run.
const ROOT: &str = "PROVIDER_STORE_TEST_ROOT";

fn child(test: &str, root: &std::path::Path) -> Child {
    Command::new(std::env::current_exe().unwrap())
        .args(["--exact", &format!("tests::crash::{test}"), "--nocapture"])
        .env(ROOT, root)
        .stdout(Stdio::piped())
        .spawn()
        .unwrap()
}

fn child_store() -> Option<JsonlSessionStore> {
    std::env::var_os(ROOT).map(|root| JsonlSessionStore::new(root.into()))
}

fn append(log: &dyn SessionLog, seq: u64, event: SessionEvent) -> Result<(), String> {
    let record = Record { seq, time: 5, ignorable: event.ignorable(), event };
    log.append(&record).map_err(|error| error.to_string())
}

#[tokio::test]
async fn a_killed_writer_leaves_a_session_that_opens() {
    if let Some(store) = child_store() {
        let log = store.create(header("s", "/w")).await.unwrap();
        append(&*log, 0, SessionEvent::TurnStart { turn: 1 }).unwrap();
        append(&*log, 1, SessionEvent::StepStart { turn: 1, step: 1 }).unwrap();
        append(&*log, 2, calls(1, 1, &["a", "b"])).unwrap();
        append(&*log, 3, started(1, 1, "a")).unwrap();
        println!("\nwritten");
        // Bounded, should nobody come to kill it.
        for seq in 4..10_000 {
            append(&*log, seq, prompt(&"steer ".repeat(2_000))).unwrap();
        }
        std::process::exit(0);
    }
    let home = tempfile::tempdir().unwrap();
    let mut writer = child("a_killed_writer_leaves_a_session_that_opens", home.path());
    let lines = BufReader::new(writer.stdout.take().unwrap()).lines();
    assert!(lines.map_while(Result::ok).any(|line| line == "written"));
    let store = JsonlSessionStore::new(home.path().to_owned());
    assert!(store.open(&SessionId::new("s")).await.is_err_and(|error| error.to_string().contains("is open")));
    writer.kill().unwrap();
    writer.wait().unwrap();
    let session = store.open(&SessionId::new("s")).await.unwrap().session;
    assert_eq!(session.n_bad_records, 0);
    assert_balanced(&session.records);
}

#[cfg(unix)]
#[tokio::test]
async fn a_full_disk_costs_the_record_and_nothing_before_it() {
    if let Some(store) = child_store() {
        limit_file_size(100_000);
        let log = store.create(header("s", "/w")).await.unwrap();
        append(&*log, 0, prompt(&"x".repeat(60_000))).unwrap();
        let before = std::fs::metadata(log.path()).unwrap().len();
        for _ in 0..3 {
            let error = append(&*log, 1, prompt(&"y".repeat(60_000))).unwrap_err();
            assert!(error.contains("File too large"), "{error}");
            assert_eq!(std::fs::metadata(log.path()).unwrap().len(), before);
        }
        append(&*log, 1, prompt("small")).unwrap();
        log.flush().await.unwrap();
        std::process::exit(0);
    }
    let home = tempfile::tempdir().unwrap();
    let status = child("a_full_disk_costs_the_record_and_nothing_before_it", home.path()).wait().unwrap();
    assert!(status.success());
    let store = JsonlSessionStore::new(home.path().to_owned());
    let session = store.read(&SessionId::new("s")).await.unwrap();
    assert_eq!((session.records.len(), session.n_bad_records), (2, 0));
}

/// Makes this process fail to write files beyond `n_bytes`.
#[cfg(unix)]
#[expect(unsafe_code, reason = "the limit and the signal can only be set through libc")]
fn limit_file_size(n_bytes: u64) {
    let limit = libc::rlimit { rlim_cur: n_bytes, rlim_max: libc::RLIM_INFINITY };
    // SAFETY: both calls take plain values and a pointer that lives through the call.
    unsafe {
        libc::signal(libc::SIGXFSZ, libc::SIG_IGN);
        assert_eq!(libc::setrlimit(libc::RLIMIT_FSIZE, &limit), 0);
    }
}
