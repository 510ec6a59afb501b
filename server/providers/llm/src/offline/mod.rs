//! The embedded model: no network, no key, and no language model either.
//!
//! Called by the `Models` implementation. It reads the last prompt and the results of the calls it made since, and
//! answers with real tool calls, so that the whole pipeline can be driven by hand. Each request is answered from its
//! messages alone: a [`walk::Walk`] plays a straight-line script again up to the first call that has no result yet.
//!
//! Source: `decisions.md`, "Models".

mod commands;
mod plain;
mod situation;
mod tour;
mod walk;

use crate::http::Chunks;
use plain::Command;
use protocol::model::{FinishReason, ModelChunk, ModelInfo, ModelRef, ModelRequest, Usage};
use serde_json::Value;
use situation::Situation;
use walk::{Ask, Walk};

/// Name of the provider and of its only model.
pub(crate) const PROVIDER: &str = "offline";

/// Characters of a streamed piece of text, and of arguments.
const PIECE_CHARS: usize = 16;

const HELP: &str = "\
I am Followspot's built-in offline model. I am **not a language model**: I turn a few fixed sentences into real tool \
calls, so that everything else can be tried without a network and without a key.

I understand:

- `read FILE`
- `find TEXT` (or `find \"TEXT\" in FOLDER`)
- `list GLOB`
- `run COMMAND`
- `replace A with B in FILE` (quote A and B when they hold the words `with` or `in`)
- `where is SYMBOL`
- `tour`: a walk through everything, which writes only to a scratch folder
- `/tool NAME {json}`: any tool, with exactly these arguments; several in one prompt run as one batch

To add a real model, do one of these:

- set `DEEPSEEK_API_KEY`, `OPENAI_API_KEY`, `ANTHROPIC_API_KEY` or `OPENROUTER_API_KEY` in the environment
- set `OPENAI_BASE_URL` and `FOLLOWSPOT_MODEL=openai/NAME` for a server that speaks OpenAI's language, or \
`FOLLOWSPOT_MODEL=ollama/NAME`
- put `default = \"provider/model\"` under `[model]` in the configuration file
- run `followspot login`";

const TAIL: &str =
    "\n\n(Offline model, not a language model. `help` tells what I understand and how to add one.)";

/// The one model of this provider.
pub(crate) fn model() -> ModelRef {
    ModelRef { provider: PROVIDER.to_owned(), model: PROVIDER.to_owned() }
}

/// What is known about it.
pub(crate) fn info() -> ModelInfo {
    ModelInfo {
        id: model(),
        display_name: "Offline (not a language model)".to_owned(),
        takes_images: Some(false),
        context_window: None,
        max_output_tokens: None,
        efforts: Vec::new(),
        default_effort: None,
        price: None,
    }
}

/// Answers a request.
pub(crate) fn answer(request: &ModelRequest) -> Chunks {
    let situation = Situation::read(request);
    let ask = decide(&situation);
    Box::pin(futures::stream::iter(chunks(request, &situation, ask).into_iter().map(Ok)))
}

fn decide(situation: &Situation<'_>) -> Ask {
    if let Some(notice) = situation.notice_after_answer() {
        // Passed on, never obeyed: nobody typed it.
        let shown: String = notice.chars().take(500).collect();
        return Ask::say(format!("This came in meanwhile:\n\n{shown}{TAIL}"));
    }
    let mut walk = Walk::new(situation);
    let outcome = match plain::parse(&situation.prompt, situation.pointed_at.as_deref()) {
        Command::Help => return Ask::say(HELP),
        Command::Unusable(complaint) => return Ask::say(format!("{complaint}{TAIL}")),
        Command::Tools(calls) => commands::tools(&mut walk, calls),
        Command::Read { file } => commands::read(&mut walk, &file),
        Command::Find { text, path } => commands::find(&mut walk, &text, path.as_deref()),
        Command::List { glob } => commands::list(&mut walk, &glob),
        Command::Run { command } => commands::run(&mut walk, &command),
        Command::Replace { old, new, file } => commands::replace(&mut walk, &old, &new, &file),
        Command::WhereIs { symbol } => commands::where_is(&mut walk, &symbol),
        Command::Tour => tour::tour(&mut walk),
    };
    match outcome {
        Ok(text) => Ask::say(text + TAIL),
        Err(ask) => ask,
    }
}

/// The answer in small pieces, as a model would stream it.
fn chunks(request: &ModelRequest, situation: &Situation<'_>, ask: Ask) -> Vec<ModelChunk> {
    let mut chunks: Vec<ModelChunk> = pieces(&ask.text).map(ModelChunk::Text).collect();
    let mut n_output_chars = ask.text.chars().count();
    let finish = if ask.calls.is_empty() { FinishReason::Stop } else { FinishReason::ToolCalls };
    for (index, (name, arguments)) in ask.calls.into_iter().enumerate() {
        let arguments = arguments.to_string();
        n_output_chars += name.len() + arguments.chars().count();
        let id = format!("offline_{}", situation.n_calls_before + index + 1);
        chunks.push(ModelChunk::ToolCall { index, id, name, arguments: String::new() });
        chunks.extend(pieces(&arguments).map(|piece| ModelChunk::ToolCall {
            index,
            id: String::new(),
            name: String::new(),
            arguments: piece,
        }));
    }
    // An estimate at four characters a token, the measure used wherever no provider counts.
    let tools = request
        .tools
        .iter()
        .map(|tool| tool.name.len() + tool.description.len() + text_len(&tool.parameters));
    let n_input_chars = request.system.len() + situation.n_chars + tools.sum::<usize>();
    chunks.push(ModelChunk::Usage(Usage {
        input_tokens: tokens(n_input_chars),
        output_tokens: tokens(n_output_chars),
        ..Usage::default()
    }));
    chunks.push(ModelChunk::Finish(finish));
    chunks
}

fn tokens(n_chars: usize) -> u64 {
    u64::try_from(n_chars.div_ceil(4)).unwrap_or(u64::MAX)
}

fn text_len(value: &Value) -> usize {
    value.to_string().len()
}

fn pieces(text: &str) -> impl Iterator<Item = String> {
    let chars: Vec<char> = text.chars().collect();
    let pieces: Vec<String> = chars.chunks(PIECE_CHARS).map(|piece| piece.iter().collect()).collect();
    pieces.into_iter()
}

#[cfg(test)]
mod tests;
