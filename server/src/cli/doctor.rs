//! `followspot doctor`: does everything stand that the agent needs? One line a check, each with its remedy.
//!
//! What is examined is collected in [`run`]; the checks are functions of that, so that tests can show them broken
//! machines. Nothing is changed, but for the folders the server would make anyway.

mod checks;
mod machine;
#[cfg(test)]
mod tests;

use super::output;
use crate::compose;
use crate::config::{Config, Loaded, Paths, process_environment};
use checks::{Check, Verdict};
use clap::Args;
use std::collections::BTreeSet;
use std::process::ExitCode;

/// Check the configuration, the model, the sandbox and the language servers.
///
/// Prints one line for each thing that Followspot needs in this folder, and what to do where something is missing. Exit
/// code 1 when something is broken; a warning is not.
#[derive(Args, Debug)]
pub struct DoctorArgs {
    /// Do not try to reach the model's address
    #[arg(long)]
    no_network: bool,
}

/// Makes every check and prints the lines.
pub async fn run(args: DoctorArgs) -> ExitCode {
    let paths = match Paths::from_environment() {
        Ok(paths) => paths,
        Err(message) => return output::fail(&message),
    };
    let workspace = std::env::current_dir().ok();
    let loaded = Config::load(&paths, workspace.as_deref(), &process_environment);
    let mut found = vec![];
    found.extend(checks::configuration(&paths, &loaded));
    // With a broken configuration the rest is examined as far as it goes.
    let Loaded { config, .. } = loaded.unwrap_or_default();

    // Both need a configuration that can be read; its own lines say what is wrong with it.
    if let Ok(parts) = compose::server_parts() {
        let model = parts.models.default_model();
        found.push(checks::model(&model, parts.models.check(&model)));
        if let Some(address) = machine::address_of(&model.provider, &config, &process_environment)
            && !args.no_network
        {
            found.push(checks::endpoint(&address, machine::reach(&address).await));
        }
        found.push(checks::sandbox(&parts.sandbox.support()));
    }
    let folders = BTreeSet::from([&paths.data, &paths.state]);
    found.extend(folders.into_iter().map(|folder| checks::folder(folder, machine::try_writing(folder))));
    let folder = workspace.unwrap_or_default();
    let servers = machine::language_servers(&config, &folder).await;
    found.push(checks::language_servers(&servers));
    found.extend(checks::placeholder(&servers));
    found.extend(checks::programs(&config, |program| machine::find_program(program).is_some()));

    let is_broken = found.iter().any(|check| check.verdict == Verdict::Broken);
    let printed = output::print(&lines(&found));
    if is_broken { ExitCode::FAILURE } else { printed }
}

/// The checks as lines in columns.
fn lines(checks: &[Check]) -> String {
    let width = checks.iter().map(|check| check.subject.chars().count()).max().unwrap_or_default();
    let line = |check: &Check| {
        let mark = match check.verdict {
            Verdict::Good => "ok",
            Verdict::Doubtful => "warn",
            Verdict::Broken => "fail",
        };
        let remedy = check.remedy.as_ref().map(|remedy| format!(" -> {remedy}")).unwrap_or_default();
        format!("{mark:<4}  {:<width$}  {}{remedy}\n", check.subject, check.finding)
    };
    output::harmless(&checks.iter().map(line).collect::<String>())
}
