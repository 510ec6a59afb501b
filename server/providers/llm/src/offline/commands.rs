//! One script a sentence. Each adapts to the tools on offer and to what came back.

use super::situation::Done;
use super::walk::{Ask, Walk};
use serde_json::{Value, json};

/// Places tried before a language server's silence is believed.
const MAX_PLACES: usize = 3;
/// Results longer than this are not repeated in the answer.
const MAX_SHOWN_LINES: usize = 12;

/// Runs exactly what was asked, in one batch.
pub(super) fn tools(walk: &mut Walk<'_>, calls: Vec<(String, Value)>) -> Result<String, Ask> {
    let unknown: Vec<&str> =
        calls.iter().map(|(name, _)| name.as_str()).filter(|name| !walk.has(name)).collect();
    if !unknown.is_empty() {
        let known: Vec<&str> = walk.situation.request.tools.iter().map(|tool| tool.name.as_str()).collect();
        return Ok(format!(
            "There is no tool named {}. This session has: {}.",
            unknown.join(", "),
            known.join(", ")
        ));
    }
    let done = walk.calls("", calls)?;
    Ok(done.iter().map(verdict).collect::<Vec<_>>().join("\n"))
}

pub(super) fn read(walk: &mut Walk<'_>, file: &str) -> Result<String, Ask> {
    let done = walk.call("", "read", json!({ "file_path": file }))?;
    Ok(if done.is_error { failed(done) } else { format!("I read {file}.") })
}

pub(super) fn find(walk: &mut Walk<'_>, text: &str, path: Option<&str>) -> Result<String, Ask> {
    let mut arguments = json!({ "pattern": literal(text) });
    if let Some(path) = path {
        arguments["path"] = json!(path);
    }
    let done = walk.call("", "grep", arguments)?;
    Ok(if done.is_error { failed(done) } else { format!("{} for `{text}`.", done.headline()) })
}

pub(super) fn list(walk: &mut Walk<'_>, glob: &str) -> Result<String, Ask> {
    let is_pattern = glob.contains(['*', '?', '[', '{']);
    let arguments =
        if is_pattern { json!({ "pattern": glob }) } else { json!({"pattern": "*", "path": glob}) };
    let done = walk.call("", "glob", arguments)?;
    if done.is_error {
        return Ok(failed(done));
    }
    let n_files = paths_of_glob(&done.text).len();
    Ok(match n_files {
        0 => done.headline(),
        1 => "One file is listed.".to_owned(),
        n => format!("{n} files are listed."),
    })
}

pub(super) fn run(walk: &mut Walk<'_>, command: &str) -> Result<String, Ask> {
    let done = run_command(walk, "", command, "Run what the user typed")?;
    if done.is_error {
        return Ok(failed(done));
    }
    let markers: Vec<&str> = done.text.lines().map(str::trim).filter(|line| is_marker(line)).collect();
    Ok(if markers.is_empty() {
        "The command ran.".to_owned()
    } else {
        format!("The command ran: {}", markers.join(" "))
    })
}

/// Runs a command with whichever shell tool there is.
pub(super) fn run_command<'s>(
    walk: &mut Walk<'s>,
    text: &str,
    command: &str,
    description: &str,
) -> Result<&'s Done, Ask> {
    let tool = if walk.has("bash") || !walk.has("pwsh") { "bash" } else { "pwsh" };
    let mut arguments = json!({ "command": command });
    if walk.situation.accepts(tool, "description") {
        arguments["description"] = json!(description);
    }
    walk.call(text, tool, arguments)
}

pub(super) fn replace(walk: &mut Walk<'_>, old: &str, new: &str, file: &str) -> Result<String, Ask> {
    if !walk.has("edit") {
        return replace_by_editor(walk, old, new, file);
    }
    // An edit needs a file that was read; what the read shows is the person's to look at.
    let read = walk.call("I read the file first, then I edit it.", "read", json!({ "file_path": file }))?;
    if read.is_error {
        return Ok(failed(read));
    }
    let mut arguments = json!({"file_path": file, "old_string": old, "new_string": new});
    let edit = walk.call("", "edit", arguments.clone())?;
    if !edit.is_error {
        return Ok(format!("I replaced it in {file}."));
    }
    if !edit.text.contains("replace_all") {
        return Ok(failed(edit));
    }
    arguments["replace_all"] = Value::Bool(true);
    let edit = walk.call("It stands there more than once, so I replace every one.", "edit", arguments)?;
    Ok(if edit.is_error { failed(edit) } else { format!("I replaced every one in {file}.") })
}

fn replace_by_editor(walk: &mut Walk<'_>, old: &str, new: &str, file: &str) -> Result<String, Ask> {
    let tool = "str_replace_editor";
    let view = walk.call("", tool, json!({"command": "view", "path": file}))?;
    if view.is_error {
        return Ok(failed(view));
    }
    let arguments = json!({"command": "str_replace", "path": file, "old_str": old, "new_str": new});
    let edit = walk.call("", tool, arguments)?;
    Ok(if edit.is_error { failed(edit) } else { format!("I replaced it in {file}.") })
}

