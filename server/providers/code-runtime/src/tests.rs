//! Programs against the real engine, with a host that answers as a test says.

use super::*;
use futures::future::BoxFuture;
use serde_json::{Value, json};
use services::code_runtime::{CodeBinding, CodeErrorClass, CodeHost, CodeLimits};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

/// Answers `echo` with its argument and `fail` with an error; never answers `never`.
#[derive(Default)]
struct Host {
    calls: Mutex<Vec<(String, Value)>>,
}

impl CodeHost for Host {
    fn call(&self, function: &str, argument: Value) -> BoxFuture<'static, Result<Value, String>> {
        self.calls.lock().unwrap().push((function.to_owned(), argument.clone()));
        match function {
            "fail" => Box::pin(async { Err("it is not there".to_owned()) }),
            "never" => Box::pin(std::future::pending()),
            "slow" => Box::pin(async move {
                tokio::time::sleep(Duration::from_millis(300)).await;
                Ok(argument)
            }),
            _ => Box::pin(async move { Ok(argument) }),
        }
    }
}

fn binding(host: &Arc<Host>) -> CodeBinding {
    CodeBinding {
        global: "tools".to_owned(),
        functions: ["echo", "fail", "never", "slow", "__proto__", "a-b"].map(str::to_owned).to_vec(),
        error_class: CodeErrorClass { name: "ToolCallError".to_owned(), member: "toolName".to_owned() },
        host: host.clone(),
    }
}

fn request(program: &str, host: &Arc<Host>) -> CodeRequest {
    CodeRequest {
        program: program.to_owned(),
        prelude: None,
        bindings: vec![binding(host)],
        limits: CodeLimits::default(),
        cancel: CancellationToken::new(),
    }
}

async fn run(program: &str) -> CodeOutcome {
    QuickJsRuntime.run(request(program, &Arc::default())).await.unwrap()
}

async fn run_limited(program: &str, change: impl FnOnce(&mut CodeLimits)) -> CodeOutcome {
    let mut request = request(program, &Arc::default());
    change(&mut request.limits);
    QuickJsRuntime.run(request).await.unwrap()
}

fn error(outcome: &CodeOutcome) -> (CodeErrorKind, &str) {
    let error = outcome.error.as_ref().unwrap_or_else(|| panic!("no error: {outcome:?}"));
    (error.kind, &error.message)
}

#[tokio::test]
async fn a_program_returns_json_or_nothing() {
    let cases = [
        ("return 1 + 1", Some(json!(2))),
        ("const a: { b?: string[] } = { b: ['c'] }; return a as unknown", Some(json!({"b": ["c"]}))),
        ("return null", Some(json!(null))),
        (
            "return { a: undefined, b: [1.5, true, 'é😀\\u2028'] }",
            Some(json!({"b": [1.5, true, "é😀\u{2028}"]})),
        ),
        ("return Object.assign(Object.create(null), { z: 1, a: 2 })", Some(json!({"z": 1, "a": 2}))),
        ("return", None),
        ("const a = 1; // the end", None),
        ("await null; return await Promise.resolve('late')", Some(json!("late"))),
        ("const shared = {}; return [shared, shared]", Some(json!([{}, {}]))),
    ];
    for (program, value) in cases {
        let expected = CodeOutcome { value, ..CodeOutcome::default() };
        assert_eq!(run(program).await, expected, "{program}");
    }
}

#[tokio::test]
async fn what_is_no_json_is_an_invalid_output() {
    let cases = [
        ("return () => 1", "the value is a function"),
        ("return { a: [1, Symbol('b')] }", "the value.a[1] is a symbol"),
        ("return [undefined]", "the value[0] is undefined"),
        ("return 10n", "the value is a bigint"),
        ("return -0", "the value is -0"),
        ("return [NaN]", "the value[0] is NaN"),
        ("return new Map()", "the value is an instance of Map"),
        ("return new Date(0)", "the value is an instance of Date"),
        ("const a: any = {}; a.a = a; return a", "the value.a is a reference to something it is in"),
        ("return '\\ud800'", "the value is a string with half a character"),
        ("return { [Symbol.iterator]: 1 }", "the value is an object with a symbol for a key"),
    ];
    for (program, message) in cases {
        let outcome = run(program).await;
        assert_eq!(
            error(&outcome),
            (CodeErrorKind::InvalidOutput, format!("{message}, which is no JSON").as_str())
        );
    }
}

