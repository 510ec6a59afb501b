//! A conversation as a picture: one line an event, ids numbered by first appearance, `$CWD` for the folder.
//!
//! `>` prompt, `<` update, `?` question, `!` the user's answer, `x` cancel, `=` the answer to the prompt. Chunks of one
//! message are one line, since where a stream is cut is chance; so are snapshots of one running command. Titles, usage,
//! commands and config options are left out unless asked for: every turn has them.

use super::wire::{Line, Side};
use serde_json::Value;
use similar::{ChangeTag, TextDiff};
use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;

const MAX_TEXT: usize = 160;

/// What a transcript shows.
#[derive(Clone, Copy, Debug, Default)]
pub struct Detail {
    /// Titles, usage, modes, commands and config options too.
    pub everything: bool,
    /// Requests for files and terminals too.
    pub requests: bool,
}

/// Draws the lines.
pub fn draw(lines: &[Arc<Line>], folder: &Path, detail: Detail) -> String {
    let mut pen = Pen { folder: folder.to_owned(), detail, ..Pen::default() };
    for line in lines {
        pen.line(line);
    }
    pen.drawn.iter().map(|drawn| drawn.text.trim_end()).collect::<Vec<_>>().join("\n")
}

#[derive(Default)]
struct Pen {
    folder: PathBuf,
    detail: Detail,
    calls: Vec<String>,
    terminals: Vec<String>,
    sessions: Vec<String>,
    /// Method and parameters of open requests: the editor's by id, the agent's by id.
    open: HashMap<(bool, String), (String, Value)>,
    drawn: Vec<Drawn>,
}

struct Drawn {
    text: String,
    /// Later lines with the same key, right after this one, join it.
    stream: Option<(String, bool)>,
}

impl Pen {
    fn line(&mut self, line: &Line) {
        let by_editor = line.from == Side::Editor;
        let id = line.id().map(Value::to_string).unwrap_or_default();
        if let (Some(method), true) = (line.method(), line.is_request()) {
            self.open.insert((by_editor, id), (method.to_owned(), line.params().clone()));
            self.request(by_editor, method, line.params());
        } else if let Some(update) = line.update() {
            let session = self.session(&line.params()["sessionId"]);
            self.update(&session, update);
        } else if by_editor && line.method() == Some("session/cancel") {
            let session = self.session(&line.params()["sessionId"]);
            self.put(format!("x {session}cancel"));
        } else if line.is_response()
            && let Some((method, params)) = self.open.remove(&(!by_editor, id))
        {
            self.response(&method, &params, &line.message);
        }
    }

    fn request(&mut self, by_editor: bool, method: &str, params: &Value) {
        let session = self.session(&params["sessionId"]);
        if by_editor && method == "session/prompt" {
            let blocks = params["prompt"].as_array().into_iter().flatten();
            let prompt: Vec<String> = blocks.map(|block| self.block(block)).collect();
            self.put(format!("> {session}{}", prompt.join(" ")));
        } else if method == "session/request_permission" {
            let call = self.call(&params["toolCall"]["toolCallId"]);
            let options = params["options"].as_array().into_iter().flatten();
            let kinds: Vec<&str> = options.filter_map(|option| option["kind"].as_str()).collect();
            let title = params["toolCall"]["title"].as_str().unwrap_or_default();
            let title = self.plain(title);
            self.put(format!("? {session}call {call}  {title}  {}", kinds.join(" | ")));
        } else if method == "elicitation/create" {
            let message = self.plain(params["message"].as_str().unwrap_or_default());
            self.put(format!("? {session}form  {message}"));
        } else if !by_editor && self.detail.requests {
            let subject = match method {
                "fs/read_text_file" | "fs/write_text_file" => self.path(&params["path"]),
                "terminal/create" => String::new(),
                _ => format!("terminal {}", number(&mut self.terminals, &params["terminalId"])),
            };
            self.put(format!("~ {session}{method}  {subject}"));
        }
    }

