//! Tool calls as blocks: a heading, what they show, how they end; and the question whether one may run.

use super::page::{Ink, LineLimit, more_lines, span};
use super::text::{added, from_markdown, one_line, plain};
use super::{Block, MAX_LINES, Transcript, block_label, diff};
use agent_client_protocol::v1::schema::{
    Content, ContentBlock, Diff, TerminalId, ToolCall, ToolCallContent, ToolCallId, ToolCallLocation,
    ToolCallStatus, ToolCallUpdate, ToolKind,
};
use serde_json::Value;
use std::path::Path;
use std::time::Duration;

/// Lines shown of a file that was read: the heading says which, and nobody wants all of it here.
const MAX_READ_LINES: usize = 6;
/// A call that took longer says so.
const LONG: Duration = Duration::from_secs(1);
/// Stands before each line of a block.
const INDENT: &str = "  ";
/// Stands before output that came live.
const OUTPUT: &str = "  │ ";

/// What has been shown of a call.
#[derive(Debug)]
pub(super) struct Call {
    title: String,
    kind: ToolKind,
    places: Vec<ToolCallLocation>,
    shown_text: String,
    /// Diffs that came before the call was done: they may be fragments.
    early_diffs: Vec<Diff>,
    shown_changes: Vec<Vec<String>>,
    text_limit: LineLimit,
    pub(super) output_limit: LineLimit,
    terminals: Vec<TerminalId>,
    pub(super) began: Duration,
    ended: bool,
}

impl Call {
    fn new(title: String, kind: ToolKind, began: Duration) -> Self {
        let max_lines = if kind == ToolKind::Read { MAX_READ_LINES } else { MAX_LINES };
        Self {
            title,
            kind,
            places: Vec::new(),
            shown_text: String::new(),
            early_diffs: Vec::new(),
            shown_changes: Vec::new(),
            text_limit: LineLimit::new(max_lines),
            output_limit: LineLimit::new(MAX_LINES),
            terminals: Vec::new(),
            began,
            ended: false,
        }
    }
}

impl Transcript {
    pub(super) fn tool_call(&mut self, call: &ToolCall, now: Duration) {
        let id = &call.tool_call_id;
        if !self.calls.contains_key(id) {
            let mut known = Call::new(one_line(&call.title), call.kind, now);
            known.places.clone_from(&call.locations);
            self.calls.insert(id.clone(), known);
            self.heading(id, &call.locations);
        }
        self.show(id, call.status, &call.content, call.raw_output.as_ref(), now);
    }

    pub(super) fn tool_call_update(&mut self, update: &ToolCallUpdate, now: Duration) {
        let (id, fields) = (&update.tool_call_id, &update.fields);
        let content = fields.content.as_deref().unwrap_or_default();
        let places = fields.locations.as_deref().unwrap_or_default();
        match self.calls.get_mut(id) {
            None => {
                let title = one_line(fields.title.as_deref().unwrap_or("A call that was not announced"));
                let mut call = Call::new(title, fields.kind.unwrap_or_default(), now);
                call.places = places.to_vec();
                self.calls.insert(id.clone(), call);
                self.heading(id, places);
            }
            Some(call) => {
                let title = fields.title.as_deref().map(one_line).filter(|title| *title != call.title);
                if let Some(title) = title {
                    call.title.clone_from(&title);
                    self.enter_call(id);
                    self.page.line(&span(Ink::Dim, format!("{INDENT}→ {title}")));
                } else {
                    self.new_places(id, places, content);
                }
            }
        }
        let status = fields.status.unwrap_or(ToolCallStatus::InProgress);
        self.show(id, status, content, fields.raw_output.as_ref(), now);
    }

    /// Output of a call's terminal, already plain.
    pub(super) fn call_output(&mut self, id: &ToolCallId, output: &str) {
        let Some(call) = self.calls.get_mut(id) else { return };
        let shown = call.output_limit.pass(output);
        if !shown.is_empty() {
            self.enter_call(id);
            self.page.stream(Ink::Plain, OUTPUT, &shown);
        }
    }

