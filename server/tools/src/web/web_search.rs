//! `web_search`: pages for a query, with the answer the provider gives, if any.
//!
//! Reaches the web through its service. Source: `spec/tools-files-shell.md` §15; `spec/presentation.md` §6, §7.

use super::{TIMEOUT, unless_cancelled, web};
use crate::arguments::not_blank;
use async_trait::async_trait;
use pipeline::context::ToolContext;
use pipeline::tool::{Effect, PromptSection};
use pipeline::typed::TypedTool;
use protocol::card::{
    CallCard, GenericCall, ResultCard, ToolCallKind, WebResult, WebSearch as SearchCard, WebSource,
};
use protocol::content::ContentBlock;
use protocol::tool::{DurableResult, ToolFailure};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use services::web::WebSearchRequest;
use std::time::Duration;

/// Most sources the model reads.
const MAX_SOURCES: usize = 8;
const REMINDER: &str = "In your reply, cite the pages you used as Markdown links.";

/// Arguments of `web_search`.
#[derive(Debug, Deserialize, JsonSchema)]
pub struct SearchArgs {
    /// What to search for.
    query: String,
}

/// Pages that were found.
#[derive(Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct SearchOutput {
    /// A direct answer; absent when the provider gave none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    content: Option<String>,
    /// Best first.
    sources: Vec<Source>,
    /// Whether more were found.
    truncated: bool,
}

/// One page.
#[derive(Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
pub struct Source {
    /// Address.
    url: String,
    /// Title; absent when it has none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    title: Option<String>,
    /// Excerpt; absent when there is none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    snippet: Option<String>,
    /// When it was published, as the provider wrote it; absent when unknown.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    published_at: Option<String>,
}

/// The tool.
pub struct WebSearch;

#[async_trait]
impl TypedTool for WebSearch {
    type Args = SearchArgs;
    type Output = SearchOutput;

    const NAME: &'static str = "web_search";

    fn description(&self) -> String {
        "Searches the web for current information. Returns up to 8 pages as a list of addresses with title, excerpt and \
         date as far as known, and before it a summary answer when the search gives one."
            .to_owned()
    }

    fn timeout(&self) -> Option<Duration> {
        Some(TIMEOUT)
    }

    fn is_concurrency_safe(&self, _args: &SearchArgs) -> bool {
        true
    }

    fn effect(&self, _args: &SearchArgs) -> Effect {
        Effect::None
    }

    async fn execute(&self, args: SearchArgs, ctx: &ToolContext) -> Result<SearchOutput, ToolFailure> {
        not_blank("query", &args.query)?;
        // One more than is shown tells whether there are more.
        let request = WebSearchRequest { query: args.query, max_sources: MAX_SOURCES + 1 };
        let found = unless_cancelled(ctx, web(ctx)?.search(request)).await?;
        let truncated = found.truncated || found.sources.len() > MAX_SOURCES;
        let sources = found.sources.into_iter().take(MAX_SOURCES).map(|source| Source {
            url: source.url,
            title: source.title,
            snippet: source.snippet,
            published_at: source.published_at,
        });
        Ok(SearchOutput { content: found.answer, sources: sources.collect(), truncated })
    }

    fn render(&self, _args: &SearchArgs, output: &SearchOutput) -> Vec<ContentBlock> {
        let mut parts: Vec<String> = output.content.iter().cloned().collect();
        if !output.sources.is_empty() {
            let rows: Vec<String> = output.sources.iter().map(row).collect();
            parts.push(format!("Sources:\n{}", rows.join("\n")));
        } else if parts.is_empty() {
            parts.push("No results found.".to_owned());
        }
        if output.truncated {
            parts.push(format!("(The first {} sources are shown; more were found.)", output.sources.len()));
        }
        parts.push(REMINDER.to_owned());
        vec![ContentBlock::text(parts.join("\n\n"))]
    }

    fn presentation_meta(&self, _args: &SearchArgs, output: &SearchOutput) -> Option<Value> {
        let sources = output.sources.iter().map(|source| WebSource {
            url: source.url.clone(),
            title: source.title.clone(),
            snippet: source.snippet.clone(),
            published_at: source.published_at.clone(),
        });
        let meta = SearchMeta {
            sources: sources.collect(),
            truncated: output.truncated,
            answer: output.content.clone(),
        };
        serde_json::to_value(meta).ok()
    }

