//! A session: one task owns it, takes prompts in order, and runs one turn at a time.

use crate::commands::{self, Command, CommandEnd, ExtraCommand};
use crate::compaction::{compact, told};
use crate::core::{Core, Observer};
use crate::goals::SessionGoals;
use crate::history;
use crate::inbox::Inbox;
use crate::jobs::SessionJobs;
use crate::schedule::{self, SessionSchedules};
use crate::state::SessionState;
use crate::title;
use crate::turn::Turn;
use futures::FutureExt;
use futures::future::BoxFuture;
use pipeline::context::SessionScope;
use pipeline::host::SessionHost;
use pipeline::policies::hooks::Hooks;
use pipeline::registry::ScopeKey;
use pipeline::schedule::Pipeline;
use pipeline::source::ToolSource;
use protocol::content::ContentBlock;
use protocol::event::{
    AbortCause, CompactionReason, Record, SessionEvent, SessionHeader, TitleSource, TurnEndReason,
};
use protocol::id::MessageId;
use protocol::live::LiveUpdate;
use protocol::message::{ContextForm, MessageSource};
use protocol::mode::Mode;
use protocol::model::ModelRef;
use services::Services;
use services::model::{ModelError, Models};
use services::session_store::{SessionLog, StoreError};
use std::collections::HashSet;
use std::panic::AssertUnwindSafe;
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use tokio::sync::{OnceCell, mpsc, oneshot, watch};
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;

/// Prompts that may wait behind the one that runs.
const MAX_QUEUED_PROMPTS: usize = 64;

/// Turns that open by themselves, one after the other, before a person has to say something. Source:
/// `spec/tools-agentic.md` §13.
const MAX_WAKES: u32 = 3;

/// What a session is made of.
pub struct SessionParts {
    /// First line of its log.
    pub header: SessionHeader,
    /// Its log.
    pub log: Arc<dyn SessionLog>,
    /// What the log holds already.
    pub records: Vec<Record>,
    /// What its tools reach.
    pub services: Services,
    /// Models to choose from.
    pub models: Arc<dyn Models>,
    /// Tools and policies.
    pub pipeline: Arc<Pipeline>,
    /// Whose tools and policies its calls have; `None` is the deployment's.
    pub scope: Option<ScopeKey>,
    /// Tools that come and go while it lives; ended with it.
    pub tool_source: Option<Arc<dyn ToolSource>>,
    /// The user's hooks; they stand in the pipeline too.
    pub hooks: Option<Arc<Hooks>>,
    /// Who shows it.
    pub observer: Arc<dyn Observer>,
    /// Mode of a new session.
    pub default_mode: Mode,
    /// Whether commands may open connections.
    pub network: bool,
    /// The user's own instructions for every workspace, absolute; `None` when there is no such file.
    pub instructions_file: Option<PathBuf>,
    /// Most model requests of one turn; `None` has no limit.
    pub max_turn_requests: Option<u64>,
    /// Whether the model writes the title after the first turn.
    pub model_titles: bool,
    /// Slash commands that the program around the session answers.
    pub commands: Vec<Arc<dyn ExtraCommand>>,
    /// The session this one is a child of: its authority is the child's.
    pub parent: Option<Arc<dyn SessionHost>>,
}

/// How a prompt ended.
#[derive(Clone, Debug, PartialEq)]
pub enum PromptEnd {
    /// The turn ended so.
    Turn(TurnEndReason),
    /// A slash command ran; no model was asked.
    Command,
    /// It was cancelled before a turn of it began.
    CancelledInQueue,
    /// Its content cannot be taken; the text says why. Nothing was logged.
    Refused(String),
    /// Too many prompts wait already.
    QueueFull,
    /// The log cannot be written; the text says why.
    LogFailed(String),
    /// The session is closed.
    Closed,
}

