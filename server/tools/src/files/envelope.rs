//! The tagged frame around what file tools answer.

const HEAD: &str = "<path>";
const TAIL: &str = "\n</content>";

/// Frames a body.
pub fn wrap(path: &str, kind: &str, body: &str) -> String {
    format!("{HEAD}{path}</path>\n<type>{kind}</type>\n<content>\n{body}{TAIL}")
}

/// The body inside a frame of exactly this path and kind; `None` for any other text.
pub fn unwrap<'a>(text: &'a str, path: &str, kind: &str) -> Option<&'a str> {
    text.strip_prefix(HEAD)?
        .strip_prefix(path)?
        .strip_prefix("</path>\n<type>")?
        .strip_prefix(kind)?
        .strip_prefix("</type>\n<content>\n")?
        .strip_suffix(TAIL)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_wrapped_is_unwrapped() {
        let text = wrap("/w/a</path>", "file", "1: </content>\n\n(x)");
        assert_eq!(unwrap(&text, "/w/a</path>", "file"), Some("1: </content>\n\n(x)"));
        assert_eq!(unwrap(&text, "/w/b", "file"), None);
        assert_eq!(unwrap(&text, "/w/a</path>", "image"), None);
        assert_eq!(unwrap("Error: no", "/w/a", "file"), None);
    }
}
