//! Skills on the disk: files below the project's root and the user's folders. Source: `spec/tools-agentic.md` §6.1.

mod front_matter;

use async_trait::async_trait;
use front_matter::Parsed;
use services::skills::{LoadedSkill, Skill, SkillList, Skills};
use std::collections::HashMap;
use std::fs::Metadata;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::SystemTime;

/// Largest file that is read.
const MAX_FILE_BYTES: u64 = 1 << 20;

/// Most files of one folder that are looked at.
const MAX_FILES: usize = 1000;

/// Where skills are looked for, beside the project's own folders; all absolute.
#[derive(Clone, Debug, Default)]
pub struct SkillPlaces {
    /// Folders of the configuration, the first one first.
    pub custom: Vec<PathBuf>,
    /// The user's own, for this program.
    pub user: PathBuf,
    /// The user's own, for every agent.
    pub agents: PathBuf,
}

/// Skills in files. A file that did not change since it was read is not read again for a list.
pub struct LocalSkills {
    places: Arc<SkillPlaces>,
    seen: Arc<Mutex<HashMap<PathBuf, Seen>>>,
}

/// A file as it was read last.
struct Seen {
    stamp: Stamp,
    /// `None` is an invalid file, which was complained about.
    parsed: Option<Parsed>,
}

/// Changes when the file does, as far as the disk tells.
type Stamp = (Option<SystemTime>, u64);

/// A skill and the file it stands in.
struct Found {
    skill: Skill,
    file: PathBuf,
}

impl LocalSkills {
    /// Skills in these places.
    pub fn new(places: SkillPlaces) -> Self {
        Self { places: Arc::new(places), seen: Arc::default() }
    }

    /// Everything that is found, by name, and whether every folder could be read.
    async fn find(&self, cwd: &Path) -> (Vec<Found>, bool) {
        let (places, cwd, seen) = (self.places.clone(), cwd.to_owned(), self.seen.clone());
        let found = tokio::task::spawn_blocking(move || find(&roots(&places, &cwd), &seen)).await;
        // A panic in there is a bug of ours; the list then is one that says nothing new.
        found.unwrap_or_else(|error| {
            tracing::error!(%error, "looking for skills failed");
            (Vec::new(), false)
        })
    }
}

#[async_trait]
impl Skills for LocalSkills {
    async fn list(&self, cwd: &Path) -> SkillList {
        let (found, is_complete) = self.find(cwd).await;
        SkillList { skills: found.into_iter().map(|found| found.skill).collect(), is_complete }
    }

    async fn load(&self, name: &str, cwd: &Path) -> Option<LoadedSkill> {
        let (found, _) = self.find(cwd).await;
        let Found { mut skill, file } = found.into_iter().find(|found| found.skill.name == name)?;
        let parsed = tokio::task::spawn_blocking(move || read(&file)).await.ok()?.ok()?;
        if parsed.name != skill.name {
            return None;
        }
        (skill.description, skill.for_model, skill.for_user) =
            (parsed.description, parsed.for_model, parsed.for_user);
        Some(LoadedSkill { skill, content: parsed.content })
    }
}

/// The folders for a session in `cwd`, the one that wins first: provider, folder, and a child that is skipped.
fn roots(places: &SkillPlaces, cwd: &Path) -> Vec<(&'static str, PathBuf, Option<&'static str>)> {
    let project = project_root(cwd);
    let mut roots = vec![
        ("project-followspot", project.join(".followspot/skills"), None),
        ("project-agents", project.join(".agents/skills"), None),
    ];
    roots.extend(places.custom.iter().map(|folder| ("custom", folder.clone(), None)));
    roots.push(("user-followspot", places.user.clone(), Some(".system")));
    roots.push(("user-agents", places.agents.clone(), None));
    roots
}

/// The nearest ancestor with a `.git`, else the folder itself.
fn project_root(cwd: &Path) -> &Path {
    cwd.ancestors().find(|folder| folder.join(".git").exists()).unwrap_or(cwd)
}

fn find(
    roots: &[(&'static str, PathBuf, Option<&'static str>)],
    seen: &Mutex<HashMap<PathBuf, Seen>>,
) -> (Vec<Found>, bool) {
    let mut found: Vec<Found> = Vec::new();
    let mut is_complete = true;
    for (provider, root, skipped) in roots {
        let files = match files(root, *skipped) {
            Ok(files) => files,
            Err(error) => {
                tracing::warn!(folder = %root.display(), %error, "a folder of skills cannot be read");
                is_complete = false;
                continue;
            }
        };
        for (file, base) in files {
            let parsed = match parsed(&file, seen) {
                Ok(Some(parsed)) => parsed,
                Ok(None) => continue,
                Err(error) => {
                    tracing::warn!(file = %file.display(), %error, "a skill cannot be read");
                    is_complete = false;
                    continue;
                }
            };
            if let Some(winner) = found.iter().find(|found| found.skill.name == parsed.name) {
                tracing::debug!(file = %file.display(), winner = %winner.file.display(), "a skill is shadowed");
                continue;
            }
            let skill = Skill {
                name: parsed.name,
                description: parsed.description,
                provider,
                base,
                for_model: parsed.for_model,
                for_user: parsed.for_user,
            };
            found.push(Found { skill, file });
        }
    }
    found.sort_by(|a, b| a.skill.name.cmp(&b.skill.name));
    (found, is_complete)
}

