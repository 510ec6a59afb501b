//! What a person reads: each event of the conversation turned into lines, in the order in which they came.
//!
//! [`Transcript`] is pure: events and times go in, text comes out. It is used by the conversation, prints nothing
//! itself, asks nothing, and only ever adds lines.

mod call;
mod diff;
mod header;
mod page;
mod text;

pub use header::{Header, find_option, model_and_mode};
pub use text::one_line;

use super::ask::{Field, FieldKind};
use agent_client_protocol::v1::schema::{
    AvailableCommand, CompactionStatus, ContentBlock, Cost, CreateElicitationRequest, ElicitationScope,
    EmbeddedResourceResource, MessageId, Plan, PlanEntry, PlanEntryStatus, RequestPermissionRequest,
    SessionUpdate, StopReason, TerminalId, ToolCallId, UsageUpdate,
};
use call::Call;
use page::{Ink, Page, span};
use std::collections::HashMap;
use std::path::PathBuf;
use std::time::Duration;

/// Lines shown of anything that may be long.
const MAX_LINES: usize = 40;
/// Bytes of output kept for a terminal that no call has shown yet.
const MAX_UNATTACHED: usize = 64 << 10;

/// Who wrote the last line.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
enum Block {
    #[default]
    Nothing,
    /// A message of the agent; another one is set apart.
    Message(Option<MessageId>),
    Thought(Option<MessageId>),
    Call(ToolCallId),
    Other,
}

/// How a terminal ended.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct TerminalEnd {
    /// Its exit code or signal, in words.
    pub status: String,
    /// Whether that is a success.
    pub success: bool,
    /// Lines of output that were not handed over.
    pub n_unshown: usize,
}

/// A terminal that the client runs, as far as the transcript knows it.
#[derive(Debug, Default)]
struct Terminal {
    call: Option<ToolCallId>,
    unattached: String,
    plain: text::Plain,
    end: Option<TerminalEnd>,
}

/// The conversation as lines.
#[derive(Debug)]
pub struct Transcript {
    page: Page,
    cwd: PathBuf,
    block: Block,
    calls: HashMap<ToolCallId, Call>,
    terminals: HashMap<TerminalId, Terminal>,
    words: text::Plain,
    plan: Vec<PlanEntry>,
    mode: Option<String>,
    usage: Option<UsageUpdate>,
    commands: Vec<AvailableCommand>,
    show_commands: bool,
}

impl Transcript {
    /// An empty transcript of a session in `cwd`. The list of commands is worth a line only where one can be typed.
    pub fn new(cwd: PathBuf, colours: bool, show_commands: bool) -> Self {
        Self {
            page: Page::new(colours),
            cwd,
            block: Block::default(),
            calls: HashMap::new(),
            terminals: HashMap::new(),
            words: text::Plain::default(),
            plan: Vec::new(),
            mode: None,
            usage: None,
            commands: Vec::new(),
            show_commands,
        }
    }

    /// Takes what is to be printed.
    pub fn take(&mut self) -> String {
        self.page.take()
    }

    /// Shows who is there.
    pub fn header(&mut self, header: &Header) {
        self.mode.clone_from(&header.mode);
        for line in header.lines() {
            self.page.line(&line);
        }
        self.page.blank_line();
    }

    /// The answer begins after what the person typed.
    pub fn prompted(&mut self) {
        self.block = Block::Nothing;
    }

