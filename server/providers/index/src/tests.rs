//! Tests of the index over real logs: the same answers as reading every log, whatever happens to logs and file.

use crate::{SqliteIndex, file};
use proptest::prelude::*;
use protocol::content::ContentBlock;
use protocol::event::{CompactionReason, LOG_VERSION, Record, SessionEvent, SessionHeader};
use protocol::id::{MessageId, SessionId};
use protocol::message::{MessageSource, UserMessage};
use provider_store::JsonlSessionStore;
use services::session_query::text::Phrase;
use services::session_query::{Filter, Found, HistoryStart, IndexError, Role, SessionIndex, Surface, sort};
use services::session_store::{SessionLog, SessionStore};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::time::Duration;
use tempfile::TempDir;
use tokio_util::sync::CancellationToken;

fn header(id: &str) -> SessionHeader {
    SessionHeader {
        version: LOG_VERSION,
        id: SessionId::new(id),
        created_at: 0,
        cwd: "/here".into(),
        additional_directories: Vec::new(),
        parent_session: None,
        delegation_depth: 0,
    }
}

fn message(id: &str, text: &str) -> UserMessage {
    UserMessage {
        id: MessageId::new(id),
        content: vec![ContentBlock::text(text)],
        source: MessageSource::User,
    }
}

fn said(text: &str) -> SessionEvent {
    SessionEvent::UserMessage { message: message(text, text) }
}

fn compacted(first_kept: Option<&str>, text: &str) -> SessionEvent {
    SessionEvent::Compaction {
        message: message("summary", text),
        first_kept: first_kept.map(MessageId::new),
        reason: CompactionReason::Threshold,
        tokens_before: 2,
        tokens_after: 1,
    }
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

/// A home with a store, and the sessions that a test made in it.
struct Home {
    folder: TempDir,
    store: Arc<JsonlSessionStore>,
    headers: Vec<SessionHeader>,
}

impl Home {
    fn new() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let store = Arc::new(JsonlSessionStore::new(folder.path().join("sessions")));
        Self { folder, store, headers: Vec::new() }
    }

    fn index(&self) -> SqliteIndex {
        SqliteIndex::new(self.folder.path(), self.store.clone())
    }

    fn index_file(&self) -> PathBuf {
        file::path_in(self.folder.path())
    }

    /// Adds events to a session, which is made when there is none; the path of its log.
    async fn say(&mut self, id: &str, events: Vec<SessionEvent>) -> PathBuf {
        let header = header(id);
        let log: Arc<dyn SessionLog> = if self.headers.contains(&header) {
            self.store.open(&header.id).await.unwrap().log
        } else {
            self.headers.push(header.clone());
            self.store.create(header.clone()).await.unwrap()
        };
        let first = self.store.read(&header.id).await.unwrap().records.last().map_or(0, |last| last.seq + 1);
        for (seq, event) in (first..).zip(events) {
            let time = i64::try_from(seq % 3).unwrap();
            log.append(&Record { seq, time, ignorable: false, event }).unwrap();
        }
        log.path()
    }

    async fn ask(&self, index: &SqliteIndex, filter: &Filter) -> Result<Found, IndexError> {
        let existing: Vec<SessionId> = self.headers.iter().map(|header| header.id.clone()).collect();
        index.best(filter, &self.headers, &existing, 100, &CancellationToken::new()).await
    }

    /// What reading every log finds.
    async fn scan(&self, filter: &Filter) -> Found {
        let mut found = Found::default();
        for header in &self.headers {
            let records = self.store.read(&header.id).await.unwrap().records;
            let start = HistoryStart::of(&records);
            let hits = (0_u64..).zip(&records);
            let hits = hits
                .filter_map(|(at, record)| filter.find(record, start.surface(at, Role::of(&record.event))));
            found.hits.extend(hits.min().map(|hit| (header.id.clone(), hit)));
        }
        sort(&mut found.hits);
        found
    }

    /// Asks the index for a word and holds the answer against the logs; ids of the sessions found.
    async fn checked(&self, index: &SqliteIndex, query: &str) -> Vec<String> {
        let found = self.ask(index, &filter(query)).await.unwrap();
        assert_eq!(found, self.scan(&filter(query)).await, "{query}");
        found.hits.iter().map(|(id, _)| id.to_string()).collect()
    }
}

