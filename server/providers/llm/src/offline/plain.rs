//! The few sentences the offline model understands.

use serde_json::{Map, Value};

/// A sentence, understood.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Command {
    /// Anything else, or a wish to know more.
    Help,
    /// Understood in part; what is missing.
    Unusable(String),
    /// `/tool NAME {json}`, once or several times.
    Tools(Vec<(String, Value)>),
    Read {
        file: String,
    },
    Find {
        text: String,
        path: Option<String>,
    },
    List {
        glob: String,
    },
    Run {
        command: String,
    },
    Replace {
        old: String,
        new: String,
        file: String,
    },
    WhereIs {
        symbol: String,
    },
    Tour,
}

/// Reads a prompt. `pointed_at` stands for a file that the prompt leaves out but points at.
pub(super) fn parse(prompt: &str, pointed_at: Option<&str>) -> Command {
    let prompt = prompt.trim();
    if prompt.starts_with("/tool") {
        return tools(prompt);
    }
    let (verb, rest) = prompt.split_once(char::is_whitespace).unwrap_or((prompt, ""));
    let rest = rest.trim();
    let file =
        || Some(unquoted(rest)).filter(|file| !file.is_empty()).or_else(|| pointed_at.map(str::to_owned));
    let missing = |form: &str| Command::Unusable(format!("Something is missing. Write `{form}`."));
    match verb.to_lowercase().trim_end_matches([':', '.', '!']) {
        "tour" => Command::Tour,
        "read" => file().map_or_else(|| missing("read FILE"), |file| Command::Read { file }),
        "find" if rest.is_empty() => missing("find TEXT"),
        "find" => find(rest),
        "list" => Command::List { glob: if rest.is_empty() { "*".to_owned() } else { unquoted(rest) } },
        "run" if rest.is_empty() => missing("run COMMAND"),
        "run" => Command::Run { command: in_backticks(rest).unwrap_or(rest).to_owned() },
        "replace" => replace(rest, pointed_at).unwrap_or_else(|| missing("replace A with B in FILE")),
        "where" => match rest.split_once(char::is_whitespace) {
            Some((is, symbol)) if is.eq_ignore_ascii_case("is") => {
                let symbol = unquoted(symbol.trim().trim_end_matches('?'));
                Command::WhereIs { symbol }
            }
            _ => missing("where is SYMBOL"),
        },
        _ => Command::Help,
    }
}

/// `/tool NAME {json}`, again and again; the arguments may span lines or be left out.
fn tools(prompt: &str) -> Command {
    let mut calls = Vec::new();
    let mut rest = prompt;
    while !rest.is_empty() {
        let Some(after) = rest.strip_prefix("/tool").filter(|after| after.starts_with(char::is_whitespace))
        else {
            return Command::Unusable(format!(
                "I expected `/tool NAME {{json}}` here: `{}`",
                first_line(rest)
            ));
        };
        let after = after.trim_start();
        let end = after.find(|char: char| char.is_whitespace() || char == '{').unwrap_or(after.len());
        let (name, after) = after.split_at(end);
        if name.is_empty() {
            return Command::Unusable("A name is missing. Write `/tool NAME {json}`.".to_owned());
        }
        let after = after.trim_start();
        if after.is_empty() || after.starts_with("/tool") {
            calls.push((name.to_owned(), Value::Object(Map::new())));
            rest = after;
            continue;
        }
        let mut values = serde_json::Deserializer::from_str(after).into_iter::<Value>();
        match values.next() {
            Some(Ok(arguments)) => {
                calls.push((name.to_owned(), arguments));
                rest = after[values.byte_offset()..].trim_start();
            }
            Some(Err(error)) => {
                return Command::Unusable(format!("The arguments of `{name}` are not JSON: {error}."));
            }
            None => rest = "",
        }
    }
    Command::Tools(calls)
}

/// `TEXT`, or `"TEXT" in PATH`.
fn find(rest: &str) -> Command {
    match quoted(rest) {
        Some((text, after)) => {
            let path = after.trim().strip_prefix("in ").map(unquoted).filter(|path| !path.is_empty());
            Command::Find { text, path }
        }
        None => Command::Find { text: rest.to_owned(), path: None },
    }
}

/// `A with B in FILE`: the first ` with ` and the last ` in ` outside quotes.
fn replace(rest: &str, pointed_at: Option<&str>) -> Option<Command> {
    let (old, rest) = match quoted(rest) {
        Some((old, after)) => (old, after.trim_start().strip_prefix("with")?),
        None => {
            let (old, after) = rest.split_once(" with ")?;
            (old.trim().to_owned(), after)
        }
    };
    let rest = rest.trim_start();
    let (new, file) = match quoted(rest) {
        Some((new, after)) => (new, after.trim_start().strip_prefix("in").map(|file| unquoted(file.trim()))),
        None => match rest.rsplit_once(" in ") {
            Some((new, file)) => (new.trim().to_owned(), Some(unquoted(file.trim()))),
            None => (rest.trim_end_matches(" in").trim().to_owned(), None),
        },
    };
    let file = file.filter(|file| !file.is_empty()).or_else(|| pointed_at.map(str::to_owned))?;
    (!old.is_empty()).then_some(Command::Replace { old, new, file })
}

