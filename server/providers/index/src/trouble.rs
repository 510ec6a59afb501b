//! What goes wrong with the index, and what follows from it.

use rusqlite::ErrorCode;

/// A failure below the service.
#[derive(Debug)]
pub(crate) enum Trouble {
    /// Stopped by the caller or by the clock.
    Interrupted,
    /// The file is no index, or a broken one: it is set aside and made again.
    Damaged(String),
    /// Nothing can be done here and now.
    Other(String),
}

impl From<rusqlite::Error> for Trouble {
    fn from(error: rusqlite::Error) -> Self {
        match error.sqlite_error_code() {
            Some(ErrorCode::OperationInterrupted) => Self::Interrupted,
            Some(ErrorCode::DatabaseCorrupt | ErrorCode::NotADatabase) => Self::Damaged(error.to_string()),
            Some(ErrorCode::DatabaseBusy | ErrorCode::DatabaseLocked) => {
                Self::Other("another Followspot is writing it".to_owned())
            }
            _ => Self::Other(error.to_string()),
        }
    }
}

impl From<std::io::Error> for Trouble {
    fn from(error: std::io::Error) -> Self {
        Self::Other(error.to_string())
    }
}