    /// Shows an update. `now` is any clock that only goes forward.
    pub fn update(&mut self, update: &SessionUpdate, now: Duration) {
        match update {
            SessionUpdate::AgentMessageChunk(chunk) => {
                self.words(Block::Message(chunk.message_id.clone()), &chunk.content);
            }
            SessionUpdate::AgentThoughtChunk(chunk) => {
                self.words(Block::Thought(chunk.message_id.clone()), &chunk.content);
            }
            SessionUpdate::ToolCall(call) => self.tool_call(call, now),
            SessionUpdate::ToolCallUpdate(update) => self.tool_call_update(update, now),
            SessionUpdate::Plan(plan) => self.plan(plan),
            SessionUpdate::AvailableCommandsUpdate(update) => {
                self.available_commands(&update.available_commands)
            }
            SessionUpdate::CurrentModeUpdate(update) => self.mode(&update.current_mode_id.0),
            SessionUpdate::ConfigOptionUpdate(update) => {
                if let (_, Some(mode)) = model_and_mode(&update.config_options) {
                    self.mode(&mode);
                }
            }
            SessionUpdate::UsageUpdate(usage) => self.usage = Some(usage.clone()),
            SessionUpdate::Notice(notice) => {
                self.enter(Block::Other);
                let more = notice.description.as_ref().map(|more| format!(" — {more}")).unwrap_or_default();
                let line = text::one_line(&format!("{}{more}", notice.title));
                self.page.line(&[(Ink::Yellow, "! ".to_owned()), (Ink::Plain, line)]);
            }
            SessionUpdate::CompactionUpdate(update) => {
                let said = match update.status {
                    CompactionStatus::InProgress => "Making room in the context …",
                    CompactionStatus::Completed => "The context was compacted.",
                    _ => "The context could not be compacted.",
                };
                self.remark(said);
            }
            // The person's own words, the title, and what later versions add: nothing to read here.
            _ => {}
        }
    }

    /// Shows output of a terminal under the call that has it.
    pub fn terminal_output(&mut self, id: &TerminalId, output: &str) {
        let terminal = self.terminals.entry(id.clone()).or_default();
        let output = terminal.plain.push(output);
        match terminal.call.clone() {
            Some(call) => self.call_output(&call, &output),
            None => {
                let room = MAX_UNATTACHED.saturating_sub(terminal.unattached.len());
                terminal.unattached.push_str(&output[..output.floor_char_boundary(room)]);
            }
        }
    }

    /// Notes how a terminal ended; shown when its call ends.
    pub fn terminal_ended(&mut self, id: &TerminalId, end: TerminalEnd) {
        let terminal = self.terminals.entry(id.clone()).or_default();
        if let Some(call) = terminal.call.as_ref().and_then(|call| self.calls.get_mut(call)) {
            call.output_limit.skip(end.n_unshown);
        }
        terminal.end = Some(end);
    }

    /// Shows a permission question with all there is to judge it by.
    pub fn permission(&mut self, request: &RequestPermissionRequest, now: Duration) {
        self.permission_question(&request.tool_call, now);
    }

    /// The question was answered: what the call does from now on is its own time.
    pub fn permission_answered(&mut self, request: &RequestPermissionRequest, now: Duration) {
        if let Some(call) = self.calls.get_mut(&request.tool_call.tool_call_id) {
            call.began = now;
        }
    }

    /// Says that a question was answered without asking.
    pub fn allowed_unasked(&mut self, request: &RequestPermissionRequest) {
        let id = &request.tool_call.tool_call_id;
        if self.calls.contains_key(id) {
            self.enter_call(id);
            self.page.line(&span(Ink::Dim, "  allowed by --yes"));
        } else {
            let title = request.tool_call.fields.title.as_deref().unwrap_or("a call");
            self.remark(&format!("Allowed by --yes: {title}"));
        }
    }

    /// Shows what a form is about.
    pub fn form(&mut self, request: &CreateElicitationRequest) {
        self.enter(Block::Other);
        self.page.blank_line();
        let message = text::plain(&request.message);
        for (at, line) in message.lines().enumerate() {
            let mark = if at == 0 { "? " } else { "  " };
            self.page.line(&[(Ink::Yellow, mark.to_owned()), (Ink::Bold, line.to_owned())]);
        }
        if let ElicitationScope::Session(scope) = request.scope()
            && let Some(id) = scope.tool_call_id.as_ref().filter(|id| self.calls.contains_key(id))
        {
            self.block = Block::Call(id.clone());
        }
    }

