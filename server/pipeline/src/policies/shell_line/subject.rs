//! The subject of one simple command: what of it a standing permission names.

use super::parse::Word;
use super::{MAX_DEPTH, Unparsable, nested_subjects};

/// Programs whose second word says what they do.
const MULTI_COMMAND: [&str; 37] = [
    "apt",
    "apt-get",
    "aws",
    "brew",
    "bun",
    "bundle",
    "cargo",
    "composer",
    "conda",
    "deno",
    "dnf",
    "docker",
    "dotnet",
    "flutter",
    "gcloud",
    "gem",
    "gh",
    "git",
    "go",
    "gradle",
    "helm",
    "hg",
    "jj",
    "kubectl",
    "mvn",
    "nix",
    "npm",
    "pip",
    "pip3",
    "pnpm",
    "poetry",
    "podman",
    "rustup",
    "swift",
    "terraform",
    "uv",
    "yarn",
];
/// Sub-commands that run what the third word names.
const RUNS_NAMED: [(&str, &[&str]); 9] = [
    ("npm", &["run", "run-script", "exec", "x"]),
    ("pnpm", &["run", "exec", "dlx"]),
    ("yarn", &["run", "exec", "dlx"]),
    ("bun", &["run", "x"]),
    ("deno", &["run", "task"]),
    ("uv", &["run", "tool"]),
    ("poetry", &["run"]),
    ("bundle", &["exec"]),
    ("go", &["run", "tool"]),
];
/// Sub-commands that run any command line somewhere else.
const RUNS_ANYTHING: [(&str, &[&str]); 6] = [
    ("docker", &["run", "exec", "compose", "container"]),
    ("podman", &["run", "exec", "compose", "container"]),
    ("kubectl", &["run", "exec", "debug"]),
    ("rustup", &["run"]),
    ("conda", &["run"]),
    ("nix", &["run", "shell", "develop"]),
];
/// Options before the sub-command that change nothing about it.
const HARMLESS_OPTIONS: [&str; 9] =
    ["--no-pager", "-P", "-q", "--quiet", "-v", "--verbose", "--silent", "--offline", "--locked"];
/// Programs that run what their first word names.
const RUNNERS: [&str; 5] = ["npx", "bunx", "uvx", "pipx", "pnpx"];
/// Programs for which every word counts.
const WHOLE_LINE: [&str; 7] = ["make", "gmake", "just", "task", "cd", "pushd", "rake"];
const SHELLS: [&str; 6] = ["sh", "bash", "zsh", "dash", "ksh", "ash"];
const INTERPRETERS: [&str; 12] = [
    "python",
    "python2",
    "python3",
    "node",
    "perl",
    "ruby",
    "php",
    "lua",
    "Rscript",
    "osascript",
    "tsx",
    "ts-node",
];
/// Programs and builtins that change what later words mean, or run something that is not on the line.
const REFUSED: [&str; 56] = [
    ".",
    "alias",
    "ash",
    "at",
    "batch",
    "bind",
    "builtin",
    "busybox",
    "chroot",
    "chrt",
    "crontab",
    "declare",
    "doas",
    "enable",
    "entr",
    "eval",
    "exec",
    "expect",
    "export",
    "fakeroot",
    "firejail",
    "flock",
    "gdb",
    "hash",
    "ionice",
    "let",
    "lldb",
    "local",
    "ltrace",
    "mapfile",
    "nsenter",
    "parallel",
    "proxychains",
    "read",
    "readonly",
    "screen",
    "script",
    "set",
    "setsid",
    "shopt",
    "socat",
    "source",
    "ssh",
    "stdbuf",
    "strace",
    "su",
    "systemd-run",
    "taskset",
    "tmux",
    "toybox",
    "trap",
    "typeset",
    "unset",
    "unshare",
    "watch",
    "xvfb-run",
];

/// The subjects of a simple command: one, or those of the line it hands to an inner shell.
pub(super) fn of(words: &[Word], depth: u32) -> Result<Vec<String>, Unparsable> {
    command(words, "", false, depth)
}