    fn present_call(&self, args: &SearchArgs) -> Option<CallCard> {
        Some(CallCard::Generic(GenericCall {
            title: args.query.clone(),
            kind: ToolCallKind::Search,
            raw_input: Some(args.query.clone().into()),
            ..GenericCall::default()
        }))
    }

    fn present_result(&self, args: &SearchArgs, result: &DurableResult) -> Option<ResultCard> {
        if result.is_error {
            return None;
        }
        let SearchMeta { sources, truncated, answer } =
            SearchMeta::deserialize(result.meta.as_ref()?).ok()?;
        let title = Some(args.query.clone());
        Some(ResultCard::Web(WebResult::Search(SearchCard { title, sources, answer, truncated })))
    }

    fn section(&self) -> Option<PromptSection> {
        Some(PromptSection {
            name: "tool:web_search".to_owned(),
            order_tenths: 1100,
            text: "Search with `web_search` for what may have changed since you were trained or is not in this folder."
                .to_owned(),
        })
    }
}

/// A source as a row of a Markdown list.
fn row(source: &Source) -> String {
    let label = source.title.as_deref().filter(|title| !title.trim().is_empty());
    let label = label.or_else(|| host(&source.url)).unwrap_or(&source.url);
    let label = label.replace('[', "\\[").replace(']', "\\]");
    let url = source.url.replace('(', "%28").replace(')', "%29").replace(' ', "%20");
    let mut row = format!("- [{label}]({url})");
    if let Some(snippet) = &source.snippet {
        row.push_str(&format!(" — {snippet}"));
    }
    if let Some(published) = &source.published_at {
        row.push_str(&format!(" ({published})"));
    }
    row
}

/// The host of an address; `None` when it has none.
fn host(url: &str) -> Option<&str> {
    let (_, rest) = url.split_once("://")?;
    let authority = rest.split(['/', '?', '#']).next()?;
    let host = authority.rsplit('@').next()?;
    let host = match host.rsplit_once(':') {
        Some((name, port)) if port.bytes().all(|byte| byte.is_ascii_digit()) => name,
        _ => host,
    };
    (!host.is_empty()).then_some(host)
}

/// What the card is made from.
#[derive(Serialize, Deserialize)]
struct SearchMeta {
    sources: Vec<WebSource>,
    truncated: bool,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    answer: Option<String>,
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::Bench;
    use serde_json::json;
    use services::web::{WebError, WebErrorKind, WebFound};

    fn source(url: &str) -> WebSource {
        WebSource { url: url.into(), title: None, snippet: None, published_at: None }
    }

    fn finding(answer: Option<&str>, sources: Vec<WebSource>) -> Bench {
        let bench = Bench::new();
        bench.world().web.found(Ok(WebFound {
            answer: answer.map(str::to_owned),
            sources,
            truncated: false,
        }));
        bench
    }

    fn query() -> Value {
        json!({ "query": "what is acp" })
    }

    #[tokio::test]
    async fn the_answer_stands_before_the_sources() {
        let full = WebSource {
            title: Some("A [b]".into()),
            snippet: Some("About it".into()),
            published_at: Some("2026-11-01".into()),
            ..source("https://example.org/a_(b)")
        };
        let bench = finding(Some("A protocol."), vec![full.clone(), source("https://u@docs.rs:443/x")]);
        let ran = bench.call("web_search", query()).await;
        assert_eq!(
            ran.text(),
            format!(
                "A protocol.\n\nSources:\n- [A \\[b\\]](https://example.org/a_%28b%29) — About it (2026-11-01)\n- \
                 [docs.rs](https://u@docs.rs:443/x)\n\n{REMINDER}"
            )
        );
        assert_eq!(
            ran.value(),
            &json!({
                "content": "A protocol.",
                "sources": [
                    {
                        "url": "https://example.org/a_(b)", "title": "A [b]", "snippet": "About it",
                        "publishedAt": "2026-11-01"
                    },
                    { "url": "https://u@docs.rs:443/x" },
                ],
                "truncated": false,
            })
        );
        let expected = SearchCard {
            title: Some("what is acp".into()),
            sources: vec![full, source("https://u@docs.rs:443/x")],
            answer: Some("A protocol.".into()),
            truncated: false,
        };
        assert_eq!(ran.card, Some(ResultCard::Web(WebResult::Search(expected))));
        let expected = WebSearchRequest { query: "what is acp".into(), max_sources: 9 };
        assert_eq!(bench.world().web.searched(), [expected]);
    }