/// Everything the session's task and its handle share.
pub(crate) struct Shared {
    pub core: Arc<Core>,
    pub scope: SessionScope,
    pub models: Arc<dyn Models>,
    pub pipeline: Arc<Pipeline>,
    pub tools: Option<ScopeKey>,
    pub tool_source: Option<Arc<dyn ToolSource>>,
    pub hooks: Option<Arc<Hooks>>,
    /// Whether hooks were told that the session started.
    pub is_started: AtomicBool,
    pub instructions_file: Option<PathBuf>,
    /// The root of the session's project, once it is needed.
    pub project_root: OnceCell<PathBuf>,
    /// Folders below the session's own whose instructions were looked for.
    pub instructed_folders: Mutex<HashSet<PathBuf>>,
    pub max_turn_requests: Option<u64>,
    pub model_titles: bool,
    /// Slash commands beside the agent's own.
    pub commands: Vec<Arc<dyn ExtraCommand>>,
    /// Prompts that wait or run, and turns that opened by themselves.
    n_working: watch::Sender<usize>,
    /// Whether the inbox may still open a turn.
    may_wake: AtomicBool,
    /// Whether the parent ended the turn that runs.
    interrupted: AtomicBool,
    /// What enters the conversation without a prompt.
    pub inbox: Arc<Inbox>,
    /// Work that goes on between turns.
    pub jobs: Arc<SessionJobs>,
    /// The goal that drives it.
    pub goals: Arc<SessionGoals>,
    /// What it is reminded of.
    pub schedules: Arc<SessionSchedules>,
    /// Ends every turn that runs and every prompt that waits; replaced by each cancel.
    generation: Mutex<CancellationToken>,
    /// Whether the log held anything when the session was opened and no request was made since.
    pub resumed: AtomicBool,
}

/// A prompt's content, made ready only when its turn comes (images are stored first); the error refuses it.
pub type PromptContent = BoxFuture<'static, Result<Vec<ContentBlock>, String>>;

struct QueuedPrompt {
    content: PromptContent,
    /// Only what a person says can be a command.
    source: MessageSource,
    cancel: CancellationToken,
    reply: oneshot::Sender<PromptEnd>,
    /// Dropped when it has ended.
    work: Work,
}

/// A session's handle.
pub struct Session {
    shared: Arc<Shared>,
    prompts: mpsc::Sender<QueuedPrompt>,
    /// Ends the session.
    token: CancellationToken,
    task: Mutex<Option<JoinHandle<()>>>,
}

impl Session {
    /// Opens a session over its log and starts its task. Nothing is sent or logged.
    pub fn open(mut parts: SessionParts) -> Arc<Self> {
        let resumed = !parts.records.is_empty();
        let (preset, plan) = SessionState::initial_mode(parts.default_mode);
        let core = Arc::new(Core::new(
            parts.log,
            parts.services.clock.clone(),
            parts.observer,
            parts.models.clone(),
            SessionState::new(preset, plan),
            parts.records,
            parts.parent,
        ));
        let inbox = Arc::<Inbox>::default();
        let jobs = core.with_records(|records| SessionJobs::new(core.clone(), inbox.clone(), records));
        jobs.settle_interrupted();
        parts.services.jobs = Some(jobs.clone());
        let goals = SessionGoals::new(core.clone(), parts.header.delegation_depth == 0);
        parts.services.goals = Some(goals.clone());
        let schedules = SessionSchedules::new(core.clone(), parts.header.delegation_depth == 0);
        parts.services.schedules = Some(schedules.clone());
        let token = CancellationToken::new();
        let mut roots = vec![parts.header.cwd.clone()];
        roots.extend(parts.header.additional_directories.iter().cloned());
        let shared = Arc::new(Shared {
            scope: SessionScope {
                session_id: parts.header.id.clone(),
                cwd: parts.header.cwd,
                roots,
                delegation_depth: parts.header.delegation_depth,
                network: parts.network,
                services: parts.services,
                host: core.clone(),
                observations: Arc::default(),
            },
            core,
            models: parts.models,
            pipeline: parts.pipeline,
            tools: parts.scope,
            tool_source: parts.tool_source,
            hooks: parts.hooks,
            is_started: AtomicBool::new(false),
            instructions_file: parts.instructions_file,
            project_root: OnceCell::new(),
            instructed_folders: Mutex::default(),
            max_turn_requests: parts.max_turn_requests,
            model_titles: parts.model_titles,
            commands: parts.commands,
            n_working: watch::channel(0).0,
            may_wake: AtomicBool::new(true),
            interrupted: AtomicBool::new(false),
            inbox,
            jobs,
            goals,
            schedules,
            generation: Mutex::new(token.child_token()),
            resumed: AtomicBool::new(resumed),
        });
        let (prompts, queue) = mpsc::channel(MAX_QUEUED_PROMPTS);
        let task = tokio::spawn(serve(shared.clone(), queue, token.clone()));
        Arc::new(Self { shared, prompts, token, task: Mutex::new(Some(task)) })
    }