#[tokio::test]
async fn an_exception_names_its_lines() {
    let cases = [
        ("throw new Error('boom')", "Error: boom\n    at program.ts:1"),
        (
            "type A = {\n  b: number;\n};\nfunction f(a: A): never {\n  throw new RangeError(`no ${a.b}`);\n}\nf({ b: 1 });",
            "RangeError: no 1\n    at f (program.ts:5)\n    at program.ts:7",
        ),
        (
            "await 1;\nconst a: any = null;\na.b",
            "TypeError: cannot read property 'b' of null\n    at program.ts:3",
        ),
        ("throw 'a text'", "a text"),
        ("throw { a: 1 }", "{ a: 1 }"),
        ("undefinedName", "ReferenceError: undefinedName is not defined\n    at program.ts:1"),
        ("await tools.fail({});", "ToolCallError: it is not there\n    at program.ts:1"),
        ("enum A { B }", "SyntaxError: TypeScript enum is not supported in strip-only mode (program.ts:1:1)"),
    ];
    for (program, message) in cases {
        let outcome = run(program).await;
        assert_eq!(error(&outcome), (CodeErrorKind::Exception, message), "{program}");
    }
}

#[tokio::test]
async fn nothing_of_the_world_is_there_and_runs_share_nothing() {
    let program =
        "return ['process', 'require', 'fetch', 'setTimeout', 'Deno', 'std', 'os', 'call', 'print', 'global']
        .filter((name) => name in globalThis)";
    assert_eq!(run(program).await.value, Some(json!([])));
    assert_eq!(
        run("(globalThis as any).left = 1; return (Array.prototype as any).left = 1").await.error,
        None
    );
    let program = "return [typeof (globalThis as any).left, typeof ([] as any).left]";
    assert_eq!(run(program).await.value, Some(json!(["undefined", "undefined"])));
    for program in ["import fs from 'fs'", "await import('fs')"] {
        assert_eq!(error(&run(program).await).0, CodeErrorKind::Exception, "{program}");
    }
    let program = "return [typeof this, Object.isFrozen(tools), Object.isFrozen(console)]";
    assert_eq!(run(program).await.value, Some(json!(["undefined", true, true])));
    for program in ["tools.echo = 1", "console = 1", "(globalThis as any).tools = 1", "undeclared = 1"] {
        assert_eq!(error(&run(program).await).0, CodeErrorKind::Exception, "{program}");
    }
}

#[tokio::test]
async fn the_console_shows_what_it_is_given_in_order() {
    let program = r#"
        console.log("a", 1, { b: [1, "c"], "d-e": null }, undefined, -0, 10n);
        console.error(new TypeError("bad"), new Date(0), /x/g, new Map([["k", { v: 1 }]]), new Set([1]));
        console.debug(() => 1, class A {}, Symbol("s"), Promise.resolve(), [new (class B { x = 1 })]);
        const loop: any = { deep: { a: { b: { c: { d: { e: 1 } } } } } }; loop.loop = loop;
        console.info(loop);
        console.warn(Array.from({ length: 102 }, () => 0).length, new Uint8Array(2), Array(101).fill("x").at(-1));
        console.log();
        return console.log(["y".repeat(10002)]);"#;
    let outcome = run(program).await;
    let expected = [
        r#"a 1 { b: [ 1, "c" ], "d-e": null } undefined -0 10n"#.to_owned(),
        r#"TypeError: bad 1970-01-01T00:00:00.000Z /x/g Map(1) { "k" => { v: 1 } } Set(1) { 1 }"#.to_owned(),
        "[Function: anonymous] [Function: A] Symbol(s) Promise {} [ B { x: 1 } ]".to_owned(),
        "{ deep: { a: { b: { c: { d: [Object] } } } }, loop: [Circular] }".to_owned(),
        "102 Uint8Array(2) [ 0, 0 ] x".to_owned(),
        String::new(),
        format!("[\n  \"{}\"… 2 more characters\n]", "y".repeat(10_000)),
    ];
    assert_eq!(outcome.logs, expected);
    let outcome = run("console.log(Array.from({ length: 103 }, (_, i) => i))").await;
    assert!(outcome.logs[0].ends_with("  99,\n  … 3 more\n]"), "{}", outcome.logs[0]);
}

