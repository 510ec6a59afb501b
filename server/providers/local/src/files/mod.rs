//! The session's files on the disk.
//!
//! [`LocalFileSystem`] is the `FileSystem` service without an editor. Its parts are public, because the file system that
//! works through an editor resolves, stats, fences and falls back with the same functions: [`resolve_in`],
//! [`stat_now`], [`check_fence`], [`locked`], [`write_now`], [`edit_now`] and the readers. The `*_now` functions block;
//! call them on a blocking thread, for instance through [`blocking`].

mod commit;
mod error;
mod fence;
mod lock;
mod read;
mod resolve;
mod write;

pub use error::{aborted, blocking, io_error};
pub use fence::check_fence;
pub use lock::locked;
pub use read::{list_dir_now, read_bytes_now, read_text_now, read_window_now, stat_now};
pub use resolve::resolve_in;
pub use write::{edit_now, write_now};

use async_trait::async_trait;
use services::file_system::{
    EditRequest, FileKind, FileStat, FileSystem, FsError, ReadWindow, Target, TextFile, WindowRequest,
    WriteRequest, Written,
};
use std::path::PathBuf;
use tokio_util::sync::CancellationToken;

/// Files on the disk, seen from one session's folder.
#[derive(Clone, Debug)]
pub struct LocalFileSystem {
    cwd: PathBuf,
}

impl LocalFileSystem {
    /// Files seen from `cwd`, absolute.
    pub fn new(cwd: PathBuf) -> Self {
        Self { cwd }
    }
}

#[async_trait]
impl FileSystem for LocalFileSystem {
    async fn resolve(&self, path: &str) -> Result<Target, FsError> {
        let cwd = self.cwd.clone();
        let path = path.to_owned();
        blocking(move || resolve_in(&cwd, &path)).await
    }

    async fn stat(&self, target: &Target) -> Result<Option<FileStat>, FsError> {
        let target = target.clone();
        blocking(move || stat_now(&target)).await
    }

    async fn read_window(
        &self,
        target: &Target,
        request: WindowRequest,
        cancel: &CancellationToken,
    ) -> Result<ReadWindow, FsError> {
        let (target, cancel) = (target.clone(), cancel.clone());
        blocking(move || read_window_now(&target, request, &cancel)).await
    }

    async fn read_text(
        &self,
        target: &Target,
        max_bytes: u64,
        cancel: &CancellationToken,
    ) -> Result<TextFile, FsError> {
        let (target, cancel) = (target.clone(), cancel.clone());
        blocking(move || read_text_now(&target, max_bytes, &cancel)).await
    }

    async fn read_bytes(
        &self,
        target: &Target,
        max_bytes: u64,
        cancel: &CancellationToken,
    ) -> Result<Vec<u8>, FsError> {
        let (target, cancel) = (target.clone(), cancel.clone());
        blocking(move || read_bytes_now(&target, max_bytes, &cancel)).await
    }

    async fn list_dir(&self, target: &Target) -> Result<Vec<(String, FileKind)>, FsError> {
        let target = target.clone();
        blocking(move || list_dir_now(&target)).await
    }

    async fn write(&self, request: WriteRequest, cancel: &CancellationToken) -> Result<Written, FsError> {
        let token = cancel.clone();
        let target = request.target.clone();
        locked(target, cancel, move |target| write_now(&WriteRequest { target, ..request }, &token)).await
    }

    async fn edit(&self, request: EditRequest, cancel: &CancellationToken) -> Result<Written, FsError> {
        let token = cancel.clone();
        let target = request.target.clone();
        locked(target, cancel, move |target| edit_now(&EditRequest { target, ..request }, &token)).await
    }
}

#[cfg(test)]
mod byte_tests;
#[cfg(test)]
mod escape_tests;
#[cfg(test)]
mod tests;