    /// Queues a prompt of the person; it is taken in the order of these calls. The future waits for its end.
    ///
    /// `withdrawn` ends this prompt alone, running or waiting.
    pub fn prompt(
        &self,
        content: PromptContent,
        withdrawn: CancellationToken,
    ) -> impl Future<Output = PromptEnd> + Send + use<> {
        self.queue(content, MessageSource::User, withdrawn)
    }

    /// Queues what another agent says, as [`Session::prompt`] does.
    pub(crate) fn deliver(
        &self,
        content: Vec<ContentBlock>,
        source: MessageSource,
        withdrawn: CancellationToken,
    ) -> impl Future<Output = PromptEnd> + Send + use<> {
        self.queue(Box::pin(std::future::ready(Ok(content))), source, withdrawn)
    }

    fn queue(
        &self,
        content: PromptContent,
        source: MessageSource,
        withdrawn: CancellationToken,
    ) -> impl Future<Output = PromptEnd> + Send + use<> {
        let cancel = self.shared.cancel_with_turns();
        let (reply, end) = oneshot::channel();
        let work = self.shared.work();
        let queued =
            self.prompts.try_send(QueuedPrompt { content, source, cancel: cancel.clone(), reply, work });
        async move {
            match queued {
                Ok(()) => {}
                Err(mpsc::error::TrySendError::Full(_)) => return PromptEnd::QueueFull,
                Err(mpsc::error::TrySendError::Closed(_)) => return PromptEnd::Closed,
            }
            let mut end = std::pin::pin!(end);
            let ended = tokio::select! {
                ended = &mut end => ended,
                () = withdrawn.cancelled() => {
                    cancel.cancel();
                    end.await
                }
            };
            ended.unwrap_or(PromptEnd::Closed)
        }
    }

    /// Whether nothing runs, nothing waits, and nothing is about to wake it.
    pub(crate) fn is_quiescent(&self) -> bool {
        *self.shared.n_working.borrow() == 0 && !self.shared.will_wake() && !self.shared.goals.is_due()
    }

    /// Waits until that is so.
    pub(crate) async fn quiescent(&self) {
        let mut n_working = self.shared.n_working.subscribe();
        while !self.is_quiescent() {
            // The sender lives as long as this session.
            let _ = n_working.changed().await;
        }
    }

    /// Ends the turn that runs, on behalf of the parent. What waits for a next turn goes on waiting.
    pub(crate) fn interrupt(&self) {
        // Said first: the turn may end at once. Where none runs, the next one is not to be taken for interrupted.
        self.shared.interrupted.store(true, Ordering::Relaxed);
        if !self.shared.core.cancel_turn() {
            self.shared.interrupted.store(false, Ordering::Relaxed);
        }
    }

    /// How the last turn ended.
    pub(crate) fn last_end(&self) -> TurnEndReason {
        self.with_records(|records| {
            let last = records.iter().rev().find_map(|record| match &record.event {
                SessionEvent::TurnEnd { reason, .. } => Some(reason.clone()),
                _ => None,
            });
            last.unwrap_or(TurnEndReason::Interrupted)
        })
    }

