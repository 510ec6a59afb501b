//! Which bindings cannot be made. Source: `spec/tools-files-shell.md` §16.

use services::code_runtime::{CodeBinding, CodeMisuse};
use std::collections::HashSet;

/// Words no global may be called by: reserved in JavaScript or Python, or taken.
const RESERVED: &[&str] = &[
    "False",
    "None",
    "True",
    "__builtins__",
    "__debug__",
    "__dsh_main__",
    "__name__",
    "and",
    "arguments",
    "as",
    "assert",
    "async",
    "await",
    "break",
    "case",
    "catch",
    "class",
    "console",
    "const",
    "continue",
    "debugger",
    "def",
    "default",
    "del",
    "delete",
    "do",
    "elif",
    "else",
    "enum",
    "eval",
    "except",
    "export",
    "extends",
    "false",
    "finally",
    "for",
    "from",
    "function",
    "global",
    "if",
    "implements",
    "import",
    "in",
    "instanceof",
    "interface",
    "is",
    "lambda",
    "let",
    "new",
    "nonlocal",
    "not",
    "null",
    "or",
    "package",
    "pass",
    "private",
    "protected",
    "public",
    "raise",
    "return",
    "static",
    "super",
    "switch",
    "this",
    "throw",
    "true",
    "try",
    "typeof",
    "var",
    "void",
    "while",
    "with",
    "yield",
];

/// Members every error has, in some language.
const ERROR_MEMBERS: &[&str] = &["name", "message", "stack", "args", "with_traceback", "add_note"];

/// Refuses bindings that cannot be made.
///
/// # Errors
/// The first that cannot.
pub fn check(bindings: &[CodeBinding]) -> Result<(), CodeMisuse> {
    let mut globals = HashSet::new();
    for binding in bindings {
        for name in [&binding.global, &binding.error_class.name] {
            if !is_identifier(name) || RESERVED.contains(&name.as_str()) {
                return Err(CodeMisuse(format!("{name:?} cannot be the name of a global")));
            }
            if !globals.insert(name) {
                return Err(CodeMisuse(format!("the global {name:?} is bound twice")));
            }
        }
        let member = &binding.error_class.member;
        let is_dunder = member.starts_with("__") && member.ends_with("__");
        if !is_identifier(member) || is_dunder || ERROR_MEMBERS.contains(&member.as_str()) {
            return Err(CodeMisuse(format!("{member:?} cannot be a member of an error")));
        }
        let mut functions = HashSet::new();
        if let Some(twice) = binding.functions.iter().find(|name| !functions.insert(*name)) {
            return Err(CodeMisuse(format!("the function {twice:?} is bound twice")));
        }
    }
    Ok(())
}

fn is_identifier(name: &str) -> bool {
    let is_start = |c: char| c.is_ascii_alphabetic() || c == '_';
    name.starts_with(is_start) && name.chars().all(|c| is_start(c) || c.is_ascii_digit())
}
