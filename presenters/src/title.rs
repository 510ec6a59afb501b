//! Titles of calls: complete on their own, one plain line, at most 60 characters.
//!
//! Source: product decisions, "The editor", titles; `clients.md` §2 (Markdown titles) and §4 rule 2.

use crate::text::{cut, escape_markdown, inline_code, one_line};
use crate::{PresentContext, path};
use agent_client_protocol::v1::schema::ToolKind;

/// Longest title shown, in characters.
pub(crate) const MAX_CHARACTERS: usize = 60;

/// What a title is made from.
pub(crate) struct Title<'a> {
    /// The words of the card.
    pub text: &'a str,
    /// Kind of the call: decides whether the client reads Markdown, and whether paths may be shortened.
    pub kind: ToolKind,
    /// Path the call is about, as the model gave it.
    pub path: Option<&'a str>,
    /// Salient input that may stand in the title: a pattern, a query, an address.
    pub input: Option<&'a str>,
}

/// A stretch of a title; `code` stretches are set in backticks where the client reads Markdown.
struct Stretch {
    text: String,
    code: bool,
}

impl Title<'_> {
    /// The title as the client is given it.
    pub fn present(&self, ctx: &PresentContext) -> String {
        self.bounded(ctx, MAX_CHARACTERS)
    }

    /// The same with another bound, in characters.
    pub fn bounded(&self, ctx: &PresentContext, max: usize) -> String {
        let mut line = one_line(self.text);
        // A command is shown as it will run, never rewritten.
        if self.kind != ToolKind::Execute {
            line = path::shorten_in(ctx, &line);
        }
        let shown_path = self.path.map(|path| one_line(&path::shown(ctx, path)));
        if let (Some(given), Some(shown)) = (self.path, &shown_path)
            && std::path::Path::new(given).is_absolute()
            && self.kind != ToolKind::Execute
        {
            line = line.replace(given, shown);
        }
        if let Some(shown) = &shown_path {
            line = shorten_path(line, shown, max);
        }
        let kind_is_plain = matches!(self.kind, ToolKind::Edit | ToolKind::Execute);
        if !ctx.quirks.markdown_titles || kind_is_plain {
            return cut(&line, max);
        }
        let line = cut(&line, max);
        let tail = shown_path.as_deref().map(|path| path.rsplit('/').next().unwrap_or(path));
        let input = self.input.map(one_line);
        let codes = [shown_path.as_deref(), tail, input.as_deref()];
        stretches(&line, &codes).iter().map(Stretch::markdown).collect()
    }
}

impl Stretch {
    fn markdown(&self) -> String {
        if self.code { inline_code(&self.text) } else { escape_markdown(&self.text) }
    }
}

/// Leaves out leading folders of a path until the line fits, so that the name of the file stays readable.
fn shorten_path(line: String, path: &str, max: usize) -> String {
    let excess = line.chars().count().saturating_sub(max);
    if excess == 0 || !line.contains(path) {
        return line;
    }
    let names: Vec<&str> = path.split('/').collect();
    let shorter = (1..names.len())
        .map(|from| format!("…/{}", names[from..].join("/")))
        .find(|shorter| path.chars().count() >= shorter.chars().count() + excess);
    match shorter.or_else(|| names.last().filter(|_| names.len() > 1).map(|name| format!("…/{name}"))) {
        Some(shorter) => line.replacen(path, &shorter, 1),
        None => line,
    }
}

/// Splits a line at the first of `codes` found in it; a whole line of prose is never code.
fn stretches(line: &str, codes: &[Option<&str>]) -> Vec<Stretch> {
    for code in codes.iter().flatten().filter(|code| !code.is_empty()) {
        if line == *code && line.contains(' ') {
            continue;
        }
        let begins = |at: &usize| line[..*at].chars().next_back().is_none_or(|c| c == ' ' || c == '/');
        if let Some(at) = line.match_indices(*code).map(|(at, _)| at).find(begins) {
            // A shortened path begins before the name that was found.
            let from = line[..at].rfind(' ').map_or(0, |space| space + 1);
            let from = if line[from..at].starts_with('…') { from } else { at };
            let to = at + code.len();
            let parts = [(&line[..from], false), (&line[from..to], true), (&line[to..], false)];
            let parts = parts.into_iter().filter(|(text, _)| !text.is_empty());
            return parts.map(|(text, code)| Stretch { text: text.to_owned(), code }).collect();
        }
    }
    vec![Stretch { text: line.to_owned(), code: false }]
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Quirks;

    fn check(text: &str, kind: ToolKind, path: Option<&str>, input: Option<&str>, plain: &str, zed: &str) {
        let cwd = "/w/app".into();
        let ctx = PresentContext { cwd, ..PresentContext::default() };
        let quirks = Quirks { markdown_titles: true, ..Quirks::default() };
        let title = Title { text, kind, path, input };
        assert_eq!(title.present(&ctx), plain);
        assert_eq!(title.present(&PresentContext { quirks, ..ctx }), zed);
    }

    #[test]
    fn titles_are_short_plain_lines_and_markdown_for_the_one_client_that_wants_it() {
        use ToolKind::{Edit, Execute, Fetch, Read, Search};
        let p = Some;
        check(
            "Read /w/app/a.ts (5 - 8)",
            Read,
            p("/w/app/a.ts"),
            None,
            "Read a.ts (5 - 8)",
            "Read `a.ts` (5 - 8)",
        );
        check("Read /etc/hosts", Read, p("/etc/hosts"), None, "Read /etc/hosts", "Read `/etc/hosts`");
        check(
            "Read /w/app/..cache/x",
            Read,
            p("/w/app/..cache/x"),
            None,
            "Read ..cache/x",
            "Read `..cache/x`",
        );
        check("Read __init__.py", Read, p("__init__.py"), None, "Read __init__.py", "Read `__init__.py`");
        check("Edit a_/__b__.py", Edit, p("a_/__b__.py"), None, "Edit a_/__b__.py", "Edit a_/__b__.py");
        check(
            "Glob **/*.rs in src",
            Search,
            None,
            p("**/*.rs"),
            "Glob **/*.rs in src",
            "Glob `**/*.rs` in src",
        );
        check("Grep a (*.rs)", Search, None, p("a"), "Grep a (*.rs)", "Grep `a` (\\*.rs)");
        check("what is *this*", Search, None, p("what is *this*"), "what is *this*", "what is \\*this\\*");
        check("https://x.y/a_b", Fetch, None, p("https://x.y/a_b"), "https://x.y/a_b", "`https://x.y/a_b`");
        check("cat /w/app/a\nls", Execute, None, None, "cat /w/app/a …", "cat /w/app/a …");
    }

    #[test]
    fn a_long_path_loses_its_folders_before_its_name() {
        let path = format!("/w/app/{}/deep/file_name.rs", ["folder"; 12].join("/"));
        let text = format!("Read {path} (10 - 20)");
        let plain = "Read …/folder/folder/folder/deep/file_name.rs (10 - 20)";
        let zed = "Read `…/folder/folder/folder/deep/file_name.rs` (10 - 20)";
        check(&text, ToolKind::Read, Some(&path), None, plain, zed);
    }

    #[test]
    fn what_is_still_too_long_is_cut_at_the_end() {
        let text = "x".repeat(80);
        let expected = format!("{}…", "x".repeat(59));
        check(&text, ToolKind::Execute, None, None, &expected, &expected);
    }
}
