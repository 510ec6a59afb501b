//! `update_goal`: changes the session's goal, or says that it is reached or blocked.

use super::{BLOCKED_AFTER_ROUNDS, GoalOutput, failure, goals, needs_human, positive};
use async_trait::async_trait;
use pipeline::context::ToolContext;
use pipeline::tool::Effect;
use pipeline::typed::TypedTool;
use protocol::card::{CallCard, GenericCall, ToolCallKind};
use protocol::content::ContentBlock;
use protocol::goal::{GoalBlocker, GoalRef};
use protocol::id::MessageId;
use protocol::message::{ContextForm, MessageSource, UserMessage};
use protocol::tool::ToolFailure;
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::Value;
use services::goals::{GoalAuthority, GoalError, GoalStep, GoalView};

/// Arguments of `update_goal`.
#[derive(Debug, Deserialize, JsonSchema)]
pub struct UpdateGoalArgs {
    /// Id of the goal, as get_goal told it.
    goal_id: String,
    /// Its revision, as get_goal told it; a positive whole number.
    revision: f64,
    /// edit (objective, rounds), pause, resume, complete (it is reached) or blocked (something stands in its way).
    action: Action,
    /// The new objective; only with edit.
    objective: Option<String>,
    /// The new most rounds, a positive whole number; only with edit.
    max_goal_rounds: Option<f64>,
    /// What stands in the way and what would help; only with blocked, where it is required.
    blocked_reason: Option<String>,
}

/// What is done.
#[derive(Clone, Copy, Debug, PartialEq, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
#[schemars(description = "")]
pub enum Action {
    Edit,
    Pause,
    Resume,
    Complete,
    Blocked,
}

/// The tool.
pub struct UpdateGoal;

#[async_trait]
impl TypedTool for UpdateGoal {
    type Args = UpdateGoalArgs;
    type Output = GoalOutput;

    const NAME: &'static str = "update_goal";

    fn description(&self) -> String {
        format!(
            "Changes the session's goal. goal_id and revision are those get_goal told last; others are refused. edit, pause \
             and resume only when the user asks for it in this turn; resume is also what lets a disarmed goal go on. \
             complete only when the objective is reached and verified, blocked only when the same obstacle has stopped \
             you for at least {BLOCKED_AFTER_ROUNDS} rounds in a row, or when the user says so; both are open to the rounds \
             of the goal. Leave out the fields that the action does not use."
        )
    }

    fn effect(&self, _args: &UpdateGoalArgs) -> Effect {
        Effect::None
    }

    async fn execute(&self, args: UpdateGoalArgs, ctx: &ToolContext) -> Result<GoalOutput, ToolFailure> {
        let (goals, authority) = goals(ctx)?;
        let revision = positive(args.revision);
        let (false, true, Some(revision)) =
            (args.goal_id.is_empty(), args.goal_id.trim() == args.goal_id, revision)
        else {
            return Err(invalid("goal_id and revision must be those that get_goal told"));
        };
        let reference = GoalRef { id: args.goal_id.clone(), revision };
        let by_round = match args.action {
            Action::Edit | Action::Pause | Action::Resume => {
                needs_human(authority)?;
                false
            }
            Action::Complete | Action::Blocked => closes(authority)?,
        };
        let step = args.step()?;
        if by_round && args.action == Action::Blocked {
            let n_rounds = goals.current().ok_or(GoalError::NotFound)?.rounds_started;
            if n_rounds < BLOCKED_AFTER_ROUNDS {
                return Err(failure(
                    "BLOCK_THRESHOLD",
                    &format!(
                        "this is round {n_rounds}; a goal counts as blocked from round {BLOCKED_AFTER_ROUNDS} on, when the \
                         same obstacle is still there. Try another way"
                    ),
                ));
            }
        }
        let view = goals.change(&reference, step)?;
        if by_round {
            ctx.defer_context(wrap_up(&view, ctx));
        }
        Ok(Some(view).into())
    }

    fn render(&self, _args: &UpdateGoalArgs, output: &GoalOutput) -> Vec<ContentBlock> {
        output.render()
    }

    fn present_call(&self, args: &UpdateGoalArgs) -> Option<CallCard> {
        let title = match args.action {
            Action::Edit => "Edit goal",
            Action::Pause => "Pause goal",
            Action::Resume => "Resume goal",
            Action::Complete => "Complete goal",
            Action::Blocked => "Mark goal blocked",
        };
        let text = |text: &Option<String>| text.clone().filter(|text| !text.is_empty()).map(Value::from);
        let rounds = args.max_goal_rounds.filter(|rounds| *rounds != 0.0).map(Value::from);
        let raw_input = text(&args.blocked_reason)
            .or_else(|| text(&args.objective))
            .or(rounds)
            .unwrap_or_else(|| args.goal_id.clone().into());
        Some(CallCard::Generic(GenericCall {
            title: title.to_owned(),
            kind: ToolCallKind::Other,
            raw_input: Some(raw_input),
            ..GenericCall::default()
        }))
    }
}

