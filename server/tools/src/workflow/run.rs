//! One run: who takes in what its script asks for, and the pool its agents run in.
//!
//! Called by `workflow`, and by `ralph` for the card and the log. Agents run on the call's own task, in the order in which the
//! script started them; the script's thread only waits. When the run is over, agents that run are stopped and awaited.

use super::progress::{Progress, Stage};
use futures::StreamExt;
use futures::future::BoxFuture;
use futures::stream::FuturesUnordered;
use pipeline::context::ToolContext;
use protocol::event::{AgentOutcome, SessionEvent};
use protocol::id::SessionId;
use protocol::live::LiveUpdate;
use protocol::model::ModelRef;
use protocol::schema;
use serde_json::{Map, Value};
use services::code_runtime::CodeHost;
use services::subagents::{ChildEnd, ChildStop, NewChild, SubagentError, Subagents};
use std::collections::VecDeque;
use std::pin::pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;
use tokio::sync::{Notify, mpsc, oneshot};
use tokio_util::sync::CancellationToken;

/// How often the card changes at most.
const SHOWN_EVERY: Duration = Duration::from_millis(500);
/// How long agents may take to stop. Source: `spec/tools-agentic.md` §10.2, `disposeGraceMs`.
const GRACE: Duration = Duration::from_secs(5);
/// Longest label that is made of a prompt, in characters.
const MAX_LABEL: usize = 48;
/// What a script reads when it asks after its end.
const OVER: &str = "CANCELLED: the run is over";

/// What a run may use. Source: `spec/tools-agentic.md` §10.2.
#[derive(Clone, Copy, Debug)]
pub(super) struct Caps {
    /// Agents at a time.
    pub pool: usize,
    /// Agents in all.
    pub agents: u64,
    /// Entries of one `pipeline` or `parallel`.
    pub items: usize,
}

impl Default for Caps {
    fn default() -> Self {
        Self { pool: 8, agents: 1000, items: 4096 }
    }
}

/// The log and the card of a run.
pub(super) struct Journal<'a> {
    ctx: &'a ToolContext,
    pub run_id: String,
    /// Only calls of the model write into the log, and only as long as it takes it.
    is_logged: bool,
    shown_at: Option<Duration>,
}

impl<'a> Journal<'a> {
    /// Begins the run.
    pub fn begin(ctx: &'a ToolContext, name: &str) -> Self {
        let run_id = format!("run_{}", ctx.services().clock.fresh_id());
        let is_logged = ctx.execution.parent.is_none();
        let mut journal = Self { ctx, run_id: run_id.clone(), is_logged, shown_at: None };
        journal.log(SessionEvent::WorkflowStart { run_id, name: name.to_owned() });
        journal
    }

    pub fn agent_starts(&mut self, seq: u64, label: &str, phase: Option<String>) {
        let run_id = self.run_id.clone();
        self.log(SessionEvent::WorkflowAgentStart { run_id, seq, label: label.to_owned(), phase });
    }

    pub fn agent_ended(&mut self, seq: u64, outcome: AgentOutcome, child_id: Option<SessionId>) {
        let run_id = self.run_id.clone();
        self.log(SessionEvent::WorkflowAgentEnd { run_id, seq, outcome, child_id });
    }

    /// Ends the run: `completed`, `error` or `cancelled`.
    pub fn end(mut self, stop_reason: &str) {
        let run_id = self.run_id.clone();
        self.log(SessionEvent::WorkflowEnd { run_id, stop_reason: stop_reason.to_owned() });
    }

    fn log(&mut self, event: SessionEvent) {
        if self.is_logged && self.ctx.session.host.append(event).is_err() {
            // The run is worth more than its record.
            self.is_logged = false;
        }
    }

    /// How long until the card may change again.
    fn shown_in(&self) -> Duration {
        let now = self.ctx.services().clock.monotonic();
        self.shown_at.map_or(Duration::ZERO, |at| (at + SHOWN_EVERY).saturating_sub(now))
    }

    /// Shows how far the run is.
    pub fn show(&mut self, text: String) {
        self.shown_at = Some(self.ctx.services().clock.monotonic());
        // The card of a sub-call is its program's.
        if self.ctx.execution.parent.is_none() {
            let call_id = self.ctx.execution.call_id.clone();
            self.ctx.live(LiveUpdate::ChildProgress { call_id, text });
        }
    }
}

/// An agent that the script started and the pool did not yet.
struct Submitted {
    seq: u64,
    phase: Option<String>,
    child: NewChild,
    reply: oneshot::Sender<Result<Value, String>>,
}

/// What the script asks for.
pub(super) struct Hooks {
    state: Mutex<HookState>,
    changed: Notify,
    max_agents: u64,
    signal: CancellationToken,
}

struct HookState {
    n_agents: u64,
    progress: Progress,
    submitted: mpsc::UnboundedSender<Submitted>,
}