    fn response(&mut self, method: &str, params: &Value, message: &Value) {
        let session = self.session(&params["sessionId"]);
        let failure = message.get("error").map(|error| {
            let details = error["data"]["details"].as_str().unwrap_or_default();
            format!("error {}  {}  {details}", error["code"], error["message"].as_str().unwrap_or_default())
        });
        match (method, failure) {
            ("session/prompt", Some(failure)) => {
                let failure = self.plain(&failure);
                self.put(format!("= {session}{failure}"));
            }
            ("session/prompt", None) => {
                let reason = message["result"]["stopReason"].as_str().unwrap_or("nothing");
                self.put(format!("= {session}{reason}"));
            }
            ("session/request_permission" | "elicitation/create", Some(failure)) => {
                self.put(format!("! {session}{failure}"));
            }
            ("session/request_permission", None) => {
                let outcome = &message["result"]["outcome"];
                let mut options = params["options"].as_array().into_iter().flatten();
                let kind = options
                    .find(|option| option["optionId"] == outcome["optionId"])
                    .and_then(|option| option["kind"].as_str());
                let id = outcome["optionId"].as_str().or(outcome["outcome"].as_str());
                self.put(format!("! {session}{}", kind.or(id).unwrap_or("nothing")));
            }
            ("elicitation/create", None) => {
                let action = message["result"]["action"].as_str().unwrap_or("nothing").to_owned();
                self.put(format!("! {session}{action}"));
            }
            _ => {}
        }
    }

    fn update(&mut self, session: &str, update: &Value) {
        let kind = update["sessionUpdate"].as_str().unwrap_or_default();
        match kind {
            "agent_message_chunk" | "agent_thought_chunk" | "user_message_chunk" => {
                let sign = match kind {
                    "agent_message_chunk" => "<",
                    "agent_thought_chunk" => "< (thinks)",
                    _ => "< (user)",
                };
                let text = update["content"]["text"].as_str().unwrap_or_default();
                let text = self.plain_whole(text);
                let key = format!("{kind} {session}{}", update["messageId"]);
                self.stream(key, true, format!("{sign} {session}"), &text);
            }
            "tool_call" | "tool_call_update" => {
                let call = self.call(&update["toolCallId"]);
                let parts = self.call_parts(update, kind == "tool_call");
                if parts.is_empty() {
                    return;
                }
                let text = parts.join("  ");
                let status = update["status"].is_string();
                let start = format!("< {session}call {call} ");
                if status {
                    self.put(start + &text);
                } else {
                    self.stream(format!("snapshot {session}{call}"), false, start, &text);
                }
            }
            "plan" => {
                let entries = update["entries"].as_array().into_iter().flatten();
                let entries: Vec<String> = entries
                    .map(|entry| {
                        let status = entry["status"].as_str().unwrap_or_default();
                        format!("[{status}] {}", entry["content"].as_str().unwrap_or_default())
                    })
                    .collect();
                self.put(format!("< {session}plan  {}", entries.join("  ")));
            }
            _ if !self.detail.everything => {}
            "session_info_update" => {
                let title = update["title"].as_str().unwrap_or_default().to_owned();
                self.put(format!("< {session}title  {title}"));
            }
            "current_mode_update" => {
                let mode = update["currentModeId"].as_str().unwrap_or_default().to_owned();
                self.put(format!("< {session}mode  {mode}"));
            }
            "config_option_update" => {
                let options = update["configOptions"].as_array().into_iter().flatten();
                let options: Vec<String> = options
                    .map(|option| {
                        let value = option["currentValue"].as_str().unwrap_or_default();
                        format!("{}={value}", option["id"].as_str().unwrap_or_default())
                    })
                    .collect();
                self.put(format!("< {session}options  {}", options.join(" ")));
            }
            "available_commands_update" => {
                let commands = update["availableCommands"].as_array().into_iter().flatten();
                let names: Vec<&str> = commands.filter_map(|command| command["name"].as_str()).collect();
                self.put(format!("< {session}commands  {}", names.join(" ")));
            }
            "usage_update" => self.put(format!("< {session}usage  {}/{}", update["used"], update["size"])),
            other => self.put(format!("< {session}{other}")),
        }
    }

