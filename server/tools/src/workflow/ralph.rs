//! `ralph`: one objective, worked on in rounds, each by an agent that knows only the report of the one before.
//!
//! The loop is ours, not the model's; the workspace is what the rounds share. Source: `spec/tools-agentic.md` §11.

use super::cut;
use super::progress::{Progress, Stage};
use super::run::Journal;
use crate::arguments::{as_positive_integer, not_blank};
use crate::subagent::subagents;
use async_trait::async_trait;
use pipeline::context::ToolContext;
use pipeline::tool::{Effect, PromptSection};
use pipeline::typed::TypedTool;
use protocol::card::{CallCard, GenericCall, ToolCallKind};
use protocol::content::ContentBlock;
use protocol::event::AgentOutcome;
use protocol::tool::ToolFailure;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use services::subagents::{ChildStop, NewChild, Subagents};

/// Most rounds. Source: `spec/tools-agentic.md` §11.
const MAX_ROUNDS: u64 = 64;
/// Longest report that a round hands to the next, in characters of JSON.
const MAX_HANDOFF_CHARS: usize = 16_384;
/// Most of the result that the model reads, in characters.
const MAX_RESULT_CHARS: usize = 16_384;

/// Arguments of `ralph`.
#[derive(Debug, Deserialize, JsonSchema)]
pub struct RalphArgs {
    /// What is to be reached, and how to tell that it is; it stays the same in all rounds. The agents see nothing of this
    /// conversation.
    objective: String,
    /// Most rounds, from 1 to 64; default 64.
    #[serde(rename = "maxRounds")]
    max_rounds: Option<f64>,
}

/// How a round ended, in its agent's words.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum ReportStatus {
    /// There is more to do.
    Continue,
    /// The objective is reached.
    Complete,
    /// It cannot be reached without help.
    Blocked,
}

/// What a round hands over.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Report {
    /// How the round ended.
    status: ReportStatus,
    /// What was done.
    summary: String,
    /// What shows that it was.
    evidence: Vec<String>,
    /// What to do next.
    next_steps: Vec<String>,
    /// What is in the way; empty when nothing is.
    blocker: String,
}

impl Report {
    /// The report of a child, trimmed.
    ///
    /// # Errors
    /// What of it does not fit its status.
    fn taken(value: Value) -> Result<Self, String> {
        let mut report: Self = serde_json::from_value(value).map_err(|error| error.to_string())?;
        let texts = [&mut report.summary, &mut report.blocker].into_iter();
        for text in texts.chain(&mut report.evidence).chain(&mut report.next_steps) {
            *text = text.trim().to_owned();
        }
        let Self { status, summary, evidence, next_steps, blocker } = &report;
        let rules = [
            (summary.is_empty(), "the summary is empty"),
            (evidence.iter().chain(next_steps).any(String::is_empty), "an entry of a list is empty"),
            (*status == ReportStatus::Continue && next_steps.is_empty(), "it goes on without next steps"),
            (*status == ReportStatus::Complete && evidence.is_empty(), "it is complete without evidence"),
            (
                *status == ReportStatus::Complete && !next_steps.is_empty(),
                "it is complete and has next steps",
            ),
            (*status == ReportStatus::Blocked && blocker.is_empty(), "it is blocked by nothing"),
            (*status != ReportStatus::Blocked && !blocker.is_empty(), "it has a blocker and is not blocked"),
            (
                serde_json::to_string(&report).unwrap_or_default().chars().count() > MAX_HANDOFF_CHARS,
                "it is longer than 16384 characters",
            ),
        ];
        let broken = rules.into_iter().find(|(is_broken, _)| *is_broken);
        broken.map_or_else(|| Ok(report.clone()), |(_, why)| Err(why.to_owned()))
    }
}

/// Why the rounds ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum RalphStatus {
    /// The objective is reached, as the last agent says.
    Complete,
    /// The last agent needs help.
    Blocked,
    /// There were no more rounds.
    BudgetLimited,
}

