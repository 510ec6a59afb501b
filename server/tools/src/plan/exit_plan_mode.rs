//! `exit_plan_mode`: puts a plan before the person; approved, the session leaves plan mode.
//!
//! Touches nothing but the question service: the turn reads the approval from the logged result and switches the mode
//! once the step's calls are done, so that nothing else of the same answer runs in a wider mode.
//! Source: `spec/tools-agentic.md` §2.2.

use async_trait::async_trait;
use pipeline::context::ToolContext;
use pipeline::tool::Effect;
use pipeline::typed::TypedTool;
use protocol::card::{CallCard, GenericCall, GenericResult, ResultCard, ToolCallKind};
use protocol::content::ContentBlock;
use protocol::mode::Mode;
use protocol::question::{Answer, Question, QuestionOption};
use protocol::tool::{DurableResult, ToolFailure};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use services::questions::{QuestionError, QuestionsRequest};

/// Id of the one question.
const REVIEW: &str = "plan-review";
const APPROVE: &str = "Approve";
const KEEP: &str = "Keep planning";

/// Arguments of `exit_plan_mode`.
#[derive(Debug, Deserialize, JsonSchema)]
pub struct ExitPlanModeArgs {
    /// The complete plan in Markdown. Its first line is a heading that begins with a single #.
    plan: String,
}

/// The plan was approved.
#[derive(Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct ExitPlanModeOutput {
    approved: bool,
}

/// The tool.
pub struct ExitPlanMode;

#[async_trait]
impl TypedTool for ExitPlanMode {
    type Args = ExitPlanModeArgs;
    type Output = ExitPlanModeOutput;

    const NAME: &'static str = "exit_plan_mode";

    fn description(&self) -> String {
        "Presents the finished plan to the user for review and, once it is approved, leaves plan mode. Only available in \
         plan mode. Send the complete plan, not a summary of it; make this the only and last call of your answer. When the \
         user wants to keep planning, revise the plan by the feedback and present it again."
            .to_owned()
    }

    fn effect(&self, _args: &ExitPlanModeArgs) -> Effect {
        Effect::None
    }

    async fn execute(
        &self,
        args: ExitPlanModeArgs,
        ctx: &ToolContext,
    ) -> Result<ExitPlanModeOutput, ToolFailure> {
        if ctx.mode() != Mode::Plan {
            return Err(ToolFailure::plain("exit_plan_mode is only available in plan mode, which is off"));
        }
        if !begins_with_heading(args.plan.trim()) {
            return Err(ToolFailure::plain(
                "the plan must begin with a heading: a single #, a space, and the title",
            ));
        }
        if ctx.cancel.is_cancelled() {
            return Err(QuestionError::Aborted.into());
        }
        if ctx.session.delegation_depth > 0 {
            return Err(ToolFailure::coded(
                "UserQuestionError",
                "DELEGATED_CALLER",
                "a delegated agent cannot ask the user to review a plan; put the plan into your final result",
            ));
        }
        let Some(questions) = &ctx.services().questions else {
            return Err(ToolFailure::plain(
                "nobody can review the plan here; stay in plan mode and ask the user to switch the mode",
            ));
        };
        let request = QuestionsRequest {
            session_id: ctx.session.session_id.clone(),
            call_id: ctx.execution.call_id.clone(),
            questions: vec![review(args.plan)],
        };
        let answers = ctx.cancel.run_until_cancelled(questions.ask(request)).await;
        let answers = answers.ok_or(QuestionError::Aborted)?.map_err(|error| match error {
            QuestionError::Cancelled => ToolFailure::plain(
                "the user closed the review to say something first; stay in plan mode, stop here and wait",
            ),
            error => error.into(),
        })?;
        if ctx.mode() != Mode::Plan {
            return Err(ToolFailure::plain("plan mode went off during the review; nothing was approved"));
        }
        match feedback(&answers) {
            None => Ok(ExitPlanModeOutput { approved: true }),
            Some(feedback) if feedback.is_empty() => Err(ToolFailure::plain(
                "the user wants to keep planning; revise the plan and present it again",
            )),
            Some(feedback) => {
                Err(ToolFailure::plain(format!("the user wants to keep planning, and says: {feedback}")))
            }
        }
    }

    fn render(&self, _args: &ExitPlanModeArgs, _output: &ExitPlanModeOutput) -> Vec<ContentBlock> {
        vec![ContentBlock::text(
            "The user approved the plan. Plan mode is off from the next step on; carry the plan out.",
        )]
    }

    fn present_call(&self, args: &ExitPlanModeArgs) -> Option<CallCard> {
        Some(CallCard::Generic(GenericCall {
            title: title(&args.plan),
            kind: ToolCallKind::Other,
            content: vec![ContentBlock::text(&args.plan)],
            ..GenericCall::default()
        }))
    }

    fn present_result(&self, args: &ExitPlanModeArgs, result: &DurableResult) -> Option<ResultCard> {
        let mut content = vec![ContentBlock::text(&args.plan)];
        content.extend(result.content.iter().cloned());
        Some(ResultCard::Generic(GenericResult {
            title: Some("Plan review".to_owned()),
            content: Some(content),
        }))
    }

    fn presentation_meta(&self, _args: &ExitPlanModeArgs, output: &ExitPlanModeOutput) -> Option<Value> {
        Some(json!({ "planApproved": output.approved }))
    }
}

/// One `#`, white space, and something behind it.
fn begins_with_heading(plan: &str) -> bool {
    plan.strip_prefix('#')
        .is_some_and(|rest| rest.starts_with(char::is_whitespace) && !rest.trim_start().is_empty())
}