    fn call_parts(&mut self, update: &Value, announced: bool) -> Vec<String> {
        let mut parts = Vec::new();
        let kind = update["kind"].as_str().filter(|_| announced);
        let status = update["status"].as_str();
        let head: Vec<&str> = kind.into_iter().chain(status).collect();
        if !head.is_empty() {
            parts.push(head.join(" "));
        }
        if let Some(title) = update["title"].as_str() {
            parts.push(self.plain(title));
        }
        if let Some(locations) = update["locations"].as_array().filter(|locations| !locations.is_empty()) {
            let places: Vec<String> = locations
                .iter()
                .map(|place| {
                    let line = place["line"].as_u64().map(|line| format!(":{line}")).unwrap_or_default();
                    format!("{}{line}", self.path(&place["path"]))
                })
                .collect();
            parts.push(format!("at {}", places.join(" ")));
        }
        for item in update["content"].as_array().into_iter().flatten() {
            parts.push(self.item(item));
        }
        if status == Some("failed") {
            let error = &update["rawOutput"]["error"];
            let code = error["code"].as_str().unwrap_or_default();
            let message = self.plain(error["message"].as_str().unwrap_or_default());
            parts.push(format!("error {code} {message:?}"));
        }
        if let Some(output) = update["_meta"]["terminal_output"]["data"].as_str() {
            parts.push(format!("output {:?}", self.plain(output)));
        }
        parts
    }

    fn item(&mut self, item: &Value) -> String {
        match item["type"].as_str() {
            Some("diff") => {
                let new = item["newText"].as_str().unwrap_or_default();
                let old = item["oldText"].as_str();
                let word = if old.is_some() { "diff" } else { "new" };
                let path = self.path(&item["path"]);
                format!("{word} {path} {}", changes(old.unwrap_or_default(), new))
            }
            Some("terminal") => format!("terminal {}", number(&mut self.terminals, &item["terminalId"])),
            _ => {
                let text = self.block(&item["content"]);
                format!("{text:?}")
            }
        }
    }

    fn block(&self, block: &Value) -> String {
        match block["type"].as_str() {
            Some("text") => self.plain(block["text"].as_str().unwrap_or_default()),
            Some("resource_link") => self.plain(&format!("[{}]", block["uri"].as_str().unwrap_or_default())),
            Some("resource") => {
                self.plain(&format!("[[{}]]", block["resource"]["uri"].as_str().unwrap_or_default()))
            }
            other => format!("[{}]", other.unwrap_or("nothing")),
        }
    }

    /// Joins the last line when it belongs to the same stream; `grows` appends, else the newer replaces.
    fn stream(&mut self, key: String, grows: bool, start: String, text: &str) {
        if let Some(last) = self.drawn.last_mut()
            && last.stream.as_ref().is_some_and(|(last_key, _)| *last_key == key)
        {
            if grows {
                last.text.push_str(&text.replace('\n', "⏎"));
            } else {
                last.text = start + &text.replace('\n', "⏎");
            }
            return;
        }
        self.drawn.push(Drawn { text: start + &text.replace('\n', "⏎"), stream: Some((key, grows)) });
    }

    fn put(&mut self, text: String) {
        self.drawn.push(Drawn { text, stream: None });
    }

    fn call(&mut self, id: &Value) -> usize {
        number(&mut self.calls, id)
    }

    /// Nothing for the first session, `#2 ` for the second.
    fn session(&mut self, id: &Value) -> String {
        match id.as_str() {
            None => String::new(),
            Some(_) => match number(&mut self.sessions, id) {
                1 => String::new(),
                n => format!("#{n} "),
            },
        }
    }

    fn path(&self, path: &Value) -> String {
        let path = Path::new(path.as_str().unwrap_or_default());
        path.strip_prefix(&self.folder)
            .map_or_else(|_| path.display().to_string(), |rest| rest.display().to_string())
    }

    fn plain_whole(&self, text: &str) -> String {
        text.replace(&self.folder.display().to_string(), "$CWD")
    }

    fn plain(&self, text: &str) -> String {
        let text = self.plain_whole(text).replace('\n', "⏎");
        match text.char_indices().nth(MAX_TEXT) {
            Some((at, _)) => format!("{}…", &text[..at]),
            None => text,
        }
    }
}

fn number(known: &mut Vec<String>, id: &Value) -> usize {
    let id = id.as_str().unwrap_or("none").to_owned();
    match known.iter().position(|known| *known == id) {
        Some(at) => at + 1,
        None => {
            known.push(id);
            known.len()
        }
    }
}

/// The changed lines of a diff, on one line.
fn changes(old: &str, new: &str) -> String {
    let diff = TextDiff::from_lines(old, new);
    let changed = diff.iter_all_changes().filter_map(|change| {
        let sign = match change.tag() {
            ChangeTag::Delete => '-',
            ChangeTag::Insert => '+',
            ChangeTag::Equal => return None,
        };
        Some(format!("{sign}{}", change.value().trim_end_matches('\n')))
    });
    changed.collect::<Vec<_>>().join(" ")
}
