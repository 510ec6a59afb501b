//! A diff as hunks of numbered, coloured lines.

use super::page::{Ink, Spans, span};
use super::text::plain;
use similar::{ChangeTag, TextDiff};
use std::time::Duration;

/// Unchanged lines shown around a change.
const CONTEXT: usize = 3;
/// Time after which the comparison settles for a coarser result.
const BUDGET: Duration = Duration::from_millis(500);

/// The hunks between two texts; `None` as the old one means a new file.
pub fn lines(old: Option<&str>, new: &str) -> Vec<Spans> {
    let diff = TextDiff::configure().timeout(BUDGET).diff_lines(old.unwrap_or_default(), new);
    let mut lines = Vec::new();
    for hunk in diff.unified_diff().context_radius(CONTEXT).iter_hunks() {
        lines.push(span(Ink::Cyan, hunk.header().to_string()));
        for change in hunk.iter_changes() {
            let (mark, ink) = match change.tag() {
                ChangeTag::Equal => (' ', Ink::Dim),
                ChangeTag::Delete => ('-', Ink::Red),
                ChangeTag::Insert => ('+', Ink::Green),
            };
            let text = plain(change.value().trim_end_matches(['\n', '\r']));
            lines.push(span(ink, format!("{mark}{text}")));
            if change.missing_newline() {
                lines.push(span(Ink::Dim, "\\ no newline at the end"));
            }
        }
    }
    lines
}

/// The removed and added lines alone: equal for a fragment and for the whole file it was cut from.
pub fn changes(old: Option<&str>, new: &str) -> Vec<String> {
    let diff = TextDiff::configure().timeout(BUDGET).diff_lines(old.unwrap_or_default(), new);
    (diff.iter_all_changes())
        .filter(|change| change.tag() != ChangeTag::Equal)
        .map(|change| format!("{}{}", change.tag(), change.value().trim_end_matches(['\n', '\r'])))
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn text(old: Option<&str>, new: &str) -> String {
        let lines = lines(old, new);
        lines.iter().flatten().map(|(_, text)| text.as_str()).collect::<Vec<_>>().join("\n")
    }

    #[test]
    fn a_hunk_names_old_and_new_lines() {
        let old = "1\n2\n3\n4\n5\n6\n7\n8\n9\n";
        let new = "1\n2\n3\n4\n5\nsix\n7\n8\n9\n";
        assert_eq!(text(Some(old), new), "@@ -3,7 +3,7 @@\n 3\n 4\n 5\n-6\n+six\n 7\n 8\n 9");
    }

    #[test]
    fn a_new_file_is_all_added() {
        assert_eq!(text(None, "a\nb"), "@@ -0,0 +1,2 @@\n+a\n+b\n\\ no newline at the end");
    }

    #[test]
    fn a_fragment_changes_the_same_lines_as_its_file() {
        assert_eq!(changes(Some("b"), "c"), changes(Some("a\nb\nd\n"), "a\nc\nd\n"));
    }
}