#[tokio::test]
async fn what_is_appended_cut_replaced_or_deleted_is_noticed() {
    let mut home = Home::new();
    let index = home.index();
    let path = home.say("a", vec![said("heron one"), said("heron two")]).await;
    home.say("b", vec![said("a heron, a heron")]).await;
    assert_eq!(home.checked(&index, "heron").await, ["b", "a"]);
    home.say("a", vec![said("heron heron heron")]).await;
    assert_eq!(home.checked(&index, "heron").await, ["a", "b"]);
    // Cut inside of what was taken in, then longer than before.
    let log = std::fs::read_to_string(&path).unwrap();
    let cut: String = log.lines().take(2).map(|line| format!("{line}\n")).collect();
    std::fs::write(&path, &cut).unwrap();
    assert_eq!(home.checked(&index, "two").await, [""; 0]);
    std::fs::write(&path, log.replace("heron", "stork")).unwrap();
    assert_eq!(home.checked(&index, "stork two").await, ["a"]);
    assert_eq!(home.checked(&index, "heron").await, ["b"]);
    // Half a record is none until it is whole.
    std::fs::write(&path, &log[..log.len() - 5]).unwrap();
    assert_eq!(home.ask(&index, &filter("heron heron heron")).await.unwrap().hits, []);
    let gone = home.headers.remove(1);
    home.store.delete(&gone.id).await.unwrap();
    home.ask(&index, &filter("heron")).await.unwrap();
    let conn = file::open(&home.index_file()).unwrap();
    let left: i64 = conn.query_row("SELECT count(*) FROM sessions", [], |row| row.get(0)).unwrap();
    let texts: i64 =
        conn.query_row("SELECT count(*) FROM docs WHERE text LIKE 'a heron%'", [], |row| row.get(0)).unwrap();
    assert_eq!((left, texts), (1, 0));
}

#[tokio::test]
async fn any_text_can_be_asked_for() {
    let mut home = Home::new();
    let index = home.index();
    home.say("a", vec![said("查找会话记录"), said("foo or bar NEAR/3"), said("Ünïcode İstanbul ΣΑΣ")]).await;
    home.say("b", vec![said("a BRAID of hair\0with parse_config(x)")]).await;
    let cases = [
        ("会话", vec!["a"]),
        ("话", vec!["a"]),
        ("foo\" OR (", vec!["a"]),
        ("near*", vec!["a"]),
        ("ünïcode", vec!["a"]),
        ("İSTANBUL", vec!["a"]),
        ("σας", vec!["a"]),
        ("AI", vec![]),
        ("braid of", vec!["b"]),
        ("parse config", vec!["b"]),
        ("NOT -body:x AND", vec![]),
    ];
    for (query, expected) in cases {
        assert_eq!(home.checked(&index, query).await, expected, "{query}");
    }
    let long = "word ".repeat(3000);
    home.say("c", vec![said(&long)]).await;
    assert_eq!(home.checked(&index, &long).await, ["c"]);
}

#[tokio::test]
async fn a_compaction_shadows_what_it_replaces_also_what_was_taken_in_before() {
    let mut home = Home::new();
    let index = home.index();
    let mut current = filter("heron");
    current.surfaces = Some(vec![Surface::Current]);
    home.say("a", vec![said("heron heron old"), said("heron kept")]).await;
    home.ask(&index, &current).await.unwrap();
    home.say("a", vec![compacted(Some("heron kept"), "the summary of a heron, long")]).await;
    let found = home.ask(&index, &current).await.unwrap();
    assert_eq!(found, home.scan(&current).await);
    assert_eq!(found.hits[0].1.snippet, "heron kept");
    home.say("a", vec![compacted(None, "second heron")]).await;
    let found = home.ask(&index, &current).await.unwrap();
    assert_eq!(found, home.scan(&current).await);
    assert_eq!(found.hits[0].1.snippet, "second heron");
}

