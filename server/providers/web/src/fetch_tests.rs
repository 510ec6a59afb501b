//! Fetching from a loopback server: what is refused, followed, cut and decoded.

use crate::testing::{Site, Turning, limits, page, redirect, reply, unsized_page, web};
use crate::{HttpWeb, Limits};
use flate2::Compression;
use flate2::write::GzEncoder;
use services::web::{FetchRequest, FetchedPage, PageBody, Web as _, WebError};
use std::io::Write as _;
use std::time::Duration;

fn open() -> HttpWeb {
    web(&["127.0.0.1"], Turning::new(&[&["127.0.0.1"]]))
}

async fn fetch(web: &HttpWeb, url: &str) -> Result<FetchedPage, WebError> {
    web.fetch(FetchRequest { url: url.to_owned() }).await
}

async fn code(web: &HttpWeb, url: &str) -> &'static str {
    fetch(web, url).await.map_or_else(|error| error.kind.code(), |_| "ok")
}

fn source(page: &FetchedPage) -> &str {
    match &page.body {
        PageBody::Html { source, .. } => source,
        PageBody::Text(text) => text,
    }
}

#[tokio::test]
async fn addresses_that_are_none_or_private_are_never_asked() {
    let site = Site::serving([("/", page("text/plain", b"secret"))]);
    let port = site.port;
    let closed = web(&[], Turning::new(&[&["127.0.0.1"]]));
    let long = format!("http://example.org/{}", "a".repeat(2048));
    let cases = [
        ("ftp://example.org/".to_owned(), "WEB_INVALID_URL"),
        ("file:///etc/passwd".to_owned(), "WEB_INVALID_URL"),
        ("example.org".to_owned(), "WEB_INVALID_URL"),
        ("http://".to_owned(), "WEB_INVALID_URL"),
        (long, "WEB_INVALID_URL"),
        ("http://u:p@example.org/".to_owned(), "WEB_BLOCKED_URL"),
        ("http://u@example.org/".to_owned(), "WEB_BLOCKED_URL"),
        (format!("http://127.0.0.1:{port}/"), "WEB_BLOCKED_URL"),
        (format!("http://2130706433:{port}/"), "WEB_BLOCKED_URL"),
        (format!("http://0x7f.1:{port}/"), "WEB_BLOCKED_URL"),
        (format!("http://[::1]:{port}/"), "WEB_BLOCKED_URL"),
        (format!("http://[::ffff:127.0.0.1]:{port}/"), "WEB_BLOCKED_URL"),
        (format!("http://0.0.0.0:{port}/"), "WEB_BLOCKED_URL"),
        ("http://169.254.169.254/latest/meta-data/".to_owned(), "WEB_BLOCKED_URL"),
        (format!("http://localhost:{port}/"), "WEB_BLOCKED_URL"),
        (format!("http://rebound.example:{port}/"), "WEB_BLOCKED_URL"),
    ];
    for (url, expected) in cases {
        assert_eq!(code(&closed, &url).await, expected, "{url}");
    }
    assert_eq!(site.seen(), Vec::<String>::new());
}

#[tokio::test]
async fn a_name_that_turns_private_is_not_followed_there() {
    let site = Site::serving([("/", page("text/plain", b"hello"))]);
    let url = format!("http://site.example:{}/", site.port);
    // The test's "public" address is a second loopback one; nothing listens there on this port.
    let turning = web(&["127.0.0.2"], Turning::new(&[&["127.0.0.2"], &["127.0.0.1"]]));
    assert_eq!(code(&turning, &url).await, "WEB_PROVIDER_ERROR");
    assert_eq!(code(&turning, &url).await, "WEB_BLOCKED_URL");
    // Of several addresses only the permitted ones are tried.
    let mixed = web(&["127.0.0.1"], Turning::new(&[&["10.0.0.1", "127.0.0.1"]]));
    assert_eq!(code(&mixed, &url).await, "ok");
    let named = web(&["site.example"], Turning::new(&[&["127.0.0.1"]]));
    assert_eq!(code(&named, &url).await, "ok");
    assert_eq!(site.seen().len(), 2);
}