impl UpdateGoalArgs {
    /// The step asked for; empty texts and a zero count as left out.
    fn step(&self) -> Result<GoalStep, ToolFailure> {
        let said = |text: &Option<String>| text.clone().filter(|text| !text.is_empty());
        let (objective, reason) = (said(&self.objective), said(&self.blocked_reason));
        let rounds = self.max_goal_rounds.filter(|rounds| *rounds != 0.0);
        if self.action != Action::Edit && (objective.is_some() || rounds.is_some()) {
            return Err(invalid("objective and max_goal_rounds go with edit only"));
        }
        if self.action != Action::Blocked && reason.is_some() {
            return Err(invalid("blocked_reason goes with blocked only"));
        }
        Ok(match self.action {
            Action::Edit => {
                let max_rounds = match rounds {
                    Some(rounds) => Some(positive(rounds).ok_or(GoalError::InvalidMaxRounds)?),
                    None => None,
                };
                GoalStep::Edit { objective, max_rounds }
            }
            Action::Pause => GoalStep::Pause,
            Action::Resume => GoalStep::Resume,
            Action::Complete => GoalStep::Complete,
            Action::Blocked => {
                let message = reason.filter(|reason| !reason.trim().is_empty());
                let message = message
                    .ok_or_else(|| invalid("blocked needs a blocked_reason that says what is in the way"))?;
                GoalStep::Block(GoalBlocker { code: "model-reported".to_owned(), message })
            }
        })
    }
}

/// Whether the goal's own round, and not a person, says how it ended.
fn closes(authority: GoalAuthority) -> Result<bool, ToolFailure> {
    if !authority.round {
        needs_human(authority)?;
    }
    Ok(!authority.human)
}

fn invalid(message: &str) -> ToolFailure {
    failure("INVALID_UPDATE", message)
}

/// Asks for the closing words of a goal that its own round ended.
fn wrap_up(view: &GoalView, ctx: &ToolContext) -> UserMessage {
    let quoted = |text: &str| Value::from(text).to_string().replace('<', "\\u003c");
    let objective = quoted(&view.goal.objective);
    let (block, blocker) = match &view.goal.blocked_reason {
        Some(blocker) => ("goal_blocked", format!("Blocked by (JSON): {}\n", quoted(&blocker.message))),
        None => ("goal_complete", String::new()),
    };
    let text = format!(
        "<{block}>\nObjective (JSON): {objective}\n{blocker}The goal has ended, and no further round follows. Write a closing \
         message to the user: what was done, what the evidence is, what is left. Say only what this session shows, and call \
         no further tools.\n</{block}>"
    );
    UserMessage {
        id: MessageId::new(format!("msg_{}", ctx.services().clock.fresh_id())),
        content: vec![ContentBlock::text(text)],
        source: MessageSource::Plugin { plugin: "tool-goal".to_owned(), form: ContextForm::Notice },
    }
}

#[cfg(test)]
mod tests {
    use crate::testing::{Bench, Ran};
    use serde_json::{Value, json};
    use services::goals::{GoalAuthority, Goals};

    async fn bench() -> Bench {
        let bench = Bench::new();
        bench.call("create_goal", json!({"objective": "ship"})).await;
        bench
    }

    async fn update(bench: &Bench, action: &str, more: Value) -> Ran {
        let revision = bench.world().goals.current().map_or(1, |view| view.goal.revision);
        let mut arguments = json!({"goal_id": "goal-1", "revision": revision, "action": action});
        for (name, value) in more.as_object().into_iter().flatten() {
            arguments[name] = value.clone();
        }
        bench.call("update_goal", arguments).await
    }

    #[tokio::test]
    async fn a_field_that_the_action_does_not_use_is_refused_and_filler_is_not() {
        let bench = bench().await;
        let cases = [
            ("pause", json!({"objective": "x"})),
            ("resume", json!({"max_goal_rounds": 3})),
            ("complete", json!({"blocked_reason": "x"})),
            ("edit", json!({"objective": "x", "blocked_reason": "y"})),
            ("blocked", json!({})),
            ("blocked", json!({"blocked_reason": " "})),
            ("pause", json!({"goal_id": "", "revision": 0})),
            ("pause", json!({"goal_id": " goal-1"})),
            ("pause", json!({"revision": 1.5})),
        ];
        for (action, more) in cases {
            assert_eq!(
                update(&bench, action, more.clone()).await.code(),
                "GOAL_TOOL_INVALID_UPDATE",
                "{more}"
            );
        }
        let filler = json!({"objective": "", "max_goal_rounds": 0, "blocked_reason": ""});
        let ran = update(&bench, "pause", filler).await;
        let expected = json!({"goal": {"id": "goal-1", "revision": 2, "objective": "ship", "phase": "paused",
            "roundsStarted": 0, "maxGoalRounds": 256}, "activation": "disarmed"});
        assert_eq!(*ran.value(), expected);
        assert_eq!(update(&bench, "resume", json!({})).await.value()["activation"], "armed");
        let edited = update(&bench, "edit", json!({"objective": "more", "max_goal_rounds": 9})).await;
        assert_eq!(edited.value()["goal"]["maxGoalRounds"], 9);
        assert_eq!(update(&bench, "edit", json!({})).await.code(), "GOAL_INVALID_EDIT");
        assert_eq!(
            update(&bench, "edit", json!({"max_goal_rounds": -1})).await.code(),
            "GOAL_INVALID_MAX_ROUNDS"
        );
    }

