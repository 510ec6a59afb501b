//! What enters a conversation beside the prompt: workspace instructions, skills, and what slash commands say.

use crate::kit::*;
use serde_json::{Value, json};

const DEMO: &str = "---\nname: demo\ndescription: Shows how <it> works\n---\nDo it like this.\n";

/// The texts of the user role that contain `part` in the last request.
fn told(stage: &Stage, part: &str) -> Vec<String> {
    stage.user_texts_for_model().into_iter().filter(|text| text.contains(part)).collect()
}

fn command_names(update: &Value) -> Vec<String> {
    let commands = update["availableCommands"].as_array().unwrap().iter();
    commands.map(|command| command["name"].as_str().unwrap().to_owned()).collect()
}

#[test]
fn skills_are_listed_loaded_and_invoked() {
    let stage = scenario()
        .file(".git/HEAD", "")
        .file(".followspot/skills/demo/SKILL.md", DEMO)
        .file(
            ".agents/skills/hidden.md",
            "---\nname: hidden\ndescription: For people\ndisable-model-invocation: yes\n---\nSecret way.\n",
        )
        .file(".agents/skills/bad.md", "no front matter")
        .model(calls("skill", json!({ "name": "demo" })))
        .model(calls("skill", json!({ "name": "hidden" })))
        .model(says("Done."))
        .model(says("Again."))
        .start();
    assert_eq!(stage.prompt("please do it, see /usr/bin"), "end_turn");
    let lists = told(&stage, "<available_skills>");
    assert_eq!(lists.len(), 1, "{lists:?}");
    assert!(lists[0].contains("- `demo`: Shows how &lt;it&gt; works\n"), "{lists:?}");
    assert!(!lists[0].contains("hidden") && !lists[0].contains("bad"), "{lists:?}");
    let results = stage.results_for_model();
    assert!(results[0].contains("Do it like this."), "{results:?}");
    assert!(results[1].contains("the user loads it with /hidden"), "{results:?}");
    assert_eq!(stage.prompt("now /hidden twice /hidden"), "end_turn");
    assert_eq!(told(&stage, "Secret way.").len(), 1);
    assert_eq!(told(&stage, "<available_skills>").len(), 1, "an unchanged list is not told again");
}

#[test]
fn a_skill_that_comes_or_goes_is_told_and_its_text_is_read_anew() {
    let stage = scenario()
        .file(".git/HEAD", "")
        .model(says("One."))
        .model(says("Two."))
        .model(says("Three."))
        .model(says("Four."))
        .start();
    stage.prompt("one");
    assert_eq!(told(&stage, "<available_skills>"), Vec::<String>::new());
    let file = ".followspot/skills/demo/SKILL.md";
    stage.write(file, DEMO);
    stage.prompt("two");
    assert_eq!(told(&stage, "<available_skills>").len(), 1);
    let names = command_names(&stage.updates("available_commands_update").pop().unwrap());
    assert!(names.contains(&"demo".to_owned()) && names.contains(&"plan".to_owned()), "{names:?}");
    stage.write(file, DEMO.replace("like this", "like that"));
    stage.prompt("/demo three");
    assert_eq!(told(&stage, "like that").len(), 1);
    assert_eq!(told(&stage, "<available_skills>").len(), 1, "a change of the text is no change of the list");
    std::fs::remove_file(stage.path(file)).unwrap();
    stage.prompt("four");
    let lists = told(&stage, "<available_skills>");
    assert!(lists.len() == 2 && lists[1].contains("none is available any more"), "{lists:?}");
    assert!(
        !command_names(&stage.updates("available_commands_update").pop().unwrap())
            .contains(&"demo".to_owned())
    );
}

#[test]
fn instructions_of_deeper_folders_and_changes_are_told_when_the_agent_comes_there() {
    let stage = scenario()
        .file("AGENTS.md", "Root rules.")
        .file("deep/er/AGENTS.md", "Deep rules.")
        .file("deep/er/a.txt", "alpha\n")
        .model(calls("read", json!({ "file_path": "deep/er/a.txt" })))
        .model(calls("read", json!({ "file_path": "deep/er/a.txt" })))
        .model(says("Read."))
        .model(says("Known."))
        .model(says("Gone."))
        .start();
    stage.prompt("one");
    assert_eq!(told(&stage, "Root rules.").len(), 1);
    assert_eq!(told(&stage, "Deep rules.").len(), 1);
    stage.write("AGENTS.md", "New rules.");
    stage.prompt("two");
    assert_eq!((told(&stage, "Root rules.").len(), told(&stage, "New rules.").len()), (1, 1));
    std::fs::remove_file(stage.path("deep/er/AGENTS.md")).unwrap();
    stage.prompt("three");
    assert_eq!(told(&stage, "deep/er/AGENTS.md is gone").len(), 1);
}

#[test]
fn commands_are_answered_without_the_model() {
    let stage = scenario().start();
    let names = command_names(&stage.updates("available_commands_update").pop().unwrap());
    assert_eq!(names.first().map(String::as_str), Some("plan"), "{names:?}");
    for (command, expected) in [
        ("/help", "`/permission"),
        ("/model", "The model is openai/scripted"),
        ("/model nonsense", "is not written provider/model"),
        ("/model openai/other", "The model is now openai/other."),
        ("/mcp", "There are no MCP servers"),
        ("/sessions", "No session of this folder"),
        ("/permission read-only", "The mode is now read-only"),
    ] {
        assert_eq!(stage.prompt(command), "end_turn");
        assert!(stage.said().contains(expected), "{command}: {}", stage.said());
    }
    assert_eq!(stage.model().requests().len(), 0);
    let options = stage.updates("config_option_update").pop().unwrap()["configOptions"].to_string();
    assert!(options.contains("openai/other"), "{options}");
}

#[test]
fn an_unknown_command_is_ordinary_text() {
    let stage = scenario().model(says("Hm?")).start();
    assert_eq!(stage.prompt("/unknown thing"), "end_turn");
    assert_eq!(told(&stage, "/unknown thing").len(), 1);
}
