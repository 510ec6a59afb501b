//! What enters the conversation beside the prompt: workspace instructions, the list of skills, skills a person invoked.

use super::Turn;
use crate::prompt::{instructions, skills};
use pipeline::registry::ResolvedToolSet;
use protocol::content::ContentBlock;
use protocol::event::{Record, SessionEvent};
use protocol::message::{AssistantMessage, MessageSource};
use protocol::tool::parse_arguments;
use services::session_store::StoreError;
use services::skills::render_skill;
use std::collections::HashSet;
use std::path::{Path, PathBuf};
use std::sync::PoisonError;

/// Tools that touch a file, and the argument that names it.
const FILE_TOOLS: [(&str, &str); 4] =
    [("read", "file_path"), ("write", "file_path"), ("edit", "file_path"), ("str_replace_editor", "path")];

/// Name of the tool that loads skills.
const SKILL: &str = "skill";

impl Turn<'_> {
    /// Instructions that hold from now on: all of them the first time, later what changed.
    pub(super) async fn instruct(&self) -> Result<(), StoreError> {
        let scope = &self.shared.scope;
        let files = &*scope.services.files;
        let state = self.shared.core.state();
        let found =
            instructions::baseline(files, &scope.cwd, self.shared.instructions_file.as_deref(), &self.cancel);
        let found = tokio::select! {
            found = found => found,
            () = self.cancel.cancelled() => return Ok(()),
        };
        let mut others = state.instructions.clone();
        found.iter().for_each(|file| _ = others.remove(&file.path));
        let is_news = |file: &instructions::Instructions| {
            state.instructions.get(&file.path).is_none_or(|digest| *digest != file.digest)
        };
        let mut new: Vec<_> = found.into_iter().filter(is_news).collect();
        let (replaced, removed) = instructions::changed(files, &others, &self.cancel).await;
        new.extend(replaced);
        self.tell_instructions(new, removed)
    }

    /// Instructions of the folders in which the calls of a step touched files, and changes of instructions by those calls.
    pub(super) async fn instruct_after(&self, message: &AssistantMessage) -> Result<(), StoreError> {
        let touched = self.shared.core.with_records(|records| touched_files(message, records));
        if touched.is_empty() {
            return Ok(());
        }
        let scope = &self.shared.scope;
        let files = &*scope.services.files;
        let state = self.shared.core.state();
        let mut folders = Vec::new();
        let mut is_rechecked = false;
        for path in touched {
            let path = scope.cwd.join(path);
            is_rechecked |=
                path.file_name().is_some_and(|name| instructions::NAMES.iter().any(|own| name == *own));
            folders.extend(self.new_folders(&path).await);
        }
        let mut new = Vec::new();
        for folder in folders {
            new.extend(instructions::of_folder(files, &folder, &self.cancel).await);
        }
        new.retain(|file| !state.instructions.contains_key(&file.path));
        let mut removed = Vec::new();
        if is_rechecked {
            let (replaced, gone) = instructions::changed(files, &state.instructions, &self.cancel).await;
            new.extend(replaced);
            removed = gone;
        }
        self.tell_instructions(new, removed)
    }

    /// The folders below the session's own that lead to the file and were not looked at yet, broader ones first.
    async fn new_folders(&self, file: &Path) -> Vec<PathBuf> {
        let cwd = &self.shared.scope.cwd;
        let Some(folder) = file.parent() else { return Vec::new() };
        // A sibling of the session's folder belongs to the project too.
        let root = self
            .shared
            .project_root
            .get_or_init(|| instructions::project_root(&*self.shared.scope.services.files, cwd))
            .await;
        let mut seen: std::sync::MutexGuard<'_, HashSet<PathBuf>> =
            self.shared.instructed_folders.lock().unwrap_or_else(PoisonError::into_inner);
        let below = folder.ancestors().take_while(|folder| folder.starts_with(root));
        let mut new: Vec<PathBuf> = below
            .filter(|folder| !cwd.starts_with(folder) && !seen.contains(*folder))
            .map(Path::to_owned)
            .collect();
        seen.extend(new.iter().cloned());
        new.reverse();
        new
    }

    fn tell_instructions(
        &self,
        found: Vec<instructions::Instructions>,
        removed: Vec<PathBuf>,
    ) -> Result<(), StoreError> {
        let found: Vec<_> = found.into_iter().filter(|file| !file.text.trim().is_empty()).collect();
        if found.is_empty() && removed.is_empty() {
            return Ok(());
        }
        let (text, changes) = instructions::message(found, removed);
        self.append_message(vec![ContentBlock::text(text)], MessageSource::AgentInstructions { changes })
    }

    /// Tells the model which skills there are, when that changed and it can load them.
    pub(super) async fn tell_skills(
        &self,
        tool_set: &std::sync::Arc<ResolvedToolSet>,
    ) -> Result<(), StoreError> {
        let Some(service) = &self.shared.scope.services.skills else { return Ok(()) };
        if self.shared.pipeline.registry().get(SKILL, self.shared.tools, Some(tool_set)).is_none() {
            return Ok(());
        }
        let list = service.list(&self.shared.scope.cwd).await;
        let known = self.shared.core.state().skills;
        let entries = skills::entries(&list.skills);
        let is_news = match &known {
            Some(known) => **known != entries,
            None => !entries.is_empty(),
        };
        // What could not be read is not gone.
        if !is_news || !list.is_complete {
            return Ok(());
        }
        let text = skills::catalog(&entries, known.is_some());
        self.append_message(vec![ContentBlock::text(text)], MessageSource::SkillCatalog { entries })
    }

    /// Loads the skills that the person's prompt invokes; the last that enters with a step.
    pub(super) async fn load_invoked(&self) -> Result<(), StoreError> {
        let invoked = std::mem::take(&mut *self.invoked.lock().unwrap_or_else(PoisonError::into_inner));
        let Some(service) = &self.shared.scope.services.skills else { return Ok(()) };
        for name in invoked {
            let Some(loaded) = service.load(&name, &self.shared.scope.cwd).await else { continue };
            if !loaded.skill.for_user {
                continue;
            }
            let text = render_skill(&name, &loaded.skill.base, &loaded.content);
            self.append_message(
                vec![ContentBlock::text(text)],
                MessageSource::SkillInvocation { skill: name },
            )?;
        }
        Ok(())
    }

    /// Remembers which skills the person's words invoke.
    pub(super) fn note_invoked(&self, content: &[ContentBlock]) {
        let texts = content.iter().filter_map(|block| match block {
            ContentBlock::Text { text } => Some(text),
            _ => None,
        });
        let mut names = self.invoked.lock().unwrap_or_else(PoisonError::into_inner);
        for name in texts.flat_map(|text| skills::invoked(text)) {
            if !names.iter().any(|known| known == name) {
                names.push(name.to_owned());
            }
        }
    }
}

/// Paths, as the model gave them, of the files that calls of this message read or changed.
fn touched_files(message: &AssistantMessage, records: &[Record]) -> Vec<String> {
    let has_failed = |call| {
        records.iter().rev().find_map(|record| match &record.event {
            SessionEvent::ToolResult { message, error, .. } if message.call_id == call => {
                Some(error.is_some())
            }
            _ => None,
        })
    };
    message
        .calls()
        .filter_map(|call| {
            let (_, argument) = FILE_TOOLS.iter().find(|(name, _)| *name == call.name)?;
            let path = parse_arguments(&call.arguments).get(argument)?.as_str()?.to_owned();
            (has_failed(call.id.clone()) == Some(false)).then_some(path)
        })
        .collect()
}
