//! Children that answer what a test scripts.

use super::Script;
use crate::subagents::{AgentEntry, ChildEnd, ChildStop, NewChild, SubagentError, Subagents};
use async_trait::async_trait;
use protocol::id::{MessageId, SessionId};
use std::sync::Mutex;
use tokio_util::sync::CancellationToken;

/// Scripted children. A child that nobody scripted completes with its own prompt.
#[derive(Default)]
pub struct FakeSubagents {
    ends: Script<NewChild, Result<ChildEnd, SubagentError>>,
    sent: Script<(SessionId, String), Result<MessageId, SubagentError>>,
    listed: Mutex<Vec<AgentEntry>>,
}

impl FakeSubagents {
    /// How the next child ends.
    pub fn ends(&self, end: Result<ChildEnd, SubagentError>) {
        self.ends.push(end);
    }

    /// What becomes of the next message or report.
    pub fn delivers(&self, answer: Result<MessageId, SubagentError>) {
        self.sent.push(answer);
    }

    /// What is listed.
    pub fn lists(&self, entries: Vec<AgentEntry>) {
        *super::lock(&self.listed) = entries;
    }

    /// Every child that was started.
    pub fn started(&self) -> Vec<NewChild> {
        self.ends.asked()
    }

    /// Every message, and every report under the id `parent`.
    pub fn sent(&self) -> Vec<(SessionId, String)> {
        self.sent.asked()
    }

    /// An end like this.
    pub fn end(stop: ChildStop, text: &str) -> ChildEnd {
        ChildEnd {
            session: SessionId::new("child"),
            stop,
            diagnostic: None,
            text: text.to_owned(),
            value: None,
        }
    }

    fn deliver(&self, id: &SessionId, text: String) -> Result<MessageId, SubagentError> {
        self.sent.ask((id.clone(), text)).unwrap_or_else(|| Ok(MessageId::new("msg-1")))
    }
}

#[async_trait]
impl Subagents for FakeSubagents {
    async fn run(&self, child: NewChild, _cancel: &CancellationToken) -> Result<ChildEnd, SubagentError> {
        let text = child.prompt.clone();
        self.ends.ask(child).unwrap_or_else(|| Ok(Self::end(ChildStop::Completed, &text)))
    }

    async fn start(&self, child: NewChild) -> Result<SessionId, SubagentError> {
        let end = self.ends.ask(child);
        end.unwrap_or_else(|| Ok(Self::end(ChildStop::Completed, ""))).map(|end| end.session)
    }

    async fn send(&self, id: &SessionId, message: String) -> Result<MessageId, SubagentError> {
        self.deliver(id, message)
    }

    async fn interrupt(&self, id: &SessionId) -> Result<(), SubagentError> {
        self.deliver(id, "interrupt".to_owned()).map(|_| ())
    }

    async fn list(&self, descendants: bool) -> Result<Vec<AgentEntry>, SubagentError> {
        let listed = super::lock(&self.listed).clone();
        Ok(listed.into_iter().filter(|entry| descendants || entry.depth == 1).collect())
    }

    async fn report(&self, output: String) -> Result<MessageId, SubagentError> {
        self.deliver(&SessionId::new("parent"), output)
    }
}
