//! A session's life as a client sees it: the real handlers over lines in memory, the embedded model, real files.

mod editor;

use super::view::tests::seen;
use agent_client_protocol::Error;
use editor::{Editor, Home};
use protocol::event::{LOG_VERSION, Record, SessionEvent, SessionHeader};
use protocol::id::{MessageId, SessionId};
use protocol::message::{MessageSource, UserMessage};
use provider_store::JsonlSessionStore;
use serde_json::{Value, json};
use services::session_store::SessionStore;
use std::path::Path;

/// Something of everything that is shown.
const PROMPTS: [&str; 6] = [
    "read a.txt",
    "/tool write {\"file_path\": \"new.txt\", \"content\": \"one\\ntwo\\n\"}",
    "/tool todo_write {\"todos\": [{\"content\": \"Look\", \"status\": \"in_progress\"}]}",
    "run echo out; exit 3",
    "/permission ask",
    "read missing.txt",
];

async fn talk(editor: &Editor, session: &str) {
    for prompt in PROMPTS {
        assert_eq!(editor.prompt(session, prompt).await, "end_turn", "{prompt}");
    }
}

fn kinds(updates: &[Value]) -> Vec<&str> {
    updates.iter().map(|update| update["sessionUpdate"].as_str().unwrap()).collect()
}

fn code<T: std::fmt::Debug>(answer: Result<T, Error>) -> (i32, Value) {
    let error = answer.unwrap_err();
    (error.code.into(), error.data.unwrap_or_default())
}

/// A stored session in which something was said at a time.
async fn store(home: &Home, id: &str, cwd: &Path, time: i64, depth: u32) {
    let header = SessionHeader {
        version: LOG_VERSION,
        id: SessionId::new(id),
        created_at: time,
        cwd: cwd.to_owned(),
        additional_directories: Vec::new(),
        parent_session: None,
        delegation_depth: depth,
    };
    let log = JsonlSessionStore::new(home.paths().sessions()).create(header).await.unwrap();
    let message = UserMessage { id: MessageId::new("m"), content: Vec::new(), source: MessageSource::User };
    let event = SessionEvent::UserMessage { message };
    log.append(&Record { seq: 0, time, ignorable: false, event }).unwrap();
}

async fn list(editor: &Editor, params: Value) -> (Vec<String>, Value) {
    let page = editor.request("session/list", params).await.unwrap();
    let ids =
        page["sessions"].as_array().unwrap().iter().map(|session| session["sessionId"].as_str().unwrap());
    (ids.map(str::to_owned).collect(), page["nextCursor"].clone())
}

// S01, S02, S03, S04, S05.
#[tokio::test(flavor = "multi_thread")]
async fn a_load_in_another_process_tells_what_was_seen_and_writes_nothing() {
    let home = Home::new();
    std::fs::write(home.workspace().join("a.txt"), "alpha\n").unwrap();
    let first = home.editor().await;
    let session = first.new_session().await;
    talk(&first, &session).await;
    let live = first.updates(&session);
    first.end().await;

    let log = home.log(&session);
    let second = home.editor().await;
    let answer = second.about("session/load", &session).await.unwrap();
    // Everything came before the answer, the commands too.
    let wire = second.wire();
    let answered = wire.iter().position(|line| line["result"] == answer).unwrap();
    assert_eq!(answered, wire.len() - 1);
    assert_eq!(answer["modes"]["currentModeId"], "ask");
    assert_eq!(answer["configOptions"][0]["currentValue"], "ask");
    let told = second.updates(&session);
    assert_eq!(kinds(&told).last(), Some(&"available_commands_update"));
    let said = told.iter().filter(|update| update["sessionUpdate"] == "user_message_chunk");
    let said: Vec<&str> = said.map(|update| update["content"]["text"].as_str().unwrap()).collect();
    assert_eq!(said, PROMPTS);
    assert_eq!(seen(live), seen(told.clone()));

    // Again, in the same process, from memory.
    second.clear();
    second.about("session/load", &session).await.unwrap();
    assert_eq!(second.updates(&session), told);
    assert_eq!(home.log(&session), log);

    assert_eq!(second.prompt(&session, "read a.txt").await, "end_turn");
    assert!(home.log(&session).starts_with(&log));
    second.end().await;
}