    /// The question whether a call may run: all of its command or diff, however long.
    pub(super) fn permission_question(&mut self, update: &ToolCallUpdate, now: Duration) {
        let (id, fields) = (&update.tool_call_id, &update.fields);
        let title = one_line(fields.title.as_deref().unwrap_or("A call"));
        let is_current = self.block == Block::Call(id.clone());
        let call = self
            .calls
            .entry(id.clone())
            .or_insert_with(|| Call::new(title.clone(), fields.kind.unwrap_or_default(), now));
        let mut command =
            fields.raw_input.as_ref().and_then(|input| input.get("command")).and_then(Value::as_str);
        let mut lines = Vec::new();
        for item in fields.content.as_deref().unwrap_or_default() {
            match item {
                ToolCallContent::Diff(item) => {
                    call.shown_changes.push(diff::changes(item.old_text.as_deref(), &item.new_text));
                    lines.push(span(Ink::Bold, format!("{INDENT}{}", relative(&self.cwd, &item.path))));
                    for mut line in diff::lines(item.old_text.as_deref(), &item.new_text) {
                        line.insert(0, (Ink::Plain, INDENT.to_owned()));
                        lines.push(line);
                    }
                }
                ToolCallContent::Content(Content { content, .. }) => {
                    let text = block_text(content);
                    if command.is_some_and(|command| text.trim_end() == plain(command).trim_end()) {
                        command = None;
                        lines.extend(text.lines().map(|line| span(Ink::Bold, format!("{INDENT}$ {line}"))));
                    } else if !is_current || text != call.shown_text {
                        lines.extend(text.lines().map(|line| span(Ink::Plain, format!("{INDENT}{line}"))));
                    }
                }
                _ => {}
            }
        }
        if let Some(command) = command.filter(|command| !command.trim().is_empty()) {
            let command = plain(command);
            lines.extend(command.lines().map(|line| span(Ink::Bold, format!("{INDENT}$ {line}"))));
        }
        self.enter(Block::Other);
        self.page.blank_line();
        self.page.line(&[(Ink::Yellow, "? ".to_owned()), (Ink::Bold, title)]);
        for line in lines {
            self.page.line(&line);
        }
        self.block = Block::Call(id.clone());
    }

    /// Shows what an update adds: text, diffs, terminals, the end.
    fn show(
        &mut self,
        id: &ToolCallId,
        status: ToolCallStatus,
        content: &[ToolCallContent],
        raw_output: Option<&Value>,
        now: Duration,
    ) {
        let is_over = matches!(status, ToolCallStatus::Completed | ToolCallStatus::Failed);
        let mut texts = Vec::new();
        let mut diffs = Vec::new();
        for item in content {
            match item {
                ToolCallContent::Content(Content { content, .. }) => texts.push(block_text(content)),
                ToolCallContent::Diff(diff) => diffs.push(diff.clone()),
                ToolCallContent::Terminal(terminal) => self.attach(id, &terminal.terminal_id),
                _ => {}
            }
        }
        self.show_text(id, &texts.join("\n"), status == ToolCallStatus::Failed);
        let Some(call) = self.calls.get_mut(id) else { return };
        if status == ToolCallStatus::Completed {
            let diffs = if diffs.is_empty() { std::mem::take(&mut call.early_diffs) } else { diffs };
            for diff in &diffs {
                self.show_diff(id, diff);
            }
        } else if !diffs.is_empty() {
            call.early_diffs = diffs;
        }
        if is_over {
            self.end_call(id, status == ToolCallStatus::Failed, raw_output, now);
        }
    }

