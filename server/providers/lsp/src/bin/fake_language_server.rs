//! A language server that misbehaves on demand. For tests only; it is no part of the program.
//!
//! Arguments choose what it does: `--encoding utf-8`, `--sync 0|1|2`, `--log FILE` (each message it gets, a line each), and
//! `--tells push|late|pull|unversioned` (an error for each line with `BAD`; late is 600 ms after the text), `--watch GLOB`,
//! faults: `--fault NAME` as listed at [`Server::fault`]. Definition answers the first place of the word under the cursor
//! in the document as the server has it, references all of them, hover the word and the document's version.

#![expect(clippy::print_stderr, reason = "stderr is what a server complains on")]

use serde_json::{Value, json};
use std::collections::HashMap;
use std::io::{BufRead, Write};
use std::time::Duration;

fn main() {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let value = |name: &str| {
        let place = arguments.iter().position(|argument| argument == name)?;
        arguments.get(place + 1).cloned()
    };
    let mut server = Server {
        fault: value("--fault").unwrap_or_default(),
        encoding: value("--encoding").unwrap_or_else(|| "utf-16".to_owned()),
        sync: value("--sync").and_then(|sync| sync.parse().ok()).unwrap_or(2),
        log: value("--log"),
        tells: value("--tells").unwrap_or_default(),
        watch: value("--watch"),
        documents: HashMap::new(),
        n_asked: 0,
        n_sent: 0,
    };
    server.log("start");
    if server.fault == "exit-at-once" {
        eprintln!("error: Unknown binary 'fake' in official toolchain");
        std::process::exit(1);
    }
    if server.fault == "noise" {
        eprintln!("{}", "x".repeat(5_000_000));
    }
    // Not locked for good: questions of our own read their answers.
    loop {
        let message = read(&mut std::io::stdin().lock());
        let Some(message) = message else { return };
        server.take(&message);
    }
}

struct Server {
    /// `exit-at-once`, `refuse-initialize`, `silent` (never answers), `silent-initialize`, `crash` (ends at each question),
    /// `crash-once` (ends at the first question of the first process; needs `--log`), `garbage` (answers a question with
    /// no message), `headers`, `length` and `broken-json` (a message without a length, with a false one, with half a body), `monster` (names a huge message), `late` (answers after 300 ms), `error`, `malformed`, `loading` (null
    /// for the first three questions, with progress), `loading-forever`, `status` (the same by server status), `asks` (asks
    /// the client five things and answers hover with its answers), `noise` (5 MB of stderr), `flood` (10 000 notifications
    /// before each answer), `only-hover`, `modified` (content modified, twice).
    fault: String,
    encoding: String,
    sync: u64,
    log: Option<String>,
    tells: String,
    watch: Option<String>,
    documents: HashMap<String, (i64, String)>,
    n_asked: usize,
    n_sent: u64,
}

fn read(input: &mut impl BufRead) -> Option<Value> {
    let mut length = 0;
    loop {
        let mut line = String::new();
        if input.read_line(&mut line).ok()? == 0 {
            return None;
        }
        match line.trim() {
            "" => break,
            header => {
                if let Some(value) = header.strip_prefix("Content-Length: ") {
                    length = value.parse().ok()?;
                }
            }
        }
    }
    let mut body = vec![0; length];
    input.read_exact(&mut body).ok()?;
    serde_json::from_slice(&body).ok()
}

fn send(message: &Value) {
    let text = message.to_string();
    let mut output = std::io::stdout().lock();
    let _ = write!(output, "Content-Length: {}\r\n\r\n{text}", text.len());
    let _ = output.flush();
}

impl Server {
    fn log(&self, line: &str) {
        let Some(path) = &self.log else { return };
        if let Ok(mut file) = std::fs::OpenOptions::new().append(true).create(true).open(path) {
            let _ = writeln!(file, "{line}");
        }
    }

