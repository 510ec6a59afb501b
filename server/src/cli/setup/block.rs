//! Lines of ours in a program of the user's, between two marks: put in, or taken out. Pure; what is outside the marks keeps
//! its bytes.

const BEGIN: &str =
    "followspot: begin (written by `followspot setup`, which replaces what is between the marks)";
const END: &str = "followspot: end";

/// `text` with `body` between the marks: in their place where they are, otherwise at the end.
///
/// # Errors
/// Only one of the marks is there.
pub(super) fn put(text: &str, comment: &str, body: &str) -> Result<String, String> {
    let line_end = line_end(text);
    let block = format!("{comment} {BEGIN}\n{body}{comment} {END}\n").replace('\n', line_end);
    Ok(match find(text, comment)? {
        Some((start, end)) => format!("{}{block}{}", &text[..start], &text[end..]),
        None if text.is_empty() => block,
        None => {
            let gap = if text.ends_with('\n') { line_end.to_owned() } else { line_end.repeat(2) };
            format!("{text}{gap}{block}")
        }
    })
}

/// `text` without the marks and what is between them.
///
/// # Errors
/// Only one of the marks is there.
pub(super) fn take(text: &str, comment: &str) -> Result<String, String> {
    let Some((start, end)) = find(text, comment)? else { return Ok(text.to_owned()) };
    let (before, after) = (&text[..start], &text[end..]);
    // At the end, a blank line stands before the block: `put` made it.
    let before = match before.strip_suffix(line_end(text)) {
        Some(shorter) if after.is_empty() => shorter,
        _ => before,
    };
    Ok(format!("{before}{after}"))
}

fn line_end(text: &str) -> &'static str {
    if text.contains("\r\n") { "\r\n" } else { "\n" }
}

/// From the start of the line of the first mark to behind the line of the second.
fn find(text: &str, comment: &str) -> Result<Option<(usize, usize)>, String> {
    let line = |mark: &str| text.find(&format!("{comment} {mark}"));
    match (line("followspot: begin"), line(END)) {
        (None, None) => Ok(None),
        (Some(start), Some(end)) if start < end => {
            let end = text[end..].find('\n').map_or(text.len(), |length| end + length + 1);
            Ok(Some((start, end)))
        }
        _ => Err(format!(
            "only one of the marks \"{comment} followspot: begin\" and \"{comment} {END}\" is there"
        )),
    }
}
