//! Walks one TOML file: hands out values by key, and notes each key that is wrong, unknown, or not the file's to set.
//!
//! Not serde: that stops at the first error, and every one is wanted, with its line.

use super::Problem;
use super::values::{Parsed, nearest};
use std::path::Path;
use toml::Spanned;
use toml::de::{DeTable, DeValue};

/// Who wrote a file, and so what it may set.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Layer {
    /// The user.
    User,
    /// A workspace the user trusts.
    Trusted,
    /// Any workspace.
    Untrusted,
}

/// What it takes to set a key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Need {
    /// Nothing: it can do no harm.
    Nothing,
    /// The user, or a workspace the user trusts.
    Trust,
    /// The user.
    User,
}

/// A file being read.
pub(super) struct Document<'a> {
    file: &'a Path,
    text: &'a str,
    layer: Layer,
    /// Keys that are wrong.
    pub problems: Vec<Problem>,
    /// Keys that are not this file's to set.
    pub ignored: Vec<Problem>,
}

impl<'a> Document<'a> {
    pub fn new(file: &'a Path, text: &'a str, layer: Layer) -> Self {
        Self { file, text, layer, problems: Vec::new(), ignored: Vec::new() }
    }

    /// Parses the text and reads its top level. A text that is no TOML is only told what is wrong with it.
    pub fn read(&mut self, read: impl FnOnce(&mut Section<'_, 'a>)) {
        let (table, errors) = DeTable::parse_recoverable(self.text);
        for error in &errors {
            let at = error.span().map_or(0, |span| span.start);
            let problem = self.problem(Some(at), String::new(), error.message().to_owned());
            self.problems.push(problem);
        }
        if errors.is_empty() {
            self.walk(String::new(), table.get_ref(), read);
            self.problems.sort_by_key(|problem| problem.line);
            self.ignored.sort_by_key(|problem| problem.line);
        }
    }

    fn walk(&mut self, path: String, table: &DeTable<'a>, read: impl FnOnce(&mut Section<'_, 'a>)) {
        let mut section = Section { document: self, path, table, known: Vec::new(), is_refused: false };
        read(&mut section);
        section.finish();
    }

    fn problem(&self, at: Option<usize>, key: String, message: String) -> Problem {
        let line = at.map(|at| self.text.as_bytes().iter().take(at).filter(|b| **b == b'\n').count() + 1);
        Problem { file: Some(self.file.to_owned()), line, key, message }
    }

    fn allows(&self, need: Need) -> bool {
        match need {
            Need::Nothing => true,
            Need::Trust => self.layer != Layer::Untrusted,
            Need::User => self.layer == Layer::User,
        }
    }
}

/// A table being read. Keys that nobody asked for are unknown.
pub(super) struct Section<'d, 'a> {
    document: &'d mut Document<'a>,
    path: String,
    table: &'d DeTable<'a>,
    known: Vec<&'static str>,
    is_refused: bool,
}

