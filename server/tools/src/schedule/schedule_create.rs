//! `schedule_create`: makes a reminder.

use super::{Refusal, View, error, refused, rendered, schedules};
use async_trait::async_trait;
use pipeline::context::ToolContext;
use pipeline::tool::Effect;
use pipeline::typed::TypedTool;
use protocol::card::{CallCard, GenericCall, ToolCallKind};
use protocol::content::ContentBlock;
use protocol::tool::ToolFailure;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};
use services::goals::MAX_SAFE_INTEGER;
use services::schedules::{
    MIN_EVERY_SECONDS, NewSchedule, ScheduleErrorCode, ScheduleFailure, ScheduleRule, ScheduleView,
};

/// Longest reminder, in bytes.
const MAX_PROMPT_BYTES: usize = 16 << 10;

/// Arguments of `schedule_create`.
#[derive(Debug, Deserialize, JsonSchema)]
pub struct ScheduleCreateArgs {
    /// What to remind of, complete in itself. It comes back as content to present, not as an instruction.
    prompt: String,
    /// Once, so many seconds from now; a positive whole number.
    after_seconds: Option<f64>,
    /// Again and again, every so many seconds from now on; a whole number of at least 300.
    every_seconds: Option<f64>,
    /// Once, at a time in the future: a text YYYY-MM-DDTHH:mm:ss[.f] with Z or an offset such as +02:00, or date
    /// (YYYY-MM-DD), time (HH:mm:ss) and time_zone (UTC or a name such as Europe/Berlin). A time that a clock shows twice is the
    /// first of the two; one that it skips is refused.
    #[serde(default)]
    #[schemars(with = "At")]
    at: Option<At>,
    #[serde(flatten)]
    #[schemars(skip)]
    others: Map<String, Value>,
}

/// A time.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(untagged)]
#[schemars(description = "")]
pub enum At {
    Instant(String),
    Local(Local),
}

/// A time of a clock on the wall.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Local {
    date: String,
    time: String,
    time_zone: String,
}

/// The reminder, or why there is none.
#[derive(Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(untagged)]
pub enum ScheduleCreateOutput {
    /// It was made.
    Made(View),
    /// It was not.
    Refused(Refusal),
}

/// The tool.
pub struct ScheduleCreate;

#[async_trait]
impl TypedTool for ScheduleCreate {
    type Args = ScheduleCreateArgs;
    type Output = ScheduleCreateOutput;

    const NAME: &'static str = "schedule_create";

    fn description(&self) -> String {
        "Sets a reminder for this session. Give prompt and exactly one of after_seconds, every_seconds and at, and nothing \
         else. It comes as a message that opens a turn of its own when its time has come and nothing runs; it never \
         interrupts. It comes only while this session is open (deliveryMode session-local): one whose time passed \
         meanwhile is overdue and comes once when the session is opened again, and of one that repeats only the latest \
         missed time comes. What does not work is answered with {code, message}; persistence_uncertain means that it may \
         be there or not: look with schedule_list."
            .to_owned()
    }

    fn effect(&self, _args: &ScheduleCreateArgs) -> Effect {
        Effect::None
    }

    async fn execute(
        &self,
        args: ScheduleCreateArgs,
        ctx: &ToolContext,
    ) -> Result<ScheduleCreateOutput, ToolFailure> {
        Ok(match refused(create(args, ctx).await)? {
            Ok(view) => ScheduleCreateOutput::Made(view.into()),
            Err(refusal) => ScheduleCreateOutput::Refused(refusal),
        })
    }

    fn render(&self, _args: &ScheduleCreateArgs, output: &ScheduleCreateOutput) -> Vec<ContentBlock> {
        rendered(output)
    }

    fn present_call(&self, args: &ScheduleCreateArgs) -> Option<CallCard> {
        Some(CallCard::Generic(GenericCall {
            title: format!("Remind: {}", args.prompt.trim()),
            kind: ToolCallKind::Other,
            raw_input: Some(args.prompt.clone().into()),
            ..GenericCall::default()
        }))
    }
}

async fn create(args: ScheduleCreateArgs, ctx: &ToolContext) -> Result<ScheduleView, ScheduleFailure> {
    let schedules = schedules(ctx)?;
    let prompt = args.prompt.trim().to_owned();
    let rule = rule(args)?;
    if prompt.is_empty() || prompt.len() > MAX_PROMPT_BYTES {
        let told = "prompt must say what to remind of, in at most 16 KiB";
        return Err(error(ScheduleErrorCode::InvalidPrompt, told));
    }
    schedules.create(NewSchedule { prompt, rule: rule? }, &ctx.cancel).await
}

/// The rule asked for. The outer failure is the selector's, which is told before anything of the prompt.
fn rule(args: ScheduleCreateArgs) -> Result<Result<ScheduleRule, ScheduleFailure>, ScheduleFailure> {
    let selector = || {
        let told = "give prompt and exactly one of after_seconds, every_seconds and at, and nothing else";
        error(ScheduleErrorCode::InvalidSelector, told)
    };
    if !args.others.is_empty() {
        return Err(selector());
    }
    Ok(match (args.after_seconds, args.every_seconds, args.at) {
        (Some(seconds), None, None) => whole(seconds).map(ScheduleRule::After),
        (None, Some(seconds), None) => whole(seconds).and_then(|seconds| {
            if seconds < MIN_EVERY_SECONDS {
                let told = "every_seconds must be at least 300";
                return Err(error(ScheduleErrorCode::FrequencyTooHigh, told));
            }
            Ok(ScheduleRule::Every(seconds))
        }),
        (None, None, Some(At::Instant(text))) => Ok(ScheduleRule::At(text)),
        (None, None, Some(At::Local(Local { date, time, time_zone }))) => {
            Ok(ScheduleRule::AtLocal { date, time, time_zone })
        }
        _ => return Err(selector()),
    })
}

