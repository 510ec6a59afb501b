//! `kill -9` at random moments of a long turn: what was seen is there again, what ran is closed, and both formats take the
//! history (S08, S12).

use crate::kit::*;
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::time::Duration;

/// Kills in all, over stages that run side by side.
const N_KILLS: u64 = 200;
const N_STAGES: u64 = 4;
/// The long turn takes about as long.
const LONGEST_MICROS: u64 = 350_000;

/// A small generator, so that each run kills at the same moments.
struct Moments(u64);

impl Moments {
    fn next(&mut self) -> Duration {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        Duration::from_micros((self.0 >> 33) % LONGEST_MICROS)
    }
}

/// Each call that was shown, with the last status that was told of it.
fn calls_seen(stage: &Stage) -> BTreeMap<String, String> {
    let mut seen = BTreeMap::new();
    for line in stage.lines() {
        let Some(update) = line.update() else { continue };
        let (Some(id), Some(status)) = (update["toolCallId"].as_str(), update["status"].as_str()) else {
            continue;
        };
        seen.insert(id.to_owned(), status.to_owned());
    }
    seen
}

fn prompts_told(stage: &Stage) -> Vec<Value> {
    stage.updates("user_message_chunk").iter().map(|chunk| chunk["content"]["text"].clone()).collect()
}

fn long_turn() -> Scenario {
    let pause = Duration::from_millis(15);
    let bash = json!({ "command": "echo out; sleep 0.05; echo more", "description": "Run" });
    let todos = json!({ "todos": [{ "content": "Look", "status": "in_progress" }] });
    scenario()
        .client(ClientKind::bare())
        .file("a.txt", "alpha\nbeta\n")
        .point_provider_at_model("anthropic")
        .env("ANTHROPIC_API_KEY", crate::kit::conformance::KEY)
        .model(says("First answer."))
        .model(thinks("Hm.").pause(pause).says("Looking.").calls("read", json!({ "file_path": "a.txt" })))
        .model(
            says("Two at once.")
                .pause(pause)
                .calls("grep", json!({ "pattern": "alpha" }))
                .calls("read", json!({ "file_path": "missing" })),
        )
        .model(calls("edit", json!({ "file_path": "a.txt", "old_string": "beta", "new_string": "gamma" })))
        .model(says("Running.").pause(pause).calls("bash", bash))
        .model(calls("todo_write", todos))
        .model(says("Second ").pause(pause).says("answer."))
        .model(says("Going on.").repeated())
}

fn kill_once(after: Duration) {
    let mut stage = long_turn().start();
    assert_eq!(stage.prompt("first prompt"), "end_turn");
    let _pending = stage.send("second prompt");
    std::thread::sleep(after);
    stage.kill();
    let before = calls_seen(&stage);
    let was_asked = stage.model().requests().len() > 1;
    let n_results = stage.results_for_model().len();
    let was_answered = stage.said().contains("Second answer.");

    stage.restart();
    stage.about_session("session/load").unwrap();
    let told = calls_seen(&stage);
    // A card ends with the body of its call, and the result is logged right after it, in the order of the calls. A kill in
    // between loses that result, and the call is told as failed; one that the model was told of stays as it was.
    let has_ended = |status: &str| status == "completed" || status == "failed";
    let (mut n_kept, mut n_lost) = (0, 0);
    for (call, status) in before.iter().filter(|(_, status)| has_ended(status)) {
        match told.get(call).map(String::as_str) {
            Some(now) if now == status => n_kept += 1,
            Some("failed") => n_lost += 1,
            now => panic!("{after:?}: {call} was {status} and is {now:?}: {told:?}"),
        }
    }
    let gone = before.keys().find(|call| !told.contains_key(*call));
    assert_eq!(gone, None, "{after:?}: {told:?}");
    assert!(n_kept >= n_results && n_lost <= 2, "{after:?}: {n_kept} of {n_results} kept, {n_lost} lost");
    assert!(told.values().all(|status| status == "completed" || status == "failed"), "{after:?}: {told:?}");
    let prompts = prompts_told(&stage);
    assert_eq!(prompts[0], "first prompt", "{after:?}");
    assert!(!was_asked || prompts.len() == 2, "{after:?}: {prompts:?}");
    let said = stage.said();
    assert!(said.starts_with("First answer."), "{after:?}: {said}");
    assert!(!was_answered || said.contains("Second "), "{after:?}: {said}");

    for model in ["openai/scripted", "anthropic/claude-sonnet-4-5"] {
        let params = json!({ "sessionId": stage.session(), "configId": "model", "value": model });
        stage.request("session/set_config_option", params).unwrap();
        assert_eq!(stage.prompt("go on"), "end_turn", "{after:?}");
        let request = stage.model().requests().pop().unwrap();
        assert_eq!(history_faults(&request), Vec::<String>::new(), "{after:?}: {request:#}");
    }
}

#[test]
fn two_hundred_kills_lose_nothing_that_was_seen_and_leave_nothing_open() {
    let stages = (0..N_STAGES).map(|stage| {
        std::thread::spawn(move || {
            let mut moments = Moments(0x5EED + stage);
            for _ in 0..N_KILLS / N_STAGES {
                kill_once(moments.next());
            }
        })
    });
    let stages: Vec<_> = stages.collect();
    for stage in stages {
        if let Err(failure) = stage.join() {
            std::panic::resume_unwind(failure);
        }
    }
}
