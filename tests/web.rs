//! The web tools on the built program: pages and searches from servers on loopback, as the model reads and people see
//! them.

use crate::kit::*;
use serde_json::{Value, json};
use std::collections::HashMap;
use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::{TcpListener, TcpStream};
use std::sync::{Arc, Mutex};

/// A server on loopback with fixed answers; what it does not know is a 404 of text.
struct Site {
    port: u16,
    seen: Arc<Mutex<Vec<String>>>,
}

type Pages = HashMap<&'static str, Vec<u8>>;

impl Site {
    fn serving(pages: impl IntoIterator<Item = (&'static str, Vec<u8>)>) -> Self {
        let pages: Arc<Pages> = Arc::new(pages.into_iter().collect());
        let listener = TcpListener::bind(("127.0.0.1", 0)).unwrap();
        let port = listener.local_addr().unwrap().port();
        let seen: Arc<Mutex<Vec<String>>> = Arc::default();
        let log = seen.clone();
        std::thread::spawn(move || {
            for stream in listener.incoming().flatten() {
                let (pages, log) = (pages.clone(), log.clone());
                std::thread::spawn(move || answer(stream, &pages, &log));
            }
        });
        Self { port, seen }
    }

    fn url(&self, path: &str) -> String {
        format!("http://127.0.0.1:{}{path}", self.port)
    }

    /// Every request as it came: line, headers, body.
    fn seen(&self) -> Vec<String> {
        self.seen.lock().unwrap().clone()
    }
}

fn answer(mut stream: TcpStream, pages: &Pages, log: &Mutex<Vec<String>>) -> Option<()> {
    let mut reader = BufReader::new(stream.try_clone().ok()?);
    let (mut head, mut n_body) = (String::new(), 0);
    loop {
        let mut line = String::new();
        reader.read_line(&mut line).ok()?;
        if line.trim().is_empty() {
            break;
        }
        if let Some(length) = line.to_ascii_lowercase().strip_prefix("content-length:") {
            n_body = length.trim().parse().ok()?;
        }
        head.push_str(&line);
    }
    let mut body = vec![0; n_body];
    reader.read_exact(&mut body).ok()?;
    let path = head.split([' ', '?']).nth(1)?.to_owned();
    log.lock().unwrap().push(head + &String::from_utf8_lossy(&body));
    let missing = reply("404 Not Found", "Content-Type: text/plain", b"no such page");
    stream.write_all(pages.get(path.as_str()).unwrap_or(&missing)).ok()
}

fn reply(status: &str, header: &str, body: &[u8]) -> Vec<u8> {
    let n_body = body.len();
    let head =
        format!("HTTP/1.1 {status}\r\nConnection: close\r\nContent-Length: {n_body}\r\n{header}\r\n\r\n");
    [head.as_bytes(), body].concat()
}

fn page(kind: &str, body: impl AsRef<[u8]>) -> Vec<u8> {
    reply("200 OK", &format!("Content-Type: {kind}"), body.as_ref())
}

/// A body that ends with the connection.
fn unsized_page(body: &[u8]) -> Vec<u8> {
    let head = b"HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Type: text/plain\r\n\r\n";
    [head.as_slice(), body].concat()
}

fn redirect(target: &str) -> Vec<u8> {
    reply("302 Found", &format!("Location: {target}"), b"")
}

/// What became of each call: the result for the model and the last update of the card.
fn ends(run: &Stage) -> Vec<(String, Value)> {
    let updates = run.updates("tool_call_update");
    let ended =
        updates.into_iter().filter(|update| update["status"] == "completed" || update["status"] == "failed");
    run.results_for_model().into_iter().zip(ended).collect()
}

/// Fetches each address, one after the other, with this configuration.
fn fetch_all(config: &str, urls: &[String]) -> Vec<(String, Value)> {
    let mut arranged = scenario().config(config);
    for url in urls {
        arranged = arranged.model(calls("web_fetch", json!({ "url": url })));
    }
    let run = arranged.model(says("Done.")).prompt("fetch");
    ends(&run)
}

fn code(card: &Value) -> &str {
    if card["status"] == "completed" {
        "ok"
    } else {
        card["rawOutput"]["error"]["code"].as_str().unwrap_or("plain")
    }
}

const OPEN: &str = "[web]\nallow_private = [\"127.0.0.1\"]\n";

#[test]
fn a_page_is_read_as_markdown_and_shown_with_its_address() {
    let html = "<title>T</title><script>bad()</script><h1>Guide</h1><p>See <a href=\"/b\">b</a>.</p>\
                <pre><code class=\"language-rust\">fn a() {}</code></pre><ul><li>one</li></ul>";
    let site = Site::serving([("/", page("text/html; charset=utf-8", html))]);
    let all = fetch_all(OPEN, &[site.url("/")]);
    let (result, card) = &all[0];
    let url = site.url("/");
    assert!(result.starts_with(&format!("Fetched {url} (HTTP 200)\n\n")), "{result}");
    for expected in ["# Guide", "[b](/b)", "```rust\nfn a() {}\n```", "one"] {
        assert!(result.contains(expected), "{expected}: {result}");
    }
    assert!(!result.contains("bad()") && !result.contains("<h1>"), "{result}");
    let shown = card["content"][0]["content"]["text"].as_str().unwrap();
    assert!(shown.starts_with(&format!("[{url}]({url}) (HTTP 200)")), "{shown}");
    assert_eq!(card["rawOutput"], json!({ "url": url, "statusCode": 200, "truncated": false }));
    let request = site.seen()[0].to_lowercase();
    assert!(request.contains("user-agent: followspot/") && !request.contains("cookie"), "{request}");
}

#[test]
fn every_answer_of_a_server_has_its_outcome() {
    let site = Site::serving([
        ("/0", redirect("/1")),
        ("/1", redirect("/2")),
        ("/2", redirect("/3")),
        ("/3", redirect("/4")),
        ("/4", redirect("/5")),
        ("/5", redirect("/6")),
        ("/6", page("text/plain", "the end")),
        ("/away", redirect("http://127.0.0.1:1/")),
        ("/meta", redirect("http://169.254.169.254/latest")),
        ("/lan", redirect("http://localhost/")),
        ("/nowhere", reply("302 Found", "X: y", b"")),
        ("/latin", page("text/plain; charset=iso-8859-1", b"caf\xe9")),
        ("/klingon", page("text/plain; charset=klingon", "x")),
        ("/png", page("image/png", "x")),
        ("/json", page("application/ld+json", "{\"a\": 1}")),
        ("/cap", unsized_page(&[b'a'; 100_000])),
        ("/over", unsized_page(&[b'a'; 100_001])),
        ("/huge", reply("200 OK", "Content-Type: text/plain", &vec![b'a'; 5_000_001])),
        ("/deep", page("text/html", "<div>".repeat(3000) + "deep")),
    ]);
    let cases = [
        ("/1", "ok", "the end"),
        ("/0", "WEB_REDIRECT_BLOCKED", "5 redirects"),
        ("/away", "WEB_REDIRECT_BLOCKED", "another site"),
        ("/meta", "WEB_BLOCKED_URL", "169.254.169.254"),
        ("/lan", "WEB_REDIRECT_BLOCKED", "localhost"),
        ("/nowhere", "WEB_PROVIDER_ERROR", "302"),
        ("/latin", "ok", "café"),
        ("/klingon", "WEB_UNSUPPORTED_CONTENT_TYPE", "klingon"),
        ("/png", "WEB_UNSUPPORTED_CONTENT_TYPE", "image/png"),
        ("/json", "ok", "{\"a\": 1}"),
        ("/missing", "ok", "(HTTP 404)\n\nno such page"),
        ("/cap", "ok", "aaaa"),
        ("/over", "ok", "truncated"),
        ("/huge", "WEB_FETCH_TOO_LARGE", "5000001"),
        ("/deep", "ok", "deep"),
    ];
    let urls: Vec<String> = cases.iter().map(|(path, ..)| site.url(path)).collect();
    let all = fetch_all(OPEN, &urls);
    assert_eq!(all.len(), cases.len());
    for ((path, expected, fact), (result, card)) in cases.iter().zip(&all) {
        let start: String = result.chars().take(300).collect();
        assert_eq!(code(card), *expected, "{path}: {start}");
        if *path == "/over" {
            assert_eq!(card["rawOutput"]["truncated"], true);
        } else {
            assert!(result.contains(fact), "{path}: {start}");
        }
    }
    let cap = cases.iter().position(|(path, ..)| *path == "/cap").unwrap();
    assert_eq!(all[cap].1["rawOutput"]["truncated"], false);
}

#[test]
fn what_is_no_public_address_is_never_asked() {
    let site = Site::serving([("/", page("text/plain", "secret"))]);
    let port = site.port;
    let cases = [
        (" ".to_owned(), "plain"),
        ("example.org".to_owned(), "WEB_INVALID_URL"),
        ("ftp://example.org/".to_owned(), "WEB_INVALID_URL"),
        ("file:///etc/passwd".to_owned(), "WEB_INVALID_URL"),
        (format!("http://127.0.0.1:{port}/{}", "a".repeat(2048)), "WEB_INVALID_URL"),
        (format!("http://u:p@127.0.0.1:{port}/"), "WEB_BLOCKED_URL"),
        (format!("http://127.0.0.1:{port}/"), "WEB_BLOCKED_URL"),
        (format!("http://2130706433:{port}/"), "WEB_BLOCKED_URL"),
        (format!("http://[::ffff:127.0.0.1]:{port}/"), "WEB_BLOCKED_URL"),
        ("http://10.0.0.1/".to_owned(), "WEB_BLOCKED_URL"),
        // The name is no address; what it stands for is one of this machine.
        (format!("http://localhost:{port}/"), "WEB_BLOCKED_URL"),
    ];
    let urls: Vec<String> = cases.iter().map(|(url, _)| url.clone()).collect();
    for ((url, expected), (result, card)) in cases.iter().zip(fetch_all("", &urls)) {
        assert_eq!(code(&card), *expected, "{url}: {result}");
        if url.contains("127.0.0.1") && *expected == "WEB_BLOCKED_URL" && !url.contains('@') {
            assert!(result.contains("allow_private"), "{result}");
        }
    }
    assert_eq!(site.seen(), Vec::<String>::new());
    let named = fetch_all("[web]\nallow_private = [\"localhost\"]\n", &[format!("http://localhost:{port}/")]);
    assert_eq!(code(&named[0].1), "ok", "{}", named[0].0);
    let range = fetch_all("[web]\nallow_private = [\"127.0.0.0/8\"]\n", &[site.url("/")]);
    assert_eq!(code(&range[0].1), "ok", "{}", range[0].0);
}

/// A search over a configuration; the stage afterwards.
fn search(arranged: Scenario) -> Stage {
    arranged.model(calls("web_search", json!({ "query": "a & b" }))).model(says("Done.")).prompt("search")
}

fn search_config(provider: &str, url: &str) -> String {
    format!("[web.search]\nprovider = \"{provider}\"\nurl = \"{url}\"\n")
}

/// Nine rows, so that one is left out; the second has no title.
fn rows(title: &str, snippet: &str, date: &str) -> Value {
    let row = |n: usize| {
        let mut row = json!({ "url": format!("https://p{n}.example/x"), title: format!("Page {n}"), snippet: "About it" });
        if n == 1 {
            row[title] = Value::Null;
        }
        row[date] = "2026-01-02".into();
        row
    };
    (0..9).map(row).collect()
}

#[test]
fn each_kind_of_search_is_asked_its_way_and_shown_as_links() {
    let searxng = json!({ "results": rows("title", "content", "publishedDate"), "answers": ["42"] });
    let brave = json!({ "web": { "results": rows("title", "description", "page_age") } });
    let tavily = json!({ "results": rows("title", "content", "published_date"), "answer": "42" });
    let cases = [
        ("searxng", "/search", searxng, "get /search?q=a+%26+b&format=json "),
        ("brave", "/res/v1/web/search", brave, "x-subscription-token: sk-brave-1"),
        ("tavily", "/search", tavily, "authorization: bearer sk-tavily-1"),
    ];
    for (provider, path, answer, asked) in cases {
        let site = Site::serving([(path, page("application/json", answer.to_string()))]);
        let run = search(
            scenario()
                .config(&search_config(provider, &site.url("")))
                .env("BRAVE_API_KEY", "sk-brave-1")
                .env("TAVILY_API_KEY", "sk-tavily-1"),
        );
        let (result, card) = ends(&run).remove(0);
        assert_eq!(code(&card), "ok", "{provider}: {result}");
        for expected in [
            "- [Page 0](https://p0.example/x) — About it (2026-01-02)",
            "- [p1.example](https://p1.example/x) — About it (2026-01-02)",
            "8 sources",
            "Markdown links",
        ] {
            assert!(result.contains(expected), "{provider}: {expected}: {result}");
        }
        assert!(!result.contains("p8.example"), "{provider}: {result}");
        assert_eq!(result.starts_with("42\n\n"), provider != "brave", "{result}");
        let shown = card["content"][0]["content"]["text"].as_str().unwrap();
        assert!(shown.contains("- [Page 0](https://p0.example/x)"), "{provider}: {shown}");
        assert_eq!(card["rawOutput"], json!({ "sources": 8, "truncated": true }));
        let seen = site.seen();
        assert_eq!(seen.len(), 1);
        assert!(seen[0].to_lowercase().contains(asked), "{provider}: {}", seen[0]);
        let wire: String = run.lines().iter().map(|line| format!("{line:?}")).collect();
        assert!(!wire.contains("sk-brave-1") && !wire.contains("sk-tavily-1"), "{provider}");
    }
}

#[test]
fn a_key_is_found_where_the_user_put_it() {
    let answer = json!({ "web": { "results": rows("title", "description", "page_age") } }).to_string();
    let site = Site::serving([("/res/v1/web/search", page("application/json", answer))]);
    let config = search_config("brave", &site.url(""));
    let asked = |run: &Stage| {
        run.model().push(calls("web_search", json!({ "query": "q" })));
        run.model().push(says("Done."));
        run.prompt("search");
        let ended = ends(run).pop().unwrap();
        (code(&ended.1).to_owned(), ended.0)
    };
    let run = scenario().config(&config).start();
    let (no_key, text) = asked(&run);
    assert_eq!(no_key, "WEB_PROVIDER_CONFIGURED_UNAVAILABLE");
    assert!(text.contains("followspot login brave") && text.contains("BRAVE_API_KEY"), "{text}");
    run.run_with_input(&["login", "brave"], "sk-stored\n");
    assert_eq!(asked(&run).0, "ok");
    assert!(site.seen()[0].to_lowercase().contains("x-subscription-token: sk-stored"));
    let run =
        scenario().config(&(config + "api_key_env = \"MY_SEARCH\"\n")).env("MY_SEARCH", "sk-named").start();
    assert_eq!(asked(&run).0, "ok");
    assert!(site.seen()[1].to_lowercase().contains("x-subscription-token: sk-named"));
}

#[test]
fn a_search_that_cannot_be_made_says_what_is_missing() {
    let down = Site::serving([("/search", reply("403 Forbidden", "Content-Type: text/html", b"no"))]);
    let odd = Site::serving([("/search", page("text/html", "<html>"))]);
    let empty = Site::serving([("/search", page("application/json", "{\"results\": []}"))]);
    let cases = [
        (scenario(), "WEB_PROVIDER_UNAVAILABLE", "followspot login"),
        (
            scenario().env("BRAVE_API_KEY", "a").env("TAVILY_API_KEY", "b"),
            "WEB_PROVIDER_AMBIGUOUS",
            "[web.search]",
        ),
        (
            scenario().env("FOLLOWSPOT_WEB_SEARCH_PROVIDER", "altavista"),
            "WEB_PROVIDER_CONFIGURED_MISSING",
            "altavista",
        ),
        (scenario().config(&search_config("searxng", &down.url(""))), "WEB_PROVIDER_ERROR", "search.formats"),
        (scenario().config(&search_config("searxng", &odd.url(""))), "WEB_PROVIDER_ERROR", "cannot be read"),
        (scenario().config(&search_config("searxng", "http://127.0.0.1:1")), "WEB_PROVIDER_ERROR", "reached"),
        (scenario().config(&search_config("searxng", &empty.url(""))), "ok", "No results found."),
    ];
    for (arranged, expected, fact) in cases {
        let (result, card) = ends(&search(arranged)).remove(0);
        assert_eq!(code(&card), expected, "{result}");
        assert!(result.contains(fact), "{result}");
    }
    let run =
        scenario().model(calls("web_search", json!({ "query": " " }))).model(says("Done.")).prompt("search");
    assert_eq!(code(&ends(&run)[0].1), "plain");
}
