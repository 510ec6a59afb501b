//! From TypeScript to JavaScript by blanking the types: every line and column stays where it was.
//!
//! Called at the start of a run, on its own thread: the parser recurses, and that thread has the stack for it.

use std::sync::{Arc, Mutex, PoisonError};
use swc_common::errors::{DiagnosticBuilder, Emitter, Handler};
use swc_common::sync::Lrc;
use swc_common::{BytePos, GLOBALS, Globals, SourceMap};
use swc_ts_fast_strip::{Mode, Options, operate};

/// Name of the program in error messages.
pub const FILE: &str = "program.ts";

/// Stands before the program, on its first line, so that lines keep their numbers.
const OPEN: &str = "(async function () {";
/// Stands behind it, on a line of its own, so that a comment at the end hides nothing.
const CLOSE: &str = "\n})()";

/// The program as an expression that starts it.
///
/// # Errors
/// The program is no TypeScript, or not one whose types can be erased: what is wrong, and where.
pub fn to_javascript(program: &str) -> Result<String, String> {
    let source = format!("{OPEN}{program}{CLOSE}");
    let source_map: Lrc<SourceMap> = Lrc::default();
    let found = Found::default();
    let handler = Handler::with_emitter(true, false, Box::new(found.clone()));
    let options = Options { module: Some(true), mode: Mode::StripOnly, ..Options::default() };
    match GLOBALS.set(&Globals::new(), || operate(&source_map, &handler, source, options)) {
        Ok(output) => Ok(output.code),
        Err(error) => {
            let found = found.0.lock().unwrap_or_else(PoisonError::into_inner);
            let places = found.iter().map(|(message, at)| match at {
                None => message.clone(),
                Some(at) => {
                    let at = source_map.lookup_char_pos(*at);
                    format!("{message} ({FILE}:{}:{})", at.line, column(at.line, at.col.0 + 1))
                }
            });
            let texts: Vec<String> = places.collect();
            Err(if texts.is_empty() { error.message } else { texts.join("\n") })
        }
    }
}

/// The column of the program, both from 1: what stands before it on its first line does not count.
fn column(line: usize, column: usize) -> usize {
    if line == 1 { column.saturating_sub(OPEN.len()).max(1) } else { column }
}

/// What the parser complains about.
#[derive(Clone, Default)]
struct Found(Arc<Mutex<Vec<Complaint>>>);

/// A message, and where it is about.
type Complaint = (String, Option<BytePos>);

impl Emitter for Found {
    fn emit(&mut self, diagnostic: &mut DiagnosticBuilder<'_>) {
        let at = diagnostic.span.primary_span().map(|span| span.lo());
        self.0.lock().unwrap_or_else(PoisonError::into_inner).push((diagnostic.message(), at));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn types_are_blanked_and_nothing_moves() {
        let program =
            "const a: number = 1;\ninterface B { c: string }\nreturn (a as number) + f<string>(1)!;";
        let expected = "(async function () {const a         = 1;\n                         \nreturn (a          ) + f        (1) ;\n})()";
        assert_eq!(to_javascript(program).unwrap(), expected);
    }

    #[test]
    fn what_cannot_be_erased_or_read_is_named_with_its_place() {
        let cases = [
            ("enum A { B }", "program.ts:1:1"),
            ("const a = 1;\n  namespace N { export const b = 1 }", "program.ts:2:3"),
            ("class A { constructor(private b: string) {} }", "program.ts:1:31"),
            ("let a = 1;\nlet b = ;", "program.ts:2:9"),
            ("return 1 // no end\n{", "program.ts:3:2"),
        ];
        for (program, place) in cases {
            let message = to_javascript(program).unwrap_err();
            assert!(message.contains(place), "{program}: {message}");
        }
    }
}