/// What came out of all rounds.
#[derive(Debug, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct RalphOutput {
    /// The run.
    run_id: String,
    /// How many agents were started.
    agents_started: u64,
    /// How it ended.
    result: RalphResult,
}

/// How the rounds ended.
#[derive(Debug, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct RalphResult {
    /// Why they ended.
    status: RalphStatus,
    /// How many there were.
    rounds_started: u64,
    /// The last report.
    report: Report,
}

/// The tool.
pub struct Ralph;

#[async_trait]
impl TypedTool for Ralph {
    type Args = RalphArgs;
    type Output = RalphOutput;

    const NAME: &'static str = "ralph";

    fn description(&self) -> String {
        "Works on one objective in rounds, until it is reached, blocked, or the rounds are used up. Each round is a fresh agent \
         with the same tools; it gets the objective and the report of the round before, and finds everything else in the \
         workspace. Gives the last report, which is what its agent says of itself: check it. Use it only when the user asks \
         for it."
            .to_owned()
    }

    fn is_concurrency_safe(&self, _args: &RalphArgs) -> bool {
        false
    }

    fn effect(&self, _args: &RalphArgs) -> Effect {
        // What the agents do is asked about by the agents.
        Effect::None
    }

    async fn execute(&self, args: RalphArgs, ctx: &ToolContext) -> Result<RalphOutput, ToolFailure> {
        not_blank("objective", &args.objective)?;
        let max_rounds = match args.max_rounds {
            None => MAX_ROUNDS,
            Some(wanted) => {
                as_positive_integer(wanted).filter(|rounds| *rounds <= MAX_ROUNDS).ok_or_else(|| {
                    ToolFailure::plain(format!(
                        "maxRounds must be an integer from 1 to {MAX_ROUNDS}, not {wanted}"
                    ))
                })?
            }
        };
        let family = subagents(ctx)?;
        if ctx.cancel.is_cancelled() {
            return Err(ToolFailure::aborted());
        }
        let mut rounds = Rounds {
            family,
            ctx,
            journal: Journal::begin(ctx, "ralph"),
            progress: Progress::default(),
            n_started: 0,
        };
        let ended = rounds.run(args.objective.trim(), max_rounds).await;
        let Rounds { journal, n_started, .. } = rounds;
        let run_id = journal.run_id.clone();
        if ctx.cancel.is_cancelled() {
            journal.end("cancelled");
            return Err(ToolFailure::aborted());
        }
        journal.end(if ended.is_ok() { "completed" } else { "error" });
        let (status, report) = ended?;
        let result = RalphResult { status, rounds_started: n_started, report };
        Ok(RalphOutput { run_id, agents_started: n_started, result })
    }

    fn render(&self, _args: &RalphArgs, output: &RalphOutput) -> Vec<ContentBlock> {
        let RalphResult { status, rounds_started, report } = &output.result;
        let rounds = if *rounds_started == 1 { "round" } else { "rounds" };
        let status = match status {
            RalphStatus::Complete => "complete, as its last agent reports,",
            RalphStatus::Blocked => "blocked",
            RalphStatus::BudgetLimited => "not complete: the rounds are used up",
        };
        let report = serde_json::to_string_pretty(report).unwrap_or_default();
        let text = format!("The objective is {status} after {rounds_started} {rounds}.\n\n{report}");
        vec![ContentBlock::text(cut(text, MAX_RESULT_CHARS))]
    }

    fn present_call(&self, args: &RalphArgs) -> Option<CallCard> {
        Some(CallCard::Generic(GenericCall {
            title: format!("Ralph: {}", args.objective),
            kind: ToolCallKind::Think,
            raw_input: Some(json!(args.objective)),
            ..GenericCall::default()
        }))
    }

    fn section(&self) -> Option<PromptSection> {
        Some(PromptSection {
            name: "tool:ralph".to_owned(),
            order_tenths: 1160,
            text: "`ralph` is for when the user asks for it, in so many words. What it gives is a report of an agent about its own \
                   work: say so, and check what matters."
                .to_owned(),
        })
    }
}

