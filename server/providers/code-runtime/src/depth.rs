//! How deep a program can nest at most, told from its text alone.
//!
//! The parser recurses on the native stack and knows no limit, and an overflow would end the process. Each token since
//! the last `,` or `;` of each open bracket can nest one level deeper; texts and comments count as one. Mistaking a
//! regular expression for a text is harmless: the estimate is generous, and the stack it is held against too.

/// Deepest program that is parsed. The stack of a run has more than 20 KiB for each level.
pub const MAX_DEPTH: usize = 20_000;

/// An upper bound of the depth of a program.
pub fn deepest(program: &str) -> usize {
    let bytes = program.as_bytes();
    let (mut at, mut depth, mut deepest) = (0, 0, 0);
    // For each open bracket: the depth outside, and the depth at which its content begins.
    let mut open: Vec<(usize, usize)> = Vec::new();
    while let Some(&byte) = bytes.get(at) {
        let rest = &bytes[at..];
        at += match byte {
            b' ' | b'\t' | b'\r' | b'\n' => 1,
            b'/' if rest.starts_with(b"//") => until(rest, b"\n"),
            b'/' if rest.starts_with(b"/*") => until(rest, b"*/"),
            b'"' | b'\'' | b'`' => {
                depth += 1;
                text(rest, byte)
            }
            b',' | b';' => {
                depth = open.last().map_or(0, |(_, inside)| *inside);
                1
            }
            b'(' | b'[' | b'{' => {
                open.push((depth + 1, depth + 1));
                depth += 1;
                1
            }
            b')' | b']' | b'}' => {
                depth = open.pop().map_or(depth, |(outside, _)| outside);
                1
            }
            _ => {
                depth += 1;
                let word =
                    rest.iter().take_while(|byte| byte.is_ascii_alphanumeric() || !byte.is_ascii()).count();
                word.max(1)
            }
        };
        deepest = deepest.max(depth);
    }
    deepest
}

/// Bytes up to the end of a comment.
fn until(rest: &[u8], end: &[u8]) -> usize {
    rest.windows(end.len())
        .skip(1)
        .position(|window| window == end)
        .map_or(rest.len(), |found| found + 1 + end.len())
}

/// Bytes of a text; one in quotes ends with its line.
fn text(rest: &[u8], quote: u8) -> usize {
    let mut at = 1;
    while let Some(&byte) = rest.get(at) {
        at += 1;
        match byte {
            b'\\' => at += 1,
            b'\n' if quote != b'`' => break,
            _ if byte == quote => break,
            _ => {}
        }
    }
    at.min(rest.len())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn separators_end_a_level_and_brackets_keep_it() {
        let cases = [
            ("", 0),
            ("a; b; c", 1),
            ("a + b, c", 3),
            ("((1))", 3),
            ("[1, 2, [3, 4]]", 3),
            ("f(a + b, c)", 5),
            ("'a + b' // c + d\n/* e */", 1),
            ("'a\nb", 2),
            ("`a\n\\`b`", 1),
            ("!!!1", 4),
        ];
        for (program, depth) in cases {
            assert_eq!(deepest(program), depth, "{program}");
        }
        assert!(deepest(&"{ a: [1, 2], b: 'x' }, ".repeat(50_000)) < 10);
    }
}
