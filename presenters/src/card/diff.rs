//! The diff card: changes to files, each side whole up to a bound.

use super::generic::{raw_text, result_text};
use super::{Completed, text_item};
use crate::call::location;
use crate::result::WholeText;
use crate::text::inline_code;
use crate::{PresentContext, path};
use agent_client_protocol::v1::schema::{Diff, ToolCallContent};
use protocol::card::{DiffResult, FileDiff, FileLocation};
use protocol::tool::DurableResult;

/// Largest side of a diff that is sent, in bytes. Source: product decisions, "The editor", diffs.
pub(crate) const MAX_SIDE: usize = 1024 * 1024;

/// Changes as items of a call. One whose side is over the bound is named with its sizes instead.
pub(crate) fn content(ctx: &PresentContext, diffs: &[FileDiff]) -> Vec<ToolCallContent> {
    diffs.iter().map(|diff| item(ctx, diff)).collect()
}

fn item(ctx: &PresentContext, diff: &FileDiff) -> ToolCallContent {
    let old = diff.old_text.as_deref();
    if !fits(old, &diff.new_text) {
        let shown = inline_code(&path::shown(ctx, &diff.path));
        let before = old.map_or(0, str::len);
        return text_item(format!(
            "{shown}: too large to show as a diff ({before} bytes before, {} after)",
            diff.new_text.len()
        ));
    }
    let absolute = path::absolute(&ctx.cwd, &diff.path);
    ToolCallContent::Diff(Diff::new(absolute, diff.new_text.as_str()).old_text(diff.old_text.clone()))
}

/// Whether both sides may be sent.
pub(crate) fn fits(old: Option<&str>, new: &str) -> bool {
    old.map_or(0, str::len) <= MAX_SIDE && new.len() <= MAX_SIDE
}

/// The changes as they were made: whole texts when the server has them and they fit, else the hunks.
///
/// With whole texts the first changed line is known, and the place of the call is refined to it.
pub(crate) fn completed(
    ctx: &PresentContext,
    card: &DiffResult,
    result: &DurableResult,
    whole: Option<&WholeText>,
) -> Completed {
    let raw_output = Some(raw_text(&result_text(result)));
    let whole = whole.zip(card.whole.as_ref()).filter(|(text, _)| fits(text.before.as_deref(), &text.after));
    if let Some((text, file)) = whole {
        let diff =
            FileDiff { path: file.path.clone(), old_text: text.before.clone(), new_text: text.after.clone() };
        let line = first_changed_line(text.before.as_deref().unwrap_or_default(), &text.after);
        return Completed {
            content: Some(content(ctx, &[diff])),
            locations: Some(vec![location(ctx, &FileLocation::new(&file.path, Some(line)))]),
            raw_output,
            meta: None,
        };
    }
    let content = content(ctx, &card.diffs);
    Completed { content: (!content.is_empty()).then_some(content), raw_output, ..Completed::default() }
}

/// The first line, from 1, at which the texts differ; within the text after, so that there is a line to go to.
fn first_changed_line(before: &str, after: &str) -> u64 {
    let same = before.lines().zip(after.lines()).take_while(|(old, new)| old == new).count();
    let last = after.lines().count().max(1);
    (same + 1).min(last) as u64
}

#[cfg(test)]
mod tests {
    use super::first_changed_line;

    #[test]
    fn the_first_changed_line_is_one_of_the_text_after() {
        for (before, after, expected) in [
            ("", "a\nb\n", 1),
            ("a\nb\n", "a\nc\n", 2),
            ("a\nb\n", "a\n", 1),
            ("a\n", "", 1),
            ("a\n", "a\n", 1),
            ("a\n", "a\nb\n", 2),
        ] {
            assert_eq!(first_changed_line(before, after), expected, "{before:?} → {after:?}");
        }
    }
}
