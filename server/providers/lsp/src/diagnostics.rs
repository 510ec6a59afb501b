//! What a server says is wrong, by file: told by itself or asked for, compared with what was known before an edit.
//!
//! Filled by `inbound` and `client`, read by `after_edit`. Bounded in files and in findings per file.

use crate::documents::Texts;
use crate::position::{Encoding, Lines, column};
use lsp_types::Url;
use serde::Deserialize;
use serde_json::Value;
use std::collections::{BTreeMap, HashMap};
use std::path::{Path, PathBuf};
use std::sync::{Mutex, MutexGuard, PoisonError};
use tokio::sync::watch;

/// Most files whose findings are kept.
const MAX_FILES: usize = 2000;
/// Most findings kept of one file.
const MAX_OF_FILE: usize = 200;
/// Most findings that one text lists.
const MAX_LISTED: usize = 10;
/// Longest message shown, in characters.
const MAX_MESSAGE: usize = 200;

/// How bad a finding is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Severity {
    /// The code is wrong.
    Error,
    /// It may be.
    Warning,
    /// Information or a hint.
    Note,
}

/// One finding.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Finding {
    /// How bad it is.
    pub severity: Severity,
    /// Line from 0.
    line: u32,
    /// Column from 0 as the server counts.
    character: u32,
    /// First line of what the server says, with its code.
    message: String,
}

/// Findings of one server.
pub struct Diagnostics {
    files: Mutex<HashMap<PathBuf, Known>>,
    changes: watch::Sender<u64>,
}

struct Known {
    /// Version of the document; `None` when the server does not say.
    version: Option<i32>,
    /// Number of the change that brought it.
    change: u64,
    findings: Vec<Finding>,
}

/// The errors known at some time, by file and message: a line that moves makes no new error.
#[derive(Clone)]
pub struct Snapshot {
    errors: HashMap<PathBuf, HashMap<String, usize>>,
    change: u64,
}

impl Default for Diagnostics {
    fn default() -> Self {
        Self { files: Mutex::default(), changes: watch::Sender::new(0) }
    }
}

impl Diagnostics {
    /// Takes `textDocument/publishDiagnostics`.
    pub fn published(&self, params: &Value) {
        let path = params["uri"].as_str().and_then(|uri| Url::parse(uri).ok()?.to_file_path().ok());
        let version = params["version"].as_i64().and_then(|version| i32::try_from(version).ok());
        if let Some(path) = path {
            self.put(&path, version, &params["diagnostics"]);
            self.changes.send_modify(|_| ());
        }
    }

    /// Keeps the findings of a file in place of those before; wakes nobody.
    pub fn put(&self, path: &Path, version: Option<i32>, items: &Value) {
        let findings = items.as_array().into_iter().flatten().take(MAX_OF_FILE).filter_map(finding).collect();
        let mut files = self.lock();
        if files.len() >= MAX_FILES && !files.contains_key(path) {
            return;
        }
        self.changes.send_if_modified(|change| {
            *change += 1;
            false
        });
        let change = *self.changes.borrow();
        files.insert(path.to_owned(), Known { version, change, findings });
    }

    /// The server wants to be asked again.
    pub fn refresh(&self) {
        self.changes.send_modify(|change| *change += 1);
    }

    /// Wakes whenever something was said.
    pub fn changes(&self) -> watch::Receiver<u64> {
        self.changes.subscribe()
    }

    /// Whether anything was ever said.
    pub fn is_used(&self) -> bool {
        !self.lock().is_empty()
    }

    /// The errors known now.
    pub fn snapshot(&self) -> Snapshot {
        let files = self.lock();
        let errors = files.iter().map(|(path, known)| (path.clone(), counted(&known.findings))).collect();
        Snapshot { errors, change: *self.changes.borrow() }
    }

    /// Whether something was said of this version of a file since `before`.
    pub fn is_fresh(&self, path: &Path, version: i32, before: &Snapshot) -> bool {
        self.lock().get(path).is_some_and(|known| {
            known.change > before.change && known.version.is_none_or(|known| known >= version)
        })
    }

    /// Errors that were not there before; of `path` alone, or of all files.
    pub fn new_errors(&self, before: &Snapshot, only: Option<&Path>) -> BTreeMap<PathBuf, Vec<Finding>> {
        let mut found = BTreeMap::new();
        for (path, known) in self.lock().iter() {
            if only.is_some_and(|only| only != path) {
                continue;
            }
            let mut old = before.errors.get(path).cloned().unwrap_or_default();
            let is_new = |finding: &&Finding| match old.get_mut(&finding.message) {
                Some(n) if *n > 0 => {
                    *n -= 1;
                    false
                }
                _ => finding.severity == Severity::Error,
            };
            let errors: Vec<Finding> = known.findings.iter().filter(is_new).cloned().collect();
            if !errors.is_empty() {
                found.insert(path.clone(), errors);
            }
        }
        found
    }

