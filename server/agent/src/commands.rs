//! Slash commands: run outside the model. Source: `spec/runtime.md` §12.

use crate::core::Core;
use protocol::content::ContentBlock;
use protocol::mode::Mode;
use services::session_store::StoreError;

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

/// Every command, in the order in which they are offered.
pub const COMMANDS: [Command; 2] = [
    Command {
        name: "plan",
        description: "Explore and plan without changing anything",
        hint: Some("[off | what to plan]"),
    },
    Command {
        name: "permission",
        description: "Show or switch what may be done without asking",
        hint: Some("[read-only | ask | workspace-write | danger-full-access]"),
    },
];

/// What became of a command.
pub(crate) enum CommandEnd {
    /// Done; the user is told this.
    Told(Result<String, String>),
    /// The model takes over with this prompt.
    Prompt(Vec<ContentBlock>),
}

/// The command a prompt begins with, and its input.
pub(crate) fn parse(content: &[ContentBlock]) -> Option<(Command, String)> {
    let line = content.first()?.as_text()?.strip_prefix('/')?;
    let name_end = line.find(char::is_whitespace).unwrap_or(line.len());
    let command = COMMANDS.into_iter().find(|command| command.name == &line[..name_end])?;
    Some((command, line[name_end..].to_owned()))
}

/// Runs a command. `rest` is what follows the first block of the prompt.
///
/// # Errors
/// The log could not be written.
pub(crate) fn run(
    core: &Core,
    command: Command,
    input: &str,
    rest: &[ContentBlock],
) -> Result<CommandEnd, StoreError> {
    let input = input.trim();
    match command.name {
        "plan" if input == "off" => {
            let state = core.state();
            if !state.plan {
                return Ok(CommandEnd::Told(Ok("Plan mode is off already.".to_owned())));
            }
            core.set_mode(state.preset)?;
            Ok(CommandEnd::Told(Ok(format!("Plan mode is off; the mode is {}.", state.preset.id()))))
        }
        "plan" => {
            core.set_mode(Mode::Plan)?;
            if input.is_empty() && rest.is_empty() {
                return Ok(CommandEnd::Told(Ok(
                    "Plan mode is on: nothing is changed until it is off.".to_owned()
                )));
            }
            let mut prompt = rest.to_vec();
            if !input.is_empty() {
                prompt.push(ContentBlock::text(input));
            }
            Ok(CommandEnd::Prompt(prompt))
        }
        _ if input.is_empty() => {
            let mode = core.state().mode();
            Ok(CommandEnd::Told(Ok(format!("The mode is {}: {}.", mode.id(), mode.description()))))
        }
        _ => match Mode::from_id(input) {
            Some(mode) => {
                core.set_mode(mode)?;
                Ok(CommandEnd::Told(Ok(format!("The mode is now {}: {}.", mode.id(), mode.description()))))
            }
            None => {
                let known: Vec<&str> = Mode::ALL.iter().map(|mode| mode.id()).collect();
                Ok(CommandEnd::Told(Err(format!(
                    "There is no mode `{input}`; use one of {}.",
                    known.join(", ")
                ))))
            }
        },
    }
}