/// A text in quotes at the start, and what follows it. In double quotes `\n`, `\t`, `\"` and `\\` are one character.
fn quoted(text: &str) -> Option<(String, &str)> {
    let quote = text.chars().next().filter(|quote| matches!(quote, '"' | '\'' | '`'))?;
    let mut inner = String::new();
    let mut chars = text.char_indices().skip(1);
    while let Some((index, char)) = chars.next() {
        match char {
            '\\' if quote == '"' => match chars.next()?.1 {
                'n' => inner.push('\n'),
                't' => inner.push('\t'),
                other @ ('"' | '\\') => inner.push(other),
                other => inner.extend(['\\', other]),
            },
            char if char == quote => return Some((inner, &text[index + char.len_utf8()..])),
            char => inner.push(char),
        }
    }
    None
}

/// The text without quotes around all of it.
fn unquoted(text: &str) -> String {
    let text = text.trim();
    match quoted(text) {
        Some((inner, "")) => inner,
        _ => text.to_owned(),
    }
}

fn in_backticks(text: &str) -> Option<&str> {
    text.strip_prefix('`')?.strip_suffix('`').filter(|inner| !inner.contains('`'))
}

fn first_line(text: &str) -> &str {
    text.lines().next().unwrap_or("")
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn sentences_are_understood() {
        let replace = |old: &str, new: &str, file: &str| Command::Replace {
            old: old.to_owned(),
            new: new.to_owned(),
            file: file.to_owned(),
        };
        let read = |file: &str| Command::Read { file: file.to_owned() };
        let find = |text: &str, path: Option<&str>| Command::Find {
            text: text.to_owned(),
            path: path.map(str::to_owned),
        };
        let run = |command: &str| Command::Run { command: command.to_owned() };
        let cases = [
            ("read src/main.rs", read("src/main.rs")),
            ("  Read `a b.rs` ", read("a b.rs")),
            ("find fn main", find("fn main", None)),
            ("find \"a in b\" in src", find("a in b", Some("src"))),
            ("list **/*.rs", Command::List { glob: "**/*.rs".to_owned() }),
            ("list", Command::List { glob: "*".to_owned() }),
            ("run echo 'a b' | cat", run("echo 'a b' | cat")),
            ("run `cargo test`", run("cargo test")),
            ("run echo `date`", run("echo `date`")),
            ("replace foo with bar in a.rs", replace("foo", "bar", "a.rs")),
            (
                "replace live in peace with die in war in a in b.txt",
                replace("live in peace", "die in war in a", "b.txt"),
            ),
            ("replace \"a\\nb\" with '' in `x y.rs`", replace("a\nb", "", "x y.rs")),
            ("where is Session?", Command::WhereIs { symbol: "Session".to_owned() }),
            ("tour", Command::Tour),
            ("Tour.", Command::Tour),
            ("hello there", Command::Help),
            ("", Command::Help),
            (
                "/tool read {\"file_path\": \"a\"}",
                Command::Tools(vec![("read".to_owned(), json!({"file_path": "a"}))]),
            ),
            (
                "/tool job_list\n/tool bash{\n  \"command\": \"ls\"\n}\n",
                Command::Tools(vec![
                    ("job_list".to_owned(), json!({})),
                    ("bash".to_owned(), json!({"command": "ls"})),
                ]),
            ),
            ("/tool odd 7", Command::Tools(vec![("odd".to_owned(), json!(7))])),
        ];
        for (prompt, expected) in cases {
            assert_eq!(parse(prompt, None), expected, "{prompt}");
        }
    }

    #[test]
    fn what_is_missing_is_named_or_taken_from_what_the_prompt_points_at() {
        assert_eq!(parse("read", Some("/a.rs")), Command::Read { file: "/a.rs".to_owned() });
        let expected =
            Command::Replace { old: "a".to_owned(), new: "b".to_owned(), file: "/a.rs".to_owned() };
        assert_eq!(parse("replace a with b in", Some("/a.rs")), expected);
        for prompt in [
            "read",
            "find",
            "run",
            "replace a",
            "replace a with b",
            "where",
            "/tool",
            "/tool read {",
            "/tool a {} b",
        ] {
            assert!(matches!(parse(prompt, None), Command::Unusable(_)), "{prompt}");
        }
    }
}
