//! Questions answered by the editor's user: one form where the client shows forms, else one permission question each.
//!
//! Compose gives it to a session as its question service. Source: product decisions, "Questions"; `faults.md` P08.

use super::client::ClientLink;
use super::client_approval::ask_permission;
use agent_client_protocol::v1::schema::RequestPermissionRequest;
use agent_client_protocol::{Error, ErrorCode};
use async_trait::async_trait;
use presenters::questions::{Reply, form_answers, permission_answer, question_form, question_permission};
use presenters::{CallView, PresentContext};
use protocol::card::{CallCard, GenericCall};
use protocol::question::{Answer, Question};
use serde_json::Value;
use services::questions::{QuestionError, Questions, QuestionsRequest};
use std::sync::Arc;

/// Asks the editor's user.
pub struct ClientQuestions {
    link: ClientLink,
    context: PresentContext,
    forms: bool,
    stop: Arc<dyn Fn() + Send + Sync>,
}

impl ClientQuestions {
    /// Asks over this link, by a form when the client shows `forms`. `stop` ends the turn: the user stopped it by way of
    /// a question.
    pub fn new(
        link: ClientLink,
        context: PresentContext,
        forms: bool,
        stop: Arc<dyn Fn() + Send + Sync>,
    ) -> Self {
        Self { link, context, forms, stop }
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
        let mut asked = Vec::with_capacity(request.questions.len());
        for question in &request.questions {
            asked.push(self.present(request, question).ok_or_else(|| {
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

    /// The question on the card of the call that asks. Kind and input of the card were told when it was announced; they
    /// are left out, and so stay.
    fn present(&self, request: &QuestionsRequest, question: &Question) -> Option<RequestPermissionRequest> {
        let card = CallCard::Generic(GenericCall::default());
        let call = CallView { call_id: &request.call_id, name: "", arguments: &Value::Null, card: &card };
        let mut wire = question_permission(&self.context, &request.session_id, &call, question)?;
        wire.tool_call.fields.kind = None;
        wire.tool_call.fields.raw_input = None;
        Some(wire)
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

fn unanswered(error: &Error) -> QuestionError {
    QuestionError::NoProvider(format!("the client could not put the question to the user: {error}"))
}

#[cfg(test)]
mod tests {
    use super::super::client_testing::ScriptedClient;
    use super::*;
    use protocol::id::{CallId, SessionId};
    use protocol::question::QuestionOption;
    use serde_json::json;
    use std::sync::atomic::{AtomicUsize, Ordering};

    fn choice(id: &str) -> Question {
        let option = |label: &str| QuestionOption { label: label.to_owned(), description: None };
        Question {
            id: id.to_owned(),
            question: format!("Which {id}?"),
            options: vec![option("one"), option("two")],
            ..Question::default()
        }
    }

    fn request(questions: Vec<Question>) -> QuestionsRequest {
        QuestionsRequest { session_id: SessionId::new("s"), call_id: CallId::new("c"), questions }
    }

    fn answer(id: &str, label: &str) -> Answer {
        Answer { id: id.to_owned(), selected: vec![label.to_owned()], custom: None }
    }

    /// Asks and counts how often the turn was stopped.
    async fn ask(
        client: &ScriptedClient,
        forms: bool,
        questions: Vec<Question>,
    ) -> (Result<Vec<Answer>, QuestionError>, usize) {
        let stops = Arc::<AtomicUsize>::default();
        let stop = {
            let stops = stops.clone();
            Arc::new(move || {
                stops.fetch_add(1, Ordering::SeqCst);
            })
        };
        let asking = ClientQuestions::new(client.link.clone(), PresentContext::default(), forms, stop);
        let answers = asking.ask(request(questions)).await;
        (answers, stops.load(Ordering::SeqCst))
    }

    fn selected(id: &str) -> Value {
        json!({ "outcome": { "outcome": "selected", "optionId": id } })
    }

    #[tokio::test]
    async fn a_client_with_forms_is_asked_once() {
        let client = ScriptedClient::answering(|method, _| match method {
            "elicitation/create" => {
                Ok(json!({ "action": "accept", "content": { "1_a": "two", "2_b_other": "neither" } }))
            }
            _ => Err(Error::method_not_found()),
        })
        .await;
        let (answers, stops) = ask(&client, true, vec![choice("a"), choice("b")]).await;
        let free = Answer { id: "b".to_owned(), selected: Vec::new(), custom: Some("neither".to_owned()) };
        assert_eq!((answers, stops), (Ok(vec![answer("a", "two"), free]), 0));
        assert_eq!(client.methods(), ["elicitation/create"]);
        assert_eq!(client.asked()[0].1["toolCallId"], "c");
    }

    #[tokio::test]
    async fn a_dismissed_form_cancels_the_question_only() {
        for action in ["decline", "cancel"] {
            let client = ScriptedClient::answering(move |_, _| Ok(json!({ "action": action }))).await;
            assert_eq!(ask(&client, true, vec![choice("a")]).await, (Err(QuestionError::Cancelled), 0));
        }
    }

    #[tokio::test]
    async fn without_forms_each_question_is_asked_in_order() {
        let client = ScriptedClient::answering(|method, params| match method {
            "session/request_permission" if params["toolCall"]["title"] == "Which a?" => {
                Ok(selected("choice-1"))
            }
            "session/request_permission" => Ok(selected("choice-0")),
            _ => Err(Error::method_not_found()),
        })
        .await;
        let expected = Ok(vec![answer("a", "two"), answer("b", "one")]);
        assert_eq!(ask(&client, false, vec![choice("a"), choice("b")]).await, (expected.clone(), 0));
        let call = &client.asked()[0].1["toolCall"];
        assert_eq!((call.get("kind"), call.get("rawInput")), (None, None));
        // The same when forms were announced and are not known after all.
        assert_eq!(ask(&client, true, vec![choice("a"), choice("b")]).await, (expected, 0));
    }

    #[tokio::test]
    async fn a_stop_ends_the_turn_and_no_further_question_is_asked() {
        let cases = [
            (json!({ "outcome": { "outcome": "cancelled" } }), Err(QuestionError::Aborted), 1),
            (selected("cancel"), Err(QuestionError::Cancelled), 0),
            (selected("else"), Err(QuestionError::Cancelled), 0),
        ];
        for (given, expected, expected_stops) in cases {
            let client = ScriptedClient::answering(move |_, _| Ok(given.clone())).await;
            let asked = ask(&client, false, vec![choice("a"), choice("b")]).await;
            assert_eq!(asked, (expected, expected_stops));
            assert_eq!(client.methods().len(), 1);
        }
    }

    #[tokio::test]
    async fn what_no_permission_question_can_carry_has_no_provider_and_is_not_asked() {
        let client = ScriptedClient::answering(|_, _| Ok(selected("choice-0"))).await;
        let several = Question { multi_select: true, ..choice("b") };
        let text = Question { options: Vec::new(), ..choice("b") };
        for question in [several, text] {
            let (answers, _) = ask(&client, false, vec![choice("a"), question]).await;
            assert!(matches!(answers, Err(QuestionError::NoProvider(_))), "{answers:?}");
        }
        assert_eq!(client.methods(), Vec::<String>::new());
    }

    #[tokio::test]
    async fn a_failing_client_is_no_provider() {
        let client = ScriptedClient::answering(|_, _| Err(Error::internal_error())).await;
        for forms in [true, false] {
            let (answers, stops) = ask(&client, forms, vec![choice("a")]).await;
            assert!(matches!(answers, Err(QuestionError::NoProvider(_))), "{answers:?}");
            assert_eq!(stops, 0);
        }
    }
}