struct Rounds<'a> {
    family: &'a dyn Subagents,
    ctx: &'a ToolContext,
    journal: Journal<'a>,
    progress: Progress,
    n_started: u64,
}

impl Rounds<'_> {
    async fn run(&mut self, objective: &str, max_rounds: u64) -> Result<(RalphStatus, Report), ToolFailure> {
        self.progress.enter("Rounds");
        let mut last: Option<Report> = None;
        for round in 1..=max_rounds {
            match self.round(objective, round, max_rounds, last.as_ref()).await {
                Err(why) => {
                    let handoff = match &last {
                        None => "No round before it has reported.".to_owned(),
                        Some(report) => format!("The last report:\n{}", pretty(report)),
                    };
                    let message = format!("Round {round} has no report: {why}. {handoff}");
                    return Err(ToolFailure::plain(cut(message, MAX_RESULT_CHARS)));
                }
                Ok(report) => match report.status {
                    ReportStatus::Complete => return Ok((RalphStatus::Complete, report)),
                    ReportStatus::Blocked => return Ok((RalphStatus::Blocked, report)),
                    ReportStatus::Continue if round == max_rounds => {
                        return Ok((RalphStatus::BudgetLimited, report));
                    }
                    ReportStatus::Continue => last = Some(report),
                },
            }
        }
        Err(ToolFailure::plain("there are no rounds"))
    }

    /// One round, by a fresh agent.
    async fn round(
        &mut self,
        objective: &str,
        round: u64,
        max_rounds: u64,
        last: Option<&Report>,
    ) -> Result<Report, String> {
        let label = format!("Ralph round {round}");
        let phase = "Rounds".to_owned();
        self.n_started = round;
        self.progress.add(Some(&phase), &label);
        self.show(round, Stage::Running);
        self.journal.agent_starts(round, &label, Some(phase));
        let child = NewChild {
            label,
            prompt: prompt(objective, round, max_rounds, last),
            deny: Some(vec![Ralph::NAME.to_owned()]),
            output_schema: Some(report_schema()),
            ..NewChild::default()
        };
        let end = self.family.run(child, &self.ctx.cancel).await;
        let child_id = end.as_ref().ok().map(|end| end.session.clone());
        let report = match end {
            Err(error) => Err(format!("its agent could not be started: {error}")),
            Ok(end) => match (end.stop, end.value) {
                (ChildStop::Completed, Some(value)) => {
                    Report::taken(value).map_err(|why| format!("its report does not hold together: {why}"))
                }
                (stop, _) => {
                    let why = end.diagnostic.map(|why| format!(" ({why})")).unwrap_or_default();
                    Err(format!("its agent {}{why}", stop.word()))
                }
            },
        };
        let (outcome, stage) = match &report {
            Ok(_) => (AgentOutcome::Completed, Stage::Done),
            Err(_) if self.ctx.cancel.is_cancelled() => (AgentOutcome::Cancelled, Stage::Stopped),
            Err(_) => (AgentOutcome::Failed, Stage::Failed),
        };
        self.journal.agent_ended(round, outcome, child_id);
        if let Ok(report) = &report {
            self.progress.note(&report.summary);
        }
        self.show(round, stage);
        report
    }

    fn show(&mut self, round: u64, stage: Stage) {
        self.progress.set(round, stage);
        self.journal.show(self.progress.markdown());
    }
}

fn pretty(report: &Report) -> String {
    serde_json::to_string_pretty(report).unwrap_or_default()
}

