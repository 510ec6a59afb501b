//! `pwsh`: the command tool for PowerShell; an opt-in family.
//!
//! Source: `spec/tools-files-shell.md` §9.

use super::command::Language;
use protocol::tool::ToolFailure;
use services::shell::ShellError;

/// Has PowerShell write UTF-8 without a byte order mark, to us and to the programs it pipes to.
const UTF8_PREAMBLE: &str =
    "$OutputEncoding = [Console]::OutputEncoding = [System.Text.UTF8Encoding]::new($false); ";

/// The language of `pwsh`.
pub struct Pwsh;

impl Language for Pwsh {
    const NAME: &'static str = "pwsh";

    const DESCRIPTION: &'static str = "Runs a PowerShell command with `pwsh -Command` and returns its stdout and stderr. \
         Each call is a fresh shell without a profile: no folder, variable or function survives it, so pass workdir \
         instead of using Set-Location. A nonzero exit is reported as [exit code: N]; a native program that failed last \
         counts as 1, its own code is in $LASTEXITCODE. Facts about this environment are in the managed $env:FOLLOWSPOT_* \
         variables; look at them when you need them. Commands may run in a file sandbox; a blocked file operation is \
         reported as [sandbox: file access denied under <mode> mode]: that is a decision of policy and no fault of the \
         command, so do not try it another way; a second line says when you may ask for more. Of long output only the \
         head and the tail are returned; the whole is saved to a file, where possible, and its path reported. For a \
         command that runs long, set run_in_background: true: the call returns a job id at once; read the output with \
         job_output and stop the job with job_kill.";

    const GUIDANCE: &'static str = "A `pwsh` command failed when its result ends in `[exit code: N]`, \
         `[killed by signal: NAME]` or `[timed out after Nms]`; without such a line it succeeded. On Windows a command that \
         was interrupted ends with exit code 1. Check before you go on. There is nobody at the command's input.";

    fn argv(command: &str) -> Vec<String> {
        let script = format!("{UTF8_PREAMBLE}{command}");
        ["pwsh", "-NoLogo", "-NoProfile", "-NonInteractive", "-Command", &script].map(str::to_owned).to_vec()
    }

    fn failure(error: ShellError) -> ToolFailure {
        match error {
            ShellError::Spawn { .. } => ToolFailure::coded(
                "ShellUnavailableError",
                "SHELL_UNAVAILABLE",
                format!("{error}; PowerShell 7 (pwsh) must be installed and on PATH"),
            ),
            _ => error.into(),
        }
    }
}
