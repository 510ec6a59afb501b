//! `tour`: everything there is to see, in any folder. Whatever writes, writes to a scratch folder.

use super::commands::{failed, literal, paths_of_glob, run_command};
use super::walk::{Ask, Walk};
use serde_json::{Value, json};

/// Lines of the source file that are read.
const MAX_LINES: u64 = 40;
/// Folders whose files are nobody's own.
const FOREIGN: &[&str] =
    &["target", "node_modules", ".git", "dist", "build", "vendor", ".venv", "__pycache__"];
/// Extensions of files worth showing, the best first.
const SOURCES: &[&str] = &[
    "rs", "py", "ts", "tsx", "js", "jsx", "go", "java", "kt", "swift", "c", "cc", "cpp", "h", "hpp", "cs",
    "rb", "php", "ex", "hs", "ml", "lua", "sh", "md", "toml", "txt",
];

/// What the tour has shown, in order, for its last words.
#[derive(Default)]
struct Seen {
    kinds: Vec<&'static str>,
    problems: Vec<String>,
}

impl Seen {
    fn note(&mut self, kind: &'static str, done: &super::situation::Done) {
        if done.is_error {
            self.problems.push(failed(done));
        } else if !self.kinds.contains(&kind) {
            self.kinds.push(kind);
        }
    }
}

pub(super) fn tour(walk: &mut Walk<'_>) -> Result<String, Ask> {
    let mut seen = Seen::default();
    let folder = scratch(walk.situation.prompt_id);
    let mut opening = Some(format!(
        "I am the built-in offline model, not a language model, and I show you around. Whatever I write goes to `{folder}`."
    ));
    let for_plan = opening.take_if(|_| walk.has("todo_write"));
    plan(walk, &mut seen, for_plan, 0)?;

    let source = find_source(walk, &mut seen, opening.take())?;
    if let Some(source) = &source {
        look_into(walk, &mut seen, source)?;
    }
    plan(walk, &mut seen, None, 1)?;

    write_and_edit(walk, &mut seen, &folder)?;
    plan(walk, &mut seen, None, 2)?;

    if walk.has("bash") {
        let command = format!("ls -la '{folder}' && printf 'the tour ran this\\n'");
        let done = run_command(
            walk,
            "A command, in the terminal if your editor has one.",
            &command,
            "List the scratch folder",
        )?;
        seen.note("a terminal", done);
    }
    plan(walk, &mut seen, None, 3)?;

    let kinds = if seen.kinds.is_empty() {
        "nothing, since no tool was on offer".to_owned()
    } else {
        seen.kinds.join(", ")
    };
    let mut text = format!("That was the tour. You have seen: {kinds}.");
    if source.is_none() {
        text.push_str(" There was no text file here to read.");
    }
    if !seen.problems.is_empty() {
        text.push_str("\n\nWhat did not work:\n");
        text.extend(seen.problems.iter().map(|problem| format!("\n- {problem}")));
    }
    text.push_str(&format!("\n\nThe scratch folder `{folder}` can be deleted."));
    Ok(text)
}

/// The to-do list with the first `n_done` parts done.
fn plan(walk: &mut Walk<'_>, seen: &mut Seen, opening: Option<String>, n_done: usize) -> Result<(), Ask> {
    if !walk.has("todo_write") {
        return Ok(());
    }
    const PARTS: [&str; 3] =
        ["Look around in this folder", "Write and edit a scratch file", "Run a harmless command"];
    let status = |index: usize| match index.cmp(&n_done) {
        std::cmp::Ordering::Less => "completed",
        std::cmp::Ordering::Equal => "in_progress",
        std::cmp::Ordering::Greater => "pending",
    };
    let todos: Vec<Value> = PARTS
        .iter()
        .enumerate()
        .map(|(index, content)| json!({"content": content, "status": status(index)}))
        .collect();
    let done = walk.call(opening.as_deref().unwrap_or(""), "todo_write", json!({ "todos": todos }))?;
    seen.note("a plan", done);
    Ok(())
}

