//! What a hook says by its exit and its output.

use super::settings::HookPoint;
use serde_json::Value;
use services::hooks::HookEnd;

/// Characters of stderr that are logged. Source: `spec/runtime.md` §8.
const MAX_SUMMARY_CHARS: usize = 500;

/// Characters of a reason or a context that reach a model.
const MAX_SAID_CHARS: usize = 10_000;

/// What one hook, or all of them together, have to say.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Say {
    /// Reasons to refuse.
    pub deny: Vec<String>,
    /// Reasons to ask a person.
    pub ask: Vec<String>,
    /// Texts for the model.
    pub contexts: Vec<String>,
    /// The turn is to end, and why.
    pub stop: Option<String>,
    /// Whether somebody said yes; weaker than everything above.
    pub allow: bool,
}

impl Say {
    /// Reads the end of one hook.
    pub fn of(point: HookPoint, end: &HookEnd) -> Self {
        let HookEnd::Exited { code, stdout, stderr } = end else { return Self::default() };
        let mut say = Self::default();
        match code {
            Some(2) => say.deny.push(reason(stderr, point)),
            Some(0) => say.read(point, stdout.trim()),
            // Its own trouble, not ours.
            _ => {}
        }
        say
    }

    fn read(&mut self, point: HookPoint, stdout: &str) {
        let Some(said) = serde_json::from_str::<Value>(stdout).ok().filter(Value::is_object) else {
            if matches!(point, HookPoint::UserPromptSubmit | HookPoint::SessionStart) && !stdout.is_empty() {
                self.contexts.push(bounded(stdout, MAX_SAID_CHARS));
            }
            return;
        };
        let specific = &said["hookSpecificOutput"];
        let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
        if said["continue"] == false {
            let why = text(&said["stopReason"]);
            self.stop = Some(reason(&why, point));
        }
        let (decision, why) = match specific["permissionDecision"].as_str() {
            Some(decision) => (Some(decision), text(&specific["permissionDecisionReason"])),
            None => (said["decision"].as_str(), text(&said["reason"])),
        };
        match decision {
            Some("deny" | "block") => self.deny.push(reason(&why, point)),
            Some("ask") => self.ask.push(reason(&why, point)),
            Some("allow" | "approve") => self.allow = true,
            _ => {}
        }
        if let Some(context) = specific["additionalContext"].as_str().filter(|text| !text.trim().is_empty()) {
            self.contexts.push(bounded(context, MAX_SAID_CHARS));
        }
    }

    /// Adds what the next hook says.
    pub fn merge(&mut self, other: Self) {
        self.deny.extend(other.deny);
        self.ask.extend(other.ask);
        self.contexts.extend(other.contexts);
        self.stop = self.stop.take().or(other.stop);
        self.allow |= other.allow;
    }

    /// What it comes to, for the log.
    pub fn decision(&self) -> &'static str {
        match self {
            Self { stop: Some(_), .. } => "stop",
            Self { deny, .. } if !deny.is_empty() => "deny",
            Self { ask, .. } if !ask.is_empty() => "ask",
            Self { allow: true, .. } => "allow",
            Self { contexts, .. } if !contexts.is_empty() => "context",
            _ => "none",
        }
    }

    /// Why it is refused, all reasons together; `None` when it is not.
    pub fn refusal(&self) -> Option<String> {
        (!self.deny.is_empty()).then(|| self.deny.join("\n\n"))
    }
}

/// The beginning of what a hook wrote to stderr, or why it did not end by itself.
pub fn summary(end: &HookEnd) -> Option<String> {
    let text = match end {
        HookEnd::Exited { stderr, .. } => stderr.trim(),
        HookEnd::TimedOut => "it took too long and was stopped",
        HookEnd::Cancelled => "it was cancelled",
        HookEnd::NotStarted(error) => error.as_str(),
    };
    (!text.is_empty()).then(|| bounded(text, MAX_SUMMARY_CHARS))
}

fn reason(text: &str, point: HookPoint) -> String {
    match text.trim() {
        "" => format!("a {} hook refused without a reason", point.id()),
        text => bounded(text, MAX_SAID_CHARS),
    }
}

fn bounded(text: &str, max_chars: usize) -> String {
    match text.char_indices().nth(max_chars) {
        Some((end, _)) => format!("{}…", &text[..end]),
        None => text.to_owned(),
    }
}
