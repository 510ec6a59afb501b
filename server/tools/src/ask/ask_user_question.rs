//! `ask_user_question`: puts questions to the person and waits for the answers.
//!
//! Touches nothing but the question service. Source: `spec/tools-agentic.md` §1.

use async_trait::async_trait;
use pipeline::context::ToolContext;
use pipeline::tool::Effect;
use pipeline::typed::TypedTool;
use protocol::card::{CallCard, GenericCall};
use protocol::content::ContentBlock;
use protocol::question::{Question, QuestionOption};
use protocol::tool::ToolFailure;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use services::questions::{QuestionError, QuestionsRequest};

/// Arguments of `ask_user_question`.
#[derive(Debug, Deserialize, JsonSchema)]
pub struct AskArgs {
    /// What to ask before going on.
    questions: Vec<Asked>,
}

/// One question.
#[derive(Clone, Debug, Deserialize, JsonSchema)]
#[schemars(description = "")]
pub struct Asked {
    /// Stable id of this question; the answer repeats it.
    id: String,
    /// The question itself, specific.
    question: String,
    /// Short heading, for instance "Confirm" or "Choose mode".
    header: Option<String>,
    /// Choices to offer. Put the one you recommend first and end its label with "(Recommended)".
    options: Option<Vec<Choice>>,
    /// Whether several choices may be taken. Default false.
    multi_select: Option<bool>,
}

/// One choice.
#[derive(Clone, Debug, Deserialize, JsonSchema)]
#[schemars(description = "")]
pub struct Choice {
    /// Short label the user sees.
    label: String,
    /// One sentence on the trade-off or the effect.
    description: Option<String>,
}

/// The answers, in the order of the questions.
#[derive(Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct AskOutput {
    answers: Vec<Answer>,
}

/// The answer to one question.
#[derive(Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Answer {
    /// Id of the question.
    id: String,
    /// Labels of the choices taken, as offered.
    selected: Vec<String>,
    /// Free text; absent when there was none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    custom: Option<String>,
}

/// The tool.
pub struct AskUserQuestion;

#[async_trait]
impl TypedTool for AskUserQuestion {
    type Args = AskArgs;
    type Output = AskOutput;

    const NAME: &'static str = "ask_user_question";

    fn description(&self) -> String {
        "Asks the user short questions when you need a confirmation, a choice or missing information before you go on. \
         Send one or more questions, each with a stable id that comes back unchanged in its answer."
            .to_owned()
    }

    fn effect(&self, _args: &AskArgs) -> Effect {
        Effect::None
    }

    async fn execute(&self, args: AskArgs, ctx: &ToolContext) -> Result<AskOutput, ToolFailure> {
        if ctx.cancel.is_cancelled() {
            return Err(QuestionError::Aborted.into());
        }
        if args.questions.is_empty() {
            return Err(refused("EMPTY_QUESTIONS", "there is nothing to ask; send at least one question"));
        }
        if ctx.session.delegation_depth > 0 {
            return Err(refused(
                "DELEGATED_CALLER",
                "a delegated agent cannot ask the user; put the open question into your final result, so that the agent \
                 that delegated to you can answer it or ask",
            ));
        }
        let Some(questions) = &ctx.services().questions else {
            let reason = "nobody can answer questions here; decide yourself and say what you assumed";
            return Err(QuestionError::NoProvider(reason.to_owned()).into());
        };
        let request = QuestionsRequest {
            session_id: ctx.session.session_id.clone(),
            call_id: ctx.execution.call_id.clone(),
            questions: args.questions.into_iter().map(question).collect(),
        };
        let answers = ctx.cancel.run_until_cancelled(questions.ask(request)).await;
        let answers = answers.ok_or(QuestionError::Aborted)??.into_iter().map(|answer| Answer {
            id: answer.id,
            selected: answer.selected,
            custom: answer.custom,
        });
        Ok(AskOutput { answers: answers.collect() })
    }

    fn render(&self, _args: &AskArgs, output: &AskOutput) -> Vec<ContentBlock> {
        vec![ContentBlock::text(serde_json::to_string(output).unwrap_or_default())]
    }

    fn present_call(&self, args: &AskArgs) -> Option<CallCard> {
        let first = args.questions.first()?;
        Some(CallCard::Generic(GenericCall {
            title: format!("Ask: {}", first.question),
            ..GenericCall::default()
        }))
    }
}

fn refused(code: &str, message: &str) -> ToolFailure {
    ToolFailure::coded("UserQuestionError", code, message)
}

