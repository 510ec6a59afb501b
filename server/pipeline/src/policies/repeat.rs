//! A word to a model that makes the same call again and again. Never blocks.
//!
//! Source: `spec/runtime.md` §5.4.

use crate::call::PendingCall;
use crate::policy::{Policy, PostNext};
use async_trait::async_trait;
use protocol::content::ContentBlock;
use protocol::decision::PostDecision;
use protocol::id::{MessageId, SessionId};
use protocol::message::{ContextForm, MessageSource, UserMessage};
use protocol::tool::{Outcome, ToolFailure};
use serde_json::Value;
use std::collections::HashMap;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::sync::{Mutex, PoisonError};

/// Counts of equal calls in a row at which something is said.
const AT: [u32; 3] = [3, 5, 8];
/// Longest arguments that are quoted, in characters.
const MAX_QUOTED_CHARS: usize = 500;

/// Counts equal calls in a row, by session.
#[derive(Default)]
pub struct RepeatReminder {
    /// Fingerprint of the last call and how often it came in a row.
    last: Mutex<HashMap<SessionId, (u64, u32)>>,
}

impl RepeatReminder {
    fn count(&self, call: &PendingCall) -> u32 {
        let mut hasher = DefaultHasher::new();
        call.execution.name.hash(&mut hasher);
        hash_sorted(&call.execution.arguments, &mut hasher);
        let fingerprint = hasher.finish();
        let mut last = self.last.lock().unwrap_or_else(PoisonError::into_inner);
        let entry = last.entry(call.execution.session_id.clone()).or_insert((fingerprint, 0));
        if entry.0 != fingerprint {
            *entry = (fingerprint, 0);
        }
        entry.1 += 1;
        entry.1
    }
}

#[async_trait]
impl Policy for RepeatReminder {
    fn name(&self) -> &str {
        "repeat-reminder"
    }

    async fn post_execute(
        &self,
        call: &PendingCall,
        _outcome: &Outcome,
        next: PostNext<'_>,
    ) -> Result<PostDecision, ToolFailure> {
        let mut decision = next.run().await?;
        if call.is_top_level() {
            let count = self.count(call);
            if AT.contains(&count) {
                decision.additional_contexts.push(UserMessage {
                    id: MessageId::new(format!("msg_{}", call.session.services.clock.fresh_id())),
                    content: vec![ContentBlock::text(reminder(call, count))],
                    source: MessageSource::Plugin {
                        plugin: "repeat-reminder".to_owned(),
                        form: ContextForm::Notice,
                    },
                });
            }
        }
        Ok(decision)
    }

    fn session_closed(&self, session_id: &SessionId) {
        self.last.lock().unwrap_or_else(PoisonError::into_inner).remove(session_id);
    }
}

fn reminder(call: &PendingCall, count: u32) -> String {
    if count == AT[0] {
        return format!(
            "You have made the same call {count} times in a row. If it does not help, change something."
        );
    }
    let arguments = call.execution.arguments.to_string();
    let quoted: String = arguments.chars().take(MAX_QUOTED_CHARS).collect();
    let cut = if quoted.len() < arguments.len() { "…" } else { "" };
    format!(
        "You have called {} {count} times in a row with the same arguments: {quoted}{cut}\nThe result will not change by itself. Try another way, or tell the user what is in the way.",
        call.execution.name
    )
}

/// Hashes a value so that the order of an object's keys does not matter.
fn hash_sorted(value: &Value, hasher: &mut DefaultHasher) {
    match value {
        Value::Object(fields) => {
            let mut keys: Vec<&String> = fields.keys().collect();
            keys.sort_unstable();
            (0_u8, keys.len()).hash(hasher);
            for key in keys {
                key.hash(hasher);
                hash_sorted(&fields[key], hasher);
            }
        }
        Value::Array(items) => {
            (1_u8, items.len()).hash(hasher);
            for item in items {
                hash_sorted(item, hasher);
            }
        }
        scalar => (2_u8, scalar.to_string()).hash(hasher),
    }
}
