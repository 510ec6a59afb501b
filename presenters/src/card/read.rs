//! The read card: the window of a file as highlighted code.
//!
//! The fence holds the file's own text without line numbers, so that editors highlight it and it can be copied; the
//! line above tells where it is from and links there.

use super::{Completed, text_item};
use crate::text::{cut_bytes, fence, link};
use crate::{PresentContext, path};
use protocol::card::ReadResult;
use serde_json::json;

/// Most lines shown; the model may have read more.
const MAX_LINES: usize = 500;
/// Most bytes of them.
const MAX_BYTES: usize = 64 * 1024;

/// What was read.
pub(crate) fn completed(ctx: &PresentContext, card: &ReadResult) -> Completed {
    let raw_output = json!({
        "path": card.path,
        "offset": card.offset,
        "lines": card.lines.len(),
        "totalLines": card.total_lines,
    });
    Completed {
        content: Some(vec![text_item(body(ctx, card))]),
        raw_output: Some(raw_output),
        ..Completed::default()
    }
}

fn body(ctx: &PresentContext, card: &ReadResult) -> String {
    let (Some(first), Some(last)) = (card.lines.first(), card.lines.last()) else {
        return if card.total_lines == 0 {
            "The file is empty.".to_owned()
        } else {
            format!("Nothing at line {}: the file has {} lines.", card.offset, card.total_lines)
        };
    };
    let mut text = String::new();
    let mut n_shown = 0;
    let mut before = first.number.saturating_sub(1);
    for line in card.lines.iter().take(MAX_LINES) {
        if text.len() + line.text.len() > MAX_BYTES && n_shown > 0 {
            break;
        }
        if line.number != before + 1 {
            text.push_str("⋯\n");
        }
        text.push_str(cut_bytes(&line.text, MAX_BYTES));
        text.push('\n');
        before = line.number;
        n_shown += 1;
    }
    let lang = card.lang.as_deref().unwrap_or_default();
    let code = fence(lang, &text);
    let left_out = card.lines.len() - n_shown;
    let whole = first.number == 1 && last.number == card.total_lines;
    let mut parts = Vec::new();
    if !whole || left_out > 0 {
        let address = path::file_uri(&path::absolute(&ctx.cwd, &card.path), Some(first.number));
        let label = format!("{}:{}", path::shown(ctx, &card.path), first.number);
        let range = format!("lines {} to {} of {}", first.number, last.number, card.total_lines);
        parts.push(format!("{}, {range}", link(&label, &address)));
    }
    parts.push(code);
    if left_out > 0 {
        parts.push(format!("The model read {left_out} more lines, not shown here."));
    }
    parts.join("\n\n")
}
