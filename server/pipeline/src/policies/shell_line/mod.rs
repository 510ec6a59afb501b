//! The subjects of a shell line: every simple command it runs, each as program or program and sub-command.
//!
//! Called by the permission policy to judge a line by all of it: operators, pipes, subshells, substitutions, nested
//! `sh -c`, and what `env`, `sudo` or `xargs` run. Whatever is not surely understood is an error, and the line is then
//! asked for each time. Source: product decisions, "allow_always"; `faults.md` P02, P03.

mod parse;
mod subject;
#[cfg(test)]
mod tests;

/// Deepest nesting of substitutions and inner shells that is followed.
const MAX_DEPTH: u32 = 16;

/// Why a line is not judged by its parts.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct Unparsable(&'static str);

/// The normalised subjects of a line, without repetitions, in order of appearance.
///
/// # Errors
/// [`Unparsable`]: the line cannot be understood for sure, or does something no rule should cover.
pub fn subjects(line: &str) -> Result<Vec<String>, Unparsable> {
    let subjects = nested_subjects(line, 0)?;
    if subjects.is_empty() {
        return Err(Unparsable("the line runs nothing"));
    }
    Ok(subjects)
}

fn nested_subjects(line: &str, depth: u32) -> Result<Vec<String>, Unparsable> {
    let mut subjects: Vec<String> = Vec::new();
    for command in parse::commands(line, depth)? {
        for subject in subject::of(&command, depth)? {
            if !subjects.contains(&subject) {
                subjects.push(subject);
            }
        }
    }
    Ok(subjects)
}
