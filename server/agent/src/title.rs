//! The title made from the first prompt. Source: `spec/runtime.md` §10.

/// First five words, at most 40 bytes at a character boundary; `None` for a prompt without text.
pub(crate) fn fallback_title(prompt: &str) -> Option<String> {
    const MAX_BYTES: usize = 40;
    let words: Vec<&str> = prompt.split_whitespace().take(5).collect();
    let mut title = words.join(" ");
    if title.len() > MAX_BYTES {
        let cut = (0..=MAX_BYTES - '…'.len_utf8()).rev().find(|&at| title.is_char_boundary(at)).unwrap_or(0);
        title.truncate(cut);
        title.truncate(title.trim_end().len());
        title.push('…');
    }
    (!title.is_empty()).then_some(title)
}

#[cfg(test)]
mod tests {
    use super::fallback_title;

    #[test]
    fn a_title_is_five_words_of_the_prompt_at_most_forty_bytes() {
        let cases = [
            ("fix the bug", Some("fix the bug")),
            ("  one two\nthree four five six", Some("one two three four five")),
            ("", None),
            ("   \n", None),
            (
                "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa",
                Some("aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa…"),
            ),
            ("ééééééééééééééééééééééééé", Some("éééééééééééééééééé…")),
        ];
        for (prompt, expected) in cases {
            assert_eq!(fallback_title(prompt).as_deref(), expected);
        }
    }
}
