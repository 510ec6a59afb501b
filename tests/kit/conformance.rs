//! What holds for every conversation, whatever it is about. Checked at the end of each scenario.
//!
//! Each rule names the row of the fault catalogue it stands for.

use super::editor::ClientKind;
use super::wire::{Line, Side};
use serde_json::Value;
use std::collections::{HashMap, HashSet};
use std::path::Path;
use std::sync::Arc;

/// A key that is in the environment of every scenario and must never be on the wire.
pub const KEY: &str = "sk-scenario-key-that-nobody-may-see";

const MAX_TITLE: usize = 60;

/// Every broken rule, with the message that breaks it.
pub fn violations(lines: &[Arc<Line>], client: &ClientKind) -> Vec<String> {
    let mut check = Check { client, broken: Vec::new(), ..Check::new(client) };
    for line in lines {
        check.line(line);
    }
    check.broken
}

struct Check<'a> {
    client: &'a ClientKind,
    /// Requests of the editor that wait for an answer: method and parameters by id.
    asked: HashMap<String, (String, Value)>,
    answered: HashSet<String>,
    sessions: HashSet<String>,
    /// Open prompts by session.
    prompts: HashMap<String, usize>,
    /// What each session has shown while a prompt was open: ids of messages and calls.
    of_prompts: HashSet<(String, String)>,
    /// Sessions whose last prompt was cancelled: nothing begins by itself then.
    cancelled: HashSet<String>,
    /// Sessions that are being loaded.
    loading: HashSet<String>,
    /// Status of each call by session and id.
    calls: HashMap<(String, String), String>,
    /// Terminal requests of the agent by id, and terminals that are open.
    terminal_requests: HashMap<String, String>,
    terminals: HashMap<String, String>,
    broken: Vec<String>,
}

impl<'a> Check<'a> {
    fn new(client: &'a ClientKind) -> Self {
        Self {
            client,
            asked: HashMap::new(),
            answered: HashSet::new(),
            sessions: HashSet::new(),
            prompts: HashMap::new(),
            of_prompts: HashSet::new(),
            cancelled: HashSet::new(),
            loading: HashSet::new(),
            calls: HashMap::new(),
            terminal_requests: HashMap::new(),
            terminals: HashMap::new(),
            broken: Vec::new(),
        }
    }

    fn line(&mut self, line: &Line) {
        match line.from {
            Side::Editor => self.editor_line(line),
            Side::Agent => self.agent_line(line),
        }
    }

    fn editor_line(&mut self, line: &Line) {
        let id = id_of(line);
        if line.is_request() {
            let method = line.method().unwrap_or_default().to_owned();
            if method == "session/prompt" {
                self.cancelled.remove(&session_of(line));
                *self.prompts.entry(session_of(line)).or_default() += 1;
            }
            if method == "session/load" {
                // The client knows the session before it asks, and is told all of it anew.
                let session = session_of(line);
                self.calls.retain(|(known, _), _| *known != session);
                self.loading.insert(session.clone());
                self.sessions.insert(session);
            }
            self.asked.insert(id, (method, line.params().clone()));
        } else if line.is_response()
            && self.terminal_requests.remove(&id).is_some()
            && let Some(terminal) = line.message["result"]["terminalId"].as_str()
        {
            self.terminals.insert(terminal.to_owned(), String::new());
        }
    }

    fn agent_line(&mut self, line: &Line) {
        // M03: stdout carries protocol lines only.
        if !line.is_json || line.message["jsonrpc"] != "2.0" {
            return self.breaks("stdout carries protocol lines only", line);
        }
        if line.message.to_string().contains(KEY) {
            self.breaks("a key never leaves the process", line);
        }
        // M09: every message is one of the official schema.
        let asked = self.asked.get(&id_of(line)).map(|(method, _)| method.as_str());
        if let Some(problem) = super::schema::violation(line, asked) {
            self.breaks(&format!("messages fit the schema ({problem})"), line);
        }
        if line.is_response() {
            self.response(line);
        } else if line.is_request() {
            self.request(line);
        } else if line.method() == Some("session/update") {
            self.update(line);
        }
    }