    fn n_starts(&self) -> usize {
        let log = self.log.as_ref().and_then(|path| std::fs::read_to_string(path).ok());
        log.map_or(0, |log| log.lines().filter(|line| *line == "start").count())
    }

    fn ask(&mut self, method: &str, params: Value) -> Value {
        self.n_sent += 1;
        send(&json!({ "jsonrpc": "2.0", "id": self.n_sent, "method": method, "params": params }));
        let mut input = std::io::stdin().lock();
        loop {
            let Some(message) = read(&mut input) else { std::process::exit(0) };
            if message["id"] == self.n_sent && message["method"].is_null() {
                return if message["error"].is_null() {
                    message["result"].clone()
                } else {
                    message["error"]["code"].clone()
                };
            }
        }
    }

    fn take(&mut self, message: &Value) {
        let method = message["method"].as_str().unwrap_or_default();
        self.log(method);
        let (id, params) = (&message["id"], &message["params"]);
        let document = &params["textDocument"];
        let uri = document["uri"].as_str().unwrap_or_default().to_owned();
        match method {
            "initialize" => self.initialize(id),
            "initialized" => self.begin(),
            "shutdown" => self.answer(id, Value::Null),
            "exit" => std::process::exit(0),
            "textDocument/didOpen" => {
                let text = document["text"].as_str().unwrap_or_default().to_owned();
                self.documents.insert(uri.clone(), (document["version"].as_i64().unwrap_or_default(), text));
                self.tell(&uri);
            }
            "textDocument/didClose" => {
                self.documents.remove(&uri);
            }
            "textDocument/didChange" => {
                self.change(&uri, document["version"].as_i64(), &params["contentChanges"]);
                self.tell(&uri);
            }
            "textDocument/diagnostic" => {
                let items = self.findings(&uri);
                self.answer(id, json!({ "kind": "full", "items": items }));
            }
            "workspace/didChangeWatchedFiles" => {
                for change in params["changes"].as_array().into_iter().flatten() {
                    let name =
                        change["uri"].as_str().unwrap_or_default().rsplit('/').next().unwrap_or_default();
                    self.log(&format!("watched {name} {}", change["type"]));
                }
            }
            question if question.starts_with("textDocument/") => self.question(question, id, &uri, params),
            _ => {}
        }
    }

    fn initialize(&self, id: &Value) {
        match self.fault.as_str() {
            "silent-initialize" => {}
            "refuse-initialize" => self.refuse(id, -32603, "no valid TypeScript installation was found"),
            _ => {
                let pulls = (self.tells == "pull")
                    .then(|| json!({ "interFileDependencies": false, "workspaceDiagnostics": false }));
                let offers = self.fault != "only-hover";
                self.answer(
                    id,
                    json!({ "capabilities": {
                        "positionEncoding": self.encoding,
                        "textDocumentSync": { "openClose": true, "change": self.sync },
                        "hoverProvider": true, "definitionProvider": offers, "referencesProvider": offers,
                        "implementationProvider": offers, "diagnosticProvider": pulls,
                    }}),
                );
            }
        }
    }

    fn begin(&self) {
        match self.fault.as_str() {
            "loading" | "loading-forever" => self.progress("begin"),
            "status" => self.status(false),
            _ => {}
        }
        if let Some(glob) = &self.watch {
            let options = json!({ "watchers": [{ "globPattern": glob }] });
            let registrations = json!([{ "id": "w", "method": "workspace/didChangeWatchedFiles", "registerOptions": options }]);
            let params = json!({ "registrations": registrations });
            send(
                &json!({ "jsonrpc": "2.0", "id": "register", "method": "client/registerCapability", "params": params }),
            );
        }
    }