#[tokio::test]
async fn redirects_within_the_site_are_followed_five_times() {
    let site = Site::serving([
        ("/1", redirect("/2")),
        ("/2", redirect("3")),
        ("/3", redirect("/4")),
        ("/4", redirect("/5")),
        ("/5", redirect("/6")),
        ("/6", page("text/plain", b"end")),
        ("/0", redirect("/1")),
        ("/away", redirect("https://example.org/x")),
        ("/port", redirect("http://127.0.0.1:1/")),
        ("/meta", redirect("http://169.254.169.254/")),
        ("/loop6", redirect("http://[::1]/")),
        ("/keys", redirect("http://u:p@127.0.0.1/")),
        ("/file", redirect("file:///etc/passwd")),
        ("/nowhere", reply("302 Found", &[], b"")),
        ("/choices", reply("300 Multiple Choices", &[("Content-Type", "text/plain")], b"a")),
    ]);
    let page = fetch(&open(), &site.url("/1")).await.unwrap();
    assert_eq!((page.url.clone(), source(&page)), (site.url("/6"), "end"));
    let cases = [
        ("/0", "WEB_REDIRECT_BLOCKED"),
        ("/away", "WEB_REDIRECT_BLOCKED"),
        ("/port", "WEB_REDIRECT_BLOCKED"),
        ("/meta", "WEB_BLOCKED_URL"),
        ("/loop6", "WEB_BLOCKED_URL"),
        ("/keys", "WEB_BLOCKED_URL"),
        ("/file", "WEB_INVALID_URL"),
        ("/nowhere", "WEB_PROVIDER_ERROR"),
        ("/choices", "ok"),
    ];
    for (path, expected) in cases {
        assert_eq!(code(&open(), &site.url(path)).await, expected, "{path}");
    }
    let away = fetch(&open(), &site.url("/away")).await.unwrap_err();
    assert!(away.message.contains("https://example.org/x"), "{away}");
}

#[tokio::test]
async fn only_text_is_a_page() {
    let kinds = [
        ("/html", "text/html; charset=utf-8", "html"),
        ("/xhtml", "Application/XHTML+xml", "html"),
        ("/css", "text/css", "text"),
        ("/json", "application/json", "text"),
        ("/ld", "application/ld+json", "text"),
        ("/xml", "application/xml", "text"),
        ("/svg", "image/svg+xml", "text"),
        ("/png", "image/png", "WEB_UNSUPPORTED_CONTENT_TYPE"),
        ("/bin", "application/octet-stream", "WEB_UNSUPPORTED_CONTENT_TYPE"),
        ("/klingon", "text/plain; charset=klingon", "WEB_UNSUPPORTED_CONTENT_TYPE"),
    ];
    let mut pages: Vec<(&str, Vec<u8>)> =
        kinds.iter().map(|(path, kind, _)| (*path, page(kind, b"<p>a</p>"))).collect();
    pages.push(("/none", reply("200 OK", &[], b"a")));
    pages.push((
        "/deflated",
        reply("200 OK", &[("Content-Type", "text/plain"), ("Content-Encoding", "deflate")], b"a"),
    ));
    let site = Site::serving(pages);
    for (path, kind, expected) in kinds {
        let kind_of = match fetch(&open(), &site.url(path)).await {
            Ok(FetchedPage { body: PageBody::Html { markdown, .. }, .. }) => {
                assert_eq!(markdown.as_deref(), Some("a"));
                "html"
            }
            Ok(_) => "text",
            Err(error) => error.kind.code(),
        };
        assert_eq!(kind_of, expected, "{kind}");
    }
    for path in ["/none", "/deflated"] {
        assert_eq!(code(&open(), &site.url(path)).await, "WEB_UNSUPPORTED_CONTENT_TYPE", "{path}");
    }
    let missing = fetch(&open(), &site.url("/missing")).await.unwrap();
    assert_eq!((missing.status_code, source(&missing)), (404, "gone"));
}

#[tokio::test]
async fn bodies_end_at_their_caps() {
    let site = Site::serving([
        ("/20", page("text/plain", &[b'a'; 20])),
        ("/21", page("text/plain", &[b'a'; 21])),
        ("/open20", unsized_page("text/plain", &[b'a'; 20])),
        ("/open21", unsized_page("text/plain", &[b'a'; 21])),
        ("/chars", page("text/plain", "ä".repeat(10).as_bytes())),
    ]);
    let capped = |max_bytes, max_chars| open().with_limits(limits(max_bytes, max_chars));
    assert_eq!(code(&capped(20, 100), &site.url("/21")).await, "WEB_FETCH_TOO_LARGE");
    let cases = [
        ("/20", 20, 100, 20, false),
        ("/open20", 20, 100, 20, false),
        ("/open21", 20, 100, 20, true),
        ("/21", 30, 10, 10, true),
        ("/chars", 30, 10, 10, false),
        ("/chars", 30, 9, 9, true),
    ];
    for (path, max_bytes, max_chars, n_chars, truncated) in cases {
        let page = fetch(&capped(max_bytes, max_chars), &site.url(path)).await.unwrap();
        assert_eq!((source(&page).chars().count(), page.truncated), (n_chars, truncated), "{path}");
    }
}

