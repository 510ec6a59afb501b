//! What servers answer, as our words: places in every spelling of the protocol, columns counted as we count, hover as
//! Markdown.

use crate::documents::{MAX_TEXT, Texts};
use crate::position::{Encoding, Lines, column};
use lsp_types::{Hover, HoverContents, MarkedString, Position, Range, Url};
use serde::Deserialize;
use serde_json::Value;
use services::language_servers::{LspHover, LspLocation, LspPosition, LspRange};
use std::collections::HashMap;
use std::path::{Path, PathBuf};

/// Most places whose line is read for people.
const MAX_LINES: usize = 100;
/// Longest line that is kept, in characters.
const MAX_LINE: usize = 200;

/// A place as a server gives it. Addresses stay text: one that is no URI is shown as it is.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(untagged)]
pub enum RawLocation {
    /// `LocationLink`.
    #[serde(rename_all = "camelCase")]
    Link {
        /// The file.
        target_uri: String,
        /// The name in it.
        target_selection_range: Range,
    },
    /// `Location`.
    Location {
        /// The file.
        uri: String,
        /// Where in it.
        range: Range,
    },
}

/// Reads the answer of a definition, references or implementation request.
///
/// # Errors
/// What is wrong with it.
pub fn locations(answer: Value) -> Result<Vec<RawLocation>, String> {
    let all = match answer {
        Value::Null => Vec::new(),
        Value::Array(all) => all,
        one => vec![one],
    };
    all.into_iter()
        .map(|one| serde_json::from_value(one).map_err(|_| "a place without address or range".to_owned()))
        .collect()
}

/// Converts places; reads files that are not open in the server from the disk, as the server did. Blocks.
pub fn resolve(raw: Vec<RawLocation>, encoding: Encoding, texts: &Texts) -> Vec<LspLocation> {
    let needs_text = |number: usize| number < MAX_LINES || encoding != Encoding::Utf16;
    let places: Vec<(String, Option<PathBuf>, Range)> = raw
        .into_iter()
        .map(|raw| match raw {
            RawLocation::Link { target_uri, target_selection_range } => (target_uri, target_selection_range),
            RawLocation::Location { uri, range } => (uri, range),
        })
        .map(|(uri, range)| {
            let parsed = Url::parse(&uri).ok().filter(|uri| uri.scheme() == "file");
            let path = parsed.and_then(|uri| uri.to_file_path().ok());
            (uri, path, range)
        })
        .collect();
    let mut from_disk: HashMap<&Path, Option<String>> = HashMap::new();
    for (_, path, _) in
        places.iter().enumerate().filter(|(number, _)| needs_text(*number)).map(|(_, place)| place)
    {
        if let Some(path) = path
            && !texts.contains_key(path)
        {
            from_disk.entry(path).or_insert_with(|| read(path));
        }
    }
    // Many places of one file: its lines are found once.
    let mut lines: HashMap<&Path, Vec<&str>> = HashMap::new();
    let mut resolved = Vec::with_capacity(places.len());
    for (number, (uri, path, range)) in places.iter().enumerate() {
        let path = path.as_deref();
        let text = path.filter(|_| needs_text(number)).and_then(|path| {
            let text = texts.get(path).map(|text| &**text).or_else(|| from_disk.get(path)?.as_deref())?;
            Some(&*lines.entry(path).or_insert_with(|| text.lines().collect()))
        });
        let (range, line_text) = match text {
            Some(lines) => in_text(lines, *range, encoding),
            None => (LspRange { start: plain(range.start), end: plain(range.end) }, None),
        };
        resolved.push(LspLocation {
            uri: uri.clone(),
            path: path.map(Path::to_owned),
            range,
            line_text: line_text.filter(|_| number < MAX_LINES),
        });
    }
    resolved
}

fn in_text(lines: &[&str], range: Range, encoding: Encoding) -> (LspRange, Option<String>) {
    let line = |number: u32| lines.get(number as usize).copied();
    let convert = |position: Position| LspPosition {
        line: position.line,
        character: line(position.line)
            .filter(|_| encoding != Encoding::Utf16)
            .map_or(position.character, |line| column(line, position.character, encoding, Encoding::Utf16)),
    };
    let shown = line(range.start.line).map(|line| line.chars().take(MAX_LINE).collect());
    (LspRange { start: convert(range.start), end: convert(range.end) }, shown)
}

fn plain(position: Position) -> LspPosition {
    LspPosition { line: position.line, character: position.character }
}

fn read(path: &Path) -> Option<String> {
    let size = std::fs::metadata(path).ok()?.len();
    (size <= MAX_TEXT)
        .then(|| std::fs::read(path).ok())?
        .map(|bytes| String::from_utf8_lossy(&bytes).into_owned())
}

