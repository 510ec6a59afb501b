//! The slash commands on offer.

use crate::text::one_line;
use agent_client_protocol::v1::schema::{
    AvailableCommand, AvailableCommandInput, AvailableCommandsUpdate, SessionUpdate, UnstructuredCommandInput,
};

/// One slash command.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SlashCommand {
    /// Name without the slash.
    pub name: String,
    /// One line about it.
    pub description: String,
    /// What may follow the name, as a placeholder; `None` when it takes nothing.
    pub hint: Option<String>,
}

/// The whole list; it replaces the one before.
pub fn present_commands(commands: &[SlashCommand]) -> SessionUpdate {
    SessionUpdate::AvailableCommandsUpdate(AvailableCommandsUpdate::new(
        commands.iter().map(command).collect(),
    ))
}

fn command(command: &SlashCommand) -> AvailableCommand {
    let hint = command.hint.as_deref().map(one_line);
    let input = hint.map(|hint| AvailableCommandInput::Unstructured(UnstructuredCommandInput::new(hint)));
    AvailableCommand::new(command.name.as_str(), one_line(&command.description)).input(input)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fixtures::json_of;
    use serde_json::json;

    #[test]
    fn commands_are_listed_with_their_hints() {
        let command = |name: &str, hint: Option<&str>| SlashCommand {
            name: name.to_owned(),
            description: "What it does".to_owned(),
            hint: hint.map(str::to_owned),
        };
        let update =
            json_of(present_commands(&[command("compact", None), command("plan", Some("[off|message]"))]));
        assert_eq!(
            update["availableCommands"],
            json!([
                { "name": "compact", "description": "What it does" },
                { "name": "plan", "description": "What it does", "input": { "hint": "[off|message]" } },
            ])
        );
    }
}
