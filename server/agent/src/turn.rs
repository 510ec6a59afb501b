//! One prompt to its end: the messages that enter, then steps until the model has said all.

mod context;
mod hooks;
mod room;

use crate::compaction::Compacted;
use crate::history::history;
use crate::plan_mode;
use crate::prompt::{RUNTIME_CONTEXT, runtime_context, system_prompt};
use crate::session::Shared;
use crate::step::{Answer, StepId, ask};
use crate::title::fallback_title;
use pipeline::registry::{ActivationContext, ResolveError, ResolvedToolSet};
use pipeline::schedule::Batch;
use pipeline::sdk::program_sections;
use protocol::content::ContentBlock;
use protocol::event::{AbortCause, CompactionReason, HeaderReason, SessionEvent, TitleSource, TurnEndReason};
use protocol::id::MessageId;
use protocol::message::{AssistantMessage, ContextForm, MessageSource, UserMessage};
use protocol::mode::Mode;
use protocol::model::{FinishReason, ModelRequest};
use protocol::tool::ToolFailure;
use services::model::ModelErrorKind;
use services::session_store::StoreError;
use services::spill::SpillRequest;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex};
use tokio_util::sync::CancellationToken;

/// Longest text of one block of a prompt that is kept inline; a longer one is spilled.
const MAX_PROMPT_BLOCK_BYTES: usize = 512 << 10;

/// A turn while it runs.
pub(crate) struct Turn<'a> {
    shared: &'a Shared,
    cancel: CancellationToken,
    number: u64,
    /// How often hooks kept it from ending.
    n_sent_on: AtomicU32,
    /// Skills that the prompt invokes and that are not loaded yet.
    invoked: Mutex<Vec<String>>,
}

impl<'a> Turn<'a> {
    pub(crate) fn new(shared: &'a Shared, cancel: CancellationToken) -> Self {
        let number = shared.core.state().turn + 1;
        Self { shared, cancel, number, n_sent_on: AtomicU32::new(0), invoked: Mutex::default() }
    }

    /// Runs the turn to its end; one without content answers what the inbox holds. `then` is
    /// logged when the content has entered. The caller closes what it left open and logs the end.
    ///
    /// # Errors
    /// The log could not be written.
    pub(crate) async fn run(
        &self,
        content: Option<(Vec<ContentBlock>, MessageSource)>,
        then: Vec<SessionEvent>,
    ) -> Result<TurnEndReason, StoreError> {
        let core = &self.shared.core;
        core.append(SessionEvent::TurnStart { turn: self.number })?;
        self.log_mode()?;
        if let Some((content, source)) = content {
            let contexts = match self.ask_at_prompt(&content).await? {
                Ok(contexts) => contexts,
                Err(reason) => return Ok(reason),
            };
            self.enter(content, source, then).await?;
            self.add_contexts(&contexts)?;
        }
        let mut step = 0;
        let mut attempts = 0;
        loop {
            if self.cancel.is_cancelled() {
                return Ok(aborted());
            }
            if self.shared.max_turn_requests.is_some_and(|most| step >= most) {
                return Ok(TurnEndReason::MaxTurnRequests);
            }
            step += 1;
            let id = StepId { turn: self.number, step };
            core.append(SessionEvent::StepStart { turn: id.turn, step: id.step })?;
            let ended = self.step(id, &mut attempts).await?;
            if let Some(reason) = ended {
                return Ok(reason);
            }
            core.append(SessionEvent::StepEnd { turn: id.turn, step: id.step })?;
        }
    }

    /// One step; `Some` ends the turn.
    async fn step(&self, id: StepId, attempts: &mut u32) -> Result<Option<TurnEndReason>, StoreError> {
        let core = &self.shared.core;
        self.admit_waiting()?;
        self.refresh_tools().await?;
        let tool_set = match self.admit().await {
            Ok(tool_set) => tool_set,
            Err(ResolveError::Cancelled) => return Ok(Some(aborted())),
            Err(error) => return Ok(Some(unprepared(&error.to_string()))),
        };
        if self.is_full() && self.make_room(CompactionReason::Threshold).await? == Compacted::Cancelled {
            return Ok(Some(aborted()));
        }
        self.tell_skills(&tool_set).await?;
        self.load_invoked().await?;
        let request = match self.request(&tool_set)? {
            Ok(request) => request,
            Err(failure) => return Ok(Some(unprepared(&failure.message))),
        };
        core.flush().await?;
        let answer = ask(core, &*self.shared.models, request, id, attempts, &self.cancel).await;
        let (message, finish) = match answer {
            Answer::Said { message, finish } => (message, finish),
            Answer::Cut => {
                self.inject(
                    "stream-recovery",
                    ContextForm::Notice,
                    "The connection to the model broke and cut your last answer. Go on exactly where it stops; do not repeat it.",
                )?;
                return Ok(None);
            }
            Answer::Cancelled => return Ok(Some(aborted())),
            Answer::Failed(error) if error.kind == ModelErrorKind::ContextWindowExceeded => {
                return self.after_overflow(error).await;
            }
            Answer::Failed(error) => {
                return Ok(Some(TurnEndReason::Error {
                    message: error.message,
                    code: error.kind.code().to_owned(),
                }));
            }
            Answer::LogFailed(error) => return Err(error),
        };
        *attempts = 0;
        match finish {
            FinishReason::Refusal => return Ok(Some(TurnEndReason::Refused)),
            FinishReason::MaxTokens => return Ok(Some(TurnEndReason::MaxTokens)),
            FinishReason::Stop | FinishReason::ToolCalls => {}
        }
        if message.calls().next().is_none() {
            return self.ask_at_end().await;
        }
        let ended = self.run_calls(id, &message, tool_set.clone()).await;
        tool_set.dispose();
        ended
    }