/// Reads the answer of a hover request; `text` is that of the file it was asked about.
///
/// # Errors
/// What is wrong with it.
pub fn hover(answer: Value, text: &str, encoding: Encoding) -> Result<Option<LspHover>, String> {
    let hover: Option<Hover> = serde_json::from_value(answer).map_err(|error| error.to_string())?;
    let Some(hover) = hover else { return Ok(None) };
    let contents = match hover.contents {
        HoverContents::Markup(markup) => markup.value,
        HoverContents::Scalar(marked) => marked_string(marked),
        HoverContents::Array(all) => {
            let parts: Vec<_> =
                all.into_iter().map(marked_string).filter(|part| !part.trim().is_empty()).collect();
            parts.join("\n\n")
        }
    };
    if contents.trim().is_empty() {
        return Ok(None);
    }
    let lines = Lines::new(text);
    let place = |position: Position| LspPosition {
        line: position.line,
        character: column(
            lines.line(position.line).unwrap_or_default(),
            position.character,
            encoding,
            Encoding::Utf16,
        ),
    };
    let range = hover.range.map(|range| LspRange { start: place(range.start), end: place(range.end) });
    Ok(Some(LspHover { contents, range }))
}

fn marked_string(marked: MarkedString) -> String {
    match marked {
        MarkedString::String(text) => text,
        MarkedString::LanguageString(code) => format!("```{}\n{}\n```", code.language, code.value),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn every_spelling_of_places_is_read() {
        let range = json!({ "start": { "line": 1, "character": 2 }, "end": { "line": 1, "character": 3 } });
        let location = json!({ "uri": "file:///w/a%20b.rs", "range": range });
        let link = json!({
            "targetUri": "file:///w/a%20b.rs",
            "targetRange": { "start": { "line": 0, "character": 0 }, "end": { "line": 9, "character": 0 } },
            "targetSelectionRange": range,
        });
        for answer in [location.clone(), json!([location]), json!([link])] {
            let found = locations(answer).unwrap();
            let resolved = resolve(found, Encoding::Utf16, &Texts::new());
            assert_eq!(resolved[0].path.as_deref(), Some(Path::new("/w/a b.rs")));
            assert_eq!(resolved[0].range.start, LspPosition { line: 1, character: 2 });
        }
        assert_eq!(locations(Value::Null).unwrap(), []);
        assert_eq!(locations(json!([])).unwrap(), []);
        assert!(locations(json!({ "nonsense": 1 })).is_err());
    }

    #[test]
    fn columns_behind_an_emoji_are_utf_16() {
        let range = json!({ "start": { "line": 0, "character": 4 }, "end": { "line": 0, "character": 5 } });
        let found = locations(json!([{ "uri": "file:///w/a.rs", "range": range }])).unwrap();
        let texts = Texts::from([(PathBuf::from("/w/a.rs"), "😀x".into())]);
        let resolved = resolve(found, Encoding::Utf8, &texts);
        assert_eq!(resolved[0].range.start.character, 2);
        assert_eq!(resolved[0].line_text.as_deref(), Some("😀x"));
    }

    #[test]
    fn an_address_that_is_no_file_stays_as_it_is() {
        let range = json!({ "start": { "line": 0, "character": 0 }, "end": { "line": 0, "character": 0 } });
        let found =
            locations(json!({ "uri": "jdt://contents/java.base/X.class?a=b", "range": range })).unwrap();
        let resolved = resolve(found, Encoding::Utf8, &Texts::new());
        assert_eq!(
            (resolved[0].uri.as_str(), &resolved[0].path),
            ("jdt://contents/java.base/X.class?a=b", &None)
        );
    }

    #[test]
    fn every_spelling_of_hover_is_markdown() {
        let of = |contents: Value| hover(json!({ "contents": contents }), "", Encoding::Utf16).unwrap();
        let text = |contents| of(contents).map(|hover| hover.contents);
        assert_eq!(text(json!({ "kind": "markdown", "value": "**x**" })).as_deref(), Some("**x**"));
        assert_eq!(text(json!({ "language": "c", "value": "int x" })).as_deref(), Some("```c\nint x\n```"));
        let both = json!([{ "language": "c", "value": "int x" }, "", "A number."]);
        assert_eq!(text(both).as_deref(), Some("```c\nint x\n```\n\nA number."));
        assert_eq!(text(json!("  ")), None);
        assert_eq!(hover(Value::Null, "", Encoding::Utf16), Ok(None));
    }
}