/// `takes_input`: further words come from elsewhere (`xargs`).
fn command(words: &[Word], prefix: &str, takes_input: bool, depth: u32) -> Result<Vec<String>, Unparsable> {
    if depth >= MAX_DEPTH {
        return Err(Unparsable("the line is nested too deeply"));
    }
    let mut prefix = prefix.to_owned();
    let mut rest = words;
    while let Some((word, after)) = rest.split_first() {
        if !is_assignment(word) {
            break;
        }
        prefix.push_str(literal(word)?);
        prefix.push(' ');
        rest = after;
    }
    let Some((program, rest)) = rest.split_first() else {
        return Err(Unparsable("it sets variables for later commands"));
    };
    let program = literal(program)?;
    if program.is_empty() || program.starts_with('-') || program.chars().any(char::is_whitespace) {
        return Err(Unparsable("its program has no plain name"));
    }
    let one = |words: &[&str]| {
        let mut subject = format!("{prefix}{program}");
        for word in words {
            subject.push(' ');
            subject.push_str(word);
        }
        Ok(vec![subject])
    };
    if REFUSED.contains(&program) {
        return Err(Unparsable("it runs what is not on the line, or changes what the line means"));
    }
    match program {
        "time" | "nohup" => inner(rest, &prefix, takes_input, depth),
        "command" if rest.first().is_none_or(|word| !word.text.starts_with('-')) => {
            inner(rest, &prefix, takes_input, depth)
        }
        "command" => one(&[]),
        "env" | "sudo" if rest.is_empty() && !takes_input => one(&[]),
        "env" => inner(rest, &prefix, takes_input, depth),
        "sudo" => inner(rest, &format!("{prefix}sudo "), takes_input, depth),
        "nice" => inner(skip_options(rest, &["-n"], &[])?, &prefix, takes_input, depth),
        "timeout" => {
            let rest = skip_options(rest, &["-k", "-s"], &["--foreground", "--preserve-status", "-v"])?;
            let after_duration = rest.split_first().map_or(rest, |(_, after)| after);
            inner(after_duration, &prefix, takes_input, depth)
        }
        "xargs" => {
            let with_value = ["-n", "-P", "-I", "-L", "-d", "-s", "-E"];
            let rest = skip_options(rest, &with_value, &["-0", "-r", "-t", "--null", "--no-run-if-empty"])?;
            inner(rest, &format!("{prefix}xargs "), true, depth)
        }
        _ if SHELLS.contains(&program) => shell(rest, &prefix, takes_input, depth, one),
        _ if INTERPRETERS.contains(&program) => match literals(rest)?.as_slice() {
            ["-m", module, ..] => one(&["-m", module]),
            [script, ..] if !script.starts_with('-') => one(&[script]),
            _ => Err(Unparsable("it runs code from its options or its input")),
        },
        _ if RUNNERS.contains(&program) => match rest.first() {
            Some(word) if !word.text.starts_with('-') => one(&[literal(word)?]),
            _ => Err(Unparsable("it runs a package that is not named first")),
        },
        _ if WHOLE_LINE.contains(&program) && !takes_input => one(&literals(rest)?),
        "find" | "fd" | "rg" | "awk" | "gawk" | "mawk" | "sed" if takes_input => {
            Err(Unparsable("it takes options from its input"))
        }
        "find" => without(rest, &["-exec", "-ok", "-delete", "-fprint", "-fls"], one),
        "fd" => without(rest, &["-x", "-X", "--exec"], one),
        "rg" => without(rest, &["--pre", "--hostname-bin"], one),
        "awk" | "gawk" | "mawk" => {
            let is_plain = literals(rest)?.iter().all(|word| {
                !word.starts_with('-')
                    && !["system", "|", ">", "getline", "@"].iter().any(|bad| word.contains(bad))
            });
            if is_plain { one(&[]) } else { Err(Unparsable("its awk program may run or write something")) }
        }
        "sed" => {
            let is_plain = literals(rest)?.iter().enumerate().all(|(idx, word)| match *word {
                "-n" | "-E" | "-r" => true,
                word if word.starts_with('-') => false,
                word => idx > 1 || is_print_script(word) || idx == 1 && !rest[0].text.starts_with('-'),
            });
            if is_plain { one(&[]) } else { Err(Unparsable("its sed script may run or write something")) }
        }
        _ if MULTI_COMMAND.contains(&program) => sub_command(program, rest, one),
        _ => one(&[]),
    }
}

/// What a wrapper runs.
fn inner(words: &[Word], prefix: &str, takes_input: bool, depth: u32) -> Result<Vec<String>, Unparsable> {
    match words.first() {
        None => Err(Unparsable("what it runs comes from somewhere else")),
        Some(word) if word.text.starts_with('-') => Err(Unparsable("its options are not understood")),
        Some(_) => command(words, prefix, takes_input, depth + 1),
    }
}

