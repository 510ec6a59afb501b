//! People who answer from a script.

use super::{Script, lock};
use crate::approval::Approval;
use crate::questions::{QuestionError, Questions, QuestionsRequest};
use async_trait::async_trait;
use protocol::decision::{PermissionOutcome, PermissionRequest};
use protocol::question::Answer;
use std::sync::Mutex;

/// Answers permission questions from a script; a question beyond it is `Unavailable`.
#[derive(Default)]
pub struct FakeApproval {
    script: Script<PermissionRequest, PermissionOutcome>,
    silent: Mutex<bool>,
}

impl FakeApproval {
    /// Adds an answer to the end of the script.
    pub fn answer(&self, outcome: PermissionOutcome) {
        self.script.push(outcome);
    }

    /// Whether questions are left without an answer for ever.
    pub fn set_silent(&self, silent: bool) {
        *lock(&self.silent) = silent;
    }

    /// Every question that was asked, in order.
    pub fn asked(&self) -> Vec<PermissionRequest> {
        self.script.asked()
    }
}

#[async_trait]
impl Approval for FakeApproval {
    async fn ask(&self, request: PermissionRequest) -> PermissionOutcome {
        let answer = self.script.ask(request);
        if *lock(&self.silent) {
            std::future::pending::<()>().await;
        }
        answer.unwrap_or(PermissionOutcome::Unavailable)
    }
}

/// Answers questions from a script; questions beyond it find nobody.
#[derive(Default)]
pub struct FakeQuestions {
    script: Script<QuestionsRequest, Result<Vec<Answer>, QuestionError>>,
}

impl FakeQuestions {
    /// Adds answers to the end of the script.
    pub fn answer(&self, answers: Result<Vec<Answer>, QuestionError>) {
        self.script.push(answers);
    }

    /// Every request that was made, in order.
    pub fn asked(&self) -> Vec<QuestionsRequest> {
        self.script.asked()
    }
}

#[async_trait]
impl Questions for FakeQuestions {
    async fn ask(&self, request: QuestionsRequest) -> Result<Vec<Answer>, QuestionError> {
        self.script.ask(request).unwrap_or_else(|| {
            Err(QuestionError::NoProvider("nobody answers questions in this test".to_owned()))
        })
    }
}