#[tokio::test]
async fn bound_functions_take_and_give_json() {
    let host = Arc::new(Host::default());
    let program = "const a = await tools.echo({ x: 1, y: undefined });
        const b = await tools['a-b']();
        const c = await tools['__proto__']('text');
        return [a, b, c, Object.keys(tools), (tools as any).run_code, 'toString' in tools]
            .map((value) => value === undefined ? 'undefined' : value)";
    let outcome = QuickJsRuntime.run(request(program, &host)).await.unwrap();
    let names = json!(["echo", "fail", "never", "slow", "__proto__", "a-b"]);
    assert_eq!(outcome.value, Some(json!([{"x": 1}, {}, "text", names, "undefined", false])), "{outcome:?}");
    let calls = host.calls.lock().unwrap().clone();
    let call = |name: &str, argument: Value| (name.to_owned(), argument);
    assert_eq!(
        calls,
        [call("echo", json!({"x": 1})), call("a-b", json!({})), call("__proto__", json!("text"))]
    );
}

#[tokio::test]
async fn an_argument_that_is_no_json_rejects_and_reaches_nobody() {
    let host = Arc::new(Host::default());
    let program = "const said = [];
        for (const bad of [undefined, () => 1, { a: NaN }, { a: new Map() }, '\\ud800']) {
            try { await tools.echo(bad as any) } catch (e) { said.push([e.name, e.toolName, e instanceof ToolCallError]) }
        }
        try { await (tools.echo as any)({}, {}) } catch (e) { said.push(e.message) }
        let deep: any = {}; for (let i = 0; i < 300; i++) deep = { deep };
        try { await tools.echo(deep) } catch (e) { said.push(e.message.slice(0, 35)) }
        return said";
    let outcome = QuickJsRuntime.run(request(program, &host)).await.unwrap();
    let mut expected = vec![json!(["ToolCallError", "echo", true]); 5];
    expected.push(json!("a tool takes one object of arguments"));
    expected.push(json!("the argument cannot be taken over: "));
    assert_eq!(outcome.value, Some(Value::from(expected)), "{outcome:?}");
    assert_eq!(*host.calls.lock().unwrap(), []);
}

#[tokio::test]
async fn arguments_that_wait_are_bounded() {
    let host = Arc::new(Host::default());
    let program = "const large = 'x'.repeat(30 << 20);
        for (let n = 0; n < 3; n++) { const sent = tools.never({ n, large }); if (n === 2) await sent; }";
    let outcome = QuickJsRuntime.run(request(program, &host)).await.unwrap();
    assert!(error(&outcome).1.contains("await some of them first"), "{:?}", outcome.error);
    assert_eq!(host.calls.lock().unwrap().len(), 2);
}

#[tokio::test]
async fn a_failed_call_can_be_caught_with_its_name() {
    let program =
        "try { await tools.fail({}); } catch (e) { return [e.name, e.toolName, e.message, `${e}`] }";
    let expected = json!(["ToolCallError", "fail", "it is not there", "ToolCallError: it is not there"]);
    assert_eq!(run(program).await.value, Some(expected));
}

#[tokio::test]
async fn calls_overlap_and_waiting_is_not_computing() {
    let started = Instant::now();
    let program = "await Promise.all([1, 2, 3].map((n) => tools.slow({ n })));";
    let outcome = run_limited(program, |limits| limits.busy = Duration::from_millis(200)).await;
    assert_eq!(outcome, CodeOutcome::default());
    assert!(started.elapsed() < Duration::from_millis(850), "{:?}", started.elapsed());
}