    fn findings(&self, uri: &str) -> Vec<Value> {
        let text = self.documents.get(uri).map(|(_, text)| text.as_str()).unwrap_or_default();
        let bad =
            text.lines().enumerate().filter_map(|(number, line)| Some((number, line.find("BAD")?, line)));
        bad.map(|(number, at, line)| {
            let place = |at| json!({ "line": number, "character": self.units(&line[..at]) });
            let range = json!({ "start": place(at), "end": place(at + 3) });
            json!({ "range": range, "severity": 1, "code": "E7", "message": format!("{} is bad", line[at..].trim()) })
        })
        .collect()
    }

    fn tell(&self, uri: &str) {
        match self.tells.as_str() {
            "" | "pull" => return,
            "late" => std::thread::sleep(Duration::from_millis(600)),
            _ => {}
        }
        let mut params = json!({ "uri": uri, "diagnostics": self.findings(uri) });
        if self.tells != "unversioned" {
            params["version"] = json!(self.documents.get(uri).map(|(version, _)| version));
        }
        send(&json!({ "jsonrpc": "2.0", "method": "textDocument/publishDiagnostics", "params": params }));
    }

    fn progress(&self, kind: &str) {
        let value = json!({ "token": "load", "value": { "kind": kind, "title": "Loading" } });
        send(&json!({ "jsonrpc": "2.0", "method": "$/progress", "params": value }));
    }

    fn status(&self, quiescent: bool) {
        let value = json!({ "health": "warning", "quiescent": quiescent, "message": "no project here" });
        send(&json!({ "jsonrpc": "2.0", "method": "experimental/serverStatus", "params": value }));
    }

    fn change(&mut self, uri: &str, version: Option<i64>, changes: &Value) {
        let Some((known, mut text)) = self.documents.get(uri).cloned() else { return };
        for change in changes.as_array().into_iter().flatten() {
            let new = change["text"].as_str().unwrap_or_default();
            if change["range"].is_null() {
                text = new.to_owned();
                continue;
            }
            let offset = |place: &Value| {
                let line = place["line"].as_u64().unwrap_or_default() as usize;
                let start: usize = text.split_inclusive('\n').take(line).map(str::len).sum();
                start + self.bytes(text[start..].split('\n').next().unwrap_or_default(), &place["character"])
            };
            let (start, end) = (offset(&change["range"]["start"]), offset(&change["range"]["end"]));
            text.replace_range(start..end, new);
        }
        self.documents.insert(uri.to_owned(), (version.unwrap_or(known), text));
    }