    fn show_text(&mut self, id: &ToolCallId, snapshot: &str, failed: bool) {
        let Some(call) = self.calls.get_mut(id) else { return };
        if snapshot.trim().is_empty() {
            return;
        }
        let new = added(&call.shown_text, snapshot).unwrap_or(snapshot);
        call.shown_text = snapshot.to_owned();
        if new.is_empty() {
            return;
        }
        let shown = call.text_limit.pass(&format!("{}\n", new.trim_end_matches('\n')));
        if !shown.is_empty() {
            self.enter_call(id);
            self.page.stream(if failed { Ink::Red } else { Ink::Dim }, INDENT, &shown);
        }
    }

    fn show_diff(&mut self, id: &ToolCallId, diff: &Diff) {
        let changes = diff::changes(diff.old_text.as_deref(), &diff.new_text);
        let Some(call) = self.calls.get_mut(id) else { return };
        if changes.is_empty() || call.shown_changes.contains(&changes) {
            return;
        }
        call.shown_changes.push(changes);
        let known_place = call.places.iter().any(|place| place.path == diff.path);
        self.enter_call(id);
        if !known_place {
            self.page.line(&span(Ink::Bold, format!("{INDENT}{}", relative(&self.cwd, &diff.path))));
        }
        let lines = diff::lines(diff.old_text.as_deref(), &diff.new_text);
        for line in lines.iter().take(MAX_LINES) {
            let mut line = line.clone();
            line.insert(0, (Ink::Plain, INDENT.to_owned()));
            self.page.line(&line);
        }
        if lines.len() > MAX_LINES {
            self.page.line(&span(Ink::Dim, format!("{INDENT}{}", more_lines(lines.len() - MAX_LINES))));
        }
    }

    fn attach(&mut self, id: &ToolCallId, terminal_id: &TerminalId) {
        let terminal = self.terminals.entry(terminal_id.clone()).or_default();
        if terminal.call.is_some() {
            return;
        }
        terminal.call = Some(id.clone());
        let waiting = std::mem::take(&mut terminal.unattached);
        let n_unshown = terminal.end.as_ref().map_or(0, |end| end.n_unshown);
        if let Some(call) = self.calls.get_mut(id) {
            call.terminals.push(terminal_id.clone());
        }
        self.call_output(id, &waiting);
        if let Some(call) = self.calls.get_mut(id) {
            call.output_limit.skip(n_unshown);
        }
    }

    fn end_call(&mut self, id: &ToolCallId, failed: bool, raw_output: Option<&Value>, now: Duration) {
        let is_current = self.block == Block::Call(id.clone());
        let Some(call) = self.calls.get_mut(id) else { return };
        if std::mem::replace(&mut call.ended, true) {
            return;
        }
        let n_hidden = call.text_limit.take_hidden() + call.output_limit.take_hidden();
        let elapsed = now.saturating_sub(call.began);
        let exit = call.terminals.iter().find_map(|id| self.terminals.get(id)?.end.clone());
        let exit = exit.map(|end| (end.status, end.success)).or_else(|| raw_exit(raw_output));
        let is_command = call.kind == ToolKind::Execute;
        let message = raw_output.and_then(|raw| raw.get("error")?.get("message")?.as_str());
        let message = message.filter(|_| failed && call.shown_text.is_empty()).map(one_line);
        let is_timed = elapsed >= LONG || is_command && !failed;
        let took = if is_timed { format!(" · {}", seconds(elapsed)) } else { String::new() };
        if n_hidden > 0 {
            self.enter_call(id);
            self.page.line(&span(Ink::Dim, format!("{INDENT}{}", more_lines(n_hidden))));
        }
        let (ink, said) = match (failed, exit) {
            (true, _) => (Ink::Red, format!("✗ {}", message.as_deref().unwrap_or("failed"))),
            (false, Some((status, true))) if is_command => (Ink::Dim, status),
            (false, Some((status, false))) if is_command => (Ink::Red, status),
            (false, _) if elapsed >= LONG || !is_current => (Ink::Green, "✓ done".to_owned()),
            _ => return,
        };
        self.enter_call(id);
        self.page.line(&[(ink, format!("{INDENT}{said}")), (Ink::Dim, took)]);
    }