#[tokio::test]
async fn endless_programs_are_stopped_and_keep_their_logs() {
    let programs = [
        "console.log('a'); while (true) {}",
        "console.log('a'); try { while (true) {} } catch { while (true) {} } finally { while (true) {} }",
        "console.log('a'); const f = () => Promise.resolve().then(f); await f()",
        "console.log('a'); while (true) await null",
        "console.log('a'); await tools.echo({}); for (;;) { await tools.echo({}) }",
        "console.log('a'); /(a+)+$/.test('a'.repeat(60) + 'b'); while (true) {}",
        "console.log('a'); return { get b() { while (true) {} } }",
        "console.log('a'); throw { get name() { while (true) {} }, __proto__: Error.prototype }",
        "console.log('a'); [3, 2, 1].sort(() => { while (true) {} })",
    ];
    for program in programs {
        let started = Instant::now();
        let outcome = run_limited(program, |limits| limits.busy = Duration::from_millis(100)).await;
        assert_eq!(
            error(&outcome),
            (CodeErrorKind::Timeout, "the program computed for more than 0.1 s"),
            "{program}"
        );
        assert_eq!(outcome.logs, ["a"], "{program}");
        assert!(started.elapsed() < Duration::from_secs(5), "{program}: {:?}", started.elapsed());
    }
}

#[tokio::test]
async fn a_promise_that_never_settles_ends_with_the_wall_time() {
    for program in ["await new Promise(() => {})", "await tools.never({})"] {
        let outcome = run_limited(program, |limits| limits.wall = Duration::from_millis(80)).await;
        assert_eq!(error(&outcome), (CodeErrorKind::Timeout, "the program did not end within 0.08 s"));
    }
}

#[tokio::test]
async fn memory_is_bounded() {
    let programs = [
        "const all = []; while (true) all.push(new ArrayBuffer(1 << 24))",
        "return 'x'.repeat(2 ** 29).repeat(4)",
        "return new Uint8Array(2 * 1024 ** 3)",
        "let a = 'xxxxxxxx'; while (true) a += a",
        "const all: any[] = []; try { while (true) all.push({ a: [all.length] }) } finally { all.length = 0 }",
    ];
    for program in programs {
        let outcome = run_limited(program, |limits| limits.memory_bytes = 64 << 20).await;
        let (kind, message) = error(&outcome);
        let is_refused = kind == CodeErrorKind::WorkerExit
            && message == "the program needs more than 64 MiB of memory"
            || kind == CodeErrorKind::Exception
                && (message.contains("RangeError")
                    || message.contains("too long")
                    || message.starts_with("null was thrown"));
        assert!(is_refused, "{program}: {kind}: {message}");
    }
    assert_eq!(
        run("try { new Uint8Array(2 * 1024 ** 3) } catch { return 'caught' }").await.value,
        Some(json!("caught"))
    );
}

#[tokio::test]
async fn deep_recursion_and_deep_programs_are_errors_not_crashes() {
    let outcome = run("const f = (): number => 1 + f(); return f()").await;
    assert_eq!(error(&outcome).0, CodeErrorKind::Exception);
    // Just below the limit, then far above it.
    for n in [9_900, 120_000] {
        let programs = [
            format!("return {}1{}", "(".repeat(n), ")".repeat(n)),
            format!("return {}{}", "[".repeat(n), "]".repeat(n)),
            format!("return {}1", "!".repeat(n)),
            format!("return {}1", "typeof ".repeat(n / 2)),
            format!("return {}1", "-".repeat(n)),
            format!("return 1{}", "+1".repeat(n)),
            format!("return a{}", ".a".repeat(n)),
            format!("return a{}", "()".repeat(n)),
            format!("return {}1", "1?1:".repeat(n / 4)),
            format!("return {}1", "a=>".repeat(n / 3)),
            format!("type A = {}1{}", "A<".repeat(n / 2), ">".repeat(n / 2)),
            "if(1)".repeat(n / 3),
            "{".repeat(n),
            "`${".repeat(n),
            "a(".repeat(n),
        ];
        for program in programs {
            // Which of them are too deep for the engine is its business; each has an end.
            run(&program).await;
        }
    }
    let outcome = run(&" ".repeat(MAX_PROGRAM_BYTES + 1)).await;
    assert_eq!(error(&outcome).0, CodeErrorKind::Exception);
}