    /// Logs and shows an event.
    ///
    /// # Errors
    /// The log could not be written.
    pub(crate) fn append(&self, event: SessionEvent) -> Result<(), StoreError> {
        self.shared.core.append(event)
    }

    /// What calls of a child reach of this session.
    pub(crate) fn host(&self) -> Arc<dyn SessionHost> {
        self.shared.core.clone()
    }

    pub(crate) fn shared(&self) -> &Shared {
        &self.shared
    }

    /// What enters the conversation without a prompt; what wakes opens a turn of its own.
    pub fn inbox(&self) -> &Arc<Inbox> {
        &self.shared.inbox
    }

    /// Cancels the turn that runs and the prompts that wait. Without any it does nothing. Jobs go on.
    pub fn cancel(&self) {
        let mut generation = self.shared.generation.lock().unwrap_or_else(PoisonError::into_inner);
        std::mem::replace(&mut *generation, self.token.child_token()).cancel();
    }

    /// The state folded from the log.
    pub fn state(&self) -> SessionState {
        self.shared.core.state()
    }

    /// Reads the log's records without copying them.
    pub fn with_records<T>(&self, read: impl FnOnce(&[Record]) -> T) -> T {
        self.shared.core.with_records(read)
    }

    /// The session's folders.
    pub fn scope(&self) -> &SessionScope {
        &self.shared.scope
    }

    /// The slash commands, in the order in which they are offered.
    pub fn commands(&self) -> Vec<Command> {
        commands::all(&self.shared.commands)
    }

    /// The model in force and its effort.
    pub fn model(&self) -> (ModelRef, Option<String>) {
        self.shared.core.model()
    }

    /// Whether the model in force could be asked now.
    ///
    /// # Errors
    /// Its provider has no key; the message says what to do.
    pub fn check_model(&self) -> Result<(), ModelError> {
        self.shared.models.check(&self.model().0)
    }

    /// Puts a mode into force, at once.
    ///
    /// # Errors
    /// The log could not be written.
    pub fn set_mode(&self, mode: Mode) -> Result<(), StoreError> {
        self.shared.core.set_mode(mode)
    }

    /// Chooses the model and effort of the requests to come.
    ///
    /// # Errors
    /// The log could not be written.
    pub fn set_model(&self, model: ModelRef, effort: Option<String>) -> Result<(), StoreError> {
        self.shared.core.set_model(model, effort)
    }

    /// Gives the session a title that nothing replaces but another by the user.
    ///
    /// # Errors
    /// The log could not be written; the title is on disk otherwise.
    pub async fn set_title(&self, title: String) -> Result<(), StoreError> {
        self.shared.core.append(SessionEvent::Title { title, source: TitleSource::User })?;
        self.shared.core.flush().await
    }

    /// Ends the session: cancels what runs, jobs too, waits for it, puts the log on disk and gives it up. It can be opened again
    /// when this returns.
    pub async fn close(&self) {
        self.token.cancel();
        self.shared.jobs.stop();
        let task = self.task.lock().unwrap_or_else(PoisonError::into_inner).take();
        let turn = async {
            if let Some(task) = task
                && let Err(error) = task.await
            {
                tracing::error!(%error, "the task of a session failed");
            }
        };
        let tools = async {
            if let Some(source) = &self.shared.tool_source {
                source.close().await;
            }
        };
        futures::join!(turn, tools, self.shared.jobs.ended());
        self.shared.pipeline.registry().session_closed(self.shared.tools, &self.shared.scope.session_id);
        if let Err(error) = self.shared.core.flush().await {
            tracing::error!(%error, "could not put the session log on disk");
        }
        self.shared.core.release();
    }
}

/// Counts as work of the session until it is dropped.
struct Work(Arc<Shared>);

impl Drop for Work {
    fn drop(&mut self) {
        self.0.n_working.send_modify(|n_working| *n_working -= 1);
    }
}

impl Shared {
    /// What the model was told of deeper folders may be gone from its context.
    pub(crate) fn forget_instructed_folders(&self) {
        self.instructed_folders.lock().unwrap_or_else(PoisonError::into_inner).clear();
    }

