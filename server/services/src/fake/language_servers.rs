//! Language servers with scripted answers.

use super::{Script, lock};
use crate::language_servers::{LanguageServers, LspAnswer, LspError, LspErrorKind, LspQuery};
use async_trait::async_trait;
use std::path::{Path, PathBuf};
use std::sync::Mutex;
use tokio_util::sync::CancellationToken;

/// Answers queries from a script; one beyond it finds no server, a cancelled one is aborted.
#[derive(Default)]
pub struct FakeLanguageServers {
    answers: Script<LspQuery, Result<LspAnswer, LspError>>,
    changed: Mutex<Vec<PathBuf>>,
}

impl FakeLanguageServers {
    /// Adds the answer to a query.
    pub fn answer(&self, answer: Result<LspAnswer, LspError>) {
        self.answers.push(answer);
    }

    /// Every query that was made.
    pub fn queries(&self) -> Vec<LspQuery> {
        self.answers.asked()
    }

    /// Every change that was told.
    pub fn changed(&self) -> Vec<PathBuf> {
        lock(&self.changed).clone()
    }
}

#[async_trait]
impl LanguageServers for FakeLanguageServers {
    async fn query(&self, query: LspQuery, cancel: &CancellationToken) -> Result<LspAnswer, LspError> {
        let shown = query.path.display().to_string();
        let answer = self.answers.ask(query);
        if cancel.is_cancelled() {
            return Err(LspError::new(LspErrorKind::Aborted, "the query was stopped"));
        }
        answer.unwrap_or_else(|| {
            Err(LspError::new(LspErrorKind::Unavailable, format!("no language server serves {shown}")))
        })
    }

    fn file_changed(&self, path: &Path) {
        lock(&self.changed).push(path.to_owned());
    }
}
