//! Workflows of many agents, and rounds on one objective: on the built program, with the real engine.
//!
//! A prompt of a child is put together by the script (`'CHI' + 'LD'`), so that no request of the parent holds it.

use crate::kit::*;
use provider_llm::scripted::Reply;
use serde_json::{Value, json};
use std::time::{Duration, Instant};

fn workflow(script: &str) -> Reply {
    let meta = json!({ "name": "Sweep", "description": "Looks everywhere." });
    calls("workflow", json!({ "script": script, "meta": meta, "args": { "places": ["a", "b"] } }))
}

fn child(reply: Reply) -> Reply {
    reply.only_for("CHILD").repeated()
}

/// What the model reads of a script whose agents say `found`, those asked for an object give one.
fn results(scripts: &[&str]) -> Vec<String> {
    let object = calls("structured_output", json!({ "n": 7 }));
    let mut play = scenario().model(child(says("found"))).model(object.only_for("OBJECT").repeated());
    for script in scripts {
        play = play.model(workflow(script)).model(says("Next."));
    }
    let stage = play.start();
    for _ in scripts {
        assert_eq!(stage.prompt("please"), "end_turn");
    }
    let results = stage.results_for_model();
    assert_eq!(results.len(), scripts.len());
    results
}

/// The texts of the content of the last update that satisfies this.
fn shown(stage: &Stage, holds: impl Fn(&str) -> bool) -> bool {
    stage.updates("tool_call_update").iter().any(|update| holds(&update["content"].to_string()))
}

#[test]
fn agents_phases_logs_arguments_and_combinators_make_a_result() {
    let script = "phase('Scan');
        log('starting');
        const schema = { type: 'object', properties: { n: { type: 'integer' } }, required: ['n'] };
        const text = await agent('CHI' + 'LD one', { label: 'First', model: undefined });
        const object = await agent('OBJ' + 'ECT', { schema, phase: 'Count' });
        const list = await pipeline(args.places, (place, item, index) => agent(`${'CHI' + 'LD'} ${place}`), (said, item, index) => [said, item, index]);
        const both = await parallel([() => agent('CHI' + 'LD three'), () => { throw new Error('mine') }, async () => 'own']);
        const none = await agent('CHI' + 'LD four', { schema });
        return { text, object, list, both, none };";
    let stage = scenario()
        .model(child(says("found")))
        .model(calls("structured_output", json!({ "n": 7 })).only_for("OBJECT").repeated())
        .model(workflow(script))
        .model(says("Done."))
        .prompt("please");
    let results = stage.results_for_model();
    let (header, value) = results[0].split_once("\n\n").unwrap();
    assert_eq!(header, "Workflow Sweep: 6 agents");
    let expected = json!({
        "text": "found",
        "object": { "n": 7 },
        "list": [["found", "a", 0], ["found", "b", 1]],
        "both": ["found", null, "own"],
        "none": null
    });
    assert_eq!(serde_json::from_str::<Value>(value).unwrap(), expected);
    let calls = stage.updates("tool_call");
    assert_eq!((calls.len(), &calls[0]["title"]), (1, &json!("Workflow Sweep")));
    assert_eq!(calls[0]["rawInput"]["script"], script);
    assert!(shown(&stage, |text| text.contains("**Count**: 1 done") && text.contains("> starting")));
}

#[test]
fn what_a_script_returns_is_plain_json_or_named() {
    let cases = [
        ("const a = 1;", "null"),
        ("return [-0, 'x', null]", "[\n  0,\n  \"x\",\n  null\n]"),
        ("return Object.defineProperty({}, 'hidden', { value: () => 1 })", "{}"),
        ("const a = {}; return { b: a, c: a }", "{\n  \"b\": {},\n  \"c\": {}\n}"),
        ("return JSON.parse('{\"__proto__\": 1}')", "{\n  \"__proto__\": 1\n}"),
        ("return Object.assign(Object.create(null), { a: 1 })", "{\n  \"a\": 1\n}"),
    ];
    let refused = [
        ("return { when: new Date(0) }", "the result.when is an instance of Date"),
        ("return [1, , 2]", "the result is an array with gaps or named entries"),
        ("return { a: [undefined] }", "the result.a[0] is undefined"),
        ("return { a: undefined }", "the result.a is undefined"),
        ("return 1n", "the result is a bigint"),
        ("return [NaN]", "the result[0] is NaN"),
        ("const a = []; a.push(a); return a", "the result[0] is a reference to something it is in"),
        ("return { [Symbol.iterator]: 1 }", "the result is an object with a symbol for a key"),
    ];
    let scripts: Vec<&str> = cases.iter().chain(&refused).map(|(script, _)| *script).collect();
    let results = results(&scripts);
    for ((script, expected), result) in cases.iter().zip(&results) {
        assert_eq!(result, &format!("Workflow Sweep: 0 agents\n\n{expected}"), "{script}");
    }
    for ((script, message), result) in refused.iter().zip(&results[cases.len()..]) {
        let expected = format!("WorkflowError: RESULT_UNSERIALIZABLE: {message}, which is no JSON");
        assert!(result.starts_with("Error: ") && result.contains(&expected), "{script}: {result}");
    }
}

