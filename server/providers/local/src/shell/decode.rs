//! Bytes that arrive in pieces to text, without cutting characters.

/// Decodes UTF-8 piece by piece; what is no UTF-8 becomes U+FFFD.
#[derive(Debug, Default)]
pub struct Utf8Decoder {
    /// The beginning of a character whose rest has not come yet; at most 3 bytes.
    pending: Vec<u8>,
}

impl Utf8Decoder {
    /// Appends the text of the next bytes to `text`; a character cut at their end waits for its rest.
    pub fn push(&mut self, bytes: &[u8], text: &mut String) {
        if self.pending.is_empty() {
            let rest = append(bytes, text);
            self.pending.extend_from_slice(rest);
            return;
        }
        let mut joined = std::mem::take(&mut self.pending);
        joined.extend_from_slice(bytes);
        let rest = append(&joined, text);
        self.pending.extend_from_slice(rest);
    }

    /// Ends the stream: an unfinished character becomes U+FFFD.
    pub fn finish(&mut self, text: &mut String) {
        if !std::mem::take(&mut self.pending).is_empty() {
            text.push(char::REPLACEMENT_CHARACTER);
        }
    }
}

/// Appends what can be decided and returns the unfinished character at the end.
fn append<'a>(bytes: &'a [u8], text: &mut String) -> &'a [u8] {
    let n_unfinished = unfinished_tail(bytes);
    let (whole, rest) = bytes.split_at(bytes.len() - n_unfinished);
    text.push_str(&String::from_utf8_lossy(whole));
    rest
}

/// Length of the beginning of a character at the end of `bytes`: 0 to 3.
pub(super) fn unfinished_tail(bytes: &[u8]) -> usize {
    for n_back in 1..=bytes.len().min(3) {
        let byte = bytes[bytes.len() - n_back];
        if byte & 0b1100_0000 == 0b1000_0000 {
            continue;
        }
        let tail = &bytes[bytes.len() - n_back..];
        return match std::str::from_utf8(tail) {
            Err(error) if error.error_len().is_none() => n_back,
            _ => 0,
        };
    }
    0
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn the_text_does_not_depend_on_the_pieces(bytes in prop::collection::vec(any::<u8>(), 0..60), size in 1usize..7) {
            let mut decoder = Utf8Decoder::default();
            let mut text = String::new();
            for piece in bytes.chunks(size) {
                decoder.push(piece, &mut text);
            }
            decoder.finish(&mut text);
            prop_assert_eq!(text, String::from_utf8_lossy(&bytes));
        }

        #[test]
        fn valid_text_survives_any_cut(whole in "\\PC{0,40}", size in 1usize..5) {
            let mut decoder = Utf8Decoder::default();
            let mut text = String::new();
            for piece in whole.as_bytes().chunks(size) {
                decoder.push(piece, &mut text);
            }
            decoder.finish(&mut text);
            prop_assert_eq!(text, whole);
        }
    }
}
