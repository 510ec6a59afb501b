//! A web of scripted pages and searches.

use super::{Script, lock};
use crate::web::{FetchRequest, FetchedPage, Web, WebError, WebErrorKind, WebFound, WebSearchRequest};
use async_trait::async_trait;
use std::sync::Mutex;

/// Answers from a script; beyond it every page and every search fails as a broken network does.
#[derive(Default)]
pub struct FakeWeb {
    pages: Script<FetchRequest, Result<FetchedPage, WebError>>,
    searches: Script<WebSearchRequest, Result<WebFound, WebError>>,
    silent: Mutex<bool>,
}

impl FakeWeb {
    /// Adds the end of a fetch.
    pub fn page(&self, page: Result<FetchedPage, WebError>) {
        self.pages.push(page);
    }

    /// Adds the end of a search.
    pub fn found(&self, found: Result<WebFound, WebError>) {
        self.searches.push(found);
    }

    /// Whether nothing ever answers.
    pub fn set_silent(&self, silent: bool) {
        *lock(&self.silent) = silent;
    }

    /// Every fetch that was made, in order.
    pub fn fetched(&self) -> Vec<FetchRequest> {
        self.pages.asked()
    }

    /// Every search that was made, in order.
    pub fn searched(&self) -> Vec<WebSearchRequest> {
        self.searches.asked()
    }

    async fn answered<T>(&self, answer: Option<Result<T, WebError>>) -> Result<T, WebError> {
        if *lock(&self.silent) {
            std::future::pending::<()>().await;
        }
        answer.unwrap_or_else(|| Err(WebError::new(WebErrorKind::Provider, "there is no web in this test")))
    }
}

#[async_trait]
impl Web for FakeWeb {
    async fn fetch(&self, request: FetchRequest) -> Result<FetchedPage, WebError> {
        let answer = self.pages.ask(request);
        self.answered(answer).await
    }

    async fn search(&self, request: WebSearchRequest) -> Result<WebFound, WebError> {
        let answer = self.searches.ask(request);
        self.answered(answer).await
    }
}