    /// Everything known, the worst of each file first.
    pub fn all(&self) -> BTreeMap<PathBuf, Vec<Finding>> {
        let mut all = BTreeMap::new();
        for (path, known) in self.lock().iter().filter(|(_, known)| !known.findings.is_empty()) {
            let mut findings = known.findings.clone();
            findings.sort_by_key(|finding| (finding.severity, finding.line));
            all.insert(path.clone(), findings);
        }
        all
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<PathBuf, Known>> {
        self.files.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Snapshot {
    /// Whether anything was known of a file.
    pub fn knows(&self, path: &Path) -> bool {
        self.errors.contains_key(path)
    }
}

fn counted(findings: &[Finding]) -> HashMap<String, usize> {
    let mut counted = HashMap::new();
    for finding in findings.iter().filter(|finding| finding.severity == Severity::Error) {
        *counted.entry(finding.message.clone()).or_default() += 1;
    }
    counted
}

/// The part of the protocol's `Diagnostic` that is read.
#[derive(Deserialize)]
struct Raw {
    range: lsp_types::Range,
    #[serde(default)]
    severity: Option<u8>,
    #[serde(default)]
    code: Value,
    message: String,
}

fn finding(item: &Value) -> Option<Finding> {
    let raw = Raw::deserialize(item).ok()?;
    let first = raw.message.lines().find(|line| !line.trim().is_empty()).unwrap_or_default().trim();
    let mut message: String = first.chars().take(MAX_MESSAGE).collect();
    if message.len() < first.len() {
        message.push('…');
    }
    let code =
        raw.code.as_str().map(str::to_owned).or_else(|| raw.code.as_i64().map(|code| code.to_string()));
    if let Some(code) = code.filter(|code| !code.is_empty() && code.len() < 80) {
        message = format!("{message} ({code})");
    }
    let severity = match raw.severity {
        // The protocol leaves the reading of an absent one to the client.
        None | Some(1) => Severity::Error,
        Some(2) => Severity::Warning,
        Some(_) => Severity::Note,
    };
    Some(Finding { severity, line: raw.range.start.line, character: raw.range.start.character, message })
}

/// Findings as `path:line:column: message`, at most ten, and how many more there are. A column is given only where the
/// text it counts in is at hand.
pub fn listed(
    found: &BTreeMap<PathBuf, Vec<Finding>>,
    workspace: &Path,
    texts: &Texts,
    encoding: Encoding,
) -> String {
    let all = found.iter().flat_map(|(path, findings)| findings.iter().map(move |finding| (path, finding)));
    let mut rows: Vec<String> = all
        .take(MAX_LISTED)
        .map(|(path, finding)| {
            let shown = path.strip_prefix(workspace).unwrap_or(path).display();
            let line =
                texts.get(path).and_then(|text| Lines::new(text).line(finding.line).map(str::to_owned));
            let column = line
                .map(|line| column(&line, finding.character, encoding, Encoding::Utf16))
                .map(|column| format!(":{}", u64::from(column) + 1))
                .unwrap_or_default();
            let severity = match finding.severity {
                Severity::Error => "",
                Severity::Warning => "warning: ",
                Severity::Note => "note: ",
            };
            format!("{shown}:{}{column}: {severity}{}", u64::from(finding.line) + 1, finding.message)
        })
        .collect();
    let n_more = found.values().map(Vec::len).sum::<usize>().saturating_sub(rows.len());
    if n_more > 0 {
        rows.push(format!("… and {n_more} more"));
    }
    rows.join("\n")
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn item(line: u32, character: u32, severity: u8, message: &str) -> Value {
        let at = json!({ "line": line, "character": character });
        json!({ "range": { "start": at, "end": at }, "severity": severity, "message": message, "code": "E1" })
    }

    #[test]
    fn an_error_that_moves_is_not_new_and_a_second_of_its_kind_is() {
        let diagnostics = Diagnostics::default();
        let (a, b) = (Path::new("/w/a"), Path::new("/w/b"));
        diagnostics.put(a, Some(1), &json!([item(0, 0, 1, "x"), item(1, 0, 2, "y")]));
        let before = diagnostics.snapshot();
        assert!(before.knows(a) && !before.knows(b) && !diagnostics.is_fresh(a, 1, &before));
        diagnostics.put(a, Some(2), &json!([item(5, 0, 1, "x"), item(6, 0, 2, "z")]));
        assert!(diagnostics.is_fresh(a, 2, &before) && !diagnostics.is_fresh(a, 3, &before));
        assert!(diagnostics.new_errors(&before, None).is_empty());
        diagnostics.put(a, None, &json!([item(5, 0, 1, "x"), item(7, 2, 1, "x\nmore")]));
        diagnostics.put(b, None, &json!([item(0, 0, 1, "w")]));
        assert!(diagnostics.is_fresh(a, 9, &before));
        let texts = Texts::from([(a.to_owned(), "\n\n\n\n\n\n\né😀x\n".into())]);
        let shown =
            |only| listed(&diagnostics.new_errors(&before, only), Path::new("/w"), &texts, Encoding::Utf32);
        assert_eq!(shown(Some(a)), "a:8:4: x (E1)");
        assert_eq!(shown(None), "a:8:4: x (E1)\nb:1: w (E1)");
    }

    #[test]
    fn a_long_list_is_cut_and_counted() {
        let diagnostics = Diagnostics::default();
        let before = diagnostics.snapshot();
        let items: Vec<Value> = (0..13).map(|line| item(line, 0, 1, &"m".repeat(300))).collect();
        diagnostics.published(&json!({ "uri": "file:///w/a%20b", "diagnostics": items }));
        let found = diagnostics.new_errors(&before, None);
        let shown = listed(&found, Path::new("/w"), &Texts::new(), Encoding::Utf16);
        assert!(shown.starts_with("a b:1: mmm") && shown.ends_with("\n… and 3 more"), "{shown}");
        assert!(shown.contains("m… (E1)\n") && shown.lines().count() == 11);
    }
}