    fn work(self: &Arc<Self>) -> Work {
        self.n_working.send_modify(|n_working| *n_working += 1);
        Work(self.clone())
    }

    /// Whether the inbox is about to open a turn.
    fn will_wake(&self) -> bool {
        self.may_wake.load(Ordering::Relaxed) && self.inbox.wakes()
    }

    /// A token that the next cancel of the session cancels.
    fn cancel_with_turns(&self) -> CancellationToken {
        self.generation.lock().unwrap_or_else(PoisonError::into_inner).child_token()
    }
}

/// What the session's task does next.
enum SessionCommand {
    /// A person said something.
    Prompt(QueuedPrompt),
    /// Something happened by itself, and the model is to know it now.
    Wake,
    /// The time of a reminder has come.
    Reminder,
    /// Nothing waits, and there is a goal to work towards.
    GoalRound,
}

/// The session's task: prompts in order, one turn at a time, until the session is closed. Between prompts the inbox may
/// open a turn.
async fn serve(shared: Arc<Shared>, mut queue: mpsc::Receiver<QueuedPrompt>, token: CancellationToken) {
    let mut n_wakes = 0;
    // Runs beside the prompts that follow; only the end of the session waits for it, and cancels it first.
    let mut title = None;
    loop {
        // Taken before waiting: a cancel between two rounds is one of the round that is about to begin.
        let before = shared.cancel_with_turns();
        shared.may_wake.store(n_wakes < MAX_WAKES, Ordering::Relaxed);
        let command = tokio::select! {
            biased;
            () = token.cancelled() => break,
            prompt = queue.recv() => prompt.map(SessionCommand::Prompt),
            () = shared.inbox.wanted(), if n_wakes < MAX_WAKES => Some(SessionCommand::Wake),
            () = shared.schedules.due() => Some(SessionCommand::Reminder),
            () = shared.goals.due() => Some(SessionCommand::GoalRound),
        };
        let end = match command {
            None => break,
            Some(SessionCommand::Wake) => {
                n_wakes += 1;
                let _work = shared.work();
                let end = run_turn(&shared, None, Vec::new(), &shared.cancel_with_turns()).await;
                shared.goals.other_ended(is_well(&end));
                end
            }
            Some(SessionCommand::Reminder) => {
                let _work = shared.work();
                let end = run_reminder(&shared).await;
                shared.goals.other_ended(is_well(&end));
                end
            }
            Some(SessionCommand::GoalRound) => {
                let _work = shared.work();
                run_round(&shared, &before, || token.is_cancelled()).await
            }
            Some(SessionCommand::Prompt(prompt)) => {
                n_wakes = 0;
                let end = if prompt.cancel.is_cancelled() {
                    PromptEnd::CancelledInQueue
                } else {
                    match prompt.content.await {
                        Ok(content) => run_prompt(&shared, content, prompt.source, &prompt.cancel).await,
                        Err(reason) => PromptEnd::Refused(reason),
                    }
                };
                shared.goals.other_ended(is_well(&end));
                // Whoever asked may be gone; the turn is in the log all the same.
                let _ = prompt.reply.send(end.clone());
                drop(prompt.work);
                end
            }
        };
        if is_aborted(&end) {
            shared.inbox.hush();
        }
        if title.is_none() && end == PromptEnd::Turn(TurnEndReason::Completed) && title::is_wanted(&shared) {
            let (shared, token) = (shared.clone(), token.clone());
            title = Some(tokio::spawn(async move {
                token.run_until_cancelled(title::write(&shared)).await;
            }));
        }
    }
    if let Some(title) = title
        && let Err(error) = title.await
    {
        tracing::error!(%error, "writing a title failed");
    }
}

fn is_aborted(end: &PromptEnd) -> bool {
    matches!(end, PromptEnd::Turn(TurnEndReason::Aborted { .. }) | PromptEnd::CancelledInQueue)
}

