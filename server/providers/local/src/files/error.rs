//! From the system's errors to the file service's, and the way onto a blocking thread.

use services::file_system::{FsError, FsErrorKind};
use std::io::{Error, ErrorKind};
use std::path::Path;
use tokio_util::sync::CancellationToken;

/// The failure for a system error met while doing something (`verb`, for instance `read`) to a path.
pub fn io_error(verb: &str, path: &Path, error: &Error) -> FsError {
    let path = path.display();
    match error.kind() {
        ErrorKind::NotFound => FsError::new(FsErrorKind::NotFound, format!("{path} does not exist")),
        ErrorKind::NotADirectory => {
            FsError::new(FsErrorKind::NotFound, format!("{path} does not exist: a parent of it is a file"))
        }
        ErrorKind::PermissionDenied | ErrorKind::ReadOnlyFilesystem => FsError::new(
            FsErrorKind::PermissionDenied,
            format!("the system refused to {verb} {path}: {error}"),
        ),
        _ => FsError::new(FsErrorKind::Io, format!("could not {verb} {path}: {error}")),
    }
}

/// The failure of a cancelled operation.
pub fn aborted() -> FsError {
    FsError::new(FsErrorKind::Aborted, "the file operation was stopped")
}

/// Fails once the caller has cancelled.
pub(super) fn check_cancelled(cancel: &CancellationToken) -> Result<(), FsError> {
    if cancel.is_cancelled() { Err(aborted()) } else { Ok(()) }
}

/// Runs blocking file work on a thread for it. Dropping the future does not stop work that has begun.
///
/// # Errors
/// Those of the work; `Io` when it panicked.
pub async fn blocking<T: Send + 'static>(
    work: impl FnOnce() -> Result<T, FsError> + Send + 'static,
) -> Result<T, FsError> {
    tokio::task::spawn_blocking(work).await.unwrap_or_else(|error| {
        Err(FsError::new(FsErrorKind::Io, format!("the file operation broke off: {error}")))
    })
}
