//! `create_goal`: begins the session's goal.

use super::{GoalOutput, goals, needs_human, positive};
use async_trait::async_trait;
use pipeline::context::ToolContext;
use pipeline::tool::Effect;
use pipeline::typed::TypedTool;
use protocol::card::{CallCard, GenericCall, ToolCallKind};
use protocol::content::ContentBlock;
use protocol::tool::ToolFailure;
use schemars::JsonSchema;
use serde::Deserialize;
use services::goals::GoalError;

/// Arguments of `create_goal`.
#[derive(Debug, Deserialize, JsonSchema)]
pub struct CreateGoalArgs {
    /// What is to be reached, complete and in the user's sense: it is all that later rounds are told.
    objective: String,
    /// Most rounds the session may begin by itself for it; a positive whole number. Default 256. Only when the user names a
    /// limit.
    max_goal_rounds: Option<f64>,
}

/// The tool.
pub struct CreateGoal;

#[async_trait]
impl TypedTool for CreateGoal {
    type Args = CreateGoalArgs;
    type Output = GoalOutput;

    const NAME: &'static str = "create_goal";

    fn description(&self) -> String {
        "Begins the session's goal: a long-running objective on which the session goes on by itself after your turn, round \
         after round, until it is complete, blocked, paused or out of rounds. Only when the user asks for work that goes \
         on like this; not for an ordinary task. There is one goal at most: a second fails while the first is not \
         complete. Only in a turn that the user opened."
            .to_owned()
    }

    fn effect(&self, _args: &CreateGoalArgs) -> Effect {
        Effect::None
    }

    async fn execute(&self, args: CreateGoalArgs, ctx: &ToolContext) -> Result<GoalOutput, ToolFailure> {
        let (goals, authority) = goals(ctx)?;
        needs_human(authority)?;
        let max_rounds = match args.max_goal_rounds {
            Some(rounds) => Some(positive(rounds).ok_or(GoalError::InvalidMaxRounds)?),
            None => None,
        };
        Ok(Some(goals.create(&args.objective, max_rounds)?).into())
    }

    fn render(&self, _args: &CreateGoalArgs, output: &GoalOutput) -> Vec<ContentBlock> {
        output.render()
    }

    fn present_call(&self, args: &CreateGoalArgs) -> Option<CallCard> {
        Some(CallCard::Generic(GenericCall {
            title: "Create goal".to_owned(),
            kind: ToolCallKind::Other,
            raw_input: Some(args.objective.clone().into()),
            ..GenericCall::default()
        }))
    }
}

#[cfg(test)]
mod tests {
    use crate::testing::Bench;
    use serde_json::json;
    use services::goals::{GoalAuthority, GoalError, GoalStep, Goals};

    #[tokio::test]
    async fn a_new_goal_is_armed_and_there_is_one_at_a_time() {
        let bench = Bench::new();
        assert_eq!(bench.call("get_goal", json!({})).await.text(), r#"{"goal":null}"#);
        let ran = bench.call("create_goal", json!({"objective": " ship it "})).await;
        let expected = concat!(
            r#"{"goal":{"id":"goal-1","revision":1,"objective":"ship it","phase":"active","roundsStarted":0,"#,
            r#""maxGoalRounds":256},"activation":"armed"}"#
        );
        assert_eq!(ran.text(), expected);
        assert_eq!(bench.call("get_goal", json!({})).await.text(), expected);
        let again = json!({"objective": "other", "max_goal_rounds": 2});
        assert_eq!(bench.call("create_goal", again.clone()).await.code(), "GOAL_ALREADY_EXISTS");
        let goals = &bench.world().goals;
        let view = goals.current().ok_or(GoalError::NotFound).unwrap();
        let reference = protocol::goal::GoalRef { id: view.goal.id, revision: 1 };
        goals.change(&reference, GoalStep::Complete).unwrap();
        assert_eq!(bench.call("create_goal", again).await.value()["goal"]["maxGoalRounds"], 2);
    }

    #[tokio::test]
    async fn what_is_no_goal_is_refused() {
        let bench = Bench::new();
        let cases = [
            (json!({"objective": " "}), "GOAL_INVALID_OBJECTIVE"),
            (json!({"objective": "x", "max_goal_rounds": 1.5}), "GOAL_INVALID_MAX_ROUNDS"),
            (json!({"objective": "x", "max_goal_rounds": 0}), "GOAL_INVALID_MAX_ROUNDS"),
            (json!({"objective": "x", "max_goal_rounds": 1e16}), "GOAL_INVALID_MAX_ROUNDS"),
            (json!({"objective": 1}), "INVALID_ARGS"),
            (json!({}), "INVALID_ARGS"),
        ];
        for (arguments, code) in cases {
            assert_eq!(bench.call("create_goal", arguments.clone()).await.code(), code, "{arguments}");
        }
        assert_eq!(bench.world().goals.current(), None);
    }

    #[tokio::test]
    async fn only_a_turn_of_the_user_begins_a_goal() {
        let cases = [
            (None, "GOAL_TOOL_DRIVER_REQUIRED"),
            (Some(GoalAuthority { human: false, round: true }), "GOAL_TOOL_AUTHORITY_REQUIRED"),
            (Some(GoalAuthority::default()), "GOAL_TOOL_AUTHORITY_REQUIRED"),
        ];
        for (authority, code) in cases {
            let bench = Bench::new();
            bench.world().goals.set_authority(authority);
            assert_eq!(bench.call("create_goal", json!({"objective": "x"})).await.code(), code);
        }
        let mut bench = Bench::new();
        bench.session.scope.services.goals = None;
        assert_eq!(bench.call("get_goal", json!({})).await.code(), "GOAL_TOOL_AGENT_REQUIRED");
    }
}