fn review(plan: String) -> Question {
    let option = |label: &str| QuestionOption { label: label.to_owned(), description: None };
    Question {
        id: REVIEW.to_owned(),
        question: "Carry out this plan?".to_owned(),
        header: Some("Plan review".to_owned()),
        options: vec![option(APPROVE), option(KEEP)],
        multi_select: false,
        detail: Some(plan),
        approve: Some(APPROVE.to_owned()),
    }
}

/// `None` when the answers approve; else what the person wants changed, possibly nothing said.
fn feedback(answers: &[Answer]) -> Option<String> {
    let mut ours = answers.iter().filter(|answer| answer.id == REVIEW);
    let (Some(answer), None) = (ours.next(), ours.next()) else { return Some(String::new()) };
    match &answer.custom {
        None if answer.selected == [APPROVE] => None,
        custom => Some(custom.clone().filter(|text| !text.trim().is_empty()).unwrap_or_default()),
    }
}

/// The text of the first heading of any level.
fn title(plan: &str) -> String {
    let heading = plan.lines().find_map(|line| {
        let text = line.trim_start_matches('#');
        let level = line.len() - text.len();
        let is_heading = (1..=6).contains(&level) && text.starts_with(char::is_whitespace);
        is_heading.then(|| text.trim()).filter(|text| !text.is_empty())
    });
    heading.unwrap_or("Plan").to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{Bench, Ran};

    const PLAN: &str = "# Move it\n\n1. Do it\n";

    fn answer(selected: &[&str], custom: Option<&str>) -> Answer {
        Answer {
            id: REVIEW.to_owned(),
            selected: selected.iter().map(|label| (*label).to_owned()).collect(),
            custom: custom.map(str::to_owned),
        }
    }

    async fn present(answers: Result<Vec<Answer>, QuestionError>) -> Ran {
        let bench = Bench::new();
        bench.session.host.set_mode(Mode::Plan);
        bench.world().questions.answer(answers);
        bench.call("exit_plan_mode", json!({ "plan": PLAN })).await
    }

    #[tokio::test]
    async fn an_approved_plan_is_marked_and_the_exact_plan_was_shown() {
        let bench = Bench::new();
        bench.session.host.set_mode(Mode::Plan);
        bench.world().questions.answer(Ok(vec![answer(&[APPROVE], None)]));
        let ran = bench.call("exit_plan_mode", json!({ "plan": PLAN })).await;
        assert_eq!(ran.value(), &json!({ "approved": true }));
        assert_eq!(ran.durable.meta, Some(json!({ "planApproved": true })));
        assert_eq!(bench.world().questions.asked()[0].questions, [review(PLAN.to_owned())]);
        assert_eq!(bench.session.host.events(), []);
    }

    #[tokio::test]
    async fn everything_but_a_bare_approval_keeps_planning() {
        let again = "the user wants to keep planning; revise the plan and present it again";
        let other = Answer { id: "other".to_owned(), ..answer(&[APPROVE], None) };
        let cases = [
            (vec![answer(&[APPROVE], Some("but rename it"))], "but rename it"),
            (vec![answer(&[], Some("x"))], "says: x"),
            (vec![answer(&[KEEP], Some(" "))], again),
            (vec![answer(&[KEEP], None)], again),
            (vec![answer(&[APPROVE], None), answer(&[APPROVE], None)], again),
            (vec![other], again),
            (Vec::new(), again),
        ];
        for (answers, message) in cases {
            let ran = present(Ok(answers)).await;
            assert_eq!(ran.code(), "plain");
            assert!(ran.text().ends_with(message), "{}", ran.text());
        }
    }

    #[tokio::test]
    async fn a_review_without_an_answer_says_why() {
        assert!(present(Err(QuestionError::Cancelled)).await.text().contains("stop here and wait"));
        assert_eq!(present(Err(QuestionError::Aborted)).await.code(), "ASK_ABORTED");
        assert_eq!(present(Err(QuestionError::NoProvider("no".to_owned()))).await.code(), "NO_PROVIDER");
    }

    #[tokio::test]
    async fn a_plan_that_cannot_be_reviewed_asks_nobody() {
        let mut bench = Bench::new();
        let ran = bench.call("exit_plan_mode", json!({ "plan": PLAN })).await;
        assert!(ran.text().contains("only available in plan mode"), "{}", ran.text());
        bench.session.host.set_mode(Mode::Plan);
        for plan in ["", "plan", "## Low", "#Tight", "# ", "text\n# Late"] {
            let ran = bench.call("exit_plan_mode", json!({ "plan": plan })).await;
            assert!(ran.text().contains("must begin with a heading"), "{plan}: {}", ran.text());
        }
        assert_eq!(bench.call("exit_plan_mode", json!({})).await.code(), "INVALID_ARGS");
        bench.session.scope.delegation_depth = 1;
        let ran = bench.call("exit_plan_mode", json!({ "plan": PLAN })).await;
        assert_eq!(ran.code(), "DELEGATED_CALLER");
        bench.session.scope.delegation_depth = 0;
        bench.session.scope.services.questions = None;
        let ran = bench.call("exit_plan_mode", json!({ "plan": PLAN })).await;
        assert!(ran.text().contains("ask the user to switch the mode"), "{}", ran.text());
        assert!(bench.world().questions.asked().is_empty());
    }

    #[test]
    fn the_card_is_named_by_the_first_heading_and_shows_the_plan() {
        let bench = Bench::new();
        for (plan, expected) in [(PLAN, "Move it"), ("text\n### Deep", "Deep"), ("####### seven", "Plan")] {
            let card = bench.call_card("exit_plan_mode", json!({ "plan": plan }));
            assert_eq!(card.title(), expected);
            let CallCard::Generic(card) = card else { panic!("{card:?}") };
            assert_eq!(card.content, [ContentBlock::text(plan)]);
        }
    }
}