/// An inner shell: the line after `-c`, or a script.
fn shell(
    rest: &[Word],
    prefix: &str,
    takes_input: bool,
    depth: u32,
    one: impl Fn(&[&str]) -> Result<Vec<String>, Unparsable>,
) -> Result<Vec<String>, Unparsable> {
    let [first, after @ ..] = rest else { return Err(Unparsable("its script comes from its input")) };
    let option = literal(first)?;
    if !option.starts_with('-') {
        return one(&[option]);
    }
    let is_line = option.ends_with('c') && option[1..].chars().all(|char| "ceulx".contains(char));
    match after {
        // `$0` and the parameters of the inner line are data, but from `xargs` they could be anything.
        [line, ..] if is_line && !takes_input => {
            let subjects = nested_subjects(literal(line)?, depth + 1)?;
            Ok(subjects.into_iter().map(|subject| format!("{prefix}{subject}")).collect())
        }
        _ => Err(Unparsable("its options are not understood")),
    }
}

fn sub_command(
    program: &str,
    rest: &[Word],
    one: impl Fn(&[&str]) -> Result<Vec<String>, Unparsable>,
) -> Result<Vec<String>, Unparsable> {
    let mut rest = rest;
    while let Some((word, after)) = rest.split_first() {
        let text = literal(word)?;
        let is_toolchain = program == "cargo" && text.starts_with('+');
        if !is_toolchain && !HARMLESS_OPTIONS.contains(&text) {
            break;
        }
        rest = after;
    }
    let Some((word, after)) = rest.split_first() else {
        return Err(Unparsable("it has no sub-command"));
    };
    let name = literal(word)?;
    if name.starts_with('-') {
        return match name {
            "--version" | "-V" | "--help" | "-h" if after.is_empty() => one(&[name]),
            _ => Err(Unparsable("it has options before its sub-command")),
        };
    }
    let listed = |table: &[(&str, &[&str])]| {
        table.iter().any(|(known, names)| *known == program && names.contains(&name))
    };
    if listed(&RUNS_ANYTHING) {
        return Err(Unparsable("it runs any command somewhere else"));
    }
    if listed(&RUNS_NAMED) {
        return match after.first() {
            Some(named) if !named.text.starts_with('-') => one(&[name, literal(named)?]),
            _ => Err(Unparsable("it does not name what it runs first")),
        };
    }
    one(&[name])
}

/// Leaves out options that are known, some with a value.
fn skip_options<'a>(
    words: &'a [Word],
    with_value: &[&str],
    without_value: &[&str],
) -> Result<&'a [Word], Unparsable> {
    let mut rest = words;
    while let Some((word, after)) = rest.split_first() {
        let text = word.text.as_str();
        if !text.starts_with('-') {
            break;
        }
        rest = if without_value.contains(&text) {
            after
        } else if with_value.contains(&text) {
            after.split_first().map_or(after, |(_, after)| after)
        } else if with_value.iter().any(|option| text.starts_with(option)) {
            // `-n1`, `-I{}`
            after
        } else {
            return Err(Unparsable("its options are not understood"));
        };
    }
    Ok(rest)
}

fn without(
    rest: &[Word],
    refused: &[&str],
    one: impl Fn(&[&str]) -> Result<Vec<String>, Unparsable>,
) -> Result<Vec<String>, Unparsable> {
    // An expansion or a glob could become any option.
    let is_refused =
        rest.iter().any(|word| !word.literal || refused.iter().any(|option| word.text.starts_with(option)));
    match is_refused {
        true => Err(Unparsable("it runs a program on what it finds, or may")),
        false => one(&[]),
    }
}

/// `10p`, `1,20p`, `$p`: scripts that only print lines.
fn is_print_script(script: &str) -> bool {
    script.strip_suffix('p').is_some_and(|lines| {
        !lines.is_empty() && lines.chars().all(|char| char.is_ascii_digit() || ",$".contains(char))
    })
}

fn is_assignment(word: &Word) -> bool {
    let Some((name, _)) = word.text.split_once('=') else { return false };
    let name = name.strip_suffix('+').unwrap_or(name);
    name.chars().next().is_some_and(|char| char.is_ascii_alphabetic() || char == '_')
        && name.chars().all(|char| char.is_ascii_alphanumeric() || char == '_')
}

fn literal(word: &Word) -> Result<&str, Unparsable> {
    match word.literal {
        true => Ok(&word.text),
        false => Err(Unparsable("a word that matters is only known when it runs")),
    }
}

fn literals(words: &[Word]) -> Result<Vec<&str>, Unparsable> {
    words.iter().map(literal).collect()
}