/// Lists the folder and picks a file to read.
fn find_source(walk: &mut Walk<'_>, seen: &mut Seen, opening: Option<String>) -> Result<Option<String>, Ask> {
    if !walk.has("glob") {
        return Ok(None);
    }
    let text = opening.unwrap_or_else(|| "First, which files there are.".to_owned());
    let pattern = format!("*.{{{}}}", SOURCES.join(","));
    let done = walk.call(&text, "glob", json!({ "pattern": pattern }))?;
    seen.note("a list of files", done);
    if done.is_error {
        return Ok(None);
    }
    let rank = |path: &str| {
        let extension = path.rsplit_once('.').map_or("", |(_, extension)| extension);
        SOURCES.iter().position(|known| *known == extension)
    };
    let own = paths_of_glob(&done.text)
        .into_iter()
        .filter(|path| !path.split(['/', '\\']).any(|part| FOREIGN.contains(&part)))
        .filter_map(|path| Some((rank(path)?, path)));
    Ok(own.min_by_key(|(rank, _)| *rank).map(|(_, path)| path.to_owned()))
}

/// Reads a file and searches for a word of it.
fn look_into(walk: &mut Walk<'_>, seen: &mut Seen, source: &str) -> Result<(), Ask> {
    if !walk.has("read") {
        return Ok(());
    }
    let read =
        walk.call("One of them, to read.", "read", json!({"file_path": source, "limit": MAX_LINES}))?;
    seen.note("a file that was read", read);
    let Some(word) = word_of(&read.text).filter(|_| walk.has("grep") && !read.is_error) else {
        return Ok(());
    };
    let pattern = format!(r"\b{}\b", literal(&word));
    let text = format!("Where else does `{word}` stand?");
    let mut found = walk.call(&text, "grep", json!({ "pattern": pattern }))?;
    if !found.is_error && found.text.starts_with("No matches") {
        // The file may be ignored; named, it is searched all the same.
        found = walk.call("", "grep", json!({"pattern": pattern, "path": source}))?;
    }
    seen.note("a search", found);
    Ok(())
}

/// Writes a file in the scratch folder, then edits it.
fn write_and_edit(walk: &mut Walk<'_>, seen: &mut Seen, folder: &str) -> Result<(), Ask> {
    if !walk.has("write") {
        return Ok(());
    }
    let file = format!("{folder}/notes.md");
    let content = "# Notes of the tour\n\n- written by the offline model\n- this line will be changed\n";
    let written = walk.call("Now a new file.", "write", json!({"file_path": file, "content": content}))?;
    seen.note("a new file as a diff", written);
    if written.is_error || !walk.has("edit") {
        return Ok(());
    }
    let arguments = json!({
        "file_path": file,
        "old_string": "- this line will be changed",
        "new_string": "- this line was changed\n- and this one was added",
    });
    let edited = walk.call("And a change to it.", "edit", arguments)?;
    seen.note("an edit as a diff", edited);
    Ok(())
}

/// A word of the text that was read: best one that names something, at least four letters.
fn word_of(read: &str) -> Option<String> {
    const NAMING: &[&str] =
        &["fn", "def", "class", "struct", "enum", "trait", "interface", "func", "function", "type"];
    let lines = read.lines().filter_map(|line| {
        let (number, text) = line.split_once(": ")?;
        number.trim().parse::<u64>().is_ok().then_some(text)
    });
    let mut any = None;
    for text in lines {
        let words = text
            .split(|char: char| !char.is_ascii_alphanumeric() && char != '_')
            .filter(|word| !word.is_empty());
        let mut before = "";
        for word in words {
            let is_long =
                word.len() >= 4 && word.starts_with(|char: char| char.is_ascii_alphabetic() || char == '_');
            if is_long && NAMING.contains(&before) {
                return Some(word.to_owned());
            }
            if is_long && any.is_none() {
                any = Some(word.to_owned());
            }
            before = word;
        }
    }
    any
}

/// A folder of this prompt's own below the temporary folder.
fn scratch(prompt_id: &str) -> String {
    // FNV-1a: short, and the same on every machine.
    let hash = prompt_id.bytes().fold(0xcbf2_9ce4_8422_2325_u64, |hash, byte| {
        (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3)
    });
    let short = format!("{hash:016x}");
    let folder = std::env::temp_dir().join(format!("followspot-tour-{}", &short[..8]));
    folder.to_string_lossy().into_owned()
}