#[tokio::test]
async fn too_much_output_keeps_the_logs_that_fit() {
    let limit = |limits: &mut CodeLimits| limits.output_bytes = 2000;
    let outcome = run_limited("for (;;) console.log('x'.repeat(500))", limit).await;
    assert_eq!(error(&outcome).0, CodeErrorKind::OutputLimit);
    assert_eq!(outcome.logs, vec!["x".repeat(500); 3]);
    let outcome = run_limited("console.log('a'); return 'x'.repeat(3000)", limit).await;
    assert_eq!(
        (error(&outcome).0, outcome.logs.as_slice()),
        (CodeErrorKind::OutputLimit, ["a".to_owned()].as_slice())
    );
    let outcome = run_limited("throw new Error('x'.repeat(3000))", limit).await;
    assert_eq!(error(&outcome).0, CodeErrorKind::OutputLimit);
    assert_eq!(run_limited("return 'x'.repeat(1900)", limit).await.error, None);
}

#[tokio::test]
async fn a_cancelled_program_stops_wherever_it_is() {
    for program in ["console.log('a'); while (true) {}", "console.log('a'); await tools.never({})"] {
        let request = request(program, &Arc::default());
        let cancel = request.cancel.clone();
        let stop = async {
            tokio::time::sleep(Duration::from_millis(60)).await;
            cancel.cancel();
            Instant::now()
        };
        let (outcome, cancelled) = tokio::join!(QuickJsRuntime.run(request), stop);
        let outcome = outcome.unwrap();
        assert_eq!(error(&outcome), (CodeErrorKind::Abort, "the program was cancelled"));
        assert_eq!(outcome.logs, ["a"]);
        assert!(cancelled.elapsed() < Duration::from_secs(2));
    }
}

#[tokio::test]
async fn a_run_that_is_dropped_stops_its_program() {
    let host = Arc::new(Host::default());
    let run = QuickJsRuntime.run(request("for (;;) { tools.echo({}); }", &host));
    assert!(tokio::time::timeout(Duration::from_millis(100), run).await.is_err());
    let stopped = async {
        // The host is let go with the engine.
        while Arc::strong_count(&host) > 1 {
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    };
    tokio::time::timeout(Duration::from_secs(10), stopped).await.unwrap();
}

#[tokio::test]
async fn bindings_that_cannot_be_made_are_refused() {
    for (global, class, member) in [
        ("class", "E", "m"),
        ("console", "E", "m"),
        ("1a", "E", "m"),
        ("a-b", "E", "m"),
        ("lambda", "E", "m"),
        ("tools", "tools", "m"),
        ("tools", "E", "stack"),
        ("tools", "E", "__m__"),
    ] {
        let mut request = request("return 1", &Arc::default());
        request.bindings[0].global = global.to_owned();
        request.bindings[0].error_class =
            CodeErrorClass { name: class.to_owned(), member: member.to_owned() };
        assert!(QuickJsRuntime.run(request).await.is_err(), "{global} {class} {member}");
    }
    let mut twice = request("return 1", &Arc::default());
    twice.bindings[0].functions.push("echo".to_owned());
    assert!(QuickJsRuntime.run(twice).await.is_err());
}

#[tokio::test(flavor = "current_thread")]
async fn a_program_that_computes_leaves_the_workers_alone() {
    let program = "const end = Date.now() + 200; while (Date.now() < end) {} return 1";
    let ticks = async {
        let mut ticks = 0;
        for _ in 0..10 {
            tokio::time::sleep(Duration::from_millis(10)).await;
            ticks += 1;
        }
        ticks
    };
    let host = Arc::default();
    let mut run = std::pin::pin!(QuickJsRuntime.run(request(program, &host)));
    let ticked = tokio::select! {
        _ = &mut run => false,
        ticks = ticks => ticks == 10,
    };
    assert!(ticked);
    assert_eq!(run.await.unwrap().value, Some(json!(1)));
}