    /// Brings tools that come and go up to date; what went wrong with them is said to user and model.
    async fn refresh_tools(&self) -> Result<(), StoreError> {
        let Some(source) = &self.shared.tool_source else { return Ok(()) };
        let told = tokio::select! {
            told = source.refresh() => told,
            () = self.cancel.cancelled() => return Ok(()),
        };
        for text in told {
            let message_id = MessageId::new(format!("msg_{}", self.shared.core.clock().fresh_id()));
            self.shared.core.append(SessionEvent::Notice { text: format!("{text}\n\n"), message_id })?;
            self.inject("mcp", ContextForm::Notice, &text)?;
        }
        Ok(())
    }

    /// Logs what waits in the inbox.
    fn admit_waiting(&self) -> Result<(), StoreError> {
        for message in self.shared.inbox.take() {
            self.append_message(message.content(), message.source)?;
        }
        Ok(())
    }

    /// The tools of one step: conditions are asked once, and the answer holds for the whole step.
    async fn admit(&self) -> Result<Arc<ResolvedToolSet>, ResolveError> {
        let (model, effort) = self.shared.core.model();
        let context = ActivationContext {
            session_id: self.shared.scope.session_id.clone(),
            model,
            effort,
            cancel: self.cancel.clone(),
        };
        self.shared.pipeline.registry().resolve(self.shared.tools, &context).await
    }

    async fn run_calls(
        &self,
        id: StepId,
        message: &AssistantMessage,
        tool_set: Arc<ResolvedToolSet>,
    ) -> Result<Option<TurnEndReason>, StoreError> {
        let batch = Batch {
            calls: message.calls().cloned().collect(),
            turn: id.turn,
            step: id.step,
            cancel: self.cancel.clone(),
            scope: self.shared.tools,
            tool_set: Some(tool_set),
            ..Batch::default()
        };
        let result = match self.shared.pipeline.execute(batch, &self.shared.scope).await {
            Ok(result) => result,
            Err(error) => return Ok(Some(unprepared(&error.to_string()))),
        };
        for message in result.additional_contexts {
            self.shared.core.append(SessionEvent::UserMessage { message })?;
        }
        plan_mode::leave_after(&self.shared.core, message)?;
        if self.cancel.is_cancelled() {
            return Ok(Some(aborted()));
        }
        self.instruct_after(message).await?;
        if let Some(reason) = self.stopped_by_call()? {
            return Ok(Some(reason));
        }
        Ok(result.concluded.then_some(TurnEndReason::Completed))
    }

    /// The mode the configuration gave, said once: it stays when the configuration changes before the session is opened
    /// again.
    fn log_mode(&self) -> Result<(), StoreError> {
        let core = &self.shared.core;
        let state = core.state();
        if state.mode_logged {
            return Ok(());
        }
        core.append(SessionEvent::PermissionPreset { preset: state.preset })?;
        if state.plan { core.append(SessionEvent::PlanMode { active: true }) } else { Ok(()) }
    }

    /// What enters with the prompt: the prompt, the title it suggests, workspace instructions, the runtime context.
    /// `then` is logged right after it.
    async fn enter(
        &self,
        content: Vec<ContentBlock>,
        source: MessageSource,
        then: Vec<SessionEvent>,
    ) -> Result<(), StoreError> {
        let core = &self.shared.core;
        let mut bounded = Vec::with_capacity(content.len());
        for block in content {
            bounded.push(self.bound(block).await);
        }
        let text: Vec<&str> = bounded.iter().filter_map(ContentBlock::as_text).collect();
        // What nobody said is no title.
        let title = if source.is_prompt() { fallback_title(&text.join(" ")) } else { None };
        if source == MessageSource::User {
            self.note_invoked(&bounded);
        }
        self.append_message(bounded, source)?;
        for event in then {
            core.append(event)?;
        }
        // Acknowledged from here on: what the user said is on disk before anything is done about it.
        core.flush().await?;
        let state = core.state();
        if let (None, Some(title)) = (&state.title, title) {
            core.append(SessionEvent::Title { title, source: TitleSource::Fallback })?;
        }
        self.instruct().await
    }