    fn response(&mut self, line: &Line) {
        let id = id_of(line);
        // A message that could not be read is answered without an id.
        if line.id().is_none() {
            return;
        }
        // T01: exactly one answer a request.
        let Some((method, params)) = self.asked.remove(&id) else {
            if !self.answered.contains(&id) {
                return;
            }
            return self.breaks("a request is answered once", line);
        };
        self.answered.insert(id);
        if method == "session/load" {
            // S01: everything was told before this answer.
            self.loading.remove(params["sessionId"].as_str().unwrap_or_default());
        }
        if method == "session/prompt" {
            let session = params["sessionId"].as_str().unwrap_or_default().to_owned();
            if line.message["result"]["stopReason"] == "cancelled" {
                self.cancelled.insert(session.clone());
            }
            if let Some(n_open) = self.prompts.get_mut(&session) {
                *n_open = n_open.saturating_sub(1);
            }
            // V05: each call has ended before the answer.
            let is_open = |(key, status): (&(String, String), &String)| {
                key.0 == session && status != "completed" && status != "failed"
            };
            if self.calls.iter().any(is_open) {
                self.breaks("each call has ended before the prompt is answered", line);
            }
            // C09: terminals are released on every path.
            if !self.terminals.is_empty() {
                self.breaks("each terminal is released before the prompt is answered", line);
                self.terminals.clear();
            }
        }
        let Some(result) = line.message.get("result") else {
            if line.message["error"]["message"].as_str().is_none_or(str::is_empty) {
                self.breaks("an error says what is wrong", line);
            }
            return;
        };
        match method.as_str() {
            "session/new" | "session/fork" => {
                self.sessions.insert(result["sessionId"].as_str().unwrap_or_default().to_owned());
            }
            "session/resume" => {
                self.sessions.insert(params["sessionId"].as_str().unwrap_or_default().to_owned());
            }
            _ => {}
        }
    }

    fn request(&mut self, line: &Line) {
        let params = line.params();
        match line.method().unwrap_or_default() {
            "fs/read_text_file" => {
                // F12, F14, F16: only when both directions are offered; always the whole text.
                if !(self.client.reads && self.client.writes) {
                    self.breaks("files are asked for only when both directions are offered", line);
                }
                if !params["line"].is_null() || !params["limit"].is_null() {
                    self.breaks("a read asks for the whole text", line);
                }
                self.absolute(&params["path"], line);
            }
            "fs/write_text_file" => {
                if !(self.client.reads && self.client.writes) {
                    self.breaks("files are written only when both directions are offered", line);
                }
                self.absolute(&params["path"], line);
            }
            "terminal/create" => {
                if !self.client.terminals {
                    self.breaks("terminals are asked for only when offered", line);
                }
                self.terminal_requests.insert(id_of(line), String::new());
            }
            "terminal/release" => {
                let terminal = params["terminalId"].as_str().unwrap_or_default();
                if self.terminals.remove(terminal).is_none() {
                    self.breaks("a terminal is released once", line);
                }
            }
            "session/request_permission" => self.question(line),
            "elicitation/create" if !self.client.forms => {
                self.breaks("forms are asked for only when offered", line);
            }
            _ => {}
        }
    }

    fn question(&mut self, line: &Line) {
        let params = line.params();
        // M10, P04: spec values only, a way to allow and a way to refuse, each kind once unless it is a choice.
        let mut kinds: Vec<&str> = params["options"]
            .as_array()
            .into_iter()
            .flatten()
            .filter_map(|option| option["kind"].as_str())
            .collect();
        let allows = kinds.iter().any(|kind| kind.starts_with("allow"));
        let rejects = kinds.iter().any(|kind| kind.starts_with("reject"));
        // A question that is no permission: its choices are the options, and the call's own card tells the rest.
        let is_choice = params["options"][0]["optionId"].as_str().is_some_and(|id| id.starts_with("choice-"));
        let n_kinds = kinds.len();
        kinds.sort_unstable();
        kinds.dedup();
        if !allows || !rejects || (n_kinds != kinds.len() && !is_choice) {
            self.breaks("a question can be allowed and refused", line);
        }
        // P10: a title, and what is asked about.
        let call = &params["toolCall"];
        let has_content = call["content"].as_array().is_some_and(|content| !content.is_empty());
        if call["title"].as_str().is_none_or(str::is_empty)
            || !has_content
            || (!is_choice && !call["rawInput"].is_object())
        {
            self.breaks("a question shows its subject", line);
        }
    }

