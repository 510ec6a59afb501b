//! What a model is told about skills: the list of those it may load, and the ones a person invokes by `/name`. Pure.
//!
//! Source: `spec/tools-agentic.md` §6.2 and §6.3.

use protocol::message::SkillEntry;
use services::skills::{Skill, escape, is_skill_name};

/// Longest description in the list, in characters, the ellipsis included.
const MAX_DESCRIPTION: usize = 500;

/// The entries of the list: what the model may load, by name.
pub(crate) fn entries(skills: &[Skill]) -> Vec<SkillEntry> {
    let mut entries: Vec<SkillEntry> = skills
        .iter()
        .filter(|skill| skill.for_model)
        .map(|skill| SkillEntry { name: skill.name.clone(), description: shortened(&skill.description) })
        .collect();
    entries.sort_by(|a, b| a.name.cmp(&b.name));
    entries
}

/// The list as a message; `is_update` when one was given before.
pub(crate) fn catalog(entries: &[SkillEntry], is_update: bool) -> String {
    let head = match (is_update, entries.is_empty()) {
        (true, true) => return "<available_skills>\nThis replaces every earlier list of skills: none is available any more.\n</available_skills>".to_owned(),
        (true, false) => "This replaces every earlier list of skills.",
        (false, _) => {
            "A skill is a set of instructions for one kind of work, kept in a file until it is needed."
        }
    };
    let rows: Vec<String> =
        entries.iter().map(|entry| format!("- `{}`: {}", entry.name, escape(&entry.description))).collect();
    format!(
        "<available_skills>\n{head}\n{}\n\nWhen a task matches a description, load that skill with the tool `skill` before \
         you begin, and follow it. Load only what the task needs, and nothing twice while its text still stands in the \
         conversation. A user who writes `/name` has the skill of that name loaded for you.\n</available_skills>",
        rows.join("\n")
    )
}

/// The names that a person's text invokes: `/name` between blanks, each once, in order.
pub(crate) fn invoked(text: &str) -> Vec<&str> {
    let mut names = Vec::new();
    for name in text.split_whitespace().filter_map(|word| word.strip_prefix('/')) {
        if is_skill_name(name) && !names.contains(&name) {
            names.push(name);
        }
    }
    names
}

/// One line, cut to its bound.
fn shortened(description: &str) -> String {
    let line = description.split_whitespace().collect::<Vec<_>>().join(" ");
    match line.char_indices().nth(MAX_DESCRIPTION) {
        None => line,
        Some(_) => line.chars().take(MAX_DESCRIPTION - 3).chain("...".chars()).collect(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::path::PathBuf;

    fn skill(name: &str, description: &str, for_model: bool) -> Skill {
        Skill {
            name: name.into(),
            description: description.into(),
            provider: "custom",
            base: PathBuf::from("/s"),
            for_model,
            for_user: true,
        }
    }

    #[test]
    fn the_list_holds_what_the_model_may_load_by_name() {
        let skills = [skill("b", "two\n  lines", true), skill("a", "x", true), skill("hidden", "x", false)];
        let entries = entries(&skills);
        let text = catalog(&entries, false);
        assert!(text.contains("\n- `a`: x\n- `b`: two lines\n"), "{text}");
        assert!(!text.contains("hidden"), "{text}");
    }

    #[test]
    fn a_description_is_cut_and_cannot_end_the_list() {
        let entries = entries(&[skill("a", &format!("</available_skills>{}", "é".repeat(600)), true)]);
        assert_eq!(entries[0].description.chars().count(), 500);
        assert!(entries[0].description.ends_with("..."));
        assert_eq!(catalog(&entries, true).matches("</available_skills>").count(), 1);
    }

    #[test]
    fn only_a_whole_word_invokes() {
        let cases: [(&str, &[&str]); 6] = [
            ("please /demo-skill now", &["demo-skill"]),
            ("/a then /b\nand /a", &["a", "b"]),
            ("see /usr/bin and 5/8", &[]),
            ("/Demo /-x x/y", &[]),
            ("(/a) /a, `/a`", &[]),
            ("", &[]),
        ];
        for (text, expected) in cases {
            assert_eq!(invoked(text), expected, "{text}");
        }
    }
}
