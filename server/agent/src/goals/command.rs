//! `/goal`: the person's own way to the goal. Source: `spec/tools-agentic.md` §4.7.

use super::SessionGoals;
use crate::commands::CommandEnd;
use protocol::content::ContentBlock;
use protocol::goal::{GoalPhase, GoalRef};
use services::goals::{GoalError, GoalStep, GoalView, Goals};

/// What `/goal` was given.
#[derive(Debug, PartialEq)]
enum Input<'a> {
    Show,
    Clear,
    Pause,
    Resume,
    Edit(&'a str),
    Objective(&'a str),
}

/// Runs `/goal`. `rest` is what follows the first block of the prompt: it goes to the model with a new objective.
pub(crate) fn run(goals: &SessionGoals, input: &str, rest: &[ContentBlock]) -> CommandEnd {
    let input = parse(input);
    if !rest.is_empty() && !matches!(input, Input::Objective(_)) {
        let told = "Only a new objective can come with images or files: `/goal <objective>`.";
        return CommandEnd::Told(Err(told.to_owned()));
    }
    if let (Input::Objective(objective), false) = (&input, rest.is_empty()) {
        return match create(goals, objective) {
            Ok(_) => {
                let mut prompt = vec![ContentBlock::text(*objective)];
                prompt.extend(rest.iter().cloned());
                CommandEnd::Prompt(prompt)
            }
            Err(told) => CommandEnd::Told(Err(told)),
        };
    }
    CommandEnd::Told(act(goals, input))
}

fn parse(input: &str) -> Input<'_> {
    let input = input.trim();
    match input.to_ascii_lowercase().as_str() {
        "" => return Input::Show,
        "clear" => return Input::Clear,
        "pause" => return Input::Pause,
        "resume" => return Input::Resume,
        "edit" => return Input::Edit(""),
        _ => {}
    }
    match input.split_once(char::is_whitespace) {
        Some((word, text)) if word.eq_ignore_ascii_case("edit") => Input::Edit(text.trim()),
        _ => Input::Objective(input),
    }
}

fn act(goals: &SessionGoals, input: Input<'_>) -> Result<String, String> {
    if input == Input::Edit("") {
        return Err("Say the new objective: `/goal edit <objective>`.".to_owned());
    }
    let Some(view) = goals.current() else {
        return match input {
            Input::Show => Ok("There is no goal. `/goal <objective>` begins one.".to_owned()),
            Input::Objective(objective) => create(goals, objective),
            _ => Err("There is no goal. `/goal <objective>` begins one.".to_owned()),
        };
    };
    let is_complete = view.goal.phase == GoalPhase::Complete;
    let reference = GoalRef { id: view.goal.id.clone(), revision: view.goal.revision };
    let step = match input {
        Input::Show => return Ok(status(&view)),
        Input::Objective(objective) => return create(goals, objective),
        Input::Edit(objective) if is_complete => return create(goals, objective),
        Input::Edit(objective) => GoalStep::Edit { objective: Some(objective.to_owned()), max_rounds: None },
        Input::Pause => GoalStep::Pause,
        Input::Resume => GoalStep::Resume,
        Input::Clear => GoalStep::Clear,
    };
    match goals.apply(&reference, step) {
        Ok(Some(view)) => Ok(status(&view)),
        Ok(None) => Ok("The goal is cleared.".to_owned()),
        Err(error) => Err(told(&error)),
    }
}

fn create(goals: &SessionGoals, objective: &str) -> Result<String, String> {
    match goals.create(objective, None) {
        Ok(view) => Ok(status(&view)),
        Err(error) => Err(told(&error)),
    }
}

fn told(error: &GoalError) -> String {
    match error {
        GoalError::AlreadyExists => "There is an unfinished goal. `/goal edit <objective>` changes it, \
                                     `/goal clear` makes room for another."
            .to_owned(),
        error => format!("Nothing was changed: {error}."),
    }
}

/// The goal for people, in Markdown.
fn status(view: &GoalView) -> String {
    let goal = &view.goal;
    let how = match (goal.phase, view.armed) {
        (GoalPhase::Active, true) => "active: the session goes on with it by itself",
        (GoalPhase::Active, false) => "active, but stopped: nothing begins by itself",
        (phase, _) => phase.id(),
    };
    let commands = match (goal.phase, view.armed) {
        (GoalPhase::Active, true) => "`/goal pause`, `/goal edit <objective>`, `/goal clear`",
        (GoalPhase::Complete, _) => "`/goal <objective>`, `/goal clear`",
        (GoalPhase::Active, false) => {
            "`/goal resume`, `/goal pause`, `/goal edit <objective>`, `/goal clear`"
        }
        _ => "`/goal resume`, `/goal edit <objective>`, `/goal clear`",
    };
    let blocker = goal
        .blocked_reason
        .as_ref()
        .map(|blocker| format!("- Blocked by: {} ({})\n", blocker.message, blocker.code))
        .unwrap_or_default();
    format!(
        "**Goal**: {}\n\n- Status: {how}\n{blocker}- Rounds: {} of {}\n\nNext: {commands}",
        goal.objective, view.rounds_started, goal.max_goal_rounds
    )
}

#[cfg(test)]
mod tests {
    use super::{Input, parse};

    #[test]
    fn control_words_are_the_whole_input_and_everything_else_is_an_objective() {
        let cases = [
            ("  ", Input::Show),
            ("CLEAR", Input::Clear),
            ("Pause ", Input::Pause),
            ("resume", Input::Resume),
            ("Edit  ship it ", Input::Edit("ship it")),
            ("edit", Input::Edit("")),
            ("edition two", Input::Objective("edition two")),
            ("clear the table", Input::Objective("clear the table")),
        ];
        for (input, expected) in cases {
            assert_eq!(parse(input), expected, "{input}");
        }
    }
}
