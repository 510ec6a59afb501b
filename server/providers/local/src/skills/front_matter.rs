//! The head of a skill's file: YAML between two lines of three hyphens. Pure.

use serde_json::{Map, Value};
use services::skills::is_skill_name;

/// Keys that other programs write and that mean something else here; silence about them would be misread.
const FOREIGN_KEYS: [&str; 3] = ["disableModelInvocation", "modelInvocable", "userInvocable"];

/// A parsed file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Parsed {
    pub name: String,
    pub description: String,
    pub for_model: bool,
    pub for_user: bool,
    /// The instructions, trimmed.
    pub content: String,
}

/// Reads a file.
///
/// # Errors
/// What is wrong with it, for a log.
pub(super) fn parse(text: &str) -> Result<Parsed, String> {
    let text = text.strip_prefix('\u{feff}').unwrap_or(text);
    let (head, content) = split(text).ok_or("it has no front matter between two lines `---`")?;
    let head: Value =
        serde_saphyr::from_str(head).map_err(|error| format!("its front matter is no YAML: {error}"))?;
    let Value::Object(head) = head else { return Err("its front matter is no mapping".to_owned()) };
    if let Some(key) = FOREIGN_KEYS.iter().find(|key| head.contains_key(**key)) {
        return Err(format!("`{key}` is not known; use `disable-model-invocation` and `user-invocable`"));
    }
    let name = required(&head, "name")?;
    if !is_skill_name(&name) {
        return Err(format!("its name `{name}` is not lower-case letters and digits joined by hyphens"));
    }
    let mut description = required(&head, "description")?;
    match head.get("whenToUse") {
        None => {}
        Some(Value::String(when)) => description = format!("{description} {when}"),
        Some(_) => return Err("`whenToUse` is no text".to_owned()),
    }
    if head.get("metadata").is_some_and(|metadata| !metadata.is_object()) {
        return Err("`metadata` is no mapping".to_owned());
    }
    Ok(Parsed {
        name,
        description,
        for_model: !flag(&head, "disable-model-invocation", false)?,
        for_user: flag(&head, "user-invocable", true)?,
        content: content.trim().to_owned(),
    })
}

/// The front matter and what follows it.
fn split(text: &str) -> Option<(&str, &str)> {
    let is_fence = |line: &str| line.strip_suffix('\n').unwrap_or(line).trim_end_matches('\r') == "---";
    let mut lines = text.split_inclusive('\n');
    let first = lines.next().filter(|line| is_fence(line))?;
    let mut at = first.len();
    for line in lines {
        if is_fence(line) {
            return Some((&text[first.len()..at], &text[at + line.len()..]));
        }
        at += line.len();
    }
    None
}

fn required(head: &Map<String, Value>, key: &str) -> Result<String, String> {
    match head.get(key) {
        Some(Value::String(text)) if !text.trim().is_empty() => Ok(text.trim().to_owned()),
        Some(Value::String(_)) | None => Err(format!("`{key}` is missing")),
        Some(_) => Err(format!("`{key}` is no text")),
    }
}

/// A switch in any of the ways in which people write one.
fn flag(head: &Map<String, Value>, key: &str, default: bool) -> Result<bool, String> {
    let wrong = || Err(format!("`{key}` is neither true nor false"));
    match head.get(key) {
        None => Ok(default),
        Some(Value::Bool(flag)) => Ok(*flag),
        Some(Value::Number(number)) => match number.as_u64() {
            Some(1) => Ok(true),
            Some(0) => Ok(false),
            _ => wrong(),
        },
        Some(Value::String(text)) => match text.to_ascii_lowercase().as_str() {
            "1" | "true" | "yes" | "on" => Ok(true),
            "0" | "false" | "no" | "off" => Ok(false),
            _ => wrong(),
        },
        Some(_) => wrong(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn with(extra: &str) -> String {
        format!("---\nname: demo\ndescription: Shows how\n{extra}---\nBody\n")
    }

    #[test]
    fn what_is_valid_is_read() {
        let plain = Parsed {
            name: "demo".into(),
            description: "Shows how".into(),
            for_model: true,
            for_user: true,
            content: "Body".into(),
        };
        let cases = [
            (with(""), plain.clone()),
            (with("").replace('\n', "\r\n"), plain.clone()),
            (with("license: MIT\nmetadata:\n  a: 1\n"), plain.clone()),
            (with("disable-model-invocation: off\nuser-invocable: YES\n"), plain.clone()),
            (with("disable-model-invocation: \"1\"\n"), Parsed { for_model: false, ..plain.clone() }),
            (with("user-invocable: 0\n"), Parsed { for_user: false, ..plain.clone() }),
            (with("whenToUse: Often.\n"), Parsed { description: "Shows how Often.".into(), ..plain.clone() }),
            (
                "---\nname: demo\ndescription: Shows how\n---".into(),
                Parsed { content: String::new(), ..plain },
            ),
        ];
        for (text, expected) in cases {
            assert_eq!(parse(&text), Ok(expected), "{text}");
        }
    }

    #[test]
    fn what_is_invalid_says_why() {
        let cases = [
            ("Body only", "no front matter"),
            ("---\nname: demo\ndescription: x\nBody", "no front matter"),
            (" ---\nname: demo\ndescription: x\n---\n", "no front matter"),
            ("---\n- a\n- b\n---\n", "no mapping"),
            ("---\nname: [\n---\n", "no YAML"),
            ("---\nname: demo\n---\n", "`description` is missing"),
            ("---\nname: demo\ndescription: '  '\n---\n", "`description` is missing"),
            ("---\nname: 3\ndescription: x\n---\n", "`name` is no text"),
            ("---\nname: Demo Skill\ndescription: x\n---\n", "joined by hyphens"),
            ("---\nname: demo\ndescription: x\nuser-invocable: maybe\n---\n", "neither true nor false"),
            ("---\nname: demo\ndescription: x\nuser-invocable: null\n---\n", "neither true nor false"),
            ("---\nname: demo\ndescription: x\nmodelInvocable: true\n---\n", "is not known"),
            ("---\nname: demo\ndescription: x\nmetadata: 1\n---\n", "`metadata` is no mapping"),
        ];
        for (text, expected) in cases {
            let problem = parse(text).unwrap_err();
            assert!(problem.contains(expected), "{text}: {problem}");
        }
    }

    proptest::proptest! {
        #[test]
        fn no_text_breaks_it(text in "(---\n)?[a-z:\\[\\]{}&*!|>'\"%@` \n\t-]{0,200}(---\n)?.{0,20}") {
            let _ = parse(&text);
        }
    }
}
