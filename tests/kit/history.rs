//! What both wire formats demand of a history; providers refuse a request that breaks it.

use serde_json::Value;
use std::collections::BTreeSet;

/// What is wrong with the messages of a request, in either format.
pub fn history_faults(request: &Value) -> Vec<String> {
    let messages = request["messages"].as_array().cloned().unwrap_or_default();
    let mut faults = if request.get("system").is_some() { blocks(&messages) } else { chat(&messages) };
    if messages.is_empty() {
        faults.push("no message".to_owned());
    }
    faults
}

/// Chat completions: right after an answer with calls, one result for each, and no result elsewhere.
fn chat(messages: &[Value]) -> Vec<String> {
    let mut faults = Vec::new();
    let mut open = BTreeSet::new();
    for (at, message) in messages.iter().enumerate() {
        if message["role"] == "tool" {
            let id = message["tool_call_id"].to_string();
            if !open.remove(&id) {
                faults.push(format!("message {at}: a result of {id}, which is not open"));
            }
            continue;
        }
        if !open.is_empty() {
            faults.push(format!("message {at}: {open:?} has no result"));
        }
        open = ids(message["tool_calls"].as_array(), "id");
        if message["role"] == "assistant" && open.is_empty() && is_empty(&message["content"]) {
            faults.push(format!("message {at}: an answer without content"));
        }
    }
    if !open.is_empty() {
        faults.push(format!("at the end: {open:?} has no result"));
    }
    faults
}

/// Messages: roles alternate from the user on, and the message after calls begins with exactly their results.
fn blocks(messages: &[Value]) -> Vec<String> {
    let mut faults = Vec::new();
    let mut open = BTreeSet::new();
    for (at, message) in messages.iter().enumerate() {
        let role = if at % 2 == 0 { "user" } else { "assistant" };
        if message["role"] != role {
            faults.push(format!("message {at}: not of the {role}"));
        }
        let parts = message["content"].as_array();
        let of_kind = |kind: &str| {
            let parts = parts.into_iter().flatten().filter(|part| part["type"] == *kind);
            parts.cloned().collect::<Vec<_>>()
        };
        if is_empty(&message["content"]) {
            faults.push(format!("message {at}: without content"));
        }
        let results = ids(Some(&of_kind("tool_result")), "tool_use_id");
        if results != open {
            faults.push(format!("message {at}: results of {results:?}, calls {open:?}"));
        }
        open = ids(Some(&of_kind("tool_use")), "id");
    }
    if !open.is_empty() {
        faults.push(format!("at the end: {open:?} has no result"));
    }
    faults
}

fn ids(items: Option<&Vec<Value>>, name: &str) -> BTreeSet<String> {
    items.into_iter().flatten().map(|item| item[name].to_string()).collect()
}

fn is_empty(content: &Value) -> bool {
    match content {
        Value::String(text) => text.is_empty(),
        Value::Array(parts) => parts.is_empty(),
        _ => true,
    }
}
