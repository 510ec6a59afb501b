//! Measures the index: writes logs of a million events (or of the number given), takes them in, and searches them in
//! fresh connections. Prints, one a line, the CPU milliseconds of: taking in, then a search for a rare phrase, for a word
//! in a thousand events and for one in a hundred, each with its look at every log; then the size of the index in MiB.
//! For `benches/run.py index`.

#![allow(clippy::unwrap_used, clippy::print_stdout, reason = "a measurement fails where it stands")]

use protocol::content::ContentBlock;
use protocol::event::{LOG_VERSION, Record, SessionEvent, SessionHeader};
use protocol::id::{MessageId, SessionId};
use protocol::message::{MessageSource, UserMessage};
use provider_index::SqliteIndex;
use provider_store::JsonlSessionStore;
use services::session_query::text::Phrase;
use services::session_query::{Filter, SessionIndex};
use services::session_store::SessionStore;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;
use tokio_util::sync::CancellationToken;

const N_SESSIONS: u64 = 1_000;
const N_ROUNDS: usize = 7;

fn main() {
    let n_events: u64 = std::env::args().nth(1).map_or(1_000_000, |number| number.parse().unwrap());
    let folder = tempfile::tempdir().unwrap();
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).build().unwrap();
    runtime.block_on(measure(folder.path(), n_events / N_SESSIONS));
}

async fn measure(folder: &Path, n_each: u64) {
    let store = Arc::new(JsonlSessionStore::new(folder.join("sessions")));
    let mut headers = Vec::new();
    for session in 0..N_SESSIONS {
        headers.push(write(&store, session, n_each).await);
    }
    let ids: Vec<SessionId> = headers.iter().map(|header| header.id.clone()).collect();
    let open = || SqliteIndex::new(folder, store.clone()).with_take_in_budget(Duration::from_secs(20));
    let cancel = CancellationToken::new();
    let before = cpu_ms();
    while open().best(&filter("nothing"), &headers, &ids, 100, &cancel).await.unwrap().n_waiting > 0 {}
    println!("{:.1}", cpu_ms() - before);
    for query in ["seldom 7 of 500", "thousandth", "hundredth"] {
        let mut times = Vec::new();
        for _ in 0..N_ROUNDS {
            let before = cpu_ms();
            let found = open().best(&filter(query), &headers, &ids, 100, &cancel).await.unwrap();
            times.push(cpu_ms() - before);
            assert!(!found.hits.is_empty());
        }
        times.sort_by(f64::total_cmp);
        println!("{:.1}", times[N_ROUNDS / 2]);
    }
    let size: u64 =
        std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().metadata().unwrap().len()).sum();
    println!("{}", size / (1024 * 1024));
}

/// A session of messages of some thirty words each.
async fn write(store: &JsonlSessionStore, session: u64, n_events: u64) -> SessionHeader {
    let header = SessionHeader {
        version: LOG_VERSION,
        id: SessionId::new(format!("ses-{session}")),
        created_at: 0,
        cwd: "/bench".into(),
        additional_directories: Vec::new(),
        parent_session: None,
        delegation_depth: 0,
    };
    let log = store.create(header.clone()).await.unwrap();
    let mut state = session + 1;
    for seq in 0..n_events {
        let mut text = String::new();
        for _ in 0..30 {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            // Few words are frequent and most are rare, as in speech.
            let bits = (state >> 60) + 1;
            text.push_str(&format!("w{} ", (state >> 33) % (1 << bits)));
        }
        if seq % 1000 == session % 1000 {
            text.push_str("thousandth ");
        }
        if seq % 100 == session % 100 {
            text.push_str("hundredth ");
        }
        if seq == 500.min(n_events - 1) {
            text.push_str(&format!("seldom {} of 500", session % 100));
        }
        let id = MessageId::new(format!("m{seq}"));
        let message =
            UserMessage { id, content: vec![ContentBlock::text(text)], source: MessageSource::User };
        let event = SessionEvent::UserMessage { message };
        log.append(&Record { seq, time: 0, ignorable: false, event }).unwrap();
    }
    header
}

fn filter(query: &str) -> Filter {
    Filter {
        phrase: Phrase::new(query).unwrap(),
        seqs: 0..=u64::MAX,
        times: i64::MIN..=i64::MAX,
        types: None,
        surfaces: None,
    }
}

/// CPU time of every thread so far. Pooled threads live longer than one measurement.
fn cpu_ms() -> f64 {
    let tasks = std::fs::read_dir("/proc/self/task").unwrap();
    let times = tasks.filter_map(|task| std::fs::read_to_string(task.ok()?.path().join("schedstat")).ok());
    times.filter_map(|time| time.split(' ').next()?.parse::<f64>().ok()).sum::<f64>() / 1e6
}
