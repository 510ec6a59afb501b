//! Reading a log, as a ratio against the least that any reader has to do.

use super::samples::{header, one_of_each};
use crate::line;
use crate::read::read_log;
use protocol::event::Record;
use protocol::id::SessionId;
use std::fs::File;
use std::time::{Duration, Instant};

#[test]
fn reading_ten_thousand_records_costs_at_most_twice_a_plain_parse() {
    let home = tempfile::tempdir().unwrap();
    let path = home.path().join("session.jsonl");
    let mut bytes = line::of_header(&header("s", "/w")).unwrap();
    for mut record in one_of_each().into_iter().cycle().take(10_000).collect::<Vec<_>>() {
        record.seq = 0;
        bytes.extend(line::of_record(&record).unwrap());
    }
    std::fs::write(&path, &bytes).unwrap();

    let plain = || {
        let text = std::fs::read_to_string(&path).unwrap();
        text.lines().skip(1).map(|line| serde_json::from_str::<Record>(line).unwrap()).collect::<Vec<_>>()
    };
    let ours = || read_log(&SessionId::new("s"), &File::open(&path).unwrap()).unwrap().records;
    assert_eq!(ours(), plain());
    let (plain, ours) = (best_of_five(plain), best_of_five(ours));
    println!("plain {plain:?}, ours {ours:?}, {} bytes", bytes.len());
    assert!(ours <= plain * 2, "plain {plain:?}, ours {ours:?}");
}

fn best_of_five<T>(mut work: impl FnMut() -> T) -> Duration {
    let mut once = || {
        let start = Instant::now();
        let _kept = std::hint::black_box(work());
        start.elapsed()
    };
    (0..5).map(|_| once()).min().unwrap()
}
