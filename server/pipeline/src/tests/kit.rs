//! Tools and policies that do what a test says, and a journal of what happened in which order.

use crate::call::{Call, PendingCall};
use crate::context::{Execution, ToolContext};
use crate::fake::FakeSession;
use crate::policy::{Dispatch, Dispatched, ExecuteNext, Policy, PostNext, PreNext};
use crate::registry::{Registration, Registry};
use crate::run::Pipeline;
use crate::tool::{Effect, Tool};
use async_trait::async_trait;
use futures::future::BoxFuture;
use protocol::content::ContentBlock;
use protocol::decision::{PostDecision, PreDecision, Preview};
use protocol::id::{CallId, MessageId};
use protocol::message::{ContextForm, MessageSource, UserMessage};
use protocol::tool::{Outcome, ToolFailure, ToolSchema};
use serde_json::{Value, json};
use services::fake::World;
use std::sync::{Arc, Mutex};
use std::time::Duration;
use tokio_util::sync::CancellationToken;

/// What happened, in order.
#[derive(Clone, Default)]
pub(crate) struct Journal(Arc<Mutex<Vec<String>>>);

impl Journal {
    pub fn note(&self, entry: impl Into<String>) {
        self.0.lock().unwrap().push(entry.into());
    }

    pub fn entries(&self) -> Vec<String> {
        self.0.lock().unwrap().clone()
    }
}

type RunBody =
    dyn for<'a> Fn(&'a Value, &'a ToolContext) -> BoxFuture<'a, Result<Value, ToolFailure>> + Send + Sync;
type Transform = fn(&Outcome) -> Option<Vec<ContentBlock>>;

/// A tool that does what a test says; by default it returns its arguments.
pub(crate) struct FakeTool {
    schema: ToolSchema,
    output: Value,
    pub effect: Effect,
    pub timeout: Option<Duration>,
    pub safe: fn(&Value) -> bool,
    pub project: Transform,
    pub finalize: Transform,
    pub render: fn(&Value) -> Result<Vec<ContentBlock>, String>,
    pub meta: fn(&Value) -> Result<Option<Value>, String>,
    body: Box<RunBody>,
}

impl FakeTool {
    pub fn new(name: &str) -> Self {
        Self {
            schema: ToolSchema {
                name: name.to_owned(),
                description: format!("does {name}"),
                parameters: json!({"type": "object", "properties": {}}),
            },
            output: json!({}),
            effect: Effect::None,
            timeout: None,
            safe: |_| false,
            project: |_| None,
            finalize: |_| None,
            render: |value| Ok(vec![ContentBlock::text(value.to_string())]),
            meta: |_| Ok(None),
            body: Box::new(|arguments, _| Box::pin(async move { Ok(arguments.clone()) })),
        }
    }

    pub fn body(
        mut self,
        body: impl for<'a> Fn(&'a Value, &'a ToolContext) -> BoxFuture<'a, Result<Value, ToolFailure>>
        + Send
        + Sync
        + 'static,
    ) -> Self {
        self.body = Box::new(body);
        self
    }

    pub fn safe(mut self) -> Self {
        self.safe = |_| true;
        self
    }

    pub fn with(mut self, change: impl FnOnce(&mut Self)) -> Self {
        change(&mut self);
        self
    }

    pub fn output(mut self, schema: Value) -> Self {
        self.output = schema;
        self
    }

    pub fn parameters(mut self, schema: Value) -> Self {
        self.schema.parameters = schema;
        self
    }
}

#[async_trait]
impl Tool for FakeTool {
    fn schema(&self) -> &ToolSchema {
        &self.schema
    }

    fn output_schema(&self) -> &Value {
        &self.output
    }

    fn timeout(&self) -> Option<Duration> {
        self.timeout
    }

    fn is_concurrency_safe(&self, arguments: &Value) -> bool {
        (self.safe)(arguments)
    }

    fn effect(&self, _arguments: &Value) -> Effect {
        self.effect.clone()
    }

    async fn execute(&self, arguments: &Value, ctx: &ToolContext) -> Result<Value, ToolFailure> {
        (self.body)(arguments, ctx).await
    }

    fn render(&self, _arguments: &Value, value: &Value) -> Result<Vec<ContentBlock>, String> {
        (self.render)(value)
    }

    fn presentation_meta(&self, _arguments: &Value, value: &Value) -> Result<Option<Value>, String> {
        (self.meta)(value)
    }

    fn project_content(&self, _execution: &Execution, outcome: &Outcome) -> Option<Vec<ContentBlock>> {
        (self.project)(outcome)
    }

    fn finalize_content(&self, _execution: &Execution, outcome: &Outcome) -> Option<Vec<ContentBlock>> {
        (self.finalize)(outcome)
    }

    async fn preview(&self, _arguments: &Value, ctx: &ToolContext) -> Preview {
        let diff = protocol::card::FileDiff {
            path: ctx.cwd().join("f").display().to_string(),
            old_text: None,
            new_text: "new".to_owned(),
        };
        Preview { diffs: vec![diff] }
    }
}

