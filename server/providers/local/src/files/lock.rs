//! One mutation of a file at a time, in the order in which they came, across all sessions of the process.

use super::error::{aborted, blocking};
use super::resolve::resolve_in;
use services::file_system::{FsError, FsErrorKind, Target};
use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::sync::{Arc, LazyLock, Mutex, PoisonError, Weak};
use tokio_util::sync::CancellationToken;

/// Tokio's lock hands itself to the waiter that came first.
type TargetLock = tokio::sync::Mutex<()>;

/// Locks by target key. Those that nobody holds or awaits are dropped when the next one is asked for.
static LOCKS: LazyLock<Mutex<HashMap<PathBuf, Weak<TargetLock>>>> = LazyLock::new(Mutex::default);

/// How often a target may turn out to be another file while its lock is awaited.
const MAX_ATTEMPTS: usize = 8;

enum Attempt<W, T> {
    Done(T),
    /// A link on the way changed; the work has not begun.
    Moved(W),
}

/// Runs `work` on a blocking thread while it holds the lock of the target, which is resolved again under the lock.
///
/// # Errors
/// Those of the work and of resolving; `Aborted` when cancelled while waiting.
///
/// # Cancellation
/// Dropped while waiting, nothing has happened. Dropped later, the work runs to its end and holds the lock until then.
pub async fn locked<T: Send + 'static>(
    target: Target,
    cancel: &CancellationToken,
    work: impl FnOnce(Target) -> Result<T, FsError> + Send + 'static,
) -> Result<T, FsError> {
    let mut target = target;
    let mut work = work;
    for _ in 0..MAX_ATTEMPTS {
        let guard = tokio::select! {
            biased;
            () = cancel.cancelled() => return Err(aborted()),
            guard = lock_of(&target.key).lock_owned() => guard,
        };
        let (display, key) = (target.display.clone(), target.key.clone());
        let attempt = blocking(move || {
            let _guard = guard;
            let now = again(&display)?;
            if now.key == key { work(now).map(Attempt::Done) } else { Ok(Attempt::Moved(work)) }
        })
        .await?;
        match attempt {
            Attempt::Done(result) => return Ok(result),
            Attempt::Moved(unused) => work = unused,
        }
        let display = target.display.clone();
        target = blocking(move || again(&display)).await?;
    }
    Err(FsError::new(
        FsErrorKind::Io,
        format!("{} kept changing into another file", target.display.display()),
    ))
}

fn again(display: &Path) -> Result<Target, FsError> {
    let Some(path) = display.to_str() else {
        return Err(FsError::new(
            FsErrorKind::NotFound,
            format!("{} is not a UTF-8 path", display.display()),
        ));
    };
    resolve_in(Path::new("/"), path)
}

fn lock_of(key: &Path) -> Arc<TargetLock> {
    let mut locks = LOCKS.lock().unwrap_or_else(PoisonError::into_inner);
    if let Some(lock) = locks.get(key).and_then(Weak::upgrade) {
        return lock;
    }
    locks.retain(|_, lock| lock.strong_count() > 0);
    let lock = Arc::new(TargetLock::default());
    locks.insert(key.to_owned(), Arc::downgrade(&lock));
    lock
}