    fn question(&mut self, method: &str, id: &Value, uri: &str, params: &Value) {
        self.n_asked += 1;
        match self.fault.as_str() {
            "silent" => return,
            "crash" => {
                eprintln!("panic: the index is broken");
                std::process::abort();
            }
            "crash-once" if self.n_starts() == 1 => std::process::exit(7),
            "garbage" => {
                let _ = std::io::stdout().write_all(b"Hello, this is no message\r\n\r\n");
                let _ = std::io::stdout().flush();
                return;
            }
            "headers" => {
                let _ = std::io::stdout().write_all(b"Content-Type: nonsense\r\n\r\n{}");
                let _ = std::io::stdout().flush();
                return;
            }
            "length" => {
                let _ = std::io::stdout().write_all(b"Content-Length: many\r\n\r\n{}");
                let _ = std::io::stdout().flush();
                return;
            }
            "broken-json" => {
                let _ = std::io::stdout().write_all(b"Content-Length: 8\r\n\r\n{\"id\": [");
                let _ = std::io::stdout().flush();
                return;
            }
            "monster" => {
                let _ = std::io::stdout().write_all(b"Content-Length: 99999999999\r\n\r\n{");
                let _ = std::io::stdout().flush();
                return;
            }
            "late" => std::thread::sleep(Duration::from_millis(300)),
            "error" => return self.refuse(id, -32603, "the file is not part of a project"),
            "modified" if self.n_asked <= 2 => return self.refuse(id, -32801, "content modified"),
            "malformed" => return self.answer(id, json!({ "contents": 5, "nonsense": true })),
            "loading-forever" => return self.answer(id, Value::Null),
            "loading" | "status" if self.n_asked <= 3 => {
                self.answer(id, Value::Null);
                if self.n_asked == 3 {
                    if self.fault == "loading" { self.progress("end") } else { self.status(true) }
                }
                return;
            }
            "flood" => {
                for n in 0..10_000 {
                    send(
                        &json!({ "jsonrpc": "2.0", "method": "window/logMessage", "params": { "type": 4, "message": n.to_string() } }),
                    );
                }
            }
            "asks" => {
                let answers = [
                    self.ask(
                        "workspace/configuration",
                        json!({ "items": [{ "section": "a" }, { "section": "b" }] }),
                    ),
                    self.ask("workspace/workspaceFolders", Value::Null)[0]["name"].clone(),
                    self.ask("client/registerCapability", json!({ "registrations": [] })),
                    self.ask("window/workDoneProgress/create", json!({ "token": 1 })),
                    self.ask("workspace/applyEdit", json!({ "edit": {} }))["applied"].clone(),
                    self.ask("something/unheardOf", Value::Null),
                ];
                return self.answer(id, json!({ "contents": json!(answers).to_string() }));
            }
            _ => {}
        }
        let Some((version, text)) = self.documents.get(uri).cloned() else {
            return self.refuse(id, -32602, "the document is not open");
        };
        let line = params["position"]["line"].as_u64().unwrap_or_default() as usize;
        let line_text = text.lines().nth(line).unwrap_or_default();
        let word = word_at(line_text, self.bytes(line_text, &params["position"]["character"]));
        if method == "textDocument/hover" {
            let contents = json!({ "kind": "markdown", "value": format!("{word} in version {version}") });
            return self
                .answer(id, if word.is_empty() { Value::Null } else { json!({ "contents": contents }) });
        }
        let mut places = Vec::new();
        let mut documents: Vec<_> = self.documents.iter().collect();
        documents.sort();
        for (uri, (_, text)) in documents {
            for (number, line) in text.lines().enumerate() {
                for (at, _) in line.match_indices(&word).filter(|_| !word.is_empty()) {
                    let place = |at| json!({ "line": number, "character": self.units(&line[..at]) });
                    places.push(
                        json!({ "uri": uri, "range": { "start": place(at), "end": place(at + word.len()) } }),
                    );
                }
            }
        }
        if method == "textDocument/definition" {
            places.truncate(1);
        }
        self.answer(id, json!(places));
    }

    fn units(&self, text: &str) -> usize {
        match self.encoding.as_str() {
            "utf-8" => text.len(),
            "utf-32" => text.chars().count(),
            _ => text.encode_utf16().count(),
        }
    }

    fn bytes(&self, line: &str, character: &Value) -> usize {
        let wanted = character.as_u64().unwrap_or_default() as usize;
        line.char_indices()
            .map(|(at, _)| at)
            .find(|&at| self.units(&line[..at]) >= wanted)
            .unwrap_or(line.len())
    }

    fn answer(&self, id: &Value, result: Value) {
        send(&json!({ "jsonrpc": "2.0", "id": id, "result": result }));
    }

    fn refuse(&self, id: &Value, code: i32, message: &str) {
        send(&json!({ "jsonrpc": "2.0", "id": id, "error": { "code": code, "message": message } }));
    }
}

/// The word around a byte of a line.
fn word_at(line: &str, at: usize) -> String {
    let is_word = |char: char| char.is_alphanumeric() || char == '_';
    let start = line[..at]
        .char_indices()
        .rev()
        .take_while(|(_, char)| is_word(*char))
        .last()
        .map_or(at, |(at, _)| at);
    let end =
        line[at..].char_indices().find(|(_, char)| !is_word(*char)).map_or(line.len(), |(end, _)| at + end);
    line[start..end].to_owned()
}
