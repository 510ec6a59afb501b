//! The end of a call: the card of its result, or what the model read.

use crate::PresentContext;
use crate::call::{CallView, result_title_words, update};
use crate::card::{Completed, diff, generic, read, search, terminal, web};
use agent_client_protocol::v1::schema::{SessionUpdate, ToolCallStatus, ToolCallUpdateFields};
use protocol::card::{CallCard, ResultCard, WebResult};
use protocol::id::TerminalId;
use protocol::tool::DurableResult;
use serde_json::{Value, json};

/// What the server knows about a result besides the result.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct ResultContext {
    /// The terminal in which the user watched the command live: the client's, or the call's id for a display terminal
    /// that was fed and ended already. `None` on replay and when no terminal came to be.
    pub terminal: Option<TerminalId>,
    /// Both sides of the change, fetched by the hashes of the card; `None` falls back to the card's hunks.
    pub whole_file: Option<WholeText>,
}

/// The full texts of both sides of a change.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct WholeText {
    /// Before; `None` for a new file.
    pub before: Option<String>,
    /// After.
    pub after: String,
}

/// Ends a call: completed or failed, with the content of its card.
///
/// Without a card, or with a terminal card for a call that had none, what the model read is shown. A failed call shows
/// its error whatever the card, unless the card is a generic one. Source: `spec/presentation.md` §4, §5, §8.3.
pub fn present_result(
    ctx: &PresentContext,
    call: &CallView<'_>,
    result: &DurableResult,
    card: Option<&ResultCard>,
    shown: &ResultContext,
) -> SessionUpdate {
    let is_terminal = matches!(call.card, CallCard::Terminal(_));
    let card = card.filter(|card| !result.is_error || matches!(card, ResultCard::Generic(_)));
    let completed = match card {
        Some(ResultCard::Terminal(card)) if is_terminal => {
            terminal::completed(ctx, call.call_id, card, shown)
        }
        Some(ResultCard::Diff(card)) => diff::completed(ctx, card, result, shown.whole_file.as_ref()),
        Some(ResultCard::Search(card)) => search::completed(ctx, card),
        Some(ResultCard::Read(card)) => read::completed(ctx, card),
        Some(ResultCard::Web(card)) => web::completed(card, result),
        Some(ResultCard::Generic(card))
            if !is_terminal || shown.terminal.is_none() && card.content.is_some() =>
        {
            generic::completed(ctx, card.content.as_deref(), result)
        }
        _ if is_terminal => terminal::completed_without_card(ctx, call.call_id, result, shown),
        _ => generic::completed(ctx, None, result),
    };
    let title = card.and_then(title).map(|text| result_title_words(call, text).present(ctx));
    finished(call, result, title, completed)
}

fn finished(
    call: &CallView<'_>,
    result: &DurableResult,
    title: Option<String>,
    completed: Completed,
) -> SessionUpdate {
    let status = if result.is_error { ToolCallStatus::Failed } else { ToolCallStatus::Completed };
    let raw_output = if result.is_error { Some(raw_error(result)) } else { completed.raw_output };
    let fields = ToolCallUpdateFields::new()
        .status(status)
        .title(title)
        .content(completed.content)
        .locations(completed.locations)
        .raw_output(raw_output);
    update(call.call_id, fields, completed.meta)
}

fn title(card: &ResultCard) -> Option<&str> {
    let title = match card {
        ResultCard::Generic(card) => &card.title,
        ResultCard::Terminal(card) => &card.title,
        ResultCard::Diff(card) => &card.title,
        ResultCard::Search(card) => &card.title,
        ResultCard::Read(card) => &card.title,
        ResultCard::Web(WebResult::Search(card)) => &card.title,
        ResultCard::Web(WebResult::Fetch(card)) => &card.title,
    };
    title.as_deref().filter(|title| !title.trim().is_empty())
}

/// The failure as users and tests read it. Source: product decisions, "failures on the wire".
fn raw_error(result: &DurableResult) -> Value {
    let Some(failure) = &result.error else {
        let text = generic::result_text(result);
        return json!({ "error": { "message": text.strip_prefix("Error: ").unwrap_or(&text) } });
    };
    match &failure.info {
        Some(info) => {
            json!({ "error": { "message": failure.message, "name": info.name, "code": info.code } })
        }
        None => json!({ "error": { "message": failure.message } }),
    }
}