    #[tokio::test]
    async fn nothing_found_is_a_result_with_an_empty_card() {
        let ran = finding(None, Vec::new()).call("web_search", query()).await;
        assert_eq!(ran.text(), format!("No results found.\n\n{REMINDER}"));
        let title = Some("what is acp".to_owned());
        let expected = SearchCard { title, sources: Vec::new(), answer: None, truncated: false };
        assert_eq!(ran.card, Some(ResultCard::Web(WebResult::Search(expected))));
        let ran = finding(Some("42"), Vec::new()).call("web_search", query()).await;
        assert_eq!(ran.text(), format!("42\n\n{REMINDER}"));
    }

    #[tokio::test]
    async fn more_than_eight_sources_are_cut_and_that_is_told() {
        let sources = |n: usize| (0..n).map(|n| source(&format!("https://{n}.org/"))).collect();
        let ran = finding(None, sources(9)).call("web_search", query()).await;
        assert_eq!(ran.text().lines().filter(|line| line.starts_with("- ")).count(), 8);
        assert!(
            ran.text().contains("\n\n(The first 8 sources are shown; more were found.)\n\n"),
            "{}",
            ran.text()
        );
        assert_eq!(ran.value()["truncated"], true);
        let ran = finding(None, sources(8)).call("web_search", query()).await;
        assert_eq!(ran.value()["truncated"], false);
    }

    #[tokio::test]
    async fn a_search_that_does_not_happen_fails_with_its_code() {
        let bench = Bench::new();
        bench.world().web.found(Err(WebError::new(WebErrorKind::Ambiguous, "choose")));
        assert_eq!(bench.call("web_search", query()).await.code(), "WEB_PROVIDER_AMBIGUOUS");
        assert_eq!(bench.call("web_search", json!({ "query": " " })).await.code(), "plain");
        assert_eq!(bench.call("web_search", json!({ "queries": ["a"] })).await.code(), "INVALID_ARGS");
        assert_eq!(bench.world().web.searched().len(), 1);
        let mut bench = Bench::new();
        bench.session.scope.services.web = None;
        assert_eq!(bench.call("web_search", query()).await.code(), "WEB_PROVIDER_UNAVAILABLE");
    }

    #[tokio::test]
    async fn a_cancel_drops_the_request() {
        let bench = Bench::new();
        bench.world().web.set_silent(true);
        let ctx = bench.session.context("web_search", query());
        let cancel = ctx.cancel.clone();
        let arguments = query();
        let call = bench.tool("web_search").execute(&arguments, &ctx);
        let (ended, ()) = tokio::join!(call, async { cancel.cancel() });
        assert_eq!(ended.unwrap_err().code(), Some("WEB_ABORTED"));
    }

    #[test]
    fn the_call_is_named_by_its_query() {
        let bench = Bench::new();
        let tool = bench.tool("web_search");
        assert!(tool.is_concurrency_safe(&query()));
        assert_eq!((tool.effect(&query()), tool.timeout()), (Effect::None, Some(TIMEOUT)));
        let expected = CallCard::Generic(GenericCall {
            title: "what is acp".into(),
            kind: ToolCallKind::Search,
            raw_input: Some("what is acp".into()),
            ..GenericCall::default()
        });
        assert_eq!(bench.call_card("web_search", query()), expected);
    }

    #[test]
    fn the_host_labels_a_source_without_title() {
        let cases = [
            ("https://example.org/a", Some("example.org")),
            ("http://u:p@example.org:80?x", Some("example.org")),
            ("https://[::1]:8/a", Some("[::1]")),
            ("https://[::1]/a", Some("[::1]")),
            ("nonsense", None),
            ("https:///a", None),
        ];
        for (url, expected) in cases {
            assert_eq!(host(url), expected, "{url}");
        }
    }
}
