//! Bytes of a page to text, by the encoding it declares.

use encoding_rs::{Encoding, REPLACEMENT, UTF_8, UTF_16BE, UTF_16LE, WINDOWS_1252};

/// How far into a page its own declaration may stand. Source: the HTML standard, "prescan a byte stream".
const PRESCAN_BYTES: usize = 1024;

/// The text of `body`. A byte-order mark wins over `declared`, the charset of the header; without both an HTML page is
/// asked itself; without any word it is UTF-8, or Windows-1252 when it cannot be that. Faults become U+FFFD.
///
/// # Errors
/// The declared encoding, when there is none of that name.
pub(crate) fn decode(body: &[u8], declared: Option<&str>, is_html: bool) -> Result<String, String> {
    let encoding = match declared.map(|label| label.trim().trim_matches(['"', '\''])) {
        Some(label) => Some(known(label).ok_or_else(|| label.to_owned())?),
        None if is_html => own_word(body),
        None => None,
    };
    let encoding = encoding.unwrap_or_else(|| if may_be_utf8(body) { UTF_8 } else { WINDOWS_1252 });
    Ok(encoding.decode(body).0.into_owned())
}

fn known(label: &str) -> Option<&'static Encoding> {
    // "Replacement" is the standard's way to say that a label must not be decoded.
    Encoding::for_label(label.as_bytes()).filter(|encoding| *encoding != REPLACEMENT)
}

/// The charset in a page's `meta` element.
fn own_word(body: &[u8]) -> Option<&'static Encoding> {
    let head = String::from_utf8_lossy(&body[..body.len().min(PRESCAN_BYTES)]).to_ascii_lowercase();
    let (_, after) = head.split_once("charset")?;
    let after = after.trim_start().strip_prefix('=')?.trim_start().trim_start_matches(['"', '\'']);
    let label = after.split(|c: char| c.is_whitespace() || "\"'>;/".contains(c)).next()?;
    let encoding = known(label)?;
    // A page whose declaration could be read as ASCII is not UTF-16, whatever it says.
    Some(if encoding == UTF_16LE || encoding == UTF_16BE { UTF_8 } else { encoding })
}

/// Whether this is UTF-8; the end may be cut inside a character if others before it are whole.
fn may_be_utf8(body: &[u8]) -> bool {
    match std::str::from_utf8(body) {
        Ok(_) => true,
        Err(error) => error.error_len().is_none() && !body[..error.valid_up_to()].is_ascii(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_declared_encoding_is_honoured() {
        let cases: &[(&[u8], Option<&str>, bool, &str)] = &[
            (b"caf\xc3\xa9", None, false, "caf\u{e9}"),
            (b"caf\xe9", None, false, "caf\u{e9}"),
            (b"caf\xe9", Some("iso-8859-1"), false, "caf\u{e9}"),
            (b"caf\xe9", Some("\"ISO-8859-1\""), false, "caf\u{e9}"),
            (b"\x82\xa0", Some("Shift_JIS"), false, "\u{3042}"),
            (b"\xff\xfea\0", Some("utf-8"), false, "a"),
            (b"\xef\xbb\xbfa", None, false, "a"),
            (b"a\xe9b", Some("utf-8"), false, "a\u{fffd}b"),
            (b"<meta charset=\"windows-1251\">\xcf", None, true, "<meta charset=\"windows-1251\">\u{41f}"),
            (b"<meta charset=windows-1251>\xcf", Some("latin1"), true, "<meta charset=windows-1251>\u{cf}"),
            (b"charset=windows-1251 \xcf", None, false, "charset=windows-1251 \u{cf}"),
            (b"<meta charset=utf-16>a", None, true, "<meta charset=utf-16>a"),
            (b"<meta charset=nonsense>a", None, true, "<meta charset=nonsense>a"),
            (b"\xc3\xa9 cut \xe2\x82", None, false, "\u{e9} cut \u{fffd}"),
        ];
        for (body, declared, is_html, expected) in cases {
            assert_eq!(decode(body, *declared, *is_html).as_deref(), Ok(*expected), "{declared:?} {body:?}");
        }
    }

    #[test]
    fn an_unknown_encoding_is_named() {
        assert_eq!(decode(b"a", Some("klingon"), true), Err("klingon".to_owned()));
        assert_eq!(decode(b"a", Some("iso-2022-kr"), true), Err("iso-2022-kr".to_owned()));
    }
}