// S05: resume tells nothing of the past, and the conversation goes on.
#[tokio::test(flavor = "multi_thread")]
async fn a_resumed_session_tells_nothing_and_goes_on() {
    let home = Home::new();
    std::fs::write(home.workspace().join("a.txt"), "alpha\n").unwrap();
    let first = home.editor().await;
    let session = first.new_session().await;
    first.prompt(&session, PROMPTS[0]).await;
    first.prompt(&session, PROMPTS[2]).await;
    first.end().await;

    let second = home.editor().await;
    let answer = second.about("session/resume", &session).await.unwrap();
    assert_eq!(answer["modes"]["currentModeId"], "danger-full-access");
    second.told_commands(&session).await;
    let told = second.updates(&session);
    assert_eq!(kinds(&told), ["session_info_update", "plan", "available_commands_update"]);
    assert_eq!(second.prompt(&session, "read a.txt").await, "end_turn");
    // Turns are counted on.
    assert!(home.log(&session).contains(r#""type":"turn/start","data":{"turn":3}"#));
    second.end().await;
}

// S06.
#[tokio::test(flavor = "multi_thread")]
async fn a_session_nobody_knows_is_an_error_with_its_id() {
    let home = Home::new();
    let editor = home.editor().await;
    let known = editor.new_session().await;
    editor.clear();
    for method in ["session/load", "session/resume", "session/fork", "session/close", "session/status"] {
        let (code, data) = code(editor.about(method, "ses_none").await);
        assert_eq!((code, &data["sessionId"]), (-32002, &json!("ses_none")), "{method}");
    }
    let prompt = json!({ "sessionId": "ses_none", "prompt": [{ "type": "text", "text": "hi" }] });
    assert_eq!(code(editor.request("session/prompt", prompt).await).0, -32002);
    let title = json!({ "sessionId": "ses_none", "title": "t" });
    assert_eq!(code(editor.request("session/set_title", title).await).0, -32002);
    // What does not exist is deleted already. Source: ACP, session/delete.
    editor.about("session/delete", "ses_none").await.unwrap();
    assert!(editor.wire().iter().all(|line| line["method"] != "session/update"));
    assert_eq!(editor.prompt(&known, "help").await, "end_turn");
    editor.end().await;
}

// S07.
#[tokio::test(flavor = "multi_thread")]
async fn a_session_can_be_loaded_before_its_first_prompt_and_is_not_listed() {
    let home = Home::new();
    let first = home.editor().await;
    let session = first.new_session().await;
    first.end().await;
    let second = home.editor().await;
    second.about("session/load", &session).await.unwrap();
    assert_eq!(list(&second, json!({})).await, (Vec::new(), Value::Null));
    second.end().await;
}

// S10, S11.
#[tokio::test(flavor = "multi_thread")]
async fn the_list_is_filtered_ordered_and_paged() {
    let home = Home::new();
    let other = home.workspace().join("other");
    std::fs::create_dir(&other).unwrap();
    for n in 0..120_i64 {
        // Pairs of the same time: then by id.
        store(&home, &format!("ses_{n:03}"), &home.workspace(), 1_000_000 + n / 2, 0).await;
    }
    store(&home, "ses_other", &other, 5, 0).await;
    store(&home, "ses_child", &home.workspace(), 2_000_000, 1).await;
    let editor = home.editor().await;
    let mut expected: Vec<i64> = (0..120).collect();
    expected.sort_by_key(|n| (-(n / 2), *n));
    let mut expected: Vec<String> = expected.into_iter().map(|n| format!("ses_{n:03}")).collect();

    let mut found = Vec::new();
    let mut cursor = Value::Null;
    let mut sizes = Vec::new();
    loop {
        let (page, next) = list(&editor, json!({ "cursor": cursor, "cwd": home.workspace() })).await;
        sizes.push(page.len());
        found.extend(page);
        if next.is_null() {
            break;
        }
        cursor = next;
    }
    assert_eq!(found, expected);
    assert_eq!(sizes, [50, 50, 20]);
    expected.push("ses_other".to_owned());
    let (page, next) = list(&editor, json!({ "cwd": other })).await;
    assert_eq!((page, next), (vec!["ses_other".to_owned()], Value::Null));

    for cursor in ["", "MTIz", "not a cursor"] {
        let (code, data) = code(editor.request("session/list", json!({ "cursor": cursor })).await);
        assert_eq!((code, &data["field"]), (-32602, &json!("cursor")), "{cursor}");
    }
    let (code, data) = code(editor.request("session/list", json!({ "cwd": "relative" })).await);
    assert_eq!((code, &data["field"]), (-32602, &json!("cwd")));
    let nothing = home.workspace().join("nothing");
    let answer = editor.request("session/list", json!({ "cwd": nothing })).await.unwrap();
    assert_eq!(answer, json!({ "sessions": [] }));
    editor.end().await;
}

// S11.
#[tokio::test(flavor = "multi_thread")]
async fn a_listed_session_has_its_title_and_the_time_of_its_last_event() {
    let home = Home::new();
    let editor = home.editor().await;
    let session = editor.new_session().await;
    editor.prompt(&session, "help me with everything there is").await;
    let answer = editor.request("session/list", json!({})).await.unwrap();
    let info = &answer["sessions"][0];
    assert_eq!(info["title"], "help me with everything there");
    assert_eq!(info["cwd"], json!(home.workspace()));
    let updated: jiff::Timestamp = info["updatedAt"].as_str().unwrap().parse().unwrap();
    assert!(jiff::Timestamp::now().duration_since(updated).as_secs() < 60);
    editor.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_session_that_is_open_elsewhere_is_not_opened_and_can_be_once_it_is_free() {
    let home = Home::new();
    let first = home.editor().await;
    let second = home.editor().await;
    let session = first.new_session().await;
    for method in ["session/load", "session/resume", "session/delete"] {
        let (code, data) = code(second.about(method, &session).await);
        assert_eq!(code, -32603);
        assert!(data["details"].as_str().unwrap().contains("another Followspot process"), "{data}");
    }
    first.about("session/close", &session).await.unwrap();
    second.about("session/load", &session).await.unwrap();
    assert_eq!(second.prompt(&session, "help").await, "end_turn");
    second.end().await;
    first.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_closed_session_can_be_loaded_again_at_once() {
    let home = Home::new();
    let editor = home.editor().await;
    let session = editor.new_session().await;
    editor.prompt(&session, "help").await;
    for _ in 0..10 {
        // In one breath: the second waits for the first.
        let close = editor.send("session/close", editor.params(&session));
        let load = editor.send("session/load", editor.params(&session));
        let again = editor.send("session/load", editor.params(&session));
        close.await.unwrap();
        load.await.unwrap();
        again.await.unwrap();
    }
    assert_eq!(editor.prompt(&session, "help").await, "end_turn");
    editor.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_session_goes_on_in_its_own_folder_only() {
    let home = Home::new();
    let editor = home.editor().await;
    let session = editor.new_session().await;
    let other = home.workspace().join("other");
    std::fs::create_dir(&other).unwrap();
    let params = |cwd: &Path| json!({ "sessionId": session, "cwd": cwd, "mcpServers": [] });
    for cwd in [other.as_path(), Path::new("relative"), Path::new("/nothing/here")] {
        for is_open in [true, false] {
            let (code, data) = code(editor.request("session/load", params(cwd)).await);
            assert_eq!((code, &data["field"]), (-32602, &json!("cwd")), "{cwd:?} {is_open}");
            if is_open {
                editor.about("session/close", &session).await.unwrap();
            } else {
                editor.about("session/resume", &session).await.unwrap();
            }
        }
    }
    editor.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_deleted_session_is_gone_open_or_not() {
    let home = Home::new();
    let editor = home.editor().await;
    for is_open in [true, false] {
        let session = editor.new_session().await;
        editor.prompt(&session, "help").await;
        if !is_open {
            editor.about("session/close", &session).await.unwrap();
        }
        assert_eq!(list(&editor, json!({})).await.0, std::slice::from_ref(&session));
        editor.about("session/delete", &session).await.unwrap();
        assert_eq!(list(&editor, json!({})).await.0, Vec::<String>::new());
        assert_eq!(code(editor.about("session/load", &session).await).0, -32002);
    }
    editor.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_fork_begins_with_what_was_said_and_goes_its_own_way() {
    let home = Home::new();
    std::fs::write(home.workspace().join("a.txt"), "alpha\n").unwrap();
    let editor = home.editor().await;
    let parent = editor.new_session().await;
    talk(&editor, &parent).await;
    let live = editor.updates(&parent);
    let log = home.log(&parent);
    let answer = editor.about("session/fork", &parent).await.unwrap();
    let fork = answer["sessionId"].as_str().unwrap().to_owned();
    assert_ne!(fork, parent);
    assert_eq!(answer["modes"]["currentModeId"], "ask");
    editor.told_commands(&fork).await;
    assert!(!kinds(&editor.updates(&fork)).contains(&"tool_call"));
    assert_eq!(editor.prompt(&fork, "read missing.txt").await, "end_turn");
    assert_eq!(home.log(&parent), log);

    // Its cards are its own: they stay when the parent goes.
    editor.about("session/delete", &parent).await.unwrap();
    editor.about("session/close", &fork).await.unwrap();
    editor.clear();
    editor.about("session/load", &fork).await.unwrap();
    let told = seen(editor.updates(&fork)).conversation;
    let live = seen(live).conversation;
    assert_eq!(told[..live.len()], live);
    assert!(told.len() > live.len());
    assert!(home.log(&fork).lines().next().unwrap().contains(&parent));
    editor.end().await;
}

// The seed of a fork of a session that is not open comes from the disk.
#[tokio::test(flavor = "multi_thread")]
async fn a_stored_session_can_be_forked() {
    let home = Home::new();
    let first = home.editor().await;
    let parent = first.new_session().await;
    first.prompt(&parent, "help").await;
    first.end().await;
    let second = home.editor().await;
    let answer = second.about("session/fork", &parent).await.unwrap();
    let fork = answer["sessionId"].as_str().unwrap().to_owned();
    assert_eq!(list(&second, json!({})).await.0, [fork, parent]);
    second.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn the_users_title_stays() {
    let home = Home::new();
    let editor = home.editor().await;
    let session = editor.new_session().await;
    let set = |title: &str| editor.send("session/set_title", json!({ "sessionId": session, "title": title }));
    assert_eq!(set("  My\n title ").await.unwrap(), json!({ "title": "My title" }));
    editor.prompt(&session, "help me now").await;
    let listed =
        async || editor.request("session/list", json!({})).await.unwrap()["sessions"][0]["title"].clone();
    assert_eq!(listed().await, "My title");
    let told = editor.updates(&session);
    assert_eq!(told.iter().filter(|update| update["sessionUpdate"] == "session_info_update").count(), 1);
    for title in ["", " \n"] {
        let (code, data) = code(set(title).await);
        assert_eq!((code, &data["field"]), (-32602, &json!("title")));
    }
    editor.about("session/close", &session).await.unwrap();
    let long = set(&"é".repeat(100)).await.unwrap()["title"].as_str().unwrap().to_owned();
    assert!(long.len() <= 80 && long.ends_with("é…"), "{long}");
    assert_eq!(listed().await, json!(long));
    editor.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn the_status_says_whether_a_session_is_open() {
    let home = Home::new();
    let editor = home.editor().await;
    let session = editor.new_session().await;
    assert_eq!(editor.about("session/status", &session).await.unwrap(), json!({ "status": "open" }));
    editor.about("session/close", &session).await.unwrap();
    assert_eq!(editor.about("session/status", &session).await.unwrap(), json!({ "status": "saved" }));
    editor.end().await;
}

// S02: also when the configuration has changed meanwhile.
#[tokio::test(flavor = "multi_thread")]
async fn the_mode_of_a_session_survives_a_change_of_the_configuration() {
    let home = Home::new();
    home.configure("plan");
    let first = home.editor().await;
    let session = first.new_session().await;
    first.prompt(&session, "help").await;
    first.end().await;
    home.configure("danger-full-access");
    let second = home.editor().await;
    let answer = second.about("session/load", &session).await.unwrap();
    assert_eq!(answer["modes"]["currentModeId"], "plan");
    second.end().await;
}

// S09: a bad session fails alone.
#[tokio::test(flavor = "multi_thread")]
async fn a_session_that_cannot_be_read_fails_alone() {
    let home = Home::new();
    let first = home.editor().await;
    let (good, bad) = (first.new_session().await, first.new_session().await);
    first.prompt(&good, "help").await;
    first.prompt(&bad, "help").await;
    first.end().await;
    let store = JsonlSessionStore::new(home.paths().sessions());
    let path = store.open(&SessionId::new(&bad)).await.unwrap().log.path();
    let text = std::fs::read_to_string(&path).unwrap();
    std::fs::write(&path, text.replacen("\"version\":1", "\"version\":99", 1)).unwrap();

    let second = home.editor().await;
    let (code_bad, data) = code(second.about("session/load", &bad).await);
    assert_eq!(code_bad, -32603);
    assert!(data["details"].as_str().unwrap().contains("newer"), "{data}");
    assert_eq!(list(&second, json!({})).await.0, std::slice::from_ref(&good));
    second.about("session/load", &good).await.unwrap();

    // A record that cannot be read costs itself, and the user is told.
    std::fs::write(&path, text.replacen("{\"seq\":1,", "{\"seq\":", 1)).unwrap();
    second.about("session/load", &bad).await.unwrap();
    super::client_testing::until(|| {
        let told = second.updates(&bad);
        told.iter().any(|update| {
            update["content"]["text"].as_str().is_some_and(|text| text.contains("1 damaged record"))
        })
    })
    .await;
    second.end().await;
}
