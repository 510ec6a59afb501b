//! The wrapper as a program of its own, for this crate's tests: `sandbox-exec-test sandbox-exec …`.

fn main() -> std::process::ExitCode {
    provider_sandbox::main(std::env::args_os().skip(2))
}