/// The files of one folder by name, each with the folder its relative paths belong to. A missing folder has none.
fn files(root: &Path, skipped: Option<&str>) -> std::io::Result<Vec<(PathBuf, PathBuf)>> {
    let entries = match std::fs::read_dir(root) {
        Ok(entries) => entries,
        Err(error) if matches!(error.kind(), ErrorKind::NotFound | ErrorKind::NotADirectory) => {
            return Ok(Vec::new());
        }
        Err(error) => return Err(error),
    };
    let mut names =
        entries.take(MAX_FILES).map(|entry| Ok(entry?.file_name())).collect::<std::io::Result<Vec<_>>>()?;
    names.sort();
    let mut files = Vec::new();
    for name in names.into_iter().filter(|name| skipped.is_none_or(|skipped| name != skipped)) {
        let path = root.join(name);
        // Links are followed; one that leads nowhere is no skill.
        let Some(kind) = metadata(&path)? else { continue };
        if kind.is_dir() {
            let file = path.join("SKILL.md");
            if metadata(&file)?.is_some_and(|metadata| metadata.is_file()) {
                files.push((file, path));
            }
        } else if kind.is_file() && path.extension().is_some_and(|extension| extension == "md") {
            files.push((path, root.to_owned()));
        }
    }
    Ok(files)
}

fn metadata(path: &Path) -> std::io::Result<Option<Metadata>> {
    match std::fs::metadata(path) {
        Ok(metadata) => Ok(Some(metadata)),
        Err(error) if matches!(error.kind(), ErrorKind::NotFound | ErrorKind::NotADirectory) => Ok(None),
        Err(error) => Err(error),
    }
}

/// The file as it was read before when it did not change since; `None` is an invalid one.
fn parsed(file: &Path, seen: &Mutex<HashMap<PathBuf, Seen>>) -> std::io::Result<Option<Parsed>> {
    let Some(metadata) = metadata(file)? else { return Ok(None) };
    let stamp = (metadata.modified().ok(), metadata.len());
    if let Some(known) = lock(seen).get(file).filter(|known| known.stamp == stamp) {
        return Ok(known.parsed.clone());
    }
    let parsed = match read(file) {
        Ok(parsed) => Some(parsed),
        Err(ReadError::Io(error)) => return Err(error),
        Err(ReadError::Invalid(problem)) => {
            tracing::warn!(file = %file.display(), problem, "a skill is left out");
            None
        }
    };
    lock(seen).insert(file.to_owned(), Seen { stamp, parsed: parsed.clone() });
    Ok(parsed)
}

enum ReadError {
    Io(std::io::Error),
    Invalid(String),
}

fn read(file: &Path) -> Result<Parsed, ReadError> {
    use std::io::Read;
    let mut bytes = Vec::new();
    let opened = std::fs::File::open(file).map_err(ReadError::Io)?;
    opened.take(MAX_FILE_BYTES + 1).read_to_end(&mut bytes).map_err(ReadError::Io)?;
    if bytes.len() as u64 > MAX_FILE_BYTES {
        return Err(ReadError::Invalid(format!("it is larger than {MAX_FILE_BYTES} bytes")));
    }
    let text = String::from_utf8(bytes).map_err(|_| ReadError::Invalid("it is no UTF-8 text".to_owned()))?;
    front_matter::parse(&text).map_err(ReadError::Invalid)
}

