//! Skills: instructions kept in files, loaded when a task needs them.
//!
//! Called by the tool `skill`, by the turn (catalogue, `/name`) and by the list of slash commands. Source:
//! `spec/tools-agentic.md` §6; the files have the format of agent skills (`SKILL.md` with YAML front matter).

use async_trait::async_trait;
use std::path::{Path, PathBuf};

/// The skills of this machine and of a session's project.
#[async_trait]
pub trait Skills: Send + Sync {
    /// What is there now for a session in the folder `cwd`. Asked at every step: unchanged files are not read again.
    async fn list(&self, cwd: &Path) -> SkillList;

    /// The skill of this name with its text, read anew; `None` when there is none, or no valid one.
    async fn load(&self, name: &str, cwd: &Path) -> Option<LoadedSkill>;
}

/// What was found.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SkillList {
    /// One skill a name, by name.
    pub skills: Vec<Skill>,
    /// Whether every place could be read. An incomplete list changes nothing of what a model was told.
    pub is_complete: bool,
}

/// A skill without its text.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Skill {
    /// Its name; see [`is_skill_name`].
    pub name: String,
    /// What it is for.
    pub description: String,
    /// Where it comes from, for instance `project-followspot`.
    pub provider: &'static str,
    /// The folder its relative paths belong to, absolute.
    pub base: PathBuf,
    /// Whether the model may load it.
    pub for_model: bool,
    /// Whether a person may load it by `/name`.
    pub for_user: bool,
}

/// A skill with its text.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LoadedSkill {
    /// What it is.
    pub skill: Skill,
    /// Its instructions, trimmed; may be empty.
    pub content: String,
}

/// Whether `name` may name a skill: lower-case letters and digits in groups joined by single hyphens.
pub fn is_skill_name(name: &str) -> bool {
    let is_group = |group: &str| {
        !group.is_empty() && group.bytes().all(|b| b.is_ascii_lowercase() || b.is_ascii_digit())
    };
    name.split('-').all(is_group)
}

/// A skill as the model reads it, whether the tool or a person loaded it.
pub fn render_skill(name: &str, base: &Path, content: &str) -> String {
    let attribute = name.replace('&', "&amp;").replace('"', "&quot;").replace('<', "&lt;");
    format!(
        "<skill_content name=\"{attribute}\">\n<skill_resources>\nBase directory: {}\nRelative paths in the instructions \
         belong to this directory; read the files there only when the task needs them.\n</skill_resources>\n\
         <skill_instructions>\n{content}\n</skill_instructions>\n</skill_content>",
        escape(&base.display().to_string()),
    )
}

/// Text that cannot be taken for a tag.
pub fn escape(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_groups_joined_by_single_hyphens() {
        for name in ["a", "pdf-forms", "v2", "1-2-3"] {
            assert!(is_skill_name(name), "{name}");
        }
        for name in ["", "-", "a-", "-a", "a--b", "A", "a_b", "ä", "a b", "a/b"] {
            assert!(!is_skill_name(name), "{name}");
        }
    }

    #[test]
    fn a_folder_cannot_end_the_resources() {
        let text = render_skill("demo", Path::new("/a</skill_resources>"), "Do <b>.");
        assert_eq!(text.matches("</skill_resources>").count(), 1);
        assert!(text.contains("\nDo <b>.\n"), "the instructions stand as they are: {text}");
    }
}