    /// A text block that is too long to keep is spilled and replaced by its ends and where the rest is.
    async fn bound(&self, block: ContentBlock) -> ContentBlock {
        let text = match &block {
            ContentBlock::Text { text } | ContentBlock::Resource { text, .. } => text,
            ContentBlock::Image { .. } | ContentBlock::ResourceLink { .. } => return block,
        };
        if text.len() <= MAX_PROMPT_BLOCK_BYTES {
            return block;
        }
        let spilled = self
            .shared
            .scope
            .services
            .spill
            .save_text(SpillRequest {
                session_id: self.shared.scope.session_id.clone(),
                call_id: protocol::id::CallId::new(format!("prompt-{}", self.number)),
                suggested_name: "prompt.txt".to_owned(),
                content: text.clone(),
            })
            .await;
        let rest = match spilled {
            Ok(spilled) => format!("the whole is in {}", spilled.path.display()),
            Err(error) => format!("the rest could not be kept: {error}"),
        };
        let shown = ends(text, MAX_PROMPT_BLOCK_BYTES / 2, &rest);
        match block {
            ContentBlock::Resource { uri, mime_type, .. } => {
                ContentBlock::Resource { uri, mime_type, text: shown }
            }
            _ => ContentBlock::Text { text: shown },
        }
    }

    /// The next request; logs what changed in prompt, tools, model and runtime context.
    fn request(
        &self,
        tool_set: &Arc<ResolvedToolSet>,
    ) -> Result<Result<ModelRequest, ToolFailure>, StoreError> {
        let shared = self.shared;
        let core = &shared.core;
        let registry = shared.pipeline.registry();
        let tools = registry.definitions(shared.tools, Some(tool_set));
        let schemas = match registry.schemas(shared.tools, Some(tool_set)) {
            Ok(schemas) => schemas,
            Err(failure) => return Ok(Err(failure)),
        };
        let state = core.state();
        let context = runtime_context(
            core.mode_in_force(),
            shared.scope.network,
            &core.clock().local_date(),
            shared.scope.delegation_depth > 0,
        );
        if state.runtime_context.as_deref() != Some(context.as_str()) {
            self.inject(RUNTIME_CONTEXT, ContextForm::Snapshot, &context)?;
        }
        let programs = program_sections(registry, shared.tools, Some(tool_set));
        let system = system_prompt(
            &tools,
            programs,
            &shared.scope.cwd,
            &shared.scope.roots,
            core.mode_in_force() == Mode::Plan,
        );
        let header = (system, schemas);
        let resumed = shared.resumed.swap(false, Ordering::Relaxed);
        if state.header.as_deref() != Some(&header) {
            let reason = match (&state.header, resumed) {
                (None, _) => HeaderReason::Initial,
                (Some(_), true) => HeaderReason::Resume,
                (Some(_), false) => HeaderReason::Change,
            };
            core.append(SessionEvent::RequestHeader {
                system: header.0.clone(),
                tools: header.1.clone(),
                reason,
            })?;
        }
        let (model, effort) = core.model();
        let info = shared.models.info(&model);
        if state.model.is_none() {
            core.append(SessionEvent::RequestContext {
                model: model.clone(),
                effort: effort.clone(),
                context_window: info.context_window,
            })?;
        }
        Ok(Ok(ModelRequest {
            model,
            effort,
            system: header.0,
            messages: core.with_records(history),
            tools: header.1,
            max_tokens: info.max_output_tokens,
            cwd: shared.scope.cwd.clone(),
        }))
    }

    fn inject(&self, plugin: &str, form: ContextForm, text: &str) -> Result<(), StoreError> {
        let source = MessageSource::Plugin { plugin: plugin.to_owned(), form };
        self.append_message(vec![ContentBlock::text(text)], source)
    }

    fn append_message(&self, content: Vec<ContentBlock>, source: MessageSource) -> Result<(), StoreError> {
        let core = &self.shared.core;
        let id = MessageId::new(format!("msg_{}", core.clock().fresh_id()));
        core.append(SessionEvent::UserMessage { message: UserMessage { id, content, source } })
    }
}

/// The step could not be prepared or carried through.
fn unprepared(reason: &str) -> TurnEndReason {
    TurnEndReason::Error { message: reason.to_owned(), code: "INTERNAL".to_owned() }
}

fn aborted() -> TurnEndReason {
    TurnEndReason::Aborted { cause: AbortCause::User }
}

/// The first and last `each` bytes of a text with a marker between them.
fn ends(text: &str, each: usize, rest: &str) -> String {
    let head = text.floor_char_boundary(each);
    let tail = text.ceil_char_boundary(text.len() - each);
    format!("{}\n\n[{} bytes left out; {rest}]\n\n{}", &text[..head], tail - head, &text[tail..])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_long_text_keeps_its_ends() {
        let text = format!("é{}é", "x".repeat(100));
        let shown = ends(&text, 11, "gone");
        assert!(
            shown.starts_with('é') && shown.ends_with('é') && shown.contains("82 bytes left out; gone"),
            "{shown}"
        );
    }
}