    fn update(&mut self, line: &Line) {
        let session = session_of(line);
        // M02: the client knows the session before anything is said in it.
        if !self.sessions.contains(&session) {
            self.breaks("a session is answered before its updates", line);
        }
        let update = &line.params()["update"];
        let kind = update["sessionUpdate"].as_str().unwrap_or_default();
        // M01: nothing of a turn after its answer.
        let of_turn = matches!(
            kind,
            "agent_thought_chunk" | "agent_message_chunk" | "tool_call" | "tool_call_update" | "plan"
        );
        // The plan that stands when a session is resumed is told once, and no prompt was sent then.
        let n_open = self.prompts.get(&session).copied();
        let is_told = self.loading.contains(&session) || kind == "plan" && n_open.is_none();
        let shown = update["messageId"].as_str().or_else(|| update["toolCallId"].as_str());
        let shown = (session.clone(), shown.unwrap_or_default().to_owned());
        let is_in_prompt = n_open.unwrap_or_default() > 0;
        // A turn that opened by itself shows messages and calls of its own.
        let is_own = !self.cancelled.contains(&session) && !self.of_prompts.contains(&shown);
        if is_in_prompt && of_turn && kind != "plan" {
            self.of_prompts.insert(shown);
        }
        if of_turn && !is_told && !is_in_prompt && !is_own {
            self.breaks("nothing of a turn comes after its answer", line);
        }
        match kind {
            "tool_call" => {
                let key = (session, update["toolCallId"].as_str().unwrap_or_default().to_owned());
                let status = update["status"].as_str().unwrap_or("pending").to_owned();
                // A04: an id of our own for each call.
                if self.calls.insert(key, status).is_some() {
                    self.breaks("a call is announced once", line);
                }
                // V07: the first title is useful, short and plain.
                let title = update["title"].as_str().unwrap_or_default();
                if title.is_empty() || title.contains('\n') || title.chars().count() > MAX_TITLE {
                    self.breaks("a title is one short line", line);
                }
                if !update["rawInput"].is_object() {
                    self.breaks("raw input is an object", line);
                }
                self.places(update, line);
            }
            "tool_call_update" => {
                let key = (session, update["toolCallId"].as_str().unwrap_or_default().to_owned());
                // V06: announce before updating. And nothing follows the end of a call.
                match (self.calls.get_mut(&key), update["status"].as_str()) {
                    (None, _) => self.breaks("a call is announced before it is updated", line),
                    (Some(status), Some(new)) => {
                        let was = std::mem::replace(status, new.to_owned());
                        if was == "completed" || was == "failed" {
                            self.breaks("a call ends once", line);
                        }
                    }
                    (Some(_), None) => {}
                }
                self.places(update, line);
            }
            // S04: every message has an id.
            "agent_message_chunk" | "agent_thought_chunk"
                if update["messageId"].as_str().is_none_or(str::is_empty) =>
            {
                self.breaks("a message has an id", line);
            }
            _ => {}
        }
    }

    /// V01, V03: absolute paths everywhere, lines from 1.
    fn places(&mut self, update: &Value, line: &Line) {
        for location in update["locations"].as_array().into_iter().flatten() {
            self.absolute(&location["path"], line);
            if location["line"].as_u64() == Some(0) {
                self.breaks("lines count from 1", line);
            }
        }
        for item in update["content"].as_array().into_iter().flatten() {
            if item["type"] == "diff" {
                self.absolute(&item["path"], line);
                // Some clients draw a new file only when the key is there.
                if item.get("oldText").is_none() {
                    self.breaks("a diff spells out its old text", line);
                }
            }
        }
    }

    fn absolute(&mut self, path: &Value, line: &Line) {
        if !path.as_str().is_some_and(|path| Path::new(path).is_absolute()) {
            self.breaks("paths are absolute", line);
        }
    }

    fn breaks(&mut self, rule: &str, line: &Line) {
        let message: String = line.message.to_string().chars().take(600).collect();
        self.broken.push(format!("{rule}: {message}"));
    }
}

fn id_of(line: &Line) -> String {
    line.id().map(Value::to_string).unwrap_or_default()
}

fn session_of(line: &Line) -> String {
    line.params()["sessionId"].as_str().unwrap_or_default().to_owned()
}
