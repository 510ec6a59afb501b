//! Programs whose course a test writes in Rust.

use super::lock;
use crate::code_runtime::{CodeLanguage, CodeMisuse, CodeOutcome, CodeRequest, CodeRuntime};
use async_trait::async_trait;
use futures::future::BoxFuture;
use std::collections::VecDeque;
use std::sync::Mutex;

/// What a program does with its bindings.
type Course = Box<dyn FnOnce(CodeRequest) -> BoxFuture<'static, CodeOutcome> + Send>;

/// Scripted programs. One that nobody scripted returns nothing.
#[derive(Default)]
pub struct FakePrograms {
    courses: Mutex<VecDeque<Course>>,
}

impl FakePrograms {
    /// What the next program does. It is dropped when its request is cancelled.
    pub fn runs<F>(&self, course: impl FnOnce(CodeRequest) -> F + Send + 'static)
    where
        F: Future<Output = CodeOutcome> + Send + 'static,
    {
        lock(&self.courses).push_back(Box::new(|request| Box::pin(course(request))));
    }
}

#[async_trait]
impl CodeRuntime for FakePrograms {
    fn language(&self) -> CodeLanguage {
        CodeLanguage::TypeScript
    }

    async fn run(&self, request: CodeRequest) -> Result<CodeOutcome, CodeMisuse> {
        let course = lock(&self.courses).pop_front();
        let Some(course) = course else { return Ok(CodeOutcome::default()) };
        let cancel = request.cancel.clone();
        Ok(cancel.run_until_cancelled(course(request)).await.unwrap_or_default())
    }
}