/// Looks for the word, then asks the language server where it is defined, at the places that look like code.
pub(super) fn where_is(walk: &mut Walk<'_>, symbol: &str) -> Result<String, Ask> {
    let pattern = format!(r"\b{}\b", literal(symbol));
    let found = walk.call("", "grep", json!({ "pattern": pattern }))?;
    if found.is_error {
        return Ok(failed(found));
    }
    let mut places = places(&found.text, symbol);
    if places.is_empty() {
        return Ok(format!("I found no `{symbol}` in this folder."));
    }
    // Stable, so that among equals the order of the search stays.
    places.sort_by_key(|place| std::cmp::Reverse(place.promise()));
    let mut refusal = None;
    if walk.has("lsp") {
        for place in places.iter().filter(|place| place.promise() > 0).take(MAX_PLACES) {
            let arguments = json!({
                "operation": "goToDefinition",
                "file_path": place.path,
                "line": place.line,
                "character": place.character,
            });
            let done = walk.call("", "lsp", arguments)?;
            if !done.is_error && !done.text.starts_with("No results") {
                return Ok(format!(
                    "The language server says that `{symbol}` is defined at:\n\n{}",
                    shown(&done.text)
                ));
            }
            refusal = Some(done.headline());
        }
    }
    let best = &places[0];
    let why = refusal.map(|refusal| format!(" (the language server: {refusal})")).unwrap_or_default();
    let others = match places.len() - 1 {
        0 => String::new(),
        1 => " It stands in one other place.".to_owned(),
        n => format!(" It stands in {n} other places."),
    };
    Ok(format!(
        "By text search{why}, `{symbol}` is at {}:{}: `{}`.{others}",
        best.path,
        best.line,
        best.text.trim()
    ))
}

/// One line of a search.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Place {
    pub path: String,
    /// 1-based.
    pub line: u64,
    /// 1-based UTF-16 column of the word.
    pub character: u64,
    pub text: String,
}

impl Place {
    /// How much the line looks like the definition of something: 0 is prose or data.
    fn promise(&self) -> u8 {
        const PROSE: &[&str] =
            &["md", "txt", "json", "toml", "yaml", "yml", "lock", "html", "css", "log", "csv"];
        const DEFINING: &[&str] = &[
            "fn",
            "def",
            "class",
            "struct",
            "enum",
            "trait",
            "type",
            "interface",
            "func",
            "function",
            "const",
            "let",
            "var",
            "static",
            "mod",
            "module",
            "namespace",
            "impl",
            "macro_rules!",
        ];
        let extension = self.path.rsplit_once('.').map_or("", |(_, extension)| extension);
        let text = self.text.trim_start();
        if PROSE.contains(&extension)
            || ["//", "#", "*", "/*", "--"].iter().any(|mark| text.starts_with(mark))
        {
            return 0;
        }
        let defines = text.split(|char: char| !char.is_alphanumeric() && !matches!(char, '_' | '!'));
        if defines.into_iter().any(|word| DEFINING.contains(&word)) { 2 } else { 1 }
    }
}

/// The lines of a search that hold the word: a path on its own line, then `Line N: text`.
pub(super) fn places(result: &str, word: &str) -> Vec<Place> {
    let mut path = "";
    let mut places = Vec::new();
    for line in result.lines() {
        let row = line.strip_prefix("Line ").and_then(|row| row.split_once(": "));
        let Some((number, text)) = row.and_then(|(number, text)| Some((number.parse().ok()?, text))) else {
            let is_path = !line.is_empty() && !line.starts_with(['(', '[']) && !line.starts_with("Found ");
            path = if is_path { line } else { path };
            continue;
        };
        let Some(at) = text.find(word) else { continue };
        let column = text[..at].encode_utf16().count() + 1;
        places.push(Place {
            path: path.to_owned(),
            line: number,
            character: u64::try_from(column).unwrap_or(1),
            text: text.to_owned(),
        });
    }
    places
}

/// The paths in a list of files.
pub(super) fn paths_of_glob(result: &str) -> Vec<&str> {
    result
        .lines()
        .map(str::trim_end)
        .filter(|line| !line.is_empty() && !line.starts_with(['(', '[']) && *line != "No files found")
        .collect()
}

/// How one call ended, in one line.
pub(super) fn verdict(done: &Done) -> String {
    if done.is_error { failed(done) } else { format!("`{}` gave: {}", done.name, done.headline()) }
}

pub(super) fn failed(done: &Done) -> String {
    let headline = done.headline();
    format!("`{}` failed: {}", done.name, headline.strip_prefix("Error: ").unwrap_or(&headline))
}

fn is_marker(line: &str) -> bool {
    ["[exit code:", "[timed out", "[killed by", "[sandbox:"].iter().any(|marker| line.starts_with(marker))
}

/// A regular expression that matches exactly this text.
pub(super) fn literal(text: &str) -> String {
    let mut pattern = String::with_capacity(text.len());
    for char in text.chars() {
        if r"\.+*?()|[]{}^$#&-~".contains(char) {
            pattern.push('\\');
        }
        pattern.push(char);
    }
    pattern
}

fn shown(text: &str) -> String {
    let lines: Vec<&str> = text.lines().filter(|line| !line.trim().is_empty()).collect();
    let more = lines.len().saturating_sub(MAX_SHOWN_LINES);
    let mut shown: Vec<String> = lines.iter().take(MAX_SHOWN_LINES).map(|line| format!("- {line}")).collect();
    if more > 0 {
        shown.push(format!("- … and {more} more"));
    }
    shown.join("\n")
}
