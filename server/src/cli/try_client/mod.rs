//! `followspot try`: a small ACP client in the terminal around the real server process.
//!
//! It starts its own executable as the server and speaks to it as an editor would, through the official SDK. It knows
//! nothing of the server's insides. Called by `main` only.
//!
//! In reading order: `mod` starts and ends things; [`conversation`] is the loop; [`client`] the connection;
//! [`server`] the child process; [`terminals`] and [`fs`] what the agent asks of us; [`input`] and [`ask`] what we ask
//! of the person; [`render`] what is shown.

mod ask;
mod client;
mod conversation;
mod fs;
mod input;
mod render;
mod server;
mod terminals;
#[cfg(test)]
mod tests;

use agent_client_protocol::v1::ConnectionTo;
use agent_client_protocol::v1::schema::{ErrorCode, SessionConfigOptionCategory, SessionId};
use agent_client_protocol::{Agent, Client, ConnectTo, Error, Lines, is_incoming_transport_closed};
use client::Offer;
use conversation::{Conversation, Event, Left, Screen};
use input::Input;
use render::{Header, Transcript};
use server::{Ended, Tap};
use std::ffi::OsStr;
use std::io::{self, IsTerminal, Write};
use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::Arc;
use std::time::{Duration, Instant};
use terminals::Terminals;
use tokio::sync::{mpsc, oneshot};

/// Exit code of a wrong use.
const USAGE: u8 = 2;
/// Time for the last messages to leave once the conversation is over.
const LINGER: Duration = Duration::from_secs(2);

/// Shown below the options.
const AFTER_HELP: &str = "\
With a PROMPT: one turn; exit code 0 when the turn ended by itself, 1 otherwise. Without one: a conversation when stdin
is a terminal, else the prompt is read from stdin. Ctrl-C stops the running turn; again, or Ctrl-D, leaves.

  followspot try tour
  followspot try --mode ask replace foo with bar in src/lib.rs
  git diff | followspot try --yes --json";

/// Arguments of `followspot try`.
#[derive(Clone, Debug, Default, clap::Args)]
#[command(after_help = AFTER_HELP)]
pub struct TryArgs {
    /// What to say; several words need no quotes
    #[arg(value_name = "PROMPT")]
    pub prompt: Vec<String>,
    /// Answer every permission question with "allow once"
    #[arg(long, short)]
    pub yes: bool,
    /// Print every message on the wire, both directions, one JSON a line, and nothing else on stdout
    #[arg(long)]
    pub json: bool,
    /// Do not offer to read and write files: the agent uses the disk
    #[arg(long)]
    pub no_fs: bool,
    /// Do not offer terminals: the agent runs commands itself
    #[arg(long)]
    pub no_terminal: bool,
    /// Folder to work in [default: the current one]
    #[arg(long, value_name = "DIR")]
    pub cwd: Option<PathBuf>,
    /// Model to use, as in deepseek/deepseek-v4-flash
    #[arg(long, value_name = "PROVIDER/MODEL")]
    pub model: Option<String>,
    /// Mode to work in: plan, read-only, ask, workspace-write or danger-full-access
    #[arg(long)]
    pub mode: Option<String>,
}

/// What one run wants, once its arguments are understood.
struct Plan {
    /// `None`: turn after turn.
    prompt: Option<String>,
    cwd: PathBuf,
    args: TryArgs,
    colours: bool,
}

/// Runs the command.
pub async fn run(args: TryArgs) -> ExitCode {
    let mut input = match Input::from_process() {
        Ok(input) => input,
        Err(error) => return fail(1, &format!("signals cannot be received: {error}"), &[]),
    };
    let plan = match understand(args, &mut input).await {
        Ok(plan) => plan,
        Err(words) => return fail(USAGE, &words, &[]),
    };
    let program = match std::env::current_exe() {
        Ok(program) => program,
        Err(error) => return fail(1, &format!("this program cannot find itself: {error}"), &[]),
    };
    let started = server::start(&program, &[OsStr::new("acp")], &plan.cwd, tap(plan.args.json));
    let (server, outgoing, incoming) = match started {
        Ok(started) => started,
        Err(error) => return fail(1, &format!("{} could not be started: {error}", program.display()), &[]),
    };
    let screen = screen(plan.args.json);
    let talked = talk(Lines::new(outgoing, incoming), plan, input, screen).await;
    let ended = server.stop().await;
    conclude(talked, &ended)
}

