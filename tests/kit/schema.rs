//! The official JSON schema of the protocol, as the npm SDK ships it: every message of the agent is held against it.
//!
//! `.ci/install-test-clients` installs the SDK. Stricter than the schema itself: a member that the schema does not name is
//! a violation, since a strict client would refuse it and no other would show it.

use super::wire::Line;
use jsonschema::Validator;
use serde_json::{Map, Value, json};
use std::collections::{HashMap, HashSet};
use std::path::PathBuf;
use std::sync::{Arc, Mutex, OnceLock, PoisonError};

/// What the schema has against a message of the agent; `asked` is the method that a response answers.
pub fn violation(line: &Line, asked: Option<&str>) -> Option<String> {
    let (method, role, value) = match line.method() {
        Some(method) if line.is_request() => (method, Role::Request, line.params()),
        Some(method) => (method, Role::Notification, line.params()),
        None => (asked?, Role::Response, line.message.get("result")?),
    };
    // Methods of ours begin with `_`: the protocol leaves them to us.
    if method.starts_with('_') {
        return None;
    }
    let schema = schema();
    let Some(name) = schema.names.get(&(method.to_owned(), role)) else {
        return Some(format!("the schema knows no {role:?} of {method}"));
    };
    let validator = schema.validator(name);
    let error = validator.iter_errors(value).next()?;
    let said: String = error.to_string().chars().take(300).collect();
    Some(format!("{name} at {}: {said}", error.instance_path()))
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Role {
    Request,
    Response,
    Notification,
}

struct Schema {
    definitions: Value,
    /// Name of a definition by method and role.
    names: HashMap<(String, Role), String>,
    validators: Mutex<HashMap<String, Arc<Validator>>>,
}

impl Schema {
    fn validator(&self, name: &str) -> Arc<Validator> {
        let mut validators = self.validators.lock().unwrap_or_else(PoisonError::into_inner);
        let build = || {
            let schema = json!({
                "$schema": "https://json-schema.org/draft/2020-12/schema",
                "$ref": format!("#/$defs/{name}"),
                "$defs": self.definitions,
            });
            Arc::new(jsonschema::validator_for(&schema).unwrap())
        };
        validators.entry(name.to_owned()).or_insert_with(build).clone()
    }
}

fn schema() -> &'static Schema {
    static SCHEMA: OnceLock<Schema> = OnceLock::new();
    SCHEMA.get_or_init(|| {
        let file = file();
        let text = std::fs::read_to_string(&file).unwrap_or_else(|error| {
            panic!("{}: {error}: run `bash .ci/test`, which installs the official SDK", file.display())
        });
        let mut whole: Value = serde_json::from_str(&text).unwrap();
        let mut definitions = whole["$defs"].take();
        close(&mut definitions);
        let names = definitions.as_object().unwrap().iter().filter_map(|(name, definition)| {
            let method = definition["x-method"].as_str()?.to_owned();
            let role = match () {
                () if name.ends_with("Request") => Role::Request,
                () if name.ends_with("Response") => Role::Response,
                () => Role::Notification,
            };
            Some(((method, role), name.clone()))
        });
        Schema { names: names.collect(), definitions, validators: Mutex::default() }
    })
}

/// The schema with the drafts in it: what may be sent without being negotiated is another rule's business.
fn file() -> PathBuf {
    let binary = PathBuf::from(env!("CARGO_BIN_EXE_followspot"));
    let target = binary.parent().and_then(|profile| profile.parent()).unwrap();
    target.join("tools/acpx/node_modules/@agentclientprotocol/sdk/schema/v1/schema.unstable.json")
}

/// Refuses members that no definition names. What another definition extends stays open, and the one that extends it is
/// closed instead.
fn close(definitions: &mut Value) {
    let mut extended = HashSet::new();
    collect_extended(definitions, &mut extended);
    for (name, definition) in definitions.as_object_mut().unwrap() {
        let definition = definition.as_object_mut().unwrap();
        if definition.contains_key("properties") {
            if !extended.contains(name) {
                close_object(definition);
            }
            continue;
        }
        for key in ["oneOf", "anyOf"] {
            let branches = definition.get_mut(key).and_then(Value::as_array_mut);
            branches.into_iter().flatten().filter_map(Value::as_object_mut).for_each(close_object);
        }
    }
}

fn close_object(definition: &mut Map<String, Value>) {
    // A branch that is only a reference is closed where it is defined.
    if definition.contains_key("properties") && !definition.contains_key("additionalProperties") {
        definition.insert("unevaluatedProperties".to_owned(), json!(false));
    }
}

/// Names of definitions that stand in an `allOf`, `oneOf` or `anyOf` beside properties.
fn collect_extended(value: &Value, names: &mut HashSet<String>) {
    match value {
        Value::Object(members) => {
            if members.contains_key("properties") {
                let parts =
                    ["allOf", "oneOf", "anyOf"].iter().filter_map(|key| members.get(*key)?.as_array());
                parts.flatten().for_each(|part| collect_references(part, names));
            }
            members.values().for_each(|value| collect_extended(value, names));
        }
        Value::Array(items) => items.iter().for_each(|value| collect_extended(value, names)),
        _ => {}
    }
}

/// The definition that a part of a composition names, directly or as what it extends itself.
fn collect_references(part: &Value, names: &mut HashSet<String>) {
    let own = part["allOf"].as_array().into_iter().flatten();
    let references = own.chain([part]).filter_map(|part| part["$ref"].as_str());
    names.extend(references.filter_map(|name| name.strip_prefix("#/$defs/")).map(str::to_owned));
}

#[cfg(test)]
mod tests {
    use super::super::wire::Side;
    use super::*;

    fn problem(message: Value) -> Option<String> {
        let line = Line { from: Side::Agent, n_bytes: 0, message, is_json: true };
        violation(&line, Some("session/new"))
    }

    #[test]
    fn a_message_outside_the_schema_is_told() {
        let update = |update: Value| json!({ "jsonrpc": "2.0", "method": "session/update", "params": { "sessionId": "s", "update": update } });
        let call = json!({ "sessionUpdate": "tool_call", "toolCallId": "c", "title": "Read" });
        assert_eq!(problem(update(call.clone())), None);
        let mut wrong = vec![
            update(json!({ "sessionUpdate": "invented" })),
            update(json!({ "sessionUpdate": "tool_call", "title": "Read" })),
            json!({ "jsonrpc": "2.0", "method": "invented/method", "params": {} }),
            json!({ "jsonrpc": "2.0", "id": 1, "result": { "sessionId": "s", "extra": 1 } }),
            json!({ "jsonrpc": "2.0", "id": 1, "method": "fs/read_text_file", "params": { "path": "/a" } }),
        ];
        for (member, value) in [("extra", json!(1)), ("locations", json!([{ "path": "/a", "column": 2 }]))] {
            let mut call = call.clone();
            call[member] = value;
            wrong.push(update(call));
        }
        for message in wrong {
            assert!(problem(message.clone()).is_some(), "{message}");
        }
    }
}