fn lock<T>(mutex: &Mutex<T>) -> std::sync::MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use super::*;

    struct Machine {
        folder: tempfile::TempDir,
        skills: LocalSkills,
    }

    impl Machine {
        fn new() -> Self {
            let folder = tempfile::tempdir().unwrap();
            let at = |name: &str| folder.path().join(name);
            std::fs::create_dir_all(at("project/.git")).unwrap();
            std::fs::create_dir_all(at("project/src")).unwrap();
            let places = SkillPlaces {
                custom: vec![at("custom")],
                user: at("home/skills"),
                agents: at("agents/skills"),
            };
            let skills = LocalSkills::new(places);
            Self { folder, skills }
        }

        fn put(&self, path: &str, name: &str, body: &str) {
            let file = self.folder.path().join(path);
            std::fs::create_dir_all(file.parent().unwrap()).unwrap();
            std::fs::write(file, format!("---\nname: {name}\ndescription: About {name}\n---\n{body}\n"))
                .unwrap();
        }

        fn cwd(&self) -> PathBuf {
            self.folder.path().join("project/src")
        }

        async fn listed(&self) -> Vec<(String, &'static str)> {
            let list = self.skills.list(&self.cwd()).await;
            assert!(list.is_complete);
            list.skills.into_iter().map(|skill| (skill.name, skill.provider)).collect()
        }

        async fn content(&self, name: &str) -> Option<String> {
            self.skills.load(name, &self.cwd()).await.map(|loaded| loaded.content)
        }
    }

    fn pairs(expected: &[(&str, &'static str)]) -> Vec<(String, &'static str)> {
        expected.iter().map(|(name, provider)| ((*name).to_owned(), *provider)).collect()
    }

    #[tokio::test]
    async fn the_nearer_place_wins_a_name() {
        let machine = Machine::new();
        let places = [
            ("agents/skills/demo.md", "user-agents"),
            ("home/skills/demo/SKILL.md", "user-followspot"),
            ("custom/demo.md", "custom"),
            ("project/.agents/skills/demo.md", "project-agents"),
            ("project/.followspot/skills/demo/SKILL.md", "project-followspot"),
        ];
        for (path, provider) in places {
            machine.put(path, "demo", provider);
            assert_eq!(machine.listed().await, pairs(&[("demo", provider)]));
            assert_eq!(machine.content("demo").await.as_deref(), Some(provider));
        }
    }

    #[tokio::test]
    async fn both_forms_are_found_one_level_deep() {
        let machine = Machine::new();
        machine.put("home/skills/b.md", "b", "");
        machine.put("home/skills/whatever/SKILL.md", "a", "");
        machine.put("home/skills/deep/er/SKILL.md", "c", "");
        machine.put("home/skills/.system/SKILL.md", "system", "");
        machine.put("home/skills/notes.txt", "d", "");
        assert_eq!(machine.listed().await, pairs(&[("a", "user-followspot"), ("b", "user-followspot")]));
        let list = machine.skills.list(&machine.cwd()).await;
        let root = machine.folder.path().join("home/skills");
        let bases: Vec<PathBuf> = list.skills.into_iter().map(|skill| skill.base).collect();
        assert_eq!(bases, [root.join("whatever"), root]);
    }

    #[tokio::test]
    async fn an_invalid_file_costs_only_itself_and_may_be_mended() {
        let machine = Machine::new();
        machine.put("home/skills/good.md", "good", "");
        machine.put("home/skills/bad.md", "Bad Name", "");
        let large = format!("large\n---\n{}", "x".repeat(1 << 20));
        machine.put("home/skills/large.md", &large, "");
        assert_eq!(machine.listed().await, pairs(&[("good", "user-followspot")]));
        machine.put("home/skills/bad.md", "bad", "");
        assert_eq!(machine.listed().await, pairs(&[("bad", "user-followspot"), ("good", "user-followspot")]));
    }

    #[tokio::test]
    async fn a_text_is_read_anew_at_every_load() {
        let machine = Machine::new();
        machine.put("home/skills/demo.md", "demo", "one");
        assert_eq!(machine.content("demo").await.as_deref(), Some("one"));
        machine.put("home/skills/demo.md", "demo", "two");
        assert_eq!(machine.content("demo").await.as_deref(), Some("two"));
        std::fs::remove_file(machine.folder.path().join("home/skills/demo.md")).unwrap();
        assert_eq!(machine.content("demo").await, None);
        assert_eq!(machine.listed().await, pairs(&[]));
    }

    #[cfg(unix)]
    #[tokio::test]
    async fn links_are_followed() {
        let machine = Machine::new();
        machine.put("elsewhere/SKILL.md", "linked", "text");
        let root = machine.folder.path().join("home/skills");
        std::fs::create_dir_all(&root).unwrap();
        std::os::unix::fs::symlink(machine.folder.path().join("elsewhere"), root.join("link")).unwrap();
        std::os::unix::fs::symlink("nowhere", root.join("broken.md")).unwrap();
        assert_eq!(machine.listed().await, pairs(&[("linked", "user-followspot")]));
    }

    #[cfg(unix)]
    #[tokio::test]
    async fn a_place_that_cannot_be_read_makes_the_list_incomplete() {
        let machine = Machine::new();
        machine.put("agents/skills/demo.md", "demo", "");
        // A loop of links cannot be read by anybody, not even by root.
        let root = machine.folder.path().join("home");
        std::fs::create_dir_all(&root).unwrap();
        std::os::unix::fs::symlink("skills", root.join("skills")).unwrap();
        let list = machine.skills.list(&machine.cwd()).await;
        assert!(!list.is_complete);
        assert_eq!(list.skills.len(), 1);
    }
}