#[test]
fn misuse_ends_the_script_through_the_combinators_and_a_look_alike_does_not() {
    let cases = [
        ("return await parallel([() => agent('')])", "INVALID_ARGUMENT"),
        ("return await pipeline([1], () => agent('x', { effort: 'high' }))", "UNSUPPORTED_OPTION"),
        ("return await agent('x', { schema: { type: 'array' } })", "UNSUPPORTED_SCHEMA"),
        ("return await agent('x', { label: new Date(0) })", "INVALID_ARGUMENT"),
        ("return await agent('x', 'label')", "INVALID_ARGUMENT"),
        ("return await pipeline(Array(4097).fill(1), (n) => n)", "ITEM_CAP"),
        ("return await parallel(Array(4097).fill(() => 1))", "ITEM_CAP"),
        ("return await parallel([agent])", "INVALID_ARGUMENT"),
        ("return await pipeline([1])", "INVALID_ARGUMENT"),
        ("return await parallel([1])", "INVALID_ARGUMENT"),
        ("phase(' ')", "INVALID_ARGUMENT"),
        ("log(1)", "INVALID_ARGUMENT"),
        ("export const meta = {}", "the script must not begin with"),
        ("return (", "the script is no JavaScript: SyntaxError"),
        ("throw new Error('boom')", "the workflow failed: Error: boom"),
        ("require('fs')", "require is not defined"),
    ];
    let fine = [
        "return await pipeline([1], () => { throw { fatal: true } })",
        "return await parallel([() => { throw new WorkflowError('ITEM_CAP: mine') }])",
        "try { await agent('') } catch (error) { return [error.name === 'WorkflowError' ? null : error.name] }",
    ];
    let scripts: Vec<&str> = cases.iter().map(|(script, _)| *script).chain(fine).collect();
    let results = results(&scripts);
    for ((script, expected), result) in cases.iter().zip(&results) {
        assert!(result.starts_with("Error: ") && result.contains(expected), "{script}: {result}");
    }
    for result in &results[cases.len()..] {
        assert_eq!(result, "Workflow Sweep: 0 agents\n\n[\n  null\n]");
    }
}

#[test]
fn a_script_that_never_yields_ends_by_itself() {
    let results = results(&["while (true) {}"]);
    assert!(results[0].contains("(timeout)"), "{results:?}");
}

#[test]
fn agents_nobody_waits_for_are_stopped_when_the_script_ends() {
    let gate = Gate::new();
    let stage = scenario()
        .model(says("Thinking ").hold(&gate).only_for("CHILD"))
        .model(workflow("agent('CHI' + 'LD'); await null; return 'over'"))
        .model(says("Done."))
        .prompt("please");
    assert!(stage.results_for_model()[0].ends_with("\n\n\"over\""));
    let records = stored(&stage);
    let ends: Vec<&Value> =
        records.iter().filter(|record| record["type"] == "tool-workflow/agent-end").collect();
    assert!(ends.iter().all(|end| end["data"]["outcome"] == "cancelled"), "{ends:?}");
    assert_eq!(records.iter().filter(|record| record["type"] == "tool-workflow/run-end").count(), 1);
}

/// The log of the session.
fn stored(stage: &Stage) -> Vec<Value> {
    fn find(folder: &std::path::Path, name: &str) -> Option<String> {
        std::fs::read_dir(folder).ok()?.flatten().find_map(|entry| {
            let path = entry.path();
            if path.is_dir() {
                return find(&path, name);
            }
            let is_it =
                path.to_string_lossy().contains(name) && path.extension().is_some_and(|end| end == "jsonl");
            if is_it { std::fs::read_to_string(path).ok() } else { None }
        })
    }
    let text = find(&stage.home(), stage.session()).expect("a log");
    text.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}