fn whole(seconds: f64) -> Result<u64, ScheduleFailure> {
    if seconds.fract() == 0.0 && seconds > 0.0 && seconds <= MAX_SAFE_INTEGER as f64 {
        return Ok(seconds as u64);
    }
    Err(error(ScheduleErrorCode::InvalidRule, "seconds must be a positive whole number"))
}

#[cfg(test)]
mod tests {
    use crate::testing::Bench;
    use serde_json::json;
    use services::schedules::{NewSchedule, ScheduleError, ScheduleErrorCode, ScheduleFailure, ScheduleRule};

    #[tokio::test]
    async fn each_way_to_say_when_reaches_the_session() {
        let bench = Bench::new();
        let local = json!({"date": "2026-11-01", "time": "01:30:00", "time_zone": "America/New_York"});
        let cases = [
            (json!({"after_seconds": 30}), ScheduleRule::After(30)),
            (json!({"every_seconds": 300}), ScheduleRule::Every(300)),
            (json!({"at": "2026-01-01T00:00:00Z"}), ScheduleRule::At("2026-01-01T00:00:00Z".into())),
            (
                json!({"at": local}),
                ScheduleRule::AtLocal {
                    date: "2026-11-01".into(),
                    time: "01:30:00".into(),
                    time_zone: "America/New_York".into(),
                },
            ),
        ];
        for (mut arguments, rule) in cases {
            arguments["prompt"] = json!(" look ");
            assert_eq!(bench.call("schedule_create", arguments).await.code(), "ok");
            let asked = bench.world().schedules.asked().pop();
            assert_eq!(asked, Some(NewSchedule { prompt: "look".into(), rule }));
        }
        let text = concat!(
            r#"{"id":"schedule-5","kind":"at","prompt":"x","scheduledAt":"1970-01-01T00:00:01.000Z","#,
            r#""state":"scheduled","deliveryMode":"session-local"}"#
        );
        let made = bench.call("schedule_create", json!({"prompt": "x", "after_seconds": 1})).await;
        assert_eq!(made.text(), text);
    }

    #[tokio::test]
    async fn what_makes_no_sense_is_an_answer_and_reaches_nobody() {
        let bench = Bench::new();
        let cases = [
            (json!({"prompt": "x"}), "invalid_selector"),
            (json!({"prompt": " "}), "invalid_selector"),
            (json!({"prompt": "x", "after_seconds": 1, "every_seconds": 300}), "invalid_selector"),
            (json!({"prompt": "x", "after_seconds": 1, "note": 1}), "invalid_selector"),
            (json!({"prompt": " ", "after_seconds": 1}), "invalid_prompt"),
            (json!({"prompt": "x", "after_seconds": 1.5}), "invalid_rule"),
            (json!({"prompt": "x", "after_seconds": 0}), "invalid_rule"),
            (json!({"prompt": "x", "after_seconds": 1e300}), "invalid_rule"),
            (json!({"prompt": "x", "every_seconds": -5}), "invalid_rule"),
            (json!({"prompt": "x", "every_seconds": 299}), "frequency_too_high"),
        ];
        for (arguments, code) in cases {
            let ran = bench.call("schedule_create", arguments.clone()).await;
            assert_eq!(ran.value()["code"], code, "{arguments}");
        }
        let shapes = [json!({"date": "2026-01-01", "time": "00:00:00"}), json!(7), json!({"date": 1})];
        for at in shapes {
            let ran = bench.call("schedule_create", json!({"prompt": "x", "at": at})).await;
            assert_eq!(ran.code(), "INVALID_ARGS");
        }
        assert_eq!(bench.world().schedules.asked(), []);
        let mut child = Bench::new();
        child.session.scope.delegation_depth = 1;
        let ran = child.call("schedule_create", json!({"prompt": "x", "after_seconds": 1})).await;
        assert_eq!(ran.value()["code"], "internal_error");
    }

    #[tokio::test]
    async fn what_the_session_says_is_told() {
        let bench = Bench::new();
        let arguments = json!({"prompt": "x", "after_seconds": 1});
        let uncertain = ScheduleError {
            code: ScheduleErrorCode::PersistenceUncertain,
            message: "disk".into(),
            operation: Some("create"),
            id: Some("schedule-1".into()),
        };
        bench.world().schedules.fail(uncertain.into());
        let ran = bench.call("schedule_create", arguments.clone()).await;
        let text =
            r#"{"code":"persistence_uncertain","message":"disk","operation":"create","id":"schedule-1"}"#;
        assert_eq!(ran.text(), text);
        bench.world().schedules.fail(ScheduleFailure::Cancelled);
        assert_eq!(bench.call("schedule_create", arguments).await.code(), "ABORTED");
    }
}