    /// Places that no line has named yet, and that the content will not name either.
    fn new_places(&mut self, id: &ToolCallId, places: &[ToolCallLocation], content: &[ToolCallContent]) {
        let Some(call) = self.calls.get_mut(id) else { return };
        let new: Vec<&ToolCallLocation> =
            places.iter().filter(|place| !call.places.iter().any(|known| known.path == place.path)).collect();
        if new.is_empty() {
            return;
        }
        let words = places_words(&self.cwd, &new);
        call.places.extend(new.into_iter().cloned());
        let named = content.iter().any(|item| match item {
            ToolCallContent::Content(Content { content, .. }) => block_text(content).contains(&words),
            _ => false,
        });
        if named {
            return;
        }
        self.enter_call(id);
        self.page.line(&span(Ink::Dim, format!("{INDENT}→ {words}")));
    }

    fn heading(&mut self, id: &ToolCallId, places: &[ToolCallLocation]) {
        let Some(call) = self.calls.get(id) else { return };
        let ink = match call.kind {
            ToolKind::Edit | ToolKind::Move => Ink::Green,
            ToolKind::Delete => Ink::Red,
            ToolKind::Execute => Ink::Yellow,
            _ => Ink::Cyan,
        };
        let mut line = vec![(ink, "● ".to_owned()), (Ink::Bold, call.title.clone())];
        let words = places_words(&self.cwd, &places.iter().collect::<Vec<_>>());
        if !words.is_empty() && !call.title.split_whitespace().any(|word| word == words) {
            line.push((Ink::Dim, format!("  {words}")));
        }
        self.enter(Block::Call(id.clone()));
        self.page.line(&line);
    }

    /// Goes on in a call's block; says which, when something else stands between.
    pub(super) fn enter_call(&mut self, id: &ToolCallId) {
        let block = Block::Call(id.clone());
        if self.block == block {
            return;
        }
        self.enter(block);
        let title = self.calls.get(id).map_or_else(String::new, |call| call.title.clone());
        self.page.line(&span(Ink::Dim, format!("● {title} …")));
    }
}

/// `0.3 s`, `2 min 5 s`.
pub(super) fn seconds(elapsed: Duration) -> String {
    let whole = elapsed.as_secs();
    match whole {
        0..10 => format!("{:.1} s", elapsed.as_secs_f64()),
        10..60 => format!("{whole} s"),
        _ => format!("{} min {} s", whole / 60, whole % 60),
    }
}

fn block_text(content: &ContentBlock) -> String {
    match content {
        ContentBlock::Text(text) => from_markdown(&plain(&text.text)),
        other => block_label(other),
    }
}

/// How a command ended, from the agent's own words.
fn raw_exit(raw_output: Option<&Value>) -> Option<(String, bool)> {
    let raw = raw_output?;
    if let Some(code) = raw.get("exitCode").and_then(Value::as_i64) {
        return Some((format!("exit {code}"), code == 0));
    }
    let signal = raw.get("signal").and_then(Value::as_str)?;
    Some((one_line(&format!("killed by {signal}")), false))
}

fn places_words(cwd: &Path, places: &[&ToolCallLocation]) -> String {
    let Some(first) = places.first() else { return String::new() };
    let mut words = relative(cwd, &first.path);
    if let Some(line) = first.line {
        words.push_str(&format!(":{line}"));
    }
    if places.len() > 1 {
        words.push_str(&format!(" and {} more", places.len() - 1));
    }
    words
}

fn relative(cwd: &Path, path: &Path) -> String {
    let shown = path.strip_prefix(cwd).ok().filter(|inside| !inside.as_os_str().is_empty()).unwrap_or(path);
    one_line(&shown.display().to_string())
}