impl Hooks {
    /// Names of the hooks.
    pub const NAMES: [&'static str; 3] = ["agent", "phase", "log"];

    fn lock(&self) -> MutexGuard<'_, HookState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Agents that were started.
    pub fn n_agents(&self) -> u64 {
        self.lock().n_agents
    }

    fn set(&self, seq: u64, stage: Stage) {
        self.lock().progress.set(seq, stage);
        self.changed.notify_one();
    }

    fn take(&self, hook: &str, argument: Value) -> Result<oneshot::Receiver<Result<Value, String>>, String> {
        if self.signal.is_cancelled() {
            return Err(OVER.to_owned());
        }
        let mut state = self.lock();
        let text = argument.get("text").and_then(Value::as_str).unwrap_or_default();
        let (reply, answer) = oneshot::channel();
        match hook {
            "agent" => {
                let (phase, child) = wanted(&argument)?;
                if state.n_agents >= self.max_agents {
                    return Err(format!("AGENT_CAP: a run starts at most {} agents", self.max_agents));
                }
                state.n_agents += 1;
                let phase = phase.or_else(|| state.progress.current().map(str::to_owned));
                state.progress.add(phase.as_deref(), &child.label);
                let submitted = Submitted { seq: state.n_agents, phase, child, reply };
                state.submitted.send(submitted).map_err(|_| OVER.to_owned())?;
            }
            _ => {
                match hook {
                    "phase" => state.progress.enter(text),
                    _ => state.progress.note(text),
                }
                // Nobody waits for it yet.
                let _ = reply.send(Ok(Value::Null));
            }
        }
        drop(state);
        self.changed.notify_one();
        Ok(answer)
    }
}

impl CodeHost for Hooks {
    fn call(&self, function: &str, argument: Value) -> BoxFuture<'static, Result<Value, String>> {
        let taken = self.take(function, argument);
        Box::pin(async move { taken?.await.unwrap_or_else(|_| Err(OVER.to_owned())) })
    }
}

/// The agent that `agent(prompt, options)` wants, and its phase.
fn wanted(argument: &Value) -> Result<(Option<String>, NewChild), String> {
    let invalid = |message: String| format!("INVALID_ARGUMENT: {message}");
    let prompt = argument.get("prompt").and_then(Value::as_str).unwrap_or_default();
    if prompt.trim().is_empty() {
        return Err(invalid("agent(prompt, options) needs a prompt that is not blank".to_owned()));
    }
    let none = Map::new();
    let options = argument.get("options").and_then(Value::as_object).unwrap_or(&none);
    let text = |name: &str| match options.get(name) {
        None => Ok(None),
        Some(Value::String(text)) => Ok(Some(text.clone())),
        Some(_) => Err(invalid(format!("the option {name} must be a text"))),
    };
    for name in options.keys() {
        match name.as_str() {
            "label" | "phase" | "provider" | "model" | "schema" => {}
            "effort" | "isolation" | "agentType" => {
                return Err(format!("UNSUPPORTED_OPTION: {name} is not available yet; leave it out"));
            }
            _ => {
                return Err(format!(
                    "UNSUPPORTED_OPTION: {name} is no option; there are label, phase, provider, model, schema"
                ));
            }
        }
    }
    let model = match (text("provider")?, text("model")?) {
        (Some(provider), Some(model)) => Some(format!("{provider}/{model}")),
        (None, model) => model,
        (Some(_), None) => return Err(invalid("provider needs a model beside it".to_owned())),
    };
    if let Some(model) = model.as_ref().filter(|model| ModelRef::parse(model).is_none()) {
        return Err(invalid(format!("`{model}` is not written provider/model")));
    }
    let output_schema = options.get("schema").cloned();
    if let Some(wanted) = &output_schema {
        schema::check_object(wanted).map_err(|error| format!("UNSUPPORTED_SCHEMA: {error}"))?;
    }
    let label = text("label")?.filter(|label| !label.trim().is_empty());
    let child = NewChild {
        label: label.unwrap_or_else(|| label_of(prompt)),
        prompt: prompt.to_owned(),
        output_schema,
        model,
        ..NewChild::default()
    };
    Ok((text("phase")?.filter(|phase| !phase.trim().is_empty()), child))
}

/// The first line of a prompt, cut.
fn label_of(prompt: &str) -> String {
    let line = prompt.trim().lines().next().unwrap_or_default().trim_end();
    match line.char_indices().nth(MAX_LABEL) {
        // The mark is one of the characters.
        Some(_) => line.chars().take(MAX_LABEL - 1).chain(['…']).collect(),
        None => line.to_owned(),
    }
}

/// An agent whose end is awaited.
type Running<'a> = BoxFuture<'a, (Submitted, Result<ChildEnd, SubagentError>)>;

/// The pool of one run.
pub(super) struct Pool<'a> {
    family: &'a dyn Subagents,
    journal: Journal<'a>,
    hooks: Arc<Hooks>,
    submitted: mpsc::UnboundedReceiver<Submitted>,
    signal: CancellationToken,
    size: usize,
}

