//! What a session's log says about the present: mode, model, rules, plan, title. A pure fold.

use protocol::decision::PermissionRule;
use protocol::event::{SessionEvent, TitleSource, TodoItem};
use protocol::message::{InstructionChange, MessageSource, SkillEntry};
use protocol::mode::Mode;
use protocol::model::{ModelRef, Usage};
use protocol::tool::ToolSchema;
use services::goals::GoalState;
use services::schedules::ScheduleState;
use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::Arc;

/// The state folded from a log.
#[derive(Clone, Debug, PartialEq)]
pub struct SessionState {
    /// The permission mode under plan mode; never [`Mode::Plan`].
    pub preset: Mode,
    /// Whether plan mode is on.
    pub plan: bool,
    /// Whether the log says which mode is in force, rather than the configuration.
    pub mode_logged: bool,
    /// The model and its effort; `None` before one was chosen.
    pub model: Option<(ModelRef, Option<String>)>,
    /// Standing permissions.
    pub rules: Vec<PermissionRule>,
    /// The todo list; `None` before the first, and cleared when a turn starts after all is done.
    pub todos: Option<Vec<TodoItem>>,
    /// The goal; `None` where there is none.
    pub goal: Option<GoalState>,
    /// The reminders.
    pub schedules: ScheduleState,
    /// The latest title.
    pub title: Option<(String, TitleSource)>,
    /// Number of the last turn.
    pub turn: u64,
    /// Whether a turn is open.
    pub turn_open: bool,
    /// The last system prompt and tool list.
    ///
    /// Shared: the state is copied with every event, and this is by far its largest part.
    pub header: Option<Arc<(String, Vec<ToolSchema>)>>,
    /// Tokens of the last answered request.
    pub usage: Option<Usage>,
    /// Tokens of all answers so far, by model; what a fork inherited is not its own.
    pub spent: Vec<(ModelRef, Usage)>,
    /// The last runtime-context snapshot the model was shown.
    pub runtime_context: Option<String>,
    /// Files of workspace instructions that the model was told, with their versions.
    pub instructions: BTreeMap<PathBuf, String>,
    /// The list of skills the model was shown last; `None` before the first. Shared as the header is.
    pub skills: Option<Arc<Vec<SkillEntry>>>,
}

impl SessionState {
    /// Preset and plan flag of a session that starts in this mode.
    pub fn initial_mode(mode: Mode) -> (Mode, bool) {
        match mode {
            Mode::Plan => (Mode::default(), true),
            mode => (mode, false),
        }
    }

    /// The state of an empty log.
    pub fn new(preset: Mode, plan: bool) -> Self {
        Self {
            preset,
            plan,
            mode_logged: false,
            model: None,
            rules: Vec::new(),
            todos: None,
            goal: None,
            schedules: ScheduleState::default(),
            title: None,
            turn: 0,
            turn_open: false,
            header: None,
            usage: None,
            spent: Vec::new(),
            runtime_context: None,
            instructions: BTreeMap::new(),
            skills: None,
        }
    }

    /// The mode in force.
    pub fn mode(&self) -> Mode {
        if self.plan { Mode::Plan } else { self.preset }
    }

    /// Takes the next event into account.
    pub fn apply(&mut self, event: &SessionEvent) {
        match event {
            SessionEvent::TurnStart { turn } => {
                self.turn = *turn;
                self.turn_open = true;
                self.todos = None;
            }
            SessionEvent::TurnEnd { .. } => self.turn_open = false,
            SessionEvent::PlanMode { active } => self.plan = *active,
            SessionEvent::PermissionPreset { preset } => {
                self.preset = *preset;
                self.mode_logged = true;
            }
            SessionEvent::PermissionRule { rule } if !self.rules.contains(rule) => {
                self.rules.push(rule.clone())
            }
            SessionEvent::RequestContext { model, effort, .. } => {
                self.model = Some((model.clone(), effort.clone()));
            }
            SessionEvent::RequestHeader { system, tools, .. } => {
                self.header = Some(Arc::new((system.clone(), tools.clone())));
            }
            SessionEvent::TodoWrite { todos } => self.todos = Some(todos.clone()),
            SessionEvent::Title { title, source } => self.title = Some((title.clone(), *source)),
            SessionEvent::AssistantMessage { message, usage: Some(usage), .. } => {
                self.usage = Some(*usage);
                match self.spent.iter_mut().find(|(model, _)| *model == message.model) {
                    Some((_, spent)) => spent.add(usage),
                    None => self.spent.push((message.model.clone(), *usage)),
                }
            }
            SessionEvent::GoalChange(change) => GoalState::fold(&mut self.goal, change),
            SessionEvent::ScheduleChange(change) => self.schedules.fold(change),
            SessionEvent::EndSeed {} => {
                self.spent.clear();
                self.schedules.clear();
            }
            SessionEvent::CompactionPrune { tokens_after, .. } => self.usage = Some(estimated(*tokens_after)),
            SessionEvent::Compaction { tokens_after, .. } => {
                self.usage = Some(estimated(*tokens_after));
                // The messages that told these may be gone; they are told again with the next step.
                self.runtime_context = None;
                self.instructions.clear();
                self.skills = None;
            }
            SessionEvent::UserMessage { message } => match &message.source {
                MessageSource::AgentInstructions { changes } => {
                    for InstructionChange { path, digest } in changes {
                        match digest {
                            Some(digest) => _ = self.instructions.insert(path.clone(), digest.clone()),
                            None => _ = self.instructions.remove(path),
                        }
                    }
                }
                MessageSource::Goal { goal_id, revision, round } => {
                    if let Some(goal) = &mut self.goal {
                        goal.admit(goal_id, *revision, *round);
                    }
                }
                MessageSource::SkillCatalog { entries } => self.skills = Some(Arc::new(entries.clone())),
                MessageSource::Plugin { plugin, .. } if plugin == crate::prompt::RUNTIME_CONTEXT => {
                    self.runtime_context =
                        message.content.first().and_then(|block| block.as_text()).map(str::to_owned);
                }
                _ => {}
            },
            _ => {}
        }
    }
}

/// A context that was measured here, not by the provider.
fn estimated(tokens: u64) -> Usage {
    Usage { input_tokens: tokens, ..Usage::default() }
}
