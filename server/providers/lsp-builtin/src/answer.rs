//! One question answered by name: the name under the cursor, looked up in the index and in open documents.
//!
//! Blocks: called by `server` in a blocking task. Every loop looks at the caller's stop.

use crate::index::{Index, read};
use crate::languages::{self, Language};
use crate::syntax::{Definition, Name, Source, Span};
use lsp_types::Url;
use serde_json::{Value, json};
use std::cell::RefCell;
use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, OnceLock, PoisonError};
use tokio_util::sync::CancellationToken;
use tree_sitter::Parser;

/// Most places of one answer.
const MAX_PLACES: usize = 1000;
/// Most definitions that a hover shows.
const MAX_SHOWN: usize = 3;

thread_local! {
    static PARSER: RefCell<Parser> = RefCell::new(Parser::new());
}

/// What is asked about a name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Operation {
    /// Where it is defined.
    Definition,
    /// Where it stands.
    References,
    /// How its definitions begin, and what is written about them.
    Hover,
}

/// A document that the client has open.
pub struct Document {
    /// Its text; what is on the disk does not count.
    pub text: String,
    definitions: OnceLock<Vec<Definition>>,
}

impl Document {
    /// Of this text.
    pub fn new(text: String) -> Self {
        Self { text, definitions: OnceLock::new() }
    }
}

/// The open documents, by path.
pub type Documents = HashMap<PathBuf, Arc<Document>>;

/// A question: the place counts lines and bytes from 0.
pub struct Question {
    /// What is asked.
    pub operation: Operation,
    /// The file.
    pub path: PathBuf,
    /// Line.
    pub line: u32,
    /// Byte.
    pub column: u32,
}

/// A place in a file, with what decides its order: announcements behind definitions, near files first.
type Ranked = (bool, u8, PathBuf, Span);

/// Answers in the protocol's form, with what to know about the answer. `None` when the caller stopped.
pub fn answer(
    index: &Mutex<Index>,
    documents: &Documents,
    question: &Question,
    cancel: &CancellationToken,
) -> Option<(Value, Option<String>)> {
    let Some(language) = languages::of(&question.path) else { return Some((Value::Null, None)) };
    let place = (question.line, question.column);
    let Some(name) =
        with_source(documents, &question.path, language, cancel, |source| source.name_at(place.0, place.1))
            .flatten()
    else {
        return (!cancel.is_cancelled()).then_some((Value::Null, None));
    };
    let mut index = index.lock().unwrap_or_else(PoisonError::into_inner);
    index.refresh(cancel);
    let mut notice = index.notice().map(str::to_owned);
    let value = match question.operation {
        Operation::References => {
            let (places, is_cut) = uses(&index, documents, question, &name, cancel);
            if is_cut {
                let cut = format!("the search ended after {MAX_PLACES} uses");
                notice = Some(notice.map_or(cut.clone(), |notice| format!("{notice}; {cut}")));
            }
            locations(places)
        }
        Operation::Definition => locations(definitions(&index, documents, question, &name, cancel)),
        Operation::Hover => {
            let found = definitions(&index, documents, question, &name, cancel);
            let root = index.root().to_owned();
            hover(&found, &root, documents, &name, cancel)
        }
    };
    (!cancel.is_cancelled()).then_some((value, notice))
}