impl<'d, 'a> Section<'d, 'a> {
    /// The value of `key`, if it is there, this file may set it, and it is right.
    pub fn value<T>(
        &mut self,
        key: &'static str,
        need: Need,
        parse: impl FnOnce(&DeValue<'a>) -> Parsed<T>,
    ) -> Option<T> {
        let found = self.find(key)?;
        if !self.document.allows(need) {
            self.ignore(key, need);
            return None;
        }
        match parse(found.get_ref()) {
            Ok(value) => Some(value),
            Err(message) => {
                self.wrong(key, message);
                None
            }
        }
    }

    /// Reads the table `key`, if it is there.
    pub fn section(&mut self, key: &'static str, need: Need, read: impl FnOnce(&mut Section<'_, 'a>)) {
        let Some(found) = self.find(key) else { return };
        if !self.document.allows(need) {
            return self.ignore(key, need);
        }
        match found.get_ref().as_table() {
            Some(table) => self.document.walk(joined(&self.path, key), table, read),
            None => self.wrong(key, "must be a table".to_owned()),
        }
    }

    /// Reads each table in the table `key`; their names are the user's choice.
    pub fn named_sections(
        &mut self,
        key: &'static str,
        need: Need,
        mut read: impl FnMut(&str, &mut Section<'_, 'a>),
    ) {
        self.section(key, Need::Nothing, |section| section.other_sections(need, &mut read));
    }

    /// Reads each table under a key that was not asked for so far. What is no table stays unknown.
    pub fn other_sections(&mut self, need: Need, mut read: impl FnMut(&str, &mut Section<'_, 'a>)) {
        let (table, asked) = (self.table, self.known.len());
        self.known.push(NAMED);
        for (key, value) in table.iter() {
            let name = key.get_ref().as_ref();
            let Some(inner) = value.get_ref().as_table() else { continue };
            if self.known[..asked].contains(&name) {
                continue;
            }
            if !self.document.allows(need) {
                self.ignore(name, need);
            } else if !is_name(name) {
                self.wrong(name, "a name is 1 to 32 letters, digits, - and _".to_owned());
            } else {
                self.document.walk(joined(&self.path, name), inner, |section| read(name, section));
            }
        }
    }

    /// Whether `key` is there, right or wrong.
    pub fn has(&self, key: &str) -> bool {
        self.entry(key).is_some()
    }

    /// Whether this file may make the agent's reach wider.
    pub fn may_widen(&self) -> bool {
        self.document.allows(Need::Trust)
    }

    /// Notes that `key` was not taken.
    pub fn ignore(&mut self, key: &str, need: Need) {
        let message = match need {
            Need::User => "only the user's own configuration can set this; ignored",
            _ => "ignored, since this folder is not among your trusted_folders",
        };
        let problem = self.note(key, message.to_owned());
        self.document.ignored.push(problem);
    }

    /// Notes that `key` is wrong; the empty key is the table itself.
    pub fn wrong(&mut self, key: &str, message: String) {
        let problem = self.note(key, message);
        self.document.problems.push(problem);
    }

    /// Notes that the whole table should not be; its keys are not looked at.
    pub fn refuse(&mut self, message: String) {
        self.is_refused = true;
        self.wrong("", message);
    }

    fn note(&self, key: &str, message: String) -> Problem {
        let at = self.entry(key).map(|(key, _)| key.span().start);
        let at = at.or_else(|| self.table.iter().map(|(key, _)| key.span().start).min());
        self.document.problem(at, joined(&self.path, key), message)
    }

    fn entry(&self, key: &str) -> Option<(&'d Spanned<std::borrow::Cow<'a, str>>, &'d Spanned<DeValue<'a>>)> {
        self.table.iter().find(|(name, _)| name.get_ref() == key)
    }

    fn find(&mut self, key: &'static str) -> Option<&'d Spanned<DeValue<'a>>> {
        self.known.push(key);
        self.entry(key).map(|(_, value)| value)
    }

    fn finish(mut self) {
        if self.is_refused {
            return;
        }
        let table = self.table;
        for (key, value) in table.iter() {
            let name = key.get_ref().as_ref();
            let is_read = self.known.contains(&name)
                || (self.known.contains(&NAMED) && value.get_ref().as_table().is_some());
            if is_read {
                continue;
            }
            let names = self.known.iter().copied().filter(|known| *known != NAMED);
            let message = match nearest(name, names.clone()) {
                Some(known) => format!("unknown key; did you mean {known:?}?"),
                None if names.clone().next().is_some() => {
                    format!("unknown key; known here: {}", names.collect::<Vec<_>>().join(", "))
                }
                None => "must be a table".to_owned(),
            };
            self.wrong(name, message);
        }
    }
}

/// Stands in [`Section::known`] for tables with names of the user's choice.
const NAMED: &str = "[NAME]";

fn joined(path: &str, key: &str) -> String {
    match (path, key) {
        ("", key) => key.to_owned(),
        (path, "") => path.to_owned(),
        (path, key) => format!("{path}.{key}"),
    }
}

fn is_name(name: &str) -> bool {
    (1..=32).contains(&name.len()) && name.bytes().all(|b| b.is_ascii_alphanumeric() || b"-_".contains(&b))
}
