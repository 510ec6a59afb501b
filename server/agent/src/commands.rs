//! Slash commands: run outside the model. Source: `spec/runtime.md` §12.

use crate::core::Core;
use crate::goals::{self, SessionGoals};
use async_trait::async_trait;
use protocol::content::ContentBlock;
use protocol::mode::Mode;
use protocol::model::{ModelInfo, ModelRef};
use services::session_store::StoreError;
use std::sync::Arc;

/// A command on offer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Command {
    /// Name without the slash.
    pub name: &'static str,
    /// One line for a person.
    pub description: &'static str,
    /// What to type after the name; `None` takes no input.
    pub hint: Option<&'static str>,
}

/// A command that the program around a session answers, since the agent does not reach what it is about.
#[async_trait]
pub trait ExtraCommand: Send + Sync {
    /// What it is.
    fn command(&self) -> Command;

    /// Runs it; `input` is what follows the name, trimmed. The user reads the answer or the error, which is Markdown.
    /// Dropped when the user stops it.
    ///
    /// # Errors
    /// What went wrong, for the user.
    async fn run(&self, input: &str) -> Result<String, String>;
}

/// Name of the command that needs the whole session, which runs it itself.
pub(crate) const COMPACT: &str = "compact";

/// The agent's own commands, in the order in which they are offered.
const COMMANDS: [Command; 6] = [
    Command {
        name: "plan",
        description: "Explore and plan without changing anything",
        hint: Some("[off | what to plan]"),
    },
    Command {
        name: "goal",
        description: "Show or set the goal that the session works towards by itself",
        hint: Some("[<objective> | clear | edit <objective> | pause | resume]"),
    },
    Command {
        name: "permission",
        description: "Show or switch what may be done without asking",
        hint: Some("[read-only | ask | workspace-write | danger-full-access]"),
    },
    Command { name: "model", description: "Show or switch the model", hint: Some("[provider/model]") },
    Command {
        name: COMPACT,
        description: "Replace earlier messages by a summary to make room",
        hint: Some("[what to keep above all]"),
    },
    Command { name: "help", description: "Show what can be typed", hint: None },
];

/// What became of a command.
pub(crate) enum CommandEnd {
    /// Done; the user is told this.
    Told(Result<String, String>),
    /// The model takes over with this prompt.
    Prompt(Vec<ContentBlock>),
}

/// Every command of a session, in the order in which they are offered.
pub(crate) fn all(extra: &[Arc<dyn ExtraCommand>]) -> Vec<Command> {
    let (help, own) = COMMANDS.split_last().map_or((None, &[][..]), |(help, own)| (Some(*help), own));
    own.iter().copied().chain(extra.iter().map(|extra| extra.command())).chain(help).collect()
}

/// The command a prompt begins with, and its input.
pub(crate) fn parse(content: &[ContentBlock], extra: &[Arc<dyn ExtraCommand>]) -> Option<(Command, String)> {
    let line = content.first()?.as_text()?.strip_prefix('/')?;
    let name_end = line.find(char::is_whitespace).unwrap_or(line.len());
    let command = all(extra).into_iter().find(|command| command.name == &line[..name_end])?;
    Some((command, line[name_end..].to_owned()))
}

/// Runs a command. `rest` is what follows the first block of the prompt.
///
/// # Errors
/// The log could not be written.
pub(crate) async fn run(
    core: &Core,
    goals: &SessionGoals,
    extra: &[Arc<dyn ExtraCommand>],
    command: Command,
    input: &str,
    rest: &[ContentBlock],
) -> Result<CommandEnd, StoreError> {
    let input = input.trim();
    if let Some(extra) = extra.iter().find(|extra| extra.command() == command) {
        return Ok(CommandEnd::Told(extra.run(input).await));
    }
    let told = match command.name {
        "plan" => return plan(core, input, rest),
        "goal" => return Ok(goals::command::run(goals, input, rest)),
        "permission" => permission(core, input)?,
        "model" => model(core, input)?,
        _ => Ok(help(&all(extra))),
    };
    Ok(CommandEnd::Told(told))
}

fn plan(core: &Core, input: &str, rest: &[ContentBlock]) -> Result<CommandEnd, StoreError> {
    let told = |text: String| Ok(CommandEnd::Told(Ok(text)));
    if input == "off" {
        let state = core.state();
        if !state.plan {
            return told("Plan mode is off already.".to_owned());
        }
        core.set_mode(state.preset)?;
        return told(format!("Plan mode is off; the mode is {}.", state.preset.id()));
    }
    core.set_mode(Mode::Plan)?;
    if input.is_empty() && rest.is_empty() {
        return told("Plan mode is on: nothing is changed until it is off.".to_owned());
    }
    let mut prompt = rest.to_vec();
    if !input.is_empty() {
        prompt.push(ContentBlock::text(input));
    }
    Ok(CommandEnd::Prompt(prompt))
}

fn permission(core: &Core, input: &str) -> Result<Result<String, String>, StoreError> {
    if input.is_empty() {
        let mode = core.state().mode();
        return Ok(Ok(format!("The mode is {}: {}.", mode.id(), mode.description())));
    }
    let Some(mode) = Mode::from_id(input) else {
        let known: Vec<&str> = Mode::ALL.iter().map(|mode| mode.id()).collect();
        return Ok(Err(format!("There is no mode `{input}`; use one of {}.", known.join(", "))));
    };
    core.set_mode(mode)?;
    Ok(Ok(format!("The mode is now {}: {}.", mode.id(), mode.description())))
}

fn model(core: &Core, input: &str) -> Result<Result<String, String>, StoreError> {
    if input.is_empty() {
        return Ok(Ok(models(&core.model().0, &core.models().list())));
    }
    let Some(model) = ModelRef::parse(input) else {
        return Ok(Err(format!("`{input}` is not written provider/model; /model alone lists some.")));
    };
    if let Err(error) = core.models().check(&model) {
        return Ok(Err(format!("{model} cannot be used: {error}")));
    }
    let effort = core.models().info(&model).default_effort;
    core.set_model(model.clone(), effort)?;
    Ok(Ok(format!("The model is now {model}.")))
}

fn models(current: &ModelRef, listed: &[ModelInfo]) -> String {
    let rows: Vec<String> = listed.iter().map(|info| format!("- `{}`", info.id)).collect();
    format!(
        "The model is {current}. Switch with `/model provider/model`, for instance one of these:\n\n{}",
        rows.join("\n")
    )
}

fn help(commands: &[Command]) -> String {
    let row = |command: &Command| {
        let input = command.hint.map(|hint| format!(" {hint}")).unwrap_or_default();
        format!("- `/{}{input}`: {}", command.name, command.description)
    };
    let rows: Vec<String> = commands.iter().map(row).collect();
    format!(
        "Write what you want done. These are not sent to the model:\n\n{}\n\nAnywhere in a prompt, `/name` loads the skill of \
         that name.",
        rows.join("\n")
    )
}
