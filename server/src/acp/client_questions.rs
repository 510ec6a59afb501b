//! Questions answered by the editor's user: one form where the client shows forms, else one permission question each.
//!
//! Compose gives it to a session as its question service. Source: product decisions, "Questions"; `faults.md` P08.

use super::client::ClientLink;
use super::client_approval::ask_permission;
use agent_client_protocol::{Error, ErrorCode};
use async_trait::async_trait;
use presenters::questions::{Reply, form_answers, permission_answer, question_form, question_permission};
use presenters::{CallView, PresentContext};
use protocol::card::{CallCard, GenericCall};
use protocol::id::CallId;
use protocol::question::Answer;
use serde_json::{Value, json};
use services::questions::{QuestionError, Questions, QuestionsRequest};
use std::sync::Arc;

/// A call as the session's view knows it.
#[derive(Clone, Debug)]
pub struct KnownCall {
    /// Name of its tool.
    pub name: String,
    /// Its arguments, parsed.
    pub arguments: Value,
    /// How it is meant to look.
    pub card: CallCard,
}

/// Finds a call that is shown; `None` when nothing is known of it.
pub type CallLookup = Arc<dyn Fn(&CallId) -> Option<KnownCall> + Send + Sync>;

/// Asks the editor's user.
pub struct ClientQuestions {
    link: ClientLink,
    forms: bool,
    context: PresentContext,
    call_of: CallLookup,
    stop: Arc<dyn Fn() + Send + Sync>,
}

impl ClientQuestions {
    /// Asks over this link, by a form when the client shows `forms`. `stop` ends the turn: the user stopped it by way of
    /// a question.
    pub fn new(
        link: ClientLink,
        forms: bool,
        context: PresentContext,
        call_of: CallLookup,
        stop: Arc<dyn Fn() + Send + Sync>,
    ) -> Self {
        Self { link, forms, context, call_of, stop }
    }

    /// All questions at once; `None` when the client does not know forms after all.
    async fn ask_form(&self, request: &QuestionsRequest) -> Option<Result<Vec<Answer>, QuestionError>> {
        let form = question_form(&request.session_id, &request.call_id, &request.questions);
        match self.link.request(form).await {
            Ok(response) => Some(self.taken(form_answers(&request.questions, &response))),
            Err(error) if [ErrorCode::METHOD_NOT_FOUND, ErrorCode::INVALID_PARAMS].contains(&error.code) => {
                tracing::warn!(%error, "the client refused a form; asking by permission questions");
                None
            }
            Err(error) => Some(Err(unanswered(&error))),
        }
    }

    /// One after the other, each once the one before it was answered.
    async fn ask_each(&self, request: &QuestionsRequest) -> Result<Vec<Answer>, QuestionError> {
        let known = (self.call_of)(&request.call_id).unwrap_or_else(|| unknown_call(request));
        let call = CallView {
            call_id: &request.call_id,
            name: &known.name,
            arguments: &known.arguments,
            card: &known.card,
        };
        let mut asked = Vec::with_capacity(request.questions.len());
        for question in &request.questions {
            let wire = question_permission(&self.context, &request.session_id, &call, question);
            asked.push(wire.ok_or_else(|| {
                QuestionError::NoProvider(format!(
                    "this client shows no forms, so it can only put questions with one choice out of several; \
                     \"{}\" needs more. Ask it in the text of the answer instead",
                    question.question
                ))
            })?);
        }
        let mut answers = Vec::with_capacity(asked.len());
        for (question, wire) in request.questions.iter().zip(&asked) {
            let response = ask_permission(&self.link, wire).await.map_err(|error| unanswered(&error))?;
            answers.push(self.taken(permission_answer(question, &response.outcome))?);
        }
        Ok(answers)
    }

    fn taken<T>(&self, reply: Reply<T>) -> Result<T, QuestionError> {
        match reply {
            Reply::Answered(answer) => Ok(answer),
            Reply::Dismissed => Err(QuestionError::Cancelled),
            Reply::Stopped => {
                (self.stop)();
                Err(QuestionError::Aborted)
            }
        }
    }
}

#[async_trait]
impl Questions for ClientQuestions {
    /// Waits without a budget: a person answers.
    async fn ask(&self, request: QuestionsRequest) -> Result<Vec<Answer>, QuestionError> {
        if self.forms
            && let Some(answers) = self.ask_form(&request).await
        {
            return answers;
        }
        self.ask_each(&request).await
    }
}

/// The stand-in for a call that nobody remembers: its questions are its input.
fn unknown_call(request: &QuestionsRequest) -> KnownCall {
    let title = request.questions.first().map(|question| question.question.clone()).unwrap_or_default();
    KnownCall {
        name: String::new(),
        arguments: json!({ "questions": request.questions }),
        card: CallCard::Generic(GenericCall { title, ..GenericCall::default() }),
    }
}

fn unanswered(error: &Error) -> QuestionError {
    QuestionError::NoProvider(format!("the client could not put the question to the user: {error}"))
}
