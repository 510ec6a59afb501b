//! Asking the person questions that are no permission.

use async_trait::async_trait;
use protocol::id::{CallId, SessionId};
use protocol::question::{Answer, Question};
use protocol::tool::ToolFailure;

/// The person who answers. The seed's user-question service.
#[async_trait]
pub trait Questions: Send + Sync {
    /// Asks all questions and waits for all answers, in the order of the questions.
    ///
    /// # Errors
    /// [`QuestionError::Cancelled`] when the person dismissed them, [`QuestionError::NoProvider`] when this client
    /// cannot show them.
    ///
    /// # Cancellation
    /// Dropping the future withdraws the questions.
    async fn ask(&self, request: QuestionsRequest) -> Result<Vec<Answer>, QuestionError>;
}

/// Questions of one call.
#[derive(Clone, Debug)]
pub struct QuestionsRequest {
    /// The session the person knows.
    pub session_id: SessionId,
    /// The call that asks.
    pub call_id: CallId,
    /// At least one.
    pub questions: Vec<Question>,
}

/// Why there is no answer. Codes are the seed's.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum QuestionError {
    /// The turn was cancelled while waiting.
    #[error("the question was withdrawn because the turn was cancelled")]
    Aborted,
    /// The person dismissed the question.
    #[error("the user dismissed the question")]
    Cancelled,
    /// Nobody can answer questions of this shape.
    #[error("{0}")]
    NoProvider(String),
}

impl From<QuestionError> for ToolFailure {
    fn from(error: QuestionError) -> Self {
        let code = match error {
            QuestionError::Aborted => "ASK_ABORTED",
            QuestionError::Cancelled => "ASK_CANCELLED",
            QuestionError::NoProvider(_) => "NO_PROVIDER",
        };
        Self::coded("UserQuestionError", code, error.to_string())
    }
}
