//! Benchmark: an empty tool through the whole pipeline with the shipped policies, against calling its body.
//!
//! Prints two numbers, microseconds of CPU a call: through the pipeline, and the body alone. `benches/run.py pipeline`
//! shows them as a row. Nothing is asserted.

#![expect(
    clippy::print_stdout,
    clippy::disallowed_methods,
    reason = "it measures itself, and its output is its result"
)]

use async_trait::async_trait;
use pipeline::context::ToolContext;
use pipeline::fake::FakeSession;
use pipeline::policies::permission::{PermissionOptions, PermissionPolicy};
use pipeline::policies::repeat::RepeatReminder;
use pipeline::policies::spill::SpillPolicy;
use pipeline::policies::timeout::TimeoutPolicy;
use pipeline::policy::Policy;
use pipeline::registry::{Registration, Registry};
use pipeline::run::Pipeline;
use pipeline::schedule::Batch;
use pipeline::tool::Effect;
use pipeline::typed::{Typed, TypedTool};
use protocol::content::ContentBlock;
use protocol::id::CallId;
use protocol::message::RequestedCall;
use protocol::tool::ToolFailure;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use services::fake::World;
use std::sync::Arc;

const N_CALLS: u32 = 5_000;

#[derive(Deserialize, JsonSchema)]
struct Args {
    /// Anything; differs each time, so that no reminder about repeated calls is added.
    n: f64,
}

#[derive(Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct Output {
    n: f64,
}

struct Empty;

#[async_trait]
impl TypedTool for Empty {
    type Args = Args;
    type Output = Output;
    const NAME: &'static str = "empty";

    fn description(&self) -> String {
        "Does nothing.".to_owned()
    }

    fn effect(&self, _args: &Args) -> Effect {
        Effect::None
    }

    async fn execute(&self, args: Args, _ctx: &ToolContext) -> Result<Output, ToolFailure> {
        Ok(Output { n: args.n })
    }

    fn render(&self, _args: &Args, output: &Output) -> Vec<ContentBlock> {
        vec![ContentBlock::text(output.n.to_string())]
    }
}

/// CPU of this process so far, in seconds, from the scheduler.
fn cpu_seconds() -> f64 {
    let text = std::fs::read_to_string("/proc/self/schedstat").unwrap_or_default();
    text.split_whitespace().next().and_then(|ns| ns.parse::<f64>().ok()).unwrap_or_default() / 1e9
}

fn main() {
    let Ok(runtime) = tokio::runtime::Builder::new_current_thread().build() else { return };
    runtime.block_on(async {
        let registry = Registry::new();
        if let Ok(registered) = registry.register(None, Arc::new(Typed::new(Empty)), Registration::default())
        {
            registered.keep();
        }
        let options = PermissionOptions { can_confine_commands: true, temporary_folders: Vec::new() };
        let policies: [Arc<dyn Policy>; 4] = [
            Arc::new(SpillPolicy::default()),
            Arc::new(RepeatReminder::default()),
            Arc::new(PermissionPolicy::new(options)),
            Arc::new(TimeoutPolicy),
        ];
        for policy in policies {
            if let Ok(added) = registry.add_policy(None, policy) {
                added.keep();
            }
        }
        let pipeline = Pipeline::new(registry);
        let session = FakeSession::new(World::new());
        let mut through = 0.0;
        for round in 0..N_CALLS {
            let call = RequestedCall {
                id: CallId::new(format!("call-{round}")),
                provider_id: String::new(),
                name: Empty::NAME.to_owned(),
                arguments: format!("{{\"n\": {round}}}"),
            };
            let before = cpu_seconds();
            let result =
                pipeline.execute(Batch { calls: vec![call], ..Batch::default() }, &session.scope).await;
            through += cpu_seconds() - before;
            if !result.is_ok_and(|result| result.results.iter().all(|result| !result.outcome.is_error())) {
                println!("the call failed");
                return;
            }
        }
        let mut alone = 0.0;
        for round in 0..N_CALLS {
            let context = session.context(Empty::NAME, serde_json::json!({ "n": round }));
            let before = cpu_seconds();
            let output = Empty.execute(Args { n: f64::from(round) }, &context).await;
            alone += cpu_seconds() - before;
            drop(output);
        }
        let micros = 1e6 / f64::from(N_CALLS);
        println!("{:.2} {:.2}", through * micros, alone * micros);
    });
}
