//! Files that tell the language servers what we write, and the writer what that broke: one place for all tools that write.

use crate::session::SessionServers;
use async_trait::async_trait;
use services::file_system::{
    EditRequest, FileKind, FileStat, FileSystem, FsError, ReadWindow, Target, TextFile, WindowRequest,
    WriteRequest, Written,
};
use services::language_servers::LanguageServers;
use std::sync::Arc;
use tokio_util::sync::CancellationToken;

/// A file system around another one; what was written is told.
pub struct TellingFiles {
    inner: Arc<dyn FileSystem>,
    servers: Arc<SessionServers>,
}

impl TellingFiles {
    /// Tells `servers` what is written through `inner`.
    pub fn new(inner: Arc<dyn FileSystem>, servers: Arc<SessionServers>) -> Self {
        Self { inner, servers }
    }

    /// Tells of a file that was written, and adds to the result what it broke, when that is known soon.
    async fn told(
        &self,
        path: &std::path::Path,
        mut written: Written,
        cancel: &CancellationToken,
    ) -> Written {
        self.servers.file_changed(path);
        if let Some(findings) = self.servers.after_edit(path, &written.after, cancel).await {
            written.notice = Some(match written.notice {
                Some(notice) => format!("{notice}\n{findings}"),
                None => findings,
            });
        }
        written
    }
}

#[async_trait]
impl FileSystem for TellingFiles {
    async fn resolve(&self, path: &str) -> Result<Target, FsError> {
        self.inner.resolve(path).await
    }

    async fn stat(&self, target: &Target) -> Result<Option<FileStat>, FsError> {
        self.inner.stat(target).await
    }

    async fn read_window(
        &self,
        target: &Target,
        request: WindowRequest,
        cancel: &CancellationToken,
    ) -> Result<ReadWindow, FsError> {
        self.inner.read_window(target, request, cancel).await
    }

    async fn read_text(
        &self,
        target: &Target,
        max_bytes: u64,
        cancel: &CancellationToken,
    ) -> Result<TextFile, FsError> {
        self.inner.read_text(target, max_bytes, cancel).await
    }

    async fn read_bytes(
        &self,
        target: &Target,
        max_bytes: u64,
        cancel: &CancellationToken,
    ) -> Result<Vec<u8>, FsError> {
        self.inner.read_bytes(target, max_bytes, cancel).await
    }

    async fn list_dir(&self, target: &Target) -> Result<Vec<(String, FileKind)>, FsError> {
        self.inner.list_dir(target).await
    }

    async fn write(&self, request: WriteRequest, cancel: &CancellationToken) -> Result<Written, FsError> {
        let path = request.target.key.clone();
        let written = self.inner.write(request, cancel).await?;
        Ok(self.told(&path, written, cancel).await)
    }

    async fn edit(&self, request: EditRequest, cancel: &CancellationToken) -> Result<Written, FsError> {
        let path = request.target.key.clone();
        let written = self.inner.edit(request, cancel).await?;
        Ok(self.told(&path, written, cancel).await)
    }
}