#[test]
fn two_hundred_agents_all_answer_through_a_pool_of_eight() {
    let script = "const all = await parallel(Array.from({ length: 200 }, (_, n) => () => agent(`${'CHI' + 'LD'} ${n}`)));
        return [all.length, all.filter((said) => said === 'found').length]";
    let stage = scenario().model(child(says("found"))).model(workflow(script)).model(says("Done.")).start();
    let pending = stage.send("please");
    stage.wait_until("the agents", || pending.is_answered());
    assert_eq!(stage.end(pending), "end_turn");
    let results = stage.results_for_model();
    assert_eq!(results[0], "Workflow Sweep: 200 agents\n\n[\n  200,\n  200\n]");
    let (mut running, mut most, mut n_ends) = (0, 0, 0);
    for record in stored(&stage) {
        match record["type"].as_str() {
            Some("tool-workflow/agent-start") => running += 1,
            Some("tool-workflow/agent-end") => {
                assert_eq!(record["data"]["outcome"], "completed");
                running -= 1;
                n_ends += 1;
            }
            _ => {}
        }
        most = most.max(running);
    }
    assert_eq!((most, running, n_ends), (8, 0, 200));
}

#[test]
fn a_stop_ends_the_script_and_all_its_agents() {
    let gate = Gate::new();
    let script = "await parallel(Array.from({ length: 200 }, (_, n) => () => agent(`${'CHI' + 'LD'} ${n}`)))";
    let stage = scenario()
        .model(says("Thinking ").hold(&gate).only_for("CHILD").repeated())
        .model(workflow(script))
        .start();
    let pending = stage.send("please");
    assert!(gate.wait_until_reached(DEADLINE));
    stage.wait_for_update("tool_call_update", |update| update["content"].to_string().contains("8 running"));
    let stopped = Instant::now();
    stage.cancel();
    assert_eq!(stage.end(pending), "cancelled");
    assert!(stopped.elapsed() < Duration::from_secs(10), "{:?}", stopped.elapsed());
    let records = stored(&stage);
    let ends = records.iter().filter(|record| record["type"] == "tool-workflow/agent-end");
    assert_eq!(ends.filter(|end| end["data"]["outcome"] == "cancelled").count(), 8);
    let end = records.iter().find(|record| record["type"] == "tool-workflow/run-end").unwrap();
    assert_eq!(end["data"]["stopReason"], "cancelled");
    gate.release();
    stage.model().push(says("Still here.").only_for("are you there?"));
    assert_eq!(stage.prompt("are you there?"), "end_turn");
}

#[test]
fn a_stop_ends_a_script_that_waits_for_nothing_that_comes() {
    let stage = scenario().model(workflow("log('parked'); await new Promise(() => {})")).start();
    let pending = stage.send("please");
    stage.wait_for_update("tool_call_update", |update| update["content"].to_string().contains("> parked"));
    stage.cancel();
    assert_eq!(stage.end(pending), "cancelled");
}

#[test]
fn ralph_goes_round_until_its_objective_is_reached() {
    let report = |status: &str, summary: &str, evidence: &[&str], next: &[&str]| {
        let report = json!({ "status": status, "summary": summary, "evidence": evidence, "nextSteps": next, "blocker": "" });
        calls("structured_output", report)
    };
    let stage = scenario()
        .model(calls("ralph", json!({ "objective": "Port it.", "maxRounds": 3 })).only_for("please"))
        .model(says("Done.").only_for("please"))
        .model(
            report("continue", "Did the first part.", &[], &["The second part."])
                .only_for("round, 1 of at most 3"),
        )
        .model(report("complete", "Did the rest.", &["tests pass"], &[]).only_for("round, 2 of at most 3"))
        .prompt("please go round");
    let results = stage.results_for_model();
    assert!(
        results[0].starts_with("The objective is complete, as its last agent reports, after 2 rounds."),
        "{results:?}"
    );
    let requests = stage.model().requests();
    let second =
        requests.iter().find(|request| request.to_string().contains("round, 2 of at most 3")).unwrap();
    assert!(
        second.to_string().contains("Did the first part.") && !second.to_string().contains("round, 1 of")
    );
    assert!(!second["tools"].to_string().contains("\"ralph\""), "a round cannot start rounds");
    assert_eq!(stage.updates("tool_call")[0]["title"], "Ralph: Port it.");
    assert!(shown(&stage, |text| text.contains("✓ Ralph round 1") && text.contains("> Did the first part.")));
}

#[test]
fn a_stop_ends_ralph_and_its_round() {
    let gate = Gate::new();
    let stage = scenario()
        .model(calls("ralph", json!({ "objective": "Port it." })).only_for("please"))
        .model(says("Thinking ").hold(&gate).only_for("round, 1 of at most 64"))
        .start();
    let pending = stage.send("please go round");
    assert!(gate.wait_until_reached(DEADLINE));
    stage.cancel();
    assert_eq!(stage.end(pending), "cancelled");
    stage.assert_no_process_left();
}
