//! The file that lists hooks, in the shape of Claude's settings.

use regex::Regex;
use serde_json::Value;
use std::time::Duration;

/// Budget of a hook that names none. Source: `spec/runtime.md` §8.
const DEFAULT_TIMEOUT: Duration = Duration::from_secs(600);

/// Longest budget a hook can name.
const MAX_TIMEOUT_S: f64 = 86_400.0;

/// When a hook runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum HookPoint {
    /// Before a call.
    PreToolUse,
    /// After a call that succeeded.
    PostToolUse,
    /// When a prompt enters.
    UserPromptSubmit,
    /// When a turn is about to end.
    Stop,
    /// At the first turn after a session was opened.
    SessionStart,
}

impl HookPoint {
    /// Every point.
    pub const ALL: [Self; 5] =
        [Self::PreToolUse, Self::PostToolUse, Self::UserPromptSubmit, Self::Stop, Self::SessionStart];

    /// Its name in the file and in payloads.
    pub fn id(self) -> &'static str {
        match self {
            Self::PreToolUse => "PreToolUse",
            Self::PostToolUse => "PostToolUse",
            Self::UserPromptSubmit => "UserPromptSubmit",
            Self::Stop => "Stop",
            Self::SessionStart => "SessionStart",
        }
    }
}

/// One hook.
#[derive(Clone, Debug)]
pub struct Hook {
    /// When it runs.
    pub point: HookPoint,
    /// The matcher as it stands in the file; `None` matches all.
    pub matcher_text: Option<String>,
    matcher: Matcher,
    /// A line for the shell.
    pub command: String,
    /// When it is stopped.
    pub timeout: Duration,
    /// Names it in the log: point, and place in the file from 0.
    pub handler_id: String,
}

#[derive(Clone, Debug)]
enum Matcher {
    All,
    Names(Vec<String>),
    Pattern(Regex),
}

/// Hooks in the order of their file.
#[derive(Clone, Debug, Default)]
pub struct HookSettings {
    /// Every hook.
    pub hooks: Vec<Hook>,
    /// What was not taken, one sentence each. Hooks that are fine run all the same.
    pub problems: Vec<String>,
}

impl HookSettings {
    /// Reads the file's text.
    ///
    /// # Errors
    /// It is no JSON object with an object `hooks`; the text says what it is.
    pub fn parse(text: &str) -> Result<Self, String> {
        let file: Value = serde_json::from_str(text).map_err(|error| format!("it is not JSON: {error}"))?;
        let points = file.get("hooks").and_then(Value::as_object).ok_or("it has no object `hooks`")?;
        let mut settings = Self::default();
        for (name, groups) in points {
            let Some(point) = HookPoint::ALL.into_iter().find(|point| point.id() == name) else {
                settings.problems.push(format!("hooks.{name} is not supported and never runs"));
                continue;
            };
            for (idx, group) in groups.as_array().map(Vec::as_slice).unwrap_or_default().iter().enumerate() {
                settings.read_group(point, idx, group);
            }
            if !groups.is_array() {
                settings.problems.push(format!("hooks.{name} is no list"));
            }
        }
        Ok(settings)
    }

    fn read_group(&mut self, point: HookPoint, idx: usize, group: &Value) {
        let place = format!("hooks.{}[{idx}]", point.id());
        let matcher_text = group["matcher"].as_str().map(str::to_owned);
        let matcher = match Matcher::parse(matcher_text.as_deref()) {
            Ok(matcher) => matcher,
            Err(error) => return self.problems.push(format!("{place}.matcher is no pattern: {error}")),
        };
        let Some(hooks) = group["hooks"].as_array() else {
            return self.problems.push(format!("{place} has no list `hooks`"));
        };
        for (n, hook) in hooks.iter().enumerate() {
            let command = match (hook["type"].as_str(), hook["command"].as_str()) {
                (Some("command"), Some(command)) if !command.trim().is_empty() => command,
                _ => {
                    self.problems
                        .push(format!("{place}.hooks[{n}] is no hook of type \"command\" with a command"));
                    continue;
                }
            };
            let timeout = hook["timeout"].as_f64().filter(|seconds| *seconds > 0.0);
            let timeout = timeout
                .map_or(DEFAULT_TIMEOUT, |seconds| Duration::from_secs_f64(seconds.min(MAX_TIMEOUT_S)));
            self.hooks.push(Hook {
                point,
                matcher_text: matcher_text.clone(),
                matcher: matcher.clone(),
                command: command.to_owned(),
                timeout,
                handler_id: format!("{}[{idx}].{n}", point.id()),
            });
        }
    }
}

impl Hook {
    /// Whether it is for this tool. Tools answer to their own name and to the name Claude has for the same one, `Bash` for
    /// `bash`: a file written for the other program must not be silently without effect.
    pub fn matches(&self, tool: &str) -> bool {
        let other = other_name(tool);
        match &self.matcher {
            Matcher::All => true,
            Matcher::Names(names) => names.iter().any(|name| *name == tool || *name == other),
            Matcher::Pattern(pattern) => pattern.is_match(tool) || pattern.is_match(&other),
        }
    }
}

impl Matcher {
    fn parse(text: Option<&str>) -> Result<Self, regex::Error> {
        let Some(text) = text.filter(|text| !text.is_empty() && *text != "*") else { return Ok(Self::All) };
        let is_literal =
            text.chars().all(|letter| letter.is_ascii_alphanumeric() || matches!(letter, '_' | '|'));
        if is_literal {
            return Ok(Self::Names(text.split('|').map(str::to_owned).collect()));
        }
        // A pattern is for the whole name.
        Regex::new(&format!("^(?:{text})$")).map(Self::Pattern)
    }
}

/// `web_fetch` as `WebFetch`; names of MCP tools are the same everywhere.
fn other_name(tool: &str) -> String {
    if tool.starts_with("mcp__") {
        return tool.to_owned();
    }
    tool.split('_')
        .map(|word| {
            let mut letters = word.chars();
            letters
                .next()
                .map_or_else(String::new, |first| first.to_ascii_uppercase().to_string() + letters.as_str())
        })
        .collect()
}
