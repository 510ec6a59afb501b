//! `bash`: the command tool for `bash -c`.

use super::command::Language;

/// The language of `bash`.
pub struct Bash;

impl Language for Bash {
    const NAME: &'static str = "bash";

    const DESCRIPTION: &'static str = "Runs a command line with `bash -c` and returns its stdout and stderr. Each call is a fresh shell: no folder, \
         variable or function survives it, so pass workdir instead of using cd. A nonzero exit is reported as \
         [exit code: N]. Facts about this environment are in the managed $FOLLOWSPOT_* variables; look at them when you \
         need them. Commands may run in a file sandbox; a blocked file operation is reported as \
         [sandbox: file access denied under <mode> mode]: that is a decision of policy and no fault of the command, so do \
         not try it another way; a second line says when you may ask for more. Of long output only the head and the tail are returned; the whole is saved to a file, \
         where possible, and its path reported. For a command that runs long, set run_in_background: true: the call \
         returns a job id at once; read the output with job_output and stop the job with job_kill.";

    const GUIDANCE: &'static str = "A `bash` command failed when its result ends in `[exit code: N]`, `[killed by signal: NAME]` or \
                   `[timed out after Nms]`; without such a line it succeeded. Check before you go on. There is nobody \
                   at the command's input: use options that ask nothing and open no pager or editor.";

    fn argv(command: &str) -> Vec<String> {
        ["bash", "-c", command].map(str::to_owned).to_vec()
    }
}