#[tokio::test]
async fn a_damaged_or_foreign_file_is_set_aside_and_made_again() {
    let mut home = Home::new();
    home.say("a", vec![said("heron")]).await;
    let foreign = |path: &Path| {
        rusqlite::Connection::open(path).unwrap().execute_batch("CREATE TABLE mine(x)").unwrap();
    };
    let garbage = |path: &Path| std::fs::write(path, "no database ".repeat(1000)).unwrap();
    let broken = |path: &Path| {
        // The header stays whole; the pages behind it are not.
        let mut bytes = std::fs::read(path).unwrap();
        bytes[4096..].fill(0xa5);
        std::fs::write(path, bytes).unwrap();
    };
    let ways: [&dyn Fn(&Path); 3] = [&foreign, &garbage, &broken];
    for (idx, damage) in ways.iter().enumerate() {
        let path = home.index_file();
        if idx < 2 {
            let _ = std::fs::remove_file(&path);
        }
        damage(&path);
        assert_eq!(home.checked(&home.index(), "heron").await, ["a"], "way {idx}");
        assert!(path.with_extension("sqlite.damaged").exists(), "way {idx}");
    }
}

#[tokio::test]
async fn a_file_that_cannot_be_made_is_told() {
    let mut home = Home::new();
    home.say("a", vec![said("heron")]).await;
    let in_the_way = home.folder.path().join("file");
    std::fs::write(&in_the_way, "").unwrap();
    let index = SqliteIndex::new(&in_the_way, home.store.clone());
    assert!(matches!(home.ask(&index, &filter("heron")).await, Err(IndexError::Unavailable(_))));
}

#[tokio::test]
async fn a_session_that_cannot_be_read_is_counted_and_leaves_the_index() {
    let mut home = Home::new();
    let index = home.index();
    let path = home.say("a", vec![said("heron")]).await;
    home.say("b", vec![said("heron too")]).await;
    assert_eq!(home.checked(&index, "heron").await, ["a", "b"]);
    std::fs::write(&path, "{\"version\":999}\n").unwrap();
    let found = home.ask(&index, &filter("heron")).await.unwrap();
    assert_eq!((found.hits.len(), found.hits[0].0.as_str(), found.n_unreadable), (1, "b", 1));
}

#[tokio::test]
async fn a_deleted_session_leaves_no_text_behind() {
    let mut home = Home::new();
    home.index().forget(&SessionId::new("a")).await;
    assert!(!home.index_file().exists(), "an index is not made to forget in");
    home.say("a", vec![said("heron of secrets")]).await;
    home.say("b", vec![said("heron")]).await;
    let index = home.index();
    home.checked(&index, "heron").await;
    index.forget(&SessionId::new("a")).await;
    drop(index);
    for entry in std::fs::read_dir(home.folder.path()).unwrap() {
        let path = entry.unwrap().path();
        if path.is_file() {
            let bytes = std::fs::read(&path).unwrap();
            assert!(!bytes.windows(7).any(|part| part == b"secrets"), "{}", path.display());
        }
    }
}

#[tokio::test]
async fn a_stopped_search_ends_and_what_did_not_fit_waits_for_the_next() {
    let mut home = Home::new();
    home.say("a", vec![said("heron")]).await;
    let index = home.index().with_take_in_budget(Duration::ZERO);
    let found = home.ask(&index, &filter("heron")).await.unwrap();
    assert_eq!((found.hits.len(), found.n_waiting), (0, 1));
    let cancel = CancellationToken::new();
    cancel.cancel();
    let stopped = index.best(&filter("heron"), &home.headers, &[], 100, &cancel).await;
    assert_eq!(stopped, Err(IndexError::Cancelled));
}

#[tokio::test]
async fn two_programs_may_search_at_once() {
    let mut home = Home::new();
    for id in ["a", "b", "c"] {
        home.say(id, (0..200).map(|n| said(&format!("heron {n}"))).collect()).await;
    }
    let (one, other) = (home.index(), home.index());
    let heron = filter("heron");
    let (first, second) = tokio::join!(home.ask(&one, &heron), home.ask(&other, &heron));
    let (first, second) = (first.unwrap(), second.unwrap());
    // Each found what there was, or says that the other one was still at it.
    assert!(first.hits.len() + first.n_waiting >= 3 && second.hits.len() + second.n_waiting >= 3);
    assert_eq!(home.checked(&one, "heron").await.len(), 3);
    assert_eq!(home.checked(&other, "heron 199").await.len(), 3);
    let conn = file::open(&home.index_file()).unwrap();
    let n_docs: i64 = conn.query_row("SELECT count(*) FROM docs", [], |row| row.get(0)).unwrap();
    assert_eq!(n_docs, 600);
}

