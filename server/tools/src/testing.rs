//! A call without policies: body, contract, content and cards, on a session in memory.

use crate::{ToolChoice, all_tools};
use pipeline::fake::FakeSession;
use pipeline::tool::Tool;
use protocol::card::{CallCard, ResultCard};
use protocol::decision::{Preview, SandboxGrant};
use protocol::id::CallId;
use protocol::message::UserMessage;
use protocol::schema;
use protocol::tool::{DurableResult, Outcome, ToolFailure};
use serde_json::Value;
use services::fake::World;
use std::sync::Arc;

/// A session and every tool.
pub struct Bench {
    pub session: FakeSession,
    tools: Vec<Arc<dyn Tool>>,
}

/// What became of a call.
pub struct Ran {
    pub value: Result<Value, ToolFailure>,
    pub durable: DurableResult,
    pub card: Option<ResultCard>,
    pub contexts: Vec<UserMessage>,
}

impl Bench {
    pub fn new() -> Self {
        Self::in_world(World::new())
    }

    pub fn in_world(world: World) -> Self {
        let choice = ToolChoice { enable: vec!["all".to_owned()], disable: Vec::new() };
        Self { session: FakeSession::new(world), tools: all_tools(&choice) }
    }

    pub fn world(&self) -> &World {
        &self.session.world
    }

    pub fn tool(&self, name: &str) -> &dyn Tool {
        let tool = self.tools.iter().find(|tool| tool.schema().name == name);
        tool.unwrap_or_else(|| panic!("no tool {name}")).as_ref()
    }

    pub async fn call(&self, name: &str, arguments: Value) -> Ran {
        self.run(name, arguments, None, None).await
    }

    /// A call that a permission widened.
    pub async fn granted(&self, name: &str, arguments: Value, grant: SandboxGrant) -> Ran {
        self.run(name, arguments, Some(grant), None).await
    }

    /// A sub-call of a program.
    pub async fn nested(&self, name: &str, arguments: Value) -> Ran {
        self.run(name, arguments, None, Some(CallId::new("program"))).await
    }

    pub fn call_card(&self, name: &str, arguments: Value) -> CallCard {
        self.tool(name).present_call(&arguments).expect("a card")
    }

    pub async fn preview(&self, name: &str, arguments: Value) -> Preview {
        let ctx = self.session.context(name, arguments.clone());
        self.tool(name).preview(&arguments, &ctx).await
    }

    /// The card of a stored result.
    pub fn result_card(&self, name: &str, arguments: &Value, result: &DurableResult) -> Option<ResultCard> {
        self.tool(name).present_result(arguments, result)
    }

    async fn run(
        &self,
        name: &str,
        arguments: Value,
        grant: Option<SandboxGrant>,
        parent: Option<CallId>,
    ) -> Ran {
        let tool = self.tool(name);
        let mut ctx = self.session.granted_context(name, arguments.clone(), grant);
        ctx.execution.parent = parent;
        let mut outcome = match tool.execute(&arguments, &ctx).await {
            Err(failure) => Outcome::failed(failure),
            Ok(value) => {
                assert_eq!(schema::validate(tool.output_schema(), &value, ""), Vec::<String>::new());
                let (additional_contexts, concludes_turn) = ctx.take_effects();
                Outcome {
                    content: tool.render(&arguments, &value).expect("content"),
                    meta: tool.presentation_meta(&arguments, &value).expect("meta"),
                    result: Ok(value),
                    additional_contexts,
                    concludes_turn,
                }
            }
        };
        if let Some(content) = tool.project_content(&ctx.execution, &outcome) {
            outcome.content = content;
        }
        let durable = outcome.durable();
        let card = tool.present_result(&arguments, &durable);
        Ran { value: outcome.result, durable, card, contexts: outcome.additional_contexts }
    }
}

impl Ran {
    /// What the model reads, when it is one text.
    pub fn text(&self) -> &str {
        self.durable.single_text().expect("one text block")
    }

    /// The value of a success.
    pub fn value(&self) -> &Value {
        self.value.as_ref().unwrap_or_else(|failure| panic!("failed: {failure}"))
    }

    /// The failure of a call that failed.
    pub fn failure(&self) -> &ToolFailure {
        self.value.as_ref().expect_err("a failure")
    }

    /// The code of a failure; `plain` for one without a code, `ok` for a success.
    pub fn code(&self) -> &str {
        match &self.value {
            Ok(_) => "ok",
            Err(failure) => failure.code().unwrap_or("plain"),
        }
    }
}