#[tokio::test]
async fn compressed_bodies_are_opened_within_the_cap() {
    let gzip = |text: &[u8]| {
        let mut encoder = GzEncoder::new(Vec::new(), Compression::best());
        encoder.write_all(text).unwrap();
        let headers = [("Content-Type", "text/plain"), ("Content-Encoding", "gzip")];
        reply("200 OK", &headers, &encoder.finish().unwrap())
    };
    let mut broken = gzip(b"hello hello hello");
    let n_head = broken.windows(4).position(|window| window == b"\r\n\r\n").unwrap() + 4;
    broken[n_head + 11..].fill(0xff);
    let site = Site::serving([
        ("/small", gzip(b"hello")),
        ("/bomb", gzip(&vec![b'a'; 50_000_000])),
        ("/broken", broken),
    ]);
    let small = fetch(&open(), &site.url("/small")).await.unwrap();
    assert_eq!((source(&small), small.truncated), ("hello", false));
    let bomb = fetch(&open(), &site.url("/bomb")).await.unwrap();
    assert_eq!((source(&bomb).len(), bomb.truncated), (100_000, true));
    assert_eq!(code(&open(), &site.url("/broken")).await, "WEB_PROVIDER_ERROR");
}

#[tokio::test]
async fn encodings_are_decoded() {
    let site = Site::serving([
        ("/latin", page("text/plain; charset=ISO-8859-1", b"caf\xe9")),
        ("/meta", page("text/html", b"<meta charset=windows-1251><p>\xcf</p>")),
    ]);
    assert_eq!(source(&fetch(&open(), &site.url("/latin")).await.unwrap()), "café");
    let meta = fetch(&open(), &site.url("/meta")).await.unwrap();
    let PageBody::Html { markdown, .. } = meta.body else { panic!("no HTML") };
    assert_eq!(markdown.as_deref(), Some("П"));
}

#[tokio::test]
async fn a_server_that_fails_is_told_apart_from_a_slow_one() {
    let mut cut = page("text/plain", b"beginning");
    cut.truncate(cut.len() - 3);
    let site = Site::serving([("/cut", cut), ("/silent", Vec::new()), ("/junk", b"junk\r\n\r\n".to_vec())]);
    let short = open().with_limits(Limits { timeout: Duration::from_millis(200), ..Limits::default() });
    assert_eq!(code(&short, &site.url("/silent")).await, "WEB_FETCH_TIMEOUT");
    for path in ["/cut", "/junk"] {
        assert_eq!(code(&open(), &site.url(path)).await, "WEB_PROVIDER_ERROR", "{path}");
    }
    assert_eq!(code(&open(), "http://127.0.0.1:1/").await, "WEB_PROVIDER_ERROR");
}

#[tokio::test]
async fn the_server_learns_who_asks_and_gets_no_cookie_back() {
    let headers = [("Content-Type", "text/plain"), ("Set-Cookie", "a=b")];
    let site = Site::serving([("/", reply("200 OK", &headers, b"a"))]);
    let web = open();
    for _ in 0..2 {
        fetch(&web, &site.url("/")).await.unwrap();
    }
    let second = site.seen()[1].to_lowercase();
    assert!(second.contains("user-agent: followspot/") && second.contains("accept: text/html"), "{second}");
    assert!(!second.contains("cookie"), "{second}");
}

#[tokio::test]
async fn only_a_known_way_to_fetch_is_taken() {
    let mut web = open();
    web.settings.fetch_provider = Some("carrier".into());
    assert_eq!(code(&web, "http://127.0.0.1:1/").await, "WEB_PROVIDER_CONFIGURED_MISSING");
    web.settings.fetch_provider = Some("http".into());
    assert_eq!(code(&web, "http://127.0.0.1:1/").await, "WEB_PROVIDER_ERROR");
}