    #[tokio::test]
    async fn a_goal_that_changed_meanwhile_or_is_not_there_is_not_changed() {
        let bench = bench().await;
        assert_eq!(update(&bench, "pause", json!({"revision": 7})).await.code(), "GOAL_STALE_REVISION");
        assert_eq!(update(&bench, "pause", json!({"goal_id": "goal-9"})).await.code(), "GOAL_STALE_REVISION");
        assert_eq!(update(&Bench::new(), "pause", json!({})).await.code(), "GOAL_NOT_FOUND");
    }

    #[tokio::test]
    async fn a_round_may_call_the_goal_blocked_from_the_third_on_and_a_person_always() {
        let reason = || json!({"blocked_reason": " no network "});
        let bench = bench().await;
        bench.world().goals.begin_round();
        bench.world().goals.begin_round();
        assert_eq!(update(&bench, "blocked", reason()).await.code(), "GOAL_TOOL_BLOCK_THRESHOLD");
        bench.world().goals.begin_round();
        let ran = update(&bench, "blocked", reason()).await;
        let blocker = json!({"code": "model-reported", "message": "no network"});
        assert_eq!(ran.value()["goal"]["blockedReason"], blocker);
        let told = ran.contexts[0].content[0].as_text().unwrap();
        assert!(
            told.starts_with(
                "<goal_blocked>\nObjective (JSON): \"ship\"\nBlocked by (JSON): \"no network\"\n"
            )
        );

        let bench = self::bench().await;
        let ran = update(&bench, "blocked", reason()).await;
        assert_eq!((ran.code(), ran.contexts.len()), ("ok", 0));
    }

    #[tokio::test]
    async fn a_round_may_end_the_goal_and_nothing_else() {
        let bench = bench().await;
        bench.world().goals.begin_round();
        for action in ["edit", "pause", "resume"] {
            let ran = update(&bench, action, json!({"objective": "x"})).await;
            assert_eq!(ran.code(), "GOAL_TOOL_AUTHORITY_REQUIRED", "{action}");
        }
        let ran = update(&bench, "complete", json!({})).await;
        assert_eq!(ran.value()["goal"]["phase"], "complete");
        let told = ran.contexts[0].content[0].as_text().unwrap();
        assert!(told.starts_with("<goal_complete>\nObjective (JSON): \"ship\"\n"), "{told}");

        let bench = self::bench().await;
        assert_eq!(update(&bench, "complete", json!({})).await.contexts, []);
        bench.world().goals.set_authority(Some(GoalAuthority::default()));
        assert_eq!(update(&bench, "complete", json!({})).await.code(), "GOAL_TOOL_AUTHORITY_REQUIRED");
    }

    #[test]
    fn cards_show_what_is_done_and_the_first_thing_that_was_said() {
        let bench = Bench::new();
        let card = |action: &str, more: Value| {
            let mut arguments = json!({"goal_id": "g", "revision": 1, "action": action});
            for (name, value) in more.as_object().into_iter().flatten() {
                arguments[name] = value.clone();
            }
            match bench.call_card("update_goal", arguments) {
                protocol::card::CallCard::Generic(card) => (card.title, card.raw_input.unwrap()),
                other => panic!("{other:?}"),
            }
        };
        assert_eq!(card("pause", json!({"objective": ""})), ("Pause goal".into(), json!("g")));
        assert_eq!(card("edit", json!({"max_goal_rounds": 3})), ("Edit goal".into(), json!(3.0)));
        assert_eq!(card("edit", json!({"objective": "o"})), ("Edit goal".into(), json!("o")));
        let blocked = card("blocked", json!({"blocked_reason": "b"}));
        assert_eq!(blocked, ("Mark goal blocked".into(), json!("b")));
        assert_eq!(card("resume", json!({})).0, "Resume goal");
        assert_eq!(card("complete", json!({})).0, "Complete goal");
    }
}