/// Whether the session may go on by itself after this.
fn is_well(end: &PromptEnd) -> bool {
    use TurnEndReason::{Blocked, Completed, MaxTurnRequests, Refused};
    match end {
        PromptEnd::Turn(reason) => matches!(reason, Completed | Blocked | Refused | MaxTurnRequests),
        PromptEnd::Command | PromptEnd::Refused(_) | PromptEnd::QueueFull => true,
        PromptEnd::CancelledInQueue | PromptEnd::LogFailed(_) | PromptEnd::Closed => false,
    }
}

/// The next round of the goal, if one begins.
async fn run_round(shared: &Shared, cancel: &CancellationToken, is_closing: impl Fn() -> bool) -> PromptEnd {
    if cancel.is_cancelled() {
        if !is_closing() {
            shared.goals.pause();
        }
        return PromptEnd::CancelledInQueue;
    }
    let round = match shared.goals.next_round().await {
        Ok(Some(round)) => round,
        Ok(None) => return PromptEnd::Command,
        Err(error) => return PromptEnd::LogFailed(error.to_string()),
    };
    let content = vec![ContentBlock::text(round.text)];
    let end = run_turn(shared, Some((content, round.source)), Vec::new(), cancel).await;
    if is_closing() {
        shared.goals.disarm();
        return end;
    }
    shared.goals.round_ended(match &end {
        PromptEnd::Turn(reason) => Some(reason),
        _ => None,
    });
    end
}

/// The turn of what is due, if it still is.
async fn run_reminder(shared: &Shared) -> PromptEnd {
    let Some(reminder) = shared.schedules.take().await else { return PromptEnd::Command };
    let content = vec![ContentBlock::text(reminder.text)];
    let source = MessageSource::Plugin { plugin: schedule::PLUGIN.to_owned(), form: ContextForm::Notice };
    let dispatches = reminder.dispatches;
    let cancel = shared.cancel_with_turns();
    let end = run_turn(shared, Some((content, source)), dispatches.clone(), &cancel).await;
    shared.schedules.given(&dispatches);
    end
}

async fn run_prompt(
    shared: &Shared,
    content: Vec<ContentBlock>,
    source: MessageSource,
    cancel: &CancellationToken,
) -> PromptEnd {
    if source != MessageSource::User {
        return run_turn(shared, Some((content, source)), Vec::new(), cancel).await;
    }
    match run_command(shared, content, cancel).await {
        Ok(Ok(prompt)) => run_turn(shared, Some((prompt, source)), Vec::new(), cancel).await,
        Ok(Err(end)) => end,
        Err(error) => PromptEnd::LogFailed(error.to_string()),
    }
}

/// One turn to its logged end; one without content answers what the inbox holds. `then` is logged with the content.
async fn run_turn(
    shared: &Shared,
    content: Option<(Vec<ContentBlock>, MessageSource)>,
    then: Vec<SessionEvent>,
    cancel: &CancellationToken,
) -> PromptEnd {
    // Of what began by itself nobody awaits the end.
    let is_wake = content.as_ref().is_none_or(|(_, source)| !source.is_prompt());
    let core = &shared.core;
    let turn_token = core.begin_turn(cancel);
    let turn = Turn::new(shared, turn_token.clone());
    let outcome = AssertUnwindSafe(turn.run(content, then)).catch_unwind().await;
    let reason = match outcome {
        Ok(Ok(reason)) => reason,
        Ok(Err(error)) => {
            core.end_turn();
            return PromptEnd::LogFailed(error.to_string());
        }
        Err(panic) => {
            tracing::error!(cause = panic_text(&*panic), "a turn panicked");
            TurnEndReason::Error {
                message: "an internal error ended the turn; the next prompt starts clean".to_owned(),
                code: "INTERNAL".to_owned(),
            }
        }
    };
    // A cancel that took effect is what the user did, whatever else was about to happen.
    let reason = match reason {
        TurnEndReason::Completed if turn_token.is_cancelled() => {
            TurnEndReason::Aborted { cause: AbortCause::User }
        }
        other => other,
    };
    let was_interrupted = shared.interrupted.swap(false, Ordering::Relaxed);
    let reason = match reason {
        TurnEndReason::Aborted { cause: AbortCause::User } if was_interrupted => {
            TurnEndReason::Aborted { cause: AbortCause::Parent }
        }
        other => other,
    };
    core.end_turn();
    if let (true, TurnEndReason::Error { message, .. }) = (is_wake, &reason) {
        // Nobody waits for an answer that could say so. On load the end of the turn does.
        core.observer().live(LiveUpdate::Text {
            message_id: MessageId::new(format!("msg_{}", core.clock().fresh_id())),
            delta: format!("The turn failed: {message}"),
        });
    }
    match finish(core, reason.clone()).await {
        Ok(()) => PromptEnd::Turn(reason),
        Err(error) => PromptEnd::LogFailed(error.to_string()),
    }
}

