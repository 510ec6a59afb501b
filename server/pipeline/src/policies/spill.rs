//! Oversized results: the whole text goes to a file, the model gets its ends and where the rest is.
//!
//! Source: `spec/tools-files-shell.md` §0.5.

use crate::call::PendingCall;
use crate::policy::{Policy, PostNext};
use crate::programs::SubCallLog;
use async_trait::async_trait;
use protocol::content::ContentBlock;
use protocol::decision::{PostDecision, PostVerdict};
use protocol::id::{CallId, SessionId};
use protocol::tool::{Outcome, ToolFailure};
use services::spill::{Spill, SpillRequest};

/// Text that a result may carry inline, in bytes of UTF-8.
pub const MAX_INLINE_BYTES: usize = 50_000;

/// Stands between head and tail.
const CUT: &str = "\n…\n";

/// Bounds what a result carries inline. The file tool that reads pages is left alone: it has bounds of its own.
pub struct SpillPolicy {
    /// Bytes of UTF-8 that stay inline.
    pub max_inline_bytes: usize,
}

impl Default for SpillPolicy {
    fn default() -> Self {
        Self { max_inline_bytes: MAX_INLINE_BYTES }
    }
}

#[async_trait]
impl Policy for SpillPolicy {
    fn name(&self) -> &str {
        "spill"
    }

    async fn post_execute(
        &self,
        call: &PendingCall,
        outcome: &Outcome,
        next: PostNext<'_>,
    ) -> Result<PostDecision, ToolFailure> {
        let mut decision = next.run().await?;
        if !call.is_top_level() || call.execution.name == "read" {
            return Ok(decision);
        }
        let content = match &decision.verdict {
            PostVerdict::Accept => &outcome.content,
            PostVerdict::AcceptContent(content) => content,
            PostVerdict::AcceptValue(_) | PostVerdict::Block(_) => return Ok(decision),
        };
        let spill = call.session.services.spill.as_ref();
        let execution = &call.execution;
        let fitted = fit(
            spill,
            content,
            self.max_inline_bytes,
            &execution.session_id,
            &execution.call_id,
            &format!("{}.txt", execution.name),
        )
        .await;
        if let Some(fitted) = fitted {
            decision.verdict = PostVerdict::AcceptContent(fitted);
        }
        Ok(decision)
    }

    async fn log_sub_call(
        &self,
        log: &SubCallLog<'_>,
        content: &[ContentBlock],
    ) -> Result<Option<Vec<ContentBlock>>, ToolFailure> {
        let session = &log.parent.session;
        let spill = session.services.spill.as_ref();
        let name = format!("{}.txt", log.name);
        Ok(fit(spill, content, self.max_inline_bytes, &session.session_id, log.call_id, &name).await)
    }
}

/// Content that fits, when `content` is text only and does not; `None` keeps it as it is. A failed save keeps it too.
///
/// Also used for the logged copy of a program's sub-results.
pub async fn fit(
    spill: &dyn Spill,
    content: &[ContentBlock],
    max_inline_bytes: usize,
    session_id: &SessionId,
    call_id: &CallId,
    suggested_name: &str,
) -> Option<Vec<ContentBlock>> {
    let texts: Vec<&str> = content.iter().map(ContentBlock::as_text).collect::<Option<_>>()?;
    let n_bytes: usize = texts.iter().map(|text| text.len()).sum();
    if n_bytes <= max_inline_bytes {
        return None;
    }
    let whole = texts.join("\n");
    let request = SpillRequest {
        session_id: session_id.clone(),
        call_id: call_id.clone(),
        suggested_name: suggested_name.to_owned(),
        content: whole.clone(),
    };
    let spilled = match spill.save_text(request).await {
        Ok(spilled) => spilled,
        Err(error) => {
            tracing::warn!(%call_id, %error, "an oversized result could not be spilled and stays inline");
            return None;
        }
    };
    let notice = |n_omitted: usize| {
        format!(
            "\n\n(Omitted {n_omitted} bytes. The whole text is in {}. {})",
            spilled.path.display(),
            spilled.retrieval_hint
        )
    };
    // The longest the notice can get; what is left is split between head and tail.
    let room = max_inline_bytes.checked_sub(notice(whole.len()).len() + CUT.len())?;
    let head = &whole[..whole.floor_char_boundary(room / 2)];
    let tail = &whole[whole.ceil_char_boundary(whole.len() - room / 2)..];
    let n_omitted = whole.len() - head.len() - tail.len();
    Some(vec![ContentBlock::text(format!("{head}{CUT}{tail}{}", notice(n_omitted)))])
}