/// Reads a file, from the client when it is open there, and looks at its tree.
fn with_source<T>(
    documents: &Documents,
    path: &Path,
    language: &'static Language,
    cancel: &CancellationToken,
    look: impl FnOnce(&Source<'_>) -> T,
) -> Option<T> {
    let from_disk;
    let text = match documents.get(path) {
        Some(document) => &document.text,
        None => {
            from_disk = read(path)?;
            &from_disk
        }
    };
    PARSER.with_borrow_mut(|parser| Source::parse(parser, language, text, cancel).map(|source| look(&source)))
}

fn definitions(
    index: &Index,
    documents: &Documents,
    question: &Question,
    name: &Name,
    cancel: &CancellationToken,
) -> Vec<(PathBuf, Span)> {
    let Some(language) = languages::of(&question.path) else { return Vec::new() };
    let mut found: Vec<Ranked> = Vec::new();
    let mut take = |path: &Path, definitions: &[Definition]| {
        let named = definitions.iter().filter(|definition| *definition.name == *name.text);
        let fitting = named.filter(|definition| !(definition.is_member && name.is_plain));
        found.extend(fitting.map(|definition| {
            (definition.is_declaration, distance(&question.path, path), path.to_owned(), definition.span)
        }));
    };
    for (path, document) in documents {
        let Some(theirs) = languages::of(path).filter(|theirs| theirs.family == language.family) else {
            continue;
        };
        let definitions = document.definitions.get_or_init(|| {
            with_source(documents, path, theirs, &CancellationToken::new(), |source| source.definitions())
                .unwrap_or_default()
        });
        take(path, definitions);
    }
    for (path, entry) in index.files() {
        if entry.language.family == language.family && !documents.contains_key(path) {
            take(path, &entry.definitions);
        }
    }
    if found.is_empty() && !cancel.is_cancelled() {
        found.extend(name.first_in_function.map(|span| (false, 0, question.path.clone(), span)));
    }
    ordered(found)
}

/// Every place where the name stands, and whether there may be more.
fn uses(
    index: &Index,
    documents: &Documents,
    question: &Question,
    name: &Name,
    cancel: &CancellationToken,
) -> (Vec<(PathBuf, Span)>, bool) {
    let Some(language) = languages::of(&question.path) else { return (Vec::new(), false) };
    let finder = memchr::memmem::Finder::new(&name.text);
    let known = index.files().map(|(path, _)| path).filter(|path| !documents.contains_key(*path));
    let mut paths: Vec<(u8, &PathBuf)> =
        documents.keys().chain(known).map(|path| (distance(&question.path, path), path)).collect();
    paths.sort_unstable();
    let mut found = Vec::new();
    for (_, path) in paths {
        if cancel.is_cancelled() {
            return (Vec::new(), false);
        }
        let Some(theirs) = languages::of(path).filter(|theirs| theirs.family == language.family) else {
            continue;
        };
        let from_disk;
        let text = match documents.get(path) {
            Some(document) => &document.text,
            None => {
                let Some(text) = read(path) else { continue };
                from_disk = text;
                &from_disk
            }
        };
        if finder.find(text.as_bytes()).is_none() {
            continue;
        }
        let spans = PARSER.with_borrow_mut(|parser| {
            Source::parse(parser, theirs, text, cancel).map(|source| source.uses(&name.text))
        });
        found.extend(spans.unwrap_or_default().into_iter().map(|span| (path.clone(), span)));
        if found.len() > MAX_PLACES {
            found.truncate(MAX_PLACES);
            return (found, true);
        }
    }
    (found, false)
}

/// How far a file is from that of the question: the same, in the same folder, elsewhere.
fn distance(from: &Path, to: &Path) -> u8 {
    if from == to {
        0
    } else if from.parent() == to.parent() {
        1
    } else {
        2
    }
}

fn ordered(mut found: Vec<Ranked>) -> Vec<(PathBuf, Span)> {
    found.sort_unstable();
    found.dedup();
    found.truncate(MAX_PLACES);
    found.into_iter().map(|(_, _, path, span)| (path, span)).collect()
}

fn hover(
    found: &[(PathBuf, Span)],
    root: &Path,
    documents: &Documents,
    name: &Name,
    cancel: &CancellationToken,
) -> Value {
    let about = |(path, span): &(PathBuf, Span)| {
        let language = languages::of(path)?;
        let (signature, text) =
            with_source(documents, path, language, cancel, |source| source.about(*span))??;
        let place = path.strip_prefix(root).unwrap_or(path).display().to_string();
        let fence = format!("```{}\n{signature}\n```\n{place}:{}", language.name, span.line + 1);
        Some(if text.is_empty() { fence } else { format!("{fence}\n\n{text}") })
    };
    let mut parts: Vec<String> = found.iter().take(MAX_SHOWN).filter_map(about).collect();
    if parts.is_empty() {
        return Value::Null;
    }
    if found.len() > MAX_SHOWN {
        parts.push(format!("… {} more definitions of this name", found.len() - MAX_SHOWN));
    }
    let contents = json!({ "kind": "markdown", "value": parts.join("\n\n---\n\n") });
    json!({ "contents": contents, "range": range(name.span) })
}

fn locations(places: Vec<(PathBuf, Span)>) -> Value {
    let location = |(path, span): (PathBuf, Span)| {
        let uri = Url::from_file_path(path).ok()?;
        Some(json!({ "uri": uri, "range": range(span) }))
    };
    places.into_iter().filter_map(location).collect()
}

fn range(span: Span) -> Value {
    json!({
        "start": { "line": span.line, "character": span.start },
        "end": { "line": span.line, "character": span.end },
    })
}
