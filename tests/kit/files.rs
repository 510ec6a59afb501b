//! Files of the test editor: the disk, under an overlay of buffers that nobody saved.
//!
//! Used by the editor to answer `fs/*`.

use super::editor::Habits;
use agent_client_protocol::Error;
use agent_client_protocol::v1::schema::{ReadTextFileRequest, WriteTextFileRequest};
use serde_json::json;
use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, MutexGuard, PoisonError};

/// The editor's buffers.
#[derive(Default)]
pub struct Buffers {
    unsaved: Mutex<HashMap<PathBuf, String>>,
}

impl Buffers {
    pub fn new(unsaved: HashMap<PathBuf, String>) -> Self {
        Self { unsaved: Mutex::new(unsaved) }
    }

    /// Types into a buffer without saving it.
    pub fn type_into(&self, path: PathBuf, text: &str) {
        self.lock().insert(path, text.to_owned());
    }

    pub fn read(&self, request: &ReadTextFileRequest, habits: &Habits) -> Result<String, Error> {
        if let Some(text) = self.lock().get(&request.path) {
            return Ok(text.clone());
        }
        match std::fs::read_to_string(&request.path) {
            Ok(text) if habits.strips_carriage_returns => Ok(text.replace("\r\n", "\n")),
            Ok(text) => Ok(text),
            Err(error) if error.kind() == std::io::ErrorKind::NotFound && habits.missing_is_empty => {
                Ok(String::new())
            }
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => Err(not_found(&request.path)),
            Err(error) => Err(Error::internal_error().data(json!({ "details": error.to_string() }))),
        }
    }

    pub fn write(&self, request: &WriteTextFileRequest, habits: &Habits) -> Result<(), Error> {
        let text = match habits.format_on_save {
            Some(format) => format(&request.content),
            None => request.content.clone(),
        };
        std::fs::write(&request.path, text)
            .map_err(|error| Error::internal_error().data(json!({ "details": error.to_string() })))?;
        self.lock().remove(&request.path);
        Ok(())
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<PathBuf, String>> {
        self.unsaved.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn not_found(path: &Path) -> Error {
    Error::new(-32002, "Resource not found").data(json!({ "uri": path }))
}
