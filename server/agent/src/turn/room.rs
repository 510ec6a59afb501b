//! Room in the model's context: made before a request that would nearly fill it, and after the provider refused one.

use super::{Turn, aborted};
use crate::compaction::{Compacted, compact, has_answered_since, is_full, pressure};
use protocol::event::{CompactionReason, SessionEvent, TurnEndReason};
use protocol::id::MessageId;
use services::model::ModelError;
use services::session_store::StoreError;

impl Turn<'_> {
    /// Whether the next request is so close to the model's window that history is compacted first. Asked before anything
    /// is logged that a compaction would make the model forget.
    pub(super) fn is_full(&self) -> bool {
        let core = &self.shared.core;
        // Without a window nothing is measured: it would be done for each step.
        let window = self.shared.models.info(&core.model().0).context_window;
        window.is_some() && {
            let header = core.state().header.unwrap_or_default();
            core.with_records(|records| {
                is_full(pressure(records, &header.0, &header.1), window) && has_answered_since(records)
            })
        }
    }

    /// Compacts, tells the user what could not be as it should, and tells the model again what it must not lose; the step
    /// that follows tells the rest.
    pub(super) async fn make_room(&self, reason: CompactionReason) -> Result<Compacted, StoreError> {
        let compacted = compact(self.shared, reason, "", &self.cancel).await?;
        if let Compacted::Done { unsummarised, .. } = &compacted {
            if let Some(error) = unsummarised {
                self.notice(&format!(
                    "The model could not summarise the earlier conversation ({error}); a plain list of what was asked \
                     and touched stands for it.\n\n"
                ))?;
            }
            self.instruct().await?;
        }
        Ok(compacted)
    }

    /// What follows when the provider says that the request is too long: room is made once, and the next step asks again.
    pub(super) async fn after_overflow(
        &self,
        error: ModelError,
    ) -> Result<Option<TurnEndReason>, StoreError> {
        let failed = |why: &str| TurnEndReason::Error {
            message: format!("{}\n{why}", error.message),
            code: error.kind.code().to_owned(),
        };
        if !self.shared.core.with_records(has_answered_since) {
            let why = "The conversation was compacted and is still too long for the model. Choose a model with a larger \
                       context, or start a new session.";
            return Ok(Some(failed(why)));
        }
        Ok(match self.make_room(CompactionReason::Overflow).await? {
            Compacted::Done { .. } => None,
            Compacted::Cancelled => Some(aborted()),
            Compacted::Nothing => Some(failed("There is nothing left that could be compacted.")),
            Compacted::Failed(why) => Some(failed(&format!("It could not be compacted: {why}"))),
        })
    }

    fn notice(&self, text: &str) -> Result<(), StoreError> {
        let message_id = MessageId::new(format!("msg_{}", self.shared.core.clock().fresh_id()));
        self.shared.core.append(SessionEvent::Notice { text: text.to_owned(), message_id })
    }
}
