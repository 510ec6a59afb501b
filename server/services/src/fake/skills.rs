//! Skills that a test arranges.

use super::lock;
use crate::skills::{LoadedSkill, Skill, SkillList, Skills};
use async_trait::async_trait;
use std::path::{Path, PathBuf};
use std::sync::Mutex;

/// Skills by name. All are complete and come from `/skills`.
#[derive(Default)]
pub struct FakeSkills {
    skills: Mutex<Vec<LoadedSkill>>,
    /// Whether a place cannot be read.
    pub is_incomplete: std::sync::atomic::AtomicBool,
}

impl FakeSkills {
    /// Adds or replaces a skill that model and user may load.
    pub fn put(&self, name: &str, description: &str, content: &str) {
        self.change(name, description, content, |_| {});
    }

    /// Adds or replaces a skill after `change`.
    pub fn change(&self, name: &str, description: &str, content: &str, change: impl FnOnce(&mut Skill)) {
        let mut skill = Skill {
            name: name.to_owned(),
            description: description.to_owned(),
            provider: "project-followspot",
            base: PathBuf::from("/skills").join(name),
            for_model: true,
            for_user: true,
        };
        change(&mut skill);
        self.remove(name);
        lock(&self.skills).push(LoadedSkill { skill, content: content.to_owned() });
    }

    /// Removes a skill.
    pub fn remove(&self, name: &str) {
        lock(&self.skills).retain(|loaded| loaded.skill.name != name);
    }
}

#[async_trait]
impl Skills for FakeSkills {
    async fn list(&self, _cwd: &Path) -> SkillList {
        let mut skills: Vec<Skill> = lock(&self.skills).iter().map(|loaded| loaded.skill.clone()).collect();
        skills.sort_by(|a, b| a.name.cmp(&b.name));
        let is_complete = !self.is_incomplete.load(std::sync::atomic::Ordering::Relaxed);
        SkillList { skills, is_complete }
    }

    async fn load(&self, name: &str, _cwd: &Path) -> Option<LoadedSkill> {
        lock(&self.skills).iter().find(|loaded| loaded.skill.name == name).cloned()
    }
}