fn question(asked: Asked) -> Question {
    let options = asked.options.unwrap_or_default().into_iter();
    Question {
        id: asked.id,
        question: asked.question,
        header: asked.header,
        options: options
            .map(|choice| QuestionOption { label: choice.label, description: choice.description })
            .collect(),
        multi_select: asked.multi_select.unwrap_or(false),
        detail: None,
        approve: None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::Bench;
    use protocol::question;
    use serde_json::{Value, json};

    fn package() -> Value {
        json!({"questions": [{
            "id": "pkg",
            "question": "Which package manager?",
            "header": "Tools",
            "options": [{"label": "pnpm (Recommended)", "description": "fast"}, {"label": "npm"}],
            "multi_select": true,
            "unknown": 1,
        }]})
    }

    fn answer(selected: &[&str], custom: Option<&str>) -> question::Answer {
        question::Answer {
            id: "pkg".into(),
            selected: selected.iter().map(|label| (*label).to_owned()).collect(),
            custom: custom.map(str::to_owned),
        }
    }

    #[tokio::test]
    async fn questions_and_answers_pass_unchanged() {
        let bench = Bench::new();
        bench.world().questions.answer(Ok(vec![answer(&["pnpm (Recommended)"], None)]));
        let ran = bench.call("ask_user_question", package()).await;
        assert_eq!(ran.text(), r#"{"answers":[{"id":"pkg","selected":["pnpm (Recommended)"]}]}"#);
        assert_eq!(ran.card, None);
        let asked = &bench.world().questions.asked()[0];
        assert_eq!((asked.session_id.as_str(), asked.call_id.as_str()), ("session-1", "call-1"));
        let option = |label: &str, description: Option<&str>| QuestionOption {
            label: label.into(),
            description: description.map(str::to_owned),
        };
        let expected = Question {
            id: "pkg".into(),
            question: "Which package manager?".into(),
            header: Some("Tools".into()),
            options: vec![option("pnpm (Recommended)", Some("fast")), option("npm", None)],
            multi_select: true,
            detail: None,
            approve: None,
        };
        assert_eq!(asked.questions, [expected]);
    }

    #[tokio::test]
    async fn free_text_may_stand_beside_choices() {
        let bench = Bench::new();
        bench.world().questions.answer(Ok(vec![answer(&["tests", "docs"], Some("release notes"))]));
        let ran = bench.call("ask_user_question", package()).await;
        let expected =
            json!({"answers": [{"id": "pkg", "selected": ["tests", "docs"], "custom": "release notes"}]});
        assert_eq!(ran.value(), &expected);
    }

    #[tokio::test]
    async fn what_cannot_be_asked_fails_with_its_code() {
        let mut bench = Bench::new();
        assert_eq!(bench.call("ask_user_question", json!({"questions": []})).await.code(), "EMPTY_QUESTIONS");
        assert_eq!(
            bench.call("ask_user_question", json!({"questions": [{"id": "a"}]})).await.code(),
            "INVALID_ARGS"
        );
        bench.session.scope.delegation_depth = 1;
        let delegated = bench.call("ask_user_question", package()).await;
        assert_eq!(delegated.code(), "DELEGATED_CALLER");
        assert!(delegated.text().contains("final result"));
        assert_eq!(bench.world().questions.asked().len(), 0);
        bench.session.scope.delegation_depth = 0;
        bench.session.scope.services.questions = None;
        let nobody = bench.call("ask_user_question", package()).await;
        assert_eq!(nobody.code(), "NO_PROVIDER");
        assert_eq!(nobody.failure().info.as_ref().map(|info| info.name.as_str()), Some("UserQuestionError"));
    }

    #[tokio::test]
    async fn a_dismissed_question_is_cancelled() {
        let bench = Bench::new();
        bench.world().questions.answer(Err(QuestionError::Cancelled));
        assert_eq!(bench.call("ask_user_question", package()).await.code(), "ASK_CANCELLED");
    }

    #[tokio::test]
    async fn a_cancelled_call_asks_nothing() {
        let bench = Bench::new();
        let ctx = bench.session.context("ask_user_question", package());
        ctx.cancel.cancel();
        let failure = bench.tool("ask_user_question").execute(&package(), &ctx).await.unwrap_err();
        assert_eq!(failure.code(), Some("ASK_ABORTED"));
        assert_eq!(bench.world().questions.asked().len(), 0);
    }

    #[test]
    fn the_title_is_the_first_question() {
        let bench = Bench::new();
        assert_eq!(bench.call_card("ask_user_question", package()).title(), "Ask: Which package manager?");
        let tool = bench.tool("ask_user_question");
        assert_eq!(tool.present_call(&json!({"questions": []})), None);
        assert!(!tool.is_concurrency_safe(&package()));
        assert_eq!(tool.timeout(), None);
    }
}