    /// Shows a field of a form: what it asks and what can be chosen. `known` is what the form itself has said.
    pub fn field(&mut self, field: &Field, known: &str) {
        let new = [field.title.as_str(), field.description.as_str()];
        let new: Vec<&str> =
            new.into_iter().filter(|words| !words.is_empty() && !known.contains(words)).collect();
        let words = text::one_line(&new.join(": "));
        let gap = if words.is_empty() { "" } else { "  " };
        self.page.line(&[(Ink::Bold, format!("  {words}{gap}")), (Ink::Dim, format!("({})", field.hint()))]);
        if let FieldKind::One(choices) | FieldKind::Many(choices) = &field.kind {
            for (index, choice) in choices.iter().enumerate() {
                self.choice(&(index + 1).to_string(), &choice.label);
            }
        }
    }

    /// Shows a line that is below what it belongs to: a choice, a hint.
    pub fn choice(&mut self, key: &str, label: &str) {
        let label = text::one_line(label);
        self.page.line(&[(Ink::Yellow, format!("  [{key}] ")), (Ink::Plain, label)]);
    }

    /// Shows a remark on a question.
    pub fn aside(&mut self, words: &str) {
        self.page.line(&span(Ink::Dim, text::one_line(words)));
    }

    /// Shows a remark of this client.
    pub fn remark(&mut self, words: &str) {
        self.enter(Block::Other);
        self.page.line(&span(Ink::Dim, text::one_line(words)));
    }

    /// Shows that something went wrong, with details below.
    pub fn failure(&mut self, words: &str, details: &[String]) {
        self.enter(Block::Other);
        self.page.line(&span(Ink::Red, text::plain(words)));
        for detail in details {
            self.page.line(&span(Ink::Dim, format!("  {}", text::plain(detail))));
        }
    }

    /// Asks for the next prompt.
    pub fn ask_for_prompt(&mut self) {
        self.page.blank_line();
        self.ask_for("> ");
    }

    /// Asks for words without ending the line.
    pub fn ask_for(&mut self, words: &str) {
        self.page.end_line();
        self.page.stream(Ink::Yellow, "", words);
    }

    /// The line that [`Self::ask_for`] began was answered. A terminal has shown the answer; a pipe has not.
    pub fn answered(&mut self, answer: &str, shown: bool) {
        if shown {
            self.page.line_was_ended();
        } else {
            self.page.stream(Ink::Plain, "", &format!("{}\n", text::one_line(answer)));
        }
    }

    /// Shows how the turn ended.
    pub fn turn_ended(&mut self, reason: StopReason, elapsed: Duration) {
        let (ink, words) = match reason {
            StopReason::EndTurn => (Ink::Dim, "done"),
            StopReason::Cancelled => (Ink::Yellow, "cancelled"),
            StopReason::MaxTokens => (Ink::Red, "stopped: the answer reached the model's limit of tokens"),
            StopReason::MaxTurnRequests => (Ink::Red, "stopped: too many steps in one turn"),
            StopReason::Refusal => (Ink::Red, "refused"),
            _ => (Ink::Red, "stopped"),
        };
        self.page.blank_line();
        let mut line =
            vec![(ink, format!("— {words}")), (Ink::Dim, format!(" · {}", call::seconds(elapsed)))];
        if let Some(usage) = &self.usage {
            line.push((Ink::Dim, format!(" · {}", usage_words(usage))));
        }
        self.page.line(&line);
        self.block = Block::Nothing;
    }

    fn words(&mut self, block: Block, content: &ContentBlock) {
        if self.block != block {
            self.words = text::Plain::default();
        }
        let (ink, prefix) =
            if matches!(block, Block::Thought(_)) { (Ink::Dim, "┊ ") } else { (Ink::Plain, "") };
        match content {
            ContentBlock::Text(words) => {
                let words = self.words.push(&words.text);
                if words.is_empty() {
                    return;
                }
                self.enter(block);
                self.page.stream(ink, prefix, &words);
            }
            other => {
                self.enter(block);
                self.page.line(&span(Ink::Dim, block_label(other)));
            }
        }
    }

