//! The lines at the top: who answers, with which model and mode, where, and how to get a model.

use super::page::{Ink, Spans, span};
use super::text::one_line;
use agent_client_protocol::v1::schema::{
    SessionConfigKind, SessionConfigOption, SessionConfigOptionCategory,
};
use std::path::{Path, PathBuf};

/// What is known when a session begins.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Header {
    /// Name of the agent.
    pub agent: String,
    /// Its version.
    pub version: String,
    /// Id of the selected model; `None` when the agent does not say.
    pub model: Option<String>,
    /// Id of the mode; `None` when the agent does not say.
    pub mode: Option<String>,
    /// Folder of the session.
    pub cwd: PathBuf,
    /// Home folder, shown as `~`.
    pub home: Option<PathBuf>,
    /// Id of the session.
    pub session_id: String,
}

impl Header {
    /// The lines.
    pub fn lines(&self) -> Vec<Spans> {
        let known = [self.model.as_deref(), self.mode.as_deref()];
        let known: String = known.iter().flatten().map(|word| format!(" · {}", one_line(word))).collect();
        let agent = one_line(&format!("{} {}", self.agent, self.version));
        let place = self.home.as_ref().and_then(|home| self.cwd.strip_prefix(home).ok());
        let place = match place {
            Some(inside) if inside == Path::new("") => "~".to_owned(),
            Some(inside) => format!("~/{}", inside.display()),
            None => self.cwd.display().to_string(),
        };
        let mut lines = vec![
            vec![(Ink::Bold, agent), (Ink::Plain, known)],
            span(Ink::Dim, one_line(&format!("{place} · session {}", self.session_id))),
        ];
        if self.model.as_deref().is_some_and(|model| model == "offline" || model.starts_with("offline/")) {
            let said = "No language model yet. To add one: followspot login, or set DEEPSEEK_API_KEY, OPENAI_API_KEY or \
                        ANTHROPIC_API_KEY. Without one, “help” says what works.";
            lines.push(span(Ink::Yellow, said));
        }
        lines
    }
}

/// Ids of the selected model and mode, where the options name them.
pub fn model_and_mode(options: &[SessionConfigOption]) -> (Option<String>, Option<String>) {
    let selected = |category: &SessionConfigOptionCategory, id: &str| {
        let option = find_option(options, category, id)?;
        match &option.kind {
            SessionConfigKind::Select(select) => Some(select.current_value.0.to_string()),
            _ => None,
        }
    };
    (
        selected(&SessionConfigOptionCategory::Model, "model"),
        selected(&SessionConfigOptionCategory::Mode, "mode"),
    )
}

/// The option of a category, or else the one with this id.
pub fn find_option<'a>(
    options: &'a [SessionConfigOption],
    category: &SessionConfigOptionCategory,
    id: &str,
) -> Option<&'a SessionConfigOption> {
    (options.iter().find(|option| option.category.as_ref() == Some(category)))
        .or_else(|| options.iter().find(|option| &*option.id.0 == id))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn text(header: &Header) -> String {
        let lines = header.lines();
        let line = |spans: &Spans| spans.iter().map(|(_, text)| text.as_str()).collect::<String>();
        lines.iter().map(line).collect::<Vec<_>>().join("\n")
    }

    #[test]
    fn the_header_names_model_mode_and_place() {
        let header = Header {
            agent: "followspot".to_owned(),
            version: "0.1.0".to_owned(),
            model: Some("deepseek/deepseek-v4-flash".to_owned()),
            mode: Some("ask".to_owned()),
            cwd: PathBuf::from("/home/me/app"),
            home: Some(PathBuf::from("/home/me")),
            session_id: "s1".to_owned(),
        };
        let expected = "followspot 0.1.0 · deepseek/deepseek-v4-flash · ask\n~/app · session s1";
        assert_eq!(text(&header), expected);
        let offline = Header { model: Some("offline/commands".to_owned()), ..header };
        assert!(text(&offline).contains("followspot login"));
    }
}