/// Closes whatever the turn left open, whatever way it ended, and puts the log on disk.
async fn finish(core: &Core, reason: TurnEndReason) -> Result<(), StoreError> {
    let (turn, step, step_open, open) = core.with_records(|records| {
        let step = records.iter().rev().find_map(|record| match record.event {
            SessionEvent::StepStart { step, .. } => Some((step, true)),
            SessionEvent::StepEnd { step, .. } => Some((step, false)),
            SessionEvent::TurnStart { .. } => Some((0, false)),
            _ => None,
        });
        let (step, step_open) = step.unwrap_or((0, false));
        (core.turn_number(records), step, step_open, history::open_calls(records))
    });
    for call in open {
        for event in history::closing_events(call, turn, step) {
            core.append(event)?;
        }
    }
    if step_open {
        core.append(SessionEvent::StepEnd { turn, step })?;
    }
    core.append(SessionEvent::TurnEnd { turn, reason })?;
    core.flush().await
}

/// Runs the command a prompt begins with; gives back the prompt when the model is to be asked.
async fn run_command(
    shared: &Shared,
    content: Vec<ContentBlock>,
    cancel: &CancellationToken,
) -> Result<Result<Vec<ContentBlock>, PromptEnd>, StoreError> {
    let Some((command, input)) = commands::parse(&content, &shared.commands) else { return Ok(Ok(content)) };
    let core = &shared.core;
    let command_id = core.clock().fresh_id();
    core.append(SessionEvent::CommandRun {
        command_id: command_id.clone(),
        name: command.name.to_owned(),
        args: input.clone(),
    })?;
    let running = async {
        if command.name != commands::COMPACT {
            return commands::run(core, &shared.goals, &shared.commands, command, &input, &content[1..])
                .await;
        }
        let compacted = compact(shared, CompactionReason::Command, input.trim(), cancel).await?;
        Ok(CommandEnd::Told(told(compacted)))
    };
    let end = match cancel.run_until_cancelled(running).await {
        Some(end) => end?,
        None => CommandEnd::Told(Err("The command was cancelled.".to_owned())),
    };
    let (ok, text) = match &end {
        CommandEnd::Told(Ok(text)) => (true, text.clone()),
        CommandEnd::Told(Err(text)) => (false, text.clone()),
        CommandEnd::Prompt(_) => (true, String::new()),
    };
    let message_id = MessageId::new(format!("msg_{}", core.clock().fresh_id()));
    core.append(SessionEvent::CommandDone { command_id, ok, text, message_id })?;
    Ok(match end {
        // A client that cancelled must read so, whatever else the command had to say.
        CommandEnd::Told(_) if cancel.is_cancelled() => Err(PromptEnd::CancelledInQueue),
        CommandEnd::Told(_) => Err(PromptEnd::Command),
        CommandEnd::Prompt(prompt) => Ok(prompt),
    })
}

fn panic_text(panic: &(dyn std::any::Any + Send)) -> &str {
    panic
        .downcast_ref::<&str>()
        .copied()
        .or_else(|| panic.downcast_ref::<String>().map(String::as_str))
        .unwrap_or("unknown cause")
}