    fn plan(&mut self, plan: &Plan) {
        if plan.entries == self.plan {
            return;
        }
        self.plan.clone_from(&plan.entries);
        // The call that changes the plan goes on below it.
        if !matches!(self.block, Block::Call(_)) {
            self.enter(Block::Other);
        }
        let n_done = plan.entries.iter().filter(|entry| entry.status == PlanEntryStatus::Completed).count();
        self.page.line(&span(Ink::Bold, format!("Plan {n_done}/{}", plan.entries.len())));
        for entry in &plan.entries {
            let (mark, ink) = match entry.status {
                PlanEntryStatus::Completed => ("[x]", Ink::Dim),
                PlanEntryStatus::InProgress => ("[>]", Ink::Cyan),
                _ => ("[ ]", Ink::Plain),
            };
            self.page.line(&span(ink, format!("  {mark} {}", text::one_line(&entry.content))));
        }
    }

    fn available_commands(&mut self, commands: &[AvailableCommand]) {
        if !self.show_commands || commands == self.commands {
            return;
        }
        self.commands = commands.to_vec();
        let names: Vec<String> = commands.iter().map(|command| format!("/{}", command.name)).collect();
        if !names.is_empty() {
            self.remark(&format!("Commands: {}", names.join(" ")));
        }
    }

    fn mode(&mut self, mode: &str) {
        if self.mode.as_deref() != Some(mode) {
            self.mode = Some(mode.to_owned());
            self.remark(&format!("Mode: {mode}"));
        }
    }

    /// Begins a block, or goes on in it. Words are set apart by an empty line.
    fn enter(&mut self, block: Block) {
        if self.block == block {
            return;
        }
        let is_words = |block: &Block| matches!(block, Block::Message(_) | Block::Thought(_));
        let before = std::mem::replace(&mut self.block, block);
        if before != Block::Nothing && (is_words(&before) || is_words(&self.block)) {
            self.page.blank_line();
        }
    }
}

/// Content that is not text, in a few words.
fn block_label(content: &ContentBlock) -> String {
    match content {
        ContentBlock::Text(words) => text::plain(&words.text),
        ContentBlock::Image(image) => {
            format!("[image {}, {} bytes of base64]", image.mime_type, image.data.len())
        }
        ContentBlock::Audio(audio) => {
            format!("[audio {}, {} bytes of base64]", audio.mime_type, audio.data.len())
        }
        ContentBlock::ResourceLink(link) => text::one_line(&format!("[{} {}]", link.name, link.uri)),
        ContentBlock::Resource(resource) => match &resource.resource {
            EmbeddedResourceResource::TextResourceContents(contents) => text::plain(&contents.text),
            EmbeddedResourceResource::BlobResourceContents(contents) => {
                text::one_line(&format!("[{}]", contents.uri))
            }
            _ => "[resource]".to_owned(),
        },
        _ => "[content of a kind that is not shown here]".to_owned(),
    }
}

fn usage_words(usage: &UsageUpdate) -> String {
    let mut words = format!("{} of {} tokens", grouped(usage.used), grouped(usage.size));
    if let Some(Cost { amount, currency, .. }) = &usage.cost {
        let digits = if *amount < 0.01 { 4 } else { 2 };
        words.push_str(&format!(" · {amount:.digits$} {currency}"));
    }
    words
}

/// `12 345`.
fn grouped(number: u64) -> String {
    let digits = number.to_string();
    let mut grouped = String::new();
    for (at, digit) in digits.chars().enumerate() {
        if at > 0 && (digits.len() - at).is_multiple_of(3) {
            grouped.push(' ');
        }
        grouped.push(digit);
    }
    grouped
}

#[cfg(test)]
mod tests;