async fn understand(args: TryArgs, input: &mut Input) -> Result<Plan, String> {
    let cwd = match &args.cwd {
        Some(folder) => folder.canonicalize().map_err(|error| format!("{}: {error}", folder.display()))?,
        None => std::env::current_dir().map_err(|error| format!("the current folder: {error}"))?,
    };
    if !cwd.is_dir() {
        return Err(format!("{} is no folder", cwd.display()));
    }
    let prompt = match args.prompt.join(" ") {
        words if !args.prompt.is_empty() => Some(words),
        _ if input.is_terminal() => None,
        _ => Some(input.whole().await?),
    };
    if prompt.as_ref().is_some_and(|words| words.trim().is_empty()) {
        return Err("the prompt is empty".to_owned());
    }
    let colours =
        !args.json && io::stdout().is_terminal() && std::env::var_os("NO_COLOR").is_none_or(|v| v.is_empty());
    Ok(Plan { prompt, cwd, args, colours })
}

/// Connects, opens a session, talks, and ends what was started on this side.
///
/// # Errors
/// The session could not be opened, or the connection broke.
async fn talk(
    transport: impl ConnectTo<Client> + 'static,
    plan: Plan,
    input: Input,
    screen: Screen,
) -> Result<Left, Error> {
    let (sender, events) = mpsc::unbounded_channel();
    let terminals = Arc::new(Terminals::new(plan.cwd.clone(), sender.clone()));
    let (over, was_over) = oneshot::channel();
    let connection = client::connect(transport, terminals.clone(), sender.clone(), async move |connection| {
        let left = converse(connection, plan, input, screen, events, sender).await;
        // The receiver lives for as long as the connection is driven.
        let _ = over.send(left.clone());
        left
    });
    let left = tokio::select! {
        biased;
        connected = connection => connected.and_then(|left| left),
        // A server that does not read its input must not keep us.
        left = lingering(was_over) => left,
    };
    terminals.close().await;
    left
}

/// The result of a conversation, a while after it ended.
async fn lingering(over: oneshot::Receiver<Result<Left, Error>>) -> Result<Left, Error> {
    match over.await {
        Ok(left) => {
            tokio::time::sleep(LINGER).await;
            left
        }
        // The connection broke and says so itself.
        Err(_) => std::future::pending().await,
    }
}

/// Opens a session and talks until somebody leaves.
async fn converse(
    connection: ConnectionTo<Agent>,
    plan: Plan,
    mut input: Input,
    screen: Screen,
    events: mpsc::UnboundedReceiver<Event>,
    sender: mpsc::UnboundedSender<Event>,
) -> Result<Left, Error> {
    let began = Instant::now();
    let (session_id, header) = tokio::select! {
        _ = input.interrupt() => return Ok(Left::ByPerson),
        opened = open(&connection, &plan) => match opened {
            Err(error) if is_incoming_transport_closed(&error) => return Ok(Left::ServerGone),
            opened => opened?,
        },
    };
    let mut transcript = Transcript::new(plan.cwd.clone(), plan.colours, plan.prompt.is_none());
    transcript.header(&header);
    let mut conversation = Conversation {
        connection,
        session_id,
        transcript,
        screen,
        input,
        events,
        sender,
        yes: plan.args.yes,
        began,
        cancelled: None,
    };
    if let Err(left) = conversation.flush() {
        return Ok(left);
    }
    Ok(match &plan.prompt {
        Some(prompt) => conversation.once(prompt).await,
        None => conversation.interactive().await,
    })
}