/// Says where the child of the next test finds its home.
const CHILD_HOME: &str = "INDEX_TEST_HOME";

#[tokio::test]
async fn killed_at_any_moment_the_index_goes_on_where_it_was() {
    if let Some(home) = std::env::var_os(CHILD_HOME) {
        let store = Arc::new(JsonlSessionStore::new(Path::new(&home).join("sessions")));
        let summaries = store.list().await.unwrap();
        let headers: Vec<_> = summaries.into_iter().map(|session| session.header).collect();
        let ids: Vec<_> = headers.iter().map(|header| header.id.clone()).collect();
        let index = SqliteIndex::new(Path::new(&home), store);
        let cancel = CancellationToken::new();
        let _ = index.best(&filter("heron"), &headers, &ids, 1, &cancel).await;
        return;
    }
    let mut home = Home::new();
    for id in 0..40 {
        home.say(&id.to_string(), (0..150).map(|n| said(&format!("heron {n} of {id}"))).collect()).await;
    }
    let test = "tests::killed_at_any_moment_the_index_goes_on_where_it_was";
    for round in 0..12_u64 {
        if round % 4 == 0 {
            let _ = std::fs::remove_file(home.index_file());
        }
        let mut child = Command::new(std::env::current_exe().unwrap())
            .args(["--exact", test])
            .env(CHILD_HOME, home.folder.path())
            .stdout(Stdio::null())
            .spawn()
            .unwrap();
        // A moment in the middle of the work, another one each round.
        std::thread::sleep(Duration::from_millis(15 + round * 23 % 130));
        child.kill().unwrap();
        child.wait().unwrap();
        let index = home.index();
        assert_eq!(home.checked(&index, "heron 149").await.len(), 40, "round {round}");
        home.say(&(round % 40).to_string(), vec![said("stork")]).await;
    }
    assert!(!home.index_file().with_extension("sqlite.damaged").exists());
}

fn words() -> impl Strategy<Value = String> {
    let word = prop::sample::select(vec![
        "alpha", "Beta", "BETA", "会话", "記", "x_y", "é", "İ", "ß", "STRASSE", "١٢", "a\u{301}", "\0", "\"",
        "…", "-",
    ]);
    prop::collection::vec(word, 0..8).prop_map(|words| words.join(" "))
}

fn event() -> impl Strategy<Value = SessionEvent> {
    prop_oneof![
        6 => words().prop_map(|text| said(&text)),
        1 => Just(SessionEvent::TurnStart { turn: 1 }),
        1 => (prop::option::of(words()), words())
            .prop_map(|(kept, text)| compacted(kept.as_deref(), &text)),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(40))]
    #[test]
    fn the_index_finds_what_reading_every_log_finds(
        logs in prop::collection::vec(prop::collection::vec(event(), 0..12), 1..5),
        more in prop::collection::vec(event(), 0..6),
        queries in prop::collection::vec(words(), 1..6),
        seq in 0_u64..6,
        surface in prop::option::of(prop::sample::select(vec![Surface::Current, Surface::Shadowed])),
    ) {
        let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
        runtime.block_on(async {
            let mut home = Home::new();
            let index = home.index();
            for (id, events) in logs.into_iter().enumerate() {
                home.say(&id.to_string(), events).await;
            }
            home.ask(&index, &filter("alpha")).await.unwrap();
            home.say("0", more).await;
            for phrase in queries.iter().filter_map(|query| Phrase::new(query)) {
                let surfaces = surface.map(|surface| vec![surface]);
                let filter = Filter { phrase, seqs: seq..=u64::MAX, surfaces, ..filter("x") };
                let found = home.ask(&index, &filter).await.unwrap();
                assert_eq!(found, home.scan(&filter).await, "{filter:?}");
            }
        });
    }
}
