//! The program: what was asked on the command line, logging, and the runtime. Everything else is in the modules.

mod acp;
mod cli;
mod compose;
mod config;

use clap::{CommandFactory, Parser, Subcommand};
use std::io::IsTerminal;
use std::process::ExitCode;

/// A coding agent that lives in your editor.
///
/// Your editor starts `followspot acp` and speaks the Agent Client Protocol with it. To see the agent without an
/// editor, run `followspot try`. To put it into your editor, run `followspot setup EDITOR`.
#[derive(Parser)]
#[command(name = "followspot", version, max_term_width = 100)]
struct Cli {
    #[command(subcommand)]
    command: Option<Command>,
}

#[derive(Subcommand)]
enum Command {
    /// Serve an editor on stdin and stdout (what your editor runs)
    Acp,
    /// Work with the agent in this terminal: no editor and no key needed
    Try(cli::try_client::TryArgs),
    /// Put Followspot into an editor: print its settings, or merge them (--write)
    Setup(cli::setup::SetupArgs),
    /// Check the configuration, the model, the sandbox and the language servers
    Doctor(cli::doctor::DoctorArgs),
    /// Store the key of a model provider
    Login(cli::login::LoginArgs),
    /// List, show, export or delete stored sessions
    Sessions(cli::sessions::SessionsArgs),
}

fn main() -> ExitCode {
    // The wrapper round every command: before anything else, since its own start is part of each command's time.
    let mut args = std::env::args_os();
    if args.nth(1).is_some_and(|first| first == compose::SANDBOX_EXEC) {
        return provider_sandbox::main(args);
    }
    let cli = Cli::parse();
    log_to_stderr();
    let Some(command) = cli.command.or_else(|| (!std::io::stdin().is_terminal()).then_some(Command::Acp))
    else {
        let _ = Cli::command().print_help();
        return ExitCode::from(2);
    };
    // Two workers: a turn that computes must not stop the connection. One a core would only cost start-up.
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build();
    let runtime = match runtime {
        Ok(runtime) => runtime,
        Err(error) => {
            tracing::error!(%error, "the runtime could not be started");
            return ExitCode::FAILURE;
        }
    };
    let code = runtime.block_on(run(command));
    // Not waiting for blocking work that nobody waits for: stdin may stay open, a slow disk may hang.
    runtime.shutdown_background();
    code
}

async fn run(command: Command) -> ExitCode {
    match command {
        Command::Acp => match serve().await {
            Ok(()) => ExitCode::SUCCESS,
            Err(error) => {
                tracing::error!("{error:#}");
                ExitCode::FAILURE
            }
        },
        Command::Try(args) => cli::try_client::run(args).await,
        Command::Setup(args) => cli::setup::run(&args),
        Command::Doctor(args) => cli::doctor::run(args).await,
        Command::Login(args) => cli::login::run(args).await,
        Command::Sessions(args) => cli::sessions::run(args).await,
    }
}

async fn serve() -> anyhow::Result<()> {
    acp::serve(compose::server_parts()?).await
}

/// Logs go to stderr, straight: a background writer would cost more at start than it saves later.
///
/// `FOLLOWSPOT_LOG` is a level, or a list of `target=level`. The SDK warns of every error answer, which is the client's
/// business; it is heard only when asked for.
fn log_to_stderr() {
    use tracing_subscriber::filter::{LevelFilter, Targets};
    use tracing_subscriber::prelude::*;
    let asked = std::env::var("FOLLOWSPOT_LOG").ok().and_then(|text| text.parse::<Targets>().ok());
    let filter = asked.unwrap_or_else(|| {
        Targets::new()
            .with_default(LevelFilter::WARN)
            .with_target("agent_client_protocol", LevelFilter::ERROR)
    });
    let layer =
        tracing_subscriber::fmt::layer().with_writer(std::io::stderr).with_ansi(false).with_filter(filter);
    tracing_subscriber::registry().with(layer).init();
}