impl<'a> Pool<'a> {
    pub fn new(ctx: &ToolContext, family: &'a dyn Subagents, journal: Journal<'a>, caps: Caps) -> Self {
        let (sender, submitted) = mpsc::unbounded_channel();
        let signal = ctx.cancel.child_token();
        let state = HookState { n_agents: 0, progress: Progress::default(), submitted: sender };
        let hooks = Hooks {
            state: Mutex::new(state),
            changed: Notify::new(),
            max_agents: caps.agents,
            signal: signal.clone(),
        };
        Self { family, journal, hooks: Arc::new(hooks), submitted, signal, size: caps.pool }
    }

    /// Who takes in what the script asks for.
    pub fn hooks(&self) -> Arc<Hooks> {
        self.hooks.clone()
    }

    /// Ends the run; cancelled with the call.
    pub fn signal(&self) -> &CancellationToken {
        &self.signal
    }

    /// Runs agents until the script has ended, then stops and awaits those that are left.
    pub async fn drive<T>(mut self, script: impl Future<Output = T>) -> (T, Journal<'a>) {
        let signal = self.signal.clone();
        let script = async {
            let output = script.await;
            signal.cancel();
            output
        };
        let (output, ()) = tokio::join!(script, self.run());
        let text = self.hooks.lock().progress.markdown();
        self.journal.show(text);
        (output, self.journal)
    }

    async fn run(&mut self) {
        let clock = self.journal.ctx.services().clock.clone();
        let mut queue: VecDeque<Submitted> = VecDeque::new();
        let mut running: FuturesUnordered<Running<'a>> = FuturesUnordered::new();
        let mut under_way: Vec<u64> = Vec::new();
        let mut is_changed = false;
        let signal = self.signal.clone();
        let over = async {
            signal.cancelled().await;
            clock.sleep(GRACE).await;
        };
        let mut over = pin!(over);
        loop {
            let is_over = signal.is_cancelled();
            if is_over {
                self.submitted.close();
                while let Ok(submitted) = self.submitted.try_recv() {
                    queue.push_back(submitted);
                }
                for never in queue.drain(..) {
                    self.hooks.set(never.seq, Stage::Stopped);
                    // The script may be gone.
                    let _ = never.reply.send(Err(OVER.to_owned()));
                }
                if running.is_empty() {
                    return;
                }
            }
            while running.len() < self.size
                && let Some(next) = queue.pop_front()
            {
                self.hooks.set(next.seq, Stage::Running);
                self.journal.agent_starts(next.seq, &next.child.label, next.phase.clone());
                under_way.push(next.seq);
                let (family, signal) = (self.family, self.signal.clone());
                running.push(Box::pin(async move {
                    let end = family.run(next.child.clone(), &signal).await;
                    (next, end)
                }));
            }
            let shown_in = self.journal.shown_in();
            tokio::select! {
                biased;
                () = signal.cancelled(), if !is_over => {}
                Some((ended, end)) = running.next(), if !running.is_empty() => {
                    under_way.retain(|seq| *seq != ended.seq);
                    self.settle(ended, end);
                }
                Some(submitted) = self.submitted.recv(), if !is_over => queue.push_back(submitted),
                () = clock.sleep(shown_in), if is_changed => {
                    is_changed = false;
                    let text = self.hooks.lock().progress.markdown();
                    self.journal.show(text);
                }
                () = self.hooks.changed.notified(), if !is_changed => is_changed = true,
                () = &mut over => break,
            }
        }
        // They were told to stop and do not; nobody waits for them any longer.
        for seq in under_way {
            self.hooks.set(seq, Stage::Stopped);
            self.journal.agent_ended(seq, AgentOutcome::Cancelled, None);
        }
    }

    fn settle(&mut self, ended: Submitted, end: Result<ChildEnd, SubagentError>) {
        let Submitted { seq, child, reply, .. } = ended;
        let is_over = self.signal.is_cancelled();
        let (outcome, child_id, answer) = match end {
            Err(_) if is_over => (AgentOutcome::Cancelled, None, Err(OVER.to_owned())),
            Err(error) => (AgentOutcome::Failed, None, Err(format!("AGENT_START: {error}"))),
            Ok(end) => {
                let value = match (end.stop, &child.output_schema) {
                    (ChildStop::Completed, None) => Some(Value::String(end.text)),
                    (ChildStop::Completed, Some(_)) => end.value,
                    _ => None,
                };
                let outcome = match (&value, is_over) {
                    (Some(_), _) => AgentOutcome::Completed,
                    (None, true) => AgentOutcome::Cancelled,
                    (None, false) => AgentOutcome::Failed,
                };
                (outcome, Some(end.session), Ok(value.unwrap_or(Value::Null)))
            }
        };
        self.journal.agent_ended(seq, outcome, child_id);
        self.hooks.set(
            seq,
            match outcome {
                AgentOutcome::Completed => Stage::Done,
                AgentOutcome::Failed => Stage::Failed,
                AgentOutcome::Cancelled => Stage::Stopped,
            },
        );
        // The script may be gone.
        let _ = reply.send(answer);
    }
}