/// Introduces us, begins a session, and selects the model and the mode that were asked for.
async fn open(connection: &ConnectionTo<Agent>, plan: &Plan) -> Result<(SessionId, Header), Error> {
    let offer = Offer { files: !plan.args.no_fs, terminals: !plan.args.no_terminal, forms: !plan.args.yes };
    let agent = client::initialize(connection, offer).await?.agent_info;
    let session = client::new_session(connection, &plan.cwd).await?;
    let has_options = session.config_options.is_some();
    let mut options = session.config_options.unwrap_or_default();
    let id = &session.session_id;
    if let Some(model) = &plan.args.model {
        options =
            client::select(connection, id, &options, &SessionConfigOptionCategory::Model, model).await?;
    }
    let mut current_mode = session.modes.map(|modes| modes.current_mode_id.0.to_string());
    match &plan.args.mode {
        Some(mode) if has_options => {
            options =
                client::select(connection, id, &options, &SessionConfigOptionCategory::Mode, mode).await?;
        }
        Some(mode) => {
            client::set_mode(connection, id, mode).await?;
            current_mode = Some(mode.clone());
        }
        None => {}
    }
    let (model, mode) = render::model_and_mode(&options);
    let header = Header {
        agent: agent
            .as_ref()
            .map_or_else(|| "An agent without a name".to_owned(), |agent| agent.name.clone()),
        version: agent.map(|agent| agent.version).unwrap_or_default(),
        model,
        mode: mode.or(current_mode),
        cwd: plan.cwd.clone(),
        home: std::env::home_dir(),
        session_id: session.session_id.to_string(),
    };
    Ok((session.session_id, header))
}

/// Says what is left to say, and with which code to exit.
fn conclude(talked: Result<Left, Error>, ended: &Ended) -> ExitCode {
    let how = match ended.status {
        Some(status) => status.to_string(),
        None => "it had to be killed".to_owned(),
    };
    match talked {
        Ok(Left::Done(true)) => ExitCode::SUCCESS,
        Ok(Left::Done(false) | Left::ByPerson | Left::OutputGone) => ExitCode::FAILURE,
        Ok(Left::ServerGone) => {
            fail(1, &format!("the server ended before its time ({how})"), &ended.last_words)
        }
        Ok(Left::Stuck) => fail(1, "the turn did not end after it was cancelled", &ended.last_words),
        Err(error) => {
            let died = !ended.status.is_some_and(|status| status.success());
            let last_words = if died { ended.last_words.as_slice() } else { &[] };
            let mut words = client::words(&error);
            if error.code == ErrorCode::AuthRequired && !words.contains("login") {
                words.push_str("\nA key is stored with: followspot login");
            }
            fail(1, &words, last_words)
        }
    }
}

fn fail(code: u8, words: &str, last_words: &[String]) -> ExitCode {
    let mut transcript = Transcript::new(PathBuf::new(), false, false);
    transcript.failure(&format!("followspot try: {words}"), last_words);
    // Nothing can be said when stderr is gone; the code says it.
    let _ = io::stderr().lock().write_all(transcript.take().as_bytes());
    ExitCode::from(code)
}

fn screen(json: bool) -> Screen {
    let print = |text: &str| {
        let mut stdout = io::stdout().lock();
        stdout.write_all(text.as_bytes())?;
        stdout.flush()
    };
    let ask = |text: &str| io::stderr().lock().write_all(text.as_bytes());
    Screen { transcript: (!json).then(|| Box::new(print) as conversation::Print), questions: Box::new(ask) }
}

/// Prints each message when the wire is what is wanted.
fn tap(json: bool) -> Tap {
    if !json {
        return Arc::new(|_| Ok(()));
    }
    Arc::new(|line| {
        if serde_json::from_str::<serde::de::IgnoredAny>(line).is_err() {
            return writeln!(io::stderr().lock(), "not JSON: {}", render::one_line(line));
        }
        let mut stdout = io::stdout().lock();
        writeln!(stdout, "{line}")?;
        stdout.flush()
    })
}
