//! Which search is chosen, and what each wire format asks and answers, on a loopback server.

use super::{SearchKind, SearchSettings};
use crate::testing::{Site, environment, page, reply};
use crate::{HttpWeb, WebSettings};
use protocol::card::WebSource;
use services::web::{Web as _, WebError, WebFound, WebSearchRequest};

async fn search(web: &HttpWeb) -> Result<WebFound, WebError> {
    web.search(WebSearchRequest { query: "a & b".into(), max_sources: 9 }).await
}

fn configured(kind: SearchKind, url: Option<String>) -> WebSettings {
    let search = Some(SearchSettings { kind, url, api_key_env: Some("MY_KEY".into()) });
    WebSettings { search, ..WebSettings::default() }
}

fn with_key(settings: WebSettings) -> HttpWeb {
    HttpWeb::new(settings, environment(&[("MY_KEY", "sk-secret")]))
}

fn source(url: &str, title: &str, snippet: &str, published_at: Option<&str>) -> WebSource {
    WebSource {
        url: url.into(),
        title: Some(title.into()),
        snippet: Some(snippet.into()),
        published_at: published_at.map(str::to_owned),
    }
}

#[tokio::test]
async fn searxng_is_asked_for_json() {
    let answer = br#"{"results": [
        {"url": "https://a.org/", "title": "A", "content": " one\n two ", "publishedDate": "2026-01-02T00:00:00"},
        {"url": "https://a.org/", "title": "again"},
        {"url": "javascript:alert(1)", "title": "bad"}
    ], "answers": [{"template": "x"}, {"answer": "42"}]}"#;
    let site = Site::serving([("/s/search", page("application/json", answer))]);
    let found = search(&with_key(configured(SearchKind::Searxng, Some(site.url("/s"))))).await.unwrap();
    let sources = vec![source("https://a.org/", "A", "one two", Some("2026-01-02T00:00:00"))];
    assert_eq!(found, WebFound { answer: Some("42".into()), sources, truncated: false });
    let seen = &site.seen()[0];
    assert!(seen.starts_with("GET /s/search?q=a+%26+b&format=json "), "{seen}");
    assert!(seen.contains("Bearer sk-secret"), "{seen}");
}

#[tokio::test]
async fn brave_gets_its_key_in_a_header() {
    let answer = br#"{"query": {"more_results_available": true}, "web": {"results": [
        {"url": "https://a.org/", "title": "A &amp; B", "description": "<strong>x</strong> y", "page_age": "2026-01-02"}
    ]}}"#;
    let site = Site::serving([("/res/v1/web/search", page("application/json", answer))]);
    let found = search(&with_key(configured(SearchKind::Brave, Some(site.url(""))))).await.unwrap();
    let sources = vec![source("https://a.org/", "A & B", "x y", Some("2026-01-02"))];
    assert_eq!(found, WebFound { answer: None, sources, truncated: true });
    let seen = site.seen()[0].to_lowercase();
    assert!(seen.starts_with("get /res/v1/web/search?q=a+%26+b&count=9&"), "{seen}");
    assert!(seen.contains("x-subscription-token: sk-secret"), "{seen}");
}

#[tokio::test]
async fn tavily_is_posted_json() {
    let answer =
        br#"{"answer": "yes", "results": [{"url": "https://a.org/", "title": "A", "content": "x"}]}"#;
    let site = Site::serving([("/search", page("application/json", answer))]);
    let found = search(&with_key(configured(SearchKind::Tavily, Some(site.url("/"))))).await.unwrap();
    let sources = vec![source("https://a.org/", "A", "x", None)];
    assert_eq!(found, WebFound { answer: Some("yes".into()), sources, truncated: false });
    let seen = &site.seen()[0];
    assert!(seen.starts_with("POST /search ") && seen.contains("Bearer sk-secret"), "{seen}");
    assert!(seen.ends_with(r#"{"query":"a & b","max_results":9,"include_answer":true}"#), "{seen}");
}

#[tokio::test]
async fn what_the_endpoint_refuses_is_explained_without_the_key() {
    let json = [("Content-Type", "application/json")];
    let site = Site::serving([
        ("/401", reply("401 Unauthorized", &json, b"sk-secret")),
        ("/429", reply("429 Too Many Requests", &json, b"")),
        ("/302", reply("302 Found", &[("Location", "http://127.0.0.1:1/")], b"")),
        ("/junk", page("application/json", b"<html>")),
        ("/search", reply("403 Forbidden", &json, b"")),
    ]);
    let cases = [
        (SearchKind::Tavily, "/401", "its key, stored or in MY_KEY, is not accepted"),
        (SearchKind::Brave, "/429", "try again later"),
        (SearchKind::Brave, "/302", "not where it lives"),
        (SearchKind::Brave, "/junk", "cannot be read"),
        (SearchKind::Searxng, "", "search.formats"),
    ];
    for (kind, path, expected) in cases {
        let error = search(&with_key(configured(kind, Some(site.url(path))))).await.unwrap_err();
        assert_eq!(error.kind.code(), "WEB_PROVIDER_ERROR", "{path}");
        assert!(error.message.contains(expected) && !error.message.contains("sk-secret"), "{error}");
    }
}

#[test]
fn one_usable_search_is_taken_and_none_or_several_are_told() {
    const BRAVE: &[(&str, &str)] = &[("BRAVE_API_KEY", "k")];
    const BOTH: &[(&str, &str)] = &[("BRAVE_API_KEY", "k"), ("TAVILY_API_KEY", "k")];
    let none = WebSettings::default;
    let named = |name: &str| WebSettings { search_provider: Some(name.into()), ..none() };
    let cases = [
        (none(), &[][..], "WEB_PROVIDER_UNAVAILABLE"),
        (none(), BRAVE, "https://api.search.brave.com/res/v1/web/search"),
        (none(), BOTH, "WEB_PROVIDER_AMBIGUOUS"),
        (named("tavily"), BOTH, "https://api.tavily.com/search"),
        (named("tavily"), BRAVE, "WEB_PROVIDER_CONFIGURED_UNAVAILABLE"),
        (named("searxng"), BOTH, "WEB_PROVIDER_CONFIGURED_UNAVAILABLE"),
        (named("altavista"), BOTH, "WEB_PROVIDER_CONFIGURED_MISSING"),
        (configured(SearchKind::Brave, None), BOTH, "WEB_PROVIDER_CONFIGURED_UNAVAILABLE"),
        (
            configured(SearchKind::Searxng, Some("http://localhost:8888".into())),
            &[],
            "http://localhost:8888/search",
        ),
    ];
    for (settings, variables, expected) in cases {
        let chosen = super::choose(&settings, &*environment(variables))
            .map_or_else(|error| error.kind.code().to_owned(), |endpoint| endpoint.url.to_string());
        assert_eq!(chosen, expected, "{settings:?} {variables:?}");
    }
}