fn prompt(objective: &str, round: u64, max_rounds: u64, last: Option<&Report>) -> String {
    let last = last.map_or_else(|| "none: this is the first round".to_owned(), pretty);
    format!(
        "You are a fresh agent that works on one round, {round} of at most {max_rounds}, of a longer work. Nobody remembers the \
         rounds before yours, and the next agent will not remember yours: the workspace is the memory, and what is in it is what \
         is true. Do not call ralph.\n\n\
         The objective, which no round changes:\n{objective}\n\n\
         The report of the round before:\n{last}\n\n\
         Look at the workspace first. Do one part of the work well, check it, and leave the workspace in order. Then report with \
         structured_output:\n\
         - status: \"continue\" when there is more to do, \"complete\" when you have checked that the objective is reached, \
         \"blocked\" when it cannot be reached without help.\n\
         - summary: what you did.\n\
         - evidence: what shows it, for instance commands with their results; needed for \"complete\".\n\
         - nextSteps: what is to be done next; needed for \"continue\", empty for \"complete\".\n\
         - blocker: what is in the way for \"blocked\", else an empty text."
    )
}

fn report_schema() -> Value {
    let list = json!({ "type": "array", "items": { "type": "string" } });
    json!({
        "type": "object",
        "additionalProperties": false,
        "properties": {
            "status": { "type": "string", "enum": ["continue", "complete", "blocked"] },
            "summary": { "type": "string" },
            "evidence": list,
            "nextSteps": list,
            "blocker": { "type": "string" }
        },
        "required": ["status", "summary", "evidence", "nextSteps", "blocker"]
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{Bench, Ran};
    use protocol::event::SessionEvent;
    use services::fake::FakeSubagents;
    use services::subagents::{ChildEnd, SubagentError};

    fn report(status: &str) -> Value {
        json!({
            "status": status,
            "summary": " Did a part. ",
            "evidence": if status == "complete" { json!(["cargo test: ok"]) } else { json!([]) },
            "nextSteps": if status == "continue" { json!(["The next part."]) } else { json!([]) },
            "blocker": if status == "blocked" { "no key" } else { "" }
        })
    }

    fn reported(value: Value) -> Result<ChildEnd, SubagentError> {
        Ok(ChildEnd { value: Some(value), ..FakeSubagents::end(ChildStop::Completed, "") })
    }

    async fn rounds(bench: &Bench, max_rounds: Value, ends: Vec<Result<ChildEnd, SubagentError>>) -> Ran {
        ends.into_iter().for_each(|end| bench.world().subagents.ends(end));
        bench.call("ralph", json!({ "objective": " Port it. ", "maxRounds": max_rounds })).await
    }

    #[tokio::test]
    async fn rounds_end_when_they_are_complete_blocked_or_used_up() {
        let cases = [
            (
                vec!["complete"],
                "complete",
                "The objective is complete, as its last agent reports, after 1 round.",
            ),
            (vec!["continue", "blocked"], "blocked", "The objective is blocked after 2 rounds."),
            (
                vec!["continue", "continue"],
                "budget-limited",
                "The objective is not complete: the rounds are used up after 2 rounds.",
            ),
        ];
        for (statuses, status, text) in cases {
            let bench = Bench::new();
            let n = statuses.len();
            let ran =
                rounds(&bench, json!(2), statuses.iter().map(|status| reported(report(status))).collect())
                    .await;
            let result = &ran.value()["result"];
            assert_eq!((&result["status"], &result["roundsStarted"]), (&json!(status), &json!(n)));
            assert_eq!(ran.value()["agentsStarted"], n);
            assert_eq!(result["report"]["summary"], "Did a part.");
            assert!(ran.text().starts_with(text), "{}", ran.text());
        }
    }

    #[tokio::test]
    async fn each_round_knows_the_objective_and_only_the_report_before() {
        let bench = Bench::new();
        let reports = ["continue", "continue", "complete"].map(|status| reported(report(status)));
        rounds(&bench, json!(5), reports.into()).await;
        let started = bench.world().subagents.started();
        let labels: Vec<&str> = started.iter().map(|child| child.label.as_str()).collect();
        assert_eq!(labels, ["Ralph round 1", "Ralph round 2", "Ralph round 3"]);
        for (idx, child) in started.iter().enumerate() {
            assert!(child.prompt.contains("\nPort it.\n"), "{}", child.prompt);
            assert!(child.prompt.contains(&format!("{} of at most 5", idx + 1)), "{}", child.prompt);
            assert_eq!(child.prompt.matches("Did a part.").count(), usize::from(idx > 0));
            assert_eq!(child.prompt.contains("none: this is the first round"), idx == 0);
            assert_eq!((child.is_fork, child.deny.clone()), (false, Some(vec!["ralph".to_owned()])));
            protocol::schema::check_object(child.output_schema.as_ref().unwrap()).unwrap();
        }
        let kinds: Vec<String> = bench
            .session
            .host
            .events()
            .iter()
            .map(|event| serde_json::to_value(event).unwrap()["type"].as_str().unwrap().to_owned())
            .collect();
        assert_eq!(kinds.len(), 8, "{kinds:?}");
        assert_eq!(
            (kinds[0].as_str(), kinds[7].as_str()),
            ("tool-workflow/run-start", "tool-workflow/run-end")
        );
        assert!(bench.session.host.events().iter().all(SessionEvent::ignorable));
    }

    #[tokio::test]
    async fn a_round_without_a_report_fails_with_the_last_one() {
        let cases = [
            (vec![], "Round 1 has no report: its agent failed. No round before it has reported."),
            (
                vec![reported(report("continue"))],
                "Round 2 has no report: its agent failed. The last report:\n{",
            ),
        ];
        for (mut ends, message) in cases {
            let bench = Bench::new();
            ends.push(Ok(FakeSubagents::end(ChildStop::Error, "half")));
            let ran = rounds(&bench, json!(3), ends).await;
            assert!(ran.failure().message.starts_with(message), "{}", ran.failure().message);
        }
        let bench = Bench::new();
        let ran = rounds(&bench, json!(3), vec![Err(SubagentError::TooMany)]).await;
        assert!(ran.failure().message.contains("could not be started: 64 agents live"), "{:?}", ran.value);
    }

    #[tokio::test]
    async fn a_report_must_hold_together() {
        let with = |status: &str, member: &str, value: Value| {
            let mut report = report(status);
            report[member] = value;
            report
        };
        let cases = [
            (with("continue", "nextSteps", json!([])), "it goes on without next steps"),
            (with("continue", "blocker", json!("x")), "it has a blocker and is not blocked"),
            (with("complete", "evidence", json!([])), "it is complete without evidence"),
            (with("complete", "nextSteps", json!(["x"])), "it is complete and has next steps"),
            (with("blocked", "blocker", json!("  ")), "it is blocked by nothing"),
            (with("blocked", "summary", json!(" ")), "the summary is empty"),
            (with("blocked", "evidence", json!([" "])), "an entry of a list is empty"),
            (with("blocked", "summary", json!("x".repeat(16_384))), "it is longer than 16384 characters"),
            (with("blocked", "summary", json!(1)), "invalid type: integer `1`, expected a string"),
        ];
        for (value, why) in cases {
            assert_eq!(Report::taken(value), Err(why.to_owned()));
        }
        let ran =
            rounds(&Bench::new(), json!(1), vec![reported(with("complete", "evidence", json!([])))]).await;
        assert!(ran.failure().message.contains("does not hold together: it is complete without evidence"));
    }

    #[tokio::test]
    async fn wrong_arguments_start_nobody() {
        let bench = Bench::new();
        for arguments in [
            json!({ "objective": " \n" }),
            json!({ "objective": "x", "maxRounds": 0 }),
            json!({ "objective": "x", "maxRounds": 1.5 }),
            json!({ "objective": "x", "maxRounds": 65 }),
        ] {
            assert_eq!(bench.call("ralph", arguments).await.code(), "plain");
        }
        assert_eq!(bench.world().subagents.started(), []);
        assert_eq!(bench.session.host.entries(), []);
        assert_eq!(bench.call_card("ralph", json!({ "objective": "Port it." })).title(), "Ralph: Port it.");
    }
}