/// A policy that notes each stage and answers as told; `None` asks the rest of the chain.
#[derive(Default)]
pub(crate) struct FakePolicy {
    pub name: &'static str,
    pub journal: Journal,
    pub pre: Option<Result<PreDecision, ToolFailure>>,
    /// Runs before the answer of the pre stage, for instance to cancel meanwhile.
    pub during_pre: Option<CancellationToken>,
    pub post: Option<Result<PostDecision, ToolFailure>>,
    pub during_post: Option<CancellationToken>,
    /// The body's cancellation is replaced by an unrelated one.
    pub replaces_cancel: bool,
    /// Returned instead of dispatching.
    pub short_circuit: Option<Result<Outcome, ToolFailure>>,
    pub adds_context: bool,
    pub panics: Option<&'static str>,
}

impl FakePolicy {
    fn enter(&self, stage: &'static str) {
        self.journal.note(format!("{stage}:{}", self.name));
        assert!(self.panics != Some(stage), "told to panic in {stage}");
    }
}

#[async_trait]
impl Policy for FakePolicy {
    fn name(&self) -> &str {
        self.name
    }

    async fn pre_execute(&self, _call: &PendingCall, next: PreNext<'_>) -> Result<PreDecision, ToolFailure> {
        self.enter("pre");
        if let Some(token) = &self.during_pre {
            token.cancel();
        }
        match &self.pre {
            Some(decision) => decision.clone(),
            None => next.run().await,
        }
    }

    async fn execute(
        &self,
        dispatch: Dispatch<'_>,
        next: ExecuteNext<'_>,
    ) -> Result<Dispatched, ToolFailure> {
        self.enter("in");
        if let Some(outcome) = &self.short_circuit {
            return outcome.clone().map(Dispatched::new);
        }
        let cancel = if self.replaces_cancel { CancellationToken::new() } else { dispatch.cancel };
        let mut dispatched = next.run(cancel).await?;
        self.enter("out");
        if self.adds_context {
            dispatched.add_context(message("wrapper"));
        }
        Ok(dispatched)
    }

    async fn post_execute(
        &self,
        _call: &PendingCall,
        outcome: &Outcome,
        next: PostNext<'_>,
    ) -> Result<PostDecision, ToolFailure> {
        self.enter("post");
        if outcome.is_error() {
            self.journal.note(format!("saw:{}", outcome.result.as_ref().unwrap_err().message));
        }
        if let Some(token) = &self.during_post {
            token.cancel();
        }
        match &self.post {
            Some(decision) => decision.clone(),
            None => next.run().await,
        }
    }

    fn observe(&self, _call: &PendingCall, _outcome: &Outcome) {
        self.enter("result");
    }
}

pub(crate) fn message(text: &str) -> UserMessage {
    UserMessage {
        id: MessageId::new(text),
        content: vec![ContentBlock::text(text)],
        source: MessageSource::Plugin { plugin: "test".to_owned(), form: ContextForm::Notice },
    }
}

/// A session with a pipeline in a world of its own.
pub(crate) struct Kit {
    pub session: FakeSession,
    pub pipeline: Pipeline,
    pub journal: Journal,
    pub cancel: CancellationToken,
}

impl Kit {
    pub fn new() -> Self {
        Self {
            session: FakeSession::new(World::new()),
            pipeline: Pipeline::new(Registry::new()),
            journal: Journal::default(),
            cancel: CancellationToken::new(),
        }
    }

    pub fn registry(&self) -> &Registry {
        self.pipeline.registry()
    }

    pub fn tool(self, tool: FakeTool) -> Self {
        self.registry().register(None, Arc::new(tool), Registration::default()).unwrap().keep();
        self
    }

    pub fn policy(self, policy: FakePolicy) -> Self {
        let policy = FakePolicy { journal: self.journal.clone(), ..policy };
        self.registry().add_policy(None, Arc::new(policy)).unwrap().keep();
        self
    }

    pub fn call(&self, name: &str, arguments: Value) -> Call {
        Call {
            call_id: CallId::new("call-1"),
            root_call_id: None,
            parent: None,
            name: name.to_owned(),
            arguments,
            session: self.session.scope.clone(),
            scope: None,
            tool_set: None,
            cancel: self.cancel.clone(),
        }
    }

    pub async fn run(&self, name: &str) -> Outcome {
        self.pipeline.run(self.call(name, json!({}))).await
    }
}

pub(crate) fn text(outcome: &Outcome) -> String {
    outcome.content.iter().filter_map(ContentBlock::as_text).collect::<Vec<_>>().join("|")
}

pub(crate) fn code(outcome: &Outcome) -> Option<&str> {
    outcome.result.as_ref().err().and_then(ToolFailure::code)
}

pub(crate) fn contexts(outcome: &Outcome) -> Vec<&str> {
    outcome.additional_contexts.iter().map(|message| message.id.as_str()).collect()
}
